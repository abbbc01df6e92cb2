//! Kinds about rounds of accounts with eviction, gangs and preemption.
//!
//! A case becomes a state and a policy, the library makes the round, and what it
//! decided is written in the words of the case. Where a case has several rounds,
//! the outcome of one is applied to the state of the next; nothing is scheduled
//! here.

mod admit;
mod order;
mod passes;
mod scene;
mod single;

pub(super) use scene::Scene;

use super::Compute;

/// What computes this kind, if it is one of these.
pub fn of(kind: &str) -> Option<Compute> {
    Some(match kind {
        "drf_rounds" => passes::drf_rounds,
        "drf_fill_pass" => passes::drf_fill_pass,
        "gang_sequence" => single::gang_sequence,
        "bind_sequence" => single::bind_sequence,
        "preemption_kind" => single::preemption_kind,
        "eviction_order" => single::eviction_order,
        "eviction_outcomes" => single::eviction_outcomes,
        "preemption_rate_limit" => single::preemption_rate_limit,
        "job_compare" => order::job_compare,
        "queue_order_prefer_large" => order::queue_order_prefer_large,
        "gang_admission" => admit::gang_admission,
        "deadline_admission" => admit::deadline_admission,
        "deadline_admission_by_resource" => admit::deadline_admission_by_resource,
        "grace_period_admission" => admit::grace_period_admission,
        _ => return None,
    })
}
