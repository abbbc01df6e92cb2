//! A graph of a JGF document (RFC 40), as other schedulers write it.
//!
//! Only containment is read: edges of other subsystems and those that lead back
//! (`in`) are passed over, as are keys that say nothing of it. Nothing is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::idset::ID_MAX;
use eddy_wire::jobspec::parse_bytes;
use petgraph::graph::NodeIndex;
use serde_json::{Map, Value};
use thiserror::Error;

use super::containment::Graph;
use super::draft::{Draft, GraphError, Size, State, Thing};

/// Why a document is not a graph of resources.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum JgfError {
    /// Something else than what belongs there.
    #[error("{path}: is not {allowed}")]
    Type {
        /// Where.
        path: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// Two vertices of one id.
    #[error("{path}: has the id `{id}` a second time")]
    Twice {
        /// Where.
        path: String,
        /// The id.
        id: String,
    },
    /// An edge to nowhere.
    #[error("{path}: names the vertex `{id}`, which is not there")]
    NoVertex {
        /// Where.
        path: String,
        /// The id.
        id: String,
    },
    /// A size in a unit that is none, or more than can be counted.
    #[error("{path}: {size} of unit `{unit}` are not an amount")]
    Unit {
        /// Where.
        path: String,
        /// The size.
        size: u64,
        /// The unit.
        unit: String,
    },
    /// What it says is not containment.
    #[error(transparent)]
    Graph(#[from] GraphError),
}

impl Graph {
    /// The graph of a document: `{"graph": {"nodes": [...], "edges": [...]}}`, or what is in
    /// `graph` alone.
    ///
    /// # Errors
    /// [`JgfError`] with the path of what is wrong.
    pub fn from_jgf(document: &Value) -> Result<Graph, JgfError> {
        let graph = document.get("graph").unwrap_or(document);
        let mut draft = Draft::new();
        let mut known: BTreeMap<String, NodeIndex> = BTreeMap::new();
        for (at, node) in array(graph, "nodes")?.iter().enumerate() {
            let path = format!("graph.nodes[{at}]");
            let id = id_of(node.get("id"))
                .ok_or_else(|| wrong(format!("{path}.id"), "a string or a number"))?;
            let index = draft.add(thing(node, &path)?);
            if known.insert(id.clone(), index).is_some() {
                return Err(JgfError::Twice { path, id });
            }
        }
        for (at, edge) in array(graph, "edges")?.iter().enumerate() {
            let path = format!("graph.edges[{at}]");
            if !contains(edge) {
                continue;
            }
            let end = |key: &str| {
                let path = format!("{path}.{key}");
                let id = id_of(edge.get(key))
                    .ok_or_else(|| wrong(path.clone(), "the id of a vertex"))?;
                known
                    .get(&id)
                    .copied()
                    .ok_or(JgfError::NoVertex { path, id })
            };
            draft.link(end("source")?, end("target")?);
        }
        Ok(draft.finish()?)
    }
}

fn wrong(path: String, allowed: &'static str) -> JgfError {
    JgfError::Type { path, allowed }
}

fn array<'v>(graph: &'v Value, key: &str) -> Result<&'v [Value], JgfError> {
    let found = graph.get(key).and_then(Value::as_array);
    found
        .map(Vec::as_slice)
        .ok_or_else(|| wrong(format!("graph.{key}"), "an array"))
}

fn id_of(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Whether an edge says that one contains the other.
fn contains(edge: &Value) -> bool {
    let Some(metadata) = edge.get("metadata") else {
        return true;
    };
    let subsystem = metadata.get("subsystem").and_then(Value::as_str);
    let relation = metadata.get("relationship").and_then(Value::as_str);
    // Older writers name the relation by subsystem.
    let named = metadata.get("name").and_then(Value::as_object);
    let named = named.map(|by| by.get("containment").and_then(Value::as_str));
    match (subsystem, relation, named) {
        (None | Some("containment"), None | Some("contains"), None) => true,
        (_, _, Some(relation)) => relation == Some("contains"),
        (_, _, None) => false,
    }
}

fn thing(node: &Value, path: &str) -> Result<Thing, JgfError> {
    let path = format!("{path}.metadata");
    let metadata = node.get("metadata").and_then(Value::as_object);
    let metadata = metadata.ok_or_else(|| wrong(path.clone(), "an object"))?;
    let kind = metadata
        .get("type")
        .and_then(Value::as_str)
        .filter(|kind| !kind.is_empty());
    let kind = kind.ok_or_else(|| wrong(format!("{path}.type"), "the name of a type"))?;
    // Ids of -1 are vertices without a number.
    let id = number(metadata, &path, "id")?.unwrap_or(0);
    let mut thing = Thing::one(kind, id);
    thing.size = size(metadata, &path, kind)?;
    let plain = thing.label();
    let name = metadata.get("name").and_then(Value::as_str);
    thing.name = name.filter(|name| *name != plain).map(Arc::from);
    if kind == "node" {
        thing.rank = number(metadata, &path, "rank")?;
    }
    thing.state = match metadata.get("status").and_then(Value::as_u64) {
        None | Some(0) => State::Up,
        Some(_) => State::Down,
    };
    match metadata.get("properties") {
        None | Some(Value::Null) => {}
        Some(Value::Object(properties)) => {
            for (key, value) in properties {
                let value = match value {
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    other => other.to_string(),
                };
                thing.properties.insert(key.clone(), value);
            }
        }
        Some(_) => return Err(wrong(format!("{path}.properties"), "an object")),
    }
    Ok(thing)
}

fn number(metadata: &Map<String, Value>, path: &str, key: &str) -> Result<Option<u32>, JgfError> {
    match metadata.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) if value.as_i64().is_some_and(|number| number < 0) => Ok(None),
        Some(value) => {
            let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
            let number = number.filter(|&number| number <= ID_MAX);
            number
                .map(Some)
                .ok_or_else(|| wrong(format!("{path}.{key}"), "a number up to 2^31 - 2"))
        }
    }
}

/// Pieces, or an amount where there is a unit or more than one in a vertex.
fn size(metadata: &Map<String, Value>, path: &str, kind: &str) -> Result<Size, JgfError> {
    let size = match metadata.get("size") {
        None | Some(Value::Null) => 1,
        Some(value) => value
            .as_u64()
            .ok_or_else(|| wrong(format!("{path}.size"), "a whole number"))?,
    };
    let unit = metadata.get("unit").and_then(Value::as_str).unwrap_or("");
    let scale = match unit {
        "" => 1,
        unit => match parse_bytes(&format!("1{unit}")) {
            Ok(scale) => scale,
            // Units that are no bytes count as they are: ports, licences.
            Err(_) if kind != "memory" => 1,
            Err(_) => {
                return Err(JgfError::Unit {
                    path: path.to_owned(),
                    size,
                    unit: unit.to_owned(),
                });
            }
        },
    };
    let total = size
        .checked_mul(scale)
        .filter(|&total| total <= i64::MAX as u64);
    let total = total.ok_or_else(|| JgfError::Unit {
        path: path.to_owned(),
        size,
        unit: unit.to_owned(),
    })?;
    Ok(match (total, unit) {
        (1, "") => Size::Pieces,
        (_, _) => Size::Amount(total),
    })
}
