//! The jobs of queues that lead to instances, as recorded: what was passed where, and what they hold.
//!
//! Folded by `nest`; what is said of them is `pass`'s.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::update;

use super::run::Run;
use crate::jobs::Jobs;
use crate::limits::is_nobodys;
use crate::settings::Settings;

/// The jobs of queues.
#[derive(Debug, Default)]
pub(super) struct Passes {
    pub(super) jobs: Jobs<Run>,
    /// Those of no queue, which may come to be of one while they wait.
    unnamed: Jobs<Run>,
    keeps: Keeps,
    /// Those that hold something of each rank.
    on: BTreeMap<Rank, BTreeSet<JobId>>,
}

/// Whose jobs are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Keeps {
    /// No queue leads anywhere: those that are in one.
    #[default]
    OfQueues,
    All,
}

impl Passes {
    pub(super) fn new(settings: &Settings) -> Passes {
        Passes {
            keeps: match settings.declared.is_empty() {
                true => Keeps::OfQueues,
                false => Keeps::All,
            },
            ..Passes::default()
        }
    }

    /// One that was in no queue is in one from now on, or is over.
    fn apply_unnamed(&mut self, id: JobId, record: &Record) {
        let kind = &record.event.kind;
        let Some(run) = self.unnamed.get_mut(&id) else {
            return;
        };
        run.apply(record.event.t, kind);
        match kind {
            Kind::JobspecUpdate(map) if update::queue(map).is_some() => {
                let run = self.unnamed.remove(&id);
                run.into_iter()
                    .for_each(|run| drop(self.jobs.insert(id, run)));
            }
            Kind::Clean => drop(self.unnamed.remove(&id)),
            _ => {}
        }
    }

    pub(super) fn apply(&mut self, record: &Record) {
        let Some(id) = record.event.job else { return };
        if let Kind::Submit(submit) = &record.event.kind {
            // A filter may have taken one out of its queue that an instance took: what became of it that says.
            let is_taken = submit.taken_in.is_some();
            if is_taken || submit.spec.jobspec.attributes.system.queue.is_some() {
                self.jobs.insert(id, Run::new(submit, record.event.t));
            } else if self.keeps == Keeps::All && !is_nobodys(&submit.spec) {
                self.unnamed.insert(id, Run::new(submit, record.event.t));
            }
            return;
        }
        if !self.jobs.contains_key(&id) {
            return self.apply_unnamed(id, record);
        }
        let kind = &record.event.kind;
        if kind.frees() || matches!(kind, Kind::Alloc(_) | Kind::GrantChanged(_) | Kind::Clean) {
            self.holds(id, kind);
        }
        if let Kind::Clean = kind {
            self.jobs.remove(&id);
        } else if let Some(run) = self.jobs.get_mut(&id) {
            run.apply(record.event.t, kind);
        }
    }

    /// What a job holds is other than before.
    fn holds(&mut self, id: JobId, kind: &Kind) {
        let Some(run) = self.jobs.get(&id) else {
            return;
        };
        for rank in run.grant.iter().flat_map(|grant| grant.set.nodes.keys()) {
            if let Some(jobs) = self.on.get_mut(rank) {
                jobs.remove(&id);
            }
        }
        if let Kind::Alloc(grant) | Kind::GrantChanged(grant) = kind {
            for rank in grant.set.nodes.keys() {
                self.on.entry(*rank).or_default().insert(id);
            }
        }
    }

    /// The jobs that hold any of these.
    pub(super) fn on<'a>(&'a self, set: &'a ResourceSet) -> impl Iterator<Item = JobId> + 'a {
        let jobs = set.nodes.keys().filter_map(|rank| self.on.get(rank));
        jobs.flatten().copied().filter(|job| {
            let grant = self.jobs.get(job).and_then(|run| run.grant.as_ref());
            grant.is_some_and(|grant| grant.set.intersects(set))
        })
    }

    /// A job that was passed, and all that are to start with it.
    pub(super) fn mates(&self, job: JobId) -> Vec<JobId> {
        let with = |run: &Run| Some((run.with?, run.to.clone()?));
        let Some(its) = self.jobs.get(&job).and_then(with) else {
            return vec![job];
        };
        let others = self.jobs.iter();
        let others =
            others.filter(|(_, run)| run.may_be_recalled() && with(run).as_ref() == Some(&its));
        let others = others.map(|(mate, _)| *mate).filter(|mate| *mate != job);
        others.chain([job]).collect()
    }

    /// The instance that has this job.
    pub(super) fn instance_of(&self, job: JobId) -> Option<&str> {
        let run = self.jobs.get(&job)?;
        run.grant.as_ref()?;
        run.to.as_deref()
    }

    /// What was passed to that instance and is not over.
    pub(super) fn under_way(&self, name: &str) -> Vec<JobId> {
        let is_of = |run: &Run| run.to.as_deref() == Some(name) && run.is_under_way();
        let jobs = self.jobs.iter().filter(|(_, run)| is_of(run));
        jobs.map(|(job, _)| *job).collect()
    }
}
