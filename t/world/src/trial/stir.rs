//! Whether who begins later than he was promised was told for what: a workload on a machine on which others are put
//! before him, nodes go out of service and limits are extended.
//!
//! Called by tests. What is told is what `sched.explain` answers, over the wire; what happened is known by who did it.

use std::collections::{BTreeMap, BTreeSet};

use eddy_sched::sim::{SimJob, Workload};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Explained, Mover};
use eddy_wire::services::job::JobSet;
use eddy_wire::time::{Span, Time};

use super::eta::Promises;
use super::{Door, Ground, News, Party, Told, Trial, work};
use crate::call::Call;

/// Of those who come by themselves.
const URGENCY: u8 = 10;
/// Of who is before all of them.
const URGENT: u8 = 16;
/// What ends late is planned to end in a second for as long as it does, so that much is no other time.
const SLACK: Span = Span::seconds(1);
/// So many hours after the last job came all are over.
const HOURS_MAX: usize = 100;
const ASKER: Party = Party(0);

/// How it is played.
#[derive(Clone, Debug)]
pub struct Stir {
    /// Nodes of the machine, of one core each.
    pub nodes: u32,
    /// The policy, as TOML.
    pub policy: String,
    /// Whom it promises something.
    pub promises: Promises,
    /// Something is done after each so many jobs.
    pub every: usize,
}

/// What is done to who was promised something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// A wide job comes that is more urgent.
    Displace,
    /// A fifth of the nodes goes out of service, until the next is done.
    Drain,
    /// A job that runs and would not end by its limit gets three times that.
    Extend,
}

/// In this order, again and again.
const ACTS: [Act; 3] = [Act::Displace, Act::Drain, Act::Extend];

/// Somebody who began later than he was promised first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    /// Who.
    pub job: JobId,
    /// By when it was promised.
    pub promised: Time,
    /// When it began.
    pub began: Time,
    /// For what it was told to have moved, if it was.
    pub told: Option<Mover>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Stirred {
    /// How many were promised a start.
    pub promised: usize,
    /// Who of them began later.
    pub late: Vec<Late>,
    /// More urgent jobs that came.
    pub urgent: BTreeSet<JobId>,
    /// Jobs that were extended.
    pub extended: BTreeSet<JobId>,
    /// How often nodes went.
    pub drained: usize,
}

impl Stirred {
    /// How many were told that it was for one such.
    pub fn late_by(&self, is_it: impl Fn(&Mover) -> bool) -> usize {
        let told = self.late.iter().filter_map(|late| late.told.as_ref());
        told.filter(|by| is_it(by)).count()
    }

    /// Who was late for no reason that he was told, or for one that there was not.
    pub fn untold(&self) -> Vec<&Late> {
        let wrong = |late: &&Late| match late.told {
            // No policy is set there.
            None | Some(Mover::Overrun | Mover::Policy) => true,
            Some(Mover::Nodes) => self.drained == 0,
            Some(Mover::Extension { job }) => !self.extended.contains(&job),
            // More urgent, or before it all along and not to be planned while nodes were away.
            // The trial is asked by who may know of all jobs.
            Some(Mover::Another | Mover::ExtensionOfAnother) => true,
            Some(Mover::Job { job }) => !self.urgent.contains(&job) && job > late.job,
        };
        self.late.iter().filter(wrong).collect()
    }
}

struct Play<'p> {
    stir: &'p Stir,
    workload: &'p Workload,
    waiting: BTreeSet<JobId>,
    /// By the name of a job its place in the workload.
    running: BTreeMap<JobId, usize>,
    promised: BTreeMap<JobId, Time>,
    moved: BTreeMap<JobId, Mover>,
    began: BTreeMap<JobId, Time>,
    acts: usize,
    out: Option<Idset>,
    told: Stirred,
}

/// What people were told who began later than they were promised.
///
/// # Errors
/// A broken promise, or a job that is not over.
pub fn play(workload: &Workload, stir: &Stir) -> Result<Stirred, String> {
    let mut trial = Trial::new(Ground {
        nodes: stir.nodes,
        cores: 1,
        message: Span::ZERO,
        policy: stir.policy.clone(),
        queues: Vec::new(),
        accounts: Vec::new(),
        members: Vec::new(),
    })?;
    let mut play = Play {
        stir,
        workload,
        waiting: BTreeSet::new(),
        running: BTreeMap::new(),
        promised: BTreeMap::new(),
        moved: BTreeMap::new(),
        began: BTreeMap::new(),
        acts: 0,
        out: None,
        told: Stirred::default(),
    };
    for (place, job) in workload.jobs.iter().enumerate() {
        let at = trial.begun().after(Span(job.submit.0));
        let left = at - trial.world.nature.now;
        play.pass(&mut trial, Span(left.0.max(1)))?;
        play.comes(&mut trial, place, job)?;
        if (place + 1).is_multiple_of(stir.every) {
            play.act(&mut trial)?;
        }
    }
    play.put_back(&mut trial);
    for _ in 0..HOURS_MAX {
        play.pass(&mut trial, Span::seconds(3600))?;
    }
    match trial.got.left() {
        0 => Ok(play.judged()),
        left => Err(format!("{left} jobs are not over")),
    }
}

impl Play<'_> {
    /// Who waits still when his time is over asks why, once.
    fn pass(&mut self, trial: &mut Trial, span: Span) -> Result<(), String> {
        let until = trial.world.nature.now.after(span);
        loop {
            let now = trial.world.nature.now;
            let untold = self
                .waiting
                .iter()
                .filter(|job| !self.moved.contains_key(job));
            let times = untold.filter_map(|job| self.promised.get(job));
            let over = times.map(|by| by.after(SLACK).after(Span(1)));
            let next = over.filter(|at| *at > now && *at < until).min();
            let Some(next) = next else {
                return trial.run(until - now, |_, told| self.hear(told));
            };
            trial.run(next - now, |_, told| self.hear(told))?;
            self.ask(trial)?;
        }
    }

    fn hear(&mut self, told: &Told) {
        match told.news {
            News::Submitted => {
                self.waiting.insert(told.job);
                if told.name == "urgent" {
                    self.told.urgent.insert(told.job);
                }
            }
            News::Began => {
                self.began.entry(told.job).or_insert(told.at);
                self.waiting.remove(&told.job);
                if let Ok(place) = told.name.parse() {
                    self.running.insert(told.job, place);
                }
            }
            News::Over => {
                self.waiting.remove(&told.job);
                self.running.remove(&told.job);
            }
            News::Runs | News::Free => {}
        }
    }

    fn comes(&mut self, trial: &mut Trial, place: usize, job: &SimJob) -> Result<(), String> {
        let mut ask = work(job.procs as u32, job.run, job.limit.unwrap_or(Span::ZERO));
        (ask.name, ask.urgency) = (place.to_string(), URGENCY);
        trial.submit(ASKER, Door::Root, &ask);
        self.ask(trial)
    }

    fn act(&mut self, trial: &mut Trial) -> Result<(), String> {
        let act = ACTS[self.acts % ACTS.len()];
        self.acts += 1;
        self.put_back(trial);
        match act {
            Act::Displace => {
                let minute = Span::seconds(60);
                let wide = self.stir.nodes * 4 / 5;
                let mut ask = work(wide, Span(minute.0 * 8), Span(minute.0 * 10));
                (ask.urgency, ask.name) = (URGENT, "urgent".to_owned());
                trial.submit(ASKER, Door::Root, &ask);
            }
            Act::Drain => {
                let some = self.stir.nodes / 5;
                for rank in 0..some {
                    trial.keeper(Call::drain(Rank(rank)));
                }
                self.out = Some(Idset::first_ids(some));
                self.told.drained += 1;
            }
            Act::Extend => {
                let longer = self.running.iter().find_map(|(job, place)| {
                    let sim = &self.workload.jobs[*place];
                    let limit = sim.limit.filter(|limit| sim.run > *limit)?;
                    Some((*job, Span(limit.0 * 3)))
                });
                if let Some((job, limit)) = longer {
                    trial.keeper(Call::update(job, limit));
                    self.told.extended.insert(job);
                }
            }
        }
        self.ask(trial)
    }

    fn put_back(&mut self, trial: &mut Trial) {
        if let Some(ranks) = self.out.take() {
            trial.keeper(Call::undrain(ranks));
        }
    }

    /// Everybody who waits asks why, once that has had its effect.
    fn ask(&mut self, trial: &mut Trial) -> Result<(), String> {
        trial.run(Span(1), |_, told| self.hear(told))?;
        if self.waiting.is_empty() {
            return Ok(());
        }
        let waiting = self.waiting.iter().copied();
        for one in trial.told_of(JobSet::of(waiting))? {
            self.note(&one);
        }
        Ok(())
    }

    fn note(&mut self, one: &Explained) {
        if let Some(moved) = one.moved {
            self.moved.entry(one.job).or_insert(moved.by);
        }
        let is_promised = match self.stir.promises {
            Promises::First => one.ahead == 0,
            Promises::All => true,
        };
        if let Some(latest) = one.start.and_then(|start| start.latest)
            && is_promised
        {
            self.promised.entry(one.job).or_insert(latest);
        }
    }

    fn judged(self) -> Stirred {
        let mut told = self.told;
        for (job, promised) in self.promised {
            let Some(began) = self.began.get(&job).copied() else {
                continue;
            };
            told.promised += 1;
            if began > promised.after(SLACK) {
                told.late.push(Late {
                    job,
                    promised,
                    began,
                    told: self.moved.get(&job).copied(),
                });
            }
        }
        told
    }
}
