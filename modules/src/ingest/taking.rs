//! Submissions that a queue instance took while this one, its parent, was away: they are its jobs under
//! the numbers that they were given there, submitted when they were.
//!
//! Those of which nothing has begun are looked at as any other. Of the others the work is done or under
//! way: they are taken whatever is said of such a one now, charged to whom it can be found to be. Somebody was
//! told their numbers, so what is refused is recorded, too, and ended with the reason: it is found where all jobs are.

use std::sync::Arc;

use eddy_broker::{Caller, Outbox, Request, TakenBy};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Exception, Kind};
use eddy_wire::gang;
use eddy_wire::id::JobId;
use eddy_wire::services::child::TakenUp;
use eddy_wire::services::job::{SubmitRequest, Submitted};
use eddy_wire::time::Time;

use super::keys::Known;
use super::{Ingest, Intake, Submission};

impl Ingest {
    pub(super) fn take_up(
        &mut self,
        now: Time,
        request: &Request,
        (taken, by): (&TakenUp, &TakenBy),
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        if let Intake::DiskFull(why) = &self.intake {
            return Err(Refusal::new(Code::Busy, why.clone()));
        }
        let mut submission = match taken.begun.is_empty() {
            true => self.read_unbegun(request, by)?,
            false => self.read_begun(request)?,
        };
        submission.asked_by = taken.asked_by;
        submission.sent = taken.sent.map(Arc::new);
        submission.taken = Some(Box::new(taken.clone()));
        submission.was_let_in_by(by);
        if taken.begun.is_empty() {
            self.taken.insert(request.caller, submission.clone());
        }
        let (user, key) = submission.name();
        match self.keys.recent(user, &key) {
            Some(known) => self.take_known(now, submission, Some(known), out),
            // However old it is: it may have waited long.
            None => {
                self.ask_journal(submission, out);
                Ok(())
            }
        }
    }

    /// One of which nothing has begun, with what is found against it. It is looked up by its key all the same.
    fn read_unbegun(&mut self, request: &Request, by: &TakenBy) -> Result<Submission, Refusal> {
        let (mut submission, refused) = match self.read(request) {
            Ok(submission) => (submission, by.refused.clone()),
            Err(refusal) if is_for_good(&refusal) => (self.read_begun(request)?, Some(refusal)),
            Err(refusal) => return Err(refusal),
        };
        submission.refused = refused;
        Ok(submission)
    }

    /// One of which work has begun: it was let in where it was made.
    fn read_begun(&mut self, request: &Request) -> Result<Submission, Refusal> {
        let mut body: SubmitRequest = request.parse()?;
        let spec = self.specs.intern(body.jobspec.take())?;
        let copies = body.cc.as_ref().map(|ids| ids.iter().collect());
        Ok(Submission::new(request, body, spec, copies))
    }

    /// The journal was asked whether the key is known.
    pub(super) fn take_known(
        &mut self,
        now: Time,
        submission: Submission,
        found: Option<Known>,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        let (user, key) = submission.name();
        let known = self.keys.recent(user, &key).or(found);
        let taken = submission.taken.as_ref().expect("it was taken there");
        match known {
            Some(known) if known.first == taken.first || taken.begun.is_empty() => {
                let Known { first, count, .. } = known;
                self.taken.remove(&submission.caller);
                out.reply(submission.caller, &Submitted { first, count });
                Ok(())
            }
            Some(known) => {
                self.replace(now, known, taken.first, out);
                self.take_begun(now, submission, out);
                Ok(())
            }
            None if taken.begun.is_empty() => match &submission.refused {
                Some(refusal) => Err(refusal.clone()),
                None => self.screen(now, submission, out),
            },
            None => {
                self.take_begun(now, submission, out);
                Ok(())
            }
        }
    }

    /// The same submission came here, too, and work of it was begun there.
    fn replace(&self, now: Time, known: Known, by: JobId, out: &mut Outbox) {
        for index in 0..u64::from(known.count) {
            let (job, by) = (JobId(known.first.0 + index), JobId(by.0 + index));
            let note = format!("the same submission was begun as job {by} meanwhile");
            out.append(now, job, cancelled(note));
        }
    }

    /// Takes one whatever is said of it now; from which job on.
    fn take_begun(&mut self, now: Time, mut submission: Submission, out: &mut Outbox) -> JobId {
        let (user, spec) = (submission.user, &submission.spec);
        let charter = self.parties.charter();
        let party = charter.party(user, spec, self.queues.rules(spec));
        // Where what it names is not there, or not for this user, it is as if it named nothing.
        submission.party = party.unwrap_or_else(|_| charter.party_of(user));
        let first = submission.taken.as_ref().map(|taken| taken.first);
        let first = first.expect("it was taken there");
        self.propose(now, submission, first, out);
        first
    }

    /// Refuses a submission; one that an instance took becomes its jobs all the same, which are over with that.
    pub(super) fn turn_away(
        &mut self,
        now: Time,
        caller: Caller,
        refusal: &Refusal,
        out: &mut Outbox,
    ) {
        let taken = self.taken.remove(&caller);
        let is_recorded = |taken: &Submission| is_for_good(refusal) && is_no_member(taken);
        let Some(mut submission) = taken.filter(is_recorded) else {
            out.refuse(caller, refusal);
            return;
        };
        let name = submission.taken_in.clone().unwrap_or_default();
        let note = format!(
            "refused when `{name}` handed it up, which took it while its parent was away: {}",
            refusal.text
        );
        submission.refused = Some(refusal.clone());
        let count = u64::from(submission.count());
        let first = self.take_begun(now, submission, out);
        for index in 0..count {
            out.append(now, JobId(first.0 + index), cancelled(note.clone()));
        }
    }
}

/// Whether it is of no gang: what a gang cannot have is no member of it, by whatever record.
fn is_no_member(submission: &Submission) -> bool {
    gang::of(&submission.spec).is_ok_and(|gang| gang.is_none())
}

/// Whether it will be said again whenever the same is asked. That a key is of other jobs says nothing about these.
fn is_for_good(refusal: &Refusal) -> bool {
    match refusal.code {
        Code::Invalid | Code::Denied | Code::NotFound | Code::TooLarge => true,
        Code::Conflict
        | Code::NoService
        | Code::Busy
        | Code::NotReady
        | Code::Unreachable
        | Code::End => false,
    }
}

fn cancelled(note: String) -> Kind {
    Kind::Exception(Box::new(Exception {
        kind: "cancel".to_owned(),
        severity: 0,
        note,
        userid: None,
        until: None,
    }))
}
