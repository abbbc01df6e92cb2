//! What can be wrong with a configuration, each with the path of its key.
//!
//! Told by whoever reads one ([`super::read`]); on which line it stands knows [`super::told`].

use eddy_sched::policy::{NotServed, PolicyError};
use thiserror::Error;
use toml::Table;

use super::keys::KEYS;
use super::tables;
use crate::users::UserError;

/// What is before a key of those that an `[[instance]]` is started with.
const INNER: &str = ".set.";
/// What has keys that the policy knows.
const POLICY: &str = "policy";

/// What is wrong with one key of a configuration.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ConfigError {
    /// The text is not TOML.
    #[error("configuration is not TOML: {0}")]
    Syntax(String),
    /// No such key.
    #[error("{path}: unknown key{}", near(.path))]
    Unknown {
        /// The key.
        path: String,
    },
    /// A value that the key does not take.
    #[error("{path}: is {given}; allowed is {allowed}")]
    Value {
        /// The key.
        path: String,
        /// What is there.
        given: String,
        /// What belongs there.
        allowed: &'static str,
    },
    /// A time that is longer than the key takes, and was taken by earlier versions: where one stands already, it is
    /// the longest that is allowed.
    #[error("{path}: is {given}; allowed is {allowed}")]
    Long {
        /// The key.
        path: String,
        /// What is there.
        given: String,
        /// What belongs there.
        allowed: &'static str,
    },
    /// What is allowed, and hardly meant.
    #[error("{path}: is {given}; {why}")]
    Doubt {
        /// The key.
        path: String,
        /// What is there.
        given: String,
        /// What comes of it.
        why: String,
    },
    /// No such key in a table of a list.
    #[error("{path}: unknown key; there are {known}")]
    UnknownHere {
        /// The key.
        path: String,
        /// Those there are.
        known: String,
    },
    /// A key that must be there.
    #[error("{path}: is not given; allowed is {allowed}")]
    Missing {
        /// The key.
        path: String,
        /// What belongs there.
        allowed: &'static str,
    },
    /// A name that is there before.
    #[error("{path}: \"{given}\" is given twice; each {what} has a name of its own")]
    Twice {
        /// The second one's key.
        path: String,
        /// The name.
        given: String,
        /// Of what.
        what: &'static str,
    },
    /// Two of a list that say they are the default one.
    #[error(
        "{path}: {list} \"{second}\" is the default one, and so is \"{first}\"; allowed is one of them"
    )]
    TwoDefaults {
        /// The second one's key.
        path: String,
        /// Of which list.
        list: &'static str,
        /// The first one's name.
        first: String,
        /// The second one's.
        second: String,
    },
    /// A queue that leads to no instance.
    #[error("{path}: is {given}; there are {known}")]
    NoInstance {
        /// The key.
        path: String,
        /// What is there.
        given: String,
        /// The instances there are.
        known: String,
    },
    /// Something of `[policy]`.
    #[error(transparent)]
    Policy(PolicyError),
    /// A policy that instances do not obey yet.
    #[error("{path}: {why}")]
    NotServed {
        /// The key of the preset.
        path: String,
        /// Why.
        why: NotServed,
    },
    /// Somebody who is not there.
    #[error("{path}: {why}")]
    User {
        /// The key.
        path: String,
        /// Who.
        why: UserError,
    },
    /// `-S` without `=`.
    #[error("-S {given}: has no `=`; allowed is key=value")]
    Override {
        /// As given.
        given: String,
    },
    /// A list has nothing of this name.
    #[error("{path}: there is no such [[{list}]]; there are {known}")]
    NoEntry {
        /// The key.
        path: String,
        /// Which list.
        list: String,
        /// The names there are.
        known: String,
    },
    /// Set while an instance runs, and obeyed from its start on.
    #[error(
        "{path}: counts from a start on; eddy --at DIR config set {path} VALUE writes it for the next"
    )]
    NotLive {
        /// The key.
        path: String,
    },
}

impl ConfigError {
    /// Whether it is no reason to refuse what was obeyed before.
    pub fn is_of_a_later_bound(&self) -> bool {
        matches!(self, ConfigError::Long { .. })
    }

    /// With entries of lists by their names, as `config set` has them: `queue.debug.max_time`, not
    /// `queue[0].max_time`.
    pub fn by_name(self, table: &Table) -> ConfigError {
        let path = tables::by_name(table, self.path());
        self.at(path)
    }

    /// The path of the key; empty where it is of none.
    pub(super) fn path(&self) -> &str {
        match self {
            ConfigError::Unknown { path }
            | ConfigError::Value { path, .. }
            | ConfigError::Long { path, .. }
            | ConfigError::Doubt { path, .. }
            | ConfigError::UnknownHere { path, .. }
            | ConfigError::Missing { path, .. }
            | ConfigError::Twice { path, .. }
            | ConfigError::TwoDefaults { path, .. }
            | ConfigError::NoInstance { path, .. }
            | ConfigError::NotServed { path, .. }
            | ConfigError::User { path, .. }
            | ConfigError::NoEntry { path, .. }
            | ConfigError::NotLive { path } => path,
            ConfigError::Policy(error) => &error.path,
            ConfigError::Syntax(_) | ConfigError::Override { .. } => "",
        }
    }

    /// The same of a key that is inside another.
    pub(super) fn at(mut self, outer: String) -> ConfigError {
        match &mut self {
            ConfigError::Unknown { path }
            | ConfigError::Value { path, .. }
            | ConfigError::Long { path, .. }
            | ConfigError::Doubt { path, .. }
            | ConfigError::UnknownHere { path, .. }
            | ConfigError::Missing { path, .. }
            | ConfigError::Twice { path, .. }
            | ConfigError::TwoDefaults { path, .. }
            | ConfigError::NoInstance { path, .. }
            | ConfigError::NotServed { path, .. }
            | ConfigError::User { path, .. }
            | ConfigError::NoEntry { path, .. }
            | ConfigError::NotLive { path } => *path = outer,
            ConfigError::Policy(error) => error.path = outer,
            ConfigError::Syntax(_) | ConfigError::Override { .. } => {}
        }
        self
    }
}

/// What there is in place of a key: the one of its last name that is elsewhere, else what is where it stands.
fn near(path: &str) -> String {
    // What an [[instance]] is started with is a configuration without lists.
    let (path, lists) = match path.rsplit_once(INNER) {
        Some((_, inner)) => (inner, &[][..]),
        None => (path, &tables::LISTS[..]),
    };
    let all = KEYS.iter().map(|key| key.path);
    let all: Vec<&str> = all.chain([POLICY]).chain(lists.iter().copied()).collect();
    let last = path.rsplit('.').next();
    let mut keys = all.iter().filter(|key| key.contains('.'));
    match keys.find(|key| key.rsplit('.').next() == last) {
        Some(known) => format!("; there is {known}"),
        None => beside(path, &all),
    }
}

/// The names in the innermost table of a path that is there.
fn beside(path: &str, all: &[&'static str]) -> String {
    let in_table = |place: &str| {
        let inside = all.iter().filter_map(|key| {
            let rest = key.strip_prefix(place)?;
            match place {
                "" => Some(rest),
                _ => rest.strip_prefix('.'),
            }
        });
        let mut names = Vec::new();
        for name in inside.filter_map(|key| key.split('.').next()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    };
    let ends = path.rmatch_indices('.').map(|(at, _)| &path[..at]);
    let tables = std::iter::once(path).chain(ends);
    let found = tables.map(|place| (place, in_table(place)));
    match found.into_iter().find(|(_, names)| !names.is_empty()) {
        Some((place, names)) if names.len() == 1 => format!("; in {place} there is {}", names[0]),
        Some((place, names)) => format!("; in {place} there are {}", names.join(", ")),
        None => format!("; there are {}", in_table("").join(", ")),
    }
}
