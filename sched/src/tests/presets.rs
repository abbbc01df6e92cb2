//! What holds for every preset there is, over random workloads: the laws of policies
//! in general, each a property over all of them, or over those it is about.
//!
//! Laws of one part (order laws of each fair share, decay in steps, total order of
//! values that are no numbers) are beside that part. Where a law does not hold for
//! a preset, the test that leaves it out says why.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Owner as Charged, Question, Suppose, Verdict, Want};
use eddy_wire::time::{MICROS, Span, Time};
use proptest::prelude::*;

use super::model::{inventory, slots};
use crate::Planner;
use crate::policy::{PRESETS, Policy, preset};
use crate::sim::*;

/// Cores of each node.
const NODES: [u32; 4] = [4, 4, 2, 4];

/// A job of a random workload.
#[derive(Clone, Debug)]
struct Ask {
    submit: i64,
    run: i64,
    /// How much longer than it runs it says that it will.
    over: i64,
    procs: u64,
    user: u8,
    class: u8,
    urgency: u8,
}

fn ask() -> impl Strategy<Value = Ask> {
    let times = (0..60_i64, 1..30_i64, prop_oneof![Just(0), 0..30_i64]);
    let whose = (1..=6_u64, 0..4_u8, 0..4_u8);
    let urgency = prop_oneof![6 => Just(16_u8), 1 => 1..=31_u8];
    (times, whose, urgency).prop_map(|((submit, run, over), (procs, user, class), urgency)| Ask {
        submit,
        run,
        over,
        procs,
        user,
        class,
        urgency,
    })
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    prop::collection::vec(ask(), 1..30)
}

/// Users 0 and 1 are of a group; two of three jobs are of the default class.
fn workload(asks: &[Ask], shares: &[u64]) -> Workload {
    let (mut owners, mut terms) = (Places::default(), Places::default());
    let jobs = (1..).zip(asks).map(|(id, ask)| SimJob {
        id,
        submit: Time(ask.submit * MICROS),
        procs: ask.procs,
        nodes: None,
        run: Span::seconds(ask.run),
        limit: Some(Span::seconds(ask.run + ask.over)),
        owner: owners.place(Owner::new(
            (ask.user < 2).then_some("group"),
            &format!("user{}", ask.user),
        )),
        terms: terms.place(Terms {
            class: (ask.class == 0).then(|| "preemptible".to_owned()),
            urgency: ask.urgency,
            ..Terms::default()
        }),
    });
    let mut workload = Workload {
        jobs: jobs.collect(),
        owners: owners.list(),
        terms: terms.list(),
        ..Workload::default()
    };
    let names: BTreeSet<String> = workload.owners.iter().map(Owner::name).collect();
    let shares = names.into_iter().zip(shares.iter().copied());
    workload.share(shares.collect()).expect("they have jobs");
    workload
}

fn machine() -> Machine {
    let nodes: Vec<(u32, u32, u64)> = NODES.iter().map(|&cores| (cores, 0, 0)).collect();
    Machine::of(&inventory(&nodes))
}

/// Every preset there is, by name.
fn presets() -> Vec<(&'static str, Policy)> {
    let read = |one: &crate::policy::Preset| (one.name, preset(one.name).expect("it is a preset"));
    PRESETS.iter().map(read).collect()
}

fn play(workload: &Workload, policy: &Policy) -> Course {
    let machine = machine();
    let scene = Scene {
        workload,
        machine: &machine,
        foresight: Foresight::Requested,
        events: Events::Batch,
    };
    crate::sim::play(scene, policy, |_| {}).expect("it is replayed")
}

/// Whether accounts take turns in it, or take from each other.
fn in_rounds(policy: &Policy) -> bool {
    let (workload, machine) = (Workload::default(), machine());
    let scene = Scene {
        workload: &workload,
        machine: &machine,
        foresight: Foresight::Requested,
        events: Events::Batch,
    };
    way(policy, scene) == Way::Rounds
}

/// When each job started, by its number.
fn starts(workload: &Workload, course: &Course) -> BTreeMap<u64, Option<Time>> {
    let jobs = workload.jobs.iter().map(|job| job.id);
    jobs.zip(course.starts.iter().copied()).collect()
}

/// A planner that was told of these jobs, with what it is told of first.
fn planner(policy: &str, asks: &[Ask]) -> Planner {
    let mut planner = Planner::new();
    let nodes: Vec<(u32, u32, u64)> = NODES.iter().map(|&cores| (cores, 0, 0)).collect();
    planner.apply(Delta::Policy(format!("preset = \"{policy}\"").into()));
    planner.apply(Delta::Inventory(inventory(&nodes)));
    planner.apply(Delta::Up(Idset::first_ids(NODES.len() as u32)));
    for (id, ask) in (1..).map(JobId).zip(asks) {
        let mut request = slots(u32::try_from(ask.procs).expect("few"), 1);
        request.duration = Some((ask.run + ask.over) * MICROS);
        let owner = Charged {
            user: ask.user.into(),
            ..Charged::default()
        };
        let submitted = Time(ask.submit * MICROS);
        planner.apply(Delta::Want(
            id,
            Want {
                owner,
                submitted,
                eligible: submitted,
                ..Want::of(ask.urgency, request)
            },
        ));
    }
    planner
}

/// Presets that running instances obey.
fn served() -> Vec<&'static str> {
    let presets = presets().into_iter();
    let served = presets.filter(|(_, policy)| policy.served().is_ok());
    served.map(|(name, _)| name).collect()
}

const LATER: Time = Time(100 * MICROS);

#[test]
fn there_are_fifteen_and_all_are_served_live() {
    assert_eq!((PRESETS.len(), served().len()), (15, 15));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Purity. That another thread makes no difference is tested where there are threads.
    #[test]
    fn the_same_jobs_in_any_order_have_the_same_schedule(asks in asks(), seed in any::<u64>()) {
        for (name, policy) in presets() {
            let given = workload(&asks, &[]);
            let course = play(&given, &policy);
            prop_assert_eq!(&course, &play(&given, &policy), "{} played twice", name);
            let mut shuffled = given.clone();
            fastrand::Rng::with_seed(seed).shuffle(&mut shuffled.jobs);
            let again = play(&shuffled, &policy);
            prop_assert_eq!(starts(&given, &course), starts(&shuffled, &again), "{}", name);
        }
    }

    #[test]
    fn all_shares_times_k_change_nothing(asks in asks(), shares in prop::collection::vec(1..9_u64, 4), k in 2..1000_u64) {
        for (name, policy) in presets() {
            let given = workload(&asks, &shares);
            // The group itself has shares too, which the names of users do not say.
            let mut all = given.shares.clone();
            if given.owners.iter().any(|owner| owner.group == "group") {
                all.insert("group".to_owned(), 3);
            }
            let times = |k: u64| all.iter().map(|(name, shares)| (name.clone(), shares * k)).collect();
            let (mut once, mut more) = (given.clone(), given);
            once.share(times(1)).expect("shares");
            more.share(times(k)).expect("shares");
            prop_assert_eq!(play(&once, &policy), play(&more, &policy), "{}", name);
        }
    }

    /// All weights of a formula; a power of two, so that no digit is rounded otherwise. Not of
    /// `flux-accounting`, whose document rounds the sum and bounds it by numbers of its own.
    #[test]
    fn all_weights_times_k_change_nothing(asks in asks(), power in 1..6_u32) {
        for (name, policy) in presets() {
            if name == "flux-accounting" {
                continue;
            }
            let given = workload(&asks, &[]);
            let mut more = policy.clone();
            more.priority.weights.values_mut().for_each(|weight| *weight *= f64::from(1 << power));
            prop_assert_eq!(play(&given, &policy), play(&given, &more), "{}", name);
        }
    }

    #[test]
    fn everybody_runs_not_before_coming_and_no_node_has_more_than_it_has(asks in asks()) {
        let machine = machine();
        for (name, policy) in presets() {
            let given = workload(&asks, &[]);
            let course = play(&given, &policy);
            let mut steps: Vec<(u32, Time, i64)> = Vec::new();
            for (place, job) in given.jobs.iter().enumerate() {
                let Some(start) = course.starts[place] else {
                    prop_assert!(false, "{}: job {} never ran", name, job.id);
                    continue;
                };
                prop_assert!(start >= job.submit, "{}: job {}", name, job.id);
                let shape = machine.shape(job).expect("it fits");
                prop_assert_eq!(course.nodes[place].len() as u64, shape.nodes);
                for &(node, each) in &course.nodes[place] {
                    let each = each as i64;
                    steps.push((node, start.after(job.runs()), -each));
                    steps.push((node, start, each));
                }
            }
            // What ends at an instant is free then.
            steps.sort_unstable();
            for of_node in steps.chunk_by(|a, b| a.0 == b.0) {
                let mut used = 0;
                for (node, at, change) in of_node {
                    used += change;
                    let all = i64::from(NODES[*node as usize]);
                    prop_assert!(used <= all, "{}: {} on node {} at {}", name, used, node, at);
                }
            }
        }
    }

    /// A threshold holds back whatever the walk; rounds know none.
    #[test]
    fn nothing_at_or_below_the_threshold_starts(asks in asks(), threshold in 0..7_u32) {
        for (name, mut policy) in presets() {
            if in_rounds(&policy) {
                continue;
            }
            policy.priority.order = vec!["cores".to_owned()];
            policy.priority.threshold = Some(threshold.into());
            let given = workload(&asks, &[]);
            let course = play(&given, &policy);
            for (job, start) in given.jobs.iter().zip(&course.starts) {
                let above = job.procs > threshold.into();
                prop_assert_eq!(start.is_some(), above, "{}: {} cores", name, job.procs);
            }
        }
    }

    #[test]
    fn who_does_not_start_is_told_why_and_nothing_is_left_to_do(asks in asks()) {
        for name in served() {
            let mut planner = planner(name, &asks);
            let mut waiting: BTreeSet<JobId> = (1..=asks.len() as u64).map(JobId).collect();
            loop {
                let outcome = planner.plan(LATER, 1_000);
                for (job, verdict) in outcome.verdicts {
                    waiting.remove(&job);
                    let Verdict::Start(set) = verdict else {
                        panic!("{name}: job {job} fits");
                    };
                    let at = job.0 as usize - 1;
                    let owner = Charged { user: asks[at].user.into(), ..Charged::default() };
                    planner.apply(Delta::Held(job, owner, set));
                }
                if !outcome.unfinished {
                    break;
                }
            }
            planner.apply(Delta::Explain(Question {
                tag: 1,
                jobs: None,
                most: 1_000,
                suppose: Suppose::default(),
                wants: Vec::new(),
                lent: Vec::new(),
            }));
            let outcome = planner.plan(LATER, 1_000);
            // Steady: what was decided is done, and nothing new came.
            prop_assert!(outcome.verdicts.is_empty(), "{}: {:?}", name, outcome.verdicts);
            let told = outcome.answers.iter().flat_map(|answer| &answer.jobs);
            let told: BTreeMap<JobId, String> =
                told.map(|one| (one.job, one.reason.to_string())).collect();
            prop_assert_eq!(told.keys().copied().collect::<BTreeSet<_>>(), waiting, "{}", name);
            prop_assert!(told.values().all(|why| !why.is_empty()), "{}: {:?}", name, told);
        }
    }
}
