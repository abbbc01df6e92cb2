//! Every key of the configuration that has one value, a row each: its path, what
//! it takes, what it means, how it is set and told.
//!
//! Read by [`super`] and nothing else; a key that is not here is unknown.

use eddy_wire::fsd::{Fsd, parse_fsd};
use eddy_wire::time::Span;
use serde::Serialize;
use serde_json::Value as Json;
use toml::Value;

use super::qos::LONGER;
use super::{Config, Sync, Transport, Users};

/// One key of the configuration.
pub struct Key {
    /// Dotted, as it stands in errors, `config get` and `-S`.
    pub path: &'static str,
    /// What it takes.
    pub allowed: &'static str,
    /// What it means, one line.
    pub meaning: &'static str,
    pub(super) set: fn(&mut Config, &Value) -> Option<()>,
    pub(super) get: fn(&Config) -> Json,
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
        allowed: GRACE,
        meaning: "from TERM to KILL when a job is to end",
        set: |config, value| {
            let grace = span(value)?;
            set_to(&mut config.instance.kill_grace, grace.min(GRACE_MAX))?;
            (grace <= GRACE_MAX).then_some(())
        },
        get: |config| json(&config.instance.kill_grace),
    },
    Key {
        path: "exec.hung_after",
        allowed: SPAN_OR_NEVER,
        meaning: "when nothing is heard of a sub-instance's leader for so long beyond its beats it is ended and started again; its jobs go on",
        set: |config, value| set_to(&mut config.instance.hung_after, span_or_never(value)?),
        get: |config| json_or_never(config.instance.hung_after),
    },
    Key {
        path: "grant.release_idle",
        allowed: SPAN,
        meaning: "a user's sub-instance gives nodes back on which nothing ran for so long while nothing waits; unset is never",
        set: |config, value| {
            let after = span(value).filter(|after| after.0 > 0)?;
            set_to(&mut config.instance.release_idle, Some(after))
        },
        get: |config| json(&config.instance.release_idle),
    },
    Key {
        path: "grant.keep_nodes",
        allowed: "a whole number from 1 to 262144",
        meaning: "so many nodes stay all the same, the leader's among them",
        set: |config, value| {
            set_to(
                &mut config.instance.keep_nodes,
                count(value, 1, 262_144)? as u32,
            )
        },
        get: |config| json(&config.instance.keep_nodes),
    },
    Key {
        path: "grant.lease",
        allowed: SPAN,
        meaning: "so long jobs of a sub-instance start without its parent being heard; what runs goes on",
        set: |config, value| set_to(&mut config.instance.lease, span(value)?),
        get: |config| json(&config.instance.lease),
    },
    Key {
        path: "grant.autonomous_after",
        allowed: SPAN_OR_NEVER,
        meaning: "when its parent has been silent for so long a queue instance of a fixed size starts, first come first served, what was submitted to it since",
        set: |config, value| set_to(&mut config.instance.autonomous_after, span_or_never(value)?),
        get: |config| json_or_never(config.instance.autonomous_after),
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
        path: "defaults.time",
        allowed: LONGER,
        meaning: "the time limit of jobs for which neither they nor a QoS or queue say one; unset is none",
        set: |config, value| {
            let time = span(value).filter(|time| time.0 > 0)?;
            set_to(&mut config.instance.default_time, Some(time))
        },
        get: |config| json(&config.instance.default_time),
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
        path: "limits.user_clients",
        allowed: "a whole number from 1 to 65536",
        meaning: "connections of one user at a time; owner and admins have no such limit",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.user_clients,
                count(value, 1, 65_536)?,
            )
        },
        get: |config| json(&config.instance.limits.user_clients),
    },
    Key {
        path: "limits.user_outstanding",
        allowed: "a whole number from 1 to 1000000",
        meaning: "requests of one user, by all connections, that are not answered yet",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.user_outstanding,
                count(value, 1, 1_000_000)?,
            )
        },
        get: |config| json(&config.instance.limits.user_outstanding),
    },
    Key {
        path: "limits.user_rate",
        allowed: "a whole number from 1 to 1000000",
        meaning: "requests of one user a second, five seconds' worth at once",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.user_rate,
                count(value, 1, 1_000_000)?,
            )
        },
        get: |config| json(&config.instance.limits.user_rate),
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
        path: "limits.user_jobs",
        allowed: "a whole number from 1 to 1000000",
        meaning: "jobs of one user that are not over; owner and admins have no such limit",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.user_jobs,
                count(value, 1, 1_000_000)?,
            )
        },
        get: |config| json(&config.instance.limits.user_jobs),
    },
    Key {
        path: "limits.user_copies",
        allowed: "a whole number from 1 to 1000000",
        meaning: "jobs of one submission of a user; owner and admins have no such limit",
        set: |config, value| {
            set_to(
                &mut config.instance.limits.user_copies,
                count(value, 1, 1_000_000)?,
            )
        },
        get: |config| json(&config.instance.limits.user_copies),
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
        path: "access.users",
        allowed: "\"all\" or a list of names of users",
        meaning: "who may submit to a root that user 0 starts; unset is all, elsewhere the owner",
        set: |config, value| {
            let users = match value.as_str() {
                Some("all") => Users::All,
                Some(_) => return None,
                None => Users::Named(names(value)?),
            };
            set_to(&mut config.instance.access.users, users)
        },
        get: |config| match &config.instance.access.users {
            Users::Unsaid => Json::Null,
            said => json(said),
        },
    },
    Key {
        path: "access.admins",
        allowed: "a list of names of users",
        meaning: "who besides the owner may act on everybody's jobs",
        set: |config, value| set_to(&mut config.instance.access.admins, names(value)?),
        get: |config| json(&config.instance.access.admins),
    },
    Key {
        path: "access.private",
        allowed: "true or false",
        meaning: "listings show users their own jobs only; owner and admins see all",
        set: |config, value| set_to(&mut config.instance.access.private, value.as_bool()?),
        get: |config| json(&config.instance.access.private),
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

/// How many names one list may have.
const NAMES_MAX: usize = 65_536;
const SPAN_OR_NEVER: &str =
    "a duration longer than nothing such as \"30s\" (RFC 23), a number of seconds, or \"never\"";
const SPAN: &str = "a duration such as \"5s\" (RFC 23) or a number of seconds";

/// The longest time that what is to end is left alone: others wait for its nodes.
pub(super) const GRACE_MAX: Span = Span::seconds(86_400);
pub(super) const GRACE: &str =
    "a duration of at most a day such as \"5s\" (RFC 23), or a number of seconds";

/// What a key of this table is, where that is not as by default: as it is put over another configuration.
pub fn other_than_default(config: &Config, path: &str) -> Option<String> {
    let key = KEYS.iter().find(|key| key.path == path);
    let key = key.expect("it is a key of this table");
    let value = (key.get)(config);
    (value != (key.get)(&Config::default())).then(|| match value {
        Json::String(text) => text,
        value => value.to_string(),
    })
}

pub(super) fn json(value: &impl Serialize) -> Json {
    serde_json::to_value(value).expect("configuration values are JSON")
}

fn set_to<T>(place: &mut T, value: T) -> Option<()> {
    *place = value;
    Some(())
}

/// A time that may never come.
fn span_or_never(value: &Value) -> Option<Option<Span>> {
    match value.as_str() {
        Some("never") => Some(None),
        _ => span(value).filter(|after| after.0 > 0).map(Some),
    }
}

fn json_or_never(after: Option<Span>) -> Json {
    after.map_or_else(|| json(&"never"), |after| json(&after))
}

pub(super) fn span(value: &Value) -> Option<Span> {
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

pub(super) fn count(value: &Value, least: u64, most: u64) -> Option<u64> {
    let count = u64::try_from(value.as_integer()?).ok()?;
    (least..=most).contains(&count).then_some(count)
}

/// A list of names, none of them empty.
fn names(value: &Value) -> Option<Vec<String>> {
    let names = value.as_array().filter(|names| names.len() <= NAMES_MAX)?;
    let name = |name: &Value| {
        let name = name.as_str()?;
        (!name.is_empty() && !name.contains('\0')).then(|| name.to_owned())
    };
    names.iter().map(name).collect()
}

fn bytes(value: &Value, least: u64, most: u64) -> Option<u64> {
    let bytes = match value {
        Value::String(text) => eddy_wire::jobspec::parse_bytes(text).ok()?,
        other => u64::try_from(other.as_integer()?).ok()?,
    };
    (least..=most).contains(&bytes).then_some(bytes)
}
