//! Limits of nodes, and jobs that do not say on how many they lie.

use eddy_modules::settings::Queue;
use eddy_wire::account::Limits;
use eddy_wire::event::Kind;
use eddy_wire::message::Roles;
use eddy_wire::queue::Rules;
use serde_json::{Value, json};

use crate::instance::Instance;

fn queue(name: &str, rules: Rules) -> Queue {
    Queue {
        name: name.to_owned(),
        instance: None,
        default: false,
        rules,
    }
}

/// Three nodes of four cores, with these queues.
fn with_queues(queues: Vec<Queue>) -> Instance {
    let mut i = Instance::asleep(3);
    i.settings.queues = queues;
    i.restart();
    i.reach("0-2");
    (1..=3).for_each(|epoch| i.hello(epoch, &[]));
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    i
}

/// A queue of two nodes at most for a job, and one without a limit.
fn three() -> Instance {
    let two = Rules {
        max_nodes: Some(2),
        ..Rules::default()
    };
    with_queues(vec![queue("two", two), queue("any", Rules::default())])
}

/// An account that has two nodes at most, and one that has what there is.
fn with_accounts(i: &mut Instance) {
    let account =
        |name: &str, limits: Value| json!({"account": {"name": name, "value": {"limits": limits}}});
    let member =
        |name: &str| json!({"member": {"account": name, "user": 7, "value": {"shares": 1}}});
    let changes = [
        account("few", json!({"nodes": 2})),
        account("all", json!({})),
        member("few"),
        member("all"),
    ];
    let changes = changes.map(|change| json!({"change": change, "before": "any"}));
    let made = i.call("account.set", &json!({"changes": changes, "aim": "make"}));
    assert!(made.contains("\"changed\":4"), "{made}");
}

/// Nodes and slots on each, as they are recorded, and tasks.
fn asked(i: &Instance, job: u64) -> (Option<u32>, u32, u32) {
    let submits = i
        .records
        .iter()
        .filter(|record| record.event.job.is_some_and(|id| id.0 == job));
    let mut request = submits.filter_map(|record| match &record.event.kind {
        Kind::Submit(submit) => Some(submit.spec.request.clone()),
        _ => None,
    });
    let request = request.next_back().expect("it was submitted");
    (request.nodes, request.slots_per_node, request.ntasks)
}

#[test]
fn who_names_no_nodes_where_a_queue_limits_them_lies_on_the_fewest() {
    let mut i = three();
    let two = json!({"queue": "two"});
    for tasks in [2, 8, 5] {
        i.submit(0, tasks, &two);
    }
    // Two tasks are on two nodes at most wherever they are.
    assert_eq!(asked(&i, 1), (None, 2, 2));
    assert_eq!(asked(&i, 2), (Some(2), 4, 8));
    assert_eq!(asked(&i, 3), (Some(2), 3, 5));
    let reply = i.submit(0, 9, &two);
    assert!(
        reply.contains(
            "resources: 3 nodes given, queue `two` allows at most 2; queue `any` could take it"
        ),
        "{reply}"
    );
    // And on whole nodes.
    i.submit(0, 5, &json!({"queue": "two", "place": "excl"}));
    assert_eq!(asked(&i, 4), (Some(2), 3, 5));
    i.submit(0, 12, &json!({"queue": "any"}));
    assert_eq!(asked(&i, 5), (None, 12, 12));
}

#[test]
fn who_is_over_a_limit_of_a_queue_is_told_which_could_take_it() {
    let limits = Limits {
        nodes: Some(1),
        ..Limits::default()
    };
    let all = Rules {
        limits,
        ..Rules::default()
    };
    // One with such a limit for each user could not.
    let each = Rules {
        user_limits: limits,
        ..Rules::default()
    };
    let any = Rules::default();
    let mut i = with_queues(vec![
        queue("one", all),
        queue("other", each),
        queue("any", any),
    ]);
    let reply = i.submit(2, 2, &json!({"queue": "one"}));
    let told =
        "limit `nodes` of queue `one` is 1: 0 are taken, 2 asked for; queue `any` could take it";
    assert!(reply.contains(told), "{reply}");
}

#[test]
fn no_account_has_more_nodes_than_its_limit_by_jobs_that_name_none() {
    let mut i = three();
    with_accounts(&mut i);
    i.submit(3, 9, &json!({"account": "all", "queue": "any"}));
    assert!(i.life(1, "submit").contains(&"alloc"));
    i.submit(0, 3, &json!({"account": "few", "queue": "any"}));
    assert_eq!(
        asked(&i, 2),
        (Some(1), 3, 3),
        "one core is free on each of three"
    );
    assert!(!i.life(2, "submit").contains(&"alloc"));
    let reply = i.submit(0, 9, &json!({"account": "few", "queue": "any"}));
    assert!(
        reply.contains("account `few`") && reply.contains("nodes"),
        "{reply}"
    );
}

#[test]
fn one_that_names_no_nodes_does_not_come_under_a_limit_of_them_later() {
    let mut i = three();
    with_accounts(&mut i);
    i.submit(3, 12, &json!({"account": "all", "queue": "any"}));
    i.submit(0, 3, &json!({"account": "all", "queue": "any"}));
    i.sender = (7, Roles::USER);
    for set in [json!({"account": "few"}), json!({"queue": "two"})] {
        let body = json!({"jobs": {"ranges": [[2, 2]]}, "set": set});
        let reply = i.call("job.update", &body);
        assert!(reply.contains("resources: "), "{reply}");
    }
    assert_eq!(asked(&i, 2), (None, 3, 3));
}
