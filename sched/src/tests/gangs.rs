//! Gangs in a planner: together or not at all, whatever else waits and by whatever policy.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_wire::gang::Gang;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::{Delta, Outcome, Owner, Question, Reason, Suppose, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Span, Time};
use proptest::prelude::*;

use super::model::{inventory, nodes, slots};
use crate::Planner;

const EASY: &str = "preset = \"easy\"";

struct Stand {
    planner: Planner,
}

fn at(seconds: i64) -> Time {
    Time((1000 + seconds) * MICROS)
}

fn gang(name: &str, size: u32) -> Gang {
    Gang {
        name: name.parse().expect("a name"),
        size,
        min: size,
        uniform: None,
    }
}

impl Stand {
    /// Nodes of so many cores each; the first so many have the property `rack=a`, the others `rack=b`.
    fn new(policy: &str, cores: &[u32], first: u32) -> Stand {
        let mut planner = Planner::new();
        planner.apply(Delta::Policy(policy.into()));
        let all: Vec<(u32, u32, u64)> = cores.iter().map(|cores| (*cores, 0, 0)).collect();
        let mut set = ResourceSet::clone(&inventory(&all));
        let ranks = Idset::first_ids(cores.len() as u32);
        let in_first = Idset::first_ids(first);
        set.properties
            .insert("rack=b".to_owned(), ranks.difference(&in_first));
        set.properties.insert("rack=a".to_owned(), in_first);
        planner.apply(Delta::Inventory(Arc::new(set)));
        planner.apply(Delta::Up(ranks));
        Stand { planner }
    }

    fn wants(&mut self, job: u64, seconds: i64, request: Request, gang: Option<Gang>) {
        let request = Request {
            duration: Some(seconds * MICROS),
            ..request
        };
        let want = Want {
            gang: gang.map(Arc::new),
            ..Want::of(16, request)
        };
        self.planner.apply(Delta::Want(JobId(job), want));
    }

    fn plan(&mut self, seconds: i64) -> Outcome {
        let mut all = Outcome::default();
        loop {
            let outcome = self.planner.plan(at(seconds), 100);
            for (job, verdict) in &outcome.verdicts {
                if let Verdict::Start(set) = verdict {
                    let held = Delta::Held(*job, Owner::default(), Arc::clone(set));
                    self.planner.apply(held);
                }
            }
            all.verdicts.extend(outcome.verdicts);
            all.together.extend(outcome.together);
            all.answers.extend(outcome.answers);
            all.head = outcome.head;
            if !outcome.unfinished {
                return all;
            }
        }
    }

    fn says(&mut self, seconds: i64) -> Vec<String> {
        let outcome = self.plan(seconds);
        outcome.verdicts.iter().map(said).collect()
    }

    fn why(&mut self, job: u64, seconds: i64) -> String {
        self.planner.apply(Delta::Explain(Question {
            tag: 1,
            jobs: Some(vec![(JobId(job), JobId(job))]),
            most: 1,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        }));
        self.plan(seconds).answers[0].jobs[0].reason.to_string()
    }
}

fn said((job, verdict): &(JobId, Verdict)) -> String {
    match verdict {
        Verdict::Start(set) => {
            let parts = set.nodes.iter();
            let parts: Vec<String> = parts
                .map(|(rank, node)| format!("{rank}/{}", node.cores))
                .collect();
            format!("start {job} {}", parts.join(" "))
        }
        Verdict::Never(reason) => format!("never {job} {reason}"),
        Verdict::Preempt { by, .. } => format!("end {job} for {by}"),
    }
}

#[test]
fn members_wait_until_all_are_there_and_start_in_one_outcome() {
    let mut stand = Stand::new(EASY, &[4, 4], 2);
    stand.wants(1, 60, slots(1, 2), Some(gang("g", 3)));
    stand.wants(2, 60, slots(1, 2), Some(gang("g", 3)));
    assert_eq!(stand.says(0), [""; 0]);
    assert_eq!(
        stand.why(1, 0),
        "waits for its gang `g`: 2 of its 3 members are ready to start"
    );
    stand.wants(3, 60, slots(1, 3), Some(gang("g", 3)));
    let outcome = stand.plan(1);
    let says: Vec<String> = outcome.verdicts.iter().map(said).collect();
    assert_eq!(says, ["start 1 0/0-1", "start 2 0/2-3", "start 3 1/0-2"]);
    assert_eq!(outcome.together, [[JobId(1), JobId(2), JobId(3)]]);
}

#[test]
fn none_starts_where_there_is_room_for_some_only() {
    let mut stand = Stand::new(EASY, &[4, 4], 2);
    stand.wants(1, 60, slots(1, 3), None);
    assert_eq!(stand.says(0), ["start 1 0/0-2"]);
    for job in 2..=3 {
        stand.wants(job, 60, slots(1, 4), Some(gang("g", 2)));
    }
    // It would end after what is reserved for the gang begins.
    stand.wants(4, 600, slots(1, 1), None);
    stand.wants(5, 20, slots(1, 1), None);
    assert_eq!(stand.says(1), ["start 5 0/3"]);
    let why = "waits for 2 places for members of gang `g` at once; 1 is free now";
    assert_eq!((stand.why(2, 1), stand.why(3, 1)), (why.into(), why.into()));
    stand.planner.apply(Delta::Freed(JobId(5)));
    stand.planner.apply(Delta::Freed(JobId(1)));
    let says = stand.says(30);
    assert_eq!(says[..2], ["start 2 0/0-3", "start 3 1/0-3"]);
}

#[test]
fn one_who_is_taken_back_leaves_the_others_waiting() {
    let mut stand = Stand::new(EASY, &[2], 1);
    stand.wants(1, 60, slots(1, 2), None);
    stand.says(0);
    for job in 2..=3 {
        stand.wants(job, 60, slots(1, 1), Some(gang("g", 2)));
    }
    assert_eq!(stand.says(0), [""; 0]);
    stand.planner.apply(Delta::Unwant(JobId(3)));
    stand.planner.apply(Delta::Freed(JobId(1)));
    assert_eq!(stand.says(1), [""; 0]);
    stand.wants(4, 60, slots(1, 1), None);
    assert_eq!(stand.says(1), ["start 4 0/0"]);
    stand.wants(5, 60, slots(1, 1), Some(gang("g", 2)));
    assert_eq!(stand.says(2), [""; 0]);
    stand.planner.apply(Delta::Freed(JobId(4)));
    assert_eq!(stand.says(3), ["start 2 0/0", "start 5 0/1"]);
}

#[test]
fn with_a_minimum_those_who_fit_nowhere_are_left_out() {
    let mut stand = Stand::new(EASY, &[2, 2], 2);
    let some = Gang {
        min: 2,
        ..gang("g", 3)
    };
    for job in 1..=3 {
        stand.wants(job, 60, slots(1, 2), Some(some.clone()));
    }
    let outcome = stand.plan(0);
    let says: Vec<String> = outcome.verdicts.iter().map(said).collect();
    assert_eq!(
        says,
        [
            "start 1 0/0-1",
            "start 2 1/0-1",
            "never 3 was left out when its gang `g` began with 2 of 3 members"
        ]
    );
    assert_eq!(outcome.together, [[JobId(1), JobId(2), JobId(3)]]);
}

#[test]
fn a_uniform_gang_is_on_nodes_of_one_value() {
    let mut stand = Stand::new(EASY, &[2, 2, 2, 2, 2], 2);
    let racked = |name| Gang {
        uniform: Some("rack".parse().expect("a name")),
        ..gang(name, 3)
    };
    for job in 1..=3 {
        stand.wants(job, 60, slots(1, 2), Some(racked("g")));
    }
    let says = stand.says(0);
    assert_eq!(says, ["start 1 2/0-1", "start 2 3/0-1", "start 3 4/0-1"]);
    let wide = Gang {
        size: 4,
        min: 4,
        ..racked("h")
    };
    for job in 4..=7 {
        stand.wants(job, 60, slots(1, 2), Some(wide.clone()));
    }
    let says = stand.says(1);
    assert_eq!(says.len(), 4);
    assert_eq!(
        says[0],
        "never 4 asks for 4 places for members of gang `h` at once on nodes of one `rack`; the instance has 3"
    );
}

#[test]
fn whole_nodes_and_parts_of_nodes_may_be_in_one_gang() {
    let mut stand = Stand::new(EASY, &[4, 4], 2);
    let whole = Request {
        sharing: Sharing::Exclusive,
        ..nodes(1, 1, 0)
    };
    stand.wants(1, 60, slots(1, 1), Some(gang("g", 3)));
    stand.wants(2, 60, whole, Some(gang("g", 3)));
    stand.wants(3, 60, slots(3, 1), Some(gang("g", 3)));
    assert_eq!(
        stand.says(0),
        ["start 1 0/0", "start 2 1/0-3", "start 3 0/1-3"]
    );
}

#[test]
fn another_policy_finds_the_gang_whole() {
    let mut stand = Stand::new("preset = \"fcfs\"", &[4], 1);
    stand.wants(1, 60, slots(1, 1), None);
    stand.says(0);
    for job in 2..=3 {
        stand.wants(job, 60, slots(1, 2), Some(gang("g", 2)));
    }
    for policy in [
        "conservative",
        "flux",
        "armada",
        "slurm-fair-tree",
        "armada-legacy",
    ] {
        let text = format!("preset = \"{policy}\"");
        stand.planner.apply(Delta::Policy(text.into()));
        assert_eq!(stand.says(1), [""; 0], "{policy}");
        assert_eq!(
            stand.why(2, 1),
            "waits for 2 places for members of gang `g` at once; 1 is free now",
            "{policy}"
        );
    }
    stand.planner.apply(Delta::Freed(JobId(1)));
    assert_eq!(stand.says(2), ["start 2 0/0-1", "start 3 0/2-3"]);
}

/// Two of three nodes are an instance's: a gang of two nodes is over, and who is behind it starts.
#[test]
fn a_gang_that_fits_only_with_nodes_of_an_instance_never_starts() {
    for policy in ["fcfs", "easy", "conservative", "armada"] {
        let mut stand = Stand::new(&format!("preset = \"{policy}\""), &[2, 2, 2], 3);
        let ground = inventory(&[(2, 0, 0), (2, 0, 0)]);
        stand.planner.apply(Delta::Ground(JobId(1), ground));
        for job in 2..=3 {
            stand.wants(job, 10, slots(1, 2), Some(gang("g", 2)));
        }
        stand.wants(4, 10, slots(1, 2), None);
        let mut said = stand.says(0);
        said.sort_unstable();
        let never = "asks for 2 places for members of gang `g` at once beside instances of a fixed \
                     size; the instance has 1";
        let never = |job: u64| format!("never {job} {never}");
        assert_eq!(
            said,
            [never(2), never(3), "start 4 2/0-1".to_owned()],
            "{policy}"
        );
    }
}

#[test]
fn a_gang_is_promised_the_first_time_at_which_all_fit() {
    let mut stand = Stand::new("preset = \"conservative\"", &[2, 2, 2], 3);
    // They end at 100, 200 and 300 s.
    for job in 1..=3 {
        stand.wants(job, 100 * job as i64, slots(1, 2), None);
    }
    stand.says(0);
    for job in 4..=5 {
        stand.wants(job, 50, slots(1, 2), Some(gang("g", 2)));
    }
    stand.planner.apply(Delta::Explain(Question {
        tag: 1,
        jobs: None,
        most: 9,
        suppose: Suppose::default(),
        wants: Vec::new(),
        lent: Vec::new(),
    }));
    let outcome = stand.plan(1);
    let told = &outcome.answers[0].jobs;
    assert_eq!(told.len(), 2, "both members are told of");
    let ends = at(0)
        .after(Span::seconds(200))
        .after(crate::cleanup::CLEANUP);
    for one in told {
        assert_eq!(one.start.and_then(|start| start.latest), Some(ends));
    }
}

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    /// A member of one of three gangs, or of none, of one or two cores, or a whole node.
    Want(u64, usize, u32),
    Unwant(u64),
    Freed(u64),
    Down(u32),
    Up(u32),
    Plan,
    Policy(usize),
}

const POLICIES: [&str; 7] = [
    "easy",
    "fcfs",
    "conservative",
    "flux",
    "armada",
    "armada-legacy",
    "slurm-fair-tree",
];

fn step() -> impl Strategy<Value = Step> {
    let job = || 1u64..16;
    prop_oneof![
        8 => (job(), 0usize..4, 0u32..4).prop_map(|(job, of, cores)| Step::Want(job, of, cores)),
        1 => job().prop_map(Step::Unwant),
        4 => job().prop_map(Step::Freed),
        1 => (0u32..4).prop_map(Step::Down),
        2 => (0u32..4).prop_map(Step::Up),
        6 => Just(Step::Plan),
        1 => (0..POLICIES.len()).prop_map(Step::Policy),
    ]
}

fn drawn(of: usize) -> Option<Gang> {
    let min = |min, size| Gang {
        min,
        ..gang("m", size)
    };
    match of {
        0 => Some(gang("two", 2)),
        1 => Some(gang("three", 3)),
        2 => Some(min(2, 4)),
        _ => None,
    }
}

proptest! {
    #[test]
    fn gangs_start_whole_whatever_happens(steps in prop::collection::vec(step(), 1..60)) {
        let mut stand = Stand::new(EASY, &[2, 2, 2, 3], 2);
        let mut held: BTreeMap<u64, Arc<ResourceSet>> = BTreeMap::new();
        let mut wants: BTreeMap<u64, Option<Gang>> = BTreeMap::new();
        for (second, step) in (0..).zip(steps) {
            match step {
                Step::Want(job, of, cores) if !held.contains_key(&job) => {
                    let request = match cores {
                        0 => Request { sharing: Sharing::Exclusive, ..nodes(1, 1, 0) },
                        cores => slots(1, cores),
                    };
                    stand.wants(job, 60, request, drawn(of));
                    wants.insert(job, drawn(of));
                }
                Step::Want(..) => {}
                Step::Unwant(job) => {
                    stand.planner.apply(Delta::Unwant(JobId(job)));
                    wants.remove(&job);
                }
                Step::Freed(job) => {
                    stand.planner.apply(Delta::Freed(JobId(job)));
                    held.remove(&job);
                }
                Step::Down(rank) => {
                    let why = eddy_wire::plan::Unavailable::Drained;
                    stand.planner.apply(Delta::Down(Idset::one(rank), why));
                }
                Step::Up(rank) => stand.planner.apply(Delta::Up(Idset::one(rank))),
                Step::Policy(at) => {
                    let text = format!("preset = \"{}\"", POLICIES[at]);
                    stand.planner.apply(Delta::Policy(text.into()));
                }
                Step::Plan => {
                    let outcome = stand.plan(second);
                    whole(&outcome, &wants)?;
                    for (JobId(job), verdict) in &outcome.verdicts {
                        if let Verdict::Start(set) = verdict {
                            let others = held.values();
                            for other in others {
                                prop_assert!(set.is_disjoint(other), "job {job}");
                            }
                            held.insert(*job, Arc::clone(set));
                        }
                        wants.remove(job);
                    }
                }
            }
        }
    }
}

/// Of each gang none start, or as many as may begin it; the others that were there are told that
/// they never do.
fn whole(outcome: &Outcome, wants: &BTreeMap<u64, Option<Gang>>) -> Result<(), TestCaseError> {
    let mut began: BTreeMap<String, (usize, Gang)> = BTreeMap::new();
    for (JobId(job), verdict) in &outcome.verdicts {
        let Some(Some(gang)) = wants.get(job) else {
            continue;
        };
        let one = began.entry(gang.name.to_string());
        let (count, _) = one.or_insert((0, gang.clone()));
        match verdict {
            Verdict::Start(_) => *count += 1,
            Verdict::Never(Reason::LeftOut { .. }) => {
                prop_assert!(gang.min < gang.size);
            }
            Verdict::Never(_) | Verdict::Preempt { .. } => {}
        }
    }
    for (name, (count, gang)) in &began {
        let min = gang.min as usize;
        prop_assert!(*count == 0 || *count >= min, "{count} of {name} start");
    }
    let together: BTreeSet<JobId> = outcome.together.iter().flatten().copied().collect();
    let starts = outcome.verdicts.iter();
    for (job, _) in starts.filter(|(_, verdict)| matches!(verdict, Verdict::Start(_))) {
        let in_gang = wants.get(&job.0).is_some_and(Option::is_some);
        prop_assert_eq!(together.contains(job), in_gang);
    }
    Ok(())
}

#[test]
fn ranks_that_members_name_are_all_they_may_have() {
    let mut stand = Stand::new(EASY, &[2, 2], 2);
    let on = |rank| Request {
        ranks: Some(Idset::one(rank)),
        ..slots(1, 1)
    };
    stand.wants(1, 60, on(1), Some(gang("g", 2)));
    stand.wants(2, 60, on(1), Some(gang("g", 2)));
    assert_eq!(stand.says(0), ["start 1 1/0", "start 2 1/1"]);
    stand.wants(3, 60, on(7), Some(gang("h", 2)));
    stand.wants(4, 60, on(0), Some(gang("h", 2)));
    let says = stand.says(1);
    assert_eq!(
        says,
        [
            "never 3 asks for ranks 7, which the instance does not have",
            "never 4 asks for ranks 7, which the instance does not have"
        ]
    );
}
#[test]
fn a_gang_takes_tokens_and_starts() {
    let mut stand = Stand::new(
        "preset = \"armada\"\nqueue.limits.rate = { per_second = 1, burst = 2 }",
        &[4, 4, 4, 4, 4],
        5,
    );
    let some = Gang {
        min: 2,
        ..gang("g", 3)
    };
    for job in 1..=3 {
        stand.wants(job, 60, slots(1, 3), Some(some.clone()));
    }
    assert_eq!(
        stand.says(0),
        ["start 1 0/0-2", "start 2 1/0-2", "start 3 2/0-2"]
    );
    // It took three of two tokens.
    stand.wants(4, 60, slots(1, 1), None);
    assert_eq!(stand.says(1), [""; 0]);
    assert_eq!(stand.says(3).len(), 1);
}
