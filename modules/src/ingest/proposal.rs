//! Submissions that become jobs, or are the jobs that their key was used for.
//!
//! The last step of [`Ingest`]: proposes one `submit` for each job of a submission that was found to be admissible, and
//! answers once they are durable. Checks nothing but the key.

use std::sync::Arc;

use eddy_broker::Outbox;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Entry, Kind, Submit};
use eddy_wire::id::JobId;
use eddy_wire::services::child::ID_BLOCK;
use eddy_wire::services::job::Submitted;
use eddy_wire::time::Time;

use super::keys::Known;
use super::numbers::Taken;
use super::submission::Submission;
use super::{Ingest, above};

impl Ingest {
    /// The key is new: these are new jobs.
    pub(super) fn admit(
        &mut self,
        now: Time,
        submission: Submission,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let count = submission.count();
        if let Some(taken) = &submission.taken {
            let first = taken.first;
            self.propose(now, submission, first, out);
            return Ok(());
        }
        // Who waits for numbers is served in order.
        let taken = match self.held.is_empty() {
            true => self.numbers.take(count),
            false => Taken::Later,
        };
        let first = match taken {
            Taken::First(first) => first,
            Taken::Later => return self.hold(submission, out),
            Taken::TooMany => return Err(too_many(count)),
            Taken::Exhausted => {
                let text = "the instance has no job numbers left";
                return Err(Refusal::new(Code::TooLarge, text));
            }
        };
        self.propose(now, submission, first, out);
        self.ask_numbers(out);
        Ok(())
    }

    /// Proposes the jobs of a submission from this number on, and answers.
    pub(super) fn propose(
        &mut self,
        now: Time,
        submission: Submission,
        first: JobId,
        out: &mut Outbox,
    ) {
        self.taken.remove(&submission.caller);
        let (JobId(first), count) = (first, submission.count());
        let here = self.is_for_above(&submission);
        let pass = here.then(|| Arc::new(above::taken_here()));
        let taken = submission.taken.as_ref();
        let t = taken.map_or(now, |taken| taken.submitted.min(now));
        for index in 0..count {
            let cc = submission
                .copies
                .as_ref()
                .map(|copies| copies[index as usize]);
            let job = JobId(first + u64::from(index));
            let changed = taken.and_then(|taken| taken.urgencies.get(&job).copied());
            let submit = Submit {
                user: submission.user,
                urgency: changed.unwrap_or(submission.request.urgency),
                waitable: submission.request.waitable,
                requeue: submission.request.requeue,
                key: submission.request.key,
                index,
                count,
                cc,
                asked_by: submission.asked_by,
                party: submission.party.clone(),
                spec: Arc::clone(&submission.spec),
                sent: submission.sent.clone(),
                filtered: submission.filtered.clone(),
                pass: pass.clone(),
                taken_in: submission.taken_in.clone(),
                entry: match submission.refused {
                    None => Entry::of(&submission.spec, pass.as_deref()),
                    // It waits for nothing any more.
                    Some(_) => Entry::Priority,
                },
            };
            out.append(t, job, Kind::Submit(Arc::new(submit)));
        }
        let note = self.numbers.note(JobId(first + u64::from(count) - 1));
        note.into_iter().for_each(|note| out.append_own(now, note));
        let first = JobId(first);
        out.reply(submission.caller, &Submitted { first, count });
    }

    /// The key is known: the same jobs again, or a contradiction.
    pub(super) fn repeated(
        &self,
        submission: &Submission,
        known: Known,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Known { first, count, .. } = known;
        if let Some(what) = known.differs(&submission.known_as(first)) {
            let key = submission.request.key;
            let text = format!("key {key} was used for job {first} with another {what}");
            return Err(Refusal::new(Code::Conflict, text));
        }
        out.reply(submission.caller, &Submitted { first, count });
        Ok(())
    }
}

pub(super) fn too_many(count: u32) -> Refusal {
    let text = format!(
        "cc: {count} ids given, at most {ID_BLOCK} at a time in an instance whose job numbers \
         come from its parent (limit `id block`)"
    );
    Refusal::new(Code::TooLarge, text)
}
