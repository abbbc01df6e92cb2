//! Walks over a count of processors: cases by hand, and the laws that any walk
//! keeps whatever the queue.

use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::time::{Span, Time};
use proptest::prelude::*;

use super::*;
use crate::policy::{FillOrder, Reservations, Walk};

const TOTAL: u64 = 8;

fn rules(walk: Walk) -> Rules {
    Rules {
        walk,
        fill_order: FillOrder::Queue,
        reservations: Reservations::Replanned,
        replan_every: None,
        lookback: None,
        reserve_after: None,
        default_limit: None,
        window: None,
    }
}

/// A room in which these many are held until then.
fn room(held: &[(u64, i64)]) -> Count {
    let mut room = Count::new(TOTAL);
    for &(procs, until) in held {
        room.take(&procs, Time(0), Span(until));
    }
    room
}

/// Jobs by key, as processors and limit.
fn agenda(rules: Rules, room: &Count, jobs: &[(u64, i64)]) -> Agenda<u32, Count> {
    let mut agenda = Agenda::new(rules);
    for (key, &(need, limit)) in (1..).zip(jobs) {
        let since = Time(0);
        agenda.enter(key, Job { need, since }, Some(Span(limit)), room);
    }
    agenda
}

/// Who starts, and who is planned for when.
type Plan = (Vec<u32>, BTreeMap<u32, i64>);

fn pass(agenda: &mut Agenda<u32, Count>, room: &mut Count, now: i64) -> Plan {
    let (mut out, mut plan) = (Vec::new(), Plan::default());
    // A slice at a time: where it is cut must not matter.
    while let Progress::More = agenda.pass(room, Time(now), 1, &mut out) {}
    for verdict in out {
        match verdict {
            Verdict::Start { key, .. } => plan.0.push(key),
            Verdict::Reserve { .. } | Verdict::Wait { .. } => {}
        }
    }
    let booked = agenda.bookings();
    plan.1 = booked.map(|(key, booking)| (*key, booking.at.0)).collect();
    plan
}

fn planned(rules: Rules, held: &[(u64, i64)], jobs: &[(u64, i64)]) -> Plan {
    let mut room = room(held);
    let mut agenda = agenda(rules, &room, jobs);
    pass(&mut agenda, &mut room, 0)
}

#[test]
fn stop_skip_and_reserve_differ_at_the_first_that_does_not_fit() {
    // 4 free until 10: a wide job, a filler that ends before, one that ends after.
    let (held, jobs) = ([(4, 10)], [(8, 5), (2, 10), (2, 11), (2, 3)]);
    let none = BTreeMap::new();
    assert_eq!(
        planned(rules(Walk::Stop), &held, &jobs),
        (vec![], none.clone())
    );
    assert_eq!(planned(rules(Walk::Skip), &held, &jobs), (vec![2, 3], none));
    let easy = rules(Walk::Reserve { depth: 1 });
    let head = BTreeMap::from([(1, 10)]);
    assert_eq!(planned(easy, &held, &jobs), (vec![2, 4], head));
    let all = rules(Walk::Reserve { depth: Walk::ALL });
    let both = BTreeMap::from([(1, 10), (3, 15)]);
    assert_eq!(planned(all, &held, &jobs), (vec![2, 4], both));
}

#[test]
fn gaps_may_be_filled_by_the_shortest() {
    let rules = Rules {
        fill_order: FillOrder::Shortest,
        ..rules(Walk::Reserve { depth: 1 })
    };
    let plan = planned(rules, &[(4, 10)], &[(8, 5), (3, 9), (2, 4), (2, 3)]);
    assert_eq!(plan.0, [4, 3]);
}

#[test]
fn what_can_never_fit_uses_up_no_reservation() {
    let plan = planned(
        rules(Walk::Reserve { depth: 1 }),
        &[(4, 10)],
        &[(9, 5), (8, 5), (2, 11), (2, 10)],
    );
    assert_eq!(plan, (vec![4], BTreeMap::from([(2, 10)])));
}

#[test]
fn only_so_many_are_tried() {
    let two = |walk| Rules {
        lookback: Some(2),
        ..rules(walk)
    };
    let jobs = [(8, 5), (8, 5), (1, 1)];
    let plan = planned(two(Walk::Reserve { depth: Walk::ALL }), &[(4, 10)], &jobs);
    assert_eq!(plan, (vec![], BTreeMap::from([(1, 10), (2, 15)])));
    let plan = planned(two(Walk::Skip), &[(4, 10)], &jobs);
    assert!(plan.0.is_empty());
}

#[test]
fn who_waited_too_long_is_given_a_reservation_where_nobody_else_is() {
    let rules = Rules {
        reserve_after: Some(Span(20)),
        ..rules(Walk::Skip)
    };
    let mut room = room(&[(4, 30)]);
    let mut agenda = agenda(rules, &room, &[(8, 5)]);
    assert_eq!(pass(&mut agenda, &mut room, 19).1, BTreeMap::new());
    assert_eq!(
        pass(&mut agenda, &mut room, 20).1,
        BTreeMap::from([(1, 30)])
    );
    let since = Time(20);
    let late = Job { need: 1, since };
    agenda.enter(2, late, Some(Span(11)), &room);
    assert!(pass(&mut agenda, &mut room, 20).0.is_empty());
}

#[test]
fn a_job_without_a_limit_is_planned_by_the_default_or_without_end() {
    let plan = |default_limit| {
        let rules = Rules {
            default_limit,
            ..rules(Walk::Reserve { depth: 1 })
        };
        let mut room = room(&[(4, 10)]);
        let mut agenda = agenda(rules, &room, &[(8, 5)]);
        let since = Time(0);
        agenda.enter(2, Job { need: 1, since }, None, &room);
        pass(&mut agenda, &mut room, 0).0
    };
    assert!(plan(None).is_empty());
    assert_eq!(plan(Some(Span(10))), [2]);
}

#[test]
fn beyond_the_window_nothing_is_planned() {
    let rules = Rules {
        window: Some(Span(9)),
        ..rules(Walk::Reserve { depth: 1 })
    };
    let plan = planned(rules, &[(4, 10)], &[(8, 5), (4, 50)]);
    assert_eq!(plan, (vec![2], BTreeMap::new()));
}

#[test]
fn who_is_beyond_the_window_was_looked_at() {
    let rules = Rules {
        window: Some(Span(9)),
        ..rules(Walk::Reserve { depth: 2 })
    };
    // The first is beyond it, so the third is one more than two.
    let mut room = room(&[(4, 10), (3, 8)]);
    let mut agenda = agenda(rules, &room, &[(8, 5), (4, 2), (5, 1)]);
    let plan = pass(&mut agenda, &mut room, 0);
    assert_eq!(plan, (vec![], BTreeMap::from([(2, 8)])));
    // It is within the window from 1 on.
    assert_eq!(
        agenda.next_plan(),
        Some(Time(1_000_000)),
        "a second, though it is from 1 on"
    );
    let plan = pass(&mut agenda, &mut room, 1);
    assert_eq!(plan.1, BTreeMap::from([(1, 10), (2, 8)]));
    assert_eq!(agenda.next_plan(), None);
}

/// All is planned anew every 10.
fn seldom(depth: u32) -> Rules {
    Rules {
        replan_every: Some(Span(10)),
        ..rules(Walk::Reserve { depth })
    }
}

#[test]
fn between_two_plans_who_can_starts_and_the_first_is_moved() {
    let mut room = room(&[(4, 30), (3, 40)]);
    let mut agenda = agenda(seldom(3), &room, &[(8, 5), (3, 50), (2, 60)]);
    let plan = pass(&mut agenda, &mut room, 0);
    assert_eq!(plan, (vec![], BTreeMap::from([(1, 40), (2, 45), (3, 45)])));
    // What is held until 40 ends at 4, and another comes.
    room.give(&3, Time(4), Span(36));
    agenda.freed();
    let (need, since) = (2, Time(4));
    agenda.enter(4, Job { need, since }, Some(Span(3)), &room);
    assert_eq!(agenda.next_plan(), None);
    // A plan made now would start all three earlier; only the first, whom nobody may delay, is moved.
    let plan = pass(&mut agenda, &mut room, 4);
    assert_eq!(plan, (vec![4], BTreeMap::from([(1, 30), (2, 45), (3, 45)])));
    assert_eq!(agenda.next_plan(), Some(Time(10)));
    let plan = pass(&mut agenda, &mut room, 10);
    assert_eq!(plan, (vec![], BTreeMap::from([(1, 30), (2, 35), (3, 35)])));
    assert_eq!(agenda.next_plan(), None);
}

#[test]
fn who_comes_before_all_is_planned_at_once() {
    let mut room = room(&[(4, 30)]);
    let mut agenda = agenda(seldom(2), &room, &[]);
    let since = Time(0);
    agenda.enter(5, Job { need: 8, since }, Some(Span(5)), &room);
    let plan = pass(&mut agenda, &mut room, 0);
    assert_eq!(plan.1, BTreeMap::from([(5, 30)]));
    for (key, need) in [(4, 7), (7, 8)] {
        agenda.enter(key, Job { need, since }, Some(Span(5)), &room);
    }
    // Before all: it is planned as if they were not there, and they behind it, one more than there are
    // reservations.
    let plan = pass(&mut agenda, &mut room, 1);
    assert_eq!(plan.1, BTreeMap::from([(4, 30), (5, 35)]));
    assert_eq!(agenda.next_plan(), None);
}

#[test]
fn who_has_a_reservation_is_asked_first_between_two_plans() {
    let mut room = room(&[(6, 30), (2, 40)]);
    let mut agenda = agenda(seldom(3), &room, &[(8, 5), (2, 10), (2, 5), (2, 4)]);
    let plan = pass(&mut agenda, &mut room, 0);
    assert_eq!(plan, (vec![], BTreeMap::from([(1, 40), (2, 30), (3, 30)])));
    room.give(&2, Time(4), Span(36));
    agenda.freed();
    let plan = pass(&mut agenda, &mut room, 4);
    assert_eq!(plan, (vec![2], BTreeMap::from([(1, 40), (3, 30)])));
}

#[test]
fn who_comes_before_all_is_passed_by_nobody_who_could_start_at_once() {
    let mut room = room(&[(6, 30), (2, 40)]);
    let mut agenda = agenda(seldom(2), &room, &[]);
    let since = Time(0);
    agenda.enter(5, Job { need: 2, since }, Some(Span(50)), &room);
    assert_eq!(pass(&mut agenda, &mut room, 0).1, BTreeMap::from([(5, 30)]));
    agenda.enter(1, Job { need: 8, since }, Some(Span(5)), &room);
    room.give(&2, Time(4), Span(36));
    agenda.freed();
    let plan = pass(&mut agenda, &mut room, 4);
    assert_eq!(plan, (vec![], BTreeMap::from([(1, 30), (5, 35)])));
}

#[test]
fn between_two_plans_few_are_looked_at_who_can_be_given_no_time() {
    let mut room = room(&[(8, 30)]);
    let mut agenda = agenda(seldom(2), &room, &[]);
    let since = Time(0);
    agenda.enter(500, Job { need: 8, since }, Some(Span(5)), &room);
    pass(&mut agenda, &mut room, 0);
    for key in 1..=100 {
        agenda.enter(key, Job { need: 9, since }, Some(Span(5)), &room);
    }
    let mut out = Vec::new();
    assert_eq!(
        agenda.pass(&mut room, Time(1), 20, &mut out),
        Progress::Done
    );
    assert_eq!(out.len(), 8, "they could never run");
}

#[test]
fn who_loses_a_reservation_has_another_before_gaps_are_filled() {
    let mut room = room(&[(7, 30)]);
    let mut agenda = agenda(seldom(2), &room, &[(7, 5), (8, 5)]);
    let plan = BTreeMap::from([(1, 30), (2, 35)]);
    assert_eq!(pass(&mut agenda, &mut room, 0), (vec![], plan.clone()));
    agenda.unreserve(&2, &mut room);
    let since = Time(1);
    // It would hold the second back.
    agenda.enter(9, Job { need: 1, since }, Some(Span(36)), &room);
    assert_eq!(pass(&mut agenda, &mut room, 1), (vec![], plan));
}

#[test]
fn those_behind_one_that_loses_what_is_kept_for_him_stand_back() {
    let kept = Rules {
        reservations: Reservations::Kept,
        ..rules(Walk::Reserve { depth: Walk::ALL })
    };
    let mut room = room(&[(8, 10)]);
    let mut agenda = agenda(kept, &room, &[(8, 4), (8, 20), (8, 3), (8, 2)]);
    let plan = BTreeMap::from([(1, 10), (2, 14), (3, 34), (4, 37)]);
    assert_eq!(pass(&mut agenda, &mut room, 0).1, plan);
    // What is held until 10 is held until 16, which the first two counted on.
    agenda.lose(&1, &mut room);
    assert_eq!(agenda.lose(&2, &mut room), [0; 0], "it stood back already");
    room.take(&8, Time(10), Span(6));
    let plan = BTreeMap::from([(1, 16), (2, 20), (3, 40), (4, 43)]);
    assert_eq!(pass(&mut agenda, &mut room, 1).1, plan);
    // Those ahead keep what they have.
    assert_eq!(agenda.lose(&3, &mut room), [4]);
    room.take(&8, Time(40), Span(1));
    let plan = BTreeMap::from([(1, 16), (2, 20), (3, 41), (4, 44)]);
    assert_eq!(pass(&mut agenda, &mut room, 2).1, plan);
}

#[test]
fn a_plan_that_was_broken_off_is_made_in_the_next_pass() {
    let mut room = room(&[(8, 20)]);
    let mut agenda = agenda(seldom(2), &room, &[(8, 5), (8, 5)]);
    assert_eq!(
        agenda.pass(&mut room, Time(0), 3, &mut Vec::new()),
        Progress::More
    );
    agenda.restart();
    let plan = pass(&mut agenda, &mut room, 1);
    assert_eq!(plan.1, BTreeMap::from([(1, 20), (2, 25)]));
}

#[test]
fn a_kept_reservation_only_moves_earlier() {
    let rules = Rules {
        reservations: Reservations::Kept,
        ..rules(Walk::Reserve { depth: Walk::ALL })
    };
    let mut room = room(&[(4, 10), (4, 20)]);
    let mut agenda = agenda(rules, &room, &[(8, 5), (4, 6)]);
    // The second fits between 10 and 20.
    let plan = pass(&mut agenda, &mut room, 0);
    assert_eq!(plan.1, BTreeMap::from([(1, 20), (2, 10)]));
    // What is held until 20 ends at 4. The first may move up to where the second is planned, and
    // only then does the second start: each is looked at once, in order.
    room.give(&4, Time(4), Span(16));
    agenda.freed();
    let plan = pass(&mut agenda, &mut room, 4);
    assert_eq!(plan, (vec![2], BTreeMap::from([(1, 16)])));
    assert_eq!(pass(&mut agenda, &mut room, 16), (vec![1], BTreeMap::new()));
}

#[test]
fn who_is_planned_for_a_time_that_has_passed_is_planned_again() {
    let mut room = room(&[(8, 10)]);
    let mut agenda = agenda(rules(Walk::Reserve { depth: 1 }), &room, &[(8, 5)]);
    assert_eq!(pass(&mut agenda, &mut room, 0).1, BTreeMap::from([(1, 10)]));
    assert_eq!(pass(&mut agenda, &mut room, 12).0, [1]);
    assert_eq!(room.earliest(&1, Time(12), Span(1)), Ok((Time(17), 1)));
}

#[test]
fn who_leaves_gives_back_what_was_reserved() {
    let mut room = room(&[(8, 10)]);
    let mut agenda = agenda(rules(Walk::Reserve { depth: 2 }), &room, &[(8, 5), (8, 7)]);
    pass(&mut agenda, &mut room, 0);
    assert!(agenda.leave(&1, &mut room));
    assert!(!agenda.leave(&1, &mut room));
    assert_eq!(pass(&mut agenda, &mut room, 1).1, BTreeMap::from([(2, 10)]));
    assert_eq!(agenda.len(), 1);
}

fn walks() -> impl Strategy<Value = Walk> {
    prop_oneof![
        Just(Walk::Stop),
        Just(Walk::Skip),
        (1..6_u32).prop_map(|depth| Walk::Reserve { depth }),
        Just(Walk::Reserve { depth: Walk::ALL }),
    ]
}

/// Some thirty processors at each instant, by looking at all of it.
struct Instants(Vec<i64>);

impl Instants {
    fn take(&mut self, from: i64, until: i64, procs: u64) {
        for at in from..until {
            self.0[at as usize] -= procs as i64;
        }
    }

    fn earliest(&self, procs: u64, span: i64) -> i64 {
        let fits = |from: &i64| (*from..from + span).all(|at| self.0[at as usize] >= procs as i64);
        (0..).find(fits).expect("the end is free")
    }
}

proptest! {
    /// The walk over lines, ceilings and floors is the walk that looks at each in turn.
    #[test]
    fn it_is_the_walk_that_looks_at_each(
        walk in walks(),
        held in prop::collection::vec((1..4_u64, 1..40_i64), 0..3),
        jobs in prop::collection::vec((1..=TOTAL, 1..20_i64), 0..80),
    ) {
        let mut free = Instants(vec![TOTAL as i64; 3000]);
        for &(procs, until) in &held {
            free.take(0, until, procs);
        }
        let (mut starts, mut booked) = (BTreeSet::new(), BTreeMap::new());
        let depth = match walk {
            Walk::Stop | Walk::Skip => 0,
            Walk::Reserve { depth } => depth as usize,
        };
        for (key, &(procs, limit)) in (1..).zip(&jobs) {
            let at = free.earliest(procs, limit);
            if at == 0 {
                starts.insert(key);
            } else if booked.len() < depth {
                booked.insert(key, at);
            } else if walk == Walk::Stop {
                break;
            } else {
                continue;
            }
            free.take(at, at + limit, procs);
        }
        let (got, planned) = planned(rules(walk), &held, &jobs);
        prop_assert_eq!(got.into_iter().collect::<BTreeSet<u32>>(), starts);
        prop_assert_eq!(planned, booked);
    }

    /// What a replanned pass keeps is what it would plan again.
    #[test]
    fn a_plan_that_is_kept_is_the_plan_from_scratch(
        depth in prop_oneof![1..5_u32, Just(Walk::ALL)],
        held in prop::collection::vec((1..3_u64, 1..40_i64), 1..4),
        first in prop::collection::vec((1..=TOTAL, 1..20_i64), 0..20),
        later in prop::collection::vec((1..=TOTAL, 1..20_i64), 0..10),
        early in any::<bool>(),
    ) {
        let mut room = room(&held);
        let mut kept = agenda(rules(Walk::Reserve { depth }), &room, &first);
        let started = pass(&mut kept, &mut room, 0).0;
        let first_end = held.iter().map(|held| held.1).min().expect("one is held");
        let now = first_end.min(kept.next_due().map_or(i64::MAX, |at| at.0));
        let mut scratch = Count::new(TOTAL);
        let mut freed = Vec::new();
        for &(procs, until) in &held {
            if until > now && early && freed.is_empty() {
                freed.push(procs);
                room.give(&procs, Time(now), Span(until - now));
                kept.freed();
                continue;
            }
            scratch.take(&procs, Time(0), Span(until));
        }
        for key in &started {
            let (procs, limit) = first[*key as usize - 1];
            scratch.take(&procs, Time(0), Span(limit));
        }
        let all: Vec<(u64, i64)> = first.iter().chain(&later).copied().collect();
        let mut anew = agenda(rules(Walk::Reserve { depth }), &scratch, &all);
        for key in &started {
            anew.leave(key, &mut scratch);
        }
        for (key, &(need, limit)) in (first.len() as u32 + 1..).zip(&later) {
            let since = Time(now);
            kept.enter(key, Job { need, since }, Some(Span(limit)), &room);
        }
        let (mut got, planned) = pass(&mut kept, &mut room, now);
        let (mut expected, replanned) = pass(&mut anew, &mut scratch, now);
        got.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(planned, replanned);
    }

    /// Kept reservations never move later, nor others between two plans, and none is over the other,
    /// whatever ends when.
    #[test]
    fn a_promise_is_kept(
        kept in any::<bool>(),
        jobs in prop::collection::vec((1..=TOTAL, 1..20_i64), 1..60),
        held in prop::collection::vec((1..3_u64, 1..40_i64), 1..4),
        at in 0..20_i64,
    ) {
        let all = rules(Walk::Reserve { depth: Walk::ALL });
        let rules = match kept {
            true => Rules {
                reservations: Reservations::Kept,
                ..all
            },
            false => Rules {
                replan_every: Some(Span(100)),
                ..all
            },
        };
        let mut room = room(&held);
        let mut agenda = agenda(rules, &room, &jobs);
        let before = pass(&mut agenda, &mut room, 0).1;
        let at = at.min(agenda.next_due().map_or(at, |due| due.0));
        for &(procs, until) in held.iter().filter(|held| held.1 > at).take(1) {
            room.give(&procs, Time(at), Span(until - at));
            agenda.freed();
        }
        let (started, after) = pass(&mut agenda, &mut room, at);
        for (key, was) in before {
            let now = after.get(&key).copied().or(started.contains(&key).then_some(at));
            prop_assert!(now.is_some_and(|now| now <= was), "{key} was {was} is {now:?}");
        }
        let ends = after.keys().map(|key| after[key] + jobs[*key as usize - 1].1);
        for time in at..ends.max().unwrap_or(at) {
            let used: u64 = after
                .iter()
                .filter(|(key, from)| (**from..**from + jobs[**key as usize - 1].1).contains(&time))
                .map(|(key, _)| jobs[*key as usize - 1].0)
                .sum();
            prop_assert!(used <= TOTAL, "{used} reserved at {time}");
        }
    }
}
