//! What the presets promise whose accounts take turns, on nodes, with jobs of
//! several sizes and accounts of several weights.
//!
//! Units are whole jobs and nodes are filled by whole jobs, so each law holds to
//! within what that leaves over, which each test names.

use eddy_wire::time::{Span, Time};
use proptest::prelude::*;

use super::make::{amounts, job};
use crate::amounts::{Amounts, Kinds, UNIT};
use crate::policy::{Policy, Share, preset};
use crate::rounds::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const NODES: i64 = 6;
/// Cores and memory of each node.
const EACH: i64 = 20;
const ALL: f64 = (NODES * EACH) as f64;
/// The most that one job asks for.
const MOST: i64 = 3;
/// What may be left on the nodes though a job waits: on each less than one job.
const LEFT: f64 = (NODES * (MOST - 1)) as f64 / ALL;
/// One more job, at most.
const UNIT_MOST: f64 = MOST as f64 / ALL;

/// What the jobs of an account ask for, how many they are, its factor.
#[derive(Clone, Debug)]
struct Asks {
    cores: i64,
    memory: i64,
    count: usize,
    factor: f64,
}

fn asks() -> impl Strategy<Value = Vec<Asks>> {
    let factor = prop::sample::select(vec![0.5, 1.0, 2.0]);
    let one = (1..=MOST, 1..=MOST, 0..60_usize, factor);
    let one = one.prop_map(|(cores, memory, count, factor)| Asks {
        cores,
        memory,
        count,
        factor,
    });
    prop::collection::vec(one, 2..=4)
}

fn class() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["default", "preemptible"])
}

/// Each with a class that it has.
fn policies(class: &'static str) -> [(&'static str, &'static str, Policy); 2] {
    [("armada", class), ("armada-legacy", "default")].map(|(name, class)| {
        let policy = preset(name).expect("it is a preset");
        (name, class, policy)
    })
}

fn armada() -> Policy {
    preset("armada").expect("it is a preset")
}

/// The nodes with these jobs waiting, of one class.
fn waiting(asks: &[Asks], class: &str) -> State {
    let nodes = (0..NODES as u32).map(|rank| Node {
        rank,
        capacity: amounts(EACH, EACH),
        ..Node::default()
    });
    let mut state = State {
        seed: 1,
        kinds: Kinds::new(["cores", "memory"]).expect("two kinds"),
        nodes: nodes.collect(),
        ..State::default()
    };
    let mut id = 0;
    // Empty is the default, and the only one that every preset has.
    let class = if class == "default" { "" } else { class };
    for (ask, name) in asks.iter().zip(NAMES) {
        state.accounts.push(Account {
            factor: ask.factor,
            ..Account::new(name)
        });
        for _ in 0..ask.count {
            id += 1;
            let mut job = job(id, name, class, 1);
            job.request = amounts(ask.cores, ask.memory);
            state.jobs.push(job);
        }
    }
    state
}

/// A round carried out a second later; how many started and were preempted.
fn step(state: &mut State, policy: &Policy) -> (usize, usize) {
    let outcome = schedule(state, policy);
    state.now = state.now + Span::seconds(1);
    let now = state.now;
    state.apply(&outcome, now);
    outcome.counts()
}

fn settle(state: &mut State, policy: &Policy) {
    for _ in 0..8 {
        if step(state, policy) == (0, 0) {
            return;
        }
    }
    panic!("after eight rounds there is still something to do");
}

fn tasks(state: &State, account: &str) -> i64 {
    let of = |run: &&Run| run.job.account == account;
    state.runs.iter().filter(of).count() as i64
}

fn free(state: &State) -> Vec<Amounts> {
    let left = |node: &Node| {
        let here = state.runs.iter().filter(|run| run.node == node.rank);
        here.fold(node.capacity, |left, run| left - run.job.request)
    };
    state.nodes.iter().map(left).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// To within a job, and what is left over on nodes.
    #[test]
    fn no_account_gets_less_than_its_weight_while_it_asks(asks in asks(), class in class()) {
        for (name, class, policy) in policies(class) {
            let mut state = waiting(&asks, class);
            settle(&mut state, &policy);
            let active = asks.iter().filter(|ask| ask.count > 0);
            let weights: f64 = active.map(|ask| 1.0 / ask.factor).sum();
            for (ask, account) in asks.iter().zip(NAMES) {
                let has = tasks(&state, account);
                if has == ask.count as i64 {
                    continue;
                }
                let due = 1.0 / ask.factor / weights;
                let dominant = (has * ask.cores.max(ask.memory)) as f64 / ALL;
                prop_assert!(
                    dominant + UNIT_MOST + LEFT >= due,
                    "{name}: {account} has {dominant} of {due}"
                );
            }
        }
    }

    /// Exactly.
    #[test]
    fn no_node_has_room_for_a_job_that_waits(asks in asks(), class in class()) {
        for (name, class, policy) in policies(class) {
            let mut state = waiting(&asks, class);
            settle(&mut state, &policy);
            let free = free(&state);
            prop_assert!(free.iter().all(|free| free[0] >= 0 && free[1] >= 0), "{name}");
            let waits = state.jobs.iter().find(|job| free.iter().any(|free| free.holds(&job.request)));
            prop_assert!(waits.is_none(), "{name}: {waits:?} of {free:?}");
        }
    }

    /// To within the two tasks that rounding at the end of the filling, and on nodes, gives.
    #[test]
    fn asking_for_more_than_needed_never_yields_more_tasks(
        asks in asks(), more in (0..MOST, 0..MOST), class in class(),
    ) {
        let mut honest = waiting(&asks, class);
        settle(&mut honest, &armada());
        let mut lie = asks.clone();
        (lie[0].cores, lie[0].memory) = (lie[0].cores + more.0, lie[0].memory + more.1);
        let mut liar = waiting(&lie, class);
        settle(&mut liar, &armada());
        let (lied, told) = (tasks(&liar, "a"), tasks(&honest, "a"));
        prop_assert!(lied <= told + 2, "{lied} for {told}");
    }

    /// What another has, times the own weight over the other's, to within a job of each and what is
    /// left over.
    #[test]
    fn nobody_prefers_the_weighted_allocation_of_another(asks in asks(), class in class()) {
        let mut state = waiting(&asks, class);
        settle(&mut state, &armada());
        for (ask, account) in asks.iter().zip(NAMES) {
            let own = tasks(&state, account);
            if own == ask.count as i64 {
                continue;
            }
            let dominant = ask.cores.max(ask.memory) as f64;
            for (other, name) in asks.iter().zip(NAMES) {
                let times = tasks(&state, name) as f64 * other.factor / ask.factor;
                let cores = other.cores as f64 * times / ask.cores as f64;
                let memory = other.memory as f64 * times / ask.memory as f64;
                let could = cores.min(memory) * dominant / ALL;
                let has = own as f64 * dominant / ALL;
                let within = UNIT_MOST * (1.0 + other.factor / ask.factor) + LEFT;
                prop_assert!(could <= has + within + 1e-9, "{account} has {has}, {name} {could}");
            }
        }
    }

    /// What holds of a steady state when jobs differ in size: a round with nothing new takes from
    /// nobody, and after one that found nothing to do none does. That it starts nothing holds of jobs
    /// of one size alone (`laws`): what a larger one left over is found by the next round.
    #[test]
    fn a_round_with_nothing_new_preempts_nobody(asks in asks(), class in class(), protected in 0..3_u8) {
        let mut armada = armada();
        if let Share::Drf { protected_fraction, .. } = &mut armada.share.algorithm {
            *protected_fraction = f64::from(protected) / 2.0;
        }
        let legacy = preset("armada-legacy").expect("it is a preset");
        for (policy, class) in [(armada, class), (legacy, "default")] {
            let mut state = waiting(&asks, class);
            let mut before = step(&mut state, &policy);
            for _ in 0..4 {
                let after = step(&mut state, &policy);
                prop_assert_eq!(after.1, 0, "after {:?}", before);
                prop_assert!(before != (0, 0) || after == (0, 0), "after nothing {:?}", after);
                before = after;
            }
        }
    }

    /// An account that comes late is given its part by others giving way, and those that gave way
    /// take it from nobody when they come again; a round that preempts starts somebody.
    #[test]
    fn who_gave_way_takes_from_nobody(first in asks(), late in 1..60_usize, size in 1..=MOST) {
        // Of one size and weight, as in `laws`.
        let alike = |ask: &Asks| Asks { cores: size, memory: size, factor: 1.0, ..ask.clone() };
        let mut asks: Vec<Asks> = first.iter().map(alike).collect();
        let mut state = waiting(&asks, "preemptible");
        let account = state.accounts.len() - 1;
        state.jobs.retain(|job| job.account != NAMES[account]);
        let policy = armada();
        settle(&mut state, &policy);
        asks.iter_mut().for_each(|ask| ask.count = 0);
        asks[account].count = late;
        let mut coming = waiting(&asks, "preemptible").jobs;
        for job in &mut coming {
            (job.id.0, job.submit) = (job.id.0 + 1_000, state.now);
        }
        state.jobs.extend(coming);
        let outcome = schedule(&state, &policy);
        let (starts, preempts) = outcome.counts();
        prop_assert!(preempts == 0 || starts > 0);
        let now = state.now + Span::seconds(1);
        let left = state.apply(&outcome, now);
        state.now = Time(now.0 + 1_000_000);
        for mut job in left.preempted {
            (job.id.0, job.submit) = (job.id.0 + 5_000, state.now);
            state.jobs.push(job);
        }
        prop_assert_eq!(schedule(&state, &policy).counts().1, 0);
        let used: i64 = state.runs.iter().map(|run| run.job.request[0]).sum();
        prop_assert!(used <= NODES * EACH * UNIT);
    }
}
