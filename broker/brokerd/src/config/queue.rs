//! `[[queue]]`: the names that people submit to, where each leads, and what holds there.
//!
//! Read by [`super::load`], after the policy: priorities become keys of the policy, so that what
//! orders jobs is in one place.

use std::collections::BTreeSet;
use std::sync::Arc;

use eddy_modules::settings::Queue;
use eddy_sched::policy::NUMBER_MAX;
use eddy_wire::account::{NOBODY, Name};
use eddy_wire::constraint::Constraint;
use eddy_wire::queue::Rules;
use serde::Serialize;
use toml::{Table, Value};

use super::declared::{Entry, NAME, ROOT, broken_name, entries, unique};
use super::keys::{count, span};
use super::limits::limits;
use super::qos::{LONGER, one_default, value};
use super::{Config, ConfigError, spell};
use crate::passwd;
use crate::users::UserError;

const NUMBER: &str = "a number from -1e12 to 1e12";
const FLAG: &str = "true or false";
const AMOUNT: &str = "a whole number from 1 to 65536";
const CORES: &str = "a whole number from 1 to 16777216";
const REQUIRES: &str =
    "names of properties of nodes, those that they must not have with ^ before, none of them both";
const QOS: &str = "names of [[qos]] or of the policy";
const USERS: &str = "names of users that this host knows, or their numbers";
const ACCOUNTS: &str = "names of accounts";
const ACCOUNT: &str = "the name of an account";
const ONE_QOS: &str = "the name of a [[qos]], or of one of the policy";
const CLASS: &str = "the name of a [[class]], or of one of the policy";
const DEFAULT: &str = "false for a queue that leads to an instance; only one of root can be it";
/// In the order of the documentation.
pub(super) const KEYS: &[&str] = &[
    "name",
    "instance",
    "default",
    "priority",
    "min_nodes",
    "max_nodes",
    "max_cores",
    "max_time",
    "requires",
    "limits",
    "user_limits",
    "qos",
    "users",
    "accounts",
    "default_time",
    "default_account",
    "default_qos",
    "default_class",
];

/// One `[[queue]]`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NamedQueue {
    /// `name`.
    pub name: String,
    /// `instance`: the declared one that serves it, or `root`, this one.
    pub instance: String,
    /// `default`: whether jobs that name no queue are of this one.
    pub default: bool,
    /// All else.
    #[serde(flatten)]
    pub rules: Rules,
}

impl NamedQueue {
    /// As the modules take it.
    pub fn to_settings(&self) -> Queue {
        Queue {
            name: self.name.clone(),
            instance: (self.instance != ROOT).then(|| self.instance.clone()),
            default: self.default,
            rules: self.rules.clone(),
        }
    }
}

/// Takes `queue` out of the document's tables and puts what the policy obeys into it.
pub(super) fn take(
    config: &mut Config,
    table: &mut Table,
    instances: &[String],
    errors: &mut Vec<ConfigError>,
) {
    let found = entries(table, "queue", errors);
    let known = Known {
        instances,
        qos: named(
            config.instance.qos.iter().map(|qos| qos.name.as_str()),
            config.instance.policy.priority.factors.qos.keys(),
        ),
        classes: named(
            config.instance.classes.iter().map(|one| one.name.as_str()),
            config.instance.policy.placement.classes.keys(),
        ),
    };
    let queues: Vec<NamedQueue> = found
        .iter()
        .filter_map(|entry| queue(entry, &known, errors))
        .collect();
    unique("queue", &found, errors);
    let defaults = queues.iter().filter(|queue| queue.default);
    let defaults = defaults.map(|queue| queue.name.as_str());
    one_default("queue", &found, defaults, errors);
    let factors = &mut Arc::make_mut(&mut config.instance.policy).priority.factors;
    for (queue, entry) in queues.iter().zip(&found) {
        // One that says nothing leaves what the policy says.
        if entry.table.contains_key("priority") {
            let priority = queue.rules.priority;
            factors.queues.insert(queue.name.clone(), priority);
        }
    }
    config.instance.queues = queues;
}

/// What a queue may name.
struct Known<'k> {
    instances: &'k [String],
    qos: BTreeSet<String>,
    classes: BTreeSet<String>,
}

fn named<'n>(
    own: impl Iterator<Item = &'n str>,
    of_policy: impl Iterator<Item = &'n String>,
) -> BTreeSet<String> {
    own.map(str::to_owned).chain(of_policy.cloned()).collect()
}

fn queue(entry: &Entry, known: &Known<'_>, errors: &mut Vec<ConfigError>) -> Option<NamedQueue> {
    entry.unknown(KEYS, errors);
    let name = entry.checked_name(broken_name, NAME, errors);
    let instance = leads_to(entry, known, errors);
    let default = value(entry, "default", FLAG, false, Value::as_bool, errors);
    if default && instance.as_deref().is_some_and(|instance| instance != ROOT) {
        errors.push(entry.wrong("default", &Value::Boolean(true), DEFAULT));
    }
    let rules = rules(entry, known, errors);
    bounds(entry, &rules, errors);
    Some(NamedQueue {
        name: name?,
        instance: instance?,
        default,
        rules,
    })
}

/// What is least, or is taken where nothing is said, is within what is most.
fn bounds(entry: &Entry, rules: &Rules, errors: &mut Vec<ConfigError>) {
    let mut within = |key: &str, is_over: bool, allowed| {
        if let Some(given) = entry.table.get(key).filter(|_| is_over) {
            errors.push(entry.wrong(key, given, allowed));
        }
    };
    let too_many = rules.min_nodes.zip(rules.max_nodes);
    let too_many = too_many.is_some_and(|(min, max)| min > max);
    within("min_nodes", too_many, "no more than max_nodes");
    let too_long = rules.default_time.zip(rules.max_time);
    let too_long = too_long.is_some_and(|(default, max)| default > max);
    within("default_time", too_long, "no longer than max_time");
    // The smallest nodes have a core each.
    let too_wide = rules.min_nodes.zip(rules.max_cores);
    let too_wide = too_wide.is_some_and(|(nodes, cores)| nodes > cores);
    within("min_nodes", too_wide, "no more than max_cores");
    let other = rules.default_qos.as_ref().zip(rules.qos.as_ref());
    let other = other.is_some_and(|(default, allowed)| !allowed.contains(default));
    within("default_qos", other, "one of qos");
}

/// Where it leads; this instance where nothing is said and there is no other.
fn leads_to(entry: &Entry, known: &Known<'_>, errors: &mut Vec<ConfigError>) -> Option<String> {
    let instances = known.instances;
    let path = format!("{}.instance", entry.path);
    match entry.table.get("instance") {
        Some(Value::String(given)) if given == ROOT || instances.contains(given) => {
            return Some(given.clone());
        }
        Some(given) => {
            let mut known = vec![ROOT];
            known.extend(instances.iter().map(String::as_str));
            known.dedup();
            let (given, known) = (spell(given), known.join(", "));
            errors.push(ConfigError::NoInstance { path, given, known });
        }
        None if instances.is_empty() => return Some(ROOT.to_owned()),
        None => {
            let allowed = "the name of an [[instance]], or root";
            errors.push(ConfigError::Missing { path, allowed });
        }
    }
    None
}

fn rules(entry: &Entry, known: &Known<'_>, errors: &mut Vec<ConfigError>) -> Rules {
    let finite = |value: &Value| {
        let whole = value.as_integer().map(|whole| whole as f64);
        let number = value.as_float().or(whole);
        number.filter(|number| number.abs() <= NUMBER_MAX)
    };
    let amount = |value: &Value| Some(Some(count(value, 1, 65_536)? as u32));
    let cores = |value: &Value| Some(Some(count(value, 1, 1 << 24)? as u32));
    let time = |value: &Value| span(value).filter(|span| span.0 > 0).map(Some);
    let one_of = |value: &Value, known: &BTreeSet<String>| {
        let text = value.as_str().filter(|text| known.contains(*text))?;
        Some(Some(text.parse().ok()?))
    };
    let qos = |value: &Value| one_of(value, &known.qos);
    let class = |value: &Value| one_of(value, &known.classes);
    let account = |value: &Value| Some(Some(value.as_str()?.parse().ok()?));
    let several = |value: &Value| {
        let names = list(value)?;
        let names = names.iter().map(|name| qos(name)?);
        names.collect::<Option<BTreeSet<Name>>>().map(Some)
    };
    let accounts = |value: &Value| {
        let names = list(value)?;
        let names = names.iter().map(|name| account(name)?);
        names.collect::<Option<BTreeSet<Name>>>().map(Some)
    };
    // Whoever is not there is told by name, and nobody meanwhile.
    let users = |value: &Value| {
        let nobody = |value: &Value| value.as_str().map(|_| NOBODY);
        let users = list(value)?.iter();
        let users = users.map(|value| user(value).or_else(|| nobody(value)));
        users.collect::<Option<BTreeSet<u32>>>().map(Some)
    };
    Rules {
        priority: value(entry, "priority", NUMBER, 0.0, finite, errors),
        min_nodes: value(entry, "min_nodes", AMOUNT, None, amount, errors),
        max_nodes: value(entry, "max_nodes", AMOUNT, None, amount, errors),
        max_cores: value(entry, "max_cores", CORES, None, cores, errors),
        max_time: value(entry, "max_time", LONGER, None, time, errors),
        requires: value(
            entry,
            "requires",
            REQUIRES,
            BTreeSet::new(),
            properties,
            errors,
        ),
        limits: limits(entry, "limits", errors),
        user_limits: limits(entry, "user_limits", errors),
        qos: value(entry, "qos", QOS, None, several, errors),
        users: {
            errors.extend(absent(entry));
            value(entry, "users", USERS, None, users, errors)
        },
        accounts: value(entry, "accounts", ACCOUNTS, None, accounts, errors),
        default_time: value(entry, "default_time", LONGER, None, time, errors),
        default_account: value(entry, "default_account", ACCOUNT, None, account, errors),
        default_qos: value(entry, "default_qos", ONE_QOS, None, qos, errors),
        default_class: value(entry, "default_class", CLASS, None, class, errors),
    }
}

/// Names of properties, those that nodes must not have with `^` before; none that they must have and must not.
fn properties(value: &Value) -> Option<BTreeSet<String>> {
    let names = list(value)?.iter();
    let names = names.map(|name| name.as_str().map(str::to_owned));
    let names = names.collect::<Option<BTreeSet<String>>>()?;
    let is_both = |name: &String| names.contains(&format!("^{name}"));
    if names.iter().any(is_both) {
        return None;
    }
    let like = serde_json::json!({"properties": &names});
    Constraint::from_value(&like).is_ok().then_some(names)
}

/// Users of it whom this host does not know.
fn absent(entry: &Entry) -> Vec<ConfigError> {
    let users = entry.table.get("users").and_then(Value::as_array);
    let names = users
        .into_iter()
        .flatten()
        .filter(|value| user(value).is_none());
    let names = names.filter_map(Value::as_str);
    let error = |name: &str| ConfigError::User {
        path: format!("{}.users", entry.path),
        why: UserError::NoName(name.to_owned()),
    };
    names.map(error).collect()
}

fn list(value: &Value) -> Option<&Vec<Value>> {
    value.as_array().filter(|list| !list.is_empty())
}

fn user(value: &Value) -> Option<u32> {
    match value {
        Value::Integer(number) => u32::try_from(*number).ok(),
        Value::String(name) => passwd::number(name).or_else(|| name.parse().ok()),
        _ => None,
    }
}
