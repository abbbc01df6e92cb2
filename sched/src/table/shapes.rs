//! What those at the table ask for, told apart only as far as a placement can: each shape has a number.
//!
//! Kept by the table as jobs come and go, so that a round finds out what fits nowhere by one look for
//! all who ask for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::time::Time;

use crate::need::Need;
use crate::occupancy::{Ask, Now, Occupancy};

/// So many shapes are looked at when a round begins; jobs of more are offered room one by one.
const TRIED_MAX: usize = 1024;

/// The number of a shape, never used again.
pub(super) type Shape = u64;

/// What fits nowhere in a round, and what may fit: room only shrinks in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stuck {
    stuck: BTreeSet<Shape>,
    /// All others, where they were looked at.
    open: Option<BTreeSet<Shape>>,
}

impl Stuck {
    pub fn contains(&self, shape: &Shape) -> bool {
        self.stuck.contains(shape)
    }

    pub fn is_empty(&self) -> bool {
        self.stuck.is_empty()
    }

    /// All that may fit, where that is known.
    pub fn open(&self) -> Option<&BTreeSet<Shape>> {
        self.open.as_ref()
    }

    /// It fits nowhere any more.
    pub fn shuts(&mut self, shape: Shape) {
        self.stuck.insert(shape);
        if let Some(open) = &mut self.open {
            open.remove(&shape);
        }
    }

    /// Somebody asks for it, perhaps the first.
    pub fn asked(&mut self, shape: Shape) {
        if let Some(open) = self.open.as_mut().filter(|_| !self.stuck.contains(&shape)) {
            open.insert(shape);
        }
    }
}

/// All shapes of those who wait.
#[derive(Clone, Debug, Default)]
pub(super) struct Shapes {
    by_need: BTreeMap<Need, Known>,
    next: Shape,
}

#[derive(Clone, Debug)]
struct Known {
    shape: Shape,
    /// One of those that ask for it.
    ask: Arc<Ask>,
    /// How many do.
    count: u64,
}

impl Shapes {
    /// One more asks for this; none where what it asks for is nobody else's.
    pub fn enter(&mut self, ask: &Arc<Ask>) -> Option<Shape> {
        let need = ask.shape()?;
        let next = self.next;
        let known = self.by_need.entry(need).or_insert_with(|| Known {
            shape: next,
            ask: Arc::clone(ask),
            count: 0,
        });
        known.count += 1;
        let shape = known.shape;
        if shape == next {
            self.next += 1;
        }
        Some(shape)
    }

    /// One less does.
    pub fn leave(&mut self, ask: &Ask) {
        let Some(need) = ask.shape() else {
            return;
        };
        if let Some(known) = self.by_need.get_mut(&need) {
            known.count -= 1;
            if known.count == 0 {
                self.by_need.remove(&need);
            }
        }
    }

    /// What fits nowhere now, however short it were.
    pub fn stuck(&self, room: &mut Occupancy, now: Time) -> Stuck {
        let tried = self.by_need.values().take(TRIED_MAX);
        let (stuck, open): (Vec<&Known>, Vec<&Known>) =
            tried.partition(|known| match room.fits_briefly(&known.ask, now) {
                Now::NoRoom => true,
                // Whoever can never be is to be told so.
                Now::Fits(_) | Now::Never => false,
            });
        let shapes = |known: Vec<&Known>| known.into_iter().map(|one| one.shape).collect();
        Stuck {
            stuck: shapes(stuck),
            open: (self.by_need.len() <= TRIED_MAX).then(|| shapes(open)),
        }
    }
}
