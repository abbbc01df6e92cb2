//! `eddy config`: check, import, show, set and reload the configuration.

mod written;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Subcommand;
use eddy_brokerd::config::{self, ConfigError};
use eddy_brokerd::leader::access;
use eddy_brokerd::leader::configured::{CONFIG_FILE, KEPT_FILE, write_whole};
use eddy_brokerd::text::CONFIG_MAX;
use eddy_brokerd::users;
use eddy_client::ClientError;
use eddy_sched::policy::PolicyError;
use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::policy::warn::warnings;
use eddy_wire::error::Code;
use eddy_wire::services::instance::{
    Config, Reload, ReloadRequest, Reloaded, SetConfig, SetConfigRequest,
};
use eddy_wire::services::sched::{Policy as Obeyed, SetPolicy, SetPolicyRequest};
use serde_json::Value;

use crate::imports;
use crate::names::named;
use crate::output;
use crate::session::Global;
use crate::text;
use written::replaced;

/// Check, import, show, set and reload the configuration
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Check a file as a whole; print every error in it, with its line, and users it names that this host does not know
    Check {
        /// The file, a regular one; - is standard input
        #[arg(value_name = "FILE")]
        file: String,
    },
    /// Print the configuration in force, or one key of it, as JSON
    ///
    /// The key origin says where it is from: the file that was given to the start, config.toml in
    /// the state directory, what was given to an earlier start and is kept, or defaults.
    Get {
        /// Dotted name, such as journal.sync or queue.debug.max_time
        #[arg(value_name = "KEY")]
        key: Option<String>,
    },
    /// Write the configuration that another scheduler's is: slurm.conf, or what qmgr -c 'p s' prints
    ///
    /// Partitions and queues become [[queue]], with their limits and defaults; a partition with nodes
    /// of its own is served by an [[instance]] on those. What has no counterpart is named on standard
    /// error by its line, and is a comment in what is written. Where it cannot be said who may use a
    /// queue it is closed to all but root, and the import ends with an error. Check the result with
    /// eddy config check.
    Import {
        /// Write the nodes of slurm.conf there, for eddy start --resources (RFC 20)
        #[arg(long, value_name = "FILE")]
        resources: Option<PathBuf>,
        /// The file; - is standard input
        #[arg(value_name = "FILE")]
        file: String,
    },
    /// Read the configuration file again and obey what changed
    ///
    /// The file that the instance was started with (eddy config get origin says which) is checked as
    /// a whole; on any error nothing changes and each is printed. Then what differs is printed, a
    /// line each, and counts from now on: queues, QoS, classes, pools, filters, the policy, home and
    /// lend_max of elastic instances, defaults.time, history.*, limits.* (but spool_bytes). What
    /// counts from the next start on is printed as such. Jobs that were let through go on; a queue, QoS,
    /// class or pool that jobs still need cannot go. What was set by eddy config set is undone. It
    /// stands after a restart.
    Reload {
        /// Only print what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// Set keys while the instance runs, or a key for its next start
    ///
    /// KEY=VALUE... changes the running instance at once: queue.debug.max_time=1h, pool.matlab.count=6,
    /// limits.user_rate=200; entries of lists go by their names, KEY= takes a key out. What may
    /// change is what eddy config reload may change; all is checked as a whole. It stands after a
    /// restart, until the file is another or read again. policy.KEY=VALUE is set by itself: policy.preset=easy begins
    /// anew from that preset, policy.queue.depth=3 is put over what is obeyed. What took effect is printed, a line
    /// each.
    ///
    /// KEY VALUE with --at DIR, the state directory, writes any key for the next start; a running
    /// instance goes on with what it has. The file config.toml there is changed; it begins with
    /// what was given to the last start, and is read instead of that by starts without --config. A start with
    /// --config FILE reads FILE and not config.toml: whoever starts so writes the key in FILE.
    #[command(
        override_usage = "eddy config set KEY=VALUE...\n       eddy --at DIR config set KEY VALUE"
    )]
    Set {
        /// Dotted names, such as policy.preset=easy; values are TOML, or texts
        #[arg(value_name = "KEY=VALUE", required = true)]
        words: Vec<String>,
        /// Only print what would change (not of the policy)
        #[arg(long)]
        dry_run: bool,
    },
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    match args.verb {
        Verb::Check { file } => check(&file),
        Verb::Import { resources, file } => import(&file, resources.as_deref()),
        Verb::Get { key } => get(global, key.as_deref()),
        Verb::Reload { dry_run } => reload(global, dry_run),
        Verb::Set { words, dry_run } => match words.as_slice() {
            [key, value] if !key.contains('=') => set(global, key, value),
            given if given.iter().all(|given| is_policy(given)) && !dry_run => {
                set_policy(global, given)
            }
            given => set_live(global, given, dry_run),
        },
    }
}

fn check(file: &str) -> anyhow::Result<u8> {
    // What a start would not read is not checked as if it did; what is open already is whatever it is.
    let text = match file {
        "-" => text::read(file, CONFIG_MAX)?,
        open if is_open(open) => text::read(file, CONFIG_MAX)?,
        path => text_there(Path::new(path))?,
    };
    let (config, mut errors) = config::read(&text, &[]);
    errors.extend(access::unknown(&config.instance.access));
    for line in config::told(&text, &errors) {
        eprintln!("eddy config check: {file}: {}", output::one_line(&line));
    }
    // What hardly can be meant is told of what is right as a whole: of it each place is known.
    if !errors.is_empty() {
        return Ok(output::FAILED);
    }
    let doubts = config::doubts(&config.instance, None);
    let of_policy = warnings(&config.instance.policy);
    let of_policy = of_policy.iter().map(|one| format!("{IS_POLICY}.{one}"));
    for line in config::told(&text, &doubts).into_iter().chain(of_policy) {
        let line = output::one_line(&line);
        eprintln!("eddy config check: {file}: warning: {line}");
    }
    Ok(0)
}

/// Whether it is a descriptor that this command was given, as `<(...)` of a shell is: nobody's other end need be
/// waited for, as that of a pipe with a name.
fn is_open(file: &str) -> bool {
    let mut places = ["/dev/fd/", "/proc/self/fd/"].into_iter();
    let number = places.find_map(|place| file.strip_prefix(place));
    number.is_some_and(|number| number.parse::<u16>().is_ok())
}

/// How many keys an error tells: all that any group has.
const NAMES_TOLD: usize = 32;

/// This host, asked by its databases of users and groups.
struct Host;

impl imports::Host for Host {
    fn user(&self, name: &str) -> Option<String> {
        users::in_a_queue(name)
    }

    fn members(&self, group: &str) -> Option<BTreeSet<String>> {
        users::members(group)
    }
}

fn import(file: &str, resources: Option<&Path>) -> anyhow::Result<u8> {
    let say = |text: &str| eprintln!("eddy config import: {}", output::one_line(text));
    let whole = imports::Whole::read(file, &|file| text::read(file, CONFIG_MAX))?;
    if whole.says() == 0 {
        bail!(
            "{file}: says nothing; allowed are a slurm.conf and what `qmgr -c 'print server'` says"
        );
    }
    let found = imports::read(&whole.text, &Host);
    if found.is_nothing() {
        bail!(
            "{file}: has nothing that can be taken over; allowed are a slurm.conf and what `qmgr -c 'print server'` says"
        );
    }
    for (line, why) in &found.notes {
        say(&format!("{}: {why}", whole.place(*line)));
    }
    let mut ends = 0;
    match (&found.nodes, resources) {
        (Some(nodes), Some(path)) => {
            let text = serde_json::to_string(nodes).context("the nodes")?;
            fs::write(path, text + "\n").with_context(|| path.display().to_string())?;
        }
        (Some(nodes), None) => {
            let count = nodes.nnodes();
            say(&format!(
                "{file}: {count} nodes are not written: --resources FILE"
            ));
        }
        (None, Some(path)) => {
            let path = path.display();
            say(&format!(
                "--resources {path}: is not written: {file} has no nodes (NodeName lines of slurm.conf)"
            ));
            ends = output::FAILED;
        }
        (None, None) => {}
    }
    if found.closed > 0 {
        let count = found.closed;
        say(&format!(
            "{file}: {count} queues are closed to all but root, since who may use them cannot be said here"
        ));
        ends = output::FAILED;
    }
    let toml = found.to_toml();
    print!("{toml}");
    if let Err(errors) = config::check(&toml) {
        for line in config::told(&toml, &errors) {
            say(&format!("what is written: {line}"));
        }
        ends = output::FAILED;
    }
    Ok(ends)
}

fn get(global: &Global, key: Option<&str>) -> anyhow::Result<u8> {
    let all = global.session(async |client| {
        let mut all = client.call::<Config>(&()).await?;
        // What is obeyed is not what is configured, where another was set since.
        let obeyed = client.call::<Obeyed>(&()).await;
        if let Some(policy) = obeyed.ok().and_then(|obeyed| read(&obeyed.text).ok()) {
            all["policy"] = config::policy_json(&policy);
        }
        Ok(all)
    })?;
    let Some(key) = key else {
        output::json(&all)?;
        return Ok(0);
    };
    match found(&all, key).with_context(|| unknown(&all, key))? {
        Value::String(text) => output::lines([text])?,
        value => output::lines([value.to_string()])?,
    }
    Ok(0)
}

/// The value at a path; entries of lists go by their names, which may have dots in them.
fn found<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    let Value::Array(entries) = value else {
        let (first, rest) = path.split_once('.').unwrap_or((path, ""));
        let value = value.get(first)?;
        return match rest {
            "" => Some(value),
            rest => found(value, rest),
        };
    };
    let named = |entry: &Value| entry.get("name").and_then(Value::as_str).map(str::to_owned);
    entries.iter().find_map(|entry| {
        let rest = path.strip_prefix(named(entry)?.as_str())?;
        match rest.strip_prefix('.') {
            None if rest.is_empty() => Some(entry),
            rest => found(entry, rest?),
        }
    })
}

/// That a path leads nowhere, and what there is in the last place that it leads to.
fn unknown(all: &Value, path: &str) -> String {
    let mut nearest = (None, all);
    for (at, _) in path.match_indices('.') {
        let Some(value) = found(all, &path[..at]) else {
            continue;
        };
        nearest = (Some(&path[..at]), value);
    }
    let names: Vec<&str> = match nearest.1 {
        Value::Object(keys) => keys.keys().map(String::as_str).collect(),
        Value::Array(entries) => {
            let named = |entry| Value::as_str(Value::get(entry, "name")?);
            entries.iter().filter_map(named).collect()
        }
        _ => Vec::new(),
    };
    let more = names.len().saturating_sub(NAMES_TOLD);
    let mut there = names[..names.len() - more].join(", ");
    if more > 0 {
        there += &format!(", {more} more");
    }
    match (nearest.0, names.is_empty()) {
        (Some(place), true) => format!("{path}: unknown key; {place} has no keys in it"),
        (Some(place), false) => format!("{path}: unknown key; in {place} there are {there}"),
        (None, _) => {
            let mut groups = all.as_object().into_iter().flatten();
            let inside = groups.find(|(_, group)| found(group, path).is_some());
            match inside {
                Some((group, _)) => format!("{path}: unknown key; there is {group}.{path}"),
                None => format!("{path}: unknown key; there are {there}"),
            }
        }
    }
}

fn is_policy(given: &str) -> bool {
    let rest = given.strip_prefix(IS_POLICY);
    rest.is_some_and(|rest| rest.starts_with('.'))
}

/// Where a policy is in a configuration.
const IS_POLICY: &str = "policy";

/// What is other than it was, a line for each key.
fn differences(path: &str, (before, after): (&Value, &Value), lines: &mut Vec<String>) {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        if before != after {
            let said = |value: &Value| match value {
                Value::Null => "unset".to_owned(),
                value => value.to_string(),
            };
            lines.push(format!("{path}: {} -> {}", said(before), said(after)));
        }
        return;
    };
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for key in keys {
        let of = |all: &serde_json::Map<String, Value>| all.get(key).cloned().unwrap_or_default();
        differences(&format!("{path}.{key}"), (&of(old), &of(new)), lines);
    }
}

/// Asks again while another change is under way, which is over in a moment.
async fn in_turn<T>(ask: impl AsyncFn() -> Result<T, ClientError>) -> Result<T, ClientError> {
    let until = Instant::now() + TURN_AFTER_MAX;
    loop {
        match ask().await {
            Err(error) if error.code() == Some(Code::Busy) && Instant::now() < until => {
                tokio::time::sleep(ASKED_AGAIN_AFTER).await;
            }
            answer => return answer,
        }
    }
}

fn reload(global: &Global, dry_run: bool) -> anyhow::Result<u8> {
    let (reloaded, origin) = global.session(async |client| {
        let request = ReloadRequest { dry_run };
        let reloaded = in_turn(async || client.call::<Reload>(&request).await).await?;
        let config = client.call::<Config>(&()).await?;
        Ok((reloaded, config["origin"].as_str().map(str::to_owned)))
    })?;
    // Whoever changed another file sees why.
    let unchanged = match origin {
        Some(origin) => format!("nothing changed ({origin})"),
        None => NOTHING.to_owned(),
    };
    tell("reload", &reloaded, unchanged)
}

/// Sets keys of the running instance's configuration.
fn set_live(global: &Global, given: &[String], dry_run: bool) -> anyhow::Result<u8> {
    if let Some(policy) = given.iter().find(|given| is_policy(given)) {
        bail!("{policy}: keys of the policy are set by themselves, without others and --dry-run");
    }
    if let Some(given) = given.iter().find(|given| !given.contains('=')) {
        bail!("{given}: has no `=`; allowed is KEY=VALUE");
    }
    let request = SetConfigRequest {
        set: given.to_vec(),
        dry_run,
    };
    let reloaded = global.session(async |client| {
        Ok(in_turn(async || client.call::<SetConfig>(&request).await).await?)
    })?;
    tell("set", &reloaded, NOTHING.to_owned())
}

/// How long the changes of others are waited for, longer than one that hangs is let be, and how often it is asked
/// whether they are over.
const TURN_AFTER_MAX: Duration = Duration::from_secs(30);
const ASKED_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Where a change is none.
const NOTHING: &str = "nothing changed";

/// What came of it, a line each.
fn tell(verb: &str, reloaded: &Reloaded, unchanged: String) -> anyhow::Result<u8> {
    for line in &reloaded.errors {
        eprintln!("eddy config {verb}: {}", output::one_line(&named(line)));
    }
    if !reloaded.errors.is_empty() {
        return Ok(output::FAILED);
    }
    for line in &reloaded.warned {
        let line = output::one_line(line);
        eprintln!("eddy config {verb}: warning: {line}");
    }
    let changed = reloaded.changed.iter().cloned();
    let restart = reloaded.restart.iter();
    let restart = restart.map(|line| format!("{line} (from the next start on)"));
    let mut lines: Vec<String> = changed.chain(restart).collect();
    if lines.is_empty() {
        lines.push(unchanged);
    }
    output::lines(lines)?;
    Ok(0)
}

/// Sets keys of the policy of the running instance.
fn set_policy(global: &Global, given: &[String]) -> anyhow::Result<u8> {
    global.session(async |client| {
        let obeyed = client.call::<Obeyed>(&()).await?;
        let wrong = |errors: Vec<PolicyError>| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            anyhow::anyhow!("the policy of the instance: {}", errors.join("; "))
        };
        let before = read(&obeyed.text).map_err(wrong)?;
        let policy = match config::policy_over(&before, given) {
            Ok(policy) => policy,
            Err(errors) => bail!("{}", lines(&errors)),
        };
        let text = print(&policy);
        client.call::<SetPolicy>(&SetPolicyRequest { text }).await?;
        let mut changed = Vec::new();
        let both = [&before, &policy].map(config::policy_json);
        differences(IS_POLICY, (&both[0], &both[1]), &mut changed);
        if changed.is_empty() {
            changed.push(NOTHING.to_owned());
        }
        output::lines(changed)?;
        for warning in warnings(&policy) {
            let line = output::one_line(&warning.to_string());
            eprintln!("eddy config set: warning: {line}");
        }
        Ok(0)
    })
}

fn set(global: &Global, key: &str, value: &str) -> anyhow::Result<u8> {
    let directory = state_directory(global)?;
    let file = directory.join(CONFIG_FILE);
    // What the file has is obeyed instead of what was given to a start: it begins with that.
    let kept = text_of(&directory.join(KEPT_FILE))?;
    let is_given = kept.is_some();
    let text = text_of(&file)?.or(kept).unwrap_or_default();
    let changed = replaced(&text, key, value)?;
    if let Err(errors) = config::check(&changed) {
        bail!("{}", lines(&errors));
    }
    // Whole or not at all: the next start must not read half of it.
    let fresh = file.with_extension("toml.new");
    write_whole(&fresh, &changed).with_context(|| fresh.display().to_string())?;
    let owner = fs::metadata(&directory).with_context(|| directory.display().to_string())?;
    // Who leads is to read it, whoever wrote it.
    chown(&fresh, Some(owner.uid()), None).with_context(|| fresh.display().to_string())?;
    fs::rename(&fresh, &file).with_context(|| file.display().to_string())?;
    if is_given {
        eprintln!(
            "eddy config set: {} is read by starts without --config, instead of what an earlier start was given",
            file.display()
        );
    }
    Ok(0)
}

fn text_of(file: &Path) -> anyhow::Result<Option<String>> {
    match eddy_brokerd::text::of_file(file, CONFIG_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

fn text_there(file: &Path) -> anyhow::Result<String> {
    let text = eddy_brokerd::text::of_file(file, CONFIG_MAX);
    text.with_context(|| file.display().to_string())
}

fn lines(errors: &[ConfigError]) -> String {
    errors
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ")
}

fn state_directory(global: &Global) -> anyhow::Result<PathBuf> {
    match &global.at {
        Some(at) if Path::new(at).is_dir() => Ok(at.into()),
        Some(at) => bail!("--at {at}: is not a state directory"),
        None => bail!(
            "needs --at DIR, the state directory, to set a key for the next start; KEY=VALUE is set while the instance runs"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_another_program_says_through_a_pipe_is_checked() {
        let checked = |text: &str| {
            let (reads, mut writes) = std::io::pipe().expect("a pipe");
            writes.write_all(text.as_bytes()).expect("it has room");
            drop(writes);
            check(&format!("/dev/fd/{}", reads.as_raw_fd())).expect("it is read")
        };
        assert_eq!(checked("[journal]\nsync = \"full\"\n"), 0);
        assert_eq!(checked("[journal]\nsink = 1\n"), output::FAILED);
    }

    #[test]
    fn a_key_that_is_not_there_is_told_with_those_that_are() {
        let all = serde_json::json!({
            "journal": {"sync": "full"},
            "limits": {"clients": 7, "outstanding": 9},
            "queue": [{"name": "debug", "max_time": "1h"}, {"name": "a.b"}],
        });
        for (path, expected) in [
            ("nope", "there are journal, limits, queue"),
            ("sync", "there is journal.sync"),
            ("limits.client", "in limits there are clients, outstanding"),
            ("queue.debgu", "in queue there are debug, a.b"),
            (
                "queue.debug.time",
                "in queue.debug there are name, max_time",
            ),
            ("journal.sync.x.y", "journal.sync has no keys in it"),
        ] {
            assert_eq!(
                unknown(&all, path),
                format!("{path}: unknown key; {expected}")
            );
        }
    }
}
