//! Where a pass is: what is done next, and with whom.
//!
//! Kept by [`super::Agenda`] between two slices of a pass. Turns may change meanwhile; who the pass is at is
//! followed.

use std::collections::VecDeque;

use eddy_wire::time::{Span, Time};

use super::agenda::News;
use super::ceiling::Ceiling;
use super::line::Line;

/// Where a pass is.
pub(super) struct Pass<K> {
    pub now: Time,
    pub stage: Stage<K>,
    pub reach: Reach<K>,
    pub heads: Heads,
    /// How many the window had no time for; between two plans, whoever was given no time.
    pub beyond: usize,
    /// How many of those who have waited too long have a reservation.
    pub late: usize,
}

/// Who is given a reservation, from the head.
pub(super) enum Heads {
    /// As many as the rules allow.
    Planned,
    /// Who is before all that have one, until all are planned again; then what there is news of.
    First(News),
    /// Nobody any more.
    Over,
}

/// Who is tried.
pub(super) enum Reach<K> {
    All,
    /// The last of them.
    UpTo(K),
    Nobody,
}

/// What is done next.
pub(super) enum Stage<K> {
    /// Drop the reservations of those behind this one, or all, the last first.
    Drop(Option<K>),
    /// Move reservations earlier, from the first after this.
    Compress(Option<K>),
    /// Move those to now that can be, from the first after this.
    Hasten(K),
    Due,
    Begin,
    /// From the head, after this one.
    Heads(Option<K>),
    Overdue(VecDeque<K>),
    Fill {
        after: Option<K>,
        ceiling: Ceiling,
    },
    FillShortest {
        after: Option<(Span, K)>,
        ceiling: Ceiling,
    },
    Over,
}

impl<K: Ord + Clone> Pass<K> {
    /// One that begins.
    pub fn new(now: Time, stage: Stage<K>, heads: Heads) -> Pass<K> {
        Pass {
            now,
            stage,
            reach: Reach::All,
            heads,
            beyond: 0,
            late: 0,
        }
    }

    /// Those in the line whom it names have other turns.
    pub fn follow(&mut self, turn: impl Fn(&K) -> K) {
        match &mut self.stage {
            Stage::Heads(Some(key))
            | Stage::Fill {
                after: Some(key), ..
            }
            | Stage::FillShortest {
                after: Some((_, key)),
                ..
            } => *key = turn(key),
            Stage::Overdue(keys) => keys.iter_mut().for_each(|key| *key = turn(key)),
            Stage::Drop(_)
            | Stage::Compress(_)
            | Stage::Hasten(_)
            | Stage::Due
            | Stage::Begin
            | Stage::Over
            | Stage::Heads(None)
            | Stage::Fill { after: None, .. }
            | Stage::FillShortest { after: None, .. } => {}
        }
        if let Reach::UpTo(key) = &mut self.reach {
            *key = turn(key);
        }
    }

    /// Those who have a reservation have other turns, and so has the one they are behind.
    pub fn follow_booked(&mut self, turn: impl Fn(&K) -> K) {
        match &mut self.stage {
            Stage::Drop(Some(key)) | Stage::Compress(Some(key)) | Stage::Hasten(key) => {
                *key = turn(key);
            }
            Stage::Drop(None)
            | Stage::Compress(None)
            | Stage::Due
            | Stage::Begin
            | Stage::Over
            | Stage::Heads(_)
            | Stage::Overdue(_)
            | Stage::Fill { .. }
            | Stage::FillShortest { .. } => {}
        }
    }

    /// What it was to look at, where it is not over.
    pub fn news(&self) -> News {
        match self.stage {
            Stage::Drop(None) => News::Void,
            Stage::Drop(Some(_))
            | Stage::Compress(_)
            | Stage::Hasten(_)
            | Stage::Due
            | Stage::Begin
            | Stage::Heads(_)
            | Stage::Overdue(_)
            | Stage::Fill { .. }
            | Stage::FillShortest { .. }
            | Stage::Over => News::Freed,
        }
    }

    /// One can be given no time: of those that a plan is made of it is none.
    pub fn cannot<V>(&mut self, line: &Line<K, V>) {
        match self.heads {
            Heads::Planned | Heads::Over => self.look_further(line),
            Heads::First(_) => self.passes_over(),
        }
    }

    /// One is given no time: between two plans few such are looked at.
    pub fn passes_over(&mut self) {
        if let Heads::First(_) = self.heads {
            self.beyond += 1;
        }
    }

    /// One more is tried than was said: one of those cannot run as things are.
    pub fn look_further<V>(&mut self, line: &Line<K, V>) {
        if let Reach::UpTo(last) = &self.reach {
            self.reach = match line.after(Some(last)) {
                Some(next) => Reach::UpTo(next.key.clone()),
                None => Reach::All,
            };
        }
    }

    pub fn is_beyond(&self, key: &K) -> bool {
        match &self.reach {
            Reach::All => false,
            Reach::UpTo(last) => key > last,
            Reach::Nobody => true,
        }
    }
}
