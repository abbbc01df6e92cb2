//! `[[instance]]`: the instances that are there with this one; and what all lists of tables have
//! in common.
//!
//! Read by [`super::load`]; every error there is, each with its path (`instance[1].name`).

use std::collections::BTreeSet;

use eddy_modules::settings::{Declared, Extent};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Leader;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Span;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml::{Table, Value};

use super::extent::{self, DeclaredExtent};
use super::{Config, ConfigError, inner, policy, spell};

/// The name that stands for this instance itself.
pub(super) const ROOT: &str = "root";
const KEYS: &[&str] = &[
    "name", "nodes", "ranks", "hosts", "property", "share", "elastic", "home", "lend_max",
    "leader", "policy", "set",
];
const LEADER: &str = "\"node\" or \"parent\"";
const LEADER_OF_ELASTIC: &str =
    "\"parent\" beside elastic: it has no node of its own that its leader could be on";
/// The key of its `set` that says how long its jobs may take.
const DEFAULT_TIME: &str = "defaults.time=";
/// Longest name.
const NAME_BYTES_MAX: usize = 64;
/// Of a queue.
pub(super) const NAME: &str = "a name of 1 to 64 characters a-z, 0-9 and -, other than root";
pub(super) const INSTANCE_NAME: &str = "a name of 1 to 64 characters a-z, 0-9 and - that begins with a letter, is no job id such as f1, and is not root";
const ENTRIES: &str = "tables, each under [[instance]], [[queue]], [[qos]] or [[class]]";
/// How many of each there may be.
const ENTRIES_MAX: usize = 1024;

/// One `[[instance]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeclaredInstance {
    /// `name`.
    pub name: String,
    /// Its nodes.
    #[serde(flatten)]
    pub extent: DeclaredExtent,
    /// `leader`: where that is, and its journal.
    pub leader: Leader,
    /// `policy` and `set`: the configuration it is started with, as `key=value`.
    pub set: Vec<String>,
}

/// Why a declared instance can never be.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FitError {
    /// More nodes than there are.
    #[error("instance `{name}`: asks for {asked} nodes; there are {there}")]
    Nodes {
        /// The instance.
        name: String,
        /// How many it asks for.
        asked: u32,
        /// How many there are.
        there: u64,
    },
    /// Nodes that are not there by what they are.
    #[error("instance `{name}`: asks for {lack}")]
    Lack {
        /// The instance.
        name: String,
        /// What it asks for.
        lack: String,
    },
    /// Two at home on the same nodes.
    #[error("instance `{name}`: is at home on ranks {home}, where another is, too")]
    Home {
        /// The second.
        name: String,
        /// Which.
        home: Idset,
    },
    /// Nodes that are another's own.
    #[error("instance `{name}`: `{key}` asks for ranks {shared}, which are those of `{other}`")]
    Owned {
        /// The second.
        name: String,
        /// The key that says its nodes.
        key: &'static str,
        /// Which.
        shared: Idset,
        /// The first.
        other: String,
    },
    /// More nodes than others of a fixed size leave.
    #[error(
        "instance `{name}`: `{key}` asks for {asked} nodes; of {there} others of a fixed size leave {left}"
    )]
    Left {
        /// The instance.
        name: String,
        /// The key that says its nodes.
        key: &'static str,
        /// How many it asks for.
        asked: u32,
        /// How many there are.
        there: u64,
        /// How many of them are nobody's yet.
        left: u64,
    },
    /// Ranks that are not there.
    #[error("instance `{name}`: asks for ranks {asked}; there are {there}")]
    Ranks {
        /// The instance.
        name: String,
        /// Which it asks for.
        asked: Idset,
        /// Which there are.
        there: Idset,
    },
}

impl FitError {
    /// Whether it may be for want of ranks that were taken out of the inventory for good: what was right
    /// when it was written.
    pub fn is_of_removed(&self, removed: &Idset) -> bool {
        match self {
            FitError::Ranks { asked, there, .. } => removed.contains_all(&asked.difference(there)),
            FitError::Nodes { asked, there, .. } => u64::from(*asked) <= there + removed.len(),
            FitError::Left { asked, left, .. } => u64::from(*asked) <= left + removed.len(),
            // Of what is gone nobody knows what it was.
            FitError::Lack { .. } => !removed.is_empty(),
            FitError::Home { .. } | FitError::Owned { .. } => false,
        }
    }
}

impl DeclaredInstance {
    /// Whether this inventory has the nodes it asks for, in use or not.
    ///
    /// # Errors
    /// [`FitError`] with both numbers.
    pub fn fits(&self, inventory: &ResourceSet) -> Result<(), FitError> {
        let (name, there) = (self.name.clone(), inventory.ranks());
        if let Some(lack) = self.extent.lack(inventory) {
            return Err(FitError::Lack { name, lack });
        }
        let extent = self.extent.resolved(inventory);
        let (nodes, ranks) = extent.asks();
        match ranks {
            Some(ranks) if !there.contains_all(ranks) => Err(FitError::Ranks {
                name,
                asked: ranks.clone(),
                there,
            }),
            None if u64::from(nodes) > inventory.nnodes() => Err(FitError::Nodes {
                name,
                asked: nodes,
                there: inventory.nnodes(),
            }),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether which nodes it is of is known with the inventory only.
    pub fn is_picked(&self) -> bool {
        self.extent.is_picked()
    }

    /// With the ranks of this inventory in place of hosts, properties and shares.
    pub fn resolve(&mut self, inventory: &ResourceSet) {
        self.extent = self.extent.resolved(inventory);
    }

    /// The time limit of its jobs that have none, if it says one itself.
    pub fn default_time(&self) -> Option<Span> {
        let said = self.set.iter().filter(|set| set.starts_with(DEFAULT_TIME));
        let said: Vec<String> = said.cloned().collect();
        // What it sets was checked when it was read.
        let config = super::load("", &said).ok()?;
        config.instance.default_time
    }

    /// As the modules take it, once it is resolved.
    pub fn to_settings(&self) -> Declared {
        Declared {
            name: self.name.clone(),
            extent: self.extent.to_settings(),
            leader: self.leader,
            set: self.set.clone(),
        }
    }
}

/// Whether no two are at home on the same nodes of this inventory.
///
/// # Errors
/// The second of two.
pub fn homes_apart(all: &[DeclaredInstance], inventory: &ResourceSet) -> Result<(), FitError> {
    let mut taken = Idset::new();
    for one in all {
        if let Extent::Elastic(elastic) = one.extent.resolved(inventory).to_settings() {
            let home = taken.intersect(&elastic.home);
            if !home.is_empty() {
                let name = one.name.clone();
                return Err(FitError::Home { name, home });
            }
            taken = taken.union(&elastic.home);
        }
    }
    Ok(())
}

/// All that keeps these from being on this inventory together, in use or not: what each asks for by
/// itself, then what two of them cannot both have.
pub fn misfits(all: &[DeclaredInstance], inventory: &ResourceSet) -> Vec<FitError> {
    let mut errors = Vec::new();
    let fit = |one: &&DeclaredInstance| match one.fits(inventory) {
        Ok(()) => true,
        Err(error) => {
            errors.push(error);
            false
        }
    };
    let fitting: Vec<&DeclaredInstance> = all.iter().filter(fit).collect();
    owned_apart(&fitting, inventory, &mut errors);
    errors
}

/// Whether instances of a fixed size can have their nodes beside each other. Those that name theirs
/// come first, wherever they stand, as they do when they begin: the others take any.
fn owned_apart(all: &[&DeclaredInstance], inventory: &ResourceSet, errors: &mut Vec<FitError>) {
    let (mut owned, mut any) = (Vec::<(&str, Idset)>::new(), Vec::new());
    for one in all {
        let DeclaredExtent::Fixed { nodes, ranks } = one.extent.resolved(inventory) else {
            continue;
        };
        let Some(ranks) = ranks else {
            any.push((one, nodes));
            continue;
        };
        let before = owned
            .iter()
            .map(|(name, own)| (name, own.intersect(&ranks)));
        errors.extend(
            before
                .filter(|(_, both)| !both.is_empty())
                .map(|(other, shared)| FitError::Owned {
                    name: one.name.clone(),
                    key: one.extent.key(),
                    shared,
                    other: (*other).to_owned(),
                }),
        );
        owned.push((&one.name, ranks));
    }
    let named = owned
        .iter()
        .fold(Idset::new(), |all, (_, own)| all.union(own));
    let there = inventory.nnodes();
    let mut left = there.saturating_sub(named.len());
    for (one, asked) in any {
        match left.checked_sub(u64::from(asked)) {
            Some(rest) => left = rest,
            None => errors.push(FitError::Left {
                name: one.name.clone(),
                key: one.extent.key(),
                asked,
                there,
                left,
            }),
        }
    }
}

/// Takes `instance` out of the document's tables; the names of those there are.
pub(super) fn take(
    config: &mut Config,
    table: &mut Table,
    errors: &mut Vec<ConfigError>,
) -> Vec<String> {
    let instances = entries(table, "instance", errors);
    let declared: Vec<(&Entry, DeclaredInstance)> = instances
        .iter()
        .filter_map(|entry| Some((entry, instance(entry, errors)?)))
        .collect();
    extent::apart(&declared, errors);
    config.instance.declared = declared.into_iter().map(|(_, one)| one).collect();
    unique("instance", &instances, errors);
    // An instance whose other keys are wrong is there all the same.
    let names = instances.iter().filter_map(Entry::name);
    names.map(str::to_owned).collect()
}

/// One table of an array of tables.
pub(super) struct Entry {
    /// `instance[1]`.
    pub(super) path: String,
    pub(super) table: Table,
}

impl Entry {
    fn name(&self) -> Option<&str> {
        let name = self.table.get("name")?.as_str();
        name.filter(|name| broken_name(name).is_none())
    }

    pub(super) fn wrong(&self, key: &str, value: &Value, allowed: &'static str) -> ConfigError {
        ConfigError::Value {
            path: format!("{}.{key}", self.path),
            given: spell(value),
            allowed,
        }
    }

    pub(super) fn missing(&self, key: &str, allowed: &'static str) -> ConfigError {
        ConfigError::Missing {
            path: format!("{}.{key}", self.path),
            allowed,
        }
    }

    /// Every key that is none of these.
    pub(super) fn unknown(&self, known: &[&str], errors: &mut Vec<ConfigError>) {
        let unknown = self
            .table
            .keys()
            .filter(|key| !known.contains(&key.as_str()));
        errors.extend(unknown.map(|key| ConfigError::UnknownHere {
            path: format!("{}.{key}", self.path),
            known: known.join(", "),
        }));
    }

    /// The name, unless it breaks a rule of names.
    pub(super) fn checked_name(
        &self,
        broken: fn(&str) -> Option<String>,
        allowed: &'static str,
        errors: &mut Vec<ConfigError>,
    ) -> Option<String> {
        let Some(given) = self.table.get("name") else {
            errors.push(self.missing("name", allowed));
            return None;
        };
        let Some(name) = given.as_str() else {
            errors.push(self.wrong("name", given, allowed));
            return None;
        };
        let Some(how) = broken(name) else {
            return Some(name.to_owned());
        };
        errors.push(ConfigError::Value {
            path: format!("{}.name", self.path),
            given: format!("{}, which {how}", spell(given)),
            allowed,
        });
        None
    }
}

/// What rule of names of queues a text breaks.
pub(super) fn broken_name(name: &str) -> Option<String> {
    let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let length = name.len();
    let how = match name {
        "" => "is empty".to_owned(),
        ROOT => "stands for this instance".to_owned(),
        _ if length > NAME_BYTES_MAX => format!("has {length} bytes"),
        _ if !name.bytes().all(allowed) => "has another character".to_owned(),
        _ => return None,
    };
    Some(how)
}

/// The same of names of instances. `--at NAME` takes what can be read as a job id for a job, and the
/// directory of an instance without a name begins with a digit.
fn broken_instance_name(name: &str) -> Option<String> {
    broken_name(name).or_else(|| match name.parse::<JobId>() {
        Ok(job) => Some(format!("is the id of job {job}")),
        Err(_) if name.starts_with(|c: char| c.is_ascii_lowercase()) => None,
        Err(_) => Some("does not begin with a letter".to_owned()),
    })
}

pub(super) fn entries(table: &mut Table, key: &str, errors: &mut Vec<ConfigError>) -> Vec<Entry> {
    let Some(value) = table.remove(key) else {
        return Vec::new();
    };
    let wrong = |path: String, value: &Value| ConfigError::Value {
        path,
        given: spell(value),
        allowed: ENTRIES,
    };
    let values = match value {
        Value::Array(values) if values.len() <= ENTRIES_MAX => values,
        Value::Array(values) => {
            errors.push(ConfigError::Value {
                path: key.to_owned(),
                given: format!("{} tables", values.len()),
                allowed: "at most 1024",
            });
            return Vec::new();
        }
        other => {
            errors.push(wrong(key.to_owned(), &other));
            return Vec::new();
        }
    };
    let mut entries = Vec::with_capacity(values.len());
    for (at, value) in values.into_iter().enumerate() {
        let path = format!("{key}[{at}]");
        match value {
            Value::Table(table) => entries.push(Entry { path, table }),
            other => errors.push(wrong(path, &other)),
        }
    }
    entries
}

/// Names that are there before.
pub(super) fn unique(key: &'static str, entries: &[Entry], errors: &mut Vec<ConfigError>) {
    let mut seen = BTreeSet::new();
    for entry in entries {
        if let Some(name) = entry.table.get("name").and_then(Value::as_str)
            && !seen.insert(name)
        {
            errors.push(ConfigError::Twice {
                path: format!("{}.name", entry.path),
                given: name.to_owned(),
                what: key,
            });
        }
    }
}

fn instance(entry: &Entry, errors: &mut Vec<ConfigError>) -> Option<DeclaredInstance> {
    entry.unknown(KEYS, errors);
    let name = entry.checked_name(broken_instance_name, INSTANCE_NAME, errors);
    let extent = extent::of(entry, errors);
    let leader = leader(entry, errors);
    let mut set = inner::policy(entry, extent.as_ref(), errors);
    if let Some(given) = entry.table.get("set") {
        set.extend(overrides(entry, given, errors));
    }
    Some(DeclaredInstance {
        name: name?,
        extent: extent?,
        leader,
        set,
    })
}

/// Where its leader is: that of one without nodes of its own beside this instance's.
fn leader(entry: &Entry, errors: &mut Vec<ConfigError>) -> Leader {
    // By the key that is there: what is wrong with its nodes is another error.
    let (own, allowed): (&[Leader], _) = match entry.table.contains_key("elastic") {
        true => (&[Leader::Parent], LEADER_OF_ELASTIC),
        false => (&[Leader::Node, Leader::Parent], LEADER),
    };
    let Some(value) = entry.table.get("leader") else {
        return own[0];
    };
    let given = Leader::deserialize(value.clone()).ok();
    given
        .filter(|given| own.contains(given))
        .unwrap_or_else(|| {
            errors.push(entry.wrong("leader", value, allowed));
            own[0]
        })
}

/// The keys of `set`, each checked as the instance will check it, as `key=value`.
fn overrides(entry: &Entry, set: &Value, errors: &mut Vec<ConfigError>) -> Vec<String> {
    let Value::Table(table) = set else {
        errors.push(entry.wrong("set", set, "a table of keys of the configuration"));
        return Vec::new();
    };
    let mut flat = Vec::new();
    flatten("", table, &mut flat);
    let of_policy = |(key, value): &(String, Value)| policy::key(&format!("{key}={value}"));
    // As a whole: whether a key of a policy is allowed depends on the others.
    if let Err(wrong) = policy::checked("", flat.iter().filter_map(of_policy)) {
        errors.extend(wrong.into_iter().map(|error| {
            let path = format!("{}.set.{}", entry.path, error.path());
            error.at(path)
        }));
    }
    for (key, value) in flat.iter().filter(|pair| of_policy(pair).is_none()) {
        if key.starts_with("access.") {
            let allowed = "nothing: [access] of the root says who may connect";
            errors.push(entry.wrong(&format!("set.{key}"), value, allowed));
            continue;
        }
        let path = format!("{}.set.{key}", entry.path);
        let mut wrong = Vec::new();
        super::set(&mut Config::default(), key, value, &mut wrong);
        errors.extend(wrong.into_iter().map(|error| error.at(path.clone())));
    }
    let spelled = |(key, value): &(String, Value)| format!("{key}={value}");
    flat.iter().map(spelled).collect()
}

/// `{ exec.kill_grace = 2 }` and `{ "exec.kill_grace" = 2 }` are the same.
pub(super) fn flatten(prefix: &str, table: &Table, flat: &mut Vec<(String, Value)>) {
    for (key, value) in table {
        let path = match prefix {
            "" => key.clone(),
            _ => format!("{prefix}.{key}"),
        };
        match value {
            Value::Table(inner) => flatten(&path, inner, flat),
            other => flat.push((path, other.clone())),
        }
    }
}
