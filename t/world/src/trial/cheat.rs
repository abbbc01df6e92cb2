//! Two accounts of equal shares that want all there is: one asks for it plainly, the other tries to
//! get more.
//!
//! Both have the same work to do on the same machine at the same time, so that what the one has more
//! of than the other is what its way is worth. Called by tests and by `eddy-world cheat`.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};

use super::fair::Demand;
use super::{Door, Ground, News, Party, Told, Trial, instance, work};
use crate::call::{Ask, Call, Nests};

/// A way to try to get more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cheat {
    /// None: both are plain.
    Plain,
    /// Past the root, to the leader of the queue instance.
    Direct,
    /// One that is granted early holds on for as long as many: an instance, and its work inside.
    Holding,
    /// An instance that asks for another node as soon as it is there.
    Growing,
    /// The same, which asks for all others and is content with one.
    GrowingLeast,
    /// Everything is submitted long before, on hold, to be old when it is let go.
    Held,
    /// Each job as as many as it has cores.
    Splitting,
    /// Twice the cores that are of use.
    InflatingSize,
    /// Ten times the time.
    InflatingTime,
    /// No limit at all.
    Endless,
    /// Each is cancelled as its work is done, before it ends.
    Cancelling,
    /// The same, but it is run again: it keeps its place in the queue.
    Requeueing,
    /// Many users of the account.
    ManyNames,
    /// Jobs of one core and a fifth of the time.
    Tiny,
    /// Somebody steps the clock of the machine to and fro.
    ClockSteps,
    /// One job is so wide that it is promised the whole machine, and others fill the time before.
    Reserving,
    /// Twenty times as many wait.
    Stuffing,
    /// The user puts his jobs in another order all the time.
    Ordering,
}

impl Cheat {
    /// Each by its name.
    pub const ALL: &[(&str, Cheat)] = &[
        ("plain", Cheat::Plain),
        ("direct", Cheat::Direct),
        ("holding", Cheat::Holding),
        ("growing", Cheat::Growing),
        ("growing-least", Cheat::GrowingLeast),
        ("held", Cheat::Held),
        ("splitting", Cheat::Splitting),
        ("inflating-size", Cheat::InflatingSize),
        ("inflating-time", Cheat::InflatingTime),
        ("endless", Cheat::Endless),
        ("cancelling", Cheat::Cancelling),
        ("requeueing", Cheat::Requeueing),
        ("many-names", Cheat::ManyNames),
        ("tiny", Cheat::Tiny),
        ("clock-steps", Cheat::ClockSteps),
        ("reserving", Cheat::Reserving),
        ("stuffing", Cheat::Stuffing),
        ("ordering", Cheat::Ordering),
    ];
}

/// How large that is.
#[derive(Clone, Debug)]
pub struct Duel {
    /// Nodes of four cores.
    pub nodes: u32,
    /// How long a job runs.
    pub run: Span,
    /// What was used counts half after so long.
    pub half: Span,
    /// For so many half-lives it is looked at, after two that are not.
    pub halves: i64,
    /// By which preset.
    pub preset: &'static str,
    /// What is put over it, as TOML.
    pub over: String,
}

impl Default for Duel {
    fn default() -> Duel {
        Duel {
            nodes: 2,
            run: Span::seconds(25),
            half: Span::seconds(3000),
            halves: 6,
            preset: "flux",
            over: String::new(),
        }
    }
}

/// What each had of use, in core-seconds.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// Who is plain.
    pub honest: f64,
    /// Who is not.
    pub cheat: f64,
    /// How often an instance was given what it asked for.
    pub grown: usize,
}

impl Score {
    /// How much more the cheat had, as a part of what the other had.
    pub fn gain(&self) -> f64 {
        self.cheat / self.honest - 1.0
    }
}

const CORES: u32 = 4;
/// Cores of a plain job.
const WIDTH: u32 = 2;
const HONEST: Party = Party(0);
const NAMES: usize = 8;
const QUEUE: &str = "own";
/// What asks for nodes are called.
const GROWTH: &str = "growth";
/// How many a party has waiting.
const WAITING: u32 = 16;
/// What a cancelled job leaves undone.
const LAST: Span = Span::seconds(1);

/// What is done at a time of its own.
#[derive(Clone, Copy)]
enum Act {
    Cancel(Party, JobId),
    Requeue(Party, JobId),
    Step,
    Order,
}

/// One at it.
struct Player<'d> {
    cheat: Cheat,
    duel: &'d Duel,
    demand: Demand,
    acts: BTreeMap<(Time, u64), Act>,
    count: u64,
    /// Jobs of the cheat that wait, on hold or not.
    waiting: Vec<JobId>,
    /// Those on hold.
    held: Vec<JobId>,
    /// Asks of its instances that were granted.
    grown: usize,
}

/// What both had of use.
///
/// # Errors
/// A broken promise.
pub fn duel(cheat: Cheat, duel: &Duel) -> Result<Score, String> {
    let mut trial = match cheat {
        // What an instance grows by is other machines.
        Cheat::Growing | Cheat::GrowingLeast => Trial::of_machines(ground(duel))?,
        _ => Trial::new(ground(duel))?,
    };
    let mut player = Player {
        cheat,
        duel,
        demand: Demand::new(1 + NAMES),
        acts: BTreeMap::new(),
        count: 0,
        waiting: Vec::new(),
        held: Vec::new(),
        grown: 0,
    };
    player.begin(&mut trial);
    let from = trial.world.nature.now.after(Span(duel.half.0 * 2));
    let end = from.after(Span(duel.half.0 * duel.halves));
    while trial.world.nature.now < end {
        let now = trial.world.nature.now;
        let next = player.acts.keys().next().map_or(end, |(at, _)| *at);
        trial.run(next.min(end) - now, |trial, told| player.hear(trial, told))?;
        while let Some(first) = player.acts.first_entry()
            && first.key().0 <= trial.world.nature.now
        {
            let act = first.remove();
            player.act(&mut trial, act);
        }
    }
    let had = trial.got.core_seconds(from, end);
    let all: f64 = had.values().sum();
    let honest = had.get(&HONEST).copied().unwrap_or(0.0);
    Ok(Score {
        honest,
        cheat: (all - honest) * player.worth(),
        grown: player.grown,
    })
}

fn ground(duel: &Duel) -> Ground {
    let half = duel.half.0 as f64 / 1e6;
    let (preset, over) = (duel.preset, &duel.over);
    let mut members = vec![("honest", 1)];
    members.extend((0..NAMES).map(|_| ("cheat", 1)));
    Ground {
        nodes: duel.nodes,
        cores: CORES,
        message: Span::ZERO,
        // As a week and a week are.
        policy: format!(
            "preset = \"{preset}\"\nusage.decay.half = \"{half}s\"\npriority.factors.max_wait = \"{half}s\"\n{over}"
        ),
        queues: vec![QUEUE],
        accounts: vec![("honest", None, 1), ("cheat", None, 1)],
        members,
    }
}

impl Player<'_> {
    fn plain(&self) -> Ask {
        let run = self.duel.run;
        let mut ask = work(WIDTH, run, Span(run.0 * 6 / 5));
        ask.queue = Some(QUEUE.to_owned());
        ask
    }

    /// What a party asks for, where, and how many are to wait.
    fn ask(&self, party: Party) -> (Door, Ask, u32) {
        let mut ask = self.plain();
        let root = Door::Root;
        if party == HONEST {
            return (root, ask, WAITING);
        }
        let limit = ask.limit;
        match self.cheat {
            Cheat::Direct => (Door::Queue(QUEUE), ask, WAITING),
            Cheat::Holding | Cheat::Growing | Cheat::GrowingLeast => {
                let run = Span(self.duel.run.0 * 8);
                (root, instance(1, run, Span(run.0 * 6 / 5)), 2)
            }
            Cheat::Splitting => {
                ask.ntasks = 1;
                (root, ask, WAITING * WIDTH)
            }
            Cheat::InflatingSize => {
                ask.ntasks = 2 * WIDTH;
                (root, ask, WAITING)
            }
            Cheat::InflatingTime => {
                ask.limit = 10.0 * limit;
                (root, ask, WAITING)
            }
            Cheat::Endless => {
                ask.limit = 0.0;
                (root, ask, WAITING)
            }
            Cheat::Held => {
                ask.urgency = 0;
                (root, ask, WAITING)
            }
            Cheat::Tiny => {
                let run = Span(self.duel.run.0 / 5);
                let mut tiny = work(1, run, Span(run.0 * 6 / 5));
                tiny.queue = ask.queue;
                (root, tiny, 10 * WAITING)
            }
            Cheat::Cancelling | Cheat::Requeueing => {
                // It would go on, but for its limit.
                let mut long = work(WIDTH, Span(self.duel.run.0 * 2), self.duel.run);
                (long.queue, long.limit) = (ask.queue, limit);
                (root, long, WAITING)
            }
            // As many in all.
            Cheat::ManyNames => (root, ask, WAITING / NAMES as u32),
            Cheat::Stuffing => (root, ask, 20 * WAITING),
            Cheat::Plain | Cheat::ClockSteps | Cheat::Reserving | Cheat::Ordering => {
                (root, ask, WAITING)
            }
        }
    }

    /// How much of what is held is of use.
    fn worth(&self) -> f64 {
        match self.cheat {
            Cheat::InflatingSize => 0.5,
            _ => 1.0,
        }
    }

    fn parties(&self) -> usize {
        match self.cheat {
            Cheat::ManyNames => 1 + NAMES,
            _ => 2,
        }
    }

    fn begin(&mut self, trial: &mut Trial) {
        for at in 0..self.parties() {
            self.come(trial, Party(at));
        }
        match self.cheat {
            Cheat::ClockSteps => self.later(trial, self.duel.run, Act::Step),
            Cheat::Ordering => self.later(trial, self.duel.run, Act::Order),
            Cheat::Reserving => {
                let all = self.duel.nodes * CORES;
                let mut wide = work(all, self.duel.run, Span(self.duel.run.0 * 6 / 5));
                wide.queue = Some(QUEUE.to_owned());
                wide.name = "wide".to_owned();
                trial.submit(Party(1), Door::Root, &wide);
            }
            Cheat::Held => {
                // As many as it will ever need.
                let all = i64::from(self.duel.nodes * CORES) * self.duel.half.0;
                let work = i64::from(WIDTH) * self.duel.run.0;
                let most = all * (self.duel.halves + 2) / work;
                let (door, ask, _) = self.ask(Party(1));
                let copies = u32::try_from(most).unwrap_or(WAITING);
                self.demand.submit(trial, Party(1), (door, &ask), copies);
            }
            _ => {}
        }
    }

    fn come(&mut self, trial: &mut Trial, party: Party) {
        if party != HONEST && self.cheat == Cheat::Held {
            return;
        }
        let (door, ask, most) = self.ask(party);
        let copies = most.saturating_sub(self.demand.waiting(party)).max(1);
        self.demand.submit(trial, party, (door, &ask), copies);
    }

    /// What an instance asks for that is to grow: the ask lasts until the instance ends, unless it ends itself.
    fn growth(&self, of: JobId) -> Ask {
        let others = (self.duel.nodes - 1).max(1);
        let run = Span(self.duel.run.0 * 8);
        let mut ask = work(1, run, Span::ZERO);
        ask.name = GROWTH.to_owned();
        (ask.nodes, ask.cores) = (Some(1), CORES);
        ask.most = Some(others).filter(|_| self.cheat == Cheat::GrowingLeast);
        ask.nests = Nests::Grows(of);
        ask
    }

    fn hear(&mut self, trial: &mut Trial, told: &Told) {
        if told.name == GROWTH {
            self.grown += usize::from(told.news == News::Began);
            return;
        }
        if told.name == "wide" {
            // The next is promised as soon as this one has begun.
            if told.news == News::Began {
                let all = self.duel.nodes * CORES;
                let mut wide = work(all, self.duel.run, Span(self.duel.run.0 * 6 / 5));
                wide.queue = Some(QUEUE.to_owned());
                wide.name = "wide".to_owned();
                trial.submit(told.party, Door::Root, &wide);
            }
            return;
        }
        let (_, _, most) = self.ask(told.party);
        if self.demand.hear(told, most) {
            self.come(trial, told.party);
        }
        if told.party != HONEST {
            self.scheme(trial, told);
        }
    }

    /// What the cheat does as something becomes of one of its jobs.
    fn scheme(&mut self, trial: &mut Trial, told: &Told) {
        let done = Span(self.duel.run.0 - LAST.0);
        match (self.cheat, told.news) {
            (Cheat::Cancelling, News::Runs) => {
                self.later(trial, done, Act::Cancel(told.party, told.job));
            }
            (Cheat::Requeueing, News::Runs) => {
                self.later(trial, done, Act::Requeue(told.party, told.job));
            }
            (Cheat::Growing | Cheat::GrowingLeast, News::Runs) => {
                trial.submit(told.party, Door::Root, &self.growth(told.job));
            }
            (Cheat::Held, News::Submitted) => {
                self.held.push(told.job);
                if self.waiting.len() < WAITING as usize {
                    self.let_go(trial, told.party);
                }
            }
            (Cheat::Held, News::Began) => {
                self.waiting.retain(|job| *job != told.job);
                // As the other comes again.
                if self.waiting.len() < WAITING as usize / 2 {
                    for _ in self.waiting.len()..WAITING as usize {
                        self.let_go(trial, told.party);
                    }
                }
            }
            (Cheat::Ordering, News::Submitted) => self.waiting.push(told.job),
            (Cheat::Ordering, News::Began) => self.waiting.retain(|job| *job != told.job),
            _ => {}
        }
    }

    fn let_go(&mut self, trial: &mut Trial, party: Party) {
        if let Some(job) = self.held.pop() {
            self.waiting.push(job);
            trial.call(party, Door::Root, Call::urgency(job, 16));
        }
    }

    fn later(&mut self, trial: &Trial, after: Span, act: Act) {
        self.count += 1;
        let at = trial.world.nature.now.after(after);
        self.acts.insert((at, self.count), act);
    }

    fn act(&mut self, trial: &mut Trial, act: Act) {
        match act {
            Act::Cancel(party, job) => {
                trial.call(party, Door::Root, Call::raise(job, "cancel", 0));
            }
            Act::Requeue(party, job) => trial.call(party, Door::Root, Call::requeue(job)),
            Act::Step => {
                let hour = Span::seconds(3600);
                let by = match self.count % 2 {
                    0 => hour,
                    _ => Span(-hour.0),
                };
                trial.world.nature.machines[0].step(by);
                self.later(trial, self.duel.run, Act::Step);
            }
            Act::Order => {
                let mut jobs = self.waiting.clone();
                jobs.reverse();
                if !jobs.is_empty() {
                    trial.call(Party(1), Door::Root, Call::order(jobs));
                }
                self.later(trial, self.duel.run, Act::Order);
            }
        }
    }
}
