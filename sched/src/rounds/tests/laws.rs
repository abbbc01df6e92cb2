//! Laws of rounds over random workloads of one class and small units, where they hold exactly.

use std::collections::BTreeMap;

use eddy_wire::time::{Span, Time};
use proptest::prelude::*;

use super::make::*;
use crate::amounts::Amounts;
use crate::rounds::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Accounts that each ask for jobs of one size: what they ask of cpu and memory, how many.
type Asks = Vec<(i64, i64, usize)>;

fn asks() -> impl Strategy<Value = Asks> {
    prop::collection::vec((1_i64..4, 1_i64..4, 0_usize..60), 2..=4)
}

/// One node of 120 cores and memory, with these jobs waiting.
fn waiting(asks: &Asks, factors: &[f64]) -> State {
    let mut state = state(&[(120, 120)], &NAMES[..asks.len()]);
    let mut id = 0;
    for (at, &(cpu, memory, count)) in asks.iter().enumerate() {
        state.accounts[at].factor = factors.get(at).copied().unwrap_or(1.0);
        for _ in 0..count {
            id += 1;
            let mut job = job(id, NAMES[at], "low", 1);
            job.request = amounts(cpu, memory);
            state.jobs.push(job);
        }
    }
    state
}

/// Applies rounds until nothing changes; preempted jobs do not come back.
fn settle(state: &mut State) {
    for second in 1..9 {
        let outcome = schedule(state, &policy());
        if !outcome.changes() {
            return;
        }
        let now = Time(0) + Span::seconds(second * 1000);
        state.apply(&outcome, now);
        state.now = now;
    }
    panic!("after eight rounds there is still something to do");
}

/// Submits jobs a second later, with other ids; jobs of accounts that are not there are left out.
fn submit(state: &mut State, jobs: Vec<Job>, ids: u64) {
    state.now = state.now + Span::seconds(1);
    for mut job in jobs {
        job.id.0 += ids;
        job.submit = state.now;
        if state
            .accounts
            .iter()
            .any(|account| account.name == job.account)
        {
            state.jobs.push(job);
        }
    }
}

fn tasks(state: &State, account: &str) -> i64 {
    state
        .runs
        .iter()
        .filter(|run| run.job.account == account)
        .count() as i64
}

/// The largest fraction that a number of such jobs is of the node.
fn dominant((cpu, memory, _): (i64, i64, usize), count: i64) -> f64 {
    (cpu.max(memory) * count) as f64 / 120.0
}

fn used(state: &State) -> Amounts {
    state
        .runs
        .iter()
        .fold(Amounts::NONE, |sum, run| sum + run.job.request)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_account_gets_less_than_its_weight_of_everything_while_it_asks(
        asks in asks(), factors in prop::collection::vec(prop::sample::select(vec![0.5, 1.0, 2.0]), 4),
    ) {
        let mut state = waiting(&asks, &factors);
        settle(&mut state);
        let active: f64 = asks.iter().zip(&factors)
            .filter(|(ask, _)| ask.2 > 0).map(|(_, factor)| 1.0 / factor).sum();
        for (at, &ask) in asks.iter().enumerate() {
            let has = tasks(&state, NAMES[at]);
            if has < ask.2 as i64 {
                // One more of anybody's jobs is the unit; the largest is 3 of 120.
                let due = 1.0 / factors[at] / active;
                prop_assert!(dominant(ask, has) + 3.0 / 120.0 >= due - 1e-9, "{ask:?} has {has} of {due}");
            }
        }
    }

    #[test]
    fn asking_for_more_than_needed_never_yields_more_tasks(
        asks in asks(), more in (0_i64..3, 0_i64..3),
    ) {
        let mut honest = waiting(&asks, &[]);
        settle(&mut honest);
        let mut lie = asks.clone();
        (lie[0].0, lie[0].1) = (lie[0].0 + more.0, lie[0].1 + more.1);
        let mut liar = waiting(&lie, &[]);
        settle(&mut liar);
        // What is rounded off at the end of the filling is one task.
        prop_assert!(tasks(&liar, "a") <= tasks(&honest, "a") + 1);
    }

    #[test]
    fn nobody_prefers_the_weighted_allocation_of_another(asks in asks()) {
        let mut state = waiting(&asks, &[]);
        settle(&mut state);
        for (at, &(cpu, memory, count)) in asks.iter().enumerate() {
            let own = tasks(&state, NAMES[at]);
            if own == count as i64 {
                continue;
            }
            for (other, ask) in asks.iter().enumerate() {
                let has = tasks(&state, NAMES[other]);
                let could = (ask.0 * has / cpu).min(ask.1 * has / memory);
                // A unit of each side is rounded off.
                prop_assert!(could <= own + 3, "{} of {own} would have {could}", NAMES[at]);
            }
        }
    }

    #[test]
    fn nothing_free_is_left_that_a_waiting_job_could_use(asks in asks()) {
        let mut state = waiting(&asks, &[]);
        settle(&mut state);
        let free = amounts(120, 120) - used(&state);
        prop_assert!(state.jobs.iter().all(|job| !free.holds(&job.request)));
    }

    #[test]
    fn a_round_carried_out_leaves_nothing_to_do_and_preempted_jobs_preempt_nobody(
        size in 1_i64..7, first in prop::collection::vec(0_usize..60, 4),
        second in prop::collection::vec(0_usize..60, 4),
    ) {
        // Of one size: what a larger one that gave way leaves over is used a round later (`settle`),
        // and may go to an account that has more.
        let asks = |counts: &[usize]| counts.iter().map(|&n| (size, size, n)).collect::<Asks>();
        let mut state = waiting(&asks(&first), &[]);
        settle(&mut state);
        submit(&mut state, waiting(&asks(&second), &[]).jobs, 1000);
        let outcome = schedule(&state, &policy());
        let now = state.now;
        let left = state.apply(&outcome, now);
        prop_assert_eq!(schedule(&state, &policy()).counts(), (0, 0));
        submit(&mut state, left.preempted, 5000);
        prop_assert_eq!(schedule(&state, &policy()).counts(), (0, 0));
    }

    #[test]
    fn shares_are_level_to_within_a_unit(asks in asks()) {
        // Max-min: nobody that still asks has more than another that still asks, by over a unit.
        let mut state = waiting(&asks, &[]);
        settle(&mut state);
        let still: BTreeMap<usize, f64> = asks.iter().enumerate()
            .map(|(at, &ask)| (at, (ask, tasks(&state, NAMES[at]))))
            .filter(|(_, (ask, has))| *has < ask.2 as i64)
            .map(|(at, (ask, has))| (at, dominant(ask, has)))
            .collect();
        let free = amounts(120, 120) - used(&state);
        let (least, most) = still.values().fold((1.0_f64, 0.0_f64), |(l, m), &c| (l.min(c), m.max(c)));
        // Where one resource is used up, who does not need it goes on.
        let bound = free[0] < 3000 && free[1] < 3000 || still.len() < 2;
        prop_assert!(!bound || most - least <= 0.5, "{still:?}");
    }
}
