//! A rank at the other end of a link, and the pipe under that link.
//!
//! Used by [`super::Overlay`] only, for the rank above and each rank below.

use eddy_wire::id::Rank;
use eddy_wire::services::overlay::LinkState;
use eddy_wire::time::Time;
use eddy_wire::tree::Member;

use super::{PipeId, Place};
use crate::link::Link;

/// The pipe under a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pipe {
    /// Welcomed; given up when it is not open by then.
    Welcomed(PipeId, Time),
    /// Frames come and go.
    Open(PipeId),
    /// Gone, and why; the link is kept until then for the same life to go on.
    Broken(Time, String),
}

/// Whether the ends go on with what they had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The link begins with this pipe: nothing is behind it yet.
    New,
    /// It has been open since it began.
    Stands,
}

/// One neighbour.
#[derive(Debug)]
pub(super) struct Neighbour {
    pub rank: Rank,
    pub member: Member,
    pub link: Link,
    pub pipe: Pipe,
    pub standing: Standing,
}

impl Neighbour {
    /// The pipe, if there is one.
    pub fn pipe_id(&self) -> Option<PipeId> {
        match self.pipe {
            Pipe::Welcomed(pipe, _) | Pipe::Open(pipe) => Some(pipe),
            Pipe::Broken(..) => None,
        }
    }

    /// Whether letters can be given to the link: they go at once, or when the
    /// same life has resumed.
    pub fn stands(&self) -> bool {
        self.standing == Standing::Stands
    }

    /// Whether the pipe carries frames now.
    pub fn is_open(&self) -> bool {
        matches!(self.pipe, Pipe::Open(_))
    }

    /// When something is to be done about it without being asked.
    pub fn due(&self) -> Option<Time> {
        match &self.pipe {
            Pipe::Welcomed(_, until) | Pipe::Broken(until, _) => Some(*until),
            Pipe::Open(_) => self.link.due(),
        }
    }

    /// For people.
    pub fn state(&self, place: Place) -> LinkState {
        let (unacknowledged, sent, received) = self.link.counts();
        let state = match self.pipe {
            Pipe::Welcomed(..) => "knocking",
            Pipe::Open(_) => "open",
            Pipe::Broken(..) => "broken",
        };
        LinkState {
            peer: self.rank,
            is_up: place == Place::Up,
            state: state.to_owned(),
            unacknowledged,
            sent,
            received,
        }
    }
}
