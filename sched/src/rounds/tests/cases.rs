//! Rounds computed by hand.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};

use super::make::*;
use crate::policy::*;
use crate::rounds::*;

#[test]
fn accounts_take_turns_by_cost_over_weight() {
    let mut state = state(&[(6, 6)], &["a", "b"]);
    state.accounts[1].factor = 2.0;
    state.jobs.extend((1..=6).map(|id| job(id, "a", "low", 1)));
    state
        .jobs
        .extend((11..=16).map(|id| job(id, "b", "low", 1)));
    let outcome = schedule(&state, &policy());
    // 1/6 a job against 2/6: a is at 4/6 when b is.
    assert_eq!(outcome.ledger["a"], amounts(4, 4));
    assert_eq!(outcome.ledger["b"], amounts(2, 2));
    assert_eq!(outcome.decisions[&JobId(5)], Decision::Wait(Reason::NoRoom));
}

#[test]
fn who_has_more_than_its_share_gives_way_from_the_end() {
    let mut state = state(&[(4, 4)], &["a", "b"]);
    state
        .runs
        .extend((1..=4).map(|id| run(job(id, "a", "low", 1), 0)));
    state.jobs.extend((5..=8).map(|id| job(id, "b", "low", 1)));
    let outcome = schedule(&state, &policy());
    let expected = [
        "preempt 3 by 6",
        "preempt 4 by 5",
        "start 5 on 0",
        "start 6 on 0",
    ];
    assert_eq!(told(&outcome), expected);
    let grace = Span::seconds(2);
    let by = Some(JobId(5));
    let kind = Preemption::FairShare;
    assert_eq!(
        outcome.decisions[&JobId(4)],
        Decision::Preempt { by, kind, grace }
    );
}

#[test]
fn an_account_within_its_protected_fraction_keeps_all() {
    let mut state = state(&[(4, 4)], &["a", "b"]);
    state
        .runs
        .extend((1..=4).map(|id| run(job(id, "a", "low", 1), 0)));
    state.jobs.push(job(5, "b", "low", 1));
    let mut policy = policy();
    // b asks for a quarter, so a is due three quarters and has 4/3 of it.
    for (protected, changes) in [(1.3, true), (1.4, false)] {
        if let Share::Drf {
            protected_fraction, ..
        } = &mut policy.share.algorithm
        {
            *protected_fraction = protected;
        }
        assert_eq!(schedule(&state, &policy).changes(), changes, "{protected}");
    }
}

#[test]
fn urgency_pushes_out_the_last_of_the_lowest_class_and_says_by_whom() {
    let mut state = state(&[(4, 4)], &["a", "b"]);
    state
        .runs
        .extend((1..=4).map(|id| run(job(id, "a", "low", 1), 0)));
    state.jobs.push(job(9, "a", "high", 2));
    let mut policy = policy();
    policy.queue.evict = Evict::Nothing;
    let outcome = schedule(&state, &policy);
    assert_eq!(
        told(&outcome),
        ["preempt 3 by 9", "preempt 4 by 9", "start 9 on 0"]
    );
    policy.placement.ladder = vec![Rung::Free];
    assert!(!schedule(&state, &policy).changes());
}

#[test]
fn what_may_not_be_taken_from_is_never_placed_over() {
    let mut state = state(&[(4, 4)], &["a", "b"]);
    state
        .runs
        .extend((1..=4).map(|id| run(job(id, "a", "firm", 1), 0)));
    state.jobs.push(job(9, "b", "high", 1));
    let mut policy = policy();
    policy.placement.classes.insert(
        "top".into(),
        Class {
            priority: 9,
            fair_share_preemptible: Preference::On,
            urgency_preemptible: Preference::On,
        },
    );
    state.jobs.push(job(10, "b", "top", 1));
    assert!(!schedule(&state, &policy).changes());
}

#[test]
fn what_belongs_to_no_known_account_only_takes_up_room() {
    let mut state = state(&[(4, 4)], &["b"]);
    state
        .runs
        .extend((1..=3).map(|id| run(job(id, "gone", "low", 1), 0)));
    state.jobs.extend((5..=6).map(|id| job(id, "b", "high", 1)));
    state.jobs.push(job(7, "gone", "low", 1));
    let outcome = schedule(&state, &policy());
    assert_eq!(told(&outcome), ["start 5 on 0"]);
    assert_eq!(
        outcome.decisions[&JobId(7)],
        Decision::Wait(Reason::Account)
    );
}

#[test]
fn a_gang_starts_whole_or_down_to_its_minimum() {
    let mut whole = state(&[(2, 2), (1, 1)], &["a"]);
    whole.jobs = gang((1..=4).map(|id| job(id, "a", "low", 1)), 4, None);
    assert!(round(&whole).is_empty());
    let reason = Reason::GangNoRoom {
        fitted: 3,
        minimum: 4,
    };
    let outcome = schedule(&whole, &policy());
    assert_eq!(outcome.decisions[&JobId(1)], Decision::Wait(reason));
    whole.jobs = gang((1..=4).map(|id| job(id, "a", "low", 1)), 3, None);
    let expected = ["start 1 on 1", "start 2 on 0", "start 3 on 0", "fail 4"];
    assert_eq!(round(&whole), expected);
    whole.jobs.pop();
    let have = Reason::GangIncomplete {
        have: 3,
        cardinality: 4,
    };
    let outcome = schedule(&whole, &policy());
    assert_eq!(outcome.decisions[&JobId(1)], Decision::Wait(have));
}

#[test]
fn a_gang_is_kept_together_where_most_of_it_fits() {
    let mut state = state(&[(2, 2), (1, 1), (2, 2), (9, 9)], &["a"]);
    for (node, rack) in [(0, "r1"), (1, "r2"), (2, "r2")] {
        state.nodes[node].labels.insert("rack".into(), rack.into());
    }
    state.jobs = gang((1..=3).map(|id| job(id, "a", "low", 1)), 2, Some("rack"));
    assert_eq!(
        round(&state),
        ["start 1 on 1", "start 2 on 2", "start 3 on 2"]
    );
    state.together = Some(["row".to_string()].into());
    let outcome = schedule(&state, &policy());
    assert_eq!(
        outcome.decisions[&JobId(1)],
        Decision::Wait(Reason::NotTogether)
    );
}

#[test]
fn one_of_a_gang_that_gives_way_takes_the_gang_with_it() {
    let mut state = state(&[(2, 2), (2, 2)], &["a", "b"]);
    let jobs = gang((1..=4).map(|id| job(id, "a", "low", 1)), 4, None);
    state.runs = (0..4)
        .map(|at| run(jobs[at].clone(), at as u32 / 2))
        .collect();
    state.jobs.push(job(5, "b", "low", 1));
    let expected = [
        "preempt 1 by 5",
        "preempt 2 by 5",
        "preempt 3 by 5",
        "preempt 4 by 5",
        "start 5 on 1",
    ];
    assert_eq!(round(&state), expected);
}

#[test]
fn a_round_that_would_preempt_for_nothing_preempts_nobody() {
    // The node has shrunk: putting all back would end one, and start none.
    let mut state = state(&[(3, 3)], &["a"]);
    state
        .runs
        .extend((1..=4).map(|id| run(job(id, "a", "low", 1), 0)));
    assert!(round(&state).is_empty());
    assert_eq!(schedule(&state, &policy()).decisions.len(), 4);
}

#[test]
fn a_class_may_run_away_at_a_lower_priority_and_is_pushed_out_there() {
    let mut state = state(&[(1, 1)], &["a", "b"]);
    let taint = Taint {
        key: "gpu".into(),
        value: "yes".into(),
    };
    state.nodes[0].taints.push(taint.clone());
    let toleration = Toleration {
        key: Some("gpu".into()),
        value: None,
    };
    let away = Away {
        priority: -1,
        tolerations: vec![toleration.clone()],
    };
    state.away.insert("low".into(), vec![away]);
    state.jobs.push(job(1, "a", "low", 1));
    let outcome = schedule(&state, &policy());
    let method = Method::Free;
    let started = Decision::Start {
        node: 0,
        priority: -1,
        method,
    };
    assert_eq!(outcome.decisions[&JobId(1)], started);
    state.apply(&outcome, Time(5));
    let mut home = job(2, "a", "low", 1);
    home.setting.tolerations.push(toleration);
    state.jobs.push(home);
    assert_eq!(round(&state), ["preempt 1 by 2", "start 2 on 0"]);
}

#[test]
fn limits_stop_a_gang_an_account_or_the_round() {
    let mut state = state(&[(8, 8)], &["a", "b"]);
    state.jobs.extend((1..=3).map(|id| job(id, "a", "low", 1)));
    state.jobs.extend((4..=6).map(|id| job(id, "b", "low", 1)));
    let with = |limits: Limits| {
        let mut policy = policy();
        policy.queue.limits = limits;
        schedule(&state, &policy)
    };
    let rate = Some(Rate {
        per_second: 1.0,
        burst: 3,
    });
    let outcome = with(Limits {
        rate,
        ..Limits::default()
    });
    assert_eq!(outcome.counts().0, 3);
    assert_eq!(outcome.decisions[&JobId(5)], Decision::Wait(Reason::Rate));
    assert_eq!(
        outcome.decisions[&JobId(6)],
        Decision::Wait(Reason::Stopped)
    );
    assert_eq!(outcome.buckets.all.map(|bucket| bucket.tokens), Some(0.0));
    let account_rate = Some(Rate {
        per_second: 1.0,
        burst: 2,
    });
    let outcome = with(Limits {
        account_rate,
        ..Limits::default()
    });
    assert_eq!(outcome.counts().0, 4);
    assert_eq!(
        outcome.decisions[&JobId(3)],
        Decision::Wait(Reason::AccountRate)
    );
    let cpu = |fraction| BTreeMap::from([("cpu".to_string(), fraction)]);
    let pass_fraction = cpu(0.25);
    let outcome = with(Limits {
        pass_fraction,
        ..Limits::default()
    });
    // 2 of 8 are not more than a quarter yet, 3 are.
    assert_eq!(outcome.counts().0, 3);
    assert_eq!(
        outcome.decisions[&JobId(5)],
        Decision::Wait(Reason::RoundFull)
    );
    let account_fraction = BTreeMap::from([("low".to_string(), cpu(0.25))]);
    let outcome = with(Limits {
        account_fraction,
        ..Limits::default()
    });
    assert_eq!(outcome.counts().0, 4);
    assert_eq!(
        outcome.decisions[&JobId(6)],
        Decision::Wait(Reason::AccountFull)
    );
}

#[test]
fn a_spent_rate_of_preemptions_lets_what_was_put_back_go_first() {
    let mut state = state(&[(4, 4)], &["a", "b"]);
    state
        .runs
        .extend((1..=3).map(|id| run(job(id, "a", "low", 1), 0)));
    state.jobs.extend((5..=8).map(|id| job(id, "b", "low", 1)));
    let mut policy = policy();
    policy.queue.limits.preempt_rate = Some(Rate {
        per_second: 0.0,
        burst: 0,
    });
    assert_eq!(told(&schedule(&state, &policy)), ["start 5 on 0"]);
    policy.queue.limits.preempt_rate = None;
    let both = ["preempt 3 by 6", "start 5 on 0", "start 6 on 0"];
    assert_eq!(told(&schedule(&state, &policy)), both);
}

#[test]
fn jobs_that_can_never_start_use_up_no_lookback() {
    let mut state = state(&[(4, 4)], &["a"]);
    state
        .jobs
        .extend([job(1, "a", "low", 9), job(2, "a", "low", 9)]);
    state.jobs.extend((3..=6).map(|id| job(id, "a", "low", 3)));
    state.jobs.push(job(7, "a", "low", 1));
    let mut policy = policy();
    policy.queue.lookback = Some(4);
    let outcome = schedule(&state, &policy);
    assert_eq!(told(&outcome), ["start 3 on 0"]);
    assert_eq!(
        outcome.decisions[&JobId(7)],
        Decision::Wait(Reason::Lookback)
    );
    let never = Reason::Never {
        kind: 0,
        asked: 9000,
        most: 4000,
    };
    assert_eq!(outcome.decisions[&JobId(1)], Decision::Wait(never));
    policy.queue.lookback = Some(5);
    assert_eq!(
        told(&schedule(&state, &policy)),
        ["start 3 on 0", "start 7 on 0"]
    );
}

#[test]
fn nothing_new_goes_to_a_cordoned_node_and_what_is_there_stays() {
    let mut state = state(&[(2, 2), (1, 1)], &["a", "b"]);
    state
        .runs
        .extend((1..=2).map(|id| run(job(id, "a", "low", 1), 0)));
    state.nodes[0].service = Service::Cordoned;
    state.jobs.extend((5..=6).map(|id| job(id, "b", "high", 1)));
    assert_eq!(round(&state), ["start 5 on 1"]);
}

#[test]
fn slices_are_dealt_then_drawn_for_and_what_fits_nowhere_stops_nobody() {
    let mut state = state(&[(6, 6)], &["a", "b", "c"]);
    state.accounts[1].usage = 1.0;
    state.jobs.extend((1..=6).map(|id| job(id, "a", "low", 1)));
    state
        .jobs
        .extend((11..=12).map(|id| job(id, "b", "low", 1)));
    state.jobs.push(job(20, "c", "low", 7));
    let mut policy = policy();
    policy.share.algorithm = Share::PriorityFloor { floor: 0.5 };
    policy.queue.source = Source::PerAccountSlices {
        basis: SliceBasis::TotalMinusUsed,
        remainder: Remainder::Random,
    };
    let outcome = schedule(&state, &policy);
    // Inverses 2, 1, 2 of 6: 2.4, 1.2, 2.4; then draws, from which c drops out.
    assert_eq!(outcome.counts().0, 6);
    assert!(outcome.ledger["a"].holds(&amounts(2, 2)) && outcome.ledger["b"].holds(&amounts(1, 1)));
    assert_ne!(outcome.seed, state.seed);
    assert_eq!(schedule(&state, &policy), outcome);
}
