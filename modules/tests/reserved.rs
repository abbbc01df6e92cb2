//! Reservations, and those whom they do not keep out.

use eddy_wire::account::Name;
use eddy_wire::idset::Idset;
use eddy_wire::message::Roles;
use eddy_wire::services::account::Set;
use eddy_wire::services::reservation::{Create, List};
use serde_json::{Value, json};

use crate::instance::Instance;
use crate::nest_stand::{Stand, with_batch};

/// The user for whom `batch` is.
const ITS: u32 = 7;
/// A member of an account under the one for which it is.
const MEMBER: u32 = 9;
/// Somebody else.
const OTHER: u32 = 8;

/// Of four nodes the last two are those of `batch`, to which a queue leads that is open to one user and one account;
/// what names no queue is of one that is open to another.
fn apart() -> Stand {
    let mut settings = with_batch();
    let [long, here] = &mut settings.queues[..] else {
        panic!("two queues");
    };
    long.rules.users = Some([ITS].into());
    long.rules.accounts = Some([name("physics")].into());
    here.rules.users = Some([OTHER].into());
    here.default = true;
    let mut stand = Stand::with_children(&settings);
    let account = |of, parent| json!({"account": {"name": of, "value": {"parent": parent}}});
    let member = json!({"member": {"account": "optics", "user": MEMBER, "value": {}}});
    let changes = [
        account("science", None),
        account("arts", None),
        account("physics", Some("science")),
        account("optics", Some("physics")),
        member,
    ];
    let changes = changes.map(|change| json!({"change": change, "before": "any"}));
    let body = serde_json::from_value(json!({"changes": changes})).expect("changes");
    stand.ask::<Set>(50, 0, &body);
    stand
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// The nodes of one of so many for those, where the first two are busy, and those that nobody of them can have.
fn counted(count: u32, purpose: Value) -> (String, String) {
    let mut stand = apart();
    let body = json!({
        "name": "r", "from": stand.now.0 / 1_000_000 + 500, "span": 60,
        "nodes": {"count": count}, "purpose": purpose, "running": "ignore",
    });
    let body = serde_json::from_value(body).expect("a request");
    let made = stand.ask::<Create>(51, 0, &body);
    let rows = stand.ask::<List>(52, OTHER, &());
    let unreached: Option<Idset> =
        serde_json::from_value(rows.body[0]["unreached"].clone()).expect("ranks");
    let unreached = unreached.unwrap_or_default();
    (
        made.body["ranks"].as_str().unwrap_or_default().to_owned(),
        unreached.to_string(),
    )
}

#[test]
fn so_many_nodes_are_such_as_those_can_have_whom_they_are_for() {
    let all = |ranks: &str, unreached: &str| (ranks.to_owned(), unreached.to_owned());
    let users = |user: u32| json!({"jobs": {"users": [user]}});
    let accounts = |one: &str| json!({"jobs": {"accounts": [one]}});
    assert_eq!(counted(2, users(OTHER)), all("0-1", ""));
    assert_eq!(counted(3, users(OTHER)), all("0-2", "2"));
    for whose in [
        users(ITS),
        users(MEMBER),
        accounts("science"),
        accounts("optics"),
    ] {
        assert_eq!(counted(2, whose.clone()), all("2-3", ""), "{whose}");
        assert_eq!(counted(3, whose.clone()), all("0,2-3", "0"), "{whose}");
    }
    assert_eq!(counted(2, accounts("arts")), all("2-3", "2-3"));
    assert_eq!(counted(4, json!("maintenance")), all("0-3", ""));
}

fn reserve(i: &mut Instance, after: i64, ranks: &str) {
    let from = i.now.0 / 1_000_000 + after;
    let body = json!({
        "name": "r", "from": from, "span": 3600, "purpose": "maintenance",
        "nodes": {"named": {"ranks": ranks}},
    });
    let reply = i.call("reservation.create", &body);
    assert!(reply.contains("\"name\":\"r\""), "{reply}");
}

#[test]
fn what_takes_nothing_starts_where_a_reservation_is_to_come() {
    let mut i = Instance::with(2);
    reserve(&mut i, 7200, "0-1");
    i.submit(
        1,
        1,
        &json!({"beside": true, "constraints": {"ranks": ["0"]}}),
    );
    assert!(
        i.life(1, "submit").contains(&"alloc"),
        "{:?}",
        i.life(1, "submit")
    );
    // Who takes something and has no limit waits, and is not asked about again and again.
    let plans = i.records.len();
    i.submit(0, 1, &json!({}));
    i.tick_after(1);
    assert!(!i.life(2, "submit").contains(&"alloc"));
    assert!(i.records.len() < plans + 6);
}

#[test]
fn a_reservation_in_which_no_job_fits_is_for_maintenance_only() {
    let mut i = Instance::with(2);
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let from = i.now.0 as f64 / 1e6 + 600.0;
    let mut create = |name: &str, span: f64, purpose: Value| {
        let body = json!({
            "name": name, "from": from, "span": span, "purpose": purpose, "nodes": {"count": 1},
        });
        i.call("reservation.create", &body)
    };
    let jobs = || json!({"jobs": {"users": [7]}});
    let refused = create("short", 11.0, jobs());
    let allowed = "duration: 11 s given, allowed is more than 11 s, or maintenance";
    assert!(refused.contains(allowed), "{refused}");
    for (name, span, purpose) in [("fan", 11.0, json!("maintenance")), ("long", 12.0, jobs())] {
        let made = create(name, span, purpose);
        assert!(made.contains(&format!("\"name\":\"{name}\"")), "{made}");
    }
}

#[test]
fn who_waits_for_a_reservation_that_is_deleted_is_named() {
    let mut i = Instance::with(2);
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let from = i.now.0 as f64 / 1e6 + 600.0;
    for name in ["a", "b"] {
        let body = json!({
            "name": name, "from": from, "span": 600.0, "purpose": {"jobs": {"users": [7]}}, "nodes": {"count": 1},
        });
        i.call("reservation.create", &body);
    }
    i.submit(0, 1, &json!({"duration": 60.0, "reservation": "a"}));
    i.submit(0, 1, &json!({"duration": 60.0}));
    i.submit(0, 1, &json!({"duration": 60.0, "reservation": "a"}));
    let told = i.call("reservation.delete", &json!({"name": "a", "also": ["b"]}));
    let told: Value = serde_json::from_str(&told).expect("an answer is JSON");
    assert_eq!(
        told,
        json!([{"name": "a", "pending": 2, "jobs": [1, 3]}, {"name": "b", "pending": 0, "jobs": []}])
    );
    assert_eq!(i.exceptions(1).len(), 1);
    assert_eq!(i.exceptions(2).len(), 0);
}

#[test]
fn ranges_of_jobs_that_are_none_are_refused_before_anything_is_done() {
    let mut i = Instance::with(1);
    i.submit(0, 1, &json!({}));
    let jobs = json!({"ranges": [[1, 1], [9, 3]]});
    let asks: [(&str, Value); 3] = [
        ("sched.explain", json!({"jobs": jobs})),
        ("job.kill", json!({"jobs": jobs, "signal": 15})),
        ("job.raise", json!({"jobs": jobs, "type": "cancel"})),
    ];
    for (topic, body) in asks {
        let reply = i.call(topic, &body);
        assert!(reply.contains("9-3 given"), "{topic}: {reply}");
    }
    assert_eq!(i.exceptions(1), []);
    assert_eq!(i.signals(), []);
}

#[test]
fn of_values_that_are_set_together_all_are_or_none() {
    let mut i = Instance::with(2);
    let large = "x".repeat(70 << 10);
    for (wrong, said) in [
        (
            json!({"key": "b", "value": large}),
            "`b`: value: 71682 bytes given",
        ),
        (
            json!({"key": "b\n", "value": 1}),
            "`b\\\\n`: key: a printable name",
        ),
    ] {
        let records = i.records.len();
        let also = json!([{"key": "c", "value": 1}, wrong]);
        let reply = i.call("kvs.put", &json!({"key": "a", "value": 1, "also": also}));
        assert!(reply.contains(said), "{reply}");
        assert_eq!(i.records.len(), records);
    }
    let also = json!([{"key": "b", "value": 2}, {"key": "a", "value": 3}]);
    let reply = i.call("kvs.put", &json!({"key": "a", "value": 1, "also": also}));
    assert_eq!(reply, "null");
    let reply = i.call("kvs.get", &json!({"key": "a"}));
    assert!(reply.contains(r#""value":3"#), "the last is meant: {reply}");
    let many = vec![json!({"key": "a", "value": 1}); 10_000];
    let reply = i.call("kvs.put", &json!({"key": "a", "value": 1, "also": many}));
    assert!(
        reply.contains("10001 values given; at most 10000"),
        "{reply}"
    );
}

#[test]
fn a_list_with_a_name_that_is_unknown_deletes_nothing() {
    let mut i = Instance::with(2);
    reserve(&mut i, 7200, "0-1");
    i.call("kvs.put", &json!({"key": "r", "value": 1}));
    let nobody = "[{\"name\":\"r\",\"pending\":0,\"jobs\":[]}]";
    for (topic, field, done) in [
        ("reservation.delete", "name", nobody),
        ("kvs.delete", "key", "null"),
    ] {
        let records = i.records.len();
        let reply = i.call(topic, &json!({field: "r", "also": ["gone"]}));
        assert!(reply.contains("`gone`"), "{topic}: {reply}");
        assert_eq!(i.records.len(), records, "{topic}");
        let reply = i.call(topic, &json!({field: "r", "also": ["r"]}));
        assert_eq!(reply, done, "{topic}");
        assert_eq!(i.records.len(), records + 1, "{topic}");
    }
    let many = vec!["r"; 10_000];
    let reply = i.call("kvs.delete", &json!({"key": "r", "also": many}));
    assert!(reply.contains("10001 keys named; at most 10000"), "{reply}");
}
