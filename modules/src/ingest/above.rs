//! Submissions made in a queue instance: its parent orders all jobs, so they are handed up.
//!
//! Nothing of them is recorded here. Each is sent again when the channel stands anew until it is
//! answered, which its key makes safe; while there is no channel it waits.

use std::collections::BTreeMap;

use eddy_broker::{Caller, HandedUp, Outbox, Request, ToParent, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::jobspec::Takes;
use eddy_wire::services::job::{SubmitRequest, Submitted};

use super::upkeep::has_room;
use super::{Ingest, Submission};

/// Submissions whose answer the parent owes.
#[derive(Debug, Default)]
pub(super) struct Above {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    caller: Caller,
    handed: Box<HandedUp>,
    /// Of its jobspec.
    bytes: usize,
}

impl Above {
    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.waiting.retain(|_, waiting| !gone(waiting.caller));
    }

    /// All who wait, who wait no longer.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Caller> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_values().map(|waiting| waiting.caller)
    }
}

impl Ingest {
    /// Whether a submission is the parent's to take.
    pub(super) fn is_for_above(&self, submission: &Submission) -> bool {
        self.served.is_queue_instance() && submission.spec.request.takes == Takes::Resources
    }

    /// Whether no submission that is yet to be taken has its key, where one is the parent's to take
    /// and one is not: they ask for different things, and neither is known by its key yet.
    pub(super) fn is_no_others(&self, submission: &Submission) -> Result<(), Refusal> {
        let (user, key) = submission.name();
        let is_used = match self.is_for_above(submission) {
            true => self.held.iter().any(|held| held.name() == (user, key)),
            false => {
                let mut above = self.above.waiting.values();
                above.any(|one| one.handed.user == user && one.handed.submission.key == key)
            }
        };
        match is_used {
            true => {
                let text =
                    format!("key {key} was used for another jobspec, which is yet to be taken");
                Err(Refusal::new(Code::Conflict, text))
            }
            false => Ok(()),
        }
    }

    /// Hands a submission up whose jobspec has this many bytes.
    pub(super) fn hand_up(
        &mut self,
        request: &Request,
        bytes: usize,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        self.is_open()?;
        let waiting = self.above.waiting.values().map(|waiting| waiting.bytes);
        has_room("this instance's parent", waiting, bytes)?;
        let submission: SubmitRequest = request.parse()?;
        let handed = Box::new(HandedUp {
            user: request.uid,
            roles: request.roles,
            submission,
        });
        self.above.last += 1;
        let tag = self.above.last;
        out.volatile(Volatile::Parent(ToParent::Submit(tag, handed.clone())));
        let waiting = Waiting {
            caller: request.caller,
            handed,
            bytes,
        };
        self.above.waiting.insert(tag, waiting);
        Ok(())
    }

    /// What was sent over another channel may be lost.
    pub(super) fn hand_up_again(&mut self, out: &mut Outbox) {
        for (tag, waiting) in &self.above.waiting {
            let submit = ToParent::Submit(*tag, waiting.handed.clone());
            out.volatile(Volatile::Parent(submit));
        }
    }

    pub(super) fn taken_above(
        &mut self,
        tag: u64,
        outcome: &Result<Submitted, Refusal>,
        out: &mut Outbox,
    ) {
        let Some(Waiting { caller, .. }) = self.above.waiting.remove(&tag) else {
            return;
        };
        match outcome {
            Ok(submitted) => out.answer(caller, submitted),
            Err(refusal) => out.refuse(caller, refusal),
        }
    }
}
