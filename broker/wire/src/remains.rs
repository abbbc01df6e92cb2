//! What the records of jobs tell of jobspecs whose texts are lost.
//!
//! Folded by the driver where a journal names a text that it has no more ([`Spec::lost`]): enough for the job's
//! other records to be folded as they were, for what it holds to be counted and for whoever has it to be found.
//! Nothing is ever started by it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::event::{Event, Kind};
use crate::grant::Grant;
use crate::id::JobId;
use crate::jobspec::{Takes, Work};

/// The name and the command of a job whose jobspec is lost.
const UNKNOWN: &str = "?";
/// The most cores that are made out to be asked for, as many as a grant may have.
const CORES_MAX: u64 = 1 << 20;

/// What is known of jobs by their records.
#[derive(Clone, Debug, Default)]
pub struct Remains {
    jobs: BTreeMap<JobId, Shape>,
}

/// What is known of one.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    work: Work,
    takes: Takes,
    /// The queue instance it was passed to.
    queue: Option<String>,
    cores: u64,
}

impl Default for Shape {
    /// Of a job that was never granted anything.
    fn default() -> Shape {
        Shape {
            work: Work::Tasks,
            takes: Takes::Resources,
            queue: None,
            cores: 1,
        }
    }
}

impl Remains {
    /// Folds one more record.
    pub fn apply(&mut self, event: &Event) {
        let Some(job) = event.job else { return };
        if let Some(to) = event.kind.passed_to() {
            self.of(job).queue = Some(to.instance.clone());
        }
        match &event.kind {
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => self.holds(job, grant),
            Kind::Adopt(adoption) => {
                let name = declared(&adoption.statedir);
                self.of(job).work = Work::Instance { name };
            }
            _ => {}
        }
    }

    /// What is known of a job.
    pub fn shape(&self, job: JobId) -> Shape {
        self.jobs.get(&job).cloned().unwrap_or_default()
    }

    fn of(&mut self, job: JobId) -> &mut Shape {
        self.jobs.entry(job).or_default()
    }

    fn holds(&mut self, job: JobId, grant: &Grant) {
        let cores = grant.set.nodes.values().map(|node| node.cores.len()).sum();
        let shape = self.of(job);
        (shape.takes, shape.cores) = match cores {
            0 => (Takes::Nothing, 1),
            some => (Takes::Resources, some.min(CORES_MAX)),
        };
        for beside in grant.beside.values() {
            self.of(*beside).work = Work::Ground { of: job };
        }
    }
}

/// The name of a declared instance by its state directory, which it has for all its jobs; that of another is
/// named after the job and its attempt.
fn declared(statedir: &str) -> Option<String> {
    let name = Path::new(statedir).file_name()?.to_str()?;
    let is_attempt = |(job, attempt): (&str, &str)| {
        [job, attempt]
            .iter()
            .all(|text| text.parse::<u64>().is_ok())
    };
    let is_declared = !name.split_once('.').is_some_and(is_attempt);
    is_declared.then(|| name.to_owned())
}

impl Shape {
    /// A jobspec that asks for what is known.
    pub fn jobspec(&self) -> Value {
        let mut system = json!({ "duration": 0, "job": { "name": UNKNOWN } });
        if let Some(queue) = &self.queue {
            system["queue"] = json!(queue);
        }
        if self.takes == Takes::Nothing {
            system["beside"] = json!(true);
        }
        let mut count = json!({ "per_slot": 1 });
        match &self.work {
            Work::Tasks => {}
            Work::Ground { of } => system["grows"] = json!(of.0),
            Work::Instance { name } => {
                system["instance"] = match name {
                    Some(name) => json!({ "name": name }),
                    None => json!({}),
                };
                count = json!({ "total": 1 });
            }
        }
        json!({
            "version": 1,
            "resources": [{
                "type": "slot", "label": "task", "count": self.cores,
                "with": [{ "type": "core", "count": 1 }],
            }],
            "tasks": [{ "command": [UNKNOWN], "slot": "task", "count": count }],
            "attributes": { "system": system },
        })
    }
}
