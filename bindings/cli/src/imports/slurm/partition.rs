//! `PartitionName` lines: what a partition asks of jobs, gives them, and who may use it.
//!
//! Read by the import of `slurm.conf`, a line at a time.

use std::collections::BTreeSet;

use super::super::access::members;
use super::amounts::{minutes, number_of};
use super::{Found, Host, Pair, Partition, Queue, expanded, list, quoted, unknown};

/// Whether a partition says in a way that is understood which nodes it has. One that does not is left
/// out: taken for one of all nodes it would share those of every other.
pub(super) fn has_hosts(pairs: &[Pair], found: &mut Found) -> bool {
    let is_nodes = |pair: &&Pair| pair.key.eq_ignore_ascii_case("nodes");
    let is_wrong =
        |pair: &&Pair| !pair.value.eq_ignore_ascii_case("all") && expanded(&pair.value).is_none();
    let Some(wrong) = pairs.iter().filter(is_nodes).find(is_wrong) else {
        return true;
    };
    let (name, nodes) = (&pairs[0].value, &wrong.value);
    let why = format!("PartitionName={name}: is not taken over: Nodes={nodes} is no list of hosts");
    found.note(wrong.line, why);
    false
}

/// Whether a bound that a line gives can be read; of all else that is not asked.
pub(super) fn is_read(pair: &Pair) -> bool {
    let bounds = ["maxtime", "defaulttime", "minnodes", "maxnodes"];
    let key = pair.key.to_ascii_lowercase();
    !bounds.contains(&key.as_str())
        || matches!(bound(&key, &pair.value), Some(Bound::None | Bound::Is(..)))
}

/// A partition as a queue; these names have others.
pub(super) fn read(
    number: usize,
    pairs: &[Pair],
    taken: &BTreeSet<String>,
    host: &dyn Host,
    found: &mut Found,
) -> Partition {
    let mut queue = found.queue(number, "PartitionName=", &pairs[0].value, taken);
    let mut nodes = None;
    for pair in pairs {
        let value = pair.value.as_str();
        match pair.key.to_ascii_lowercase().as_str() {
            "partitionname" => {}
            "nodes" if value.eq_ignore_ascii_case("all") => {}
            "nodes" => match expanded(value) {
                Some(hosts) => nodes = Some(hosts.into_iter().collect()),
                None => unknown(pair, found),
            },
            "state" => state(pair, &queue.name, found),
            key => {
                if let Known::No = rule(key, value, &mut queue, found) {
                    unknown(pair, found);
                }
            }
        }
    }
    access(pairs, &mut queue, host, found);
    priority(pairs, &mut queue, found);
    times(pairs, &mut queue, found);
    qos(pairs, found);
    Partition {
        line: number,
        queue,
        nodes,
    }
}

/// Of several that are allowed none is the default, as in Slurm: who names none needs one of them elsewhere.
fn qos(pairs: &[Pair], found: &mut Found) {
    let is_several =
        |pair: &&Pair| pair.key.eq_ignore_ascii_case("allowqos") && pair.value.contains(',');
    for Pair { value, line, .. } in pairs.iter().filter(is_several) {
        let why = "becomes no default_qos: a job that names none needs one of them as the default of its user in its \
                   account, or is refused";
        found.once(*line, format!("AllowQos={value}: {why}"));
    }
}

/// A default that is longer than what is allowed, with which a job of no limit waits for ever in Slurm.
fn times(pairs: &[Pair], queue: &mut Queue, found: &mut Found) {
    let seconds = |name: &str| queue.keys.get(name)?.parse::<u64>().ok();
    let (Some(default), Some(max)) = (seconds("default_time"), seconds("max_time")) else {
        return;
    };
    if default <= max {
        return;
    }
    queue.keys.insert("default_time", max.to_string());
    let is_it = |pair: &&Pair| pair.key.eq_ignore_ascii_case("defaulttime");
    if let Some(Pair { value, line, .. }) = pairs.iter().find(is_it) {
        let why = "is longer than MaxTime: it becomes as long as that";
        found.note(*line, format!("DefaultTime={value}: {why}"));
    }
}

/// Whether its jobs are taken and started is no part of a configuration.
fn state(pair: &Pair, name: &str, found: &mut Found) {
    let verb = match pair.value.to_ascii_lowercase().as_str() {
        "up" => return,
        "down" => "stop",
        "drain" => "disable",
        "inactive" => "disable` and `eddy queue stop",
        _ => return unknown(pair, found),
    };
    let command = format!("`eddy queue {verb} {name}`");
    let text = format!(
        "State={}: is said to the running instance: {command}",
        pair.value
    );
    found.note(pair.line, text);
}

/// Who may use it: all that is said holds at once.
fn access(pairs: &[Pair], queue: &mut Queue, host: &dyn Host, found: &mut Found) {
    let has = |key: &str| {
        let mut others = pairs.iter();
        others.any(|pair| {
            pair.key.eq_ignore_ascii_case(key) && !pair.value.eq_ignore_ascii_case("all")
        })
    };
    for pair in pairs {
        let value = pair.value.as_str();
        let is = |word: &str| value.eq_ignore_ascii_case(word);
        let said = format!("{}={value}", pair.key);
        let names = || value.split(',').filter(|name| !name.is_empty());
        match pair.key.to_ascii_lowercase().as_str() {
            "rootonly" if is("no") => {}
            "rootonly" if is("yes") => queue.access.root(),
            "allowgroups" | "allowaccounts" | "allocnodes" if is("all") => {}
            "allowgroups" => {
                let groups: Vec<&str> = names().collect();
                if let Some(unknown) = queue.access.groups(pair.line, &said, &groups, host) {
                    found.note(pair.line, members(&said, &unknown));
                }
            }
            "allowaccounts" => queue.access.accounts(names().map(str::to_owned).collect()),
            // Slurm does not look at them either.
            "denyaccounts" if has("allowaccounts") => unknown(pair, found),
            "denyqos" if has("allowqos") => unknown(pair, found),
            "denyaccounts" | "denyqos" if value.is_empty() => {}
            "reqresv" if is("no") => {}
            "rootonly" | "denyaccounts" | "denyqos" | "allocnodes" | "reqresv" => {
                queue
                    .access
                    .close(pair.line, format!("{said} has no counterpart"));
            }
            _ => {}
        }
    }
}

/// How a partition stands to others: by its tier, if it says one, which is looked at before all else
/// in Slurm, else by its factor.
fn priority(pairs: &[Pair], queue: &mut Queue, found: &mut Found) {
    let of = |key: &str| pairs.iter().find(|pair| pair.key.eq_ignore_ascii_case(key));
    let (tier, factor) = (of("prioritytier"), of("priorityjobfactor"));
    let Some(pair) = tier.or(factor) else {
        return;
    };
    let Some(number) = number_of(&pair.value) else {
        return unknown(pair, found);
    };
    queue.keys.insert("priority", number);
    let Some(Pair { value, line, .. }) = tier else {
        return;
    };
    let why = "becomes the priority, which weighs beside all else; in Slurm it goes before it";
    found.note(*line, format!("PriorityTier={value}: {why}"));
    if let Some(Pair { value, line, .. }) = factor {
        let why = "is not taken over: the tier is the priority";
        found.note(*line, format!("PriorityJobFactor={value}: {why}"));
    }
}

/// Whether a key has a counterpart.
enum Known {
    Yes,
    No,
}

/// What bounds the jobs of a partition.
enum Bound {
    /// Nothing.
    None,
    /// This key of a queue.
    Is(&'static str, String),
}

/// What a bound says, where it can be read.
fn bound(key: &str, value: &str) -> Option<Bound> {
    let is = |word: &str| value.eq_ignore_ascii_case(word);
    let is_endless = is("unlimited") || is("infinite");
    let seconds = || Some(minutes(value)?.to_string());
    Some(match key {
        "maxtime" | "defaulttime" | "maxnodes" if is_endless => Bound::None,
        "maxtime" => Bound::Is("max_time", seconds()?),
        "defaulttime" => Bound::Is("default_time", seconds()?),
        "minnodes" if is("0") => Bound::None,
        "minnodes" => Bound::Is("min_nodes", number_of(value)?),
        "maxnodes" => Bound::Is("max_nodes", number_of(value).filter(|_| !is("0"))?),
        _ => return None,
    })
}

/// What a partition asks of jobs, and gives them.
fn rule(key: &str, value: &str, queue: &mut Queue, found: &mut Found) -> Known {
    let is = |word: &str| value.eq_ignore_ascii_case(word);
    let (name, text) = match key {
        "default" if is("no") => return Known::Yes,
        "default" => ("default", is("yes").then(|| "true".to_owned())),
        "maxtime" | "defaulttime" | "minnodes" | "maxnodes" => match bound(key, value) {
            Some(Bound::None) => return Known::Yes,
            Some(Bound::Is(name, text)) => (name, Some(text)),
            None => return Known::No,
        },
        // Both together say one thing.
        "priorityjobfactor" | "prioritytier" => return Known::Yes,
        "allowqos" if is("all") => return Known::Yes,
        "allowqos" => {
            found.qos.extend(value.split(',').map(str::to_owned));
            // The default of a queue goes before that of a user, who may not have it: only where no other is
            // allowed nothing is lost by that.
            if !value.contains(',') {
                queue.keys.insert("default_qos", quoted(value));
            }
            ("qos", Some(list(value.split(','))))
        }
        // What they say together is read elsewhere.
        "rootonly" | "allowgroups" | "allowaccounts" | "denyaccounts" | "denyqos"
        | "allocnodes" | "reqresv" => {
            return Known::Yes;
        }
        _ => return Known::No,
    };
    match text {
        Some(text) => {
            queue.keys.insert(name, text);
            Known::Yes
        }
        None => Known::No,
    }
}
