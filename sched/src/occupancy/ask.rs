//! What is asked of an occupancy, and where it goes: a job alone, or a gang.
//!
//! Made by the planner and by searches. It knows no times.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Sharing, Work};
use eddy_wire::plan::{Lasts, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use crate::inventory::Inventory;
use crate::joint::Joint;
use crate::need::Need;
use crate::placement::Chosen;
use crate::rooms::Room as Amounts;
use crate::together::{Placed, Share, Together};

/// A job's request, and what it comes to.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub job: JobId,
    pub want: Arc<Want>,
    pub need: Need,
    /// All members of its gang, for which it stands; what it wants of pools is what all do.
    pub gang: Option<Together>,
}

impl Ask {
    pub fn new(job: JobId, want: Arc<Want>) -> Arc<Ask> {
        let (need, gang) = (Need::of(&want.request), None);
        Arc::new(Ask {
            job,
            want,
            need,
            gang,
        })
    }

    /// A gang, in the place of one of its members.
    pub fn together(job: JobId, want: Arc<Want>, gang: Together) -> Arc<Ask> {
        let (need, gang) = (Need::of(&want.request), Some(gang));
        Arc::new(Ask {
            job,
            want,
            need,
            gang,
        })
    }

    /// What it is, where it is no number of slots.
    pub fn joint(&self) -> Option<Joint<'_>> {
        let back = self.want.back.as_deref().map(Joint::Back);
        let sockets = self.need.sockets.as_ref().map(Joint::Sockets);
        self.gang.as_ref().map(Joint::Gang).or(back).or(sockets)
    }

    /// Whether its need says all that is asked for.
    pub fn is_by_need(&self) -> bool {
        match self.joint() {
            None | Some(Joint::Sockets(_)) => true,
            Some(Joint::Gang(_) | Joint::Back(_)) => false,
        }
    }

    /// The longest limit for which those that start by it are to have what they are given; none where all of
    /// them take what time is left, or have begun.
    pub fn lasts(&self) -> Option<Span> {
        let lasts = |one: &Ask| {
            let want = &one.want;
            let is_whole = want.lasts == Lasts::Limit && want.back.is_none();
            let limit = want.request.duration.filter(|limit| *limit > 0);
            limit.filter(|_| is_whole).map(Span)
        };
        self.each().filter_map(lasts).max()
    }

    /// For how long one of those is planned, where all together are for `span`.
    pub fn span_of(&self, job: JobId, span: Span) -> Span {
        let gang = self.gang.iter();
        let mut members = gang.flat_map(|gang| &gang.members);
        let own = members.find(|one| one.ask.job == job);
        own.map_or(span, |own| own.span)
    }

    /// The same with a limit of its own, for one look at where that is.
    pub fn with_limit(&self, limit: Span) -> Ask {
        let mut want = Want::clone(&self.want);
        want.request.duration = Some(limit.0);
        let mut gang = self.gang.clone();
        for member in gang.iter_mut().flat_map(|gang| &mut gang.members) {
            member.ask = Arc::new(member.ask.with_limit(limit));
        }
        Ask {
            want: Arc::new(want),
            gang,
            ..self.clone()
        }
    }

    /// The same on other ranks of `all` than these, for one look at where that is.
    pub fn beside(&self, ranks: &Idset, all: &Idset) -> Ask {
        let own = self.want.request.ranks.as_ref().unwrap_or(all);
        let mut want = Want::clone(&self.want);
        want.request.ranks = Some(own.difference(ranks));
        let mut gang = self.gang.clone();
        for member in gang.iter_mut().flat_map(|gang| &mut gang.members) {
            member.ask = Arc::new(member.ask.beside(ranks, all));
        }
        Ask {
            want: Arc::new(want),
            gang,
            ..self.clone()
        }
    }

    /// Those that start by it: itself, or its gang.
    pub fn each(&self) -> impl Iterator<Item = &Ask> {
        let members = self.gang.iter().flat_map(|gang| &gang.members);
        let alone = self.gang.is_none().then_some(self);
        alone.into_iter().chain(members.map(|one| one.ask.as_ref()))
    }
}

impl Ask {
    /// What all asks have in common that no placement can tell apart. None where more counts: ranks that
    /// are named, pools, a gang, cores that come back; nor of a declared instance, to which nothing is closed.
    pub fn shape(&self) -> Option<Need> {
        let Want { request, pools, .. } = &*self.want;
        let declared = matches!(&request.work, Work::Instance { name: Some(_) });
        let alike = request.ranks.is_none() && pools.is_empty() && self.joint().is_none();
        (alike && !declared).then_some(self.need)
    }
}

/// Slots on nodes, held or promised.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    pub ask: Arc<Ask>,
    pub chosen: Arc<[Chosen]>,
    /// Which of it is whose, where it is a gang's.
    pub shares: Arc<[Share]>,
}

/// One who starts, with what it is given until when.
pub(crate) type Started = (JobId, Arc<ResourceSet>, Time);

impl Spot {
    /// Whether it is this very one, not one alike.
    pub fn is(&self, other: &Spot) -> bool {
        Arc::ptr_eq(&self.chosen, &other.chosen)
    }

    /// Who starts there, and where each.
    pub fn parts(&self) -> impl Iterator<Item = (&Arc<Ask>, &[Chosen])> {
        let gang = self.ask.gang.as_ref();
        let alone = gang.is_none().then_some((&self.ask, &*self.chosen));
        let shares = gang.into_iter().flat_map(|gang| {
            let shares = self.shares.iter();
            shares.map(|share| (&gang.members[share.member].ask, share.chosen.as_slice()))
        });
        alone.into_iter().chain(shares)
    }

    /// Whether it is a gang's.
    pub fn is_of_gang(&self) -> bool {
        self.ask.gang.is_some()
    }

    /// Those of its gang that are left out.
    pub fn left_out(&self) -> Vec<JobId> {
        let gang = self.ask.gang.iter();
        let is_in = |job| self.parts().any(|(ask, _)| ask.job == job);
        let members = gang.flat_map(|gang| gang.members.iter().map(|one| one.ask.job));
        members.filter(|job| !is_in(*job)).collect()
    }

    /// The nodes, by their places in the inventory.
    pub fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.chosen.iter().map(|chosen| chosen.at)
    }
}

/// Where a request goes that was placed.
pub(super) fn spot(ask: &Arc<Ask>, placed: Placed) -> Spot {
    Spot {
        ask: Arc::clone(ask),
        chosen: placed.chosen.into(),
        shares: placed.shares.into(),
    }
}

/// What a spot takes of each of its nodes.
pub(super) fn takes<'s>(
    inventory: &'s Inventory,
    spot: &'s Spot,
) -> impl Iterator<Item = (usize, Amounts)> + 's {
    spot.parts().flat_map(|(ask, chosen)| {
        let takes = |one: &Chosen| (one.at, amounts(inventory, &ask.need, one));
        chosen.iter().map(takes)
    })
}

/// What slots take of a node.
fn amounts(inventory: &Inventory, need: &Need, chosen: &Chosen) -> Amounts {
    match need.sharing {
        Sharing::Shared => known(inventory, chosen.at, need.room(chosen.slots)),
        Sharing::Exclusive => whole(inventory, chosen.at),
    }
}

/// All of a node.
pub(super) fn whole(inventory: &Inventory, at: usize) -> Amounts {
    known(inventory, at, inventory.capacity(at))
}

/// Of memory that nobody knows nothing is taken.
fn known(inventory: &Inventory, at: usize, takes: Amounts) -> Amounts {
    let memory = match inventory.capacity(at).memory {
        Amounts::NO_LIMIT => 0,
        _ => takes.memory,
    };
    Amounts { memory, ..takes }
}
