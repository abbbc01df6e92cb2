//! What is set aside for queues: the nodes of the instances that they lead to.
//!
//! A job of such a queue waits in a line of its own for the nodes of its instance, and starts by
//! being passed to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::{Kind, Submit};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::plan::{Delta, LineName};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::Sched;
use crate::settings::Queue;

/// How long a job that came back rests before it is planned again, the first time; each time it
/// doubles.
const REST: Span = Span::seconds(5);
/// How often at most it doubles: then it is over five minutes.
const REST_DOUBLINGS: u32 = 6;

/// Which instance serves which queue, and what it holds.
#[derive(Debug, Default)]
pub(super) struct Sets {
    leads: BTreeMap<String, Arc<str>>,
    held: BTreeMap<Arc<str>, (JobId, Arc<ResourceSet>)>,
}

impl Sets {
    pub(super) fn new(queues: &[Queue]) -> Sets {
        let leads = queues.iter().filter_map(|queue| {
            let instance = queue.instance.as_deref()?;
            Some((queue.name.clone(), Arc::from(instance)))
        });
        Sets {
            leads: leads.collect(),
            held: BTreeMap::new(),
        }
    }

    /// The instance that a job is passed to.
    pub(super) fn of(&self, submit: &Submit) -> LineName {
        let spec = &submit.spec;
        let queue = spec.jobspec.attributes.system.queue.as_ref()?;
        let to = self.leads.get(queue).cloned();
        to.filter(|_| spec.request.takes == Takes::Resources && submit.pass.is_none())
    }

    /// The name of the declared instance that a job is.
    pub(super) fn name(submit: &Submit) -> Option<&str> {
        match &submit.spec.request.work {
            Work::Instance { name } => name.as_deref(),
            Work::Tasks => None,
        }
    }

    /// A record of the job that an instance is.
    pub(super) fn apply(&mut self, name: &str, job: JobId, kind: &Kind) {
        match kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                let held = (job, Arc::clone(&grant.set));
                self.held.insert(Arc::from(name), held);
            }
            Kind::Free => {
                self.held.remove(name);
            }
            _ => {}
        }
    }

    /// Whether a job that is passed there can wait for resources at all.
    pub(super) fn is_there(&self, to: &LineName) -> bool {
        to.as_ref().is_none_or(|name| self.held.contains_key(name))
    }

    /// Whether a set is of what that instance holds, or of nothing that is set aside.
    pub(super) fn has(&self, to: &LineName, set: &ResourceSet) -> bool {
        match to {
            Some(name) => self
                .held
                .get(name)
                .is_some_and(|(_, held)| held.contains(set)),
            None => self.held.values().all(|(_, held)| set.is_disjoint(held)),
        }
    }

    /// As a planner is told of them.
    pub(super) fn all(&self) -> impl Iterator<Item = Delta> + '_ {
        self.held.iter().flat_map(|(name, (job, set))| {
            [
                Delta::Ground(*job, Arc::clone(set)),
                Delta::Line(Arc::clone(name), Some(Arc::clone(set))),
            ]
        })
    }
}

impl Sched {
    /// What a planner is told when an instance has come to hold something else.
    pub(super) fn set_changed(&self, job: JobId, kind: &Kind) -> Option<Vec<Delta>> {
        let name = Sets::name(&self.jobs.get(&job)?.submit)?;
        match kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                let name: Arc<str> = Arc::from(name);
                let set = Arc::clone(&grant.set);
                let mut deltas = vec![
                    Delta::Ground(job, Arc::clone(&set)),
                    Delta::Line(Arc::clone(&name), Some(set)),
                ];
                let waiting = self.jobs.iter().filter(|(id, seen)| {
                    seen.to.as_ref() == Some(&name)
                        && self.wants(seen)
                        && !self.resting.contains_key(id)
                });
                deltas.extend(waiting.map(|(id, seen)| Delta::Want(*id, seen.want(&self.gates))));
                Some(deltas)
            }
            Kind::Free => Some(vec![Delta::Freed(job), Delta::Line(Arc::from(name), None)]),
            _ => None,
        }
    }

    /// Whether a job that came back is not to be planned yet.
    pub(super) fn rests(&mut self, now: Time, id: JobId, out: &mut Outbox) -> bool {
        let Some(seen) = self.jobs.get(&id).filter(|seen| seen.recalls > 0) else {
            return false;
        };
        let doublings = (seen.recalls - 1).min(REST_DOUBLINGS);
        let until = now.after(Span(REST.0 << doublings));
        self.resting.insert(id, until);
        out.volatile(Volatile::Wake(until));
        true
    }

    /// Those who have rested are planned again.
    pub(super) fn try_again(&mut self, now: Time, out: &mut Outbox) {
        let rested: Vec<JobId> = self
            .resting
            .extract_if(.., |_, until| *until <= now)
            .map(|(job, _)| job)
            .collect();
        if !rested.is_empty() {
            let wants = rested.into_iter().map(|job| self.want(job)).collect();
            out.volatile(Volatile::Plan(wants));
        }
    }
}
