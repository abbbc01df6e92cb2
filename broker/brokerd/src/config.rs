//! The configuration of an instance: TOML in, typed values out, all errors at
//! once with the path of each key.
//!
//! Called by the leader at its start, by `eddy config check` and `get`. Every
//! key with one value is one row of [`KEYS`]: its path, its default, what it
//! means and how it is set, so that a default stands in one place and a key that
//! is not there is unknown; [`declared`] reads the lists. It opens no file.

pub mod declared;
mod doubt;
mod error;
pub mod extent;
mod filter;
mod inner;
mod keys;
mod limits;
mod lines;
mod pick;
mod policy;
mod pool;
mod qos;
mod queue;
pub mod tables;

use std::sync::Arc;

use eddy_modules::settings::{Class, Qos};
use eddy_sched::policy::Policy;
use eddy_wire::filter::Filter;
use eddy_wire::pool::Pool;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Span;
use eddy_wire::tree::ClientLimits;
use serde::Serialize;
use serde_json::Value as Json;
use toml::{Table, Value};

use declared::DeclaredInstance;
pub use doubt::{doubts, new_doubts};
pub use error::ConfigError;
pub use keys::{KEYS, Key, other_than_default};
pub use lines::told;
pub use policy::{over as policy_over, to_json as policy_json};
pub use queue::NamedQueue;

/// All of the configuration.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Config {
    /// Equal on all ranks.
    pub instance: InstanceConfig,
    /// Of this rank only.
    pub rank: RankConfig,
    /// Where it is from, for people.
    pub origin: String,
}

/// What all ranks of an instance must agree on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceConfig {
    /// `journal.sync`.
    pub sync: Sync,
    /// `exec.kill_grace`: from TERM to KILL.
    pub kill_grace: Span,
    /// `exec.hung_after`: how long the leader of a sub-instance may say nothing beyond its beats.
    pub hung_after: Option<Span>,
    /// `grant.release_idle`: when nodes of a user's sub-instance go back by themselves.
    pub release_idle: Option<Span>,
    /// `grant.keep_nodes`: so many stay then.
    pub keep_nodes: u32,
    /// `grant.lease`: how long jobs start though the parent is silent.
    pub lease: Span,
    /// `grant.autonomous_after`: when a queue instance begins what its silent parent has not ordered.
    pub autonomous_after: Option<Span>,
    /// `exec.test.run_duration`: how long a mock task lasts; none runs real ones.
    pub run_duration: Option<Span>,
    /// `history.keep_age`: finished jobs older than this are forgotten.
    pub keep_age: Option<Span>,
    /// `history.keep_jobs`: at most so many finished jobs are kept.
    pub keep_jobs: u64,
    /// `tree.fanout`: how many ranks hang directly under one.
    pub fanout: u32,
    /// `quorum.ranks`: so many ranks' shells make a start; all where unset.
    pub quorum: Option<u32>,
    /// `quorum.timeout`: how long a start waits for them; by the number of ranks where unset.
    pub quorum_timeout: Option<Span>,
    /// `defaults.time`: the time limit of jobs for which nobody says one.
    pub default_time: Option<Span>,
    /// `limits.*`.
    pub limits: Limits,
    /// `access.*`: who is admitted.
    pub access: Access,
    /// `[policy]`: how jobs are ordered and placed.
    #[serde(skip)]
    pub policy: Arc<Policy>,
    /// `[[instance]]`: instances that are there as long as this one.
    pub declared: Vec<DeclaredInstance>,
    /// `[[queue]]`: names that people submit to.
    pub queues: Vec<NamedQueue>,
    /// `[[qos]]`: qualities of service that jobs may ask for.
    #[serde(skip)]
    pub qos: Vec<Qos>,
    /// `[[class]]`: classes that jobs may ask for.
    #[serde(skip)]
    pub classes: Vec<Class>,
    /// `[[pool]]`: counts of things that are on no node.
    pub pools: Vec<Pool>,
    /// `[[ingest.filter]]`: programs that look at submissions first.
    pub filters: Vec<Filter>,
}

/// Named limits that an administrator may lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// `limits.clients`: connections at a time.
    pub clients: u64,
    /// `limits.user_clients`: connections of one user.
    pub user_clients: u64,
    /// `limits.user_outstanding`: unanswered requests of one user.
    pub user_outstanding: u64,
    /// `limits.user_rate`: requests of one user a second.
    pub user_rate: u64,
    /// `limits.outstanding`: unanswered requests of one client.
    pub outstanding: u64,
    /// `limits.reply_bytes`: answers that wait for one client to read them.
    pub reply_bytes: u64,
    /// `limits.waiting_jobs`: jobs that are not over.
    pub waiting_jobs: u64,
    /// `limits.user_jobs`: those of one user.
    pub user_jobs: u64,
    /// `limits.user_copies`: those of one submission of a user.
    pub user_copies: u64,
    /// `limits.spool_bytes`: output kept of one job on one rank.
    pub spool_bytes: u64,
}

impl Limits {
    /// What other ranks hold their clients to.
    pub fn of_clients(&self) -> ClientLimits {
        ClientLimits {
            clients: self.clients,
            user_clients: self.user_clients,
            user_outstanding: self.user_outstanding,
            user_rate: self.user_rate,
            outstanding: self.outstanding,
            reply_bytes: self.reply_bytes,
        }
    }
}

impl From<ClientLimits> for Limits {
    /// As another rank was told; what is the leader's alone is as by default.
    fn from(limits: ClientLimits) -> Limits {
        Limits {
            clients: limits.clients,
            user_clients: limits.user_clients,
            user_outstanding: limits.user_outstanding,
            user_rate: limits.user_rate,
            outstanding: limits.outstanding,
            reply_bytes: limits.reply_bytes,
            ..Limits::default()
        }
    }
}

/// Who is admitted, by name: looked up where it is obeyed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Access {
    /// `access.users`: who may submit.
    pub users: Users,
    /// `access.admins`: who may act on everybody's jobs.
    pub admins: Vec<String>,
    /// `access.private`: users see their own jobs only.
    pub private: bool,
}

/// Who may submit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Users {
    /// Nothing is said: everybody where user 0 starts a root, else the owner.
    #[default]
    Unsaid,
    /// Everybody.
    All,
    /// These.
    #[serde(untagged)]
    Named(Vec<String>),
}

/// What only this rank needs to know.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct RankConfig {
    /// `rank.rundir`: directory for sockets instead of the usual one.
    pub rundir: Option<String>,
    /// `rank.transport`: what carries frames between ranks.
    pub transport: Transport,
    /// `rank.log`: filter of the log, as `EDDY_LOG`, which overrides it.
    pub log: Option<String>,
}

/// What carries frames between ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// The crate `zeromq`.
    #[default]
    Zeromq,
    /// The connection of the door itself.
    Stream,
}

impl Transport {
    /// As it stands in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Zeromq => "zeromq",
            Transport::Stream => "stream",
        }
    }

    /// The transport of that name.
    pub fn of_name(name: &str) -> Option<Transport> {
        [Transport::Zeromq, Transport::Stream]
            .into_iter()
            .find(|transport| transport.name() == name)
    }
}

impl From<Transport> for crate::link::Transport {
    fn from(transport: Transport) -> crate::link::Transport {
        match transport {
            Transport::Zeromq => crate::link::Transport::Zeromq,
            Transport::Stream => crate::link::Transport::Stream,
        }
    }
}

/// When a commit counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Sync {
    /// When it is on the disk: survives a power cut.
    Full,
    /// When the kernel has it: survives a kill.
    Normal,
}

impl Default for InstanceConfig {
    fn default() -> InstanceConfig {
        InstanceConfig {
            sync: Sync::Full,
            kill_grace: Span::seconds(5),
            hung_after: Some(Span::seconds(60)),
            release_idle: None,
            keep_nodes: 1,
            lease: Span::seconds(3600),
            autonomous_after: Some(Span::seconds(30)),
            run_duration: None,
            keep_age: None,
            keep_jobs: 10_000_000,
            fanout: 16,
            quorum: None,
            quorum_timeout: None,
            default_time: None,
            limits: Limits::default(),
            access: Access::default(),
            policy: Arc::default(),
            declared: Vec::new(),
            queues: Vec::new(),
            qos: Vec::new(),
            classes: Vec::new(),
            pools: Vec::new(),
            filters: Vec::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 4096,
            user_clients: 1024,
            user_outstanding: 4096,
            user_rate: 1000,
            outstanding: 1024,
            reply_bytes: 64 << 20,
            waiting_jobs: 1_000_000,
            user_jobs: 500_000,
            user_copies: 20_000,
            spool_bytes: 1 << 30,
        }
    }
}

/// The configuration that a text of TOML is; every error there is.
pub fn check(text: &str) -> Result<Config, Vec<ConfigError>> {
    load(text, &[])
}

/// The same with `key=value` overrides put over it, in order.
pub fn load(text: &str, overrides: &[String]) -> Result<Config, Vec<ConfigError>> {
    match read(text, overrides) {
        (config, errors) if errors.is_empty() => Ok(config),
        (_, errors) => Err(errors),
    }
}

/// The same where something is wrong, too: what could be read, for who has more to find wrong in
/// it, and every error. A configuration with errors is not to be obeyed.
pub fn read(text: &str, overrides: &[String]) -> (Config, Vec<ConfigError>) {
    let mut config = Config::default();
    let mut errors = Vec::new();
    let mut table: Table = match text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => {
            let text = error.to_string();
            let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            return (config, vec![ConfigError::Syntax(line)]);
        }
    };
    let plain = overrides.iter();
    let plain = plain.filter(|given| policy::key(given).is_none());
    errors.extend(
        tables::over_table(&mut table, plain)
            .err()
            .into_iter()
            .flatten(),
    );
    let instances = declared::take(&mut config, &mut table, &mut errors);
    let policy = overrides.iter().filter_map(|given| policy::key(given));
    policy::take(&mut config, text, &mut table, policy, &mut errors);
    qos::take(&mut config, &mut table, &mut errors);
    queue::take(&mut config, &mut table, &instances, &mut errors);
    pool::take(&mut config, &mut table, &mut errors);
    filter::take(&mut config, &mut table, &mut errors);
    set_all(&mut config, "", &table, &mut errors);
    (config, errors)
}

impl Config {
    /// Every key with its value, nested as in TOML; unset ones are null.
    pub fn to_json(&self) -> Json {
        let mut root = Json::Object(serde_json::Map::new());
        for key in KEYS {
            let mut place = &mut root;
            for part in key.path.split('.') {
                if place.is_null() {
                    *place = Json::Object(serde_json::Map::new());
                }
                place = &mut place[part];
            }
            *place = (key.get)(self);
        }
        root["policy"] = policy::to_json(&self.instance.policy);
        root["instance"] = keys::json(&self.instance.declared);
        root["origin"] = Json::from(self.origin.as_str());
        root["queue"] = keys::json(&self.instance.queues);
        root["qos"] = keys::json(&self.instance.qos);
        root["class"] = keys::json(&self.instance.classes);
        root["pool"] = keys::json(&self.instance.pools);
        root["ingest"] = serde_json::json!({ "filter": filter::to_json(&self.instance.filters) });
        root
    }

    /// The value of one key; `None` when there is no such key.
    pub fn get(&self, path: &str) -> Option<Json> {
        KEYS.iter()
            .find(|key| key.path == path)
            .map(|key| (key.get)(self))
    }
}

impl InstanceConfig {
    /// Puts the ranks of this inventory in place of hosts, properties and shares of declared instances.
    pub fn resolve(&mut self, inventory: &ResourceSet) {
        self.declared
            .iter_mut()
            .for_each(|one| one.resolve(inventory));
    }
}

/// Walks the tables down to the keys.
fn set_all(config: &mut Config, prefix: &str, table: &Table, errors: &mut Vec<ConfigError>) {
    let all = KEYS.iter().map(|key| key.path).chain(tables::LISTS);
    for (name, value) in table {
        let path = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        let inner = format!("{path}.");
        match value {
            Value::Table(table) if all.clone().any(|key| key.starts_with(&inner)) => {
                set_all(config, &path, table, errors);
            }
            value => set(config, &path, value, errors),
        }
    }
}

fn set(config: &mut Config, path: &str, value: &Value, errors: &mut Vec<ConfigError>) {
    let Some(key) = KEYS.iter().find(|key| key.path == path) else {
        return errors.push(ConfigError::Unknown {
            path: path.to_owned(),
        });
    };
    if (key.set)(config, value).is_none() {
        let (path, given, allowed) = (path.to_owned(), spell(value), key.allowed);
        errors.push(
            match allowed == keys::GRACE && keys::span(value).is_some() {
                true => ConfigError::Long {
                    path,
                    given,
                    allowed,
                },
                false => ConfigError::Value {
                    path,
                    given,
                    allowed,
                },
            },
        );
    }
}

/// The value of `-S`: TOML if it is, else a text.
fn typed(text: &str) -> Value {
    let line = format!("value = {text}");
    let parsed = line
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

fn spell(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod wrong_tests;
