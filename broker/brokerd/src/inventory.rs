//! What an instance has: found on this node, read from a file, or made up.
//!
//! Called once by the leader at its start. It decides no placement and binds
//! nothing; a core that is declared and does not exist is only not bound to
//! (shell::affinity).

use std::io;
use std::path::{Path, PathBuf};

use eddy_sched::graph::Graph;
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::parse_bytes;
use eddy_wire::resource_set::{
    NodeSet, RANKS_MAX, ResourceSet, ResourceSetError, SOCKETS_MAX, Sockets,
};
use serde_json::Value;
use thiserror::Error;

use crate::shell::affinity;
use crate::text;

/// The most cores or GPUs that may be declared on one node.
pub const IDS_MAX: u32 = 65_536;

/// The largest file of resources that is read, in bytes: the limit of a message.
const FILE_BYTES_MAX: usize = 16 << 20;

/// Where an inventory comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// This node as it is found.
    Found,
    /// This node, with so many cores declared whatever it has.
    Cores(u32),
    /// A file with R version 1 (RFC 20).
    File(PathBuf),
    /// Nodes that do not exist, as `nodes=8,sockets=2,cores=32,gpus=4,memory=256G`.
    Fake(String),
}

impl Source {
    /// As one line, to be kept in a state directory; a file by its whole path.
    pub fn to_line(&self) -> String {
        match self {
            Source::Found => "found".to_owned(),
            Source::Cores(cores) => format!("cores {cores}"),
            Source::File(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                format!("file {}", path.display())
            }
            Source::Fake(text) => format!("fake {text}"),
        }
    }

    /// The source that such a line names; `None` when it names none.
    pub fn from_line(line: &str) -> Option<Source> {
        match line.split_once(' ') {
            None => (line == "found").then_some(Source::Found),
            Some(("cores", cores)) => cores.parse().ok().map(Source::Cores),
            Some(("file", path)) => Some(Source::File(path.into())),
            Some(("fake", text)) => Some(Source::Fake(text.to_owned())),
            Some(_) => None,
        }
    }
}

/// Why there is no inventory.
#[derive(Debug, Error)]
pub enum InventoryError {
    /// This node could not be looked at.
    #[error("cannot look at this node")]
    Discover(#[source] io::Error),
    /// The file could not be read.
    #[error("--resources {}: cannot be read", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is not a resource set.
    #[error("--resources {}: {source}", .path.display())]
    NotR {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ResourceSetError,
    },
    /// The file has nothing in it.
    #[error("--resources {}: has no ranks; allowed are 1 to {RANKS_MAX}", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// A number of `--fake` or `--cores` that cannot be.
    #[error("{place}: is {given}; allowed is {allowed}")]
    Number {
        /// Which option and key.
        place: String,
        /// As given.
        given: String,
        /// What belongs there.
        allowed: String,
    },
    /// Another number of nodes than was said.
    #[error("--size: is {size}; allowed is {nodes}, the number of nodes of {source_option}")]
    Size {
        /// As given.
        size: u32,
        /// How many there are.
        nodes: u64,
        /// Which option says so.
        source_option: &'static str,
    },
    /// A key of `--fake` that does not exist.
    #[error("--fake: unknown key `{given}`; allowed are nodes, sockets, cores, gpus, memory")]
    Key {
        /// The key.
        given: String,
    },
}

impl Source {
    /// Whether its nodes exist.
    pub fn is_fake(&self) -> bool {
        matches!(self, Source::Fake(_))
    }

    /// Looks, reads or makes up.
    pub fn inventory(&self) -> Result<ResourceSet, InventoryError> {
        match self {
            Source::Found => found(None),
            Source::Cores(cores) => found(Some(*cores)),
            Source::File(path) => from_file(path),
            Source::Fake(text) => fake(text, 1),
        }
    }

    /// The same with so many nodes, ranks 0 to `size - 1`. This machine stands
    /// for each of several: their hosts are its name and their rank, so that
    /// each can be named.
    pub fn sized(&self, size: u32) -> Result<ResourceSet, InventoryError> {
        let (set, source_option) = match self {
            Source::Found | Source::Cores(_) => {
                let one = self.inventory()?;
                return Ok(if size == 1 { one } else { repeated(&one, size) });
            }
            Source::File(_) => (self.inventory()?, "--resources"),
            Source::Fake(text) => (fake(text, u64::from(size))?, "--fake"),
        };
        if set.ranks() != Idset::first_ids(size) {
            let nodes = set.nnodes();
            return Err(InventoryError::Size {
                size,
                nodes,
                source_option,
            });
        }
        Ok(set)
    }
}

/// The node of rank 0 as often as said.
fn repeated(one: &ResourceSet, size: u32) -> ResourceSet {
    let Some(node) = one.nodes.get(&Rank(0)) else {
        return one.clone();
    };
    let copy = |rank: u32| NodeSet {
        host: format!("{}-{rank}", node.host).into(),
        ..node.clone()
    };
    ResourceSet {
        nodes: (0..size).map(|rank| (Rank(rank), copy(rank))).collect(),
        ..one.clone()
    }
}

fn found(declared: Option<u32>) -> Result<ResourceSet, InventoryError> {
    let node = affinity::discover().map_err(InventoryError::Discover)?;
    let cores: Idset = match declared {
        None => node.cores.iter().copied().collect(),
        Some(0) => return Err(number("--cores", "0", 1, IDS_MAX.into())),
        Some(cores) if cores > IDS_MAX => {
            return Err(number("--cores", &cores.to_string(), 1, IDS_MAX.into()));
        }
        Some(cores) => Idset::first_ids(cores),
    };
    let missing = cores
        .iter()
        .filter(|core| !node.cores.contains(core))
        .count();
    if missing > 0 {
        tracing::warn!(
            declared = cores.len(),
            found = node.cores.len(),
            "{missing} cores are declared that this node does not have; their tasks are not bound"
        );
    }
    let only = NodeSet {
        host: node.host.into(),
        gpus: node.gpus.iter().copied().collect(),
        memory: node.memory.max(0) as u64,
        // Of cores that do not exist nobody knows where they lie.
        sockets: match missing {
            0 => node.sockets,
            _ => Sockets::default(),
        },
        cores,
    };
    Ok(ResourceSet {
        nodes: [(Rank(0), only)].into(),
        ..ResourceSet::default()
    })
}

fn from_file(path: &Path) -> Result<ResourceSet, InventoryError> {
    let io = |source| InventoryError::File {
        path: path.into(),
        source,
    };
    let text = text::read(path, FILE_BYTES_MAX).map_err(io)?;
    let set = ResourceSet::parse(&text).map_err(|source| InventoryError::NotR {
        path: path.into(),
        source,
    })?;
    if set.is_empty() {
        return Err(InventoryError::Empty { path: path.into() });
    }
    Ok(with_sockets(set, path))
}

/// The same with the sockets that a graph beside it (RFC 40) tells of, where it says nothing of them itself. A graph
/// that is not understood is carried on as before.
fn with_sockets(mut set: ResourceSet, path: &Path) -> ResourceSet {
    let Some(scheduling) = set
        .scheduling
        .as_deref()
        .filter(|all| all.contains_key("graph"))
    else {
        return set;
    };
    let graph = Graph::from_jgf(&Value::Object(scheduling.clone())).map_err(|why| why.to_string());
    let sockets = graph.and_then(|graph| {
        let sockets = graph.sockets();
        sockets.map_err(|(node, why)| format!("{node}: {why}"))
    });
    match sockets {
        Err(why) => {
            let file = path.display();
            tracing::warn!(
                "--resources {file}: scheduling.graph is not understood, so sockets are not known: {why}"
            );
        }
        Ok(mut sockets) => {
            for (rank, node) in &mut set.nodes {
                if let (None, Some(its)) = (node.sockets.known(), sockets.remove(rank)) {
                    node.sockets = its;
                }
            }
        }
    }
    set
}

/// `nodes` counts where the text does not say.
fn fake(text: &str, mut nodes: u64) -> Result<ResourceSet, InventoryError> {
    let (mut cores, mut gpus, mut memory, mut sockets) = (1, 0, 0, 1);
    for pair in text.split(',').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let count = |least, most| {
            let count = value
                .parse::<u64>()
                .ok()
                .filter(|n| (least..=most).contains(n));
            count.ok_or_else(|| number(&format!("--fake {key}"), value, least, most))
        };
        match key {
            "nodes" => nodes = count(1, RANKS_MAX)?,
            "cores" => cores = count(1, IDS_MAX.into())?,
            "sockets" => sockets = count(1, SOCKETS_MAX as u64)?,
            "gpus" => gpus = count(0, IDS_MAX.into())?,
            "memory" => {
                memory = parse_bytes(value).map_err(|error| InventoryError::Number {
                    place: "--fake memory".to_owned(),
                    given: format!("`{value}`"),
                    allowed: format!("an amount such as 256G ({error})"),
                })?;
            }
            other => {
                return Err(InventoryError::Key {
                    given: other.to_owned(),
                });
            }
        }
    }
    if sockets > cores {
        return Err(number("--fake sockets", &sockets.to_string(), 1, cores));
    }
    // One socket needs not be said.
    let sockets = match sockets {
        1 => Sockets::default(),
        several => Sockets::even(several as u32, cores as u32, gpus as u32),
    };
    let node = |rank: u32| NodeSet {
        host: format!("fake{rank}").into(),
        cores: Idset::first_ids(cores as u32),
        gpus: Idset::first_ids(gpus as u32),
        memory,
        sockets: sockets.clone(),
    };
    let nodes = (0..nodes as u32)
        .map(|rank| (Rank(rank), node(rank)))
        .collect();
    Ok(ResourceSet {
        nodes,
        ..ResourceSet::default()
    })
}

fn number(place: &str, given: &str, least: u64, most: u64) -> InventoryError {
    InventoryError::Number {
        place: place.to_owned(),
        given: format!("`{given}`"),
        allowed: format!("a whole number from {least} to {most}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn fake_of(text: &str) -> Result<ResourceSet, String> {
        Source::Fake(text.to_owned())
            .inventory()
            .map_err(|error| error.to_string())
    }

    #[test]
    fn made_up_nodes_have_what_was_said() {
        let set = fake_of("nodes=8,cores=32,gpus=4,memory=256G").expect("all keys are known");
        assert_eq!((set.nnodes(), set.ncores(), set.ngpus()), (8, 256, 32));
        assert_eq!(set.memory(), 8 * (256 << 30));
        assert_eq!(set.nodelist(), "fake[0-7]");
    }

    #[test]
    fn no_more_is_read_than_a_file_of_resources_may_have() {
        let endless = Source::File("/dev/zero".into()).inventory();
        let Err(InventoryError::File { source, .. }) = endless else {
            panic!("it has no end: {endless:?}");
        };
        let most = "has over 16777216 bytes; allowed are at most that many";
        assert_eq!(source.to_string(), most);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let refused = |text: &str| fake_of(text).expect_err("it cannot be");
        assert_eq!(
            refused("nodes=0"),
            "--fake nodes: is `0`; allowed is a whole number from 1 to 262144"
        );
        assert_eq!(
            refused("cores=-1"),
            "--fake cores: is `-1`; allowed is a whole number from 1 to 65536"
        );
        assert_eq!(
            refused("sockets=3,cores=2"),
            "--fake sockets: is `3`; allowed is a whole number from 1 to 2"
        );
        assert!(refused("racks=1").contains("unknown key `racks`"));
        assert!(refused("memory=much").starts_with("--fake memory: is `much`"));
    }

    #[test]
    fn more_cores_than_there_are_may_be_declared() {
        let set = Source::Cores(5000).inventory().expect("this node");
        assert_eq!((set.nnodes(), set.ncores()), (1, 5000));
    }

    #[test]
    fn a_size_makes_so_many_nodes_that_can_be_told_apart() {
        let set = Source::Cores(3).sized(4).expect("this node, four times");
        assert_eq!((set.nnodes(), set.ncores()), (4, 12));
        let hosts: std::collections::BTreeSet<_> =
            set.nodes.values().map(|node| node.host.clone()).collect();
        assert_eq!(hosts.len(), 4);
        let fake = Source::Fake("cores=2".to_owned()).sized(8);
        assert_eq!(fake.expect("eight").nnodes(), 8);
        let wrong = Source::Fake("nodes=3".to_owned()).sized(8);
        assert_eq!(
            wrong.expect_err("two numbers").to_string(),
            "--size: is 8; allowed is 3, the number of nodes of --fake"
        );
    }

    #[test]
    fn sockets_share_cores_and_gpus_evenly() {
        let set = fake_of("nodes=1,sockets=2,cores=5,gpus=2").expect("all keys are known");
        let sockets = set.nodes[&Rank(0)].sockets();
        let told = sockets
            .iter()
            .map(|one| (one.cores.to_string(), one.gpus.to_string()));
        let expected = [("0-2", "0"), ("3-4", "1")].map(|(c, g)| (c.to_owned(), g.to_owned()));
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_graph_beside_r_tells_of_sockets() {
        let vertex = |id: &str, kind: &str, n: u32| serde_json::json!({"id": id, "metadata": {"type": kind, "id": n, "rank": 0}});
        let edge = |(source, target): (&str, &str)| serde_json::json!({"source": source, "target": target});
        let edges = [
            ("c", "n"),
            ("n", "s0"),
            ("n", "s1"),
            ("s0", "b"),
            ("s1", "a"),
        ];
        let mut r = fake_of("nodes=1,cores=2").expect("a set").to_value();
        r["scheduling"] = serde_json::json!({"graph": {
            "nodes": [
                vertex("c", "cluster", 0), vertex("n", "node", 0),
                vertex("s0", "socket", 0), vertex("s1", "socket", 1),
                vertex("a", "core", 0), vertex("b", "core", 1),
            ],
            "edges": edges.map(edge),
        }});
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("R");
        fs::write(&path, r.to_string()).expect("a file");
        let set = Source::File(path.clone())
            .inventory()
            .expect("R with a graph");
        let sockets = set.nodes[&Rank(0)].sockets();
        let cores: Vec<String> = sockets.iter().map(|one| one.cores.to_string()).collect();
        assert_eq!(cores, ["1", "0"]);
        // What it does not understand it leaves alone.
        r["scheduling"] = serde_json::json!({"graph": {}});
        fs::write(&path, r.to_string()).expect("a file");
        let set = Source::File(path)
            .inventory()
            .expect("R with something else");
        assert!(set.nodes[&Rank(0)].sockets.known().is_none());
    }

    #[test]
    fn a_file_of_r_is_taken_as_it_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("R");
        let set = fake_of("nodes=2,cores=4").expect("a set");
        fs::write(&path, set.to_value().to_string()).expect("a file");
        assert_eq!(
            Source::File(path.clone())
                .inventory()
                .expect("its own form"),
            set
        );
        fs::write(&path, "{}").expect("a file");
        let error = Source::File(path).inventory().expect_err("no R");
        assert!(error.to_string().contains("version"), "{error}");
    }
}
