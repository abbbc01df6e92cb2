//! Whether a job that runs has its cores: the fold of its grants and of `suspend` and `resume`.
//!
//! Everybody who folds records of jobs has one; the executor asks it what its shells are owed, the
//! scheduler what the job wants back. It decides nothing, and knows no process.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::event::{Final, Kind};
use crate::grant::Grant;
use crate::id::Rank;
use crate::idset::Idset;
use crate::resource_set::ResourceSet;
use crate::time::{Span, Time};

/// Where a job that runs stands between its cores and none.
///
/// `suspend` leads from `Runs` to `Stopping`, the change of its grant that follows to `Suspended`,
/// `resume` to `Resuming`, and the next change of its grant back to `Runs`. Each of the two records
/// takes back the other where nothing came of it yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Standing {
    /// It has its cores.
    #[default]
    Runs,
    /// Its tasks are being stopped; it has its cores.
    Stopping,
    /// Its tasks are stopped, its cores are given back.
    Suspended,
    /// The same, and it waits for cores to go on.
    Resuming,
}

impl Standing {
    /// Whether it has given its cores back.
    pub fn is_without_cores(self) -> bool {
        match self {
            Standing::Suspended | Standing::Resuming => true,
            Standing::Runs | Standing::Stopping => false,
        }
    }
}

/// The fold: of the present attempt of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suspension {
    standing: Standing,
    grant: Option<Arc<Grant>>,
    /// What it held before it gave its cores back.
    before: Option<Arc<ResourceSet>>,
    started: Option<Time>,
    /// Since when it has none.
    since: Option<Time>,
    /// For how long it had none, until it last got them back.
    lasted: Span,
    /// How often it was to stop.
    stops: u32,
    /// Who stopped it last; nobody where another job needed its cores.
    by: Option<u32>,
}

impl Suspension {
    /// Folds a record of the job.
    pub fn apply(&mut self, t: Time, kind: &Kind) {
        use Standing::{Resuming, Runs, Stopping, Suspended};
        match kind {
            Kind::Alloc(grant) => {
                *self = Suspension {
                    grant: Some(Arc::clone(grant)),
                    ..Suspension::default()
                };
            }
            Kind::Start => self.started = Some(t),
            Kind::Suspend(by) => {
                self.stops += 1;
                self.by = *by;
                self.standing = match self.standing {
                    Runs | Stopping => Stopping,
                    Suspended | Resuming => Suspended,
                }
            }
            Kind::Resume(_) => {
                self.standing = match self.standing {
                    Runs | Stopping => Runs,
                    Suspended | Resuming => Resuming,
                }
            }
            Kind::GrantChanged(grant) => self.changed(t, grant),
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => self.ended(t),
            Kind::Requeue(_) => *self = Suspension::default(),
            _ => {}
        }
    }

    fn changed(&mut self, t: Time, grant: &Arc<Grant>) {
        let before = self.grant.replace(Arc::clone(grant));
        match self.standing {
            Standing::Stopping => {
                self.before = before.map(|grant| Arc::clone(&grant.set));
                self.since = Some(t);
                self.standing = Standing::Suspended;
            }
            Standing::Resuming => {
                self.ended(t);
            }
            Standing::Runs | Standing::Suspended => {}
        }
    }

    /// It has cores, or needs none any more.
    fn ended(&mut self, t: Time) {
        let since = self.since.take().unwrap_or(t);
        self.lasted = Span(self.lasted.0.saturating_add((t - since).0));
        self.before = None;
        self.standing = Standing::Runs;
    }

    /// Whether its tasks have begun.
    pub fn has_begun(&self) -> bool {
        self.started.is_some()
    }

    /// Where it stands.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Whether it has given its cores to another job, and is to have some again as soon as may be.
    pub fn is_to_go_on(&self) -> bool {
        self.standing == Standing::Suspended && self.by.is_none()
    }

    /// Who stopped it last; nobody where another job needed its cores.
    pub fn by(&self) -> Option<u32> {
        self.by
    }

    /// Whether a person stopped it last.
    pub fn is_wanted(&self) -> bool {
        self.by.is_some()
    }

    /// What it holds, and what it gives or gets by its next change.
    pub fn grant(&self) -> Option<&Arc<Grant>> {
        self.grant.as_ref()
    }

    /// Since when it has no cores, if it has none.
    pub fn since(&self) -> Option<Time> {
        self.since
    }

    /// For how long it has had no cores in all, until it last got them back.
    pub fn lasted(&self) -> Span {
        self.lasted
    }

    /// Whether it was ever told to stop: what its shells know may be older.
    pub fn is_touched(&self) -> bool {
        self.stops > 0
    }

    /// How often it was told to stop in this attempt: names the last time.
    pub fn stops(&self) -> u32 {
        self.stops
    }

    /// Whether its next grant, where it is this one, gives its cores back or has them again.
    pub fn is_followed_by(&self, grant: &Grant) -> bool {
        let follows = |held: &Arc<Grant>| grant.epoch == held.epoch.next();
        match self.standing {
            Standing::Stopping | Standing::Resuming => self.grant.as_ref().is_some_and(follows),
            Standing::Runs | Standing::Suspended => false,
        }
    }

    /// For how long its tasks have run, whether or not they do at that time.
    pub fn has_run(&self, now: Time) -> Span {
        let ran = |started: Time| Span((now - started).0.saturating_sub(self.lasted.0).max(0));
        let runs = || self.started.map_or(Span::ZERO, ran);
        self.ran().unwrap_or_else(runs)
    }

    /// For how long its tasks have run, where they do not now.
    pub fn ran(&self) -> Option<Span> {
        let (started, since) = (self.started?, self.since?);
        Some(Span(
            (since - started).0.saturating_sub(self.lasted.0).max(0),
        ))
    }

    /// How many cores of each rank it gave back, as long as it has none.
    pub fn lacks(&self) -> Option<BTreeMap<Rank, u32>> {
        let before = self.before.as_ref()?;
        let parts = before.nodes.iter();
        let cores = |cores: &Idset| u32::try_from(cores.len()).unwrap_or(u32::MAX);
        let parts = parts.map(|(rank, node)| (*rank, cores(&node.cores)));
        Some(parts.filter(|(_, cores)| *cores > 0).collect())
    }

    /// Whether a grant has as many cores on each node as it gave back.
    pub fn is_whole(&self, grant: &Grant) -> bool {
        let lacks = self.lacks().unwrap_or_default();
        lacks.iter().all(|(rank, cores)| {
            let node = grant.set.nodes.get(rank);
            node.is_some_and(|node| node.cores.len() == u64::from(*cores))
        })
    }

    /// The grant without its cores, from `now` on.
    pub fn without_cores(&self, now: Time) -> Option<Grant> {
        let grant = self.grant.as_deref()?;
        let mut set = ResourceSet::clone(&grant.set);
        for node in set.nodes.values_mut() {
            node.cores = Idset::new();
        }
        (set.starttime, set.expiration) = (now.0, 0);
        Some(next(grant, set))
    }

    /// The grant with these cores, and the times of theirs.
    pub fn with_cores(&self, cores: &ResourceSet) -> Option<Grant> {
        let grant = self.grant.as_deref()?;
        let mut set = ResourceSet::clone(&grant.set);
        for (rank, node) in &mut set.nodes {
            if let Some(given) = cores.nodes.get(rank) {
                node.cores = given.cores.clone();
            }
        }
        (set.starttime, set.expiration) = (cores.starttime, cores.expiration);
        Some(next(grant, set))
    }
}

fn next(grant: &Grant, set: ResourceSet) -> Grant {
    Grant {
        epoch: grant.epoch.next(),
        set: Arc::new(set),
        shells: grant.shells.clone(),
        beside: grant.beside.clone(),
        passed: grant.passed.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Epoch;
    use crate::resource_set::NodeSet;

    const NOBODY: Option<u32> = None;

    fn granted() -> Arc<Grant> {
        let node = NodeSet {
            host: "n".into(),
            cores: "0-2".parse().unwrap(),
            gpus: "0".parse().unwrap(),
            memory: 7,
            ..NodeSet::default()
        };
        let set = ResourceSet {
            nodes: [(Rank(4), node)].into(),
            starttime: 1,
            ..ResourceSet::default()
        };
        Arc::new(Grant {
            epoch: Epoch(1),
            set: Arc::new(set),
            shells: [(Rank(4), Epoch(9))].into(),
            beside: BTreeMap::new(),
            passed: None,
        })
    }

    fn after(kinds: &[(i64, Kind)]) -> Suspension {
        let mut suspension = Suspension::default();
        for (seconds, kind) in kinds {
            suspension.apply(Time(*seconds * 1_000_000), kind);
        }
        suspension
    }

    #[test]
    fn cores_go_and_come_back_and_the_time_between_is_not_run() {
        let mut job = after(&[
            (0, Kind::Alloc(granted())),
            (1, Kind::Start),
            (11, Kind::Suspend(NOBODY)),
        ]);
        assert_eq!(job.standing(), Standing::Stopping);
        let without = job.without_cores(Time(12_000_000)).unwrap();
        let node = &without.set.nodes[&Rank(4)];
        assert!(node.cores.is_empty());
        assert_eq!((node.gpus.len(), node.memory), (1, 7));
        assert_eq!(
            (without.epoch, without.set.starttime),
            (Epoch(2), 12_000_000)
        );

        job.apply(Time(12_000_000), &Kind::GrantChanged(Arc::new(without)));
        assert_eq!(job.standing(), Standing::Suspended);
        assert_eq!(job.ran(), Some(Span::seconds(11)));
        assert_eq!(job.lacks(), Some([(Rank(4), 3)].into()));

        job.apply(Time(20_000_000), &Kind::Resume(NOBODY));
        assert_eq!(job.standing(), Standing::Resuming);
        let mut cores = ResourceSet::clone(&granted().set);
        for node in cores.nodes.values_mut() {
            (node.cores, node.gpus, node.memory) = ("5-7".parse().unwrap(), Idset::new(), 0);
        }
        let with = job.with_cores(&cores).unwrap();
        assert_eq!(with.set.nodes[&Rank(4)].cores.to_string(), "5-7");
        assert_eq!(with.set.nodes[&Rank(4)].memory, 7);
        job.apply(Time(30_000_000), &Kind::GrantChanged(Arc::new(with)));
        assert_eq!(job.standing(), Standing::Runs);
        assert_eq!(job.lasted(), Span::seconds(18));
        assert_eq!((job.lacks(), job.ran()), (None, None));
    }

    #[test]
    fn each_takes_the_other_back_where_nothing_came_of_it() {
        let running = [(0, Kind::Alloc(granted())), (1, Kind::Start)];
        let mut job = after(&running);
        job.apply(Time(2), &Kind::Suspend(NOBODY));
        job.apply(Time(3), &Kind::Resume(NOBODY));
        assert_eq!(job.standing(), Standing::Runs);
        assert_eq!(job.lasted(), Span::ZERO);
        assert!(job.is_touched(), "its shells may have stopped it");

        job.apply(Time(4), &Kind::Suspend(NOBODY));
        let without = job.without_cores(Time(5)).unwrap();
        job.apply(Time(5), &Kind::GrantChanged(Arc::new(without)));
        job.apply(Time(6), &Kind::Resume(NOBODY));
        job.apply(Time(7), &Kind::Suspend(NOBODY));
        assert_eq!(job.standing(), Standing::Suspended);
    }
}
