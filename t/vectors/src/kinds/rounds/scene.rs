//! A state and a policy from the words that cases use.
//!
//! Used by all kinds that make rounds, and by slices. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, anyhow};
use eddy_sched::amounts::{Amounts, Kinds, UNIT};
use eddy_sched::policy::{
    Class, Evict, Limits, NodeRank, PlacementRules, Policy, Preference, QueueRules, Rate, Rung,
    Share, ShareRules, Source, Walk, WithinPass,
};
use eddy_sched::rounds::{
    Account, Away, Gang, Job, Node, Run, Setting, State, Taint, Toleration, Wish,
};
use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};
use serde_json::{Map, Value};

/// A state, a policy, and how many jobs were made so far.
pub struct Scene {
    pub state: State,
    pub policy: Policy,
    next: u64,
}

/// The account of what a case says is taken, without saying by whom.
const OTHERS: &str = "\u{1}others";

impl Scene {
    /// Kinds, nodes, accounts and the configuration of a case.
    pub fn new(input: &Value) -> Result<Scene> {
        let mut scene = Scene {
            state: State {
                kinds: kinds(input)?,
                ..State::default()
            },
            policy: policy(),
            next: 1,
        };
        scene.configure(&input["config"])?;
        scene.classes_named_in(input);
        for (name, queue) in fields(&input["queues"]) {
            scene.account(name).factor = queue["priority_factor"].as_f64().unwrap_or(1.0);
        }
        for (rank, node) in list(&input["nodes"]).iter().enumerate() {
            scene.node(rank as u32, node)?;
        }
        let single = &input["node"];
        if single.is_object() {
            let capacity = scene.amounts(single)?;
            scene.state.nodes.push(Node {
                capacity,
                ..Node::default()
            });
        }
        Ok(scene)
    }

    /// The account of a name, made if need be.
    pub fn account(&mut self, name: &str) -> &mut Account {
        let accounts = &mut self.state.accounts;
        let at = accounts.iter().position(|account| account.name == name);
        let at = at.unwrap_or_else(|| {
            accounts.push(Account::new(name));
            accounts.len() - 1
        });
        &mut accounts[at]
    }

    /// Amounts by name; what no node has is counted too.
    pub fn amounts(&self, by_name: &Value) -> Result<Amounts> {
        let mut amounts = Amounts::NONE;
        for (name, amount) in fields(by_name) {
            let at = self.state.kinds.position(name);
            let at = at.with_context(|| format!("resource {name} is not known"))?;
            let amount = amount
                .as_f64()
                .with_context(|| format!("{name} is not a number"))?;
            amounts[at] = (amount * UNIT as f64).round() as i64;
        }
        Ok(amounts)
    }

    /// A class of this priority that may be taken from, made if need be.
    pub fn class_of(&mut self, priority: i64) -> String {
        let name = format!("at {priority}");
        self.policy
            .placement
            .classes
            .insert(name.clone(), class(priority, Preference::On));
        name
    }

    /// The jobs of a group, in the order of their submission; submitted now.
    pub fn jobs(&mut self, group: &Value) -> Result<Vec<Job>> {
        let request = self.amounts(&group["request"])?;
        let class = match group["class_priority"].as_i64() {
            Some(priority) => self.class_of(priority),
            None => group["priority_class"]
                .as_str()
                .unwrap_or_default()
                .to_string(),
        };
        let setting = setting(group)?;
        let count = group["count"].as_u64().unwrap_or(1);
        let gang = gang(&group["gang"]);
        let first = self.next;
        self.next += count;
        let job = |id| Job {
            id: JobId(id),
            account: group["queue"].as_str().unwrap_or("A").to_string(),
            class: class.clone(),
            priority: group["priority"].as_i64().unwrap_or(0),
            submit: self.state.now,
            request,
            setting: setting.clone(),
            gang: gang.clone(),
            grace: Span::seconds(1),
        };
        Ok((first..first + count).map(job).collect())
    }

    /// Jobs of a group that run on a node since the beginning.
    pub fn running(&mut self, group: &Value, node: u32) -> Result<Vec<JobId>> {
        let jobs = self.jobs(group)?;
        let ids = jobs.iter().map(|job| job.id).collect();
        self.state.runs.extend(jobs.into_iter().map(|job| Run {
            job,
            node,
            start: Time(0),
            priority: None,
        }));
        Ok(ids)
    }

    fn node(&mut self, rank: u32, node: &Value) -> Result<()> {
        let capacity = self.amounts(&node["capacity"])?;
        let labels = fields(&node["labels"]).map(|(name, value)| (name.clone(), text(value)));
        let taint = |taint: &Value| Taint {
            key: text(&taint["key"]),
            value: text(&taint["value"]),
        };
        self.state.nodes.push(Node {
            rank,
            capacity,
            labels: labels.collect(),
            taints: list(&node["taints"]).iter().map(taint).collect(),
            ..Node::default()
        });
        for used in list(&node["used"]) {
            let priority = used[0].as_i64().context("used: no class priority")?;
            let group = serde_json::json!({
                "queue": OTHERS, "class_priority": priority, "request": used[1],
            });
            // Nobody's: it has no demand, so it has no part in the shares.
            self.account(OTHERS).demand = Some(Amounts::NONE);
            self.running(&group, rank)?;
        }
        Ok(())
    }

    fn configure(&mut self, config: &Value) -> Result<()> {
        for (name, given) in fields(&config["priority_classes"]) {
            let priority = given["priority"].as_i64().unwrap_or(0);
            let preemptible = preference(given["preemptible"].as_bool().unwrap_or(true));
            let classes = &mut self.policy.placement.classes;
            classes.insert(name.clone(), class(priority, preemptible));
            let away = list(&given["away"]).iter().map(|away| {
                Ok(Away {
                    priority: away["priority"].as_i64().context("away: no priority")?,
                    tolerations: tolerations(&away["tolerations"]),
                })
            });
            let away: Vec<Away> = away.collect::<Result<_>>()?;
            if !away.is_empty() {
                self.state.away.insert(name.clone(), away);
            }
        }
        if let Some(labels) = config["indexed_node_labels"].as_array() {
            self.state.together = Some(labels.iter().map(text).collect());
        }
        let considered = match config["fairness_resources"].as_array() {
            Some(names) => names.iter().map(text).collect(),
            None => self.state.kinds.names().to_vec(),
        };
        let protected = config["protected_fraction_of_fair_share"].as_f64();
        self.policy.share.algorithm = Share::Drf {
            resources: considered.into_iter().map(|name| (name, 1.0)).collect(),
            protected_fraction: protected.unwrap_or(1.0),
            prefer_large: preference(config["prefer_large_jobs"].as_bool().unwrap_or(false)),
        };
        let lookback = config["max_queue_lookback"]
            .as_u64()
            .filter(|&most| most > 0);
        self.policy.queue.lookback = lookback.map(|most| u32::try_from(most).unwrap_or(u32::MAX));
        self.policy.queue.limits = Limits {
            rate: rate(&config["global_rate"], &config["global_burst"]),
            account_rate: rate(&config["queue_rate"], &config["queue_burst"]),
            preempt_rate: None,
            pass_fraction: numbers(&config["max_fraction_to_schedule"]),
            account_fraction: fields(&config["max_fraction_per_queue"])
                .map(|(class, fractions)| (class.clone(), numbers(fractions)))
                .collect(),
        };
        for (queue, classes) in fields(&config["queue_limits"]) {
            self.account(queue).fractions = fields(classes)
                .map(|(class, fractions)| (class.clone(), numbers(fractions)))
                .collect();
        }
        Ok(())
    }

    /// Classes that jobs name and the configuration does not: priority 0.
    fn classes_named_in(&mut self, input: &Value) {
        let mut names = BTreeSet::new();
        find(input, "priority_class", &mut |value| {
            names.extend(value.as_str().map(str::to_string));
        });
        for name in names {
            let classes = &mut self.policy.placement.classes;
            classes
                .entry(name)
                .or_insert_with(|| class(0, Preference::On));
        }
    }
}

/// A policy of rounds by cost in which everything may be taken that a class allows.
fn policy() -> Policy {
    let bare = Policy::default();
    Policy {
        preset: "armada".to_string(),
        share: ShareRules {
            within_pass: WithinPass::Projected,
            ..bare.share
        },
        queue: QueueRules {
            source: Source::PerAccountCost,
            walk: Walk::Skip,
            evict: Evict::FairShare,
            ..bare.queue
        },
        placement: PlacementRules {
            rank: NodeRank::BestFit,
            classes: BTreeMap::from([(String::new(), class(0, Preference::On))]),
            default_class: String::new(),
            ladder: vec![Rung::Free, Rung::Evicted, Rung::Urgency],
        },
        ..bare
    }
}

fn class(priority: i64, preemptible: Preference) -> Class {
    Class {
        priority,
        fair_share_preemptible: preemptible,
        urgency_preemptible: preemptible,
    }
}

pub fn preference(on: bool) -> Preference {
    match on {
        true => Preference::On,
        false => Preference::Off,
    }
}

/// A rate and its bucket; what is not given is as good as without limit.
pub fn rate(per_second: &Value, burst: &Value) -> Option<Rate> {
    if per_second.is_null() && burst.is_null() {
        return None;
    }
    let burst = burst.as_f64().unwrap_or(f64::from(u32::MAX));
    Some(Rate {
        per_second: per_second.as_f64().unwrap_or(f64::MAX),
        burst: burst as u32,
    })
}

/// Resources in the order that decides fits, then all others that the case names.
fn kinds(input: &Value) -> Result<Kinds> {
    let config = &input["config"];
    let ordered = list(&config["node_order_resources"]).iter().map(text);
    let mut names: Vec<String> = ordered.collect();
    let mut others = BTreeSet::new();
    for holder in [
        "capacity",
        "request",
        "node",
        "used",
        "current_usage",
        "to_slice",
    ] {
        find(input, holder, &mut |value| {
            others.extend(fields(value).map(|(name, _)| name.clone()));
            for entry in list(value) {
                others.extend(fields(&entry[1]).map(|(name, _)| name.clone()));
            }
        });
    }
    others.extend(list(&config["fairness_resources"]).iter().map(text));
    // Cores first, as a base and as what fits are compared by, where no order is given.
    for name in ["cpu", "memory", "gpu"] {
        if others.remove(name) && !names.iter().any(|known| known == name) {
            names.push(name.to_string());
        }
    }
    let more: Vec<String> = others
        .into_iter()
        .filter(|name| !names.contains(name))
        .collect();
    names.extend(more);
    Kinds::new(names).map_err(|error| anyhow!(error))
}

/// Calls with each value of this name, at any depth.
fn find(value: &Value, name: &str, found: &mut dyn FnMut(&Value)) {
    for (key, value) in fields(value) {
        if key == name {
            found(value);
        }
        find(value, name, found);
    }
    for value in list(value) {
        find(value, name, found);
    }
}

fn gang(gang: &Value) -> Option<Gang> {
    let id = gang["id"].as_str()?;
    let cardinality = gang["cardinality"].as_u64().unwrap_or(1) as u32;
    let minimum = gang["min_cardinality"].as_u64();
    Some(Gang {
        id: id.to_string(),
        cardinality,
        minimum: minimum.map_or(cardinality, |minimum| minimum as u32),
        uniform: gang["node_uniformity_label"].as_str().map(str::to_string),
    })
}

fn setting(group: &Value) -> Result<Setting> {
    let selector = fields(&group["node_selector"]).map(|(name, value)| (name.clone(), text(value)));
    Ok(Setting {
        selector: selector.collect(),
        affinity: affinity(&group["node_affinity"])?,
        tolerations: tolerations(&group["tolerations"]),
    })
}

fn tolerations(given: &Value) -> Vec<Toleration> {
    let toleration = |one: &Value| Toleration {
        key: one["key"].as_str().map(str::to_string),
        value: match &one["value"] {
            Value::Null => None,
            value => Some(text(value)),
        },
    };
    list(given).iter().map(toleration).collect()
}

/// Alternatives, as a list of terms, each a list of expressions; a list of expressions alone is
/// one term, and a table of values by label has all of them met.
fn affinity(given: &Value) -> Result<Vec<Vec<Wish>>> {
    let terms = match &given["required"] {
        Value::Null => given,
        required => required,
    };
    let terms = match &terms["nodeSelectorTerms"] {
        Value::Null => terms,
        terms => terms,
    };
    match terms {
        Value::Null => Ok(Vec::new()),
        Value::Array(all) if all.iter().all(is_expression) => {
            Ok(vec![all.iter().map(wish).collect::<Result<_>>()?])
        }
        Value::Array(all) => all.iter().map(term).collect(),
        other => Ok(vec![term(other)?]),
    }
}

fn is_expression(value: &Value) -> bool {
    value["key"].is_string()
}

fn term(given: &Value) -> Result<Vec<Wish>> {
    for name in ["match_expressions", "matchExpressions", "expressions"] {
        if let Some(all) = given[name].as_array() {
            return all.iter().map(wish).collect();
        }
    }
    match given {
        Value::Array(all) => all.iter().map(wish).collect(),
        one if is_expression(one) => Ok(vec![wish(one)?]),
        Value::Object(by_label) => Ok(by_label
            .iter()
            .map(|(label, values)| Wish::In(label.clone(), texts(values)))
            .collect()),
        other => Err(anyhow!("node_affinity: {other} is not a term")),
    }
}

fn wish(given: &Value) -> Result<Wish> {
    let label = text(&given["key"]);
    let values = match &given["values"] {
        Value::Null => texts(&given["value"]),
        values => texts(values),
    };
    let number = || {
        let first = values.first().context("node_affinity: no value")?;
        first.parse::<i64>().context("node_affinity: not a number")
    };
    Ok(match given["operator"].as_str().unwrap_or("In") {
        "In" | "in" => Wish::In(label, values),
        "NotIn" | "not_in" => Wish::NotIn(label, values),
        "Exists" | "exists" => Wish::Exists(label),
        "DoesNotExist" | "does_not_exist" => Wish::Absent(label),
        "Gt" | "gt" => Wish::Above(label, number()?),
        "Lt" | "lt" => Wish::Below(label, number()?),
        other => return Err(anyhow!("node_affinity: operator {other} is not known")),
    })
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::Array(all) => all.iter().map(text).collect(),
        Value::Null => Vec::new(),
        one => vec![text(one)],
    }
}

/// A text, or what is written where a text is meant.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The fields of an object; none of anything else.
pub fn fields(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

/// The entries of a list; none of anything else.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn numbers(value: &Value) -> BTreeMap<String, f64> {
    fields(value)
        .filter_map(|(name, number)| Some((name.clone(), number.as_f64()?)))
        .collect()
}
