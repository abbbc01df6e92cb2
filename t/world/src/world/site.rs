//! What an administrator of a site changes while all runs: nodes come and go, and jobs that wait are to be
//! other than they were asked for.
//!
//! Does what the root's leader does with processes: an agent for each rank of the inventory, and for no other.

use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::jobspec::Work;
use eddy_wire::lifecycle::JobState;
use eddy_wire::time::Span;
use eddy_wire::update::Terms;

use super::strike::Holder;
use super::{ADMINISTRATOR, World};
use crate::agent::{Agent, Running};
use crate::call::{About, Call, key};
use crate::clock::Machine;
use crate::fault::{Fault, Gone, Holders, SiteFault};
use crate::nature::{AgentTurn, Delay, Happening, ROOT};
use crate::random::Random;
use crate::workload::{Limited, QOS, Standings};

/// How long it is until somebody asks again whether a node can go.
const AGAIN: Span = Span::seconds(3);

/// How long a shell hangs that nobody ends.
const HANGS: Span = Span::seconds(60);

impl World {
    pub(super) fn administer(&mut self, fault: SiteFault) {
        match fault {
            SiteFault::Add(count) => {
                let wall = self.nature.clock(0).wall;
                // Of a generator of its own, so that the world is otherwise as it would be.
                let mut random = Random::new(u64::from(count) ^ wall.0 as u64);
                let key = key(wall, &mut random);
                self.call(ADMINISTRATOR, Call::add(count, key));
            }
            SiteFault::Drain(rank, holders) => {
                self.call(ADMINISTRATOR, Call::drain(Rank(rank)));
                if holders == Holders::Cancelled {
                    for job in self.holders(rank) {
                        self.call(ADMINISTRATOR, Call::raise(job, "cancel", 0));
                    }
                }
            }
            SiteFault::Remove(rank, times) => self.remove(rank, times),
            SiteFault::Dead(rank, gone) => self.declare_dead(rank, gone),
            SiteFault::Terms(seed) => self.change_terms(seed),
        }
    }

    /// Jobs that hold something of a rank of the root, but for declared instances.
    fn holders(&self, rank: u32) -> Vec<JobId> {
        let ledger = self.nature.judge(ROOT).recorded();
        let of_users = |job: &JobId| {
            let work = ledger
                .jobs
                .get(job)
                .map(|job| &job.submit.spec.request.work);
            !matches!(work, Some(Work::Instance { name: Some(_) }))
        };
        let held = ledger.held.iter();
        let held = held.filter(|(_, held)| held.set.nodes.contains_key(&Rank(rank)));
        held.map(|(job, _)| *job).filter(of_users).collect()
    }

    fn remove(&mut self, rank: u32, times: u32) {
        let inventory = &self.nature.judge(ROOT).recorded().inventory;
        if !inventory.nodes.contains_key(&Rank(rank)) {
            return;
        }
        let Some(left) = times.checked_sub(1) else {
            // Nobody waits any longer.
            return self.call(ADMINISTRATOR, Call::undrain(Idset::one(rank)));
        };
        self.call(ADMINISTRATOR, Call::remove(Idset::one(rank)));
        let again = Happening::Strikes(Fault::Site(SiteFault::Remove(rank, left)));
        self.nature.queue.push(self.nature.now.after(AGAIN), again);
    }

    /// Of a node that is not heard of nobody says so who has not switched it off: what is there may live.
    fn declare_dead(&mut self, seed: u64, gone: Gone) {
        let root = &self.instances[ROOT.place()];
        let ledger = self.nature.judge(ROOT).recorded();
        let used = ledger.held.values().flat_map(|grant| &grant.set.nodes);
        let used = used.filter(|(_, node)| !node.is_empty());
        // Of the leader's own node it is refused.
        let others = Idset::one(0);
        let used: Idset = used.map(|(rank, _)| rank.0).collect();
        let (used, all) = (used.difference(&others), ledger.inventory.ranks());
        let ranks = match used.is_empty() {
            true => all.difference(&others),
            false => used,
        };
        let ranks: Vec<u32> = ranks.iter().collect();
        if ranks.is_empty() {
            return;
        }
        let rank = *Random::new(seed).pick(&ranks);
        // One that was added a moment ago has none yet.
        let machine = root.seats.get(rank as usize).copied();
        let Some(machine) = machine.filter(|machine| *machine < self.agents.len()) else {
            return;
        };
        let head = root.leader.as_ref().and_then(|leader| leader.head());
        let is_reached = head.is_some_and(|head| head.reached_ranks().contains(rank));
        match gone {
            Gone::Hangs if !is_reached => return,
            Gone::Hangs => self.freeze_shell(machine, HANGS),
            Gone::Off(span) => self.switch_off(machine, span),
        }
        self.nature.note(|| format!("rank {rank} is declared dead"));
        let rank = Rank(rank);
        let call = Call {
            about: About::Dead(rank),
            ..Call::dead_by_force(rank)
        };
        self.call(ADMINISTRATOR, call);
    }

    /// Whether who said that a rank is dead would say so still: it may have been long on its way, and
    /// the machine is switched on again and cut off.
    pub(super) fn is_dead_still(&self, rank: Rank) -> bool {
        let root = &self.instances[ROOT.place()];
        let head = root.leader.as_ref().and_then(|leader| leader.head());
        let is_reached = head.is_some_and(|head| head.reached_ranks().contains(rank.0));
        let shells = root.shells.values().map(|shell| &shell.seat);
        let left = root.leftovers.values().map(|left| &left.seat);
        let mut seats = shells.chain(left);
        is_reached || !seats.any(|seat| seat.ranks.contains(rank.0))
    }

    /// Who said that a rank is dead takes that back before it is heard.
    pub(super) fn take_back(&mut self, rank: Rank, matchtag: u64) {
        self.nature
            .note(|| format!("nobody says any more that rank {rank} is dead"));
        self.clients[ADMINISTRATOR].take_back(matchtag);
    }

    /// Nothing on a machine lives on; its agent begins when it is switched on again.
    fn switch_off(&mut self, machine: usize, down: Span) {
        self.crash_agent(machine, down);
        for instance in &mut self.instances {
            let shells = instance.shells.iter();
            let shells = shells.map(|(epoch, shell)| (*epoch, &shell.seat));
            let left = instance.leftovers.iter();
            let all = shells.chain(left.map(|(epoch, left)| (*epoch, &left.seat)));
            let there = all.filter(|(_, seat)| seat.machine == machine);
            let there: Vec<_> = there.map(|(epoch, _)| epoch).collect();
            for epoch in there {
                instance.end_shell(&mut self.nature, epoch);
            }
        }
        let led = self.instances.iter();
        let led = led.filter(|one| one.nested.is_some() && one.machine() == machine);
        let led: Vec<_> = led.map(|one| one.id).collect();
        for id in led {
            self.kill_leader(id, down);
        }
    }

    /// The root's shell on a machine does nothing for a while.
    pub fn freeze_shell(&mut self, machine: usize, span: Span) {
        let shells = self.instances[ROOT.place()].shells.iter();
        let mut there = shells.filter(|(_, shell)| shell.seat.machine == machine);
        if let Some((epoch, _)) = there.next() {
            self.freeze(Holder::Shell(ROOT, *epoch), span);
        }
    }

    fn change_terms(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        let waits = |job: &&Job| {
            let states = [JobState::Depend, JobState::Priority, JobState::Sched];
            states.contains(&job.state)
        };
        let jobs = &self.nature.judge(ROOT).recorded().jobs;
        let waiting: Vec<JobId> = jobs.values().filter(waits).map(|job| job.id).collect();
        if waiting.is_empty() {
            return;
        }
        let job = *random.pick(&waiting);
        let mut set = Terms::default();
        if !self.habits.queues.is_empty() && random.chance(60) {
            set.queue = Some((*random.pick(self.habits.queues)).to_owned());
        }
        if random.chance(40) {
            set.account = Some((*random.pick(&["top", "inner", "inner"])).to_owned());
        }
        // An administrator may move a job to where it is over a limit alone; then it waits for ever.
        let is_limited = self.habits.limits == Limited::All;
        if self.habits.ranks != Standings::Equal && !is_limited && random.chance(40) {
            set.qos = Some((*random.pick(&QOS)).to_owned());
        }
        if set.is_empty() {
            set.name = Some("renamed".to_owned());
        }
        self.call(ADMINISTRATOR, Call::terms(job, set));
    }

    /// Whether the root has a rank on that machine, by what is durable.
    pub(super) fn has_machine(&self, machine: usize) -> bool {
        let seats = self.instances[ROOT.place()].seats.iter();
        let ranks = self.kept.iter().map(|rank| rank as usize);
        let mut seats = ranks.filter_map(|rank| seats.clone().nth(rank));
        seats.any(|seat| *seat == machine)
    }

    /// The root's leader, while it lives, keeps agents for the ranks of its inventory.
    pub(super) fn keep_agents(&mut self) {
        if !self.is_tree() || self.instances[ROOT.place()].leader.is_none() {
            return;
        }
        let inventory = &self.nature.judge(ROOT).durable().inventory;
        // Nothing is defined yet.
        if inventory.nodes.is_empty() {
            return;
        }
        let ranks = inventory.ranks();
        if ranks == self.kept {
            return;
        }
        let gone = self.kept.difference(&ranks);
        let come = ranks.difference(&self.kept);
        self.kept = ranks;
        self.nodes.count = self.kept.len() as u32;
        for rank in gone.iter() {
            self.end_agent(Rank(rank));
        }
        for rank in come.iter() {
            self.machine_for(rank);
        }
    }

    /// A rank that is new has a machine of its own.
    fn machine_for(&mut self, rank: u32) {
        let machine = self.agents.len();
        let seats = &mut self.instances[ROOT.place()].seats;
        seats.resize((rank as usize + 1).max(seats.len()), usize::MAX);
        seats[rank as usize] = machine;
        self.agents.push(Agent::default());
        self.nature.machines.push(Machine::default());
        let starts = Happening::Agent(machine, AgentTurn::Starts);
        self.nature.later(Delay::Process, starts);
    }

    /// An agent ends in order: its ranks, then their shells with all that is left there.
    fn end_agent(&mut self, rank: Rank) {
        let machine = self.instances[ROOT.place()].seats[rank.0 as usize];
        self.nature.note(|| format!("agent {machine} ends"));
        self.agents[machine].course = Running::No;
        let hosted: Vec<_> = self.agents[machine].hosted.keys().copied().collect();
        for id in hosted {
            self.unhost(machine, id);
        }
        // Also what an agent that was killed before left there.
        self.end_within(|(parent, part)| *parent == ROOT && part.rank == rank);
        let (root, nature) = (&mut self.instances[ROOT.place()], &mut self.nature);
        let shells = root.shells.iter();
        let there = shells.filter(|(_, shell)| shell.seat.machine == machine);
        let there: Vec<_> = there.map(|(epoch, _)| *epoch).collect();
        for epoch in there {
            root.end_shell(nature, epoch);
        }
    }

    /// The ranks that an instance has.
    pub fn ranks_of(&self, id: crate::nature::InstanceId) -> Idset {
        match id == ROOT && self.is_tree() {
            true => self.kept.clone(),
            false => self.instances[id.place()].inventory.ranks(),
        }
    }
}
