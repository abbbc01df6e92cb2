//! Advance reservations and maintenance: nodes that are kept from a time to a time.
//!
//! Made and ended by records of the instance; each module that needs to know folds them into a
//! [`Reservations`]. From its beginning to its end a reservation lets nobody start on its nodes but
//! those it is for. It ends nobody's job.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::account::Name;
use crate::idset::Idset;
use crate::spec::Spec;
use crate::time::{Span, Time};

/// The most reservations that stand at a time.
pub const RESERVATIONS_MAX: usize = 64;

/// The attribute of a jobspec that names one, under `attributes.system`.
pub const ATTRIBUTE: &str = "reservation";

/// Nodes kept from a time to a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservation {
    /// What jobs name.
    pub name: Name,
    /// From when.
    pub from: Time,
    /// To when: the first moment at which it is over.
    pub until: Time,
    /// Its nodes.
    pub ranks: Idset,
    /// What for.
    pub purpose: Purpose,
    /// Who made it, by user id.
    pub userid: u32,
}

/// What nodes are kept for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Jobs that name it, of these.
    Jobs {
        /// Accounts, with those under them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        accounts: Vec<Name>,
        /// Users by id.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        users: Vec<u32>,
    },
    /// Nobody's jobs.
    Maintenance,
}

impl Reservation {
    /// How long it is.
    pub fn span(&self) -> Span {
        self.until - self.from
    }

    /// Whether it is for no jobs at all.
    pub fn is_maintenance(&self) -> bool {
        self.purpose == Purpose::Maintenance
    }

    /// Whether it is on at a time.
    pub fn is_on(&self, t: Time) -> bool {
        self.from <= t && t < self.until
    }

    /// Whether both want a node at the same time.
    pub fn meets(&self, other: &Reservation) -> bool {
        self.from < other.until && other.from < self.until && !self.ranks.is_disjoint(&other.ranks)
    }
}

/// What became of a reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// It stands from now on.
    Made(Arc<Reservation>),
    /// Somebody ended it before its time.
    Deleted {
        /// Its name.
        name: Name,
        /// Who, by user id.
        userid: u32,
    },
    /// Its time is over.
    Over {
        /// Its name.
        name: Name,
    },
}

impl Kept {
    /// The reservation that it is about.
    pub fn name(&self) -> &Name {
        match self {
            Kept::Made(reservation) => &reservation.name,
            Kept::Deleted { name, .. } | Kept::Over { name } => name,
        }
    }
}

/// Those that stand, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reservations {
    of: BTreeMap<Name, Arc<Reservation>>,
}

impl Reservations {
    /// Takes in what became of one.
    pub fn apply(&mut self, kept: &Kept) {
        match kept {
            Kept::Made(one) => drop(self.of.insert(one.name.clone(), Arc::clone(one))),
            Kept::Deleted { name, .. } | Kept::Over { name } => drop(self.of.remove(name)),
        }
    }

    /// The one of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<Reservation>> {
        self.of.get(name)
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Reservation>> {
        self.of.values()
    }
}

/// The reservation that a job names.
pub fn of(spec: &Spec) -> Option<&str> {
    let other = &spec.jobspec.attributes.system.other;
    other.get(ATTRIBUTE)?.as_str()
}
