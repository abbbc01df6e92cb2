//! Gangs: where all members of one go at once.
//!
//! Asked by the occupancy where it asks `placement` for a job alone, and by ingest whether a gang ever fits. Members
//! are tried in the order of their numbers, each on what those before it left; those that fit nowhere are left out as
//! long as enough are in. It knows no times.

use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::gang::Gang;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::{Reason, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Span;

use crate::feasible::Capacity;
use crate::inventory::Inventory;
use crate::need::{Need, Spread};
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

/// Whether as many members of a gang as it may begin with find room at once, where everything of these nodes is
/// free and members ask for this. In whatever order the policy has nodes: what is refused here none would place.
///
/// # Errors
/// [`Reason::NeverInAll`], with the numbers.
pub fn together(
    nodes: &Arc<ResourceSet>,
    gang: Gang,
    requests: Vec<Request>,
) -> Result<(), Reason> {
    let Some(first) = requests.first().cloned() else {
        return Ok(());
    };
    let member = |request| Member {
        ask: Ask::new(JobId(0), Arc::new(Want::of(0, request))),
        span: Span::ZERO,
    };
    let gang = Together {
        gang: Arc::new(gang),
        members: requests.into_iter().map(member).collect(),
    };
    let mut inventory = Inventory::default();
    inventory.replace(Arc::clone(nodes), std::iter::empty());
    let rooms = inventory.all().rooms();
    let field = Field {
        shared: rooms,
        idle: rooms,
    };
    let mut found = Ok(());
    for rank in NodeRank::ALL {
        found = gang.place(field, rank, &inventory).map(drop);
        if found.is_ok() {
            break;
        }
    }
    found.map_err(|short| short.never(&first))
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
        let mut left = Left::new(field);
        let placed = match &self.gang.uniform {
            None => self.fill(&mut left, rank, all, None),
            Some(label) => {
                let mut best = Vec::new();
                for ranks in self.worth_trying(field, all, groups(inventory, label)) {
                    let found = self.fill(&mut left, rank, all, Some(ranks));
                    if found.len() > best.len() {
                        best = found;
                    }
                    if best.len() == self.members.len() {
                        break;
                    }
                    left.restore(field);
                }
                best
            }
        };
        match placed.len() >= self.min() {
            true => Ok(Placed::from(placed)),
            false => Err(self.short(placed.len())),
        }
    }

    /// The values of a label whose nodes have the cores for as many as it may begin with; where none
    /// has, the one with the most of them, so that it can be said how many it is short of.
    fn worth_trying<'i>(
        &self,
        field: Field<'_>,
        all: &Capacity,
        groups: impl Iterator<Item = &'i Idset>,
    ) -> Vec<&'i Idset> {
        let asked = self.cores();
        let cores = |ranks| all.within_ranks(ranks).totals(field.shared).cores;
        let (mut enough, mut most) = (Vec::new(), None);
        for ranks in groups {
            let there = cores(ranks);
            if there >= asked {
                enough.push(ranks);
            } else if most.is_none_or(|(most, _)| there > most) {
                most = Some((there, ranks));
            }
        }
        match enough.is_empty() {
            true => most.into_iter().map(|(_, ranks)| ranks).collect(),
            false => enough,
        }
    }

    /// The cores that as many as it may begin with ask for at least.
    fn cores(&self) -> u64 {
        self.least(|ask| {
            let need = &ask.need;
            let times = match need.spread {
                Spread::Nodes { nodes, .. } => nodes,
                Spread::Slots(slots) => slots,
            };
            need.least().cores.saturating_mul(times)
        })
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
        left: &mut Left,
        rank: NodeRank,
        all: &Capacity,
        ranks: Option<&Idset>,
    ) -> Vec<Share> {
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
                Sharing::Shared => &left.shared,
                Sharing::Exclusive => &left.idle,
            };
            let Ok(chosen) = choose_ranked(order, rooms, &within, need) else {
                continue;
            };
            chosen.iter().for_each(|one| left.take(one, need));
            shares.push(Share { member, chosen });
        }
        shares
    }
}

/// What members leave of a field.
struct Left {
    shared: Rooms,
    idle: Rooms,
    /// The nodes of which something is taken.
    touched: Vec<usize>,
}

impl Left {
    fn new(field: Field<'_>) -> Left {
        Left {
            shared: field.shared.clone(),
            idle: field.idle.clone(),
            touched: Vec::new(),
        }
    }

    fn take(&mut self, one: &Chosen, need: &Need) {
        let shared = match need.sharing {
            Sharing::Shared => Some(self.shared.room(one.at).without(&need.room(one.slots))),
            Sharing::Exclusive => None,
        };
        self.shared.set(one.at, shared);
        self.idle.set(one.at, None);
        self.touched.push(one.at);
    }

    /// As if nobody had taken anything.
    fn restore(&mut self, field: Field<'_>) {
        let as_it_was = |rooms: &Rooms, at: usize| rooms.has(at).then(|| rooms.room(at));
        for at in self.touched.drain(..) {
            self.shared.set(at, as_it_was(field.shared, at));
            self.idle.set(at, as_it_was(field.idle, at));
        }
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
