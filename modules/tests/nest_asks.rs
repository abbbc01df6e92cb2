//! Jobs that wait for the end of one inside an instance: who is asked for whom, and who is told.

use std::collections::BTreeMap;

use eddy_broker::effect::{Answer as Found, Query, QueryTag};
use eddy_broker::{Arrival, ClientId, Effect, Left};
use eddy_wire::id::{Attempt, Epoch, JobId, Seq};
use eddy_wire::lifecycle::JobResult;
use eddy_wire::message::{Message, Type};
use eddy_wire::services::Service as _;
use eddy_wire::services::child::{
    Adopt, AdoptRequest, Answer, AnswerKind, AnswerRequest, ChildOf, PassState,
};
use eddy_wire::services::job::{
    EventsLine, JobEnd, JobRow, JobSet, List, ListRequest, Raise, RaiseRequest, RequeueJob,
    RequeueRequest, Submitted, Wait,
};
use eddy_wire::time::Span;
use serde_json::{Value, json};

use crate::nest_relay::relayed;
use crate::nest_stand::*;
use crate::pass::{CLIENT, JOB, core, starts, tells, with_shells};

/// The channel of `OWN`, and a user who may ask nothing there.
const CHANNEL: u64 = 1;
const OTHER: u32 = 1001;

/// Submits a job that waits for job 3 of an instance; what left.
fn submits(stand: &mut Stand, client: u64, user: u32, of: JobId) -> Vec<Effect> {
    let dependency = json!({"scheme": "afterok", "value": format!("{of}/3")});
    stand.submit(client, user, json!({"dependencies": [dependency]}))
}

/// The same for `OWN`: the number of that job, and what left.
fn waits(stand: &mut Stand, client: u64, user: u32) -> (JobId, Vec<Effect>) {
    let effects = submits(stand, client, user, OWN);
    let told = told(&effects, client);
    let taken: Submitted = serde_json::from_value(told[0].body.clone()).expect("it is taken");
    (taken.first, effects)
}

fn answer(stand: &mut Stand, call: u64, kind: AnswerKind, body: &Value) {
    answer_over(stand, (CHANNEL, hello(OWN).child), (call, kind), body);
}

/// An answer of that attempt, over its channel.
fn answer_over(
    stand: &mut Stand,
    (channel, child): (u64, ChildOf),
    (call, kind): (u64, AnswerKind),
    body: &Value,
) {
    let tail = Message::answer(kind.message_type(), call, body).encode();
    let request = AnswerRequest { child, call, kind };
    let tail = tail.expect("a short message");
    let effects = stand.call_with_tail::<Answer>(channel, USER, &request, tail);
    assert_eq!(told(&effects, channel)[0].kind, Type::Reply);
}

fn ended_well() -> Value {
    json!([{"id": 3, "result": "COMPLETED", "returncode": 0, "waitstatus": 0}])
}

#[test]
fn all_jobs_of_a_user_that_wait_for_one_inside_are_told_by_one_answer() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, OWN);
    let (own, effects) = waits(&mut stand, 5, USER);
    let (first, question) = relayed(&effects, CHANNEL)[0].clone();
    assert_eq!((question.topic.as_str(), question.uid), (Wait::TOPIC, USER));
    let (second, effects) = waits(&mut stand, 6, USER);
    assert_eq!(relayed(&effects, CHANNEL).len(), 0, "that is asked already");
    for job in [own, second] {
        assert!(
            !stand.names(job).contains(&"depend"),
            "nobody said how it ended"
        );
    }
    answer(&mut stand, first, AnswerKind::Reply, &ended_well());
    for job in [own, second] {
        let names = stand.names(job);
        assert!(names.contains(&"depend"), "{names:?}");
        assert!(!names.contains(&"exception"), "{names:?}");
    }
}

#[test]
fn nobody_waits_for_what_is_inside_another_users_instance() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, OWN);
    let effects = submits(&mut stand, 7, OTHER, OWN);
    let refused = &told(&effects, 7)[0];
    assert_eq!(refused.body["code"], "denied", "{refused:?}");
    let text = format!(
        "attributes.system.dependencies: to wait for job f2/f4 to end well is asked, and job f2 is of user {USER}; user \
         {OTHER} may wait for what is inside his own instances and those of queues"
    );
    assert_eq!(refused.refusal(), text);
    assert_eq!(relayed(&effects, CHANNEL).len(), 0, "nobody is asked");
    // A queue instance is everybody's, and user 0 may ask everywhere.
    for (client, user, of) in [(8, OTHER, BATCH), (9, 0, OWN)] {
        let effects = submits(&mut stand, client, user, of);
        assert_eq!(
            told(&effects, client)[0].kind,
            Type::Reply,
            "{user} of {of}"
        );
    }
}

#[test]
fn what_is_not_answered_is_asked_again_over_the_next_channel() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, OWN);
    let (job, effects) = waits(&mut stand, 5, USER);
    let (lost, _) = relayed(&effects, CHANNEL)[0].clone();
    stand.tell(Arrival::Gone(ClientId(CHANNEL)));
    let effects = adopt(&mut stand, 2, OWN);
    let (call, _) = relayed(&effects, 2)[0].clone();
    assert_ne!(call, lost);
    let of = (2, hello(OWN).child);
    answer_over(&mut stand, of, (call, AnswerKind::Reply), &ended_well());
    assert!(
        stand.names(job).contains(&"depend"),
        "{:?}",
        stand.names(job)
    );
}

#[test]
fn a_job_that_an_instance_that_began_anew_does_not_know_yet_is_asked_for_again() {
    let settings = with_batch();
    let mut stand = Stand::with_children(&settings).in_attempt_two(&settings, OWN);
    let second = AdoptRequest {
        child: ChildOf {
            attempt: Attempt(2),
            ..hello(OWN).child
        },
        ..hello(OWN)
    };
    stand.call::<Adopt>(CHANNEL, USER, &second);
    let (job, effects) = waits(&mut stand, 5, USER);
    let (call, _) = relayed(&effects, CHANNEL)[0].clone();
    let of = (CHANNEL, second.child);
    let unknown = json!({"code": "not-found", "text": "jobs: there is no job f4"});
    answer_over(&mut stand, of, (call, AnswerKind::Refused), &unknown);
    assert!(
        !stand.names(job).contains(&"exception"),
        "{:?}",
        stand.names(job)
    );
    assert_eq!(
        relayed(&stand.tell(Arrival::Tick), CHANNEL).len(),
        0,
        "not at once"
    );
    stand.now = stand.now.after(Span::seconds(5));
    let effects = stand.tell(Arrival::Tick);
    let (call, _) = relayed(&effects, CHANNEL)[0].clone();
    answer_over(&mut stand, of, (call, AnswerKind::Reply), &ended_well());
    assert!(
        stand.names(job).contains(&"depend"),
        "{:?}",
        stand.names(job)
    );
}

/// The question that left for the journal, or for what an instance left.
fn query(effects: &[Effect]) -> (QueryTag, Query) {
    let query = effects.iter().find_map(|effect| match effect {
        Effect::Query(tag, query) => Some((*tag, query.clone())),
        _ => None,
    });
    query.unwrap_or_else(|| panic!("nothing is asked: {effects:?}"))
}

/// `OWN` is over; the question for its end, of which somebody waits for a job.
fn over(stand: &mut Stand) -> (QueryTag, Box<(JobRow, Vec<Seq>)>) {
    let effects = stand.call::<List>(8, 0, &ListRequest::default());
    let rows: Vec<JobRow> =
        serde_json::from_value(told(&effects, 8)[0].body.clone()).expect("rows");
    let row = rows.into_iter().find(|row| row.id == OWN).expect("a row");
    stand.tell(Arrival::ShellDead(Epoch(1)));
    let effects = stand.tell(Arrival::ShellDead(Epoch(2)));
    let (tag, asked) = query(&effects);
    assert_eq!(asked, Query::Finished(OWN));
    (tag, Box::new((row, vec![Seq(9)])))
}

/// What is asked of the state directory that the records of `OWN` name, by lines of these names.
fn left(stand: &mut Stand, names: &[(&str, Value)]) -> Vec<Effect> {
    let (tag, found) = over(stand);
    let effects = stand.tell(Arrival::Answer(tag, Found::Finished(Some(found))));
    assert_eq!(query(&effects), (tag, Query::Records(vec![Seq(9)])));
    let line = |(name, context): &(&str, Value)| EventsLine {
        seq: Seq(9),
        timestamp: START,
        name: (*name).to_owned(),
        context: EventsLine::raw(context.to_string()),
    };
    let lines = names.iter().map(|name| (Some(OWN), line(name)));
    let lines = Found::Records(lines.collect());
    stand.tell(Arrival::Answer(tag, lines))
}

fn adopted(statedir: &str) -> (&'static str, Value) {
    let adoption = json!({"instance": "i", "uri": "local:///u", "statedir": statedir});
    ("adopt", adoption)
}

#[test]
fn how_a_job_ended_that_was_not_heard_of_is_read_where_its_instance_was() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, OWN);
    let (job, _) = waits(&mut stand, 5, USER);
    let effects = left(&mut stand, &[adopted("/there")]);
    let asked = Left {
        statedir: "/there".to_owned(),
        user: USER,
        jobs: JobSet::one(JobId(3)),
    };
    let (tag, query) = query(&effects);
    assert_eq!(query, Query::Within(Box::new(asked)));
    let end = JobEnd {
        id: JobId(3),
        result: JobResult::Completed,
        returncode: 0,
        exception: None,
    };
    let ends = BTreeMap::from([(JobId(3), Some(end))]);
    stand.tell(Arrival::Answer(tag, Found::Within(ends)));
    let names = stand.names(job);
    assert!(names.contains(&"depend"), "{names:?}");
}

#[test]
fn what_an_attempt_left_that_ran_again_is_no_end() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, OWN);
    let (job, _) = waits(&mut stand, 5, USER);
    let again = ("requeue", json!({"attempt": 2}));
    left(&mut stand, &[adopted("/first"), again]);
    let names = stand.names(job);
    assert!(names.contains(&"exception"), "{names:?}");
}

#[test]
fn what_an_instance_left_is_asked_for_again_while_it_cannot_be_read_and_not_for_ever() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, OWN);
    let (job, _) = waits(&mut stand, 5, USER);
    let mut effects = left(&mut stand, &[adopted("/there")]);
    for _ in 0..60 {
        let Some(Effect::Query(tag, asked)) = effects
            .iter()
            .find(|effect| matches!(effect, Effect::Query(..)))
        else {
            break;
        };
        let answer = match asked {
            Query::Finished(_) => Found::Failed("busy".to_owned()),
            _ => Found::Failed("locked".to_owned()),
        };
        let at_once = stand.tell(Arrival::Answer(*tag, answer));
        assert!(
            !at_once.iter().any(|of| matches!(of, Effect::Query(..))),
            "not at once"
        );
        stand.now = stand.now.after(Span::seconds(1));
        effects = stand.tell(Arrival::Tick);
    }
    let names = stand.names(job);
    assert!(names.contains(&"exception"), "{names:?}");
}

#[test]
fn what_ends_since_its_instance_is_to_run_again_is_no_end() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, OWN);
    let (job, effects) = waits(&mut stand, 5, USER);
    let (call, _) = relayed(&effects, CHANNEL)[0].clone();
    let request = RequeueRequest {
        declared: None,
        jobs: JobSet::one(OWN),
        attempt: None,
        note: String::new(),
    };
    stand.call::<RequeueJob>(6, USER, &request);
    let ended = json!([{"id": 3, "result": "CANCELED", "returncode": 143,
                        "exception": "cancel: the instance is shutting down"}]);
    answer(&mut stand, call, AnswerKind::Part, &ended);
    answer(&mut stand, call, AnswerKind::Reply, &json!([]));
    let effects = stand.tell(Arrival::Tick);
    assert_eq!(relayed(&effects, CHANNEL).len(), 0, "it is asked no more");
    for epoch in [1, 2] {
        stand.tell(Arrival::ShellDead(Epoch(epoch)));
    }
    assert!(stand.names(OWN).contains(&"requeue"));
    let names = stand.names(job);
    assert!(!names.contains(&"exception"), "{names:?}");
    assert!(!names.contains(&"depend"), "{names:?}");
}

#[test]
fn what_another_child_says_of_a_job_inside_counts_nothing() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, OWN);
    adopt(&mut stand, 2, BATCH);
    let (job, effects) = waits(&mut stand, 5, USER);
    let (call, _) = relayed(&effects, CHANNEL)[0].clone();
    let failed = json!([{"id": 3, "result": "FAILED", "returncode": 1}]);
    let body = AnswerRequest {
        child: hello(BATCH).child,
        call,
        kind: AnswerKind::Reply,
    };
    let tail = Message::answer(Type::Reply, call, &failed).encode();
    stand.call_with_tail::<Answer>(2, 0, &body, tail.expect("a short message"));
    let names = stand.names(job);
    assert!(!names.contains(&"exception"), "{names:?}");
    answer(&mut stand, call, AnswerKind::Part, &ended_well());
    assert_eq!(stand.names(job).last(), Some(&"priority"));
}

#[test]
fn a_cancel_of_an_instance_that_was_to_run_again_lets_its_jobs_end_as_it_says() {
    let mut stand = Stand::with_children(&with_batch());
    with_shells(&mut stand);
    adopt(&mut stand, 2, BATCH);
    stand.submit(CLIENT, USER, json!({"queue": "long", "instance": {}}));
    starts(&mut stand, JOB, core([3], 1));
    tells(&mut stand, 1, PassState::Running);
    let dependency = json!({"scheme": "afterok", "value": format!("{JOB}/3")});
    let effects = stand.submit(5, USER, json!({"dependencies": [dependency]}));
    let (call, _) = relayed(&effects, 2)[0].clone();
    let again = RequeueRequest {
        declared: None,
        jobs: JobSet::one(JOB),
        attempt: None,
        note: String::new(),
    };
    stand.call::<RequeueJob>(6, USER, &again);
    let end = RaiseRequest {
        declared: None,
        jobs: JobSet::one(JOB),
        states: Vec::new(),
        job_set: None,
        scope: Default::default(),
        kind: "cancel".to_owned(),
        severity: 0,
        note: String::new(),
    };
    stand.call::<Raise>(6, USER, &end);
    let tail = Message::answer(Type::Part, call, &ended_well()).encode();
    let body = AnswerRequest {
        child: hello(BATCH).child,
        call,
        kind: AnswerKind::Part,
    };
    stand.call_with_tail::<Answer>(2, 0, &body, tail.expect("a short message"));
    let waiter = JobId(JOB.0 + 1);
    assert_eq!(stand.names(waiter).last(), Some(&"priority"));
}
