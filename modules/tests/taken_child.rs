//! What a queue instance takes and begins while its parent is away, and how it says so.

use crate::nest_stand::*;
use crate::pass::*;
use bytes::Bytes;
use eddy_broker::effect::{ParentWord, ToParent};
use eddy_broker::{Arrival, Effect};
use eddy_modules::Settings;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{IdBlock, Pass};
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Outcome, Reason, Verdict};
use eddy_wire::services::child::{ChildOf, Closed, Granted, Passed, QueueAbove};
use eddy_wire::services::job::{JobSet, Scope, Submit, Submitted, Urgency, UrgencyRequest};
use eddy_wire::shell::FromShell;
use eddy_wire::time::Span;
use serde_json::json;

/// The first of the numbers that it drew.
const FIRST: JobId = JobId(100);

/// Of a queue instance.
pub fn child_settings() -> Settings {
    let mut settings = settings();
    settings.place.name = Some("batch".to_owned());
    settings.place.child = Some(ChildOf {
        job: BATCH,
        attempt: Attempt(1),
    });
    settings
}

/// Four nodes of its own, a queue, and nodes that its parent has closed.
pub fn granted(closed: &[Closed]) -> Arrival {
    let queue = QueueAbove {
        name: "long".to_owned(),
        ..QueueAbove::default()
    };
    let mut of = grants();
    let shells = (0..4).map(|rank| (Rank(rank), Epoch(u64::from(rank) + 1)));
    (of.grant.set, of.grant.shells) = (inventory(), shells.collect());
    Arrival::Parent(ParentWord::Granted(Box::new(Granted {
        room: None,
        queues: vec![queue],
        closed: closed.to_vec(),
        ..of
    })))
}

/// It took a job while its parent was away, which is silent for half a minute since.
fn alone(closed: &[Closed]) -> (Stand, Vec<Effect>) {
    let mut stand = Stand::with_nodes(&child_settings());
    stand.tell(granted(closed));
    let block = IdBlock {
        number: 1,
        first: FIRST,
        count: 1024,
    };
    stand.tell(Arrival::Parent(ParentWord::Ids(block)));
    let shell = FromShell::Hello {
        instance: "parent".to_owned(),
        pid: 1,
        version: 1,
        epoch: Epoch(1),
        parts: Vec::new(),
    };
    stand.tell(Arrival::Shell(Epoch(1), shell));
    stand.tell(Arrival::Parent(ParentWord::Away));
    stand.submit(CLIENT, USER, json!({"queue": "long", "duration": 60}));
    assert_eq!(
        stand.names(FIRST).first(),
        Some(&"submit"),
        "{:?}",
        stand.records
    );
    stand.now = stand.now.after(Span::seconds(31));
    let effects = stand.tell(Arrival::Tick);
    (stand, effects)
}

/// And begun.
fn begun() -> Stand {
    let (mut stand, _) = alone(&[]);
    starts(&mut stand, FIRST, core([0], 1));
    assert_eq!(stand.names(FIRST).last(), Some(&"alloc"));
    stand
}

fn parents(effects: &[Effect]) -> Vec<&'static str> {
    let said = effects.iter().filter_map(|effect| match effect {
        Effect::Parent(ToParent::TakenUp(..)) => Some("taken up"),
        Effect::Parent(ToParent::Settled(_)) => Some("settled"),
        Effect::Parent(ToParent::Told(_)) => Some("told"),
        _ => None,
    });
    said.collect()
}

fn answers(stand: &mut Stand, outcome: Result<Submitted, Refusal>) -> Vec<&'static str> {
    let word = ParentWord::TakenUp(FIRST, outcome);
    parents(&stand.tell(Arrival::Parent(word)))
}

#[test]
fn what_has_begun_is_told_before_this_was_all_is_said() {
    let mut stand = begun();
    assert_eq!(parents(&stand.tell(granted(&[]))), ["taken up"]);
    let (first, count) = (FIRST, 1);
    let said = answers(&mut stand, Ok(Submitted { first, count }));
    assert_eq!(said, ["told", "settled"]);
}

#[test]
fn what_has_begun_goes_on_though_the_parent_refuses_it() {
    let mut stand = begun();
    stand.tell(granted(&[]));
    let said = answers(&mut stand, Err(Refusal::invalid("no such queue")));
    assert_eq!(said, ["settled"]);
    assert_eq!(stand.names(FIRST).last(), Some(&"alloc"), "it is not ended");
    stand.tell(Arrival::Parent(ParentWord::Away));
    assert_eq!(
        parents(&stand.tell(granted(&[]))),
        ["taken up"],
        "the next may take it"
    );
}

#[test]
fn while_the_parent_cannot_take_what_has_begun_nothing_is_to_be_planned_for_it() {
    let mut stand = begun();
    stand.tell(granted(&[]));
    let said = answers(
        &mut stand,
        Err(Refusal::new(Code::Busy, "the disk is full")),
    );
    assert!(said.is_empty(), "{said:?}");
    stand.now = stand.now.after(Span::seconds(6));
    assert_eq!(parents(&stand.tell(Arrival::Tick)), ["taken up"]);
}

#[test]
fn what_has_not_begun_ends_where_the_parent_refuses_it() {
    let (mut stand, _) = alone(&[]);
    stand.tell(granted(&[]));
    let said = answers(&mut stand, Err(Refusal::invalid("no such queue")));
    assert!(said.contains(&"settled"), "{said:?}");
    assert_eq!(stand.names(FIRST).last(), Some(&"clean"));
}

#[test]
fn who_holds_one_here_that_the_parent_orders_is_told_where_to_say_it() {
    let (mut stand, _) = alone(&[]);
    let hold = UrgencyRequest {
        jobs: JobSet::one(FIRST),
        job_set: None,
        scope: Scope::Named,
        urgency: 0,
    };
    let held = stand.ask::<Urgency>(CLIENT, USER, &hold);
    assert_eq!(held.body["count"], 1, "{held:?}");
    stand.tell(granted(&[]));
    let release = UrgencyRequest {
        urgency: 16,
        ..hold.clone()
    };
    for heard in [true, false] {
        let refused = stand.ask::<Urgency>(CLIENT, USER, &release);
        let why = refused.body["refused"][0][1].as_str().unwrap_or_default();
        assert!(why.contains("say it there"), "{refused:?}");
        if heard {
            let (first, count) = (FIRST, 1);
            answers(&mut stand, Ok(Submitted { first, count }));
            stand.tell(Arrival::Parent(ParentWord::Away));
        }
    }
    assert_eq!(stand.names(FIRST).last(), Some(&"memo"), "nothing changed");
}

#[test]
fn so_many_are_handed_up_at_a_time() {
    let (mut stand, _) = alone(&[]);
    for _ in 0..39 {
        stand.submit(CLIENT, USER, json!({"queue": "long", "duration": 60}));
    }
    let hold = UrgencyRequest {
        jobs: JobSet::one(FIRST),
        job_set: None,
        scope: Scope::Named,
        urgency: 0,
    };
    stand.ask::<Urgency>(CLIENT, USER, &hold);
    let second = JobId(FIRST.0 + 1);
    starts(&mut stand, second, core([0], 1));
    let up = handed_up(&stand.tell(granted(&[])));
    assert_eq!(
        (up.len(), up[0]),
        (32, second.0),
        "what has begun before all"
    );
    let (first, count) = (second, 1);
    let word = ParentWord::TakenUp(second, Ok(Submitted { first, count }));
    let effects = stand.tell(Arrival::Parent(word));
    assert_eq!(handed_up(&effects).len(), 1);
    let said = parents(&effects);
    assert_eq!(
        said,
        ["taken up", "told", "settled"],
        "of the others nothing has begun"
    );
    let open = effects.iter().find_map(|effect| match effect {
        Effect::Parent(ToParent::Settled(open)) => Some(*open),
        _ => None,
    });
    assert_eq!(open, Some(39), "and they are not answered for");
}

#[test]
fn what_the_parent_has_made_another_job_comes_as_another_attempt() {
    let (mut stand, _) = alone(&[]);
    stand.tell(granted(&[]));
    let (first, count) = (FIRST, 1);
    answers(&mut stand, Ok(Submitted { first, count }));
    let record = &stand.records;
    let submit = record.iter().find_map(|record| match &record.event.kind {
        eddy_wire::event::Kind::Submit(submit) => Some(std::sync::Arc::clone(submit)),
        _ => None,
    });
    let submit = submit.expect("it was submitted");
    let text = String::from_utf8(submit.spec.text.to_vec()).expect("a text");
    let other = text.replace("60", "90");
    assert_eq!((other.len(), other == text), (text.len(), false));
    let pass = |text: &str| {
        let passed = Passed {
            job: FIRST,
            pass: Pass {
                attempt: Attempt(1),
                set: core([2], 2),
                with: None,
                taken: Default::default(),
            },
            user: USER,
            urgency: 16,
            cc: None,
            party: Default::default(),
            key: submit.key,
            index: 0,
            count: 1,
            sent: None,
            jobspec: None,
            environment: None,
            jobspec_bytes: text.len() as u32,
        };
        let tail = [text.as_bytes(), &submit.spec.environment_text[..]].concat();
        Arrival::Parent(ParentWord::Pass(Box::new(passed), Bytes::from(tail)))
    };
    let effects = stand.tell(pass(&other));
    let states = said(&effects);
    let over = states.last();
    assert!(
        matches!(over, Some(eddy_wire::services::child::PassState::Over { exception: Some(why), .. })
            if why.kind == "bounce"),
        "{states:?}"
    );
    assert!(!stand.names(FIRST).contains(&"alloc"));
}

#[test]
fn what_waits_for_another_is_handed_up_when_the_parent_has_taken_that() {
    let (mut stand, _) = alone(&[]);
    let waits = |scheme: &str, value: &str| {
        let dependency = json!({"scheme": scheme, "value": value});
        json!({"queue": "long", "duration": 60, "dependencies": [dependency]})
    };
    stand.submit(CLIENT, USER, waits("afterok", "100"));
    stand.submit(CLIENT, USER, waits("singleton", ""));
    stand.submit(CLIENT, USER, json!({"queue": "long", "duration": 60}));
    assert_eq!(handed_up(&stand.tell(granted(&[]))), [100, 103]);
    let count = 1;
    // It begins nothing by itself any more: that nothing has begun was said at once.
    let mut taken = |first| {
        let first = JobId(first);
        let word = ParentWord::TakenUp(first, Ok(Submitted { first, count }));
        let effects = stand.tell(Arrival::Parent(word));
        let is_settled = parents(&effects).contains(&"settled");
        (handed_up(&effects), is_settled)
    };
    assert_eq!(taken(103), (vec![], false));
    assert_eq!(taken(100), (vec![101], false));
    assert_eq!(taken(101), (vec![102], false));
    assert_eq!(taken(102), (vec![], true));
}

#[test]
fn what_waits_for_another_that_the_parent_cannot_take_yet_waits_for_it() {
    let (mut stand, _) = alone(&[]);
    let waits = json!({"queue": "long", "dependencies": [{"scheme": "afterany", "value": "100"}]});
    stand.submit(CLIENT, USER, waits);
    stand.tell(granted(&[]));
    let said = answers(
        &mut stand,
        Err(Refusal::new(Code::Busy, "the disk is full")),
    );
    assert!(!said.contains(&"taken up"), "{said:?}");
    stand.now = stand.now.after(Span::seconds(6));
    assert_eq!(handed_up(&stand.tell(Arrival::Tick)), [100]);
    // Over another channel all is said again.
    stand.tell(Arrival::Parent(ParentWord::Away));
    assert_eq!(handed_up(&stand.tell(granted(&[]))), [100]);
}

fn handed_up(effects: &[Effect]) -> Vec<u64> {
    let said = effects.iter().filter_map(|effect| match effect {
        Effect::Parent(ToParent::TakenUp(_, taken)) => Some(taken.first.0),
        _ => None,
    });
    said.collect()
}

fn wanted_ranks(effects: &[Effect]) -> Option<String> {
    let plans = effects.iter().filter_map(|effect| match effect {
        Effect::Plan(deltas) => Some(deltas),
        _ => None,
    });
    let mut wants = plans.flatten().filter_map(|delta| match delta {
        Delta::Want(job, want) if *job == FIRST => want.request.ranks.as_ref(),
        _ => None,
    });
    wants.next_back().map(|ranks| ranks.to_string())
}

fn closed(ranks: u32, from: Option<i64>) -> Closed {
    let from = from.map(|seconds| START.after(Span::seconds(seconds)));
    Closed {
        ranks: Idset::one(ranks),
        from,
        until: from.map(|from| from.after(Span::seconds(3600))),
    }
}

#[test]
fn nothing_begins_on_nodes_that_the_parent_has_drained_or_keeps_before_it_would_end() {
    // The lease of an hour and the minute of the job are over by then.
    let later = closed(3, Some(3700));
    let (_, effects) = alone(&[closed(0, None), closed(1, Some(3600)), later]);
    assert_eq!(wanted_ranks(&effects).as_deref(), Some("2-3"));
    let (_, effects) = alone(&[]);
    assert_eq!(wanted_ranks(&effects), None);
}

#[test]
fn what_fits_on_none_of_the_others_waits_for_the_parent() {
    let (mut stand, _) = alone(&[closed(0, None)]);
    let reason = Reason::NeverInAll {
        asked: 9,
        most: 3,
        what: "nodes".to_owned(),
    };
    let outcome = Outcome {
        verdicts: vec![(FIRST, Verdict::Never(reason))],
        ..Outcome::default()
    };
    stand.tell(Arrival::Planned(outcome));
    assert_eq!(
        stand.names(FIRST).last(),
        Some(&"priority"),
        "it is not ended"
    );
}

/// Its parent has it run elsewhere, or keeps it: nothing of it is recorded here.
#[test]
fn what_the_parent_took_is_no_second_job_while_it_is_away() {
    let mut stand = Stand::with_nodes(&child_settings());
    stand.tell(granted(&[]));
    let block = IdBlock {
        number: 1,
        first: FIRST,
        count: 1024,
    };
    stand.tell(Arrival::Parent(ParentWord::Ids(block)));
    let asked = submit_request(stand.now, 7, json!({"queue": "long", "duration": 60}));
    let effects = stand.call::<Submit>(CLIENT, USER, &asked);
    let tag = effects.iter().find_map(|effect| match effect {
        Effect::Parent(ToParent::Submit(tag, _)) => Some(*tag),
        _ => None,
    });
    let (first, count) = (JobId(90), 1);
    let taken = Ok(Submitted { first, count });
    let tag = tag.expect("it is handed up");
    stand.tell(Arrival::Parent(ParentWord::Submitted(tag, taken)));
    stand.tell(Arrival::Parent(ParentWord::Away));
    let effects = stand.call::<Submit>(CLIENT, USER, &asked);
    assert_eq!(
        told(&effects, CLIENT)[0].body,
        json!({"first": 90, "count": 1})
    );
    assert!(stand.names(FIRST).is_empty());
}
