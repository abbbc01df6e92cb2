//! What instances have: by the jobs that they are, and by those that are ground for them.

use eddy_wire::grant::Grant;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::resource_set::ResourceSet;

use super::Ledger;

impl Ledger {
    /// The shell of these ranks is lost: whoever holds something of them may not have heard that.
    pub(super) fn fall(&mut self, ranks: &Idset) {
        for (job, grant) in &self.held {
            let lost = grant.set.ranks().intersect(ranks);
            if !lost.is_empty() {
                let fallen = self.fallen.entry(*job).or_default();
                *fallen = fallen.union(&lost);
            }
        }
    }

    /// Whether an instance may give its jobs this, as its leader knows: it has it, or had it until it was
    /// lost with a shell, where nothing can start.
    pub fn may_grant(&self, id: JobId, held: &ResourceSet, set: &ResourceSet) -> bool {
        let Some(outside) = self.outside(id, set) else {
            return false;
        };
        let fallen = self.fallen.get(&id).cloned().unwrap_or_default();
        let lost = outside.ranks().difference(&held.ranks());
        let there = outside.restrict(&outside.ranks().difference(&lost));
        fallen.contains_all(&lost) && held.contains(&there)
    }

    /// What an instance has by its own job and by those that are ground for it.
    pub fn whole(&self, id: JobId) -> Option<ResourceSet> {
        let own = self.held.get(&id)?;
        let mut whole = own.set.as_ref().clone();
        for (rank, job) in &own.beside {
            if let Some(grant) = self.held.get(job) {
                whole.add(&grant.set.restrict(&Idset::one(rank.0)));
            }
        }
        Some(whole)
    }

    /// The ranks that an instance has something of, by whatever job; none of one that holds nothing.
    pub fn ground_of(&self, id: JobId) -> Option<Idset> {
        let own = self.held.get(&id)?.set.ranks();
        let held = self.held.iter();
        let grounds =
            held.filter(|(job, _)| self.jobs[job].submit.spec.request.grows() == Some(id));
        Some(grounds.fold(own, |all, (_, held)| all.union(&held.set.ranks())))
    }

    /// What an instance is recorded to have by other jobs is what they hold for it: jobs that are
    /// ground for it, which have begun.
    pub(super) fn beside(&self, id: JobId, grant: &Grant) -> Result<(), String> {
        for (rank, job) in &grant.beside {
            let held = self.held.get(job);
            let has = held.is_some_and(|held| held.set.nodes.contains_key(rank));
            let of = self
                .jobs
                .get(job)
                .and_then(|job| job.submit.spec.request.grows());
            if !has || of != Some(id) || !self.started.contains(job) {
                return Err(format!(
                    "job {id} has rank {rank} by job {job}, which does not hold it for that"
                ));
            }
        }
        Ok(())
    }

    /// A set of nodes as the instance that a job is counts them, by the ranks here; what takes
    /// nothing is nowhere.
    pub fn outside(&self, id: JobId, set: &ResourceSet) -> Option<ResourceSet> {
        let names = self.names.get(&id)?;
        let taking = set.nodes.iter().filter(|(_, node)| !node.is_empty());
        let nodes = taking.map(|(rank, node)| Some((*names.get(rank)?, node.clone())));
        Some(ResourceSet {
            nodes: nodes.collect::<Option<_>>()?,
            ..ResourceSet::default()
        })
    }

    /// The job that is the declared instance of that name and holds something.
    pub(crate) fn ground(&self, name: &str) -> Option<JobId> {
        let is_it = |job: &JobId| {
            let work = &self.jobs[job].submit.spec.request.work;
            matches!(work, Work::Instance { name: Some(own) } if own == name)
        };
        self.held.keys().copied().find(is_it)
    }
}
