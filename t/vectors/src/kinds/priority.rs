//! Kinds about formulas, factors and orders.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use eddy_sched::policy::SizeFavour;
use eddy_sched::priority::flux::{self, Weights};
use eddy_sched::priority::{Column, Formula, Names, Order, Program, factors};
use eddy_sched::share::{fair_tree, project};
use eddy_wire::time::{Span, Time};
use serde_json::{Map, Value, json};

use super::Compute;
use super::share::Given;
use super::usage::{by_name, list, named, number, number_or, numbers};

/// What computes this kind, if it is one of these.
pub fn of(kind: &str) -> Option<Compute> {
    Some(match kind {
        "fcfs_priority" => fcfs_priority,
        "job_order" => job_order,
        "job_size_factor" => job_size_factor,
        "job_sort_formula" => job_sort_formula,
        "mf_order" => mf_order,
        "mf_order_users" => mf_order_users,
        "mf_priority" => mf_priority,
        "mf_priority_weights" => mf_priority_weights,
        "multifactor" => multifactor,
        "node_ranking" => node_ranking,
        "wait_time_factor" => wait_time_factor,
        _ => return None,
    })
}

/// The id of a job as cases print it: a text or a number.
pub fn id(job: &Value) -> Result<String> {
    match &job["id"] {
        Value::String(id) => Ok(id.clone()),
        Value::Number(id) => Ok(id.to_string()),
        other => anyhow::bail!("jobs.id: {other} is neither a text nor a number"),
    }
}

/// The numeric fields of all jobs as columns, each as long as there are jobs; absent is 0.
pub fn columns(jobs: &[Value]) -> BTreeMap<String, Vec<f64>> {
    let mut columns: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (row, job) in jobs.iter().enumerate() {
        for (field, value) in job.as_object().into_iter().flatten() {
            if let (Some(number), true) = (value.as_f64(), field != "id") {
                let column = columns.entry(field.clone()).or_default();
                column.resize(jobs.len(), 0.0);
                column[row] = number;
            }
        }
    }
    columns
}

/// The values of a formula over columns by name.
pub fn evaluate(text: &str, columns: &BTreeMap<String, Vec<f64>>, rows: usize) -> Result<Vec<f64>> {
    let formula = Formula::parse(text, &Names::new(columns.keys()))?;
    let each: Vec<Column<'_>> = columns
        .values()
        .map(|values| Column::Each(values))
        .collect();
    let mut values = Vec::new();
    Program::new(&formula).run(&each, rows, &mut values);
    Ok(values)
}

/// Rows by lists of values, highest first, equals in the order given.
pub fn ordered(values: &[&[f64]], rows: usize) -> Vec<usize> {
    let ids: Vec<u64> = (0..rows as u64).collect();
    let mut order = Order::new();
    order.refresh(values, &ids);
    order.rows().map(|row| row as usize).collect()
}

fn fcfs_priority(input: &Value) -> Result<Value> {
    let first = number(input, "first_priority")? as u32;
    let jobs = input["jobs"].as_u64().context("jobs: it is no count")?;
    let priorities: Vec<u32> = (0..jobs)
        .map(|job| factors::first_come(first, job))
        .collect();
    Ok(json!({ "priorities": priorities }))
}

fn job_order(input: &Value) -> Result<Value> {
    let mut jobs = list(input, "jobs")?.to_vec();
    // Ids decide last, so rows are in their order.
    jobs.sort_by_cached_key(|job| id(job).unwrap_or_default());
    let columns = columns(&jobs);
    let mut lists = Vec::new();
    let mut out = Map::new();
    if let Some(formula) = input["formula"].as_str() {
        let values = evaluate(formula, &columns, jobs.len())?;
        let ids = jobs.iter().map(id).collect::<Result<Vec<_>>>()?;
        let priorities = ids.iter().map(String::as_str).zip(values.iter().copied());
        out.insert("priorities".into(), named(priorities));
        lists.push(values);
    } else {
        let smaller_first = input["lower_priority_number_first"].as_bool() != Some(false);
        let priority = if smaller_first {
            "-priority"
        } else {
            "priority"
        };
        for formula in ["class_priority", priority, "-submitted"] {
            if columns.contains_key(formula.trim_start_matches('-')) {
                lists.push(evaluate(formula, &columns, jobs.len())?);
            }
        }
    }
    let lists: Vec<&[f64]> = lists.iter().map(Vec::as_slice).collect();
    let order = ordered(&lists, jobs.len())
        .into_iter()
        .map(|row| id(&jobs[row]));
    out.insert("order".into(), json!(order.collect::<Result<Vec<_>>>()?));
    Ok(Value::Object(out))
}

fn job_size_factor(input: &Value) -> Result<Value> {
    let cluster = by_name(input, "cluster")?;
    let (mut large, mut small) = (Vec::new(), Vec::new());
    for job in list(input, "jobs")? {
        let mut sizes = Vec::new();
        for (resource, &all) in &cluster {
            sizes.push((number_or(job, resource, 0.0)?, all));
        }
        large.push(factors::size(&sizes, SizeFavour::Large));
        small.push(factors::size(&sizes, SizeFavour::Small));
    }
    Ok(json!({ "favor_large": large, "favor_small": small }))
}

/// The formula of the IT4Innovations document.
const IT4I: &str = "1000*queue_priority + fairshare_priority/1000 + eligible_time/864000";

fn job_sort_formula(input: &Value) -> Result<Value> {
    let used = number(input, "project_usage")?;
    let fair_share = project::left_over(1e6, used, number(input, "total_usage")?);
    let columns = BTreeMap::from([
        (
            "queue_priority".to_owned(),
            vec![number(input, "queue_priority")?],
        ),
        ("fairshare_priority".to_owned(), vec![fair_share]),
        (
            "eligible_time".to_owned(),
            vec![number(input, "eligible_time_s")?],
        ),
    ]);
    let values = evaluate(IT4I, &columns, 1)?;
    Ok(json!({ "fairshare_priority": fair_share, "priority": values[0] }))
}

fn weights(value: &Value) -> Result<Weights> {
    let default = Weights::default();
    Ok(Weights {
        fair_share: number_or(value, "fairshare", default.fair_share)?,
        queue: number_or(value, "queue", default.queue)?,
        bank: number_or(value, "bank", default.bank)?,
        urgency: number_or(value, "urgency", default.urgency)?,
    })
}

fn urgency(value: &Value) -> Result<u8> {
    let urgency = number_or(value, "urgency", f64::from(flux::URGENCY_DEFAULT))?;
    Ok(urgency as u8)
}

fn accounting(weights: &Weights, job: &Value) -> Result<u32> {
    let (queue, bank) = (number_or(job, "queue", 0.0)?, number_or(job, "bank", 0.0)?);
    let fair_share = number_or(job, "fairshare", 0.0)?;
    Ok(flux::accounting(
        weights,
        fair_share,
        queue,
        bank,
        urgency(job)?,
    ))
}

fn mf_priority(input: &Value) -> Result<Value> {
    let common = weights(&input["weights"])?;
    let mut priorities = Vec::new();
    for job in input["jobs"].as_array().into_iter().flatten() {
        priorities.push(accounting(&common, job)?);
    }
    for case in input["cases"].as_array().into_iter().flatten() {
        priorities.push(accounting(&weights(&case["weights"])?, case)?);
    }
    Ok(json!({ "priority": priorities }))
}

fn mf_priority_weights(input: &Value) -> Result<Value> {
    let fair_share = number(input, "fairshare")?;
    let mut priorities = Vec::new();
    for weight in numbers(input, "fairshare_weights")? {
        let weights = Weights {
            fair_share: weight,
            ..Weights::default()
        };
        let default = flux::URGENCY_DEFAULT;
        priorities.push(flux::accounting(&weights, fair_share, 0.0, 0.0, default));
    }
    Ok(json!({ "priority": priorities }))
}

fn mf_order(input: &Value) -> Result<Value> {
    let weights = weights(&input["weights"])?;
    let fair_share = number_or(input, "fairshare", 0.0)?;
    let queues = by_name(input, "queues")?;
    let default = flux::URGENCY_DEFAULT;
    let of = |&queue: &f64| f64::from(flux::accounting(&weights, fair_share, queue, 0.0, default));
    let priorities: Vec<f64> = queues.values().map(of).collect();
    let names: Vec<&String> = queues.keys().collect();
    let order = ordered(&[&priorities], names.len())
        .into_iter()
        .map(|row| names[row]);
    Ok(json!({ "order": order.collect::<Vec<_>>() }))
}

/// User 50ab has the place of leaf.a.b in the tree of the case that `tree_vector` names.
fn mf_order_users(input: &Value) -> Result<Value> {
    let users = list(input, "submit_order")?;
    let shares = match input.get("tree") {
        Some(Value::Object(_)) => {
            let given = Given::read(input)?;
            let ranks = fair_tree::ranks(&given.tree, &given.usage);
            let factors = given.tree.users().iter();
            let factors = factors.map(|&id| (given.tree.name(id).to_owned(), ranks.factor(id)));
            factors.collect::<BTreeMap<_, _>>()
        }
        _ => BTreeMap::new(),
    };
    let mut priorities = Vec::new();
    for user in users {
        let number = user.to_string();
        let digits: Vec<char> = number.trim_matches('"').chars().collect();
        let leaf = match digits[..] {
            [.., account, leaf] => format!("leaf.{account}.{leaf}"),
            _ => number.clone(),
        };
        let own = number.trim_matches('"');
        let given = match &input["fairshare"] {
            Value::Object(_) => input["fairshare"][own].as_f64(),
            other => other.as_f64(),
        };
        let fair_share = given.or_else(|| shares.get(&leaf).copied());
        let fair_share = fair_share.with_context(|| format!("tree_vector: no {leaf} is known"))?;
        let urgency = json!({ "urgency": input["urgency"][own] });
        let weights = weights(&input["weights"])?;
        let priority = flux::accounting(&weights, fair_share, 0.0, 0.0, self::urgency(&urgency)?);
        priorities.push(f64::from(priority));
    }
    let order = ordered(&[&priorities], users.len())
        .into_iter()
        .map(|row| &users[row]);
    Ok(json!({ "order": order.collect::<Vec<_>>() }))
}

fn multifactor(input: &Value) -> Result<Value> {
    let (weights, factors) = (by_name(input, "weights")?, by_name(input, "factors")?);
    let mut names = Names::new(factors.keys());
    let mut terms = Vec::new();
    for (name, &weight) in &weights {
        let constant = format!("weight_{name}");
        names = names.constant(&constant, weight);
        if factors.contains_key(name) {
            terms.push(format!("{constant} * {name}"));
        }
    }
    let formula = Formula::parse(&terms.join(" + "), &names)?;
    let variables: Vec<f64> = factors.values().copied().collect();
    Ok(json!({ "priority": formula.value(&variables) }))
}

fn node_ranking(input: &Value) -> Result<Value> {
    let slots = list(input, "slots")?;
    let mut ranks = [Vec::new(), Vec::new(), Vec::new()];
    for slot in slots {
        for (rank, field) in ranks.iter_mut().zip(["pre", "job", "post"]) {
            rank.push(number_or(slot, field, 0.0)?);
        }
    }
    let ranks: Vec<&[f64]> = ranks.iter().map(Vec::as_slice).collect();
    let order = ordered(&ranks, slots.len())
        .into_iter()
        .map(|row| &slots[row]["name"]);
    let order: Vec<&Value> = order.collect();
    let requests = (number_or(input, "requests", 0.0)? as usize).min(order.len());
    Ok(json!({ "order": order, "given": order[..requests] }))
}

fn wait_time_factor(input: &Value) -> Result<Value> {
    let span = |seconds: f64| Time::from_seconds(seconds).map_or(Span::ZERO, |at| at - Time(0));
    let most = span(number(input, "max_wait_s")?);
    let waits = numbers(input, "waits_s")?;
    let factors: Vec<f64> = waits
        .into_iter()
        .map(|wait| factors::wait(span(wait), most))
        .collect();
    Ok(json!({ "factors": factors }))
}
