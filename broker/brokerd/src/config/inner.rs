//! `policy` of an `[[instance]]`: what it goes by in what it begins itself.
//!
//! Read by [`super::declared`]. Its parent orders its jobs and says where each begins. What it took while that
//! was silent for long it begins first come, first served, so of a policy only its placement counts there, and
//! in one without nodes of its own nothing does. What would count for nothing is refused.

use eddy_sched::policy::Policy;
use toml::{Table, Value};

use super::ConfigError;
use super::declared::{Entry, flatten};
use super::extent::DeclaredExtent;
use super::policy;

const KEY: &str = "policy";
const FORM: &str = "the name of a policy, or a table of its keys";
const TWICE: &str = "nothing beside keys of policy in set";
const OF_FIXED: &str = "\"fcfs\", with keys of placement: its parent orders its jobs, and what it begins while \
                        that is silent it begins first come, first served";
const OF_ELASTIC: &str = "\"fcfs\" beside elastic: without nodes of its own it begins nothing that its parent did not order";

/// What it is started with for that, as `policy.KEY=VALUE`.
pub(super) fn policy(
    entry: &Entry,
    extent: Option<&DeclaredExtent>,
    errors: &mut Vec<ConfigError>,
) -> Vec<String> {
    let Some(given) = entry.table.get(KEY) else {
        return Vec::new();
    };
    let mut keys = Vec::new();
    match given {
        Value::String(_) => keys.push(("preset".to_owned(), given.clone())),
        Value::Table(table) => flatten("", table, &mut keys),
        other => {
            errors.push(entry.wrong(KEY, other, FORM));
            return Vec::new();
        }
    }
    if sets_policy(entry) {
        errors.push(entry.wrong(KEY, given, TWICE));
    }
    let spelled = keys
        .iter()
        .map(|(key, value)| format!("{KEY}.{key}={value}"));
    let spelled = spelled.collect();
    match policy::checked("", keys.into_iter()) {
        Err(wrong) => errors.extend(wrong.into_iter().map(|error| {
            let path = format!("{}.{}", entry.path, error.path());
            error.at(path)
        })),
        Ok(of) => {
            let (counts, allowed) = match extent {
                Some(DeclaredExtent::Elastic { .. }) => {
                    (of == ordered_as_it_is(&of, None), OF_ELASTIC)
                }
                _ => (of == ordered_as_it_is(&of, Some(&of)), OF_FIXED),
            };
            if !counts {
                errors.push(entry.wrong(KEY, given, allowed));
            }
        }
    }
    spelled
}

/// First come, first served under that name, placed as that one places.
fn ordered_as_it_is(named: &Policy, places: Option<&Policy>) -> Policy {
    let fcfs = Policy::default();
    Policy {
        preset: named.preset.clone(),
        placement: places.unwrap_or(&fcfs).placement.clone(),
        ..fcfs
    }
}

/// Whether `set` says something of a policy, too.
fn sets_policy(entry: &Entry) -> bool {
    let set = entry.table.get("set").and_then(Value::as_table);
    let mut flat = Vec::new();
    flatten("", set.unwrap_or(&Table::new()), &mut flat);
    flat.iter()
        .any(|(key, value)| policy::key(&format!("{key}={value}")).is_some())
}
