//! Gangs offered one by one, and what one small round does to one node.

use anyhow::{Context, Result};
use eddy_sched::policy::{Rung, Share};
use eddy_sched::rounds::{Decision, Method, Trial, schedule};
use eddy_wire::id::JobId;
use serde_json::{Map, Value, json};

use super::scene::{Scene, fields, list, rate};

/// Gangs in the order of the case, whoever they belong to.
pub fn gang_sequence(input: &Value) -> Result<Value> {
    let mut scene = Scene::new(input)?;
    let mut gangs: Vec<Vec<JobId>> = Vec::new();
    for (number, group) in list(&input["gangs"]).iter().enumerate() {
        let mut jobs = scene.jobs(group)?;
        for job in &mut jobs {
            // Each entry is a gang of its own, also where a case uses a name twice.
            if let Some(gang) = &mut job.gang {
                gang.id = format!("{} {number}", gang.id);
            }
        }
        scene.account(group["queue"].as_str().unwrap_or("A"));
        gangs.push(jobs.iter().map(|job| job.id).collect());
        scene.state.jobs.extend(jobs);
    }
    let mut trial = Trial::new(&scene.state, &scene.policy);
    let mut scheduled = Vec::new();
    let mut placed = Vec::new();
    let mut values = Map::new();
    for (number, gang) in gangs.iter().enumerate() {
        let members = trial.offer(gang).unwrap_or_default();
        placed.push(members.len());
        let Some((_, node, _)) = members.first() else {
            continue;
        };
        scheduled.push(number);
        let label = &input["gangs"][number]["gang"]["node_uniformity_label"];
        let node = scene.state.nodes.iter().find(|known| known.rank == *node);
        if let (Some(label), Some(node)) = (label.as_str(), node) {
            values.insert(number.to_string(), json!(node.labels.get(label)));
        }
    }
    Ok(json!({
        "scheduled_gangs": scheduled,
        "members_placed": placed,
        "uniformity_value": values,
    }))
}

/// Jobs on one node, each over what is of a lower class.
pub fn bind_sequence(input: &Value) -> Result<Value> {
    let mut scene = Scene::new(input)?;
    scene.account("A");
    for group in list(&input["sequence"]) {
        let jobs = scene.jobs(group)?;
        scene.state.jobs.extend(jobs);
    }
    let mut trial = Trial::new(&scene.state, &scene.policy);
    let jobs = scene.state.jobs.iter();
    let placed: Vec<bool> = jobs.map(|job| trial.offer(&[job.id]).is_ok()).collect();
    Ok(json!({ "placed": placed }))
}

/// How one job finds room on one node.
pub fn preemption_kind(input: &Value) -> Result<Value> {
    let mut scene = Scene::new(input)?;
    let off = |field: &str| input[field].as_bool().unwrap_or(false);
    scene.policy.placement.ladder = [Rung::Free, Rung::Evicted, Rung::Urgency]
        .into_iter()
        .filter(|rung| match rung {
            Rung::Free => true,
            Rung::Evicted => !off("disable_fairshare_preemption"),
            Rung::Urgency => !off("disable_urgency_preemption"),
        })
        .collect();
    protect_nobody(&mut scene);
    for side in ["bound", "incoming"] {
        scene.account(input[side]["queue"].as_str().unwrap_or("A"));
    }
    scene.running(&input["bound"], 0)?;
    let incoming = scene.jobs(&input["incoming"])?;
    let id = incoming.first().context("incoming: no job")?.id;
    scene.state.jobs.extend(incoming);
    let mut trial = Trial::new(&scene.state, &scene.policy);
    if input["bound"]["evicted"].as_bool().unwrap_or(false) {
        trial.put_back();
    }
    let method = trial
        .offer(&[id])
        .ok()
        .and_then(|placed| Some(placed.first()?.2));
    Ok(json!({
        "placed": method.is_some(),
        "method": method.map(|method| match method {
            Method::Free => "no_preemption",
            Method::FairShare => "fair_share",
            Method::Urgency => "urgency",
        }),
    }))
}

fn protect_nobody(scene: &mut Scene) {
    if let Share::Drf {
        protected_fraction, ..
    } = &mut scene.policy.share.algorithm
    {
        *protected_fraction = 0.0;
    }
}

/// Whose jobs would be placed again in which order.
pub fn eviction_order(input: &Value) -> Result<Value> {
    let mut scene = Scene::new(input)?;
    protect_nobody(&mut scene);
    for (queue, group) in fields(&input["running"]) {
        scene.account(queue);
        let mut group = group.clone();
        group["queue"] = json!(queue);
        scene.running(&group, 0)?;
    }
    let mut trial = Trial::new(&scene.state, &scene.policy);
    Ok(json!({ "queue_order": trial.put_back() }))
}

/// What becomes of a job that was or was not put back, and was or was not given a node: each
/// pair is brought about on a node for one job.
pub fn eviction_outcomes(input: &Value) -> Result<Value> {
    let outcome = |pair: &Value| -> Result<&'static str> {
        let back = pair[0].as_bool().context("cases: no first of a pair")?;
        let given = pair[1].as_bool().context("cases: no second of a pair")?;
        let mut scene = Scene::new(&json!({ "node": { "cpu": 1 } }))?;
        protect_nobody(&mut scene);
        scene.account("A");
        let urgent = json!({ "class_priority": 1, "request": { "cpu": 1 } });
        let plain = json!({ "class_priority": 0, "request": { "cpu": 1 } });
        let ids = match back {
            true => scene.running(&plain, 0)?,
            false => {
                let jobs = scene.jobs(&plain)?;
                let ids = jobs.iter().map(|job| job.id).collect();
                scene.state.jobs.extend(jobs);
                ids
            }
        };
        if !given {
            let rivals = scene.jobs(&urgent)?;
            scene.state.jobs.extend(rivals);
        }
        let decisions = schedule(&scene.state, &scene.policy).decisions;
        Ok(match decisions[&ids[0]] {
            Decision::Start { .. } => "schedule",
            Decision::Wait(_) | Decision::Fail => "stay queued",
            Decision::Keep => "keep running",
            Decision::Preempt { .. } => "preempt",
        })
    };
    let outcomes: Result<Vec<_>> = list(&input["cases"]).iter().map(outcome).collect();
    Ok(json!({ "outcome": outcomes? }))
}

/// A round on one node with a limited rate of preemptions.
pub fn preemption_rate_limit(input: &Value) -> Result<Value> {
    let mut scene = Scene::new(input)?;
    protect_nobody(&mut scene);
    let limit = &input["rate_and_burst"];
    scene.policy.queue.limits.preempt_rate = rate(&limit[0], &limit[1]);
    let group = |queue: &str, count: &Value| json!({ "queue": queue, "count": count, "request": input["request"] });
    for (queue, count) in fields(&input["evicted"]) {
        scene.account(queue);
        scene.running(&group(queue, count), 0)?;
    }
    for (queue, count) in fields(&input["new"]) {
        scene.account(queue);
        let jobs = scene.jobs(&group(queue, count))?;
        scene.state.jobs.extend(jobs);
    }
    let (started, preempted) = schedule(&scene.state, &scene.policy).counts();
    Ok(json!({ "new_scheduled": started, "preempted": preempted }))
}
