//! Whether an instance ends that could have gone on without the nodes that another needs.
//!
//! Knows what the planner was told, and how many cores a plain job asks for, nothing of who chooses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, Work};
use eddy_wire::plan::{Delta, Gives, Outcome, Owner, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;

/// What instances can do without, as far as was told.
#[derive(Default)]
pub(super) struct Gifts {
    /// The nodes that each cannot be without.
    but: BTreeMap<JobId, Idset>,
    /// Those that it gives already.
    going: BTreeMap<JobId, Idset>,
    /// Those who wait and for whom others ended or gave nodes: what these had is kept for them, whatever the policy
    /// has become since.
    given: BTreeSet<JobId>,
}

impl Gifts {
    pub fn note(&mut self, delta: &Delta) {
        match delta {
            Delta::Gives(job, Gives::Nodes { but }) => drop(self.but.insert(*job, but.clone())),
            Delta::Gives(job, Gives::All | Gives::Cores) => drop(self.but.remove(job)),
            Delta::Shrinks(job, all) => {
                let ranks = all.iter().map(|one| &one.ranks);
                let ranks = ranks.fold(Idset::new(), |all, ranks| all.union(ranks));
                self.going.insert(*job, ranks);
                self.given.extend(all.iter().filter_map(|one| one.by));
            }
            Delta::Ending(_, by, _) => self.given.extend(by),
            Delta::Held(by, ..) => drop(self.given.remove(by)),
            Delta::Freed(job) => {
                self.but.remove(job);
                self.going.remove(job);
            }
            _ => {}
        }
    }

    /// Whether something is kept for one who waits.
    pub fn is_given(&self, job: JobId) -> bool {
        self.given.contains(&job)
    }

    /// Where one job alone waits, and nothing is kept for anybody, nobody ends for it whose nodes would do.
    ///
    /// # Errors
    /// Who does.
    pub fn check(
        &self,
        outcome: &Outcome,
        wants: &BTreeMap<JobId, Want>,
        held: &BTreeMap<JobId, (Owner, Arc<ResourceSet>)>,
        up: &Idset,
    ) -> Result<(), String> {
        for (job, verdict) in &outcome.verdicts {
            let Verdict::Preempt {
                ranks: None, by, ..
            } = verdict
            else {
                continue;
            };
            let (Some(but), Some((_, set)), Some(want)) =
                (self.but.get(job), held.get(job), wants.get(by))
            else {
                continue;
            };
            if wants.len() > 1 || !is_plain(&want.request) || !want.pools.is_empty() {
                continue;
            }
            let going = self.going.get(job).cloned().unwrap_or_default();
            let spare = set.nodes.iter().filter(|(rank, node)| {
                let stays = but.contains(rank.0) || going.contains(rank.0);
                !stays && up.contains(rank.0) && fits(&want.request, node.cores.len())
            });
            let (most, nodes) = (spare.count(), want.request.nodes.unwrap_or(1) as usize);
            if most >= nodes {
                return Err(format!(
                    "job {job} ends for job {by}, though {most} of its nodes would do"
                ));
            }
        }
        Ok(())
    }
}

/// Whether it asks for cores alone, on whatever nodes.
fn is_plain(request: &Request) -> bool {
    request.gpus_per_slot == 0
        && request.memory == MemoryNeed::None
        && request.sharing == Sharing::Shared
        && request.ranks.is_none()
        && request.constraint.is_none()
        && request.sockets.is_none()
        && request.choice.is_none()
        && request.work == Work::Tasks
}

/// Whether so many cores are enough for what it wants of one node: of all of it, where nodes are not named.
fn fits(request: &Request, cores: u64) -> bool {
    let slots = match request.nodes {
        Some(_) => request.slots_per_node,
        None => request.slots,
    };
    cores >= u64::from(slots) * u64::from(request.cores_per_slot)
}
