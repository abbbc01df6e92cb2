//! What is allowed in a policy and seldom meant.
//!
//! Called by `eddy policy show` and `check`, after the errors. A policy with
//! warnings is obeyed all the same.

use std::fmt;

use eddy_wire::fsd::Fsd;
use eddy_wire::time::Span;

use super::{
    Decay, Evict, FillOrder, Policy, Rate, Reservations, Rung, Share, Source, Walk, formula,
};

/// A key whose value is seldom meant, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// The path of the key.
    pub path: String,
    /// What follows from it, one line.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

/// Gangs of this many jobs are usual; a smaller bucket holds some back for ever.
const GANG_USUAL: u32 = 256;

/// Every warning about a policy, in the order of its parts.
pub fn warnings(policy: &Policy) -> Vec<Warning> {
    let mut list = Warnings(Vec::new());
    usage(policy, &mut list);
    share(policy, &mut list);
    priority(policy, &mut list);
    queue(policy, &mut list);
    reservations(policy, &mut list);
    limits(policy, &mut list);
    placement(policy, &mut list);
    list.0
}

struct Warnings(Vec<Warning>);

impl Warnings {
    fn say(&mut self, path: &str, text: impl Into<String>) {
        self.0.push(Warning {
            path: path.to_owned(),
            text: text.into(),
        });
    }
}

fn long(span: Span) -> String {
    Fsd::Finite(span.0).to_string()
}

/// Whether the factor fair_share, or an order of accounts, comes from what was used.
fn counts_usage(share: &Share) -> bool {
    match share {
        // DRF counts what is held, not what was.
        Share::None | Share::Drf { .. } => false,
        Share::Classic { .. }
        | Share::Ticket { .. }
        | Share::FairTree
        | Share::ProjectRatio { .. }
        | Share::PbsTree { .. }
        | Share::PriorityFloor { .. } => true,
    }
}

fn usage(policy: &Policy, list: &mut Warnings) {
    let rules = &policy.usage;
    if !counts_usage(&policy.share.algorithm) {
        return;
    }
    if rules.weights.values().all(|&weight| weight == 0.0) {
        list.say(
            "usage.weights",
            "nothing is charged, so shares never depend on what was used",
        );
    }
    match rules.decay {
        Decay::None => list.say(
            "usage.decay.form",
            "usage is never forgotten: who used much once is behind for ever; a reset or a half-life is usual",
        ),
        Decay::Exponential { half } | Decay::TowardCurrent { half } => half_life(policy, half, list),
        Decay::Step {
            interval, factor, ..
        } => {
            if factor == 1.0 {
                list.say("usage.decay.factor", "is 1: usage is never forgotten");
            }
            half_life(policy, interval, list);
        }
        Decay::Bins { period, .. } => half_life(policy, period, list),
        Decay::Reset(_) => {}
    }
}

/// A memory shorter than what it is weighed against.
fn half_life(policy: &Policy, half: Span, list: &mut Warnings) {
    let priority = &policy.priority;
    let path = match policy.usage.decay {
        Decay::Step { .. } => "usage.decay.interval",
        Decay::Bins { .. } => "usage.decay.period",
        Decay::None | Decay::Exponential { .. } | Decay::TowardCurrent { .. } | Decay::Reset(_) => {
            "usage.decay.half"
        }
    };
    if half < priority.refresh {
        list.say(
            path,
            format!(
                "{} is shorter than priority.refresh, {}: priorities are old when they are used",
                long(half),
                long(priority.refresh)
            ),
        );
    }
    let both = formula::names(priority, "wait") && formula::names(priority, "fair_share");
    if both && half.0.saturating_mul(7) < priority.factors.max_wait.0 {
        list.say(
            path,
            format!(
                "{} is far shorter than the {} in which waits grow: who used much waits a little, not less",
                long(half),
                long(priority.factors.max_wait)
            ),
        );
    }
}

fn share(policy: &Policy, list: &mut Warnings) {
    let named = formula::names(&policy.priority, "fair_share");
    let algorithm = &policy.share.algorithm;
    match algorithm {
        Share::None if named => list.say(
            "share.algorithm",
            "is \"none\", so the factor fair_share is the same for all",
        ),
        Share::Ticket { .. } => {
            list.say(
                "share.algorithm",
                "\"ticket\" always gives some job the factor 1.0, whatever was used: other weights must be set against that",
            );
            list.say(
                "share.algorithm",
                "\"ticket\" splits tickets among who has jobs, so an account below its share may be behind one above it; \"fair_tree\" keeps that promise",
            );
        }
        Share::PriorityFloor { floor } if *floor == 0.0 => list.say(
            "share.minimum_usage",
            "is 0: an account that never ran is due everything",
        ),
        Share::Drf {
            protected_fraction, ..
        } if *protected_fraction == 0.0 => list.say(
            "share.protected_fraction",
            "is 0: jobs of accounts below their fair share are evicted as well",
        ),
        Share::None
        | Share::Classic { .. }
        | Share::FairTree
        | Share::ProjectRatio { .. }
        | Share::PbsTree { .. }
        | Share::PriorityFloor { .. }
        | Share::Drf { .. } => {}
    }
    let by_factor = matches!(
        algorithm,
        Share::Classic { .. }
            | Share::Ticket { .. }
            | Share::FairTree
            | Share::ProjectRatio { .. }
            | Share::PbsTree { .. }
    );
    if by_factor && !named {
        list.say(
            "share.algorithm",
            "no formula names fair_share, so shares do not matter",
        );
    }
}

fn priority(policy: &Policy, list: &mut Warnings) {
    let rules = &policy.priority;
    for (name, &weight) in &rules.weights {
        if weight > 0.0 && !formula::names(rules, &format!("w_{name}")) {
            list.say(
                &format!("priority.weights.{name}"),
                format!("no formula names w_{name}"),
            );
        }
    }
    if let (Some(threshold), Some(best)) = (rules.threshold, formula::best(policy))
        && best <= threshold
    {
        list.say(
            "priority.threshold",
            format!("is {threshold}, and the best that factors can make is {best}: all jobs are held back"),
        );
    }
    if matches!(policy.share.algorithm, Share::ProjectRatio { .. }) {
        close_queues(policy, list);
    }
}

/// One point between queues is what fair share adds at most, and then any wait decides.
fn close_queues(policy: &Policy, list: &mut Warnings) {
    let mut queues: Vec<(f64, &str)> = policy
        .priority
        .factors
        .queues
        .iter()
        .map(|(name, &priority)| (priority, name.as_str()))
        .collect();
    queues.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(b.1)));
    for pair in queues.windows(2) {
        let [(low, lower), (high, higher)] = pair else {
            continue;
        };
        if high != low && high - low < 2.0 {
            list.say(
                &format!("priority.factors.queues.{higher}"),
                format!(
                    "{high} is less than 2 over {lower}, {low}: fair share and waiting can put a job of {lower} first"
                ),
            );
        }
    }
}

fn queue(policy: &Policy, list: &mut Warnings) {
    let rules = &policy.queue;
    if let (Walk::Reserve { depth }, Some(lookback)) = (rules.walk, rules.lookback)
        && depth != Walk::ALL
        && lookback < depth
    {
        list.say(
            "queue.lookback",
            format!("{lookback} jobs are tried, so {depth} reservations are never made"),
        );
    }
    if rules.source == Source::ByQueue && policy.priority.factors.queues.is_empty() {
        list.say(
            "queue.source",
            "is \"by_queue\", and priority.factors.queues names none: all queues are alike",
        );
    }
    if rules.evict == Evict::FairShare && !policy.placement.ladder.contains(&Rung::Evicted) {
        list.say(
            "placement.ladder",
            "has no \"evicted\", so what evicted jobs had is given to nobody else",
        );
    }
    if rules.walk == Walk::Skip && rules.reserve_after.is_none() && rules.source == Source::Global {
        list.say(
            "queue.walk",
            "is \"skip\": a wide job waits as long as narrow ones keep coming; queue.reserve_after bounds that",
        );
    }
}

fn reservations(policy: &Policy, list: &mut Warnings) {
    let rules = &policy.queue;
    if rules.fill_order == FillOrder::Shortest && rules.walk == Walk::Stop {
        list.say(
            "queue.fill_order",
            "nobody fills gaps where queue.walk is \"stop\"",
        );
    }
    if rules.displace_margin > 0.0 && rules.reservations == Reservations::Replanned {
        list.say(
            "queue.displace_margin",
            "counts only where queue.reservations is \"kept\"",
        );
    }
    if rules.replan_every.is_some() && rules.reservations == Reservations::Kept {
        list.say(
            "queue.replan_every",
            "counts only where queue.reservations is \"replanned\"",
        );
    }
    if let (Some(window), Some(limit)) = (rules.window, rules.default_limit)
        && window < limit
    {
        list.say(
            "queue.window",
            format!(
                "{} is shorter than queue.default_limit, {}: behind a job without a limit nothing is planned",
                long(window),
                long(limit)
            ),
        );
    }
}

fn limits(policy: &Policy, list: &mut Warnings) {
    let limits = &policy.queue.limits;
    let rates = [("rate", limits.rate), ("account_rate", limits.account_rate)];
    for (name, rate) in rates {
        if let Some(Rate { burst, .. }) = rate
            && burst < GANG_USUAL
        {
            list.say(
                &format!("queue.limits.{name}"),
                format!("a gang of more than {burst} jobs never starts"),
            );
        }
    }
    for (resource, &fraction) in &limits.pass_fraction {
        if fraction == 0.0 {
            list.say(
                &format!("queue.limits.pass_fraction.{resource}"),
                "is 0: one job is started in a pass",
            );
        }
    }
    for (class, fractions) in &limits.account_fraction {
        for (resource, &fraction) in fractions {
            if fraction == 0.0 {
                list.say(
                    &format!("queue.limits.account_fraction.{class}.{resource}"),
                    format!("is 0: no job of class {class} that has {resource} is ever started"),
                );
            }
        }
    }
}

fn placement(policy: &Policy, list: &mut Warnings) {
    let rules = &policy.placement;
    if !rules.ladder.contains(&Rung::Free) {
        list.say(
            "placement.ladder",
            "has no \"free\": a job is started only where another is taken from",
        );
    }
    let levels: std::collections::BTreeSet<i64> =
        rules.classes.values().map(|class| class.priority).collect();
    if rules.ladder.contains(&Rung::Urgency) && levels.len() < 2 {
        list.say(
            "placement.ladder",
            "has \"urgency\", and all classes have the same priority: nobody takes from anybody",
        );
    }
}
