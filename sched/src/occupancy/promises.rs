//! What is promised, by node: the same that [`super::Occupancy`] has by time.
//!
//! Kept so that a search that looks at a node need not look at every promise.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::time::Time;

use super::sockets::Pin;
use crate::rooms::Room as Amounts;

/// A part of a node that is promised.
#[derive(Clone, Debug)]
pub(super) struct Promise {
    pub from: Time,
    pub until: Time,
    /// The number of the booking.
    pub of: u64,
    /// To whom.
    pub job: JobId,
    /// What it is to others in a search over time.
    pub takes: Amounts,
    /// What it is by number, where it is of sockets.
    pub pin: Option<Arc<Pin>>,
}

impl Promise {
    pub fn is_active(&self, at: Time) -> bool {
        self.from <= at && at < self.until
    }

    fn key(&self) -> (Time, u64) {
        (self.from, self.of)
    }
}

/// Promises by the place of their node, in the order of their beginnings.
#[derive(Clone, Debug, Default)]
pub(super) struct Promises(Vec<Vec<Promise>>);

impl Promises {
    /// None, on so many nodes.
    pub fn none(nodes: usize) -> Promises {
        Promises(vec![Vec::new(); nodes])
    }

    pub fn of(&self, node: usize) -> &[Promise] {
        &self.0[node]
    }

    pub fn add(&mut self, node: usize, promise: Promise) {
        let here = &mut self.0[node];
        let at = here.partition_point(|one| one.key() < promise.key());
        here.insert(at, promise);
    }

    pub fn remove(&mut self, node: usize, from: Time, of: u64) {
        let here = &mut self.0[node];
        if let Ok(at) = here.binary_search_by_key(&(from, of), Promise::key) {
            here.remove(at);
        }
    }
}
