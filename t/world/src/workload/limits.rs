//! Accounts that all users are in, with limits that come and go.

use eddy_wire::account::{Limits, STANDBY};
use serde_json::{Value, json};

use crate::call::{Ask, Call};
use crate::client::OWNER;
use crate::instance::Nodes;
use crate::random::Random;

/// So many users are in accounts.
const USERS: u32 = 8;

/// What is limited, of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Accounts, mostly by how many jobs.
    Accounts,
    /// Accounts, members and users, by all that can be limited, and so that it binds.
    All,
}

/// Accounts with some limits, of which few bind.
pub(super) fn accounts(random: &mut Random) -> Call {
    let limits = |random: &mut Random| match random.below(7) {
        0 => json!({}),
        6 => json!({ "core_minutes": 3, "excess": STANDBY }),
        // More than there is: nobody waits for it, and yet it counts.
        5 => json!({ "nodes": 10_000 }),
        2 => json!({ "running_jobs": 2, "submitted_jobs": 3 }),
        most => json!({ "running_jobs": most }),
    };
    let (top, inner) = (limits(random), limits(random));
    set(&top, &inner, |_| (json!({}), None))
}

/// Accounts, members and users with limits that bind, and one of them with these.
pub fn binding(random: &mut Random, nodes: Nodes, each: &Limits) -> Call {
    let mut one = |percent| match random.chance(percent) {
        true => limits(random, nodes),
        false => json!({}),
    };
    let (top, mut inner) = (one(60), one(60));
    let each = serde_json::to_value(each).expect("limits are JSON");
    if let (Value::Object(inner), Value::Object(each)) = (&mut inner, each) {
        inner.extend(each);
    }
    let of_users: Vec<(Value, Value)> = (0..USERS).map(|_| (one(25), one(25))).collect();
    set(&top, &inner, |user| {
        let (member, own) = of_users[(user - OWNER) as usize].clone();
        (member, Some(own))
    })
}

/// The same without any: whoever is kept back is let through.
pub fn none() -> Call {
    set(&json!({}), &json!({}), |_| (json!({}), Some(json!({}))))
}

/// Some that keep back or refuse, or let go on beyond.
pub fn limits(random: &mut Random, nodes: Nodes) -> Value {
    let all = i64::from(nodes.count * nodes.cores).min(8);
    let cores = random.between(1, all);
    let count = random.between(1, i64::from(nodes.count));
    let excess = *random.pick(&["hold", "hold", "refuse"]);
    match random.below(8) {
        0 => json!({ "running_jobs": random.between(1, 3) }),
        1 => json!({ "cores": cores, "excess": excess }),
        2 => json!({ "nodes": count, "excess": excess }),
        3 => json!({ "cores": cores, "running_jobs": 2 }),
        4 => json!({ "nodes": count, "cores": cores, "submitted_jobs": random.between(2, 6) }),
        5 => json!({ "cores": all + 8 }),
        _ => budget(random),
    }
}

/// Core-minutes of which jobs with short limits use some.
fn budget(random: &mut Random) -> Value {
    json!({
        "core_minutes": random.between(1, 2),
        "period": *random.pick(&["day", "day", "day", "week", "month", "quarter", "year"]),
        "carry": *random.pick(&[0, 0, 50, 100]),
        "excess": *random.pick(&["hold", STANDBY, STANDBY, "refuse"]),
    })
}

/// Only what has an end is let through where core-minutes are limited.
pub(super) fn shorten(random: &mut Random, ask: &mut Ask) {
    if ask.limit == 0.0 && random.chance(70) {
        ask.limit = *random.pick(&[5.0, 15.0, 40.0]);
    }
}

/// Both accounts, and for each user the limits as a member and over all accounts.
fn set(top: &Value, inner: &Value, of: impl Fn(u32) -> (Value, Option<Value>)) -> Call {
    let account = |name: &str, value: Value| json!({ "change": { "account": { "name": name, "value": value } } });
    let mut changes = vec![
        account("top", json!({ "limits": top })),
        account("inner", json!({ "parent": "top", "limits": inner })),
    ];
    for user in OWNER..OWNER + USERS {
        let (member, own) = of(user);
        let value = match member.as_object().is_some_and(serde_json::Map::is_empty) {
            true => json!({}),
            false => json!({ "limits": member }),
        };
        let member = json!({ "account": "inner", "user": user, "value": value });
        changes.push(json!({ "change": { "member": member } }));
        if let Some(limits) = own {
            let own = json!({ "user": user, "value": { "limits": limits } });
            changes.push(json!({ "change": { "user": own } }));
        }
    }
    Call::accounts(&json!({ "changes": changes }))
}
