//! Which rank below is reached over which link.
//!
//! Used by [`super::Overlay`] only. A link *claims* the ranks behind it; when
//! two claim one rank, the newer claim holds, and the older is kept in case the
//! newer goes. It sends nothing and knows no links but by the rank at their end.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::Rank;
use eddy_wire::tree::{Member, Tenure};

use super::OverlayOutput;

/// A rank said to be behind a link.
#[derive(Clone, Debug)]
struct Claim {
    via: Rank,
    member: Member,
}

/// The newest tenure of a rank of which letters went down through here.
#[derive(Clone, Copy, Debug)]
enum Passing {
    /// The rank was reached ever since.
    Runs(Tenure),
    /// The rank was lost since, and the leader may not have heard of it yet.
    Over(Tenure),
}

/// All claims of all links below.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// By rank, oldest first: the last one holds.
    claims: BTreeMap<Rank, Vec<Claim>>,
    by_link: BTreeMap<Rank, BTreeSet<Rank>>,
    /// Ranks lost since the rank above was told, whether reached again or not.
    lost: BTreeSet<Rank>,
    tenures: BTreeMap<Rank, Passing>,
    /// Counted up with every change.
    version: u64,
}

impl Routes {
    /// The link over which a rank is reached.
    pub fn via(&self, rank: Rank) -> Option<Rank> {
        Some(self.claims.get(&rank)?.last()?.via)
    }

    /// A rank that is reached.
    pub fn member(&self, rank: Rank) -> Option<&Member> {
        Some(&self.claims.get(&rank)?.last()?.member)
    }

    /// Every rank reached.
    pub fn reached(&self) -> BTreeMap<Rank, Member> {
        let last =
            |(rank, claims): (&Rank, &Vec<Claim>)| Some((*rank, claims.last()?.member.clone()));
        self.claims.iter().filter_map(last).collect()
    }

    /// Changes with every change of what is reached.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The ranks lost since this was asked last.
    pub fn take_lost(&mut self) -> BTreeSet<Rank> {
        std::mem::take(&mut self.lost)
    }

    /// Whether a letter of the leader may go down to a rank. One of a tenure in
    /// which the rank was lost may not: letters before it are missing, and the
    /// leader will begin the next tenure when it hears of that.
    pub fn pass(&mut self, rank: Rank, tenure: Tenure) -> bool {
        let void = match self.tenures.get(&rank) {
            Some(Passing::Over(last)) => tenure <= *last,
            Some(Passing::Runs(last)) => tenure < *last,
            None => false,
        };
        if !void {
            self.tenures.insert(rank, Passing::Runs(tenure));
        }
        !void
    }

    fn lose(&mut self, rank: Rank, why: &str, out: &mut Vec<OverlayOutput>) {
        if let Some(passing) = self.tenures.get_mut(&rank) {
            let (Passing::Runs(last) | Passing::Over(last)) = *passing;
            *passing = Passing::Over(last);
        }
        self.lost.insert(rank);
        out.push(OverlayOutput::Lost(rank, why.to_owned()));
    }

    /// A link says that it reaches a rank. The same word twice changes nothing.
    pub fn claim(&mut self, rank: Rank, via: Rank, member: &Member, out: &mut Vec<OverlayOutput>) {
        let claims = self.claims.entry(rank).or_default();
        if claims.iter().any(|c| c.via == via && c.member == *member) {
            return;
        }
        if !claims.is_empty() {
            let why = match claims.last() {
                Some(claim) if claim.member.life != member.life => "another life of it is reached",
                _ => "it is reached another way",
            };
            self.lose(rank, why, out);
        }
        let claims = self.claims.entry(rank).or_default();
        claims.retain(|claim| claim.via != via);
        claims.push(Claim {
            via,
            member: member.clone(),
        });
        self.by_link.entry(via).or_default().insert(rank);
        self.version += 1;
        out.push(OverlayOutput::Reached(rank, member.clone()));
    }

    /// A link does not reach a rank any more.
    pub fn unclaim(&mut self, rank: Rank, via: Rank, why: &str, out: &mut Vec<OverlayOutput>) {
        if let Some(ranks) = self.by_link.get_mut(&via) {
            ranks.remove(&rank);
        }
        let Some(claims) = self.claims.get_mut(&rank) else {
            return;
        };
        let held = claims.last().is_some_and(|claim| claim.via == via);
        claims.retain(|claim| claim.via != via);
        let next = claims.last().map(|claim| claim.member.clone());
        if next.is_none() {
            self.claims.remove(&rank);
        }
        if !held {
            return;
        }
        self.version += 1;
        self.lose(rank, why, out);
        if let Some(member) = next {
            out.push(OverlayOutput::Reached(rank, member));
        }
    }

    /// What a link claims, said anew and in full; the rank at its end stays.
    pub fn replace(
        &mut self,
        via: Rank,
        reach: &BTreeMap<Rank, Member>,
        out: &mut Vec<OverlayOutput>,
    ) {
        let before = self.by_link.get(&via).cloned().unwrap_or_default();
        let why = format!("rank {via} does not reach it any more");
        for rank in before {
            if rank != via && !reach.contains_key(&rank) {
                self.unclaim(rank, via, &why, out);
            }
        }
        for (rank, member) in reach.iter().filter(|(rank, _)| **rank != via) {
            self.claim(*rank, via, member, out);
        }
    }

    /// A link is no more.
    pub fn drop_link(&mut self, via: Rank, why: &str, out: &mut Vec<OverlayOutput>) {
        for rank in self.by_link.remove(&via).unwrap_or_default() {
            self.unclaim(rank, via, why, out);
        }
    }
}
