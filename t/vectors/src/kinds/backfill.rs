//! Kinds about walks: backfill plans and their limits.
//!
//! The nodes of a case are a room, its queue an agenda; one pass at time 0 gives
//! who starts and who is planned for when.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use eddy_sched::amounts::{Amounts, Kinds, UNIT};
use eddy_sched::policy::{FillOrder, Reservations, Walk};
use eddy_sched::walk::{
    Agenda, Blocked, Hold, Job, Nodes, NodesNeed, NodesSpot, Progress, Room, Rules, Verdict,
};
use eddy_wire::time::{MICROS, Span, Time};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Compute;

/// What computes this kind, if it is one of these.
pub fn of(kind: &str) -> Option<Compute> {
    match kind {
        "backfill_plan" => Some(plan),
        "backfill_test_limit" => Some(test_limit),
        _ => None,
    }
}

/// Amounts by name.
type Named = BTreeMap<String, f64>;

#[derive(Deserialize)]
#[serde(untagged)]
enum Machine {
    Each(Vec<Named>),
    Alike { count: usize, capacity: Named },
}

#[derive(Deserialize)]
struct Plan {
    nodes: Machine,
    #[serde(default)]
    running: Vec<Running>,
    queue: Vec<Queued>,
    reservation_depth: u32,
    #[serde(default)]
    lic: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Running {
    remaining: Option<f64>,
    alloc: Vec<(usize, Named)>,
    #[serde(default)]
    licenses: BTreeMap<String, u64>,
}

#[derive(Deserialize)]
struct Queued {
    id: Value,
    #[serde(default = "one")]
    nodes: usize,
    #[serde(default)]
    per_node: Named,
    #[serde(default)]
    exclusive: bool,
    #[serde(default)]
    licenses: BTreeMap<String, u64>,
    walltime: Option<f64>,
}

fn one() -> usize {
    1
}

/// Names to places.
struct Names {
    kinds: Kinds,
    pools: Vec<String>,
}

impl Names {
    fn amounts(&self, named: &Named) -> Result<Amounts> {
        let mut amounts = Amounts::NONE;
        for (name, count) in named {
            let at = self.kinds.position(name);
            let at = at.with_context(|| format!("no node has `{name}`"))?;
            amounts[at] = (count * UNIT as f64).round() as i64;
        }
        Ok(amounts)
    }

    fn pools(&self, named: &BTreeMap<String, u64>) -> Vec<(usize, u64)> {
        let at = |name: &String| self.pools.iter().position(|pool| pool == name);
        let asked = named.iter().filter(|(_, asked)| **asked > 0);
        // A pool that is not there is one past the last: nothing of it can ever be had.
        asked
            .map(|(name, &asked)| (at(name).unwrap_or(self.pools.len()), asked))
            .collect()
    }
}

/// The nodes of a case, and what its names mean.
fn machine(machine: &Machine, lic: &BTreeMap<String, u64>) -> Result<(Nodes, Names)> {
    let capacities: Vec<&Named> = match machine {
        Machine::Each(nodes) => nodes.iter().collect(),
        Machine::Alike { count, capacity } => vec![capacity; *count],
    };
    let kinds: BTreeSet<&String> = capacities.iter().flat_map(|node| node.keys()).collect();
    let names = Names {
        kinds: Kinds::new(kinds.into_iter().map(String::as_str))?,
        pools: lic.keys().cloned().collect(),
    };
    let amounts = capacities.iter().map(|node| names.amounts(node));
    let amounts = amounts.collect::<Result<Vec<Amounts>>>()?;
    let pools: Vec<u64> = lic.values().copied().collect();
    Ok((Nodes::new(&amounts, &pools), names))
}

fn span(seconds: Option<f64>) -> Result<Option<Span>> {
    let Some(seconds) = seconds else {
        return Ok(None);
    };
    let time = Time::from_seconds(seconds).filter(|time| time.0 >= 0);
    let time = time.with_context(|| format!("time {seconds} cannot be"))?;
    Ok(Some(Span(time.0)))
}

fn rules(walk: Walk, lookback: Option<u32>) -> Rules {
    Rules {
        walk,
        fill_order: FillOrder::Queue,
        reservations: Reservations::Replanned,
        replan_every: None,
        lookback,
        reserve_after: None,
        default_limit: None,
        window: None,
    }
}

/// One pass over all of them, by their place in the queue.
fn walked(
    rules: Rules,
    room: &mut Nodes,
    jobs: Vec<(NodesNeed, Option<Span>)>,
) -> Vec<Verdict<usize, NodesSpot>> {
    let mut agenda = Agenda::new(rules);
    for (at, (need, limit)) in jobs.into_iter().enumerate() {
        if let Err(Blocked::Never) = room.fit(&need, Time(0), Span::ZERO) {
            // Kept elsewhere: it must not use up a reservation or a test.
            continue;
        }
        let since = Time(0);
        agenda.enter(at, Job { need, since }, limit, room);
    }
    let mut verdicts = Vec::new();
    while let Progress::More = agenda.pass(room, Time(0), 1000, &mut verdicts) {}
    verdicts
}

fn plan(input: &Value) -> Result<Value> {
    let plan = Plan::deserialize(input)?;
    let (mut room, names) = machine(&plan.nodes, &plan.lic)?;
    let nodes = match &plan.nodes {
        Machine::Each(nodes) => nodes.len(),
        Machine::Alike { count, .. } => *count,
    };
    for running in &plan.running {
        let mut spot = NodesSpot::default();
        for (node, named) in &running.alloc {
            if *node >= nodes {
                bail!("running[].alloc: node {node} is given; there are {nodes}");
            }
            spot.nodes.push((*node, names.amounts(named)?));
        }
        spot.pools = names.pools(&running.licenses);
        let remaining = span(running.remaining)?.unwrap_or(Span(i64::MAX));
        room.take(&spot, Time(0), remaining);
    }
    let jobs = plan.queue.iter().map(|job| {
        let hold = if job.exclusive {
            Hold::Whole
        } else {
            Hold::Shared
        };
        let need = NodesNeed {
            nodes: job.nodes,
            each: names.amounts(&job.per_node)?,
            hold,
            pools: names.pools(&job.licenses),
        };
        Ok((need, span(job.walltime)?))
    });
    let walk = match plan.reservation_depth {
        0 => Walk::Stop,
        depth => Walk::Reserve { depth },
    };
    let jobs = jobs.collect::<Result<Vec<_>>>()?;
    let (mut starts, mut reserved) = (BTreeSet::new(), serde_json::Map::new());
    for verdict in walked(rules(walk, None), &mut room, jobs) {
        match verdict {
            Verdict::Start { key, .. } => drop(starts.insert(key)),
            Verdict::Reserve { key, at, .. } => {
                let id = &plan.queue[key].id;
                let name = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
                reserved.insert(name, json!(at.0 as f64 / MICROS as f64));
            }
            Verdict::Wait { .. } => {}
        }
    }
    let starts: Vec<&Value> = starts.iter().map(|&at| &plan.queue[at].id).collect();
    Ok(json!({"start_now": starts, "reserved": reserved}))
}

#[derive(Deserialize)]
struct Limit {
    nodes: Machine,
    jobs: usize,
    each: Each,
    max_job_test: u32,
}

#[derive(Deserialize)]
struct Each {
    #[serde(default = "one")]
    nodes: usize,
    #[serde(default)]
    per_node: Named,
    walltime: Option<f64>,
}

fn test_limit(input: &Value) -> Result<Value> {
    let limit = Limit::deserialize(input)?;
    let (mut room, names) = machine(&limit.nodes, &BTreeMap::new())?;
    // A job that asks for nodes and nothing of them has them to itself.
    let hold = match limit.each.per_node.is_empty() {
        true => Hold::Whole,
        false => Hold::Shared,
    };
    let need = NodesNeed {
        nodes: limit.each.nodes,
        each: names.amounts(&limit.each.per_node)?,
        hold,
        pools: Vec::new(),
    };
    let job = (need, span(limit.each.walltime)?);
    let walk = Walk::Reserve { depth: Walk::ALL };
    // 0 is no limit, as everywhere in the sources.
    let most = Some(limit.max_job_test).filter(|&most| most > 0);
    let jobs = vec![job; limit.jobs];
    let mut planned = BTreeSet::new();
    for verdict in walked(rules(walk, most), &mut room, jobs) {
        match verdict {
            Verdict::Start { key, .. } | Verdict::Reserve { key, .. } => {
                planned.insert(key);
            }
            Verdict::Wait { .. } => {}
        }
    }
    let first = (0..limit.jobs).find(|at| !planned.contains(at));
    Ok(json!({"planned": planned.len(), "first_unplanned": first.map(|at| at + 1)}))
}
