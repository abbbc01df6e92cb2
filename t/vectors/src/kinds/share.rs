//! Kinds about fair shares: classic, ticket, fair tree, DRF costs.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use eddy_sched::policy::{Shape, TicketFloor};
use eddy_sched::share::adjusted::{Due, Wanting, adjusted_fair_shares, theoretical_share};
use eddy_sched::share::drf::dominant;
use eddy_sched::share::{Account, Members, NodeId, Shares, Tree, Usage};
use eddy_sched::share::{classic, fair_tree, ticket};
use serde_json::{Map, Value, json};

use super::Compute;
use super::usage::{by_name, list, named, number, number_or, numbers, object};

/// What computes this kind, if it is one of these.
pub fn of(kind: &str) -> Option<Compute> {
    Some(match kind {
        "adjusted_fair_shares" => adjusted,
        "classic_fair_share" => classic_fair_share,
        "drf_cost" => drf_cost,
        "drf_cost_multipliers" => drf_cost_multipliers,
        "fair_share_shape" => fair_share_shape,
        "fair_share_shape_table" => fair_share_shape_table,
        "fair_tree" => fair_tree_factors,
        "fair_tree_order" => fair_tree_order,
        "linear_fair_share" => linear_fair_share,
        "next_queue" => next_queue,
        "normalized_shares" => normalized_shares,
        "theoretical_share" => theoretical,
        "ticket_distribution" => ticket_distribution,
        "ticket_effective_usage" => ticket_effective_usage,
        "ticket_factor" => ticket_factor,
        _ => return None,
    })
}

/// The tree of a case, with the usage its users are given.
pub struct Given {
    /// The tree below its root.
    pub tree: Tree,
    /// Of each node.
    pub usage: Usage,
}

impl Given {
    /// From `tree` and `machine_total`.
    pub fn read(input: &Value) -> Result<Given> {
        let mut users = BTreeMap::new();
        let accounts = children(&input["tree"], "", &mut users)?;
        let tree = Tree::new(&accounts)?;
        let machine = match input.get("machine_total") {
            None | Some(Value::Null) => None,
            Some(_) => Some(number(input, "machine_total")?),
        };
        let used = |id: NodeId| users.get(tree.path(id)).copied().unwrap_or(0.0);
        let usage = Usage::new(&tree, used, machine);
        Ok(Given { tree, usage })
    }

    /// The node of a name; the first where there are several.
    pub fn named(&self, name: &str) -> Option<NodeId> {
        self.tree.nodes().find(|&id| self.tree.name(id) == name)
    }

    /// Numbers by node as an object by name.
    pub fn nodes(&self, numbers: &[f64]) -> Value {
        named(
            self.tree
                .nodes()
                .map(|id| (self.tree.name(id), numbers[id.0 as usize])),
        )
    }

    fn names(&self, ids: &[NodeId]) -> Vec<String> {
        ids.iter()
            .map(|&id| self.tree.name(id).to_owned())
            .collect()
    }
}

fn children(node: &Value, above: &str, users: &mut BTreeMap<String, f64>) -> Result<Vec<Account>> {
    let list = match node.get("children") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(_) => list(node, "children")?,
    };
    let mut accounts = Vec::new();
    for child in list {
        let name = child["name"].as_str().context("tree: a node has no name")?;
        let path = match above {
            "" => name.to_owned(),
            above => format!("{above}/{name}"),
        };
        let shares = match &child["shares"] {
            Value::String(text) if text == "parent" => Shares::Parent,
            shares => Shares::Of(shares.as_i64().with_context(|| {
                format!("tree: shares of {name}: {shares} is neither an integer nor parent")
            })?),
        };
        let members = match child["user"].as_bool() {
            Some(true) => {
                users.insert(path.clone(), number_or(child, "usage", 0.0)?);
                Members::User
            }
            Some(false) | None => Members::Under(children(child, &path, users)?),
        };
        accounts.push(Account {
            name: name.to_owned(),
            shares,
            members,
        });
    }
    Ok(accounts)
}

fn classic_fair_share(input: &Value) -> Result<Value> {
    let given = Given::read(input)?;
    let (tree, usage) = (&given.tree, &given.usage);
    let damping = number_or(input, "dampening", 1.0)?;
    let factors = classic::factors(tree, usage, Shape::Exp2, damping);
    let effective = classic::effective_usage(tree, usage);
    let due = tree.normalized_shares();
    let mut out = Map::new();
    for id in tree.nodes() {
        let at = id.0 as usize;
        let row = json!({
            "norm_shares": due[at],
            "norm_usage": usage.part(id),
            "effective_usage": effective[at],
            "factor": factors[at],
        });
        out.insert(tree.name(id).to_owned(), row);
    }
    out.insert("effective_usage".into(), given.nodes(&effective));
    out.insert("factor".into(), given.nodes(&factors));
    Ok(Value::Object(out))
}

fn linear_fair_share(input: &Value) -> Result<Value> {
    let given = Given::read(input)?;
    let factors = classic::factors(&given.tree, &given.usage, Shape::Linear, 1.0);
    Ok(json!({ "factor": given.nodes(&factors) }))
}

fn normalized_shares(input: &Value) -> Result<Value> {
    let given = Given::read(input)?;
    Ok(json!({ "shares": given.nodes(&given.tree.normalized_shares()) }))
}

fn fair_share_shape(input: &Value) -> Result<Value> {
    let mut factors = Vec::new();
    for case in list(input, "cases")? {
        let (due, used) = (number(case, "S")?, number(case, "U")?);
        factors.push(classic::shaped(Shape::Exp2, due, used, 1.0));
    }
    Ok(json!({ "factors": factors }))
}

fn fair_share_shape_table(input: &Value) -> Result<Value> {
    let due = number(input, "S")?;
    let used = numbers(input, "U")?;
    let table = |shape| -> Vec<f64> {
        used.iter()
            .map(|&used| classic::shaped(shape, due, used, 1.0))
            .collect()
    };
    Ok(json!({
        "linear": table(Shape::Linear),
        "exp2": table(Shape::Exp2),
        "ratio": table(Shape::Ratio),
    }))
}

fn fair_tree_factors(input: &Value) -> Result<Value> {
    let given = Given::read(input)?;
    let ranks = fair_tree::ranks(&given.tree, &given.usage);
    let users = given.tree.users().iter();
    let factors = users.map(|&id| (given.tree.name(id), ranks.factor(id)));
    Ok(json!({ "factor": named(factors) }))
}

fn fair_tree_order(input: &Value) -> Result<Value> {
    let given = Given::read(input)?;
    let ranks = fair_tree::ranks(&given.tree, &given.usage);
    let tiers: Vec<Vec<String>> = ranks
        .tiers()
        .map(|tier| {
            let mut names = given.names(tier);
            names.sort();
            names
        })
        .collect();
    Ok(json!({ "order": given.names(&ranks.order), "tiers": tiers }))
}

fn ticket_floor(input: &Value) -> Result<TicketFloor> {
    match input["floor"].as_str() {
        None | Some("overall") => Ok(TicketFloor::Overall),
        Some("siblings") => Ok(TicketFloor::Siblings),
        Some(floor) => bail!("floor: {floor} is given; allowed are overall and siblings"),
    }
}

fn ticket_effective_usage(input: &Value) -> Result<Value> {
    let given = Given::read(input)?;
    let used = ticket::floored_usage(&given.tree, &given.usage, ticket_floor(input)?);
    Ok(json!({ "effective_usage": given.nodes(&used) }))
}

fn ticket_factor(input: &Value) -> Result<Value> {
    let given = Given::read(input)?;
    let factors = ticket::factors(&given.tree, &given.usage, ticket_floor(input)?);
    Ok(json!({ "factor": given.nodes(&factors) }))
}

fn ticket_distribution(input: &Value) -> Result<Value> {
    let given = Given::read(input)?;
    let tree = &given.tree;
    let pending: Vec<&str> = list(input, "pending_users")?
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let active = |id: NodeId| pending.contains(&tree.name(id));
    let root = number_or(input, "root_tickets", 1000.0)?;
    let held = ticket::distribute(tree, &given.usage, ticket_floor(input)?, root, active);
    let priorities = ticket::priorities(tree, &held);
    let tickets = || {
        let held = tree.nodes().map(|id| (tree.name(id), held[id.0 as usize]));
        held.filter_map(|(name, tickets)| Some((name, tickets?)))
    };
    let shown = tree.nodes().map(|id| {
        let priority = priorities[id.0 as usize];
        (tree.name(id), (priority * 100.0).round() / 100.0)
    });
    Ok(json!({
        "tickets": named(tickets()),
        "printed": named(tickets().map(|(name, tickets)| (name, tickets.round()))),
        "priority": given.nodes(&priorities),
        "printed_priority": named(shown),
    }))
}

/// The dominant cost of amounts by name; every resource of the total counts once.
fn cost(amounts: &BTreeMap<String, f64>, total: &BTreeMap<String, f64>) -> f64 {
    dominant(
        total
            .iter()
            .map(|(name, &all)| (amounts.get(name).copied().unwrap_or(0.0), all, 1.0)),
    )
}

fn drf_cost(input: &Value) -> Result<Value> {
    let cost = cost(&by_name(input, "allocation")?, &by_name(input, "total")?);
    let weight = 1.0 / number_or(input, "priority_factor", 1.0)?;
    Ok(json!({ "cost": cost, "weight": weight, "cost_over_weight": cost / weight }))
}

fn drf_cost_multipliers(input: &Value) -> Result<Value> {
    let (total, held) = (by_name(input, "total")?, by_name(input, "allocation")?);
    let multipliers = by_name(input, "multipliers")?;
    let cost = dominant(multipliers.iter().map(|(name, &multiplier)| {
        let of = |amounts: &BTreeMap<String, f64>| amounts.get(name).copied().unwrap_or(0.0);
        // In that system's configuration 0 is a multiplier that was not given.
        let multiplier = if multiplier == 0.0 { 1.0 } else { multiplier };
        (of(&held), of(&total), multiplier)
    }));
    Ok(json!({ "weighted_cost": cost / number_or(input, "weight", 1.0)? }))
}

fn next_queue(input: &Value) -> Result<Value> {
    let total = by_name(input, "total")?;
    let mut least: Option<(f64, &str)> = None;
    for (name, queue) in object(input, "queues")? {
        let mut held = by_name(queue, "allocated")?;
        for (resource, amount) in by_name(queue, "top_gang")? {
            *held.entry(resource).or_insert(0.0) += amount;
        }
        let cost = cost(&held, &total) * number_or(queue, "priority_factor", 1.0)?;
        if least.is_none_or(|(least, _)| cost < least) {
            least = Some((cost, name));
        }
    }
    Ok(json!({ "next": least.map(|(_, name)| name) }))
}

/// Queues with what they want; where there is nothing to be had a demand counts as everything.
fn wanting(input: &Value) -> Result<Vec<(&str, Wanting)>> {
    let total = by_name(input, "total")?;
    let nothing = total.values().all(|&all| all <= 0.0);
    let queues = object(input, "queues")?.into_iter().map(|(name, queue)| {
        let demand = match nothing {
            true => 1.0,
            false => cost(&by_name(queue, "demand")?, &total),
        };
        let weight = number_or(queue, "weight", 1.0)?;
        Ok((name, Wanting { weight, demand }))
    });
    queues.collect()
}

fn adjusted(input: &Value) -> Result<Value> {
    let queues = wanting(input)?;
    let accounts: Vec<Wanting> = queues.iter().map(|(_, account)| *account).collect();
    let dues = adjusted_fair_shares(&accounts);
    let column = |part: fn(&Due) -> f64| {
        let names = queues.iter().map(|(name, _)| *name);
        named(names.zip(dues.iter().map(part)))
    };
    Ok(json!({
        "fair_share": column(|due| due.fair),
        "demand_capped": column(|due| due.capped),
        "uncapped": column(|due| due.uncapped),
    }))
}

fn theoretical(input: &Value) -> Result<Value> {
    let accounts: Vec<Wanting> = wanting(input)?
        .into_iter()
        .map(|(_, account)| account)
        .collect();
    let weight = 1.0 / number(input, "new_queue_priority_factor")?;
    Ok(json!({ "share": theoretical_share(&accounts, weight) }))
}
