//! Four accounts in two levels that want all there is, each in its own way, and what each got.
//!
//! One has wide jobs that last long, one many small ones that do not, one instances of its own, one
//! submits to a queue instance past the root. Called by tests and by the bench.

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::time::Span;

use super::{Door, Ground, News, Party, Told, Trial, instance, parts, work};
use crate::call::Ask;
use crate::nature::InstanceId;

/// How large that is.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Nodes of the machine; a wide job takes a quarter of them.
    pub nodes: u32,
    /// Cores of each.
    pub cores: u32,
    /// How long a wide job runs.
    pub long: Span,
    /// How long a small one does.
    pub short: Span,
    /// What is asked for, in percent of what is used.
    pub limits: i64,
    /// Shares of who has small jobs, of the ten of its account; whose instances nest has the others.
    pub small: u32,
    /// What was used counts half after so long.
    pub half: Span,
    /// What is put over the preset `flux`, as TOML.
    pub over: String,
}

impl Default for Mix {
    /// A job of a quarter of the machine lasts a fourteenth of the half-life, as one of twelve hours
    /// does where it is a week.
    fn default() -> Mix {
        Mix {
            nodes: 16,
            cores: 2,
            long: Span::seconds(500),
            short: Span::seconds(10),
            limits: 110,
            small: 5,
            half: Span::seconds(7000),
            over: String::new(),
        }
    }
}

/// Who takes part: wide, direct, small, nested.
pub const PARTIES: usize = 4;
/// Shares of the last two, of which theirs is an account of its own.
const TEN: u32 = 10;

const WIDE: Party = Party(0);
const DIRECT: Party = Party(1);
const SMALL: Party = Party(2);
const NESTED: Party = Party(3);
/// How many jobs the core of an instance gets.
const INSIDE: i64 = 4;
/// Where the second submits to, and where the others' small jobs go.
const OWN: &str = "own";
const BATCH: &str = "batch";
/// How often what is over is let go of.
const SWEEP: Span = Span::seconds(600);

impl Mix {
    /// The size that is meant: jobs of 64 nodes for twelve hours beside such of one core for ten seconds, where what
    /// was used counts half after a week. Who has the small ones is due six cores: a million and a half of them in four
    /// weeks.
    pub fn full() -> Mix {
        Mix {
            nodes: 256,
            cores: 1,
            long: Span::seconds(12 * 3600),
            short: Span::seconds(10),
            half: Span::seconds(7 * 86_400),
            small: 1,
            ..Mix::default()
        }
    }

    fn ground(&self) -> Ground {
        let half = self.half.0 as f64 / 1e6;
        let over = &self.over;
        Ground {
            nodes: self.nodes,
            cores: self.cores,
            message: Span::ZERO,
            policy: format!("preset = \"flux\"\nusage.decay.half = \"{half}s\"\n{over}"),
            queues: vec![BATCH, OWN],
            accounts: vec![
                ("science", None, 3),
                ("wide", Some("science"), 2),
                ("direct", Some("science"), 1),
                ("teaching", None, 1),
                ("small", Some("teaching"), self.small),
                ("nested", Some("teaching"), TEN - self.small),
            ],
            members: vec![("wide", 1), ("direct", 1), ("small", 1), ("nested", 1)],
        }
    }

    /// What each is due of the whole.
    pub fn due(&self) -> [f64; PARTIES] {
        let small = 0.25 * f64::from(self.small) / f64::from(TEN);
        [0.5, 0.25, small, 0.25 - small]
    }

    /// What a job inside an instance asks for: all of them are as long as that one.
    fn inside(&self) -> Ask {
        let run = Span(part(self.long, 4).0 * 9 / 10 / INSIDE);
        let many = self.cores * INSIDE as u32;
        Ask {
            cc: Some(Idset::first_ids(many)),
            ..work(1, run, self.limit(run))
        }
    }

    /// By how much a due is missed because of limits that are longer than what is run, as a part of it.
    ///
    /// Who has used and may still use, over shares, as much as the others counts as well off as they. What is left of
    /// its run a job will use; what its limit is beyond that it never does, and it counts as long as the job runs. What
    /// was used is the rate times the half-life over ln 2, so a due is divided by one more than the one over the other.
    pub fn misled(&self) -> f64 {
        let rest = self.half.0 as f64 / std::f64::consts::LN_2;
        let runs = [1.0, 8.0, self.long.0 as f64 / self.short.0 as f64, 4.0];
        let beyond = self.limits as f64 / 100.0 - 1.0;
        let had = self.due().into_iter().zip(runs).map(|(due, of)| {
            let run = self.long.0 as f64 / of;
            due / (1.0 + run * beyond / rest)
        });
        let had: Vec<f64> = had.collect();
        let all: f64 = had.iter().sum();
        let parts: Vec<f64> = had.iter().map(|one| one / all).collect();
        self.off(&parts)
    }

    /// By how much one has more or less than its due, at worst, as a part of that.
    pub fn off(&self, parts: &[f64]) -> f64 {
        let off = parts.iter().zip(self.due());
        off.map(|(part, due)| (part / due - 1.0).abs())
            .fold(0.0, f64::max)
    }

    /// What one of the largest jobs is at its end of all that counts.
    pub fn grain(&self) -> f64 {
        0.25 * self.long.0 as f64 * std::f64::consts::LN_2 / self.half.0 as f64
    }

    fn limit(&self, run: Span) -> Span {
        Span(run.0 * self.limits / 100)
    }

    /// What each submits, where, and how much waits at most: when a wide job ends a quarter of the machine is free at
    /// once, and who has not as much waiting then has less than he is due.
    fn ask(&self, party: Party) -> (Door, Ask, u32) {
        let quarter = self.nodes / 4;
        match party {
            WIDE => {
                let mut ask = work(quarter * self.cores, self.long, self.limit(self.long));
                ask.nodes = Some(quarter);
                (Door::Root, ask, 2)
            }
            DIRECT => {
                let mut ask = work(
                    self.cores,
                    part(self.long, 8),
                    self.limit(part(self.long, 8)),
                );
                ask.queue = Some(OWN.to_owned());
                (Door::Queue(OWN), ask, self.nodes / 2)
            }
            SMALL => {
                let mut ask = work(1, self.short, self.limit(self.short));
                ask.queue = Some(BATCH.to_owned());
                // Never fewer than it is due the cores of, nor so many that to order them is all that is measured.
                (Door::Root, ask, self.cores * self.nodes / 2)
            }
            _ => {
                let run = part(self.long, 4);
                (Door::Root, instance(1, run, self.limit(run)), quarter)
            }
        }
    }
}

fn part(span: Span, of: i64) -> Span {
    Span(span.0 / of)
}

/// Submissions that keep somebody always waiting of each party.
pub struct Demand {
    waiting: Vec<u32>,
}

impl Demand {
    /// So many parties, of whom nobody waits.
    pub fn new(parties: usize) -> Demand {
        Demand {
            waiting: vec![0; parties],
        }
    }

    /// How many of a party wait.
    pub fn waiting(&self, party: Party) -> u32 {
        self.waiting[party.0]
    }

    /// A party submits so many of these.
    pub fn submit(
        &mut self,
        trial: &mut Trial,
        party: Party,
        (door, ask): (Door, &Ask),
        copies: u32,
    ) {
        let cc = (copies > 1).then(|| Idset::first_ids(copies));
        let ask = Ask { cc, ..ask.clone() };
        self.waiting[party.0] += copies;
        trial.submit(party, door, &ask);
    }

    /// Something became of a job; whether its party is to come again: less than half of what it
    /// wants to have waiting does.
    pub fn hear(&mut self, told: &Told, most: u32) -> bool {
        if told.news != News::Began {
            return false;
        }
        let waiting = &mut self.waiting[told.party.0];
        *waiting = waiting.saturating_sub(1);
        *waiting < most.div_ceil(2)
    }
}

/// How a machine was divided.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Each one's part of all that counts.
    pub of: Vec<f64>,
    /// How much of the machine was in use in the last half-life.
    pub busy: f64,
    /// How many jobs have ended in instances so far.
    pub inside: usize,
}

/// Instances of the last party, which have work of their own.
#[derive(Default)]
struct Nests {
    /// Those that run and have not come up.
    coming: Vec<JobId>,
    /// Those that have work.
    busy: Vec<InstanceId>,
    /// What ended in those that are over.
    ended: usize,
}

impl Nests {
    fn hear(&mut self, mix: &Mix, trial: &mut Trial, told: &Told) {
        match (told.party, told.news) {
            (NESTED, News::Runs) => self.coming.push(told.job),
            _ if self.coming.is_empty() => return,
            _ => {}
        }
        let coming = std::mem::take(&mut self.coming);
        for job in coming {
            match trial.instance_of(job) {
                Some(instance) => {
                    trial.submit(NESTED, Door::Inside(instance), &mix.inside());
                    self.busy.push(instance);
                }
                None => self.coming.push(job),
            }
        }
    }

    /// How many jobs have ended in them, but for their programs.
    fn ended(&mut self, trial: &Trial) -> usize {
        let over = |id: &InstanceId| trial.world.instances[id.0 as usize].leader.is_none();
        let count = |id: &InstanceId| trial.count(*id, JobState::Inactive);
        let (gone, busy): (Vec<InstanceId>, Vec<InstanceId>) =
            self.busy.iter().copied().partition(over);
        // The program is one of them.
        self.ended += gone.iter().map(|id| count(id) - 1).sum::<usize>();
        self.busy = busy;
        self.ended + self.busy.iter().map(count).sum::<usize>()
    }
}

/// What part of all that counts each had at the end of each half-life.
///
/// # Errors
/// A broken promise.
pub fn at_each_half_life(mix: &Mix, halves: u32) -> Result<Vec<Parts>, String> {
    let mut told = Vec::new();
    each_half_life(mix, halves, |parts| told.push(parts.clone()))?;
    Ok(told)
}

/// The same, told of as each is over.
///
/// # Errors
/// A broken promise.
pub fn each_half_life(mix: &Mix, halves: u32, mut tell: impl FnMut(&Parts)) -> Result<(), String> {
    let mut trial = Trial::new(mix.ground())?;
    let mut demand = Demand::new(PARTIES);
    for at in 0..PARTIES {
        come(mix, &mut trial, &mut demand, Party(at));
    }
    let mut nests = Nests::default();
    for _ in 0..halves {
        let before = trial.world.nature.now;
        let held = trial.got.held(before);
        let end = before.after(mix.half);
        while trial.world.nature.now < end {
            let span = (end - trial.world.nature.now).min(SWEEP);
            trial.run(span, |trial, told| {
                let (_, _, most) = mix.ask(told.party);
                if demand.hear(told, most) {
                    come(mix, trial, &mut demand, told.party);
                }
                nests.hear(mix, trial, told);
            })?;
            trial.let_go(mix.half);
        }
        let faded = trial.got.faded(mix.half, end);
        let all = f64::from(mix.nodes * mix.cores) * mix.half.0 as f64 / 1e6;
        tell(&Parts {
            of: parts(&faded, PARTIES),
            busy: (trial.got.held(end) - held) / all,
            inside: nests.ended(&trial),
        });
    }
    Ok(())
}

fn come(mix: &Mix, trial: &mut Trial, demand: &mut Demand, party: Party) {
    let (door, ask, most) = mix.ask(party);
    let copies = most.saturating_sub(demand.waiting(party)).max(1);
    demand.submit(trial, party, (door, &ask), copies);
}
