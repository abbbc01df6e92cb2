//! A site on which accounts want work done, and what each of them got.
//!
//! A world in which nothing goes wrong and nothing takes time but, if asked for, messages; the real
//! modules, planner and records in it. Parties submit what they like when they like; what they got
//! is read from the records of the root, apart from the ledger that is judged by it. Called by
//! tests, by the bench and by `cheat`.

pub mod cheat;
pub mod crowd;
pub mod eta;
pub mod fair;
mod got;
pub mod stir;

use std::collections::BTreeMap;
use std::iter;

use eddy_modules::settings::{Class, Elastic, Extent};
use eddy_wire::event::Kind;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Explained;
use eddy_wire::services::child::ChildRow;
use eddy_wire::services::job::JobSet;
use eddy_wire::services::sched::ExplainReply;
use eddy_wire::services::usage::UsageReport;
use eddy_wire::time::{Span, Time};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::call::{Ask, Call, Nests, key};
use crate::client::OWNER;
use crate::instance::Nodes;
use crate::nature::{AgentTurn, BEGIN, Happening, InstanceId, Nature, Pace, ROOT};
use crate::shell::Course;
use crate::swarm::declare;
use crate::task::{Behaviour, OnTerm, Start};
use crate::world::World;

pub use got::{Got, Ran, parts};

/// How long instances are given to come up before anybody comes.
const BEGINNING: Span = Span::seconds(100);
/// What is recorded of a job that is over comes no later than this.
const TOLD_LATE: Span = Span::seconds(60);
/// From TERM to KILL.
const GRACE: Span = Span::seconds(5);
/// So many ranks hang below one.
const FANOUT: u32 = 16;

/// A machine, who may use it, and by which policy.
#[derive(Clone, Debug)]
pub struct Ground {
    /// Its nodes.
    pub nodes: u32,
    /// Cores of each.
    pub cores: u32,
    /// How long a message takes.
    pub message: Span,
    /// How the root orders and places jobs: a policy, as TOML.
    pub policy: String,
    /// Elastic queue instances of these names.
    pub queues: Vec<&'static str>,
    /// Accounts: name, the one it is under, shares. What is above comes first.
    pub accounts: Vec<(&'static str, Option<&'static str>, u32)>,
    /// Who is in which: name of the account, shares.
    pub members: Vec<(&'static str, u32)>,
}

/// Names a member of an account: its place in [`Ground::members`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Party(pub usize);

impl Party {
    /// Its user id.
    pub fn user(self) -> u32 {
        OWNER + 1 + self.0 as u32
    }

    fn of(user: u32) -> Option<Party> {
        user.checked_sub(OWNER + 1).map(|at| Party(at as usize))
    }
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// It is known.
    Submitted,
    /// It was granted what it runs on.
    Began,
    /// Its tasks run.
    Runs,
    /// It has given everything back.
    Free,
    /// It is over.
    Over,
}

impl News {
    fn of(kind: &Kind) -> Option<News> {
        match kind {
            Kind::Submit(_) => Some(News::Submitted),
            Kind::Alloc(_) => Some(News::Began),
            Kind::Start => Some(News::Runs),
            Kind::Clean => Some(News::Over),
            kind => kind.frees().then_some(News::Free),
        }
    }
}

/// Something that became of somebody's job.
#[derive(Clone, Debug)]
pub struct Told {
    /// Whose.
    pub party: Party,
    /// Which.
    pub job: JobId,
    /// What its submitter called it.
    pub name: String,
    /// What.
    pub news: News,
    /// When.
    pub at: Time,
}

/// Where a party submits to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Door {
    /// The root.
    Root,
    /// The leader of the queue instance of this name.
    Queue(&'static str),
    /// The leader of an instance that is a job.
    Inside(InstanceId),
}

/// A site at work.
pub struct Trial {
    /// The world it is in.
    pub world: World,
    /// What everybody got.
    pub got: Got,
    ground: Ground,
    begun: Time,
    read: usize,
    clients: BTreeMap<(Party, Door), usize>,
    /// The administrator of accounts.
    keeper: usize,
}

impl Trial {
    /// A site that is up and knows its accounts.
    ///
    /// # Errors
    /// A broken promise.
    pub fn new(ground: Ground) -> Result<Trial, String> {
        let world = world(&ground);
        Trial::at(ground, world)
    }

    /// The same where the root is another than it would be.
    ///
    /// # Errors
    /// A broken promise.
    pub fn otherwise(ground: Ground, change: impl FnOnce(&mut World)) -> Result<Trial, String> {
        let mut world = world(&ground);
        change(&mut world);
        Trial::at(ground, world)
    }

    /// The same with a machine and an agent for each node: instances can grow there.
    ///
    /// # Errors
    /// A broken promise.
    pub fn of_machines(ground: Ground) -> Result<Trial, String> {
        let (nature, nodes) = (nature(&ground), nodes(&ground));
        let mut world = World::of_machines(nature, nodes, GRACE, FANOUT);
        prepare(&mut world, &ground);
        for machine in 1..ground.nodes as usize {
            let starts = Happening::Agent(machine, AgentTurn::Starts);
            world.nature.queue.push(BEGIN, starts);
        }
        Trial::at(ground, world)
    }

    fn at(ground: Ground, mut world: World) -> Result<Trial, String> {
        let keeper = world.add_client(OWNER);
        let mut trial = Trial {
            world,
            got: Got::default(),
            begun: BEGIN,
            read: 0,
            clients: BTreeMap::new(),
            keeper,
            ground,
        };
        trial.world.nature.now = BEGIN;
        trial.settle(BEGIN.after(BEGINNING))?;
        trial.accounts();
        let policy = Call::set_policy(&trial.ground.policy);
        trial.world.call(keeper, policy);
        let begun = trial.world.nature.now.after(Span::seconds(1));
        trial.settle(begun)?;
        trial.begun = begun;
        Ok(trial)
    }

    fn accounts(&mut self) {
        let of = |name: &str, value: Value| json!({ "change": { "account": { "name": name, "value": value } } });
        let accounts = self.ground.accounts.iter();
        let accounts = accounts.map(|(name, parent, shares)| {
            let mut value = json!({ "shares": shares });
            if let Some(parent) = parent {
                value["parent"] = json!(parent);
            }
            of(name, value)
        });
        let members = self.ground.members.iter().enumerate();
        let members = members.map(|(at, (account, shares))| {
            let user = Party(at).user();
            let value = json!({ "shares": shares });
            json!({ "change": { "member": { "account": account, "user": user, "value": value } } })
        });
        let changes: Vec<Value> = accounts.chain(members).collect();
        if changes.is_empty() {
            return;
        }
        self.ask_accounts(&json!({ "changes": changes }));
    }

    fn ask_accounts(&mut self, changes: &Value) {
        let call = Call::accounts(changes);
        self.world.call(self.keeper, call);
    }

    /// An account has so many shares from now on.
    pub fn share(&mut self, account: &'static str, shares: u32) {
        let line = self.ground.accounts.iter().find(|line| line.0 == account);
        let parent = line.and_then(|line| line.1);
        let mut value = json!({ "shares": shares });
        if let Some(parent) = parent {
            value["parent"] = json!(parent);
        }
        let change = json!({ "account": { "name": account, "value": value } });
        self.ask_accounts(&json!({ "changes": [{ "change": change }] }));
    }

    /// The administrator asks something.
    pub fn keeper(&mut self, call: Call) {
        self.world.call(self.keeper, call);
    }

    /// How long it has been at work.
    pub fn age(&self) -> Span {
        self.world.nature.now - self.begun
    }

    /// Since when it is.
    pub fn begun(&self) -> Time {
        self.begun
    }

    /// The queue instance of that name.
    pub fn instance(&self, name: &str) -> Option<InstanceId> {
        let is_it =
            |one: &&crate::instance::Instance| one.settings.place.name.as_deref() == Some(name);
        self.world.instances.iter().find(is_it).map(|one| one.id)
    }

    /// The instance that this job of the root is, once it has come up.
    pub fn instance_of(&self, job: JobId) -> Option<InstanceId> {
        let is_it = |one: &&crate::instance::Instance| {
            one.nested.as_ref().is_some_and(|nested| {
                nested.parent == ROOT && nested.child.job == job && one.leader.is_some()
            })
        };
        // Those that came up last are asked for.
        self.world
            .instances
            .iter()
            .rev()
            .find(is_it)
            .map(|one| one.id)
    }

    fn client(&mut self, party: Party, door: Door) -> usize {
        if let Some(client) = self.clients.get(&(party, door)) {
            return *client;
        }
        let instance = match door {
            Door::Root => ROOT,
            Door::Queue(name) => self.instance(name).expect("it is up"),
            Door::Inside(instance) => instance,
        };
        let client = self.world.add_client_of(party.user(), instance, 0);
        self.clients.insert((party, door), client);
        client
    }

    /// A party submits this.
    pub fn submit(&mut self, party: Party, door: Door, ask: &Ask) {
        let nature = &mut self.world.nature;
        let key = key(nature.now, &mut nature.random);
        let call = Call::submit(party.user(), ask, key);
        self.call(party, door, call);
    }

    /// A party asks something else.
    pub fn call(&mut self, party: Party, door: Door, call: Call) {
        let client = self.client(party, door);
        self.world.call(client, call);
    }

    /// What a party was told since the last time of why its jobs wait.
    pub fn answered(&mut self, party: Party) -> Vec<Explained> {
        let client = self.client(party, Door::Root);
        let heard = std::mem::take(&mut self.world.clients[client].heard);
        let replies = heard
            .iter()
            .filter_map(|one| one.parse::<ExplainReply>().ok());
        replies.flat_map(|reply| reply.jobs).collect()
    }

    /// All who wait in their turn, as the administrator is told.
    ///
    /// # Errors
    /// A broken promise.
    pub fn line(&mut self) -> Result<Vec<Explained>, String> {
        self.world.call(self.keeper, Call::explain());
        let replies = self.heard::<ExplainReply>()?;
        Ok(replies.into_iter().flat_map(|reply| reply.jobs).collect())
    }

    /// Why these wait and when they begin, as the administrator is told.
    ///
    /// # Errors
    /// A broken promise.
    pub fn told_of(&mut self, jobs: JobSet) -> Result<Vec<Explained>, String> {
        self.world.call(self.keeper, Call::why(jobs));
        let replies = self.heard::<ExplainReply>()?;
        Ok(replies.into_iter().flat_map(|reply| reply.jobs).collect())
    }

    /// What was charged to whom, as the administrator is told.
    ///
    /// # Errors
    /// A broken promise.
    pub fn usage(&mut self) -> Result<Option<UsageReport>, String> {
        self.world.call(self.keeper, Call::usage());
        Ok(self.heard::<UsageReport>()?.pop())
    }

    /// What the root says to a party of the instance that a job is or was; nothing if that is not the party's.
    ///
    /// # Errors
    /// A broken promise.
    pub fn child(&mut self, party: Party, job: JobId) -> Result<Vec<ChildRow>, String> {
        let client = self.client(party, Door::Root);
        self.world.call(client, Call::child(job));
        Ok(self.heard_by(client)?.pop().unwrap_or_default())
    }

    fn heard<T: DeserializeOwned>(&mut self) -> Result<Vec<T>, String> {
        self.heard_by(self.keeper)
    }

    fn heard_by<T: DeserializeOwned>(&mut self, client: usize) -> Result<Vec<T>, String> {
        // What becomes of jobs in that moment is read with what follows.
        let until = self.world.nature.now.after(Span(1));
        while self.next_before(until) {
            self.world.step();
        }
        self.sound()?;
        let heard = std::mem::take(&mut self.world.clients[client].heard);
        Ok(heard.iter().filter_map(|one| one.parse().ok()).collect())
    }

    /// All nodes are taken out of service, so that nobody starts.
    pub fn close(&mut self) {
        for rank in 0..self.ground.nodes {
            self.keeper(Call::drain(Rank(rank)));
        }
    }

    /// All nodes are there at once.
    pub fn open(&mut self) {
        self.keeper(Call::undrain(Idset::first_ids(self.ground.nodes)));
    }

    /// Everything that is to happen within so long happens, and `hear` is told of what became of
    /// jobs at the root.
    ///
    /// # Errors
    /// A broken promise.
    pub fn run(
        &mut self,
        span: Span,
        mut hear: impl FnMut(&mut Trial, &Told),
    ) -> Result<(), String> {
        let until = self.world.nature.now.after(span);
        while self.next_before(until) {
            self.world.step();
            for told in self.read() {
                hear(self, &told);
            }
        }
        self.world.nature.now = self.world.nature.now.max(until);
        self.sound()
    }

    /// Forgets what is over, but for what parties had of it, which fades by that half-life: of a trial that goes on for
    /// long nothing else fits in memory. Nothing is lost in it, so nobody reads back.
    pub fn let_go(&mut self, half: Span) {
        let now = self.world.nature.now;
        self.got.settle(half, now);
        // Who acts by a trial keeps in mind what is his.
        self.world
            .clients
            .iter_mut()
            .for_each(|client| client.jobs.clear());
        let lasts = |one: &&mut crate::instance::Instance| {
            one.id == ROOT || one.settings.place.name.is_some()
        };
        for instance in self.world.instances.iter_mut().filter(lasts) {
            let before = now.after(Span(-TOLD_LATE.0));
            let over = self.world.nature.oracle(instance.id).let_go(before);
            instance.journal.let_go(&over);
        }
    }

    /// The same until nothing is left to happen that is work: everybody's jobs are over.
    ///
    /// # Errors
    /// A broken promise, or more steps than that.
    pub fn run_out(
        &mut self,
        steps: u64,
        mut hear: impl FnMut(&mut Trial, &Told),
    ) -> Result<(), String> {
        for _ in 0..steps {
            if self.world.step() == Course::Exit || self.got.is_over() {
                return self.sound();
            }
            for told in self.read() {
                hear(self, &told);
            }
        }
        self.sound()?;
        Err(format!("{} jobs are not over", self.got.left()))
    }

    fn settle(&mut self, until: Time) -> Result<(), String> {
        while self.next_before(until) {
            self.world.step();
        }
        drop(self.read());
        self.world.nature.now = self.world.nature.now.max(until);
        self.sound()
    }

    fn next_before(&self, until: Time) -> bool {
        let next = self.world.nature.queue.next_at();
        next.is_some_and(|next| next < until)
    }

    /// Whether every promise was kept so far.
    ///
    /// # Errors
    /// The first that was not.
    pub fn sound(&self) -> Result<(), String> {
        self.world
            .finding()
            .map_or(Ok(()), |why| Err(why.to_owned()))
    }

    /// What the root recorded since the last time, of jobs of parties.
    fn read(&mut self) -> Vec<Told> {
        let records = self.world.instances[ROOT.place()].journal.records();
        if records.len() == self.read {
            return Vec::new();
        }
        let mut told = Vec::new();
        for record in &records[self.read..] {
            let Some(job) = record.event.job else {
                continue;
            };
            let (t, kind) = (record.event.t, &record.event.kind);
            if let Kind::Submit(submit) = kind
                && let Some(party) = Party::of(submit.user)
            {
                self.got.submitted(job, party, submit, t);
            }
            let implied = kind.implied();
            for kind in iter::once(kind).chain(&implied) {
                self.got.take(job, t, kind);
                let Some(news) = News::of(kind) else { continue };
                if let Some((party, name)) = self.got.of(job) {
                    let name = name.to_owned();
                    told.push(Told {
                        party,
                        job,
                        name,
                        news,
                        at: t,
                    });
                }
            }
        }
        self.read = records.len();
        told
    }

    /// How many jobs of an instance have come to that state.
    pub fn count(&self, instance: InstanceId, state: JobState) -> usize {
        let jobs = self.world.nature.judge(instance).recorded().jobs.values();
        jobs.filter(|job| job.state == state).count()
    }
}

fn nature(ground: &Ground) -> Nature {
    Nature::new(0, Pace::Links(ground.message), GRACE)
}

fn nodes(ground: &Ground) -> Nodes {
    Nodes {
        count: ground.nodes,
        cores: ground.cores,
        gpus: 0,
        memory: 0,
        sockets: 1,
    }
}

fn world(ground: &Ground) -> World {
    let mut world = World::new(nature(ground), nodes(ground), GRACE);
    prepare(&mut world, ground);
    world
}

fn prepare(world: &mut World, ground: &Ground) {
    let settings = &mut world.root().settings;
    settings.instance_command = vec!["task".to_owned()];
    // Those of `armada`: what a policy that is set later names is not known to who takes submissions.
    settings.classes = ["default", "preemptible"]
        .map(|name| Class {
            name: name.parse().expect("a name"),
            priority: 0,
        })
        .to_vec();
    for name in &ground.queues {
        let extent = Extent::Elastic(Elastic::default());
        declare(world.root(), name, extent);
    }
    let queue = &mut world.nature.queue;
    queue.push(BEGIN, Happening::LeaderStarts(ROOT));
}

/// A job that does its work for so long, on so many cores.
pub fn work(cores: u32, run: Span, limit: Span) -> Ask {
    let behaviour = Behaviour {
        run,
        exit: 0,
        term: OnTerm::Die,
        start: Start::Works,
    };
    Ask {
        ntasks: cores,
        limit: limit.0 as f64 / 1e6,
        command: behaviour.command(),
        ..Ask::default()
    }
}

/// An instance on so many whole nodes whose program runs for so long.
pub fn instance(nodes: u32, run: Span, limit: Span) -> Ask {
    Ask {
        nodes: Some(nodes),
        sharing: eddy_wire::jobspec::Sharing::Exclusive,
        nests: Nests::Instance,
        ..work(nodes, run, limit)
    }
}
