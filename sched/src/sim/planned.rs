//! The loop over events through the planner of an instance.
//!
//! For jobs that ask of nodes what a jobspec can ask: properties, sockets, GPUs, memory, whole nodes,
//! a choice of how many. The planner is told what the modules of an instance would tell it, and
//! obeyed as they obey it. What is taken from for another begins anew.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, Takes, Work};
use eddy_wire::plan::{Delta, Owner, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use super::machine::Machine;
use super::parties::Parties;
use super::replay::{Course, Foresight, Moment, Scene, coming};
use super::rules::NotSimulated;
use super::workload::SimJob;
use crate::Planner;
use crate::policy::Policy;
use crate::walk::Progress;

/// A replay through a planner that goes on in slices.
pub struct Planned<'w> {
    scene: Scene<'w>,
    planner: Planner,
    nodes: Arc<ResourceSet>,
    /// By the place of the owner.
    parties: Vec<Owner>,
    /// Places of jobs by their ids in the planner, which are in the order in which they come.
    places: Vec<usize>,
    /// Those ids by place.
    ids: Vec<JobId>,
    coming: Vec<usize>,
    /// Ends of what runs: of a job that was preempted since, its run is another.
    ends: BinaryHeap<Reverse<(Time, u64, usize)>>,
    /// Which run of a job runs.
    running: Vec<Option<u64>>,
    begun: u64,
    waiting: u64,
    /// When there is a pass though nothing happens.
    again: Option<Time>,
    /// Passes in turn at which nobody came or went, and that decided nothing.
    idle: u32,
    course: Course,
}

/// A pass is always finished before the next event.
const STEPS: u32 = u32::MAX;

/// Limits that let nothing start for so many passes in turn never will.
const IDLE_MOST: u32 = 3600;

impl<'w> Planned<'w> {
    /// A policy over the nodes of a machine.
    ///
    /// # Errors
    /// [`NotSimulated::AskNodes`] for a machine without nodes.
    pub fn new(scene: Scene<'w>, policy: &Policy) -> Result<Planned<'w>, NotSimulated> {
        let nodes = scene.machine.set().ok_or(NotSimulated::AskNodes)?;
        let mut planner = Planner::with(policy.clone()).unasked();
        planner.apply(Delta::Inventory(Arc::clone(nodes)));
        planner.apply(Delta::Up(nodes.ranks()));
        let Parties { parties, changes } = Parties::of(scene.workload);
        for change in changes {
            planner.apply(Delta::Account(Box::new(change)));
        }
        let jobs = &scene.workload.jobs;
        let coming = coming(jobs);
        let places: Vec<usize> = coming.iter().rev().copied().collect();
        let mut ids = vec![JobId(0); jobs.len()];
        for (id, place) in (0..).zip(&places) {
            ids[*place] = JobId(id);
        }
        Ok(Planned {
            planner,
            nodes: Arc::clone(nodes),
            parties,
            places,
            ids,
            coming,
            ends: BinaryHeap::new(),
            running: vec![None; jobs.len()],
            begun: 0,
            waiting: 0,
            again: None,
            idle: 0,
            course: Course {
                starts: vec![None; jobs.len()],
                nodes: vec![Vec::new(); jobs.len()],
                procs: vec![0; jobs.len()],
                ..Course::default()
            },
            scene,
        })
    }

    /// Goes on by so many instants with events; says whether there are more.
    pub fn slice(&mut self, instants: u64) -> Progress {
        for _ in 0..instants {
            let jobs = &self.scene.workload.jobs;
            let submit = self.coming.last().map(|&place| jobs[place].submit);
            let end = self.ends.peek().map(|Reverse((at, _, _))| *at);
            let next = submit.into_iter().chain(end).chain(self.again).min();
            let Some(now) = next else {
                return Progress::Done;
            };
            let events = self.coming.len() + self.ends.len();
            let begun = self.begun;
            self.instant(self.scene.events, now);
            let is_idle = begun == self.begun && events == self.coming.len() + self.ends.len();
            self.idle = if is_idle { self.idle + 1 } else { 0 };
            if self.idle > IDLE_MOST {
                self.again = None;
            }
        }
        Progress::More
    }

    /// How many jobs were submitted so far.
    pub fn submitted(&self) -> usize {
        self.scene.workload.jobs.len() - self.coming.len()
    }

    /// What happened so far.
    pub fn course(self) -> Course {
        self.course
    }

    fn job(&self, place: usize) -> &'w SimJob {
        &self.scene.workload.jobs[place]
    }

    /// What a job asks for; `None` where it never fits.
    fn request(&self, place: usize) -> Option<Request> {
        let job = self.job(place);
        let own = self.scene.workload.requests.get(place)?;
        let request = match own {
            Some(request) => on_these(request, &self.nodes),
            None => spread(job, self.scene.machine)?,
        };
        let limit = match self.scene.foresight {
            Foresight::Requested => job.limit,
            Foresight::Clairvoyant => Some(job.runs()),
        };
        Some(Request {
            duration: limit.map(|limit| limit.0.max(1)),
            ..request
        })
    }

    /// Whom a job is charged to, and what else its turn depends on.
    fn owner(&self, job: &SimJob) -> Owner {
        let said = self.scene.workload.terms(job);
        let named = |name: Option<String>| name.and_then(|name| name.parse().ok());
        Owner {
            qos: named(said.qos),
            class: named(said.class),
            queue: (!said.queue.is_empty()).then(|| said.queue.into()),
            ..self.parties[job.owner as usize].clone()
        }
    }

    fn want(&mut self, place: usize, request: Request) {
        let job = self.job(place);
        let want = Want {
            owner: self.owner(job),
            submitted: job.submit,
            eligible: job.submit,
            ..Want::of(self.scene.workload.terms(job).urgency, request)
        };
        if self.planner.is_beyond(&want) {
            return;
        }
        self.waiting += 1;
        self.planner.apply(Delta::Want(self.ids[place], want));
    }

    fn start(&mut self, place: usize, set: Arc<ResourceSet>, now: Time) {
        let job = self.job(place);
        let owner = self.owner(job);
        let machine = self.scene.machine;
        let parts = set.nodes.iter();
        let parts =
            parts.filter_map(|(rank, node)| Some((machine.seat(rank.0)?, node.cores.len())));
        self.waiting -= 1;
        self.begun += 1;
        self.running[place] = Some(self.begun);
        self.course.starts[place] = Some(now);
        self.course.procs[place] = set.ncores();
        self.course.nodes[place] = parts.collect();
        let end = now.after(job.runs());
        self.ends.push(Reverse((end, self.begun, place)));
        self.planner.apply(Delta::Held(self.ids[place], owner, set));
    }

    /// It gives all it has to another, and waits again.
    fn preempt(&mut self, place: usize, by: JobId, now: Time) {
        let id = self.ids[place];
        if self.running[place].take().is_none() {
            return;
        }
        self.course.preempted += 1;
        self.course.starts[place] = None;
        self.planner.apply(Delta::Ending(id, Some(by), now));
        self.planner.apply(Delta::Freed(id));
        if let Some(request) = self.request(place) {
            self.want(place, request);
        }
    }
}

impl Moment for Planned<'_> {
    fn end(&mut self, now: Time) -> bool {
        match self.ends.peek() {
            Some(Reverse((at, _, _))) if *at <= now => {}
            Some(_) | None => return false,
        }
        let Some(Reverse((_, run, place))) = self.ends.pop() else {
            return false;
        };
        if self.running[place].take_if(|runs| *runs == run).is_some() {
            self.planner.apply(Delta::Freed(self.ids[place]));
        }
        true
    }

    fn submit(&mut self, now: Time) -> bool {
        let jobs = &self.scene.workload.jobs;
        let next = self.coming.last();
        let Some(&place) = next.filter(|&&place| jobs[place].submit <= now) else {
            return false;
        };
        self.coming.pop();
        if let Some(request) = self.request(place) {
            self.want(place, request);
        }
        true
    }

    fn pass(&mut self, now: Time) {
        self.course.max_queue = self.course.max_queue.max(self.waiting);
        self.course.passes += 1;
        loop {
            let outcome = self.planner.plan(now, STEPS);
            self.again = outcome.again.filter(|again| *again > now);
            let mut goes_on = outcome.unfinished && !outcome.verdicts.is_empty();
            self.course.backfilled += self.planner.passed(&outcome, now);
            for (job, verdict) in outcome.verdicts {
                let place = self.places[job.0 as usize];
                match verdict {
                    Verdict::Start(set) => self.start(place, set, now),
                    Verdict::Never(_) => self.waiting -= 1,
                    Verdict::Preempt { by, .. } => {
                        goes_on |= self.running[place].is_some();
                        self.preempt(place, by, now);
                    }
                }
            }
            if !goes_on {
                break;
            }
        }
    }
}

/// What is asked where these nodes are all.
fn on_these(request: &Request, nodes: &ResourceSet) -> Request {
    let constraint = request.constraint.as_deref();
    let ranks = constraint.map(|constraint| constraint.ranks(nodes));
    Request {
        ranks: ranks.or_else(|| request.ranks.clone()),
        ..request.clone()
    }
}

/// What one asks for that says no more than its size; `None` where that never fits.
fn spread(job: &SimJob, machine: &Machine) -> Option<Request> {
    let shape = machine.shape(job)?;
    let nodes = u32::try_from(shape.nodes).ok()?;
    Some(Request {
        nodes: Some(nodes),
        choice: None,
        slots: nodes,
        slots_per_node: 1,
        cores_per_slot: u32::try_from(shape.each).ok()?,
        gpus_per_slot: 0,
        sockets: None,
        memory: MemoryNeed::None,
        sharing: Sharing::Shared,
        takes: Takes::Resources,
        ranks: None,
        constraint: None,
        work: Work::Tasks,
        ntasks: nodes,
        duration: None,
    })
}
