//! Whether planners are told of those who wait what is so: since when they wait for resources, and that they do.
//!
//! Adds up by the records how long nothing but resources was missing: a job had its place and its queue was not
//! stopped, or it was given something and did not begin. What it waited before it was held, or changed, or came back
//! is not lost; an attempt that began is over with that. Knows nothing of how the modules reckon it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Want;
use eddy_wire::queue::{Turn, UNNAMED};
use eddy_wire::time::{Span, Time};
use eddy_wire::update;

/// Who waits, as recorded.
#[derive(Clone, Debug, Default)]
pub struct Eligible {
    jobs: BTreeMap<JobId, Waits>,
    stopped: BTreeSet<String>,
}

#[derive(Clone, Debug)]
struct Waits {
    submit: Arc<Submit>,
    submitted: Time,
    state: JobState,
    place: i64,
    attempt: Attempt,
    had: Span,
    /// Until then that is counted.
    until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    Waits,
    Given,
    Began,
}

impl Waits {
    /// Whether its queue is one of these. What takes nothing is in none, nor what the configuration declares.
    fn is_in(&self, queues: &BTreeSet<String>) -> bool {
        let spec = &self.submit.spec;
        let is_declared = matches!(spec.request.work, Work::Instance { name: Some(_) });
        let queue = spec.jobspec.attributes.system.queue.as_deref();
        let is_any = spec.request.takes == Takes::Resources && !is_declared;
        is_any && queues.contains(queue.unwrap_or(UNNAMED))
    }

    fn has_place(&self) -> bool {
        self.state == JobState::Sched && self.place > 0
    }

    /// Counts what was until then.
    fn count(&mut self, t: Time, stopped: &BTreeSet<String>) {
        let lacks_room = self.has_place() || self.attempt == Attempt::Given;
        if lacks_room && !self.is_in(stopped) {
            self.had.0 += (t - self.until).0.max(0);
        }
        // What is heard of late is recorded as of when it was.
        self.until = self.until.max(t);
    }
}

impl Eligible {
    /// One more record, or what one implies.
    pub fn apply(&mut self, record: &Record) {
        let (t, kind) = (record.event.t, &record.event.kind);
        if let Kind::Queue(turned) = kind {
            for waits in self.jobs.values_mut() {
                waits.count(t, &self.stopped);
            }
            match turned.turn {
                Turn::Stop => drop(self.stopped.insert(turned.queue.clone())),
                Turn::Start => drop(self.stopped.remove(&turned.queue)),
                Turn::Enable | Turn::Disable => {}
            }
        }
        let Some(job) = record.event.job else { return };
        if let Kind::Submit(submit) = kind {
            let waits = Waits {
                submit: Arc::clone(submit),
                submitted: t,
                state: submit.entry.state(),
                place: 0,
                attempt: Attempt::Waits,
                had: Span::ZERO,
                until: t,
            };
            self.jobs.insert(job, waits);
            return;
        }
        if matches!(kind, Kind::Clean) {
            self.jobs.remove(&job);
            return;
        }
        let Some(waits) = self.jobs.get_mut(&job) else {
            return;
        };
        waits.count(t, &self.stopped);
        waits.state = waits.state.next(kind).unwrap_or(waits.state);
        match kind {
            Kind::Priority(place) => waits.place = *place,
            Kind::Alloc(_) if waits.attempt == Attempt::Waits => waits.attempt = Attempt::Given,
            Kind::Start => waits.attempt = Attempt::Began,
            Kind::Requeue(_) => {
                if waits.attempt == Attempt::Began {
                    waits.had = Span::ZERO;
                }
                waits.attempt = Attempt::Waits;
            }
            Kind::JobspecUpdate(map) => update::submit(&mut waits.submit, map),
            _ => {}
        }
    }

    /// A planner is told that a job wants this. What goes on after a pause is told otherwise.
    ///
    /// # Errors
    /// It does not wait, or since another time.
    pub fn wants(&self, job: JobId, want: &Want) -> Result<(), String> {
        if want.back.is_some() {
            return Ok(());
        }
        let Some(waits) = self.jobs.get(&job).filter(|waits| waits.has_place()) else {
            return Err(format!("job {job} is planned, and does not wait"));
        };
        if waits.is_in(&self.stopped) {
            return Err(format!("job {job} is planned, and its queue is stopped"));
        }
        if waits.attempt != Attempt::Waits {
            return Ok(());
        }
        let party = &waits.submit.party;
        let owner = (waits.submit.user, &party.account, &party.qos);
        if owner != (want.owner.user, &want.owner.account, &want.owner.qos) {
            return Err(format!("job {job} is planned as of another than it is"));
        }
        let since = waits.until.after(Span(-waits.had.0));
        let told = [
            ("submitted", want.submitted, waits.submitted),
            ("eligible", want.eligible, since),
        ];
        for (what, told, right) in told {
            if told != right {
                return Err(format!(
                    "job {job} is planned as {what} at {told}, and it was at {right}"
                ));
            }
        }
        Ok(())
    }
}
