//! Accounts: whom use is charged to, with how many shares and under which limits.
//!
//! Values and their rules: administrators change them ([`Change`]), records keep them, and who
//! needs to know folds them into a [`Book`]: ingest (who may name what), the planner (who is due
//! what), listings. Nothing here charges anybody.
//!
//! An account is under another or under the root, and has a name of its own in the whole tree. A
//! member is a user in an account: jobs are charged to members only.

mod book;
mod error;
mod name;

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::time::Span;

pub use book::Book;
pub use error::AccountError;
pub use name::{Name, NameError};

/// Longest name in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Most accounts of an instance.
pub const ACCOUNTS_MAX: usize = 16_384;
/// Most members of all accounts together.
pub const MEMBERS_MAX: usize = 65_536;
/// How many accounts may be above one another.
pub const DEPTH_MAX: usize = 16;
/// Most shares.
pub const SHARES_MAX: u32 = 1 << 30;
/// Longest description in bytes.
pub const DESCRIPTION_BYTES_MAX: usize = 256;
/// Most QoS that one account or member may use.
pub const QOS_MAX: usize = 256;
/// The number that system calls take for no user at all, -1 where it has a sign.
pub const NOBODY: u32 = u32::MAX;
/// The name that stands for what all accounts are under.
pub const ROOT: &str = "root";

/// How many shares one has among its siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shares {
    /// So many, at most [`SHARES_MAX`]; 0 is served when nobody else wants anything.
    Of(u32),
    /// Those of its account: an account's members compete one level up, a user has what the
    /// account has.
    Parent,
}

impl Default for Shares {
    fn default() -> Shares {
        Shares::Of(1)
    }
}

impl Serialize for Shares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Shares::Of(count) => serializer.serialize_u32(*count),
            Shares::Parent => serializer.serialize_str("parent"),
        }
    }
}

impl<'de> Deserialize<'de> for Shares {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shares, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Given {
            Count(u32),
            Number(f64),
            Word(String),
        }
        let given = match Given::deserialize(deserializer)? {
            Given::Count(count) => return Ok(Shares::Of(count)),
            Given::Word(word) if word == "parent" => return Ok(Shares::Parent),
            Given::Number(number) => number.to_string(),
            Given::Word(word) => word.escape_debug().to_string(),
        };
        Err(serde::de::Error::custom(format!(
            "shares: `{given}` is given; allowed are 0 to {SHARES_MAX} and `parent`"
        )))
    }
}

impl std::fmt::Display for Shares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Shares::Of(count) => write!(f, "{count}"),
            Shares::Parent => f.write_str("parent"),
        }
    }
}

/// An account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    /// The account it is under; none is the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Name>,
    /// Among those under the same.
    #[serde(default)]
    pub shares: Shares,
    /// One line for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What QoS its members may ask for.
    #[serde(default, skip_serializing_if = "QosRules::is_empty")]
    pub qos: QosRules,
    /// What all its members together may have.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
}

/// A user in an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Among the members of the account.
    #[serde(default)]
    pub shares: Shares,
    /// What QoS it may ask for.
    #[serde(default, skip_serializing_if = "QosRules::is_empty")]
    pub qos: QosRules,
    /// What it may have in this account.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
}

/// A user over all accounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// What is charged where a job names no account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// What the user may have over all accounts.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
}

/// Which QoS may be asked for, inherited downwards where nothing is said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QosRules {
    /// These and no others; none inherits, at the root any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<BTreeSet<Name>>,
    /// What a job has that names none; none inherits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Name>,
}

impl QosRules {
    /// Whether all is inherited.
    pub fn is_empty(&self) -> bool {
        *self == QosRules::default()
    }
}

/// What somebody may have at a time, and what one of his jobs may. What is not said is not limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Jobs that hold resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_jobs: Option<u32>,
    /// Jobs that are not over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitted_jobs: Option<u32>,
    /// Nodes of running jobs, counted once for each job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Cores of running jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// GPUs of running jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// Bytes of memory of running jobs, of nodes whose memory is known: written as a number, read also as `64G`.
    #[serde(with = "bytes", skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Nodes of each job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_nodes: Option<u32>,
    /// Cores of each job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_cores: Option<u32>,
    /// GPUs of each job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_gpus: Option<u32>,
    /// Bytes of memory of each job, as `memory`.
    #[serde(with = "bytes", skip_serializing_if = "Option::is_none")]
    pub job_memory: Option<u64>,
    /// The time limit of each job: written in seconds, read as those or as RFC 23 writes them.
    #[serde(with = "seconds", skip_serializing_if = "Option::is_none")]
    pub job_time: Option<Span>,
    /// Core-minutes in each period: used, and what running jobs may still use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_minutes: Option<u64>,
    /// The period of `core_minutes`.
    #[serde(skip_serializing_if = "Period::is_default")]
    pub period: Period,
    /// Of what was left of `core_minutes` in the period before, so many percent of them may be used in
    /// this one, too: 0 to 100.
    #[serde(skip_serializing_if = "is_none")]
    pub carry: u32,
    /// What becomes of a job that would be over it.
    #[serde(skip_serializing_if = "Excess::is_default")]
    pub excess: Excess,
}

fn is_none(number: &u32) -> bool {
    *number == 0
}

/// An amount of memory in bytes, or as people write it.
mod bytes {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::jobspec::parse_bytes;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Bytes(u64),
        Text(String),
    }

    pub fn serialize<S: Serializer>(bytes: &Option<u64>, to: S) -> Result<S::Ok, S::Error> {
        bytes.serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<u64>, D::Error> {
        match Option::deserialize(from)? {
            None => Ok(None),
            Some(Given::Bytes(bytes)) => Ok(Some(bytes)),
            Some(Given::Text(text)) => parse_bytes(&text).map(Some).map_err(D::Error::custom),
        }
    }
}

/// A span in seconds, as jobspecs have it, or as people write it.
mod seconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::fsd::{Fsd, micros_of_seconds, parse_fsd, seconds_of_micros};
    use crate::time::Span;

    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Seconds(f64),
        Text(String),
    }

    pub fn serialize<S: Serializer>(span: &Option<Span>, to: S) -> Result<S::Ok, S::Error> {
        span.map(|span| seconds_of_micros(span.0)).serialize(to)
    }

    pub fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Span>, D::Error> {
        let micros = match Option::deserialize(from)? {
            None => return Ok(None),
            Some(Given::Seconds(seconds)) => micros_of_seconds(seconds),
            Some(Given::Text(text)) => match parse_fsd(&text) {
                Ok(Fsd::Infinite) => return Ok(None),
                Ok(Fsd::Finite(micros)) => Ok(micros),
                Err(error) => Err(error),
            },
        };
        match micros {
            Ok(micros) if micros > 0 => Ok(Some(Span(micros))),
            Ok(_) => Err(D::Error::custom(
                "job_time: 0 given; allowed is a time, and inf",
            )),
            Err(error) => Err(D::Error::custom(format!("job_time: {error}"))),
        }
    }
}

impl Limits {
    /// Whether what is said goes together.
    ///
    /// # Errors
    /// `carry` is over 100, or beside no `core_minutes`.
    pub fn check(&self) -> Result<(), AccountError> {
        match (self.carry, self.core_minutes) {
            (0, _) | (1..=100, Some(_)) => Ok(()),
            (given, _) => Err(AccountError::Carry { given }),
        }
    }

    /// Whether nothing is limited: a period alone limits nothing.
    pub fn limits_nothing(&self) -> bool {
        let jobs = self.running_jobs.is_none() && self.submitted_jobs.is_none();
        jobs && self.core_minutes.is_none() && !self.limits_together() && !self.limits_each()
    }

    /// Whether it is limited how much running jobs have together, beside how many they are.
    pub fn limits_together(&self) -> bool {
        let sizes = [self.nodes, self.cores, self.gpus];
        self.memory.is_some() || sizes.iter().any(Option::is_some)
    }

    /// Whether something of each job by itself is limited.
    pub fn limits_each(&self) -> bool {
        self.job_time.is_some() || self.limits_size_of_each()
    }

    /// Whether it is limited how much one job has.
    pub fn limits_size_of_each(&self) -> bool {
        let sizes = [self.job_nodes, self.job_cores, self.job_gpus];
        self.job_memory.is_some() || sizes.iter().any(Option::is_some)
    }

    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Limits::default()
    }
}

/// A period of the calendar, at UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Period {
    /// From midnight.
    Day,
    /// From Sunday.
    Week,
    /// From the first.
    #[default]
    Month,
    /// From the first of January, April, July and October.
    Quarter,
    /// From the first of January.
    Year,
}

impl Period {
    fn is_default(&self) -> bool {
        *self == Period::default()
    }
}

/// The QoS of jobs that go on beyond their budget.
pub const STANDBY: &str = "standby";

/// What becomes of a job that would be over a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Excess {
    /// It waits with that reason.
    #[default]
    Hold,
    /// It is refused where that is known when it is submitted.
    Refuse,
    /// Over `core_minutes` it goes on as QoS [`STANDBY`], and what it uses so is of no such budget. Over
    /// any other limit it waits.
    Standby,
}

impl Excess {
    fn is_default(&self) -> bool {
        *self == Excess::default()
    }
}

/// One thing set, or with nothing as its value removed. The same again changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Change {
    /// An account.
    Account {
        /// Its name.
        name: Name,
        /// As it is from now on.
        value: Option<Account>,
    },
    /// A user in an account.
    Member {
        /// The account.
        account: Name,
        /// User id.
        user: u32,
        /// As it is from now on.
        value: Option<Member>,
    },
    /// A user over all accounts.
    User {
        /// User id.
        user: u32,
        /// As it is from now on.
        value: Option<User>,
    },
}

/// What a change is of: of all changes of one key the last counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// An account.
    Account(Name),
    /// A user in an account.
    Member(Name, u32),
    /// A user.
    User(u32),
}

impl Change {
    /// What it is of.
    pub fn key(&self) -> Key {
        match self {
            Change::Account { name, .. } => Key::Account(name.clone()),
            Change::Member { account, user, .. } => Key::Member(account.clone(), *user),
            Change::User { user, .. } => Key::User(*user),
        }
    }

    /// Whether it removes.
    pub fn removes(&self) -> bool {
        match self {
            Change::Account { value, .. } => value.is_none(),
            Change::Member { value, .. } => value.is_none(),
            Change::User { value, .. } => value.is_none(),
        }
    }
}

/// A change and who made it, as recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// User id of who made it.
    pub userid: u32,
    /// What.
    #[serde(flatten)]
    pub change: Change,
}

/// Whom a job is charged to, and as what it waits and runs: settled when it is submitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Party {
    /// The account; none where there are no accounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// The QoS; none is the policy's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qos: Option<Name>,
    /// The class; none is the policy's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Name>,
}
