//! The leader's end of the tree: its overlay, and the head between it and the broker.
//!
//! What the overlay delivers goes to the head, what the head makes of it to the broker, and what
//! the broker wants done elsewhere back as letters.

use eddy_broker::tree::overlay::Seat;
use eddy_broker::tree::{Head, OverlayInput, Routed, head::HeadOutput};
use eddy_broker::{Arrival, ClientId, Effect};
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::link::Hello;
use eddy_wire::message::{Message, Type};
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::InstanceFacts;

use super::links::tell_client;
use super::{HEAD_CLIENTS, Leader};
use crate::broken::Rule;
use crate::client::OWNER;
use crate::door::{Door, Said};
use crate::instance::Instance;
use crate::nature::{AgentTurn, Delay, Happening, Life, Nature, Parcel, PostTurn};
use crate::pipe::{PipeId, Post, Side};

/// The leader's end of the tree.
pub(super) struct Tree {
    pub(super) door: Door,
    head: Head,
}

impl Leader {
    /// Its overlay's door, if its ranks are apart.
    pub fn door(&mut self) -> Option<&mut Door> {
        self.tree.as_mut().map(|tree| &mut tree.door)
    }

    /// Its overlay's door, to ask it things.
    pub fn door_ref(&self) -> Option<&Door> {
        self.tree.as_ref().map(|tree| &tree.door)
    }

    /// The books on its ranks.
    pub fn head(&self) -> Option<&Head> {
        self.tree.as_ref().map(|tree| &tree.head)
    }
}

impl Instance {
    /// The leader's end of the tree, if its ranks are apart.
    pub(super) fn tree(&self, nature: &mut Nature, life: Life, epoch: Epoch) -> Option<Tree> {
        let fanout = self.fanout?;
        let of = self.nested.as_ref().map(|nested| nested.child);
        let seat = Seat {
            instance: self.id.name(),
            job: of.map(|of| (of.job, of.attempt)),
            rank: Rank(0),
            life: nature.uuid(),
            door: self.door_name(Rank(0)),
            leader: String::new(),
            fanout,
        };
        let facts = InstanceFacts {
            owner: OWNER,
            path: self.settings.place.path.clone(),
            ..InstanceFacts::default()
        };
        let local = self.settings.local.clone();
        let recorded = nature.judge(self.id).recorded().inventory.ranks();
        let ranks = match recorded.is_empty() {
            true => self.settings.inventory.ranks(),
            false => recorded,
        };
        let mut door = Door::new(Post::Leader(self.id, life), seat);
        door.set_ranks(ranks);
        Some(Tree {
            door,
            head: Head::new(epoch, local, facts, HEAD_CLIENTS),
        })
    }

    /// The instance has these ranks from now on.
    pub(super) fn set_ranks(&mut self, ranks: &Idset) {
        let tree = self.leader.as_mut().and_then(|leader| leader.tree.as_mut());
        if let Some(tree) = tree {
            tree.door.set_ranks(ranks.clone());
            tree.head.set_ranks(ranks);
        }
    }

    /// Where others knock at a rank of it.
    pub fn door_name(&self, rank: Rank) -> String {
        format!("{}/{rank}", self.id.name())
    }

    /// Sends an effect to the rank it is for; given back when it is to be done here.
    pub(super) fn route(&mut self, nature: &mut Nature, effect: Effect) -> Option<Effect> {
        let machine = self.machine();
        let Some(tree) = self.leader.as_mut().and_then(|leader| leader.tree.as_mut()) else {
            return Some(effect);
        };
        if let Effect::Host(rank, _) = &effect
            && self.settings.local.contains(rank.0)
        {
            let attends = Happening::Agent(machine, AgentTurn::Attends(self.id));
            nature.later(Delay::Process, attends);
        }
        match tree.head.route(effect) {
            Routed::Here(effect) => Some(effect),
            Routed::Sent(letters) => {
                for letter in letters {
                    self.overlay(nature, OverlayInput::Send(letter));
                }
                None
            }
        }
    }

    /// One turn of the overlay.
    pub fn overlay(&mut self, nature: &mut Nature, input: OverlayInput) {
        let now = self.leader_now(nature);
        if let OverlayInput::Send(letter) = &input {
            nature.tree.sent(self.id, letter);
        }
        let Some(tree) = self.leader.as_mut().and_then(|leader| leader.tree.as_mut()) else {
            return;
        };
        let said = tree.door.take(nature, now, input);
        self.heard(nature, now, said);
    }

    /// What the overlay had for the leader.
    fn heard(&mut self, nature: &mut Nature, now: Time, said: Vec<Said>) {
        for word in said {
            let Some(tree) = self.leader.as_mut().and_then(|leader| leader.tree.as_mut()) else {
                return;
            };
            let output = match word {
                Said::Letter(letter) => {
                    nature.tree.came(self.id, Rank(0), &letter);
                    tree.head.letter(now, letter)
                }
                Said::Reached(rank, member) => tree.head.reached(now, rank, &member),
                Said::Lost(rank, why) => tree.head.lost(now, rank, &why),
                Said::Upstream(_) => continue,
            };
            self.headed(nature, output);
        }
    }

    fn headed(&mut self, nature: &mut Nature, output: HeadOutput) {
        let now = self.leader_now(nature);
        for letter in output.letters {
            self.overlay(nature, OverlayInput::Send(letter));
        }
        for reply in output.replies {
            tell_client(nature, self.id, reply);
        }
        for arrival in output.arrivals.into_iter().chain(output.own) {
            self.arrive(nature, arrival);
        }
        if let (Some(at), Some(leader)) = (output.wake, &self.leader) {
            let due = nature.now.after((at - now).max(Span::ZERO));
            let ticks = Happening::Post(Post::Leader(self.id, leader.life), PostTurn::Ticks(at));
            nature.queue.push(due, ticks);
        }
    }

    /// Somebody knocks at its door.
    pub fn knocked(&mut self, nature: &mut Nature, pipe: PipeId, hello: Hello) {
        let now = self.leader_now(nature);
        if let Some(door) = self.leader.as_mut().and_then(Leader::door) {
            let said = door.knocked(nature, now, pipe, hello);
            self.heard(nature, now, said);
        }
    }

    /// Something came over a link.
    pub fn link_brought(&mut self, nature: &mut Nature, pipe: PipeId, side: Side, parcel: Parcel) {
        let now = self.leader_now(nature);
        if let Some(door) = self.leader.as_mut().and_then(Leader::door) {
            let said = door.arrived(nature, now, (pipe, side), parcel);
            self.heard(nature, now, said);
        }
    }

    /// A link's pipe is gone.
    pub fn link_ended(&mut self, nature: &mut Nature, pipe: PipeId, side: Side) {
        nature.pipes.close(pipe, side);
        let now = self.leader_now(nature);
        if let Some(door) = self.leader.as_mut().and_then(Leader::door) {
            let said = door.ended(nature, now, pipe, side);
            self.heard(nature, now, said);
        }
    }

    /// A wake-up of the overlay is due.
    pub fn overlay_ticks(&mut self, nature: &mut Nature, post: Post, at: Time) {
        let left = at - self.leader_now(nature);
        if left.0 > 0 {
            let again = nature.now.after(left.max(Span::millis(1)));
            let ticks = Happening::Post(post, PostTurn::Ticks(at));
            nature.queue.push(again, ticks);
        } else {
            self.overlay(nature, OverlayInput::Tick);
            let now = self.leader_now(nature);
            let tree = self.leader.as_mut().and_then(|leader| leader.tree.as_mut());
            if let Some(output) = tree.map(|tree| tree.head.tick(now)) {
                self.headed(nature, output);
            }
        }
    }

    /// Something is heard of a shell of the leader's own node.
    pub(super) fn own_shell(&mut self, nature: &mut Nature, arrival: Arrival) {
        let now = self.leader_now(nature);
        let tree = self.leader.as_mut().and_then(|leader| leader.tree.as_mut());
        match tree.filter(|_| !nature.breaks(Rule::AttendantUnheard)) {
            None => self.arrive(nature, arrival),
            Some(tree) => {
                let output = tree.head.own_shell(now, arrival);
                self.headed(nature, output);
            }
        }
    }

    /// A client of the leader's node asks.
    pub(super) fn request(&mut self, nature: &mut Nature, client: ClientId, message: Message) {
        let tree = self.leader.as_mut().and_then(|leader| leader.tree.as_mut());
        let Some(tree) = tree else {
            return self.arrive(nature, Arrival::Message(client, message));
        };
        debug_assert!(matches!(message.kind, Type::Request | Type::Cancel));
        match tree.head.request(client, message) {
            Ok(output) => self.headed(nature, output),
            Err(message) => self.arrive(nature, Arrival::Message(client, message)),
        }
    }

    /// A client of the leader's node is gone.
    pub(super) fn client_gone(&mut self, nature: &mut Nature, client: ClientId) {
        if let Some(tree) = self.leader.as_mut().and_then(|leader| leader.tree.as_mut()) {
            for letter in tree.head.gone(client) {
                self.overlay(nature, OverlayInput::Send(letter));
            }
        }
        self.arrive(nature, Arrival::Gone(client));
    }
}
