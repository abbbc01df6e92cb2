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
}

impl Size {
    /// How many cores a node has, and in how many sockets.
    fn cores(&self) -> (u32, u32) {
        let sockets = self
            .boards
            .unwrap_or(1)
            .saturating_mul(self.sockets.unwrap_or(1));
        let by_socket = self.per_socket.map(|cores| sockets.saturating_mul(cores));
        (by_socket.or(self.cpus).unwrap_or(1), sockets)
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
            ("sockets", Some(_)) => size.sockets = amount,
            ("boards", Some(_)) => size.boards = amount,
            ("corespersocket", Some(_)) => size.per_socket = amount,
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
    let (given, all_sockets) = size.cores();
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
