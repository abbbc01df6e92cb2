//! Submissions made in a queue instance: its parent orders all jobs, so they are handed up.
//!
//! Nothing of them is recorded here. Each is sent again when the channel stands anew until it is
//! answered, which its key makes safe. Those that come while there is no channel the instance takes
//! itself, under numbers that it drew before: they are recorded (`taken: here`) and handed up by
//! [`crate::passed`] once the parent is there. What was sent over a channel that broke may have been taken
//! by the parent: it waits for the answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use eddy_broker::{Caller, HandedUp, Outbox, Request, ToParent, Volatile};
use eddy_wire::account::Party;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Pass, Record, Taken};
use eddy_wire::id::{Attempt, JobId, Seq};
use eddy_wire::jobspec::Takes;
use eddy_wire::services::child::Granted;
use eddy_wire::services::job::{SubmitRequest, Submitted};
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;
use uuid::Uuid;

use super::keys::{Known, Seen};
use super::upkeep::has_room;
use super::{Ingest, Submission, numbers, queues};
use crate::queues_above::QueuesAbove;

/// Submissions whose answer the parent owes.
#[derive(Debug, Default)]
pub(super) struct Above {
    last: u64,
    waiting: BTreeMap<u64, Waiting>,
    channel: Channel,
    queues: QueuesAbove,
    /// What the parent said of those that it took, the latest of them.
    answered: BTreeMap<(u32, Uuid), Known>,
    order: VecDeque<(u32, Uuid)>,
}

/// Of so many submissions it is remembered what the parent made of them.
const ANSWERED_MAX: usize = 10_000;

/// Whether the parent is heard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Channel {
    #[default]
    Away,
    Stands,
}

/// What stands in the record of a job that was taken while the parent was away: its first attempt, which
/// has no place yet.
pub(super) fn taken_here() -> Pass {
    Pass {
        attempt: Attempt(1),
        set: Arc::default(),
        with: None,
        taken: Taken::Here,
    }
}

#[derive(Debug)]
struct Waiting {
    caller: Caller,
    handed: Box<HandedUp>,
    /// Of its jobspec.
    bytes: usize,
    name: (u32, Uuid),
    /// As its key finds it, but for its number.
    known: Known,
}

impl Above {
    pub(super) fn apply(&mut self, record: &Record) {
        self.queues.apply(record);
    }

    pub(super) fn live(&self, seqs: &mut Vec<Seq>) {
        self.queues.live(seqs);
    }

    /// The parent is heard, and says this.
    pub(super) fn heard(&mut self, now: Time, granted: &Granted, out: &mut Outbox) {
        self.channel = Channel::Stands;
        if let Some(note) = self.queues.note(granted) {
            out.append_own(now, note);
        }
    }

    pub(super) fn away(&mut self) {
        self.channel = Channel::Away;
    }

    /// What the parent made of a submission. Where it waits or ran nothing of it may be known here, and its parent
    /// is away: who asks again is to have no second job.
    pub(super) fn answered(&self, user: u32, key: &Uuid) -> Option<Known> {
        self.answered.get(&(user, *key)).cloned()
    }

    fn remember(&mut self, name: (u32, Uuid), known: Known) {
        if self.answered.insert(name, known).is_none() {
            self.order.push_back(name);
        }
        while self.order.len() > ANSWERED_MAX {
            let oldest = self.order.pop_front();
            oldest.and_then(|name| self.answered.remove(&name));
        }
    }

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
            true => {
                let looked_up = self.asked.values().chain(&self.held);
                let mut open = looked_up.chain(self.filters.looked_at());
                open.any(|one| one.name() == (user, key) && !self.is_for_above(one))
            }
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

    /// The same jobspec, in the queue that jobs are in which name none.
    pub(super) fn named_above(&mut self, spec: Arc<Spec>) -> Arc<Spec> {
        let is_unnamed = spec.jobspec.attributes.system.queue.is_none();
        let is_above = self.served.is_queue_instance() && spec.request.takes == Takes::Resources;
        match self
            .above
            .queues
            .unnamed()
            .filter(|_| is_unnamed && is_above)
        {
            Some(queue) => self.specs.share(spec.with(Some(queue), None)),
            None => spec,
        }
    }

    /// Whether this instance is to take a submission for its parent, which is not heard: it has numbers
    /// left, knows the queues, and has not handed the same up already.
    pub(super) fn takes_here(&self, submission: &Submission) -> bool {
        let (user, key) = submission.name();
        let is_it = |one: &Waiting| one.handed.user == user && one.handed.submission.key == key;
        self.above.channel == Channel::Away
            && !self.above.waiting.values().any(is_it)
            && self.above.queues.unnamed().is_some()
            && self.numbers.has(submission.count())
    }

    /// Takes one whose key is not known here, unless the journal knows it.
    pub(super) fn take_unseen(
        &mut self,
        now: Time,
        submission: Submission,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let (user, key) = submission.name();
        match self.keys.seen(now, user, &key)? {
            Seen::Never => self.take_here(now, submission, out),
            Seen::As(known) => self.repeated(&submission, known, out),
            Seen::AskJournal => {
                self.ask_journal(submission, out);
                Ok(())
            }
        }
    }

    /// Takes a submission by what the parent said last.
    pub(super) fn take_here(
        &mut self,
        now: Time,
        mut submission: Submission,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        self.is_open()?;
        submission.may_be_so_urgent()?;
        self.has_room(&submission)?;
        let spec = &submission.spec;
        let Some(queue) = self.above.queues.of(spec).cloned() else {
            let given = spec.jobspec.attributes.system.queue.as_deref();
            let given = given.unwrap_or_default().escape_debug();
            let names: Vec<&str> = self.above.queues.names().into_iter().collect();
            let names = names.join(", ");
            return Err(Refusal::invalid(format!(
                "attributes.system.queue: `{given}` given, it does not lead to this instance; \
                 there are {names}"
            )));
        };
        let left = self.served.left(now);
        if let Some(time) = queues::time_above(&queue, spec, left) {
            let timed = self.specs.share(spec.with(None, Some(time.0)));
            submission.amend(timed);
        }
        // Whom it is charged to, and by what limits, its parent alone knows.
        let of = (submission.user, &Party::default());
        if let Some(named) = self.on_counted_nodes(of, &submission.spec, Some(&queue.rules))? {
            submission.amend(self.specs.share(named));
        }
        let cores = || self.parties.most_cores(&submission.spec);
        queues::lets_above(&queue, submission.user, &submission.spec, cores)?;
        self.served.admits(now, &submission.spec)?;
        self.fits(&submission.spec)?;
        let numbers::Taken::First(first) = self.numbers.take(submission.count()) else {
            let text = "no job numbers are left, and the parent, which gives them, is not reached";
            return Err(Refusal::new(Code::NotReady, text));
        };
        self.propose(now, submission, first, out);
        Ok(())
    }

    /// Hands a submission up.
    pub(super) fn hand_up(
        &mut self,
        request: &Request,
        read: &Submission,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        self.is_open()?;
        let bytes = read.bytes();
        let waiting = self.above.waiting.values();
        let waiting = waiting.map(|waiting| (waiting.handed.user, waiting.bytes));
        has_room("this instance's parent", waiting, (request.uid, bytes))?;
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
            name: read.name(),
            known: read.known_as(JobId(0)),
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
        let Some(waiting) = self.above.waiting.remove(&tag) else {
            return;
        };
        let caller = waiting.caller;
        match outcome {
            Ok(submitted) => {
                let known = Known {
                    first: submitted.first,
                    ..waiting.known
                };
                self.above.remember(waiting.name, known);
                out.answer(caller, submitted);
            }
            Err(refusal) => out.refuse(caller, refusal),
        }
    }
}
