//! Sockets over time: what of each is free, which of them are promised, and who keeps off them.
//!
//! What is promised is amounts but for those who ask for sockets: a number of cores that is free in sum may lie
//! in no socket. Such a promise has cores by number, a *pin*. To all others its nodes are promised whole in
//! every search over time; who starts now may have what is beside the pins, and keeps off them. Those who
//! ask for sockets see the pins of each other as what they are.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::jobspec::{Sharing, SocketGroup};
use eddy_wire::resource_set::NodeSet;
use eddy_wire::time::Time;

use super::promises::Promise;
use super::{Ask, Occupancy, Spot};
use crate::feasible::room_of;
use crate::inventory::Node;
use crate::need::Need;
use crate::placement::{Chosen, Short, choose_ranked, part_of};
use crate::policy::NodeRank;
use crate::rooms::{Room as Amounts, Rooms};
use crate::sockets::{groups, pick, rooms_for, short};
use crate::together::Placed;

/// What of nodes is meant.
#[derive(Clone, Copy, Debug)]
pub(super) enum There<'r> {
    /// All that these nodes have.
    All(&'r Rooms),
    /// What nobody holds now, whatever is promised.
    Free,
    /// What nobody has from one moment to before another.
    Over(Time, Time),
}

/// What is promised to one who asks for sockets on one node.
#[derive(Clone, Debug)]
pub(super) struct Pin {
    /// Its cores and GPUs by number.
    pub set: NodeSet,
    /// What that comes to.
    pub takes: Amounts,
}

impl Occupancy {
    /// The nodes on whose sockets it goes.
    pub(super) fn place_in_sockets(
        &self,
        (ask, group): (&Ask, &SocketGroup),
        there: There<'_>,
        rank: NodeRank,
    ) -> Result<Placed, Short> {
        let need = &ask.need;
        let within = self.inventory.all().within(&ask.want.request);
        let made;
        let rooms = match (there, need.sharing) {
            (There::All(rooms), _) => rooms,
            (There::Free, Sharing::Shared) => self.inventory.free(),
            (There::Free, Sharing::Exclusive) => self.inventory.idle(),
            (There::Over(from, until), _) => {
                let nodes = 0..self.inventory.len();
                let room = |at: usize| {
                    let is_there = within.has(at) && self.inventory.is_serving(at);
                    is_there.then(|| self.amounts_over(need, at, (from, until)))?
                };
                made = Rooms::new(nodes.map(room));
                &made
            }
        };
        let on = |at: usize, room: &Amounts| {
            let node = &self.inventory.node(at).total;
            groups(group, node, &self.parts_there(need, at, there), room)
        };
        let rooms = rooms_for(rooms, &within, need, (self.inventory.len(), on));
        choose_ranked(self.order(rank), &rooms, &within, need)
            .map(Placed::from)
            .map_err(|_| {
                let nodes = 0..self.inventory.len();
                let nodes = nodes.filter(|at| within.has(*at)).map(|at| {
                    let node = &self.inventory.node(at).total;
                    (node, self.parts_there(need, at, there))
                });
                short(need, group, &rooms, nodes)
            })
    }

    /// What of a node is there, as amounts; none where promises of any cores are in the way.
    fn amounts_over(&self, need: &Need, at: usize, (from, until): (Time, Time)) -> Option<Amounts> {
        match need.sharing {
            Sharing::Exclusive => {
                let idle = self.is_idle_over(at, from, until);
                idle.then(|| self.inventory.capacity(at))
            }
            Sharing::Shared => {
                let promises = self.overlapping(at, from, until);
                // Which cores those will have by then nobody knows.
                if from > self.now && promises.clone().any(|one| one.pin.is_none()) {
                    return None;
                }
                let begins = promises.map(|one| one.from.max(from));
                let free = |time| self.left_at(at, time);
                Some(begins.fold(free(from), |least, time| least.least(&free(time))))
            }
        }
    }

    /// What is free of a node at a time, pins being what they are.
    fn left_at(&self, at: usize, time: Time) -> Amounts {
        let (free, _) = self.given_back(at, time);
        let active = self
            .promises
            .of(at)
            .iter()
            .filter(|one| one.is_active(time));
        active.fold(free, |free, one| match &one.pin {
            Some(pin) => free.without(&pin.takes),
            None => free.without(&one.takes),
        })
    }

    /// Which cores and GPUs of a node are there.
    fn parts_there(&self, need: &Need, at: usize, there: There<'_>) -> NodeSet {
        let node = self.inventory.node(at);
        match (there, need.sharing) {
            (There::All(_), _) | (_, Sharing::Exclusive) => node.total.clone(),
            (There::Free, Sharing::Shared) => node.free.clone(),
            (There::Over(from, until), Sharing::Shared) => {
                let mut free = self.given_back_by(at, from);
                for pin in self
                    .overlapping(at, from, until)
                    .filter_map(|one| one.pin.as_ref())
                {
                    free.cores = free.cores.difference(&pin.set.cores);
                    free.gpus = free.gpus.difference(&pin.set.gpus);
                }
                free
            }
        }
    }

    /// What is free of a node by a time, by number, promises aside.
    fn given_back_by(&self, at: usize, time: Time) -> NodeSet {
        let node = self.inventory.node(at);
        let mut free = node.free.clone();
        let returns = self.returns[at].iter();
        for one in returns.take_while(|one| self.ends_at(one.until) <= time) {
            let set = self.ends.get(&one.key());
            if let Some(part) = set.and_then(|set| set.nodes.get(&node.rank)) {
                free.cores = free.cores.union(&part.cores);
                free.gpus = free.gpus.union(&part.gpus);
            }
        }
        free
    }

    fn overlapping(
        &self,
        at: usize,
        from: Time,
        until: Time,
    ) -> impl Iterator<Item = &Promise> + Clone {
        let promises = self.promises.of(at).iter();
        promises.filter(move |one| one.from < until && one.until > from)
    }

    /// What of each of its nodes a spot is promised by number: nothing where it asks for no sockets. Where
    /// that is not found it is all of the node.
    pub(super) fn pins(&self, spot: &Spot, from: Time, until: Time) -> BTreeMap<usize, Arc<Pin>> {
        let need = &spot.ask.need;
        let (Some(group), Sharing::Shared) = (&need.sockets, need.sharing) else {
            return BTreeMap::new();
        };
        let over = There::Over(from.max(self.now), until);
        let pin = |one: &Chosen| {
            let node = self.inventory.node(one.at);
            let there = self.parts_there(need, one.at, over);
            let found = pick(group, &node.total, &there, one.slots);
            let mut set = node.total.clone();
            if let Some((cores, gpus)) = found {
                (set.cores, set.gpus) = (cores, gpus);
                set.memory = need.room(one.slots).memory;
            }
            let room = room_of(&set);
            let memory = match node.total.memory {
                0 => 0,
                _ => set.memory,
            };
            let takes = Amounts { memory, ..room };
            (one.at, Arc::new(Pin { set, takes }))
        };
        spot.chosen.iter().map(pin).collect()
    }

    /// What is free of a node at a time to who starts now and takes any cores, beside all that is pinned
    /// by then.
    pub(super) fn beside_pins(&self, at: usize, time: Time) -> Amounts {
        let node = self.inventory.node(at);
        let promises = self.promises.of(at).iter();
        let mut pins = promises
            .take_while(|one| one.from <= time)
            .filter_map(|one| one.pin.as_ref());
        let Some(first) = pins.next() else {
            return self.free_at(at, time);
        };
        let free = pins.fold(beside(&node.free, first), |free, pin| beside(&free, pin));
        let left = self.left_at(at, time);
        Amounts {
            cores: left.cores.min(free.cores.len()),
            gpus: left.gpus.min(free.gpus.len()),
            ..left
        }
    }

    /// What is given of a node to who starts now, until then.
    pub(super) fn part(&self, ask: &Ask, chosen: &Chosen, until: Time) -> Option<NodeSet> {
        let need = &ask.need;
        let node = self.inventory.node(chosen.at);
        match (&need.sockets, need.sharing) {
            (_, Sharing::Exclusive) => Some(node.total.clone()),
            (Some(group), Sharing::Shared) if ask.want.back.is_none() => {
                let there = self.parts_there(need, chosen.at, There::Over(self.now, until));
                let (cores, gpus) = pick(group, &node.total, &there, chosen.slots)?;
                let memory = need.room(chosen.slots).memory.min(node.total.memory);
                Some(NodeSet {
                    cores,
                    gpus,
                    memory,
                    ..node.total.clone()
                })
            }
            (_, Sharing::Shared) => self.part_beside(need, node, chosen, until),
        }
    }

    fn part_beside(
        &self,
        need: &Need,
        node: &Node,
        chosen: &Chosen,
        until: Time,
    ) -> Option<NodeSet> {
        let meanwhile = self.overlapping(chosen.at, self.now, until);
        let mut pins = meanwhile.filter_map(|one| one.pin.as_ref()).peekable();
        if pins.peek().is_none() {
            return Some(part_of(node, need, chosen.slots));
        }
        let free = pins.fold(node.free.clone(), |free, pin| beside(&free, pin));
        let room = need.room(chosen.slots);
        let is_there = free.cores.len() >= room.cores && free.gpus.len() >= room.gpus;
        is_there.then(|| NodeSet {
            cores: free.cores.lowest(room.cores),
            gpus: free.gpus.lowest(room.gpus),
            ..part_of(node, need, chosen.slots)
        })
    }
}

/// What is not pinned.
fn beside(free: &NodeSet, pin: &Pin) -> NodeSet {
    NodeSet {
        cores: free.cores.difference(&pin.set.cores),
        gpus: free.gpus.difference(&pin.set.gpus),
        ..free.clone()
    }
}
