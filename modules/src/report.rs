//! What an instance that is a child has come to, told to its parent.
//!
//! Last in the path of a leader: it counts jobs as records go by and tells the
//! figures over the channel, at most every [`REPORT_EVERY`] while they change.
//! It is silent in an instance that is nobody's child. Jobs that were over before
//! this leader began are not all replayed: how many they are the journal says.

use std::collections::BTreeMap;

use eddy_broker::{Effect, Input, Module, Outbox, ParentWord, Reacts, ToParent, Volatile};
use eddy_wire::event::{Final, Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::services::child::Summary;
use eddy_wire::time::{Span, Time};

use crate::settings::{Over, Place, Settings};

/// How often the parent is told at most.
pub const REPORT_EVERY: Span = Span::millis(200);

/// The figures and when they were told.
pub struct Report {
    place: Place,
    over: Over,
    jobs: BTreeMap<JobId, Counted>,
    summary: Summary,
    told: Told,
}

/// A job that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    work: Kindred,
    takes: Takes,
    stage: Stage,
    end: End,
}

/// Whether it counts as an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kindred {
    Job,
    Instance,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waits,
    /// It holds so many cores.
    Holds(u64),
}

/// How it will have ended, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Well,
    Badly,
}

/// What the parent knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// These figures, since this time.
    Since(Time, Summary),
    /// Nothing that it still knows.
    Nothing,
}

impl Module for Report {
    fn name(&self) -> &'static str {
        "report"
    }

    fn apply(&mut self, record: &Record) {
        if self.place.child.is_none() {
            return;
        }
        if let Some(job) = record.event.job {
            self.count(job, &record.event.kind);
        }
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToDurable
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        if self.place.child.is_none() {
            return;
        }
        match input {
            Input::Parent(ParentWord::Granted(_)) => {
                self.told = Told::Nothing;
                self.tell(now, out);
            }
            Input::Durable(record) if matches!(record.event.kind, Kind::LeaderStop) => {
                // All it counts is on disk, and nothing is held any more.
                self.told = Told::Since(now, self.summary);
                out.volatile(Volatile::Parent(ToParent::Report(self.summary)));
            }
            // Those that were replayed are among the journal's.
            Input::Resume(_) => {
                self.summary.completed = self.over.completed;
                self.summary.failed = self.over.failed;
            }
            Input::Durable(_) | Input::Tick => self.tell(now, out),
            _ => {}
        }
    }
}

impl Report {
    /// No jobs yet.
    pub fn new(settings: &Settings) -> Report {
        Report {
            place: settings.place.clone(),
            over: settings.over,
            jobs: BTreeMap::new(),
            summary: Summary::default(),
            told: Told::Nothing,
        }
    }

    fn tell(&mut self, now: Time, out: &mut Outbox) {
        match self.told {
            Told::Since(_, known) if known == self.summary => {}
            Told::Since(t, _) if now < t + REPORT_EVERY => {
                out.volatile(Volatile::Wake(t + REPORT_EVERY));
            }
            Told::Since(..) | Told::Nothing => {
                self.told = Told::Since(now, self.summary);
                // It counts what is recorded, so it waits until that is durable.
                out.effect(Effect::Parent(ToParent::Report(self.summary)));
            }
        }
    }

    fn count(&mut self, job: JobId, kind: &Kind) {
        if let Kind::Submit(submit) = kind {
            let work = match submit.spec.request.work {
                Work::Tasks | Work::Ground { .. } => Kindred::Job,
                Work::Instance { .. } => Kindred::Instance,
            };
            let counted = Counted {
                work,
                takes: submit.spec.request.takes,
                stage: Stage::Waits,
                end: End::Well,
            };
            self.jobs.insert(job, counted);
            self.summary.pending += 1;
            return;
        }
        let Some(mut counted) = self.jobs.remove(&job) else {
            return;
        };
        self.leave(counted);
        match kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                counted.stage = match counted.takes {
                    Takes::Resources => Stage::Holds(grant.set.ncores()),
                    Takes::Nothing => Stage::Holds(0),
                };
            }
            Kind::Finish(status) if *status != 0 => counted.end = End::Badly,
            Kind::Exception(exception) if exception.severity == 0 => counted.end = End::Badly,
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => {
                if kind.finish().is_some_and(|status| status != 0) {
                    counted.end = End::Badly;
                }
                counted.stage = Stage::Holds(0);
            }
            Kind::Requeue(_) => (counted.stage, counted.end) = (Stage::Waits, End::Well),
            Kind::Clean => {
                match counted.end {
                    End::Well => self.summary.completed += 1,
                    End::Badly => self.summary.failed += 1,
                }
                return;
            }
            _ => {}
        }
        self.enter(counted);
        self.jobs.insert(job, counted);
    }

    fn enter(&mut self, counted: Counted) {
        let Stage::Holds(cores) = counted.stage else {
            self.summary.pending += 1;
            return;
        };
        self.summary.running += 1;
        self.summary.cores_used += cores;
        self.summary.instances += u64::from(counted.work == Kindred::Instance);
    }

    fn leave(&mut self, counted: Counted) {
        let Stage::Holds(cores) = counted.stage else {
            self.summary.pending -= 1;
            return;
        };
        self.summary.running -= 1;
        self.summary.cores_used -= cores;
        self.summary.instances -= u64::from(counted.work == Kindred::Instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::event::{Event, Exception};
    use eddy_wire::id::{Attempt, Seq};
    use eddy_wire::services::child::ChildOf;
    use std::sync::Arc;

    fn report() -> Report {
        let mut settings = Settings::for_inventory(Arc::default());
        settings.place.child = Some(ChildOf {
            job: JobId(1),
            attempt: Attempt(1),
        });
        Report::new(&settings)
    }

    fn told(outbox: &Outbox) -> String {
        format!("{outbox:?}")
    }

    #[test]
    fn figures_are_told_when_they_change_but_not_too_often() {
        let mut report = report();
        let record = Record {
            seq: Seq(1),
            event: Event {
                t: Time(0),
                job: None,
                kind: Kind::LeaderStart(eddy_wire::id::Epoch(1)),
            },
        };
        let mut tell = |at: i64, pending: u64| {
            let mut out = Outbox::default();
            report.summary.pending = pending;
            report.handle(Time(at), Input::Durable(&record), &mut out);
            told(&out)
        };
        assert!(tell(0, 0).contains("Report("), "the first");
        assert!(!tell(1, 0).contains("Report("), "nothing changed");
        let soon = tell(2, 5);
        assert!(!soon.contains("Report(") && soon.contains("Wake(Time(200000))"));
        assert!(tell(200_000, 5).contains("pending: 5"));
    }

    #[test]
    fn a_job_that_is_cancelled_while_it_waits_ends_badly() {
        let mut report = report();
        let waits = Counted {
            work: Kindred::Job,
            takes: Takes::Resources,
            stage: Stage::Waits,
            end: End::Well,
        };
        report.enter(waits);
        report.jobs.insert(JobId(1), waits);
        let exception = Exception {
            kind: "cancel".to_owned(),
            severity: 0,
            note: String::new(),
            userid: None,
            until: None,
        };
        report.count(JobId(1), &Kind::Exception(Box::new(exception)));
        report.count(JobId(1), &Kind::Clean);
        let failed = Summary {
            failed: 1,
            ..Summary::default()
        };
        assert_eq!(report.summary, failed);
    }

    #[test]
    fn jobs_that_were_over_before_are_counted_once() {
        let mut report = report();
        report.over = Over {
            completed: 70,
            failed: 3,
        };
        report.summary.completed = 2;
        let mut out = Outbox::default();
        report.handle(Time(0), Input::Resume(None), &mut out);
        report.handle(Time(0), Input::Tick, &mut out);
        let text = told(&out);
        assert!(text.contains("completed: 70, failed: 3"), "{text}");
    }

    #[test]
    fn an_instance_that_is_nobodys_child_tells_nothing() {
        let mut report = Report::new(&Settings::for_inventory(Arc::default()));
        let mut out = Outbox::default();
        report.handle(Time(0), Input::Tick, &mut out);
        assert!(!told(&out).contains("Report("));
    }
}
