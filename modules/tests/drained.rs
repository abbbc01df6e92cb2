//! Nodes that are drained in a queue instance, which are its parent's: both ends.

use std::slice::from_ref;

use eddy_broker::effect::ToParent;
use eddy_broker::{Arrival, Effect};
use eddy_wire::account::{Account, Change};
use eddy_wire::event::Kind;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::idset::Idset;
use eddy_wire::message::Type;
use eddy_wire::services::account::{Aim, Asked, Before, Set, SetRequest};
use eddy_wire::services::child::{
    ChildOf, Closed, Drained, DrainedNodes, DrainedRequest, FromParent,
};
use eddy_wire::services::resource::{Drain, DrainRequest, Targets};
use serde_json::json;

use crate::nest_stand::*;
use crate::pass::{CHANNEL, CLIENT};
use crate::taken_child::{child_settings, granted};

fn nodes(ranks: Idset, reason: &str) -> DrainedNodes {
    DrainedNodes {
        ranks,
        reason: reason.to_owned(),
        userid: u32::MAX,
    }
}

/// What the parent is told of in these effects.
fn told_up(effects: &[Effect]) -> Vec<Vec<DrainedNodes>> {
    let told = effects.iter().filter_map(|effect| match effect {
        Effect::Parent(ToParent::Drained(nodes)) => Some(nodes.clone()),
        _ => None,
    });
    told.collect()
}

/// The drains that are recorded.
fn drains(stand: &Stand) -> Vec<(String, String)> {
    let records = stand.records.iter();
    let drains = records.filter_map(|record| match &record.event.kind {
        Kind::Drain(ranks, reason, _) => Some((ranks.to_string(), reason.clone())),
        Kind::Undrain(ranks, _) => Some((ranks.to_string(), "undrained".to_owned())),
        _ => None,
    });
    drains.collect()
}

fn drain(stand: &mut Stand, ranks: Idset) -> Vec<Effect> {
    let request = DrainRequest {
        targets: Targets::Ranks(ranks),
        reason: "a fan".to_owned(),
        force: false,
        once: None,
    };
    stand.call::<Drain>(CLIENT, 0, &request)
}

#[test]
fn the_parent_drains_what_was_drained_inside_once_by_its_own_numbers() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, BATCH);
    let said = |job: JobId, nodes| DrainedRequest {
        child: ChildOf {
            job,
            attempt: Attempt(1),
        },
        nodes,
    };
    let once = vec![nodes(Idset::one(1), "it cannot be killed")];
    for _ in 0..2 {
        let effects = stand.call::<Drained>(CHANNEL, 0, &said(BATCH, once.clone()));
        // What is closed is told over the same channel.
        let told = told(&effects, CHANNEL);
        assert!(told.iter().any(|told| told.kind == Type::Reply), "{told:?}");
    }
    // A number that it never had is passed over.
    let more = vec![nodes(Idset::range(0, 9), "all")];
    stand.call::<Drained>(CHANNEL, 0, &said(BATCH, more));
    let expected = [("3", "it cannot be killed"), ("2", "all")];
    let expected = expected.map(|(ranks, why)| (ranks.to_owned(), why.to_owned()));
    assert_eq!(drains(&stand), expected);
    let lines = vec![nodes(Idset::one(0), "two\nlines")];
    let refused = stand.ask::<Drained>(CHANNEL, 0, &said(BATCH, lines));
    assert!(
        refused.refusal().contains("reason"),
        "{}",
        refused.refusal()
    );
}

#[test]
fn what_a_user_drains_in_his_own_instance_is_his_affair() {
    let mut stand = Stand::with_children(&with_batch());
    let job = JobId(40);
    stand.submit(CLIENT, USER, json!({"queue": "here", "instance": {}}));
    let request = DrainedRequest {
        child: ChildOf {
            job,
            attempt: Attempt(1),
        },
        nodes: Vec::new(),
    };
    let told = stand.ask::<Drained>(CHANNEL, 0, &request);
    assert_eq!(told.kind, Type::Refused);
    assert_eq!(drains(&stand), []);
}

#[test]
fn a_queue_instance_hands_its_drains_up_until_its_parent_has_them() {
    let mut stand = Stand::with_nodes(&child_settings());
    // While the parent is away it drains by itself.
    let effects = drain(&mut stand, Idset::range(1, 2));
    assert_eq!(drains(&stand).len(), 2);
    let both = vec![DrainedNodes {
        userid: 0,
        ..nodes(Idset::range(1, 2), "a fan")
    }];
    // What is said while nobody hears is said again.
    assert_eq!(told_up(&effects), from_ref(&both), "once, of both");
    assert_eq!(told_up(&stand.tell(granted(&[]))), from_ref(&both));
    let closed = |ranks| Closed {
        ranks,
        from: None,
        until: None,
    };
    // The parent has one of them, which is let go here.
    stand.tell(granted(&[closed(Idset::one(1))]));
    assert_eq!(
        drains(&stand)[2..],
        [("1".to_owned(), "undrained".to_owned())]
    );
    stand.tell(granted(&[closed(Idset::range(1, 2))]));
    assert_eq!(
        drains(&stand)[3..],
        [("2".to_owned(), "undrained".to_owned())]
    );
    // It is in service again when the parent says so, and may be drained once more.
    stand.tell(granted(&[]));
    stand.tell(Arrival::Parent(eddy_broker::effect::ParentWord::Away));
    let again = drain(&mut stand, Idset::one(1));
    assert_eq!(told_up(&again).len(), 1);
}

/// What is closed, by each word of what it has that the instance is told.
fn told_closed(effects: &[Effect]) -> Vec<Vec<Closed>> {
    let told = told(effects, CHANNEL).into_iter();
    let words = told.filter(|told| told.kind == Type::Part);
    let granted = words.filter_map(|told| match told.word() {
        FromParent::Granted(granted) => Some(granted.closed),
        _ => None,
    });
    granted.collect()
}

#[test]
fn of_many_changes_at_once_an_instance_is_told_once_and_of_those_that_change_nothing_never() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, BATCH);
    let effects = drain(&mut stand, Idset::range(1, 3));
    assert_eq!(drains(&stand).len(), 3, "a record for each");
    let closed = Closed {
        ranks: Idset::range(0, 1),
        from: None,
        until: None,
    };
    assert_eq!(told_closed(&effects), [vec![closed]]);
    let account = |name: &str| Asked {
        change: Change::Account {
            name: name.parse().expect("a name"),
            value: Some(Account::default()),
        },
        before: Before::None,
    };
    let request = SetRequest {
        changes: ["a", "b", "c"].map(account).into(),
        aim: Aim::Make,
        once: None,
    };
    assert_eq!(
        told_closed(&stand.call::<Set>(CLIENT, 0, &request)).len(),
        0
    );
}
