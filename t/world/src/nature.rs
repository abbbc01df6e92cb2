//! What all parts of a world share: time, chance, the queue of what is to happen, the connections,
//! and the judge. Decides nothing: it only says how long things take.

use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::effect::QueryTag;
use eddy_broker::shellbook::Spawn;
use eddy_broker::{Answer, Query, tree::PipeId as LinkId};
use eddy_wire::event::{Final, Kind, Pass, Record, Submit};
use eddy_wire::id::{Epoch, JobId};
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::link::{Hello, HelloAnswer};
use eddy_wire::message::Message;
use eddy_wire::plan::{Delta, Outcome};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::Granted;
use eddy_wire::shell::{FromShell, Part, Role, Start, ToShell};
use eddy_wire::time::{Span, Time};
use eddy_wire::tree::HostOrder;
use uuid::Uuid;

use crate::broken::Rule;
use crate::call::About;
use crate::clock::{Machine, Reading};
use crate::fault::Fault;
use crate::heads::Tally;
use crate::nested::Within;
use crate::oracle::{Kin, Living, Oracle, places};
use crate::pipe::{PipeId, Pipes, Post, Side};
use crate::queue::Queue;
use crate::random::Random;

/// Names an instance of the world, in the order in which they came up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceId(pub u32);

/// The first instance: nobody's child.
pub const ROOT: InstanceId = InstanceId(0);

impl InstanceId {
    /// Its place among the instances of the world.
    pub fn place(self) -> usize {
        self.0 as usize
    }

    /// The id it tells others.
    pub fn name(self) -> String {
        match self {
            ROOT => "world".to_owned(),
            InstanceId(number) => format!("world-{number}"),
        }
    }

    /// The instance that tells others this id.
    pub fn named(name: &str) -> Option<InstanceId> {
        match name.strip_prefix("world")? {
            "" => Some(ROOT),
            rest => rest.strip_prefix('-')?.parse().ok().map(InstanceId),
        }
    }
}

/// One life of a process, counted from 1 in what it is a life of.
pub type Life = u64;

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Happening {
    /// Something sent over a connection arrives.
    Arrives(PipeId, Side, Parcel),
    /// The other end of a connection has closed.
    Ends(PipeId, Side),
    /// The leader of a root is started, if none runs.
    LeaderStarts(InstanceId),
    /// Something about one life of a leader.
    Leader(InstanceId, Life, Turn),
    /// Something about one life of a shell.
    Shell(InstanceId, Epoch, ShellTurn),
    /// A rank of an instance knocks at a door, under this name, with this hello.
    Knocks(Post, LinkId, String, Box<Hello>),
    /// Something about one rank.
    Post(Post, PostTurn),
    /// Something about the agent of a machine.
    Agent(usize, AgentTurn),
    /// Something about one life of the leader process of a child instance.
    Child(InstanceId, Life, ChildTurn),
    /// A client tries to connect.
    ClientConnects(usize),
    /// A client does the next thing it has in mind.
    ClientActs(usize),
    /// Something goes wrong.
    Strikes(Fault),
    /// The leader of an instance makes a mark.
    Marks(InstanceId),
    /// The faults are over: everything is repaired.
    Calms,
    /// Nothing; whether all is at rest is looked at then.
    Looks,
}

/// What happens to one life of a leader.
#[derive(Clone, Debug)]
pub enum Turn {
    /// The writer looks whether there is something to commit.
    CommitBegins,
    /// The commit under way is on disk.
    Commits,
    /// The planner takes its next request.
    Plans(Vec<Delta>),
    /// And answers it.
    Planned(Outcome),
    /// The journal reads for a question.
    Reads(QueryTag, Query),
    /// And answers it.
    Answers(QueryTag, Answer),
    /// A wake-up asked for is due at this broker time.
    Ticks(Time),
    /// The leader looks whether a shell lives.
    Checks(Epoch),
    /// It does not, and what it left has been ended.
    ShellDead(Epoch),
}

/// What happens to one life of a shell.
#[derive(Clone, Debug)]
pub enum ShellTurn {
    /// It tries to connect.
    Connects,
    /// A task's process is there.
    Spawns(Spawn),
    /// A task ends by itself or by a signal, if this is still how it ends.
    TaskEnds(Part, u32, u64),
    /// The tasks of a part are stopped.
    Pauses(Part, u32),
    /// Everything of a part is ended.
    Sweeps(Part),
    /// It was killed: who watches it is to look.
    Missed,
    /// What is nested in parts of a dead shell is ended: its machine and ranks.
    Buried(usize, Idset),
}

/// What happens to a rank.
#[derive(Clone, Debug)]
pub enum PostTurn {
    /// A wake-up its overlay asked for is due at this time of its clock.
    Ticks(Time),
    /// Nobody answers that knock.
    Unanswered(LinkId, String),
    /// All that runs within that part is ended, on which that instance was hosted.
    Unhosted(InstanceId, Part),
    /// The agent looks whether a shell lives.
    Checks(Epoch),
    /// It does not, and what it left has been ended.
    ShellDead(Epoch),
}

/// What happens to the agent of a machine.
#[derive(Clone, Debug)]
pub enum AgentTurn {
    /// It is started, if it does not run.
    Starts,
    /// It is to host a rank of a child of this instance's.
    Hosts(InstanceId, Box<HostOrder>),
    /// It is to host a rank of that instance no more, a child of this one.
    Unhosts(InstanceId, InstanceId),
    /// It is to host for this instance, whose leader is there.
    Attends(InstanceId),
}

/// What happens to the leader process of a child instance.
#[derive(Clone, Debug)]
pub enum ChildTurn {
    /// It tries to reach its parent.
    Connects,
    /// It says over this channel that it is there.
    Beats(PipeId),
    /// It is told what it has, and begins.
    Granted(Box<Granted>),
    /// It leads, and is told what it has now.
    Changed(Box<Granted>),
    /// It gets this signal.
    Signal(i32),
    /// It has ended with this wait status.
    Ended(i32),
    /// Its shell ends it, since it hangs.
    Hangs,
}

/// What goes over connections.
#[derive(Clone, Debug)]
pub enum Parcel {
    /// From a client, with what it is about.
    FromClient(Message, About),
    /// To a client.
    ToClient(Message),
    /// From a shell.
    FromShell(FromShell),
    /// To a shell.
    ToShell(ToShell),
    /// What a knock came to.
    Answer(HelloAnswer),
    /// After a welcome: frames can be sent.
    Opened,
    /// A frame of a link.
    Frame(Bytes),
}

/// What takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// A message on its way.
    Net,
    /// A commit.
    Disk,
    /// A pass of the planner.
    Plan,
    /// A question to the journal.
    Query,
    /// Starting or ending a process.
    Process,
    /// Waiting before the next attempt to connect.
    Retry,
}

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// No time at all, for scripts: what follows from a cause has its time.
    Exact,
    /// Messages take so long, and nothing else any time; a plan is made when all of a moment has
    /// been heard.
    Links(Span),
    /// Something random, longer by this factor on slow machines.
    Random(i64),
}

/// What all parts share.
#[derive(Debug)]
pub struct Nature {
    /// The true time; nobody in the world can see it.
    pub now: Time,
    /// What is to happen.
    pub queue: Queue<Happening>,
    /// Chance.
    pub random: Random,
    /// How long things take.
    pub pace: Pace,
    /// The connections.
    pub pipes: Pipes,
    /// The machines' clocks.
    pub machines: Vec<Machine>,
    /// The judge of each instance.
    oracles: Vec<Oracle>,
    /// What instances are called in transcripts; the root is not.
    pub labels: Vec<String>,
    /// The rule broken on purpose, if one is.
    pub broken: Option<Rule>,
    /// What of the passes of all planners was judged.
    pub heads: Tally,
    /// What crosses instances, and its judge.
    pub tree: Kin,
    /// When the faults were over.
    pub calm: Option<Time>,
    transcript: Transcript,
}

/// Whether what happens is written down.
#[derive(Debug)]
enum Transcript {
    Off,
    On(Vec<String>),
}

/// When every world begins: no world is so old that a key of its clients looks old.
pub const BEGIN: Time = Time(1_800_000_000_000_000);

impl Nature {
    /// Of this seed.
    pub fn new(seed: u64, pace: Pace, grace: Span) -> Nature {
        Nature {
            now: BEGIN,
            queue: Queue::default(),
            random: Random::new(seed),
            pace,
            pipes: Pipes::default(),
            machines: vec![Machine::default()],
            oracles: vec![Oracle::new(grace)],
            labels: vec![String::new()],
            broken: None,
            heads: Tally::default(),
            tree: Kin::default(),
            calm: None,
            transcript: Transcript::Off,
        }
    }

    /// The judge of an instance.
    pub fn oracle(&mut self, instance: InstanceId) -> &mut Oracle {
        &mut self.oracles[instance.place()]
    }

    /// What the judge of an instance knows.
    pub fn judge(&self, instance: InstanceId) -> &Oracle {
        &self.oracles[instance.place()]
    }

    /// A further instance, called this, with this grace from TERM to KILL.
    pub fn add_instance(&mut self, id: InstanceId, label: String, grace: Span) {
        assert_eq!(id.place(), self.oracles.len(), "instances come in order");
        self.oracles.push(Oracle::new(grace));
        self.labels.push(label);
    }

    /// Something is wrong in an instance; only the first is kept.
    pub fn fail(&mut self, instance: InstanceId, sentence: String) {
        let sentence = match self.labels[instance.place()].as_str() {
            "" => sentence,
            label => format!("{label}: {sentence}"),
        };
        self.oracle(instance).fail(sentence);
    }

    /// The leader of an instance recorded this.
    pub fn record(&mut self, instance: InstanceId, record: &Arc<Record>) {
        let heard = self.heard(record.event.t);
        self.oracle(instance).record(record, heard);
        let Some(job) = record.event.job else { return };
        let did = self.judge(instance).recorded().did(job, &record.event.kind);
        let above = self.tree.parent(instance);
        if let Some(((parent, _), did)) = above.zip(did) {
            self.oracle(parent).did_below(job, did);
        }
        let checked = match &record.event.kind {
            Kind::Submit(submit) => match &submit.pass {
                Some(_) if submit.is_taken_here() => Ok(()),
                Some(pass) => self.is_passed(instance, job, (submit, pass)),
                None => Ok(()),
            },
            Kind::Alloc(grant) => self
                .fits(instance, job, &grant.set)
                .and_then(|()| self.starts_on_arrival(instance, job, &grant.set))
                .and_then(|()| self.lasts(instance, (job, record.event.t), grant)),
            Kind::GrantChanged(grant) => self
                .goes_on_as_held(instance, job, &grant.set)
                .and_then(|()| self.is_still_below(instance, job)),
            Kind::Release(_, Final::Yes) => self.is_empty(instance, job),
            kind if kind.frees() => self.is_empty(instance, job),
            _ => Ok(()),
        };
        checked.unwrap_or_else(|sentence| self.fail(instance, sentence));
    }

    /// What comes to an instance from its parent is held there for it, in that attempt, for good, and asks
    /// for what was asked for there.
    fn is_passed(&self, of: InstanceId, job: JobId, its: (&Submit, &Pass)) -> Result<(), String> {
        let ((submit, pass), Some((parent, _))) = (its, self.tree.parent(of)) else {
            return Err(format!("job {job} was passed down by nobody"));
        };
        let above = self.judge(parent).durable().jobs.get(&job);
        let held = above.filter(|above| above.attempt == pass.attempt && above.grant().is_some());
        match held.map(|above| self.judge(parent).durable().asks_for(above, submit)) {
            Some(true) => Ok(()),
            Some(false) => Err(format!("job {job} is another than was passed down")),
            None => Err(format!(
                "job {job} was passed down in attempt {}, and holds nothing there",
                pass.attempt.0
            )),
        }
    }

    /// Jobs that somebody was told of in a queue instance are its parent's, and durable there.
    pub fn handed_up(&mut self, instance: InstanceId) {
        let claims = self.oracle(instance).handed_up();
        let parent = self.tree.parent(instance).map(|(parent, _)| parent);
        for (copy, job) in claims {
            let above = parent.map(|parent| self.judge(parent).durable());
            if above.is_none_or(|above| above.keys.get(&copy) != Some(&job)) {
                let why = format!("acknowledged job {job} is not in the parent's durable journal");
                self.fail(instance, why);
            }
            if let Some(parent) = parent {
                self.oracle(parent).acknowledge(job);
            }
        }
    }

    /// A child grants only what its parent's grant holds now; what was passed to it holds that there
    /// itself.
    fn fits(&self, instance: InstanceId, job: JobId, set: &ResourceSet) -> Result<(), String> {
        let Some((parent, child)) = self.tree.parent(instance) else {
            return Ok(());
        };
        let above = self.judge(parent).recorded();
        let own = self.judge(instance).recorded().jobs.get(&job);
        let is_alone = self.judge(instance).recorded().is_unordered(job);
        let holder = match own.is_some_and(|job| job.submit.pass.is_some()) && !is_alone {
            true => job,
            false => child.job,
        };
        let Some(held) = above.whole(holder) else {
            return Err("it grants resources, and its own job holds none".to_owned());
        };
        let (given, has) = (places(set), places(&held));
        match above.may_grant(child.job, &held, set) {
            true => Ok(()),
            false => Err(format!("it grants {given}, and has {has}")),
        }
    }

    /// What was passed down and goes on after it was stopped does so on what it holds above.
    fn goes_on_as_held(
        &self,
        instance: InstanceId,
        job: JobId,
        set: &ResourceSet,
    ) -> Result<(), String> {
        let own = self.judge(instance).recorded().jobs.get(&job);
        match own.is_some_and(|job| job.submit.pass.is_some() && is_tasks(job)) {
            true => self.fits(instance, job, set),
            false => Ok(()),
        }
    }

    /// A job that gives its cores back has none in the instance that it was passed to.
    fn is_still_below(&self, instance: InstanceId, id: JobId) -> Result<(), String> {
        let jobs = |of: InstanceId| self.judge(of).recorded().jobs.get(&id);
        let Some(job) = jobs(instance).filter(|job| is_tasks(job)) else {
            return Ok(());
        };
        let below = self.tree.children(instance).filter_map(jobs);
        let its = |below: &&Job| {
            let pass = below.submit.pass.as_ref();
            pass.is_some_and(|pass| pass.attempt == job.attempt) && below.grant().is_some()
        };
        let runs = below
            .filter(its)
            .any(|below| !below.suspension.standing().is_without_cores());
        match job.suspension.standing().is_without_cores() && runs {
            true => Err(format!("job {id} gives cores back on which it runs")),
            false => Ok(()),
        }
    }

    /// A process begins within these parts, each of which is held still.
    pub fn process_begins(&mut self, living: Living, within: &Within) {
        for (instance, part) in within {
            let job = self.judge(*instance).recorded().jobs.get(&part.job);
            let held = job.is_some_and(|job| job.attempt == part.attempt && job.grant().is_some());
            if !held {
                let sentence = format!("{living:?} begins within part {part}, which is over");
                self.fail(*instance, sentence);
            }
        }
        self.tree.begins(living, within);
    }

    /// A new life's name.
    pub fn uuid(&mut self) -> Uuid {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.random.bits().to_be_bytes());
        bytes[8..].copy_from_slice(&self.random.bits().to_be_bytes());
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }

    /// A task begins on a life of a shell.
    pub fn task_begins(
        &mut self,
        (instance, shell): (InstanceId, Epoch),
        start: &Start,
        task: u32,
    ) {
        self.oracle(instance).task_begins(start, shell, task);
        let job = self.judge(instance).recorded().jobs.get(&start.part.job);
        let takes = job.map(|job| job.submit.spec.request.takes);
        if start.role == Role::Tasks && takes == Some(Takes::Resources) {
            self.tree.leaf_begins(instance, start, task);
        }
    }

    /// A task ended, or could not be started.
    pub fn task_ended(&mut self, instance: InstanceId, part: Part, task: u32, status: i32) {
        self.oracle(instance).task_ended(part, task, status);
        self.tree.leaf_ends(instance, part, task);
    }

    /// A task died with what it ran in.
    pub fn task_lost(&mut self, instance: InstanceId, part: Part, task: u32) {
        self.oracle(instance).task_lost(part, task);
        self.tree.leaf_ends(instance, part, task);
    }

    /// The first broken promise.
    pub fn finding(&self) -> Option<&str> {
        let found = self.oracles.iter().find_map(Oracle::finding);
        found.or(self.tree.finding())
    }

    /// What the clocks of a machine say.
    pub fn clock(&self, machine: usize) -> Reading {
        self.machines[machine].read(self.now)
    }

    /// Whether this rule is the broken one.
    pub fn breaks(&self, rule: Rule) -> bool {
        self.broken == Some(rule)
    }

    /// How long this takes now.
    pub fn delay(&mut self, what: Delay) -> Span {
        match self.pace {
            Pace::Exact => match what {
                Delay::Retry => Span::seconds(1),
                _ => Span::ZERO,
            },
            Pace::Links(message) => match what {
                Delay::Retry => Span::seconds(1),
                Delay::Net => message,
                Delay::Disk | Delay::Process | Delay::Plan | Delay::Query => Span::ZERO,
            },
            Pace::Random(slow) => {
                let most = match what {
                    Delay::Net => 300,
                    Delay::Disk | Delay::Process => 4_000,
                    Delay::Plan | Delay::Query => 2_000,
                    Delay::Retry => 200_000,
                };
                // Now and then something takes a hundred times as long.
                let spike = if self.random.chance(2) { 100 } else { 1 };
                Span(self.random.between(10, most) * slow * spike)
            }
        }
    }

    /// Something that happens after a while.
    pub fn later(&mut self, delay: Delay, what: Happening) {
        let at = self.now.after(self.delay(delay));
        self.queue.push(at, what);
    }

    /// Sends something over a connection.
    pub fn send(&mut self, pipe: PipeId, to: Side, parcel: Parcel) {
        let at = self.now.after(self.delay(Delay::Net));
        let at = self.pipes.arrival(pipe, to, at);
        self.queue.push(at, Happening::Arrives(pipe, to, parcel));
    }

    /// Closes one end; the other hears of it after what was sent before.
    pub fn close(&mut self, pipe: PipeId, side: Side) {
        if !self.pipes.is_open(pipe, side) {
            return;
        }
        let at = self.now.after(self.delay(Delay::Net));
        let at = self.pipes.arrival(pipe, side.other(), at);
        self.queue.push(at, Happening::Ends(pipe, side.other()));
        self.pipes.close(pipe, side);
    }

    /// Begins to write down what happens.
    pub fn write_down(&mut self) {
        self.transcript = Transcript::On(Vec::new());
    }

    /// Whether what happens is written down.
    pub fn is_written_down(&self) -> bool {
        matches!(self.transcript, Transcript::On(_))
    }

    /// Whether chance strikes, in so many of 100 cases; never in a script.
    pub fn chance(&mut self, percent: u64) -> bool {
        matches!(self.pace, Pace::Random(_)) && self.random.chance(percent)
    }

    /// Notes that something happened, if that is written down.
    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if let Transcript::On(lines) = &mut self.transcript {
            let seconds = (self.now - BEGIN).0 as f64 / 1e6;
            lines.push(format!("{seconds:>7} {}", line()));
        }
    }

    /// What was written down since it was last taken.
    pub fn take_notes(&mut self) -> Vec<String> {
        match &mut self.transcript {
            Transcript::Off => Vec::new(),
            Transcript::On(lines) => std::mem::take(lines),
        }
    }
}

/// Whether a job is nothing but its tasks.
fn is_tasks(job: &Job) -> bool {
    job.submit.spec.request.work == Work::Tasks
}
