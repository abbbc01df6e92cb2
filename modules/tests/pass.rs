//! Jobs that a parent passes down: what it says and records, and what its child does.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::nest_stand::*;
use bytes::Bytes;
use eddy_broker::effect::{ParentWord, ToParent};
use eddy_broker::{Arrival, Effect};
use eddy_wire::event::{Adoption, Exception, Kind, Pass};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Jobspec;
use eddy_wire::plan::{Outcome, Verdict};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::services::child::{
    ChildOf, FromParent, Granted, PassState, Passed, Told as TellsOf, ToldOf, ToldRequest,
};
use eddy_wire::services::job::{JobSet, List, ListRequest, Raise, RaiseRequest, Scope, Submit};
use eddy_wire::shell::{FromShell, Part, PartState};
use eddy_wire::spec::Spec;
use eddy_wire::time::Span;
use serde_json::{Value, json};

pub const CHANNEL: u64 = 2;
pub const CLIENT: u64 = 40;
pub const JOB: JobId = JobId(3);

pub fn core(ranks: impl IntoIterator<Item = u32>, core: u32) -> Arc<ResourceSet> {
    let node = |rank: u32| NodeSet {
        host: format!("n{rank}").into(),
        cores: Idset::one(core),
        gpus: Idset::new(),
        memory: 0,
        ..NodeSet::default()
    };
    let nodes: BTreeMap<Rank, NodeSet> = ranks
        .into_iter()
        .map(|rank| (Rank(rank), node(rank)))
        .collect();
    Arc::new(ResourceSet {
        nodes,
        ..ResourceSet::default()
    })
}

/// The shells of all ranks are there.
pub fn with_shells(stand: &mut Stand) {
    for epoch in 1..=4_u32 {
        let rank = Rank(epoch - 1);
        let job = if rank.0 < 2 { OWN } else { BATCH };
        let attempt = Attempt(1);
        let part = Part { job, attempt, rank };
        let runs = PartState::Running { t: START };
        let epoch = Epoch(u64::from(epoch));
        let hello = FromShell::Hello {
            instance: "parent".to_owned(),
            pid: 1,
            version: 1,
            epoch,
            parts: vec![(part, runs)],
        };
        stand.tell(Arrival::Shell(epoch, hello));
    }
}

pub fn starts(stand: &mut Stand, job: JobId, set: Arc<ResourceSet>) -> Vec<Effect> {
    let outcome = Outcome {
        verdicts: vec![(job, Verdict::Start(set))],
        ..Outcome::default()
    };
    stand.tell(Arrival::Planned(outcome))
}

/// A parent with a job of the queue that leads to `batch`, which was passed.
pub fn passed() -> (Stand, Vec<Effect>) {
    let mut stand = Stand::with_children(&with_batch());
    with_shells(&mut stand);
    adopt(&mut stand, CHANNEL, BATCH);
    stand.submit(CLIENT, USER, json!({"queue": "long"}));
    let effects = starts(&mut stand, JOB, core([3], 1));
    (stand, effects)
}

pub fn words(effects: &[Effect]) -> Vec<FromParent> {
    told(effects, CHANNEL).iter().map(Told::word).collect()
}

pub fn tells(stand: &mut Stand, attempt: u32, state: PassState) -> Vec<FromParent> {
    let effects = tells_all(stand, attempt, state);
    let parts = told(&effects, CHANNEL).into_iter();
    let parts = parts.filter(|told| told.kind == eddy_wire::message::Type::Part);
    parts.map(|told| told.word()).collect()
}

pub fn tells_all(stand: &mut Stand, attempt: u32, state: PassState) -> Vec<Effect> {
    let of = ToldOf {
        state,
        ..ToldOf::accepted(JOB, Attempt(attempt))
    };
    says(stand, of)
}

/// The instance says this of a job.
fn says(stand: &mut Stand, of: ToldOf) -> Vec<Effect> {
    let child = ChildOf {
        job: BATCH,
        attempt: Attempt(1),
    };
    let jobs = vec![of];
    stand.call::<TellsOf>(CHANNEL, 0, &ToldRequest { child, jobs })
}

pub fn over(status: Option<i32>, exception: Option<Exception>) -> PassState {
    PassState::Over {
        began: status.is_some(),
        status,
        exception,
    }
}

pub fn exception(kind: &str) -> Exception {
    Exception {
        kind: kind.to_owned(),
        severity: 0,
        note: "so it is".to_owned(),
        userid: None,
        until: None,
    }
}

#[test]
fn a_job_of_its_queue_is_passed_in_the_ranks_of_the_instance() {
    let (mut stand, effects) = passed();
    let [FromParent::Pass(pass)] = &words(&effects)[..] else {
        panic!("{:?}", words(&effects))
    };
    assert_eq!(
        (pass.job, pass.pass.attempt, pass.user),
        (JOB, Attempt(1), USER)
    );
    assert_eq!(
        *pass.pass.set,
        *core_of_child(),
        "its second node is rank 3 here"
    );
    assert_eq!(stand.names(JOB)[4..], ["passed", "alloc"]);
    let grants = stand
        .records
        .iter()
        .filter_map(|record| match &record.event.kind {
            Kind::Alloc(grant) if record.event.job == Some(JOB) => Some(Arc::clone(grant)),
            _ => None,
        });
    let shells: Vec<usize> = grants.map(|grant| grant.shells.len()).collect();
    assert_eq!(shells, [0], "its shells are the instance's");
    let again = adopt(&mut stand, CHANNEL + 1, BATCH);
    let again: Vec<FromParent> = told(&again, CHANNEL + 1).iter().map(Told::word).collect();
    assert!(
        matches!(&again[..], [FromParent::Granted(_), FromParent::Pass(_)]),
        "it is said again over another channel: {again:?}"
    );
}

pub fn core_of_child() -> Arc<ResourceSet> {
    let mut set = (*core([3], 1)).clone();
    let node = set.nodes.remove(&Rank(3)).expect("it is there");
    set.nodes.insert(Rank(1), node);
    Arc::new(set)
}

#[test]
fn what_is_told_of_it_is_recorded_once_and_forgotten_when_it_is() {
    let (mut stand, _) = passed();
    tells(&mut stand, 1, PassState::Running);
    tells(&mut stand, 1, PassState::Running);
    assert_eq!(stand.names(JOB)[6..], ["start"]);
    let words = tells(&mut stand, 1, over(Some(256), None));
    assert_eq!(
        stand.names(JOB)[6..],
        ["start", "finish", "release", "free", "clean"]
    );
    assert!(
        matches!(words[..], [FromParent::Forget { job: JOB, .. }]),
        "{words:?}"
    );
    let words = tells(&mut stand, 1, over(Some(0), None));
    assert!(
        matches!(words[..], [FromParent::Forget { .. }]),
        "{words:?}"
    );
    assert_eq!(stand.names(JOB).len(), 11, "nothing more is recorded");
}

#[test]
fn where_an_instance_is_that_was_passed_is_recorded_once_for_each_attempt() {
    let mut stand = Stand::with_children(&with_batch());
    with_shells(&mut stand);
    adopt(&mut stand, CHANNEL, BATCH);
    stand.submit(CLIENT, USER, json!({"queue": "long", "instance": {}}));
    starts(&mut stand, JOB, core([3], 1));
    let is_there = |attempt: u32, statedir: &str| ToldOf {
        state: PassState::Running,
        adopted: Some(Box::new(Adoption {
            instance: "inside".to_owned(),
            uri: "local:///inside".to_owned(),
            statedir: statedir.to_owned(),
        })),
        ..ToldOf::accepted(JOB, Attempt(attempt))
    };
    tells(&mut stand, 1, PassState::Running);
    says(&mut stand, is_there(1, "/children/3.1"));
    says(&mut stand, is_there(1, "/children/3.1"));
    assert_eq!(stand.names(JOB)[6..], ["start", "adopt"]);
    tells(&mut stand, 1, over(None, Some(exception("bounce"))));
    stand.now = stand.now.after(Span::seconds(60));
    stand.tell(Arrival::Tick);
    starts(&mut stand, JOB, core([3], 1));
    says(&mut stand, is_there(1, "/children/3.1"));
    says(&mut stand, is_there(2, "/children/3.1"));
    let names = stand.names(JOB);
    let adoptions = names.iter().filter(|name| **name == "adopt");
    assert_eq!(adoptions.count(), 2, "{names:?}");
}

#[test]
fn who_is_cancelled_is_ended_there_and_not_passed_again() {
    let (mut stand, _) = passed();
    let request = RaiseRequest {
        declared: None,
        jobs: JobSet::one(JOB),
        states: Vec::new(),
        job_set: None,
        scope: Scope::Named,
        kind: "cancel".to_owned(),
        severity: 0,
        note: String::new(),
    };
    let effects = stand.call::<Raise>(CLIENT, USER, &request);
    assert!(
        matches!(&words(&effects)[..], [FromParent::End { job: JOB, .. }]),
        "{effects:?}"
    );
    let again = adopt(&mut stand, CHANNEL + 1, BATCH);
    let again: Vec<FromParent> = told(&again, CHANNEL + 1).iter().map(Told::word).collect();
    assert!(matches!(&again[1..], [FromParent::End { .. }]), "{again:?}");
    tells(&mut stand, 1, over(None, Some(exception("cancel"))));
    let names = stand.names(JOB);
    assert_eq!(
        names[6..],
        ["exception", "finish", "release", "free", "clean"]
    );
}

#[test]
fn what_never_came_there_held_nothing_however_late_that_is_told() {
    let (mut stand, _) = passed();
    stand.now = stand.now.after(Span::seconds(60));
    tells(&mut stand, 1, over(None, Some(exception("cancel"))));
    let of_job = stand.records.iter().filter(|r| r.event.job == Some(JOB));
    let when = |name: &str| {
        let mut named = of_job.clone().filter(|r| r.event.kind.name() == name);
        named.next().map(|record| record.event.t)
    };
    assert!(when("alloc").is_some());
    assert_eq!(when("release"), when("alloc"));
    assert_eq!(when("free"), Some(stand.now), "here it is free only now");
}

#[test]
fn what_a_queue_refuses_is_told_with_the_queue_that_could_take_it() {
    let mut settings = with_batch();
    settings.queues[1].rules.max_nodes = Some(1);
    let mut stand = Stand::with_children(&settings);
    let two = json!({"queue": "here", "duration": 60});
    let mut request = submit_request(stand.now, 7, two);
    request.jobspec["resources"] = json!([{"type": "node", "count": 2, "with": [
        {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}
    ]}]);
    let told = stand.ask::<Submit>(CLIENT, USER, &request);
    assert_eq!(
        told.refusal(),
        "resources: 2 nodes given, queue `here` allows at most 1; queue `long` could take it"
    );
}

#[test]
fn what_comes_back_waits_again_and_rests() {
    let (mut stand, _) = passed();
    let bounced = over(None, Some(exception("bounce")));
    let plan = |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::Plan(_)));
    tells(&mut stand, 1, bounced);
    let names = stand.names(JOB);
    let wanted = [
        "recalled",
        "exception",
        "finish",
        "release",
        "free",
        "requeue",
        "priority",
    ];
    assert_eq!(names[6..], wanted);
    let reason = |stand: &mut Stand| {
        let effects = stand.call::<List>(CLIENT, USER, &ListRequest::default());
        let rows = told(&effects, CLIENT)[0].body.clone();
        let rows = rows.as_array().expect("rows").iter();
        let its = rows.filter(|row| row["id"] == json!(JOB));
        its.map(|row| row["reason"].to_string()).collect::<String>()
    };
    stand.now = stand.now.after(Span::seconds(4));
    assert!(!plan(&stand.tell(Arrival::Tick)), "it rests");
    let said =
        "\"came back from queue instance batch once and rests before it is passed there again\"";
    assert_eq!(reason(&mut stand), said);
    stand.now = stand.now.after(Span::seconds(2));
    assert!(plan(&stand.tell(Arrival::Tick)));
    assert_ne!(reason(&mut stand), said);
    let effects = starts(&mut stand, JOB, core([2], 0));
    let [FromParent::Pass(pass)] = &words(&effects)[..] else {
        panic!("{effects:?}")
    };
    assert_eq!(pass.pass.attempt, Attempt(2));
    let words = tells(&mut stand, 1, PassState::Running);
    assert!(
        matches!(
            words[..],
            [FromParent::Forget {
                attempt: Attempt(1),
                ..
            }]
        ),
        "what is said of an attempt that was given up counts no more: {words:?}"
    );
    assert_eq!(stand.names(JOB).len(), names.len() + 2);
}

/// A queue instance to which a job comes.
pub fn child() -> Stand {
    let mut settings = settings();
    settings.place.name = Some("batch".to_owned());
    settings.place.child = Some(ChildOf {
        job: BATCH,
        attempt: Attempt(1),
    });
    Stand::with_children(&settings)
}

pub fn comes(attempt: u32, rank: u32) -> Arrival {
    comes_as(attempt, rank, json!({"queue": "long"}))
}

fn comes_as(attempt: u32, rank: u32, system: Value) -> Arrival {
    let jobspec = Jobspec::from_value(jobspec(system)).expect("a jobspec");
    let spec = Spec::from_jobspec(jobspec).expect("a request");
    let passed = Passed {
        job: JobId(77),
        pass: Pass {
            attempt: Attempt(attempt),
            set: core([rank], 2),
            with: None,
            taken: Default::default(),
        },
        user: USER,
        urgency: 16,
        cc: None,
        party: Default::default(),
        key: uuid::Uuid::from_u128(77),
        index: 0,
        count: 1,
        sent: None,
        jobspec: None,
        environment: None,
        jobspec_bytes: spec.text.len() as u32,
    };
    let tail = [&spec.text[..], &spec.environment_text[..]].concat();
    Arrival::Parent(ParentWord::Pass(Box::new(passed), Bytes::from(tail)))
}

pub fn said(effects: &[Effect]) -> Vec<PassState> {
    let told = |effect: &Effect| match effect {
        Effect::Parent(ToParent::Told(told)) => Some(told.state.clone()),
        _ => None,
    };
    effects.iter().filter_map(told).collect()
}

#[test]
fn a_child_starts_what_comes_where_its_parent_said_and_once() {
    // Ranks 2 and 3 belong to nobody's job there.
    let mut settings = settings();
    settings.place.name = Some("batch".to_owned());
    let mut stand = Stand::with_children(&settings);
    stand.tell(comes(1, 2));
    assert_eq!(
        stand.names(JobId(77)),
        ["submit", "validate", "depend", "priority"],
        "no shell is there, and somebody holds it"
    );
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
    assert_eq!(why.kind, "bounce");
    assert_eq!(said(&stand.tell(comes(1, 2))).len(), 1, "it is told again");
    assert_eq!(stand.names(JobId(77))[4..], ["exception", "clean"]);
}

#[test]
fn what_two_end_at_the_same_time_ends_once() {
    let mut settings = settings();
    settings.place.name = Some("batch".to_owned());
    let mut stand = Stand::with_children(&settings);
    // Ground for what is over here, where no shell is: it is to be cancelled, and to go back.
    stand.tell(comes_as(1, 2, json!({"queue": "long", "grows": 9})));
    stand.now = stand.now.after(Span::seconds(11));
    let effects = stand.tell(Arrival::Tick);
    assert_eq!(said(&effects).len(), 1, "{effects:?}");
    assert_eq!(stand.names(JobId(77))[4..], ["exception", "clean"]);
}

pub fn granted() -> Arrival {
    Arrival::Parent(ParentWord::Granted(Box::new(grants())))
}

/// What an elastic instance is told first.
pub fn grants() -> Granted {
    Granted {
        grant: Grant {
            epoch: Epoch(1),
            set: Arc::default(),
            shells: BTreeMap::new(),
            beside: Default::default(),
            passed: None,
        },
        ranks: (0..4).map(|rank| (Rank(rank), Rank(rank))).collect(),
        room: Some(inventory()),
        local: Idset::one(0),
        leaving: Idset::new(),
        within: BTreeMap::new(),
        beside: Default::default(),
        path: "2".to_owned(),
        depth: 1,
        remaining: None,
        reserve: Span::seconds(5),
        kill_grace: Span::seconds(4),
        name: Some("batch".to_owned()),
        mock: None,
        access: Default::default(),
        queues: Vec::new(),
        closed: Vec::new(),
    }
}

#[test]
fn what_is_held_is_told_once_for_each_channel_and_not_for_each_change_of_the_grant() {
    let mut stand = child();
    stand.tell(comes(1, 2));
    assert_eq!(said(&stand.tell(granted())).len(), 1);
    assert_eq!(said(&stand.tell(granted())).len(), 0);
    stand.tell(Arrival::Parent(ParentWord::Away));
    assert_eq!(said(&stand.tell(granted())).len(), 1);
}

#[test]
fn a_child_keeps_an_end_until_its_parent_has_recorded_it() {
    let mut stand = child();
    let job = JobId(77);
    stand.tell(comes(1, 2));
    let end = || ParentWord::End(job, Attempt(1), Box::new(exception("cancel")));
    let effects = stand.tell(Arrival::Parent(end()));
    assert!(
        matches!(said(&effects)[..], [PassState::Over { .. }]),
        "{effects:?}"
    );
    let mut settings = settings();
    settings.place.name = Some("batch".to_owned());
    let mut stand = stand.again_from_mark(&settings);
    let effects = stand.tell(comes(1, 2));
    assert!(
        matches!(said(&effects)[..], [PassState::Over { .. }]),
        "also after a restart: {effects:?}"
    );
    let forget = || Arrival::Parent(ParentWord::Forget(job, Attempt(1)));
    stand.tell(forget());
    stand.tell(forget());
    assert_eq!(stand.names(job).last(), Some(&"waited"));
    stand.tell(comes(2, 3));
    assert_eq!(
        stand
            .names(job)
            .iter()
            .filter(|name| **name == "submit")
            .count(),
        2
    );
}

#[test]
fn a_later_attempt_that_comes_again_ends_the_earlier_one_once() {
    let mut stand = child();
    with_shells(&mut stand);
    stand.tell(comes(1, 2));
    assert_eq!(stand.names(JobId(77)).last(), Some(&"alloc"));
    stand.tell(comes(2, 2));
    stand.tell(comes(2, 2));
    let names = stand.names(JobId(77));
    let ended = names.iter().filter(|name| **name == "exception");
    assert_eq!(ended.count(), 1, "{names:?}");
}

#[test]
fn what_is_to_end_and_never_came_never_begins() {
    let mut stand = child();
    let end = ParentWord::End(JobId(78), Attempt(1), Box::new(exception("cancel")));
    let effects = stand.tell(Arrival::Parent(end));
    let [
        PassState::Over {
            began: false,
            status: None,
            ..
        },
    ] = said(&effects)[..]
    else {
        panic!("{effects:?}")
    };
    assert!(stand.names(JobId(78)).is_empty());
}

#[test]
fn a_submission_made_in_it_is_handed_up() {
    let mut stand = child();
    let effects = stand.submit(CLIENT, USER, json!({}));
    let up: Vec<u64> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Parent(ToParent::Submit(tag, handed)) if handed.user == USER => Some(*tag),
            _ => None,
        })
        .collect();
    assert_eq!(up.len(), 1, "{effects:?}");
    assert_eq!(told(&effects, CLIENT), []);
    let submitted = eddy_wire::services::job::Submitted {
        first: JobId(90),
        count: 1,
    };
    let answer = ParentWord::Submitted(up[0], Ok(submitted));
    let effects = stand.tell(Arrival::Parent(answer));
    assert_eq!(
        told(&effects, CLIENT)[0].body,
        json!({"first": 90, "count": 1})
    );
}

fn refusals(effects: &[Effect]) -> Vec<String> {
    let told = told(effects, CLIENT);
    let refused = told.iter();
    let refused = refused.filter(|told| told.kind == eddy_wire::message::Type::Refused);
    refused.map(|told| told.refusal().to_owned()).collect()
}

#[test]
fn few_wait_for_the_parent_and_all_are_answered_at_the_end() {
    let mut stand = child();
    for _ in 0..1000 {
        assert!(refusals(&stand.submit(CLIENT, USER, json!({}))).is_empty());
    }
    let refused = refusals(&stand.submit(CLIENT, USER, json!({})));
    assert_eq!(
        refused,
        [format!(
            "1000 submissions of user {USER} wait for this instance's parent; the limit `held submissions` is \
                 1000 for one user"
        )]
    );
    // Another user has room.
    assert!(refusals(&stand.submit(CLIENT, USER + 1, json!({}))).is_empty());
    let refused = refusals(&stand.tell(Arrival::Stop));
    assert_eq!(refused.len(), 1001);
    assert_eq!(refused[0], "the instance is shutting down");
}

#[test]
fn large_submissions_do_not_fill_the_memory_while_they_wait() {
    let mut stand = child();
    let note = "x".repeat(3 << 20);
    let large = |stand: &mut Stand| stand.submit(CLIENT, USER, json!({"note": note}));
    for _ in 0..21 {
        assert!(refusals(&large(&mut stand)).is_empty());
    }
    let refused = refusals(&large(&mut stand));
    assert_eq!(
        refused,
        [format!(
            "21 submissions of user {USER} wait for this instance's parent; the limit `held submissions` is \
                 64 MiB for one user"
        )]
    );
}

#[test]
fn who_ends_only_because_the_instance_does_has_lost_his_node() {
    let (mut stand, _) = passed();
    let mut ended = exception("cancel");
    ended.note = "the instance is shutting down".to_owned();
    tells(&mut stand, 1, over(Some(15), Some(ended)));
    let kind = stand
        .records
        .iter()
        .find_map(|record| match &record.event.kind {
            Kind::Exception(why) if record.event.job == Some(JOB) => Some(why.kind.clone()),
            _ => None,
        });
    assert_eq!(kind.as_deref(), Some("node-failure"));
}
