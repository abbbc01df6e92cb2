//! What can be wrong with a configuration, each with the path of its key.
//!
//! Told by whoever reads one ([`super::read`]); on which line it stands knows [`super::told`].

use eddy_sched::policy::{NotServed, PolicyError};
use thiserror::Error;
use toml::Table;

use super::keys::KEYS;
use super::tables;
use crate::users::UserError;

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

/// A hint for a key that is nearly one.
fn near(path: &str) -> String {
    let last = path.rsplit('.').next().unwrap_or(path);
    let known = KEYS
        .iter()
        .find(|key| key.path.rsplit('.').next() == Some(last));
    known.map_or_else(String::new, |key| format!("; there is {}", key.path))
}
