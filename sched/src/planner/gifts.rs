//! Instances that go on with fewer nodes: which they give, for whom, and whether that is better than an
//! end.
//!
//! Asked by `preempt`; kept beside who ends (`claims`). A node that is to be given is its holder's until
//! that is told to hold the others only. Chooses nobody: who gives way says the search for the fewest.

use std::collections::BTreeSet;

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Outcome, Verdict};
use eddy_wire::preempt::{Cause, Shrink};
use eddy_wire::time::{Span, Time};

use super::victims::{Candidate, Given, Part, Search, Sought};
use super::{Certainty, Planner};

/// How long after its last kill what ends anyway is counted on.
const PATIENCE: Span = Span::seconds(60);

/// Nodes that one who goes on gives to another.
#[derive(Clone, Debug)]
pub(super) struct Leaving {
    /// For whom, if for anybody.
    pub by: Option<JobId>,
    pub ranks: Idset,
    /// When the last of it there is killed.
    pub until: Time,
    pub certainty: Certainty,
}

/// What is about to be given back by one.
pub(super) struct Coming {
    pub job: JobId,
    pub parts: Vec<Part>,
}

/// The fewest who must give way. Whoever can go on without the nodes that are needed does, as long as
/// for that no more end, and nobody of a higher standing gives way, than where each who is taken from ends.
pub(super) fn least(search: Search, candidates: &[Candidate]) -> Option<Sought> {
    if candidates.iter().all(|one| one.spares.is_empty()) {
        return search.fewest();
    }
    let going_on: Vec<Candidate> = candidates.iter().map(going_on).collect();
    let gifts = search.among(&going_on).fewest();
    let ends = search.fewest()?;
    let is_better = |gifts: &Sought| ended(gifts) <= ended(&ends) && worst(gifts) <= worst(&ends);
    Some(gifts.filter(is_better).unwrap_or(ends))
}

/// One who gives no more than it can be without.
fn going_on(one: &Candidate) -> Candidate {
    let mut one = one.clone();
    if !one.spares.is_empty() {
        one.parts.retain(|part| one.spares.contains(&part.at));
    }
    one
}

fn ended(sought: &Sought) -> usize {
    let ends = |gives: &Given| matches!(gives, Given::All);
    sought.victims.iter().filter(|one| ends(&one.gives)).count()
}

fn worst(sought: &Sought) -> Option<usize> {
    sought.victims.iter().map(|one| one.level).max()
}

impl Planner {
    /// The nodes that one can be without and go on, of those that it is not to give yet.
    pub(super) fn spares(&self, job: JobId) -> BTreeSet<usize> {
        let Some(but) = self.taking.keeps(job) else {
            return BTreeSet::new();
        };
        let inventory = self.occupancy.inventory();
        let gone = self.leaving_of(job);
        let ranks = self.holdings[&job].set.nodes.keys();
        let spares = ranks.filter(|rank| !but.contains(rank.0) && !gone.contains(rank.0));
        spares
            .filter_map(|rank| inventory.place_of(*rank))
            .collect()
    }

    /// The ranks that one is to give while it goes on.
    fn leaving_of(&self, job: JobId) -> Idset {
        let leaving = self.taking.leaving.get(&job).into_iter().flatten();
        leaving.fold(Idset::new(), |all, one| all.union(&one.ranks))
    }

    /// What it gives already it has no more.
    pub(super) fn without_leaving(&self, job: JobId, parts: &mut Vec<Part>) {
        let gone = self.places_of(&self.leaving_of(job));
        parts.retain(|part| !gone.contains(&part.at));
    }

    pub(super) fn places_of(&self, ranks: &Idset) -> BTreeSet<usize> {
        let inventory = self.occupancy.inventory();
        let places = ranks.iter().map(eddy_wire::id::Rank);
        places.filter_map(|rank| inventory.place_of(rank)).collect()
    }

    /// For whom something is given up; for nobody where that one does not wait any more.
    fn heir(&self, by: Option<JobId>) -> Option<JobId> {
        by.filter(|by| self.waiting.contains_key(by))
    }

    /// Whether what was to be given back by then still may be: who cannot be killed does not end.
    fn is_near(&self, until: Time) -> bool {
        self.occupancy.now() < until.after(PATIENCE)
    }

    /// When the first of what is about to be given back, for nobody, is counted on no more.
    pub(super) fn patience(&self) -> Option<Time> {
        let ending = self.taking.ending.values();
        let ending = ending.map(|one| (one.by, one.until));
        let leaving = self.taking.leaving.values().flatten();
        let all = ending.chain(leaving.map(|one| (one.by, one.until)));
        let near = all.filter(|(by, until)| self.heir(*by).is_none() && self.is_near(*until));
        near.map(|(_, until)| until.after(PATIENCE)).min()
    }

    /// What is about to be given back for a job: by who ends, and by who goes on.
    pub(super) fn coming_for(&self, job: JobId) -> Vec<Coming> {
        self.coming(|by, _| by == Some(job))
    }

    /// What is about to be given back for nobody.
    pub(super) fn coming_anyway(&self) -> Vec<Coming> {
        self.coming(|by, until| by.is_none() && self.is_near(until))
    }

    fn coming(&self, counts: impl Fn(Option<JobId>, Time) -> bool) -> Vec<Coming> {
        let inventory = self.occupancy.inventory();
        let jobs = self.taking.ending.keys().chain(self.taking.leaving.keys());
        let jobs: BTreeSet<JobId> = jobs.copied().collect();
        let coming = jobs.into_iter().filter_map(|job| {
            let set = &self.holdings.get(&job)?.set;
            let mut parts = self.taking.parts(inventory, job, set);
            let ending = self.taking.ending.get(&job);
            let ends = ending.is_some_and(|one| counts(self.heir(one.by), one.until));
            let leaving = self.taking.leaving.get(&job).into_iter().flatten();
            // Of one that ends all but what others are given; of another what is given to those.
            let listed = leaving.filter(|one| counts(self.heir(one.by), one.until) != ends);
            let listed = listed.fold(Idset::new(), |all, one| all.union(&one.ranks));
            let listed = self.places_of(&listed);
            parts.retain(|part| listed.contains(&part.at) != ends);
            (!parts.is_empty()).then_some(Coming { job, parts })
        });
        coming.collect()
    }

    /// One who goes on gives these nodes: that is all of it that is recorded.
    pub(super) fn shrinks(&mut self, job: JobId, all: &[Shrink]) {
        let known = self.taking.leaving.remove(&job).into_iter().flatten();
        let proposed = known.filter(|one| one.certainty == Certainty::Proposed);
        let is_new = |one: &Leaving| {
            all.iter()
                .all(|shrink| shrink.ranks.is_disjoint(&one.ranks))
        };
        let mut leaving: Vec<Leaving> = proposed.filter(is_new).collect();
        leaving.extend(all.iter().map(|shrink| Leaving {
            by: shrink.by,
            ranks: shrink.ranks.clone(),
            until: shrink.until,
            certainty: Certainty::Held,
        }));
        self.leaves(job, leaving);
    }

    /// These are all nodes that one gives while it goes on, as far as it has them yet.
    pub(super) fn leaves(&mut self, job: JobId, mut leaving: Vec<Leaving>) {
        self.taking.leaving.remove(&job);
        let Some(holding) = self.holdings.get(&job) else {
            return;
        };
        let has = holding.set.ranks();
        for one in &mut leaving {
            one.ranks = one.ranks.intersect(&has);
        }
        leaving.retain(|one| !one.ranks.is_empty());
        if holding.certainty != Certainty::Held || leaving.is_empty() {
            return;
        }
        let heirs: Vec<JobId> = leaving.iter().filter_map(|one| one.by).collect();
        self.taking.leaving.insert(job, leaving);
        heirs.into_iter().for_each(|by| self.counts_on(by, job));
    }

    /// Nothing came of what it was only proposed to give: who counted on that.
    pub(super) fn goes_on_whole(&mut self, job: JobId) -> Vec<JobId> {
        let known = self.taking.leaving.remove(&job).unwrap_or_default();
        let is_recorded = |one: &Leaving| one.certainty == Certainty::Held;
        let (recorded, proposed): (Vec<Leaving>, Vec<Leaving>) =
            known.into_iter().partition(is_recorded);
        self.leaves(job, recorded);
        proposed.into_iter().filter_map(|one| one.by).collect()
    }

    /// One who runs is to go on without these nodes.
    pub(super) fn shrink(
        &mut self,
        job: JobId,
        nodes: &[usize],
        (by, cause): (JobId, Cause),
        why: String,
        outcome: &mut Outcome,
    ) {
        let inventory = self.occupancy.inventory();
        let ranks: Idset = nodes.iter().map(|at| inventory.node(*at).rank.0).collect();
        let mut leaving = self.taking.leaving.remove(&job).unwrap_or_default();
        leaving.push(Leaving {
            by: Some(by),
            ranks: ranks.clone(),
            until: self.occupancy.now().after(self.taking.grace()),
            certainty: Certainty::Proposed,
        });
        self.leaves(job, leaving);
        let verdict = Verdict::Preempt {
            ranks: Some(ranks),
            by,
            cause,
            why,
        };
        outcome.verdicts.push((job, verdict));
    }

    /// What is recorded of it, as another planner over some of the same nodes is told.
    pub(crate) fn shrinking(&self) -> impl Iterator<Item = Delta> + '_ {
        self.taking.leaving.iter().map(|(job, all)| {
            let recorded = all.iter().filter(|one| one.certainty == Certainty::Held);
            let shrink = |one: &Leaving| Shrink {
                ranks: one.ranks.clone(),
                by: one.by,
                until: one.until,
                cause: Cause::Urgency,
                grace: 0,
                why: String::new(),
            };
            Delta::Shrinks(*job, recorded.map(shrink).collect())
        })
    }
}
