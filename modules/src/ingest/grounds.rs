//! Whether an instance may be given more nodes: it is a user's own, his who asks, and not over.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Takes, Work};
use eddy_wire::spec::Spec;

const FIELD: &str = "attributes.system.grows";

/// The instances of users that are not over.
#[derive(Debug, Default)]
pub(super) struct Grounds {
    instances: BTreeMap<JobId, Instance>,
}

#[derive(Debug)]
struct Instance {
    submit: Arc<Submit>,
    /// Where it is by its own job.
    ranks: Idset,
}

impl Grounds {
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
            (Kind::Alloc(grant) | Kind::GrantChanged(grant), Some(job)) => {
                if let Some(instance) = self.instances.get_mut(&job) {
                    instance.ranks = grant.set.ranks();
                }
            }
            (Kind::Clean, Some(job)) => {
                self.instances.remove(&job);
            }
            _ => {}
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
            ranks: Some(ranks.difference(own)),
            ..request.clone()
        })
    }

    /// Whether this may be submitted by that user, where it asks for ground of an instance.
    pub(super) fn lets(&self, user: u32, spec: &Spec) -> Result<(), Refusal> {
        let Work::Ground { of } = spec.request.work else {
            return Ok(());
        };
        let Some(instance) = self.instances.get(&of) else {
            let text =
                format!("{FIELD}: {of} given, no user's instance that is not over is that job");
            return Err(Refusal::not_found(text));
        };
        let instance = &instance.submit;
        if instance.user != user {
            let text = format!(
                "{FIELD}: job {of} is of user {}, user {user} may not have it grow",
                instance.user
            );
            return Err(Refusal::new(Code::Denied, text));
        }
        if spec.request.takes == Takes::Nothing {
            return Err(Refusal::invalid(format!(
                "{FIELD}: what takes nothing is ground of nobody"
            )));
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
