//! Whether a job of which nothing is asked costs four records: `submit alloc start release`, also where it is passed
//! down, in the root and in the instance that begins it. It takes resources: what runs beside others is not judged.
//!
//! Knows the records and whose limits count, nothing of who decides what a record stands for. What a job may ask for
//! beside tasks on resources, and what may befall it, is a record more and ends the judging: one that is needed, a
//! gang, a limit, an instance; an end, another urgency or time, a pause; leaders and shells that come and go. So does
//! what is heard of late: it is recorded as of when it was.

use std::collections::BTreeMap;

use eddy_wire::event::{Entry, Final, Kind, Record, Submit};
use eddy_wire::gang;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::time::{Span, Time};

use crate::nature::Nature;

/// What was within this time is recorded as of now, and as one thing.
const AT_ONCE: Span = Span::millis(900);

/// How far those are of which nothing was asked so far.
#[derive(Clone, Debug, Default)]
pub struct Terse {
    /// The last record of each, and as of when it is.
    jobs: BTreeMap<JobId, (Step, Time)>,
}

/// The last record of such a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Submit,
    Alloc,
    Start,
}

/// When something was, to who is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Just now.
    AtOnce,
    /// Perhaps long before.
    Late,
}

impl Terse {
    /// The leader recorded this, as it is in the journal; whether a limit counts for who is submitted by it.
    ///
    /// # Errors
    /// It is a record more than such a job costs.
    pub fn apply(
        &mut self,
        record: &Record,
        heard: Heard,
        is_limited: impl Fn(&Submit) -> bool,
    ) -> Result<(), String> {
        let kind = &record.event.kind;
        let Some(job) = record.event.job else {
            match kind {
                Kind::Put(..) | Kind::Delete(..) => {}
                // What it says of that was done by others beside it.
                Kind::Memo(memo) if memo.contains_key("done") => {}
                _ => self.forget(),
            }
            return Ok(());
        };
        if heard == Heard::Late {
            self.jobs.remove(&job);
            return Ok(());
        }
        if let Kind::Submit(submit) = kind {
            return match asks_nothing(submit) && !is_limited(submit) {
                true => self.begins(job, submit, record.event.t),
                false => Ok(()),
            };
        }
        let Some((step, before)) = self.jobs.get(&job).copied() else {
            return Ok(());
        };
        let t = record.event.t;
        match (step, kind) {
            (Step::Submit, Kind::Alloc(_)) => drop(self.jobs.insert(job, (Step::Alloc, t))),
            (Step::Alloc, Kind::Start) => drop(self.jobs.insert(job, (Step::Start, t))),
            (Step::Start, Kind::Release(_, Final::Over(Some(_)))) => drop(self.jobs.remove(&job)),
            // What was before the last record is told as of that, however late it is heard of.
            (Step::Start, _) if t == before => drop(self.jobs.remove(&job)),
            (_, kind) if is_plain(kind) => {
                let name = kind.name();
                return Err(format!(
                    "job {job} asks for nothing, and after `{}` there is a record `{name}` of it",
                    step.name()
                ));
            }
            _ => drop(self.jobs.remove(&job)),
        }
        Ok(())
    }

    /// Something is otherwise than it was, and what comes of that is not judged.
    pub fn forget(&mut self) {
        self.jobs.clear();
    }

    fn begins(&mut self, job: JobId, submit: &Submit, t: Time) -> Result<(), String> {
        match submit.entry {
            Entry::Queued(_) => {
                self.jobs.insert(job, (Step::Submit, t));
                Ok(())
            }
            Entry::New | Entry::Priority => Err(format!(
                "job {job} asks for nothing, and its `submit` does not say its place"
            )),
        }
    }
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Submit => "submit",
            Step::Alloc => "alloc",
            Step::Start => "start",
        }
    }
}

impl Nature {
    /// When something was that is recorded now: clocks that were set say nothing of that.
    pub(crate) fn heard(&self, t: Time) -> Heard {
        let mut clocks = self.machines.iter();
        let is_set = clocks.any(|machine| machine.read(self.now).wall != self.now);
        match is_set || (self.now - t).0.abs() > AT_ONCE.0 {
            true => Heard::Late,
            false => Heard::AtOnce,
        }
    }
}

/// Whether it waits for nothing but resources, and is tasks.
fn asks_nothing(submit: &Submit) -> bool {
    let needs = &submit.spec.needs;
    (needs.is_empty() || submit.pass.is_some())
        && submit.spec.request.work == Work::Tasks
        && submit.spec.request.takes == Takes::Resources
        && submit.taken_in.is_none()
        && gang::of(&submit.spec).is_ok_and(|gang| gang.is_none())
}

/// Whether it is what each job goes through that nobody does anything to.
fn is_plain(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Validate
            | Kind::Depend
            | Kind::Priority(_)
            | Kind::Alloc(_)
            | Kind::Start
            | Kind::Finish(_)
            | Kind::Release(..)
            | Kind::Free
            | Kind::Clean
    )
}
