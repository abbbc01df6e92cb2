//! Until when an instance has what it has, as its planner is told.

use crate::idset::Idset;
use crate::time::Time;

/// Until when: all that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stay {
    /// When the last of its jobs end by its own limit; `None` is never.
    pub end: Option<Time>,
    /// Nodes that go before that.
    pub goes: Vec<Going>,
}

/// Nodes that an instance has until a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Going {
    /// Which.
    pub ranks: Idset,
    /// When the last jobs on them are to be over.
    pub at: Time,
}

/// What a job does where what it is given goes before its limit is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lasts {
    /// It begins only where it has all of its limit. Who has none has what there is.
    #[default]
    Limit,
    /// It takes what time is left.
    Left,
}
