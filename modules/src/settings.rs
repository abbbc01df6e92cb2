//! What the modules of a leader are told at their start.
//!
//! Made by a driver from the configuration; constant for the life of a leader.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Span;

/// Limits and times of an instance.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The resources the instance owns.
    pub inventory: Arc<ResourceSet>,
    /// The highest job number ever given: finished jobs are not replayed.
    pub last_job: JobId,
    /// From TERM to KILL.
    pub kill_grace: Span,
    /// Most jobs that are not over.
    pub jobs_max: u64,
    /// How many attempts a job may have.
    pub attempts_max: u32,
    /// How far a sender's clock may run ahead of ours in its keys.
    pub key_skew: Span,
    /// How old a sender's key may be: as long as rows are kept.
    pub key_age_max: Span,
}

impl Settings {
    /// The defaults of design and `doc/protocol/limits.md` for this inventory.
    pub fn for_inventory(inventory: Arc<ResourceSet>) -> Settings {
        Settings {
            inventory,
            last_job: JobId(0),
            kill_grace: Span::seconds(5),
            jobs_max: 1_000_000,
            attempts_max: 16,
            key_skew: Span::seconds(600),
            key_age_max: Span::seconds(30 * 86_400),
        }
    }
}
