//! What is due for runs, and when: a warning, the end of a time limit, the next KILL, nodes that have come or are to
//! have gone.

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::{Exception, Kind};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::time::{Span, Time};

use super::Exec;
use super::run::{Limit, Run};

/// How long a leader that begins waits for its parent before it ends jobs of that by their limits.
const BEGINS: Span = Span::seconds(10);
/// Whoever is so late has not looked at what was said to him; and how long he then does.
const LATE: Span = Span::seconds(1);

/// How often KILL is repeated before a person is called.
pub(super) const KILLS_MAX: u32 = 8;

impl Exec {
    pub(super) fn set_timer(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let run = self.runs.get(&job);
        let due = run.and_then(|run| {
            let clears = run.clears(self.kill_grace).map(|(at, _)| at);
            let warns = run.warning(self.place.end()).map(|due| due.at);
            clears.into_iter().chain(warns).chain(self.due(run)).min()
        });
        self.timers.set(job, due);
        self.wake(now, out);
    }

    /// When something is due for a run but a warning.
    fn due(&self, run: &Run) -> Option<Time> {
        let due = run.due(self.kill_grace, self.place.end())?;
        Some(match run.is_of_parent() {
            true => due.max(self.hold),
            false => due,
        })
    }

    /// A leader begins: its parent may have changed limits while there was none.
    pub(super) fn begins(&mut self, now: Time) {
        self.hold = now.after(BEGINS);
    }

    /// The parent is there, and says what it changed.
    pub(super) fn hears(&mut self, now: Time) {
        self.hold = self.hold.min(now.after(LATE));
    }

    fn wake(&mut self, now: Time, out: &mut Outbox) {
        if let Some(at) = self.timers.wake(now) {
            out.volatile(Volatile::Wake(at));
        }
    }

    pub(super) fn set_timers(&mut self, now: Time, out: &mut Outbox) {
        let jobs: Vec<JobId> = self.runs.keys().copied().collect();
        jobs.into_iter()
            .for_each(|job| self.set_timer(now, job, out));
    }

    pub(super) fn tick(&mut self, now: Time, out: &mut Outbox) {
        self.shells.cover(now, out);
        self.gathered(now, out);
        self.end_orphans(now, out);
        while let Some(job) = self.timers.pop(now) {
            self.timer(now, job, out);
        }
        self.wake(now, out);
    }

    /// What is due for a run: its time limit, or the next KILL.
    fn timer(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        self.clear_left(now, job, out);
        let last = self.place.end();
        let due = self.runs.get(&job).and_then(|run| self.due(run));
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        if let Some(warning) = run.warning(last).filter(|due| due.at <= now) {
            run.warn(warning, &self.shells, out);
        }
        if run.is_of_parent() && due.is_some_and(|due| now - due > LATE) {
            // This leader did nothing for a while; what was said to it meanwhile it hears now.
            self.hold = now.after(LATE);
            return self.set_timer(now, job, out);
        }
        let due = due.filter(|due| *due <= now);
        match (due, run.end) {
            // Due later than it was.
            (None, _) => {}
            (Some(_), None) => {
                let note = match run.limit(last) {
                    Some((_, Limit::Own(span))) => {
                        format!("its time limit of {} s is over", span.0 as f64 / 1e6)
                    }
                    Some((_, Limit::Instance)) | None => {
                        "the time limit of the instance that it runs in is over".to_owned()
                    }
                };
                let exception = Exception {
                    kind: "timeout".to_owned(),
                    severity: 0,
                    note,
                    userid: None,
                    until: None,
                };
                return out.append(now, job, Kind::Exception(Box::new(exception)));
            }
            (Some(_), Some(_)) => {
                run.kill(now, &self.shells, out);
                if run.kills == KILLS_MAX {
                    let reason = format!("tasks of job {} cannot be killed", job.f58_ascii());
                    for rank in run.grant.set.ranks().iter() {
                        let ranks = Idset::one(rank);
                        out.append_own(now, Kind::Drain(ranks, reason.clone(), u32::MAX));
                    }
                }
            }
        }
        self.set_timer(now, job, out);
    }
}
