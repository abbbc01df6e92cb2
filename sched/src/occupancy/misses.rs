//! What did not fit a moment ago: whoever asks for no less and for no shorter does
//! not fit either, as long as nothing is given back.
//!
//! Many who wait ask for the same; only the first of them is looked at.

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

#[derive(Clone, Copy, Debug)]
struct Miss {
    need: Need,
    span: Span,
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
        let need = ask.need;
        Miss { need, span }
    }

    /// Whether another asks for no less and no shorter.
    fn covers(&self, other: &Miss) -> bool {
        self.span <= other.span && other.need.asks_no_less(&self.need)
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
        if ask.want.request.ranks.is_none() && self.possible.iter().any(|one| this.covers(one)) {
            return true;
        }
        if !tried() {
            return false;
        }
        self.possible.retain(|one| !one.covers(&this));
        if self.possible.len() < MOST {
            self.possible.push(this);
        }
        true
    }

    /// Whether it cannot fit at this time, since less did not.
    pub fn has(&self, ask: &Ask, now: Time, span: Span) -> bool {
        let this = Miss::of(ask, span);
        self.at == now && self.misses.iter().any(|miss| miss.covers(&this))
    }

    /// It does not fit. What is bound to ranks says nothing of others.
    pub fn note(&mut self, ask: &Ask, now: Time, span: Span) {
        if ask.want.request.ranks.is_some() {
            return;
        }
        if self.at != now {
            self.misses.clear();
            self.at = now;
        }
        let this = Miss::of(ask, span);
        self.misses.retain(|miss| !this.covers(miss));
        if self.misses.len() < MOST {
            self.misses.push(this);
        }
    }
}
