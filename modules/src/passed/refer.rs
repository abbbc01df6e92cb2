//! Requests that are the parent's to answer: about jobs that it has and this instance has not (not yet, or not
//! any more), and about what is its alone (`above`). They are referred to it, and its answers go to who asked.
//!
//! What is here and durable, and what this instance took itself while its parent was away, it answers itself.
//! While the channel is down nobody can say of anything else whether it is there: that is refused, and who asks
//! again is answered later. What the parent referred here goes no way back.

use std::collections::{BTreeSet, VecDeque};

use eddy_broker::{Caller, Outbox, Reply, Request, ToParent, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::id::JobId;
use eddy_wire::services::job::JobSet;

use super::above::Whose;
use super::{Channel, Passed};
use crate::nest::relay::wrapped;

/// How many are referred at a time. With the 512 that are told at a time it is less than a parent allows a
/// client (limit `outstanding`).
const CALLS_MAX: usize = 400;

/// How many jobs of this instance alone that are over it goes on answering for. Who submitted one asks after
/// it at once.
const OVER_MAX: usize = 1_024;

/// Those who wait for an answer of the parent.
#[derive(Debug, Default)]
pub(super) struct Referred {
    calls: BTreeSet<Caller>,
    /// Jobs that came over this channel and are not durable yet: nobody here speaks of them before that.
    fresh: BTreeSet<JobId>,
    /// Jobs of this instance alone: they take nothing, and no parent knows of them.
    own: BTreeSet<JobId>,
    /// Those of them that are over, the first first.
    over: VecDeque<JobId>,
}

impl Referred {
    pub(super) fn submitted(&mut self, job: JobId, submit: &Submit) {
        if submit.pass.is_none() {
            self.own.insert(job);
        }
    }

    pub(super) fn over(&mut self, job: JobId) {
        if !self.own.contains(&job) {
            return;
        }
        self.over.push_back(job);
        if self.over.len() > OVER_MAX
            && let Some(first) = self.over.pop_front()
        {
            self.own.remove(&first);
        }
    }
}

impl Passed {
    /// Whether all these jobs are here, or one that the parent does not know of.
    pub(super) fn answers_for(&self, jobs: &JobSet) -> bool {
        let mut all = true;
        for (first, last) in &jobs.ranges {
            let own = self.referred.own.range(*first..=*last);
            let mut here = own.count() as u64;
            for (job, held) in self.jobs.range(*first..=*last) {
                if !held.is_known() {
                    return true;
                }
                here += u64::from(!self.referred.fresh.contains(job));
            }
            all &= last.0 - first.0 < here;
        }
        all
    }

    /// A job came.
    pub(super) fn comes(&mut self, record: &Record) {
        if let (Kind::Submit(_), Some(job)) = (&record.event.kind, record.event.job)
            && self.jobs.contains_key(&job)
        {
            self.referred.fresh.insert(job);
        }
    }

    /// That is durable.
    pub(super) fn is_durable(&mut self, record: &Record) {
        if let (Kind::Submit(_), Some(job)) = (&record.event.kind, record.event.job) {
            self.referred.fresh.remove(&job);
        }
    }

    /// Sends one up, if it can be.
    pub(super) fn refer(&mut self, request: &Request, out: &mut Outbox) {
        if let Err(refusal) = self.send_up(request, out) {
            out.refuse(request.caller, &refusal);
        }
    }

    fn send_up(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        if self.channel == Channel::Away {
            return Err(unheard());
        }
        if self.referred.calls.len() >= CALLS_MAX {
            let text = format!("the limit `referred calls` is {CALLS_MAX}, all are under way");
            return Err(Refusal::new(Code::Busy, text));
        }
        let tail = match self.whose(request) {
            Whose::Worded(body) => wrapped(
                &Request {
                    body: body.into(),
                    ..request.clone()
                },
                1,
            )?,
            Whose::Refused(refusal) => return Err(refusal),
            Whose::Own | Whose::Parents => wrapped(request, 1)?,
        };
        self.referred.calls.insert(request.caller);
        let asked = ToParent::Refer(request.caller, tail);
        out.volatile(Volatile::Parent(asked));
        Ok(())
    }

    /// The parent has answered, perhaps not for the last time.
    pub(super) fn referred(&mut self, reply: &Reply, out: &mut Outbox) {
        let is_asked = match reply.is_last() {
            true => self.referred.calls.remove(&reply.to),
            false => self.referred.calls.contains(&reply.to),
        };
        if is_asked {
            out.volatile(Volatile::Reply(reply.clone()));
        }
    }

    /// These wait no more.
    pub(super) fn take_back(&mut self, gone: impl Fn(Caller) -> bool, out: &mut Outbox) {
        for caller in self.referred.calls.extract_if(.., |caller| gone(*caller)) {
            out.volatile(Volatile::Parent(ToParent::TakeBack(caller)));
        }
    }

    /// The channel is down: nobody is answered any more.
    pub(super) fn lose_referred(&mut self, out: &mut Outbox) {
        let refusal = unheard();
        for caller in std::mem::take(&mut self.referred.calls) {
            out.refuse(caller, &refusal);
        }
    }
}

/// Who asks again is answered once the parent is there: nobody here can say that there is no such job.
fn unheard() -> Refusal {
    Refusal::new(Code::Unreachable, "the parent instance is not reached")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_this_instances_own_stays_so_for_a_while_when_it_is_over() {
        let mut referred = Referred::default();
        let most = OVER_MAX as u64;
        referred.own = (1..=most + 2).map(JobId).collect();
        referred.over(JobId(most + 9));
        (1..=most).for_each(|job| referred.over(JobId(job)));
        assert!(referred.own.contains(&JobId(1)), "it is asked after");
        referred.over(JobId(most + 1));
        let own = (2..=most + 2).map(JobId).collect();
        assert_eq!(referred.own, own, "the first that was over is forgotten");
    }
}
