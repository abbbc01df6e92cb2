//! How long an instance is there that was given more time: also for a leader that does not hear its parent.

use std::sync::Arc;

use eddy_broker::effect::ParentWord;
use eddy_broker::{Arrival, Effect};
use eddy_modules::Settings;
use eddy_wire::event::Kind;
use eddy_wire::id::Attempt;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{ChildOf, Granted};
use eddy_wire::time::{Span, Time};
use serde_json::json;

use crate::nest_stand::*;
use crate::pass::grants;

const CLIENT: u64 = 40;

/// What the instance has until so many seconds after the start.
fn set(seconds: i64) -> Arc<ResourceSet> {
    let mut set = inventory().as_ref().clone();
    set.starttime = START.0;
    set.expiration = START.after(Span::seconds(seconds)).0;
    Arc::new(set)
}

/// What its parent says then.
fn granted(seconds: i64) -> Arrival {
    let mut granted = Granted {
        remaining: Some(Span::seconds(seconds)),
        room: None,
        name: None,
        ..grants()
    };
    granted.grant.set = set(seconds);
    Arrival::Parent(ParentWord::Granted(Box::new(granted)))
}

/// An instance of a user with 60 s.
fn of_a_minute() -> Settings {
    let mut settings = settings();
    settings.inventory = set(60);
    settings.place.child = Some(ChildOf {
        job: BATCH,
        attempt: Attempt(1),
    });
    settings.place.until = Some(START.after(Span::seconds(60)));
    settings.place.told = set(60).expiration;
    settings.place.reserve = Span::seconds(5);
    settings
}

fn ends(stand: &Stand) -> Vec<i64> {
    let defined = stand
        .records
        .iter()
        .filter_map(|record| match &record.event.kind {
            Kind::ResourceDefine(set, _) => Some(set.expiration),
            _ => None,
        });
    let seconds = defined.map(|end| (Time(end) - START).0 / 1_000_000);
    seconds.collect()
}

fn refusal(effects: &[Effect]) -> String {
    told(effects, CLIENT)[0].refusal().to_owned()
}

#[test]
fn a_leader_that_does_not_hear_its_parent_knows_how_long_it_is_there_by_its_records() {
    let settings = of_a_minute();
    let mut stand = Stand::with_children(&settings);
    let long = json!({"duration": 100});
    let refused = stand.submit(CLIENT, USER, long.clone());
    let why = refusal(&refused);
    assert!(
        why.contains("100.000000 s given, this instance has 55"),
        "{why}"
    );
    stand.tell(granted(60));
    stand.tell(granted(300));
    let known = ends(&stand);
    assert_eq!(known[known.len() - 2..], [60, 300]);
    let mut stand = stand.again(&settings);
    assert_eq!(ends(&stand), known, "nothing is recorded anew");
    let taken = stand.submit(CLIENT, USER, long);
    assert_eq!(told(&taken, CLIENT)[0].body["count"], 1);
    stand.tell(granted(30));
    let refused = stand.submit(CLIENT, USER, json!({"duration": 50}));
    let why = refusal(&refused);
    assert!(
        why.contains("50.000000 s given, this instance has 25"),
        "{why}"
    );
}
