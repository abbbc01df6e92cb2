//! The leader's end of the tree: turns letters into arrivals and effects into
//! letters, so that modules see clients and shells and never a tree.
//!
//! Between [`crate::Broker`] and [`super::Overlay`], used by both drivers. It
//! gives each reached rank a tenure; what comes of an older one is dropped.

use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::message::Message;
use eddy_wire::services::overlay::RankLink;
use eddy_wire::time::Time;
use eddy_wire::tree::{InstanceFacts, Letter, Member};

use crate::broker::Arrival;
use crate::effect::{ClientId, Effect};

/// Where an effect goes.
#[derive(Debug)]
pub enum Routed {
    /// It is the driver's own to do, on this node.
    Here(Effect),
    /// It was turned into letters (none if that rank is not reached: what
    /// matters is told again in its next tenure).
    Sent(Vec<Letter>),
}

/// What comes of an input.
#[derive(Debug, Default)]
pub struct HeadOutput {
    /// For the broker, in order.
    pub arrivals: Vec<Arrival>,
    /// For the overlay.
    pub letters: Vec<Letter>,
    /// For clients of this node: answers to requests that named another rank.
    pub replies: Vec<crate::effect::Reply>,
}

/// The leader's books on its ranks.
pub struct Head {
    facts: InstanceFacts,
}

impl Head {
    /// Nobody reached yet. `local` are the ranks whose shell is the driver's
    /// own; `clients` gives the numbers of clients at other ranks: from there up.
    pub fn new(_epoch: Epoch, _local: Idset, facts: InstanceFacts, _clients: u64) -> Head {
        Head { facts }
    }

    /// A rank is reached, by the overlay's word.
    pub fn reached(&mut self, _now: Time, _rank: Rank, _member: &Member) -> HeadOutput {
        let _ = &self.facts;
        HeadOutput::default()
    }

    /// A rank is not reached any more: its clients are gone, its shells away,
    /// calls to it fail by its name.
    pub fn lost(&mut self, _now: Time, _rank: Rank, _why: &str) -> HeadOutput {
        HeadOutput::default()
    }

    /// A letter for the leader.
    pub fn letter(&mut self, _now: Time, _letter: Letter) -> HeadOutput {
        HeadOutput::default()
    }

    /// A request of a client of this node for another rank; `None` gives it back:
    /// it is for the leader itself.
    pub fn request(&mut self, _client: ClientId, message: Message) -> Result<HeadOutput, Message> {
        Err(message)
    }

    /// A client of this node is gone.
    pub fn gone(&mut self, _client: ClientId) {}

    /// Sends an effect on its way: shells of other ranks and clients there by
    /// letter, all else is the driver's.
    pub fn route(&mut self, effect: Effect) -> Routed {
        Routed::Here(effect)
    }

    /// Every rank of the inventory in the tree.
    pub fn status(&self, _ranks: &[(Rank, String)]) -> Vec<RankLink> {
        Vec::new()
    }
}
