//! The agent of a machine: the process that hosts the ranks of instances there whose leaders are
//! elsewhere.
//!
//! Mimics brokerd's agent: it keeps nothing over its death but what its shells keep. What it does
//! is in `world/agents.rs`.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::tree::Follower;
use eddy_broker::tree::overlay::{Seat, Upstream};
use eddy_wire::id::Rank;

use crate::desk::Desk;
use crate::door::Door;
use crate::nature::{InstanceId, Life};
use crate::nested::Within;
use crate::pipe::{PipeId, Post, Side};

/// The agent of one machine.
#[derive(Default)]
pub struct Agent {
    /// The ranks it hosts; none while it is dead.
    pub hosted: BTreeMap<InstanceId, Hosted>,
    /// Whether it runs.
    pub course: Running,
    /// Instances whose leaders are there, and for which it hosts.
    pub attends: BTreeSet<InstanceId>,
}

/// Whether a process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Running {
    /// It does.
    Yes,
    /// It does not.
    #[default]
    No,
}

/// One rank that it hosts.
pub struct Hosted {
    /// Where others find it.
    pub post: Post,
    /// The rank.
    pub rank: Rank,
    /// Its overlay.
    pub door: Door,
    /// What it does.
    pub follower: Follower,
    /// The connections of its clients and shells.
    pub desk: Desk,
    /// What its shells run within.
    pub within: Within,
    /// Whether it has a way to its leader.
    pub upstream: Upstream,
}

impl Hosted {
    /// A rank that has heard of nobody yet.
    pub fn new(post: Post, seat: Seat, within: Within) -> Hosted {
        Hosted {
            post,
            rank: seat.rank,
            door: Door::new(post, seat.clone()),
            follower: Follower::new(seat),
            desk: Desk::default(),
            within,
            upstream: Upstream::Alone("it has just begun".to_owned()),
        }
    }

    /// All its connections, with its end of each.
    pub fn pipes(&self) -> Vec<(PipeId, Side)> {
        let own = self.desk.pipes().into_iter();
        let own = own.map(|pipe| (pipe, Side::Server));
        own.chain(self.door.pipes()).collect()
    }
}

/// Which hosting this is: the number in its post.
pub fn hosting(post: Post) -> Option<(usize, Life, InstanceId)> {
    match post {
        Post::Hosted(machine, life, instance) => Some((machine, life, instance)),
        Post::Leader(..) => None,
    }
}
