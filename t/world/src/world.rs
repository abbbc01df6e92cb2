//! The world: takes what happens next and lets it happen, until nothing happens any more.
//!
//! Holds the instances, the agents of the machines, the clients and what they share. The verbs of
//! the world (crash, cut, stop…) are faults that strike; a script or a swarm says when.

mod agents;
mod attend;
mod hang;
mod happen;
mod nest;
mod site;
mod strike;

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::queue::Turn;
use eddy_wire::suspension::Standing;
use eddy_wire::time::{Span, Time};

use crate::agent::Agent;
use crate::call::Call;
use crate::client::{Client, OWNER};
use crate::fault::Fault;
use crate::instance::{Instance, Nodes};
use crate::nature::{Happening, InstanceId, Nature, Pace, ROOT};
use crate::quiet;
use crate::shell::Course;
use crate::workload::{Habits, Limited, limits};

pub use strike::Holder;

/// The world.
pub struct World {
    /// What all share.
    pub nature: Nature,
    /// Every instance there ever was; the first is the root.
    pub instances: Vec<Instance>,
    /// The agent of each machine; none where all ranks are the leader's own.
    pub agents: Vec<Agent>,
    /// The clients; the first is the administrator of the root.
    pub clients: Vec<Client>,
    /// Its nodes.
    pub nodes: Nodes,
    /// What goes wrong after so many steps: right behind whatever happens then.
    pub strikes: BTreeMap<u64, Fault>,
    /// How many things each client still does.
    pub acts: Vec<u32>,
    /// Longest pause of a client between two things it does.
    pub pause: Span,
    /// How long work lasts and how deep instances are made.
    pub habits: Habits,
    /// Who comes to an instance that begins.
    pub visitors: Visitors,
    /// Processes that are stopped, and until when.
    frozen: BTreeMap<Holder, Time>,
    /// Machines that cannot reach each other, and until when.
    parted: Vec<(usize, usize, Time)>,
    /// Since when instances in those of queues were seen to hold what they have not, while it is calm.
    unlike: BTreeMap<(InstanceId, JobId), Time>,
    /// The ranks of the root for which its leader keeps agents.
    kept: Idset,
    hostings: u64,
    steps: u64,
}

/// Who comes to a child instance that begins to serve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visitors {
    /// Nobody.
    #[default]
    None,
    /// Somebody who does so many things there.
    Busy(u32),
}

/// Number of the administrator's client.
pub const ADMINISTRATOR: usize = 0;
/// How often what holds jobs back is put right before they are expected to be over.
const REPAIRS_MAX: u32 = 8;
/// How often a world with ranks apart is looked at once it is calm, and how long.
const LOOK: Span = Span::seconds(5);
const CALM_MAX: Span = Span::seconds(1_200);
/// How long two may tell apart what a job holds, once it is calm.
const UNLIKE_MAX: Span = Span::seconds(60);

impl World {
    /// A world in which nothing has happened, with all ranks on one machine.
    pub fn new(mut nature: Nature, nodes: Nodes, grace: Span) -> World {
        nature.oracle(ROOT).set_grace(grace);
        World {
            nature,
            instances: vec![Instance::root(nodes, grace)],
            agents: Vec::new(),
            clients: vec![Client::new(ADMINISTRATOR, OWNER, ROOT)],
            nodes,
            strikes: BTreeMap::new(),
            acts: vec![0],
            pause: Span::seconds(1),
            habits: Habits::FLAT,
            visitors: Visitors::None,
            frozen: BTreeMap::new(),
            parted: Vec::new(),
            unlike: BTreeMap::new(),
            kept: Idset::new(),
            hostings: 0,
            steps: 0,
        }
    }

    /// A world in which nothing has happened, with a machine and an agent for each rank.
    pub fn of_machines(mut nature: Nature, nodes: Nodes, grace: Span, fanout: u32) -> World {
        let machines = nodes.count as usize;
        nature.machines = vec![crate::clock::Machine::default(); machines];
        let mut world = World::new(nature, nodes, grace);
        let root = &mut world.instances[ROOT.place()];
        root.seats = (0..machines).collect();
        root.fanout = Some(fanout);
        root.settings.local = Idset::one(0);
        root.settings.instance_command = vec!["task".to_owned()];
        world.agents = (0..machines).map(|_| Agent::default()).collect();
        world.kept = Idset::first_ids(nodes.count);
        world
    }

    /// Whether ranks are apart: machines, agents, links.
    pub fn is_tree(&self) -> bool {
        !self.agents.is_empty()
    }

    /// The first instance.
    pub fn root(&mut self) -> &mut Instance {
        &mut self.instances[ROOT.place()]
    }

    /// Adds a client of the root that connects at once; its number.
    pub fn add_client(&mut self, user: u32) -> usize {
        self.add_client_of(user, ROOT, 0)
    }

    /// Adds a client of a rank of an instance that connects at once; its number.
    pub fn add_client_of(&mut self, user: u32, instance: InstanceId, rank: u32) -> usize {
        let number = self.clients.len();
        let mut client = Client::new(number, user, instance);
        client.rank = eddy_wire::id::Rank(rank);
        self.clients.push(client);
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
        self.nature.finding()
    }

    /// Lets the next thing happen; `Exit` when there is none.
    pub fn step(&mut self) -> Course {
        let Some((at, happening)) = self.nature.queue.pop() else {
            return Course::Exit;
        };
        self.nature.now = self.nature.now.max(at);
        self.steps += 1;
        match self.waits(&happening) {
            Some(until) => self.nature.queue.push(until, happening),
            None => self.happen(happening),
        }
        self.keep_agents();
        if let Some(fault) = self.strikes.remove(&self.steps) {
            self.strike(fault);
        }
        // A world of links is judged by what it is held against.
        let is_judged = !self.is_tree() && !matches!(self.nature.pace, Pace::Links(_));
        if is_judged && quiet::is_lull(self) {
            let checked = quiet::nothing_waits_that_could_start(self, ROOT)
                .and_then(|()| quiet::nothing_waits_for_what_is_met(self, ROOT))
                .and_then(|()| quiet::nobody_is_forgotten_at_a_limit(self, ROOT))
                .and_then(|()| quiet::nothing_runs_that_should_end(self, ROOT));
            if let Err(sentence) = checked {
                self.nature.fail(ROOT, sentence);
            }
        }
        Course::On
    }

    /// Runs until nothing happens any more, something is wrong, or `steps` are done.
    pub fn run(&mut self, steps: u64) {
        if self.is_tree() {
            return self.run_tree(steps);
        }
        for repair in 0..=REPAIRS_MAX {
            while self.finding().is_none() && self.step() == Course::On {
                if self.steps > steps {
                    let sentence = format!("it does not come to rest within {steps} steps");
                    return self.nature.fail(ROOT, sentence);
                }
            }
            if self.finding().is_some() || repair == REPAIRS_MAX || !self.repair(ROOT) {
                break;
            }
        }
        if self.finding().is_none()
            && let Err(sentence) = quiet::is_at_rest(self)
        {
            self.nature.fail(ROOT, sentence);
        }
    }

    /// Links never rest: runs until all clients are done and the faults are over, then looks now
    /// and then whether every promise is kept, and puts right what a person would.
    fn run_tree(&mut self, steps: u64) {
        let mut look = Time(0);
        let mut latest = Time(0);
        while self.finding().is_none() && self.step() == Course::On {
            if self.steps > steps {
                let sentence = format!("it does not come to rest within {steps} steps");
                return self.nature.fail(ROOT, sentence);
            }
            let Some(calm) = self.nature.calm.filter(|_| self.nature.now >= look) else {
                continue;
            };
            latest = latest.max(calm.after(CALM_MAX));
            look = self.nature.now.after(LOOK);
            // One whose other machines were all removed has no links, and would say nothing for an hour.
            self.nature.queue.push(look, Happening::Looks);
            if let Some(id) = self.hangs_too_long(calm) {
                let sentence = "its leader hangs and is not begun anew".to_owned();
                return self.nature.fail(id, sentence);
            }
            match quiet::is_tree_at_rest(self) {
                Ok(()) if self.hung().is_some() => {}
                Ok(()) => return self.agrees(),
                Err((instance, sentence)) if self.nature.now > latest => {
                    return self.nature.fail(instance, sentence);
                }
                Err(_) => {}
            }
            let ids: Vec<InstanceId> = self.instances.iter().map(|one| one.id).collect();
            for id in ids {
                self.repair(id);
            }
            self.hold_alike();
            self.shut_idle();
        }
    }

    /// What an instance has given back, or lost, is soon nothing that it holds outside.
    fn hold_alike(&mut self) {
        let unlike = quiet::passed::unlike(self);
        self.unlike.retain(|of, _| unlike.contains_key(of));
        for (of, why) in unlike {
            let since = *self.unlike.entry(of).or_insert(self.nature.now);
            if self.nature.now - since > UNLIKE_MAX {
                self.nature.fail(of.0, format!("{why}, for {UNLIKE_MAX:?}"));
            }
        }
    }

    /// What each leader folded is what its journal says.
    fn agrees(&mut self) {
        let now = self.nature.now;
        for instance in &mut self.instances {
            let judge = self.nature.judge(instance.id);
            if let Err(sentence) = crate::replay::agrees_with_life(instance, judge, now) {
                let id = instance.id;
                return self.nature.fail(id, sentence);
            }
        }
    }

    /// The administrator puts back what is drained and lets go what is held; whether there was any.
    fn repair(&mut self, id: InstanceId) -> bool {
        if self.instances[id.place()].leader.is_none() {
            return false;
        }
        let ledger = self.nature.judge(id).durable();
        let held = |(_, job): &(&JobId, &eddy_wire::job::Job)| {
            job.urgency == 0 && job.state != JobState::Inactive
        };
        let held: Vec<JobId> = ledger.jobs.iter().filter(held).map(|(id, _)| *id).collect();
        // A node that an instance has no more cannot be put back.
        let drained = ledger.drained.intersect(&ledger.inventory.ranks());
        let mut calls: Vec<Call> = held.into_iter().map(|job| Call::urgency(job, 16)).collect();
        if !self.nature.judge(id).queued().stopped().is_empty() {
            calls.push(Call::turn(None, Turn::Start, ""));
        }
        if !drained.is_empty() {
            calls.push(Call::undrain(drained));
        }
        // Who is kept back by a limit may be so for ever.
        let is_kept = |job: &eddy_wire::job::Job| job.state == JobState::Priority;
        if self.habits.limits == Limited::All && ledger.jobs.values().any(is_kept) {
            calls.push(limits::none());
        }
        // What asks for the nodes of a declared instance waits as long as that lives, and so does what
        // an instance is to grow by where that has all nodes. It waits for none that is over.
        let declares = !self.instances[id.place()].settings.declared.is_empty();
        let waits = |(_, job): &(&JobId, &eddy_wire::job::Job)| {
            let of = job.submit.spec.request.grows();
            let of = of.and_then(|of| ledger.jobs.get(&of));
            let is_ground = of.is_some_and(|of| of.state != JobState::Inactive);
            // Cores that one gave back may be such an instance's by now.
            let resumes = job.suspension.standing() == Standing::Resuming;
            let waits = matches!(job.state, JobState::Depend | JobState::Sched)
                || (job.state == JobState::Run && resumes);
            waits && job.urgency > 0 && (declares || is_ground)
        };
        let waiting = ledger.jobs.iter().filter(waits);
        calls.extend(waiting.map(|(job, _)| Call::raise(*job, "cancel", 0)));
        // Gangs that are never whole.
        let judge = self.nature.judge(id);
        let depends = |job: JobId| {
            let job = judge.durable().jobs.get(&job);
            job.is_some_and(|job| matches!(job.state, JobState::Depend | JobState::Priority))
        };
        let stuck = judge.ganged().stuck(depends).into_iter();
        calls.extend(stuck.map(|job| Call::raise(job, "cancel", 0)));
        // What is to stop does so by itself.
        let suspended = |(_, job): &(&JobId, &eddy_wire::job::Job)| {
            job.state == JobState::Run && job.suspension.standing() == Standing::Suspended
        };
        let ledger = judge.durable();
        let suspended = ledger.jobs.iter().filter(suspended);
        calls.extend(suspended.map(|(job, _)| Call::resume(*job)));
        let some = !calls.is_empty();
        for call in calls {
            let administrator = self.administrator(id);
            self.call(administrator, call);
        }
        some
    }

    /// Who puts things right in that instance.
    fn administrator(&mut self, id: InstanceId) -> usize {
        if id == ROOT {
            return ADMINISTRATOR;
        }
        let known = self
            .clients
            .iter()
            .find(|client| client.instance == id && client.is_keeper && !client.is_gone());
        match known {
            Some(client) => client.number,
            None => {
                let number = self.add_client_of(OWNER, id, 0);
                self.clients[number].is_keeper = true;
                number
            }
        }
    }

    /// Children in which nothing is left to be done are told to end.
    fn shut_idle(&mut self) {
        let idle = |instance: &&Instance| {
            instance.nested.is_some()
                && instance.settings.place.name.is_none()
                && instance.leader.is_some()
                && !self.is_unlike(instance)
                && self
                    .nature
                    .judge(instance.id)
                    .durable()
                    .jobs
                    .values()
                    .all(|job| job.state == JobState::Inactive)
        };
        let idle: Vec<InstanceId> = self.instances.iter().filter(idle).map(|i| i.id).collect();
        for id in idle {
            let administrator = self.administrator(id);
            if self.clients[administrator].unanswered().next().is_none() {
                self.call(administrator, Call::shutdown());
            }
        }
    }

    /// Whether it is a job that is to be seen to hold outside what it has.
    fn is_unlike(&self, instance: &Instance) -> bool {
        let nested = instance.nested.as_ref();
        let of = nested.map(|nested| (nested.parent, nested.child.job));
        of.is_some_and(|of| self.unlike.contains_key(&of))
    }

    /// A client makes a call.
    pub fn call(&mut self, client: usize, call: Call) {
        self.clients[client].call(&mut self.nature, call);
    }

    /// A child instance began to serve: who wants something of it comes.
    fn begun(&mut self, id: InstanceId) {
        let Visitors::Busy(acts) = self.visitors else {
            return;
        };
        if self.clients.iter().any(|client| client.instance == id) {
            return;
        }
        let ranks: Vec<u32> = self.instances[id.place()]
            .inventory
            .ranks()
            .iter()
            .collect();
        let rank = *self.nature.random.pick(&ranks);
        let client = self.add_client_of(OWNER, id, rank);
        self.acts[client] = acts;
        let now = self.nature.now;
        self.nature.queue.push(now, Happening::ClientActs(client));
    }

    /// Calls of clients that are not answered though they should be.
    pub fn unanswered(&self) -> impl Iterator<Item = (usize, &Call)> {
        self.clients
            .iter()
            .flat_map(|client| client.unanswered().map(|call| (client.number, call)))
    }
}
