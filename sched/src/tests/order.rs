//! Whose turn it is by a policy's formulas: fair share within a pass and over
//! time, urgency, thresholds, and a policy that changes while jobs wait.

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::job::Place;
use eddy_wire::jobspec::Request;
use eddy_wire::plan::{
    Delta, Explained, Owner, Question, Reason, Suppose, Unavailable, Verdict, Want,
};
use eddy_wire::time::MICROS;

use super::model::{inventory, nodes};
use crate::Planner;

const NOW: Time = Time(1_000 * MICROS);

fn planner(policy: &str, ranks: u32) -> Planner {
    let mut planner = Planner::new();
    planner.apply(Delta::Policy(policy.into()));
    planner.apply(Delta::Inventory(inventory(&vec![
        (4, 0, 0);
        ranks as usize
    ])));
    planner.apply(Delta::Up(Idset::first_ids(ranks)));
    planner
}

fn want(user: u32, urgency: u8) -> Want {
    Want {
        urgency,
        owner: Owner {
            user,
            ..Owner::default()
        },
        submitted: NOW,
        eligible: NOW,
        ..Want::of(
            urgency,
            Request {
                duration: Some(3_600 * MICROS),
                ..nodes(1, 1, 4)
            },
        )
    }
}

/// Plans once and records what starts.
fn starts(planner: &mut Planner, now: Time, user: impl Fn(JobId) -> u32) -> Vec<u64> {
    let mut started = Vec::new();
    loop {
        let outcome = planner.plan(now, 1_000);
        for (job, verdict) in outcome.verdicts {
            let Verdict::Start(set) = verdict else {
                panic!("job {job} can run");
            };
            let owner = Owner {
                user: user(job),
                ..Owner::default()
            };
            planner.apply(Delta::Held(job, owner, set));
            started.push(job.0);
        }
        if !outcome.unfinished {
            return started;
        }
    }
}

fn explained(planner: &mut Planner, job: u64) -> Explained {
    explained_at(planner, job, NOW)
}

fn explained_at(planner: &mut Planner, job: u64, now: Time) -> Explained {
    let jobs = Some(vec![(JobId(job), JobId(job))]);
    let question = Question {
        tag: 7,
        jobs,
        most: 10,
        suppose: Suppose::default(),
        wants: Vec::new(),
        lent: Vec::new(),
    };
    planner.apply(Delta::Explain(question));
    let mut answers = planner.plan(now, 1_000).answers;
    assert_eq!((answers.len(), answers[0].tag), (1, 7));
    answers.remove(0).jobs.remove(0)
}

/// Jobs 1 to 20 are user 1's, 21 to 40 user 2's.
fn halves(job: JobId) -> u32 {
    if job.0 <= 20 { 1 } else { 2 }
}

fn two_users(policy: &str) -> Planner {
    let mut planner = planner(policy, 10);
    for job in 1..=40 {
        let job = JobId(job);
        planner.apply(Delta::Want(job, want(halves(job), 16)));
    }
    planner
}

#[test]
fn a_pass_with_all_free_gives_each_user_the_same() {
    let mut planner = two_users("preset = \"flux\"");
    let started = starts(&mut planner, NOW, halves);
    let first = started.iter().filter(|job| **job <= 20).count();
    assert_eq!((started.len(), first), (10, 5), "{started:?}");
}

/// As after an outage: all nodes are free, and more wait than are lined up anew at each start.
#[test]
fn a_pass_with_all_free_gives_each_user_the_same_however_many_wait() {
    const EACH: u64 = 4000;
    let whose = |job: JobId| 1 + u32::from(job.0 > EACH);
    let mut planner = planner("preset = \"flux\"", 1000);
    for job in 1..=2 * EACH {
        let job = JobId(job);
        planner.apply(Delta::Want(job, want(whose(job), 16)));
    }
    let started = starts(&mut planner, NOW, whose);
    let first = started.iter().filter(|job| **job <= EACH).count();
    assert_eq!(started.len(), 1000);
    assert!((480..=520).contains(&first), "{first} of 1000");
}

/// What is kept free beyond a limit is nobody's use.
#[test]
fn what_runs_is_planned_to_use_what_it_may_up_to_its_limit() {
    let mut planner = planner("preset = \"flux\"", 1);
    planner.apply(Delta::Want(JobId(1), want(1, 16)));
    assert_eq!(starts(&mut planner, NOW, |_| 1), [1]);
    planner.apply(Delta::Shares(1));
    let told = planner.plan(NOW, 1000).shares.expect("asked for");
    let planned: Vec<f64> = told.rows.iter().map(|row| row.planned).collect();
    assert_eq!(planned, [14_400.0, 14_400.0], "four cores for an hour");
}

/// All of a machine is promised to a user for whom it runs already; then comes one who had nothing.
#[test]
fn a_promise_is_given_up_for_who_came_later_and_is_due_more() {
    let promised = |margin: &str| {
        let policy = format!("preset = \"flux\"\nqueue = {{ displace_margin = {margin} }}");
        let mut planner = planner(&policy, 1);
        planner.apply(Delta::Want(JobId(1), want(1, 16)));
        planner.apply(Delta::Want(JobId(2), want(1, 16)));
        assert_eq!(starts(&mut planner, NOW, |_| 1), [1]);
        planner.apply(Delta::Want(JobId(3), want(2, 16)));
        // The order is made anew once in a while.
        let later = Time(NOW.0 + 60 * MICROS);
        assert!(starts(&mut planner, later, |_| 1).is_empty());
        let start = |told: Explained| told.start.and_then(|start| start.latest);
        let [second, third] = [2, 3].map(|job| start(explained_at(&mut planner, job, later)));
        assert!(second.is_some() && third.is_some());
        third < second
    };
    assert!(promised("0"));
    // Half of each value is that of their QoS, so that nobody is twice as good.
    assert!(!promised("1"));
}

/// Two who are due the same, each promised a start: who has waited longer is first as long as they wait, however long
/// after it came each was promised that.
#[test]
fn who_has_promises_are_in_the_order_of_what_they_are_due_now() {
    let mut planner = planner("preset = \"flux\"", 1);
    planner.apply(Delta::Want(JobId(1), want(1, 16)));
    assert_eq!(starts(&mut planner, NOW, |_| 1), [1]);
    let came = |user: u32, seconds: i64| {
        let at = Time(NOW.0 + seconds * MICROS);
        let want = Want {
            submitted: at,
            eligible: at,
            ..want(user, 16)
        };
        (want, at)
    };
    let (second, at) = came(2, 0);
    planner.apply(Delta::Want(JobId(2), second));
    assert!(starts(&mut planner, at, |_| 1).is_empty());
    let (third, at) = came(3, 1);
    planner.apply(Delta::Want(JobId(3), third));
    let later = Time(at.0 + 60 * MICROS);
    assert!(starts(&mut planner, later, |_| 1).is_empty());
    let ahead = [2, 3].map(|job| explained_at(&mut planner, job, later).ahead);
    assert_eq!(ahead, [0, 1]);
    planner.apply(Delta::Freed(JobId(1)));
    assert_eq!(starts(&mut planner, later, |_| 1), [2]);
}

#[test]
fn a_promise_is_given_up_for_who_goes_before_every_value() {
    for margin in ["0", "1"] {
        let policy = format!("preset = \"flux\"\nqueue = {{ displace_margin = {margin} }}");
        let mut planner = planner(&policy, 1);
        planner.apply(Delta::Want(JobId(1), want(1, 16)));
        planner.apply(Delta::Want(JobId(2), want(1, 16)));
        assert_eq!(starts(&mut planner, NOW, |_| 1), [1]);
        // Both come after it, and are level with each other.
        planner.apply(Delta::Want(JobId(3), want(1, 31)));
        planner.apply(Delta::Want(JobId(4), want(1, 31)));
        let later = Time(NOW.0 + MICROS);
        assert!(starts(&mut planner, later, |_| 1).is_empty());
        let mut order: Vec<u64> = Vec::new();
        for job in [1, 3, 4] {
            planner.apply(Delta::Freed(JobId(job)));
            order.extend(starts(&mut planner, later, |_| 1));
        }
        assert_eq!(order, [3, 4, 2], "by a margin of {margin}");
    }
}

#[test]
fn a_static_pass_looks_at_what_was_used_before_it() {
    let mut planner = two_users("preset = \"flux\"\nshare = { within_pass = \"static\" }");
    assert_eq!(
        starts(&mut planner, NOW, halves),
        (1..=10).collect::<Vec<_>>()
    );
    let later = Time(NOW.0 + 3_600 * MICROS);
    for job in 1..=10 {
        planner.apply(Delta::Freed(JobId(job)));
    }
    let next = starts(&mut planner, later, halves);
    assert_eq!(
        next,
        (21..=30).collect::<Vec<_>>(),
        "user 1 has used the hour"
    );
}

#[test]
fn who_is_expedited_goes_before_every_value() {
    let mut planner = planner("preset = \"flux\"", 1);
    planner.apply(Delta::Want(JobId(1), want(1, 16)));
    planner.apply(Delta::Want(JobId(2), want(2, 31)));
    assert_eq!(starts(&mut planner, NOW, |job| job.0 as u32), [2]);
}

#[test]
fn a_value_at_the_threshold_is_not_run_and_says_so() {
    let policy = "preset = \"easy\"\npriority = { threshold = 10 }";
    let mut planner = planner(policy, 2);
    planner.apply(Delta::Want(JobId(1), want(1, 10)));
    planner.apply(Delta::Want(JobId(2), want(1, 11)));
    assert_eq!(starts(&mut planner, NOW, |_| 1), [2]);
    let told = explained(&mut planner, 1);
    assert!(
        matches!(told.reason, Reason::BelowThreshold { .. }),
        "{}",
        told.reason
    );
    planner.apply(Delta::Policy("preset = \"easy\"".into()));
    assert_eq!(starts(&mut planner, NOW, |_| 1), [1]);
}

#[test]
fn another_policy_is_obeyed_while_jobs_wait() {
    let mut planner = planner("preset = \"fcfs\"", 2);
    let wide = Request {
        duration: Some(3_600 * MICROS),
        ..nodes(2, 1, 4)
    };
    planner.apply(Delta::Want(JobId(1), want(1, 16)));
    assert_eq!(starts(&mut planner, NOW, |_| 1), [1]);
    planner.apply(Delta::Want(JobId(2), Want::of(16, wide)));
    planner.apply(Delta::Want(JobId(3), want(1, 16)));
    assert_eq!(starts(&mut planner, NOW, |_| 1), Vec::<u64>::new());
    let told = explained(&mut planner, 3);
    assert!(
        matches!(told.reason, Reason::Behind { head: JobId(2), .. }),
        "{}",
        told.reason
    );
    planner.apply(Delta::Policy("preset = \"easy\"".into()));
    assert_eq!(
        starts(&mut planner, NOW, |_| 1),
        [3],
        "it ends before job 2 could begin"
    );
    planner.apply(Delta::Policy("no policy".into()));
    planner.apply(Delta::Freed(JobId(1)));
    planner.apply(Delta::Freed(JobId(3)));
    assert_eq!(starts(&mut planner, NOW, |_| 1), [2]);
}

/// The younger is worth more with each second: after some time it is ahead, also where accounts take
/// turns.
#[test]
fn who_overtakes_while_all_wait_is_next() {
    for preset in [
        "fcfs",
        "easy",
        "conservative",
        "hybrid",
        "armada",
        "armada-legacy",
    ] {
        let policy = format!("preset = \"{preset}\"\npriority.order = [\"eligible * urgency\"]");
        let mut planner = planner(&policy, 1);
        planner.apply(Delta::Want(JobId(1), want(1, 16)));
        assert_eq!(starts(&mut planner, NOW, |_| 1), [1]);
        for (job, urgency, seconds) in [(2, 10, 100), (3, 20, 10)] {
            let want = Want {
                eligible: Time(NOW.0 - seconds * MICROS),
                ..want(1, urgency)
            };
            planner.apply(Delta::Want(JobId(job), want));
        }
        assert!(starts(&mut planner, NOW, |_| 1).is_empty(), "{preset}");
        let later = Time(NOW.0 + 3_000 * MICROS);
        assert!(starts(&mut planner, later, |_| 1).is_empty(), "{preset}");
        planner.apply(Delta::Freed(JobId(1)));
        assert_eq!(starts(&mut planner, later, |_| 1), [3], "{preset}");
    }
}

#[test]
fn a_filler_is_told_whom_it_would_delay() {
    let mut planner = planner("preset = \"easy\"", 2);
    planner.apply(Delta::Want(JobId(1), want(1, 16)));
    starts(&mut planner, NOW, |_| 1);
    planner.apply(Delta::Want(JobId(2), Want::of(16, nodes(2, 1, 4))));
    planner.apply(Delta::Want(JobId(3), Want::of(16, nodes(1, 1, 4))));
    assert_eq!(starts(&mut planner, NOW, |_| 1), Vec::<u64>::new());
    let told = explained(&mut planner, 3);
    assert!(
        matches!(told.reason, Reason::WouldDelay { job: JobId(2), .. }),
        "{}",
        told.reason
    );
    let head = explained(&mut planner, 2);
    let start = head.start.and_then(|start| start.latest).expect("a time");
    assert!(
        start > NOW && start <= Time(NOW.0 + 3_700 * MICROS),
        "{start:?}"
    );
}

#[test]
fn the_terms_of_a_value_add_up() {
    let mut planner = two_users("preset = \"flux\"");
    starts(&mut planner, NOW, halves);
    let told = explained(&mut planner, 20);
    let sum: f64 = told
        .priority
        .terms
        .iter()
        .map(|term| term.contribution)
        .sum();
    assert!(
        (sum - told.priority.value).abs() < 1e-6,
        "{:?}",
        told.priority
    );
    let share = told
        .priority
        .terms
        .iter()
        .find(|term| term.name == "fair_share");
    assert_eq!(share.map(|term| term.weight), Some(100_000.0));
    assert!(told.ahead > 0);
}

#[test]
fn one_that_can_never_run_is_told_once_by_every_walk() {
    for preset in [
        "fcfs",
        "easy",
        "easy-sjbf",
        "easy-sjf",
        "hybrid",
        "conservative",
    ] {
        let mut planner = planner(&format!("preset = \"{preset}\""), 2);
        let three = Want {
            request: nodes(3, 1, 4),
            ..want(1, 16)
        };
        planner.apply(Delta::Want(JobId(1), three));
        planner.apply(Delta::Want(JobId(2), want(1, 16)));
        let outcome = planner.plan(NOW, 1_000);
        let told: Vec<(u64, bool)> = outcome
            .verdicts
            .iter()
            .map(|(job, verdict)| (job.0, matches!(verdict, Verdict::Never(_))))
            .collect();
        assert_eq!(told, [(1, true), (2, false)], "{preset}");
    }
}
#[test]
fn who_waits_for_nodes_that_are_away_uses_up_no_lookback() {
    for preset in ["easy", "hybrid", "conservative"] {
        let policy = format!("preset = \"{preset}\"\n[queue]\nlookback = 1");
        let mut planner = planner(&policy, 2);
        planner.apply(Delta::Down(Idset::one(1), Unavailable::Offline));
        let both = Want {
            request: Request {
                duration: Some(3_600 * MICROS),
                ..nodes(2, 1, 4)
            },
            ..want(1, 16)
        };
        planner.apply(Delta::Want(JobId(1), both));
        planner.apply(Delta::Want(JobId(2), want(1, 16)));
        assert_eq!(starts(&mut planner, NOW, |_| 1), [2], "{preset}");
    }
}

#[test]
fn who_orders_his_own_jobs_starts_them_so_and_nobody_elses_later() {
    let mut planner = planner("preset = \"flux\"", 1);
    // Nobody starts before all are in order.
    planner.apply(Delta::Down(Idset::one(0), Unavailable::Drained));
    planner.apply(Delta::Want(JobId(9), want(2, 16)));
    let mut place = |job, at, of| {
        let want = Want {
            place: Place { at, of },
            ..want(1, 16)
        };
        planner.apply(Delta::Want(JobId(job), want));
    };
    for job in 1..=3 {
        place(job, 0, 1);
    }
    // Said while they wait: the last first.
    for (job, at) in [(3, 0), (2, 1), (1, 2)] {
        place(job, at, 3);
    }
    let factor = |explained: &Explained| {
        let terms = explained.priority.terms.iter();
        let factor = terms.filter(|term| term.name == "user");
        factor.map(|term| term.factor).sum::<f64>()
    };
    let factors = [1, 2, 3, 9].map(|job| factor(&explained(&mut planner, job)));
    assert_eq!(factors, [1.0 - 2.0 / 3.0, 1.0 - 1.0 / 3.0, 1.0, 1.0]);
    let mut order = Vec::new();
    planner.apply(Delta::Up(Idset::one(0)));
    for _ in 0..4 {
        order.extend(starts(
            &mut planner,
            NOW,
            |job| if job.0 == 9 { 2 } else { 1 },
        ));
        planner.apply(Delta::Freed(JobId(order[order.len() - 1])));
    }
    let own: Vec<u64> = order.iter().copied().filter(|job| *job != 9).collect();
    assert_eq!(own, [3, 2, 1]);
    assert!(order[..2].contains(&9), "{order:?}");
}

#[test]
fn those_who_are_level_start_as_they_were_submitted_whatever_their_numbers() {
    for policy in ["fcfs", "easy", "conservative", "flux", "slurm-fair-tree"] {
        let mut planner = planner(&format!("preset = \"{policy}\""), 1);
        // An instance took 3 later than 9 was submitted here: its numbers were drawn before.
        for (job, seconds) in [(9, -20), (3, -10), (12, -20)] {
            let submitted = Time(NOW.0 + seconds * MICROS);
            let want = Want {
                submitted,
                ..want(1, 16)
            };
            planner.apply(Delta::Want(JobId(job), want));
        }
        let mut order: Vec<u64> = Vec::new();
        for _ in 0..3 {
            let started = starts(&mut planner, NOW, |_| 1);
            order.extend(&started);
            planner.apply(Delta::Freed(JobId(started[0])));
        }
        assert_eq!(order, [9, 12, 3], "{policy}");
    }
}
