//! One rank that follows, at work: what came is given to the pure overlay and
//! follower, what they say is done.
//!
//! Run by an agent, once for each rank it hosts. It has the rank's door, its
//! sockets for clients and shells, and its shells as processes. It decides
//! nothing, and nothing here waits for a disk or a peer.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use eddy_broker::ClientId;
use eddy_broker::tree::overlay::{Seat, Upstream};
use eddy_broker::tree::{
    Follower, FollowerInput, FollowerOutput, Overlay, OverlayInput, OverlayOutput,
};
use eddy_wire::access::Access;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::shell::FromShell;
use eddy_wire::time::Time;
use eddy_wire::tree::{InstanceFacts, Letter};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, Sleep};
use uuid::Uuid;

use super::hosts::Hosts;
use super::{AgentError, Common, io};
use crate::clients::{ARRIVALS_MAX, Admission, Arrived, Door, LinkId, listen};
use crate::clock::Clock;
use crate::config::Limits;
use crate::leader::peers::{Admitted, Peers};
use crate::leader::shells::{Ground, Shells, Tell};
use crate::link::{DOOR_SOCKET, Pipes};
use crate::rundir::{self, RankOf};

/// Inputs worked off in one turn at most.
const TURN_MAX: usize = 256;
/// With nothing to wake for, the timer is set this far ahead.
const FAR: Duration = Duration::from_secs(365 * 86_400);
/// An agent without a leader that hosts nobody ends after this time, as a shell
/// without a broker does: a leader that comes back starts its agents.
const ALONE_MAX: Duration = Duration::from_secs(60);

/// Which rank of which instance, and where.
#[derive(Clone, Debug)]
pub struct Post {
    /// The instance's id.
    pub instance: String,
    /// Which job of its parent that is, and in which attempt; none for a root.
    pub job: Option<(JobId, Attempt)>,
    /// Its rank, as the tree knows it.
    pub rank: Rank,
    /// Its rank, as its directories and its parts are named: another than
    /// `rank` for who only hosts beside the leader.
    pub node: u32,
    /// The leader's door.
    pub leader: String,
    /// Its state directory.
    pub statedir: PathBuf,
    /// Markers of the outer instances' parts that all of it is in; `None` is
    /// what this process has.
    pub marker: Option<String>,
}

impl Post {
    /// Whether it is this process's own rank, not one of an inner instance.
    fn is_own(&self) -> bool {
        self.marker.is_none()
    }

    /// Which rank that is, as its run directory is named.
    pub fn rank_of(&self) -> RankOf<'_> {
        RankOf {
            instance: &self.instance,
            job: self.job,
            rank: self.node,
        }
    }
}

/// Why a rank ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to.
    Asked,
    /// It had no leader for too long.
    Alone,
}

/// One rank.
pub struct Following {
    post: Post,
    common: Rc<Common>,
    rundir: PathBuf,
    clock: Clock,
    overlay: Overlay,
    pipes: Pipes,
    follower: Follower,
    peers: Peers,
    hosts: Hosts,
    /// There once the leader has said what shells must know.
    shells: Option<Shells>,
    tell: Tell,
    arrived: mpsc::Receiver<Arrived>,
    links: mpsc::Receiver<OverlayInput>,
    deaths: mpsc::UnboundedReceiver<Epoch>,
    /// Instances that are hosted no more.
    unhosted: mpsc::UnboundedReceiver<String>,
    /// What is to be given on, in order.
    frames: VecDeque<OverlayInput>,
    inputs: VecDeque<FollowerInput>,
    wakes: BTreeSet<Time>,
    /// Lives of shells that are dead while their connection is still read: what
    /// they said last counts first.
    dead: HashSet<Epoch>,
    /// Since when there is no way up.
    alone: Option<Instant>,
}

/// What the loop waited for.
enum Event {
    Stop,
    Death(Epoch),
    Unhosted(String),
    Link(OverlayInput),
    Arrived(Arrived),
    Wake,
    Alone,
}

impl Following {
    /// Makes its directories and listens; it knocks once it runs. Inside a
    /// `LocalSet`.
    pub fn begin(post: Post, common: Rc<Common>) -> Result<Following, AgentError> {
        let runtime = common.runtime.as_deref();
        let rundir = rundir::place_rank(runtime, &post.statedir, post.rank_of())?;
        rundir::make(&post.statedir, &rundir)?;
        let seat = Seat {
            instance: post.instance.clone(),
            job: post.job,
            rank: post.rank,
            life: Uuid::new_v4(),
            door: rundir.join(DOOR_SOCKET).to_string_lossy().into_owned(),
            leader: post.leader.clone(),
            fanout: common.fanout,
        };
        let (events, links) = mpsc::channel(ARRIVALS_MAX);
        let (arrivals, arrived) = mpsc::channel(ARRIVALS_MAX);
        let (died, deaths) = mpsc::unbounded_channel();
        let (ended, unhosted) = mpsc::unbounded_channel();
        let transport = common.transport.into();
        let mut pipes = Pipes::new(transport, &rundir, common.owner, events);
        pipes.listen().map_err(io("open the door"))?;
        // Who else may come is learned from the leader.
        let admission = Admission::own(common.owner, &post.statedir, &rundir);
        listen(&rundir, &admission, &arrivals).map_err(io("listen"))?;
        Ok(Following {
            hosts: Hosts::new(&post, Rc::clone(&common), ended),
            overlay: Overlay::new(seat.clone()),
            follower: Follower::new(seat),
            pipes,
            peers: Peers::new(admission, Limits::default(), arrivals),
            shells: None,
            tell: Rc::new(move |epoch| {
                // The rank is gone only when its loop is.
                let _ = died.send(epoch);
            }),
            clock: Clock::start(Time(0)),
            post,
            common,
            rundir,
            arrived,
            links,
            deaths,
            unhosted,
            frames: VecDeque::new(),
            inputs: VecDeque::new(),
            wakes: BTreeSet::new(),
            dead: HashSet::new(),
            alone: Some(Instant::now()),
        })
    }

    /// Follows until it is told to end.
    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) -> End {
        tracing::info!(instance = self.post.instance, rank = self.post.node, uri = %rundir::uri(&self.rundir), "a rank begins");
        let mut wake = Box::pin(tokio::time::sleep(FAR));
        self.frames.push_back(OverlayInput::Tick);
        let end = loop {
            self.settle();
            self.pipes.flush();
            self.peers.flush();
            self.set_wake(wake.as_mut());
            match self.next(wake.as_mut(), &mut stop).await {
                Event::Stop => break End::Asked,
                Event::Alone if self.hosts.is_empty() => break End::Alone,
                // Whoever is hosted here may have its own leader.
                Event::Alone => self.alone = Some(Instant::now()),
                event => self.event(event),
            }
            self.drain();
        };
        self.shells.iter_mut().for_each(Shells::leave);
        self.hosts.end().await;
        self.peers.flush();
        drop(self.pipes);
        rundir::remove(&self.rundir);
        end
    }

    async fn next(&mut self, wake: Pin<&mut Sleep>, stop: &mut oneshot::Receiver<()>) -> Event {
        let alone = self
            .alone
            .filter(|_| self.post.is_own())
            .map(|since| since + ALONE_MAX);
        tokio::select! {
            biased;
            // An end of the sender is a word, too.
            _ = stop => Event::Stop,
            Some(epoch) = self.deaths.recv() => Event::Death(epoch),
            Some(instance) = self.unhosted.recv() => Event::Unhosted(instance),
            Some(input) = self.links.recv() => Event::Link(input),
            Some(arrived) = self.arrived.recv() => Event::Arrived(arrived),
            () = wake, if !self.wakes.is_empty() => Event::Wake,
            () = tokio::time::sleep_until(alone.unwrap_or_else(Instant::now)), if alone.is_some() => Event::Alone,
        }
    }

    /// Takes what else is there, up to the bound of a turn.
    fn drain(&mut self) {
        for _ in 0..TURN_MAX {
            self.settle();
            let event = match self.links.try_recv() {
                Ok(input) => Event::Link(input),
                Err(_) => match self.arrived.try_recv() {
                    Ok(arrived) => Event::Arrived(arrived),
                    Err(_) => break,
                },
            };
            self.event(event);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Stop | Event::Alone => {}
            Event::Link(input) => self.frames.push_back(input),
            Event::Arrived(arrived) => self.arrived(arrived),
            Event::Death(epoch) => {
                if let Some(shells) = &mut self.shells {
                    shells.dead(epoch);
                }
                if self.peers.has_shell(epoch) {
                    self.dead.insert(epoch);
                } else {
                    self.inputs.push_back(FollowerInput::ShellDead(epoch));
                }
            }
            Event::Unhosted(instance) => {
                self.inputs.push_back(FollowerInput::Unhosted(instance));
            }
            Event::Wake => {
                let now = self.clock.now();
                self.wakes.retain(|at| *at > now);
                self.frames.push_back(OverlayInput::Tick);
            }
        }
    }

    fn arrived(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Connection(Door::Local, stream, uid) => self.peers.add_client(stream, uid),
            Arrived::Connection(Door::Shell, stream, _) => self.peers.add_shell(stream),
            Arrived::Message(id, message, permit) => {
                if let Admitted::Message(message) = self.peers.admit(id, message) {
                    self.inputs.push_back(FollowerInput::Message(id, message));
                    self.settle();
                }
                drop(permit);
            }
            Arrived::Gone(id) => self.close_client(id),
            Arrived::Word(id, word) => self.word(id, word),
            Arrived::LinkGone(id) => self.close_shell(id),
        }
    }

    fn word(&mut self, id: LinkId, word: FromShell) {
        if let FromShell::Hello { epoch, pid, .. } = &word {
            tracing::info!(epoch = epoch.0, pid, "a shell says hello");
            if let Some(earlier) = self.peers.hello(id, *epoch) {
                self.peers.remove_shell(earlier);
                self.inputs.push_back(FollowerInput::ShellAway(*epoch));
            }
        }
        match self.peers.epoch_of(id) {
            Some(epoch) => self.inputs.push_back(FollowerInput::Shell(epoch, word)),
            None => {
                tracing::warn!(link = id.0, "a shell spoke before its hello and is closed");
                self.close_shell(id);
            }
        }
    }

    /// A shell's connection is over.
    fn close_shell(&mut self, id: LinkId) {
        let Some(epoch) = self.peers.remove_shell(id) else {
            return;
        };
        self.inputs.push_back(FollowerInput::ShellAway(epoch));
        if self.dead.remove(&epoch) {
            self.inputs.push_back(FollowerInput::ShellDead(epoch));
        }
    }

    /// Gives on what there is until nothing comes of it any more.
    fn settle(&mut self) {
        let (mut overlaid, mut followed) = (Vec::new(), Vec::new());
        loop {
            let now = self.clock.now();
            if let Some(input) = self.frames.pop_front() {
                self.overlay.handle(now, input, &mut overlaid);
                overlaid.drain(..).for_each(|output| self.overlay(output));
            } else if let Some(input) = self.inputs.pop_front() {
                self.follower.handle(now, input, &mut followed);
                followed.drain(..).for_each(|output| self.act(output));
            } else {
                return;
            }
        }
    }

    fn overlay(&mut self, output: OverlayOutput) {
        match self.pipes.obey(output) {
            None => {}
            Some(OverlayOutput::Deliver(letter)) => self.deliver(letter),
            Some(OverlayOutput::Upstream(upstream)) => self.upstream(upstream),
            Some(OverlayOutput::Wake(at)) => drop(self.wakes.insert(at)),
            // The leader is told of these by the overlay itself.
            Some(OverlayOutput::Reached(..) | OverlayOutput::Lost(..)) => {}
            Some(
                OverlayOutput::Answer(..)
                | OverlayOutput::Dial(..)
                | OverlayOutput::Frame(..)
                | OverlayOutput::Close(..),
            ) => unreachable!("pipes keep what is theirs"),
        }
    }

    fn deliver(&mut self, letter: Letter) {
        tracing::trace!(?letter, "letter");
        self.inputs.push_back(FollowerInput::Letter(letter));
    }

    fn upstream(&mut self, upstream: Upstream) {
        match &upstream {
            Upstream::Linked(rank) => {
                tracing::info!(rank = rank.0, "the way up stands");
                self.alone = None;
            }
            Upstream::Alone(why) => match self.alone {
                Some(_) => tracing::info!("there is no way to the leader yet: {why}"),
                None => {
                    tracing::warn!("there is no way to the leader any more: {why}");
                    self.alone = Some(Instant::now());
                }
            },
        }
        self.inputs.push_back(FollowerInput::Upstream(upstream));
    }

    fn act(&mut self, output: FollowerOutput) {
        match output {
            FollowerOutput::Reply(reply) => {
                if let Some(closed) = self.peers.reply(reply) {
                    self.close_client(closed);
                }
            }
            FollowerOutput::CloseClient(client) => drop(self.peers.remove_client(client)),
            FollowerOutput::Shell(epoch, word) => {
                if let Some(link) = self.peers.tell_shell(epoch, word) {
                    self.close_shell(link);
                }
            }
            FollowerOutput::CloseShell(epoch) => self.part_with(epoch),
            FollowerOutput::LaunchShell(epoch) => match &mut self.shells {
                Some(shells) => shells.launch(epoch),
                None => tracing::error!(epoch = epoch.0, "a shell before the facts"),
            },
            FollowerOutput::CheckShell(epoch) => match &mut self.shells {
                Some(shells) => shells.check(epoch),
                None => tracing::error!(epoch = epoch.0, "a shell before the facts"),
            },
            FollowerOutput::EndShell(epoch) => match &mut self.shells {
                Some(shells) => shells.end(epoch),
                None => tracing::error!(epoch = epoch.0, "a shell before the facts"),
            },
            FollowerOutput::Facts(facts) => self.learn(&facts),
            FollowerOutput::Admitted(access) => self.admit(&access),
            FollowerOutput::Limits(limits) => self.peers.set_limits(limits.into()),
            FollowerOutput::Host(order) => self.hosts.host(*order),
            FollowerOutput::Unhost(instance) => self.hosts.unhost(instance),
            FollowerOutput::Send(letter) => self.frames.push_back(OverlayInput::Send(letter)),
            FollowerOutput::AskLinks(caller) => {
                let links = self.overlay.links();
                self.inputs.push_back(FollowerInput::Links(caller, links));
            }
        }
    }

    /// The follower has taken leave of this connection: only a death that waited
    /// for its end is told.
    fn part_with(&mut self, epoch: Epoch) {
        if let Some(link) = self.peers.link_of(epoch) {
            self.peers.remove_shell(link);
        }
        if self.dead.remove(&epoch) {
            self.inputs.push_back(FollowerInput::ShellDead(epoch));
        }
    }

    fn admit(&mut self, access: &Access) {
        for client in self.peers.readmit(access).unwrap_or_default() {
            self.close_client(client);
        }
    }

    fn close_client(&mut self, client: ClientId) {
        if self.peers.remove_client(client) {
            self.inputs.push_back(FollowerInput::Gone(client));
        }
    }

    fn learn(&mut self, facts: &InstanceFacts) {
        self.admit(&facts.access);
        if let Some(limits) = facts.limits {
            self.peers.set_limits(limits.into());
        }
        let ground = Ground {
            statedir: self.post.statedir.clone(),
            rundir: self.rundir.clone(),
            instance: self.post.instance.clone(),
            mock: facts.mock,
            spool_bytes: facts.spool_bytes,
            nofile: self.common.nofile,
            ranks: Idset::one(self.post.node),
            marker: self.post.marker.clone(),
            streams: None,
        };
        match &mut self.shells {
            Some(shells) => shells.set_ground(ground),
            None => self.shells = Some(Shells::new(ground, Rc::clone(&self.tell))),
        }
    }

    /// Sets the timer to the first wake-up that was asked for.
    fn set_wake(&mut self, mut wake: Pin<&mut Sleep>) {
        let Some(at) = self.wakes.first() else { return };
        let after = Duration::from_micros((*at - self.clock.now()).0.max(0) as u64);
        let at = Instant::now() + after.min(FAR);
        let late = wake.deadline().saturating_duration_since(at);
        let early = at.saturating_duration_since(wake.deadline());
        // Broker time and the runtime's clock differ by microseconds each time.
        if late > Duration::from_millis(1) || early > Duration::from_millis(1) {
            wake.as_mut().reset(at);
        }
    }
}
