//! What an instance is told of its parent for the time in which that is not heard.

use serde::{Deserialize, Serialize};

use crate::idset::Idset;
use crate::queue::{Gate, Rules};
use crate::time::{Span, Time};

/// A queue of the parent, as an instance that it leads to is told of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueAbove {
    /// Its name.
    pub name: String,
    /// What holds for each of its jobs.
    #[serde(default, skip_serializing_if = "Rules::is_empty")]
    pub rules: Rules,
    /// Whether it takes submissions and starts jobs.
    #[serde(default, skip_serializing_if = "Gate::is_open")]
    pub gate: Gate,
    /// The time limit of its jobs that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_time: Option<Span>,
    /// Whether the parent counts what its jobs have.
    #[serde(default, skip_serializing_if = "Counted::is_nowhere")]
    pub counted: Counted,
}

/// Whether there are limits that only a parent can hold, since it counts over all its instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// None that jobs of this queue may be at.
    #[default]
    Nowhere,
    /// There are.
    Above,
}

impl Counted {
    fn is_nowhere(&self) -> bool {
        *self == Counted::Nowhere
    }
}

/// Nodes of an instance on which only its parent may have something begin: they are drained there, or kept
/// by a reservation or for maintenance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Closed {
    /// Which, as the instance calls them.
    pub ranks: Idset,
    /// From when; none for those that are closed already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// Until when, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}
