//! The books of who takes from whom: who waits and who holds by standing, who is to end, what is kept
//! for whom.
//!
//! Kept by the planner as jobs come and go; `preempt`, `claims` and `evict` decide by them. Where
//! nobody may take from anybody they are empty.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Gives, Owner, Want};
use eddy_wire::preempt::Preempts;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::claims::{Claim, Ending};
use super::evict::{Evictions, News};
use super::gifts::Leaving;
use super::prospects::Prospect;
use super::victims::Part;
use crate::inventory::Inventory;
use crate::occupancy::parts;
use crate::rooms::Room;
use crate::turns::Turn;

/// What decides who may take from whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    pub qos: Option<Name>,
    pub class: Option<Name>,
}

impl Standing {
    pub fn of(owner: &Owner) -> Standing {
        Standing {
            qos: owner.qos.clone(),
            class: owner.class.clone(),
        }
    }
}

/// Whether anybody may end for one who waits: for no gang, and for nobody who is to go on where he began.
pub(super) fn takes_from_others(want: &Want) -> bool {
    want.gang.is_none() && want.back.is_none()
}

/// Whether anybody may take from anybody here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Armed {
    #[default]
    No,
    Yes,
}

/// Who takes, who is taken from, and what came of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Taking {
    pub(super) rules: Arc<Preempts>,
    pub(super) armed: Armed,
    /// Who holds something for certain and is not ending.
    pub(super) holders: BTreeMap<Standing, BTreeSet<JobId>>,
    /// Who waits for resources.
    pub(super) waiters: BTreeMap<Standing, BTreeSet<JobId>>,
    /// Who holds something and is to end.
    pub(super) ending: BTreeMap<JobId, Ending>,
    pub(super) spared: BTreeSet<JobId>,
    /// Behind whom the next pass looks first, where the last could not look at all.
    pub(super) looked: Option<Turn>,
    /// What those give who do not give all.
    gives: BTreeMap<JobId, Gives>,
    /// The nodes that jobs which go on are to give.
    pub(super) leaving: BTreeMap<JobId, Vec<Leaving>>,
    /// Who is not to end before a time.
    pub(super) kept: BTreeMap<JobId, Time>,
    pub(super) claims: BTreeMap<JobId, Claim>,
    /// What those will have who take later, where others would begin on it.
    pub(super) prospects: BTreeMap<JobId, Prospect>,
    pub(super) round: Evictions,
}

type ByStanding = BTreeMap<Standing, BTreeSet<JobId>>;

fn add(all: &mut ByStanding, owner: &Owner, job: JobId) {
    all.entry(Standing::of(owner)).or_default().insert(job);
}

fn remove(all: &mut ByStanding, owner: &Owner, job: JobId) {
    let standing = Standing::of(owner);
    if let Some(jobs) = all.get_mut(&standing) {
        jobs.remove(&job);
        if jobs.is_empty() {
            all.remove(&standing);
        }
    }
}

impl Taking {
    pub fn waits(&mut self, owner: &Owner, job: JobId) {
        if self.armed == Armed::Yes {
            add(&mut self.waiters, owner, job);
        }
    }

    pub fn waits_no_more(&mut self, owner: &Owner, job: JobId) {
        if self.armed == Armed::Yes {
            remove(&mut self.waiters, owner, job);
        }
    }

    pub fn holds(&mut self, owner: &Owner, job: JobId) {
        if self.armed == Armed::Yes && !self.ending.contains_key(&job) {
            add(&mut self.holders, owner, job);
        }
    }

    pub fn holds_no_more(&mut self, owner: &Owner, job: JobId) {
        if self.armed == Armed::Yes {
            remove(&mut self.holders, owner, job);
        }
    }

    /// Whether it is known already what one who waits will have.
    pub fn is_out_of_line(&self, job: JobId) -> bool {
        self.claims.contains_key(&job) || self.prospects.contains_key(&job)
    }

    /// What a job gives when it is taken from.
    pub fn gives(&mut self, job: JobId, gives: Gives) {
        match &gives {
            Gives::All => drop(self.gives.remove(&job)),
            Gives::Cores | Gives::Nodes { .. } => drop(self.gives.insert(job, gives)),
        }
    }

    /// What those give who do not give all.
    pub fn gifts(&self) -> impl Iterator<Item = (JobId, &Gives)> + '_ {
        self.gives.iter().map(|(job, gives)| (*job, gives))
    }

    /// The ranks that a job cannot be without, of one that gives its nodes one by one.
    pub fn keeps(&self, job: JobId) -> Option<&Idset> {
        match self.gives.get(&job)? {
            Gives::Nodes { but } => Some(but),
            Gives::All | Gives::Cores => None,
        }
    }

    /// What one who holds that would leave of each node.
    pub fn parts(&self, inventory: &Inventory, job: JobId, set: &ResourceSet) -> Vec<Part> {
        let all = parts(inventory, set);
        let gives = self.gives.get(&job);
        let part = |(at, holds): (usize, Room)| match gives {
            None | Some(Gives::All | Gives::Nodes { .. }) => Part::all(at, holds),
            Some(Gives::Cores) => Part::cores(at, holds),
        };
        all.map(part).collect()
    }

    /// It holds nothing any more.
    pub fn forget(&mut self, job: JobId) {
        self.spared.remove(&job);
        self.kept.remove(&job);
        self.gives.remove(&job);
    }

    /// The longest that anybody is given to end.
    pub fn grace(&self) -> Span {
        let graces = self.rules.qos.values().filter_map(|rule| rule.grace);
        graces.chain([self.rules.grace]).max().unwrap_or(Span::ZERO)
    }

    pub fn rules(&self) -> Arc<Preempts> {
        Arc::clone(&self.rules)
    }

    /// Something happened that no round with eviction has looked at.
    pub fn stir(&mut self) {
        self.round.news = News::Some;
    }
}
