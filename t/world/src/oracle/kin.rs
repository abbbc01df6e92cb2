//! What must be true across instances and across ranks.

use std::collections::{BTreeMap, VecDeque};

use eddy_wire::id::{Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::services::child::ChildOf;
use eddy_wire::shell::{Part, Start};
use eddy_wire::tree::{Address, Letter, Tenure, Word};

use crate::nature::{InstanceId, Life, Nature, ROOT};
use crate::nested::Within;

/// Which way letters go between the leader and a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Up,
    Down,
}

/// The judge of what is between instances and between ranks.
#[derive(Debug, Default)]
pub struct Kin {
    parents: BTreeMap<InstanceId, (InstanceId, ChildOf)>,
    /// Letters of the present tenure of each rank that have not come.
    letters: BTreeMap<(InstanceId, Rank, Way), (Tenure, VecDeque<Letter>)>,
    /// Processes that live in others, and what they run within.
    living: BTreeMap<Living, Within>,
    /// Tasks that run on cores of their own: on which host, and which.
    leaves: BTreeMap<(InstanceId, Part, u32), (String, Idset)>,
    finding: Option<String>,
}

/// A process that others can run in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Living {
    /// The process that leads a child instance.
    Leader(InstanceId, Life),
    /// A shell.
    Shell(InstanceId, Epoch),
}

impl Kin {
    /// How deep an instance is in others.
    pub fn depth(&self, id: InstanceId) -> u32 {
        match self.parents.get(&id) {
            Some((parent, _)) => 1 + self.depth(*parent),
            None => 0,
        }
    }

    /// Which job of which instance an instance is.
    pub fn parent(&self, id: InstanceId) -> Option<(InstanceId, ChildOf)> {
        self.parents.get(&id).copied()
    }

    /// The instances that are jobs of this one, or were.
    pub fn children(&self, of: InstanceId) -> impl Iterator<Item = InstanceId> + '_ {
        let parents = self.parents.iter();
        let its = parents.filter(move |(_, (parent, _))| *parent == of);
        its.map(|(child, _)| *child)
    }

    /// A process begins within these parts.
    pub fn begins(&mut self, living: Living, within: &Within) {
        self.living.insert(living, within.clone());
    }

    /// A process is gone.
    pub fn ends(&mut self, living: Living) {
        self.living.remove(&living);
    }

    /// A process that lives within any part of this attempt of a job, but on these ranks.
    pub fn lives_in(&self, id: InstanceId, child: ChildOf, but: &Idset) -> Option<Living> {
        let is_it = |(instance, part): &(InstanceId, Part)| {
            let is_its = (part.job, part.attempt) == (child.job, child.attempt);
            *instance == id && is_its && !but.contains(part.rank.0)
        };
        let found = self
            .living
            .iter()
            .find(|(_, within)| within.iter().any(is_it));
        found.map(|(living, _)| *living)
    }

    /// A task begins on cores of its own: nobody else's.
    pub fn leaf_begins(&mut self, id: InstanceId, start: &Start, task: u32) {
        let part = start.part;
        let clash = self
            .leaves
            .iter()
            .find(|((other, their, _), (host, cores))| {
                *host == start.host
                    && (*other, their.job, their.attempt) != (id, part.job, part.attempt)
                    && !cores.is_disjoint(&start.cores)
            });
        if let Some(((other, their, _), (_, cores))) = clash {
            let sentence = format!(
                "cores {} of {} are in part {part} of {id:?} and cores {cores} in \
                 part {their} of {other:?}",
                start.cores, start.host
            );
            self.fail(sentence);
        }
        let leaf = (start.host.clone(), start.cores.clone());
        self.leaves.insert((id, part, task), leaf);
    }

    /// It ended.
    pub fn leaf_ends(&mut self, id: InstanceId, part: Part, task: u32) {
        self.leaves.remove(&(id, part, task));
    }
    /// The first broken promise.
    pub fn finding(&self) -> Option<&str> {
        self.finding.as_deref()
    }

    /// Something is wrong; only the first is kept.
    pub fn fail(&mut self, sentence: String) {
        self.finding.get_or_insert(sentence);
    }

    /// An instance came up as this job of its parent.
    pub fn born(&mut self, id: InstanceId, parent: InstanceId, child: ChildOf) {
        self.parents.insert(id, (parent, child));
    }

    /// A rank hands a letter to its overlay.
    pub fn sent(&mut self, id: InstanceId, letter: &Letter) {
        let Some(key) = way(id, letter) else { return };
        let (tenure, waiting) = self.letters.entry(key).or_default();
        if *tenure < letter.tenure {
            (*tenure, *waiting) = (letter.tenure, VecDeque::new());
        }
        if *tenure == letter.tenure {
            waiting.push_back(letter.clone());
        }
    }

    /// An overlay hands a letter to its rank: the next of its tenure.
    pub fn came(&mut self, id: InstanceId, rank: Rank, letter: &Letter) {
        let Some(key) = way(id, letter) else { return };
        let begun = self.letters.get(&(id, key.1, Way::Down));
        let begun = begun.map(|(tenure, _)| *tenure);
        let Some((tenure, waiting)) = self.letters.get_mut(&key) else {
            return self.fail(format!(
                "a letter came to rank {rank} that nobody sent: {letter:?}"
            ));
        };
        if *tenure != letter.tenure {
            return;
        }
        // What went up before its link broke may be missing once the leader has begun the next
        // tenure, in which it is said again; in the present one nothing may.
        if key.2 == Way::Up && begun != Some(letter.tenure) {
            return;
        }
        match waiting.pop_front() {
            Some(next) if next == *letter => {}
            Some(next) => {
                let (given, expected) = (&letter.word, &next.word);
                let sentence = format!(
                    "letters of one tenure came to rank {rank} out of order or with a hole: \
                     {given:?}, not {expected:?}"
                );
                self.fail(sentence);
            }
            None => self.fail(format!(
                "a letter came to rank {rank} a second time: {:?}",
                letter.word
            )),
        }
    }
}

/// The way of a letter between the leader and a rank within a tenure.
fn way(id: InstanceId, letter: &Letter) -> Option<(InstanceId, Rank, Way)> {
    match letter.to {
        _ if letter.tenure.number == 0 => None,
        // Said on the way, by whom it was sent on.
        _ if matches!(letter.word, Word::Unreachable { .. }) => None,
        Address::Rank(rank) => Some((id, rank, Way::Down)),
        Address::Leader => Some((id, letter.from, Way::Up)),
        Address::Next | Address::Below => None,
    }
}

impl Nature {
    /// Nothing lives in a job that was given back.
    pub fn is_empty(&self, instance: InstanceId, job: JobId) -> Result<(), String> {
        let found = self.judge(instance).recorded().jobs.get(&job);
        let Some(attempt) = found.map(|job| job.attempt) else {
            return Ok(());
        };
        // What holds nothing on a node that is taken out ends with the node's agent, which the leader sees to
        // once that is recorded; nobody is told when.
        let inventory = &self.judge(instance).recorded().inventory;
        let taken_out = match instance == ROOT && !inventory.nodes.is_empty() {
            true => Idset::first_ids(self.machines.len() as u32).difference(&inventory.ranks()),
            false => Idset::new(),
        };
        let of = ChildOf { job, attempt };
        match self.tree.lives_in(instance, of, &taken_out) {
            None => Ok(()),
            Some(living) => Err(format!("job {job} is released and {living:?} lives in it")),
        }
    }
}
