//! Kinds about PBS formulas and its fair-share tree.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use eddy_sched::amounts::{Amounts, Kinds};
use eddy_sched::policy::{Decay, Share, ShareRules, WithinPass};
use eddy_sched::priority::{Formula, Names, held_back};
use eddy_sched::share::{
    Account, Ask, Book, Members, NodeId, Present, Shares, Tree, Usage, pbs_tree,
};
use eddy_sched::usage::Ledger;
use eddy_wire::time::Time;
use serde_json::{Map, Value, json};

use super::Compute;
use super::priority::{columns, evaluate, id, ordered};
use super::share::Given;
use super::usage::{by_name, list, named, number, number_or, object};

/// What computes this kind, if it is one of these.
pub fn of(kind: &str) -> Option<Compute> {
    Some(match kind {
        "pbs_fairshare_order" => pbs_fairshare_order,
        "pbs_fairshare_tree" => pbs_fairshare_tree,
        "pbs_formula" => pbs_formula,
        "pbs_formula_threshold" => pbs_formula_threshold,
        "pbs_formula_validation" => pbs_formula_validation,
        "pbs_usage_formula" => pbs_usage_formula,
        _ => return None,
    })
}

/// Words of a PBS formula beside the resources of jobs.
const WORDS: [&str; 7] = [
    "accrue_type",
    "eligible_time",
    "fairshare_factor",
    "fairshare_perc",
    "fairshare_tree_usage",
    "job_priority",
    "queue_priority",
];

/// Resources that every PBS server knows and a formula may use.
const RESOURCES: [&str; 12] = [
    "cput",
    "file",
    "mem",
    "mpiprocs",
    "naccelerators",
    "ncpus",
    "ngpus",
    "nice",
    "nodect",
    "pmem",
    "vmem",
    "walltime",
];

/// The fair-share words of every node, in the order of the tree.
struct FairShare {
    given: Given,
    tree_usage: Vec<f64>,
    percentage: Vec<f64>,
    factor: Vec<f64>,
}

impl FairShare {
    fn read(input: &Value) -> Result<FairShare> {
        let given = Given::read(input)?;
        let minimum = number_or(input, "minimum_usage", 1.0)?;
        let (tree, usage) = (&given.tree, &given.usage);
        let percentage = tree.normalized_shares();
        let ids = (0..tree.len() as u32).map(NodeId);
        let used = ids.map(|id| pbs_tree::tree_usage(tree, usage, minimum, id));
        let tree_usage: Vec<f64> = used.collect();
        let both = tree_usage.iter().zip(&percentage);
        let factor = both
            .map(|(&used, &perc)| pbs_tree::factor(used, perc))
            .collect();
        Ok(FairShare {
            given,
            tree_usage,
            percentage,
            factor,
        })
    }
}

fn pbs_fairshare_tree(input: &Value) -> Result<Value> {
    let fair = FairShare::read(input)?;
    let tree = &fair.given.tree;
    let submitted = input["submitted"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let mut users = Vec::new();
    for name in submitted {
        let name = name.as_str().context("submitted: a user is no text")?;
        let user = fair.given.named(name);
        users.push(user.with_context(|| format!("submitted: {name} is not in the tree"))?);
    }
    if users.is_empty() {
        users = tree.users().to_vec();
    }
    let factors: Vec<f64> = users.iter().map(|id| fair.factor[id.0 as usize]).collect();
    let order = ordered(&[&factors], users.len())
        .into_iter()
        .map(|row| tree.name(users[row]));
    Ok(json!({
        "tree_usage": fair.given.nodes(&fair.tree_usage),
        "perc": fair.given.nodes(&fair.percentage),
        "factor": fair.given.nodes(&fair.factor),
        "order": order.collect::<Vec<_>>(),
    }))
}

fn pbs_formula(input: &Value) -> Result<Value> {
    let jobs = list(input, "jobs")?;
    let mut columns = columns(jobs);
    if input.get("tree").is_some() {
        let fair = FairShare::read(input)?;
        let words = [
            ("fairshare_tree_usage", &fair.tree_usage),
            ("fairshare_perc", &fair.percentage),
            ("fairshare_factor", &fair.factor),
        ];
        for (word, of) in words {
            let mut column = Vec::new();
            for job in jobs {
                let user = job["user"].as_str().and_then(|name| fair.given.named(name));
                column.push(user.map_or(0.0, |id| of[id.0 as usize]));
            }
            columns.insert(word.to_owned(), column);
        }
    }
    let text = input["formula"]
        .as_str()
        .context("formula: it is no text")?;
    let values = evaluate(text, &columns, jobs.len())?;
    let name = |job: &Value| match job["user"].as_str() {
        Some(user) => Ok(user.to_owned()),
        None => id(job),
    };
    let mut by_name = Map::new();
    let mut names = Vec::new();
    for (job, &value) in jobs.iter().zip(&values) {
        by_name.insert(name(job)?, json!(value));
        if let Ok(id) = id(job) {
            by_name.insert(id, json!(value));
        }
        names.push(match id(job) {
            Ok(_) => job["id"].clone(),
            Err(_) => json!(name(job)?),
        });
    }
    let order = ordered(&[&values], jobs.len())
        .into_iter()
        .map(|row| &names[row]);
    Ok(json!({ "value": by_name, "order": order.collect::<Vec<_>>() }))
}

fn pbs_formula_threshold(input: &Value) -> Result<Value> {
    let jobs = list(input, "jobs")?;
    let text = input["formula"]
        .as_str()
        .context("formula: it is no text")?;
    let values = evaluate(text, &columns(jobs), jobs.len())?;
    let ids = jobs.iter().map(id).collect::<Result<Vec<_>>>()?;
    let threshold = match input.get("threshold") {
        None | Some(Value::Null) => None,
        Some(_) => Some(number(input, "threshold")?),
    };
    let runs = |&row: &usize| !held_back(values[row], threshold);
    let eligible: Vec<&String> = (0..jobs.len()).filter(runs).map(|row| &ids[row]).collect();
    let order: Vec<&String> = ordered(&[&values], jobs.len())
        .into_iter()
        .filter(runs)
        .map(|row| &ids[row])
        .collect();
    Ok(json!({
        "values": named(ids.iter().map(String::as_str).zip(values.iter().copied())),
        "eligible": eligible,
        "first_to_run": order.first(),
        "second_to_run": order.get(1),
    }))
}

fn pbs_formula_validation(input: &Value) -> Result<Value> {
    let names = Names::new(WORDS.into_iter().chain(RESOURCES));
    let mut valid = Vec::new();
    for formula in list(input, "formulas")? {
        let formula = formula.as_str().context("formulas: one is no text")?;
        valid.push(Formula::parse(formula, &names).is_ok());
    }
    Ok(json!({ "valid": valid }))
}

fn pbs_usage_formula(input: &Value) -> Result<Value> {
    let job = input["job"].clone();
    let text = input["usage_formula"]
        .as_str()
        .context("usage_formula: it is no text")?;
    let charge = evaluate(text, &columns(&[job]), 1)?[0];
    let initial = number_or(input, "initial_usage", 1.0)?;
    let after = |at: usize| -> Result<Value> {
        let mut ledger = Ledger::new(Decay::None);
        for (user, counts) in object(input, "runs")? {
            let runs = counts[at].as_u64().context("runs: a count is no number")?;
            let holder = ledger.holder(user);
            ledger.charge(holder, Time(0), initial);
            for _ in 0..runs {
                ledger.charge(holder, Time(0), charge);
            }
        }
        let used = ledger.entries();
        let used = used.map(|(user, standing)| (user, standing.total()));
        Ok(named(used))
    };
    Ok(json!({ "after_first": after(0)?, "after_second": after(1)? }))
}

/// A job that waits: its id, its entity, what it adds to usage.
struct Waiting {
    id: Value,
    entity: String,
    adds: f64,
}

fn waiting(input: &Value, resource: &str) -> Result<Vec<Waiting>> {
    let jobs = input["jobs"]
        .as_array()
        .or_else(|| input["queued"].as_array());
    let mut waiting = Vec::new();
    for job in jobs.into_iter().flatten() {
        let (id, entity, adds) = match job {
            Value::Array(pair) if pair.len() >= 2 => (pair[0].clone(), &pair[1], pair.get(2)),
            Value::Object(fields) => {
                let entity = ["user", "entity", "account"]
                    .iter()
                    .find_map(|f| fields.get(*f));
                let entity = entity.context("queued.user: it is absent")?;
                let id = fields.get("id").unwrap_or(entity).clone();
                (id, entity, fields.get(resource))
            }
            other => (other.clone(), other, None),
        };
        waiting.push(Waiting {
            id,
            entity: entity
                .as_str()
                .context("jobs: an entity is no text")?
                .to_owned(),
            adds: adds.and_then(Value::as_f64).unwrap_or(1.0),
        });
    }
    Ok(waiting)
}

fn pbs_fairshare_order(input: &Value) -> Result<Value> {
    let resource = input["usage_resource"].as_str().unwrap_or("ncpus");
    let waiting = waiting(input, resource)?;
    let order = order_with(input, &by_name(input, "usage")?, &waiting)?;
    let mut out = Map::new();
    out.insert("first_three".into(), json!(order[..order.len().min(3)]));
    out.insert("order".into(), json!(order));
    let mut orders = Vec::new();
    for case in input["cases"].as_array().into_iter().flatten() {
        orders.push(json!(order_with(
            input,
            &by_name(case, "usage")?,
            &waiting
        )?));
    }
    out.insert("orders".into(), json!(orders));
    Ok(Value::Object(out))
}

/// All entities side by side.
fn flat(shares: &BTreeMap<String, f64>, waiting: &[Waiting]) -> Result<Tree> {
    let mut accounts: Vec<Account> = Vec::new();
    let known = shares
        .iter()
        .map(|(name, &shares)| (name.as_str(), shares as i64));
    // Who is not in the tree is under the unknown group, which has no shares.
    let unknown = waiting.iter().map(|job| (job.entity.as_str(), 0));
    for (name, shares) in known.chain(unknown) {
        if accounts.iter().all(|account| account.name != name) {
            accounts.push(Account {
                name: name.to_owned(),
                shares: Shares::Of(shares),
                members: Members::User,
            });
        }
    }
    Ok(Tree::new(&accounts)?)
}

/// The order in which jobs start, each adding what it uses before the next is chosen.
fn order_with(
    input: &Value,
    used: &BTreeMap<String, f64>,
    waiting: &[Waiting],
) -> Result<Vec<Value>> {
    let tree = flat(&by_name(input, "shares")?, waiting)?;
    let minimum = number_or(input, "minimum_usage", 1.0)?;
    let recorded = |id: NodeId| used.get(tree.name(id)).copied().unwrap_or(0.0).max(minimum);
    let usage = Usage::new(&tree, recorded, None);
    let rules = ShareRules {
        algorithm: Share::PbsTree {
            minimum_usage: minimum,
        },
        within_pass: WithinPass::Projected,
    };
    let kinds = Kinds::default();
    let present = Present {
        total: Amounts::NONE,
        kinds: &kinds,
        held: &|_| Amounts::NONE,
        active: &|_| true,
    };
    let mut book = Book::new(&rules, &tree, usage, &present)?;
    let ask = |adds: f64| Ask {
        charge: adds,
        amounts: Amounts::NONE,
    };
    let resource = input["usage_resource"].as_str().unwrap_or("ncpus");
    for run in input["running"].as_array().into_iter().flatten() {
        let user = run["user"].as_str().and_then(|user| tree.find(user));
        if let Some(user) = user {
            book.charge(user, &ask(number_or(run, resource, 1.0)?));
        }
    }
    let mut left: Vec<&Waiting> = waiting.iter().collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        let node = |job: &Waiting| tree.find(&job.entity).unwrap_or(NodeId::ROOT);
        let next = (0..left.len()).min_by(|&a, &b| {
            let ((a_node, a_ask), (b_node, b_ask)) = (
                (node(left[a]), ask(left[a].adds)),
                (node(left[b]), ask(left[b].adds)),
            );
            // Of entities that are level the job that came first.
            match book.level(a_node, b_node) {
                true => a.cmp(&b),
                false => book.first_of((a_node, &a_ask), (b_node, &b_ask)),
            }
        });
        let job = left.remove(next.context("jobs: there is none")?);
        book.charge(node(job), &ask(job.adds));
        order.push(job.id.clone());
    }
    Ok(order)
}
