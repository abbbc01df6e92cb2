//! A graph of hosts whose inner order is known: sockets, NUMA domains, cores,
//! GPUs, memory.
//!
//! The caller has looked at the machine (on Linux under `/sys`) and gives what it
//! found as numbers; nothing is read here.

use eddy_wire::idset::Idset;

use super::containment::Graph;
use super::draft::{Draft, GraphError, Thing};

/// A host as it was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its rank.
    pub rank: u32,
    /// Its sockets.
    pub packages: Vec<Package>,
    /// GPUs of which no domain is known.
    pub gpus: Idset,
    /// Bytes of memory of which no domain is known.
    pub memory: u64,
}

/// A socket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Package {
    /// Its number on the host.
    pub id: u32,
    /// Its NUMA domains; one alone is not shown as a vertex.
    pub domains: Vec<Domain>,
}

/// What lies near one memory controller. Numbers are those of the host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domain {
    /// Its number on the host.
    pub id: u32,
    /// Its cores.
    pub cores: Idset,
    /// Its GPUs.
    pub gpus: Idset,
    /// Bytes of its memory; 0 is not known.
    pub memory: u64,
}

impl Graph {
    /// The graph of some hosts.
    ///
    /// # Errors
    /// [`GraphError`] where there is none, or ranks are given twice.
    pub fn from_hosts(hosts: &[Host]) -> Result<Graph, GraphError> {
        let mut draft = Draft::new();
        let root = draft.add(Thing::one("cluster", 0));
        for host in hosts {
            let node = draft.within(root, Thing::node(host.rank, &host.name, host.rank));
            for package in &host.packages {
                let socket = draft.within(node, Thing::one("socket", package.id));
                for domain in &package.domains {
                    let within = match package.domains.len() {
                        1 => socket,
                        _ => draft.within(socket, Thing::one("numa", domain.id)),
                    };
                    let Domain {
                        id,
                        cores,
                        gpus,
                        memory,
                    } = domain;
                    add(&mut draft, within, (cores, gpus), (*id, *memory));
                }
            }
            add(
                &mut draft,
                node,
                (&Idset::new(), &host.gpus),
                (0, host.memory),
            );
        }
        draft.finish()
    }
}

fn add(
    draft: &mut Draft,
    to: petgraph::graph::NodeIndex,
    sets: (&Idset, &Idset),
    memory: (u32, u64),
) {
    for (kind, ids) in [("core", sets.0), ("gpu", sets.1)] {
        if !ids.is_empty() {
            draft.within(to, Thing::run(kind, ids.clone()));
        }
    }
    if memory.1 > 0 {
        draft.within(to, Thing::amount("memory", memory.0, memory.1));
    }
}
