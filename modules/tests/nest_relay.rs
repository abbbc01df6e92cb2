//! Requests that are a declared instance's, and how such an instance is there.

use crate::nest_stand::*;
use bytes::Bytes;
use eddy_broker::effect::{ParentWord, Query, ToParent};
use eddy_broker::{Arrival, ClientId, Effect};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{IdBlock, Kind};
use eddy_wire::filter::{Filter, OnFailure};
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::message::{Message, Roles, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::{
    AnswerKind, AnswerRequest, ChildOf, Children, ChildrenRequest, FromParent, ID_BLOCK, Ids,
    IdsRequest, Owners,
};
use eddy_wire::services::job::{
    JOB_RANGES_MAX, JobSet, Kill, KillRequest, Raise, RaiseRequest, Scope, Submit, Submitted, Wait,
    WaitRequest,
};
use eddy_wire::time::Span;
use serde_json::{Value, json};

const CHANNEL: u64 = 2;
const CLIENT: u64 = 40;

fn batch() -> ChildOf {
    ChildOf {
        job: BATCH,
        attempt: Attempt(1),
    }
}

/// An instance whose child `batch` serves the numbers 3 to 1026.
fn serving() -> Stand {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, BATCH);
    let (child, number) = (batch(), 1);
    stand.ask::<Ids>(CHANNEL, 0, &IdsRequest { child, number });
    stand
}

/// The requests that went over the channel.
pub fn relayed(effects: &[Effect], channel: u64) -> Vec<(u64, Message)> {
    let request = |told: &Told| match told.word() {
        FromParent::Request { call } => {
            let message = Message::decode(&told.tail).expect("the tail is a message");
            Some((call, message))
        }
        FromParent::Granted(_)
        | FromParent::Cancel { .. }
        | FromParent::Pass(_)
        | FromParent::Preempted { .. }
        | FromParent::Shrink { .. }
        | FromParent::End { .. }
        | FromParent::Signal { .. }
        | FromParent::Program { .. }
        | FromParent::Pause { .. }
        | FromParent::Proceed { .. }
        | FromParent::Limit { .. }
        | FromParent::Forget { .. } => None,
    };
    let parts = told(effects, channel);
    let parts = parts.iter().filter(|told| told.kind == Type::Part);
    parts.filter_map(request).collect()
}

fn answer(stand: &mut Stand, call: u64, kind: AnswerKind, body: &Value) -> Vec<Effect> {
    let tail = Message::answer(kind.message_type(), call, body)
        .with_tail(Bytes::from_static(b"raw"))
        .encode()
        .expect("a short message");
    let child = batch();
    let request = AnswerRequest { child, call, kind };
    stand.call_with_tail::<eddy_wire::services::child::Answer>(CHANNEL, 0, &request, tail)
}

fn jobs(list: &[(u64, u64)]) -> JobSet {
    let ranges = list.iter().map(|(a, b)| (JobId(*a), JobId(*b))).collect();
    JobSet { ranges }
}

fn wait(list: &[(u64, u64)]) -> WaitRequest {
    jobs(list).into()
}

#[test]
fn whoever_asks_for_an_instance_in_it_is_answered_by_it() {
    let mut stand = serving();
    let of = |job| ChildrenRequest {
        job: Some(JobId(job)),
        follow: true,
        ..ChildrenRequest::default()
    };
    let effects = stand.call::<Children>(CLIENT, USER, &of(3));
    let (call, message) = relayed(&effects, CHANNEL)[0].clone();
    assert_eq!(message.topic, Children::TOPIC);
    let effects = answer(&mut stand, call, AnswerKind::Part, &json!([]));
    assert_eq!(told(&effects, CLIENT)[0].kind, Type::Part);
    let effects = stand.call::<Children>(CLIENT, USER, &of(BATCH.0));
    assert_eq!(told(&effects, CLIENT)[0].body[0]["name"], "batch");
}

/// Each change is made out for who follows: nobody has the leader do no more than that.
#[test]
fn one_user_follows_all_instances_only_so_often_at_a_time() {
    let mut stand = serving();
    let all = ChildrenRequest {
        follow: true,
        ..ChildrenRequest::default()
    };
    for client in 100..164 {
        let effects = stand.call::<Children>(client, USER, &all);
        assert_eq!(told(&effects, client)[0].kind, Type::Part);
    }
    let effects = stand.call::<Children>(164, USER, &all);
    let said = "limit `followers` of 64 streams of all instances for user 1000 is reached";
    assert_eq!(told(&effects, 164)[0].refusal(), said);
    let effects = stand.call::<Children>(164, USER + 1, &all);
    assert_eq!(told(&effects, 164)[0].kind, Type::Part, "another one may");
    let effects = stand.tell(Arrival::Gone(ClientId(100)));
    assert!(told(&effects, 100).is_empty());
    let effects = stand.call::<Children>(165, USER, &all);
    assert_eq!(told(&effects, 165)[0].kind, Type::Part, "one is gone");
}

#[test]
fn only_its_name_means_a_declared_instance() {
    let mut stand = serving();
    let request = |jobs: JobSet| RaiseRequest {
        declared: None,
        job_set: None,
        scope: match jobs.is_empty() {
            true => Scope::Everybody,
            false => Scope::Named,
        },
        jobs,
        states: Vec::new(),
        kind: "cancel".to_owned(),
        severity: 0,
        note: String::new(),
    };
    let changed = stand.ask::<Raise>(CLIENT, 0, &request(jobs(&[])));
    assert_eq!(changed.body["spared"], json!([[BATCH, "batch"]]));
    assert_eq!(changed.body["count"], 1);
    for several in [jobs(&[(1, 2)]), jobs(&[(1, 1), (2, 2)])] {
        let changed = stand.ask::<Raise>(CLIENT, 0, &request(several));
        assert_eq!(changed.body["spared"], json!([[BATCH, "batch"]]));
    }
    let signal = KillRequest {
        jobs: jobs(&[(1, 2)]),
        signal: 15,
    };
    let changed = stand.ask::<Kill>(CLIENT, 0, &signal);
    assert_eq!(changed.body["spared"], json!([[BATCH, "batch"]]));
    let alone = request(JobSet::one(BATCH));
    let changed = stand.ask::<Raise>(CLIENT, 0, &alone);
    let why = "it is the declared instance batch, in which others have jobs; \
               `eddy cancel --instance=batch` means it";
    assert_eq!(changed.body, json!({"count": 0, "refused": [[BATCH, why]]}));
    let named = |name: &str| RaiseRequest {
        declared: Some(name.to_owned()),
        ..alone.clone()
    };
    let changed = stand.ask::<Raise>(CLIENT, 0, &named("other"));
    assert_eq!(changed.body["count"], 0);
    let changed = stand.ask::<Raise>(CLIENT, 0, &named("batch"));
    assert_eq!(changed.body, json!({"count": 1}), "its name means it");
}

/// Whose they are is found before anybody looks at them, for every request of every user: nothing is walked of
/// what would be refused.
#[test]
fn more_ranges_than_may_be_named_are_nobodys() {
    let mut stand = serving();
    let mut over = jobs(&[(3, 9)]);
    let more = (0..JOB_RANGES_MAX as u64).map(|n| (JobId(2_000 + 2 * n), JobId(2_000 + 2 * n)));
    over.ranges.extend(more);
    let said = "jobs: 65537 ranges given, at most 65536";
    let owners = stand.ask::<Owners>(CLIENT, USER, &over);
    assert_eq!(owners.refusal(), said);
    let effects = stand.call::<Wait>(CLIENT, USER, &over.clone().into());
    assert_eq!(relayed(&effects, CHANNEL).len(), 0);
    assert_eq!(told(&effects, CLIENT)[0].refusal(), said);
    // Where one is reversed, nothing says that the others do not overlap.
    let reversed = jobs(&[(3, 9), (3, 9), (5, 1)]);
    let owners = stand.ask::<Owners>(CLIENT, USER, &reversed);
    let said = "jobs: 5-1 given, a range ends after it begins";
    assert_eq!(owners.refusal(), said);
    let effects = stand.call::<Wait>(CLIENT, USER, &reversed.into());
    assert_eq!(told(&effects, CLIENT)[0].refusal(), said);
}

#[test]
fn requests_that_name_its_numbers_go_over_the_channel() {
    let mut stand = serving();
    let effects = stand.call::<Wait>(CLIENT, USER, &wait(&[(3, 9), (1026, 1026)]));
    let (call, message) = relayed(&effects, CHANNEL)[0].clone();
    assert_eq!(message.topic, Wait::TOPIC);
    let effects = answer(&mut stand, call, AnswerKind::Part, &json!([1]));
    assert_eq!(told(&effects, CLIENT)[0].kind, Type::Part);
    let refusal = json!({"code": "not-found", "text": "jobs: no"});
    let effects = answer(&mut stand, call, AnswerKind::Refused, &refusal);
    assert_eq!(told(&effects, CLIENT)[0].refusal(), "jobs: no");
    let effects = stand.call::<Wait>(CLIENT, USER, &wait(&[(1, 2)]));
    assert_eq!(
        relayed(&effects, CHANNEL).len(),
        0,
        "those are the instance's own"
    );
    let told = stand.ask::<Wait>(CLIENT, USER, &wait(&[(1, 1), (3, 9)]));
    assert_eq!(
        told.refusal(),
        "jobs: 1,3-9 given, which are of several instances; name those of one"
    );
}

#[test]
fn a_call_taken_back_is_taken_back_from_the_child() {
    let mut stand = serving();
    for gone in [false, true] {
        let effects = stand.call::<Wait>(CLIENT, USER, &wait(&[(3, 3)]));
        let (call, _) = relayed(&effects, CHANNEL)[0];
        let effects = match gone {
            true => stand.tell(Arrival::Gone(ClientId(CLIENT))),
            false => stand.cancel(CLIENT),
        };
        assert_eq!(
            told(&effects, CHANNEL)[0].word(),
            FromParent::Cancel { call }
        );
    }
}

fn cancel(stand: &mut Stand, job: JobId) {
    let jobs = JobSet::one(job);
    let body = json!({"jobs": jobs, "type": "cancel", "note": "no", "declared": "batch"});
    let raise: RaiseRequest = serde_json::from_value(body).expect("a cancel");
    stand.call::<Raise>(7, 0, &raise);
}

#[test]
fn a_declared_instance_is_submitted_on_resume_and_again_until_it_dies_too_often() {
    let settings = with_batch();
    let mut stand = Stand::new(&settings);
    assert_eq!(stand.declared(), [JobId(1)]);
    let Some(Kind::Submit(submit)) = stand
        .records
        .iter()
        .find(|record| record.event.job == Some(JobId(1)))
        .map(|record| record.event.kind.clone())
    else {
        panic!("job 1 was submitted")
    };
    assert_eq!((submit.user, submit.urgency), (0, 31));
    let task = &submit.spec.jobspec.tasks[0];
    assert_eq!(
        task.command,
        ["eddy", "broker", "--child", "-S", "exec.kill_grace=\"1s\""]
    );
    let request = &submit.spec.request;
    assert_eq!(
        (request.nodes, request.ntasks, request.duration),
        (Some(2), 1, None)
    );
    assert_eq!(
        request.ranks.as_ref().map(ToString::to_string).as_deref(),
        Some("2-3")
    );
    stand = stand.again(&settings);
    assert_eq!(stand.declared(), [JobId(1)], "it has its job");
    let effects = stand.submit(CLIENT, USER, json!({"queue": "long"}));
    assert_eq!(
        told(&effects, CLIENT)[0].kind,
        Type::Reply,
        "it waits for the instance"
    );
    for job in 1..=5 {
        if job == 5 {
            stand.now = stand.now.after(Span::seconds(599));
        }
        let last = stand.declared()[job - 1];
        cancel(&mut stand, last);
    }
    assert_eq!(
        stand.declared().len(),
        5,
        "five ends within ten minutes are enough"
    );
    let effects = stand.submit(CLIENT, USER, json!({"queue": "long"}));
    let down = told(&effects, CLIENT)[0].refusal().to_owned();
    let last = stand.declared()[4];
    assert_eq!(
        down,
        format!(
            "instance `batch` is down: its job ended 5 times within 10 minutes, last job {last}; \
             cancel: no"
        )
    );
    let stand = stand.again(&settings);
    assert_eq!(stand.declared().len(), 6, "the next leader tries again");
}

#[test]
fn an_instance_that_dies_now_and_then_is_always_brought_up() {
    let mut stand = Stand::new(&with_batch());
    for job in 0..12 {
        stand.now = stand.now.after(Span::seconds(200));
        let last = stand.declared()[job];
        cancel(&mut stand, last);
    }
    assert_eq!(stand.declared().len(), 13);
    stand.tell(Arrival::Stop);
    assert_eq!(stand.declared().len(), 13);
}

fn refused(stand: &mut Stand, uid: u32, system: Value) -> String {
    let effects = stand.submit(CLIENT, uid, system);
    told(&effects, CLIENT)[0].refusal().to_owned()
}

#[test]
fn what_is_too_deep_too_long_or_not_to_be_had_is_refused_by_name() {
    let mut settings = with_batch();
    settings.place.depth = 16;
    settings.place.until = Some(START.after(Span::seconds(66)));
    settings.place.reserve = Span::seconds(6);
    let mut stand = Stand::new(&settings);
    let mut no = |uid, system| refused(&mut stand, uid, system);
    assert_eq!(
        no(USER, json!({"instance": {}})),
        "attributes.system.instance: it would be at depth 17; the limit `nesting` is 16"
    );
    assert_eq!(
        no(USER, json!({"duration": 61})),
        "attributes.system.duration: 61.000000 s given, this instance has 60.000000 s left for jobs"
    );
    let begins = |after: i64, more: Value| {
        let at = START.after(Span::seconds(after)).0 / 1_000_000;
        let mut system =
            json!({"dependencies": [{"scheme": "begin-time", "value": at.to_string()}]});
        system["duration"] = more;
        system
    };
    assert_eq!(
        no(USER, begins(60, json!(0))),
        "attributes.system.dependencies: begin-time in 60.000000 s given, this instance has 60.000000 s left for jobs"
    );
    assert_eq!(
        no(USER, begins(20, json!(41))),
        "attributes.system.duration: 41.000000 s given from its begin-time on, this instance has 40.000000 s left for jobs then"
    );
    assert_eq!(
        no(USER, json!({"duration": -1})),
        "attributes.system.duration: is not a duration: duration `-1` is negative; allowed are 0 and more"
    );
    assert_eq!(
        no(USER, json!({"queue": "gpu"})),
        "attributes.system.queue: `gpu` given, there are here, long"
    );
    assert_eq!(
        no(USER, json!({"instance": {"name": "batch"}})),
        "attributes.system.instance.name: `batch` given, only the configuration names instances"
    );
    assert_eq!(
        no(USER, json!({"beside": true})),
        "attributes.system.beside: true given, only the instance's owner may"
    );
    assert_eq!(
        no(USER, json!({"constraints": {"properties": ["x"]}})),
        "attributes.system.constraints: asks for nodes with x; no node is so, and none has any property"
    );
    let effects = stand.submit(CLIENT, USER, json!({"duration": 60}));
    assert_eq!(told(&effects, CLIENT)[0].kind, Type::Reply);
}

fn first_of(effects: &[Effect], client: u64) -> JobId {
    let answers = told(effects, client);
    let submitted: Submitted = serde_json::from_value(answers[0].body.clone()).expect("numbers");
    submitted.first
}

fn asked(effects: &[Effect]) -> Vec<u64> {
    let number = |effect: &Effect| match effect {
        Effect::Parent(ToParent::Ids(number)) => Some(*number),
        _ => None,
    };
    effects.iter().filter_map(number).collect()
}

#[test]
fn a_queue_instance_draws_its_numbers_from_its_parent() {
    let mut settings = settings();
    settings.place.name = Some("batch".to_owned());
    let mut stand = Stand::new(&settings);
    let word = |number, first| {
        let (first, count) = (JobId(first), ID_BLOCK);
        Arrival::Parent(ParentWord::Ids(IdBlock {
            number,
            first,
            count,
        }))
    };
    let effects = stand.submit(CLIENT, 0, json!({"beside": true}));
    assert_eq!(told(&effects, CLIENT), [], "it waits for numbers");
    let effects = stand.tell(word(1, 5000));
    assert_eq!(first_of(&effects, CLIENT), JobId(5000));
    stand.tell(word(1, 9000));
    let effects = stand.submit(CLIENT, 0, json!({"beside": true}));
    assert_eq!(
        first_of(&effects, CLIENT),
        JobId(5001),
        "that block was told before"
    );
    let mut request = submit_request(stand.now, 1 << 40, json!({"beside": true}));
    request.cc = Some(eddy_wire::idset::Idset::range(1, 1000));
    let effects = stand.call::<Submit>(CLIENT, 0, &request);
    assert_eq!(first_of(&effects, CLIENT), JobId(5002));
    assert_eq!(asked(&effects), [2], "22 are left");
    let mut stand = stand.again_from_mark(&settings);
    let effects = stand.submit(CLIENT, 0, json!({"beside": true}));
    assert_eq!(
        first_of(&effects, CLIENT),
        JobId(6002),
        "the block is known after a restart"
    );
    let effects = stand.tell(word(2, 7000));
    assert_eq!(asked(&effects), [0; 0]);
    request.key = submit_request(stand.now, 1 << 41, json!({})).key;
    request.cc = Some(eddy_wire::idset::Idset::range(1, 1025));
    let effects = stand.call::<Submit>(CLIENT, 0, &request);
    assert_eq!(told(&effects, CLIENT)[0].body["code"], "too-large");
}

#[test]
fn one_key_is_not_used_for_a_job_of_its_own_and_one_of_its_parent_s_at_once() {
    let mut settings = settings();
    settings.place.name = Some("batch".to_owned());
    for (first, second) in [(true, false), (false, true)] {
        let mut stand = Stand::new(&settings);
        let request = |stand: &Stand, beside| match beside {
            true => submit_request(stand.now, 1, json!({"beside": true})),
            false => submit_request(stand.now, 1, json!({})),
        };
        let ask = request(&stand, first);
        let effects = stand.call::<Submit>(CLIENT, 0, &ask);
        assert_eq!(told(&effects, CLIENT), [], "it is not taken yet");
        let mut other = request(&stand, second);
        other.key = ask.key;
        let effects = stand.call::<Submit>(CLIENT, 0, &other);
        assert_eq!(told(&effects, CLIENT)[0].body["code"], "conflict");
    }
}

#[test]
fn the_key_of_one_of_its_own_that_is_looked_at_is_not_handed_up() {
    let own = submit_request(START, 1, json!({"beside": true}));
    let mut others = submit_request(START, 1, json!({}));
    others.key = own.key;
    let mut filtered = settings();
    filtered.place.name = Some("batch".to_owned());
    filtered.filters = vec![Filter {
        name: "first".parse().expect("a name"),
        command: vec!["first".to_owned()],
        timeout: Span::seconds(1),
        on_failure: OnFailure::Refuse,
    }];
    let mut stand = Stand::new(&filtered);
    let effects = stand.call::<Submit>(CLIENT, 0, &own);
    assert_eq!(told(&effects, CLIENT), [], "a filter looks at it");
    let told_of = stand.ask::<Submit>(CLIENT, 0, &others);
    assert_eq!(told_of.body["code"], "conflict");

    // A key older than the leader is looked up in the journal, which takes its time.
    filtered.filters.clear();
    let mut stand = Stand::new(&filtered).again(&filtered);
    let mut say = |tag, body: &_| {
        let mut message = Message::request(Submit::TOPIC, tag, body);
        message.roles = Roles::OWNER;
        let arrival = Arrival::Message(ClientId(CLIENT), message);
        stand.broker.handle(stand.now, arrival).effects
    };
    let is_query = |effect: &Effect| matches!(effect, Effect::Query(_, Query::Key(..)));
    assert!(say(1, &own).iter().any(is_query));
    let effects = say(2, &others);
    assert_eq!(told(&effects, CLIENT)[0].body["code"], "conflict");
}

#[test]
fn a_refusal_of_numbers_is_told_to_who_waits_for_them_and_asked_anew() {
    let mut settings = settings();
    settings.place.name = Some("batch".to_owned());
    let mut stand = Stand::new(&settings);
    let effects = stand.submit(CLIENT, 0, json!({"beside": true}));
    assert_eq!(told(&effects, CLIENT), []);
    let no = Refusal::new(Code::TooLarge, "the instance has no job numbers left");
    let effects = stand.tell(Arrival::Parent(ParentWord::NoIds(no)));
    let answers = told(&effects, CLIENT);
    assert_eq!((answers.len(), answers[0].kind), (1, Type::Refused));
    assert_eq!(
        answers[0].body,
        json!({
            "code": "too-large",
            "text": "no job numbers from the parent: the instance has no job numbers left",
        })
    );
    assert_eq!(asked(&effects), [0; 0], "not again by itself");
    let effects = stand.submit(CLIENT, 0, json!({"beside": true}));
    assert_eq!(asked(&effects), [1], "the next one asks anew");
    assert_eq!(told(&effects, CLIENT), []);
}
