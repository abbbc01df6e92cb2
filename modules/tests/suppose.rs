//! What would be: as far as queues would take it.

use eddy_modules::settings::Queue;
use eddy_wire::queue::Rules;
use eddy_wire::time::Span;
use serde_json::json;

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
