//! What a report draws: use and queue over time, and who was where in a window.
//!
//! Made of a course that is over; knows no picture.

use std::collections::BTreeSet;

use eddy_wire::time::{Span, Time};

use super::machine::Machine;
use super::replay::Course;
use super::workload::{SimJob, Workload};

/// Means over steps of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Where the first step begins.
    pub from: Time,
    /// How long each is.
    pub step: Span,
    /// Processors in use.
    pub used: Vec<f64>,
    /// Jobs that wait.
    pub queue: Vec<f64>,
}

impl Series {
    /// From the first submission on in steps that reach `until`; as many as the caller can hold.
    pub fn new(workload: &Workload, course: &Course, until: Time, step: Span) -> Series {
        let first = workload.jobs.iter().map(|job| job.submit).min();
        let from = first.unwrap_or_default();
        let step = step.max(Span(1));
        let length = (until - from).0.max(1) as u64;
        let steps = length.div_ceil(step.0 as u64) as usize;
        let (mut used, mut queue) = (Means::new(steps), Means::new(steps));
        for (place, job, start) in ran(workload, course) {
            let at = |time: Time| (time - from).0 as f64 / step.0 as f64;
            let end = at(start.after(job.runs()));
            used.add(at(start), end, course.procs(place, job) as f64);
            queue.add(at(job.submit), at(start), 1.0);
        }
        Series {
            from,
            step,
            used: used.values(),
            queue: queue.values(),
        }
    }
}

/// Sums of what holds for a while, by step: whole steps are added where they begin and end.
struct Means {
    parts: Vec<f64>,
    whole: Vec<f64>,
}

impl Means {
    fn new(steps: usize) -> Means {
        Means {
            parts: vec![0.0; steps],
            whole: vec![0.0; steps + 1],
        }
    }

    /// So much from one time to another, both in steps.
    fn add(&mut self, from: f64, until: f64, amount: f64) {
        let last = self.parts.len() as f64;
        let (from, until) = (from.clamp(0.0, last), until.clamp(0.0, last));
        if until <= from {
            return;
        }
        let (first, end) = (from.ceil() as usize, until.floor() as usize);
        if first > end {
            self.parts[end] += amount * (until - from);
            return;
        }
        if first > 0 {
            self.parts[first - 1] += amount * (first as f64 - from);
        }
        if let Some(part) = self.parts.get_mut(end) {
            *part += amount * (until - end as f64);
        }
        self.whole[first] += amount;
        self.whole[end] -= amount;
    }

    fn values(self) -> Vec<f64> {
        let mut level = 0.0;
        let steps = self.parts.iter().zip(&self.whole);
        let means = steps.map(|(part, change)| {
            level += change;
            (part + level).max(0.0)
        });
        means.collect()
    }
}

/// When the last job ended.
pub fn last_end(workload: &Workload, course: &Course) -> Time {
    let ends = ran(workload, course).map(|(_, job, start)| start.after(job.runs()));
    ends.max().unwrap_or_default()
}

/// Places of jobs that ran, and when they started.
fn ran<'a>(
    workload: &'a Workload,
    course: &'a Course,
) -> impl Iterator<Item = (usize, &'a SimJob, Time)> {
    let jobs = workload.jobs.iter().zip(&course.starts).enumerate();
    jobs.filter_map(|(place, (job, start))| Some((place, job, (*start)?)))
}

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Its begin.
    pub from: Time,
    /// Its end.
    pub until: Time,
}

impl Window {
    /// The longest window around a time in which at most so many jobs run.
    pub fn around(workload: &Workload, course: &Course, at: Time, jobs: usize) -> Window {
        let half = |power: u32| Span(1_i64 << power);
        let window = |power| Window {
            from: Time(at.0.saturating_sub(half(power).0)),
            until: at.after(half(power)),
        };
        let holds = |power: &u32| {
            let running = ran(workload, course)
                .filter(|(_, job, start)| window(*power).has(*start, start.after(job.runs())));
            running.take(jobs + 1).count() <= jobs
        };
        // From about a second to about a year.
        let powers = 20..45;
        let most = powers.clone().rev().find(holds).unwrap_or(powers.start);
        window(most).within(workload, course)
    }

    /// Cut to where anything is.
    fn within(self, workload: &Workload, course: &Course) -> Window {
        let first = workload.jobs.iter().map(|job| job.submit).min();
        let from = self.from.max(first.unwrap_or_default());
        let until = self.until.min(last_end(workload, course));
        Window {
            from,
            until: until.max(from.after(Span(1))),
        }
    }

    fn has(&self, start: Time, end: Time) -> bool {
        start < self.until && end > self.from
    }
}

/// A job in a window.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// Its place in the workload.
    pub place: usize,
    /// When it started.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Processors from the first up to, not with, the second.
    pub procs: Vec<(u64, u64)>,
}

/// The jobs that run in a window, each on the lowest processors that are free (of its nodes, where
/// there are nodes); nothing else is known of a count.
pub fn bars(
    workload: &Workload,
    machine: &Machine,
    course: &Course,
    window: Window,
    most: usize,
) -> Vec<Bar> {
    let places = course.starts.iter().enumerate();
    let mut bars: Vec<Bar> = places
        .filter_map(|(place, start)| {
            let start = (*start)?;
            let end = start.after(workload.jobs[place].runs());
            let procs = Vec::new();
            let bar = Bar {
                place,
                start,
                end,
                procs,
            };
            window.has(start, end).then_some(bar)
        })
        .collect();
    bars.sort_by_key(|bar| (bar.start, workload.jobs[bar.place].id));
    bars.truncate(most);
    let bases = bases(machine);
    let mut free = Free::of(machine);
    let mut ends: BTreeSet<(Time, usize)> = BTreeSet::new();
    for at in 0..bars.len() {
        while let Some((end, done)) = ends.first().copied() {
            if end > bars[at].start {
                break;
            }
            ends.pop_first();
            for range in &bars[done].procs {
                free.give(*range);
            }
        }
        let place = bars[at].place;
        let job = &workload.jobs[place];
        bars[at].procs = match course.nodes.get(place) {
            Some(nodes) => nodes
                .iter()
                .flat_map(|&(node, procs)| {
                    let base = bases[node as usize];
                    let end = bases[node as usize + 1];
                    free.take(procs, (base, end))
                })
                .collect(),
            None => free.take(job.procs, (0, machine.procs())),
        };
        ends.insert((bars[at].end, at));
    }
    bars
}

/// The first core of each node when all are numbered, and how many there are.
pub fn bases(machine: &Machine) -> Vec<u64> {
    let mut bases = vec![0];
    let mut all = 0;
    for node in machine.nodes() {
        all += node.cores;
        bases.push(all);
    }
    bases
}

/// Free processors: ranges that do not touch.
struct Free(BTreeSet<(u64, u64)>);

impl Free {
    fn of(machine: &Machine) -> Free {
        Free(BTreeSet::from([(0, machine.procs())]))
    }

    /// The lowest so many of a range; fewer where there are no more.
    fn take(&mut self, mut count: u64, (from, until): (u64, u64)) -> Vec<(u64, u64)> {
        let mut taken = Vec::new();
        let touching: Vec<(u64, u64)> = self
            .0
            .iter()
            .skip_while(|range| range.1 <= from)
            .take_while(|range| range.0 < until)
            .copied()
            .collect();
        for range in touching {
            let start = range.0.max(from);
            let end = range.1.min(until).min(start.saturating_add(count));
            if count == 0 || start >= end {
                continue;
            }
            self.0.remove(&range);
            let left = [(range.0, start), (end, range.1)];
            self.0.extend(left.into_iter().filter(|(a, b)| a < b));
            count -= end - start;
            taken.push((start, end));
        }
        taken
    }

    fn give(&mut self, (mut from, mut until): (u64, u64)) {
        let before = self.0.range(..(from, 0)).next_back().copied();
        if let Some(range) = before.filter(|range| range.1 == from) {
            self.0.remove(&range);
            from = range.0;
        }
        let after = self.0.range((until, 0)..).next().copied();
        if let Some(range) = after.filter(|range| range.0 == until) {
            self.0.remove(&range);
            until = range.1;
        }
        self.0.insert((from, until));
    }
}
