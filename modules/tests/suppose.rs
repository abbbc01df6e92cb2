//! What would be: as far as queues would take it.

use eddy_modules::settings::Queue;
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
    i.call("job.cancel", &json!({"jobs": {"ranges": [[1, 3]]}}));
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
