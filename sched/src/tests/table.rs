//! Policies whose accounts take turns, as a running instance obeys them: each round
//! starts what `rounds::schedule` starts over the same state, on the same nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Request;
use eddy_wire::plan::{Delta, Outcome, Owner, Question, Reason, Unavailable, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::MICROS;
use proptest::prelude::*;

use super::model::{inventory, slots};
use crate::accounts::{KINDS, amounts};
use crate::amounts::Kinds;
use crate::policy::Policy;
use crate::policy::read::read;
use crate::rooms::Room;
use crate::rounds::{self, Account, Decision, Gang, Job, Node, Run, Service};
use crate::{Planner, feasible};

const USERS: u32 = 6;
const BEGIN: Time = Time(1_000 * MICROS);

/// What happens between rounds.
#[derive(Clone, Debug)]
enum Step {
    /// A job of a user, of so many slots of so many cores and GPUs.
    Want(u32, u8, (u32, u32, u32)),
    /// The first that runs, from this number on.
    Freed(u64),
    Unwant(u64),
    Up(u32),
    Down(u32),
    /// After so many milliseconds a round, so many verdicts at a time.
    Round(i64, u32),
}

struct World {
    planner: Planner,
    policy: Policy,
    inventory: Arc<ResourceSet>,
    down: BTreeSet<u32>,
    waiting: BTreeMap<u64, (u32, Want)>,
    running: BTreeMap<u64, (u32, Arc<ResourceSet>)>,
    now: Time,
    last: u64,
    seed: u64,
    buckets: rounds::Buckets,
    /// What was told since the last round.
    news: usize,
}

impl World {
    fn new(policy: &str, nodes: &[(u32, u32)]) -> World {
        let nodes: Vec<(u32, u32, u64)> = nodes.iter().map(|(c, g)| (*c, *g, 0)).collect();
        let inventory = inventory(&nodes);
        let mut planner = Planner::new();
        planner.apply(Delta::Policy(policy.into()));
        planner.apply(Delta::Inventory(Arc::clone(&inventory)));
        planner.apply(Delta::Up(Idset::first_ids(nodes.len() as u32)));
        World {
            planner,
            policy: read(policy).expect("a policy"),
            inventory,
            down: BTreeSet::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            now: BEGIN,
            last: 0,
            seed: 1,
            buckets: rounds::Buckets::default(),
            news: 1,
        }
    }

    fn tell(&mut self, delta: Delta) {
        self.news += 1;
        self.planner.apply(delta);
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Want(user, urgency, (count, cores, gpus)) => {
                let request = Request {
                    gpus_per_slot: *gpus,
                    ..slots(*count, *cores)
                };
                // What never fits the live instance ends; a round lets it wait.
                if feasible(&self.inventory, &request).is_ok() {
                    self.want(*user, *urgency, request);
                }
            }
            Step::Freed(from) => {
                let next = self.running.range(from % (self.last + 1)..).next();
                if let Some((&job, _)) = next {
                    self.running.remove(&job);
                    self.tell(Delta::Freed(JobId(job)));
                }
            }
            Step::Unwant(job) => {
                if self.waiting.remove(job).is_some() {
                    self.tell(Delta::Unwant(JobId(*job)));
                }
            }
            Step::Up(rank) => {
                self.down.remove(rank);
                self.tell(Delta::Up(Idset::one(*rank)));
            }
            Step::Down(rank) => {
                self.down.insert(*rank);
                self.tell(Delta::Down(Idset::one(*rank), Unavailable::Offline));
            }
            Step::Round(passed, steps) => {
                self.now = Time(self.now.0 + passed * 1000);
                if self.news > 0 {
                    self.round(*steps);
                }
            }
        }
    }

    fn want(&mut self, user: u32, urgency: u8, request: Request) -> u64 {
        self.last += 1;
        let want = Want {
            owner: owner(user),
            submitted: Time(self.last as i64),
            ..Want::of(urgency, request)
        };
        self.waiting.insert(self.last, (user, want.clone()));
        self.tell(Delta::Want(JobId(self.last), want));
        self.last
    }

    /// Both make a round: they start the same on the same nodes.
    fn round(&mut self, steps: u32) -> Vec<u64> {
        let decided = rounds::schedule(&self.state(), &self.policy);
        let mut expected: BTreeMap<u64, BTreeMap<u32, u64>> = BTreeMap::new();
        for (member, decision) in &decided.decisions {
            if let Decision::Start { node, .. } = decision {
                let job = expected.entry(member.0 / 100).or_default();
                *job.entry(*node).or_default() += 1;
            }
        }
        (self.seed, self.buckets) = (decided.seed, decided.buckets);
        let mut started = BTreeMap::new();
        loop {
            let Outcome {
                verdicts,
                unfinished,
                ..
            } = self.planner.plan(self.now, steps);
            for (job, verdict) in verdicts {
                let Verdict::Start(set) = verdict else {
                    panic!("job {job} can run");
                };
                started.insert(job.0, set);
            }
            if !unfinished {
                break;
            }
        }
        let told = started.iter().map(|(job, set)| {
            let each = u64::from(self.waiting[job].1.request.cores_per_slot);
            let slots = |node: &eddy_wire::resource_set::NodeSet| node.cores.len() / each;
            let nodes = set.nodes.iter().map(|(rank, node)| (rank.0, slots(node)));
            (*job, nodes.collect())
        });
        assert_eq!(told.collect::<BTreeMap<_, _>>(), expected);
        self.news = 0;
        let order = started.keys().copied().collect();
        for (job, set) in started {
            let (user, _) = self.waiting.remove(&job).expect("it waited");
            self.running.insert(job, (user, Arc::clone(&set)));
            self.tell(Delta::Held(JobId(job), owner(user), set));
        }
        order
    }

    /// The state that a round from scratch is a function of.
    fn state(&self) -> rounds::State {
        let room = |cores: u64, gpus: u64| {
            amounts(&Room {
                cores,
                gpus,
                memory: 0,
            })
        };
        let nodes = self.inventory.nodes.iter().map(|(rank, node)| Node {
            rank: rank.0,
            capacity: room(node.cores.len(), node.gpus.len()),
            service: match self.down.contains(&rank.0) {
                true => Service::Cordoned,
                false => Service::Up,
            },
            ..Node::default()
        });
        let jobs = self.waiting.iter().flat_map(|(id, (user, want))| {
            let request = &want.request;
            let gang = (request.slots > 1).then(|| Gang {
                id: id.to_string(),
                cardinality: request.slots,
                minimum: request.slots,
                uniform: None,
            });
            (0..request.slots).map(move |member| Job {
                id: JobId(id * 100 + u64::from(member)),
                account: user.to_string(),
                priority: -i64::from(want.urgency),
                submit: Time(*id as i64),
                request: room(request.cores_per_slot.into(), request.gpus_per_slot.into()),
                gang: gang.clone(),
                ..Job::default()
            })
        });
        let runs = self.running.iter().flat_map(|(id, (user, set))| {
            set.nodes.iter().map(move |(rank, node)| Run {
                job: Job {
                    id: JobId(id * 100 + u64::from(rank.0)),
                    account: user.to_string(),
                    request: room(node.cores.len(), node.gpus.len()),
                    ..Job::default()
                },
                node: rank.0,
                start: Time(0),
                priority: None,
            })
        });
        rounds::State {
            now: self.now,
            seed: self.seed,
            kinds: Kinds::new(KINDS).expect("three names"),
            nodes: nodes.collect(),
            jobs: jobs.collect(),
            runs: runs.collect(),
            accounts: (1..USERS)
                .map(|user| Account::new(user.to_string()))
                .collect(),
            buckets: self.buckets.clone(),
            ..rounds::State::default()
        }
    }

    fn explained(&mut self, job: u64) -> eddy_wire::plan::Explained {
        self.planner.apply(Delta::Explain(Question {
            tag: 7,
            jobs: Some(vec![(JobId(job), JobId(job))]),
            most: 1,
            suppose: eddy_wire::plan::Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        }));
        let mut answers = self.planner.plan(self.now, 100).answers;
        answers.remove(0).jobs.remove(0)
    }
}

fn owner(user: u32) -> Owner {
    Owner {
        user,
        ..Owner::default()
    }
}

const BY_COST: [&str; 3] = [
    "preset = \"armada\"",
    "preset = \"armada\"\nshare.prefer_large = true",
    "preset = \"armada\"\nqueue.walk = \"stop\"",
];

const BY_SLICES: [&str; 3] = [
    "preset = \"armada-legacy\"",
    "preset = \"armada-legacy\"\nqueue.slice_basis = \"offered\"",
    "preset = \"armada-legacy\"\nqueue.remainder = \"largest_remainder\"",
];

const LIMITED: [&str; 5] = [
    "preset = \"armada\"\nqueue.lookback = 3",
    "preset = \"armada\"\nqueue.limits.rate = { per_second = 2, burst = 3 }",
    "preset = \"armada\"\nqueue.limits.account_rate = { per_second = 1, burst = 2 }",
    "preset = \"armada\"\nqueue.limits.pass_fraction = { cores = 0.3 }",
    "preset = \"armada\"\nqueue.limits.account_fraction.default = { cores = 0.4 }",
];

fn nodes() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((1u32..6, 0u32..3), 1..6)
}

fn step(slots: u32) -> impl Strategy<Value = Step> {
    let shape = (1..=slots, 1u32..4, 0u32..2);
    prop_oneof![
        8 => (1u32..5, 14u8..18, shape).prop_map(|(user, urgency, shape)| Step::Want(user, urgency, shape)),
        3 => (0u64..60).prop_map(Step::Freed),
        1 => (1u64..60).prop_map(Step::Unwant),
        4 => (0i64..900, 1u32..5).prop_map(|(passed, steps)| Step::Round(passed, steps)),
    ]
}

fn play(policy: &str, nodes: &[(u32, u32)], steps: &[Step]) {
    let mut world = World::new(policy, nodes);
    for step in steps {
        world.step(step);
    }
    world.tell(Delta::Up(Idset::new()));
    world.round(100);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rounds_by_cost_are_those_from_scratch(
        policy in prop::sample::select(BY_COST.to_vec()),
        nodes in nodes(),
        steps in prop::collection::vec(step(3), 1..60),
    ) {
        play(policy, &nodes, &steps);
    }

    #[test]
    fn rounds_by_cost_leave_out_what_is_out_of_service(
        nodes in nodes(),
        steps in prop::collection::vec(
            prop_oneof![
                6 => step(3),
                1 => (0u32..6).prop_map(Step::Down),
                1 => (0u32..6).prop_map(Step::Up),
            ],
            1..60,
        ),
    ) {
        play(BY_COST[0], &nodes, &steps);
    }

    /// No time passes: what was used is the policy's least for all.
    #[test]
    fn rounds_by_slices_are_those_from_scratch(
        policy in prop::sample::select(BY_SLICES.to_vec()),
        nodes in nodes(),
        steps in prop::collection::vec(step(3), 1..60),
    ) {
        let still = |step: &Step| match step {
            Step::Round(_, steps) => Step::Round(0, *steps),
            other => other.clone(),
        };
        let steps: Vec<Step> = steps.iter().map(still).collect();
        play(policy, &nodes, &steps);
    }

    /// A start is a token, however wide the job, and one to look at; so all are of one slot here.
    #[test]
    fn limits_hold_back_as_from_scratch(
        policy in prop::sample::select(LIMITED.to_vec()),
        nodes in nodes(),
        steps in prop::collection::vec(step(1), 1..60),
    ) {
        play(policy, &nodes, &steps);
    }
}

#[test]
fn the_account_that_costs_least_is_next() {
    // 100 cores and 40 GPUs: user 1 holds 20 % of the GPUs, user 2 15 % of the cores.
    let mut world = World::new("preset = \"armada\"", &[(100, 40)]);
    let job = |count, cores, gpus| Request {
        gpus_per_slot: gpus,
        ..slots(count, cores)
    };
    world.want(1, 16, job(8, 1, 1));
    world.want(2, 16, job(15, 1, 0));
    assert_eq!(world.round(10), [1, 2]);
    world.want(3, 16, job(1, 76, 0));
    let last = world.want(4, 16, job(1, 1, 0));
    assert_eq!(world.round(10), [3, last]);
    let (first, second) = (
        world.want(1, 16, job(1, 1, 0)),
        world.want(2, 16, job(1, 1, 0)),
    );
    // One core is there for one of the two.
    world.running.remove(&last);
    world.tell(Delta::Freed(JobId(last)));
    assert_eq!(world.round(10), [second]);
    let told = world.explained(first);
    assert!(
        matches!(told.reason, Reason::NoRoom { .. }),
        "{}",
        told.reason
    );
    let terms: Vec<(&str, f64)> = told
        .priority
        .terms
        .iter()
        .map(|term| (term.name.as_str(), term.contribution))
        .collect();
    assert_eq!(
        terms,
        [("held", -0.2), ("asked", 0.0)],
        "{:?}",
        told.priority
    );
    assert_eq!(told.priority.value, -0.2);
}

#[test]
fn a_rate_says_when_to_ask_again_and_lets_the_next_start_then() {
    let policy = "preset = \"armada\"\nqueue.limits.account_rate = { per_second = 2, burst = 1 }";
    let mut world = World::new(policy, &[(4, 0)]);
    for _ in 0..2 {
        world.want(1, 16, slots(1, 1));
    }
    assert_eq!(world.round(10), [1]);
    let outcome = world.planner.plan(world.now, 10);
    let again = outcome.again.expect("a time");
    assert!((again - world.now).0 <= MICROS / 2 + 2, "{again}");
    let told = world.explained(2);
    assert_eq!(
        told.reason.to_string(),
        "waits for queue.limits.account_rate: account 1 started as many as it may; the next may in 0.5 s"
    );
    let outcome = world.planner.plan(again, 10);
    assert_eq!(outcome.verdicts.len(), 1, "nothing else happened");
    assert_eq!(outcome.verdicts[0].0, JobId(2));
}

#[test]
fn who_used_more_gets_the_smaller_slice() {
    let mut world = World::new("preset = \"armada-legacy\"", &[(8, 0)]);
    let first = world.want(1, 16, slots(8, 1));
    assert_eq!(world.round(10), [first]);
    let hour = Time(world.now.0 + 3_600 * MICROS);
    world.tell(Delta::Freed(JobId(first)));
    for _ in 0..8 {
        world.planner.apply(Delta::Want(
            JobId(world.last + 1),
            Want {
                owner: owner(1),
                ..Want::of(16, slots(1, 1))
            },
        ));
        world.planner.apply(Delta::Want(
            JobId(world.last + 2),
            Want {
                owner: owner(2),
                ..Want::of(16, slots(1, 1))
            },
        ));
        world.last += 2;
    }
    let outcome = world.planner.plan(hour, 100);
    assert_eq!(outcome.verdicts.len(), 8);
    let of_first = outcome
        .verdicts
        .iter()
        .filter(|(job, _)| job.0 % 2 == 0)
        .count();
    assert!(
        of_first <= 2,
        "user 1 had everything for an hour: {of_first} of 8"
    );
}
