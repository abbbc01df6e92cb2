//! Jobspecs and environments of jobs that come: those that the parent does not say again are kept here
//! (`eddy_wire::payload`). The parent's side is `nest/payload.rs`.

use std::sync::Arc;

use bytes::Bytes;
use eddy_wire::error::Refusal;
use eddy_wire::event::Exception;
use eddy_wire::hash::Hash;
use eddy_wire::payload::{Keeps, Payloads};
use eddy_wire::services::child::Passed as Given;
use eddy_wire::spec::Spec;

use crate::ingest::specs::Specs;
use crate::sched::BOUNCE;

/// Those that came over this channel, and what is made of them.
pub(super) struct Heard {
    keeps: Keeps,
    kept: Payloads<Arc<[u8]>>,
    specs: Specs,
}

/// Why nothing can be made of a job that came.
pub(super) enum Unread {
    /// It is not a jobspec that is served here.
    Wrong(Refusal),
    /// It was neither said nor kept, though the parent takes it for known.
    Missing(String),
}

/// What a job that came asks for.
pub(super) type Asked = Result<Arc<Spec>, Unread>;

impl Unread {
    /// What the parent is told of the job: one whose payload is missing goes back, and is passed again.
    pub fn exception(self) -> Exception {
        let (kind, note) = match self {
            Unread::Wrong(refusal) => ("exec", refusal.text),
            Unread::Missing(note) => (BOUNCE, note),
        };
        Exception {
            kind: kind.to_owned(),
            severity: 0,
            note,
            userid: None,
            until: None,
        }
    }
}

impl Heard {
    pub fn new(keeps: Keeps) -> Heard {
        Heard {
            keeps,
            kept: Payloads::new(keeps),
            specs: Specs::default(),
        }
    }

    /// The channel is another: its ends know of nothing.
    pub fn forget(&mut self) {
        self.kept = Payloads::new(self.keeps);
    }

    /// What a job asks for that comes. To be asked of each once, in the order in which they come.
    pub fn spec(&mut self, given: &Given, tail: &Bytes) -> Asked {
        let split = given.jobspec_bytes as usize;
        let (Some(text), Some(environment)) = (tail.get(..split), tail.get(split..)) else {
            let text = format!(
                "pass.jobspec_bytes: {split} given, the message has {} bytes",
                tail.len()
            );
            return Err(Unread::Wrong(Refusal::invalid(text)));
        };
        // Both first: the parent counts both as said, whatever becomes of one here.
        let text = self.whole(("jobspec", given.jobspec), text);
        let environment = self.whole(("environment", given.environment), environment);
        let spec = self.specs.of_blobs(&text?, &environment?);
        spec.map_err(Unread::Wrong)
    }

    /// One of them, as it came now or is kept.
    fn whole(
        &mut self,
        (field, hash): (&str, Option<Hash>),
        said: &[u8],
    ) -> Result<Arc<[u8]>, Unread> {
        let missing = |hash: Hash| Unread::Missing(format!("{field} {hash} is not known here"));
        match hash {
            // Neither is ever empty, so nothing is what was said before.
            Some(hash) if said.is_empty() => {
                let kept = self.kept.get(&hash).map(Arc::clone);
                kept.ok_or_else(|| missing(hash))
            }
            Some(hash) => {
                let said: Arc<[u8]> = said.into();
                self.kept.keep(hash, said.len() as u64, Arc::clone(&said));
                Ok(said)
            }
            None => Ok(said.into()),
        }
    }
}
