//! The disk of an instance: what was written, what is durable, and what a question finds.
//!
//! Mimics brokerd's journal: a batch is committed as a whole or not at all, several batches share a
//! commit, a crash loses what was not committed. Outlives every leader.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::effect::KeyFound;
use eddy_broker::{Answer, Finished, Query};
use eddy_modules::row;
use eddy_modules::settings::Over;
use eddy_wire::event::{Kind, Record};
use eddy_wire::hash::Hash;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::services::job::{EventsLine, JobEnd, JobRow, JobSet, ListRequest};
use eddy_wire::time::Time;
use uuid::Uuid;

use crate::log::Log;

/// What one turn of the leader wrote.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Records in order.
    pub records: Vec<Arc<Record>>,
    /// Rows of jobs that are over.
    pub finished: Vec<Finished>,
    /// A new mark, no further than the last of `records`.
    pub mark: Option<Mark>,
}

/// A place from which a restart need not read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// Up to here only the records in `live` matter.
    pub seq: Seq,
    /// Those.
    pub live: Vec<Seq>,
}

/// Whether commits go through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// They do.
    #[default]
    Enough,
    /// They do not.
    None,
}

/// The disk.
#[derive(Debug, Default)]
pub struct Journal {
    durable: Log,
    rows: BTreeMap<JobId, Finished>,
    keys: BTreeMap<(u32, Uuid), KeyFound>,
    blobs: BTreeMap<Hash, Arc<[u8]>>,
    mark: Option<Mark>,
    /// Batches nobody has begun to commit.
    written: VecDeque<Batch>,
    /// The commit under way.
    committing: Option<Vec<Batch>>,
    /// Whether the disk has room.
    pub room: Room,
}

/// What became of a commit that was under way when its leader died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Torn {
    /// It had reached the disk.
    Kept,
    /// It had not.
    Lost,
}

impl Journal {
    /// Takes a batch; it is not durable.
    pub fn write(&mut self, batch: Batch) {
        self.written.push_back(batch);
    }

    /// Whether a commit could begin: something is written, none is under way.
    pub fn is_commit_due(&self) -> bool {
        self.committing.is_none() && !self.written.is_empty()
    }

    /// Whether nothing waits for the disk.
    pub fn is_idle(&self) -> bool {
        self.committing.is_none() && self.written.is_empty()
    }

    /// Begins a commit of all that is written.
    pub fn begin(&mut self) {
        assert!(self.committing.is_none(), "one commit at a time");
        self.committing = Some(self.written.drain(..).collect());
    }

    /// The commit under way is on disk; the last record in it.
    pub fn commit(&mut self) -> Seq {
        for batch in self.committing.take().unwrap_or_default() {
            for record in batch.records {
                self.index(&record);
                self.durable.push(record);
            }
            for finished in batch.finished {
                self.rows.insert(finished.row.id, finished);
            }
            self.mark = batch.mark.or(self.mark.take());
        }
        self.last()
    }

    /// The leader died: what was not committed is lost.
    pub fn crash(&mut self, torn: Torn) -> Seq {
        self.written.clear();
        match torn {
            Torn::Kept => self.commit(),
            Torn::Lost => {
                self.committing = None;
                self.last()
            }
        }
    }

    /// Nobody asks about these jobs any more.
    pub fn let_go(&mut self, over: &BTreeSet<JobId>) {
        self.durable.let_go(over);
        self.rows.retain(|job, _| !over.contains(job));
        self.keys.retain(|_, found| !over.contains(&found.first));
    }

    fn index(&mut self, record: &Record) {
        let Kind::Submit(submit) = &record.event.kind else {
            return;
        };
        let spec = &submit.spec;
        self.blobs.insert(spec.hash, Arc::clone(&spec.text));
        self.blobs
            .insert(spec.environment_hash, Arc::clone(&spec.environment_text));
        if let (0, Some(first)) = (submit.index, record.event.job) {
            let found = KeyFound {
                first,
                count: submit.count,
                jobspec: submit.sent().jobspec,
                cc: submit.cc,
                waitable: submit.waitable,
                requeue: submit.requeue,
            };
            self.keys.insert((submit.user, submit.key), found);
        }
    }

    /// The last durable record.
    pub fn last(&self) -> Seq {
        self.durable.last().map_or(Seq(0), |record| record.seq)
    }

    /// The latest time of a durable record. It may not be that of the last: what is told late has its own.
    pub fn floor(&self) -> Time {
        let times = self.durable.iter().map(|record| record.event.t);
        times.max().unwrap_or(Time(0))
    }

    /// The highest job number ever given.
    pub fn last_job(&self) -> JobId {
        self.durable
            .iter()
            .filter_map(|record| record.event.job)
            .max()
            .unwrap_or_default()
    }

    /// How many jobs are over by their rows.
    pub fn over(&self) -> Over {
        let well = |finished: &&Finished| finished.row.result == Some(JobResult::Completed);
        let completed = self.rows.values().filter(well).count() as u64;
        let failed = self.rows.len() as u64 - completed;
        Over { completed, failed }
    }

    /// Every durable record.
    pub fn records(&self) -> &[Arc<Record>] {
        &self.durable
    }

    /// What a leader that starts must read.
    pub fn to_replay(&self) -> Vec<Arc<Record>> {
        let Some(mark) = &self.mark else {
            return self.durable.to_vec();
        };
        let needed = |record: &&Arc<Record>| {
            record.seq > mark.seq || mark.live.binary_search(&record.seq).is_ok()
        };
        self.durable.iter().filter(needed).cloned().collect()
    }

    /// The mark, if one is durable.
    pub fn mark(&self) -> Option<&Mark> {
        self.mark.as_ref()
    }

    /// The row of a job that is over.
    pub fn row(&self, job: JobId) -> Option<&Finished> {
        self.rows.get(&job)
    }

    /// A durable record. Places are dense.
    pub fn record(&self, seq: Seq) -> Option<&Arc<Record>> {
        self.durable
            .get(usize::try_from(seq.0.checked_sub(1)?).ok()?)
    }

    /// Answers a question from what is durable.
    pub fn answer(&self, query: &Query) -> Answer {
        match query {
            Query::Key(user, key) => Answer::Key(self.keys.get(&(*user, *key)).copied()),
            Query::Rows(request) => Answer::Rows(self.find(request), None),
            Query::Finished(job) => Answer::Finished(
                self.rows
                    .get(job)
                    .map(|found| Box::new((found.row.clone(), found.seqs.clone()))),
            ),
            Query::Records(seqs) => Answer::Records(self.lines(seqs.iter().copied())),
            Query::Range(from, count) => {
                let last = from.0.saturating_add(u64::from(*count));
                let range = (from.0..last.min(self.last().0 + 1)).map(Seq);
                Answer::Records(self.lines(range))
            }
            Query::Blob(hash) => Answer::Blob(
                self.blobs
                    .get(hash)
                    .map(|text| Bytes::copy_from_slice(text)),
            ),
            Query::Within(_) => panic!("what another instance left is on another disk"),
        }
    }

    /// Those of these jobs that were ever recorded, with their ends where those are.
    pub fn ends(&self, jobs: &JobSet) -> BTreeMap<JobId, Option<JobEnd>> {
        let known = self.durable.iter().filter_map(|record| record.event.job);
        let known: BTreeSet<JobId> = known.filter(|job| jobs.contains(*job)).collect();
        let end = |job| {
            let over = self.rows.get(&job);
            (job, over.map(|over| row::end_of_row(&over.row)))
        };
        known.into_iter().map(end).collect()
    }

    fn lines(&self, seqs: impl Iterator<Item = Seq>) -> Vec<(Option<JobId>, EventsLine)> {
        seqs.filter_map(|seq| self.record(seq))
            .flat_map(|record| {
                let lines = EventsLine::of(record).into_iter();
                lines.map(move |line| (record.event.job, line))
            })
            .collect()
    }

    /// Newest first, as listings want them.
    fn find(&self, request: &ListRequest) -> Vec<JobRow> {
        let limit = match request.limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        self.rows
            .values()
            .rev()
            .map(|found| &found.row)
            .filter(|row| matches(request, row))
            .take(limit)
            .cloned()
            .collect()
    }
}

fn matches(request: &ListRequest, row: &JobRow) -> bool {
    (request.jobs.is_empty() || request.jobs.contains(row.id))
        && (request.states.is_empty() || request.states.contains(&JobState::Inactive))
        && (request.results.is_empty()
            || row
                .result
                .is_some_and(|result| request.results.contains(&result)))
        && request.user.is_none_or(|user| user == row.userid)
        && request.name.as_ref().is_none_or(|name| *name == row.name)
        && (request.queues.is_empty() || request.queues.contains(&row.queue))
        && request
            .job_set
            .as_ref()
            .is_none_or(|set| *set == row.job_set)
        && request
            .since
            .is_none_or(|since| row.t_inactive.is_some_and(|t| t >= since))
}
