//! Kinds about charges and decay.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use eddy_sched::amounts::{Amounts, Kinds};
use eddy_sched::policy::{Charge, ChargedTime, Decay, UsageRules};
use eddy_sched::share::{floor, project};
use eddy_sched::usage::{
    self, Bound, Ended, Ledger, Meter, Run, ShortRuns, Standing, Tariff, floored, halved,
    per_second_approximation, scarcity, toward,
};
use eddy_wire::time::{Span, Time};
use serde_json::{Map, Value, json};

use super::Compute;

/// What computes this kind, if it is one of these.
pub fn of(kind: &str) -> Option<Compute> {
    Some(match kind {
        "effective_priorities" => effective_priorities,
        "effective_priority" => effective_priority,
        "group_quotas" => group_quotas,
        "inverse_priority_shares" => inverse_priority_shares,
        "priority_update" => priority_update,
        "priority_update_floor" => priority_update_floor,
        "priority_update_series" => priority_update_series,
        "project_usage" => project_usage,
        "scalar_usage" => scalar_usage,
        "short_job_penalty" => short_job_penalty,
        "slurm_decay" => slurm_decay,
        "step_decay" => step_decay,
        "tres_billing" => tres_billing,
        "usage_bins" => usage_bins,
        "usage_decay" => usage_decay,
        "usage_decay_compare" => usage_decay_compare,
        "weighted_usage" => weighted_usage,
        _ => return None,
    })
}

/// The number in a field.
pub fn number(value: &Value, field: &str) -> Result<f64> {
    value[field]
        .as_f64()
        .with_context(|| format!("{field}: {} is no number", value[field]))
}

/// The number in a field, or this where the field is absent.
pub fn number_or(value: &Value, field: &str, absent: f64) -> Result<f64> {
    match value.get(field) {
        None | Some(Value::Null) => Ok(absent),
        Some(_) => number(value, field),
    }
}

/// The list in a field.
pub fn list<'a>(value: &'a Value, field: &str) -> Result<&'a [Value]> {
    let list = value[field].as_array();
    Ok(list.with_context(|| format!("{field}: it is no list"))?)
}

/// The numbers in a list, or one number alone.
pub fn numbers(value: &Value, field: &str) -> Result<Vec<f64>> {
    match &value[field] {
        Value::Array(list) => list
            .iter()
            .map(|item| {
                item.as_f64()
                    .with_context(|| format!("{field}: {item} is no number"))
            })
            .collect(),
        _ => Ok(vec![number(value, field)?]),
    }
}

/// The object in a field, by name.
pub fn object<'a>(value: &'a Value, field: &str) -> Result<BTreeMap<&'a str, &'a Value>> {
    let object = value[field].as_object();
    let object = object.with_context(|| format!("{field}: it is no object"))?;
    Ok(object
        .iter()
        .map(|(name, value)| (name.as_str(), value))
        .collect())
}

/// The numbers of an object, by name; none where the field is absent.
pub fn by_name(value: &Value, field: &str) -> Result<BTreeMap<String, f64>> {
    if value.get(field).is_none() {
        return Ok(BTreeMap::new());
    }
    let numbers = object(value, field)?.into_iter().map(|(name, value)| {
        let number = value.as_f64();
        let number = number.with_context(|| format!("{field}.{name}: {value} is no number"))?;
        Ok((name.to_owned(), number))
    });
    numbers.collect()
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    let text = value[field].as_str();
    text.with_context(|| format!("{field}: {} is no text", value[field]))
}

/// Names with values as an object.
pub fn named<'a, V: Into<Value>>(pairs: impl IntoIterator<Item = (&'a str, V)>) -> Value {
    let pairs = pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.into()));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn span(seconds: f64) -> Result<Span> {
    let time = Time::from_seconds(seconds).context("a time is out of range")?;
    Ok(time - Time(0))
}

fn time(seconds: f64) -> Result<Time> {
    Time::from_seconds(seconds).context("a time is out of range")
}

fn effective_priorities(input: &Value) -> Result<Value> {
    let mut sums = BTreeMap::new();
    for cluster in object(input, "cluster_priorities")?.values() {
        for (queue, priority) in cluster.as_object().context("cluster_priorities")? {
            *sums.entry(queue.as_str()).or_insert(0.0) += priority.as_f64().context("priority")?;
        }
    }
    let minimum = number_or(input, "minimum", 0.5)?;
    let factors = by_name(input, "priority_factors")?;
    let effective = factors.iter().map(|(queue, &factor)| {
        let recorded = sums.get(queue.as_str()).copied();
        let unrecorded = floor::Unrecorded::BareFloor;
        (
            queue.as_str(),
            floor::effective(recorded, factor, minimum, unrecorded),
        )
    });
    Ok(json!({ "priorities": named(effective) }))
}

fn effective_priority(input: &Value) -> Result<Value> {
    let minimum = number_or(input, "minimum", 0.5)?;
    let queues = object(input, "queues")?;
    let mut names = Vec::new();
    let mut effective = Vec::new();
    for (name, queue) in queues {
        let (priority, factor) = (number(queue, "priority")?, number_or(queue, "factor", 1.0)?);
        let unrecorded = floor::Unrecorded::FloorTimesFactor;
        names.push(name);
        effective.push(floor::effective(
            Some(priority),
            factor,
            minimum,
            unrecorded,
        ));
    }
    let shares = floor::inverse_shares(&effective);
    let names = names.iter().copied();
    Ok(json!({
        "effective": named(names.clone().zip(effective)),
        "shares": named(names.zip(shares)),
    }))
}

fn inverse_priority_shares(input: &Value) -> Result<Value> {
    let priorities = by_name(input, "priorities")?;
    let shares = floor::inverse_shares(&priorities.values().copied().collect::<Vec<_>>());
    let names = priorities.keys().map(String::as_str);
    Ok(json!({ "shares": named(names.zip(shares)) }))
}

fn group_quotas(input: &Value) -> Result<Value> {
    let quotas = by_name(input, "quotas")?;
    let wanted: Vec<f64> = quotas.values().copied().collect();
    let of = |pool: f64| {
        let names = quotas.keys().map(String::as_str);
        named(names.zip(floor::quotas(&wanted, pool)))
    };
    let effective: Vec<Value> = numbers(input, "pools")?.into_iter().map(of).collect();
    Ok(json!({ "effective": effective }))
}

fn priority_update(input: &Value) -> Result<Value> {
    let new = toward(
        number(input, "old_priority")?,
        number(input, "usage")?,
        span(number(input, "elapsed_s")?)?,
        span(number(input, "half_time_s")?)?,
    );
    Ok(json!({ "new_priority": new }))
}

fn priority_update_floor(input: &Value) -> Result<Value> {
    let least = number(input, "floor")?;
    let old = number(input, "old_priority")?;
    let (usage, half) = (
        number(input, "usage")?,
        span(number(input, "half_time_s")?)?,
    );
    let used = floored(old, least);
    let new = toward(used, usage, span(number(input, "elapsed_s")?)?, half);
    let backwards = span(number_or(input, "negative_elapsed_s", -1.0)?)?;
    Ok(json!({
        "used_old": used,
        "new_priority": new,
        "shown_priority": floored(new, least),
        "negative_elapsed_changes_nothing": toward(old, usage, backwards, half) == old,
    }))
}

fn priority_update_series(input: &Value) -> Result<Value> {
    let (start, usage) = (number(input, "old_priority")?, number(input, "usage")?);
    let decay = Decay::TowardCurrent {
        half: span(number(input, "half_time_s")?)?,
    };
    let after = |steps: &[f64]| -> Result<f64> {
        let mut standing = Standing {
            amount: start,
            rate: usage,
            ..Standing::default()
        };
        let mut now = 0.0;
        for step in steps {
            now += step;
            standing.advance(&decay, time(now)?);
        }
        Ok(standing.amount)
    };
    let mut out = Map::new();
    if let Some(steps) = input["steps"].as_u64() {
        let step = number(input, "step_s")?;
        let end = after(&vec![step; steps as usize])?;
        out.insert("final_between".into(), json!(end));
        out.insert("value".into(), json!(end));
    }
    if let Some(partitions) = input["elapsed_partitions"].as_array() {
        let mut ends = Vec::new();
        for partition in partitions {
            ends.push(after(&numbers(&json!({ "steps": partition }), "steps")?)?);
        }
        let equal = ends.iter().all(|end| (end - ends[0]).abs() < 1e-9);
        out.insert("all_equal".into(), json!(equal));
        out.insert("value".into(), json!(ends.first()));
        out.insert("values".into(), json!(ends));
    }
    if input.get("at_s").is_some() {
        let values = numbers(input, "at_s")?.into_iter().map(|at| after(&[at]));
        let values = values.collect::<Result<Vec<_>>>()?;
        out.insert("values".into(), json!(values));
    }
    Ok(Value::Object(out))
}

fn rules(charge: Charge, weights: BTreeMap<String, f64>) -> UsageRules {
    UsageRules {
        charge,
        weights,
        factors: BTreeMap::new(),
        qos_factors: BTreeMap::new(),
        time: ChargedTime::Elapsed,
        minimum: Span::ZERO,
        decay: Decay::None,
    }
}

fn meters<'a>(names: impl IntoIterator<Item = &'a String>) -> Vec<Meter> {
    let meter = |name: &String| Meter {
        name: name.clone(),
        bound: Bound::Node,
        capacity: 1.0,
    };
    names.into_iter().map(meter).collect()
}

fn project_usage(input: &Value) -> Result<Value> {
    let mut rules = rules(Charge::Sum, BTreeMap::from([("ncpus".to_owned(), 1.0)]));
    for queue in list(input, "exempt_queues")? {
        let queue = queue
            .as_str()
            .context("exempt_queues: a queue is no text")?;
        rules.factors.insert(queue.to_owned(), 0.0);
    }
    let tariff = Tariff::new(&rules, &meters([&"ncpus".to_owned()]))?;
    let mut ledger = Ledger::new(Decay::None);
    for job in list(input, "jobs")? {
        let holder = ledger.holder(text(job, "project")?);
        let hours = Span(span(number(job, "wall_h")?)?.0.saturating_mul(3600));
        let charge = tariff.whole(&Run {
            amounts: &[number(job, "ncpus")?],
            elapsed: hours,
            requested: None,
            queue: text(job, "queue")?,
        });
        ledger.charge(holder, Time(0), charge / 3600.0);
    }
    let used = || {
        ledger
            .entries()
            .map(|(name, standing)| (name, standing.total()))
    };
    let total: f64 = used().map(|(_, used)| used).sum();
    let left = used().map(|(name, used)| (name, project::left_over(1e6, used, total)));
    Ok(json!({
        "usage": named(used()),
        "total": total,
        "fairshare_priority": named(left),
    }))
}

fn scalar_usage(input: &Value) -> Result<Value> {
    let capacity = by_name(input, "capacity")?;
    let used = by_name(input, "usage")?;
    let base = input["base"].as_str().unwrap_or("cpu");
    // What is used though there is none of it weighs 1, as in Armada.
    let names: Vec<&String> = capacity.keys().collect();
    let at = names.iter().position(|name| *name == base).unwrap_or(0);
    let capacities: Vec<f64> = capacity.values().copied().collect();
    let factors = scarcity(&capacities, at);
    let meters: Vec<Meter> = std::iter::once(at)
        .chain((0..names.len()).filter(|&other| other != at))
        .map(|at| Meter {
            name: names[at].clone(),
            bound: Bound::Node,
            capacity: capacities[at],
        })
        .collect();
    let tariff = Tariff::new(&rules(Charge::Scarcity, BTreeMap::new()), &meters)?;
    let amounts: Vec<f64> = meters
        .iter()
        .map(|meter| used.get(&meter.name).copied().unwrap_or(0.0))
        .collect();
    let unknown = used
        .iter()
        .filter(|(name, _)| !capacity.contains_key(*name));
    let unknown: f64 = unknown.map(|(_, amount)| amount).sum();
    let given = names.iter().zip(factors);
    let given = given.filter_map(|(name, factor)| Some((name.as_str(), factor?)));
    Ok(json!({ "factors": named(given), "usage": tariff.weigh(&amounts) + unknown }))
}

fn short_job_penalty(input: &Value) -> Result<Value> {
    let mut short = ShortRuns::new(span(number(input, "cutoff_s")?)?);
    let request = by_name(input, "request")?;
    let kinds = Kinds::new(request.keys())?;
    let mut amounts = Amounts::NONE;
    for (at, amount) in request.values().enumerate() {
        amounts[at] = (amount * 1000.0).round() as i64;
    }
    let mut ids: BTreeMap<&str, u64> = BTreeMap::new();
    for job in list(input, "jobs")? {
        let next = ids.len() as u64;
        let id = *ids.entry(text(job, "id")?).or_insert(next);
        let how = match text(job, "end")? {
            "preempted" => Ended::Preempted,
            _ => Ended::Itself,
        };
        let started = time(number(job, "started")?)?;
        short.ended((id, 0), text(job, "queue")?, amounts, started, how);
    }
    let cpu = kinds.position("cpu").context("request.cpu: it is absent")?;
    let mut snapshots = Vec::new();
    for at in numbers(input, "snapshots_s")? {
        let held = short.held(time(at)?);
        let held = held
            .into_iter()
            .map(|(queue, held)| (queue, held[cpu] as f64 / 1000.0));
        snapshots.push(named(held));
    }
    Ok(json!({ "penalty_cpu": snapshots }))
}

fn slurm_decay(input: &Value) -> Result<Value> {
    let half = span(number(input, "half_life_s")?)?;
    let start = number(input, "usage")?;
    let mut usage = Vec::new();
    for elapsed in numbers(input, "elapsed_s")? {
        usage.push(per_second_approximation(start, span(elapsed)?, half));
    }
    let off = per_second_approximation(1.0, half, half) - halved(1.0, half, half);
    // The power of ten above the difference.
    let bound = 10_f64.powf(off.abs().log10().ceil());
    Ok(json!({ "usage": usage, "not_exactly_half_by_less_than": bound }))
}

fn step_decay(input: &Value) -> Result<Value> {
    let interval = match input.get("interval_h") {
        Some(_) => number(input, "interval_h")? * 3600.0,
        None => number(input, "interval_s")?,
    };
    let decay = Decay::Step {
        interval: span(interval)?,
        factor: number_or(input, "factor", 0.5)?,
        floor: number_or(input, "floor", 0.0)?,
    };
    let elapsed = match input.get("elapsed_h") {
        Some(_) => numbers(input, "elapsed_h")?
            .iter()
            .map(|hours| hours * 3600.0)
            .collect(),
        None => numbers(input, "elapsed_s")?,
    };
    let start = number(input, "usage")?;
    let mut usage = Vec::new();
    for elapsed in elapsed {
        usage.push(usage::faded(&decay, start, 0.0, Time(0), time(elapsed)?));
    }
    Ok(json!({ "usage": usage }))
}

fn tres_billing(input: &Value) -> Result<Value> {
    let weights = by_name(input, "weights")?;
    let charge = match text(input, "mode")? {
        "sum" => Charge::Sum,
        "max" | "max_tres" | "max_node" | "max_of_node" => Charge::MaxOfNode,
        mode => bail!("mode: {mode} is given; allowed are sum, max, max_tres"),
    };
    let names: Vec<String> = weights.keys().cloned().collect();
    let tariff = Tariff::new(&rules(charge, weights), &meters(&names))?;
    let mut billing = Vec::new();
    for job in list(input, "jobs")? {
        let amounts = names.iter().map(|name| number_or(job, name, 0.0));
        billing.push(tariff.weigh(&amounts.collect::<Result<Vec<_>>>()?));
    }
    Ok(json!({ "billing": billing }))
}

fn usage_bins(input: &Value) -> Result<Value> {
    let period = span(number(input, "half_life_s")?)?;
    let before = numbers(input, "bins_before")?;
    let count = number_or(input, "bins", before.len() as f64)? as u32;
    let decay = Decay::Bins {
        count,
        period,
        factor: number_or(input, "decay_factor", 0.5)?,
    };
    let mut older = before;
    older.resize((count.max(1)) as usize, 0.0);
    let mut standing = Standing {
        amount: older.remove(0),
        older,
        ..Standing::default()
    };
    let rolls = number_or(input, "period_rolls", 0.0)? as i64;
    standing.advance(&decay, Time(period.0.saturating_mul(rolls)));
    standing.amount += number_or(input, "new_jobs", 0.0)?;
    let mut bins = vec![standing.amount];
    bins.extend(&standing.older);
    Ok(json!({ "bins": bins, "total": standing.total() }))
}

fn usage_decay(input: &Value) -> Result<Value> {
    let half = span(number(input, "half_life_s")?)?;
    let start = number(input, "usage")?;
    let mut usage = Vec::new();
    for elapsed in numbers(input, "elapsed_s")? {
        usage.push(halved(start, span(elapsed)?, half));
    }
    Ok(json!({ "usage": usage }))
}

fn usage_decay_compare(input: &Value) -> Result<Value> {
    let half = span(number(input, "half_life_s")?)?;
    let mut decayed = Vec::new();
    for (name, user) in object(input, "users")? {
        let usage = halved(number(user, "usage")?, span(number(user, "age_s")?)?, half);
        decayed.push((name, usage));
    }
    let least = decayed.iter().min_by(|a, b| a.1.total_cmp(&b.1));
    let higher = least.map(|(name, _)| *name);
    Ok(json!({ "decayed": named(decayed.iter().copied()), "higher_priority": higher }))
}

fn weighted_usage(input: &Value) -> Result<Value> {
    let order = list(input, "weight_order")?;
    let names = order.iter().map(|name| name.as_str().map(str::to_owned));
    let names = names
        .collect::<Option<Vec<String>>>()
        .context("weight_order: no names")?;
    let mut usage = Vec::new();
    for job in list(input, "jobs")? {
        let weights = numbers(job, "weights")?;
        let weights = names.iter().cloned().zip(weights).collect();
        let tariff = Tariff::new(&rules(Charge::Sum, weights), &meters(&names))?;
        let amounts = names
            .iter()
            .map(|name| number_or(job, &format!("{name}s"), 0.0));
        usage.push(tariff.whole(&Run {
            amounts: &amounts.collect::<Result<Vec<_>>>()?,
            elapsed: span(number(job, "seconds")?)?,
            requested: None,
            queue: "",
        }));
    }
    Ok(json!({ "usage": usage }))
}
