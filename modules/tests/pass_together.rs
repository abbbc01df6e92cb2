//! Members of a gang that a parent passed down at once: they start together, or go back together.

use eddy_broker::{Arrival, ParentWord};
use eddy_wire::event::{Pass, Together};
use eddy_wire::id::JobId;
use eddy_wire::services::child::{PassState, Passed};
use eddy_wire::time::Span;

use crate::pass::{child, comes, said, with_shells};

/// One of two that are passed down at once, of which 77 is the first.
fn comes_with(job: u64, rank: u32) -> Arrival {
    let Arrival::Parent(ParentWord::Pass(passed, tail)) = comes(1, rank) else {
        panic!("a pass")
    };
    let with = Some(Together {
        first: JobId(77),
        count: 2,
    });
    let pass = Pass {
        with,
        ..passed.pass
    };
    let job = JobId(job);
    Arrival::Parent(ParentWord::Pass(
        Box::new(Passed {
            job,
            pass,
            ..*passed
        }),
        tail,
    ))
}

#[test]
fn those_that_are_passed_with_each_other_start_together() {
    let mut stand = child();
    with_shells(&mut stand);
    stand.tell(comes_with(77, 2));
    assert_eq!(
        stand.names(JobId(77)).last(),
        Some(&"priority"),
        "the other is not there"
    );
    stand.tell(comes_with(78, 3));
    for job in [77, 78] {
        assert_eq!(stand.names(JobId(job)).last(), Some(&"alloc"), "{job}");
    }
}

#[test]
fn those_that_are_passed_with_each_other_go_back_together() {
    // There is no shell.
    let mut stand = child();
    stand.tell(comes_with(78, 3));
    stand.tell(comes_with(77, 2));
    stand.now = stand.now.after(Span::seconds(11));
    let effects = stand.tell(Arrival::Tick);
    let ends = said(&effects);
    let bounce = |state: &PassState| matches!(state, PassState::Over { began: false, exception: Some(why), .. } if why.kind == "bounce");
    assert!(ends.len() == 2 && ends.iter().all(bounce), "{effects:?}");
}

#[test]
fn one_who_comes_late_keeps_its_mate_from_going_back_before_it() {
    // There is no shell.
    let mut stand = child();
    stand.tell(comes_with(77, 2));
    stand.now = stand.now.after(Span::seconds(8));
    stand.tell(comes_with(78, 3));
    stand.now = stand.now.after(Span::seconds(3));
    assert_eq!(said(&stand.tell(Arrival::Tick)).len(), 0);
    stand.now = stand.now.after(Span::seconds(8));
    assert_eq!(said(&stand.tell(Arrival::Tick)).len(), 2);
}

#[test]
fn one_whose_mate_comes_no_more_goes_back() {
    let mut stand = child();
    with_shells(&mut stand);
    stand.tell(comes_with(77, 2));
    stand.now = stand.now.after(Span::seconds(11));
    let effects = stand.tell(Arrival::Tick);
    let [
        PassState::Over {
            began: false,
            exception: Some(why),
            ..
        },
    ] = &said(&effects)[..]
    else {
        panic!("{effects:?}")
    };
    assert_eq!(
        why.note,
        "1 of 2 that start together were there for 10.000000 s"
    );
}
