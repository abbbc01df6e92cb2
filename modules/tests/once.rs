//! Changes that are asked for again, since the answer was lost.

use eddy_modules::Settings;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::message::Type;
use eddy_wire::services::child::ChildOf;
use eddy_wire::services::resource::{Drain, Undrain};
use eddy_wire::services::{Service, account, grant, kvs, reservation};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::nest_stand::*;
use crate::pass::CLIENT;

/// The same as one who lost the answer and as another, who has a key of his own; of the same leader, of the next,
/// and of the next that reads what a mark kept.
fn is_done_once<S: Service>(settings: &Settings, stand: &mut Stand, body: Value) {
    let own = 2 * stand.records.len() as u128;
    let request = |key: u128| -> S::Request {
        let mut body = body.clone();
        body["once"] = json!(Uuid::from_u128(own + key));
        serde_json::from_value(body).expect("a request")
    };
    let done = stand.ask::<S>(CLIENT, 0, &request(1));
    assert_eq!(done.kind, Type::Reply, "{done:?}");
    for mut leader in [stand.again(settings), stand.again_from_mark(settings)] {
        let records = leader.records.len();
        assert_eq!(leader.ask::<S>(CLIENT, 0, &request(1)), done);
        assert_eq!(leader.records.len(), records, "it is done already");
    }
    assert_eq!(stand.ask::<S>(CLIENT, 0, &request(1)), done);
    let told = stand.ask::<S>(CLIENT, 0, &request(2));
    assert_eq!(told.kind, Type::Refused, "another request: {told:?}");
}

#[test]
fn what_is_asked_for_again_under_its_key_is_answered_as_it_was() {
    let settings = settings();
    let mut stand = Stand::with_nodes(&settings);
    let account = json!({"account": {"name": "a", "value": {}}});
    let gone = json!({"account": {"name": "a", "value": null}});
    stand.ask::<kvs::Put>(
        CLIENT,
        0,
        &serde_json::from_value(json!({"key": "a", "value": 1})).expect("a value"),
    );
    let made = json!({"changes": [{"change": account, "before": "none"}]});
    stand.ask::<account::Set>(
        CLIENT,
        0,
        &serde_json::from_value(made).expect("an account"),
    );
    is_done_once::<kvs::Delete>(&settings, &mut stand, json!({"key": "a"}));
    let removed = json!({"changes": [{"change": gone, "before": "some"}]});
    is_done_once::<account::Set>(&settings, &mut stand, removed);
    let kept = json!({
        "name": "course", "from": stand.now, "span": 60_000_000, "nodes": {"count": 1}, "purpose": "maintenance",
    });
    is_done_once::<reservation::Create>(&settings, &mut stand, kept);
    is_done_once::<reservation::Delete>(&settings, &mut stand, json!({"name": "course"}));
    let drained = json!({"targets": {"ranks": "1"}, "reason": "a fan"});
    is_done_once::<Drain>(&settings, &mut stand, drained);
    is_done_once::<Undrain>(&settings, &mut stand, json!({"targets": {"ranks": "1"}}));
}

#[test]
fn so_many_nodes_go_back_once() {
    let mut settings = settings();
    settings.place.child = Some(ChildOf {
        job: JobId(1),
        attempt: Attempt(1),
    });
    let mut stand = Stand::with_nodes(&settings);
    let two = json!({"nodes": {"count": 2}});
    is_done_once::<grant::Release>(&settings, &mut stand, two);
}

#[test]
fn a_key_is_for_one_request_of_one_user() {
    let mut stand = Stand::with_nodes(&settings());
    let drain = |rank: u32| {
        let once = Uuid::from_u128(1);
        let body = json!({"targets": {"ranks": rank.to_string()}, "reason": "a fan", "once": once});
        serde_json::from_value(body).expect("a request")
    };
    assert_eq!(stand.ask::<Drain>(CLIENT, 0, &drain(1)).kind, Type::Reply);
    let told = stand.ask::<Drain>(CLIENT, 0, &drain(2));
    assert!(
        told.refusal().contains("the key of another request"),
        "{told:?}"
    );
}
