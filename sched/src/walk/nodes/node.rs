//! What is free of one node from when to when.
//!
//! A short list: only what runs and is reserved on this node is in it.

use eddy_wire::time::Time;

use super::{Hold, NodesNeed, Service};
use crate::amounts::Amounts;

/// One node, over time.
#[derive(Clone, Debug)]
pub struct Node {
    pub capacity: Amounts,
    pub service: Service,
    /// From this time on there is so much; never empty, times rise.
    free: Vec<(Time, Amounts)>,
}

impl Node {
    pub fn new(capacity: Amounts) -> Node {
        Node {
            capacity,
            service: Service::In,
            free: vec![(Time(i64::MIN), capacity)],
        }
    }

    /// What of it would be given to the need if it is free from `from` until `until`.
    pub fn gives(&self, need: &NodesNeed, from: Time, until: Time) -> Option<Amounts> {
        match self.service {
            Service::In => {}
            Service::Out => return None,
        }
        if !self.capacity.holds(&need.each) {
            return None;
        }
        let given = match need.hold {
            Hold::Shared => need.each,
            Hold::Whole => self.capacity,
        };
        let steps = self.free[self.at(from)..].iter();
        let mut within = steps.take_while(|(at, _)| *at < until);
        within.all(|(_, free)| free.holds(&given)).then_some(given)
    }

    /// What is free of it at a time.
    pub fn free(&self, at: Time) -> Amounts {
        self.free[self.at(at)].1
    }

    /// Adds to what is free.
    pub fn add(&mut self, from: Time, until: Time, amounts: Amounts) {
        if from >= until {
            return;
        }
        let first = self.cut(from);
        let last = match until.0 {
            i64::MAX => self.free.len(),
            _ => self.cut(until),
        };
        for (_, free) in &mut self.free[first..last] {
            *free += amounts;
        }
        self.free.dedup_by(|later, before| later.1 == before.1);
    }

    /// Forgets what was before this time.
    pub fn forget(&mut self, before: Time) {
        let at = self.at(before);
        self.free.drain(..at);
        self.free[0].0 = Time(i64::MIN);
    }

    fn at(&self, time: Time) -> usize {
        let after = self.free.partition_point(|(at, _)| *at <= time);
        after.saturating_sub(1)
    }

    fn cut(&mut self, time: Time) -> usize {
        let at = self.at(time);
        let (begins, free) = self.free[at];
        if begins == time {
            return at;
        }
        self.free.insert(at + 1, (time, free));
        at + 1
    }
}
