//! What an instance says that it took and began is taken in once, and nothing else is done with it before.

use std::sync::Arc;

use crate::nest_stand::*;
use crate::pass::*;
use crate::taken::*;
use eddy_broker::{Arrival, Effect};
use eddy_wire::event::{Kind, Submit};
use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Outcome, Verdict};
use eddy_wire::services::child::{FromParent, PassState, Told as TellsOf, ToldRequest};
use eddy_wire::services::job::{JobSet, Raise, RaiseRequest, Scope};
use serde_json::json;

fn wants(effects: &[Effect], of: JobId) -> bool {
    let is_it = |delta: &&Delta| matches!(delta, Delta::Want(job, _) if *job == of);
    deltas(effects).iter().any(is_it)
}

fn accepts(stand: &mut Stand, job: JobId) -> Vec<Effect> {
    let mut told = began_of(job, 1, PassState::Accepted);
    (told.began, told.begun) = (None, None);
    let jobs = vec![told];
    let of = crate::taken::child();
    stand.call::<TellsOf>(NEXT, 0, &ToldRequest { child: of, jobs })
}

#[test]
fn what_has_begun_is_not_begun_here_though_its_queue_leads_nowhere_now() {
    let mut settings = with_batch();
    settings.queues.remove(0);
    let (mut stand, first) = back(&settings);
    hello_only(&mut stand);
    let effects = hands_up_all(&mut stand, first, &[first]);
    assert!(!wants(&effects, first), "{effects:?}");
    // A verdict that was on its way finds it taken.
    let mut outcome = Outcome::default();
    outcome.verdicts.push((first, Verdict::Start(core([3], 1))));
    stand.tell(Arrival::Planned(outcome));
    assert_eq!(
        stand.names(first),
        ["submit", "validate", "depend", "priority"]
    );
    // Nor does the next leader.
    let mut next = stand.again(&settings);
    let effects = next.tell(Arrival::Tick);
    assert!(!wants(&effects, first), "{effects:?}");
    hello_only(&mut stand);
    says(&mut stand, first, 5, PassState::Running);
    settles(&mut stand);
    assert_eq!(stand.names(first)[4..], ["passed", "alloc", "start"]);
}

#[test]
fn what_an_instance_took_and_knows_nothing_of_is_lost_with_it() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    hands_up(&mut stand, first, &[first]);
    hello_only(&mut stand);
    settles(&mut stand);
    let (kind, note) = ending(&stand, first);
    assert_eq!(kind, "node-failure");
    assert!(
        note.ends_with("took it, and has lost what became of it"),
        "{note}"
    );
    assert_eq!(stand.names(first).last(), Some(&"clean"));
}

#[test]
fn what_an_instance_took_is_planned_when_it_says_that_it_waits_there() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    settles(&mut stand);
    let effects = hands_up_all(&mut stand, first, &[]);
    assert!(
        !wants(&effects, first),
        "its instance may not know of it: {effects:?}"
    );
    // The next leader does not know either.
    let mut stand = stand.again(&with_batch());
    let effects = stand.tell(Arrival::Tick);
    assert!(!wants(&effects, first), "{effects:?}");
    hello_only(&mut stand);
    accepts(&mut stand, first);
    assert_eq!(stand.names(first).last(), Some(&"memo"));
    let effects = settles(&mut stand);
    assert!(wants(&effects, first), "{effects:?}");
    // That stands: it is not said twice.
    accepts(&mut stand, first);
    let names = stand.names(first);
    assert_eq!(names.iter().filter(|name| **name == "memo").count(), 1);
    settles(&mut stand);
    assert_eq!(stand.names(first), names, "it waits, and is not lost");
    // One that comes after is planned as soon as that is said of it.
    let second = JobId(first.0 + 1);
    hands_up(&mut stand, second, &[]);
    let effects = accepts(&mut stand, second);
    assert!(wants(&effects, second), "{effects:?}");
}

#[test]
fn one_that_a_filter_took_out_of_its_queue_is_planned_like_the_others() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    hands_up(&mut stand, first, &[]);
    let (_, other) = running(first, USER, json!({}), [0, 1]).swap_remove(0);
    let Kind::Submit(other) = other else {
        panic!("a submission comes first");
    };
    for record in &mut stand.records {
        if let (Kind::Submit(submit), Some(job)) = (&record.event.kind, record.event.job)
            && job == first
        {
            let submit = Submit {
                spec: Arc::clone(&other.spec),
                ..submit.as_ref().clone()
            };
            Arc::make_mut(record).event.kind = Kind::Submit(Arc::new(submit));
        }
    }
    let mut stand = stand.again(&with_batch());
    hello_only(&mut stand);
    let effects = accepts(&mut stand, first);
    assert!(wants(&effects, first), "{effects:?}");
    stand.call::<Raise>(CLIENT, USER, &raise(first));
    assert_eq!(
        stand.names(first).last(),
        Some(&"clean"),
        "it is this instance's"
    );
}

#[test]
fn who_cancels_all_ends_nothing_that_may_have_begun() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    hands_up(&mut stand, first, &[first]);
    let all = RaiseRequest {
        declared: None,
        jobs: JobSet::default(),
        scope: Scope::All,
        ..raise(first)
    };
    stand.call::<Raise>(CLIENT, USER, &all);
    assert_eq!(stand.names(first).last(), Some(&"priority"));
    says(&mut stand, first, 5, PassState::Running);
    settles(&mut stand);
    stand.call::<Raise>(CLIENT, USER, &all);
    assert_eq!(ending(&stand, first).0, "cancel");
}

#[test]
fn what_ended_on_nodes_that_have_left_does_not_run_again() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    hands_up(&mut stand, first, &[first]);
    let mut told = began_of(first, 5, over(Some(0), None));
    let begun = told.begun.as_mut().expect("it says so");
    begun.set = core([7], 1);
    tell(&mut stand, told);
    settles(&mut stand);
    let (kind, note) = ending(&stand, first);
    assert_eq!(kind, "exec");
    assert!(
        note.ends_with("it ended there with the wait status 0"),
        "{note}"
    );
    assert_eq!(stand.names(first).last(), Some(&"clean"));
}

#[test]
fn an_instance_hands_up_its_own_numbers_once() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    hands_up(&mut stand, first, &[first]);
    let other = hands_up_as(&mut stand, (first, JobId(first.0 + 1)), &[first]);
    assert!(
        other.refusal().contains("is of another submission"),
        "{other:?}"
    );
    let beyond = hands_up(&mut stand, first, &[JobId(first.0 + 1)]);
    assert!(beyond.refusal().contains("taken.begun: "), "{beyond:?}");
    let drawn = hands_up(&mut stand, JobId(first.0 + 5000), &[]);
    assert!(drawn.refusal().contains("has drawn"), "{drawn:?}");
    assert_eq!(stand.names(first)[..1], ["submit"]);
    says(&mut stand, first, 5, PassState::Running);
    let words = of(&settles(&mut stand));
    assert!(
        !words
            .iter()
            .any(|word| matches!(word, FromParent::End { .. })),
        "{words:?}"
    );
}
