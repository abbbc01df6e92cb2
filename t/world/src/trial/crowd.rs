//! A job as wide as the machine among narrow ones that never stop coming, and whether it begins in time where
//! `queue.reserve_after` says how long it waits.
//!
//! Judged by records alone, and by how long the narrow ones may run. Called by tests.

use eddy_wire::time::{Span, Time};

use super::{Door, Ground, News, Party, Trial, work};
use crate::call::Ask;
use crate::random::Random;

/// Who keeps coming, and who waits.
const NARROW: Party = Party(0);
const WIDE: Party = Party(1);

/// So many times as many as there is room for wait when it comes.
const WAITING: u32 = 2;

/// What is between the end of a limit and nodes that are free, and as much again for the way of a message, a
/// pass and the start of an instance's share.
const ROOM: Span = Span::seconds(20);

/// What the narrow ones say of their ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Each has a limit.
    Known,
    /// None has.
    Unknown,
}

/// Such a crowd.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// By what policy, as TOML, but for the time that somebody waits.
    pub policy: String,
    /// The queue instance that the narrow ones go through, if they do.
    pub queue: Option<&'static str>,
    /// What is known of their ends.
    pub ends: Ends,
}

/// What is drawn of a crowd.
struct Drawn {
    nodes: u32,
    cores: u32,
    /// The longest that a narrow one may run, as it does now and then.
    longest: i64,
    after: Span,
}

impl Drawn {
    fn of(random: &mut Random) -> Drawn {
        let (nodes, cores) =
            *random.pick(&[(1, 2), (1, 4), (2, 1), (2, 2), (3, 1), (3, 2), (4, 2)]);
        Drawn {
            nodes,
            cores,
            longest: random.between(3, 30),
            after: Span::seconds(*random.pick(&[1, 5, 20, 40])),
        }
    }

    fn width(&self) -> u32 {
        self.nodes * self.cores
    }

    /// How long the wide one may wait: until those are over who came before it, who may have waited too long
    /// as well.
    fn most(&self) -> Span {
        let turns = i64::from(WAITING) + 1;
        Span(self.after.0 + turns * Span::seconds(self.longest).0 + ROOM.0)
    }

    fn narrow(&self, crowd: &Crowd, random: &mut Random) -> Ask {
        let run = random.between(1, self.longest);
        let limit = match crowd.ends {
            Ends::Known => random.between(run, self.longest),
            Ends::Unknown => 0,
        };
        Ask {
            queue: crowd.queue.map(str::to_owned),
            ..work(1, Span::seconds(run), Span::seconds(limit))
        }
    }
}

/// How long the wide one waited in the crowd of a seed.
///
/// # Errors
/// A broken promise, or that it waits for longer than it may, also where nothing says how long that is.
pub fn wait(seed: u64, crowd: &Crowd, patience: Patience) -> Result<Span, String> {
    let mut random = Random::new(seed ^ 0xc80d);
    let drawn = Drawn::of(&mut random);
    let policy = match patience {
        Patience::Ends => {
            let after = drawn.after.0 / 1_000_000;
            format!("{}\nqueue.reserve_after = \"{after}s\"", crowd.policy)
        }
        Patience::Lasts => crowd.policy.clone(),
    };
    let mut trial = Trial::new(Ground {
        nodes: drawn.nodes,
        cores: drawn.cores,
        message: Span::ZERO,
        policy,
        queues: crowd.queue.into_iter().collect(),
        accounts: vec![("narrow", None, 9), ("wide", None, 1)],
        members: vec![("narrow", 1), ("wide", 1)],
    })?;
    let mut come = |trial: &mut Trial, copies: u32| {
        for _ in 0..copies {
            let ask = drawn.narrow(crowd, &mut random);
            trial.submit(NARROW, Door::Root, &ask);
        }
    };
    come(&mut trial, (WAITING + 1) * drawn.width());
    let mut hear = |trial: &mut Trial, told: &super::Told| {
        if told.party == NARROW && told.news == News::Began {
            come(trial, 1);
        }
    };
    trial.run(Span::seconds(5), &mut hear)?;
    let wide = work(drawn.width(), Span::seconds(1), Span::seconds(2));
    trial.submit(WIDE, Door::Root, &wide);
    let from = trial.world.nature.now;
    let most = drawn.most();
    while trial.age() < Span((from - trial.begun()).0 + most.0) {
        trial.run(Span::seconds(1), &mut hear)?;
        if let Some(at) = begun(&trial) {
            return Ok(at - from);
        }
    }
    Err(format!(
        "a job of all {} cores waits for longer than {most}, in crowd {seed} by {}",
        drawn.width(),
        crowd.policy
    ))
}

/// Whether it is said how long somebody waits at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// It is.
    Ends,
    /// It is not.
    Lasts,
}

fn begun(trial: &Trial) -> Option<Time> {
    let mut all = trial.got.begun();
    all.find_map(|(_, party, _, begun)| begun.filter(|_| party == WIDE))
}
