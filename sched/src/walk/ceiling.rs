//! How much is free from now for a span, the longer the less: what lets a walk
//! pass over jobs without asking the room for each.
//!
//! Filled by a room, read by the line of waiting jobs. It is a bound: what it
//! admits may still not fit.

use eddy_wire::time::{Span, Time};

use crate::timeline::Timeline;

/// Steps that are kept; what is beyond the last counts as the last, which is more.
const STEPS: usize = 64;

/// The most that is free from now for a span, by span.
#[derive(Clone, Debug, Default)]
pub struct Ceiling {
    /// For spans up to this one, so much; spans rise, amounts fall.
    steps: Vec<(Span, u64)>,
}

impl Ceiling {
    /// Says what is free on a timeline from now on.
    pub fn fill(&mut self, free: &Timeline, now: Time) {
        self.steps.clear();
        let mut amount = free.at(now);
        while !self.is_full() {
            let most = u64::try_from(amount).unwrap_or(0);
            match free.below(now, amount) {
                Some(less) => {
                    self.step(less - now, most);
                    amount = free.at(less);
                }
                None => self.step(Span(i64::MAX), most),
            }
        }
    }

    /// For spans longer than those said before, up to this one, there is so much.
    pub fn step(&mut self, until: Span, most: u64) {
        match self.is_full() {
            true => {}
            false if self.steps.len() + 1 == STEPS => self.steps.push((Span(i64::MAX), most)),
            false => self.steps.push((until, most)),
        }
    }

    /// Whether all spans are spoken for.
    pub fn is_full(&self) -> bool {
        matches!(self.steps.last(), Some((Span(i64::MAX), _)))
    }

    /// Whether so little for so long may fit.
    pub fn admits(&self, least: u64, span: Span) -> bool {
        let step = self.steps.iter().find(|(until, _)| span <= *until);
        step.is_some_and(|&(_, most)| least <= most)
    }
}
