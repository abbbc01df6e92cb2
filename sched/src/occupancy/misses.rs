//! What did not fit a moment ago: whoever asks for no less and for no shorter, of the same ranks or
//! of fewer, does not fit either, as long as nothing is given back.
//!
//! Many who wait ask for the same; only the first of them is looked at.

use eddy_wire::idset::Idset;
use eddy_wire::time::{Span, Time};

use super::Ask;
use crate::need::Need;

/// So many are kept: shapes of jobs that many have.
const MOST: usize = 16;

/// What did not fit at a time.
#[derive(Clone, Debug)]
pub(super) struct Misses {
    at: Time,
    misses: Vec<Miss>,
    /// What would fit in the nodes in service if nothing were held.
    possible: Vec<Miss>,
}

#[derive(Clone, Debug)]
struct Miss {
    need: Need,
    span: Span,
    /// Of these ranks; of all when `None`.
    ranks: Option<Idset>,
}

impl Default for Misses {
    fn default() -> Misses {
        Misses {
            at: Time(0),
            misses: Vec::new(),
            possible: Vec::new(),
        }
    }
}

impl Miss {
    fn of(ask: &Ask, span: Span) -> Miss {
        Miss {
            need: ask.need,
            span,
            ranks: ask.want.request.ranks.clone(),
        }
    }

    /// Whether that asks for no less and no shorter, of no other ranks.
    fn covers(&self, need: &Need, span: Span, ranks: Option<&Idset>) -> bool {
        let within = match (&self.ranks, ranks) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(own), Some(ranks)) => own == ranks || own.contains_all(ranks),
        };
        self.span <= span && need.asks_no_less(&self.need) && within
    }

    fn covers_miss(&self, other: &Miss) -> bool {
        self.covers(&other.need, other.span, other.ranks.as_ref())
    }
}

impl Misses {
    /// Something may fit that did not.
    pub fn clear(&mut self) {
        self.misses.clear();
    }

    /// Other nodes are there.
    pub fn forget(&mut self) {
        self.misses.clear();
        self.possible.clear();
    }

    /// Whether it would fit in the nodes in service if nothing were held, since more would; else that
    /// is to be `tried`.
    pub fn is_possible(&mut self, ask: &Ask, tried: impl FnOnce() -> bool) -> bool {
        let this = Miss::of(ask, Span::ZERO);
        if self.possible.iter().any(|one| this.covers_miss(one)) {
            return true;
        }
        if !tried() {
            return false;
        }
        self.possible.retain(|one| !one.covers_miss(&this));
        if self.possible.len() < MOST {
            self.possible.push(this);
        }
        true
    }

    /// Whether it cannot fit at this time, since less did not.
    pub fn has(&self, ask: &Ask, now: Time, span: Span) -> bool {
        if !ask.is_by_need() {
            return false;
        }
        let ranks = ask.want.request.ranks.as_ref();
        let mut misses = self.misses.iter();
        self.at == now && misses.any(|miss| miss.covers(&ask.need, span, ranks))
    }

    /// It does not fit.
    pub fn note(&mut self, ask: &Ask, now: Time, span: Span) {
        if self.at != now {
            self.misses.clear();
            self.at = now;
        }
        if !ask.is_by_need() {
            // Its members may fit one by one; cores come back where they do.
            return;
        }
        let this = Miss::of(ask, span);
        self.misses.retain(|miss| !this.covers_miss(miss));
        if self.misses.len() < MOST {
            self.misses.push(this);
        }
    }
}
