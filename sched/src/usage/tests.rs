//! Charges and decay: worked examples, and the laws of time.

use std::collections::BTreeMap;

use eddy_wire::time::{MICROS, Span, Time};
use proptest::prelude::*;

use super::*;
use crate::amounts::Amounts;
use crate::policy::{Calendar, Charge, ChargedTime, Decay, UsageRules};

fn rules(charge: Charge, weights: &[(&str, f64)]) -> UsageRules {
    UsageRules {
        charge,
        weights: weights
            .iter()
            .map(|(name, weight)| ((*name).to_owned(), *weight))
            .collect(),
        factors: BTreeMap::from([("qexp".to_owned(), 0.0)]),
        qos_factors: BTreeMap::new(),
        time: ChargedTime::Elapsed,
        minimum: Span::ZERO,
        decay: Decay::None,
    }
}

fn meters() -> Vec<Meter> {
    let meter = |name: &str, bound, capacity| Meter {
        name: name.to_owned(),
        bound,
        capacity,
    };
    vec![
        meter("cores", Bound::Node, 10.0),
        meter("memory", Bound::Node, 20.0),
        meter("gpus", Bound::Node, 5.0),
        meter("licences", Bound::Site, 2.0),
    ]
}

fn tariff(rules: &UsageRules) -> Tariff {
    Tariff::new(rules, &meters()).unwrap()
}

fn run(amounts: &[f64], elapsed: i64, requested: Option<i64>) -> Run<'_> {
    Run {
        amounts,
        elapsed: Span::seconds(elapsed),
        requested: requested.map(Span::seconds),
        queue: "batch",
    }
}

#[test]
fn the_largest_of_a_node_and_all_of_the_site_are_charged() {
    let weights = [("cores", 1.0), ("memory", 0.25), ("licences", 3.0)];
    let amounts = [16.0, 60.0, 0.0, 2.0];
    assert_eq!(tariff(&rules(Charge::Sum, &weights)).weigh(&amounts), 37.0);
    assert_eq!(
        tariff(&rules(Charge::MaxOfNode, &weights)).weigh(&amounts),
        22.0
    );
}

#[test]
fn what_is_scarce_costs_more() {
    // 5 cores, 2 of 20 memory, 1 of 5 GPUs, where there are 10 cores: 5 + 1 + 2.
    let tariff = tariff(&rules(Charge::Scarcity, &[]));
    assert_eq!(tariff.weigh(&[5.0, 2.0, 1.0, 0.0]), 8.0);
}

#[test]
fn a_base_without_capacity_is_replaced() {
    assert_eq!(scarcity(&[0.0, 4.0, 8.0], 0), [None, Some(1.0), Some(2.0)]);
    assert_eq!(scarcity(&[0.0, 1e-6], 0), [None, None]);
}

#[test]
fn an_exempt_queue_costs_nothing() {
    let tariff = tariff(&rules(Charge::Sum, &[("cores", 1.0)]));
    assert_eq!(tariff.rate(&[8.0], "qexp"), 0.0);
    assert_eq!(tariff.rate(&[8.0], "batch"), 8.0);
}

#[test]
fn a_short_run_is_charged_the_least() {
    let mut rules = rules(Charge::Sum, &[("cores", 1.0)]);
    rules.minimum = Span::seconds(60);
    let elapsed = tariff(&rules);
    assert_eq!(elapsed.whole(&run(&[2.0], 10, None)), 120.0);
    assert_eq!(elapsed.whole(&run(&[2.0], 90, None)), 180.0);
    rules.time = ChargedTime::Requested;
    let requested = tariff(&rules);
    assert_eq!(requested.whole(&run(&[2.0], 10, Some(100))), 200.0);
    assert_eq!(requested.whole(&run(&[2.0], 10, Some(30))), 120.0);
    assert_eq!(requested.whole(&run(&[2.0], 90, None)), 180.0);
}

#[test]
fn a_negative_weight_is_refused_by_name() {
    let error = Tariff::new(&rules(Charge::Sum, &[("gpus", -1.0)]), &meters()).unwrap_err();
    let text = "usage.weights.gpus: -1 is given; allowed are finite numbers of at least 0";
    assert_eq!(error.to_string(), text);
}

#[test]
fn priority_moves_toward_usage_and_not_away() {
    // At one half-life the formula printed the wrong way round gives the same: test elsewhere.
    let half = Span::seconds(60);
    assert_eq!(toward(10.0, 0.0, Span::seconds(120), half), 2.5);
    assert_eq!(toward(5.0, 8.0, Span::ZERO, half), 5.0);
    assert_eq!(toward(5.0, 8.0, Span::seconds(1), Span::ZERO), 8.0);
    assert_eq!(toward(5.0, 8.0, Span::seconds(-5), half), 5.0);
}

#[test]
fn steps_fall_at_multiples_and_not_below_the_floor() {
    let hour = Span::seconds(3600);
    let decay = Decay::Step {
        interval: hour,
        factor: 0.5,
        floor: 1.0,
    };
    let at = |minutes: i64| Time(minutes * 60 * MICROS);
    assert_eq!(faded(&decay, 8.0, 0.0, at(50), at(59)), 8.0);
    assert_eq!(faded(&decay, 8.0, 0.0, at(50), at(60)), 4.0);
    assert_eq!(faded(&decay, 8.0, 0.0, at(50), at(600)), 1.0);
    // 3600 units an hour: half of 8 + 3600, then half of that and 3600 more.
    assert_eq!(faded(&decay, 8.0, 1.0, at(0), at(120)), 2702.0);
}

#[test]
fn usage_is_forgotten_at_midnights() {
    let day = |day: i64| Time(day * 86_400 * MICROS);
    let left = |calendar, from, to| faded(&Decay::Reset(calendar), 9.0, 0.0, day(from), day(to));
    // 1970-01-04 was a Sunday, day 31 the first of February, day 59 the first of March.
    assert_eq!(
        [left(Calendar::Weekly, 0, 2), left(Calendar::Weekly, 0, 3)],
        [9.0, 0.0]
    );
    assert_eq!(
        [
            left(Calendar::Monthly, 1, 30),
            left(Calendar::Monthly, 1, 31)
        ],
        [9.0, 0.0]
    );
    assert_eq!(
        [
            left(Calendar::Quarterly, 1, 89),
            left(Calendar::Quarterly, 1, 90)
        ],
        [9.0, 0.0]
    );
    assert_eq!(
        [
            left(Calendar::Yearly, 1, 364),
            left(Calendar::Yearly, 1, 365)
        ],
        [9.0, 0.0]
    );
    // 2024-02-29 is day 19782; March begins after it.
    let march = [
        left(Calendar::Monthly, 19_755, 19_782),
        left(Calendar::Monthly, 19_755, 19_783),
    ];
    assert_eq!(march, [9.0, 0.0]);
}

#[test]
fn bins_move_on_and_fall_off() {
    let decay = Decay::Bins {
        count: 3,
        period: Span::seconds(400),
        factor: 0.1,
    };
    let mut ledger = Ledger::new(decay);
    let holder = ledger.holder("a");
    ledger.charge(holder, Time(0), 1000.0);
    let at = |periods: i64| ledger.usage(holder, Time(periods * 400 * MICROS));
    assert_eq!(
        [at(0), at(1), at(2), at(3), at(1000)],
        [1000.0, 100.0, 10.0, 0.0, 0.0]
    );
}

#[test]
fn a_clock_that_goes_back_changes_no_amount() {
    let half = Span::seconds(10);
    let mut ledger = Ledger::new(Decay::Exponential { half });
    let holder = ledger.holder("a");
    ledger.charge(holder, Time(100 * MICROS), 8.0);
    ledger.using(holder, Time(90 * MICROS), 0.0);
    assert_eq!(ledger.usage(holder, Time(90 * MICROS)), 8.0);
    assert_eq!(ledger.usage(holder, Time(100 * MICROS)), 4.0);
}

#[test]
fn a_short_run_counts_as_held_until_its_time_is_over() {
    let mut short = ShortRuns::new(Span::seconds(60));
    let mut cores = Amounts::NONE;
    cores[0] = 4000;
    let started = Time(-30 * MICROS);
    short.ended((1, 0), "a", cores, started, Ended::Itself);
    short.ended((1, 0), "a", cores, started, Ended::Itself);
    short.ended((2, 0), "a", cores, started, Ended::Preempted);
    assert_eq!(short.held(Time(29 * MICROS))["a"], cores);
    assert!(short.held(Time(30 * MICROS)).is_empty());
}

fn decays() -> impl Strategy<Value = Decay> {
    let span = (1_i64..1_000_000).prop_map(Span::millis);
    prop_oneof![
        Just(Decay::None),
        span.clone().prop_map(|half| Decay::Exponential { half }),
        span.clone().prop_map(|half| Decay::TowardCurrent { half }),
        (span.clone(), 0.0..1.0_f64, 0.0..50.0_f64).prop_map(|(interval, factor, floor)| {
            Decay::Step {
                interval,
                factor,
                floor,
            }
        }),
        (1_u32..6, span, 0.0..1.0_f64).prop_map(|(count, period, factor)| Decay::Bins {
            count,
            period,
            factor,
        }),
        Just(Decay::Reset(Calendar::Daily)),
    ]
}

proptest! {
    #[test]
    fn any_split_of_time_decays_alike(
        decay in decays(),
        amount in 60.0..1e6_f64,
        rate in 0.0..100.0_f64,
        cuts in prop::collection::vec(0_i64..400_000_000_000, 1..20),
    ) {
        let standing = Standing { amount, rate, ..Standing::default() };
        let mut cuts = cuts;
        cuts.sort_unstable();
        let end = Time(cuts[cuts.len() - 1]);
        let mut once = standing.clone();
        once.advance(&decay, end);
        let mut often = standing;
        cuts.iter().for_each(|&cut| often.advance(&decay, Time(cut)));
        let (once, often) = (once.total(), often.total());
        prop_assert!((once - often).abs() <= 1e-6 * once.abs().max(1.0), "{once} {often}");
    }

    #[test]
    fn without_use_nothing_grows(decay in decays(), amount in 60.0..1e6_f64, end in 0_i64..1 << 50) {
        let mut standing = Standing { amount, ..Standing::default() };
        standing.advance(&decay, Time(end));
        prop_assert!(standing.total() <= amount && standing.total() >= 0.0);
    }

    #[test]
    fn constant_use_is_converged_upon(start in 0.0..1e3_f64, using in 0.0..1e3_f64, n in 1_i64..100) {
        let half = Span::seconds(60);
        let after = |n: i64| (toward(start, using, Span::seconds(n), half) - using).abs();
        prop_assert!(after(n + 1) <= after(n));
        prop_assert!(after(6000) < 1e-6);
    }
}

#[test]
fn a_qos_and_a_queue_of_one_name_have_factors_of_their_own() {
    let mut rules = rules(Charge::Sum, &[("cores", 1.0)]);
    rules.qos_factors = BTreeMap::from([("twin".to_owned(), 2.0)]);
    let tariff = tariff(&rules);
    assert_eq!(
        (tariff.factor("twin"), tariff.factor_of_qos("twin")),
        (1.0, 2.0)
    );
    // A policy that names a QoS among all others is as it was.
    assert_eq!(tariff.factor_of_qos("qexp"), 0.0);
}
