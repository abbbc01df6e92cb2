//! `NodeName` lines: how many cores, GPUs and bytes nodes have.
//!
//! Read by the import of `slurm.conf`, a line at a time.

use eddy_wire::idset::Idset;
use eddy_wire::resource_set::NodeSet;

use super::amounts::{self, gpu, mebibytes};
use super::{Found, Hosts, NODES_MAX, Pair, expanded, unknown};

/// The most cores of a declared node.
const CORES_MAX: u32 = 65_536;

/// What a line says of the processors of a node.
#[derive(Default)]
struct Size {
    cpus: Option<u32>,
    boards: Option<u32>,
    /// Of a board, where there are several.
    sockets: Option<u32>,
    per_socket: Option<u32>,
    threads: Option<u32>,
}

impl Size {
    /// How many cores a node has, and in how many sockets.
    ///
    /// `CPUs` counts threads, or cores where each is one; what sockets say of cores goes before it. Where both
    /// cannot be, it is the smaller, which is what `slurmd` takes a node for.
    fn cores(&self, line: usize, found: &mut Found) -> (u32, u32) {
        let threads = self.threads.unwrap_or(1);
        let by_cpus = self.cpus.map(|cpus| (cpus / threads).max(1));
        let sockets = match (self.sockets, self.per_socket, by_cpus) {
            (Some(sockets), _, _) => self.boards.unwrap_or(1).saturating_mul(sockets),
            (None, Some(per_socket), Some(cores)) => (cores / per_socket).max(1),
            (None, _, _) => self.boards.unwrap_or(1),
        };
        let Some(all) = self.per_socket.map(|cores| sockets.saturating_mul(cores)) else {
            return (by_cpus.unwrap_or(sockets), sockets);
        };
        let (Some(cpus), Some(cores)) = (self.cpus, by_cpus) else {
            return (all, sockets);
        };
        if cpus == all || cpus == all.saturating_mul(threads) {
            return (all, sockets);
        }
        let least = all.min(cores);
        let why = format!(
            "CPUs={cpus}: are not the {all} cores that its sockets have: a node is taken for {least}"
        );
        found.note(line, why);
        // In which sockets these are is not known.
        (least, 1)
    }
}

pub(super) fn read(number: usize, pairs: &[Pair], hosts: &mut Hosts, found: &mut Found) {
    let mut size = Size::default();
    let (mut gpus, mut memory, mut names, mut features) = (0, 0, None, None);
    for pair in pairs {
        let amount = pair.value.parse::<u32>().ok().filter(|count| *count > 0);
        match (pair.key.to_ascii_lowercase().as_str(), amount) {
            ("nodename", _) => names = expanded(&pair.value),
            ("cpus" | "procs", Some(_)) => size.cpus = amount,
            ("sockets" | "socketsperboard", Some(_)) => size.sockets = amount,
            ("boards", Some(_)) => size.boards = amount,
            ("corespersocket", Some(_)) => size.per_socket = amount,
            ("threadspercore", Some(1)) => {}
            ("threadspercore", Some(_)) => {
                size.threads = amount;
                threads(pair, found);
            }
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
    let (given, all_sockets) = size.cores(number, found);
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
