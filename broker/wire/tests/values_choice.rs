//! Numbers of nodes that are left open: what they come down to, and what is refused with them.

use eddy_wire::jobspec::{Ask, Jobspec};
use serde_json::{Value, json};

use crate::values_jobspec::{ask, request};

#[test]
fn a_choice_of_nodes_is_asked_for_as_the_fewest() {
    let choice = |nodes: &str| Ask {
        command: vec!["true".to_owned()],
        nodes: Some(nodes.parse().expect("a count")),
        ..ask()
    };
    let some = |nodes: &str| {
        let request = request(&Ask {
            ntasks: None,
            cores_per_task: 3,
            ..choice(nodes)
        });
        assert_eq!((request.nodes, request.slots), (Some(2), 2), "{nodes}");
        request
    };
    assert_eq!(some("2").choice, None);
    assert_eq!(some("2-5").wider(100), [3, 4, 5]);
    assert_eq!(some("2-5").wider(4), [3, 4]);
    assert_eq!(some("2,4,9").wider(8), [4]);
    assert_eq!(some("2-40:3:*").wider(100), [6, 18]);
    assert_eq!(some("2+:2:^").wider(100), [4, 16]);
    assert_eq!(some("2+").wider(3), [3]);
    assert!(some("2-5").wider(1).is_empty());
    let four = some("2-5").on_nodes(4);
    assert_eq!(
        (
            four.nodes,
            four.slots,
            four.ntasks,
            four.cores_per_slot,
            four.choice
        ),
        (Some(4), 4, 4, 3, None)
    );
    let tasks = Ask {
        ntasks: Some(8),
        ..choice("2-4")
    };
    let refused = tasks.jobspec().expect_err("tasks on a choice").to_string();
    assert!(
        refused.contains("8 tasks are asked for on 2-4 nodes"),
        "{refused}"
    );
}

#[test]
fn a_choice_of_nodes_in_a_jobspec_says_whether_tasks_are_more() {
    let spec = |count: Value, tasks: Value, slot: Value| {
        Jobspec::from_value(json!({
            "version": 1,
            "resources": [{"type": "node", "count": count, "with": [
                {"type": "slot", "count": 2, "label": "task", "with": slot}]}],
            "tasks": [{"command": ["true"], "slot": "task", "count": tasks}],
            "attributes": {"system": {"duration": 0}},
        }))
        .expect("a jobspec")
        .request()
    };
    let core = || json!([{"type": "core", "count": 1}]);
    let range = || json!({"min": 2, "max": 4, "operand": 1, "operator": "+"});
    let each = spec(range(), json!({"per_slot": 3}), core()).expect("a request");
    assert_eq!((each.ntasks, each.on_nodes(4).ntasks), (12, 24));
    let total = spec(json!("2,4"), json!({"total": 5}), core()).expect("a request");
    assert_eq!((total.ntasks, total.on_nodes(4).ntasks), (5, 5));
    assert_eq!(total.on_nodes(4).slots, 8);
    let wide = spec(json!("1-100"), json!({"total": 5}), core()).expect("a request");
    assert_eq!(wide.wider(1000), [2, 3, 4, 5], "each has a task");
    let memory =
        json!([{"type": "core", "count": 1}, {"type": "memory", "count": 1, "unit": "GiB"}]);
    let refused = spec(range(), json!({"total": 5}), memory).expect_err("memory of whom");
    assert!(
        refused
            .to_string()
            .contains("with a total of tasks and memory in slots it is one number"),
        "{refused}"
    );
}
