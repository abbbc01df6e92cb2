//! Kinds about slices and draws by decayed priority.

use anyhow::{Context, Result};
use eddy_sched::amounts::{Amounts, KINDS_MAX, Kinds, UNIT};
use eddy_sched::policy::{Evict, Remainder, Rung, Share, SliceBasis, Source};
use eddy_sched::rounds::schedule;
use eddy_sched::rounds::slices::{Claim, Portion, Units, portions, remaining};
use serde_json::{Map, Value, json};

use super::Compute;
use super::rounds::Scene;

/// What computes this kind, if it is one of these.
pub fn of(kind: &str) -> Option<Compute> {
    Some(match kind {
        "slices" => slices,
        "slices_with_limits" => slices_with_limits,
        "slice_consume" => slice_consume,
        "queue_remaining_limit" => queue_remaining_limit,
        "distribute_remainder" => distribute_remainder,
        _ => return None,
    })
}

/// The name of a resource without the unit that a weight names.
fn resource(name: &str) -> &str {
    name.strip_suffix("_gib").unwrap_or(name)
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn units(kinds: &Kinds, value: &Value, absent: f64) -> Units {
    let mut units = [absent; KINDS_MAX];
    for (name, number) in object(value) {
        if let (Some(at), Some(number)) = (kinds.position(resource(name)), number.as_f64()) {
            units[at] = number;
        }
    }
    units
}

/// The portions of all queues of a case, and the kinds they are in.
fn cut(input: &Value) -> Result<(Kinds, Vec<(String, Portion)>)> {
    let mut names = Vec::new();
    let mut name = |value: &Value| {
        for (given, _) in object(value) {
            let given = resource(given).to_string();
            if !names.contains(&given) {
                names.push(given);
            }
        }
    };
    name(&input["to_slice"]);
    name(&input["usage_weight"]);
    for (_, queue) in object(&input["queues"]) {
        name(&queue["current_usage"]);
        name(&queue["remaining_limit"]);
    }
    let kinds = Kinds::new(names)?;
    // What is not weighed weighs 1, as where nothing is known of its capacity.
    let weights = units(&kinds, &input["usage_weight"], 1.0);
    let mut claims = Vec::new();
    for (name, queue) in object(&input["queues"]) {
        let priority = queue["priority"].as_f64();
        claims.push(Claim {
            effective: priority.with_context(|| format!("queue {name}: no priority"))?,
            used: units(&kinds, &queue["current_usage"], 0.0),
            most: units(&kinds, &queue["remaining_limit"], f64::INFINITY),
        });
    }
    let offer = units(&kinds, &input["to_slice"], 0.0);
    let cut = portions(&claims, &offer, &weights, SliceBasis::TotalMinusUsed);
    let queues = object(&input["queues"]).map(|(name, _)| name.clone());
    Ok((kinds, queues.zip(cut).collect()))
}

/// One resource of each queue where only one is sliced, else all.
fn written(input: &Value, kinds: &Kinds, of: &Units) -> Value {
    let sliced: Vec<(usize, &str)> = object(&input["to_slice"])
        .filter_map(|(name, _)| Some((kinds.position(resource(name))?, name.as_str())))
        .collect();
    match sliced[..] {
        [(at, _)] => json!(of[at]),
        _ => sliced
            .iter()
            .map(|&(at, name)| (name.to_string(), json!(of[at])))
            .collect(),
    }
}

fn slices(input: &Value) -> Result<Value> {
    let (kinds, queues) = cut(input)?;
    let mut answer = Map::new();
    for (resource, _) in object(&input["to_slice"]) {
        let at = kinds.position(self::resource(resource)).unwrap_or(0);
        let of = queues
            .iter()
            .map(|(name, portion)| (name.clone(), json!(portion.share[at])));
        answer.insert(format!("slice_{}", self::resource(resource)), of.collect());
    }
    Ok(Value::Object(answer))
}

fn slices_with_limits(input: &Value) -> Result<Value> {
    let (kinds, queues) = cut(input)?;
    let of = |pick: fn(&Portion) -> &Units| -> Value {
        queues
            .iter()
            .map(|(name, portion)| (name.clone(), written(input, &kinds, pick(portion))))
            .collect()
    };
    Ok(json!({
        "scheduling_share": of(|portion| &portion.share),
        "adjusted_share": of(|portion| &portion.adjusted),
    }))
}

fn number(input: &Value, field: &str) -> Result<f64> {
    let number = input[field].as_f64();
    number.with_context(|| format!("{field} is not a number"))
}

fn slice_consume(input: &Value) -> Result<Value> {
    let only = |field| -> Result<Units> {
        let mut units = Units::default();
        units[0] = number(input, field)?;
        Ok(units)
    };
    let mut portion = Portion {
        most: only("remaining_limit")?,
        share: only("scheduling_share")?,
        adjusted: only("adjusted_share")?,
    };
    portion.consume(&only("used")?);
    Ok(json!({
        "remaining_limit": portion.most[0],
        "scheduling_share": portion.share[0],
        "adjusted_share": portion.adjusted[0],
    }))
}

fn queue_remaining_limit(input: &Value) -> Result<Value> {
    let no_limit = |field: &str| input[field].as_f64().unwrap_or(f64::INFINITY);
    let remaining = remaining(
        no_limit("per_round_limit"),
        no_limit("per_queue_limit"),
        input["queue_fraction"].as_f64(),
        input["total"].as_f64().unwrap_or(f64::INFINITY),
        input["allocated"].as_f64().unwrap_or(0.0),
    );
    Ok(json!({ "remaining": remaining }))
}

/// A round of draws over queues of equal jobs, some of which no node can take.
fn distribute_remainder(input: &Value) -> Result<Value> {
    let node = json!([{ "capacity": input["capacity"] }]);
    let mut scene = Scene::new(&json!({ "nodes": node, "request": input["request"] }))?;
    scene.policy.queue.source = Source::PerAccountSlices {
        basis: SliceBasis::TotalMinusUsed,
        remainder: Remainder::Random,
    };
    scene.policy.queue.evict = Evict::Nothing;
    scene.policy.placement.ladder = vec![Rung::Free];
    scene.policy.share.algorithm = Share::PriorityFloor { floor: 0.5 };
    let ones = scene
        .state
        .kinds
        .names()
        .iter()
        .map(|name| (name.clone(), 1.0));
    scene.policy.usage.weights = ones.collect();
    for (name, queue) in object(&input["queues"]) {
        let used = scene.amounts(&queue["used"])?;
        let most = limit(&scene.state.kinds, &queue["remaining_limit"]);
        let account = scene.account(name);
        account.usage = queue["priority"].as_f64().unwrap_or(1.0);
        account.held.insert(String::new(), used);
        account.round_most = most;
        let mut group = json!({
            "queue": name, "count": queue["jobs"], "request": input["request"],
        });
        if !queue["feasible"].as_bool().unwrap_or(true) {
            group["node_selector"] = json!({ "nowhere": "yes" });
        }
        let jobs = scene.jobs(&group)?;
        scene.state.jobs.extend(jobs);
    }
    let (started, _) = schedule(&scene.state, &scene.policy).counts();
    Ok(json!({ "total_started": started }))
}

fn limit(kinds: &Kinds, given: &Value) -> Option<Amounts> {
    given.as_object()?;
    let most = units(kinds, given, f64::INFINITY);
    let mut amounts = Amounts::NONE;
    for (at, most) in most.into_iter().enumerate() {
        amounts[at] = match most.is_finite() {
            true => (most * UNIT as f64).round() as i64,
            false => i64::MAX,
        };
    }
    Some(amounts)
}
