//! The document R version 1 (RFC 20) of a resource set, both ways.
//!
//! Memory and sockets are not in the RFC; they ride in `scheduling.eddy`: `memory` as
//! bytes of each rank, `{"0-7": 274877906944}`, `sockets` as what each has,
//! `{"0-7": [{"core": "0-15", "gpu": "0"}, {"core": "16-31"}]}`. All else in
//! `scheduling` passes through unread.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Number, Value};

use super::{NodeSet, RANKS_MAX, ResourceSet, ResourceSetError, Socket, Sockets};
use crate::field::{self, Object, Path};
use crate::fsd::{micros_of_seconds, seconds_of_micros};
use crate::hostlist::Hostlist;
use crate::id::Rank;
use crate::idset::Idset;

/// The keys of a resource set.
const DOCUMENT: &[&str] = &["version", "execution", "scheduling", "attributes"];
const EXECUTION: &[&str] = &[
    "R_lite",
    "nodelist",
    "starttime",
    "expiration",
    "nslots",
    "properties",
];
const ENTRY: &[&str] = &["rank", "children"];
const CHILDREN: &[&str] = &["core", "gpu"];

/// R version 1, with its keys in the order in which they are written.
#[derive(Serialize)]
struct Document<'s> {
    version: u32,
    execution: Execution<'s>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduling: Option<Scheduling<'s>>,
}

/// What is written beside the execution section: what was read and is not known here, and `eddy`.
#[derive(Serialize)]
#[serde(untagged)]
enum Scheduling<'s> {
    /// With what passes through.
    Mixed(Value),
    /// Nothing but ours, as of most grants: a value of it would be built only to be written.
    Own { eddy: Own<'s> },
}

/// What the RFC has no place for, by the ranks that have it.
#[derive(Serialize)]
struct Own<'s> {
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        serialize_with = "by_idset"
    )]
    memory: BTreeMap<u64, Idset>,
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        serialize_with = "by_idset"
    )]
    sockets: BTreeMap<&'s Sockets, Idset>,
}

/// Writes a map from what is had to who has it the other way round.
fn by_idset<K: Serialize, S: Serializer>(
    having: &BTreeMap<K, Idset>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(having.iter().map(|(what, ranks)| (ranks, what)))
}

#[derive(Serialize)]
struct Execution<'s> {
    #[serde(rename = "R_lite")]
    lite: Vec<Entry<'s>>,
    nodelist: Names<'s>,
    starttime: Number,
    expiration: Number,
    #[serde(skip_serializing_if = "Option::is_none")]
    nslots: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: &'s BTreeMap<String, Idset>,
}

/// The names of the nodes, in the order of ranks.
#[derive(Serialize)]
#[serde(untagged)]
enum Names<'s> {
    None([&'s str; 0]),
    /// As of most grants. A list of it would be made only to be written.
    One([&'s str; 1]),
    List([Hostlist; 1]),
}

#[derive(Serialize)]
struct Entry<'s> {
    rank: Idset,
    children: Children<'s>,
}

#[derive(Serialize)]
struct Children<'s> {
    core: &'s Idset,
    #[serde(skip_serializing_if = "Idset::is_empty")]
    gpu: &'s Idset,
}

impl ResourceSet {
    /// Reads R version 1 from JSON text.
    pub fn parse(text: &str) -> Result<ResourceSet, ResourceSetError> {
        let value = serde_json::from_str(text).map_err(|error| ResourceSetError::Syntax {
            line: error.line(),
            column: error.column(),
            what: error.to_string(),
        })?;
        ResourceSet::from_value(value)
    }

    /// Reads R version 1. `attributes` is looked over and not kept.
    pub fn from_value(value: Value) -> Result<ResourceSet, ResourceSetError> {
        let root = Path::Root;
        let mut document = Object::closed(value, root, DOCUMENT)?;
        field::whole(&document.need("version", "1")?, root.key("version"), 1, 1)?;
        document.map("attributes")?;

        let path = root.key("execution");
        let execution = document.need("execution", "an object")?;
        let mut execution = Object::closed(execution, path, EXECUTION)?;
        let mut set = ResourceSet {
            starttime: read_time(&mut execution, "starttime")?,
            expiration: read_time(&mut execution, "expiration")?,
            ..ResourceSet::default()
        };
        if set.expiration != 0 && set.expiration <= set.starttime {
            return Err(ResourceSetError::Backwards);
        }
        if let Some(nslots) = execution.take("nslots") {
            let most = u64::from(u32::MAX);
            set.nslots = Some(field::whole(&nslots, path.key("nslots"), 0, most)? as u32);
        }
        let children = read_lite(execution.need("R_lite", "an array")?, path.key("R_lite"))?;
        let nodelist = match execution.take("nodelist") {
            Some(nodelist) => read_nodelist(nodelist, path.key("nodelist"))?,
            None => Hostlist::new(),
        };
        set.nodes = name_nodes(children, &nodelist)?;
        let ranks = set.ranks();
        for (property, value) in execution.map("properties")? {
            let properties = path.key("properties");
            let having = read_idset(value, properties.key(&property))?;
            check_ranks(&having, &ranks, properties.key(&property))?;
            set.properties.insert(property, having);
        }
        if let Some(scheduling) = document.take("scheduling") {
            set.read_scheduling(scheduling, root.key("scheduling"), &ranks)?;
        }
        Ok(set)
    }

    fn read_scheduling(
        &mut self,
        value: Value,
        path: Path<'_>,
        ranks: &Idset,
    ) -> Result<(), ResourceSetError> {
        let mut scheduling = Object::open(value, path)?.rest;
        if let Some(eddy) = scheduling.get_mut("eddy") {
            let path = path.key("eddy");
            let Value::Object(eddy) = eddy else {
                return Err(field::wrong(path, eddy, "an object").into());
            };
            if let Some(memory) = eddy.shift_remove("memory") {
                self.read_memory(memory, path.key("memory"), ranks)?;
            }
            if let Some(sockets) = eddy.shift_remove("sockets") {
                self.read_sockets(sockets, path.key("sockets"), ranks)?;
            }
            if eddy.is_empty() {
                scheduling.shift_remove("eddy");
            }
        }
        self.scheduling = (!scheduling.is_empty()).then(|| Arc::new(scheduling));
        Ok(())
    }

    fn read_memory(
        &mut self,
        value: Value,
        path: Path<'_>,
        ranks: &Idset,
    ) -> Result<(), ResourceSetError> {
        by_ranks(value, path, ranks, |having, bytes, path| {
            let memory = field::whole(&bytes, path, 0, i64::MAX as u64)?;
            self.change(having, |node| node.memory = memory);
            Ok(())
        })
    }

    fn read_sockets(
        &mut self,
        value: Value,
        path: Path<'_>,
        ranks: &Idset,
    ) -> Result<(), ResourceSetError> {
        by_ranks(value, path, ranks, |having, value, path| {
            let mut all = Vec::new();
            for (at, socket) in field::array(value, path)?.into_iter().enumerate() {
                let path = path.index(at);
                let mut socket = Object::closed(socket, path, CHILDREN)?;
                let mut child = |key: &'static str| match socket.take(key) {
                    Some(value) => read_idset(value, path.key(key)),
                    None => Ok(Idset::new()),
                };
                let (cores, gpus) = (child("core")?, child("gpu")?);
                all.push(Socket { cores, gpus });
            }
            let sockets = Sockets::new(all).map_err(|source| ResourceSetError::Sockets {
                path: path.to_string(),
                source,
            })?;
            self.change(having, |node| node.sockets = sockets.clone());
            Ok(())
        })
    }

    /// Changes the nodes of these ranks, and looks at no other: where each rank is another it is asked
    /// as often as there are ranks.
    fn change(&mut self, ranks: &Idset, mut change: impl FnMut(&mut NodeSet)) {
        for rank in ranks.iter() {
            if let Some(node) = self.nodes.get_mut(&Rank(rank)) {
                change(node);
            }
        }
    }

    /// R version 1 of this set.
    pub fn to_value(&self) -> Value {
        serde_json::to_value(self).expect("a resource set is JSON")
    }

    /// The document, as it is written: ranks that have the same share an entry.
    fn document(&self) -> Document<'_> {
        let mut groups: BTreeMap<(&Idset, &Idset), Idset> = BTreeMap::new();
        let mut memory: BTreeMap<u64, Idset> = BTreeMap::new();
        let mut sockets: BTreeMap<&Sockets, Idset> = BTreeMap::new();
        for (rank, node) in &self.nodes {
            groups
                .entry((&node.cores, &node.gpus))
                .or_default()
                .insert(rank.0);
            if node.memory > 0 {
                memory.entry(node.memory).or_default().insert(rank.0);
            }
            if node.sockets.known().is_some() {
                sockets.entry(&node.sockets).or_default().insert(rank.0);
            }
        }
        let entry = |((core, gpu), rank)| Entry {
            rank,
            children: Children { core, gpu },
        };
        let mut lite: Vec<Entry<'_>> = groups.into_iter().map(entry).collect();
        lite.sort_by_key(|entry| entry.rank.first());
        Document {
            version: 1,
            execution: Execution {
                lite,
                nodelist: match self.only_host() {
                    Some(host) => Names::One([host]),
                    None if self.is_empty() => Names::None([]),
                    None => Names::List([self.hostlist()]),
                },
                starttime: seconds_of_micros(self.starttime),
                expiration: seconds_of_micros(self.expiration),
                nslots: self.nslots,
                properties: &self.properties,
            },
            scheduling: self.scheduling_with(Own { memory, sockets }),
        }
    }

    fn scheduling_with<'s>(&self, own: Own<'s>) -> Option<Scheduling<'s>> {
        let is_empty = own.memory.is_empty() && own.sockets.is_empty();
        let Some(read) = &self.scheduling else {
            return (!is_empty).then_some(Scheduling::Own { eddy: own });
        };
        let mut all = Map::clone(read);
        if !is_empty {
            let own = serde_json::to_value(own).expect("resources are JSON");
            match all.get_mut("eddy").and_then(Value::as_object_mut) {
                Some(eddy) => eddy.extend(own.as_object().cloned().unwrap_or_default()),
                None => drop(all.insert("eddy".to_owned(), own)),
            }
        }
        (!all.is_empty()).then_some(Scheduling::Mixed(Value::Object(all)))
    }
}

/// What is said of some ranks each, of no rank twice: `{"0-3": …, "7": …}`.
fn by_ranks(
    value: Value,
    path: Path<'_>,
    ranks: &Idset,
    mut read: impl FnMut(&Idset, Value, Path<'_>) -> Result<(), ResourceSetError>,
) -> Result<(), ResourceSetError> {
    let mut seen = Idset::new();
    for (key, value) in Object::open(value, path)?.rest {
        let path = path.key(&key);
        let having = read_idset(Value::String(key.clone()), path)?;
        check_ranks(&having, ranks, path)?;
        if let Some(rank) = seen.intersect(&having).first() {
            return Err(ResourceSetError::Twice {
                path: path.to_string(),
                rank,
            });
        }
        seen = seen.union(&having);
        read(&having, value, path)?;
    }
    Ok(())
}

fn read_lite(
    value: Value,
    path: Path<'_>,
) -> Result<BTreeMap<u32, (Idset, Idset)>, ResourceSetError> {
    let mut nodes = BTreeMap::new();
    let mut given: u64 = 0;
    for (at, value) in field::array(value, path)?.into_iter().enumerate() {
        let path = path.index(at);
        let mut entry = Object::closed(value, path, ENTRY)?;
        let ranks = read_idset(entry.need("rank", "an idset")?, path.key("rank"))?;
        let children = entry.need("children", "an object")?;
        let mut children = Object::closed(children, path.key("children"), CHILDREN)?;
        let mut child = |key: &'static str| {
            let path = path.key("children");
            let idset = children
                .take(key)
                .map(|value| read_idset(value, path.key(key)));
            idset.unwrap_or(Ok(Idset::new()))
        };
        let (cores, gpus) = (child("core")?, child("gpu")?);
        // Counted before they are laid out one by one: `0-2147483647` is a short text.
        given = given.saturating_add(ranks.len());
        if given > RANKS_MAX {
            return Err(ResourceSetError::TooManyRanks { given });
        }
        for rank in ranks.iter() {
            if nodes.insert(rank, (cores.clone(), gpus.clone())).is_some() {
                return Err(ResourceSetError::Twice {
                    path: path.key("rank").to_string(),
                    rank,
                });
            }
        }
    }
    Ok(nodes)
}

fn read_nodelist(value: Value, path: Path<'_>) -> Result<Hostlist, ResourceSetError> {
    let mut all = Hostlist::new();
    for (at, value) in field::array(value, path)?.into_iter().enumerate() {
        let path = path.index(at);
        let text = field::text(value, path)?;
        let added = text.parse::<Hostlist>().and_then(|list| all.append(&list));
        added.map_err(|source| ResourceSetError::Hostlist {
            path: path.to_string(),
            source,
        })?;
    }
    Ok(all)
}

/// The first name is that of the lowest rank, and so on (RFC 20).
fn name_nodes(
    children: BTreeMap<u32, (Idset, Idset)>,
    nodelist: &Hostlist,
) -> Result<BTreeMap<Rank, NodeSet>, ResourceSetError> {
    let ranks = children.len() as u64;
    if nodelist.len() != ranks {
        return Err(ResourceSetError::Nodelist {
            hosts: nodelist.len(),
            ranks,
        });
    }
    let nodes = children
        .into_iter()
        .zip(nodelist.hosts())
        .map(|((rank, (cores, gpus)), host)| {
            (
                Rank(rank),
                NodeSet {
                    host: host.into(),
                    cores,
                    gpus,
                    memory: 0,
                    ..NodeSet::default()
                },
            )
        });
    Ok(nodes.collect())
}

fn read_time(execution: &mut Object<'_>, key: &'static str) -> Result<i64, ResourceSetError> {
    let Some(value) = execution.take(key) else {
        return Ok(0);
    };
    let path = execution.path.key(key);
    let seconds = value
        .as_f64()
        .ok_or_else(|| field::wrong(path, &value, "a number"))?;
    micros_of_seconds(seconds).map_err(|source| ResourceSetError::Time {
        path: path.to_string(),
        source,
    })
}

fn read_idset(value: Value, path: Path<'_>) -> Result<Idset, ResourceSetError> {
    let text = field::text(value, path)?;
    text.parse().map_err(|source| ResourceSetError::Idset {
        path: path.to_string(),
        source,
    })
}

fn check_ranks(having: &Idset, ranks: &Idset, path: Path<'_>) -> Result<(), ResourceSetError> {
    let foreign = having.difference(ranks);
    if foreign.is_empty() {
        return Ok(());
    }
    Err(ResourceSetError::Foreign {
        path: path.to_string(),
        ranks: foreign,
    })
}

impl Serialize for ResourceSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.document().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ResourceSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ResourceSet, D::Error> {
        let value = Value::deserialize(deserializer)?;
        ResourceSet::from_value(value).map_err(|e| serde::de::Error::custom(field::chain(&e)))
    }
}
