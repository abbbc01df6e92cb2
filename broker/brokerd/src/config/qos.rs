//! `[[qos]]` and `[[class]]`: what jobs may ask for by name, and what it means for them.
//!
//! Read by [`super::load`], after the policy: priorities and usage factors become keys of the
//! policy, so that what orders jobs is in one place.

use std::collections::BTreeSet;
use std::sync::Arc;

use eddy_modules::settings::{Class, Qos};
use eddy_sched::policy::{Class as Ranked, NUMBER_MAX, Preference, Rung};
use eddy_wire::account::Name;
use eddy_wire::preempt::Mode;
use eddy_wire::time::Span;
use toml::{Table, Value};

use super::declared::{Entry, entries, unique};
use super::keys::{GRACE, GRACE_MAX, span};
use super::limits::limits;
use super::{Config, ConfigError, spell};

const NAME: &str = "a name of 1 to 64 characters A-Z, a-z, 0-9, -, _ and ., other than root";
const FACTOR: &str = "a number from 0 to 1";
const AMOUNT: &str = "a number from 0 to 1e12";
const NAMES: &str = "names of [[qos]]";
const ABOVE: &str = "names of [[qos]], neither its own nor of one that preempts it, also by others";
const WHOLE: &str = "a whole number";
const FLAG: &str = "true or false";
const EXEMPT: &str = "a duration such as \"5s\", or seconds, of at most 366 d";
/// Who is exempt for longer is so for good: that he is not named by `preempts` says it better.
const EXEMPT_MAX: Span = Span::seconds(366 * 86_400);
const MODE: &str = "\"requeue\", \"cancel\" or \"suspend\"";
/// Of time limits: 0 is none.
pub(super) const LONGER: &str = "a duration longer than 0 such as \"5s\", or seconds";
const QOS_KEYS: &[&str] = &[
    "name",
    "priority",
    "usage_factor",
    "preempts",
    "exempt",
    "grace",
    "mode",
    "shrink",
    "limits_waived",
    "limits",
    "user_limits",
    "default_time",
];
const CLASS_KEYS: &[&str] = &[
    "name",
    "priority",
    "fair_share_preemptible",
    "urgency_preemptible",
    "default",
];

/// Takes `qos` and `class` out of the document's tables and puts what the policy obeys into it.
pub(super) fn take(config: &mut Config, table: &mut Table, errors: &mut Vec<ConfigError>) {
    let found = entries(table, "qos", errors);
    unique("qos", &found, errors);
    let known: Vec<String> = found
        .iter()
        .filter_map(|one| Some(text(one, "name")?.to_owned()))
        .collect();
    let all: Vec<Qos> = found
        .iter()
        .filter_map(|one| qos(one, &known, errors))
        .collect();
    for one in &found {
        if let Some(given) = one
            .table
            .get("preempts")
            .filter(|_| is_taken_back(one, &all))
        {
            errors.push(one.wrong("preempts", given, ABOVE));
        }
    }
    let found = entries(table, "class", errors);
    unique("class", &found, errors);
    let classes: Vec<(Class, Ranked, bool)> =
        found.iter().filter_map(|one| class(one, errors)).collect();
    let defaults = classes.iter().filter(|(_, _, default)| *default);
    let defaults = defaults.map(|(class, ..)| class.name.as_str());
    one_default("class", &found, defaults, errors);
    let policy = Arc::make_mut(&mut config.instance.policy);
    for qos in &all {
        let name = qos.name.to_string();
        let factors = &mut policy.priority.factors.qos;
        factors.insert(name.clone(), qos.priority);
        policy.usage.qos_factors.insert(name, qos.usage_factor);
    }
    let by_class =
        |(_, ranked, _): &(Class, Ranked, bool)| ranked.urgency_preemptible == Preference::On;
    let ladder = &mut policy.placement.ladder;
    if classes.iter().any(by_class) && !ladder.contains(&Rung::Urgency) {
        // What a class allows that is configured here, higher ones are to do.
        ladder.push(Rung::Urgency);
    }
    for (class, ranked, default) in &classes {
        let name = class.name.to_string();
        if *default {
            policy.placement.default_class.clone_from(&name);
        }
        policy.placement.classes.insert(name, ranked.clone());
    }
    config.instance.qos = all;
    config.instance.classes = classes.into_iter().map(|(class, ..)| class).collect();
}

/// Whether a QoS preempts itself, or one that preempts it, be it by others between them.
fn is_taken_back(entry: &Entry, all: &[Qos]) -> bool {
    let named = |name: &str| all.iter().find(|one| one.name.as_str() == name);
    let Some(own) = text(entry, "name").and_then(named) else {
        return false;
    };
    let mut below: BTreeSet<&Name> = own.preempts.iter().collect();
    let mut left: Vec<&Name> = below.iter().copied().collect();
    while let Some(name) = left.pop() {
        let of = named(name.as_str()).map(|one| &one.preempts);
        left.extend(of.into_iter().flatten().filter(|name| below.insert(name)));
    }
    below.contains(&own.name)
}

fn text<'e>(entry: &'e Entry, key: &str) -> Option<&'e str> {
    entry.table.get(key)?.as_str()
}

/// The name, if it is one.
fn name(entry: &Entry, errors: &mut Vec<ConfigError>) -> Option<Name> {
    match entry.table.get("name") {
        Some(given) => {
            let name = given.as_str().and_then(|name| name.parse().ok());
            if name.is_none() {
                errors.push(entry.wrong("name", given, NAME));
            }
            name
        }
        None => {
            errors.push(entry.missing("name", NAME));
            None
        }
    }
}

/// The value of a key, or this one where it is not given.
pub(super) fn value<T>(
    entry: &Entry,
    key: &str,
    allowed: &'static str,
    default: T,
    read: impl Fn(&Value) -> Option<T>,
    errors: &mut Vec<ConfigError>,
) -> T {
    let Some(given) = entry.table.get(key) else {
        return default;
    };
    let found = read(given);
    if found.is_none() {
        errors.push(entry.wrong(key, given, allowed));
    }
    found.unwrap_or(default)
}

fn number(value: &Value) -> Option<f64> {
    let number = value
        .as_float()
        .or_else(|| Some(value.as_integer()? as f64));
    number.filter(|number| (0.0..=NUMBER_MAX).contains(number))
}

/// Refuses a second one of a list that is the default.
pub(super) fn one_default<'n>(
    list: &'static str,
    found: &[Entry],
    mut defaults: impl Iterator<Item = &'n str>,
    errors: &mut Vec<ConfigError>,
) {
    let (Some(first), Some(second)) = (defaults.next(), defaults.next()) else {
        return;
    };
    let entry = found
        .iter()
        .rfind(|entry| text(entry, "name") == Some(second));
    errors.push(ConfigError::TwoDefaults {
        path: entry.map_or_else(|| list.to_owned(), |entry| entry.path.clone()) + ".default",
        list,
        first: first.to_owned(),
        second: second.to_owned(),
    });
}

fn mode(value: &Value) -> Option<Mode> {
    Some(match value.as_str()? {
        "requeue" => Mode::Requeue,
        "cancel" => Mode::Cancel,
        "suspend" => Mode::Suspend,
        _ => return None,
    })
}

fn qos(entry: &Entry, known: &[String], errors: &mut Vec<ConfigError>) -> Option<Qos> {
    entry.unknown(QOS_KEYS, errors);
    let name = name(entry, errors);
    let part = |value: &Value| number(value).filter(|number| *number <= 1.0);
    let others = |value: &Value| {
        let names = value.as_array()?.iter().map(Value::as_str);
        let names: Option<Vec<&str>> = names.collect();
        let is_known = |name: &&str| known.iter().any(|one| one == name);
        let names = names.filter(|names| names.iter().all(is_known))?;
        names
            .into_iter()
            .map(|name| name.parse().ok())
            .collect::<Option<Vec<Name>>>()
    };
    let qos = Qos {
        name: name
            .clone()
            .unwrap_or_else(|| "unnamed".parse().expect("a name")),
        priority: value(entry, "priority", FACTOR, 0.5, part, errors),
        usage_factor: value(entry, "usage_factor", AMOUNT, 1.0, number, errors),
        preempts: value(entry, "preempts", NAMES, Vec::new(), others, errors),
        exempt: value(entry, "exempt", EXEMPT, Span::ZERO, exempt, errors),
        grace: grace(entry, errors),
        mode: value(entry, "mode", MODE, Mode::default(), mode, errors),
        shrink: value(entry, "shrink", FLAG, false, Value::as_bool, errors),
        limits_waived: value(entry, "limits_waived", FLAG, false, Value::as_bool, errors),
        limits: limits(entry, "limits", errors),
        user_limits: limits(entry, "user_limits", errors),
        default_time: value(
            entry,
            "default_time",
            LONGER,
            None,
            |value| span(value).filter(|span| span.0 > 0).map(Some),
            errors,
        ),
    };
    name.map(|_| qos)
}

/// How long after their grant its jobs are not taken from.
fn exempt(value: &Value) -> Option<Span> {
    span(value).filter(|exempt| *exempt <= EXEMPT_MAX)
}

/// How long those whom it takes from, and it, have from TERM to KILL.
fn grace(entry: &Entry, errors: &mut Vec<ConfigError>) -> Option<Span> {
    let read = |value: &Value| span(value).map(Some);
    let grace = value(entry, "grace", GRACE, None, read, errors)?;
    if let Some(given) = entry.table.get("grace").filter(|_| grace > GRACE_MAX) {
        errors.push(ConfigError::Long {
            path: format!("{}.grace", entry.path),
            given: spell(given),
            allowed: GRACE,
        });
    }
    Some(grace.min(GRACE_MAX))
}

fn class(entry: &Entry, errors: &mut Vec<ConfigError>) -> Option<(Class, Ranked, bool)> {
    entry.unknown(CLASS_KEYS, errors);
    let name = name(entry, errors);
    let preference = |value: &Value| {
        let on = value.as_bool()?;
        Some(if on { Preference::On } else { Preference::Off })
    };
    let off = Preference::Off;
    let priority = value(entry, "priority", WHOLE, 0, Value::as_integer, errors);
    let ranked = Ranked {
        priority,
        fair_share_preemptible: value(
            entry,
            "fair_share_preemptible",
            FLAG,
            off,
            preference,
            errors,
        ),
        urgency_preemptible: value(entry, "urgency_preemptible", FLAG, off, preference, errors),
    };
    let default = value(entry, "default", FLAG, false, Value::as_bool, errors);
    let name = name?;
    Some((Class { name, priority }, ranked, default))
}
