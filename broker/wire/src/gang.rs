//! Gangs: jobs that are given their resources together or not at all.
//!
//! Each member is a job of its own and says which gang of its user it is in, how many that has, and
//! with how few it may begin. Whether all of them are there ingest and the scheduler know.

use serde_json::{Map, Value};

use crate::account::Name;
use crate::spec::Spec;

/// The most members of a gang.
pub const MEMBERS_MAX: u32 = 1024;

/// The attribute of a jobspec that says it, under `attributes.system`.
pub const ATTRIBUTE: &str = "gang";

const KEYS: [&str; 4] = ["name", "size", "min", "uniform"];

/// A gang, as each of its members says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gang {
    /// Its name among those of its user.
    pub name: Name,
    /// How many members it has, 1 and more.
    pub size: u32,
    /// With how few it may begin; those who are left then fail.
    pub min: u32,
    /// All its nodes have the same value of this label: properties of nodes are `LABEL=VALUE`.
    pub uniform: Option<Name>,
}

/// The gang that a job is in.
///
/// # Errors
/// The field that does not say it.
pub fn of(spec: &Spec) -> Result<Option<Gang>, String> {
    let Some(value) = spec.jobspec.attributes.system.other.get(ATTRIBUTE) else {
        return Ok(None);
    };
    let path = format!("attributes.system.{ATTRIBUTE}");
    let Value::Object(all) = value else {
        return Err(format!(
            "{path}: {value} given, allowed is an object of {}",
            KEYS.join(", ")
        ));
    };
    if let Some(key) = all.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!(
            "{path}: `{key}` given, allowed are {}",
            KEYS.join(", ")
        ));
    }
    let size = count(all, "size", 1, MEMBERS_MAX)?
        .ok_or_else(|| format!("{path}.size: is missing; it says how many members the gang has"))?;
    let name =
        named(all, "name")?.ok_or_else(|| format!("{path}.name: is missing; it names the gang"))?;
    Ok(Some(Gang {
        name,
        size,
        min: count(all, "min", 1, size)?.unwrap_or(size),
        uniform: named(all, "uniform")?,
    }))
}

fn count(
    all: &Map<String, Value>,
    key: &str,
    least: u32,
    most: u32,
) -> Result<Option<u32>, String> {
    let Some(value) = all.get(key) else {
        return Ok(None);
    };
    let given = value.as_u64().and_then(|given| u32::try_from(given).ok());
    match given.filter(|given| (least..=most).contains(given)) {
        Some(given) => Ok(Some(given)),
        None => Err(format!(
            "attributes.system.{ATTRIBUTE}.{key}: {value} given, allowed are {least} to {most}"
        )),
    }
}

fn named(all: &Map<String, Value>, key: &str) -> Result<Option<Name>, String> {
    let Some(value) = all.get(key) else {
        return Ok(None);
    };
    let path = format!("attributes.system.{ATTRIBUTE}.{key}");
    let Some(text) = value.as_str() else {
        return Err(format!("{path}: {value} given, allowed is a name"));
    };
    let name = text.parse().map_err(|wrong| format!("{path}: {wrong}"))?;
    Ok(Some(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::jobspec::Jobspec;

    fn read(gang: Value) -> Result<Option<Gang>, String> {
        let jobspec = Jobspec::from_value(json!({
            "version": 1,
            "resources": [{"type": "slot", "label": "s", "count": 1, "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["a"], "slot": "s", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 0, "gang": gang}},
        }));
        let spec = Spec::from_jobspec(jobspec.expect("a jobspec")).expect("a spec");
        of(&spec)
    }

    #[test]
    fn a_gang_has_a_name_and_a_size_and_begins_with_all() {
        let gang = read(json!({"name": "g", "size": 3})).expect("a gang");
        let gang = gang.expect("a gang");
        assert_eq!((gang.size, gang.min, gang.uniform), (3, 3, None));
        let gang = read(json!({"name": "g", "size": 3, "min": 2, "uniform": "rack"}));
        let gang = gang.expect("a gang").expect("a gang");
        assert_eq!(gang.min, 2);
        assert_eq!(gang.uniform.expect("a label").as_str(), "rack");
    }

    #[test]
    fn what_is_wrong_is_told_by_its_field() {
        let wrong = |gang: Value| read(gang).expect_err("refused");
        let cases = [
            (json!(3), "attributes.system.gang: 3 given"),
            (
                json!({"name": "g"}),
                "attributes.system.gang.size: is missing",
            ),
            (
                json!({"size": 2}),
                "attributes.system.gang.name: is missing",
            ),
            (
                json!({"name": "g", "size": 0}),
                "attributes.system.gang.size: 0 given, allowed are 1 to 1024",
            ),
            (
                json!({"name": "g", "size": 3, "min": 4}),
                "attributes.system.gang.min: 4 given, allowed are 1 to 3",
            ),
            (
                json!({"name": "g", "size": 3, "minimum": 2}),
                "attributes.system.gang: `minimum` given, allowed are name, size, min, uniform",
            ),
            (
                json!({"name": 7, "size": 3}),
                "attributes.system.gang.name: 7 given",
            ),
        ];
        for (gang, says) in cases {
            let text = wrong(gang.clone());
            assert!(text.starts_with(says), "{gang}: {text}");
        }
    }
}
