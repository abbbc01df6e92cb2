//! Requests about pools.

use serde::{Deserialize, Serialize};

use super::service;
use crate::account::Name;
use crate::message::Roles;

service!(
    /// The pools there are, and how much of them is in use.
    List, "pool.list", Roles::OWNER.or(Roles::USER).or(Roles::ADMIN), () => Vec<PoolRow>
);

/// One pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolRow {
    /// Its name.
    pub name: Name,
    /// How many there are.
    pub count: u64,
    /// How many jobs that hold something have of it.
    pub used: u64,
    /// How many jobs have them.
    pub running: u64,
}
