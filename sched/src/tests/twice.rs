//! What two hold for a moment: what was proposed is withdrawn, given to another, and found recorded.

use std::sync::Arc;

use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Owner, Verdict, Want};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::{MICROS, Time};

use super::model::{inventory, nodes};
use crate::Lines;

const RECORDED: JobId = JobId(1);
const PROPOSED: JobId = JobId(2);
const BESIDE: JobId = JobId(3);
const FIRST: JobId = JobId(4);
const SECOND: JobId = JobId(5);

fn at(seconds: i64) -> Time {
    Time((1000 + seconds) * MICROS)
}

/// Two cores of each of these nodes, until then.
fn held(planner: &mut Lines, job: JobId, ranks: &[u32], until: i64) {
    let node = |rank: &u32| {
        let node = NodeSet {
            host: format!("n{rank}").into(),
            cores: Idset::first_ids(2),
            ..NodeSet::default()
        };
        (Rank(*rank), node)
    };
    let set = Arc::new(ResourceSet {
        nodes: ranks.iter().map(node).collect(),
        starttime: at(0).0,
        expiration: at(until).0,
        ..ResourceSet::default()
    });
    planner.apply(Delta::Held(job, Owner::default(), set));
}

fn starts(planner: &mut Lines, now: i64) -> Vec<JobId> {
    let outcome = planner.plan(at(now), 1000);
    assert!(!outcome.unfinished);
    let verdicts = outcome.verdicts.into_iter();
    let started = verdicts.filter_map(|(job, verdict)| match verdict {
        Verdict::Start(_) => Some(job),
        Verdict::Never(_) | Verdict::Preempt { .. } => None,
    });
    started.collect()
}

/// Each wants two of three nodes and has no limit, so the second can be promised nothing; but a node that
/// two hold seems to come back twice.
#[test]
fn what_is_promised_of_a_node_that_two_held_is_planned_anew() {
    for policy in ["conservative", "conservative-replanned", "hybrid", "easy"] {
        let mut planner = Lines::new();
        let policy = format!("preset = \"{policy}\"");
        planner.apply(Delta::Policy(policy.as_str().into()));
        planner.apply(Delta::Inventory(inventory(&[(2, 0, 0); 3])));
        planner.apply(Delta::Up(Idset::first_ids(3)));
        held(&mut planner, RECORDED, &[0], 40);
        held(&mut planner, PROPOSED, &[0], 40);
        held(&mut planner, BESIDE, &[1, 2], 50);
        for job in [FIRST, SECOND] {
            planner.apply(Delta::Want(job, Want::of(16, nodes(2, 1, 2))));
        }
        assert_eq!(starts(&mut planner, 1), []);
        for gone in [PROPOSED, RECORDED, BESIDE] {
            planner.apply(Delta::Freed(gone));
        }
        assert_eq!(starts(&mut planner, 2), [FIRST], "{policy}");
        planner.apply(Delta::Unwant(FIRST));
        assert_eq!(starts(&mut planner, 3), [SECOND], "{policy}");
    }
}
