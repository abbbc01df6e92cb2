//! Whether the jobs are there that a submission is to wait for.
//!
//! Those that are not over, or whose end is not durable, are known here; the journal is
//! asked for the others, one after the other: what it has forgotten nobody can wait for, however long its
//! end is remembered elsewhere. What they must have come to is
//! the manager's to judge, once it is recorded who waits for them. Where listings are private others' jobs are
//! not there: to wait for one would tell how it ended. Nor may one wait for a job inside another user's instance, which
//! answers nobody but its owner; what is in an instance that the configuration declares is everybody's to wait for.

use eddy_broker::{Answer, Outbox, Query, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Need;
use eddy_wire::time::Time;

use super::{Ingest, Submission};

/// How many dependencies the jobs of one submission may have together: each is a record, and all are made in one turn,
/// in which nobody else is answered (half a second).
const DEPENDENCIES_MAX: u64 = 100_000;

const FIELD: &str = "attributes.system.dependencies";

/// Whether the jobs of a submission have few enough dependencies together.
pub(super) fn bounded(submission: &Submission) -> Result<(), Refusal> {
    let each = submission.spec.needs.len() as u64;
    let count = u64::from(submission.count());
    if each <= 1 || each * count <= DEPENDENCIES_MAX {
        return Ok(());
    }
    let text = format!(
        "{FIELD}: {each} given for each of {count} jobs; the limit `dependencies` is {DEPENDENCIES_MAX} \
         for a submission; let one job wait for them all, and these for that one"
    );
    Err(Refusal::new(Code::TooLarge, text))
}

impl Ingest {
    /// Takes a new submission if all that it is to wait for is there.
    pub(super) fn take(
        &mut self,
        now: Time,
        mut submission: Submission,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        self.admissible(now, &mut submission)?;
        self.lets_ask_inside(&submission)?;
        let Some((at, job)) = self.unknown(&submission) else {
            return self.admit(now, submission, out);
        };
        submission.found = at;
        let tag = self.next_tag;
        self.next_tag += 1;
        self.asked.insert(tag, submission);
        out.volatile(Volatile::Query(tag, Query::Finished(job)));
        Ok(())
    }

    /// The journal's answer about the first job that was not known.
    pub(super) fn found(
        &mut self,
        now: Time,
        mut submission: Submission,
        answer: &Answer,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        // The same key may have come twice meanwhile.
        if let Some(known) = self.keys.recent(submission.user, &submission.request.key) {
            return self.repeated(&submission, known, out);
        }
        if let Answer::Finished(Some(found)) = answer
            && !self.hides(&submission, found.0.userid)
        {
            let need = submission.spec.needs.get(submission.found);
            let is_everybodys = found.0.userid == self.owner && self.fleet.declares(&found.0.name);
            if let Some(need) = need.filter(|_| !is_everybodys) {
                may_ask_inside(&submission, need, found.0.userid)?;
            }
            submission.found += 1;
            return self.take(now, submission, out);
        }
        let need = submission.spec.needs.get(submission.found);
        let words = need.map(Need::to_string).unwrap_or_default();
        let unknown = self.unknown(&submission);
        if unknown.is_some_and(|(_, job)| submission.awaits(job)) {
            let text = format!(
                "{FIELD}: to wait for {words} is asked, and the instance that drew its number has not said yet what \
                 it took"
            );
            return Err(Refusal::new(Code::Busy, text));
        }
        // One text for what never was, what is forgotten, and what others may not know of.
        let text = format!(
            "{FIELD}: to wait for {words} is asked, and there is no such job here, or it is over and kept no longer"
        );
        Err(Refusal::invalid(text))
    }

    fn unknown(&self, submission: &Submission) -> Option<(usize, JobId)> {
        let needs = submission.spec.needs.iter().enumerate();
        let left = needs.skip(submission.found);
        let mut unknown = left.filter_map(|(at, need)| match need {
            Need::After(_, job) | Need::Within(_, job, _) if !self.is_known(submission, *job) => {
                Some((at, *job))
            }
            Need::After(..)
            | Need::Within(..)
            | Need::Begin(_)
            | Need::Singleton
            | Need::Throttle(_) => None,
        });
        unknown.next()
    }

    /// One that is there and is, for this submission, none is asked for as one that was never there.
    fn is_known(&self, submission: &Submission, job: JobId) -> bool {
        let user = self.user_of(job);
        user.is_some_and(|user| !self.hides(submission, user))
    }

    fn user_of(&self, job: JobId) -> Option<u32> {
        let ended = || self.ended.get(&job).copied();
        self.keys.user_of(job).or_else(ended)
    }

    /// Whether all jobs that are known here and inside of which it is to wait let its sender ask there.
    fn lets_ask_inside(&self, submission: &Submission) -> Result<(), Refusal> {
        let mut needs = submission.spec.needs.iter().skip(submission.found);
        needs.try_for_each(|need| match need {
            Need::Within(_, job, _)
                if self.is_known(submission, *job) && !self.fleet.is_its(*job) =>
            {
                let user = self.user_of(*job);
                user.map_or(Ok(()), |user| may_ask_inside(submission, need, user))
            }
            Need::Within(..)
            | Need::After(..)
            | Need::Begin(_)
            | Need::Singleton
            | Need::Throttle(_) => Ok(()),
        })
    }

    fn hides(&self, submission: &Submission, user: u32) -> bool {
        let sender = submission.sender;
        sender.is_some_and(|sender| self.sight.hides(sender, user))
    }
}

/// Whether the sender may ask inside a job of this user, if that is where it is to wait: as it may connect there.
fn may_ask_inside(submission: &Submission, need: &Need, user: u32) -> Result<(), Refusal> {
    let Need::Within(_, job, _) = need else {
        return Ok(());
    };
    let may = match submission.sender {
        Some(sender) => sender.may_act_for(user),
        // Of one that was let in elsewhere that alone is known: who submits for others may act for all.
        None => submission.asked_by.is_some() || submission.user == user,
    };
    if may {
        return Ok(());
    }
    let by = submission.user;
    let text = format!(
        "{FIELD}: to wait for {need} is asked, and job {} is of user {user}; user {by} may wait for what is inside \
         his own instances and those of queues",
        job.f58_ascii()
    );
    Err(Refusal::new(Code::Denied, text))
}
