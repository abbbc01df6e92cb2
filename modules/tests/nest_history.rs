//! What is told of a child that is over: by its records in the journal.

use eddy_broker::effect::{Answer, Query, QueryTag};
use eddy_broker::{Arrival, Effect};
use eddy_wire::id::{Epoch, JobId, Seq};
use eddy_wire::message::{Message, Roles, Type};
use eddy_wire::services::Service as _;
use eddy_wire::services::child::{ChildRow, Children, ChildrenRequest, Stage};
use eddy_wire::services::job::{EventsLine, JobRow, List, ListRequest};
use serde_json::json;

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
    let line = EventsLine {
        seq: Seq(9),
        timestamp: START,
        name: "adopt".to_owned(),
        context: EventsLine::raw(adoption.to_string()),
    };
    let effects = stand.tell(Arrival::Answer(*tag, Answer::Records(vec![(job, line)])));
    let row = &rows(&told(&effects, 5)[0])[0];
    assert_eq!(
        (row.stage, row.statedir.as_deref()),
        (Stage::Over, Some("/old"))
    );
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
