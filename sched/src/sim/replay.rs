//! The loop over events: ends, submissions, a pass of the walk.
//!
//! [`Events::Batch`] is one pass for all that happens at an instant; with
//! [`Events::Each`] every event has a pass of its own, submissions before ends,
//! as in the simulators of the published rows. It goes on in slices, so that a
//! driver can show how far it is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use eddy_wire::time::{Span, Time};

use super::limits::{Asked, Claim, Granted, Limited, claims};
use super::machine::{Machine, places};
use super::ranking::{ORDER_MAX, Ranked, Ranking};
use super::rules::NotSimulated;
use super::workload::{SimJob, Workload};
use crate::policy::{Policy, Reservations};
use crate::priority::ascending;
use crate::walk::{Agenda, Count, Job, Nodes, Progress, Room, Rules, Verdict};

/// The turn of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// Values of the formulas, so written that the highest is least.
    pub first: [u64; ORDER_MAX],
    /// Then the earlier.
    pub submit: Time,
    /// Then the lower.
    pub id: u64,
    /// Where it is in the workload; ids differ, so this decides nothing.
    pub place: usize,
}

/// How many passes there are at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// One: after all ends and all submissions of the instant.
    Batch,
    /// One for each event; submissions before ends.
    Each,
}

/// What is known of how long a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foresight {
    /// What it asked for.
    Requested,
    /// How long it will run.
    Clairvoyant,
}

/// What happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course {
    /// When each job of the workload started, by its place; `None` for those that never fit.
    pub starts: Vec<Option<Time>>,
    /// Jobs that started while one with an earlier turn went on waiting.
    pub backfilled: u64,
    /// The most that waited at the beginning of a pass.
    pub max_queue: u64,
    /// How many passes there were.
    pub passes: u64,
    /// Jobs that were taken from their nodes and began anew later.
    pub preempted: u64,
    /// Where each job went, by its place: places of nodes in the machine, and how many processors of
    /// each. Empty on a count.
    pub nodes: Vec<Vec<(u32, u64)>>,
    /// What each job was given, by its place; empty where that is what it asked for.
    pub procs: Vec<u64>,
}

impl Course {
    /// The processors that a job had that ran.
    pub fn procs(&self, place: usize, job: &SimJob) -> u64 {
        self.procs.get(place).copied().unwrap_or(job.procs)
    }
}

/// What a job of the workload asks of the room.
type Ask<'w, R> = Box<dyn Fn(&SimJob) -> <R as Room>::Need + 'w>;

/// What a walk decided in a limited room.
type Verdicts<R> = Vec<Verdict<Turn, Granted<<R as Room>::Spot>>>;

/// Whether all started whose reservation was due.
enum Starts {
    All,
    /// Limits were in the way of some: they wait again.
    Denied,
}

/// A replay that goes on in slices.
pub struct Replay<'w, R: Room> {
    jobs: &'w [SimJob],
    rules: Rules,
    /// By how much better a job must be to take a kept reservation; `None` where none is kept.
    displace: Option<f64>,
    ranking: Ranking,
    foresight: Foresight,
    events: Events,
    agenda: Agenda<Turn, Limited<R>>,
    room: Limited<R>,
    need: Ask<'w, R>,
    claim: Box<dyn Fn(&SimJob) -> Claim + 'w>,
    /// Places of nodes of a spot and processors there; nothing on a count.
    nodes: fn(&R::Spot) -> Vec<(u32, u64)>,
    /// Places of jobs by submission and id, the next one last.
    coming: Vec<usize>,
    /// Ends of what runs; at the same instant in the order of their starts.
    ends: BinaryHeap<Reverse<(Time, u64, usize)>>,
    /// How many have started.
    begun: u64,
    /// What runs, by place.
    running: Vec<Option<Held<R>>>,
    /// Who is in the agenda or held back; `seat` is where.
    waiting: Vec<Waits>,
    /// Of each place, where in `waiting` it is.
    seat: Vec<u32>,
    verdicts: Verdicts<R>,
    /// Who started in a pass; empty between passes.
    started: Vec<Turn>,
    course: Course,
}

/// What a running job holds.
struct Held<R: Room> {
    spot: Granted<R::Spot>,
    /// As planned.
    until: Time,
}

/// Who waits.
struct Waits {
    place: usize,
    ranked: Ranked,
}

/// What a replay is of: who comes, on what, in which way.
#[derive(Clone, Copy)]
pub struct Scene<'w> {
    /// Who comes.
    pub workload: &'w Workload,
    /// All there is.
    pub machine: &'w Machine,
    /// What is known of run times.
    pub foresight: Foresight,
    /// How many passes there are at an instant.
    pub events: Events,
}

/// Steps of a walk taken at once; a pass is always finished before the next event.
const STEPS: u64 = 4096;

impl<'w> Replay<'w, Count> {
    /// A policy over the processors of a machine, which are all alike.
    ///
    /// # Errors
    /// [`NotSimulated`] names what of the policy cannot be obeyed.
    pub fn on_count(scene: Scene<'w>, policy: &Policy) -> Result<Replay<'w, Count>, NotSimulated> {
        let ground = Ground {
            room: scene.machine.room(),
            need: Box::new(|job: &SimJob| job.procs),
            nodes: |_| Vec::new(),
        };
        Replay::new(scene, policy, ground)
    }
}

impl<'w> Replay<'w, Nodes> {
    /// A policy over the nodes of a machine; the lowest that serve are taken.
    ///
    /// # Errors
    /// [`NotSimulated`] names what of the policy cannot be obeyed.
    pub fn on_nodes(scene: Scene<'w>, policy: &Policy) -> Result<Replay<'w, Nodes>, NotSimulated> {
        let machine = scene.machine;
        let ground = Ground {
            room: machine.nodes_room(policy.placement.rank),
            need: Box::new(|job: &SimJob| machine.need(job)),
            nodes: places,
        };
        let mut replay = Replay::new(scene, policy, ground)?;
        replay.course.nodes = vec![Vec::new(); scene.workload.jobs.len()];
        Ok(replay)
    }
}

/// What is given out.
struct Ground<'w, R: Room> {
    room: R,
    need: Ask<'w, R>,
    nodes: fn(&R::Spot) -> Vec<(u32, u64)>,
}

/// What happens at an instant, in the order that a replay gives its events.
pub(super) trait Moment {
    /// Ends the first that ends by this time; says whether any does.
    fn end(&mut self, now: Time) -> bool;

    /// Takes in the first that comes by this time; says whether any does.
    fn submit(&mut self, now: Time) -> bool;

    /// Plans.
    fn pass(&mut self, now: Time);

    /// All that happens at this time.
    fn instant(&mut self, events: Events, now: Time) {
        match events {
            Events::Batch => {
                while self.end(now) {}
                while self.submit(now) {}
                self.pass(now);
            }
            Events::Each => {
                let mut any = false;
                while self.submit(now) {
                    self.pass(now);
                    any = true;
                }
                while self.end(now) {
                    self.pass(now);
                    any = true;
                }
                if !any {
                    self.pass(now);
                }
            }
        }
    }
}

impl<'w, R: Room> Replay<'w, R> {
    fn new(
        scene: Scene<'w>,
        policy: &Policy,
        ground: Ground<'w, R>,
    ) -> Result<Replay<'w, R>, NotSimulated> {
        let jobs = &scene.workload.jobs;
        let rules = Rules::from(&policy.queue);
        Ok(Replay {
            jobs,
            displace: match rules.reservations {
                Reservations::Kept => Some(policy.queue.displace_margin),
                Reservations::Replanned => None,
            },
            ranking: Ranking::new(policy, scene.workload, scene.machine)?,
            foresight: scene.foresight,
            events: scene.events,
            agenda: Agenda::new(rules.clone()),
            rules,
            room: Limited::new(ground.room, policy, scene.machine),
            need: ground.need,
            claim: Box::new(claims(policy, scene.workload)),
            nodes: ground.nodes,
            coming: coming(jobs),
            ends: BinaryHeap::new(),
            begun: 0,
            running: jobs.iter().map(|_| None).collect(),
            waiting: Vec::new(),
            seat: vec![0; jobs.len()],
            verdicts: Vec::new(),
            started: Vec::new(),
            course: Course {
                starts: vec![None; jobs.len()],
                ..Course::default()
            },
        })
    }

    /// Goes on by so many instants with events; says whether there are more.
    pub fn slice(&mut self, instants: u64) -> Progress {
        for _ in 0..instants {
            let Some(now) = self.next_event() else {
                return Progress::Done;
            };
            self.instant(self.events, now);
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

    fn next_event(&self) -> Option<Time> {
        let submit = self.coming.last().map(|&place| self.jobs[place].submit);
        let end = self.ends.peek().map(|Reverse((at, _, _))| *at);
        let due = self.agenda.next_due().into_iter();
        let due = due.chain(self.agenda.next_plan());
        let again = self.room.again();
        submit.into_iter().chain(end).chain(due).chain(again).min()
    }

    /// For how long a job is planned.
    fn span(&self, job: &SimJob) -> Span {
        self.rules.span(self.limit(job))
    }

    fn limit(&self, job: &SimJob) -> Option<Span> {
        match self.foresight {
            Foresight::Requested => job.limit,
            Foresight::Clairvoyant => Some(job.runs()),
        }
    }

    /// Into the agenda, unless it is held back.
    fn enter(&mut self, ranked: Ranked, place: usize) {
        let job = &self.jobs[place];
        match ranked {
            Ranked::Turn(turn) => {
                let need = Asked {
                    need: (self.need)(job),
                    claim: (self.claim)(job),
                };
                let since = job.submit;
                let limit = self.limit(job);
                self.agenda
                    .enter(turn, Job { need, since }, limit, &self.room);
            }
            Ranked::Held => {}
        }
    }

    /// The values of all who wait are made anew, where something moves them.
    fn refresh(&mut self, now: Time) {
        if !self.ranking.refresh(now) {
            return;
        }
        for seat in 0..self.waiting.len() {
            let Waits { place, ranked } = self.waiting[seat];
            let job = &self.jobs[place];
            let anew = self.ranking.rank(job, self.span(job), place, now);
            match (ranked, anew) {
                (Ranked::Turn(old), Ranked::Turn(new)) if old == new => {}
                (Ranked::Turn(old), Ranked::Turn(new)) => self.agenda.turn(&old, new),
                (Ranked::Turn(old), Ranked::Held) => {
                    self.agenda.leave(&old, &mut self.room);
                }
                (Ranked::Held, Ranked::Turn(_)) => self.enter(anew, place),
                (Ranked::Held, Ranked::Held) => {}
            }
            self.waiting[seat].ranked = anew;
        }
        if let Some(margin) = self.displace {
            self.displace(margin);
        }
    }

    /// Takes kept reservations from the last of those who have one, while the first of those who
    /// have none is so much better.
    fn displace(&mut self, margin: f64) {
        loop {
            let last = self.agenda.bookings().next_back().map(|(key, _)| *key);
            let first = self.agenda.first_in_line().copied();
            let (Some(first), Some(last)) = (first, last) else {
                break;
            };
            let value = |turn: &Turn| ascending(turn.first[self.ranking.leading()]);
            let (better, worse) = (value(&first), value(&last));
            if first > last || better <= worse + margin * worse.abs() {
                break;
            }
            self.agenda.unreserve(&last, &mut self.room);
        }
    }

    /// One walk over all who wait, to its end.
    fn walk(&mut self, now: Time, started: &mut Vec<Turn>) -> Starts {
        // Where starts are limited each counts before the next is looked at.
        let steps = match self.room.is_limited() {
            true => 1,
            false => STEPS,
        };
        let mut verdicts = std::mem::take(&mut self.verdicts);
        let mut denied = Vec::new();
        let mut progress = Progress::More;
        while let Progress::More = progress {
            progress = self.agenda.pass(&mut self.room, now, steps, &mut verdicts);
            for verdict in verdicts.drain(..) {
                match verdict {
                    Verdict::Start { key, spot, span } => match self.room.start(spot.claim) {
                        Ok(()) => {
                            started.push(key);
                            self.start(key, spot, now, span);
                        }
                        Err(_) => {
                            self.room.give(&spot, now, span);
                            denied.push(key);
                        }
                    },
                    Verdict::Reserve { .. } | Verdict::Wait { .. } => {}
                }
            }
        }
        self.verdicts = verdicts;
        if denied.is_empty() {
            return Starts::All;
        }
        for key in denied {
            self.enter(Ranked::Turn(key), key.place);
        }
        self.agenda.freed();
        Starts::Denied
    }

    fn start(&mut self, turn: Turn, spot: Granted<R::Spot>, now: Time, span: Span) {
        let job = &self.jobs[turn.place];
        self.unseat(turn.place);
        self.ranking.started(job, now);
        self.course.starts[turn.place] = Some(now);
        if let Some(nodes) = self.course.nodes.get_mut(turn.place) {
            *nodes = (self.nodes)(&spot.spot);
        }
        // A room gives even a span of nothing the least there is.
        let until = now.after(span.max(Span(1)));
        self.running[turn.place] = Some(Held { spot, until });
        let end = now.after(job.runs());
        self.begun += 1;
        self.ends.push(Reverse((end, self.begun, turn.place)));
    }

    /// It waits no more.
    fn unseat(&mut self, place: usize) {
        let seat = self.seat[place] as usize;
        self.waiting.swap_remove(seat);
        if let Some(moved) = self.waiting.get(seat) {
            self.seat[moved.place] = seat as u32;
        }
    }
}

impl<R: Room> Moment for Replay<'_, R> {
    fn end(&mut self, now: Time) -> bool {
        match self.ends.peek() {
            Some(Reverse((at, _, _))) if *at == now => {}
            Some(_) | None => return false,
        }
        let Some(Reverse((_, _, place))) = self.ends.pop() else {
            return false;
        };
        let held = self.running[place].take().expect("only what runs ends");
        if held.until > now {
            self.room.give(&held.spot, now, held.until - now);
            self.agenda.freed();
        } else {
            self.room.over(held.spot.claim);
        }
        self.ranking.ended(&self.jobs[place], now);
        true
    }

    fn submit(&mut self, now: Time) -> bool {
        let next = self.coming.last();
        let Some(&place) = next.filter(|&&place| self.jobs[place].submit == now) else {
            return false;
        };
        self.coming.pop();
        let job = &self.jobs[place];
        let span = self.span(job);
        let (need, claim) = ((self.need)(job), (self.claim)(job));
        if self.room.can_ever(&Asked { need, claim }, now, span) {
            self.ranking.came(job);
            let ranked = self.ranking.rank(job, span, place, now);
            self.enter(ranked, place);
            self.seat[place] = self.waiting.len() as u32;
            self.waiting.push(Waits { place, ranked });
        }
        true
    }

    fn pass(&mut self, now: Time) {
        self.room.forget(now);
        self.refresh(now);
        self.course.passes += 1;
        self.course.max_queue = self.course.max_queue.max(self.agenda.len() as u64);
        self.room.begin(now);
        let mut started = std::mem::take(&mut self.started);
        // What one had reserved and may not take now others may have.
        while let Starts::Denied = self.walk(now, &mut started) {}
        if let Some(first) = self.agenda.first() {
            self.course.backfilled += started.iter().filter(|key| first < key).count() as u64;
        }
        started.clear();
        self.started = started;
    }
}

/// Places of jobs by submission and id, the next one last.
pub(super) fn coming(jobs: &[SimJob]) -> Vec<usize> {
    let mut coming: Vec<usize> = (0..jobs.len()).collect();
    coming.sort_by_key(|&place| Reverse((jobs[place].submit, jobs[place].id)));
    coming
}
