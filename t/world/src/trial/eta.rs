//! Whether what people are told of starts is true: a workload through a root that is asked, as each
//! job comes, when it will start and what would start it sooner.
//!
//! Called by tests and by the bench. What is told is what `sched.explain` answers, over the wire.

use std::collections::{BTreeMap, BTreeSet};

use eddy_modules::settings::{Elastic, Extent};
use eddy_sched::sim::{SimJob, Workload};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Estimate, Explained, Suppose};
use eddy_wire::services::job::JobSet;
use eddy_wire::time::{Span, Time};

use super::{Door, Ground, News, Party, Told, Trial, work};
use crate::call::{Ask, Call};
use crate::nature::ROOT;
use crate::oracle::queues::Home;
use crate::world::World;

/// So many messages of what follows from something one after the other.
const MESSAGES: i64 = 20;
/// Steps after the last job came; more is a job that never ends.
const STEPS_MAX: u64 = 1 << 40;
const ASKER: Party = Party(0);

/// Whom a policy promises a start that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promises {
    /// The first who waits.
    First,
    /// Everybody.
    All,
}

/// What jobs say of where they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// So many cores, wherever they are.
    Cores,
    /// So many nodes, with all their cores.
    Nodes,
    /// So many cores, each on a node of its own.
    Scattered,
}

/// How it is played.
#[derive(Clone, Debug)]
pub struct Asking {
    /// Nodes of the machine.
    pub nodes: u32,
    /// Cores of each.
    pub cores: u32,
    /// How long a message takes.
    pub message: Span,
    /// Elastic queue instances, each job that of one after the other; none is the root itself.
    pub queues: Vec<&'static str>,
    /// The policy, as TOML.
    pub policy: String,
    /// Whom it promises something.
    pub promises: Promises,
    /// One in so many jobs that wait is asked about.
    pub one_in: usize,
    /// What jobs say of where they run.
    pub asks: Asks,
    /// Of so many that were advised one is changed as advised; 0 is none.
    pub followed_in: usize,
    /// So many jobs of each queue run at a time at most.
    pub running: Option<u32>,
    /// The first queue is at home on half of the nodes, and lends them for at most so long.
    pub lends: Option<Span>,
}

impl Asking {
    /// On so many nodes as jobs say.
    fn on_nodes(&self, ask: &mut Ask, nodes: u32) {
        let each = match self.asks {
            Asks::Cores => return,
            Asks::Nodes => self.cores,
            Asks::Scattered => 1,
        };
        (ask.nodes, ask.ntasks) = (Some(nodes), nodes * each);
    }

    fn prepare(&self, world: &mut World) {
        if self.running.is_some() {
            for queue in &mut world.root().settings.queues {
                queue.rules.limits.running_jobs = self.running;
            }
        }
        let Some(lend_max) = self.lends else {
            return;
        };
        let home = Idset::range(self.nodes / 2, self.nodes - 1);
        world.nature.oracle(ROOT).set_home(Home {
            queue: self.queues[0].to_owned(),
            ranks: home.clone(),
            lend_max,
        });
        world.root().settings.declared[0].extent = Extent::Elastic(Elastic {
            ranks: None,
            home,
            lend_max: Some(lend_max),
        });
    }
}

/// What came of what was told.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    /// How many were asked about.
    pub asked: usize,
    /// How many of them were promised a start.
    pub promised: usize,
    /// Those that started later than that: job, promise, start.
    pub late: Vec<(u64, Time, Time)>,
    /// How many were told between when they are likely to start.
    pub likely: usize,
    /// How many of those did.
    pub held: usize,
    /// How wide that was on the average, as a part of the wait that was told at most.
    pub width: f64,
    /// How many were changed as advised.
    pub followed: usize,
    /// How many of them were to take no longer than an instance lends its home.
    pub lent: usize,
    /// Those that did not start at once.
    pub misled: Vec<(u64, Suppose)>,
    /// What each was promised first, by its place in the workload.
    pub promises: BTreeMap<usize, Time>,
    /// When each began.
    pub began: BTreeMap<usize, Time>,
}

impl Truth {
    /// How many of those intervals held, 0 to 1.
    pub fn coverage(&self) -> f64 {
        self.held as f64 / self.likely.max(1) as f64
    }
}

struct Play<'p> {
    asking: &'p Asking,
    ids: BTreeMap<String, JobId>,
    began: BTreeMap<String, Time>,
    told: Vec<(usize, Time, Explained)>,
    /// Who waits, and what each was promised first, where the policy promises him something.
    waiting: BTreeSet<JobId>,
    promised: BTreeMap<JobId, Time>,
    names: BTreeMap<JobId, String>,
    truth: Truth,
    advised: usize,
    waited: usize,
    /// Whose place was taken by what was advised.
    changed: Vec<(usize, Suppose, Time)>,
}

/// What people are told of a workload.
///
/// # Errors
/// A broken promise, or a job that is not over.
pub fn play(workload: &Workload, asking: &Asking) -> Result<Truth, String> {
    let ground = Ground {
        nodes: asking.nodes,
        cores: asking.cores,
        message: asking.message,
        policy: asking.policy.clone(),
        queues: asking.queues.clone(),
        accounts: Vec::new(),
        members: vec![],
    };
    let mut trial = Trial::otherwise(ground, |world| asking.prepare(world))?;
    let mut play = Play {
        asking,
        ids: BTreeMap::new(),
        began: BTreeMap::new(),
        told: Vec::new(),
        waiting: BTreeSet::new(),
        promised: BTreeMap::new(),
        names: BTreeMap::new(),
        truth: Truth::default(),
        advised: 0,
        waited: 0,
        changed: Vec::new(),
    };
    let mut order: Vec<usize> = (0..workload.jobs.len()).collect();
    order.sort_by_key(|place| (workload.jobs[*place].submit, workload.jobs[*place].id));
    for place in order {
        let job = &workload.jobs[place];
        let at = trial.begun().after(Span(job.submit.0));
        let left = at - trial.world.nature.now;
        if left.0 > 0 {
            play.pass(&mut trial, left)?;
        }
        play.comes(&mut trial, place, job)?;
    }
    trial.run_out(STEPS_MAX, |_, told| play.hear(told))?;
    Ok(play.judged())
}

impl Play<'_> {
    fn pass(&mut self, trial: &mut Trial, span: Span) -> Result<(), String> {
        trial.run(span, |trial, told| {
            let _ = trial;
            self.hear(told);
        })
    }

    /// What follows from something has followed.
    fn moment(&mut self, trial: &mut Trial) -> Result<(), String> {
        let message = self.asking.message.0;
        self.pass(trial, Span(1 + MESSAGES * message))
    }

    fn hear(&mut self, told: &Told) {
        match told.news {
            News::Submitted => {
                self.ids.insert(told.name.clone(), told.job);
                self.names.insert(told.job, told.name.clone());
                self.waiting.insert(told.job);
            }
            News::Began => {
                self.began.entry(told.name.clone()).or_insert(told.at);
                self.waiting.remove(&told.job);
            }
            News::Over => {
                self.waiting.remove(&told.job);
            }
            News::Runs | News::Free => {}
        }
    }

    fn ask_of(&self, place: usize, job: &SimJob) -> Ask {
        let mut ask = work(job.procs as u32, job.run, job.limit.unwrap_or(Span::ZERO));
        ask.name = place.to_string();
        let nodes = match self.asking.asks {
            Asks::Cores | Asks::Nodes => ask.ntasks.div_ceil(self.asking.cores),
            Asks::Scattered => ask.ntasks.min(self.asking.nodes),
        };
        self.asking.on_nodes(&mut ask, nodes);
        let queues = &self.asking.queues;
        ask.queue = queues
            .get(place % queues.len().max(1))
            .map(|name| (*name).to_owned());
        ask
    }

    fn comes(&mut self, trial: &mut Trial, place: usize, job: &SimJob) -> Result<(), String> {
        let ask = self.ask_of(place, job);
        trial.submit(ASKER, Door::Root, &ask);
        self.moment(trial)?;
        if self.began.contains_key(&ask.name) {
            return Ok(());
        }
        self.waited += 1;
        if !self.waited.is_multiple_of(self.asking.one_in) {
            return Ok(());
        }
        let id = match self.ids.get(&ask.name) {
            Some(id) => *id,
            // It is wider than what it is lent for so long.
            None if self.asking.lends.is_some() => return Ok(()),
            None => return Err(format!("job {} was refused", job.id)),
        };
        let now = trial.world.nature.now;
        // Who came first is first where all are alike.
        let first = self.waiting.first().copied();
        let asked = [id].into_iter().chain(first);
        trial.call(ASKER, Door::Root, Call::why(JobSet::of(asked)));
        self.moment(trial)?;
        let answers = trial.answered(ASKER);
        for one in &answers {
            let is_promised = match self.asking.promises {
                Promises::First => one.ahead == 0,
                Promises::All => true,
            };
            if let Some(latest) = one
                .start
                .and_then(|start| start.latest)
                .filter(|_| is_promised)
            {
                self.promised.entry(one.job).or_insert(latest);
            }
        }
        let Some(one) = answers.into_iter().find(|one| one.job == id) else {
            return Ok(());
        };
        self.truth.asked += 1;
        let follow = match one.advice.first() {
            Some(_) => {
                self.advised += 1;
                self.asking.followed_in > 0 && self.advised.is_multiple_of(self.asking.followed_in)
            }
            None => false,
        };
        match follow {
            true => self.follow(trial, (place, id), job, &one),
            false => {
                self.told.push((place, now, one));
                Ok(())
            }
        }
    }

    /// The job is taken back, and comes again as advised.
    fn follow(
        &mut self,
        trial: &mut Trial,
        (place, id): (usize, JobId),
        job: &SimJob,
        one: &Explained,
    ) -> Result<(), String> {
        let advice = one.advice[self.advised / self.asking.followed_in % one.advice.len()].clone();
        let mut ask = self.ask_of(place, job);
        let limit = advice.limit.or(job.limit).unwrap_or(job.run);
        let mut other = work(ask.ntasks, job.run.min(limit), limit);
        other.queue = ask.queue.take();
        other.name = format!("{place} as advised");
        other.ntasks = advice.slots.unwrap_or(other.ntasks);
        other.nodes = ask.nodes;
        if let Some(nodes) = advice.nodes {
            self.asking.on_nodes(&mut other, nodes);
        }
        trial.call(ASKER, Door::Root, Call::raise(id, "cancel", 0));
        trial.submit(ASKER, Door::Root, &other);
        let now = trial.world.nature.now;
        self.moment(trial)?;
        self.changed.push((place, advice, now));
        Ok(())
    }

    fn judged(mut self) -> Truth {
        let mut truth = std::mem::take(&mut self.truth);
        let mut widths = 0.0;
        for (place, at, one) in &self.told {
            let began = self.began.get(&place.to_string()).copied();
            let (Some(began), Some(Estimate { latest, likely, .. })) = (began, one.start) else {
                continue;
            };
            if let (Some(likely), Some(latest)) = (likely, latest) {
                truth.likely += 1;
                truth.held += usize::from(likely.from <= began && began <= likely.to);
                widths += (likely.to - likely.from).0 as f64 / (latest - *at).0.max(1) as f64;
            }
        }
        for (job, latest) in &self.promised {
            let name = &self.names[job];
            if let Some(began) = self.began.get(name) {
                truth.promised += 1;
                if let Ok(place) = name.parse() {
                    truth.promises.insert(place, *latest);
                }
                if began > latest {
                    truth.late.push((job.0, *latest, *began));
                }
            }
        }
        let began = self.began.iter();
        let began = began.filter_map(|(name, at)| Some((name.parse().ok()?, *at)));
        truth.began = began.collect();
        truth.width = widths / truth.likely.max(1) as f64;
        for (place, advice, now) in self.changed {
            truth.followed += 1;
            truth.lent += usize::from(advice.limit.is_some() && advice.limit == self.asking.lends);
            let name = format!("{place} as advised");
            if self.began.get(&name).is_none_or(|began| *began > now) {
                truth.misled.push((place as u64, advice));
            }
        }
        truth
    }
}
