//! A planner with nodes, and jobs that are drawn for it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use eddy_sched::Planner;
use eddy_sched::policy::Policy;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{MemoryNeed, Request, Sharing, Takes, Work};
use eddy_wire::plan::{Delta, Owner, Verdict, Want};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::time::{MICROS, Time};

/// Cores of each node.
pub const CORES: u32 = 32;
/// Cores of the jobs that fill them.
pub const EACH: u32 = 4;
const USERS: u64 = 1000;
/// Verdicts of one slice, as in an instance.
const STEPS: u32 = 128;
const BEGIN: Time = Time(1_000_000 * MICROS);

/// A planner and what is to be known to feed it.
pub struct Site {
    pub planner: Planner,
    pub now: Time,
    nodes: u64,
    seed: u64,
}

impl Site {
    pub fn new(policy: Policy, nodes: u32) -> Site {
        let node = |rank: u32| {
            let node = NodeSet {
                host: format!("n{rank}").into(),
                cores: Idset::first_ids(CORES),
                gpus: Idset::new(),
                memory: 0,
                ..NodeSet::default()
            };
            (Rank(rank), node)
        };
        let set = ResourceSet {
            nodes: (0..nodes).map(node).collect(),
            ..ResourceSet::default()
        };
        let mut planner = Planner::with(policy);
        planner.apply(Delta::Inventory(Arc::new(set)));
        planner.apply(Delta::Up(Idset::first_ids(nodes)));
        Site {
            planner,
            now: BEGIN,
            nodes: u64::from(nodes),
            seed: 88_172_645_463_325_252,
        }
    }

    /// A number below that, of a fixed row (xorshift, Marsaglia 2003).
    pub fn dice(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        self.seed % below
    }

    pub fn want(&mut self, job: u64, request: Request) {
        let seconds = 600 + i64::try_from(self.dice(86_400)).expect("a small number");
        let duration = Some(seconds * MICROS);
        let request = Request {
            duration,
            ..request
        };
        let want = Want {
            owner: owner(job),
            submitted: self.now,
            eligible: self.now,
            ..Want::of(16, request)
        };
        self.planner.apply(Delta::Want(JobId(job), want));
    }

    /// All kinds of jobs wait: a few slots, whole nodes shared and alone.
    pub fn crowd(&mut self, jobs: RangeInclusive<u64>) {
        for job in jobs {
            let request = match self.dice(10) {
                0..6 => slots(1 + self.dice(8)),
                6..9 => whole(1 + self.dice(64), Sharing::Shared),
                _ => whole(1 + self.dice(self.nodes / 10), Sharing::Exclusive),
            };
            self.want(job, request);
        }
    }

    /// Plans until nothing is left to say and records it; how many start.
    pub fn plan(&mut self) -> usize {
        let mut started = 0;
        loop {
            let outcome = self.planner.plan(self.now, STEPS);
            for (job, verdict) in outcome.verdicts {
                if let Verdict::Start(set) = verdict {
                    self.planner.apply(Delta::Held(job, owner(job.0), set));
                    started += 1;
                }
            }
            if !outcome.unfinished {
                return started;
            }
        }
    }
}

fn owner(job: u64) -> Owner {
    Owner {
        user: u32::try_from(job % USERS).expect("a small number"),
        ..Owner::default()
    }
}

pub fn slots(count: u64) -> Request {
    let slots = u32::try_from(count).expect("a small number");
    Request {
        takes: Takes::Resources,
        ranks: None,
        constraint: None,
        work: Work::Tasks,
        nodes: None,
        choice: None,
        slots,
        slots_per_node: slots,
        cores_per_slot: EACH,
        gpus_per_slot: 0,
        memory: MemoryNeed::None,
        sharing: Sharing::Shared,
        ntasks: slots,
        duration: None,
        sockets: None,
    }
}

pub fn whole(count: u64, sharing: Sharing) -> Request {
    Request {
        nodes: Some(u32::try_from(count).expect("a small number")),
        slots_per_node: 1,
        cores_per_slot: CORES,
        sharing,
        ..slots(count)
    }
}
