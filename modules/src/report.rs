//! What an instance that is a child has come to, told to its parent.
//!
//! Last in the path of a leader: it counts jobs as records go by and tells the
//! figures over the channel, at most every [`REPORT_EVERY`] while they change.
//! It is silent in an instance that is nobody's child. Jobs that were over before
//! this leader began are not all replayed: how many they are the ledger's summary
//! says, or, where an earlier version made that, the journal.

use std::collections::BTreeMap;

use eddy_broker::{Effect, Input, Module, Outbox, ParentWord, Reacts, ToParent, Volatile};
use eddy_wire::ending::Ending;
use eddy_wire::event::{Final, Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobResult;
use eddy_wire::services::child::Summary;
use eddy_wire::time::{Span, Time};
use eddy_wire::usage::Tally;

use crate::settings::{Over, Place, Settings};

/// How often the parent is told at most.
pub const REPORT_EVERY: Span = Span::millis(200);

/// The figures and when they were told.
pub struct Report {
    place: Place,
    over: Over,
    past: Past,
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
    ending: Ending,
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

/// Where it is known from how many were over before what was replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Past {
    /// From records: there is no summary, or it says it.
    Told,
    /// From the rows of the journal: the summary does not say it.
    Rows,
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
        match (&record.event.kind, record.event.job) {
            (kind, Some(job)) => self.count(job, kind),
            (Kind::Usage(tally), None) => self.restore(tally),
            (_, None) => {}
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
            Input::Resume(_) if self.past == Past::Rows => {
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
            past: Past::Told,
            jobs: BTreeMap::new(),
            summary: Summary::default(),
            told: Told::Nothing,
        }
    }

    /// A summary stands for all that was over before it.
    fn restore(&mut self, tally: &Tally) {
        self.past = match tally.ends {
            Some(ends) => {
                (self.summary.completed, self.summary.failed) = (ends.completed, ends.unwell());
                Past::Told
            }
            None => Past::Rows,
        };
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
                ending: Ending::new(submit),
            };
            self.jobs.insert(job, counted);
            self.summary.pending += 1;
            return;
        }
        let Some(mut counted) = self.jobs.remove(&job) else {
            return;
        };
        self.leave(counted);
        counted.ending.apply(kind);
        match kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                counted.stage = match counted.takes {
                    Takes::Resources => Stage::Holds(grant.set.ncores()),
                    Takes::Nothing => Stage::Holds(0),
                };
            }
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => {
                counted.stage = Stage::Holds(0);
            }
            Kind::Requeue(_) => counted.stage = Stage::Waits,
            Kind::Clean => {
                match counted.ending.result() {
                    JobResult::Completed => self.summary.completed += 1,
                    JobResult::Failed | JobResult::Canceled | JobResult::Timeout => {
                        self.summary.failed += 1;
                    }
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
    use eddy_wire::ending::Ends;
    use eddy_wire::event::{Event, Exception, Submit};
    use eddy_wire::id::{Attempt, Seq};
    use eddy_wire::jobspec::Ask;
    use eddy_wire::services::child::ChildOf;
    use eddy_wire::spec::Spec;
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
        report.count(JobId(1), &submit());
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

    fn submit() -> Kind {
        let ask = Ask {
            command: vec!["true".to_owned()],
            ..Ask::default()
        };
        let jobspec = ask.jobspec().expect("a jobspec");
        let spec = Spec::from_jobspec(jobspec).expect("a spec");
        Kind::Submit(Arc::new(Submit::plain(7, Arc::new(spec))))
    }

    fn summed(ends: Option<Ends>) -> Record {
        let tally = Tally {
            ends,
            ..Tally::default()
        };
        let event = Event {
            t: Time(0),
            job: None,
            kind: Kind::Usage(Box::new(tally)),
        };
        Record { seq: Seq(1), event }
    }

    #[test]
    fn those_that_are_forgotten_are_among_those_that_were_over_before() {
        let mut report = report();
        report.over = Over {
            completed: 1,
            failed: 0,
        };
        let ends = Ends {
            completed: 70,
            failed: 2,
            canceled: 1,
            timeout: 0,
        };
        report.apply(&summed(Some(ends)));
        report.count(JobId(90), &submit());
        report.count(JobId(90), &Kind::Finish(0));
        report.count(JobId(90), &Kind::Clean);
        let mut out = Outbox::default();
        report.handle(Time(0), Input::Resume(None), &mut out);
        report.handle(Time(0), Input::Tick, &mut out);
        let text = told(&out);
        assert!(text.contains("completed: 71, failed: 3"), "{text}");
    }

    #[test]
    fn where_a_summary_does_not_say_it_those_over_before_are_the_journals() {
        let mut report = report();
        report.apply(&summed(None));
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
