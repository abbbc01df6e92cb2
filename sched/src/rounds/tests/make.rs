//! States and policies in few words.

use std::collections::BTreeMap;

use eddy_wire::id::JobId;
use eddy_wire::time::{Span, Time};

use crate::amounts::{Amounts, Kinds, UNIT};
use crate::policy::*;
use crate::rounds::{Account, Decision, Gang, Job, Node, Outcome, Run, State, schedule};

/// Classes `low` (0), `high` (1) and `firm` (1, never taken from); DRF over all resources.
pub fn policy() -> Policy {
    let class = |priority, preemptible| Class {
        priority,
        fair_share_preemptible: preemptible,
        urgency_preemptible: preemptible,
    };
    let bare = Policy::default();
    Policy {
        preset: "armada".into(),
        usage: UsageRules {
            charge: Charge::Scarcity,
            ..bare.usage
        },
        share: ShareRules {
            algorithm: Share::Drf {
                resources: BTreeMap::from([("cpu".into(), 1.0), ("memory".into(), 1.0)]),
                protected_fraction: 0.0,
                prefer_large: Preference::Off,
            },
            within_pass: WithinPass::Projected,
        },
        queue: QueueRules {
            source: Source::PerAccountCost,
            walk: Walk::Skip,
            evict: Evict::FairShare,
            ..bare.queue
        },
        placement: PlacementRules {
            rank: NodeRank::BestFit,
            classes: BTreeMap::from([
                ("low".into(), class(0, Preference::On)),
                ("high".into(), class(1, Preference::On)),
                ("firm".into(), class(1, Preference::Off)),
            ]),
            default_class: "low".into(),
            ladder: vec![Rung::Free, Rung::Evicted, Rung::Urgency],
        },
        ..bare
    }
}

pub fn amounts(cpu: i64, memory: i64) -> Amounts {
    let mut amounts = Amounts::NONE;
    (amounts[0], amounts[1]) = (cpu * UNIT, memory * UNIT);
    amounts
}

/// Nodes of these cores and memory, and these accounts of factor 1.
pub fn state(nodes: &[(i64, i64)], accounts: &[&str]) -> State {
    let node = |(rank, &(cpu, memory)): (usize, &(i64, i64))| Node {
        rank: rank as u32,
        capacity: amounts(cpu, memory),
        ..Node::default()
    };
    State {
        kinds: Kinds::new(["cpu", "memory"]).expect("two kinds"),
        nodes: nodes.iter().enumerate().map(node).collect(),
        accounts: accounts.iter().map(|&name| Account::new(name)).collect(),
        ..State::default()
    }
}

pub fn job(id: u64, account: &str, class: &str, cpu: i64) -> Job {
    Job {
        id: JobId(id),
        account: account.into(),
        class: class.into(),
        submit: Time(id as i64),
        request: amounts(cpu, cpu),
        grace: Span::seconds(2),
        ..Job::default()
    }
}

pub fn run(job: Job, node: u32) -> Run {
    Run {
        start: job.submit,
        job,
        node,
        priority: None,
    }
}

pub fn gang(jobs: impl IntoIterator<Item = Job>, minimum: u32, uniform: Option<&str>) -> Vec<Job> {
    let mut jobs: Vec<Job> = jobs.into_iter().collect();
    let gang = Gang {
        id: format!("gang {}", jobs[0].id.0),
        cardinality: jobs.len() as u32,
        minimum,
        uniform: uniform.map(str::to_string),
    };
    for job in &mut jobs {
        job.gang = Some(gang.clone());
    }
    jobs
}

/// What a round does, in few words: `start 3 on 0`, `preempt 1 by 3`, `fail 4`; waits and keeps
/// are left out.
pub fn told(outcome: &Outcome) -> Vec<String> {
    let tell = |(id, decision): (&JobId, &Decision)| match decision {
        Decision::Start { node, .. } => Some(format!("start {} on {node}", id.0)),
        Decision::Preempt { by: Some(by), .. } => Some(format!("preempt {} by {}", id.0, by.0)),
        Decision::Preempt { by: None, .. } => Some(format!("preempt {}", id.0)),
        Decision::Fail => Some(format!("fail {}", id.0)),
        Decision::Keep | Decision::Wait(_) => None,
    };
    outcome.decisions.iter().filter_map(tell).collect()
}

pub fn round(state: &State) -> Vec<String> {
    told(&schedule(state, &policy()))
}
