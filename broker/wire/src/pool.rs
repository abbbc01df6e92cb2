//! Pools: counts of things that are on no node, such as licences.
//!
//! The configuration says how many there are; a job says how many it takes, and has them as long as it
//! holds its nodes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::account::Name;
use crate::spec::Spec;

/// The most pools of an instance.
pub const POOLS_MAX: usize = 256;

/// The attribute of a jobspec that names them, under `attributes.system`.
pub const ATTRIBUTE: &str = "pools";

/// So many of something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// What jobs name.
    pub name: Name,
    /// How many there are.
    pub count: u64,
}

/// What a job takes: names and how many, each name once.
pub type Takes = Arc<[(Name, u64)]>;

/// What a job takes of pools.
///
/// # Errors
/// The field that does not say it.
pub fn of(spec: &Spec) -> Result<Takes, String> {
    let Some(value) = spec.jobspec.attributes.system.other.get(ATTRIBUTE) else {
        return Ok(Takes::default());
    };
    let path = format!("attributes.system.{ATTRIBUTE}");
    let Value::Object(all) = value else {
        return Err(format!(
            "{path}: {value} given, allowed are names with counts"
        ));
    };
    let take = |(name, count): (&String, &Value)| {
        let known = name.parse::<Name>();
        let name = known.map_err(|wrong| format!("{path}: {wrong}"))?;
        match count.as_u64().filter(|count| *count > 0) {
            Some(count) => Ok((name, count)),
            None => Err(format!(
                "{path}.{name}: {count} given, allowed are 1 and more"
            )),
        }
    };
    all.iter().map(take).collect()
}
