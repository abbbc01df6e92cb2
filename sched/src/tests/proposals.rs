//! Who does not begin since somebody who waits would take from him at once, by numbers that one can follow.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Explained, Question, Reason, Suppose, Verdict, Want};
use eddy_wire::preempt::PREEMPTIONS_MAX;
use eddy_wire::time::{MICROS, Span};

use super::model::{nodes, slots};
use super::preempt::{EASY, FCFS, Stand, at, limited, owner, said};

#[test]
fn who_would_be_taken_from_at_once_does_not_begin() {
    for policy in [EASY, FCFS] {
        let mut stand = Stand::new(policy, &[4]);
        stand.wants(5, "low", slots(1, 4));
        stand.wants(7, "high", slots(1, 4));
        assert_eq!(stand.says(10), ["start 7 0/0-3"]);
        stand.apply(Delta::Freed(JobId(7)));
        stand.apply(Delta::Unwant(JobId(7)));
        assert_eq!(stand.says(11), ["start 5 0/0-3"]);
    }
}

#[test]
fn nobody_fills_what_another_is_to_have_with_that_of_those_who_end_for_him() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(1, "1 low 0/0-3");
    stand.wants(7, "high", nodes(2, 1, 4));
    stand.wants(8, "low", limited(slots(1, 4), 60));
    assert_eq!(stand.says(10), ["end 1 for 7"]);
}

#[test]
fn nobody_ends_where_it_is_enough_that_others_do_not_begin() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(1, "1 low 0/0-3");
    stand.wants(5, "low", slots(1, 2));
    stand.wants(6, "low", slots(1, 2));
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["start 7 1/0-3"]);
}

#[test]
fn only_those_wait_whose_place_is_needed_and_the_first_begin_elsewhere() {
    let mut stand = Stand::new(EASY, &[2, 2, 2]);
    stand.wants(4, "low", slots(1, 2));
    stand.wants(5, "low", slots(1, 2));
    stand.wants(6, "low", slots(1, 2));
    stand.wants(7, "high", slots(1, 2));
    assert_eq!(
        stand.says(10),
        ["start 4 0/0-1", "start 5 1/0-1", "start 7 2/0-1"]
    );
}

#[test]
fn what_one_slice_of_a_pass_says_is_looked_at_by_itself() {
    let mut stand = Stand::new(EASY, &[2, 2]);
    stand.wants(4, "low", slots(1, 2));
    stand.wants(5, "low", slots(1, 2));
    stand.wants(7, "high", nodes(2, 1, 2));
    let outcome = stand.plan_in(10, 2);
    let said: Vec<String> = outcome.verdicts.iter().map(said).collect();
    assert_eq!(said, ["start 7 0/0-1 1/0-1"]);
}

#[test]
fn who_is_exempt_once_he_runs_keeps_his_turn() {
    let mut stand = Stand::new(EASY, &[4]);
    stand.wants(5, "mid", slots(1, 4));
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["start 5 0/0-3"]);
}

#[test]
fn who_was_taken_from_as_often_as_may_be_keeps_his_turn() {
    let mut stand = Stand::new(EASY, &[4]);
    let want = Want {
        owner: owner("low"),
        preemptions: PREEMPTIONS_MAX,
        ..Want::of(16, slots(1, 4))
    };
    stand.apply(Delta::Want(JobId(5), want));
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["start 5 0/0-3"]);
}

#[test]
fn an_equal_keeps_his_turn() {
    let mut stand = Stand::new(EASY, &[4]);
    stand.wants(5, "high", slots(1, 4));
    stand.wants(7, "high", slots(1, 4));
    assert_eq!(stand.says(10), ["start 5 0/0-3"]);
}

#[test]
fn what_is_promised_to_those_below_is_no_obstacle_where_nobody_below_runs() {
    for policy in [EASY, "preset = \"conservative\""] {
        let wide = |who: &str| {
            let mut stand = Stand::new(policy, &[4, 4]);
            stand.holds(1, "1 none 0/0-3");
            stand.wants(5, who, limited(nodes(2, 1, 4), 60));
            stand.wants(7, "high", slots(1, 4));
            stand.says(10)
        };
        assert_eq!(wide("low"), ["start 7 1/0-3"]);
        assert!(wide("high").is_empty());
    }
}

/// On the first of two nodes one runs who is exempt until 110, both are waited for.
fn exempt(policy: &str) -> Stand {
    let mut stand = Stand::new(policy, &[4, 4]);
    stand.holds(10, "1 mid 0/0-3");
    stand.wants(7, "high", limited(nodes(2, 1, 4), 60));
    stand
}

#[test]
fn who_would_be_taken_from_once_an_exemption_is_over_does_not_begin() {
    for policy in [EASY, FCFS, "preset = \"conservative\""] {
        for job in [5, 8] {
            let mut stand = exempt(policy);
            stand.wants(job, "low", limited(slots(1, 4), 1000));
            assert!(stand.says(50).is_empty());
            assert!(stand.says(51).is_empty());
            assert_eq!(stand.says(110), ["end 1 for 7"]);
        }
    }
}

#[test]
fn who_is_over_by_then_begins() {
    let mut stand = exempt(EASY);
    stand.wants(8, "low", limited(slots(1, 4), 51));
    assert!(stand.says(50).is_empty());
    stand.wants(9, "low", limited(slots(1, 4), 50));
    assert_eq!(stand.says(50), ["start 9 1/0-3"]);
}

#[test]
fn who_is_kept_off_what_another_is_to_take_begins_elsewhere() {
    let mut stand = Stand::new(EASY, &[4, 4, 2]);
    stand.holds(10, "1 mid 0/0-3");
    stand.wants(7, "high", limited(nodes(2, 1, 4), 60));
    stand.wants(8, "low", slots(1, 2));
    assert_eq!(stand.says(50), ["start 8 2/0-1"]);
}

#[test]
fn who_would_take_later_begins_as_soon_as_there_is_room() {
    for policy in [EASY, FCFS] {
        let mut stand = exempt(policy);
        stand.wants(5, "low", slots(1, 4));
        assert!(stand.says(50).is_empty());
        stand.apply(Delta::Freed(JobId(1)));
        assert_eq!(stand.says(51), ["start 7 0/0-3 1/0-3"]);
    }
}

#[test]
fn what_another_would_take_later_is_kept_no_longer_than_it_waits() {
    let mut stand = exempt(EASY);
    stand.wants(8, "low", slots(1, 4));
    assert!(stand.says(50).is_empty());
    stand.apply(Delta::Unwant(JobId(7)));
    assert_eq!(stand.says(51), ["start 8 1/0-3"]);
}

#[test]
fn nobody_is_kept_off_for_one_whom_the_end_of_no_exemption_helps() {
    let mut stand = Stand::new(EASY, &[4, 4, 4]);
    stand.holds(10, "1 mid 0/0-3");
    stand.holds(10, "2 high 2/0-3");
    stand.wants(7, "high", nodes(3, 1, 4));
    stand.wants(8, "low", limited(slots(1, 4), 1000));
    assert_eq!(stand.says(50), ["start 8 1/0-3"]);
}

#[test]
fn the_first_time_counts_at_which_those_whose_exemption_is_over_are_enough() {
    let three = |limit: i64| {
        let mut stand = Stand::new(EASY, &[4, 4, 4]);
        stand.holds(10, "1 mid 0/0-3");
        stand.holds(40, "2 mid 1/0-3");
        stand.wants(7, "high", nodes(3, 1, 4));
        stand.wants(8, "low", limited(slots(1, 4), limit));
        stand.says(50)
    };
    assert_eq!(three(80), ["start 8 2/0-3"]);
    assert!(three(81).is_empty());
}

#[test]
fn one_slice_of_a_pass_keeps_them_off_by_itself() {
    let mut stand = Stand::new(EASY, &[2, 2, 2]);
    stand.holds(10, "1 mid 0/0-1");
    stand.wants(4, "low", slots(1, 2));
    stand.wants(5, "low", slots(1, 2));
    stand.wants(7, "high", nodes(3, 1, 2));
    assert!(stand.plan_in(50, 2).verdicts.is_empty());
}

/// What is said of one who waits.
fn told(stand: &mut Stand, job: u64) -> Explained {
    stand.apply(Delta::Explain(Question {
        tag: 1,
        jobs: Some(vec![(JobId(job), JobId(job))]),
        most: 1,
        suppose: Suppose::default(),
        wants: Vec::new(),
        lent: Vec::new(),
    }));
    let mut outcome = stand.plan_in(50, 100);
    assert!(outcome.verdicts.is_empty());
    outcome.answers.remove(0).jobs.remove(0)
}

#[test]
fn who_takes_later_is_told_when_and_others_by_when_they_had_to_be_over() {
    for policy in [EASY, "preset = \"conservative\""] {
        let mut stand = exempt(policy);
        let taker = |stand: &mut Stand| {
            let one = told(stand, 7);
            let latest = one.start.expect("it starts").latest;
            // Who is taken from has 5 s to end and is given 10 s to be gone.
            assert_eq!(latest, Some(at(125)), "{policy}");
            one.reason
        };
        let reason = Reason::Exempt {
            jobs: vec![JobId(1)],
            others: 0,
            within: Span::seconds(60),
        };
        assert_eq!(taker(&mut stand), reason);
        stand.wants(8, "low", limited(slots(1, 4), 1000));
        assert_eq!(taker(&mut stand), reason);
        let low = told(&mut stand, 8);
        let delays = Reason::WouldDelay {
            job: JobId(7),
            within: Span::seconds(75),
        };
        assert_eq!(low.reason, delays);
        let limits: Vec<Option<Span>> = low.advice.iter().map(|one| one.limit).collect();
        // It has 50 s, and whoever reads it some of them to follow it.
        assert_eq!(limits, [Some(Span::seconds(45))]);
    }
}

/// Nothing comes and nobody ends but by his limit: whoever begins while all who could take from him wait already is
/// left alone.
#[test]
fn nobody_who_begins_is_taken_from_by_one_who_waited_for_an_exemption() {
    for seed in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let policy = [EASY, FCFS, "preset = \"conservative\""][rng.usize(0..3)];
        let cores: Vec<u32> = (0..rng.usize(1..5)).map(|_| rng.u32(1..5)).collect();
        let mut stand = Stand::new(policy, &cores);
        let mut changes: BTreeMap<i64, Vec<Delta>> = BTreeMap::from([(50, Vec::new())]);
        for (on, cores) in cores.iter().enumerate() {
            if rng.bool() {
                continue;
            }
            let (since, takes) = (rng.i64(0..50), rng.u32(1..=*cores));
            stand.holds(since, &format!("{} mid {on}/0-{}", on + 1, takes - 1));
            changes.entry(since + 100).or_default();
        }
        let mut owners = BTreeMap::new();
        let taker = rng.u64(10..18);
        for job in 10..18 {
            let who = if job == taker { "high" } else { "low" };
            let request = match rng.bool() {
                true => slots(rng.u32(1..4), rng.u32(1..3)),
                false => nodes(rng.u32(1..4), 1, rng.u32(1..4)),
            };
            let limit = match who == "high" || rng.bool() {
                true => 10_000,
                false => 30,
            };
            stand.wants(job, who, limited(request, limit));
            owners.insert(JobId(job), owner(who));
        }
        while let Some((now, due)) = changes.pop_first() {
            due.into_iter().for_each(|delta| stand.apply(delta));
            for (job, verdict) in stand.plan_in(now, 100).verdicts {
                match verdict {
                    Verdict::Start(set) => {
                        let ends = now + (set.expiration - set.starttime) / MICROS;
                        let who = owners[&job].clone();
                        changes.entry(ends).or_default().push(Delta::Freed(job));
                        stand.apply(Delta::Held(job, who, set));
                    }
                    Verdict::Preempt { by, .. } => {
                        assert!(job < JobId(10), "seed {seed}, {now}: {job} ends for {by}");
                        stand.apply(Delta::Ending(job, Some(by), at(now + 5)));
                        changes.entry(now + 5).or_default().push(Delta::Freed(job));
                    }
                    Verdict::Never(_) => {}
                }
            }
        }
    }
}
