//! What is free all the way to a time, where promises begin before it.
//!
//! Between two promises that begin, what is free of a node only grows, as jobs
//! end. So the least that is free up to a time is what is free now or at one of
//! the beginnings before it: one layer for each, made from the one before and
//! the nodes of that promise. Made when a search needs them.

use eddy_wire::jobspec::Sharing;
use eddy_wire::resource_set::ResourceSet;

use super::Occupancy;
use crate::rooms::{Room as Amounts, Rooms};

/// The layers made so far, by the bookings in the order of their beginnings.
#[derive(Clone, Debug, Default)]
pub(super) struct Layers(Vec<Layer>);

#[derive(Clone, Debug)]
struct Layer {
    free: Rooms,
    idle: Rooms,
}

impl Layers {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Those from this booking on are not true any more.
    pub(super) fn cut(&mut self, from: usize) {
        self.0.truncate(from);
    }

    pub(super) fn rooms(&self, at: usize, sharing: Sharing) -> &Rooms {
        match sharing {
            Sharing::Shared => &self.0[at].free,
            Sharing::Exclusive => &self.0[at].idle,
        }
    }

    /// Cores that are free in all below this booking.
    pub(super) fn cores(&self, at: usize) -> u64 {
        self.0[at].free.totals().cores
    }
}

impl Occupancy {
    /// Makes the layers up to that of this booking.
    pub(super) fn build(&mut self, last: usize) {
        for at in self.layers.0.len()..=last {
            let mut layer = match at.checked_sub(1) {
                Some(before) => self.layers.0[before].clone(),
                None => Layer {
                    free: self.inventory.free().clone(),
                    idle: self.inventory.idle().clone(),
                },
            };
            let from = self.bookings[at].from.max(self.now);
            for node in self.bookings[at].spot.places() {
                let there = layer.free.room(node).least(&self.beside_pins(node, from));
                let is_up = layer.free.has(node);
                layer.free.set(node, is_up.then_some(there));
                layer.idle.set(node, None);
            }
            self.layers.0.push(layer);
        }
    }

    /// What is held of these nodes changed: in all layers, and when each may be of use.
    pub(super) fn refresh(&mut self, set: &ResourceSet) {
        if self.layers.0.is_empty() && self.firsts.is_empty() {
            return;
        }
        for &rank in set.nodes.keys() {
            if let Some(node) = self.inventory.place_of(rank) {
                self.firsts.change(node);
                self.refresh_node(node);
            }
        }
    }

    fn refresh_node(&mut self, node: usize) {
        let mut free = self
            .inventory
            .free()
            .has(node)
            .then(|| self.inventory.free().room(node));
        let idle = self.inventory.idle();
        let mut whole = idle.has(node).then(|| idle.room(node));
        for at in 0..self.layers.0.len() {
            let booked = &self.bookings[at];
            if booked.has(node) {
                let there = self.beside_pins(node, booked.from.max(self.now));
                free = free.map(|free: Amounts| free.least(&there));
                whole = None;
            }
            let layer = &mut self.layers.0[at];
            layer.free.set(node, free);
            layer.idle.set(node, whole);
        }
    }
}
