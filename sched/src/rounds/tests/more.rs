//! Laws over random workloads of all kinds: classes, gangs, taints, many nodes.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};
use proptest::prelude::*;

use super::make::*;
use crate::amounts::Amounts;
use crate::rounds::*;

const CLASSES: [&str; 3] = ["low", "high", "firm"];
const NAMES: [&str; 4] = ["a", "b", "c", "unknown"];

#[derive(Clone, Debug)]
struct Ask {
    account: usize,
    class: usize,
    cpu: i64,
    gang: Option<(u32, u32, bool)>,
    pinned: bool,
    wave: usize,
}

fn ask() -> impl Strategy<Value = Ask> {
    let gang = prop::option::weighted(0.3, (2_u32..5, 1_u32..5, any::<bool>()));
    (
        0_usize..4,
        0_usize..3,
        1_i64..6,
        gang,
        prop::bool::weighted(0.1),
        0_usize..3,
    )
        .prop_map(|(account, class, cpu, gang, pinned, wave)| Ask {
            account,
            class,
            cpu,
            gang,
            pinned,
            wave,
        })
}

fn nodes() -> State {
    let mut state = state(&[(8, 8), (8, 8), (4, 4), (16, 16)], &NAMES[..3]);
    for node in 0..4 {
        let rack = ["r1", "r2"][node / 2];
        state.nodes[node].labels.insert("rack".into(), rack.into());
    }
    let taint = Taint {
        key: "big".into(),
        value: "yes".into(),
    };
    state.nodes[3].taints.push(taint);
    let tolerations = vec![Toleration {
        key: Some("big".into()),
        value: None,
    }];
    state.away.insert(
        "low".into(),
        vec![Away {
            priority: -5,
            tolerations,
        }],
    );
    state
}

fn submit(state: &mut State, next: &mut u64, ask: &Ask) {
    let count = ask.gang.map_or(1, |(count, ..)| u64::from(count));
    let jobs = (*next..*next + count).map(|id| {
        let mut job = job(id, NAMES[ask.account], CLASSES[ask.class], ask.cpu);
        job.submit = state.now;
        if ask.pinned {
            job.setting.selector.insert("rack".into(), "r2".into());
        }
        if ask.class == 1 {
            job.setting.tolerations.push(Toleration::default());
        }
        job
    });
    let jobs = match ask.gang {
        None => jobs.collect(),
        Some((_, minimum, together)) => gang(jobs, minimum, together.then_some("rack")),
    };
    *next += count;
    state.jobs.extend(jobs);
}

/// No node has more than it holds, of all classes together.
fn fits(state: &State) -> bool {
    state.nodes.iter().all(|node| {
        let here = state.runs.iter().filter(|run| run.node == node.rank);
        let used = here.fold(Amounts::NONE, |sum, run| sum + run.job.request);
        node.capacity.holds(&used)
    })
}

fn shuffled(state: &State, seed: u64) -> State {
    let mut state = state.clone();
    let mut draw = fastrand::Rng::with_seed(seed);
    draw.shuffle(&mut state.nodes);
    draw.shuffle(&mut state.jobs);
    draw.shuffle(&mut state.runs);
    draw.shuffle(&mut state.accounts);
    state
}

/// Whether every job of a gang is decided alike, apart from the rest of one that starts with
/// fewer.
fn gangs_whole(state: &State, outcome: &Outcome) -> bool {
    state.jobs.iter().all(|job| {
        let Some(gang) = &job.gang else { return true };
        let all = state
            .jobs
            .iter()
            .filter(|other| other.gang.as_ref() == Some(gang));
        let mine = all.filter(|other| other.account == job.account);
        let decisions: Vec<&Decision> = mine.map(|job| &outcome.decisions[&job.id]).collect();
        let count = |wanted: fn(&Decision) -> bool| {
            decisions.iter().filter(|decision| wanted(decision)).count() as u32
        };
        let starts = count(|decision| matches!(decision, Decision::Start { .. }));
        let waits = count(|decision| matches!(decision, Decision::Wait(_)));
        waits == decisions.len() as u32
            || waits == 0 && starts >= gang.minimum.min(gang.cardinality)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rounds_keep_their_laws(asks in prop::collection::vec(ask(), 1..40), seed in any::<u64>()) {
        let mut state = nodes();
        let mut next = 1;
        for wave in 0..6 {
            state.now = Time(0) + Span::seconds(wave as i64 + 1);
            for ask in asks.iter().filter(|ask| ask.wave == wave) {
                submit(&mut state, &mut next, ask);
            }
            let outcome = schedule(&state, &policy());
            prop_assert_eq!(&outcome, &schedule(&shuffled(&state, seed), &policy()));
            prop_assert_eq!(outcome.decisions.len(), state.jobs.len() + state.runs.len());
            let (starts, preempts) = outcome.counts();
            prop_assert!(preempts == 0 || starts > 0);
            prop_assert!(gangs_whole(&state, &outcome));
            for run in &state.runs {
                let decision = &outcome.decisions[&run.job.id];
                let firm = run.job.class == "firm" || run.job.account == "unknown";
                prop_assert!(!firm || *decision == Decision::Keep);
            }
            let now = state.now;
            state.apply(&outcome, now);
            prop_assert!(fits(&state), "over capacity after wave {wave}");
            let mut ledger = BTreeMap::new();
            for run in &state.runs {
                *ledger.entry(run.job.account.clone()).or_insert(Amounts::NONE) += run.job.request;
            }
            for (account, has) in &outcome.ledger {
                prop_assert_eq!(ledger.get(account).copied().unwrap_or_default(), *has);
            }
        }
    }

    #[test]
    fn bad_input_is_answered_and_never_panics(
        factor in prop::sample::select(vec![0.0, -1.0, f64::NAN, f64::INFINITY, 1.0]),
        request in prop::sample::select(vec![i64::MIN, -1, 0, 1, i64::MAX]),
        node in 0_u32..9,
    ) {
        let mut state = nodes();
        state.accounts[0].factor = factor;
        state.accounts[0].usage = factor;
        let mut odd = job(1, "a", "low", 1);
        odd.request[0] = request;
        let mut other = job(2, "a", "no such class", 1);
        other.gang = Some(Gang::default());
        state.runs.push(run(odd.clone(), node));
        odd.id = JobId(3);
        state.jobs.extend([odd, other]);
        let outcome = schedule(&state, &policy());
        prop_assert_eq!(outcome.decisions.len(), 3);
    }
}
