//! Jobs that were passed down and wait again: why they do, when they are planned, and where they go.

use std::sync::Arc;

use eddy_broker::effect::ParentWord;
use eddy_broker::{Arrival, Effect};
use eddy_modules::live::{By, Change, Live};
use eddy_wire::event::{Event, Kind, Record};
use eddy_wire::id::{Attempt, Epoch, JobId, Rank, Seq};
use eddy_wire::plan::Delta;
use eddy_wire::services::child::{Adopt, FromParent, PassState};
use eddy_wire::services::job::{
    JobSet, Raise, RaiseRequest, RequeueJob, RequeueRequest, Scope, Urgency, UrgencyRequest,
};
use eddy_wire::shell::{Ended, FromShell, Part};
use eddy_wire::time::Span;
use serde_json::json;

use crate::nest_stand::*;
use crate::pass::*;

const USER_CHANNEL: u64 = 9;

fn is_planned(effects: &[Effect]) -> bool {
    let wants = |delta: &Delta| matches!(delta, Delta::Want(..));
    effects
        .iter()
        .any(|effect| matches!(effect, Effect::Plan(deltas) if deltas.iter().any(wants)))
}

#[test]
fn no_user_ends_a_job_by_a_word_that_means_something_here() {
    let mut stand = Stand::with_children(&with_batch());
    for word in ["bounce", "hung", "requeue", "node-failure"] {
        let request = RaiseRequest {
            declared: None,
            jobs: JobSet::one(OWN),
            states: Vec::new(),
            job_set: None,
            scope: Scope::default(),
            kind: word.to_owned(),
            severity: 0,
            note: String::new(),
        };
        let told = stand.ask::<Raise>(CLIENT, USER, &request);
        let text = format!("type: `{word}` is eddy's own; any other word is allowed");
        assert_eq!(told.refusal(), text);
    }
    assert!(!stand.names(OWN).contains(&"exception"));
}

#[test]
fn what_a_user_calls_a_bounce_is_an_end() {
    let (mut stand, _) = passed();
    tells(&mut stand, 1, PassState::Running);
    let mut by_user = exception("bounce");
    by_user.userid = Some(USER);
    tells(&mut stand, 1, over(Some(15), Some(by_user)));
    let names = stand.names(JOB);
    assert!(!names.contains(&"recalled"), "{names:?}");
    assert_eq!(names.last(), Some(&"clean"));
}

#[test]
fn one_that_came_back_rests_once_for_each_time() {
    let (mut stand, _) = passed();
    tells(&mut stand, 1, over(None, Some(exception("bounce"))));
    stand.now = stand.now.after(Span::seconds(6));
    assert!(is_planned(&stand.tell(Arrival::Tick)), "it has rested");
    let request = UrgencyRequest {
        jobs: JobSet::one(JOB),
        job_set: None,
        scope: Scope::default(),
        urgency: 10,
    };
    let effects = stand.call::<Urgency>(CLIENT, USER, &request);
    assert_eq!(stand.names(JOB).last(), Some(&"priority"));
    assert!(is_planned(&effects), "{effects:?}");
}

#[test]
fn the_next_attempt_goes_where_its_queue_leads_by_now() {
    let settings = with_batch();
    let mut stand = Stand::with_children(&settings);
    with_shells(&mut stand);
    adopt(&mut stand, CHANNEL, BATCH);
    // One that is an instance, too: it becomes a child here.
    stand.submit(CLIENT, USER, json!({"queue": "long", "instance": {}}));
    starts(&mut stand, JOB, core([3], 1));
    tells(&mut stand, 1, PassState::Running);
    let request = RequeueRequest {
        declared: None,
        jobs: JobSet::one(JOB),
        attempt: None,
        note: String::new(),
    };
    stand.call::<RequeueJob>(CLIENT, USER, &request);
    tells(&mut stand, 1, over(Some(15), None));
    assert_eq!(stand.names(JOB).last(), Some(&"priority"));
    let mut here = settings;
    here.declared.clear();
    here.queues[0].instance = None;
    let mut stand = stand.again(&here);
    with_shells(&mut stand);
    // There is room once the other instance is over.
    for rank in 0..2 {
        let part = Part {
            job: OWN,
            attempt: Attempt(1),
            rank: Rank(rank),
        };
        let ended = Ended {
            t: stand.now,
            status: 0,
            note: None,
            tasks: Default::default(),
        };
        let word = FromShell::Ended { part, ended };
        stand.tell(Arrival::Shell(Epoch(u64::from(rank) + 1), word));
    }
    let effects = starts(&mut stand, JOB, core([0], 1));
    assert_eq!(stand.names(JOB).last(), Some(&"alloc"), "{effects:?}");
    let mut request = hello(JOB);
    request.child.attempt = Attempt(2);
    let effects = stand.call::<Adopt>(USER_CHANNEL, USER, &request);
    let is_grant = |told: &Told| matches!(told.word(), FromParent::Granted(_));
    let heard = told(&effects, USER_CHANNEL);
    assert!(heard.iter().any(is_grant), "{heard:?}");
}

#[test]
fn an_attempt_that_waits_for_an_earlier_one_and_is_to_end_never_begins() {
    let (job, rank) = (JobId(77), 2);
    for word in [
        ParentWord::End(job, Attempt(2), Box::new(exception("cancel"))),
        ParentWord::Forget(job, Attempt(2)),
    ] {
        let mut stand = child();
        with_shells(&mut stand);
        stand.tell(comes(1, rank));
        stand.tell(comes(2, rank));
        assert_eq!(stand.names(job).last(), Some(&"exception"));
        let is_end = matches!(word, ParentWord::End(..));
        let told = said(&stand.tell(Arrival::Parent(word)));
        let over = |state: &PassState| matches!(state, PassState::Over { began: false, .. });
        assert_eq!(told.iter().any(over), is_end, "{told:?}");
        stand.tell(Arrival::ShellDead(Epoch(u64::from(rank) + 1)));
        stand.tell(Arrival::Parent(ParentWord::Forget(job, Attempt(1))));
        let names = stand.names(job);
        assert_eq!(names.last(), Some(&"waited"));
        let submits = names.iter().filter(|name| **name == "submit").count();
        assert_eq!(submits, 1, "{names:?}");
    }
}

#[test]
fn one_that_waits_goes_where_a_start_with_another_file_leads_it() {
    let settings = with_batch();
    let mut stand = Stand::with_children(&settings);
    let live = Live::of(&settings);
    let change = Change {
        over: live.hash(),
        userid: 0,
        by: By::Set(Vec::new()),
        changed: Vec::new(),
        restart: Vec::new(),
        warned: Vec::new(),
        live,
        keys: Default::default(),
        given: Vec::new(),
    };
    let event = Event {
        t: stand.now,
        job: None,
        kind: Kind::Memo(change.memo()),
    };
    let seq = Seq(stand.records.len() as u64 + 1);
    stand.records.push(Arc::new(Record { seq, event }));
    let mut stand = stand.again(&settings);
    stand.submit(CLIENT, USER, json!({"queue": "long"}));
    let mut here = settings;
    here.declared.clear();
    here.queues[0].instance = None;
    let stand = stand.again(&here);
    let is_led_here =
        |delta: &Delta| matches!(delta, Delta::Want(JOB, want) if want.owner.line.is_none());
    let told = stand.resumed.iter().filter_map(|effect| match effect {
        Effect::Plan(deltas) => Some(deltas),
        _ => None,
    });
    let told: Vec<&Delta> = told.flatten().collect();
    assert!(told.iter().any(|delta| is_led_here(delta)), "{told:?}");
}
