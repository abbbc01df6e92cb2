//! What a job holds and held, as its records tell: what it is charged.
//!
//! From grant to release, node by node, for what the grant names there. The ledger charges by it, and who has
//! a job's event log finds the same sum.

use std::collections::BTreeMap;

use crate::event::{Final, Kind};
use crate::grant::Grant;
use crate::id::Rank;
use crate::time::Time;
use crate::usage::Amounts;

/// A fold of the records of one job.
#[derive(Clone, Debug, Default)]
pub struct Held {
    parts: Parts,
    /// What it held in this attempt and gave back.
    closed: Vec<Stay>,
    fate: Fate,
}

/// What a job holds, since when, by rank. Most hold something of one node, and several modules fold each job: a
/// map for each would be most of what the fold costs.
#[derive(Clone, Debug)]
enum Parts {
    One(Rank, Part),
    /// Of none, or of several.
    More(BTreeMap<Rank, Part>),
}

/// What is held of a node, since when.
type Part = (Time, Amounts);

impl Default for Parts {
    fn default() -> Parts {
        Parts::More(BTreeMap::new())
    }
}

impl Parts {
    fn get(&self, rank: Rank) -> Option<&Part> {
        match self {
            Parts::One(one, part) => (*one == rank).then_some(part),
            Parts::More(parts) => parts.get(&rank),
        }
    }

    fn insert(&mut self, rank: Rank, part: Part) {
        match self {
            Parts::One(one, first) => {
                *self = Parts::More(BTreeMap::from([(*one, *first), (rank, part)]));
            }
            Parts::More(parts) if parts.is_empty() => *self = Parts::One(rank, part),
            Parts::More(parts) => drop(parts.insert(rank, part)),
        }
    }

    fn remove(&mut self, rank: Rank) -> Option<Part> {
        match self {
            Parts::One(one, part) => {
                let part = (*one == rank).then_some(*part)?;
                *self = Parts::default();
                Some(part)
            }
            Parts::More(parts) => parts.remove(&rank),
        }
    }

    /// In the order of ranks.
    fn iter(&self) -> impl Iterator<Item = (Rank, &Part)> {
        let (one, more) = match self {
            Parts::One(rank, part) => (Some((*rank, part)), None),
            Parts::More(parts) => (None, Some(parts)),
        };
        let more = more.into_iter().flatten();
        one.into_iter()
            .chain(more.map(|(rank, part)| (*rank, part)))
    }
}

/// A stretch of time in which a job held something of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// Its beginning.
    pub from: Time,
    /// Its end, not before it.
    pub to: Time,
    /// What it held.
    pub held: Amounts,
}

impl Stay {
    /// Amounts times microseconds.
    pub fn used(&self) -> Amounts {
        self.held.over(self.to - self.from)
    }

    /// What all of these held together: stretches that follow each other, each of one sum. For as many stays as an
    /// attempt has nodes these are few: most are of the same time.
    pub fn together(stays: &[Stay]) -> Vec<Stay> {
        if let [stay] = stays
            && stay.from < stay.to
        {
            return vec![*stay];
        }
        let mut moves: BTreeMap<Time, (Amounts, Amounts)> = BTreeMap::new();
        for stay in stays.iter().filter(|stay| stay.from < stay.to) {
            let (more, _) = moves.entry(stay.from).or_default();
            *more = more.plus(stay.held);
            let (_, less) = moves.entry(stay.to).or_default();
            *less = less.plus(stay.held);
        }
        let mut all = Vec::new();
        let (mut from, mut held) = (Time(0), Amounts::default());
        for (to, (more, less)) in moves {
            if !held.is_nothing() {
                all.push(Stay { from, to, held });
            }
            (from, held) = (to, held.plus(more).less(less));
        }
        all
    }
}

/// What a record changed on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// It holds this there.
    Took(Rank, Amounts),
    /// And this no more, since then: not before it took it.
    Gave(Rank, Amounts, Time),
}

/// Whether somebody pays for an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// The payer does.
    #[default]
    Charged,
    /// Nobody: its node failed under it, or it came back from where it was passed to and never began.
    Failed,
    /// The payer: it ends for another reason, which stands.
    Ending,
}

impl Fate {
    /// What it is after this record of the job: the first that ends the attempt counts.
    #[must_use]
    pub fn after(self, kind: &Kind) -> Fate {
        match (self, kind) {
            (_, Kind::Requeue(_)) => Fate::Charged,
            (Fate::Charged, Kind::Recalled(_)) => Fate::Failed,
            (Fate::Charged, Kind::Exception(exception)) if exception.severity == 0 => {
                match exception.kind.as_str() {
                    "node-failure" => Fate::Failed,
                    _ => Fate::Ending,
                }
            }
            (fate, _) => fate,
        }
    }
}

impl Held {
    /// Folds a record; says what changed on which node.
    pub fn apply(&mut self, t: Time, kind: &Kind, mut moved: impl FnMut(Move)) {
        self.fate = self.fate.after(kind);
        match kind {
            Kind::Alloc(grant) => self.open(t, grant, &mut moved),
            Kind::GrantChanged(grant) => {
                let stays = |rank: Rank, held: &Amounts| {
                    let node = grant.set.nodes.get(&rank);
                    node.is_some_and(|node| Amounts::of(node) == *held)
                };
                let parts = self.parts.iter();
                let parts = parts.filter(|(rank, (_, held))| !stays(*rank, held));
                let ranks: Vec<Rank> = parts.map(|(rank, _)| rank).collect();
                self.close(t, ranks, &mut moved);
                self.open(t, grant, &mut moved);
            }
            Kind::Release(ranks, Final::No) => {
                self.close(t, ranks.iter().map(Rank), &mut moved);
            }
            // The final release is the same moment; only what is free is nobody's.
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => {
                let all = std::mem::take(&mut self.parts);
                let parts = all.iter();
                parts.for_each(|(rank, part)| self.end(t, rank, *part, &mut moved));
            }
            _ => {}
        }
    }

    /// An attempt has given everything back: whether somebody pays for it, and for what.
    pub fn settle(&mut self) -> (Fate, Vec<Stay>) {
        (self.fate, std::mem::take(&mut self.closed))
    }

    /// What it holds and held in this attempt, until now.
    pub fn so_far(&self, now: Time) -> Amounts {
        let open = self.parts.iter();
        let open = open.map(|(_, (from, held))| held.over(now - *from));
        let closed = self.closed.iter().map(Stay::used);
        open.chain(closed).fold(Amounts::default(), Amounts::plus)
    }

    fn open(&mut self, t: Time, grant: &Grant, moved: &mut impl FnMut(Move)) {
        for (rank, node) in &grant.set.nodes {
            let held = Amounts::of(node);
            if held != Amounts::default() && self.parts.get(*rank).is_none() {
                self.parts.insert(*rank, (t, held));
                moved(Move::Took(*rank, held));
            }
        }
    }

    fn close(
        &mut self,
        t: Time,
        ranks: impl IntoIterator<Item = Rank>,
        moved: &mut impl FnMut(Move),
    ) {
        for rank in ranks {
            if let Some(part) = self.parts.remove(rank) {
                self.end(t, rank, part, moved);
            }
        }
    }

    fn end(&mut self, t: Time, rank: Rank, (from, held): Part, moved: &mut impl FnMut(Move)) {
        let to = t.max(from);
        self.closed.push(Stay { from, to, held });
        moved(Move::Gave(rank, held, to));
    }
}
