//! Named factors as numbers from 0 to 1.
//!
//! Asked when columns are filled and by listings. Each takes bad input as none.

use eddy_wire::time::Span;

use crate::policy::{FactorRules, Policy, SizeFavour};

/// The wait over what counts as 1, at most 1; 0 for a clock before the beginning of it, 1 for any
/// wait where nothing has to be waited for.
pub fn wait(waited: Span, max: Span) -> f64 {
    match (waited.0 > 0, max.0 > 0) {
        (false, _) => 0.0,
        (true, false) => 1.0,
        (true, true) => (waited.0 as f64 / max.0 as f64).min(1.0),
    }
}

/// The size of a job: the mean over resources `(asked, all)` of the part it asks for, none where
/// there is nothing of any; or 1 less that. Flux counts nodes alone, Slurm nodes and processors.
pub fn size(resources: &[(f64, f64)], favour: SizeFavour) -> f64 {
    let part = |&(asked, all): &(f64, f64)| match all > 0.0 {
        true => (asked / all).clamp(0.0, 1.0),
        false => 0.0,
    };
    let there = resources.iter().any(|&(_, all)| all > 0.0);
    let mean = resources.iter().map(part).sum::<f64>() / resources.len().max(1) as f64;
    match (there, favour) {
        (false, _) => 0.0,
        (true, SizeFavour::Large) => mean,
        (true, SizeFavour::Small) => 1.0 - mean,
    }
}

/// The value of a QoS by name, or of the default one; 0 where that is not in the table.
pub fn qos(rules: &FactorRules, name: Option<&str>) -> f64 {
    let name = name.unwrap_or(&rules.default_qos);
    rules.qos.get(name).copied().unwrap_or(0.0)
}

/// The priority of a class by name, or of the default one; 0 where that is not in the table.
pub fn class(policy: &Policy, name: Option<&str>) -> f64 {
    let placement = &policy.placement;
    let class = placement
        .classes
        .get(name.unwrap_or(&placement.default_class));
    class.map_or(0.0, |class| class.priority as f64)
}

/// The priority of a queue by name; 0 where nothing is said of it.
pub fn queue(policy: &Policy, name: Option<&str>) -> f64 {
    let queues = &policy.priority.factors.queues;
    queues.get(name.unwrap_or_default()).copied().unwrap_or(0.0)
}

/// What a user asked for as its factor, which may only lower: 1 where nothing was asked.
pub fn user(asked: Option<f64>) -> f64 {
    match asked {
        Some(asked) if asked.is_finite() => asked.clamp(0.0, 1.0),
        Some(_) => 0.0,
        None => 1.0,
    }
}

/// The number shown for a job that is served in the order of coming: one less for each before it,
/// never below 1.
pub fn first_come(first: u32, before: u64) -> u32 {
    let before = u32::try_from(before).unwrap_or(u32::MAX);
    first.saturating_sub(before).max(1)
}
