//! Questions for rows of jobs that are over: of each user one at a time.
//!
//! Part of `list`. The journal answers such questions one after the other, and each is of a portion, so
//! whoever asks for much waits for himself and nobody for long. Knows nothing of what is asked.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use eddy_broker::{Caller, Outbox, Query, Volatile};
use eddy_wire::services::job::ListRequest;

/// A question for rows.
pub(super) struct Scan {
    /// Who is told.
    pub caller: Caller,
    /// Whose turn it takes.
    pub user: u32,
    pub tag: u64,
    pub request: ListRequest,
}

/// Who asks for rows. Bounded by what clients may have unanswered.
#[derive(Default)]
pub(super) struct Scans {
    /// Users of whom one is under way, with those that wait for its answer.
    waiting: BTreeMap<u32, VecDeque<Scan>>,
    /// Whose those are that are under way.
    asked: BTreeMap<u64, u32>,
}

impl Scans {
    /// Asks it when it is its turn.
    pub(super) fn ask(&mut self, scan: Scan, out: &mut Outbox) {
        match self.waiting.get_mut(&scan.user) {
            Some(waiting) => waiting.push_back(scan),
            None => {
                self.waiting.insert(scan.user, VecDeque::new());
                self.send(scan, out);
            }
        }
    }

    /// One is answered, and the next of its user is asked.
    pub(super) fn answered(&mut self, tag: u64, out: &mut Outbox) {
        let Some(user) = self.asked.remove(&tag) else {
            return;
        };
        let waiting = self.waiting.get_mut(&user);
        match waiting.and_then(VecDeque::pop_front) {
            Some(next) => self.send(next, out),
            None => drop(self.waiting.remove(&user)),
        }
    }

    /// These are gone: what of theirs waits is not asked. By which tags that is.
    pub(super) fn drop_of(&mut self, callers: &RangeInclusive<Caller>) -> Vec<u64> {
        let mut dropped = Vec::new();
        for waiting in self.waiting.values_mut() {
            waiting.retain(|scan| {
                let stays = !callers.contains(&scan.caller);
                if !stays {
                    dropped.push(scan.tag);
                }
                stays
            });
        }
        dropped
    }

    fn send(&mut self, scan: Scan, out: &mut Outbox) {
        self.asked.insert(scan.tag, scan.user);
        let query = Query::Rows(Box::new(scan.request));
        out.volatile(Volatile::Query(scan.tag, query));
    }
}
