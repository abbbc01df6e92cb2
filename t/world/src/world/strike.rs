//! What goes wrong: faults strike.

use eddy_broker::Arrival;
use eddy_modules::live::{By, Live};
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::time::{Span, Time};

use super::{ADMINISTRATOR, World};
use crate::agent::Running;
use crate::call::Call;
use crate::fault::{Drawn, Fault, Source, TreeFault};
use crate::filter;
use crate::instance::{Instance, Launch, Nodes};
use crate::journal::Room;
use crate::nature::{AgentTurn, Delay, Happening, InstanceId, ROOT};
use crate::pipe::{Peer, PipeId, Post, Side};
use crate::workload::OWN_QUEUES;

/// A process that can be stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// The leader of an instance.
    Leader(InstanceId),
    /// The agent of a machine.
    Agent(usize),
    /// A shell.
    Shell(InstanceId, Epoch),
}

impl Holder {
    /// Who holds the rank at that post.
    pub fn of(post: Post) -> Holder {
        match post {
            Post::Leader(id, _) => Holder::Leader(id),
            Post::Hosted(machine, ..) => Holder::Agent(machine),
        }
    }
}

impl World {
    /// Something goes wrong.
    pub fn strike(&mut self, fault: Fault) {
        self.nature.oracle(ROOT).struck();
        let (instance, nature) = (&mut self.instances[ROOT.place()], &mut self.nature);
        match fault {
            Fault::Tree(fault) => self.strike_tree(fault),
            Fault::Site(fault) => self.administer(fault),
            Fault::CrashLeader(down) => self.kill_leader(ROOT, down),
            Fault::CrashShells => instance.crash_shells(nature),
            Fault::CrashBoth(down) => {
                self.kill_leader(ROOT, down);
                self.instances[ROOT.place()].crash_shells(&mut self.nature);
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
            Fault::LateStart(id) => self.instances[id.place()].late_start(nature),
            Fault::CutClient => {
                let number = self.nature.random.below(self.clients.len() as u64) as usize;
                self.cut_client_of(number);
            }
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
                let at = nature.now.after(down);
                nature.queue.push(at, Happening::LeaderStarts(ROOT));
            }
            Fault::DiskFull(span) => {
                instance.set_room(nature, Room::None);
                let at = nature.now.after(span);
                nature.queue.push(at, Happening::Strikes(Fault::DiskRoom));
            }
            Fault::DiskRoom => instance.set_room(nature, Room::Enough),
            Fault::StepClock(by) => {
                let machine = some_machine(nature);
                nature.machines[machine].step(by);
            }
            Fault::StopClock(span) => {
                let (machine, now) = (some_machine(nature), nature.now);
                nature.machines[machine].stop(now, span);
            }
            Fault::Grow => {
                self.nodes.count += 1;
                instance.seats.push(0);
                instance.inventory = self.nodes.inventory();
            }
            Fault::Policy(text) => self.call(ADMINISTRATOR, Call::set_policy(text)),
            Fault::Configure(drawn) => {
                let call = self.configuration(drawn);
                self.call(ADMINISTRATOR, call);
            }
            Fault::Aside(span) => self.aside(span),
            Fault::Back => self.call(ADMINISTRATOR, Call::undrain(Idset::one(0))),
            Fault::FailLaunch => self.fail_launch(),
        }
    }

    fn aside(&mut self, span: Span) {
        let at = self.nature.now.after(span);
        let back = Happening::Strikes(Fault::Back);
        self.nature.queue.push(at, back);
        self.call(ADMINISTRATOR, Call::drain(Rank(0)));
    }

    fn fail_launch(&mut self) {
        let place = match self.instances.len() {
            1 => 0,
            all => self.nature.random.below(all as u64) as usize,
        };
        self.instances[place].launch = Launch::Dies;
    }

    /// As it is in force, with what is drawn in it.
    fn configuration(&self, drawn: Drawn) -> Call {
        let root = &self.instances[ROOT.place()];
        let mut settings = root.in_force(self.nature.judge(ROOT).recorded());
        settings
            .pools
            .iter_mut()
            .for_each(|pool| pool.count = drawn.pool);
        for queue in &mut settings.queues {
            if let Some(running) = &mut queue.rules.limits.running_jobs {
                *running = drawn.running;
            }
            if queue.name == OWN_QUEUES[0] {
                queue.rules.requires = drawn
                    .requires
                    .iter()
                    .map(|name| (*name).to_owned())
                    .collect();
            }
        }
        settings.filters = filter::two();
        settings.filters.truncate(drawn.filters);
        let by = match drawn.source {
            Source::File => By::Reload,
            Source::Keys => By::Set(Vec::new()),
        };
        Call::configure(&Live::of(&settings), &by)
    }

    fn strike_tree(&mut self, fault: TreeFault) {
        match fault {
            TreeFault::Leader(down) => {
                let live = |i: &&Instance| {
                    i.leader.is_some() || i.nested.as_ref().is_some_and(|n| n.process.is_some())
                };
                let ids: Vec<InstanceId> =
                    self.instances.iter().filter(live).map(|i| i.id).collect();
                if !ids.is_empty() {
                    let id = *self.nature.random.pick(&ids);
                    self.kill_leader(id, down);
                }
            }
            TreeFault::Agent(down) => {
                let machine = self.nature.random.below(self.agents.len() as u64) as usize;
                self.crash_agent(machine, down);
            }
            TreeFault::Shell => {
                if let Some((id, epoch)) = self.some_shell() {
                    self.instances[id.place()].kill_shell(&mut self.nature, epoch);
                }
            }
            TreeFault::Machine(down) => {
                let machine = self.nature.random.below(self.agents.len() as u64) as usize;
                self.crash_machine(machine, down);
            }
            TreeFault::Freeze(span) => {
                let holder = self.some_holder();
                self.freeze(holder, span);
            }
            TreeFault::Hang => self.hang_some(),
            TreeFault::Away { down, late } => self.begins_first(down, late),
            TreeFault::CutLink(span) => {
                let links: Vec<PipeId> = self.nature.pipes.links().map(|link| link.0).collect();
                if !links.is_empty() {
                    let pipe = *self.nature.random.pick(&links);
                    let first = match self.nature.random.chance(50) {
                        true => Side::Server,
                        false => Side::Peer,
                    };
                    self.cut_link(pipe, first, span);
                }
            }
            TreeFault::StallLink(span) => {
                let links: Vec<PipeId> = self.nature.pipes.links().map(|link| link.0).collect();
                if !links.is_empty() {
                    let pipe = *self.nature.random.pick(&links);
                    let until = self.nature.now.after(span);
                    self.stall(pipe, until);
                }
            }
            TreeFault::Part(span) => {
                let machines = self.agents.len() as u64;
                let a = self.nature.random.below(machines) as usize;
                let b = self.nature.random.below(machines) as usize;
                self.part_machines(a, b, span);
            }
            TreeFault::CutChannel => self.cut_some_channel(),
            TreeFault::CutShell => {
                if let Some((id, epoch)) = self.some_shell() {
                    let (instance, nature) = (&mut self.instances[id.place()], &mut self.nature);
                    if let Some(pipe) = instance.shells.get(&epoch).and_then(|shell| shell.pipe()) {
                        instance.cut(nature, pipe);
                    }
                }
            }
        }
    }

    /// The root's leader is killed, and is there again before those of its queue instances.
    fn begins_first(&mut self, down: Span, late: Span) {
        let is_led = |one: &&Instance| one.settings.place.name.is_some() && one.leader.is_some();
        let ids = self.instances.iter().filter(is_led).map(|one| one.id);
        for id in ids.collect::<Vec<InstanceId>>() {
            self.freeze(Holder::Leader(id), Span(down.0 + late.0));
        }
        self.kill_leader(ROOT, down);
    }

    fn cut_some_channel(&mut self) {
        let nested = self.instances.iter().filter_map(|i| i.nested.as_ref());
        let channels: Vec<PipeId> = nested.filter_map(|n| n.channel.pipe).collect();
        if !channels.is_empty() {
            let pipe = *self.nature.random.pick(&channels);
            self.cut_channel(pipe);
        }
    }

    fn some_shell(&mut self) -> Option<(InstanceId, Epoch)> {
        let shells = self
            .instances
            .iter()
            .flat_map(|instance| instance.shells.keys().map(|epoch| (instance.id, *epoch)));
        let shells: Vec<(InstanceId, Epoch)> = shells.collect();
        match shells.is_empty() {
            true => None,
            false => Some(*self.nature.random.pick(&shells)),
        }
    }

    fn some_holder(&mut self) -> Holder {
        let leaders = self.instances.iter().filter(|i| i.leader.is_some());
        let mut holders: Vec<Holder> = leaders.map(|i| Holder::Leader(i.id)).collect();
        holders.extend((0..self.agents.len()).map(Holder::Agent));
        holders.extend(
            self.some_shell()
                .map(|(id, epoch)| Holder::Shell(id, epoch)),
        );
        *self.nature.random.pick(&holders)
    }

    /// Stops a process for a while: what comes for it waits.
    pub fn freeze(&mut self, holder: Holder, span: Span) {
        self.nature
            .note(|| format!("{holder:?} is stopped for {span} s"));
        let until = self.nature.now.after(span);
        // What waits for the end of an earlier stop comes before what is sent after that.
        let known = self.frozen.entry(holder).or_insert(until);
        *known = until.max(*known);
    }

    /// Cuts a connection between ranks: one end sees it now, the other in a while. What was sent
    /// may still come there until then.
    pub fn cut_link(&mut self, pipe: PipeId, first: Side, span: Span) {
        self.nature.note(|| format!("link {} is cut", pipe.0));
        let now = self.nature.now;
        self.nature.queue.push(now, Happening::Ends(pipe, first));
        let later = Happening::Ends(pipe, first.other());
        self.nature.queue.push(now.after(span), later);
    }

    fn stall(&mut self, pipe: PipeId, until: Time) {
        self.nature.pipes.stall(pipe, until);
        // What is under way is looked at again only while something is known to be held up.
        self.parted.push((usize::MAX, usize::MAX, until));
    }

    /// Two machines do not reach each other for a while: their connections bring nothing.
    pub fn part_machines(&mut self, a: usize, b: usize, span: Span) {
        if a == b {
            return;
        }
        self.nature
            .note(|| format!("machines {a} and {b} are cut off for {span} s"));
        let until = self.nature.now.after(span);
        self.parted.push((a, b, until));
        let links: Vec<(PipeId, Post, Post)> = self.nature.pipes.links().collect();
        for (pipe, one, other) in links {
            let ends = (self.machine_of(one), self.machine_of(other));
            if ends == (a, b) || ends == (b, a) {
                self.stall(pipe, until);
            }
        }
    }

    fn machine_of(&self, post: Post) -> usize {
        match post {
            Post::Leader(id, _) => self.instances[id.place()].machine(),
            Post::Hosted(machine, ..) => machine,
        }
    }

    /// Until when two ranks do not reach each other, if they do not.
    pub(super) fn parted_until(&mut self, one: Post, other: Post) -> Option<Time> {
        let now = self.nature.now;
        self.parted.retain(|(_, _, until)| *until > now);
        let (a, b) = (self.machine_of(one), self.machine_of(other));
        let between = self
            .parted
            .iter()
            .filter(|(x, y, _)| (*x, *y) == (a, b) || (*x, *y) == (b, a));
        between.map(|(_, _, until)| *until).max()
    }

    /// Cuts the channel between a child and its parent.
    pub fn cut_channel(&mut self, pipe: PipeId) {
        if let Some(Peer::Channel(id, _)) = self.nature.pipes.peer(pipe) {
            let of = self.instances[id.place()].of(&self.nature);
            self.nature.note(|| format!("the channel{of} is cut"));
        }
        let (now, net) = (self.nature.now, self.nature.delay(Delay::Net));
        self.nature
            .queue
            .push(now, Happening::Ends(pipe, Side::Peer));
        let server = Happening::Ends(pipe, Side::Server);
        self.nature.queue.push(now.after(net), server);
    }

    /// Everything on a machine dies but what cannot be started again there: the root's leader.
    pub fn crash_machine(&mut self, machine: usize, down: Span) {
        self.crash_agent(machine, down);
        let on = |shell: &crate::shell::Shell| shell.seat.machine == machine;
        let shells: Vec<(InstanceId, Epoch)> = self
            .instances
            .iter()
            .flat_map(|i| {
                i.shells
                    .iter()
                    .filter(|(_, s)| on(s))
                    .map(|(e, _)| (i.id, *e))
            })
            .collect();
        for (id, epoch) in shells {
            self.instances[id.place()].kill_shell(&mut self.nature, epoch);
        }
        let led: Vec<InstanceId> = self
            .instances
            .iter()
            .filter(|i| i.machine() == machine && i.nested.is_some())
            .map(|i| i.id)
            .collect();
        led.into_iter().for_each(|id| self.kill_leader(id, down));
    }

    /// Cuts the connection of one client: what is under way is lost.
    pub fn cut_client_of(&mut self, number: usize) {
        if let Some(pipe) = self.clients[number].pipe() {
            self.nature.pipes.close(pipe, Side::Peer);
            self.nature
                .later(Delay::Net, Happening::Ends(pipe, Side::Server));
            self.clients[number].lost(&mut self.nature);
        }
    }

    /// The faults are over: disk, connections, launches, agents and the leader are as they should
    /// be.
    pub(super) fn calm(&mut self) {
        let nature = &mut self.nature;
        nature.calm = Some(nature.now);
        for instance in &mut self.instances {
            instance.set_room(nature, Room::Enough);
            instance.parted_until = nature.now;
            instance.launch = Launch::Lives;
        }
        nature.queue.push(nature.now, Happening::LeaderStarts(ROOT));
        let admin = Happening::ClientConnects(ADMINISTRATOR);
        nature.queue.push(nature.now, admin);
        for (machine, agent) in self.agents.iter().enumerate() {
            if agent.course == Running::No {
                let starts = Happening::Agent(machine, AgentTurn::Starts);
                nature.queue.push(nature.now, starts);
            }
        }
    }

    /// What an instance has to offer.
    pub(super) fn nodes_of(&self, id: InstanceId) -> Nodes {
        if id == ROOT {
            return self.nodes;
        }
        let inventory = &self.instances[id.place()].inventory;
        let cores = inventory.nodes.values().map(|node| node.cores.len() as u32);
        let gpus = inventory.nodes.values().map(|node| node.gpus.len() as u32);
        let sockets = inventory
            .nodes
            .values()
            .map(|node| node.sockets().len() as u32);
        Nodes {
            count: (inventory.nodes.len() as u32).max(1),
            cores: cores.max().unwrap_or(1).max(1),
            gpus: gpus.max().unwrap_or(0),
            memory: 0,
            sockets: sockets.max().unwrap_or(1).max(1),
        }
    }
}

/// Any machine; where there is one no chance is asked.
fn some_machine(nature: &mut crate::nature::Nature) -> usize {
    match nature.machines.len() {
        1 => 0,
        all => nature.random.below(all as u64) as usize,
    }
}
