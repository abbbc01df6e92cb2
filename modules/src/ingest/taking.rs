//! Submissions that a queue instance took while this one, its parent, was away: they are its jobs under
//! the numbers that they were given there, submitted when they were.
//!
//! Those of which nothing has begun are looked at as any other. Of the others the work is done or under
//! way: they are taken whatever is said of such a one now, charged to whom it can be found to be.

use std::sync::Arc;

use eddy_broker::{Outbox, Request, TakenBy};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Exception, Kind};
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
            true => self.read(request)?,
            false => self.read_begun(request)?,
        };
        submission.asked_by = taken.asked_by;
        submission.sent = taken.sent.map(Arc::new);
        submission.taken = Some(Box::new(taken.clone()));
        submission.was_let_in_by(by);
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
                out.reply(submission.caller, &Submitted { first, count });
                Ok(())
            }
            Some(known) => {
                self.replace(now, known, taken.first, out);
                self.take_begun(now, submission, out);
                Ok(())
            }
            None if taken.begun.is_empty() => self.screen(now, submission, out),
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
            let exception = Exception {
                kind: "cancel".to_owned(),
                severity: 0,
                note: format!("the same submission was begun as job {by} meanwhile"),
                userid: None,
                until: None,
            };
            out.append(now, job, Kind::Exception(Box::new(exception)));
        }
    }

    fn take_begun(&mut self, now: Time, mut submission: Submission, out: &mut Outbox) {
        let (user, spec) = (submission.user, &submission.spec);
        let charter = self.parties.charter();
        let party = charter.party(user, spec, self.queues.rules(spec));
        // Where what it names is not there, or not for this user, it is as if it named nothing.
        submission.party = party.unwrap_or_else(|_| charter.party_of(user));
        let first = submission.taken.as_ref().map(|taken| taken.first);
        let first = first.expect("it was taken there");
        self.propose(now, submission, first, out);
    }
}
