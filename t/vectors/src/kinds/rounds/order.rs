//! The orders of jobs and of accounts alone.

use std::cmp::Reverse;

use anyhow::{Context, Result};
use eddy_sched::policy::Preference;
use eddy_sched::rounds::{JobKey, Stage, Turn};
use eddy_wire::time::{Span, Time};
use serde_json::{Value, json};

use super::scene::{list, text};

/// -1, 0 or 1 for each pair.
pub fn job_compare(input: &Value) -> Result<Value> {
    let key = |job: &Value| {
        let number = |field: &str| job[field].as_i64().unwrap_or(0);
        let started = job["run_started"].as_i64();
        let at = |seconds| Time(0) + Span::seconds(seconds);
        JobKey {
            stage: match started {
                Some(_) => Stage::Running,
                None => Stage::Waiting,
            },
            class: Reverse(number("cls")),
            priority: number("priority"),
            since: at(started.unwrap_or(number("submitted"))),
            submit: at(number("submitted")),
            id: text(&job["id"]),
        }
    };
    let compare = |pair: &Value| key(&pair["a"]).compare(&key(&pair["b"])) as i8;
    let all: Vec<i8> = list(&input["pairs"]).iter().map(compare).collect();
    Ok(json!({ "compare": all }))
}

/// Accounts in the order of their turns where large jobs are preferred.
pub fn queue_order_prefer_large(input: &Value) -> Result<Value> {
    let mut keyed = Vec::new();
    for item in list(&input["items"]) {
        let number = |field: &str| {
            let number = item[field].as_f64();
            number.with_context(|| format!("items: {field} is not a number"))
        };
        let turn = Turn {
            class: item["class_priority"].as_i64().unwrap_or(0),
            proposed: number("proposed")?,
            current: number("current")?,
            budget: number("budget")?,
            size: number("size")?,
        };
        keyed.push((turn.key(Preference::On), text(&item["queue"])));
    }
    keyed.sort();
    let order: Vec<String> = keyed.into_iter().map(|(_, queue)| queue).collect();
    Ok(json!({ "order": order }))
}
