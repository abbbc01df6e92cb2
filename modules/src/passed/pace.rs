//! Jobs that were passed down and stop for a while, as their parent says.
//!
//! What it says is recorded here as of any job: exec stops the tasks and lets them go on, and sched
//! gives them the cores that the parent named (`sched/passed.rs`). Which time it was that they were
//! stopped for is not recorded: the parent says it again over each channel.

use eddy_broker::Outbox;
use eddy_wire::event::Kind;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::services::child::{PassState, ToldOf};
use eddy_wire::suspension::Standing;
use eddy_wire::time::Time;

use super::{Held, Life, Passed, say};

impl Passed {
    /// Its tasks are to stop.
    pub(super) fn pause(
        &mut self,
        now: Time,
        (job, attempt): (JobId, Attempt),
        (stop, userid): (u32, Option<u32>),
        out: &mut Outbox,
    ) {
        let Some(held) = self.going(job, attempt) else {
            return;
        };
        held.stop = Some(stop);
        let is_known = held.suspension.by() == userid;
        match held.suspension.standing() {
            Standing::Stopping if is_known => {}
            Standing::Suspended if is_known => held.tell_stopped(job, out),
            Standing::Runs | Standing::Resuming | Standing::Stopping | Standing::Suspended => {
                out.append(now, job, Kind::Suspend(userid));
            }
        }
    }

    /// Its tasks are to run; on which cores sched has heard.
    pub(super) fn proceed(&mut self, now: Time, job: JobId, attempt: Attempt, out: &mut Outbox) {
        let Some(held) = self.going(job, attempt) else {
            return;
        };
        held.stop = None;
        match held.suspension.standing() {
            Standing::Stopping | Standing::Suspended => {
                out.append(now, job, Kind::Resume(None));
            }
            Standing::Runs | Standing::Resuming => {}
        }
    }

    /// That attempt, if it is here and is not to end.
    pub(super) fn going(&mut self, job: JobId, attempt: Attempt) -> Option<&mut Held> {
        let held = self.jobs.get_mut(&job)?;
        let goes = held.attempt == attempt && held.life == Life::Goes && held.exception.is_none();
        goes.then_some(held)
    }
}

impl Held {
    /// Says that it has stopped, if it is to and has.
    pub(super) fn tell_stopped(&self, job: JobId, out: &mut Outbox) {
        let has = self.suspension.standing() == Standing::Suspended;
        if let Some(stop) = self.stop.filter(|_| has && self.life == Life::Goes) {
            let told = ToldOf {
                job,
                attempt: self.attempt,
                state: PassState::Stopped { stop },
                began: self.began,
                ended: None,
                begun: None,
                adopted: None,
            };
            say(told, out);
        }
    }
}
