//! How many requests a second a graph of nodes serves, with every placement; how much it takes in
//! memory.

use std::sync::Arc;

use anyhow::Context as _;
use eddy_sched::graph::{Graph, Match, Matcher, Place, Want};
use eddy_sched::policy::NodeRank;
use eddy_wire::jobspec::Jobspec;
use serde_json::{Value, json};

use crate::Setup;
use crate::process::{own_cpu, own_memory};
use crate::report::Report;
use crate::rounds::Series;

/// Every placement with its budget on 10,000 nodes.
const RANKS: [(NodeRank, &str, &str); 7] = [
    (NodeRank::FirstFit, "first fit", ">= 100,000"),
    (NodeRank::LowId, "low id", ">= 100,000"),
    (NodeRank::HighId, "high id", ">= 20,000"),
    (NodeRank::Pack, "pack", ">= 20,000"),
    (NodeRank::Spread, "spread", ">= 20,000"),
    (NodeRank::BestFit, "best fit", ">= 20,000"),
    (NodeRank::Locality, "locality", ">= 20,000"),
];
/// Cores of each node, in two sockets.
const CORES: u32 = 32;
/// Requests of the second half: one is given back, one comes.
const CHURN: usize = 20_000;

/// Cores and whole nodes, on 1,000 and on 10,000 nodes.
pub fn run(setup: &Setup, report: &mut Report) -> anyhow::Result<()> {
    for nodes in [1000, 10_000] {
        for (rank, name, budget) in RANKS {
            for (what, resources) in [
                ("4 cores", json!({"type": "core", "count": 4})),
                ("a whole node", json!({"type": "node", "count": 1})),
            ] {
                let named = format!("{nodes} nodes, {name}, {what}");
                rates(&named, nodes, rank, &resources, budget, setup, report)?;
            }
        }
    }
    memory(report)
}

fn graph(nodes: u32) -> anyhow::Result<Graph> {
    let half = CORES / 2;
    let (racks, each) = (nodes / 100, 100);
    let text = format!("cluster[1] rack[{racks}] node[{each}] socket[2] core[{half}]");
    Graph::generate(&text).context("a graph of racks")
}

/// Fills a machine, then gives back and takes at random.
fn rates(
    named: &str,
    nodes: u32,
    rank: NodeRank,
    resources: &Value,
    budget: &'static str,
    setup: &Setup,
    report: &mut Report,
) -> anyhow::Result<()> {
    let graph = Arc::new(graph(nodes)?);
    let place = Place {
        rank,
        ..Place::default()
    };
    let jobspec = Jobspec::from_value(json!({
        "version": 1,
        "resources": [{"type": "slot", "label": "s", "count": 1, "with": [resources]}],
        "tasks": [{"command": ["a"], "slot": "s", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60}},
    }))?;
    let want = Want::of(&graph, &jobspec, &place)?.context("types that are there")?;
    let mut filled = Series::new(format!("{named}: filling"), "1/s");
    let mut churned = Series::new(format!("{named}: one goes, one comes"), "1/s");
    for _ in 0..setup.rounds(1) {
        let mut matcher = Matcher::new(Arc::clone(&graph));
        let (mut found, spent): (Vec<Match>, f64) = (Vec::new(), own_cpu()?);
        let all = match resources["type"] == "node" {
            true => nodes,
            false => nodes * CORES / 4,
        };
        for _ in 0..all {
            found.push(matcher.allocate(&want).context("it is free")?);
        }
        filled
            .figures
            .push(found.len() as f64 / (own_cpu()? - spent));
        let mut seed = 88_172_645_463_325_252_u64;
        let mut other = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed % found.len() as u64).expect("a small number")
        };
        let picked: Vec<usize> = (0..CHURN).map(|_| other()).collect();
        // A tenth is free all the while.
        for at in picked.iter().take(found.len() / 10).copied() {
            if !found[at].picks.is_empty() {
                matcher.free(&found[at]);
                found[at].picks.clear();
            }
        }
        let spent = own_cpu()?;
        for at in picked.iter().copied() {
            if !found[at].picks.is_empty() {
                matcher.free(&found[at]);
            }
            found[at] = matcher.allocate(&want).context("some was given back")?;
        }
        churned.figures.push(CHURN as f64 / (own_cpu()? - spent));
    }
    report.add_budgeted(&filled, budget);
    report.add_budgeted(&churned, budget);
    Ok(())
}

/// Of a graph of 10,000 nodes with all that is free of it.
fn memory(report: &mut Report) -> anyhow::Result<()> {
    let before = own_memory();
    let matcher = Matcher::new(Arc::new(graph(10_000)?));
    let mut memory = Series::new("10,000 nodes: memory of the graph", "MB");
    memory.figures.push(own_memory() - before);
    report.add_budgeted(&memory, "<= 100 MB");
    let mut each = Series::new("memory of a node of the graph", "B");
    each.figures.push(memory.figures[0] * 1e6 / 1e4);
    report.add(&each);
    drop(matcher);
    Ok(())
}
