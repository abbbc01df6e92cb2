//! The world: takes what happens next and lets it happen, until nothing happens any more.
//!
//! Holds the instance, its clients and what they share. The verbs of the world (crash, cut, stop…)
//! are faults that strike; a script or a swarm says when.

use std::collections::BTreeMap;

use eddy_broker::{Arrival, Phase};
use eddy_wire::id::JobId;
use eddy_wire::time::Span;

use crate::call::Call;
use crate::client::{Client, OWNER};
use crate::fault::Fault;
use crate::instance::{Instance, Launch, Nodes};
use crate::journal::Room;
use crate::nature::{Delay, Happening, Nature, Parcel};
use crate::pipe::{Peer, PipeId, Side};
use crate::shell::Course;
use crate::transcript::note_answer;
use crate::{quiet, workload};

/// The world.
pub struct World {
    /// What all share.
    pub nature: Nature,
    /// The instance.
    pub instance: Instance,
    /// The clients; the first is the administrator.
    pub clients: Vec<Client>,
    /// Its nodes.
    pub nodes: Nodes,
    /// What goes wrong after so many steps: right behind whatever happens then.
    pub strikes: BTreeMap<u64, Fault>,
    /// How many things each client still does.
    pub acts: Vec<u32>,
    /// Longest pause of a client between two things it does.
    pub pause: Span,
    steps: u64,
}

/// Number of the administrator's client.
pub const ADMINISTRATOR: usize = 0;
/// How often what holds jobs back is put right before they are expected to be over.
const REPAIRS_MAX: u32 = 8;

impl World {
    /// A world in which nothing has happened.
    pub fn new(mut nature: Nature, nodes: Nodes, grace: Span) -> World {
        nature.oracle = crate::oracle::Oracle::new(grace);
        World {
            nature,
            instance: Instance::new(nodes, grace),
            clients: vec![Client::new(ADMINISTRATOR, OWNER)],
            nodes,
            strikes: BTreeMap::new(),
            acts: vec![0],
            pause: Span::seconds(1),
            steps: 0,
        }
    }

    /// Adds a client that connects at once; its number.
    pub fn add_client(&mut self, user: u32) -> usize {
        let number = self.clients.len();
        self.clients.push(Client::new(number, user));
        self.acts.push(0);
        let now = self.nature.now;
        self.nature
            .queue
            .push(now, Happening::ClientConnects(number));
        number
    }

    /// How much has happened.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The first broken promise.
    pub fn finding(&self) -> Option<&str> {
        self.nature.oracle.finding()
    }

    /// Lets the next thing happen; `Exit` when there is none.
    pub fn step(&mut self) -> Course {
        let Some((at, happening)) = self.nature.queue.pop() else {
            return Course::Exit;
        };
        self.nature.now = self.nature.now.max(at);
        self.steps += 1;
        self.happen(happening);
        if let Some(fault) = self.strikes.remove(&self.steps) {
            self.strike(fault);
        }
        if quiet::is_lull(self) {
            let checked = quiet::nothing_waits_that_could_start(self)
                .and_then(|()| quiet::nothing_runs_that_should_end(self));
            if let Err(sentence) = checked {
                self.nature.oracle.fail(sentence);
            }
        }
        Course::On
    }

    /// Runs until nothing happens any more, something is wrong, or `steps` are done.
    pub fn run(&mut self, steps: u64) {
        for repair in 0..=REPAIRS_MAX {
            while self.finding().is_none() && self.step() == Course::On {
                if self.steps > steps {
                    let sentence = format!("it does not come to rest within {steps} steps");
                    return self.nature.oracle.fail(sentence);
                }
            }
            if self.finding().is_some() || repair == REPAIRS_MAX || !self.repair() {
                break;
            }
        }
        if self.finding().is_none()
            && let Err(sentence) = quiet::is_at_rest(self)
        {
            self.nature.oracle.fail(sentence);
        }
    }

    /// The administrator puts back what is drained and lets go what is held; whether there was any.
    fn repair(&mut self) -> bool {
        let ledger = self.nature.oracle.durable();
        let held = |(_, job): &(&JobId, &eddy_wire::job::Job)| {
            job.urgency == 0 && job.state != eddy_wire::lifecycle::JobState::Inactive
        };
        let held: Vec<JobId> = ledger.jobs.iter().filter(held).map(|(id, _)| *id).collect();
        let drained = ledger.drained.clone();
        let mut calls: Vec<Call> = held.into_iter().map(|job| Call::urgency(job, 16)).collect();
        if !drained.is_empty() {
            calls.push(Call::undrain(drained));
        }
        let some = !calls.is_empty();
        for call in calls {
            self.call(ADMINISTRATOR, call);
        }
        some
    }

    /// A client makes a call.
    pub fn call(&mut self, client: usize, call: Call) {
        self.clients[client].call(&mut self.nature, call);
    }

    fn happen(&mut self, happening: Happening) {
        let (instance, nature) = (&mut self.instance, &mut self.nature);
        match happening {
            Happening::Arrives(pipe, side, parcel) => self.arrives(pipe, side, parcel),
            Happening::Ends(pipe, side) => self.ends(pipe, side),
            Happening::LeaderStarts => self.leader_starts(),
            Happening::CommitBegins(life) => instance.commit_begins(nature, life),
            Happening::Commits(life) => instance.commits(nature, life),
            Happening::Plans(life, deltas) => instance.plans(nature, life, deltas),
            Happening::Planned(life, outcome) => instance.planned(nature, life, outcome),
            Happening::Reads(life, tag, query) => instance.reads(nature, life, tag, &query),
            Happening::Answers(life, tag, answer) => {
                if instance.leader_of(life).is_some() {
                    instance.arrive(nature, Arrival::Answer(tag, answer));
                }
            }
            Happening::Ticks(life, at) => instance.ticks(nature, life, at),
            Happening::Checks(life, epoch) => instance.checks(nature, life, epoch),
            Happening::ShellDead(life, epoch) => instance.shell_dead(nature, life, epoch),
            Happening::ShellConnects(epoch) => instance.shell_connects(nature, epoch),
            Happening::Spawns(epoch, spawn) => {
                if let Some(shell) = instance.shells.get_mut(&epoch) {
                    shell.spawn(nature, &spawn);
                }
            }
            Happening::TaskEnds(epoch, part, task, end) => {
                if let Some(shell) = instance.shells.get_mut(&epoch) {
                    shell.task_ends(nature, part, task, end);
                }
            }
            Happening::Swept(epoch, part) => {
                let input = eddy_broker::shellbook::ShellInput::Swept(part);
                instance.shell_input(nature, epoch, input);
            }
            Happening::ClientConnects(client) => self.client_connects(client),
            Happening::ClientActs(client) => self.client_acts(client),
            Happening::Strikes(fault) => self.strike(fault),
            Happening::Marks(life) => instance.marks(nature, life),
            Happening::Calms => self.calm(),
        }
    }

    fn arrives(&mut self, pipe: PipeId, side: Side, parcel: Parcel) {
        if !self.nature.pipes.is_open(pipe, side) {
            return;
        }
        let (instance, nature) = (&mut self.instance, &mut self.nature);
        match parcel {
            Parcel::FromClient(message, about) => {
                instance.from_client(nature, pipe, message, &about)
            }
            Parcel::FromShell(message) => instance.from_shell(nature, pipe, message),
            Parcel::ToClient(message) => {
                if let Some(Peer::Client(client)) = nature.pipes.peer(pipe) {
                    let client = &mut self.clients[client];
                    if let Some(call) = client.asked(&message) {
                        note_answer(nature, client.number, call, &message);
                    }
                    client.receive(&message);
                }
            }
            Parcel::ToShell(message) => {
                let Some(Peer::Shell(epoch)) = nature.pipes.peer(pipe) else {
                    return;
                };
                if let Some(shell) = instance.shells.get_mut(&epoch)
                    && shell.told(nature, message) == Course::Exit
                {
                    instance.shell_exits(nature, epoch);
                }
            }
        }
    }

    fn ends(&mut self, pipe: PipeId, side: Side) {
        if !self.nature.pipes.is_open(pipe, side) {
            return;
        }
        let nature = &mut self.nature;
        match (side, nature.pipes.peer(pipe)) {
            (Side::Leader, _) => self.instance.peer_ended(nature, pipe),
            (Side::Peer, Some(Peer::Shell(epoch))) => {
                nature.pipes.close(pipe, side);
                if let Some(shell) = self.instance.shells.get_mut(&epoch) {
                    shell.disconnected(nature);
                }
            }
            (Side::Peer, Some(Peer::Client(client))) => {
                nature.pipes.close(pipe, side);
                self.clients[client].lost(nature);
            }
            (Side::Peer, None) => {}
        }
    }

    /// Starts a leader, once the one before has ended.
    fn leader_starts(&mut self) {
        match &self.instance.leader {
            None => self.instance.start_leader(&mut self.nature),
            Some(leader) if leader.broker().phase() == Phase::Run => {}
            Some(_) => self.nature.later(Delay::Retry, Happening::LeaderStarts),
        }
    }

    fn client_connects(&mut self, client: usize) {
        if !self.clients[client].wants_link() {
            return;
        }
        match &mut self.instance.leader {
            Some(leader) => {
                let pipe = self
                    .nature
                    .pipes
                    .open(self.nature.now, Peer::Client(client));
                leader.accept(pipe);
                self.clients[client].connected(&mut self.nature, pipe);
            }
            None => self
                .nature
                .later(Delay::Retry, Happening::ClientConnects(client)),
        }
    }

    fn client_acts(&mut self, client: usize) {
        if self.acts[client] == 0 || self.clients[client].is_gone() {
            return;
        }
        self.acts[client] -= 1;
        workload::act(&mut self.nature, &mut self.clients[client], self.nodes);
        let pause = self.nature.random.between(0, self.pause.0);
        let at = self.nature.now.after(Span(pause));
        self.nature.queue.push(at, Happening::ClientActs(client));
    }

    /// Something goes wrong.
    pub fn strike(&mut self, fault: Fault) {
        let (instance, nature) = (&mut self.instance, &mut self.nature);
        match fault {
            Fault::CrashLeader(down) => {
                instance.crash_leader(nature);
                nature
                    .queue
                    .push(nature.now.after(down), Happening::LeaderStarts);
            }
            Fault::CrashShells => {
                instance.crash_shells(nature);
            }
            Fault::CrashBoth(down) => {
                instance.crash_leader(nature);
                instance.crash_shells(nature);
                nature
                    .queue
                    .push(nature.now.after(down), Happening::LeaderStarts);
            }
            Fault::Partition(span) => instance.part(nature, span),
            Fault::CutShell => {
                let pipes: Vec<PipeId> =
                    instance.shells.values().filter_map(|s| s.pipe()).collect();
                if !pipes.is_empty() {
                    let pipe = *nature.random.pick(&pipes);
                    instance.cut(nature, pipe);
                }
            }
            Fault::LateStart => instance.late_start(nature),
            Fault::CutClient => self.cut_client(),
            Fault::ClientLeaves => {
                let number = nature.random.below(self.clients.len() as u64) as usize;
                if number != ADMINISTRATOR {
                    if let Some(pipe) = self.clients[number].pipe() {
                        nature.close(pipe, Side::Peer);
                    }
                    self.clients[number].leave();
                }
            }
            Fault::StopLeader(down) => {
                nature.note(|| "leader is told to end".to_owned());
                instance.arrive(nature, Arrival::Stop);
                nature
                    .queue
                    .push(nature.now.after(down), Happening::LeaderStarts);
            }
            Fault::DiskFull(span) => {
                instance.set_room(nature, Room::None);
                nature
                    .queue
                    .push(nature.now.after(span), Happening::Strikes(Fault::DiskRoom));
            }
            Fault::DiskRoom => instance.set_room(nature, Room::Enough),
            Fault::StepClock(by) => nature.machine.step(by),
            Fault::StopClock(span) => nature.machine.stop(nature.now, span),
            Fault::Grow => {
                self.nodes.count += 1;
                instance.inventory = self.nodes.inventory();
            }
            Fault::FailLaunch => instance.launch = Launch::Dies,
        }
    }

    fn cut_client(&mut self) {
        let number = self.nature.random.below(self.clients.len() as u64) as usize;
        self.cut_client_of(number);
    }

    /// Cuts the connection of one client: what is under way is lost.
    pub fn cut_client_of(&mut self, number: usize) {
        if let Some(pipe) = self.clients[number].pipe() {
            self.nature.pipes.close(pipe, Side::Peer);
            self.nature
                .later(Delay::Net, Happening::Ends(pipe, Side::Leader));
            self.clients[number].lost(&mut self.nature);
        }
    }

    /// The faults are over: disk, connections, launches and the leader are as they should be.
    fn calm(&mut self) {
        let (instance, nature) = (&mut self.instance, &mut self.nature);
        instance.set_room(nature, Room::Enough);
        instance.parted_until = nature.now;
        instance.launch = Launch::Lives;
        nature.queue.push(nature.now, Happening::LeaderStarts);
        let admin = Happening::ClientConnects(ADMINISTRATOR);
        nature.queue.push(nature.now, admin);
    }

    /// Calls of clients that are not answered though they should be.
    pub fn unanswered(&self) -> impl Iterator<Item = (usize, &Call)> {
        self.clients
            .iter()
            .flat_map(|client| client.unanswered().map(|call| (client.number, call)))
    }
}
