//! Gangs: where all members of one go at once.
//!
//! Asked by the occupancy where it asks `placement` for a job alone. Members are tried in the order of
//! their numbers, each on what those before it left; those that fit nowhere are left out as long as
//! enough are in. It knows no times.

use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::gang::Gang;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Sharing;
use eddy_wire::time::Span;

use crate::feasible::Capacity;
use crate::inventory::Inventory;
use crate::occupancy::Ask;
use crate::placement::{Chosen, Order, Short, choose_ranked};
use crate::policy::NodeRank;
use crate::rooms::Rooms;

/// The members of a gang that are all there.
#[derive(Clone, Debug)]
pub(crate) struct Together {
    pub gang: Arc<Gang>,
    /// By number.
    pub members: Vec<Member>,
}

/// One of them.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub ask: Arc<Ask>,
    /// For how long it is planned.
    pub span: Span,
}

/// Where one member goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// Its place among the members.
    pub member: usize,
    pub chosen: Vec<Chosen>,
}

/// Where a job goes, or a gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    /// From the lowest node up; a node of two members is there twice.
    pub chosen: Vec<Chosen>,
    /// Which of it is whose, where it is a gang's.
    pub shares: Vec<Share>,
}

impl From<Vec<Chosen>> for Placed {
    fn from(chosen: Vec<Chosen>) -> Placed {
        Placed {
            chosen,
            shares: Vec::new(),
        }
    }
}

impl From<Vec<Share>> for Placed {
    fn from(shares: Vec<Share>) -> Placed {
        let all = shares.iter().flat_map(|share| &share.chosen);
        let mut chosen: Vec<Chosen> = all.copied().collect();
        chosen.sort_unstable_by_key(|one| one.at);
        Placed { chosen, shares }
    }
}

/// What nodes have for who shares them and for who has them whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'f> {
    pub shared: &'f Rooms,
    pub idle: &'f Rooms,
}

impl Together {
    /// With how few it may begin, of those that are there.
    fn min(&self) -> usize {
        let min = usize::try_from(self.gang.min).unwrap_or(usize::MAX);
        min.min(self.members.len())
    }

    /// The least cores that it takes wherever it goes, where one member takes at least so many.
    pub fn least(&self, of: impl Fn(&Ask) -> u64) -> u64 {
        let mut each: Vec<u64> = self.members.iter().map(|one| of(&one.ask)).collect();
        each.sort_unstable();
        each.truncate(self.min());
        each.into_iter().fold(0, u64::saturating_add)
    }

    /// Where as many members as may be go together, at least as many as it may begin with.
    pub fn place(
        &self,
        field: Field<'_>,
        rank: NodeRank,
        inventory: &Inventory,
    ) -> Result<Placed, Short> {
        let all = inventory.all();
        let placed = match &self.gang.uniform {
            None => self.fill(field, rank, all, None),
            Some(label) => {
                let mut best = Vec::new();
                for ranks in groups(inventory, label) {
                    let found = self.fill(field, rank, all, Some(ranks));
                    if found.len() > best.len() {
                        best = found;
                    }
                    if best.len() == self.members.len() {
                        break;
                    }
                }
                best
            }
        };
        match placed.len() >= self.min() {
            true => Ok(Placed::from(placed)),
            false => Err(self.short(placed.len())),
        }
    }

    /// What is missing where so many members could start.
    fn short(&self, placed: usize) -> Short {
        let Gang { name, uniform, .. } = &*self.gang;
        let on = match uniform {
            None => String::new(),
            Some(label) => format!(" on nodes of one `{label}`"),
        };
        Short::InAll {
            what: format!("places for members of gang `{name}` at once{on}"),
            asked: self.min() as u64,
            most: placed as u64,
        }
    }

    /// Each member on what those before it left.
    fn fill(
        &self,
        field: Field<'_>,
        rank: NodeRank,
        all: &Capacity,
        ranks: Option<&Idset>,
    ) -> Vec<Share> {
        let (mut shared, mut idle) = (field.shared.clone(), field.idle.clone());
        let order = Order {
            rank,
            totals: all.rooms(),
        };
        let mut shares = Vec::new();
        for (member, one) in self.members.iter().enumerate() {
            let need = &one.ask.need;
            let within = match ranks {
                None => all.within(&one.ask.want.request),
                Some(ranks) => match &one.ask.want.request.ranks {
                    None => all.within_ranks(ranks),
                    // What it names is all it may have.
                    Some(own) => all.within_ranks(&own.intersect(ranks)),
                },
            };
            let rooms = match need.sharing {
                Sharing::Shared => &shared,
                Sharing::Exclusive => &idle,
            };
            let Ok(chosen) = choose_ranked(order, rooms, &within, need) else {
                continue;
            };
            for one in &chosen {
                let left = match need.sharing {
                    Sharing::Shared => Some(shared.room(one.at).without(&need.room(one.slots))),
                    Sharing::Exclusive => None,
                };
                shared.set(one.at, left);
                idle.set(one.at, None);
            }
            shares.push(Share { member, chosen });
        }
        shares
    }
}

/// The ranks of each value of a label, by value.
fn groups<'i>(inventory: &'i Inventory, label: &'i Name) -> impl Iterator<Item = &'i Idset> + 'i {
    let properties = inventory.set().properties.iter();
    properties
        .filter(move |(property, _)| {
            let value = property.strip_prefix(label.as_str());
            value.is_some_and(|rest| rest.starts_with('='))
        })
        .map(|(_, ranks)| ranks)
}
