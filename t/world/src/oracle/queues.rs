//! Whether what is said of queues holds: a disabled one accepts nothing, a stopped one starts
//! nothing, no more of one run than its limit says, and only on nodes with what it requires.
//!
//! Knows the records and the limits that an instance was begun with, nothing of how they are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_modules::settings::Queue;
use eddy_wire::event::{Final, Kind, Record, Submit};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::queue::{Turn, UNNAMED};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Span;
use eddy_wire::update;

/// The queues as recorded, and whose jobs hold something.
#[derive(Clone, Debug, Default)]
pub struct Queued {
    /// How many of a queue may run.
    limits: BTreeMap<String, u32>,
    homes: Vec<Home>,
    /// Queues whose instances have nodes of their own.
    aside: BTreeSet<String>,
    /// Properties of nodes, by queue.
    requires: BTreeMap<String, BTreeSet<String>>,
    inventory: Arc<ResourceSet>,
    disabled: BTreeSet<String>,
    stopped: BTreeSet<String>,
    jobs: BTreeMap<JobId, String>,
    times: BTreeMap<JobId, Option<Span>>,
    holds: BTreeMap<String, BTreeSet<JobId>>,
}

/// Ranks that jobs of one queue may have, and others' for so long.
#[derive(Clone, Debug)]
pub struct Home {
    /// The queue.
    pub queue: String,
    /// The ranks.
    pub ranks: Idset,
    /// The longest limit of others' jobs.
    pub lend_max: Span,
}

impl Queued {
    /// Of queues of which so many jobs may run.
    pub fn new(limits: BTreeMap<String, u32>) -> Queued {
        Queued {
            limits,
            ..Queued::default()
        }
    }

    /// Other limits count from now on. Who was let through before goes on, so the most that ever could
    /// run still can; what is required counts for who starts.
    pub fn configured(&mut self, queues: &[Queue]) {
        let requires = |queue: &Queue| (queue.name.clone(), queue.rules.requires.clone());
        self.requires = queues.iter().map(requires).collect();
        for queue in queues {
            let Some(most) = self.limits.get_mut(&queue.name) else {
                continue;
            };
            *most = queue
                .rules
                .limits
                .running_jobs
                .unwrap_or(u32::MAX)
                .max(*most);
        }
    }

    /// Where another of them is at home.
    pub fn at_home(&mut self, home: Home) {
        self.homes.push(home);
    }

    /// The instances of these queues have nodes of their own.
    pub fn set_aside(&mut self, queues: BTreeSet<String>) {
        self.aside = queues;
    }

    /// With the same limits, and no records.
    pub fn forgetful(&self) -> Queued {
        Queued {
            homes: self.homes.clone(),
            aside: self.aside.clone(),
            requires: self.requires.clone(),
            ..Queued::new(self.limits.clone())
        }
    }

    /// Queues that are stopped.
    pub fn stopped(&self) -> &BTreeSet<String> {
        &self.stopped
    }

    /// One more record.
    ///
    /// # Errors
    /// It is against what was said of its queue.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        match (&record.event.kind, record.event.job) {
            (Kind::Queue(turned), _) => {
                let name = turned.queue.clone();
                match turned.turn {
                    Turn::Disable => drop(self.disabled.insert(name)),
                    Turn::Enable => drop(self.disabled.remove(&name)),
                    Turn::Stop => drop(self.stopped.insert(name)),
                    Turn::Start => drop(self.stopped.remove(&name)),
                }
                Ok(())
            }
            (Kind::ResourceDefine(set, _), _) => {
                self.inventory = Arc::clone(set);
                Ok(())
            }
            (Kind::Submit(submit), Some(id)) => self.submitted(id, submit),
            (Kind::JobspecUpdate(map), Some(id)) => {
                if let (Some(time), Some(limit)) = (self.times.get_mut(&id), update::duration(map))
                {
                    *time = Some(limit);
                }
                if let (Some(own), Some(queue)) = (self.jobs.get_mut(&id), update::queue(map)) {
                    queue.clone_into(own);
                }
                Ok(())
            }
            (Kind::Alloc(grant), Some(id)) => {
                self.is_lent(id, &grant.set)?;
                self.is_required(id, &grant.set)?;
                self.began(id)
            }
            (Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)), Some(id)) => {
                if let Some(name) = self.jobs.get(&id) {
                    self.holds.entry(name.clone()).or_default().remove(&id);
                }
                Ok(())
            }
            (Kind::Clean, Some(id)) => {
                self.jobs.remove(&id);
                self.times.remove(&id);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn submitted(&mut self, id: JobId, submit: &Submit) -> Result<(), String> {
        // Declared instances and what takes nothing are in no queue; of what was passed down the
        // parent's queue counts.
        let declared = matches!(submit.spec.request.work, Work::Instance { name: Some(_) });
        if declared || submit.pass.is_some() || submit.spec.request.takes == Takes::Nothing {
            return Ok(());
        }
        let queue = submit.spec.jobspec.attributes.system.queue.as_deref();
        let name = queue.unwrap_or(UNNAMED).to_owned();
        if self.disabled.contains(&name) {
            return Err(format!(
                "job {id} was taken by queue `{name}`, which is disabled"
            ));
        }
        self.jobs.insert(id, name);
        self.times
            .insert(id, submit.spec.request.duration.map(Span));
        Ok(())
    }

    /// On the home of another a job starts only if it is over in time.
    fn is_lent(&self, id: JobId, set: &ResourceSet) -> Result<(), String> {
        let Some(queue) = self.jobs.get(&id).filter(|own| !self.aside.contains(*own)) else {
            return Ok(());
        };
        let limit = self.times.get(&id).copied().flatten();
        let is_open = |home: &Home| {
            let is_lent = limit.is_some_and(|limit| limit <= home.lend_max);
            *queue == home.queue || is_lent || set.ranks().is_disjoint(&home.ranks)
        };
        match self.homes.iter().find(|home| !is_open(home)) {
            None => Ok(()),
            Some(home) => Err(format!(
                "job {id} of queue `{queue}` begins at home of `{}`, which lends for {} s",
                home.queue, home.lend_max
            )),
        }
    }

    /// Its nodes have each property that its queue requires, and none that begins with `^`.
    fn is_required(&self, id: JobId, set: &ResourceSet) -> Result<(), String> {
        let Some(queue) = self.jobs.get(&id) else {
            return Ok(());
        };
        let names = self.requires.get(queue).into_iter().flatten();
        for name in names {
            let (has, property) = match name.strip_prefix('^') {
                Some(property) => (false, property),
                None => (true, name.as_str()),
            };
            let with = self.inventory.ranks_with(property);
            let is_other = |rank: &u32| with.contains(*rank) != has;
            if let Some(rank) = set.ranks().iter().find(is_other) {
                return Err(format!(
                    "job {id} of queue `{queue}`, which requires {name}, was granted rank {rank}"
                ));
            }
        }
        Ok(())
    }

    fn began(&mut self, id: JobId) -> Result<(), String> {
        let Some(name) = self.jobs.get(&id) else {
            return Ok(());
        };
        if self.stopped.contains(name) {
            return Err(format!(
                "job {id} started from queue `{name}`, which is stopped"
            ));
        }
        let holds = self.holds.entry(name.clone()).or_default();
        holds.insert(id);
        match self.limits.get(name) {
            Some(most) if holds.len() > *most as usize => Err(format!(
                "job {id} runs as number {} of queue `{name}`, whose limit is {most}",
                holds.len()
            )),
            _ => Ok(()),
        }
    }
}
