//! The configuration of an instance: TOML in, typed values out, all errors at
//! once with the path of each key.
//!
//! Called by the leader at its start, by `eddy config check` and `get`. Every
//! key is one row of [`KEYS`]: its path, its default, what it means and how it
//! is set, so that a default stands in one place and a key that is not there
//! is unknown. It opens no file.

use eddy_wire::fsd::{Fsd, parse_fsd};
use eddy_wire::time::Span;
use serde::Serialize;
use serde_json::Value as Json;
use thiserror::Error;
use toml::{Table, Value};

/// All of the configuration.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
pub struct Config {
    /// Equal on all ranks.
    pub instance: InstanceConfig,
    /// Of this rank only.
    pub rank: RankConfig,
}

/// What all ranks of an instance must agree on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InstanceConfig {
    /// `journal.sync`.
    pub sync: Sync,
    /// `exec.kill_grace`: from TERM to KILL.
    pub kill_grace: Span,
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
    /// `limits.*`.
    pub limits: Limits,
}

/// Named limits that an administrator may lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// `limits.clients`: connections at a time.
    pub clients: u64,
    /// `limits.outstanding`: unanswered requests of one client.
    pub outstanding: u64,
    /// `limits.reply_bytes`: answers that wait for one client to read them.
    pub reply_bytes: u64,
    /// `limits.waiting_jobs`: jobs that are not over.
    pub waiting_jobs: u64,
    /// `limits.spool_bytes`: output kept of one job on one rank.
    pub spool_bytes: u64,
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
            run_duration: None,
            keep_age: None,
            keep_jobs: 10_000_000,
            fanout: 16,
            quorum: None,
            quorum_timeout: None,
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            clients: 4096,
            outstanding: 1024,
            reply_bytes: 64 << 20,
            waiting_jobs: 1_000_000,
            spool_bytes: 1 << 30,
        }
    }
}

/// What is wrong with one key of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
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
    /// `-S` without `=`.
    #[error("-S {given}: has no `=`; allowed is key=value")]
    Override {
        /// As given.
        given: String,
    },
}

/// One key of the configuration.
pub struct Key {
    /// Dotted, as it stands in errors, `config get` and `-S`.
    pub path: &'static str,
    /// What it takes.
    pub allowed: &'static str,
    /// What it means, one line.
    pub meaning: &'static str,
    set: fn(&mut Config, &Value) -> Option<()>,
    get: fn(&Config) -> Json,
}

/// Every key there is, in the order of the documentation.
pub const KEYS: &[Key] = &[
    Key {
        path: "journal.sync",
        allowed: "\"full\" or \"normal\"",
        meaning: "full survives a power cut, normal survives a kill",
        set: |config, value| {
            config.instance.sync = match value.as_str()? {
                "full" => Sync::Full,
                "normal" => Sync::Normal,
                _ => return None,
            };
            Some(())
        },
        get: |config| json(&config.instance.sync),
    },
    Key {
        path: "exec.kill_grace",
        allowed: SPAN,
        meaning: "from TERM to KILL when a job is to end",
        set: |config, value| set_to(&mut config.instance.kill_grace, span(value)?),
        get: |config| json(&config.instance.kill_grace),
    },
    Key {
        path: "exec.test.run_duration",
        allowed: SPAN,
        meaning: "no task is started; each is taken to end well after this time",
        set: |config, value| set_to(&mut config.instance.run_duration, Some(span(value)?)),
        get: |config| json(&config.instance.run_duration),
    },
    Key {
        path: "history.keep_age",
        allowed: SPAN,
        meaning: "finished jobs older than this are forgotten; unset keeps them",
        set: |config, value| set_to(&mut config.instance.keep_age, Some(span(value)?)),
        get: |config| json(&config.instance.keep_age),
    },
    Key {
        path: "history.keep_jobs",
        allowed: "a whole number from 0 to 1000000000",
        meaning: "at most so many finished jobs are kept",
        set: |config, value| {
            set_to(
                &mut config.instance.keep_jobs,
                count(value, 0, 1_000_000_000)?,
            )
        },
        get: |config| json(&config.instance.keep_jobs),
    },
    Key {
        path: "tree.fanout",
        allowed: "a whole number from 1 to 1024",
        meaning: "how many ranks hang directly under one",
        set: |config, value| set_to(&mut config.instance.fanout, count(value, 1, 1024)? as u32),
        get: |config| json(&config.instance.fanout),
    },
    Key {
        path: "quorum.ranks",
        allowed: "a whole number from 1 to 262144",
        meaning: "a start is over when the shells of so many ranks are there; unset is all",
        set: |config, value| {
            set_to(
                &mut config.instance.quorum,
                Some(count(value, 1, 262_144)? as u32),
            )
        },
        get: |config| json(&config.instance.quorum),
    },
    Key {
        path: "quorum.timeout",
        allowed: SPAN,
        meaning: "how long a start waits for them; unset is 2 s and 20 ms for each rank",
        set: |config, value| set_to(&mut config.instance.quorum_timeout, Some(span(value)?)),
        get: |config| json(&config.instance.quorum_timeout),
    },
    Key {
        path: "limits.clients",
        allowed: "a whole number from 1 to 65536",
        meaning: "connections of clients at a time",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.clients,
                count(value, 1, 65_536)?,
            )
        },
        get: |config| json(&config.instance.limits.clients),
    },
    Key {
        path: "limits.outstanding",
        allowed: "a whole number from 1 to 65536",
        meaning: "requests of one client that are not answered yet",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.outstanding,
                count(value, 1, 65_536)?,
            )
        },
        get: |config| json(&config.instance.limits.outstanding),
    },
    Key {
        path: "limits.reply_bytes",
        allowed: "bytes from 16M to 1G, as a number or a text with a unit",
        meaning: "answers that wait for one client to read them",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.reply_bytes,
                bytes(value, 16 << 20, 1 << 30)?,
            )
        },
        get: |config| json(&config.instance.limits.reply_bytes),
    },
    Key {
        path: "limits.waiting_jobs",
        allowed: "a whole number from 1 to 1000000",
        meaning: "jobs that are not over",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.waiting_jobs,
                count(value, 1, 1_000_000)?,
            )
        },
        get: |config| json(&config.instance.limits.waiting_jobs),
    },
    Key {
        path: "limits.spool_bytes",
        allowed: "bytes from 4K to 1T, as a number or a text with a unit",
        meaning: "output kept of one job on one rank; what is over is cut with a note",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.spool_bytes,
                bytes(value, 4 << 10, 1 << 40)?,
            )
        },
        get: |config| json(&config.instance.limits.spool_bytes),
    },
    Key {
        path: "rank.rundir",
        allowed: "an absolute path",
        meaning: "directory for the sockets of this rank instead of the usual one",
        set: |config, value| {
            let path = value.as_str().filter(|path| path.starts_with('/'))?;
            set_to(&mut config.rank.rundir, Some(path.to_owned()))
        },
        get: |config| json(&config.rank.rundir),
    },
    Key {
        path: "rank.transport",
        allowed: "\"zeromq\" or \"stream\"",
        meaning: "what carries frames between ranks",
        set: |config, value| {
            let transport = Transport::of_name(value.as_str()?)?;
            set_to(&mut config.rank.transport, transport)
        },
        get: |config| json(&config.rank.transport),
    },
    Key {
        path: "rank.log",
        allowed: "a filter such as \"info\" or \"eddy_brokerd=debug\"",
        meaning: "what is logged; EDDY_LOG overrides it",
        set: |config, value| set_to(&mut config.rank.log, Some(value.as_str()?.to_owned())),
        get: |config| json(&config.rank.log),
    },
];

const SPAN: &str = "a duration such as \"5s\" (RFC 23) or a number of seconds";

/// The configuration that a text of TOML is; every error there is.
pub fn check(text: &str) -> Result<Config, Vec<ConfigError>> {
    load(text, &[])
}

/// The same with `key=value` overrides put over it, in order.
pub fn load(text: &str, overrides: &[String]) -> Result<Config, Vec<ConfigError>> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error
            .to_string()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        vec![ConfigError::Syntax(line)]
    })?;
    let mut config = Config::default();
    let mut errors = Vec::new();
    set_all(&mut config, "", &table, &mut errors);
    for given in overrides {
        match given.split_once('=') {
            Some((path, text)) => set(&mut config, path.trim(), &typed(text.trim()), &mut errors),
            None => errors.push(ConfigError::Override {
                given: given.clone(),
            }),
        }
    }
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(errors)
    }
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
        root
    }

    /// The value of one key; `None` when there is no such key.
    pub fn get(&self, path: &str) -> Option<Json> {
        KEYS.iter()
            .find(|key| key.path == path)
            .map(|key| (key.get)(self))
    }
}

/// Walks the tables down to the keys.
fn set_all(config: &mut Config, prefix: &str, table: &Table, errors: &mut Vec<ConfigError>) {
    for (name, value) in table {
        let path = if prefix.is_empty() {
            name.clone()
        } else {
            format!("{prefix}.{name}")
        };
        let inner = format!("{path}.");
        match value {
            Value::Table(table) if KEYS.iter().any(|key| key.path.starts_with(&inner)) => {
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
        let (path, allowed) = (path.to_owned(), key.allowed);
        errors.push(ConfigError::Value {
            path,
            given: spell(value),
            allowed,
        });
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

/// A hint for a key that is nearly one.
fn near(path: &str) -> String {
    let last = path.rsplit('.').next().unwrap_or(path);
    let known = KEYS
        .iter()
        .find(|key| key.path.rsplit('.').next() == Some(last));
    known.map_or_else(String::new, |key| format!("; there is {}", key.path))
}

fn json(value: &impl Serialize) -> Json {
    serde_json::to_value(value).expect("configuration values are JSON")
}

fn set_to<T>(place: &mut T, value: T) -> Option<()> {
    *place = value;
    Some(())
}

fn span(value: &Value) -> Option<Span> {
    let micros = match value {
        Value::String(text) => match parse_fsd(text).ok()? {
            Fsd::Finite(micros) => micros,
            Fsd::Infinite => return None,
        },
        Value::Integer(seconds) => seconds.checked_mul(1_000_000)?,
        Value::Float(seconds) => eddy_wire::fsd::micros_of_seconds(*seconds).ok()?,
        _ => return None,
    };
    (micros >= 0).then_some(Span(micros))
}

fn count(value: &Value, least: u64, most: u64) -> Option<u64> {
    let count = u64::try_from(value.as_integer()?).ok()?;
    (least..=most).contains(&count).then_some(count)
}

fn bytes(value: &Value, least: u64, most: u64) -> Option<u64> {
    let bytes = match value {
        Value::String(text) => eddy_wire::jobspec::parse_bytes(text).ok()?,
        other => u64::try_from(other.as_integer()?).ok()?,
    };
    (least..=most).contains(&bytes).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_given_is_the_defaults() {
        assert_eq!(check(""), Ok(Config::default()));
    }

    #[test]
    fn the_documented_example_is_the_defaults() {
        let page = include_str!("../../../doc/protocol/configuration.md");
        let example = page
            .split("```")
            .find_map(|block| block.strip_prefix("toml\n"));
        let example = example.expect("the page has an example");
        assert_eq!(check(example), Ok(Config::default()));
        for key in KEYS {
            let name = key.path.rsplit('.').next().unwrap_or(key.path);
            assert!(
                example.contains(&format!("{name} = ")),
                "{} is documented",
                key.path
            );
        }
    }

    #[test]
    fn every_key_takes_what_it_gives() {
        let config = load(
            "[journal]\nsync = \"normal\"\n[exec]\nkill_grace = \"2.5s\"\n\
             test.run_duration = 0\n[limits]\nclients = 7\nspool_bytes = \"1M\"\n",
            &[
                "rank.log=debug".to_owned(),
                "history.keep_age=30d".to_owned(),
            ],
        )
        .expect("all keys are known");
        assert_eq!(config.instance.sync, Sync::Normal);
        assert_eq!(config.instance.kill_grace, Span::millis(2500));
        assert_eq!(config.instance.run_duration, Some(Span::ZERO));
        assert_eq!(config.instance.limits.spool_bytes, 1 << 20);
        assert_eq!(config.instance.keep_age, Some(Span::seconds(30 * 86_400)));
        assert_eq!(config.get("limits.clients"), Some(7.into()));
        assert_eq!(config.to_json()["exec"]["test"]["run_duration"], 0.0);
        assert_eq!(config.to_json()["rank"]["log"], "debug");
    }

    #[test]
    fn all_errors_come_at_once_with_their_keys() {
        let errors = load(
            "sync = \"full\"\n[journal]\nsync = \"maybe\"\n[limits]\nclients = -1\nfoo = { a = 1 }\n",
            &["exec.kill_grace=NaN".to_owned(), "nonsense".to_owned()],
        )
        .expect_err("six things are wrong");
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "journal.sync: is \"maybe\"; allowed is \"full\" or \"normal\"",
                "limits.clients: is -1; allowed is a whole number from 1 to 65536",
                "limits.foo: unknown key",
                "sync: unknown key; there is journal.sync",
                "exec.kill_grace: is \"NaN\"; allowed is a duration such as \"5s\" (RFC 23) or a number of seconds",
                "-S nonsense: has no `=`; allowed is key=value",
            ]
        );
    }

    #[test]
    fn what_is_not_toml_is_said_in_one_line() {
        let errors = check("[journal\n").expect_err("a bracket is missing");
        assert!(matches!(&errors[..], [ConfigError::Syntax(line)] if !line.contains('\n')));
    }
}
