//! Whole rounds: one over what waits, or several with submissions between.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use eddy_sched::amounts::Amounts;
use eddy_sched::policy::Evict;
use eddy_sched::rounds::{Decision, Service, schedule};
use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};
use serde_json::{Value, json};

use super::scene::{Scene, fields, list};

/// Indices as inclusive ranges.
fn ranges(mut indices: Vec<u64>) -> Value {
    indices.sort_unstable();
    let mut ranges: Vec<[u64; 2]> = Vec::new();
    for index in indices {
        match ranges.last_mut() {
            Some([_, last]) if *last + 1 == index => *last = index,
            Some(_) | None => ranges.push([index, index]),
        }
    }
    json!(ranges)
}

/// Indices from inclusive ranges; a number alone is itself.
fn indices(ranges: &Value) -> Vec<u64> {
    let of = |range: &Value| match range.as_u64() {
        Some(one) => one..=one,
        None => range[0].as_u64().unwrap_or(1)..=range[1].as_u64().unwrap_or(0),
    };
    list(ranges).iter().flat_map(of).collect()
}

/// One pass over what waits; nothing is put back.
pub fn drf_fill_pass(input: &Value) -> Result<Value> {
    let mut scene = Scene::new(input)?;
    scene.policy.queue.evict = Evict::Nothing;
    for (queue, classes) in fields(&input["initial_allocated"]) {
        for (class, held) in fields(classes) {
            let held = scene.amounts(held)?;
            scene.account(queue).held.insert(class.clone(), held);
        }
    }
    for group in list(&input["jobs"]) {
        let jobs = scene.jobs(group)?;
        scene.state.jobs.extend(jobs);
    }
    let outcome = schedule(&scene.state, &scene.policy);
    let mut started = Vec::new();
    let mut untried = Vec::new();
    let queues = scene.state.accounts.iter();
    let mut counts: BTreeMap<String, u64> = queues.map(|queue| (queue.name.clone(), 0)).collect();
    for (index, job) in scene.state.jobs.iter().enumerate() {
        match outcome.decisions.get(&job.id) {
            Some(Decision::Start { .. }) => {
                started.push(index as u64);
                *counts.entry(job.account.clone()).or_default() += 1;
            }
            Some(Decision::Wait(reason)) if !reason.tried() => untried.push(index as u64),
            Some(
                Decision::Wait(_) | Decision::Keep | Decision::Preempt { .. } | Decision::Fail,
            )
            | None => {}
        }
    }
    Ok(json!({
        "scheduled_indices": ranges(started),
        "scheduled_counts": counts,
        "never_attempted_indices": ranges(untried),
    }))
}

/// Who a job is in the words of a case: queue, round (or `initial`), index.
type Name = (String, String, u64);

struct Rounds {
    scene: Scene,
    names: BTreeMap<JobId, Name>,
    demand: BTreeMap<String, Amounts>,
}

/// Rounds with submissions, ends and cordons between; what did not start is withdrawn.
pub fn drf_rounds(input: &Value) -> Result<Value> {
    let mut rounds = Rounds {
        scene: Scene::new(input)?,
        names: BTreeMap::new(),
        demand: BTreeMap::new(),
    };
    let mut counts = BTreeMap::new();
    for group in list(&input["initial_running"]) {
        let node = rounds.rank(input, &group["node"])?;
        let jobs = rounds.scene.running(group, node)?;
        let queue = group["queue"].as_str().unwrap_or_default();
        rounds.name(queue, "initial", &jobs, &mut counts);
        let request = rounds.scene.amounts(&group["request"])?;
        rounds.demand(queue, request.times(jobs.len() as i64));
    }
    let mut answers = Vec::new();
    for (number, round) in list(&input["rounds"]).iter().enumerate() {
        answers.push(rounds.play(input, number, round)?);
    }
    Ok(json!({ "rounds": answers }))
}

impl Rounds {
    fn rank(&self, input: &Value, node: &Value) -> Result<u32> {
        if let Some(rank) = node.as_u64() {
            return Ok(rank as u32);
        }
        let at = list(&input["nodes"])
            .iter()
            .position(|known| known["id"] == *node);
        let at = at.with_context(|| format!("node {node} is not known"))?;
        Ok(at as u32)
    }

    fn name(
        &mut self,
        queue: &str,
        round: &str,
        jobs: &[JobId],
        counts: &mut BTreeMap<String, u64>,
    ) {
        let count = counts.entry(queue.to_string()).or_default();
        for &job in jobs {
            self.names
                .insert(job, (queue.to_string(), round.to_string(), *count));
            *count += 1;
        }
    }

    fn demand(&mut self, queue: &str, more: Amounts) {
        *self.demand.entry(queue.to_string()).or_default() += more;
    }

    fn play(&mut self, input: &Value, number: usize, round: &Value) -> Result<Value> {
        self.scene.state.now = Time(0) + Span::seconds(number as i64 + 1);
        for ended in list(&round["finish"]) {
            self.finish(ended);
        }
        for node in list(&round["cordon_nodes"]) {
            let rank = self.rank(input, node)?;
            let mut nodes = self.scene.state.nodes.iter_mut();
            if let Some(node) = nodes.find(|node| node.rank == rank) {
                node.service = Service::Cordoned;
            }
        }
        let mut counts = BTreeMap::new();
        for group in list(&round["submit"]) {
            let jobs = self.scene.jobs(group)?;
            let queue = group["queue"].as_str().unwrap_or_default();
            let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
            self.name(queue, &number.to_string(), &ids, &mut counts);
            let sum = jobs
                .iter()
                .fold(Amounts::NONE, |sum, job| sum + job.request);
            self.demand(queue, sum);
            self.scene.state.jobs.extend(jobs);
        }
        for account in &mut self.scene.state.accounts {
            account.demand = Some(self.demand.get(&account.name).copied().unwrap_or_default());
        }
        let outcome = schedule(&self.scene.state, &self.scene.policy);
        let now = self.scene.state.now;
        self.scene.state.apply(&outcome, now);
        self.scene.state.jobs.clear();
        self.answer(&outcome.decisions)
    }

    fn finish(&mut self, ended: &Value) {
        let queue = ended["queue"].as_str().unwrap_or_default();
        let round = match ended["round"].as_u64() {
            Some(round) => round.to_string(),
            None => "initial".to_string(),
        };
        let indices = indices(&ended["indices"]);
        let mut freed = Amounts::NONE;
        let names = &self.names;
        self.scene.state.runs.retain(|run| {
            let ends = names
                .get(&run.job.id)
                .is_some_and(|(q, r, index)| q == queue && *r == round && indices.contains(index));
            if ends {
                freed += run.job.request;
            }
            !ends
        });
        let demand = self.demand.entry(queue.to_string()).or_default();
        *demand -= freed;
    }

    fn answer(&self, decisions: &BTreeMap<JobId, Decision>) -> Result<Value> {
        let mut scheduled: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        let mut preempted: BTreeMap<&str, BTreeMap<&str, Vec<u64>>> = BTreeMap::new();
        for (job, decision) in decisions {
            let Some((queue, round, index)) = self.names.get(job) else {
                continue;
            };
            match decision {
                Decision::Start { .. } => scheduled.entry(queue).or_default().push(*index),
                Decision::Preempt { .. } => {
                    let rounds = preempted.entry(queue).or_default();
                    rounds.entry(round).or_default().push(*index);
                }
                Decision::Keep | Decision::Wait(_) | Decision::Fail => {}
            }
        }
        let scheduled: BTreeMap<_, _> = scheduled
            .into_iter()
            .map(|(queue, all)| (queue, ranges(all)))
            .collect();
        let preempted: BTreeMap<_, BTreeMap<_, _>> = preempted
            .into_iter()
            .map(|(queue, rounds)| {
                let rounds = rounds.into_iter().map(|(round, all)| (round, ranges(all)));
                (queue, rounds.collect())
            })
            .collect();
        Ok(json!({ "scheduled": scheduled, "preempted": preempted }))
    }
}
