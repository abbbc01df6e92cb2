//! Where tasks lie and whether others may be beside them, in PBS's words: `-l place=` of qsub(1B)
//! (PBS Professional user's guide, "Specifying job placement").
//!
//! How tasks are arranged a jobspec says by its resources: [`Ask`](super::Ask) makes them so. That
//! nodes are nobody else's it says there too, where it counts nodes; where slots lie anywhere,
//! `attributes.system.place` says it.

use std::str::FromStr;

use serde_json::Value;
use thiserror::Error;

use super::request::Sharing;
use super::{Count, Jobspec, JobspecError, TaskCount, Vertex};

/// How a job lies on its nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// How its tasks are arranged.
    pub arrange: Arrange,
    /// Whether others may use the rest of its nodes, where that is said.
    pub sharing: Option<Sharing>,
}

/// How tasks are arranged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrange {
    /// `free`: wherever there is room.
    #[default]
    Free,
    /// `pack`: all on one node.
    Pack,
    /// `scatter`, and `vscatter`, since a node is not split here: each on a node of its own.
    Scatter,
}

/// Why a text is no place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlaceError {
    /// No word of PBS.
    #[error(
        "`{0}` is not known; allowed are free, pack, scatter and vscatter, then shared, excl and exclhost, with : between"
    )]
    Word(String),
    /// Two words of which only one can hold.
    #[error("`{0}` and `{1}` cannot both hold")]
    Both(String, String),
    /// Nodes that are alike in a property.
    #[error(
        "`{0}`: nodes that are alike in a property are for gangs only (`--gang-uniform`); allowed are an arrangement and a sharing"
    )]
    Group(String),
}

impl FromStr for Place {
    type Err = PlaceError;

    /// Reads `pack`, `excl`, `scatter:excl`: an arrangement, a sharing, or both in this order.
    fn from_str(text: &str) -> Result<Place, PlaceError> {
        let (mut arrange, mut sharing) = (None, None);
        for word in text.split(':') {
            let before = match word {
                "free" => arrange.replace((word, Arrange::Free)).map(|(word, _)| word),
                "pack" => arrange.replace((word, Arrange::Pack)).map(|(word, _)| word),
                "scatter" | "vscatter" => arrange
                    .replace((word, Arrange::Scatter))
                    .map(|(word, _)| word),
                "shared" => sharing
                    .replace((word, Sharing::Shared))
                    .map(|(word, _)| word),
                // A node is a host.
                "excl" | "exclhost" => sharing
                    .replace((word, Sharing::Exclusive))
                    .map(|(word, _)| word),
                _ if word.starts_with("group=") => {
                    return Err(PlaceError::Group(word.chars().take(64).collect()));
                }
                _ => return Err(PlaceError::Word(word.chars().take(64).collect())),
            };
            if let Some(before) = before {
                return Err(PlaceError::Both(before.to_owned(), word.to_owned()));
            }
        }
        Ok(Place {
            arrange: arrange.map(|(_, arrange)| arrange).unwrap_or_default(),
            sharing: sharing.map(|(_, sharing)| sharing),
        })
    }
}

impl Jobspec {
    /// How many pieces lie anywhere that its resources are made of, slots or sockets with slots in them; of one
    /// that names nodes, nodes.
    pub fn pieces(&self) -> u32 {
        self.resources.first().map_or(1, |top| top.count.least())
    }

    /// The same on so many nodes, as if they were named: on each as many pieces or some more, and as many
    /// tasks in all.
    pub(crate) fn on_nodes(&self, nodes: u32, ntasks: u32) -> Jobspec {
        let mut jobspec = self.clone();
        let pieces = self.pieces();
        let each = pieces.div_ceil(nodes.max(1));
        for top in &mut jobspec.resources {
            let within = Vertex {
                count: Count::Exactly(each),
                ..top.clone()
            };
            *top = Vertex {
                kind: "node".to_owned(),
                count: Count::Exactly(nodes),
                unit: None,
                exclusive: None,
                with: vec![within],
                label: None,
                id: None,
            };
        }
        if u64::from(each) * u64::from(nodes) != u64::from(pieces) {
            for task in &mut jobspec.tasks {
                task.count = TaskCount::Total(ntasks);
            }
        }
        jobspec
    }

    /// Whether its nodes are nobody else's by `attributes.system.place`.
    pub(super) fn place(&self) -> Result<Sharing, JobspecError> {
        let Some(value) = self.attributes.system.other.get("place") else {
            return Ok(Sharing::Shared);
        };
        let place = value.as_str().and_then(|text| text.parse::<Place>().ok());
        match place {
            Some(Place {
                arrange: Arrange::Free,
                sharing,
            }) => Ok(sharing.unwrap_or_default()),
            _ => Err(JobspecError::Choice {
                path: "attributes.system.place".to_owned(),
                given: Value::to_string(value).chars().take(64).collect(),
                allowed: "free, shared, excl, exclhost, free:shared, free:excl and free:exclhost; how tasks are arranged is said by resources",
            }),
        }
    }
}
