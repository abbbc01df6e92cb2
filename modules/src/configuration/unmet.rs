//! Jobs that wait and would have nodes that are as they ask no more by another configuration: by what their queues
//! would require, or instances lend of their homes.
//!
//! They are named to whoever changes it; they wait on (`sched/sets`). It knows nothing of what is free, nor of nodes
//! that instances of a fixed size hold.

use std::sync::Arc;

use eddy_sched::Capacity;
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Takes;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::update;

use super::named;
use crate::ingest::queues;
use crate::jobs::Jobs;
use crate::lending::Lending;
use crate::live::Live;
use crate::requires::Requires;
use crate::settings::Settings;

/// Jobs that are not over and the nodes that there are.
pub(super) struct Unmet {
    inventory: Arc<ResourceSet>,
    jobs: Jobs<(Arc<Submit>, Stand)>,
}

/// Whether a job has what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    Waits,
    Has,
}

/// The nodes that jobs may have by a configuration.
struct Nodes<'l> {
    live: &'l Live,
    lending: Lending,
    requires: Requires,
}

impl<'l> Nodes<'l> {
    fn of(live: &'l Live, all: &ResourceSet) -> Nodes<'l> {
        Nodes {
            live,
            lending: Lending::of(live),
            requires: Requires::new(&live.queues, all),
        }
    }

    /// Whether a job could have what it asks for, if all were free.
    fn fit(&self, submit: &Submit, (capacity, all): (&Capacity, &ResourceSet)) -> bool {
        let queue = queues::of(&submit.spec);
        let mut queues = self.live.queues.iter();
        let to = queues.find(|one| Some(one.name.as_str()) == queue);
        let to = to.and_then(|one| one.instance.as_deref());
        let request = &submit.spec.request;
        let ranks = self.lending.ranks(to, request, all);
        let within = self.requires.within(queue, request.clone(), ranks);
        capacity.feasible(&within).is_ok()
    }
}

impl Unmet {
    pub(super) fn new(settings: &Settings) -> Unmet {
        Unmet {
            inventory: Arc::clone(&settings.inventory),
            jobs: Jobs::default(),
        }
    }

    pub(super) fn apply(&mut self, record: &Record) {
        let Some(id) = record.event.job else {
            if let Kind::ResourceDefine(set, _) = &record.event.kind {
                self.inventory = Arc::clone(set);
            }
            return;
        };
        match &record.event.kind {
            Kind::Submit(submit) => {
                self.jobs.insert(id, (Arc::clone(submit), Stand::Waits));
            }
            Kind::Clean => drop(self.jobs.remove(&id)),
            kind => {
                let Some((submit, stand)) = self.jobs.get_mut(&id) else {
                    return;
                };
                match kind {
                    Kind::JobspecUpdate(map) => update::submit(submit, map),
                    Kind::Alloc(_) => *stand = Stand::Has,
                    Kind::Requeue(_) | Kind::Recalled(_) => *stand = Stand::Waits,
                    _ => {}
                }
            }
        }
    }

    /// Whom such a change concerns, in a line.
    pub(super) fn of(&self, (was, is): (&Live, &Live)) -> Option<String> {
        if was.lending == is.lending && was.queues == is.queues {
            return None;
        }
        let capacity = Capacity::of(&self.inventory);
        let all = (&capacity, &*self.inventory);
        let [was, is] = [was, is].map(|live| Nodes::of(live, &self.inventory));
        let waiting = self.jobs.iter().filter(|(_, (submit, stand))| {
            let asks = submit.spec.request.takes == Takes::Resources && submit.pass.is_none();
            asks && *stand == Stand::Waits
        });
        let concerned = waiting
            .filter(|(_, (submit, _))| !is.fit(submit, all) && was.fit(submit, all))
            .map(|(id, _)| *id);
        let named = named(&concerned.collect::<Vec<JobId>>())?;
        Some(format!(
            "jobs that wait would fit no more, and wait until that is otherwise: {named}"
        ))
    }
}
