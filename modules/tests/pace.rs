//! Jobs in queue instances that stop for a while: what their parent says and records, and what its child
//! does.

use eddy_broker::Arrival;
use eddy_broker::effect::ParentWord;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::plan::Delta;
use eddy_wire::services::child::{FromParent, PassState};
use eddy_wire::services::job::{JobSet, REMARKS_MAX, Resume, Scope, Suspend, SuspendRequest};
use eddy_wire::shell::{FromShell, Part};

use crate::nest_stand::*;
use crate::pass::*;
use crate::taken::deltas;

fn of_the_job() -> SuspendRequest {
    SuspendRequest {
        jobs: JobSet::one(JOB),
        job_set: None,
        scope: Scope::Named,
    }
}

#[test]
fn a_job_is_stopped_so_often_and_always_goes_on() {
    let (mut stand, _) = passed();
    tells(&mut stand, 1, PassState::Running);
    let request = of_the_job();
    for _ in 0..REMARKS_MAX {
        let told = stand.ask::<Suspend>(CLIENT, USER, &request);
        assert_eq!(told.body["count"], 1, "{told:?}");
        let told = stand.ask::<Resume>(CLIENT, USER, &request);
        assert_eq!(told.body["count"], 1, "{told:?}");
    }
    let told = stand.ask::<Suspend>(CLIENT, USER, &request);
    let limit = "the limit `remarks` of an attempt is 1000, all are made";
    assert!(told.body.to_string().contains(limit), "{told:?}");
}

#[test]
fn who_is_stopped_gives_cores_when_its_instance_has_stopped_it_for_the_last_time() {
    let (mut stand, _) = passed();
    tells(&mut stand, 1, PassState::Running);
    let request = of_the_job();
    let first = stand.call::<Suspend>(CLIENT, USER, &request);
    let back = stand.call::<Resume>(CLIENT, USER, &request);
    let second = stand.call::<Suspend>(CLIENT, USER, &request);
    let said = [words(&first), words(&back), words(&second)].concat();
    let [
        FromParent::Pause { stop: 1, .. },
        FromParent::Proceed { cores, .. },
        FromParent::Pause { stop: 2, .. },
    ] = &said[..]
    else {
        panic!("{said:?}")
    };
    assert_eq!(*cores, core_of_child());
    tells(&mut stand, 1, PassState::Stopped { stop: 1 });
    assert_eq!(
        stand.names(JOB)[7..],
        ["suspend", "resume", "suspend"],
        "what came of the first counts no more"
    );
    let again = tells(&mut stand, 1, PassState::Running);
    assert!(
        matches!(again[..], [FromParent::Pause { stop: 2, .. }]),
        "it may have begun after it was told to stop: {again:?}"
    );
    tells(&mut stand, 1, PassState::Stopped { stop: 2 });
    tells(&mut stand, 1, PassState::Stopped { stop: 2 });
    assert_eq!(stand.names(JOB)[10..], ["grant-changed"]);
    let again = adopt(&mut stand, CHANNEL + 1, BATCH);
    let again: Vec<FromParent> = told(&again, CHANNEL + 1).iter().map(Told::word).collect();
    assert!(
        matches!(&again[2..], [FromParent::Pause { stop: 2, .. }]),
        "it is said again over another channel: {again:?}"
    );
    stand.call::<Resume>(CLIENT, USER, &request);
    let effects = starts(&mut stand, JOB, core([3], 0));
    let said: Vec<FromParent> = told(&effects, CHANNEL + 1).iter().map(Told::word).collect();
    let [FromParent::Proceed { cores, .. }] = &said[..] else {
        panic!("{said:?}")
    };
    let its: Vec<_> = cores
        .nodes
        .iter()
        .map(|(rank, node)| (*rank, node.cores.clone()))
        .collect();
    assert_eq!(its, [(Rank(1), Idset::one(0))]);
}

#[test]
fn who_is_over_while_it_waits_for_its_cores_wants_none() {
    let (mut stand, _) = passed();
    tells(&mut stand, 1, PassState::Running);
    let request = of_the_job();
    stand.call::<Suspend>(CLIENT, USER, &request);
    tells(&mut stand, 1, PassState::Stopped { stop: 1 });
    stand.call::<Resume>(CLIENT, USER, &request);
    let effects = tells_all(&mut stand, 1, over(Some(9), None));
    let told = deltas(&effects);
    assert!(
        matches!(
            told[..],
            [
                Delta::Unwant(JOB),
                Delta::Settled(JOB, ..),
                Delta::Freed(JOB),
                ..
            ]
        ),
        "{told:?}"
    );
}

#[test]
fn one_that_is_to_stop_before_it_runs_stops_when_it_is_told_again() {
    let mut stand = child();
    stand.tell(comes(1, 2));
    let pause = |by| Arrival::Parent(ParentWord::Pause(JobId(77), Attempt(1), 1, by));
    stand.tell(pause(None));
    assert_eq!(stand.names(JobId(77)).last(), Some(&"priority"));
    with_shells(&mut stand);
    assert_eq!(stand.names(JobId(77)).last(), Some(&"alloc"));
    stand.tell(pause(None));
    stand.tell(pause(None));
    assert_eq!(stand.names(JobId(77))[4..], ["alloc", "suspend"]);
    stand.tell(pause(Some(USER)));
    assert_eq!(
        stand.names(JobId(77))[6..],
        ["suspend"],
        "a person wants it, too"
    );
}

#[test]
fn that_it_had_stopped_for_an_earlier_time_says_nothing_of_this_one() {
    let mut stand = child();
    with_shells(&mut stand);
    stand.tell(comes(1, 2));
    let part = Part {
        job: JobId(77),
        attempt: Attempt(1),
        rank: Rank(2),
    };
    let shell = |stand: &mut Stand, word| stand.tell(Arrival::Shell(Epoch(3), word));
    shell(&mut stand, FromShell::Started { part, t: START });
    let paused = |stop| FromShell::Paused { part, stop };
    let word = |word| Arrival::Parent(word);
    let pause = |stop| word(ParentWord::Pause(part.job, part.attempt, stop, None));
    stand.tell(pause(1));
    stand.tell(word(ParentWord::Proceed(
        part.job,
        part.attempt,
        core([2], 2),
    )));
    shell(&mut stand, paused(1));
    let effects = stand.tell(pause(2));
    assert_eq!(
        stand.names(part.job)[4..],
        ["alloc", "start", "suspend", "resume", "suspend"]
    );
    assert_eq!(said(&effects), []);
    // One that was on its way until then is of the stop that was taken back.
    let effects = shell(&mut stand, paused(1));
    assert_eq!(said(&effects), []);
    assert_eq!(stand.names(part.job).len(), 9);
    let effects = shell(&mut stand, paused(2));
    assert_eq!(said(&effects), [PassState::Stopped { stop: 2 }]);
    assert_eq!(stand.names(part.job)[9..], ["grant-changed"]);
}
