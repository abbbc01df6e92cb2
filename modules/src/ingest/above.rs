//! Submissions made in a queue instance: its parent orders all jobs, so they are handed up.
//!
//! Nothing of them is recorded here. Each is sent again when the channel stands anew until it is
//! answered, which its key makes safe; while there is no channel it waits.

use std::collections::BTreeMap;

use eddy_broker::{Caller, HandedUp, Outbox, Request, ToParent, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::jobspec::Takes;
use eddy_wire::services::job::{SubmitRequest, Submitted};

use super::{HELD_MAX, Ingest, Submission};

/// Submissions whose answer the parent owes.
#[derive(Debug, Default)]
pub(super) struct Above {
    last: u64,
    waiting: BTreeMap<u64, (Caller, Box<HandedUp>)>,
}

impl Above {
    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.waiting.retain(|_, (caller, _)| !gone(*caller));
    }
}

impl Ingest {
    /// Whether a submission is the parent's to take.
    pub(super) fn is_for_above(&self, submission: &Submission) -> bool {
        self.served.is_queue_instance() && submission.spec.request.takes == Takes::Resources
    }

    pub(super) fn hand_up(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        self.is_open()?;
        if self.above.waiting.len() >= HELD_MAX {
            let text = format!(
                "{HELD_MAX} submissions wait for this instance's parent; the limit `held \
                 submissions` is {HELD_MAX}"
            );
            return Err(Refusal::new(Code::Busy, text));
        }
        let submission: SubmitRequest = request.parse()?;
        let handed = Box::new(HandedUp {
            user: request.uid,
            roles: request.roles,
            submission,
        });
        self.above.last += 1;
        let tag = self.above.last;
        out.volatile(Volatile::Parent(ToParent::Submit(tag, handed.clone())));
        self.above.waiting.insert(tag, (request.caller, handed));
        Ok(())
    }

    /// What was sent over another channel may be lost.
    pub(super) fn hand_up_again(&mut self, out: &mut Outbox) {
        for (tag, (_, handed)) in &self.above.waiting {
            out.volatile(Volatile::Parent(ToParent::Submit(*tag, handed.clone())));
        }
    }

    pub(super) fn taken_above(
        &mut self,
        tag: u64,
        outcome: &Result<Submitted, Refusal>,
        out: &mut Outbox,
    ) {
        let Some((caller, _)) = self.above.waiting.remove(&tag) else {
            return;
        };
        match outcome {
            Ok(submitted) => out.answer(caller, submitted),
            Err(refusal) => out.refuse(caller, refusal),
        }
    }
}
