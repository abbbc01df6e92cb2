//! Laws over random graphs and requests, each against a count of its own.

use eddy_wire::time::{Span, Time};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Graph, Match, Matcher, Place, Plan, Share, State, Stock};
use super::{graph, slots, want};
use crate::policy::NodeRank;

const RANKS: [NodeRank; 7] = [
    NodeRank::LowId,
    NodeRank::HighId,
    NodeRank::FirstFit,
    NodeRank::Pack,
    NodeRank::Spread,
    NodeRank::BestFit,
    NodeRank::Locality,
];

/// Racks of nodes of sockets, unlike each other.
fn lines() -> impl Strategy<Value = String> {
    let node = (1..3u32, 1..4u32, 0..2u32, 1..3u32);
    let rack = prop::collection::vec(node, 1..3);
    prop::collection::vec(rack, 1..3).prop_map(|racks| {
        let node = |&(sockets, cores, gpus, count): &(u32, u32, u32, u32)| {
            let gpu = if gpus > 0 {
                format!("gpu[{gpus}]")
            } else {
                String::new()
            };
            format!("node[{count}]{{socket[{sockets}]{{core[{cores}] {gpu}}} memory[64]}} ")
        };
        let rack =
            |nodes: &Vec<_>| format!("rack[1]{{{}}} ", nodes.iter().map(node).collect::<String>());
        format!(
            "cluster[1]{{{}license[1x3]}}",
            racks.iter().map(rack).collect::<String>()
        )
    })
}

/// Something to ask for.
fn asks() -> impl Strategy<Value = Value> {
    let whole = |kind: &'static str| {
        (1..3u32).prop_map(move |count| {
            json!([{"type": "slot", "label": "s", "count": 1, "with": [{"type": kind, "count": count}]}])
        })
    };
    prop_oneof![
        (1..4u32, 1..4u32).prop_map(|(count, cores)| slots(json!(count), cores)),
        (1..3u32, 0..2u32).prop_map(|(count, licences)| json!([
            {"type": "node", "count": count, "with": slots(json!("1-3"), 1)},
            {"type": "license", "count": licences + 1},
        ])),
        whole("node"),
        whole("socket"),
        whole("rack"),
        (1..3u32, 1..3u32).prop_map(
            |(sockets, cores)| json!([{"type": "slot", "label": "s", "count": 1, "with": [
            {"type": "socket", "count": sockets}, {"type": "core", "count": cores}]}])
        ),
    ]
}

fn place(rank: usize) -> Place {
    Place {
        rank: RANKS[rank],
        ..Place::default()
    }
}

/// Every unit of a match as (vertex, position); amounts are left to the stock's own assertions.
fn units(graph: &Graph, found: &Match) -> Vec<(u32, u32)> {
    let mut units = Vec::new();
    for pick in &found.picks {
        match &pick.share {
            Share::Through | Share::Amount(_) => {}
            Share::Units(positions) => units.extend(positions.iter().map(|at| (pick.vertex, at))),
            Share::Whole => {
                for at in pick.vertex..graph.end[pick.vertex as usize] {
                    units.extend((0..graph.vertex(at).size() as u32).map(|unit| (at, unit)));
                }
            }
        }
    }
    units
}

/// Cores free on each node.
fn free_cores(graph: &Graph, stock: &Stock) -> Vec<i64> {
    let core = graph.kind("core").unwrap();
    (0..graph.host_count())
        .map(|host| stock.free(graph.host(host), core))
        .collect()
}

/// Whether two sockets of `a` and `b` cores and `loose` cores elsewhere fit on one node of the
/// given idle sockets: every way is tried.
fn fits_tangled(sockets: &[i64], a: i64, b: i64, loose: i64) -> bool {
    let total: i64 = sockets.iter().sum();
    (0..sockets.len()).any(|i| {
        (0..sockets.len()).any(|j| {
            i != j && sockets[i] >= a && sockets[j] >= b && total - sockets[i] - sockets[j] >= loose
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// No two matches overlap, summaries are what a recount says, and freeing restores them.
    #[test]
    fn matches_are_apart_and_freeing_restores(
        line in lines(),
        steps in prop::collection::vec((asks(), 0..7usize, 0..4u32, any::<prop::sample::Index>()), 1..12),
    ) {
        let graph = graph(&line);
        let mut matcher = Matcher::new(graph.clone());
        let mut held: Vec<Match> = Vec::new();
        for (ask, rank, action, index) in steps {
            match action {
                0 if !held.is_empty() => {
                    let found = held.swap_remove(index.index(held.len()));
                    matcher.free(&found);
                }
                1 => {
                    let vertex = index.index(graph.len()) as u32;
                    let state = match matcher.stock().state(vertex) {
                        State::Up => State::Drained,
                        State::Down | State::Drained => State::Up,
                    };
                    matcher.set_state(vertex, state);
                }
                _ => held.extend(matcher.allocate(&want(&graph, ask, &place(rank))).ok()),
            }
            prop_assert_eq!(matcher.stock().recount(&graph), Ok(()));
            let mut all: Vec<(u32, u32)> = held.iter().flat_map(|found| units(&graph, found)).collect();
            let before = all.len();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(all.len(), before);
        }
        for found in &held {
            matcher.free(found);
        }
        for at in 0..graph.len() as u32 {
            matcher.set_state(at, State::Up);
        }
        let fresh = Stock::all_up(&graph);
        for at in 0..graph.len() as u32 {
            for kind in ["core", "gpu", "memory", "node", "socket", "rack"] {
                let Some(kind) = graph.kind(kind) else { continue };
                prop_assert_eq!(matcher.stock().free(at, kind), fresh.free(at, kind));
            }
        }
    }

    /// Slots are found exactly where a count over nodes says so, whatever the placement; low id
    /// takes the lowest nodes that will do.
    #[test]
    fn slots_are_found_where_there_are_any(
        line in lines(),
        first in prop::collection::vec((1..4u32, 0..7usize), 0..6),
        count in 1..6u32, cores in 1..5u32, rank in 0..7usize,
    ) {
        let graph = graph(&line);
        let mut matcher = Matcher::new(graph.clone());
        for (cores, rank) in first {
            let _ = matcher.allocate(&want(&graph, slots(json!(1), cores), &place(rank)));
        }
        let free = free_cores(&graph, matcher.stock());
        let room: i64 = free.iter().map(|free| free / i64::from(cores)).sum();
        let found = matcher.allocate(&want(&graph, slots(json!(count), cores), &place(rank)));
        prop_assert_eq!(found.is_ok(), room >= i64::from(count));
        if let (Ok(found), 0) = (found, rank) {
            let mut left = i64::from(count);
            let fits = |host: &usize| {
                let here = (free[*host] / i64::from(cores)).min(left);
                left -= here;
                here > 0
            };
            let lowest: Vec<usize> = (0..free.len()).filter(fits).collect();
            prop_assert_eq!(found.hosts(&graph), lowest);
        }
    }

    /// Where requests take from each other a search of all ways finds no more.
    #[test]
    fn tangled_requests_are_found(
        sockets in prop::collection::vec(1..6i64, 1..5),
        a in 1..5i64, b in 1..5i64, loose in 1..6i64, rank in 0..7usize,
    ) {
        let inner: String = sockets.iter().map(|cores| format!("socket[1]{{core[{cores}]}} ")).collect();
        let graph = graph(&format!("cluster[1]{{node[1]{{{inner}}}}}"));
        let socket = |cores: i64| json!({"type": "socket", "count": 1, "with": [{"type": "core", "count": cores}]});
        let ask = json!([{"type": "slot", "label": "s", "count": 1, "with": [
            socket(a), socket(b), {"type": "core", "count": loose}]}]);
        let found = Matcher::new(graph.clone()).allocate(&want(&graph, ask, &place(rank)));
        prop_assert_eq!(found.is_ok(), fits_tangled(&sockets, a, b, loose));
    }

    /// The earliest start is the first time of all at which it fits, and claims never overlap.
    #[test]
    fn the_earliest_start_is_the_first_that_fits(
        line in lines(),
        jobs in prop::collection::vec((asks(), 0..7usize, 1..6i64), 1..8),
    ) {
        let graph = graph(&line);
        let mut plan = Plan::new(graph.clone());
        let mut held: Vec<(i64, i64, Match)> = Vec::new();
        for (ask, rank, span) in jobs {
            let want = want(&graph, ask, &place(rank));
            let Ok((at, found)) = plan.earliest(&want, Time(0), Span(span)) else { continue };
            for earlier in 0..at.0 {
                prop_assert!(plan.fit(&want, Time(earlier), Span(span)).is_err());
            }
            let mine = units(&graph, &found);
            for (from, until, other) in &held {
                if at.0 < *until && *from < at.0 + span {
                    let theirs = units(&graph, other);
                    prop_assert!(mine.iter().all(|unit| !theirs.contains(unit)));
                }
            }
            plan.hold(&found, at, Time(at.0 + span));
            held.push((at.0, at.0 + span, found));
        }
    }
}
