//! `slurm.conf`: `NodeName` and `PartitionName` lines, and of the rest what has a counterpart.
//!
//! A partition becomes a queue. One that has nodes of its own, which no other partition has, is
//! served by an instance on those; all others are queues of the root, and require a property that
//! only their nodes have, where those are not all.

mod amounts;
mod nodes;
mod partition;

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use amounts::{licenses, minutes};

use super::{Found, Host, Instance, Queue, apart, list, plain_instance, quoted};

/// More nodes than that are none of a configuration.
const NODES_MAX: u64 = 65_536;

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
    /// What a line says with those before it; nothing where it is such a one itself. What of it cannot be read is in
    /// the way of nothing that was said before.
    fn complete(
        &mut self,
        mut line: Vec<Pair>,
        is_read: impl Fn(&Pair) -> bool,
    ) -> Option<Vec<Pair>> {
        let has = |pairs: &[Pair], key: &str| {
            let mut pairs = pairs.iter();
            pairs.any(|pair| pair.key.eq_ignore_ascii_case(key) && is_read(pair))
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

pub(super) fn read(text: &str, host: &dyn Host) -> Found {
    let mut found = Found::default();
    let (mut hosts, mut partitions) = (Hosts::default(), Vec::new());
    let mut taken = BTreeSet::new();
    let (mut of_nodes, mut of_partitions) = (Defaults::default(), Defaults::default());
    for (number, line) in logical(text) {
        let pairs = pairs(number, &line);
        let Some(first) = pairs.first() else {
            continue;
        };
        match first.key.to_ascii_lowercase().as_str() {
            "nodename" => {
                if let Some(pairs) = of_nodes.complete(pairs, |_| true) {
                    nodes::read(number, &pairs, &mut hosts, &mut found);
                }
            }
            "partitionname" => {
                if let Some(pairs) = of_partitions.complete(pairs, partition::is_read)
                    && partition::has_hosts(&pairs, &mut found)
                {
                    let partition = partition::read(number, &pairs, &taken, host, &mut found);
                    taken.insert(partition.queue.name.clone());
                    partitions.push(partition);
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
                    let name = apart(&name, |name| made.iter().any(|(_, other)| other == name));
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
        // The highest index there is one less, and the first is 0.
        "maxarraysize"
            if value
                .parse()
                .is_ok_and(|n: u64| (1..=1_000_000).contains(&n)) =>
        {
            found.key("limits", format!("user_copies = {value}"));
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
        "privatedata" => private(pair, found),
        "licenses" => match licenses(value) {
            Some(pools) => found.pools.extend(pools),
            None => unknown(pair, found),
        },
        _ => unknown(pair, found),
    }
}

/// Of what it keeps from others, their jobs and what is charged to them are one thing here.
fn private(pair: &Pair, found: &mut Found) {
    let is_jobs = |word: &&str| {
        ["jobs", "all", "usage"]
            .iter()
            .any(|one| word.eq_ignore_ascii_case(one))
    };
    let (jobs, others): (Vec<&str>, Vec<&str>) = pair.value.split(',').partition(is_jobs);
    if !jobs.is_empty() {
        found.key("access", "private = true".to_owned());
    }
    if !others.is_empty() {
        found.note(
            pair.line,
            format!("PrivateData={}: is not taken over", others.join(",")),
        );
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
