//! Instances in instances: how their leaders come to be, what they are told, and how everything
//! nested in a part ends with it.

use std::sync::Arc;

use eddy_broker::Arrival;
use eddy_broker::shellbook::{ShellInput, Spawn};
use eddy_modules::Settings;
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::payload::Keeps;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{ChildOf, Granted};
use eddy_wire::shell::{Part, Role};

use super::{Holder, World};
use crate::broken::Rule;
use crate::instance::Instance;
use crate::nature::{ChildTurn, Delay, Happening, InstanceId, Life};
use crate::nested::{Channel, Nested, Process};
use crate::oracle::Living;
use crate::pipe::{Peer, PipeId, Post, Side};
use crate::task::{Behaviour, SIGKILL, SIGTERM, Start};
use crate::transcript::label;

/// What a child keeps of payloads: fewer than the jobs of a world are of.
const KEEPS: Keeps = Keeps {
    count: 4,
    bytes: 1_000,
};

/// The machine of each of a child's ranks, by its parent's.
fn seated(parents: &[usize], granted: &Granted) -> Vec<usize> {
    let last = granted
        .ranks
        .values()
        .max()
        .map_or(0, |last| last.0 as usize + 1);
    let mut seats = vec![usize::MAX; last];
    for (rank, number) in &granted.ranks {
        seats[number.0 as usize] = parents[rank.0 as usize];
    }
    seats
}

impl World {
    /// A shell makes a task's process.
    pub(super) fn spawns(&mut self, id: InstanceId, epoch: Epoch, spawn: &Spawn) {
        let behaviour = Behaviour::of_jobspec(&spawn.jobspec);
        let leads = spawn.start.role == Role::Leader && behaviour.start == Start::Works;
        let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
        let Some(shell) = instance.shells.get_mut(&epoch) else {
            return;
        };
        if !leads {
            return shell.spawn(nature, spawn);
        }
        let mut within = shell.seat.within.clone();
        within.push((id, spawn.start.part));
        let child = self.child_of(id, spawn, behaviour, within);
        let life = self.instances[child.place()].next_life();
        let process = Process {
            life,
            shell: epoch,
            part: spawn.start.part,
            task: spawn.task,
        };
        if let Some(nested) = &mut self.instances[child.place()].nested {
            (nested.process, nested.channel) = (Some(process), Channel::default());
            let leader = Living::Leader(child, life);
            self.nature.process_begins(leader, &nested.within);
        }
        let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
        if let Some(shell) = instance.shells.get_mut(&epoch) {
            shell.leads(nature, spawn, child, life);
        }
        let connects = Happening::Child(child, life, ChildTurn::Connects);
        nature.later(Delay::Process, connects);
    }

    /// The instance that this attempt of a job is: the same one over all lives of its leader.
    fn child_of(
        &mut self,
        parent: InstanceId,
        spawn: &Spawn,
        program: Behaviour,
        within: crate::nested::Within,
    ) -> InstanceId {
        let Part { job, attempt, rank } = spawn.start.part;
        let child = ChildOf { job, attempt };
        let is_it = |instance: &&Instance| {
            let nested = instance.nested.as_ref();
            nested.is_some_and(|nested| nested.parent == parent && nested.child == child)
        };
        if let Some(found) = self.instances.iter().find(is_it) {
            return found.id;
        }
        let id = InstanceId(self.instances.len() as u32);
        let label = label(&self.nature, parent, job);
        let mut settings = Settings::for_inventory(Arc::new(ResourceSet::default()));
        settings.policy = Arc::clone(&self.instances[parent.place()].settings.policy);
        settings.release_idle = self.habits.release_idle;
        settings.lease = self.habits.lease;
        settings.hung_after = self.habits.hung_after;
        settings.keeps = KEEPS;
        settings.autonomous_after = self.habits.autonomous_after;
        let declared = self.nature.judge(parent).recorded().jobs.get(&job);
        let declared = declared.is_some_and(|job| {
            matches!(
                &job.submit.spec.request.work,
                Work::Instance { name: Some(_) }
            )
        });
        self.nature.add_instance(id, label, settings.kill_grace);
        let machine = within_machine(self, parent, rank);
        let mut instance = Instance::new(id, settings, vec![machine]);
        instance.fanout = self.instances[parent.place()].fanout;
        instance.nested = Some(Nested {
            parent,
            child,
            rank,
            within,
            process: None,
            channel: Channel::default(),
            led: None,
            kept: None,
            program: Some(program).filter(|_| !declared && program.run.0 > 0),
            key: crate::call::key(self.nature.clock(machine).wall, &mut self.nature.random),
        });
        self.nature.tree.born(id, parent, child);
        self.instances.push(instance);
        id
    }

    /// Something about the process that leads a child.
    pub(super) fn child_turn(&mut self, id: InstanceId, life: Life, turn: ChildTurn) {
        let lives = |nested: &Nested| nested.lives(life);
        if !self.instances[id.place()]
            .nested
            .as_ref()
            .is_some_and(lives)
        {
            return;
        }
        match turn {
            ChildTurn::Connects => self.channel_connects(id, life),
            ChildTurn::Beats(pipe) => {
                self.instances[id.place()].beats(&mut self.nature, pipe, life);
            }
            ChildTurn::Granted(granted) => self.child_begins(id, life, &granted),
            ChildTurn::Changed(granted) => self.child_changed(id, &granted),
            ChildTurn::Signal(SIGTERM) if self.nature.breaks(Rule::ChildDeaf) => {}
            ChildTurn::Signal(SIGTERM) if self.instances[id.place()].leader.is_some() => {
                let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
                let of = instance.of(nature);
                nature.note(|| format!("leader{of} is told to end"));
                instance.arrive(nature, Arrival::Stop);
            }
            ChildTurn::Signal(SIGKILL) if self.nature.breaks(Rule::ChildDeaf) => {}
            ChildTurn::Signal(signal @ (SIGTERM | SIGKILL)) => self.child_ended(id, signal),
            ChildTurn::Signal(_) => {}
            ChildTurn::Ended(status) => self.child_ended(id, status),
            ChildTurn::Hangs => self.ends_hung(id, life),
        }
    }

    /// The rank of an instance, where it is found now.
    pub fn post_of(&self, id: InstanceId, rank: Rank) -> Option<Post> {
        let instance = &self.instances[id.place()];
        if instance.settings.local.contains(rank.0) {
            let leader = instance.leader.as_ref()?;
            return Some(Post::Leader(id, leader.life()));
        }
        let machine = *instance.seats.get(rank.0 as usize)?;
        let hosted = self.agents.get(machine)?.hosted.get(&id)?;
        (hosted.rank == rank).then_some(hosted.post)
    }

    /// A new connection to that post.
    pub(super) fn connect(&mut self, post: Post, peer: Peer) -> PipeId {
        let pipe = self.nature.pipes.open(self.nature.now, post, peer);
        match post {
            Post::Leader(id, _) => {
                if let Some(leader) = &mut self.instances[id.place()].leader {
                    leader.desk.accept(pipe);
                }
            }
            Post::Hosted(..) => {
                if let Some(hosted) = self.hosted(post) {
                    hosted.desk.accept(pipe);
                }
            }
        }
        pipe
    }

    /// A child's leader tries to reach its parent, on its own node.
    fn channel_connects(&mut self, id: InstanceId, life: Life) {
        let Some(nested) = &self.instances[id.place()].nested else {
            return;
        };
        if nested.channel.pipe.is_some() {
            return;
        }
        match self.post_of(nested.parent, nested.rank) {
            Some(post) => {
                let pipe = self.connect(post, Peer::Channel(id, life));
                self.instances[id.place()].channel_stands(&mut self.nature, pipe);
            }
            None => {
                let connects = Happening::Child(id, life, ChildTurn::Connects);
                self.nature.later(Delay::Retry, connects);
            }
        }
    }

    /// A child's channel ended: it connects again.
    pub(super) fn channel_ended(&mut self, id: InstanceId, life: Life, pipe: PipeId) {
        self.nature.pipes.close(pipe, Side::Peer);
        let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
        let current = instance
            .nested
            .as_ref()
            .and_then(|nested| nested.channel.pipe);
        if current == Some(pipe) {
            instance.channel_lost(nature);
            let connects = Happening::Child(id, life, ChildTurn::Connects);
            nature.later(Delay::Retry, connects);
        }
    }

    /// A child has these nodes now. What those were called that are gone nobody asks for again.
    fn child_changed(&mut self, id: InstanceId, granted: &Granted) {
        let Some(nested) = &self.instances[id.place()].nested else {
            return;
        };
        let seats = seated(&self.instances[nested.parent.place()].seats, granted);
        let instance = &mut self.instances[id.place()];
        instance.inventory = Arc::new(granted.inventory());
        let known = &mut instance.seats;
        known.resize(known.len().max(seats.len()), usize::MAX);
        for (seat, machine) in seats.into_iter().enumerate() {
            known[seat] = known[seat].min(machine);
        }
    }

    /// A child knows what it has: its leader begins.
    fn child_begins(&mut self, id: InstanceId, life: Life, granted: &Granted) {
        self.child_changed(id, granted);
        let instance = &mut self.instances[id.place()];
        let now = instance.begins_at(&self.nature);
        let Some(nested) = &mut instance.nested else {
            return;
        };
        // One that has ended leads no more, whatever it hears.
        if nested.led.replace(life) == Some(life) {
            return;
        }
        let now_there = || Arc::clone(&instance.inventory);
        let inventory = Arc::clone(nested.kept.get_or_insert_with(now_there));
        let until = granted.remaining.map(|remaining| now.after(remaining));
        let settings = &mut instance.settings;
        settings.inventory = inventory;
        settings.local = granted.own(&granted.local).union(&Idset::one(0));
        settings.kill_grace = granted.kill_grace;
        settings.mock = granted.mock;
        settings.place = eddy_modules::settings::Place {
            path: granted.path.clone(),
            depth: granted.depth,
            child: instance.nested.as_ref().map(|nested| nested.child),
            parent: Some("local:///parent".into()),
            name: granted.name.clone(),
            until,
            told: granted.grant.set.expiration,
            reserve: granted.reserve,
        };
        self.nature.oracle(id).set_grace(granted.kill_grace);
        if granted.name.is_some() {
            self.nature
                .oracle(id)
                .set_nested(crate::oracle::Nested::Queue);
        }
        self.nature.oracle(id).set_until(until, granted.reserve);
        instance.begin_leader(&mut self.nature, life);
        instance.submit_program(&mut self.nature);
        instance.take_early(&mut self.nature);
        self.begun(id);
    }

    /// The process of a child's leader is gone: its shell hears of it, if that lives.
    pub(super) fn child_ended(&mut self, id: InstanceId, status: i32) {
        let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
        let Some(nested) = &mut instance.nested else {
            return;
        };
        let Some(process) = nested.process.take() else {
            return;
        };
        // Whatever it was stopped for: its next life is not.
        self.frozen.remove(&Holder::Leader(id));
        nature.tree.ends(Living::Leader(id, process.life));
        let parent = nested.parent;
        let pipe = nested.channel.pipe.take();
        if instance.leader.is_some() {
            let of = instance.of(nature);
            nature.note(|| format!("leader{of} is killed"));
            instance.leader_dies(nature);
        }
        if let Some(pipe) = pipe {
            nature.close(pipe, Side::Peer);
        }
        self.unattend(id);
        let (parent, nature) = (&mut self.instances[parent.place()], &mut self.nature);
        match parent.shells.get_mut(&process.shell) {
            Some(shell) => shell.leader_ended(nature, process, status),
            None => nature.task_lost(parent.id, process.part, process.task),
        }
    }

    /// kill -9 of the leader of any instance; that of a root is started again.
    pub fn kill_leader(&mut self, id: InstanceId, down: eddy_wire::time::Span) {
        if self.instances[id.place()].nested.is_some() {
            return self.child_ended(id, SIGKILL);
        }
        self.instances[id.place()].crash_leader(&mut self.nature);
        let at = self.nature.now.after(down);
        self.nature.queue.push(at, Happening::LeaderStarts(id));
    }

    /// Everything nested in a part is ended.
    pub(super) fn sweeps(&mut self, id: InstanceId, epoch: Epoch, part: Part) {
        if !self.instances[id.place()].shells.contains_key(&epoch) {
            return;
        }
        if !self.nature.breaks(Rule::SweepSpares) {
            self.end_within(|(instance, within)| *instance == id && *within == part);
        }
        let swept = ShellInput::Swept(part);
        self.instances[id.place()].shell_input(&mut self.nature, epoch, swept);
    }

    /// Everything nested in the parts of a dead shell is ended.
    pub(super) fn buried(&mut self, id: InstanceId, machine: usize, ranks: &Idset) {
        let seats = &self.instances[id.place()].seats;
        debug_assert!(ranks.iter().all(|rank| seats[rank as usize] == machine));
        let ranks = ranks.clone();
        self.end_within(|(instance, part)| *instance == id && ranks.contains(part.rank.0));
    }

    pub(super) fn end_within(&mut self, is_it: impl Fn(&(InstanceId, Part)) -> bool) {
        let mut ended = Vec::new();
        // Of most that are over nothing is left.
        let lives = |one: &&mut Instance| {
            let is_led = one.nested.as_ref().is_some_and(|n| n.process.is_some());
            is_led || !one.shells.is_empty() || !one.leftovers.is_empty()
        };
        for instance in self.instances.iter_mut().filter(lives) {
            let gone: Vec<Epoch> = instance
                .shells
                .iter()
                .filter(|(_, shell)| shell.seat.within.iter().any(&is_it))
                .map(|(epoch, _)| *epoch)
                .collect();
            for epoch in gone {
                instance.end_shell(&mut self.nature, epoch);
            }
            let left: Vec<Epoch> = instance
                .leftovers
                .iter()
                .filter(|(_, left)| left.seat.within.iter().any(&is_it))
                .map(|(epoch, _)| *epoch)
                .collect();
            for epoch in left {
                instance.end_shell(&mut self.nature, epoch);
            }
            let nested = instance.nested.as_ref();
            if nested
                .is_some_and(|nested| nested.process.is_some() && nested.within.iter().any(&is_it))
            {
                ended.push(instance.id);
            }
        }
        for id in ended {
            self.child_ended(id, SIGKILL);
        }
    }
}

fn within_machine(world: &World, parent: InstanceId, rank: Rank) -> usize {
    world.instances[parent.place()].seats[rank.0 as usize]
}
