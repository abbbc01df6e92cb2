//! `[policy]`: the policy of an instance, checked with the code that checks a
//! policy by itself.
//!
//! Called by [`super::load`] and for the keys that a declared instance is given.
//! Which policies are obeyed says [`eddy_sched::policy::Policy::served`].

use std::sync::Arc;

use eddy_sched::policy::Policy;
use eddy_sched::policy::print::{overrides, print};
use eddy_sched::policy::read::Draft;
use serde_json::Value as Json;
use toml::{Table, Value};

use super::{Config, ConfigError, keys, typed};

/// Where it stands in the configuration.
const TABLE: &str = "policy";

/// The key, from the policy on, and the value of an override that is of the policy.
pub(super) fn key(given: &str) -> Option<(String, Value)> {
    let (path, text) = given.split_once('=')?;
    let path = path.trim().strip_prefix(TABLE)?.strip_prefix('.')?;
    Some((path.to_owned(), typed(text.trim())))
}

/// Takes the table out of the document, whose text says the lines, with keys put over it.
pub(super) fn take(
    config: &mut Config,
    text: &str,
    table: &mut Table,
    overrides: impl Iterator<Item = (String, Value)>,
    errors: &mut Vec<ConfigError>,
) {
    table.remove(TABLE);
    match checked(text, overrides) {
        Ok(policy) => config.instance.policy = Arc::new(policy),
        Err(wrong) => errors.extend(wrong),
    }
}

/// The policy that a document and keys put over it make, if instances obey it.
pub(super) fn checked(
    text: &str,
    overrides: impl Iterator<Item = (String, Value)>,
) -> Result<Policy, Vec<ConfigError>> {
    let mut draft = Draft::within(text, TABLE).map_err(|error| vec![ConfigError::Policy(error)])?;
    for (path, value) in overrides {
        draft.set(&path, &value);
    }
    let policy = draft.read().map_err(|errors| {
        errors
            .into_iter()
            .map(ConfigError::Policy)
            .collect::<Vec<_>>()
    })?;
    match policy.served() {
        Ok(()) => Ok(policy),
        Err(why) => Err(vec![ConfigError::NotServed {
            path: format!("{TABLE}.preset"),
            why,
        }]),
    }
}

/// What `[[qos]]`, `[[class]]` and `[[queue]]` put into the policy, by how its paths begin: it is the site's, whatever
/// the preset.
const SITE: [&str; 6] = [
    "priority.factors.qos.",
    "priority.factors.queues.",
    "usage.factors.",
    "usage.qos_factors.",
    CLASSES,
    "placement.default_class",
];
const CLASSES: &str = "placement.classes.";
/// That higher classes take from lower ones is put there with the classes.
const LADDER: &str = "placement.ladder";

/// A policy with `policy.KEY=VALUE` put over it; another preset begins without what was put
/// over the one before, but for what the site's lists say.
///
/// # Errors
/// All there are; a key that is of something else by its name.
pub fn over(policy: &Policy, given: &[String]) -> Result<Policy, Vec<ConfigError>> {
    let foreign = |text: &String| match text.split_once('=') {
        None => Some(ConfigError::NotLive { path: text.clone() }),
        Some((path, _)) if key(text).is_none() => Some(ConfigError::NotLive {
            path: path.trim().to_owned(),
        }),
        Some(_) => None,
    };
    let errors: Vec<ConfigError> = given.iter().filter_map(foreign).collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let keys: Vec<(String, Value)> = given.iter().filter_map(|given| key(given)).collect();
    let begins = keys.iter().any(|(path, _)| path == "preset");
    let line = |(path, value): &(String, String)| format!("{TABLE}.{path} = {value}\n");
    let mut put = overrides(policy);
    if begins {
        let has_classes = put.iter().any(|(path, _)| path.starts_with(CLASSES));
        put.retain(|(path, _)| {
            SITE.iter().any(|site| path.starts_with(site)) || has_classes && path == LADDER
        });
    }
    let text: String = put.iter().map(line).collect();
    checked(&text, keys.into_iter()).map_err(|mut errors| {
        for error in &mut errors {
            // Nobody has seen the text that its lines are of.
            if let ConfigError::Policy(error) = error {
                error.line = None;
            }
        }
        errors
    })
}

/// Every key of it, nested as in TOML.
pub fn to_json(policy: &Policy) -> Json {
    let table: Table = print(policy).parse().expect("what is printed reads back");
    keys::json(&table)
}
