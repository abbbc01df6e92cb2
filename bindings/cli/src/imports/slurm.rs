//! `slurm.conf`: `NodeName` and `PartitionName` lines, and of the rest what has a counterpart.
//!
//! A partition becomes a queue. One that has nodes of its own, which no other partition has, is
//! served by an instance on those; all others are queues of the root, and require a property that
//! only their nodes have, where those are not all.

mod amounts;

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use amounts::{gpu, licenses, mebibytes, minutes, number_of};

use super::{Found, Instance, Queue, list, plain, plain_instance, quoted};

/// More nodes than that are none of a configuration.
const NODES_MAX: u64 = 65_536;
/// The most cores of a declared node.
const CORES_MAX: u32 = 65_536;

/// One `Key=Value`, and the line where it stands.
#[derive(Clone)]
struct Pair {
    key: String,
    value: String,
    line: usize,
}

/// What lines of one kind say where they do not say otherwise: what `NodeName=DEFAULT` said before them.
#[derive(Default)]
struct Defaults {
    pairs: Vec<Pair>,
}

impl Defaults {
    /// What a line says with those before it; nothing where it is such a one itself.
    fn complete(&mut self, mut line: Vec<Pair>) -> Option<Vec<Pair>> {
        let has = |pairs: &[Pair], key: &str| {
            let mut pairs = pairs.iter();
            pairs.any(|pair| pair.key.eq_ignore_ascii_case(key))
        };
        if line[0].value.eq_ignore_ascii_case("default") {
            line.remove(0);
            self.pairs.retain(|pair| !has(&line, &pair.key));
            self.pairs.append(&mut line);
            return None;
        }
        let others = self.pairs.iter().filter(|pair| !has(&line, &pair.key));
        let others: Vec<Pair> = others.cloned().collect();
        line.extend(others);
        Some(line)
    }
}

/// Nodes in their order, and which of them have what feature.
#[derive(Default)]
struct Hosts {
    all: Vec<NodeSet>,
    features: BTreeMap<String, (usize, Idset)>,
}

/// A partition and its nodes.
struct Partition {
    line: usize,
    queue: Queue,
    nodes: Option<BTreeSet<String>>,
}

pub(super) fn read(text: &str) -> Found {
    let mut found = Found::default();
    let (mut hosts, mut partitions) = (Hosts::default(), Vec::new());
    let (mut of_nodes, mut of_partitions) = (Defaults::default(), Defaults::default());
    for (number, line) in logical(text) {
        let mut words = line.split_whitespace();
        if words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("include"))
        {
            let file = words.collect::<Vec<&str>>().join(" ");
            let why = "is not read: put what it has in the place of the line";
            found.note(number, format!("include {file}: {why}"));
            continue;
        }
        let pairs = pairs(number, &line);
        let Some(first) = pairs.first() else {
            continue;
        };
        match first.key.to_ascii_lowercase().as_str() {
            "nodename" => {
                if let Some(pairs) = of_nodes.complete(pairs) {
                    nodes(number, &pairs, &mut hosts, &mut found);
                }
            }
            "partitionname" => {
                if let Some(pairs) = of_partitions.complete(pairs)
                    && has_hosts(&pairs, &mut found)
                {
                    partitions.push(partition(number, &pairs, &mut found));
                }
            }
            _ => pairs.iter().for_each(|pair| setting(pair, &mut found)),
        }
    }
    let Hosts { all, features } = hosts;
    let mut properties = place(partitions, &all, &mut found);
    for (name, (line, ranks)) in features {
        if *properties.entry(name.clone()).or_insert(ranks.clone()) != ranks {
            let why = "is not taken over: the partition of that name requires it of other nodes";
            found.note(line, format!("Feature={name}: {why}"));
        }
    }
    let ranked = (0..).zip(all).map(|(rank, node)| (Rank(rank), node));
    let set = ResourceSet {
        nodes: ranked.collect(),
        properties,
        ..ResourceSet::default()
    };
    found.nodes = (!set.is_empty()).then_some(set);
    found
}

/// Lines without comments, those that go on put together, each with its first number.
fn logical(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default();
        let (part, more) = match line.trim_end().strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match all.last_mut().filter(|_| goes_on) {
            Some((_, whole)) => {
                whole.push(' ');
                whole.push_str(part);
            }
            None => all.push((number, part.to_owned())),
        }
        goes_on = more;
    }
    all
}

fn pairs(number: usize, line: &str) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (key, after) = rest.split_once('=').unwrap_or((rest, ""));
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(char::is_whitespace).unwrap_or((after, "")),
        };
        pairs.push(Pair {
            key: key.trim().to_owned(),
            value: value.to_owned(),
            line: number,
        });
        rest = after.trim();
    }
    pairs
}

fn expanded(text: &str) -> Option<Vec<String>> {
    let hosts: Hostlist = text.parse().ok()?;
    (hosts.len() <= NODES_MAX).then(|| hosts.hosts().collect())
}

fn nodes(number: usize, pairs: &[Pair], hosts: &mut Hosts, found: &mut Found) {
    let (mut cpus, mut sockets, mut per_socket, mut boards) = (None, 1, None, 1);
    let (mut gpus, mut memory, mut names, mut features) = (0, 0, None, None);
    for pair in pairs {
        let amount = pair.value.parse::<u32>().ok().filter(|count| *count > 0);
        match (pair.key.to_ascii_lowercase().as_str(), amount) {
            ("nodename", _) => names = expanded(&pair.value),
            ("cpus" | "procs", Some(_)) => cpus = amount,
            ("sockets", Some(count)) => sockets = count,
            ("boards", Some(count)) => boards = count,
            ("corespersocket", Some(_)) => per_socket = amount,
            ("threadspercore", Some(1)) => {}
            ("threadspercore", Some(_)) => threads(pair, found),
            ("realmemory", _) => match mebibytes(&pair.value) {
                Some(bytes) => memory = bytes,
                None => unknown(pair, found),
            },
            ("gres", _) => match gpu(&pair.value) {
                Some(count) => gpus = count,
                None => unknown(pair, found),
            },
            ("feature" | "features", _) if pair.value.split(',').all(is_plain_property) => {
                features = Some(pair);
            }
            _ => unknown(pair, found),
        }
    }
    let Some(names) = names else {
        return found.note(number, "NodeName: is no list of hosts");
    };
    let all_sockets = boards.saturating_mul(sockets);
    let by_socket = per_socket.map(|cores| all_sockets.saturating_mul(cores));
    let given = by_socket.or(cpus).unwrap_or(1);
    let cores = given.min(CORES_MAX);
    if given > CORES_MAX {
        let text =
            format!("{given} cores of a node are taken for {CORES_MAX}, the most it may have");
        found.note(number, text);
    }
    let range = |count: u32| match count {
        0 => Idset::new(),
        count => Idset::range(0, count - 1),
    };
    for name in names {
        let rank = hosts.all.len() as u32;
        if u64::from(rank) >= NODES_MAX {
            let text = format!("more than {NODES_MAX} nodes are not taken over");
            return found.note(number, text);
        }
        for (feature, line) in features.iter().flat_map(|pair| pair.features()) {
            let (_, ranks) = hosts
                .features
                .entry(feature)
                .or_insert((line, Idset::new()));
            *ranks = ranks.union(&Idset::one(rank));
        }
        hosts.all.push(NodeSet {
            host: name.as_str().into(),
            cores: range(cores),
            gpus: range(gpus),
            memory,
            sockets: amounts::sockets(all_sockets, cores, gpus),
        });
    }
}

fn threads(pair: &Pair, found: &mut Found) {
    let why = "a core is the least that is given out";
    found.once(pair.line, format!("ThreadsPerCore={}: {why}", pair.value));
}

/// Whether a feature can be a property as it is.
fn is_plain_property(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.chars().all(is_allowed)
}

impl Pair {
    fn features(&self) -> impl Iterator<Item = (String, usize)> {
        let names = self.value.split(',');
        names.map(|name| (name.to_owned(), self.line))
    }
}

/// Whether a partition says in a way that is understood which nodes it has. One that does not is left
/// out: taken for one of all nodes it would share those of every other.
fn has_hosts(pairs: &[Pair], found: &mut Found) -> bool {
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

fn partition(number: usize, pairs: &[Pair], found: &mut Found) -> Partition {
    let mut queue = Queue::default();
    let mut nodes = None;
    for pair in pairs {
        let value = pair.value.as_str();
        match pair.key.to_ascii_lowercase().as_str() {
            "partitionname" => {
                queue.name = plain(value);
                if queue.name != value {
                    let text = format!("PartitionName={value}: the queue is called {}", queue.name);
                    found.note(number, text);
                }
            }
            "nodes" if value.eq_ignore_ascii_case("all") => {}
            "nodes" => match expanded(value) {
                Some(hosts) => nodes = Some(hosts.into_iter().collect()),
                None => unknown(pair, found),
            },
            "state" if value.eq_ignore_ascii_case("up") => {}
            "state" => {
                let verb = match value.to_ascii_lowercase().as_str() {
                    "drain" => "disable",
                    "inactive" => "disable` and `eddy queue stop",
                    _ => "stop",
                };
                let name = &queue.name;
                let text = format!(
                    "State={value}: is said to the running instance: `eddy queue {verb} {name}`"
                );
                found.note(number, text);
            }
            key => {
                if let Known::No = rule(key, value, &mut queue, found) {
                    unknown(pair, found);
                }
                if let ("allowqos", Some(default)) = (key, queue.keys.get("default_qos")) {
                    let why =
                        format!("a job that names none has {default}; in Slurm its user's own");
                    found.note(pair.line, format!("AllowQos={value}: {why}"));
                }
            }
        }
    }
    priority(pairs, &mut queue, found);
    times(pairs, &mut queue, found);
    Partition {
        line: number,
        queue,
        nodes,
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

/// What a partition asks of jobs, and gives them.
fn rule(key: &str, value: &str, queue: &mut Queue, found: &mut Found) -> Known {
    let is = |word: &str| value.eq_ignore_ascii_case(word);
    let (name, text) = match key {
        "default" if is("no") => return Known::Yes,
        "default" => ("default", is("yes").then(|| "true".to_owned())),
        "maxtime" | "defaulttime" | "maxnodes" if is("unlimited") || is("infinite") => {
            return Known::Yes;
        }
        "maxtime" => (
            "max_time",
            minutes(value).map(|seconds| seconds.to_string()),
        ),
        "defaulttime" => (
            "default_time",
            minutes(value).map(|seconds| seconds.to_string()),
        ),
        "minnodes" if is("0") => return Known::Yes,
        "minnodes" => ("min_nodes", number_of(value)),
        "maxnodes" => ("max_nodes", number_of(value).filter(|_| !is("0"))),
        // Both together say one thing.
        "priorityjobfactor" | "prioritytier" => return Known::Yes,
        "allowaccounts" | "allowqos" if is("all") => return Known::Yes,
        "allowaccounts" => ("accounts", Some(list(value.split(',')))),
        "allowqos" => {
            found.qos.extend(value.split(',').map(str::to_owned));
            // In Slurm it is the user's own; a job that has none would be refused by the list.
            let first = value.split(',').next().map(quoted);
            queue.keys.extend(first.map(|first| ("default_qos", first)));
            ("qos", Some(list(value.split(','))))
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

/// Puts partitions with nodes of their own on instances; gives the properties of nodes of others.
fn place(
    partitions: Vec<Partition>,
    hosts: &[NodeSet],
    found: &mut Found,
) -> BTreeMap<String, Idset> {
    let mut properties = BTreeMap::new();
    let all: BTreeSet<String> = hosts.iter().map(|node| node.host.to_string()).collect();
    let whole = |partition: &Partition| {
        let nodes = partition.nodes.as_ref();
        nodes.is_none_or(|nodes| *nodes == all)
    };
    let sets: Vec<Option<BTreeSet<String>>> = partitions
        .iter()
        .map(|partition| partition.nodes.clone().filter(|_| !whole(partition)))
        .collect();
    let shares_all = sets.iter().any(Option::is_none);
    let mut made: Vec<(BTreeSet<String>, String)> = Vec::new();
    for (partition, nodes) in partitions.into_iter().zip(&sets) {
        let mut queue = partition.queue;
        if let Some(nodes) = nodes {
            let mut others = sets.iter().flatten().filter(|other| *other != nodes);
            let overlaps = others.any(|other| !other.is_disjoint(nodes));
            let known = made.iter().find(|(of, _)| of == nodes);
            let ranks = ranks(nodes, hosts);
            let is_default = queue.keys.contains_key("default");
            match (known, ranks) {
                (_, Some(ranks)) if overlaps || shares_all || is_default => {
                    let name = queue.name.clone();
                    let why = match is_default {
                        true => "a default queue is one of root",
                        false => "other partitions have some of them, and a node is one instance's",
                    };
                    found.note(
                        partition.line,
                        format!("Nodes of {name}: {why}: the queue requires the property `{name}`, which --resources writes"),
                    );
                    queue.keys.insert("requires", list([name.as_str()]));
                    properties.insert(name, ranks);
                }
                (Some((_, name)), Some(_)) => queue.instance = Some(name.clone()),
                (None, Some(ranks)) => {
                    let name = plain_instance(&queue.name);
                    found.instances.push(Instance {
                        name: name.clone(),
                        ranks: ranks.to_string(),
                    });
                    made.push((nodes.clone(), name.clone()));
                    queue.instance = Some(name);
                }
                (_, None) => found.note(
                    partition.line,
                    format!("Nodes of {}: not all of them are on NodeName lines: the queue may use all nodes", queue.name),
                ),
            }
        }
        found.queues.push(queue);
    }
    properties
}

/// Where these hosts are among the nodes, in the order of the text.
fn ranks(nodes: &BTreeSet<String>, hosts: &[NodeSet]) -> Option<Idset> {
    let mut ranks = Idset::new();
    for (rank, node) in (0..).zip(hosts) {
        if nodes.contains(&*node.host) {
            ranks = ranks.union(&Idset::one(rank));
        }
    }
    (ranks.len() == nodes.len() as u64).then_some(ranks)
}

fn setting(pair: &Pair, found: &mut Found) {
    let value = pair.value.as_str();
    let weight = |key: &str| format!("weights.{key} = {value}");
    let is_number = value.parse::<u64>().is_ok();
    match pair.key.to_ascii_lowercase().as_str() {
        "killwait" if is_number => found.key("exec", format!("kill_grace = {value}")),
        "maxjobcount"
            if value
                .parse()
                .is_ok_and(|n: u64| (1..=1_000_000).contains(&n)) =>
        {
            found.key("limits", format!("waiting_jobs = {value}"));
        }
        "prioritytype" if value == "priority/multifactor" => {
            found.key("policy", format!("preset = {}", quoted("slurm-fair-tree")));
        }
        "priorityweightage" if is_number => found.key("policy.priority", weight("wait")),
        "priorityweightfairshare" if is_number => {
            found.key("policy.priority", weight("fair_share"));
        }
        "priorityweightjobsize" if is_number => found.key("policy.priority", weight("size")),
        "priorityweightqos" if is_number => found.key("policy.priority", weight("qos")),
        "priorityweightpartition" if is_number => {
            found.key("policy.priority", weight("queue"));
        }
        "prioritydecayhalflife" => match minutes(value) {
            Some(seconds) => found.key("policy.usage.decay", format!("half = {seconds}")),
            None => unknown(pair, found),
        },
        "prioritymaxage" => match minutes(value) {
            Some(seconds) => found.key("policy.priority.factors", format!("max_wait = {seconds}")),
            None => unknown(pair, found),
        },
        "licenses" => match licenses(value) {
            Some(pools) => found.pools.extend(pools),
            None => unknown(pair, found),
        },
        _ => unknown(pair, found),
    }
}

/// What stands once for many lines is named once.
fn unknown(pair: &Pair, found: &mut Found) {
    let Pair { key, value, line } = pair;
    let said = match value.as_str() {
        "" => key.clone(),
        value => format!("{key}={value}"),
    };
    found.once(*line, format!("{said}: is not taken over"));
}
