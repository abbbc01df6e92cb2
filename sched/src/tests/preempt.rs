//! Who is taken from, by numbers that one can follow: QoS and classes over the walk of a policy.

mod anew;

use std::sync::Arc;

use eddy_wire::account::Name;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::{
    Delta, Gives, Outcome, Owner, Question, Reason, Suppose, Unavailable, Verdict, Want,
};
use eddy_wire::preempt::{Preempts, QosRule};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::{MICROS, Span, Time};

use super::model::{inventory, nodes, slots};
use crate::Planner;

const GRACE: Span = Span::seconds(5);

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(super) fn at(seconds: i64) -> Time {
    Time(seconds * MICROS)
}

/// `high` may take from `mid` and `low`, `mid` from `low`; jobs of `mid` not in their first 100 s.
fn rules() -> Preempts {
    let rule = |preempts: &[&str], exempt: i64| QosRule {
        preempts: preempts.iter().map(|one| name(one)).collect(),
        exempt: Span::seconds(exempt),
        grace: None,
    };
    let qos = [
        ("high", rule(&["mid", "low"], 0)),
        ("mid", rule(&["low"], 100)),
        ("low", rule(&[], 0)),
    ];
    Preempts {
        qos: qos
            .into_iter()
            .map(|(qos, rule)| (name(qos), rule))
            .collect(),
        grace: GRACE,
    }
}

/// A planner, and what it said.
pub(super) struct Stand {
    planner: Planner,
}

impl Stand {
    /// Nodes of so many cores.
    pub(super) fn new(policy: &str, cores: &[u32]) -> Stand {
        let mut planner = Planner::new();
        planner.apply(Delta::Policy(policy.into()));
        planner.apply(Delta::Preempts(Arc::new(rules())));
        let all: Vec<(u32, u32, u64)> = cores.iter().map(|cores| (*cores, 0, 0)).collect();
        planner.apply(Delta::Inventory(inventory(&all)));
        planner.apply(Delta::Up(Idset::first_ids(cores.len() as u32)));
        Stand { planner }
    }

    /// `3 low 1/0-3 2/0`: job, QoS, and cores of ranks, since that second.
    pub(super) fn holds(&mut self, since: i64, text: &str) {
        let words: Vec<&str> = text.split_whitespace().collect();
        let parts = words[2..].iter().map(|part| {
            let (rank, cores) = part.split_once('/').expect("rank/cores");
            let node = NodeSet {
                host: format!("node{rank}").into(),
                cores: cores.parse().expect("cores"),
                gpus: Idset::new(),
                memory: 0,
                ..NodeSet::default()
            };
            (Rank(rank.parse().expect("a rank")), node)
        });
        let set = ResourceSet {
            nodes: parts.collect(),
            starttime: at(since).0,
            expiration: at(since + 10_000).0,
            ..ResourceSet::default()
        };
        let job = JobId(words[0].parse().expect("a job"));
        self.planner
            .apply(Delta::Held(job, owner(words[1]), Arc::new(set)));
    }

    pub(super) fn wants(&mut self, job: u64, who: &str, request: Request) {
        let want = Want {
            owner: owner(who),
            submitted: Time(job as i64),
            eligible: Time(job as i64),
            ..Want::of(16, request)
        };
        self.planner.apply(Delta::Want(JobId(job), want));
    }

    pub(super) fn apply(&mut self, delta: Delta) {
        self.planner.apply(delta);
    }

    fn plan(&mut self, seconds: i64) -> Outcome {
        self.plan_in(seconds, 100)
    }

    /// In slices of so many verdicts.
    pub(super) fn plan_in(&mut self, seconds: i64, steps: u32) -> Outcome {
        let mut all = Outcome::default();
        loop {
            let outcome = self.planner.plan(at(seconds), steps);
            all.verdicts.extend(outcome.verdicts);
            (all.head, all.again) = (outcome.head, outcome.again);
            all.answers.extend(outcome.answers);
            if !outcome.unfinished {
                return all;
            }
        }
    }

    /// In words: `start 7 1/0-3`, `end 3 for 7`.
    pub(super) fn says(&mut self, seconds: i64) -> Vec<String> {
        self.plan(seconds).verdicts.iter().map(said).collect()
    }

    pub(super) fn why(&mut self, job: u64, seconds: i64) -> Reason {
        self.apply(Delta::Explain(Question {
            tag: 1,
            jobs: Some(vec![(JobId(job), JobId(job))]),
            most: 1,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        }));
        let outcome = self.plan(seconds);
        outcome.answers[0].jobs[0].reason.clone()
    }
}

pub(super) fn said((job, verdict): &(JobId, Verdict)) -> String {
    match verdict {
        Verdict::Start(set) => {
            let parts = set.nodes.iter();
            let parts: Vec<String> = parts
                .map(|(rank, node)| format!("{rank}/{}", node.cores))
                .collect();
            format!("start {job} {}", parts.join(" "))
        }
        Verdict::Never(reason) => format!("never {job} {reason}"),
        Verdict::Preempt {
            ranks: None, by, ..
        } => format!("end {job} for {by}"),
        Verdict::Preempt {
            ranks: Some(ranks),
            by,
            ..
        } => format!("{job} gives {ranks} to {by}"),
    }
}

/// `low`, or `low/class`.
pub(super) fn owner(text: &str) -> Owner {
    let (qos, class) = match text.split_once('/') {
        Some((qos, class)) => (qos, Some(name(class))),
        None => (text, None),
    };
    Owner {
        qos: Some(name(qos)),
        class,
        ..Owner::default()
    }
}

pub(super) const EASY: &str = "preset = \"easy\"";
pub(super) const FCFS: &str = "preset = \"fcfs\"";

pub(super) fn limited(request: Request, seconds: i64) -> Request {
    Request {
        duration: Some(seconds * MICROS),
        ..request
    }
}

#[test]
fn the_fewest_give_way() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    // Two of the later would do as well as one of the earlier.
    stand.holds(1, "1 low 0/0-3");
    stand.holds(2, "2 low 1/0-1");
    stand.holds(3, "3 low 1/2-3");
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
}

#[test]
fn of_equals_the_last_to_be_granted_goes_first() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(2, "1 low 0/0-3");
    stand.holds(1, "2 low 1/0-3");
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
}

#[test]
fn the_lower_qos_goes_first_though_it_was_granted_earlier() {
    let policy = "preset = \"easy\"\n[priority.factors]\ndefault_qos = \"low\"\n\
        qos = { high = 1.0, mid = 0.5, low = 0.0 }\n";
    let mut stand = Stand::new(policy, &[4, 4]);
    stand.holds(1, "1 low 0/0-3");
    stand.holds(2, "2 mid 1/0-3");
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(200), ["end 1 for 7"]);
}

#[test]
fn of_a_nodes_victims_as_few_as_do_and_the_later_ones() {
    let mut stand = Stand::new(EASY, &[8]);
    stand.holds(1, "1 low 0/0-3");
    stand.holds(3, "2 low 0/4");
    stand.holds(2, "3 low 0/5-6");
    // One core is free. Three more are needed: of 4, 1 and 2 cores the first alone, or the others both.
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
    // For two more any of 4 and 2 cores alone: the later.
    let mut stand = Stand::new(EASY, &[8]);
    stand.holds(1, "1 low 0/0-3");
    stand.holds(3, "2 low 0/4");
    stand.holds(2, "3 low 0/5-6");
    stand.wants(7, "high", slots(1, 3));
    assert_eq!(stand.says(10), ["end 3 for 7"]);
}

#[test]
fn one_who_spans_nodes_counts_once() {
    let mut stand = Stand::new(EASY, &[4, 4, 4]);
    stand.holds(1, "1 low 0/0-3 1/0-3");
    stand.holds(2, "2 low 2/0-3");
    stand.wants(7, "high", nodes(2, 1, 4));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
}

#[test]
fn a_whole_node_is_cleared_of_all_who_share_it() {
    let whole = Request {
        sharing: Sharing::Exclusive,
        ..nodes(1, 1, 1)
    };
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(1, "1 low 0/0-1");
    stand.holds(2, "2 high 0/2-3");
    stand.holds(3, "3 low 1/0");
    stand.holds(4, "4 low 1/1");
    stand.wants(7, "high", whole);
    // On the first node is one whom nobody may take from.
    assert_eq!(stand.says(10), ["end 4 for 7", "end 3 for 7"]);
}

#[test]
fn nobody_takes_from_an_equal_or_from_who_is_above() {
    let mut stand = Stand::new(EASY, &[4]);
    stand.holds(1, "1 high 0/0-3");
    stand.wants(7, "high", slots(1, 4));
    stand.wants(8, "mid", slots(1, 4));
    assert!(stand.says(500).is_empty());
}

#[test]
fn within_its_exempt_time_a_job_is_left_alone() {
    let mut stand = Stand::new(EASY, &[4]);
    stand.holds(10, "1 mid 0/0-3");
    stand.wants(7, "high", slots(1, 4));
    let outcome = stand.plan(50);
    assert!(outcome.verdicts.is_empty());
    assert_eq!(outcome.again, Some(at(110)));
    assert_eq!(stand.says(110), ["end 1 for 7"]);
}

#[test]
fn one_that_is_spared_is_left_alone() {
    let mut stand = Stand::new(EASY, &[4]);
    stand.holds(1, "1 low 0/0-3");
    stand.apply(Delta::Spared(JobId(1)));
    stand.wants(7, "high", slots(1, 4));
    assert!(stand.says(10).is_empty());
}

#[test]
fn what_ends_anyway_is_waited_for() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(1, "1 low 0/0-3");
    stand.holds(1, "2 low 1/0-3");
    stand.apply(Delta::Ending(JobId(1), None, at(12)));
    stand.wants(7, "high", slots(1, 4));
    assert!(stand.says(10).is_empty());
    stand.apply(Delta::Freed(JobId(1)));
    assert_eq!(stand.says(11), ["start 7 0/0-3"]);
}

#[test]
fn what_does_not_end_in_a_minute_is_counted_on_no_more() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(1, "1 low 0/0-3");
    stand.holds(1, "2 low 1/0-3");
    stand.apply(Delta::Ending(JobId(1), None, at(12)));
    stand.wants(7, "high", slots(1, 4));
    let outcome = stand.plan(10);
    assert_eq!((outcome.verdicts.len(), outcome.again), (0, Some(at(72))));
    assert!(stand.says(71).is_empty());
    assert_eq!(stand.says(72), ["end 2 for 7"]);
}

#[test]
fn nobody_else_gets_what_is_kept() {
    let mut stand = Stand::new(EASY, &[4]);
    stand.holds(1, "1 low 0/0-1");
    stand.wants(7, "high", limited(slots(1, 4), 60));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
    stand.wants(8, "low", limited(slots(1, 1), 1));
    assert!(stand.says(10).is_empty());
    stand.apply(Delta::Ending(JobId(1), Some(JobId(7)), at(15)));
    stand.wants(9, "high", limited(slots(1, 2), 1));
    assert!(stand.says(11).is_empty());
    stand.apply(Delta::Freed(JobId(1)));
    assert_eq!(stand.says(12), ["start 7 0/0-3"]);
}

#[test]
fn who_waits_no_more_keeps_nothing() {
    let mut stand = Stand::new(EASY, &[4]);
    stand.holds(1, "1 low 0/0-1");
    stand.wants(7, "high", limited(slots(1, 4), 60));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
    stand.wants(8, "low", limited(slots(1, 1), 1));
    assert!(stand.says(10).is_empty());
    stand.apply(Delta::Unwant(JobId(7)));
    assert_eq!(stand.says(11), ["start 8 0/2"]);
}

#[test]
fn a_verdict_that_came_to_nothing_is_forgotten() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(2, "1 low 0/0-3");
    stand.holds(1, "2 low 1/0-3");
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
    stand.apply(Delta::Spared(JobId(1)));
    stand.apply(Delta::Kept(JobId(1), at(10)));
    assert_eq!(stand.says(11), ["end 2 for 7"]);
}

#[test]
fn a_planner_made_anew_keeps_it_again() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(2, "1 low 0/0-1");
    stand.apply(Delta::Ending(JobId(1), Some(JobId(7)), at(15)));
    stand.holds(1, "2 low 1/0-3");
    stand.wants(7, "high", limited(slots(1, 4), 60));
    stand.wants(8, "low", limited(slots(1, 1), 1));
    assert!(stand.says(11).is_empty());
    assert_eq!(
        stand.why(7, 11),
        Reason::Preempting {
            jobs: vec![JobId(1)],
            others: 0,
            within: Span::seconds(4)
        }
    );
    stand.apply(Delta::Freed(JobId(1)));
    assert_eq!(stand.says(12), ["start 7 0/0-3"]);
}

/// The node on which one ends for job 7 serves no more, and another is to end in his place.
fn displaced(why: Unavailable) -> Stand {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(2, "1 low 0/0-3");
    stand.holds(1, "2 low 1/0-3");
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
    stand.apply(Delta::Ending(JobId(1), Some(JobId(7)), at(15)));
    stand.apply(Delta::Down(Idset::one(0), why));
    assert_eq!(stand.says(11), ["end 2 for 7"]);
    stand
}

#[test]
fn a_drained_node_is_kept_for_nobody() {
    displaced(Unavailable::Drained);
}

#[test]
fn first_come_first_served_lets_only_those_pass_who_stand_above_all_ahead() {
    let mut stand = Stand::new(FCFS, &[4]);
    stand.holds(1, "1 low 0/0-3");
    stand.wants(5, "low", slots(1, 4));
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
    let mut stand = Stand::new(FCFS, &[4]);
    stand.holds(1, "1 low 0/0-3");
    stand.wants(5, "none", slots(1, 4));
    stand.wants(7, "high", slots(1, 4));
    assert!(stand.says(10).is_empty());
}

#[test]
fn classes_take_from_lower_ones_that_allow_it() {
    let policy = "preset = \"easy\"\n[placement]\nladder = [\"free\", \"urgency\"]\n\
        [placement.classes.top]\npriority = 3\nurgency_preemptible = false\n\
        [placement.classes.firm]\npriority = 1\nurgency_preemptible = false\n\
        [placement.classes.soft]\npriority = 1\nurgency_preemptible = true\n";
    let mut stand = Stand::new(policy, &[4, 4]);
    stand.holds(2, "1 none/firm 0/0-3");
    stand.holds(1, "2 none/soft 1/0-3");
    stand.wants(7, "none/top", slots(1, 4));
    assert_eq!(stand.says(10), ["end 2 for 7"]);
    // Without the rung nobody takes.
    let policy = policy.replace(", \"urgency\"", "");
    let mut stand = Stand::new(&policy, &[4, 4]);
    stand.holds(2, "1 none/firm 0/0-3");
    stand.holds(1, "2 none/soft 1/0-3");
    stand.wants(7, "none/top", slots(1, 4));
    assert!(stand.says(10).is_empty());
}

#[test]
fn a_promise_to_who_stands_below_is_no_obstacle_and_one_to_an_equal_is() {
    let conservative = "preset = \"conservative\"";
    let run = |other: &str| {
        let mut stand = Stand::new(conservative, &[4]);
        stand.holds(0, "1 low 0/0-3");
        stand.wants(5, other, limited(slots(1, 4), 100));
        assert!(stand.says(10).iter().all(|said| said.ends_with("for 5")));
        stand.wants(7, "high", limited(slots(1, 4), 100));
        stand.says(11)
    };
    assert_eq!(run("low"), ["end 1 for 7"]);
    assert!(run("high").is_empty());
}

#[test]
fn two_who_take_have_each_their_own() {
    let mut stand = Stand::new(EASY, &[2, 2, 2]);
    stand.holds(1, "1 low 0/0-1");
    stand.holds(2, "2 low 1/0-1");
    stand.holds(3, "3 low 2/0-1");
    stand.wants(7, "high", slots(1, 2));
    stand.wants(8, "mid", slots(1, 2));
    assert_eq!(stand.says(10), ["end 3 for 7", "end 2 for 8"]);
    for (victim, by) in [(3, 7), (2, 8)] {
        stand.apply(Delta::Ending(JobId(victim), Some(JobId(by)), at(15)));
    }
    stand.apply(Delta::Freed(JobId(2)));
    assert_eq!(stand.says(11), ["start 8 1/0-1"]);
    stand.apply(Delta::Freed(JobId(3)));
    assert_eq!(stand.says(12), ["start 7 2/0-1"]);
}

#[test]
fn who_is_suspended_gives_cores_and_no_memory_and_keeps_his_node_from_who_wants_it_whole() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    let keeps = |stand: &mut Stand, job: u64, rank: u32, memory: u64| {
        let node = NodeSet {
            host: format!("node{rank}").into(),
            cores: "0-3".parse().expect("cores"),
            gpus: Idset::new(),
            memory,
            ..NodeSet::default()
        };
        let set = ResourceSet {
            nodes: [(Rank(rank), node)].into(),
            expiration: at(10_000).0,
            ..ResourceSet::default()
        };
        stand.apply(Delta::Held(JobId(job), owner("low"), Arc::new(set)));
        stand.apply(Delta::Gives(JobId(job), Gives::Cores));
    };
    keeps(&mut stand, 1, 0, 1);
    keeps(&mut stand, 2, 1, 0);
    let whole = Request {
        sharing: Sharing::Exclusive,
        ..nodes(1, 1, 0)
    };
    stand.wants(7, "high", whole.clone());
    assert_eq!(stand.says(10), ["end 2 for 7"]);
    // Of the first the cores are to be had.
    stand.wants(8, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["end 1 for 8"]);
    stand.apply(Delta::Ending(JobId(1), Some(JobId(8)), at(15)));
    let left = NodeSet {
        host: "node0".into(),
        cores: Idset::new(),
        gpus: Idset::new(),
        memory: 1,
        ..NodeSet::default()
    };
    let left = ResourceSet {
        nodes: [(Rank(0), left)].into(),
        ..ResourceSet::default()
    };
    stand.apply(Delta::Rests(JobId(1), None, Arc::new(left)));
    assert_eq!(stand.says(11), ["start 8 0/0-3"]);
    // All of both nodes is taken by those who stand as high.
    stand.wants(9, "high", whole);
    assert!(stand.says(12).is_empty());
}

#[test]
fn one_that_hangs_on_a_node_that_is_needed_no_more_is_not_waited_for() {
    let mut stand = displaced(Unavailable::Offline);
    stand.apply(Delta::Ending(JobId(2), Some(JobId(7)), at(16)));
    // Said again, as with each record of it.
    stand.apply(Delta::Ending(JobId(1), Some(JobId(7)), at(15)));
    stand.apply(Delta::Freed(JobId(2)));
    assert_eq!(stand.says(12), ["start 7 1/0-3"]);
}
