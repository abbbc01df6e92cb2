//! The loop over events where accounts take turns: ends, submissions, a round.
//!
//! A job on several nodes is a gang that starts whole; where one of a gang is
//! preempted all of it is, and begins anew from nothing when its turn comes. Where
//! a rate of starts or what a round may start is used up there is another round a
//! second later.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};

use super::books::{Books, Charged, parts, path};
use super::machine::{Machine, cores};
use super::replay::{Course, Events, Scene, coming};
use super::rules::NotSimulated;
use super::workload::{SimJob, Terms};
use crate::amounts::Kinds;
use crate::policy::Policy;
use crate::rounds::{self, Account, Decision, Gang, Job, Node, Outcome, Reason, State};
use crate::walk::Progress;

/// A replay in rounds that goes on in slices.
pub struct Rounds<'w> {
    jobs: &'w [SimJob],
    machine: &'w Machine,
    policy: &'w Policy,
    state: State,
    books: Books,
    /// Accounts by the owner's place, each with its factor.
    accounts: Vec<(String, f64)>,
    terms: &'w [Terms],
    /// The first id of each job's members, by place; those of a job follow each other.
    ids: Vec<u64>,
    /// Places by their first id.
    places: Vec<usize>,
    coming: Vec<usize>,
    /// Ends of what runs: of a job that was preempted since, its run is another.
    ends: BinaryHeap<Reverse<(Time, u64, usize)>>,
    /// Which run of a job runs, since when.
    running: Vec<Option<(u64, Time)>>,
    begun: u64,
    waiting: u64,
    /// When there is a round though nothing happens.
    again: Option<Time>,
    /// Rounds in turn that were made for nothing.
    idle: u32,
    course: Course,
}

/// Where a rate is used up it has come back after so long.
const AGAIN: Span = Span::seconds(1);

/// Rates that give nothing for so long give nothing any more.
const IDLE_MOST: u32 = 3600;

impl<'w> Rounds<'w> {
    /// A policy over the nodes of a machine.
    ///
    /// # Errors
    /// [`NotSimulated`] for a machine without nodes, for a pass at each event, and where usage
    /// cannot be charged.
    pub fn new(scene: Scene<'w>, policy: &'w Policy) -> Result<Rounds<'w>, NotSimulated> {
        match scene.events {
            Events::Batch if scene.machine.nodes().is_empty() => {
                return Err(NotSimulated::NeedsNodes);
            }
            Events::Batch => {}
            Events::Each => return Err(NotSimulated::NeedsBatch),
        }
        let jobs = &scene.workload.jobs;
        let coming = coming(jobs);
        let mut ids = vec![0; jobs.len()];
        let mut next = 1;
        for &place in coming.iter().rev() {
            ids[place] = next;
            let shape = scene.machine.shape(&jobs[place]);
            next += shape.map_or(0, |shape| shape.nodes);
        }
        let parts = parts(scene.workload).into_iter().map(|part| 1.0 / part);
        let accounts = scene.workload.owners.iter().map(path).zip(parts);
        let nodes = (0..).zip(scene.machine.nodes()).map(|(rank, node)| Node {
            rank,
            capacity: cores(node.cores),
            ..Node::default()
        });
        Ok(Rounds {
            jobs,
            machine: scene.machine,
            policy,
            state: State {
                seed: 1,
                kinds: Kinds::new(["cores"])?,
                nodes: nodes.collect(),
                ..State::default()
            },
            books: Books::new(policy, scene.workload, scene.machine)?,
            accounts: accounts.collect(),
            terms: &scene.workload.terms,
            places: coming.iter().rev().copied().collect(),
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
                ..Course::default()
            },
        })
    }

    /// Goes on by so many instants with events; says whether there are more.
    pub fn slice(&mut self, instants: u64) -> Progress {
        for _ in 0..instants {
            let submit = self.coming.last().map(|&place| self.jobs[place].submit);
            let end = self.ends.peek().map(|Reverse((at, _, _))| *at);
            let next = submit.into_iter().chain(end).chain(self.again).min();
            let Some(now) = next else {
                return Progress::Done;
            };
            self.instant(now);
        }
        Progress::More
    }

    /// How many jobs were submitted so far.
    pub fn submitted(&self) -> usize {
        self.jobs.len() - self.coming.len()
    }

    /// What happened so far.
    pub fn course(self) -> Course {
        self.course
    }

    fn instant(&mut self, now: Time) {
        while self.end(now) {}
        while self.submit(now) {}
        self.again = None;
        self.course.passes += 1;
        self.course.max_queue = self.course.max_queue.max(self.waiting);
        self.state.now = now;
        self.state.accounts = (0..)
            .zip(&self.accounts)
            .map(|(owner, (name, factor))| Account {
                usage: self.books.usage(owner, now),
                factor: *factor,
                ..Account::new(name.clone())
            })
            .collect();
        let outcome = rounds::schedule(&self.state, self.policy);
        self.carry_out(&outcome, now);
    }

    fn end(&mut self, now: Time) -> bool {
        match self.ends.peek() {
            Some(Reverse((at, _, _))) if *at <= now => {}
            Some(_) | None => return false,
        }
        let Some(Reverse((_, run, place))) = self.ends.pop() else {
            return false;
        };
        if let Some((_, since)) = self.running[place].take_if(|(runs, _)| *runs == run) {
            let members = self.members(place);
            let runs = &mut self.state.runs;
            runs.retain(|run| !members.contains(&run.job.id.0));
            self.books.ended(self.charged(place), now, now - since);
        }
        true
    }

    fn submit(&mut self, now: Time) -> bool {
        let next = self.coming.last();
        let Some(&place) = next.filter(|&&place| self.jobs[place].submit <= now) else {
            return false;
        };
        self.coming.pop();
        if self.machine.shape(&self.jobs[place]).is_some() {
            self.waiting += 1;
            self.books.came(self.jobs[place].owner);
            self.line_up(place);
        }
        true
    }

    /// Puts all members of a job among those that wait.
    fn line_up(&mut self, place: usize) {
        let job = &self.jobs[place];
        let Some(shape) = self.machine.shape(job) else {
            return;
        };
        let gang = (shape.nodes > 1).then(|| Gang {
            id: self.ids[place].to_string(),
            cardinality: shape.nodes as u32,
            minimum: shape.nodes as u32,
            uniform: None,
        });
        let said = self.terms.get(job.terms as usize);
        let said = said.cloned().unwrap_or_default();
        let known = |class: &String| self.policy.placement.classes.contains_key(class);
        let members = self.members(place).map(|id| Job {
            id: JobId(id),
            account: self.accounts[job.owner as usize].0.clone(),
            class: said.class.clone().filter(known).unwrap_or_default(),
            priority: -i64::from(said.urgency),
            submit: job.submit,
            request: cores(shape.each),
            gang: gang.clone(),
            ..Job::default()
        });
        self.state.jobs.extend(members);
    }

    fn members(&self, place: usize) -> std::ops::Range<u64> {
        let first = self.ids[place];
        let shape = self.machine.shape(&self.jobs[place]);
        first..first + shape.map_or(0, |shape| shape.nodes)
    }

    fn charged(&self, place: usize) -> Charged {
        let job = &self.jobs[place];
        Charged {
            owner: job.owner,
            procs: job.procs,
            nodes: self.machine.shape(job).map_or(0, |shape| shape.nodes),
            limit: job.limit,
            terms: job.terms,
        }
    }

    /// The place of the job that a member is of.
    fn place_of(&self, member: JobId) -> usize {
        let after = |place: &usize| self.ids[*place] <= member.0;
        // Jobs that never fit have no members, and the id of the next: the last counts.
        self.places[self.places.partition_point(after) - 1]
    }

    fn carry_out(&mut self, outcome: &Outcome, now: Time) {
        let mut started: Vec<(usize, u32)> = Vec::new();
        let mut preempted: BTreeSet<usize> = BTreeSet::new();
        let mut slow = false;
        for (&id, decision) in &outcome.decisions {
            match decision {
                Decision::Start { node, .. } => started.push((self.place_of(id), *node)),
                Decision::Preempt { .. } => {
                    preempted.insert(self.place_of(id));
                }
                Decision::Wait(
                    Reason::Rate
                    | Reason::RateGang
                    | Reason::AccountRate
                    | Reason::AccountRateGang
                    | Reason::RoundFull,
                ) => slow = true,
                Decision::Keep | Decision::Fail | Decision::Wait(_) => {}
            }
        }
        self.state.apply(outcome, now);
        for &place in &preempted {
            self.preempt(place, now);
        }
        for nodes in started.chunk_by(|a, b| a.0 == b.0) {
            let place = nodes[0].0;
            let shape = self.machine.shape(&self.jobs[place]);
            let each = shape.map_or(0, |shape| shape.each);
            self.course.nodes[place] = nodes.iter().map(|(_, node)| (*node, each)).collect();
            self.start(place, now);
        }
        self.idle = match started.is_empty() && preempted.is_empty() {
            true => self.idle + 1,
            false => 0,
        };
        if slow && self.idle < IDLE_MOST {
            self.again = Some(now.after(AGAIN));
        }
    }

    fn start(&mut self, place: usize, now: Time) {
        let job = &self.jobs[place];
        self.waiting -= 1;
        self.begun += 1;
        self.books.started(self.charged(place), now);
        self.running[place] = Some((self.begun, now));
        self.course.starts[place] = Some(now);
        let end = now.after(job.runs());
        self.ends.push(Reverse((end, self.begun, place)));
    }

    /// All of the job gives up its nodes and waits again.
    fn preempt(&mut self, place: usize, now: Time) {
        let Some((_, since)) = self.running[place].take() else {
            return;
        };
        let members = self.members(place);
        self.state
            .runs
            .retain(|run| !members.contains(&run.job.id.0));
        self.books.ended(self.charged(place), now, now - since);
        self.course.preempted += 1;
        self.course.starts[place] = None;
        self.waiting += 1;
        self.books.came(self.jobs[place].owner);
        self.line_up(place);
    }
}
