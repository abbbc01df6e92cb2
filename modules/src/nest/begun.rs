//! Jobs that queue instances began while this one was away: recorded as passed and granted, as of the times
//! when they were.
//!
//! What is known of them is not recorded apart: the instance says it again over each channel. When it has said
//! all, they are recorded in the order in which they began, so that each finds its cores given back by the one
//! before. What was to begin on these cores and has not is recalled first: since it was not passed again, it
//! cannot begin (`taken.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::Outbox;
use eddy_wire::event::{Exception, Kind, PassedTo};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Epoch, JobId};
use eddy_wire::lifecycle::JobState;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{Begun, PassState, ToldOf};
use eddy_wire::time::Time;

use super::Nest;
use super::child::{Child, Stated};
use crate::sched::BOUNCE;

/// Jobs that were begun in instances, of which no grant is recorded yet.
#[derive(Debug, Default)]
pub(super) struct Begins {
    jobs: BTreeMap<JobId, Begin>,
    /// Those whose grant is not proposed, by the job that their instance is, in the order of their beginnings.
    order: BTreeSet<(JobId, Time, JobId)>,
    /// Those whose grant is proposed and not recorded yet, by the same: one at a time.
    proposed: BTreeMap<JobId, JobId>,
}

#[derive(Debug)]
struct Begin {
    /// The job that its instance is.
    child: JobId,
    begun: Begun,
    /// What has become of it.
    told: ToldOf,
    place: Place,
}

/// Whether it was let out of what it waits for that has begun already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waits,
    Given,
}

/// Why nobody can say what became of a job that an instance took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The instance has said all, and knows nothing of it.
    Unknown,
    /// It is over.
    Over,
}

/// What the first of them waits for.
enum First {
    /// It has a grant, or none is due any more.
    Done,
    /// Some record, or for others to give back what it had.
    Waits,
}

impl Begin {
    /// Records that it was passed and granted then.
    fn alloc(&self, t: Time, (mut set, instance): (ResourceSet, String), out: &mut Outbox) {
        let job = self.told.job;
        set.starttime = t.0;
        let with = None;
        let grant = Grant {
            epoch: Epoch(1),
            set: Arc::new(set),
            shells: BTreeMap::new(),
            beside: BTreeMap::new(),
            passed: Some(Arc::new(PassedTo { instance, with })),
        };
        out.append(t, job, Kind::Alloc(Arc::new(grant)));
    }
}

impl Begins {
    /// One that its instance began, and what it has come to.
    pub(super) fn insert(&mut self, child: JobId, begun: Begun, told: ToldOf) {
        let job = told.job;
        self.remove(job);
        self.order.insert((child, begun.t, job));
        let begin = Begin {
            child,
            begun,
            told,
            place: Place::Waits,
        };
        self.jobs.insert(job, begin);
    }

    /// It waits for no grant: the job that its instance is, and what it has come to.
    pub(super) fn remove(&mut self, job: JobId) -> Option<(JobId, ToldOf)> {
        let begin = self.jobs.remove(&job)?;
        self.order.remove(&(begin.child, begin.begun.t, job));
        self.proposed.retain(|_, proposed| *proposed != job);
        Some((begin.child, begin.told))
    }

    /// The job that the instance is which began it, if this is one of them.
    fn child_of(&self, job: JobId) -> Option<JobId> {
        self.jobs.get(&job).map(|begin| begin.child)
    }

    /// Whether this is one of them.
    pub(super) fn has(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// Its channel is down: it will say all again.
    pub(super) fn forget_of(&mut self, child: JobId) {
        self.jobs.retain(|_, begin| begin.child != child);
        self.order.retain(|(of, ..)| *of != child);
        self.proposed.remove(&child);
    }

    /// Its grant is proposed: it waits no more.
    fn propose(&mut self, child: JobId, t: Time, job: JobId) {
        self.order.remove(&(child, t, job));
        self.proposed.insert(child, job);
    }

    fn first(&self, child: JobId) -> Option<JobId> {
        let from = (child, Time(i64::MIN), JobId(0));
        let (of, _, job) = self.order.range(from..).next()?;
        (*of == child).then_some(*job)
    }
}

impl Nest {
    /// What some record lets be recorded of those that were begun elsewhere.
    pub(super) fn record_all_begun(&mut self, now: Time, out: &mut Outbox) {
        let mut after = JobId(0);
        while let Some((child, ..)) = self
            .begun
            .order
            .range((after, Time(i64::MIN), JobId(0))..)
            .next()
        {
            let child = *child;
            self.record_begun(now, child, out);
            after = JobId(child.0.saturating_add(1));
        }
    }

    /// Records the grant of the first of an instance that has said all, where nobody holds its cores here.
    pub(super) fn record_begun(&mut self, now: Time, child: JobId, out: &mut Outbox) {
        let settled = self.children.get(&child).map(|child| child.told.settled);
        if settled != Some(Stated::Yes) || self.begun.proposed.contains_key(&child) {
            return;
        }
        while let Some(job) = self.begun.first(child) {
            match self.record_one(now, child, job, out) {
                First::Done => {}
                First::Waits => return,
            }
        }
    }

    fn record_one(&mut self, now: Time, child: JobId, job: JobId, out: &mut Outbox) -> First {
        let known = self.begun.jobs.get_mut(&job);
        let known = known.zip(self.passes.jobs.get(&job));
        let (Some((begin, run)), Some(to)) = (known, self.children.get(&child)) else {
            self.begun.remove(job);
            return First::Done;
        };
        let set = to.outside(&begin.begun.set);
        match run.state {
            // A limit that it would be at has been overtaken by events.
            JobState::Priority if begin.place == Place::Waits => {
                begin.place = Place::Given;
                out.append(now, job, Kind::Priority(i64::from(run.urgency.max(1))));
                First::Waits
            }
            JobState::Sched if !to.has(&set) => {
                let end = nowhere(&begin.told.state);
                out.append(now, job, Kind::Exception(Box::new(end)));
                let t = begin.begun.t;
                self.begun.propose(child, t, job);
                First::Waits
            }
            JobState::Sched if self.passes.on(&set).next().is_none() => {
                let t = begin.begun.t.max(run.since()).min(now);
                let name = to.declared.clone().unwrap_or_default();
                begin.alloc(t, (set, name), out);
                let t = begin.begun.t;
                self.begun.propose(child, t, job);
                // The next one's cores may be among these.
                First::Waits
            }
            JobState::Run | JobState::Cleanup | JobState::Inactive => {
                if let Some((child, told)) = self.begun.remove(job) {
                    self.record_told(now, child, told, out);
                }
                First::Done
            }
            JobState::New | JobState::Depend | JobState::Priority | JobState::Sched => First::Waits,
        }
    }

    /// Whether a job may still be granted what it was to be granted: of what was begun elsewhere that is
    /// proposed while others are, and nothing else is.
    pub(super) fn may_be_granted(&self, job: JobId) -> bool {
        let Some(run) = self.passes.jobs.get(&job) else {
            return true;
        };
        match self.begun.has(job) {
            true => run.state == JobState::Sched,
            false => !run.is_unsaid(),
        }
    }

    /// Whether a job may end that somebody ends: not while its instance may have begun it, and has not said
    /// so. What it used would be charged to nobody.
    pub(super) fn may_end(&self, job: JobId) -> bool {
        self.unsure_of(job).is_none()
    }

    /// Jobs that an instance took and may have begun, and of which it cannot say any more what it did: it
    /// has said all and knows nothing of them, or is over.
    pub(super) fn lose_taken(&mut self, now: Time, id: JobId, why: Lost, out: &mut Outbox) {
        let Some(child) = self
            .children
            .get(&id)
            .filter(|child| child.declared.is_some())
        else {
            return;
        };
        for (job, run) in self.passes.jobs.iter() {
            let is_its = run.submit.taken_in.as_deref() == child.declared.as_deref();
            let is_told = why == Lost::Unknown && self.begun.child_of(*job) == Some(id);
            if !is_its || !run.is_unsaid() || is_told {
                continue;
            }
            // It may have said that one had ended.
            let lost = match self.begun.remove(*job).map(|(_, told)| told.state) {
                Some(state @ PassState::Over { .. }) => nowhere(&state),
                Some(_) | None => Exception {
                    kind: "node-failure".to_owned(),
                    severity: 0,
                    note: format!("{} took it, and has lost what became of it", child.title()),
                    userid: None,
                    until: None,
                },
            };
            out.append(now, *job, Kind::Exception(Box::new(lost)));
        }
    }

    /// What one has come to that has its grant.
    pub(super) fn record_told(&mut self, now: Time, child: JobId, told: ToldOf, out: &mut Outbox) {
        let name = self.children.get(&child);
        if let Some(name) = name.and_then(|child| child.declared.clone()) {
            self.told_of(now, (child, &name), told, out);
        }
    }

    /// Recalls what was to begin on the cores of what an instance began, and all that was to start with it.
    pub(super) fn recall_in_the_way(&mut self, now: Time, child: JobId, out: &mut Outbox) {
        let Some(to) = self.children.get(&child) else {
            return;
        };
        let mut found: BTreeMap<JobId, (Time, JobId)> = BTreeMap::new();
        for (job, begin) in self
            .begun
            .jobs
            .iter()
            .filter(|(_, begin)| begin.child == child)
        {
            let set = to.outside(&begin.begun.set);
            let on = self.passes.on(&set);
            for other in on.filter(|other| self.passes.jobs[other].may_be_recalled()) {
                let mates = self.passes.mates(other).into_iter();
                for mate in mates {
                    let by = (begin.begun.t, *job);
                    let first = found.entry(mate).or_insert(by);
                    *first = by.min(*first);
                }
            }
        }
        for (job, (t, by)) in found {
            let exception = Exception {
                kind: BOUNCE.to_owned(),
                severity: 0,
                note: format!("job {by} had begun on its cores while this instance was away"),
                userid: None,
                until: None,
            };
            if let Some(run) = self.passes.jobs.get_mut(&job) {
                // From then on its cores were another's.
                run.over(now, job, (None, Some(exception)), Some(t), out);
            }
        }
    }
}

impl Child {
    /// A set of its nodes as its parent counts them.
    pub(super) fn outside(&self, set: &ResourceSet) -> ResourceSet {
        let nodes = set.nodes.iter();
        let nodes = nodes.filter_map(|(number, node)| Some((self.rank(*number)?, node.clone())));
        ResourceSet {
            nodes: nodes.collect(),
            starttime: set.starttime,
            expiration: set.expiration,
            ..ResourceSet::default()
        }
    }

    /// Whether it has all of that, in its parent's ranks.
    fn has(&self, set: &ResourceSet) -> bool {
        !set.is_empty() && self.whole().is_some_and(|whole| whole.set.contains(set))
    }
}

/// Why one is over of which nobody knows where it ran. What had ended by itself is not to run again.
fn nowhere(state: &PassState) -> Exception {
    let begun = "it was begun while this instance was away, on nodes that have left since";
    let (kind, note) = match state {
        PassState::Over { status, .. } => {
            let status = status.map_or_else(|| "unknown".to_owned(), |status| status.to_string());
            let note = format!("{begun}; it ended there with the wait status {status}");
            ("exec", note)
        }
        PassState::Accepted
        | PassState::Running
        | PassState::Stopped { .. }
        | PassState::Returned { .. } => ("node-failure", begun.to_owned()),
    };
    Exception {
        kind: kind.to_owned(),
        severity: 0,
        note,
        userid: None,
        until: None,
    }
}
