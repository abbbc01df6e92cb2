//! Nodes on which nothing has run for long while nothing waits: they go back by themselves.
//!
//! Since when a node is idle is a fold of records; a leader that begins counts from its own
//! beginning, since the records of jobs that are over may be gone. Which nodes may go at all
//! `giving` says.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::event::Kind;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Takes;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use crate::settings::ReleaseIdle;

/// How long nodes have been idle.
#[derive(Debug)]
pub(super) struct Idling {
    rule: Option<ReleaseIdle>,
    /// How many jobs hold something of a node, where any does.
    holders: BTreeMap<Rank, u32>,
    /// Since when nobody does.
    since: BTreeMap<Rank, Time>,
    /// Jobs that are to have something yet, also those that are held or wait for another: what was taken
    /// in for the nodes there were is not to fail for the lack of them.
    waiting: BTreeSet<JobId>,
}

/// What is to become of the idle nodes that may go.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// These go now.
    pub(super) now: Vec<Rank>,
    /// When the next one does, if nothing changes.
    pub(super) next: Option<Time>,
}

impl Idling {
    pub(super) fn new(rule: Option<ReleaseIdle>) -> Idling {
        Idling {
            rule,
            holders: BTreeMap::new(),
            since: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// Whether nodes are ever to go by themselves; nothing is counted where not.
    pub(super) fn is_wanted(&self) -> bool {
        self.rule.is_some()
    }

    /// The instance has these nodes from now on.
    pub(super) fn defined(&mut self, t: Time, set: &ResourceSet) {
        if !self.is_wanted() {
            return;
        }
        self.since.retain(|rank, _| set.nodes.contains_key(rank));
        for rank in set.nodes.keys() {
            if !self.holders.contains_key(rank) {
                self.since.entry(*rank).or_insert(t);
            }
        }
    }

    /// A job stays on other nodes than it did.
    pub(super) fn held(&mut self, t: Time, before: &Idset, now: &Idset) {
        if !self.is_wanted() {
            return;
        }
        for rank in now.iter().map(Rank) {
            *self.holders.entry(rank).or_default() += 1;
            self.since.remove(&rank);
        }
        for rank in before.iter().map(Rank) {
            let Some(count) = self.holders.get_mut(&rank) else {
                continue;
            };
            *count -= 1;
            if *count == 0 {
                self.holders.remove(&rank);
                self.since.insert(rank, t);
            }
        }
    }

    /// A leader begins.
    pub(super) fn begin(&mut self, now: Time) {
        self.since.values_mut().for_each(|since| *since = now);
    }

    /// Takes in what a record says of a job: whether it waits for nodes.
    pub(super) fn apply(&mut self, job: JobId, kind: &Kind) {
        if !self.is_wanted() {
            return;
        }
        match kind {
            Kind::Submit(submit) if submit.spec.request.takes == Takes::Resources => {
                self.waiting.insert(job);
            }
            Kind::Requeue(_) => drop(self.waiting.insert(job)),
            Kind::Alloc(_) | Kind::Clean => drop(self.waiting.remove(&job)),
            _ => {}
        }
    }

    /// Of these nodes, which are all that may go beside `staying` others, those that go: the longest
    /// idle first, so that as many are left as are to be kept.
    pub(super) fn due(&self, now: Time, may_go: &[Rank], staying: usize) -> Due {
        let Some(rule) = self.rule.filter(|_| self.waiting.is_empty()) else {
            return Due::default();
        };
        let spare = (may_go.len() + staying).saturating_sub(rule.keep as usize);
        let idle = may_go.iter().filter_map(|rank| {
            let since = self.since.get(rank)?;
            Some((since.after(rule.after), std::cmp::Reverse(*rank)))
        });
        let mut idle: Vec<_> = idle.collect();
        idle.sort_unstable();
        idle.truncate(spare);
        let later = idle.iter().position(|(at, _)| *at > now);
        let next = later.map(|later| idle[later].0);
        idle.truncate(later.unwrap_or(idle.len()));
        Due {
            now: idle.into_iter().map(|(_, rank)| rank.0).collect(),
            next,
        }
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::id::Attempt;
    use eddy_wire::resource_set::NodeSet;
    use eddy_wire::time::Span;

    use super::*;

    const RULE: ReleaseIdle = ReleaseIdle {
        after: Span::seconds(10),
        keep: 1,
    };

    fn set(ranks: &[u32], cores: u64) -> ResourceSet {
        let node = |rank: &u32| {
            let node = NodeSet {
                host: format!("n{rank}").into(),
                cores: (0..cores as u32).collect::<Idset>(),
                gpus: Idset::new(),
                memory: 0,
                ..NodeSet::default()
            };
            (Rank(*rank), node)
        };
        ResourceSet {
            nodes: ranks.iter().map(node).collect(),
            ..ResourceSet::default()
        }
    }

    fn ids(ids: &[u32]) -> Idset {
        ids.iter().copied().collect()
    }

    fn at(seconds: i64) -> Time {
        Time(seconds * 1_000_000)
    }

    fn due(now: &[u32], next: Option<i64>) -> Due {
        Due {
            now: now.iter().map(|rank| Rank(*rank)).collect(),
            next: next.map(at),
        }
    }

    #[test]
    fn nodes_go_when_their_time_is_over_and_nothing_waits() {
        let mut idling = Idling::new(Some(RULE));
        idling.defined(at(0), &set(&[0, 1, 2, 3], 2));
        let may_go = [Rank(1), Rank(2), Rank(3)];
        idling.held(at(1), &ids(&[]), &ids(&[1, 2]));
        assert_eq!(idling.due(at(2), &may_go, 1), due(&[], Some(10)));
        // A second job on one of them keeps it.
        idling.held(at(3), &ids(&[]), &ids(&[1]));
        idling.held(at(4), &ids(&[1, 2]), &ids(&[]));
        assert_eq!(idling.due(at(10), &may_go, 1), due(&[3], Some(14)));
        idling.held(at(12), &ids(&[1]), &ids(&[]));
        assert_eq!(idling.due(at(21), &may_go, 1), due(&[3, 2], Some(22)));
        // Held, or behind another job: it waits for no node yet, and is to have one.
        idling.apply(JobId(7), &Kind::Requeue(Attempt(2)));
        assert_eq!(idling.due(at(30), &may_go, 1), due(&[], None));
        idling.apply(JobId(7), &Kind::Clean);
        assert_eq!(idling.due(at(30), &may_go, 1), due(&[3, 2, 1], None));
        idling.begin(at(40));
        assert_eq!(idling.due(at(41), &may_go, 1), due(&[], Some(50)));
    }

    #[test]
    fn as_many_stay_as_are_to_be_kept() {
        let mut idling = Idling::new(Some(ReleaseIdle { keep: 3, ..RULE }));
        idling.defined(at(0), &set(&[0, 1, 2, 3], 2));
        let may_go = [Rank(1), Rank(2), Rank(3)];
        assert_eq!(idling.due(at(10), &may_go, 1), due(&[3], None));
        assert_eq!(idling.due(at(10), &may_go[..2], 1), due(&[], None));
        let never = Idling::new(None);
        assert_eq!(never.due(at(99), &may_go, 1), due(&[], None));
    }
}
