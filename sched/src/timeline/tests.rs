//! A timeline against a plain list of the amounts of every instant.

use proptest::prelude::*;

use super::*;

const END: i64 = 400;

#[test]
fn a_gap_must_hold_for_the_whole_span() {
    let mut free = Timeline::new(4);
    free.add(Time(0), Time(10), -3);
    free.add(Time(15), Time(20), -4);
    assert_eq!(free.earliest(Time(0), 1, Span(15)), Some(Time(0)));
    assert_eq!(free.earliest(Time(0), 2, Span(5)), Some(Time(10)));
    assert_eq!(free.earliest(Time(0), 2, Span(6)), Some(Time(20)));
    assert_eq!(free.earliest(Time(0), 5, Span(1)), None);
    assert_eq!(free.least(Time(0), Time(15)), 1);
    assert_eq!(free.least(Time(0), Time(16)), 0);
    assert_eq!(free.below(Time(0), 1), Some(Time(15)));
}

#[test]
fn what_is_given_back_leaves_no_step() {
    let mut free = Timeline::new(4);
    free.add(Time(3), Time(9), -2);
    free.add(Time(5), Time(i64::MAX), -1);
    assert_eq!(free.points(), 4);
    free.add(Time(5), Time(i64::MAX), 1);
    free.add(Time(3), Time(9), 2);
    assert_eq!(free.points(), 1);
    assert_eq!(free.at(Time(i64::MAX)), 4);
}

/// The same by looking at every instant.
struct Instants(Vec<i64>);

impl Instants {
    fn earliest(&self, from: i64, amount: i64, span: i64) -> Option<Time> {
        let fits = |at: &i64| {
            let until = (at + span.max(1)).min(END);
            (*at..until).all(|at| self.0[at as usize] >= amount)
        };
        (from..END).find(fits).map(Time)
    }
}

proptest! {
    #[test]
    fn it_is_the_amount_of_every_instant(
        changes in prop::collection::vec((0..END, 1..END, -3_i64..4, any::<bool>()), 1..400),
        asked in prop::collection::vec((0..END, -2_i64..6, 0..60_i64), 20),
        forget in 0..END,
    ) {
        let mut free = Timeline::new(3);
        let mut plain = Instants(vec![3; END as usize]);
        for (from, length, amount, back) in changes {
            let until = (from + length).min(END);
            let until_time = if until == END { Time(i64::MAX) } else { Time(until) };
            free.add(Time(from), until_time, amount);
            (from..until).for_each(|at| plain.0[at as usize] += amount);
            if back {
                free.add(Time(from), until_time, -amount);
                (from..until).for_each(|at| plain.0[at as usize] -= amount);
            }
        }
        for at in 0..END {
            prop_assert_eq!(free.at(Time(at)), plain.0[at as usize]);
        }
        let steps = (1..END as usize).filter(|&at| plain.0[at] != plain.0[at - 1]).count();
        prop_assert!(free.points() <= steps + 2, "{} points, {} steps", free.points(), steps);
        free.forget(Time(forget));
        for (from, amount, span) in asked {
            let from = from.max(forget);
            let found = free.earliest(Time(from), amount, Span(span));
            prop_assert_eq!(found, plain.earliest(from, amount, span));
            let until = (from + span).min(END);
            let least = (from..until.max(from + 1)).map(|at| plain.0[at as usize]).min();
            prop_assert_eq!(Some(free.least(Time(from), Time(until))), least);
            let since = (forget..from).rev().find(|&at| plain.0[at as usize] < amount);
            let since = since.map_or(Time(i64::MIN), |at| Time(at + 1));
            if from > forget {
                prop_assert_eq!(free.since(Time(from), amount), since);
            }
        }
    }
}
