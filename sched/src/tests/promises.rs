//! What a reservation promises, on nodes: jobs that end when they said, under
//! policies that let others pass.
//!
//! The earliest start of a job is found once more without any index, and each
//! start is held against what was promised when the job first waited. Every preset
//! is here whose order does not move while jobs wait: where it does (`flux`, the
//! `slurm` ones, `flux-accounting`, `pbs-it4i`), the first who waits is another from
//! time to time, and it is to whoever is first now that fillers do nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::{Delta, Owner, Question, Suppose, Verdict, Want};
use eddy_wire::preempt::Preempts;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Span};
use proptest::prelude::*;

use super::model::{inventory, nodes, slots};
use crate::Planner;
use crate::cleanup::cleanup;

const ALL: u32 = 10_000;

/// An instance whose jobs end as late as they may: none heeds TERM.
struct Run {
    first: First,
    /// From TERM to KILL.
    grace: Span,
    inventory: Arc<ResourceSet>,
    planner: Planner,
    now: Time,
    waiting: BTreeMap<JobId, Request>,
    running: BTreeMap<JobId, (Arc<ResourceSet>, Time)>,
    /// The first time that was told of a job.
    promised: BTreeMap<JobId, Time>,
}

impl Run {
    fn new(cores: &[u32], (policy, grace): (&str, Span), first: First) -> Run {
        let sizes: Vec<(u32, u32, u64)> = cores.iter().map(|&cores| (cores, 0, 0)).collect();
        let inventory = inventory(&sizes);
        let mut planner = Planner::new();
        planner.apply(Delta::Policy(policy.into()));
        planner.apply(Delta::Preempts(Arc::new(Preempts {
            grace,
            ..Preempts::default()
        })));
        planner.apply(Delta::Inventory(inventory.clone()));
        planner.apply(Delta::Up(Idset::first_ids(sizes.len() as u32)));
        Run {
            first,
            grace,
            inventory,
            planner,
            now: Time(MICROS),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            promised: BTreeMap::new(),
        }
    }

    fn want(&mut self, job: JobId, request: Request) {
        self.waiting.insert(job, request.clone());
        self.planner.apply(Delta::Want(job, Want::of(16, request)));
    }

    /// The first in turn of those who wait.
    fn head(&self) -> Option<JobId> {
        // What it asks for, as the formula counts it: a whole node that names no cores is none.
        let size = |request: &Request| u64::from(request.slots * request.cores_per_slot);
        let key = |(job, request): &(&JobId, &Request)| {
            let span = request.duration.expect("all have a limit");
            match self.first {
                First::Oldest => (0, **job),
                First::Shortest => (span.cast_unsigned(), **job),
                First::Smallest => (span.cast_unsigned() * size(request), **job),
            }
        };
        let first = self.waiting.iter().min_by_key(key);
        first.map(|(job, _)| *job)
    }

    /// Plans, records what starts and gives the times that are told of those who wait.
    fn plan(&mut self) -> BTreeMap<JobId, Time> {
        let question = Question {
            tag: 1,
            jobs: None,
            most: 1_000,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        };
        let head = self.head();
        let before = self.running.clone();
        self.planner.apply(Delta::Explain(question));
        let outcome = self.planner.plan(self.now, ALL);
        assert!(!outcome.unfinished);
        for (job, verdict) in outcome.verdicts {
            match verdict {
                Verdict::Start(set) => self.start(job, set),
                Verdict::Never(_) => drop(self.waiting.remove(&job)),
                Verdict::Preempt { .. } => panic!("nobody may be taken from"),
            }
        }
        if let Some(head) = self.head().filter(|now| Some(*now) == head) {
            let alone = self.earliest(&self.waiting[&head], &before);
            let beside = self.earliest(&self.waiting[&head], &self.running);
            assert!(
                beside <= alone,
                "job {head} is delayed: {alone:?} {beside:?}"
            );
        }
        let told = outcome.answers.into_iter().flat_map(|answer| answer.jobs);
        let told = told.filter(|one| self.waiting.contains_key(&one.job));
        told.filter_map(|one| Some((one.job, one.start?.latest?)))
            .collect()
    }

    fn start(&mut self, job: JobId, set: Arc<ResourceSet>) {
        let request = self.waiting.remove(&job).expect("it waits");
        self.planner
            .apply(Delta::Held(job, Owner::default(), set.clone()));
        let limit = request.duration.expect("all have a limit");
        let end = self.now.after(Span(limit)).after(cleanup(self.grace));
        self.running.insert(job, (set, end));
        for (rank, node) in &self.inventory.nodes {
            let parts = self
                .running
                .values()
                .filter_map(|(set, _)| set.nodes.get(rank));
            let taken: u64 = parts.map(|part| part.cores.len()).sum();
            assert!(taken <= node.cores.len(), "rank {rank} is over committed");
        }
        if let Some(promised) = self.promised.get(&job) {
            assert!(self.now <= *promised, "job {job} was promised {promised:?}");
        }
    }

    /// On to the next end.
    fn next_end(&mut self) {
        let end = self.running.values().map(|(_, until)| *until).min();
        self.now = end.expect("something runs while others wait");
        let over: Vec<JobId> = self
            .running
            .iter()
            .filter(|(_, (_, until))| *until <= self.now)
            .map(|(job, _)| *job)
            .collect();
        for job in over {
            self.running.remove(&job);
            self.planner.apply(Delta::Freed(job));
        }
    }

    /// When a request fits beside those, looked for at each of their ends.
    fn earliest(
        &self,
        request: &Request,
        held: &BTreeMap<JobId, (Arc<ResourceSet>, Time)>,
    ) -> Time {
        let mut times: Vec<Time> = held.values().map(|(_, until)| *until).collect();
        times.push(self.now);
        times.sort_unstable();
        let fits = |time: &Time| {
            let free = self.inventory.nodes.iter().map(|(rank, node)| {
                let there = held.values().filter(|(_, until)| until > time);
                let parts = there.filter_map(|(set, _)| set.nodes.get(rank));
                (
                    node.cores.len(),
                    parts.map(|part| part.cores.len()).sum::<u64>(),
                )
            });
            fits(request, &free.collect::<Vec<_>>())
        };
        times
            .into_iter()
            .find(fits)
            .expect("it fits when all is free")
    }
}

/// Whether it fits nodes with so many cores of which so many are taken.
fn fits(request: &Request, nodes: &[(u64, u64)]) -> bool {
    let each = u64::from(request.cores_per_slot);
    match (request.nodes, request.sharing) {
        (Some(count), Sharing::Exclusive) => {
            nodes.iter().filter(|(_, taken)| *taken == 0).count() >= count as usize
        }
        (Some(count), Sharing::Shared) => {
            let least = each * u64::from(request.slots_per_node);
            let room = |(all, taken): &&(u64, u64)| all - taken >= least;
            nodes.iter().filter(room).count() >= count as usize
        }
        (None, _) => {
            let slots = nodes.iter().map(|(all, taken)| (all - taken) / each);
            slots.sum::<u64>() >= u64::from(request.slots)
        }
    }
}

fn request() -> impl Strategy<Value = Request> {
    let shape = prop_oneof![
        3 => (1u32..6, 1u32..4).prop_map(|(count, cores)| slots(count, cores)),
        2 => (1u32..4, 1u32..3, 1u32..3).prop_map(|(count, each, cores)| nodes(count, each, cores)),
        1 => (1u32..4).prop_map(|count| Request {
            sharing: Sharing::Exclusive,
            ..nodes(count, 1, 0)
        }),
    ];
    (shape, 1i64..60).prop_map(|(request, seconds)| Request {
        duration: Some(seconds * MICROS),
        ..request
    })
}

/// Cores of each node; jobs, each with after how many ends it comes.
type Workload = (Vec<u32>, Vec<(Request, u8)>);

fn workload() -> impl Strategy<Value = Workload> {
    let cores = prop::collection::vec(1u32..6, 1..5);
    let jobs = prop::collection::vec((request(), 0u8..4), 1..25);
    (cores, jobs)
}

/// Plays a workload to its end; what is told of each job must hold where it is a promise.
fn play(policy: &str, first: First, workload: &Workload, promises: Promises) {
    play_with(Span::seconds(5), policy, (first, promises), workload);
}

/// The same where so much is between TERM and KILL.
fn play_with(
    grace: Span,
    policy: &str,
    (first, promises): (First, Promises),
    (cores, jobs): &Workload,
) {
    let mut run = Run::new(cores, (policy, grace), first);
    let mut coming = (1..).map(JobId).zip(jobs).peekable();
    let mut ends = 0;
    loop {
        while let Some((job, (request, _))) = coming.next_if(|(_, (_, after))| *after <= ends) {
            run.want(job, request.clone());
        }
        let told = run.plan();
        let head = run.head();
        for (job, at) in told {
            let counts = match promises {
                Promises::All => true,
                Promises::Head => Some(job) == head,
                Promises::None => false,
            };
            if counts {
                let first = *run.promised.entry(job).or_insert(at);
                assert!(at <= first, "job {job}: told {first:?}, and now {at:?}");
            }
        }
        if run.running.is_empty() {
            assert!(run.waiting.is_empty(), "{:?} wait for nothing", run.waiting);
            if coming.peek().is_none() {
                return;
            }
        } else {
            run.next_end();
        }
        ends += 1;
    }
}

#[derive(Clone, Copy)]
enum Promises {
    /// Every time that is told holds.
    All,
    /// That of the first who waits.
    Head,
    /// None: who is first may be another when one comes who is shorter or smaller.
    None,
}

/// Who is first in turn.
#[derive(Clone, Copy)]
enum First {
    Oldest,
    Shortest,
    Smallest,
}

/// The fixed ten seconds of before were over long before KILL came.
#[test]
fn a_start_is_told_that_counts_on_kill_where_the_grace_is_long() {
    for (grace, end) in [(0, 13), (5, 13), (6, 14), (35, 43)] {
        let mut run = Run::new(
            &[1],
            ("preset = \"easy\"", Span::seconds(grace)),
            First::Oldest,
        );
        let request = || Request {
            duration: Some(3 * MICROS),
            ..slots(1, 1)
        };
        run.want(JobId(1), request());
        run.plan();
        run.want(JobId(2), request());
        let told = run.plan();
        assert_eq!(told[&JobId(2)], run.now.after(Span::seconds(end)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn first_come_first_served_passes_nobody(workload in workload()) {
        play("preset = \"fcfs\"", First::Oldest, &workload, Promises::Head);
    }

    #[test]
    fn easy_keeps_its_word_to_the_first(workload in workload()) {
        play("preset = \"easy\"", First::Oldest, &workload, Promises::Head);
    }

    #[test]
    fn easy_that_fills_with_the_shortest_keeps_its_word_to_the_first(workload in workload()) {
        play("preset = \"easy-sjbf\"", First::Oldest, &workload, Promises::Head);
    }

    #[test]
    fn easy_by_length_delays_the_first_for_no_filler(workload in workload()) {
        play("preset = \"easy-sjf\"", First::Shortest, &workload, Promises::None);
    }

    #[test]
    fn easy_by_size_delays_the_first_for_no_filler(workload in workload()) {
        play("preset = \"easy-saf\"", First::Smallest, &workload, Promises::None);
    }

    #[test]
    fn hybrid_keeps_its_word_to_the_first(workload in workload()) {
        let policy = "preset = \"hybrid\"\nqueue = { depth = 3 }";
        play(policy, First::Oldest, &workload, Promises::Head);
    }

    #[test]
    fn conservative_keeps_its_word_to_all(workload in workload()) {
        play("preset = \"conservative\"", First::Oldest, &workload, Promises::All);
    }

    #[test]
    fn word_is_kept_by_whatever_is_between_term_and_kill(workload in workload(), grace in 0i64..100) {
        let grace = Span::seconds(grace);
        let head = (First::Oldest, Promises::Head);
        play_with(grace, "preset = \"easy\"", head, &workload);
        let all = (First::Oldest, Promises::All);
        play_with(grace, "preset = \"conservative\"", all, &workload);
    }

    #[test]
    fn replanned_keeps_its_word_to_the_first(workload in workload()) {
        let policy = "preset = \"conservative-replanned\"";
        play(policy, First::Oldest, &workload, Promises::Head);
    }

    #[test]
    fn easy_keeps_its_word_wherever_jobs_are_placed(
        workload in workload(),
        rank in prop::sample::select(vec!["high_id", "pack", "spread", "best_fit", "locality"]),
    ) {
        let policy = format!("preset = \"easy\"\n[placement]\nrank = \"{rank}\"");
        play(&policy, First::Oldest, &workload, Promises::Head);
    }

    #[test]
    fn conservative_keeps_its_word_wherever_jobs_are_placed(
        workload in workload(),
        rank in prop::sample::select(vec!["high_id", "pack", "spread", "best_fit", "locality"]),
    ) {
        let policy = format!("preset = \"conservative\"\n[placement]\nrank = \"{rank}\"");
        play(&policy, First::Oldest, &workload, Promises::All);
    }
}
