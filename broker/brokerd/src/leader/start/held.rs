//! Whether what is given at a start still has the nodes that jobs hold.
//!
//! Called once, while a leader begins that is nobody's child.

use eddy_modules::resource::digest_of_told;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use thiserror::Error;

use super::StartError;
use crate::leader::store::Known;

/// So many jobs are named.
const JOBS_SHOWN: usize = 5;

/// Nodes that are held and would be gone.
#[derive(Debug, Error)]
#[error("nodes: what is given now has no ranks {ranks}, which are held by {}; allowed is what was given before, from which `eddy resource remove` takes nodes", shown(.jobs))]
pub struct HeldError {
    ranks: Idset,
    jobs: Vec<JobId>,
}

/// Whether nodes that jobs hold are still there.
///
/// # Errors
/// What is told now has fewer than what was told before, and those that it lacks are held: that a person took away
/// what runs is to be said by `eddy resource remove`, not by the words of a start.
pub(super) fn keeps_held(known: &Known, told: &ResourceSet) -> Result<(), StartError> {
    let Some(before) = known.inventory.as_ref() else {
        return Ok(());
    };
    if known.told == Some(digest_of_told(told)) {
        return Ok(());
    }
    let gone = before.ranks().difference(&told.ranks());
    let mut ranks = Idset::new();
    let mut jobs = Vec::new();
    for (job, held) in &known.held {
        let lost = held.intersect(&gone);
        if !lost.is_empty() {
            ranks = ranks.union(&lost);
            jobs.push(*job);
        }
    }
    match jobs.is_empty() {
        true => Ok(()),
        false => Err(StartError::Held(Box::new(HeldError { ranks, jobs }))),
    }
}

fn shown(jobs: &[JobId]) -> String {
    let named: Vec<String> = jobs
        .iter()
        .take(JOBS_SHOWN)
        .map(|job| job.f58_ascii())
        .collect();
    let named = named.join(", ");
    match jobs.len().saturating_sub(JOBS_SHOWN) {
        0 if jobs.len() == 1 => format!("job {named}"),
        0 => format!("jobs {named}"),
        more => format!("jobs {named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use eddy_wire::id::Rank;
    use eddy_wire::resource_set::NodeSet;

    use super::*;

    fn nodes(count: u32) -> ResourceSet {
        let nodes = (0..count).map(|rank| (Rank(rank), NodeSet::default()));
        ResourceSet {
            nodes: nodes.collect(),
            ..ResourceSet::default()
        }
    }

    #[test]
    fn fewer_nodes_are_refused_where_jobs_hold_those_that_are_gone() {
        let mut known = Known {
            inventory: Some(Arc::new(nodes(4))),
            told: Some(digest_of_told(&nodes(4))),
            ..Known::default()
        };
        let said = |known: &Known, count| {
            let given = keeps_held(known, &nodes(count));
            given.map_err(|error| error.to_string())
        };
        assert_eq!(said(&known, 2), Ok(()), "nobody holds anything");
        known.held.insert(JobId(1), Idset::one(1));
        assert_eq!(said(&known, 2), Ok(()));
        known.held.insert(JobId(2), Idset::range(1, 2));
        known.held.insert(JobId(3), Idset::one(3));
        let error = said(&known, 2).expect_err("they are held");
        let begin = "nodes: what is given now has no ranks 2-3, which are held by jobs f3, f4;";
        assert!(error.starts_with(begin), "{error}");
        assert_eq!(said(&known, 4), Ok(()));
        // Nodes that were added since are no part of what is told.
        known.inventory = Some(Arc::new(nodes(6)));
        known.held.insert(JobId(4), Idset::one(5));
        assert_eq!(said(&known, 4), Ok(()));
    }
}
