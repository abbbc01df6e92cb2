//! Those who wait for nodes that are set aside: each such line is a queue of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::plan::{Owner, Want};
use eddy_wire::resource_set::ResourceSet;

use super::resting;

/// What each holds, and for whom.
pub(super) type Holds = BTreeMap<JobId, (Owner, Arc<ResourceSet>)>;

/// Those who wait for the same nodes, and who has something of them.
#[derive(Clone, Copy)]
pub(super) struct Queue<'w> {
    /// None of what is not set aside.
    pub name: Option<&'w Arc<str>>,
    pub wants: &'w BTreeMap<JobId, Want>,
    pub held: &'w Holds,
    pub nodes: &'w Arc<ResourceSet>,
}

/// The lines of nodes that are set aside, by their names.
#[derive(Default)]
pub(super) struct Apart(BTreeMap<Arc<str>, Line>);

struct Line {
    wants: BTreeMap<JobId, Want>,
    held: Holds,
    nodes: Arc<ResourceSet>,
}

impl Line {
    fn queue<'l>(&'l self, name: &'l Arc<str>) -> Queue<'l> {
        Queue {
            name: Some(name),
            wants: &self.wants,
            held: &self.held,
            nodes: &self.nodes,
        }
    }
}

impl Apart {
    pub fn queues(&self) -> impl Iterator<Item = Queue<'_>> {
        self.0.iter().map(|(name, line)| line.queue(name))
    }

    /// The line of that name.
    pub fn queue(&self, name: &Arc<str>) -> Option<Queue<'_>> {
        let (name, line) = self.0.get_key_value(name)?;
        Some(line.queue(name))
    }

    /// A line has these nodes, or is none any more.
    pub fn set_aside(&mut self, name: &Arc<str>, nodes: Option<&Arc<ResourceSet>>) {
        let Some(nodes) = nodes else {
            self.0.remove(name);
            return;
        };
        let line = self.0.entry(Arc::clone(name)).or_insert_with(|| Line {
            wants: BTreeMap::new(),
            held: Holds::new(),
            nodes: Arc::clone(nodes),
        });
        line.nodes = Arc::clone(nodes);
    }

    pub fn want(&mut self, job: JobId, want: &Want) {
        if let Some(line) = self.line(&want.owner) {
            let before = line.wants.insert(job, want.clone());
            // What was proposed for another request is withdrawn.
            if before.is_some_and(|before| before.request != want.request) {
                line.held.remove(&job);
            }
        }
    }

    pub fn unwant(&mut self, job: JobId) {
        for line in self.0.values_mut() {
            if line.wants.remove(&job).is_some() {
                line.held.remove(&job);
            }
        }
    }

    pub fn held(&mut self, job: JobId, owner: &Owner, set: &Arc<ResourceSet>) {
        if let Some(line) = self.line(owner) {
            line.held.remove(&resting(job));
            line.wants.remove(&job);
            line.held.insert(job, (owner.clone(), Arc::clone(set)));
        }
    }

    /// It is suspended, and has this left.
    pub fn rests(&mut self, job: JobId, name: &Arc<str>, set: &Arc<ResourceSet>) {
        if let Some(line) = self.0.get_mut(name) {
            line.wants.remove(&job);
            line.held.remove(&job);
            let left = (Owner::default(), Arc::clone(set));
            line.held.insert(resting(job), left);
        }
    }

    pub fn freed(&mut self, job: JobId) {
        for line in self.0.values_mut() {
            line.held.remove(&job);
            line.held.remove(&resting(job));
        }
    }

    /// It begins, as was decided.
    pub fn begins(&mut self, job: JobId, set: &Arc<ResourceSet>) {
        for line in self.0.values_mut() {
            if let Some(want) = line.wants.get(&job) {
                let held = (want.owner.clone(), Arc::clone(set));
                line.held.insert(job, held);
            }
        }
    }

    pub fn never(&mut self, job: JobId) {
        for line in self.0.values_mut() {
            line.wants.remove(&job);
        }
    }

    fn line(&mut self, owner: &Owner) -> Option<&mut Line> {
        self.0.get_mut(owner.line.as_ref()?)
    }
}
