//! What happens, brought to whom it happens to.

use eddy_broker::{Answer, Arrival, Left, Phase, Query};
use eddy_wire::id::JobId;
use eddy_wire::time::Span;

use super::{Holder, World};
use crate::agent::Running;
use crate::call::About;
use crate::nature::{
    AgentTurn, ChildTurn, Delay, Happening, InstanceId, Life, Parcel, PostTurn, ShellTurn, Turn,
};
use crate::pipe::{Peer, PipeId, Post, Side};
use crate::shell::Course;
use crate::transcript::note_answer;
use crate::workload;

impl World {
    pub(super) fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrives(pipe, side, parcel) => self.arrives(pipe, side, parcel),
            Happening::Ends(pipe, side) => self.ends(pipe, side),
            Happening::LeaderStarts(id) => self.leader_starts(id),
            Happening::Leader(id, life, turn) => self.leader_turn(id, life, turn),
            Happening::Shell(id, epoch, turn) => self.shell_turn(id, epoch, turn),
            Happening::Knocks(from, name, door, hello) => self.knocks(from, name, &door, *hello),
            Happening::Post(post, turn) => self.post_turn(post, turn),
            Happening::Agent(machine, turn) => match turn {
                AgentTurn::Starts => self.agent_starts(machine),
                AgentTurn::Hosts(parent, order) => self.agent_hosts(machine, parent, *order),
                AgentTurn::Unhosts(parent, id) => self.agent_unhosts(machine, parent, id),
                AgentTurn::Attends(id) => self.agent_attends(machine, id),
            },
            Happening::Child(id, life, turn) => self.child_turn(id, life, turn),
            Happening::ClientConnects(client) => self.client_connects(client),
            Happening::ClientActs(client) => self.client_acts(client),
            Happening::Strikes(fault) => self.strike(fault),
            Happening::Marks(id) => self.instances[id.place()].marks(&mut self.nature),
            Happening::Calms => self.calm(),
            Happening::Looks => {}
        }
    }

    /// What is read of an instance that is over: by another process, when nobody has its journal any more.
    fn left(&self, left: &Left) -> Answer {
        let name = left.statedir.strip_prefix("/state/");
        let id = name.and_then(InstanceId::named);
        let instance = id.and_then(|id| self.instances.get(id.place()));
        match instance {
            Some(instance) if instance.leader.is_none() => {
                Answer::Within(instance.journal.ends(&left.jobs))
            }
            Some(_) => Answer::Failed("the journal is locked".to_owned()),
            None => Answer::Failed("there is no journal".to_owned()),
        }
    }

    fn leader_turn(&mut self, id: InstanceId, life: Life, turn: Turn) {
        if let Turn::Reads(tag, Query::Within(left)) = &turn {
            let answer = Turn::Answers(*tag, self.left(left));
            let answers = Happening::Leader(id, life, answer);
            return self.nature.later(Delay::Query, answers);
        }
        let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
        match turn {
            Turn::CommitBegins => instance.commit_begins(nature, life),
            Turn::Commits => instance.commits(nature, life),
            Turn::Plans(deltas) => instance.plans(nature, life, deltas),
            Turn::Planned(outcome) => instance.planned(nature, life, outcome),
            Turn::Reads(tag, query) => instance.reads(nature, life, tag, &query),
            Turn::Answers(tag, answer) => {
                if instance.leader_of(life).is_some() {
                    instance.arrive(nature, Arrival::Answer(tag, answer));
                }
            }
            Turn::Ticks(at) => instance.ticks(nature, life, at),
            Turn::Checks(epoch) => instance.checks(nature, life, epoch),
            Turn::ShellDead(epoch) => instance.shell_dead(nature, life, epoch),
        }
    }

    fn shell_turn(&mut self, id: InstanceId, epoch: eddy_wire::id::Epoch, turn: ShellTurn) {
        match turn {
            ShellTurn::Connects => self.shell_connects(id, epoch),
            ShellTurn::Spawns(spawn) => self.spawns(id, epoch, &spawn),
            ShellTurn::TaskEnds(part, task, end) => {
                let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
                if let Some(shell) = instance.shells.get_mut(&epoch) {
                    shell.task_ends(nature, part, task, end);
                }
            }
            ShellTurn::Pauses(part, stop) => {
                let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
                if let Some(shell) = instance.shells.get_mut(&epoch) {
                    shell.pauses(nature, part, stop);
                }
            }
            ShellTurn::Sweeps(part) => self.sweeps(id, epoch, part),
            ShellTurn::Missed => self.shell_missed(id, epoch),
            ShellTurn::Buried(machine, ranks) => self.buried(id, machine, &ranks),
        }
    }

    /// A shell tries to connect to the rank it serves.
    fn shell_connects(&mut self, id: InstanceId, epoch: eddy_wire::id::Epoch) {
        let instance = &mut self.instances[id.place()];
        let Some(shell) = instance.shells.get(&epoch) else {
            return;
        };
        if shell.seat.keeper == crate::shell::Keeper::Leader {
            return instance.shell_connects(&mut self.nature, epoch);
        }
        if shell.pipe().is_some() {
            return;
        }
        let hosted = self.agents[shell.seat.machine].hosted.get_mut(&id);
        match hosted {
            Some(hosted) => {
                let post = hosted.post;
                if let Some(shell) = instance.shells.get_mut(&epoch) {
                    let pipe = shell.connect(&mut self.nature, post);
                    hosted.desk.accept(pipe);
                }
            }
            None => {
                let connects = Happening::Shell(id, epoch, ShellTurn::Connects);
                self.nature.later(Delay::Retry, connects);
            }
        }
    }

    fn arrives(&mut self, pipe: PipeId, side: Side, parcel: Parcel) {
        if !self.nature.pipes.is_open(pipe, side) {
            return;
        }
        let (Some(server), Some(peer)) =
            (self.nature.pipes.server(pipe), self.nature.pipes.peer(pipe))
        else {
            return;
        };
        match (side, peer) {
            (Side::Server, Peer::Rank(_)) => self.link_brought(server, pipe, side, parcel),
            (Side::Peer, Peer::Rank(post)) => self.link_brought(post, pipe, side, parcel),
            (Side::Server, _) => self.server_brought(server, pipe, parcel),
            (Side::Peer, peer) => self.peer_brought(peer, parcel),
        }
    }

    fn link_brought(&mut self, post: Post, pipe: PipeId, side: Side, parcel: Parcel) {
        match post {
            Post::Leader(id, life) => {
                let instance = &mut self.instances[id.place()];
                if instance.leader_of(life).is_some() {
                    instance.link_brought(&mut self.nature, pipe, side, parcel);
                }
            }
            Post::Hosted(..) => self.hosted_link(post, pipe, side, parcel),
        }
    }

    fn server_brought(&mut self, server: Post, pipe: PipeId, parcel: Parcel) {
        let id = match server {
            Post::Hosted(..) => return self.hosted_brought(server, pipe, parcel),
            Post::Leader(id, _) => id,
        };
        if let Parcel::FromClient(message, About::Dead(rank)) = &parcel
            && !self.is_dead_still(*rank)
        {
            return self.take_back(*rank, message.matchtag);
        }
        let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
        match parcel {
            Parcel::FromClient(message, about) => {
                instance.from_client(nature, pipe, message, &about);
            }
            Parcel::FromShell(message) => instance.from_shell(nature, pipe, message),
            Parcel::ToClient(_)
            | Parcel::ToShell(_)
            | Parcel::Answer(_)
            | Parcel::Opened
            | Parcel::Frame(_) => {}
        }
    }

    fn peer_brought(&mut self, peer: Peer, parcel: Parcel) {
        let nature = &mut self.nature;
        match (peer, parcel) {
            (Peer::Client(client), Parcel::ToClient(message)) => {
                let client = &mut self.clients[client];
                if let Some(call) = client.asked(&message) {
                    note_answer(nature, (client.number, client.instance), call, &message);
                }
                client.receive(&message);
            }
            (Peer::Channel(id, life), Parcel::ToClient(message)) => {
                let instance = &mut self.instances[id.place()];
                if instance
                    .nested
                    .as_ref()
                    .is_some_and(|nested| nested.lives(life))
                {
                    instance.channel_told(nature, life, &message);
                }
            }
            (Peer::Shell(id, epoch), Parcel::ToShell(message)) => {
                let instance = &mut self.instances[id.place()];
                if let Some(shell) = instance.shells.get_mut(&epoch)
                    && shell.told(nature, message) == Course::Exit
                {
                    instance.shell_exits(nature, epoch);
                }
            }
            _ => {}
        }
    }

    fn ends(&mut self, pipe: PipeId, side: Side) {
        if !self.nature.pipes.is_open(pipe, side) {
            return;
        }
        let (Some(server), Some(peer)) =
            (self.nature.pipes.server(pipe), self.nature.pipes.peer(pipe))
        else {
            return;
        };
        let post = match (side, peer) {
            (Side::Server, _) => server,
            (Side::Peer, Peer::Rank(post)) => post,
            (Side::Peer, peer) => return self.peer_end(peer, pipe),
        };
        match (post, peer) {
            (Post::Leader(id, life), Peer::Rank(_)) => {
                let instance = &mut self.instances[id.place()];
                if instance.leader_of(life).is_some() {
                    instance.link_ended(&mut self.nature, pipe, side);
                }
            }
            (Post::Hosted(..), Peer::Rank(_)) => self.hosted_link_ended(post, pipe, side),
            (Post::Leader(id, _), _) => {
                self.instances[id.place()].peer_ended(&mut self.nature, pipe);
            }
            (Post::Hosted(..), _) => self.hosted_peer_ended(post, pipe),
        }
    }

    fn peer_end(&mut self, peer: Peer, pipe: PipeId) {
        let nature = &mut self.nature;
        match peer {
            Peer::Shell(id, epoch) => {
                nature.pipes.close(pipe, Side::Peer);
                if let Some(shell) = self.instances[id.place()].shells.get_mut(&epoch) {
                    shell.disconnected(nature);
                }
            }
            Peer::Client(client) => {
                nature.pipes.close(pipe, Side::Peer);
                self.clients[client].lost(nature);
            }
            Peer::Channel(id, life) => self.channel_ended(id, life, pipe),
            Peer::Rank(_) => {}
        }
    }

    /// A rank knocks at a door: somebody is behind it, or nobody answers.
    fn knocks(
        &mut self,
        from: Post,
        name: eddy_broker::tree::PipeId,
        door: &str,
        hello: eddy_wire::link::Hello,
    ) {
        let found = door.split_once('/').and_then(|(instance, rank)| {
            let rank = eddy_wire::id::Rank(rank.parse().ok()?);
            self.post_of(InstanceId::named(instance)?, rank)
        });
        let parted = found.and_then(|to| self.parted_until(from, to));
        if let Some(Post::Leader(id, _)) = found
            && let Some(leader) = &self.instances[id.place()].leader
            && !leader.speaks()
        {
            let knock = Happening::Knocks(from, name, door.to_owned(), Box::new(hello));
            return self.nature.later(Delay::Disk, knock);
        }
        let (delay, why) = match (found, parted) {
            (Some(to), None) => return self.let_in(from, name, to, hello),
            (Some(_), Some(_)) => (Span::seconds(2), "no answer in time"),
            (None, _) => (self.nature.delay(Delay::Net), "nobody listens there"),
        };
        let unanswered = Happening::Post(from, PostTurn::Unanswered(name, why.to_owned()));
        self.nature
            .queue
            .push(self.nature.now.after(delay), unanswered);
    }

    fn let_in(
        &mut self,
        from: Post,
        name: eddy_broker::tree::PipeId,
        to: Post,
        hello: eddy_wire::link::Hello,
    ) {
        // Who knocked may be gone.
        let lives = match from {
            Post::Leader(id, life) => self.instances[id.place()].leader_of(life).is_some(),
            Post::Hosted(..) => self.hosted(from).is_some(),
        };
        if !lives {
            return;
        }
        let pipe = self
            .nature
            .pipes
            .open(self.nature.now, to, Peer::Rank(from));
        match from {
            Post::Leader(id, _) => {
                let leader = self.instances[id.place()].leader.as_mut();
                if let Some(door) = leader.and_then(crate::leader::Leader::door) {
                    door.dialled(name, pipe);
                }
            }
            Post::Hosted(..) => {
                if let Some(hosted) = self.hosted(from) {
                    hosted.door.dialled(name, pipe);
                }
            }
        }
        match to {
            Post::Leader(id, _) => {
                self.instances[id.place()].knocked(&mut self.nature, pipe, hello);
            }
            Post::Hosted(..) => self.hosted_knocked(to, pipe, hello),
        }
    }

    /// Starts the leader of a root, once the one before has ended.
    fn leader_starts(&mut self, id: InstanceId) {
        let instance = &mut self.instances[id.place()];
        match &instance.leader {
            None => instance.start_leader(&mut self.nature),
            Some(leader) if leader.broker().phase() == Phase::Run => {}
            Some(_) => self.nature.later(Delay::Retry, Happening::LeaderStarts(id)),
        }
    }

    fn client_connects(&mut self, client: usize) {
        if !self.clients[client].wants_link() {
            return;
        }
        let (id, rank) = (self.clients[client].instance, self.clients[client].rank);
        match self.post_of(id, rank) {
            Some(post) => {
                let pipe = self.connect(post, Peer::Client(client));
                self.clients[client].connected(&mut self.nature, pipe);
            }
            // What is over has no socket, and says so to whoever asks.
            None if self.is_over(id) => self.clients[client].leave(),
            None => self
                .nature
                .later(Delay::Retry, Happening::ClientConnects(client)),
        }
    }

    /// Whether an instance is over: no leader of it will ever come again.
    pub fn is_over(&self, id: InstanceId) -> bool {
        let Some(nested) = &self.instances[id.place()].nested else {
            return false;
        };
        let parent = self.nature.judge(nested.parent).recorded();
        let job = parent.jobs.get(&nested.child.job);
        let current =
            job.is_some_and(|job| job.attempt == nested.child.attempt && job.grant().is_some());
        nested.process.is_none() && (!current || self.is_over(nested.parent))
    }

    fn client_acts(&mut self, client: usize) {
        if self.acts[client] == 0 || self.clients[client].is_gone() {
            return;
        }
        self.acts[client] -= 1;
        let id = self.clients[client].instance;
        let nodes = self.nodes_of(id);
        let habits = self.habits;
        self.clients[client].inside = self.inside(client);
        workload::act(&mut self.nature, &mut self.clients[client], nodes, habits);
        let pause = self.nature.random.between(0, self.pause.0);
        let at = self.nature.now.after(Span(pause));
        self.nature.queue.push(at, Happening::ClientActs(client));
    }

    /// What a client's user knows of jobs in instances that are jobs of where the client is. Another attempt of
    /// one comes to jobs of these numbers anew, or does not. An instance that is in a queue has its number there and
    /// where the queue is.
    fn inside(&self, client: usize) -> Vec<(JobId, JobId)> {
        let own = &self.clients[client];
        let others = self.clients.iter();
        let others = others.filter(|other| other.user == own.user);
        let known = others.filter_map(|other| {
            let instance = &self.instances[other.instance.place()];
            let nested = instance.nested.as_ref()?;
            let parent = self.nature.judge(nested.parent).recorded();
            let job = parent.jobs.get(&nested.child.job)?;
            let around = self.nature.tree.parent(nested.parent);
            let in_queue = job.submit.pass.is_some()
                && around.is_some_and(|(around, _)| around == own.instance);
            let is_own = nested.parent == own.instance || in_queue;
            (is_own && !instance.is_queue()).then_some((nested.child.job, &other.jobs))
        });
        let each = |(instance, jobs): (JobId, &'_ Vec<JobId>)| {
            let jobs: Vec<_> = jobs.iter().map(|job| (instance, *job)).collect();
            jobs
        };
        known.flat_map(each).collect()
    }

    /// Until when what is to happen must wait: who it happens to is stopped, or the way is.
    pub(super) fn waits(&self, happening: &Happening) -> Option<eddy_wire::Time> {
        if self.frozen.is_empty() && self.parted.is_empty() {
            return None;
        }
        let holder = match happening {
            Happening::Arrives(pipe, side, _) | Happening::Ends(pipe, side) => {
                if let Some(until) = self.nature.pipes.stalled(*pipe, self.nature.now) {
                    return Some(until);
                }
                let server = self.nature.pipes.server(*pipe)?;
                match (side, self.nature.pipes.peer(*pipe)?) {
                    (Side::Server, _) => Holder::of(server),
                    (Side::Peer, Peer::Rank(post)) => Holder::of(post),
                    (Side::Peer, Peer::Shell(id, epoch)) => Holder::Shell(id, epoch),
                    (Side::Peer, Peer::Channel(id, _)) => Holder::Leader(id),
                    (Side::Peer, Peer::Client(_)) => return None,
                }
            }
            Happening::Leader(id, ..) => Holder::Leader(*id),
            Happening::Child(
                _,
                _,
                ChildTurn::Signal(_) | ChildTurn::Ended(_) | ChildTurn::Hangs,
            ) => return None,
            Happening::Child(id, ..) => Holder::Leader(*id),
            Happening::Post(post, _) => Holder::of(*post),
            Happening::Shell(
                _,
                _,
                ShellTurn::TaskEnds(..) | ShellTurn::Missed | ShellTurn::Buried(..),
            ) => {
                return None;
            }
            Happening::Shell(id, epoch, _) => Holder::Shell(*id, *epoch),
            Happening::Agent(machine, AgentTurn::Hosts(..) | AgentTurn::Unhosts(..)) => {
                Holder::Agent(*machine)
            }
            Happening::Knocks(_, _, door, _) => {
                let (instance, rank) = door.split_once('/')?;
                let rank = eddy_wire::id::Rank(rank.parse().ok()?);
                Holder::of(self.post_of(InstanceId::named(instance)?, rank)?)
            }
            _ => return None,
        };
        let until = self.waits_until(*self.frozen.get(&holder)?);
        (until > self.nature.now).then_some(until)
    }

    /// Whether the agent of a machine runs.
    pub fn agent_runs(&self, machine: usize) -> bool {
        self.agents
            .get(machine)
            .is_some_and(|agent| agent.course == Running::Yes)
    }
}
