//! Four accounts in two levels that want all there is, each in its own way, and what each got.
//!
//! One has wide jobs that last long, one many small ones that do not, one instances of its own, one
//! submits to a queue instance past the root. Called by tests and by the bench.

use eddy_wire::idset::Idset;
use eddy_wire::time::Span;

use super::{Door, Ground, News, Party, Told, Trial, instance, parts, work};
use crate::call::Ask;

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
            half: Span::seconds(7000),
            over: String::new(),
        }
    }
}

/// Who takes part: wide, direct, small, nested.
pub const PARTIES: usize = 4;
/// What each is due of the whole.
pub const DUE: [f64; PARTIES] = [0.5, 0.25, 0.125, 0.125];

const WIDE: Party = Party(0);
const DIRECT: Party = Party(1);
const SMALL: Party = Party(2);
/// Where the second submits to, and where the others' small jobs go.
const OWN: &str = "own";
const BATCH: &str = "batch";

impl Mix {
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
                ("small", Some("teaching"), 5),
                ("nested", Some("teaching"), 5),
            ],
            members: vec![("wide", 1), ("direct", 1), ("small", 1), ("nested", 1)],
        }
    }

    /// What each submits, where, and how much at once.
    fn ask(&self, party: Party) -> (Door, Ask, u32) {
        let quarter = self.nodes / 4;
        match party {
            WIDE => {
                let mut ask = work(quarter * self.cores, self.long, twice(self.long));
                ask.nodes = Some(quarter);
                (Door::Root, ask, 2)
            }
            DIRECT => {
                let mut ask = work(self.cores, part(self.long, 8), part(self.long, 4));
                ask.queue = Some(OWN.to_owned());
                (Door::Queue(OWN), ask, 8)
            }
            SMALL => {
                let mut ask = work(1, self.short, twice(self.short));
                ask.queue = Some(BATCH.to_owned());
                (Door::Root, ask, 2 * self.cores * self.nodes)
            }
            _ => {
                let (run, limit) = (part(self.long, 4), part(self.long, 2));
                (Door::Root, instance(1, run, limit), 4)
            }
        }
    }
}

fn twice(span: Span) -> Span {
    Span(span.0 * 2)
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
}

/// What part of all that counts each had at the end of each half-life.
///
/// # Errors
/// A broken promise.
pub fn at_each_half_life(mix: &Mix, halves: u32) -> Result<Vec<Parts>, String> {
    let mut trial = Trial::new(mix.ground())?;
    let mut demand = Demand::new(PARTIES);
    for at in 0..PARTIES {
        come(mix, &mut trial, &mut demand, Party(at));
    }
    let mut told = Vec::new();
    for _ in 0..halves {
        let before = trial.world.nature.now;
        trial.run(mix.half, |trial, told| {
            let (_, _, most) = mix.ask(told.party);
            if demand.hear(told, most) {
                come(mix, trial, &mut demand, told.party);
            }
        })?;
        let now = trial.world.nature.now;
        let faded = trial.got.faded(mix.half, now);
        let held: f64 = trial.got.core_seconds(before, now).values().sum();
        let all = f64::from(mix.nodes * mix.cores) * (now - before).0 as f64 / 1e6;
        told.push(Parts {
            of: parts(&faded, PARTIES),
            busy: held / all,
        });
    }
    Ok(told)
}

fn come(mix: &Mix, trial: &mut Trial, demand: &mut Demand, party: Party) {
    let (door, ask, most) = mix.ask(party);
    let copies = most.saturating_sub(demand.waiting(party)).max(1);
    demand.submit(trial, party, (door, &ask), copies);
}
