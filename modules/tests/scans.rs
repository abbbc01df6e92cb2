//! Questions to the journal for rows of jobs that are over: in portions, and one of each user at a time.

use eddy_broker::effect::Query;
use eddy_broker::{Answer, Arrival, ClientId};
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::message::{Message, Roles};
use eddy_wire::services::job::{JobRow, ListRequest, Over};
use eddy_wire::time::Time;
use serde_json::{Value, json};

use crate::instance::Instance;

/// A client of a user asks.
fn ask(i: &mut Instance, user: u32, matchtag: u64, (topic, body): (&str, &Value)) {
    let mut message = Message::request(topic, matchtag, body);
    (message.uid, message.roles) = (user, Roles::USER);
    i.act(Arrival::Message(ClientId(u64::from(user)), message));
}

const ALL_OVER: fn() -> Value = || json!({"states": ["INACTIVE"], "limit": 0});

/// The rows that the journal is asked for, the first question first.
fn asked(i: &Instance) -> Vec<ListRequest> {
    let rows = |(_, query): &(_, Query)| match query {
        Query::Rows(request) => request.as_ref().clone(),
        other => panic!("{other:?}"),
    };
    i.queries.iter().map(rows).collect()
}

/// The first question is answered.
fn answer(i: &mut Instance, rows: Vec<JobRow>, more: Option<Over>) {
    let (tag, _) = i.queries.remove(0);
    i.act(Arrival::Answer(tag, Answer::Rows(rows, more)));
}

/// Rows of jobs with these numbers, made of one that is there.
fn over(ids: impl IntoIterator<Item = u64>) -> Vec<JobRow> {
    let mut i = Instance::with(1);
    i.submit(0, 1, &json!({}));
    let rows = i.call("job.list", &json!({}));
    let rows: Vec<JobRow> = serde_json::from_str(&rows).expect("rows");
    let row = |id| JobRow {
        id: JobId(id),
        state: JobState::Inactive,
        result: Some(JobResult::Completed),
        t_inactive: Some(Time(1)),
        ..rows[0].clone()
    };
    ids.into_iter().map(row).collect()
}

#[test]
fn who_lists_all_that_is_over_is_told_in_portions() {
    let mut i = Instance::with(1);
    let body = json!({"states": ["INACTIVE"], "limit": 5});
    ask(&mut i, 7, 1, ("job.list", &body));
    assert_eq!(asked(&i)[0].limit, 5);
    let behind = Over {
        t: Time(1),
        id: JobId(8),
    };
    answer(&mut i, over([9, 8]), Some(behind));
    let next = asked(&i);
    assert_eq!(
        (next.len(), next[0].limit, next[0].behind),
        (1, 3, Some(behind))
    );
    answer(&mut i, over([7, 6, 5]), Some(behind));
    assert_eq!(asked(&i), [], "it has as many as it asked for");
    let told: Vec<Vec<Value>> = i
        .answers
        .iter()
        .map(|body| serde_json::from_str(body).expect("rows"))
        .collect();
    assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [2, 3, 0]);
    ask(&mut i, 7, 2, ("job.list", &ALL_OVER()));
    assert_eq!(asked(&i)[0].limit, 1_000_000, "without a limit");
}

/// Two such questions kept all others from the journal for as long as it took to go through it.
#[test]
fn of_each_user_one_question_is_under_way() {
    let mut i = Instance::with(1);
    for matchtag in 1..=3 {
        ask(&mut i, 7, matchtag, ("job.list", &ALL_OVER()));
    }
    ask(&mut i, 8, 1, ("job.list", &ALL_OVER()));
    assert_eq!(asked(&i).len(), 2);
    let behind = Over {
        t: Time(1),
        id: JobId(9),
    };
    // Who wants more waits behind what else the user asks, which nobody waits for any more.
    answer(&mut i, over([9]), Some(behind));
    let cancel = Message {
        kind: eddy_wire::message::Type::Cancel,
        ..Message::request("job.list", 2, &())
    };
    let behinds = |i: &Instance| -> Vec<Option<Over>> {
        asked(i).into_iter().map(|request| request.behind).collect()
    };
    assert_eq!(behinds(&i), [None, None]);
    i.act(Arrival::Message(ClientId(7), cancel));
    answer(&mut i, over([9]), None);
    answer(&mut i, over([9]), Some(behind));
    assert_eq!(behinds(&i), [None]);
    i.act(Arrival::Gone(ClientId(7)));
    answer(&mut i, over([9]), Some(behind));
    assert_eq!(behinds(&i), [], "who asked is gone");
    ask(&mut i, 7, 9, ("job.list", &ALL_OVER()));
    assert_eq!(behinds(&i), [None]);
}

/// All were asked for at once, and told in one part, which is too long for a message beyond 330,000.
#[test]
fn the_ends_of_many_that_are_over_are_told_in_parts() {
    let mut i = Instance::with(1);
    let body = json!({"ranges": [[1, 1_500], [2_001, 3_000]]});
    ask(&mut i, 7, 1, ("job.wait", &body));
    let mut told = Vec::new();
    while let Some(request) = asked(&i).first() {
        let ranges = request.jobs.ranges.iter();
        let ids: Vec<u64> = ranges.flat_map(|(first, last)| first.0..=last.0).collect();
        told.push((ids.len(), ids[0]));
        answer(&mut i, over(ids), None);
    }
    assert_eq!(told, [(1_000, 1), (1_000, 1_001), (500, 2_501)]);
    let parts = i.answers.iter();
    let parts = parts.map(|body| {
        serde_json::from_str::<Vec<Value>>(body)
            .expect("ends")
            .len()
    });
    assert_eq!(parts.collect::<Vec<_>>(), [1_000, 1_000, 500, 0]);
}

/// A million numbers of no job: the first portion says so.
#[test]
fn who_waits_for_what_does_not_exist_is_told_by_the_first_portion() {
    let mut i = Instance::with(1);
    ask(
        &mut i,
        7,
        1,
        ("job.wait", &json!({"ranges": [[1, 1_000_000]]})),
    );
    answer(&mut i, over([1, 2]), None);
    assert_eq!(asked(&i), []);
    let last = i.answers.last().expect("an answer");
    assert!(last.contains("there is no job"), "{last}");
}
