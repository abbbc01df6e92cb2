//! What shells tell long after it happened: it is recorded as of then.

use eddy_wire::id::JobId;
use eddy_wire::services::job::EventsLine;
use eddy_wire::shell::{Ended, PartState};
use eddy_wire::time::{Span, Time};
use serde_json::json;

use crate::instance::*;

/// The ends of a job from its finish on, with seconds since that time.
fn ends(i: &Instance, since: Time) -> Vec<(&'static str, i64)> {
    let of = i
        .records
        .iter()
        .filter(|record| record.event.job == Some(JobId(1)));
    let told = of.flat_map(|record| EventsLine::of(record)).map(|line| {
        let seconds = (line.timestamp - since).0 / 1_000_000;
        (&*line.name.leak(), seconds)
    });
    told.skip_while(|(name, _)| *name != "finish").collect()
}

fn ended_at(t: Time) -> Ended {
    Ended {
        t,
        ..ended(0, None)
    }
}

/// A job that runs on two nodes, and when it began.
fn running() -> (Instance, Time) {
    let mut i = Instance::with(2);
    i.submit(2, 2, &json!({}));
    (0..2).for_each(|rank| i.started(1, rank));
    let begun = i.now;
    (i, begun)
}

#[test]
fn a_job_that_ended_while_no_leader_was_there_ended_when_its_last_task_did() {
    let (mut i, begun) = running();
    let at = |seconds| PartState::Ended(ended_at(begun.after(Span::seconds(seconds))));
    i.now = begun.after(Span::seconds(60));
    i.restart();
    i.reach("0-1");
    i.hello(1, &[(part(1, 0), at(20))]);
    i.hello(2, &[(part(1, 1), at(7))]);
    let expected = [
        ("finish", 20),
        ("release", 20),
        ("release", 20),
        ("free", 60),
        ("clean", 60),
    ];
    assert_eq!(ends(&i, begun), expected);
}

#[test]
fn what_is_told_as_it_happens_is_as_of_when_it_is_heard_whatever_that_clock_says() {
    let (mut i, begun) = running();
    i.now = begun.after(Span::seconds(60));
    for rank in 0..2 {
        i.ended(1, rank, ended_at(begun.after(Span::seconds(7))));
    }
    let expected = [("finish", 60), ("release", 60), ("free", 60), ("clean", 60)];
    assert_eq!(ends(&i, begun), expected);
}

#[test]
fn nothing_ends_before_what_is_recorded_of_it() {
    for seconds in [-500, 100] {
        let (mut i, begun) = running();
        i.now = begun.after(Span::seconds(60));
        i.restart();
        i.reach("0-1");
        let at = ended_at(begun.after(Span::seconds(seconds)));
        i.hello(1, &[(part(1, 0), PartState::Ended(at.clone()))]);
        i.hello(2, &[(part(1, 1), PartState::Ended(at))]);
        let expected = if seconds < 0 { 0 } else { 60 };
        assert_eq!(ends(&i, begun)[0], ("finish", expected));
    }
}
