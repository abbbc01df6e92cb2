//! What would be: as far as queues would take it.

use eddy_modules::settings::{Declared, Elastic, Extent, Queue};
use eddy_wire::account::Limits;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Leader;
use eddy_wire::queue::Rules;
use eddy_wire::reservation::Purpose;
use eddy_wire::services::reservation::{CreateRequest, Running, Which};
use eddy_wire::time::Span;
use serde_json::{Value, json};

use crate::instance::Instance;

/// One job has the node, and one of a queue that takes jobs of up to a minute on at most one node waits.
fn waiting() -> Instance {
    let mut i = Instance::asleep(2);
    i.settings.queues = vec![Queue {
        name: "short".to_owned(),
        instance: None,
        default: true,
        rules: Rules {
            max_nodes: Some(1),
            max_time: Some(Span::seconds(60)),
            ..Rules::default()
        },
    }];
    i.restart();
    i.reach("0-1");
    i.hello(1, &[]);
    i.hello(2, &[]);
    for _ in 1..=3 {
        i.submit(0, 4, &json!({"duration": 50.0}));
    }
    i
}

#[test]
fn what_a_queue_would_refuse_is_said_so() {
    let told = |suppose| {
        let jobs = json!({"ranges": [[3, 3]]});
        waiting().call("sched.explain", &json!({"jobs": jobs, "suppose": suppose}))
    };
    let long = told(json!({"limit": 61.0}));
    assert!(
        long.contains(r#""kind":"refused","queue":"short""#),
        "{long}"
    );
    assert!(
        long.contains("61 s given, queue `short` allows 60 s"),
        "{long}"
    );
    assert!(long.contains(r#""start":null"#), "{long}");
    let wide = told(json!({"nodes": 2}));
    assert!(
        wide.contains("2 nodes given, queue `short` allows at most 1"),
        "{wide}"
    );
    for suppose in [json!({"limit": 60.0}), json!({"urgency": 20})] {
        let taken = told(suppose);
        assert!(!taken.contains("refused"), "{taken}");
    }
}

/// What would be of the third job, as of now.
fn third(i: &mut Instance, suppose: &Value) -> String {
    let jobs = json!({"ranges": [[3, 3]]});
    i.call("sched.explain", &json!({"jobs": jobs, "suppose": suppose}))
}

#[test]
fn what_a_queue_would_refuse_is_said_of_one_that_is_held_too() {
    let mut i = waiting();
    let held = json!({"jobs": {"ranges": [[3, 3]]}, "urgency": 0});
    i.call("job.urgency", &held);
    let long = third(&mut i, &json!({"limit": 61.0}));
    assert!(
        long.contains("61 s given, queue `short` allows 60 s"),
        "{long}"
    );
    for suppose in [json!({"limit": 60.0}), json!({})] {
        let taken = third(&mut i, &suppose);
        assert!(taken.contains(r#""jobs":[]"#), "{taken}");
    }
}

#[test]
fn what_a_reservation_would_refuse_is_said_so() {
    let mut i = waiting();
    i.call(
        "job.raise",
        &json!({"jobs": {"ranges": [[1, 3]]}, "type": "cancel"}),
    );
    let request = CreateRequest {
        name: "course".parse().expect("a name"),
        from: i.now,
        span: Span::seconds(70),
        nodes: Which::Count(1),
        purpose: Purpose::Jobs {
            accounts: Vec::new(),
            users: vec![u32::MAX],
        },
        running: Running::Ignore,
        once: None,
    };
    let made = i.call(
        "reservation.create",
        &serde_json::to_value(&request).expect("JSON"),
    );
    assert!(made.contains("course"), "{made}");
    for _ in 4..=5 {
        i.submit(0, 4, &json!({"duration": 50.0, "reservation": "course"}));
    }
    let told = |i: &mut Instance, limit: f64| {
        let jobs = json!({"ranges": [[5, 5]]});
        let suppose = json!({"limit": limit});
        i.call("sched.explain", &json!({"jobs": jobs, "suppose": suppose}))
    };
    let long = told(&mut i, 60.0);
    assert!(
        long.contains(r#""kind":"not-in-reservation","name":"course""#),
        "{long}"
    );
    let taken = told(&mut i, 55.0);
    assert!(!taken.contains("given"), "{taken}");
}

/// What is told of one job, as of now.
fn told(i: &mut Instance, job: u64, suppose: &Value) -> Value {
    let jobs = json!({"ranges": [[job, job]]});
    let told = i.call("sched.explain", &json!({"jobs": jobs, "suppose": suppose}));
    serde_json::from_str(&told).expect("JSON")
}

fn cancel(i: &mut Instance, job: u64) {
    let jobs = json!({"ranges": [[job, job]]});
    i.call("job.raise", &json!({"jobs": jobs, "type": "cancel"}));
}

/// Asks for all of a node for so long.
fn submit(i: &mut Instance, seconds: f64) {
    i.submit(0, 4, &json!({"duration": seconds}));
}

/// Two nodes, of which one is somebody's home, who lends it for a minute.
fn lent() -> Instance {
    let mut i = Instance::asleep(2);
    i.settings.instance_command = vec!["task".to_owned()];
    i.settings.declared = vec![Declared {
        name: "own".to_owned(),
        extent: Extent::Elastic(Elastic {
            ranks: None,
            home: Idset::one(1),
            lend_max: Some(Span::seconds(60)),
        }),
        leader: Leader::Parent,
        set: Vec::new(),
    }];
    i.restart();
    i.reach("0-1");
    i.hello(1, &[]);
    i.hello(2, &[]);
    i
}

/// The number of the job that was submitted last.
fn last(i: &Instance) -> u64 {
    let jobs = i.records.iter().filter_map(|record| record.event.job);
    jobs.max().map_or(0, |job| job.0)
}

#[test]
fn what_would_be_of_another_limit_counts_what_is_lent_for_so_long() {
    let mut i = lent();
    submit(&mut i, 300.0);
    submit(&mut i, 300.0);
    let long = last(&i);
    let would = told(&mut i, long, &json!({"limit": 60.0}));
    assert_eq!(would["jobs"][0]["reason"]["kind"], "new", "{would}");
    cancel(&mut i, long);
    submit(&mut i, 60.0);
    let short = last(&i);
    assert_eq!(
        told(&mut i, short, &json!({}))["jobs"],
        json!([]),
        "it runs"
    );
    // Now both nodes are taken, that at home for a minute.
    submit(&mut i, 50.0);
    let next = last(&i);
    let would = told(&mut i, next, &json!({"limit": 200.0}));
    cancel(&mut i, next);
    submit(&mut i, 200.0);
    let longer = last(&i);
    let is = told(&mut i, longer, &json!({}));
    assert_eq!(would["jobs"][0]["start"], is["jobs"][0]["start"]);
    assert_eq!(would["jobs"][0]["reason"], is["jobs"][0]["reason"]);
}

#[test]
fn who_is_not_lent_a_node_is_told_so_and_by_which_limit_he_would_have_it() {
    let mut i = lent();
    submit(&mut i, 300.0);
    submit(&mut i, 300.0);
    let long = last(&i);
    let is = told(&mut i, long, &json!({}));
    let withheld = json!([{"instance": "own", "most": 60.0, "ranks": "1"}]);
    assert_eq!(is["jobs"][0]["lent"], withheld, "{is}");
    assert_eq!(is["jobs"][0]["advice"], json!([{"limit": 60.0}]), "{is}");
    cancel(&mut i, long);
    submit(&mut i, 60.0);
    let short = last(&i);
    assert_eq!(
        told(&mut i, short, &json!({}))["jobs"],
        json!([]),
        "it runs"
    );
    // Where the home is taken, too, no limit gives it to one who waits.
    submit(&mut i, 300.0);
    let next = last(&i);
    let is = told(&mut i, next, &json!({}));
    assert_eq!(is["jobs"][0]["lent"], withheld, "{is}");
    assert!(is["jobs"][0].get("advice").is_none(), "{is}");
}

#[test]
fn longer_than_is_left_of_the_instance_would_be_refused() {
    let mut i = Instance::asleep(1);
    i.settings.place.until = Some(i.now.after(Span::seconds(100)));
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    submit(&mut i, 50.0);
    submit(&mut i, 50.0);
    let would = told(&mut i, 2, &json!({"limit": 101.0})).to_string();
    let left = "attributes.system.duration: 101.000000 s given, this instance has 100.000000 s left for jobs";
    assert!(would.contains(left), "{would}");
    i.answers.clear();
    submit(&mut i, 101.0);
    assert!(
        i.answers.iter().any(|answer| answer.contains(left)),
        "{:?}",
        i.answers
    );
    let taken = told(&mut i, 2, &json!({"limit": 100.0})).to_string();
    assert!(!taken.contains("left for jobs"), "{taken}");
}

#[test]
fn one_that_is_held_is_told_when_it_would_start_were_it_released() {
    let mut i = waiting();
    let third = json!({"jobs": {"ranges": [[3, 3]]}, "urgency": 0});
    i.call("job.urgency", &third);
    let held = told(&mut i, 3, &json!({}));
    assert_eq!(held["jobs"], json!([]), "it waits for no resources");
    i.call("job.release", &json!({"jobs": {"ranges": [[3, 3]]}}));
    let released = told(&mut i, 3, &json!({}));
    for key in ["start", "ahead", "reason"] {
        assert_eq!(held["let_go"][0][key], released["jobs"][0][key], "{held}");
    }
    assert_eq!(released["let_go"], Value::Null);
}

#[test]
fn nothing_is_advised_of_which_somebody_at_a_limit_would_have_the_place() {
    let mut i = Instance::asleep(2);
    i.settings.queues = vec![Queue {
        name: "two".to_owned(),
        instance: None,
        default: true,
        rules: Rules {
            limits: Limits {
                running_jobs: Some(2),
                ..Limits::default()
            },
            ..Rules::default()
        },
    }];
    i.restart();
    i.reach("0-1");
    i.hello(1, &[]);
    i.hello(2, &[]);
    submit(&mut i, 50.0);
    i.submit(0, 8, &json!({"duration": 50.0}));
    let alone = told(&mut i, 2, &json!({}));
    assert_eq!(alone["jobs"][0]["advice"], json!([{"slots": 4}]), "{alone}");
    i.submit(0, 1, &json!({"duration": 50.0}));
    let behind = told(&mut i, 2, &json!({}));
    assert_eq!(behind["jobs"][0]["advice"], Value::Null, "{behind}");
    // Who follows that all the same waits at the limit.
    cancel(&mut i, 2);
    submit(&mut i, 50.0);
    let waits = told(&mut i, 4, &json!({}));
    assert_eq!(waits["jobs"], json!([]), "{waits}");
    assert_eq!(waits["let_go"][0]["reason"]["kind"], "no-room", "{waits}");
}
