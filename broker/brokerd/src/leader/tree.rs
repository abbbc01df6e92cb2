//! The leader's end of the tree of ranks: pipes, overlay and head, between the
//! loop and the processes at other nodes.
//!
//! Used by the leader's loop. What comes of it waits here as arrivals, in order,
//! until the loop takes it. It decides nothing, and is silent until the leader's
//! start is durable, so that no two leaders speak under one epoch.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

use eddy_broker::tree::head::HeadOutput;
use eddy_broker::tree::overlay::Seat;
use eddy_broker::tree::{Head, Overlay, OverlayInput, OverlayOutput, Routed};
use eddy_broker::{Arrival, ClientId, Effect, Reply};
use eddy_wire::access::Access;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::message::Message;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::overlay::{LinkState, RankLink, Reach};
use eddy_wire::shell::FromShell;
use eddy_wire::time::Time;
use eddy_wire::tree::{ClientLimits, InstanceFacts, Letter};
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::clients::ARRIVALS_MAX;
use crate::config::Config;
use crate::link::{DOOR_SOCKET, Pipes};

/// Clients at other ranks are numbered from here up: more than any process
/// admits itself.
const CLIENTS_FROM: u64 = 1 << 48;

/// What a leader's end of the tree is made of.
pub struct TreeParts<'a> {
    /// The instance's id.
    pub instance: &'a str,
    /// Which job of its parent it is, and in which attempt; none for a root.
    pub job: Option<(JobId, Attempt)>,
    /// Run directory of the leader.
    pub rundir: &'a Path,
    /// User id of the owner.
    pub owner: u32,
    /// The epoch that this leader is about to record.
    pub epoch: Epoch,
    /// Ranks whose shell is the leader's own.
    pub local: Idset,
    /// What ranks are told of the instance.
    pub facts: InstanceFacts,
    /// What the instance has.
    pub inventory: Arc<ResourceSet>,
    /// In force.
    pub config: &'a Config,
}

/// The leader's end.
pub struct Tree {
    overlay: Overlay,
    pipes: Pipes,
    head: Head,
    inputs: mpsc::Receiver<OverlayInput>,
    wakes: BTreeSet<Time>,
    local: Idset,
    inventory: Arc<ResourceSet>,
    company: Company,
    voice: Voice,
    arrivals: VecDeque<Arrival>,
    replies: VecDeque<Reply>,
    /// Shells at reached ranks that have said hello and are not known to be dead.
    shells: BTreeSet<Epoch>,
}

/// Whether anything can be for another rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Company {
    /// All ranks are the leader's own.
    Alone,
    Others,
}

/// Whether knocks are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Voice {
    Silent,
    Speaking,
}

impl Tree {
    /// Opens the door if there are other ranks; nobody is answered before [`Tree::speak`].
    pub fn open(parts: TreeParts<'_>) -> io::Result<Tree> {
        let door = parts.rundir.join(DOOR_SOCKET);
        let seat = Seat {
            instance: parts.instance.to_owned(),
            job: parts.job,
            rank: Rank(0),
            life: Uuid::new_v4(),
            door: door.to_string_lossy().into_owned(),
            leader: String::new(),
            fanout: parts.config.instance.fanout,
        };
        let (events, inputs) = mpsc::channel(ARRIVALS_MAX);
        let transport = parts.config.rank.transport.into();
        let mut pipes = Pipes::new(transport, parts.rundir, parts.owner, events);
        let company = company(&parts.inventory, &parts.local);
        // Alone there is nobody who would knock.
        if company == Company::Others {
            pipes.listen()?;
        }
        let mut overlay = Overlay::new(seat);
        overlay.set_ranks(parts.inventory.ranks());
        let mut head = Head::new(parts.epoch, parts.local.clone(), parts.facts, CLIENTS_FROM);
        head.set_ranks(&parts.inventory.ranks());
        Ok(Tree {
            overlay,
            pipes,
            head,
            inputs,
            wakes: BTreeSet::new(),
            local: parts.local,
            inventory: parts.inventory,
            company,
            voice: Voice::Silent,
            arrivals: VecDeque::new(),
            replies: VecDeque::new(),
            shells: BTreeSet::new(),
        })
    }

    /// The leader's start is durable: knocks are answered from now on.
    pub fn speak(&mut self) {
        self.voice = Voice::Speaking;
    }

    /// What the instance has changed.
    pub fn set_inventory(&mut self, inventory: &Arc<ResourceSet>) {
        self.inventory = Arc::clone(inventory);
        self.overlay.set_ranks(inventory.ranks());
        self.head.set_ranks(&inventory.ranks());
        if company(inventory, &self.local) == Company::Others {
            // Once in company always: shells of ranks that went may remain.
            if std::mem::replace(&mut self.company, Company::Others) == Company::Alone
                && let Err(error) = self.pipes.listen()
            {
                tracing::error!("there is no door for the ranks that came: {error}");
            }
        }
    }

    /// Ranks of other nodes that the instance has.
    pub fn others(&self) -> Idset {
        self.inventory.ranks().difference(&self.local)
    }

    /// Whether that rank is on the leader's node.
    pub fn is_local(&self, rank: Rank) -> bool {
        self.local.contains(rank.0)
    }

    /// These may connect to the instance from now on: the other ranks hear of it.
    pub fn admit(&mut self, now: Time, access: &Access) {
        let came = self.head.admit(access);
        let letters = self.keep(came);
        self.send(now, letters);
    }

    /// Clients are held to these from now on: the other ranks hear of it.
    pub fn limit(&mut self, now: Time, limits: ClientLimits) {
        let came = self.head.limit(limits);
        let letters = self.keep(came);
        self.send(now, letters);
    }

    /// Whether nothing can be for another rank.
    pub fn is_alone(&self) -> bool {
        self.company == Company::Alone
    }

    /// What a pipe brings next. It may be dropped and asked again.
    pub async fn next(&mut self) -> OverlayInput {
        if self.voice == Voice::Speaking
            && let Some(input) = self.inputs.recv().await
        {
            return input;
        }
        std::future::pending().await
    }

    /// The same, if it is there.
    pub fn try_next(&mut self) -> Option<OverlayInput> {
        match self.voice {
            Voice::Speaking => self.inputs.try_recv().ok(),
            Voice::Silent => None,
        }
    }

    /// When [`Tree::tick`] is due.
    pub fn wake(&self) -> Option<Time> {
        self.wakes.first().copied()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Time) {
        if self.wakes.first().is_some_and(|at| *at <= now) {
            self.wakes.retain(|at| *at > now);
            self.take(now, OverlayInput::Tick);
            let came = self.head.tick(now);
            let letters = self.keep(came);
            self.send(now, letters);
        }
    }

    /// Something is heard of a shell of this node: it is an arrival now, or when the agent of this
    /// node has done what is to be done before.
    pub fn own_shell(&mut self, now: Time, arrival: Arrival) {
        let came = self.head.own_shell(now, arrival);
        let letters = self.keep(came);
        self.send(now, letters);
    }

    /// Takes what a pipe brought.
    pub fn take(&mut self, now: Time, input: OverlayInput) {
        let mut inputs = VecDeque::from([input]);
        let mut outputs = Vec::new();
        while let Some(input) = inputs.pop_front() {
            self.overlay.handle(now, input, &mut outputs);
            for output in outputs.drain(..) {
                let letters = self.output(now, output);
                inputs.extend(letters.into_iter().map(OverlayInput::Send));
            }
        }
    }

    fn output(&mut self, now: Time, output: OverlayOutput) -> Vec<Letter> {
        let came = match self.pipes.obey(output) {
            None => return Vec::new(),
            Some(OverlayOutput::Deliver(letter)) => {
                tracing::trace!(?letter, "letter");
                self.head.letter(now, letter)
            }
            Some(OverlayOutput::Reached(rank, member)) => {
                tracing::info!(rank = rank.0, "a rank is reached");
                self.head.reached(now, rank, &member)
            }
            Some(OverlayOutput::Lost(rank, why)) => {
                tracing::warn!(rank = rank.0, "a rank is not reached any more: {why}");
                let came = self.head.lost(now, rank, &why);
                for arrival in &came.arrivals {
                    // Nobody there could tell of its death.
                    if let Arrival::ShellAway(epoch) = arrival {
                        self.shells.remove(epoch);
                    }
                }
                came
            }
            Some(OverlayOutput::Wake(at)) => {
                self.wakes.insert(at);
                return Vec::new();
            }
            // There is no way up from here.
            Some(OverlayOutput::Upstream(_)) => return Vec::new(),
            Some(
                OverlayOutput::Answer(..)
                | OverlayOutput::Dial(..)
                | OverlayOutput::Frame(..)
                | OverlayOutput::Close(..),
            ) => unreachable!("pipes keep what is theirs"),
        };
        self.keep(came)
    }

    /// Keeps what is for the loop; the letters to send.
    fn keep(&mut self, came: HeadOutput) -> Vec<Letter> {
        for arrival in &came.arrivals {
            match arrival {
                Arrival::Shell(epoch, FromShell::Hello { .. }) => drop(self.shells.insert(*epoch)),
                Arrival::ShellDead(epoch) => drop(self.shells.remove(epoch)),
                _ => {}
            }
        }
        self.arrivals.extend(came.arrivals);
        self.arrivals.extend(came.own);
        self.wakes.extend(came.wake);
        self.replies.extend(came.replies);
        came.letters
    }

    fn send(&mut self, now: Time, letters: Vec<Letter>) {
        for letter in letters {
            self.take(now, OverlayInput::Send(letter));
        }
    }

    /// Sends an effect to the rank it is for; gives it back when that is here.
    pub fn route(&mut self, now: Time, effect: Effect) -> Option<Effect> {
        match self.head.route(effect) {
            Routed::Here(effect) => Some(effect),
            Routed::Sent(letters) => {
                self.send(now, letters);
                None
            }
        }
    }

    /// Sends a request or cancel of a client of this node to the rank it is for;
    /// gives it back when that is here.
    pub fn request(&mut self, now: Time, client: ClientId, message: Message) -> Option<Message> {
        match self.head.request(client, message) {
            Err(message) => Some(message),
            Ok(came) => {
                let letters = self.keep(came);
                self.send(now, letters);
                None
            }
        }
    }

    /// A client of this node is gone.
    pub fn gone(&mut self, now: Time, client: ClientId) {
        let letters = self.head.gone(client);
        self.send(now, letters);
    }

    /// The next arrival for the broker.
    pub fn arrival(&mut self) -> Option<Arrival> {
        self.arrivals.pop_front()
    }

    /// The next answer for a client of this node.
    pub fn reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Writes what was put since the last time.
    pub fn flush(&mut self) {
        self.pipes.flush();
    }

    /// How many shells of reached ranks are not known to be dead.
    pub fn shells(&self) -> usize {
        self.shells.len()
    }

    /// The leader's own links.
    pub fn links(&self) -> Vec<LinkState> {
        self.overlay.links()
    }

    /// Every rank in the tree.
    pub fn status(&self) -> Vec<RankLink> {
        let nodes = self.inventory.nodes.iter();
        let ranks: Vec<(Rank, String)> = nodes
            .map(|(rank, node)| (*rank, node.host.to_string()))
            .collect();
        let mut links = self.head.status(&ranks);
        for link in &mut links {
            if link.state == Reach::Full {
                link.parent = self.overlay.parent_of(link.rank);
            }
        }
        links
    }
}

fn company(inventory: &ResourceSet, local: &Idset) -> Company {
    match local.contains_all(&inventory.ranks()) {
        true => Company::Alone,
        false => Company::Others,
    }
}
