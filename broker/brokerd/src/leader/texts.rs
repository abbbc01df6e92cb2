//! The texts of jobspecs that records name: read once each, parsed once, and what stands for one that cannot be read.
//!
//! Called by replay, by rows that are made again and by whoever reads a history. What damage comes to is decided
//! here: a start refuses it by name, one that recovers goes on with what is known without the text, and who only
//! reads does so, too.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use eddy_modules::settings::Damage;
use eddy_wire::event::{Event, EventError, Kind, Record};
use eddy_wire::hash::Hash;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::remains::{Remains, Shape};
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;
use thiserror::Error;

use crate::journal::{CommitError, DATABASE, Journal, ReadError, Reader, Row};

/// Why a text is not there.
#[derive(Debug, Error)]
pub enum TextError {
    /// It is damaged; `--recover` is needed.
    #[error("{}: a text of the jobspec of job {} is damaged; `eddy start --recover` goes on without it and says what becomes of jobs that name it", path.display(), job.f58_ascii())]
    Damaged {
        /// The database.
        path: PathBuf,
        /// The job whose `submit` names it.
        job: JobId,
        /// What is wrong.
        source: ReadError,
    },
    /// It was to be given up.
    #[error("a text of the jobspec of job {} is damaged, and that cannot be recorded", job.f58_ascii())]
    Write {
        /// The job whose `submit` names it.
        job: JobId,
        /// Why.
        source: CommitError,
    },
}

/// Why a row of the journal is no record.
#[derive(Debug, Error)]
pub enum RecordError {
    /// It is not one of this version.
    #[error(transparent)]
    Event(#[from] EventError),
    /// What it names is not there.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// What a journal is read for, which says what damage comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    /// To lead by it.
    Lead(Damage),
    /// To know what was.
    Know,
}

/// Where texts are read.
#[derive(Clone, Copy)]
enum Place<'a> {
    /// Where nobody else has the journal.
    Journal(&'a Journal, Aim),
    /// Beside a leader, to know what was.
    Reader(&'a Reader),
}

/// Jobspecs read so far.
pub struct Specs<'a> {
    place: Place<'a>,
    specs: HashMap<(Hash, Hash), Arc<Spec>>,
    texts: HashMap<Hash, Arc<[u8]>>,
    remains: OnceCell<Remains>,
}

impl<'a> Specs<'a> {
    /// None yet, of a journal that is open.
    pub fn of(journal: &'a Journal, aim: Aim) -> Specs<'a> {
        Specs::at(Place::Journal(journal, aim))
    }

    /// For whoever reads beside a leader.
    pub fn of_reader(reader: &'a Reader) -> Specs<'a> {
        Specs::at(Place::Reader(reader))
    }

    fn at(place: Place<'a>) -> Specs<'a> {
        Specs {
            place,
            specs: HashMap::new(),
            texts: HashMap::new(),
            remains: OnceCell::new(),
        }
    }

    /// The record that a row is.
    pub fn record(&mut self, row: &Row) -> Result<Record, RecordError> {
        let mut failed = None;
        let mut find = |jobspec: &Hash, environment: &Hash| {
            let found = self.find(row, (*jobspec, *environment));
            found.map_err(|error| failed = error).ok()
        };
        let kind = Kind::decode(&row.name, row.version, &row.context, &mut find);
        if let Some(error) = failed {
            return Err(error.into());
        }
        Ok(Record {
            seq: Seq(row.seq),
            event: event(row, kind?),
        })
    }

    /// No spec and no error: it is whole and not one that is served.
    fn find(&mut self, row: &Row, key: (Hash, Hash)) -> Result<Arc<Spec>, Option<TextError>> {
        if let Some(spec) = self.specs.get(&key) {
            return Ok(Arc::clone(spec));
        }
        let text = self.text(row, &key.0)?;
        let environment = self.text(row, &key.1)?;
        let (Some(text), Some(environment)) = (&text, &environment) else {
            // Each job has its own: what is known of it is of it alone.
            let shape = self.shape(JobId(row.job));
            return Ok(Arc::new(Spec::lost(&shape, key, text, environment)));
        };
        let spec = Spec::from_blobs(Arc::clone(text), Arc::clone(environment));
        let spec = spec.map_err(|error| {
            tracing::error!(seq = row.seq, %error, "a stored jobspec cannot be read");
        });
        let spec = Arc::new(spec.map_err(|()| None)?);
        self.specs.insert(key, Arc::clone(&spec));
        Ok(spec)
    }

    /// None of one that is lost.
    fn text(&mut self, row: &Row, hash: &Hash) -> Result<Option<Arc<[u8]>>, TextError> {
        if let Some(text) = self.texts.get(hash) {
            return Ok(Some(Arc::clone(text)));
        }
        let text = self.place.text(row, hash)?.map(Arc::from);
        if let Some(text) = &text {
            self.texts.insert(*hash, Arc::clone(text));
        }
        Ok(text)
    }

    fn shape(&self, job: JobId) -> Shape {
        self.remains.get_or_init(|| self.place.remains()).shape(job)
    }
}

impl Place<'_> {
    fn text(self, row: &Row, hash: &Hash) -> Result<Option<Vec<u8>>, TextError> {
        let (seq, job) = (row.seq, JobId(row.job));
        let read = match self {
            Place::Journal(journal, _) => journal.blob(seq, &hash.0),
            Place::Reader(reader) => reader.blob(seq, &hash.0),
        };
        let source = match read {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(ReadError::LostBlob { .. }) => return Ok(None),
            Err(error) => error,
        };
        tracing::error!(seq, error = %super::chain(&source), "a stored text cannot be read");
        match self {
            Place::Journal(journal, Aim::Lead(Damage::Refuse)) => Err(TextError::Damaged {
                path: journal.dir().join(DATABASE),
                job,
                source,
            }),
            Place::Journal(journal, Aim::Lead(Damage::Cut)) => {
                let restored = journal.restore(seq, &hash.0);
                restored.map_err(|source| TextError::Write { job, source })
            }
            Place::Journal(_, Aim::Know) | Place::Reader(_) => Ok(None),
        }
    }

    /// What all that is replayed tells of its jobs; nothing where that cannot be read, which replay says.
    fn remains(self) -> Remains {
        let mut remains = Remains::default();
        let mut fold = |row: Row| {
            let kind = Kind::decode(&row.name, row.version, &row.context, &mut |_, _| None);
            if let Ok(kind) = kind {
                remains.apply(&event(&row, kind));
            }
        };
        let folded = match self {
            Place::Journal(journal, _) => journal.replay(&mut fold),
            // A row that is made again needs no more than what is folded of its own records.
            Place::Reader(_) => Ok(0),
        };
        if let Err(error) = folded {
            tracing::error!("what is left of lost jobspecs: {}", super::chain(&error));
        }
        remains
    }
}

fn event(row: &Row, kind: Kind) -> Event {
    Event {
        t: Time(row.t),
        job: (row.job > 0).then_some(JobId(row.job)),
        kind,
    }
}
