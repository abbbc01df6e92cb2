//! Nodes that come to the instance while it runs, by jobs of the instance around it that are ground
//! for it: which are whose, and who waits until they are in service.
//!
//! Nothing of it is recorded: the parent says it again over each new channel.

use std::collections::BTreeMap;

use eddy_broker::{Caller, Outbox, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::services::grant::ArriveRequest;

/// How many may wait at a time.
const WAITING_MAX: usize = 4096;

/// Nodes that came, and who waits for some.
#[derive(Debug, Default)]
pub(super) struct Arriving {
    beside: BTreeMap<Rank, JobId>,
    waiting: BTreeMap<Caller, JobId>,
}

impl Arriving {
    /// The parent said which nodes are held by which of its jobs.
    pub(super) fn told(&mut self, beside: &BTreeMap<Rank, JobId>) {
        self.beside.clone_from(beside);
    }

    /// The job of the parent by which a node is held, if the instance is another.
    pub(super) fn by(&self, rank: Rank) -> Option<JobId> {
        self.beside.get(&rank).copied()
    }

    /// `grant.arrive`
    pub(super) fn ask(&mut self, request: &Request) -> Result<(), Refusal> {
        let body: ArriveRequest = request.parse()?;
        if self.waiting.len() >= WAITING_MAX {
            let text = format!(
                "{WAITING_MAX} wait for nodes to come already (limit `arrivals`); ask again later"
            );
            return Err(Refusal::new(Code::Busy, text));
        }
        self.waiting.insert(request.caller, body.job);
        Ok(())
    }

    /// Answers those whose nodes are all among those in service.
    pub(super) fn tell(&mut self, in_service: &Idset, out: &mut Outbox) {
        let beside = &self.beside;
        let ranks_of = |job: JobId| -> Idset {
            let of_it = beside.iter().filter(|(_, of)| **of == job);
            of_it.map(|(rank, _)| rank.0).collect()
        };
        self.waiting.retain(|caller, job| {
            let ranks = ranks_of(*job);
            let are_there = !ranks.is_empty() && in_service.contains_all(&ranks);
            if are_there {
                out.reply(*caller, &ranks);
            }
            !are_there
        });
    }

    /// These wait no more.
    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.waiting.retain(|caller, _| !gone(*caller));
    }
}
