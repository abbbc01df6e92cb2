//! Since when a job counts as waiting for resources.

use std::collections::BTreeMap;

use eddy_wire::event::{Entry, Exception};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Ask;
use eddy_wire::queue::{Turn, Turned};
use eddy_wire::spec::Spec;

use super::*;

const QUEUE: &str = "batch";

fn at(seconds: i64) -> Time {
    Time(1_000_000 * seconds)
}

/// What is recorded at these seconds of a job of a queue.
struct Told {
    seen: Seen,
    gates: Gates,
}

impl Told {
    fn new() -> Told {
        let ask = Ask {
            command: vec!["true".to_owned()],
            queue: Some(QUEUE.to_owned()),
            ..Ask::default()
        };
        let jobspec = ask.jobspec().expect("a jobspec");
        let submit = Submit {
            entry: Entry::Priority,
            ..Submit::plain(7, Arc::new(Spec::from_jobspec(jobspec).expect("a spec")))
        };
        Told {
            seen: Seen::new(at(0), &Arc::new(submit), None),
            gates: Gates::default(),
        }
    }

    fn job(mut self, seconds: i64, kind: Kind) -> Told {
        self.seen.apply(at(seconds), &kind, &self.gates);
        self
    }

    fn queue(mut self, seconds: i64, turn: Turn) -> Told {
        let turned = Turned {
            queue: QUEUE.to_owned(),
            turn,
            reason: String::new(),
            userid: 7,
        };
        self.gates.apply(at(seconds), &turned);
        self
    }

    /// Granted, and not begun before it comes back.
    fn bounced(self, granted: i64, back: i64) -> Told {
        let grant = Grant {
            epoch: Epoch(1),
            set: Arc::default(),
            shells: BTreeMap::new(),
            beside: BTreeMap::new(),
            passed: None,
        };
        let exception = Exception {
            kind: "requeue".to_owned(),
            severity: 0,
            note: String::new(),
            userid: None,
            until: None,
        };
        let last = Kind::Release(Idset::new(), Final::Free(Some(0)));
        self.job(granted, Kind::Alloc(Arc::new(grant)))
            .job(back, Kind::Recalled(QUEUE.to_owned()))
            .job(back, Kind::Exception(Box::new(exception)))
            .job(back, last)
            .job(back, Kind::Requeue(Attempt(2)))
            .job(back, Kind::Priority(16))
    }

    fn since(&self) -> i64 {
        self.seen.want(&self.gates).eligible.0 / 1_000_000
    }
}

#[test]
fn who_changes_what_waits_does_not_lose_what_it_waited() {
    let waits = Told::new().job(10, Kind::Priority(16));
    assert_eq!(waits.since(), 10);
    let urged = waits
        .job(100, Kind::Urgency(20, 7))
        .job(100, Kind::Priority(20));
    assert_eq!(urged.since(), 10);
    let limits = Default::default();
    let changed = urged
        .job(150, Kind::JobspecUpdate(limits))
        .job(150, Kind::Priority(20));
    assert_eq!(changed.since(), 10);
}

#[test]
fn what_is_held_waits_for_no_resources_and_has_waited_before() {
    let held = Told::new()
        .job(10, Kind::Priority(16))
        .job(40, Kind::Urgency(0, 7))
        .job(40, Kind::Priority(0))
        .job(90, Kind::Urgency(16, 7));
    // For a while a limit keeps it back.
    let goes_on = held.job(95, Kind::Priority(16));
    assert_eq!(goes_on.since(), 95 - 30);
}

#[test]
fn what_comes_back_and_never_began_has_waited_all_the_time() {
    let back = Told::new().job(10, Kind::Priority(16)).bounced(40, 50);
    assert_eq!(back.since(), 10);
    assert_eq!(back.bounced(60, 80).since(), 10);
}

#[test]
fn an_attempt_that_began_waits_anew() {
    let mut ran = Told::new().job(10, Kind::Priority(16));
    ran.seen.apply(at(20), &Kind::Start, &ran.gates);
    assert_eq!(ran.bounced(30, 50).since(), 50);
}

#[test]
fn while_its_queue_is_stopped_it_waits_for_no_resources() {
    let stopped = Told::new()
        .queue(5, Turn::Stop)
        .job(10, Kind::Priority(16))
        .queue(20, Turn::Start);
    assert_eq!(stopped.since(), 20);
    let again = stopped
        .queue(30, Turn::Stop)
        .job(35, Kind::Urgency(0, 7))
        .job(35, Kind::Priority(0))
        .queue(60, Turn::Start)
        .job(70, Kind::Urgency(16, 7))
        .job(70, Kind::Priority(16));
    assert_eq!(again.since(), 60);
}
