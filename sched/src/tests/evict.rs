//! Accounts that take turns take back from those above their share: by hand, and what a running
//! instance does held against a round from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;

use eddy_wire::jobspec::Request;
use eddy_wire::plan::{Delta, Owner, Verdict, Want};
use eddy_wire::preempt::{Cause, Preempts, QosRule};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Span, Time};

use super::model::{inventory, slots};
use crate::accounts::{KINDS, amounts};
use crate::amounts::Kinds;
use crate::policy::Policy;
use crate::policy::read::read;
use crate::rooms::Room;
use crate::rounds::{self, Account, Bucket, Decision, Gang, Job, Method, Node, Preemption, Run};
use crate::{Planner, feasible};

const BEGIN: Time = Time(1_000 * MICROS);
const ARMADA: &str = "preset = \"armada\"";

/// Users are accounts here. What runs is recorded at once, and who is named ends when it is told.
struct Site {
    planner: Planner,
    policy: Policy,
    inventory: Arc<ResourceSet>,
    waiting: BTreeMap<u64, (Owner, Request)>,
    running: BTreeMap<u64, (Owner, Arc<ResourceSet>)>,
    ending: BTreeMap<u64, u64>,
    now: Time,
    last: u64,
    bucket: Option<Bucket>,
    /// When the planner is to be asked again.
    again: Option<Time>,
}

fn owner(user: u32, class: &str) -> Owner {
    Owner {
        user,
        class: Some(class.parse::<Name>().expect("a name")),
        ..Owner::default()
    }
}

impl Site {
    fn new(policy: &str, cores: &[u32]) -> Site {
        let nodes: Vec<(u32, u32, u64)> = cores.iter().map(|cores| (*cores, 0, 0)).collect();
        let inventory = inventory(&nodes);
        let mut planner = Planner::new();
        planner.apply(Delta::Policy(policy.into()));
        planner.apply(Delta::Inventory(Arc::clone(&inventory)));
        planner.apply(Delta::Up(Idset::first_ids(cores.len() as u32)));
        Site {
            planner,
            policy: read(policy).expect("a policy"),
            inventory,
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            ending: BTreeMap::new(),
            now: BEGIN,
            last: 0,
            bucket: None,
            again: None,
        }
    }

    fn want(&mut self, user: u32, class: &str, request: Request) -> u64 {
        self.last += 1;
        let owner = owner(user, class);
        let want = Want {
            owner: owner.clone(),
            submitted: Time(self.last as i64),
            ..Want::of(16, request.clone())
        };
        self.waiting.insert(self.last, (owner, request));
        self.planner.apply(Delta::Want(JobId(self.last), want));
        self.last
    }

    /// Until nothing is left to be decided; those who start hold what they are given. Who is named,
    /// and for whom.
    fn plan(&mut self, passed: i64) -> BTreeMap<u64, (u64, Cause)> {
        self.now = Time(self.now.0 + passed * 1000);
        let mut named = BTreeMap::new();
        loop {
            let outcome = self.planner.plan(self.now, 50);
            for (job, verdict) in outcome.verdicts {
                match verdict {
                    Verdict::Start(set) => {
                        let (owner, _) = self.waiting.remove(&job.0).expect("it waited");
                        self.planner
                            .apply(Delta::Held(job, owner.clone(), Arc::clone(&set)));
                        self.running.insert(job.0, (owner, set));
                    }
                    Verdict::Preempt { by, cause, .. } => {
                        let until = self.now.after(Span::seconds(5));
                        self.planner.apply(Delta::Ending(job, Some(by), until));
                        self.ending.insert(job.0, by.0);
                        named.insert(job.0, (by.0, cause));
                    }
                    Verdict::Never(reason) => panic!("job {job} can run: {reason}"),
                }
            }
            if !outcome.unfinished {
                self.again = outcome.again;
                return named;
            }
        }
    }

    /// Nothing happens until the planner said that it is to be asked.
    fn wake(&mut self) -> BTreeMap<u64, (u64, Cause)> {
        let at = self.again.expect("it is to be asked again");
        assert!(at > self.now, "{at:?} is over at {:?}", self.now);
        self.plan((at - self.now).0 / 1000 + 1)
    }

    fn end(&mut self, job: u64) {
        self.running.remove(&job);
        self.ending.remove(&job);
        self.planner.apply(Delta::Freed(JobId(job)));
    }

    fn of(&self, user: u32) -> u64 {
        let all = self
            .running
            .values()
            .filter(|(owner, _)| owner.user == user);
        all.map(|(_, set)| set.ncores()).sum()
    }

    /// The state of a round from scratch, while nobody is ending.
    fn state(&self) -> rounds::State {
        let room = |cores: u64| {
            amounts(&Room {
                cores,
                gpus: 0,
                memory: 0,
            })
        };
        let nodes = self.inventory.nodes.iter().map(|(rank, node)| Node {
            rank: rank.0,
            capacity: room(node.cores.len()),
            ..Node::default()
        });
        let class = |owner: &Owner| owner.class.as_ref().expect("each has one").to_string();
        let gang = |id: &u64, count: u32| {
            (count > 1).then(|| Gang {
                id: id.to_string(),
                cardinality: count,
                minimum: count,
                uniform: None,
            })
        };
        let jobs = self.waiting.iter().flat_map(|(id, (owner, request))| {
            (0..request.slots).map(move |member| Job {
                id: JobId(id * 100 + u64::from(member)),
                account: owner.user.to_string(),
                class: class(owner),
                submit: Time(*id as i64),
                request: room(request.cores_per_slot.into()),
                gang: gang(id, request.slots),
                ..Job::default()
            })
        });
        let runs = self.running.iter().flat_map(|(id, (owner, set))| {
            (0..)
                .zip(&set.nodes)
                .map(move |(member, (rank, node))| Run {
                    job: Job {
                        id: JobId(id * 100 + member),
                        account: owner.user.to_string(),
                        class: class(owner),
                        submit: Time(*id as i64),
                        request: room(node.cores.len()),
                        gang: gang(id, set.nodes.len() as u32),
                        ..Job::default()
                    },
                    node: rank.0,
                    start: Time(set.starttime),
                    priority: None,
                })
        });
        let owners = self.waiting.values().map(|(owner, _)| owner);
        let owners = owners.chain(self.running.values().map(|(owner, _)| owner));
        let users: BTreeSet<u32> = owners.map(|owner| owner.user).collect();
        rounds::State {
            now: self.now,
            kinds: Kinds::new(KINDS).expect("three names"),
            nodes: nodes.collect(),
            jobs: jobs.collect(),
            runs: runs.collect(),
            accounts: users
                .iter()
                .map(|user| Account::new(user.to_string()))
                .collect(),
            buckets: rounds::Buckets {
                preempt: self.bucket,
                ..rounds::Buckets::default()
            },
            ..rounds::State::default()
        }
    }

    /// Who gives way to whom by a round from scratch; to nobody in particular where the one for whom
    /// it was did not start in the end, and another does there.
    fn expected(&mut self) -> Option<BTreeMap<u64, Option<u64>>> {
        let decided = rounds::schedule(&self.state(), &self.policy);
        let mut heirs = BTreeSet::new();
        let mut starts = BTreeSet::new();
        let mut expected = BTreeMap::new();
        for (member, decision) in &decided.decisions {
            match decision {
                Decision::Start { method, node, .. } => {
                    starts.insert((member.0 / 100, *node));
                    match method {
                        Method::Free => {}
                        Method::FairShare | Method::Urgency => {
                            heirs.insert(member.0 / 100);
                        }
                    }
                }
                Decision::Preempt {
                    by: Some(by), kind, ..
                } => {
                    expected
                        .entry(member.0 / 100)
                        .or_insert((by.0 / 100, *kind));
                }
                Decision::Preempt { by: None, .. }
                | Decision::Keep
                | Decision::Fail
                | Decision::Wait(_) => {}
            }
        }
        let mut told = BTreeMap::new();
        for (victim, (by, kind)) in expected {
            let (owner, set) = &self.running[&victim];
            let others =
                |heir: &u64| heirs.contains(heir) && self.waiting[heir].0.user != owner.user;
            let mut starts = starts.iter().filter(|(heir, _)| others(heir));
            let heir = match heirs.contains(&by) {
                true => Some(by),
                false => starts
                    .find(|(_, node)| set.ranks().contains(*node))
                    .map(|(heir, _)| *heir),
            };
            // For nobody, or for an equal: who counts on that does not start here.
            let heir = heir?;
            if kind == Preemption::Urgency && self.waiting[&heir].0.class == owner.class {
                return None;
            }
            told.insert(victim, Some(by).filter(|by| heirs.contains(by)));
        }
        let expected = told;
        if !expected.is_empty() {
            self.bucket = decided.buckets.preempt;
        }
        Some(expected)
    }
}

#[test]
fn an_account_takes_back_what_it_is_due() {
    let mut site = Site::new(ARMADA, &[4]);
    for _ in 0..4 {
        site.want(1, "preemptible", slots(1, 1));
    }
    assert!(site.plan(0).is_empty());
    assert_eq!(site.of(1), 4);
    // Two of four cores are due to each: the two that came last to account 1 go.
    let two = site.want(2, "preemptible", slots(1, 2));
    let named = site.plan(1000);
    let expected = [(3, (two, Cause::FairShare)), (4, (two, Cause::FairShare))];
    assert_eq!(named, BTreeMap::from(expected));
    site.end(3);
    site.plan(1);
    assert_eq!(site.of(2), 0);
    site.end(4);
    site.plan(1);
    assert_eq!((site.of(1), site.of(2)), (2, 2));
    // Both have what they are due: nobody takes any more.
    site.want(2, "preemptible", slots(1, 1));
    site.want(1, "preemptible", slots(1, 1));
    assert!(site.plan(5000).is_empty());
}

#[test]
fn a_class_that_is_not_preemptible_is_left_alone() {
    let mut site = Site::new(ARMADA, &[4]);
    for _ in 0..4 {
        site.want(1, "default", slots(1, 1));
    }
    site.plan(0);
    site.want(2, "default", slots(1, 2));
    assert!(site.plan(1000).is_empty());
}

#[test]
fn a_higher_class_takes_from_a_lower_one_whatever_the_shares() {
    let mut site = Site::new(ARMADA, &[4]);
    for _ in 0..4 {
        site.want(1, "preemptible", slots(1, 1));
    }
    site.plan(0);
    let of_same = site.want(1, "default", slots(1, 1));
    let named = site.plan(1000);
    assert_eq!(
        named.values().map(|(by, _)| *by).collect::<Vec<_>>(),
        [of_same]
    );
}

#[test]
fn the_protected_fraction_and_the_rate_are_kept() {
    let protected = format!("{ARMADA}\n[share]\nprotected_fraction = 2.5\n");
    let mut site = Site::new(&protected, &[4]);
    for _ in 0..4 {
        site.want(1, "preemptible", slots(1, 1));
    }
    site.plan(0);
    site.want(2, "preemptible", slots(1, 2));
    assert!(
        site.plan(1000).is_empty(),
        "four is less than 2.5 times two"
    );

    let slow =
        format!("{ARMADA}\n[queue.limits]\npreempt_rate = {{ per_second = 0.1, burst = 1 }}\n");
    let mut site = Site::new(&slow, &[4]);
    for _ in 0..4 {
        site.want(1, "preemptible", slots(1, 1));
    }
    site.plan(0);
    site.want(2, "preemptible", slots(1, 1));
    site.want(2, "preemptible", slots(1, 1));
    assert_eq!(site.plan(1000).len(), 1);
    let first = *site.ending.keys().next().expect("one ends");
    site.end(first);
    assert!(
        site.plan(1000).is_empty(),
        "the next token comes after 10 s"
    );
    assert_eq!(site.wake().len(), 1);
}

#[test]
fn nobody_ends_for_one_who_may_not_start_yet() {
    let policy = format!("{ARMADA}\n[queue.limits]\nrate = {{ per_second = 0.5, burst = 4 }}\n");
    let mut site = Site::new(&policy, &[4]);
    for _ in 0..4 {
        site.want(1, "preemptible", slots(1, 1));
    }
    site.plan(0);
    site.want(2, "preemptible", slots(1, 2));
    assert!(site.plan(1000).is_empty(), "there is half a token");
    assert_eq!(site.wake().len(), 2);
}

#[test]
fn who_was_given_room_starts_as_soon_as_the_rate_lets_it() {
    let policy = format!("{ARMADA}\n[queue.limits]\nrate = {{ per_second = 0.1, burst = 6 }}\n");
    let mut site = Site::new(&policy, &[4, 1]);
    for _ in 0..5 {
        site.want(1, "preemptible", slots(1, 1));
    }
    site.plan(0);
    site.want(2, "preemptible", slots(1, 2));
    let named = site.plan(1000);
    assert_eq!(named.len(), 2);
    // Another has the last token before it can start.
    let mut all = site.running.iter();
    let on_small = all.find(|(_, (_, set))| set.nodes.contains_key(&Rank(1)));
    let (&on_small, _) = on_small.expect("all nodes are full");
    site.end(on_small);
    site.want(3, "preemptible", slots(1, 1));
    site.plan(1);
    assert_eq!(site.of(3), 1);
    named.into_keys().for_each(|victim| site.end(victim));
    site.plan(1);
    assert_eq!(site.of(2), 0);
    let token = Time(BEGIN.0 + 11 * MICROS);
    while site.of(2) == 0 && site.now < token {
        site.wake();
    }
    assert_eq!(site.of(2), 2);
}

#[test]
fn who_was_spared_or_is_exempt_stays() {
    let mut site = Site::new(ARMADA, &[2]);
    let exempt = QosRule {
        exempt: Span::seconds(60),
        ..QosRule::default()
    };
    let qos = BTreeMap::from([("normal".parse().expect("a name"), exempt)]);
    let rules = Preempts {
        qos,
        grace: Span::seconds(5),
    };
    site.planner.apply(Delta::Policy("preset = \"armada\"\n[priority.factors]\ndefault_qos = \"normal\"\nqos = { normal = 0.5 }\n".into()));
    site.planner.apply(Delta::Preempts(Arc::new(rules)));
    site.want(1, "preemptible", slots(1, 1));
    site.want(1, "preemptible", slots(1, 1));
    site.plan(0);
    site.want(2, "preemptible", slots(1, 1));
    assert!(site.plan(30_000).is_empty());
    site.planner.apply(Delta::Spared(JobId(2)));
    let named = site.plan(40_000);
    assert_eq!(named.keys().copied().collect::<Vec<_>>(), [1]);
}

/// Whoever is named is named by a round from scratch, for the same job, and nobody else.
#[test]
fn the_same_give_way_as_in_a_round_from_scratch() {
    let mut named_in_all = 0;
    for seed in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let cores: Vec<u32> = (0..rng.usize(1..4)).map(|_| rng.u32(1..6)).collect();
        let mut site = Site::new(ARMADA, &cores);
        for _ in 0..12 {
            for _ in 0..rng.usize(0..5) {
                let class = if rng.u8(0..4) == 0 {
                    "default"
                } else {
                    "preemptible"
                };
                let request = slots(rng.u32(1..3), rng.u32(1..4));
                if feasible(&site.inventory, &request).is_ok() {
                    site.want(rng.u32(1..4), class, request);
                }
            }
            if rng.bool()
                && let Some(job) = site.running.keys().copied().nth(rng.usize(0..4))
            {
                site.end(job);
            }
            // All that there is room for starts first; too soon for another round with eviction.
            site.plan(0);
            for job in site.ending.keys().copied().collect::<Vec<_>>() {
                site.end(job);
            }
            assert!(site.plan(10).is_empty(), "seed {seed}");
            site.now = Time(site.now.0 + 2000 * 1000);
            site.planner.apply(Delta::Up(Idset::new()));
            let expected = site.expected();
            let named = site.plan(0);
            let told: BTreeMap<u64, u64> = named.iter().map(|(job, (by, _))| (*job, *by)).collect();
            if let Some(expected) = expected {
                assert!(told.keys().eq(expected.keys()), "seed {seed}: {told:?}");
                for (victim, by) in &expected {
                    assert!(by.is_none_or(|by| told[victim] == by), "seed {seed}");
                }
            }
            named_in_all += named.len();
            let heirs: BTreeSet<u64> = told.values().copied().collect();
            for job in told.keys() {
                site.end(*job);
            }
            site.plan(10);
            let waits: Vec<&u64> = heirs
                .iter()
                .filter(|heir| site.waiting.contains_key(heir))
                .collect();
            assert!(waits.is_empty(), "seed {seed}: {waits:?} wait on");
        }
    }
    assert!(named_in_all > 300, "{named_in_all} were named");
}
