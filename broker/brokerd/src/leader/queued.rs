//! Which jobs that are not over are in which queue, so that a start can say whose queue is no more: a reload refuses
//! such a configuration, a start goes on with it.
//!
//! Folded by replay.

use std::collections::BTreeMap;

use eddy_wire::event::{Event, Kind};
use eddy_wire::id::JobId;
use eddy_wire::update;

use crate::config::NamedQueue;

/// So many jobs are named of each queue.
const SHOWN: usize = 8;

/// Such jobs.
#[derive(Debug, Default)]
pub struct Queued {
    jobs: BTreeMap<JobId, String>,
}

impl Queued {
    /// Folds one more record.
    pub fn apply(&mut self, event: &Event) {
        let Some(job) = event.job else { return };
        match &event.kind {
            // The queue of one that was passed here is its parent's.
            Kind::Submit(submit) if submit.pass.is_none() => {
                let queue = submit.spec.jobspec.attributes.system.queue.clone();
                self.jobs.extend(queue.map(|queue| (job, queue)));
            }
            Kind::JobspecUpdate(map) => {
                let queue = update::Change::of(map).queue;
                self.jobs.extend(queue.map(|queue| (job, queue)));
            }
            kind if matches!(kind, Kind::Clean) || kind.implied() == Some(Kind::Clean) => {
                self.jobs.remove(&job);
            }
            _ => {}
        }
    }

    /// What a person is to know of jobs whose queue is none of these, a line for each queue.
    pub fn gone(&self, queues: &[NamedQueue]) -> Vec<String> {
        let mut gone: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (job, queue) in &self.jobs {
            if queues.iter().all(|one| one.name != *queue) {
                gone.entry(queue).or_default().push(job.f58_ascii());
            }
        }
        let line = |(queue, jobs): (&str, Vec<String>)| {
            let shown = jobs.get(..SHOWN).unwrap_or(&jobs).join(", ");
            let more = match jobs.len().saturating_sub(SHOWN) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!(
                "queue `{queue}` is no more in this configuration; its jobs stay in it, without rules of it, until they \
                 are over or moved: {shown}{more}"
            )
        };
        gone.into_iter().map(line).collect()
    }
}
