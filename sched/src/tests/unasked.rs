//! What is told to who asks first when he starts, where nobody asked before.

use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Likely, Owner, Question, Suppose, Verdict, Want};
use eddy_wire::time::{MICROS, Span};

use super::model::{inventory, nodes};
use crate::Planner;

/// From one job to the next, each of which comes as one before it has run for half of that.
const PERIOD: Span = Span::seconds(20);

/// One node, for which one job after the other waits that ends long before its limit.
struct Line {
    planner: Planner,
    now: Time,
    last: u64,
}

impl Line {
    fn new() -> Line {
        let mut planner = Planner::new();
        planner.apply(Delta::Policy("preset = \"easy\"".into()));
        planner.apply(Delta::Inventory(inventory(&[(1, 0, 0)])));
        planner.apply(Delta::Up(Idset::first_ids(1)));
        let mut line = Line {
            planner,
            now: Time(1_000 * MICROS),
            last: 0,
        };
        line.comes();
        line
    }

    fn comes(&mut self) {
        self.last += 1;
        let mut request = nodes(1, 1, 1);
        request.duration = Some(100 * MICROS);
        let want = Want {
            submitted: self.now,
            ..Want::of(16, request)
        };
        self.planner.apply(Delta::Want(JobId(self.last), want));
        self.plan();
    }

    fn plan(&mut self) {
        let outcome = self.planner.plan(self.now, 100);
        for (job, verdict) in &outcome.verdicts {
            let Verdict::Start(set) = verdict else {
                panic!("job {job} does not start");
            };
            let held = Delta::Held(*job, Owner::default(), Arc::clone(set));
            self.planner.apply(held);
        }
    }

    /// The next comes, and starts as the one before it ends.
    fn turn(&mut self) {
        self.now = self.now.after(Span(PERIOD.0 / 2));
        self.comes();
        self.now = self.now.after(Span(PERIOD.0 / 2));
        self.planner.apply(Delta::Freed(JobId(self.last - 1)));
        self.plan();
    }

    /// What the next is told as it comes.
    fn told(&mut self) -> Option<Likely> {
        self.comes();
        let job = JobId(self.last);
        self.planner.apply(Delta::Explain(Question {
            tag: 1,
            jobs: Some(vec![(job, job)]),
            most: 1,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        }));
        let mut outcome = self.planner.plan(self.now, 100);
        let told = outcome.answers.remove(0).jobs.remove(0);
        told.start.and_then(|start| start.likely)
    }
}

#[test]
fn once_some_who_waited_began_it_is_told_when_the_next_is_likely_to() {
    let mut line = Line::new();
    for _ in 0..20 {
        line.turn();
    }
    let told = line.told().expect("20 began that nobody asked about");
    assert!(
        line.now < told.from && told.to < line.now.after(Span::seconds(50)),
        "{told:?}"
    );
}

#[test]
fn before_that_it_is_not() {
    let mut line = Line::new();
    for _ in 0..19 {
        line.turn();
    }
    assert_eq!(line.told(), None);
}
