//! Whether an instance may be given more nodes: it is a user's own, his who asks, and not over.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Takes, Work};
use eddy_wire::spec::Spec;

use crate::sched::grounds::unserved;
use crate::settings::Settings;

const FIELD: &str = "attributes.system.grows";

/// How many jobs that are not over may be ground of one instance, or wait for it.
pub(super) const GROUNDS_MAX: u32 = 1024;

/// The instances of users that are not over.
#[derive(Debug, Default)]
pub(super) struct Grounds {
    instances: BTreeMap<JobId, Instance>,
    /// Jobs that are ground, by the instance that they are for.
    grounds: BTreeMap<JobId, JobId>,
    /// How many of them there are for each: ground that is still being left outlasts an instance that was requeued.
    counts: BTreeMap<JobId, u32>,
    /// Ranks where no agent would serve them.
    unserved: Idset,
}

#[derive(Debug)]
struct Instance {
    submit: Arc<Submit>,
    /// Where it is by its own job.
    ranks: Idset,
}

impl Grounds {
    pub(super) fn new(settings: &Settings) -> Grounds {
        Grounds {
            unserved: unserved(&settings.local),
            ..Grounds::default()
        }
    }

    pub(super) fn apply(&mut self, record: &Record) {
        match (&record.event.kind, record.event.job) {
            (Kind::Submit(submit), Some(job))
                if submit.spec.request.work == (Work::Instance { name: None }) =>
            {
                let instance = Instance {
                    submit: Arc::clone(submit),
                    ranks: Idset::new(),
                };
                self.instances.insert(job, instance);
            }
            (Kind::Submit(submit), Some(job)) => {
                if let Some(of) = submit.spec.request.grows() {
                    *self.counts.entry(of).or_default() += 1;
                    self.grounds.insert(job, of);
                }
            }
            (Kind::Free, Some(job)) => {
                if let Some(instance) = self.instances.get_mut(&job) {
                    instance.ranks = Idset::new();
                }
            }
            (Kind::Alloc(grant) | Kind::GrantChanged(grant), Some(job)) => {
                if let Some(instance) = self.instances.get_mut(&job) {
                    instance.ranks = grant.set.ranks();
                }
            }
            (Kind::Clean, Some(job)) => {
                self.instances.remove(&job);
                if let Some(of) = self.grounds.remove(&job) {
                    self.leaves(of);
                }
            }
            _ => {}
        }
    }

    /// One that was ground of this instance is over.
    fn leaves(&mut self, of: JobId) {
        if let Entry::Occupied(mut count) = self.counts.entry(of) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    /// What it asks for, of the nodes where its instance is not, if it asks for ground of one.
    pub(super) fn beside(&self, request: &Request, all: &Idset) -> Option<Request> {
        let Work::Ground { of } = request.work else {
            return None;
        };
        let ranks = request.ranks.as_ref().unwrap_or(all);
        let own = &self.instances.get(&of)?.ranks;
        Some(Request {
            ranks: Some(ranks.difference(own).difference(&self.unserved)),
            ..request.clone()
        })
    }

    /// Whether so many of this may be submitted by that user, where it asks for ground of an instance.
    pub(super) fn lets(&self, user: u32, spec: &Spec, count: u32) -> Result<(), Refusal> {
        let Work::Ground { of } = spec.request.work else {
            return Ok(());
        };
        // One of another user is none for him: where listings are private he is not to know that it is there.
        let instance = self.instances.get(&of).map(|instance| &instance.submit);
        let Some(instance) = instance.filter(|instance| instance.user == user) else {
            let text =
                format!("{FIELD}: {of} given, that is no instance of user {user} that is not over");
            return Err(Refusal::not_found(text));
        };
        let has = self.counts.get(&of).copied().unwrap_or_default();
        let asks = has.saturating_add(count);
        if spec.request.takes == Takes::Nothing {
            return Err(Refusal::invalid(format!(
                "{FIELD}: what takes nothing is ground of nobody"
            )));
        }
        if asks > GROUNDS_MAX {
            let text = format!(
                "{FIELD}: {asks} jobs would be ground of job {of}, allowed are {GROUNDS_MAX} (limit `grounds`)"
            );
            return Err(Refusal::new(Code::TooLarge, text));
        }
        let queue = |spec: &Spec| spec.jobspec.attributes.system.queue.clone();
        let (own, given) = (queue(&instance.spec), queue(spec));
        if own != given {
            let named = |queue: Option<String>| queue.unwrap_or_else(|| "none".to_owned());
            let text = format!(
                "attributes.system.queue: {} given, job {of} is in {}",
                named(given),
                named(own)
            );
            return Err(Refusal::invalid(text));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::event::Event;
    use eddy_wire::id::Seq;
    use eddy_wire::jobspec::Ask;
    use eddy_wire::time::Time;

    use super::*;

    fn submit(work: Work) -> Kind {
        let ask = Ask {
            command: vec!["true".to_owned()],
            work,
            ..Ask::default()
        };
        Kind::Submit(Arc::new(Submit::plain(
            7,
            Arc::new(Spec::from_jobspec(ask.jobspec().expect("a jobspec")).expect("a spec")),
        )))
    }

    #[test]
    fn what_an_instance_grew_by_may_outlast_it() {
        let instance = || submit(Work::Instance { name: None });
        let ground = || submit(Work::Ground { of: JobId(1) });
        let mut grounds = Grounds::default();
        let tell = |grounds: &mut Grounds, job, kind| {
            let (t, job) = (Time(0), Some(JobId(job)));
            let event = Event { t, job, kind };
            grounds.apply(&Record { seq: Seq(1), event });
        };
        // In a queue instance the second attempt of the first is another submission.
        tell(&mut grounds, 1, instance());
        tell(&mut grounds, 2, ground());
        tell(&mut grounds, 1, Kind::Clean);
        tell(&mut grounds, 1, instance());
        tell(&mut grounds, 3, ground());
        tell(&mut grounds, 2, Kind::Clean);
        assert_eq!(grounds.counts, BTreeMap::from([(JobId(1), 1)]));
        tell(&mut grounds, 4, Kind::Clean);
        tell(&mut grounds, 3, Kind::Clean);
        assert_eq!(grounds.counts, BTreeMap::new());
    }
}
