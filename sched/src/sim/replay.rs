//! The loop over events: ends, submissions, a pass of the walk.
//!
//! [`Events::Batch`] is one pass for all that happens at an instant; with
//! [`Events::Each`] every event has a pass of its own, submissions before ends,
//! as in the simulators of the published rows. It goes on in slices, so that a
//! driver can show how far it is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use eddy_wire::time::{Span, Time};

use super::rules::SimRules;
use super::workload::{SimJob, Workload};
use crate::walk::{Agenda, Blocked, Job, Progress, Room, Verdict};

/// The turn of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Turn {
    /// What the order says; least first.
    pub first: i128,
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
}

/// A replay that goes on in slices.
pub struct Replay<'w, R: Room> {
    jobs: &'w [SimJob],
    rules: SimRules,
    foresight: Foresight,
    events: Events,
    agenda: Agenda<Turn, R>,
    room: R,
    need: fn(&SimJob) -> R::Need,
    /// Places of jobs by submission and id, the next one last.
    coming: Vec<usize>,
    /// Ends of what runs; at the same instant in the order of their starts.
    ends: BinaryHeap<Reverse<(Time, u64, usize)>>,
    /// How many have started.
    begun: u64,
    /// What runs, by place.
    running: Vec<Option<Held<R>>>,
    verdicts: Vec<Verdict<Turn, R::Spot>>,
    course: Course,
}

/// What a running job holds.
struct Held<R: Room> {
    spot: R::Spot,
    /// As planned.
    until: Time,
}

/// Steps of a walk taken at once; a pass is always finished before the next event.
const STEPS: u64 = 4096;

impl<'w, R: Room> Replay<'w, R> {
    /// A workload on an empty room; `need` says what of the room a job asks for.
    pub fn new(
        workload: &'w Workload,
        rules: &SimRules,
        (foresight, events): (Foresight, Events),
        room: R,
        need: fn(&SimJob) -> R::Need,
    ) -> Replay<'w, R> {
        let jobs = &workload.jobs;
        let mut coming: Vec<usize> = (0..jobs.len()).collect();
        coming.sort_by_key(|&place| Reverse((jobs[place].submit, jobs[place].id)));
        Replay {
            jobs,
            rules: rules.clone(),
            foresight,
            events,
            agenda: Agenda::new(rules.queue.clone()),
            room,
            need,
            coming,
            ends: BinaryHeap::new(),
            begun: 0,
            running: jobs.iter().map(|_| None).collect(),
            verdicts: Vec::new(),
            course: Course {
                starts: vec![None; jobs.len()],
                ..Course::default()
            },
        }
    }

    /// Goes on by so many instants with events; says whether there are more.
    pub fn slice(&mut self, instants: u64) -> Progress {
        for _ in 0..instants {
            let Some(now) = self.next_event() else {
                return Progress::Done;
            };
            match self.events {
                Events::Batch => self.batch(now),
                Events::Each => self.each(now),
            }
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
        let due = self.agenda.next_due();
        submit.into_iter().chain(end).chain(due).min()
    }

    fn batch(&mut self, now: Time) {
        while self.end(now) {}
        while self.submit(now) {}
        self.pass(now);
    }

    fn each(&mut self, now: Time) {
        let before = self.course.passes;
        while self.submit(now) {
            self.pass(now);
        }
        while self.end(now) {
            self.pass(now);
        }
        if self.course.passes == before {
            self.pass(now);
        }
    }

    /// Ends the first that ends at this time, if any does.
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
        }
        true
    }

    /// Takes in the first that comes at this time, if any does.
    fn submit(&mut self, now: Time) -> bool {
        let next = self.coming.last();
        let Some(&place) = next.filter(|&&place| self.jobs[place].submit == now) else {
            return false;
        };
        self.coming.pop();
        let job = &self.jobs[place];
        let limit = match self.foresight {
            Foresight::Requested => job.limit,
            Foresight::Clairvoyant => Some(job.runs()),
        };
        let span = self.rules.queue.span(limit);
        let need = (self.need)(job);
        if !matches!(self.room.fit(&need, now, span), Err(Blocked::Never)) {
            let turn = self.rules.order.turn(job, span, place);
            let waits = Job { need, since: now };
            self.agenda.enter(turn, waits, limit, &self.room);
        }
        true
    }

    fn pass(&mut self, now: Time) {
        self.room.forget(now);
        self.course.passes += 1;
        self.course.max_queue = self.course.max_queue.max(self.agenda.len() as u64);
        let mut verdicts = std::mem::take(&mut self.verdicts);
        while let Progress::More = self.agenda.pass(&mut self.room, now, STEPS, &mut verdicts) {}
        let first = self.agenda.first().copied();
        for verdict in verdicts.drain(..) {
            match verdict {
                Verdict::Start { key, spot, span } => {
                    self.course.backfilled += u64::from(first.is_some_and(|first| first < key));
                    self.start(key, spot, now, span);
                }
                Verdict::Reserve { .. } | Verdict::Wait { .. } => {}
            }
        }
        self.verdicts = verdicts;
    }

    fn start(&mut self, turn: Turn, spot: R::Spot, now: Time, span: Span) {
        let job = &self.jobs[turn.place];
        self.course.starts[turn.place] = Some(now);
        // A room gives even a span of nothing the least there is.
        let until = now.after(span.max(Span(1)));
        self.running[turn.place] = Some(Held { spot, until });
        let end = now.after(job.runs());
        self.begun += 1;
        self.ends.push(Reverse((end, self.begun, turn.place)));
    }
}
