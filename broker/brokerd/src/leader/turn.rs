//! The leader's loop: what came is given to the broker, what the broker says is
//! done.
//!
//! One turn takes all that is there (bounded), hands one batch to the journal,
//! plans, and writes once to each connection. Nothing here
//! waits for a disk or a peer.

mod configure;
mod ending;
mod finish;
mod listings;
mod shells;
mod waking;

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::pin::Pin;
use std::time::{Duration, Instant};

use eddy_broker::tree::OverlayInput;
use eddy_broker::{
    Arrival, Broker, Caller, ClientId, Disk, Effect, Exit, Output, Phase, Query, Reply,
};
use eddy_wire::event::Kind;
use eddy_wire::id::{Epoch, JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::message::{Message, Target, Type};
use eddy_wire::time::Time;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::time::Sleep;

use super::channel::Heard;
use super::child::{Child, Come};
use super::filters::Filters;
use super::left::Lefts;
use super::nodes::Nodes;
use super::own::{self, Commits};
use super::peers::{Admitted, Peers};
use super::planner::Planning;
use super::ready::Announcement;
use super::reload::Configuring;
use super::shells::Shells;
use super::store::Store;
use super::tree::Tree;
use super::{Inner, Ready, Starter};
use crate::clients::{Admission, Arrivals, Arrived, Door};
use crate::clock::Clock;
use crate::config::Config;
use crate::journal::Committed;
use listings::Listings;

/// Arrivals worked off in one turn at most, so that commits and answers are not
/// held up by an endless stream of them.
const TURN_MAX: usize = 256;
/// With nothing to wake for, the timer is set this far ahead.
const FAR: Duration = Duration::from_secs(365 * 86_400);

/// What a leader is made of.
pub struct Parts {
    /// Replayed, not resumed.
    pub broker: Broker,
    /// Broker time.
    pub clock: Clock,
    /// In force.
    pub config: Config,
    /// Who may connect.
    pub admission: Admission,
    /// How it may change.
    pub configuring: Configuring,
    /// To the journal.
    pub store: Store,
    /// To the planner.
    pub planner: Planning,
    /// The filters of submissions as processes.
    pub filters: Filters,
    /// Who reads what instances left.
    pub lefts: Lefts,
    /// The shells as processes.
    pub shells: Shells,
    /// The other ranks.
    pub tree: Tree,
    /// Their agents as processes.
    pub nodes: Nodes,
    /// Its part as a child, if it is one.
    pub child: Option<Child>,
    /// For connections to send to.
    pub arrivals: Arrivals,
    /// What they sent.
    pub arrived: Receiver<Arrived>,
    /// What threads sent.
    pub inner: UnboundedReceiver<Inner>,
}

/// A leader at work.
pub struct Leader {
    broker: Broker,
    clock: Clock,
    config: Config,
    configuring: Configuring,
    store: Store,
    planner: Planning,
    filters: Filters,
    lefts: Lefts,
    shells: Shells,
    tree: Tree,
    nodes: Nodes,
    child: Option<Child>,
    /// The record of an inventory whose ranks do not have their agents yet.
    defined: Option<Seq>,
    peers: Peers,
    arrived: Receiver<Arrived>,
    inner: UnboundedReceiver<Inner>,
    /// Arrivals that came of what was done, before those that come from outside.
    own: VecDeque<Arrival>,
    wakes: BTreeSet<Time>,
    hold: Pin<Box<Sleep>>,
    holding: Holding,
    commits: Commits,
    /// Lives of shells that are dead while their connection is still read: what
    /// they said last counts first.
    dead: HashSet<Epoch>,
    course: Course,
    announcement: Option<Announcement>,
    listings: Listings,
}

/// Whether the timer of the batch that waits is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holding {
    Nothing,
    Batch,
}

/// Whether the loop goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Leading,
    Ended(i32),
}

/// What the loop waited for.
enum Event {
    Inner(Inner),
    Arrived(Arrived),
    Tree(OverlayInput),
    Parent(Heard),
    Wake,
    Hold,
    /// Nothing else is there: those who ask for listings have their turn.
    Idle,
}

impl Leader {
    /// A leader that did not resume yet.
    pub fn new(parts: Parts) -> Leader {
        let peers = Peers::new(
            parts.admission,
            parts.config.instance.limits,
            parts.arrivals,
        );
        Leader {
            broker: parts.broker,
            clock: parts.clock,
            config: parts.config,
            configuring: parts.configuring,
            store: parts.store,
            planner: parts.planner,
            filters: parts.filters,
            lefts: parts.lefts,
            shells: parts.shells,
            tree: parts.tree,
            nodes: parts.nodes,
            child: parts.child,
            defined: None,
            peers,
            arrived: parts.arrived,
            inner: parts.inner,
            own: VecDeque::new(),
            wakes: BTreeSet::new(),
            hold: Box::pin(tokio::time::sleep(FAR)),
            holding: Holding::Nothing,
            commits: Commits::default(),
            dead: HashSet::new(),
            course: Course::Leading,
            announcement: None,
            listings: Listings::default(),
        }
    }

    /// Has whoever started this leader told when a job submitted now would find
    /// the shells of these ranks there, or a moment later all the same; and these notes then.
    pub fn announce_by(&mut self, ready: Ready, uri: String, ranks: Idset, notes: Vec<String>) {
        let now = self.clock.now();
        let config = &self.config.instance;
        let announcement = Announcement::new(ready, uri, ranks, config, now).with_notes(notes);
        self.wakes.insert(announcement.until());
        self.announcement = Some(announcement);
    }

    fn announce(&mut self, now: Time) {
        let is_due = |announcement: &mut Announcement| announcement.is_due(now);
        if let Some(announcement) = self.announcement.take_if(is_due) {
            announcement.tell();
        }
    }

    /// Does what replay left owed; the journal ends at `last`. The memo is of the configuration that is in force, where
    /// that is another than recorded.
    pub fn resume(&mut self, last: Seq, memo: Option<&Map<String, Value>>) {
        let now = self.clock.now();
        self.commits.behind(last);
        let output = self.broker.resume(now, last, memo);
        self.take(output);
        self.settle();
        self.nodes.want(&self.tree.others());
        self.finish_turn();
    }

    /// Submits what this instance is started for, or waits for its end. `last` is
    /// the highest job number that replay found.
    pub fn begin_program(&mut self, last: JobId) {
        let come = self.child.as_mut().map(|child| child.begin(last));
        self.come(come.unwrap_or_default());
        self.settle();
        self.finish_turn();
    }

    /// Leads until the end; the process's exit code.
    pub async fn run(mut self) -> i32 {
        let mut wake = Box::pin(tokio::time::sleep(FAR));
        let code = loop {
            if let Course::Ended(code) = self.course {
                break code;
            }
            self.set_wake(wake.as_mut());
            let event = self.next(wake.as_mut()).await;
            self.event(event);
            self.drain();
            self.list_late();
            self.finish_turn();
        };
        if code != 0 {
            return code;
        }
        let code = self.child.as_ref().map_or(0, Child::code);
        self.end().await;
        code
    }

    async fn next(&mut self, wake: Pin<&mut Sleep>) -> Event {
        let is_waking = self.first_wake().is_some();
        tokio::select! {
            biased;
            Some(inner) = self.inner.recv() => Event::Inner(inner),
            Some(arrived) = self.arrived.recv() => Event::Arrived(arrived),
            input = self.tree.next() => Event::Tree(input),
            heard = heard(&mut self.child) => Event::Parent(heard),
            () = wake, if is_waking => Event::Wake,
            () = self.hold.as_mut(), if self.holding == Holding::Batch => Event::Hold,
            () = self.listings.turn(), if !self.listings.is_empty() => Event::Idle,
        }
    }

    /// Takes what else is there, up to the bound of a turn.
    fn drain(&mut self) {
        for _ in 0..TURN_MAX {
            let event = match self.inner.try_recv() {
                Ok(inner) => Event::Inner(inner),
                Err(_) => match self.arrived.try_recv() {
                    Ok(arrived) => Event::Arrived(arrived),
                    Err(_) => match self.tree.try_next() {
                        Some(input) => Event::Tree(input),
                        None => break,
                    },
                },
            };
            self.event(event);
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Inner(inner) => self.inner(inner),
            Event::Arrived(arrived) => self.arrived(arrived),
            Event::Tree(input) => {
                let now = self.clock.now();
                self.tree.take(now, input);
            }
            Event::Parent(heard) => {
                let now = self.clock.now();
                let come = self.child.as_mut().map(|child| child.take(now, heard));
                self.come(come.unwrap_or_default());
            }
            Event::Wake => {
                let now = self.clock.now();
                self.tree.tick(now);
                while self.wakes.first().is_some_and(|at| *at <= now) {
                    self.wakes.pop_first();
                    if self.wakes.first().is_none_or(|at| *at > now) {
                        self.own.push_back(Arrival::Tick);
                    }
                }
            }
            // What it is for is seen at the end of the turn.
            Event::Hold => self.holding = Holding::Nothing,
            Event::Idle => self.list(),
        }
        self.settle();
    }

    fn inner(&mut self, inner: Inner) {
        match inner {
            Inner::Planned(slice) => {
                self.planner.answered(&slice);
                self.handle(Arrival::Planned(slice.outcome));
            }
            Inner::Answer(tag, answer) => self.handle(Arrival::Answer(tag, answer)),
            Inner::Committed(committed) => self.committed(committed),
            Inner::ShellDead(epoch) => self.shell_dead(epoch),
            Inner::Candidate(to, found) => self.candidate(to, found),
            Inner::Spools(listed) => self.store.remove_spools(listed),
            Inner::Stop => self.handle(Arrival::Stop),
        }
    }

    fn committed(&mut self, committed: Committed) {
        match committed {
            Committed::Durable {
                seq,
                batches,
                purged,
                unmarked,
                took,
                ..
            } => {
                tracing::trace!(seq, ?took, "durable");
                self.store.committed(batches, purged, unmarked);
                self.commits.add(Seq(seq), self.clock.now());
                self.handle(Arrival::Durable(Seq(seq)));
                // The first record of this leader is its start.
                self.tree.speak();
                if self.defined.take_if(|define| define.0 <= seq).is_some() {
                    self.nodes.want(&self.tree.others());
                }
            }
            Committed::DiskFull { dir, free, waiting } => {
                // Without numbers: it is told for as long as that lasts, and they are of its beginning.
                let text = format!(
                    "no space left on the disk of {}; records wait until there is room",
                    dir.display()
                );
                tracing::error!(free, waiting, "{text}");
                self.handle(Arrival::Disk(Disk::Full(text)));
            }
            Committed::SpaceBack { free } => {
                tracing::info!(free, "there is room on the disk again");
                self.handle(Arrival::Disk(Disk::Room));
            }
            Committed::Fatal(error) => {
                tracing::error!("the journal cannot go on: {}", super::chain(&error));
                // At once: nothing that is not durable may be told any more.
                self.end_fatally();
            }
        }
    }

    /// Ends the process in the midst of all: it is to be started again.
    fn end_fatally(&self) -> ! {
        match &self.child {
            Some(_) => Starter::Shell.end_fatally(),
            None => Starter::Other.end_fatally(),
        }
    }

    fn arrived(&mut self, arrived: Arrived) {
        match arrived {
            Arrived::Connection(Door::Local, stream, uid) => self.peers.add_client(stream, uid),
            Arrived::Connection(Door::Shell, stream, _) => self.peers.add_shell(stream),
            Arrived::Message(id, message, permit) => {
                if let Admitted::Message(message) = self.peers.admit(id, message) {
                    self.message(id, message);
                }
                drop(permit);
            }
            Arrived::Gone(id) => self.close_client(id),
            Arrived::Word(id, word) => self.word(id, word),
            Arrived::LinkGone(id) => self.close_shell(id),
        }
    }

    /// A client's message: for another rank, or for this one, where a few
    /// services are the loop's own, since only it knows their answers.
    fn message(&mut self, id: ClientId, message: Message) {
        tracing::trace!(
            client = id.0,
            topic = message.topic,
            tag = message.matchtag,
            "message"
        );
        if let Some(message) = self.listings.put(id, message) {
            self.serve(id, message);
        }
    }

    fn serve(&mut self, id: ClientId, message: Message) {
        let is_here = message.kind == Type::Request && message.target == Target::Service;
        let message = match is_here {
            true => message,
            false => match self.tree.request(self.clock.now(), id, message) {
                Some(message) => message,
                None => return,
            },
        };
        let to = Caller {
            client: id,
            matchtag: message.matchtag,
        };
        if self.configures(&message, to) {
            return;
        }
        match own::answer(&message, to, &self.commits, &self.config, &self.tree) {
            Some(reply) => self.act(Effect::Reply(reply)),
            None => self.handle(Arrival::Message(id, message)),
        }
    }

    fn close_client(&mut self, id: ClientId) {
        if self.peers.remove_client(id) {
            self.tree.gone(self.clock.now(), id);
            self.own.push_back(Arrival::Gone(id));
        }
    }

    fn settle(&mut self) {
        loop {
            if let Some(arrival) = self.own.pop_front() {
                self.handle(arrival);
            } else if let Some(arrival) = self.tree.arrival() {
                self.afar(arrival);
            } else if let Some(reply) = self.tree.reply() {
                self.answer_here(reply);
            } else {
                return;
            }
        }
    }

    /// What a client of another rank or a shell said.
    fn afar(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Message(id, message) => self.message(id, message),
            Arrival::Shell(epoch, _) if self.broker.phase() == Phase::Stopped => {
                self.dismiss(epoch);
            }
            arrival => self.handle(arrival),
        }
    }

    /// Does what comes of being a child.
    fn come(&mut self, come: Vec<Come>) {
        for one in come {
            match one {
                Come::Admitted(access) => self.admit(&access),
                Come::Arrival(arrival) => self.own.push_back(arrival),
                Come::Message(id, message) => self.message(id, message),
                Come::Gone(id) => {
                    self.tree.gone(self.clock.now(), id);
                    self.own.push_back(Arrival::Gone(id));
                }
                Come::End => self.own.push_back(Arrival::Stop),
            }
        }
    }

    fn answer_here(&mut self, reply: Reply) {
        let client = reply.to.client;
        if let Some(child) = self.child.as_mut().filter(|_| client.is_own()) {
            let come = child.reply(self.clock.now(), reply);
            return self.come(come);
        }
        if let Some(closed) = self.peers.reply(reply) {
            self.close_client(closed);
        }
    }

    fn handle(&mut self, arrival: Arrival) {
        let now = self.clock.now();
        if let (Some(announcement), Arrival::Shell(epoch, word)) =
            (&mut self.announcement, &arrival)
        {
            announcement.word(*epoch, word);
        }
        let output = self.broker.handle(now, arrival);
        self.take(output);
    }

    fn take(&mut self, output: Output) {
        if let Some(announcement) = &mut self.announcement {
            let records = output.records.iter();
            records.for_each(|record| announcement.record(record));
            let effects = output.effects.iter();
            effects.for_each(|effect| announcement.effect(effect));
        }
        for record in &output.records {
            if let Kind::ResourceDefine(inventory, _) = &record.event.kind {
                self.tree.set_inventory(inventory);
                self.defined = Some(record.seq);
            }
            self.recorded(record);
        }
        self.store.add(output.records, output.finished);
        for effect in output.effects {
            self.act(effect);
        }
    }

    fn act(&mut self, effect: Effect) {
        if let Effect::Host(rank, _) = &effect
            && self.tree.is_local(*rank)
        {
            self.nodes.attend();
        }
        let effect = match effect {
            Effect::Reply(reply) if reply.to.client.is_own() => {
                return self.answer_here(reply);
            }
            effect => effect,
        };
        let effect = match self.tree.is_alone() {
            true => effect,
            false => match self.tree.route(self.clock.now(), effect) {
                Some(effect) => effect,
                None => return,
            },
        };
        match effect {
            Effect::Reply(reply) => self.answer_here(reply),
            Effect::Shell(epoch, word) => {
                self.listings.given(Instant::now());
                if let Some(link) = self.peers.tell_shell(epoch, word) {
                    self.close_shell(link);
                }
            }
            Effect::LaunchShell(_, epoch) => self.shells.launch(epoch),
            Effect::CheckShell(_, epoch) => self.shells.check(epoch),
            Effect::Parent(word) => {
                if let Some(child) = &mut self.child {
                    child.tell(word);
                }
            }
            Effect::Host(..) | Effect::Unhost(..) | Effect::EndShell(..) => {}
            Effect::Query(tag, Query::Within(left)) => self.lefts.ask(tag, *left),
            Effect::Query(tag, query) => self.store.ask(tag, query),
            Effect::Filter(tag, filter, asked) => self.filters.ask(tag, &filter, asked),
            Effect::Plan(deltas) => self.planner.tell(deltas),
            Effect::Wake(at) => drop(self.wakes.insert(at)),
            Effect::Exit(Exit::Stopped) => self.course = Course::Ended(0),
        }
    }
}

/// What the channel to the parent brings, where there is one.
async fn heard(child: &mut Option<Child>) -> Heard {
    match child {
        Some(child) => child.next().await,
        None => std::future::pending().await,
    }
}
