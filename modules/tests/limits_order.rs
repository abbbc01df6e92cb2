//! In which order places of a limit go: urgency, then what the policy says of QoS, class and queue.

use std::sync::Arc;

use eddy_modules::settings::Queue;
use eddy_sched::policy::read::read;
use eddy_wire::account::Limits;
use eddy_wire::message::Roles;
use eddy_wire::queue::Rules;
use serde_json::{Value, json};

use crate::instance::{Instance, ended};

/// A node, on which job 1 runs, and a queue of which one runs at a time, by that policy.
fn one_place(policy: &str) -> Instance {
    let mut i = Instance::asleep(1);
    i.settings.policy = Arc::new(read(policy).expect("a policy"));
    let queue = |name: &str, limits: Limits| Queue {
        name: name.to_owned(),
        instance: None,
        default: false,
        rules: Rules {
            limits,
            ..Rules::default()
        },
    };
    let one = Limits {
        running_jobs: Some(1),
        ..Limits::default()
    };
    i.settings.queues = vec![queue("debug", one), queue("all", Limits::default())];
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    i.submit(0, 4, &json!({"queue": "all"}));
    i.started(1, 0);
    i
}

fn comes(i: &mut Instance, qos: &str) {
    i.submit(0, 4, &json!({"queue": "debug", "qos": qos}));
    i.tick_after(1);
}

/// Which of these jobs has its place.
fn placed<const N: usize>(i: &Instance, jobs: [u64; N]) -> [bool; N] {
    jobs.map(|job| i.life(job, "submit").last() == Some(&"priority"))
}

const BY_QOS: &str = "preset = \"easy\"\npriority.order = [\"urgency\", \"qos\"]";

#[test]
fn one_of_a_higher_qos_has_the_place_of_one_who_only_waits() {
    let mut i = one_place(BY_QOS);
    comes(&mut i, "standby");
    comes(&mut i, "normal");
    assert_eq!(placed(&i, [2, 3]), [false, true]);
    comes(&mut i, "expedite");
    comes(&mut i, "expedite");
    // Among equals the first.
    assert_eq!(placed(&i, [2, 3, 4, 5]), [false, false, true, false]);
    let told = i.call("job.list", &json!({}));
    assert!(
        told.contains("waits behind job f4") || told.contains(" taken, "),
        "{told}"
    );
    let records = i.records.len();
    i.tick_after(86_400);
    assert_eq!(i.records.len(), records, "{:?}", &i.records[records..]);
    i.ended(1, 0, ended(0, None));
    i.started(4, 0);
    i.ended(4, 0, ended(0, None));
    let begun = [2, 3, 5].map(|job| i.life(job, "submit").contains(&"alloc"));
    assert_eq!(begun, [false, false, true]);
}

#[test]
fn urgency_goes_before_qos() {
    let mut i = one_place(BY_QOS);
    comes(&mut i, "standby");
    let jobs = json!({"ranges": [[2, 2]]});
    i.call("job.urgency", &json!({"jobs": jobs, "urgency": 17}));
    comes(&mut i, "expedite");
    assert_eq!(placed(&i, [2, 3]), [true, false]);
}

#[test]
fn a_policy_that_is_set_gives_those_who_are_kept_back_its_order() {
    let mut i = one_place("preset = \"easy\"");
    for qos in ["standby", "normal", "expedite"] {
        comes(&mut i, qos);
    }
    assert_eq!(placed(&i, [2, 3, 4]), [true, false, false]);
    let set = i.call("sched.set-policy", &json!({"text": BY_QOS}));
    assert_eq!(set, "null");
    i.tick_after(1);
    assert_eq!(placed(&i, [2, 3, 4]), [false, false, true]);
    // Also for a leader that reads it.
    i.restart();
    i.reach("0");
    i.tick_after(1);
    assert_eq!(placed(&i, [2, 3, 4]), [false, false, true]);
}

/// What a budget kept back waits in no turn; once there is none it does.
#[test]
fn where_a_budget_is_taken_away_whom_it_kept_back_is_before_those_behind_him() {
    let mut i = Instance::with(1);
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let set = |i: &mut Instance, limits: &Value| {
        let account = json!({"account": {"name": "a", "value": {"limits": limits}}});
        let member = json!({"member": {"account": "a", "user": 7, "value": {"shares": 1}}});
        let changes = [account, member].map(|change| json!({"change": change, "before": "any"}));
        let made = i.call("account.set", &json!({"changes": changes, "aim": "make"}));
        assert!(made.contains("\"changed\":"), "{made}");
        i.tick_after(1);
    };
    let submit = |i: &mut Instance, seconds: u64| {
        let given = i.submit(0, 1, &json!({"account": "a", "duration": seconds}));
        assert!(given.contains("first"), "{given}");
    };
    set(&mut i, &json!({"running_jobs": 1}));
    submit(&mut i, 5);
    // Of this one nobody knows what it comes to.
    submit(&mut i, 0);
    set(&mut i, &json!({"running_jobs": 1, "core_minutes": 100}));
    i.started(1, 0);
    i.ended(1, 0, ended(0, None));
    submit(&mut i, 5);
    submit(&mut i, 5);
    let begun = |i: &Instance| [2, 3, 4].map(|job| i.life(job, "submit").contains(&"alloc"));
    assert_eq!(begun(&i), [false, true, false]);
    set(&mut i, &json!({"running_jobs": 2}));
    assert_eq!(begun(&i), [true, true, false]);
}
