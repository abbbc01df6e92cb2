//! Several users: what each may ask of whose jobs, and what each is shown.

use crate::instance::Instance;
use eddy_broker::Arrival;
use eddy_broker::effect::{Answer, Query};
use eddy_wire::access::Listing;
use eddy_wire::id::JobId;
use eddy_wire::message::Roles;
use eddy_wire::services::job::JobRow;
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
fn who_asks_what_would_be_cancelled_is_told_of_his_own_and_how_many_are_not() {
    let everybody = json!({"scope": "everybody", "jobs": {"ranges": []}, "type": "cancel"});
    let would = |listing, sender| {
        let mut i = anns(listing);
        i.sender = BOB;
        i.submit(0, 4, &json!({}));
        let before = i.records.len();
        let answer = as_sender(&mut i, sender, "job.would-raise", &everybody);
        assert_eq!(i.records.len(), before, "it is not done");
        answer
    };
    for (listing, sender, told) in [
        (Listing::Open, ANN, r#"{"ranges":[[1,2]]},"others":1"#),
        (Listing::Open, BOB, r#"{"ranges":[[3,3]]},"others":2"#),
        (Listing::Private, BOB, r#"{"ranges":[[3,3]]},"others":0"#),
        (Listing::Open, ADMIN, r#"{"ranges":[[1,3]]},"others":0"#),
    ] {
        let answer = would(listing, sender);
        assert!(answer.contains(told), "{listing:?} {sender:?}: {answer}");
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
    let mut i = anns(Listing::Open);
    let answer = as_sender(&mut i, BOB, "job.events", &json!({"id": 1}));
    assert!(!answer.contains("may not ask"), "{answer}");
}

#[test]
fn where_listings_are_private_no_reason_tells_the_number_of_anothers_job() {
    let explained = json!({"jobs": {"ranges": [[3, 3]]}});
    for (listing, sender, told) in [
        (Listing::Open, BOB, "waits behind job f3"),
        (Listing::Private, ADMIN, "waits behind job f3"),
        (
            Listing::Private,
            BOB,
            "waits behind a job that is before it",
        ),
    ] {
        let mut i = anns(listing);
        i.sender = BOB;
        i.submit(0, 4, &json!({}));
        let rows = as_sender(&mut i, sender, "job.list", &json!({}));
        assert!(rows.contains(told), "{listing:?} {sender:?}: {rows}");
        let answer = as_sender(&mut i, sender, "sched.explain", &explained);
        let is_named = answer.contains("\"behind\",\"head\":2,");
        assert_eq!(is_named, told.ends_with("f3"), "{answer}");
    }
}

/// What is asked of a job by its number.
fn asked_of(id: u64) -> Vec<(&'static str, Value)> {
    let jobs = json!({"ranges": [[id, id]]});
    vec![
        (
            "job.raise",
            json!({"jobs": jobs, "type": "cancel", "severity": 0}),
        ),
        ("job.urgency", json!({"jobs": jobs, "urgency": 0})),
        ("job.release", json!({"jobs": jobs})),
        ("job.update", json!({"jobs": jobs, "duration": 60_000_000})),
        ("job.kill", json!({"jobs": jobs, "signal": 10})),
        ("job.kill", json!({"jobs": jobs, "signal": 18})),
        ("job.suspend", json!({"jobs": jobs})),
        ("job.resume", json!({"jobs": jobs})),
        ("job.requeue", json!({"jobs": jobs})),
        ("job.order", json!({"jobs": [id]})),
        ("job.input", json!({"id": id})),
        ("job.output", json!({"id": id, "follow": false})),
        ("job.info", json!({"id": id, "key": "jobspec"})),
        ("job.info", json!({"id": id, "key": "eventlog"})),
        ("job.info", json!({"id": id, "key": "R"})),
        ("job.events", json!({"id": id})),
        ("job.wait", jobs.clone()),
        ("child.list", json!({"job": id})),
        ("child.beat", json!({"job": id, "attempt": 1})),
        ("sched.explain", json!({"job": id})),
        (
            "job.submit",
            json!({"dependencies": [{"scheme": "afterany", "value": id.to_string()}]}),
        ),
        (
            "job.submit",
            json!({"dependencies": [{"scheme": "afterok", "value": format!("{id}/5")}]}),
        ),
    ]
}

/// What Bob is told, with N for the number, where the journal has this job of Ann's and no other.
fn told_bob(topic: &str, body: &Value, (id, over): (u64, Option<&JobRow>)) -> Vec<String> {
    let mut i = anns(Listing::Private);
    let before = i.records.len();
    i.clear();
    i.sender = BOB;
    match topic {
        "job.submit" => i.submit(0, 1, body),
        _ => i.call(topic, body),
    };
    while let Some((tag, query)) = i.queries.pop() {
        let answer = match query {
            Query::Finished(job) => {
                let found = over.filter(|row| row.id == job);
                Answer::Finished(found.map(|row| Box::new((row.clone(), Vec::new()))))
            }
            // Of his own only.
            Query::Rows(asked) if asked.user == Some(BOB.0) => Answer::Rows(Vec::new(), None),
            other => panic!("{topic} {body} asks the journal for {other:?}"),
        };
        i.act(Arrival::Answer(tag, answer));
    }
    assert_eq!(i.records.len(), before, "{topic} records nothing");
    let job = JobId(id);
    let spelled = [job.to_string(), job.f58_ascii().to_string(), id.to_string()];
    let unnamed = |text: &String| {
        let all = spelled.iter();
        all.fold(text.clone(), |text, spelled| text.replace(spelled, "N"))
    };
    i.answers.iter().map(unnamed).collect()
}

#[test]
fn where_listings_are_private_anothers_job_is_told_from_none_by_no_word() {
    let mut i = anns(Listing::Private);
    let rows = as_sender(
        &mut i,
        ANN,
        "job.list",
        &json!({"jobs": {"ranges": [[1, 1]]}}),
    );
    let rows: Vec<JobRow> = serde_json::from_str(&rows).expect("rows");
    let over = JobRow {
        id: JobId(3),
        ..rows[0].clone()
    };
    // 1 runs, 2 waits, 3 is over and 7 is nobody's.
    let of_none = asked_of(7);
    for id in [1, 2, 3] {
        for ((topic, body), (_, none)) in asked_of(id).into_iter().zip(&of_none) {
            let told = told_bob(topic, &body, (id, Some(&over)));
            let none = told_bob(topic, none, (7, None));
            let is_read = none.iter().all(|text| !text.contains(" field `"));
            assert!(is_read && !none.is_empty(), "{topic} {body}: {none:?}");
            assert_eq!(told, none, "{topic} {body}");
        }
    }
}

#[test]
fn a_range_in_which_all_are_anothers_is_one_in_which_nobody_is() {
    let range = json!({"jobs": {"ranges": [[1, 2]]}, "urgency": 0});
    let answer = as_sender(&mut anns(Listing::Private), BOB, "job.urgency", &range);
    assert!(answer.contains("nor any up to"), "{answer}");
    let answer = as_sender(&mut anns(Listing::Open), BOB, "job.urgency", &range);
    assert_eq!(answer.matches("another user's").count(), 2, "{answer}");
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
    assert!(answer.contains("scope: given beside"), "{answer}");
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
fn a_job_has_a_name_or_none_when_it_is_submitted_as_when_it_is_changed() {
    let mut i = anns(Listing::Open);
    i.clear();
    i.sender = ANN;
    i.submit(0, 1, &json!({"job": {"name": ""}}));
    let refused = "attributes.system.job.name: an empty name given; allowed is any other, or none";
    assert!(i.answers[0].contains(refused), "{:?}", i.answers);
    let body = json!({"jobs": {"ranges": [[2, 2]]}, "set": {"name": ""}});
    let answer = i.call("job.update", &body);
    assert!(answer.contains(refused), "{answer}");
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
