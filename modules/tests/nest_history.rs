//! What is told of a child that is over: by its records in the journal.

use eddy_broker::effect::{Answer, Query, QueryTag};
use eddy_broker::{Arrival, Effect};
use eddy_wire::event::Kind;
use eddy_wire::id::{Attempt, Epoch, JobId, Seq};
use eddy_wire::message::{Message, Roles, Type};
use eddy_wire::services::Service as _;
use eddy_wire::services::child::{
    ChildOf, ChildRow, Children, ChildrenRequest, Report, ReportRequest, Stage, Summary,
};
use eddy_wire::services::job::{EventsLine, JobRow, List, ListRequest};
use serde_json::{Value, json};

use crate::nest_stand::*;

fn rows(told: &Told) -> Vec<ChildRow> {
    serde_json::from_value(told.body.clone()).expect("rows")
}

fn of(job: JobId) -> ChildrenRequest {
    ChildrenRequest {
        job: Some(job),
        follow: false,
        name: None,
    }
}

/// The question to the journal whether that job is over.
fn asked(effects: &[Effect], job: JobId) -> Option<QueryTag> {
    effects.iter().find_map(|effect| match effect {
        Effect::Query(tag, Query::Finished(of)) if *of == job => Some(*tag),
        _ => None,
    })
}

#[test]
fn the_history_of_a_child_that_is_over_is_found() {
    let mut stand = Stand::with_children(&with_batch());
    let effects = stand.call::<List>(8, 0, &ListRequest::default());
    let body = told(&effects, 8)[0].body.clone();
    let listed: Vec<JobRow> = serde_json::from_value(body).expect("rows");
    let job = Some(JobId(77));
    let follow = false;
    let effects = stand.call::<Children>(
        5,
        USER,
        &ChildrenRequest {
            job,
            follow,
            name: None,
        },
    );
    let Some(Effect::Query(tag, Query::Finished(JobId(77)))) = effects
        .iter()
        .find(|effect| matches!(effect, Effect::Query(..)))
    else {
        panic!("the journal is asked: {effects:?}")
    };
    let found = Some(Box::new((listed[0].clone(), Vec::new())));
    stand.tell(Arrival::Answer(*tag, Answer::Finished(found)));
    let adoption = json!({"instance": "i", "uri": "local:///u", "statedir": "/old"});
    let memo = json!({"summary": figures(7)});
    let line = |name: &str, context: Value| EventsLine {
        seq: Seq(9),
        timestamp: START,
        name: name.to_owned(),
        context: EventsLine::raw(context.to_string()),
    };
    let lines = [line("adopt", adoption), line("memo", memo)];
    let lines = lines.map(|line| (job, line)).to_vec();
    let effects = stand.tell(Arrival::Answer(*tag, Answer::Records(lines)));
    let row = &rows(&told(&effects, 5)[0])[0];
    assert_eq!(
        (row.stage, row.statedir.as_deref()),
        (Stage::Over, Some("/old"))
    );
    assert_eq!(row.summary, figures(7));
}

/// An instance whose jobs are over, so many.
fn figures(completed: u64) -> Summary {
    Summary {
        completed,
        ..Summary::default()
    }
}

#[test]
fn what_an_instance_said_last_of_itself_is_recorded_when_it_is_over() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, 1, OWN);
    for completed in [3, 7] {
        let report = ReportRequest {
            child: ChildOf {
                job: OWN,
                attempt: Attempt(1),
            },
            summary: figures(completed),
        };
        stand.ask::<Report>(1, 0, &report);
    }
    for epoch in [1, 2] {
        stand.tell(Arrival::ShellDead(Epoch(epoch)));
    }
    let memos = stand
        .records
        .iter()
        .filter_map(|record| match &record.event.kind {
            Kind::Memo(memo) if record.event.job == Some(OWN) => memo.get("summary").cloned(),
            _ => None,
        });
    let memos: Vec<Value> = memos.collect();
    assert_eq!(memos, [json!(figures(7))]);
}

#[test]
fn who_asks_while_the_end_is_not_written_is_answered_when_it_is() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, 1, OWN);
    let now = stand.now;
    for epoch in [1, 2] {
        let output = stand.broker.handle(now, Arrival::ShellDead(Epoch(epoch)));
        stand.records.extend(output.records);
    }
    assert!(
        stand.names(OWN).ends_with(&["clean"]),
        "{:?}",
        stand.names(OWN)
    );
    let mut message = Message::request(Children::TOPIC, 1, &of(OWN));
    (message.uid, message.roles) = (USER, Roles::USER);
    let client = eddy_broker::ClientId(5);
    let output = stand.broker.handle(now, Arrival::Message(client, message));
    assert_eq!(asked(&output.effects, OWN), None, "it knows of no end yet");
    assert_eq!(told(&output.effects, 5), []);
    let durable = Arrival::Durable(stand.broker.last());
    let effects = stand.broker.handle(now, durable).effects;
    let tag = asked(&effects, OWN).expect("the journal is asked");
    let told = told(&stand.tell(Arrival::Answer(tag, Answer::Finished(None))), 5);
    assert_eq!(told[0].kind, Type::Refused);
    // It asks at once from then on.
    let effects = stand.call::<Children>(5, USER, &of(OWN));
    assert!(asked(&effects, OWN).is_some(), "{effects:?}");
}
