//! The policies that have a name: TOML that is compiled in.
//!
//! Asked by `read` for what a policy starts from, by `eddy policy list`, and by
//! the simulator for the rows of published tables. A preset is read like any
//! other policy; nothing obeys one by its name.

use std::collections::BTreeMap;

use eddy_wire::time::Span;

use super::{
    Charge, ChargedTime, Decay, Evict, FactorRules, FillOrder, Limits, NodeRank, PlacementRules,
    Policy, PriorityRules, QueueRules, Reservations, Rung, Share, ShareRules, SizeFavour, Source,
    UsageRules, WaitFrom, Walk, WithinPass, read,
};

/// A preset as `eddy policy list` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name.
    pub name: &'static str,
    /// What it does, one line.
    pub what: &'static str,
    /// What it is for, one line.
    pub purpose: &'static str,
    /// Its TOML.
    text: &'static str,
}

macro_rules! preset {
    ($name:literal, $what:literal, $purpose:literal) => {
        Preset {
            name: $name,
            what: $what,
            purpose: $purpose,
            text: include_str!(concat!("presets/", $name, ".toml")),
        }
    };
}

/// Every preset; one names only those before it.
pub const PRESETS: &[Preset] = &[
    preset!(
        "fcfs",
        "first come, first served; nobody passes",
        "few jobs, whole machines, workflows of one user"
    ),
    preset!(
        "easy",
        "one reservation; others pass where they do not delay it",
        "a cluster where all are equal and limits are guesses"
    ),
    preset!(
        "conservative",
        "a reservation for every job, kept",
        "start times that people can rely on"
    ),
    preset!(
        "conservative-replanned",
        "a reservation for every job, planned anew each pass",
        "comparing with schedulers that plan so"
    ),
    preset!(
        "hybrid",
        "reservations for the first 64; hybrid-K for the first K",
        "between easy and conservative"
    ),
    preset!(
        "armada-legacy",
        "slices by inverse decayed usage, then a draw",
        "many small jobs of many users, no gangs"
    ),
    preset!(
        "armada",
        "least dominant share next; eviction and urgency by class",
        "mixed cores, memory and GPUs; preemptible work"
    ),
    preset!(
        "flux",
        "six weighted factors, hierarchical fair share",
        "a site with accounts, QoS and queues; begin here"
    ),
    preset!(
        "slurm-fair-tree",
        "nine factors, Fair Tree",
        "sites that come from Slurm"
    ),
    preset!(
        "slurm-ticket",
        "nine factors, tickets",
        "the same as before Fair Tree; see the guide before use"
    ),
    preset!(
        "pbs-it4i",
        "queue, project's usage, eligible time",
        "projects with allocations; queues that outrank all"
    ),
    preset!(
        "flux-accounting",
        "rank in a weighted tree, queue, urgency",
        "sites that come from flux-accounting"
    ),
    preset!(
        "easy-sjbf",
        "easy, gaps filled by the shortest first",
        "published comparisons"
    ),
    preset!(
        "easy-sjf",
        "easy over the shortest job first",
        "published comparisons"
    ),
    preset!(
        "easy-saf",
        "easy over the least time times cores first",
        "published comparisons"
    ),
];

/// Names of published rows, and the presets they are.
const ALIASES: &[(&str, &str)] = &[
    ("cons", "conservative-replanned"),
    ("cons-compress", "conservative"),
];

/// The most reservations that `hybrid-K` may name.
const HYBRID_MAX: u32 = 1_000_000;

/// The preset of that name, one of [`PRESETS`], a published row (`cons`,
/// `cons-compress`) or `hybrid-K`; `None` where there is none.
pub fn preset(name: &str) -> Option<Policy> {
    let alias = ALIASES.iter().find(|(alias, _)| *alias == name);
    let known = alias.map_or(name, |(_, preset)| preset);
    if let Some(preset) = PRESETS.iter().find(|preset| preset.name == known) {
        let policy = read::of_preset(name, preset.text);
        return Some(policy.expect("presets are checked by the tests"));
    }
    let depth: u32 = name.strip_prefix("hybrid-")?.parse().ok()?;
    // One spelling for each: not hybrid-08 nor hybrid-+8.
    if !(1..=HYBRID_MAX).contains(&depth) || name != format!("hybrid-{depth}") {
        return None;
    }
    let mut policy = preset("hybrid")?;
    name.clone_into(&mut policy.preset);
    policy.queue.walk = Walk::Reserve { depth };
    Some(policy)
}

/// Every name, without the numbers of `hybrid-K`.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let aliases = ALIASES.iter().map(|(alias, _)| *alias);
    PRESETS.iter().map(|preset| preset.name).chain(aliases)
}

/// What a policy that names no preset starts from: first come, first served.
pub(super) fn bare() -> Policy {
    Policy {
        preset: "fcfs".to_owned(),
        usage: UsageRules {
            charge: Charge::Sum,
            weights: BTreeMap::new(),
            factors: BTreeMap::new(),
            qos_factors: BTreeMap::new(),
            time: ChargedTime::Elapsed,
            minimum: Span::ZERO,
            decay: Decay::None,
        },
        share: ShareRules {
            algorithm: Share::None,
            within_pass: WithinPass::Static,
        },
        priority: PriorityRules {
            order: vec!["urgency".to_owned()],
            weights: BTreeMap::new(),
            threshold: None,
            factors: bare_factors(),
            refresh: Span::seconds(60),
        },
        queue: bare_queue(),
        placement: PlacementRules {
            rank: NodeRank::LowId,
            classes: BTreeMap::from([("default".to_owned(), super::keys::CLASS)]),
            default_class: "default".to_owned(),
            ladder: vec![Rung::Free],
        },
    }
}

fn bare_factors() -> FactorRules {
    FactorRules {
        max_wait: Span::seconds(7 * 86_400),
        wait_from: WaitFrom::Submit,
        size: SizeFavour::Large,
        qos: [("expedite", 1.0), ("normal", 0.5), ("standby", 0.0)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        default_qos: "normal".to_owned(),
        queues: BTreeMap::new(),
    }
}

fn bare_queue() -> QueueRules {
    QueueRules {
        source: Source::Global,
        walk: Walk::Stop,
        fill_order: FillOrder::Queue,
        reservations: Reservations::Replanned,
        replan_every: None,
        lookback: None,
        reserve_after: None,
        displace_margin: 0.0,
        default_limit: None,
        window: None,
        evict: Evict::Nothing,
        limits: Limits::default(),
    }
}
