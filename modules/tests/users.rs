//! Several users: what each may ask of whose jobs, and what each is shown.

use crate::instance::Instance;
use eddy_wire::access::Listing;
use eddy_wire::message::Roles;
use serde_json::{Value, json};

const ANN: (u32, Roles) = (1001, Roles::USER);
const BOB: (u32, Roles) = (1002, Roles::USER);
const ADMIN: (u32, Roles) = (1003, Roles::USER.or(Roles::ADMIN));

/// Ann's job runs as 1 and waits as 2.
fn anns(listing: Listing) -> Instance {
    let mut i = Instance::asleep(1);
    i.settings.access.listing = listing;
    // A leader that is told so.
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    i.clear();
    i.sender = ANN;
    i.submit(0, 4, &json!({}));
    i.started(1, 0);
    i.submit(0, 4, &json!({}));
    i
}

fn as_sender(i: &mut Instance, sender: (u32, Roles), topic: &str, body: &Value) -> String {
    i.sender = sender;
    i.call(topic, body)
}

#[test]
fn a_start_names_the_user_whose_job_it_is() {
    let mut i = anns(Listing::Open);
    let users: Vec<u32> = i.starts().iter().map(|start| start.user).collect();
    assert_eq!(users, [ANN.0]);
}

#[test]
fn what_changes_a_job_or_reads_what_it_says_is_its_users_and_the_admins() {
    let jobs = json!({"ranges": [[1, 2]]});
    let cases = [
        (
            "job.raise",
            json!({"jobs": jobs, "type": "cancel", "severity": 7}),
        ),
        (
            "job.urgency",
            json!({"jobs": {"ranges": [[2, 2]]}, "urgency": 3}),
        ),
        (
            "job.kill",
            json!({"jobs": {"ranges": [[1, 1]]}, "signal": 10}),
        ),
        // Whose it is comes before whether it runs.
        (
            "job.kill",
            json!({"jobs": {"ranges": [[2, 2]]}, "signal": 10}),
        ),
        ("job.suspend", json!({"jobs": {"ranges": [[2, 2]]}})),
        ("job.requeue", json!({"jobs": {"ranges": [[2, 2]]}})),
        ("job.input", json!({"id": 2})),
        ("job.requeue", json!({"jobs": {"ranges": [[1, 1]]}})),
        ("job.input", json!({"id": 1})),
        ("job.output", json!({"id": 1, "follow": false})),
        ("job.info", json!({"id": 1, "key": "jobspec"})),
    ];
    for (topic, body) in cases {
        let mut i = anns(Listing::Open);
        let before = i.records.len();
        let answer = as_sender(&mut i, BOB, topic, &body);
        let is_refused = answer.contains("another user's") || answer.contains("may not ask");
        assert!(is_refused, "{topic}: {answer}");
        assert_eq!(i.records.len(), before, "{topic} records nothing");
        for sender in [ANN, ADMIN] {
            let answer = as_sender(&mut i, sender, topic, &body);
            let is_refused = answer.contains("another user's") || answer.contains("may not ask");
            assert!(!is_refused, "{topic}: {answer}");
        }
    }
}

#[test]
fn listings_show_everybodys_jobs_unless_they_are_private() {
    let list = |listing, sender| {
        let mut i = anns(listing);
        let answers = as_sender(&mut i, sender, "job.list", &json!({}));
        answers.matches("\"userid\":1001").count()
    };
    for (listing, sender, rows) in [
        (Listing::Open, BOB, 2),
        (Listing::Private, BOB, 0),
        (Listing::Private, ANN, 2),
        (Listing::Private, ADMIN, 2),
    ] {
        assert_eq!(list(listing, sender), rows, "{listing:?} {sender:?}");
    }
    let mut i = anns(Listing::Private);
    let answer = as_sender(&mut i, BOB, "job.events", &json!({"id": 1}));
    assert!(answer.contains("may not ask"), "{answer}");
    let mut i = anns(Listing::Open);
    let answer = as_sender(&mut i, BOB, "job.events", &json!({"id": 1}));
    assert!(!answer.contains("may not ask"), "{answer}");
}

#[test]
fn a_change_that_names_no_job_is_refused_unless_it_asks_for_all() {
    let none = json!({"ranges": []});
    let cases = [
        ("job.raise", json!({"jobs": none, "type": "cancel"})),
        ("job.urgency", json!({"jobs": none, "urgency": 5})),
        ("job.release", json!({"jobs": none})),
        ("job.suspend", json!({"jobs": none})),
        ("job.resume", json!({"jobs": none})),
        ("job.kill", json!({"jobs": none, "signal": 10})),
        ("job.requeue", json!({"jobs": none})),
        ("job.order", json!({"jobs": []})),
    ];
    for (topic, body) in cases {
        let mut i = anns(Listing::Open);
        let before = i.records.len();
        let answer = as_sender(&mut i, ANN, topic, &body);
        assert!(answer.contains("jobs: none given"), "{topic}: {answer}");
        assert_eq!(i.records.len(), before, "{topic} records nothing");
    }
    let mut i = anns(Listing::Open);
    let all = json!({"jobs": none, "urgency": 5, "scope": "all"});
    let answer = as_sender(&mut i, ANN, "job.urgency", &all);
    assert!(answer.contains("\"count\":1"), "{answer}");
    let both = json!({"jobs": {"ranges": [[2, 2]]}, "urgency": 5, "scope": "all"});
    let answer = as_sender(&mut i, ANN, "job.urgency", &both);
    assert!(answer.contains("scope: `all` given beside"), "{answer}");
}

#[test]
fn what_is_no_name_of_an_account_is_refused_where_nobody_is_charged_too() {
    let long = "a".repeat(3000);
    for name in ["no such", "", "-1", &long, "phys\u{ef}k"] {
        for field in ["account", "bank"] {
            let mut i = anns(Listing::Open);
            let before = i.records.len();
            let answer = i.submit(0, 1, &json!({field: name}));
            let begins = format!("attributes.system.{field}: `");
            assert!(answer.contains(&begins), "{answer}");
            assert!(
                answer.contains("is no name; allowed are 1 to 64"),
                "{answer}"
            );
            assert_eq!(i.records.len(), before, "{field} {name}");
        }
    }
    let mut i = anns(Listing::Open);
    let answer = i.submit(0, 1, &json!({"account": "gone"}));
    assert!(!answer.contains("account"), "{answer}");
}

fn submits(i: &mut Instance, sender: (u32, Roles), urgency: u8) -> String {
    let key = uuid::Uuid::from_u128((i.now.0 as u128 / 1000) << 80 | 7 << 76 | 2 << 62 | 77);
    let jobspec = json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60}},
    });
    let body = json!({"key": key, "jobspec": jobspec, "urgency": urgency});
    as_sender(i, sender, "job.submit", &body)
}

#[test]
fn nobody_but_owner_and_admins_is_more_urgent_than_others() {
    let mut i = anns(Listing::Open);
    let before = i.records.len();
    let answer = submits(&mut i, ANN, 17);
    let why = "urgency: 17 given, a user may ask for 0 to 16; owner and admins for up to 31";
    assert!(answer.contains(why), "{answer}");
    assert_eq!(i.records.len(), before);
    assert!(!submits(&mut i, ADMIN, 17).contains("given"));
    let urge = |urgency: u8| json!({"jobs": {"ranges": [[2, 2]]}, "urgency": urgency});
    let mut urged = |sender, urgency| as_sender(&mut i, sender, "job.urgency", &urge(urgency));
    let answer = urged(ANN, 17);
    assert!(
        answer.contains("urgency 17 given, its user may ask for 0 to 16"),
        "{answer}"
    );
    assert!(urged(ANN, 0).contains("\"count\":1"));
    assert!(urged(ADMIN, 20).contains("\"count\":1"));
    // What an administrator made of it its user may lower.
    assert!(urged(ANN, 21).contains("may ask for 0 to 20"));
    assert!(urged(ANN, 18).contains("\"count\":1"));
}
