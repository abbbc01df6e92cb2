//! The keys of part (b): the algorithm of fair share and what it takes.

use std::collections::BTreeMap;

use crate::policy::kind::{Names, Number, Truth};
use crate::policy::visit::Visit;
use crate::policy::{Blend, Preference, Shape, Share, ShareRules, TicketFloor, WithinPass};

const WITHIN: Names<WithinPass> = Names(&[
    ("projected", WithinPass::Projected),
    ("static", WithinPass::Static),
]);
const SHAPES: Names<Shape> = Names(&[
    ("exp2", Shape::Exp2),
    ("linear", Shape::Linear),
    ("ratio", Shape::Ratio),
]);
const BLENDS: Names<Blend> = Names(&[("part", Blend::Part), ("active", Blend::Active)]);
const FLOORS: Names<TicketFloor> = Names(&[
    ("overall", TicketFloor::Overall),
    ("siblings", TicketFloor::Siblings),
]);

/// The variants of [`Share`] without what is in them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::policy) enum Algorithm {
    None,
    Classic,
    Ticket,
    FairTree,
    ProjectRatio,
    PbsTree,
    PriorityFloor,
    Drf,
}

/// Their names.
pub(in crate::policy) const SHARES: Names<Algorithm> = Names(&[
    ("none", Algorithm::None),
    ("classic", Algorithm::Classic),
    ("ticket", Algorithm::Ticket),
    ("fair_tree", Algorithm::FairTree),
    ("project_ratio", Algorithm::ProjectRatio),
    ("pbs_tree", Algorithm::PbsTree),
    ("priority_floor", Algorithm::PriorityFloor),
    ("drf", Algorithm::Drf),
]);

const KEYS: &[(&str, &str)] = &[
    ("shape", "algorithm = \"classic\""),
    ("damping", "algorithm = \"classic\""),
    ("blend", "algorithm = \"classic\""),
    ("floor", "algorithm = \"ticket\""),
    ("tickets", "algorithm = \"ticket\""),
    ("max", "algorithm = \"project_ratio\""),
    (
        "minimum_usage",
        "algorithm = \"pbs_tree\" or \"priority_floor\"",
    ),
    ("protected_fraction", "algorithm = \"drf\""),
    ("prefer_large", "algorithm = \"drf\""),
    ("resources", "algorithm = \"drf\""),
];

pub(super) fn walk(visit: &mut impl Visit, rules: &mut ShareRules) {
    visit.key(
        "within_pass",
        "projected: each start planned in a pass is charged before the next pick of that pass; static: the order of the beginning of the pass",
        &WITHIN,
        &mut rules.within_pass,
    );
    let before = rules.algorithm.kind();
    let mut now = before;
    visit.key(
        "algorithm",
        "how shares and usage become the factor fair_share, or an order of accounts",
        &SHARES,
        &mut now,
    );
    if now != before {
        rules.algorithm = fresh(now);
    }
    of_algorithm(visit, &mut rules.algorithm);
    visit.foreign(KEYS, &format!("algorithm = {:?}", SHARES.name(now)));
}

fn of_algorithm(visit: &mut impl Visit, share: &mut Share) {
    match share {
        Share::None | Share::FairTree => {}
        Share::Classic {
            shape,
            damping,
            blend,
        } => {
            visit.key(
                "shape",
                "the curve from usage over share; each is 0.5 where they are equal",
                &SHAPES,
                shape,
            );
            visit.key(
                "damping",
                "usage weighs this much less; 1 is none",
                &Number::Positive,
                damping,
            );
            visit.key(
                "blend",
                "how usage goes down the tree; active: who has work waiting is compared with the others who have; part: as Slurm does, where siblings of unlike shares and idle ones get in the way",
                &BLENDS,
                blend,
            );
        }
        Share::Ticket { floor, tickets } => {
            visit.key(
                "floor",
                "the least usage counted is 1 % of the share: of all, or among siblings",
                &FLOORS,
                floor,
            );
            visit.key(
                "tickets",
                "how many are given out; only proportions matter",
                &Number::Positive,
                tickets,
            );
        }
        Share::ProjectRatio { max } => visit.key(
            "max",
            "what a project without usage has: max * (1 - usage / total)",
            &Number::Positive,
            max,
        ),
        Share::PbsTree { minimum_usage } => visit.key(
            "minimum_usage",
            "what every entity has used at least",
            &Number::NotNegative,
            minimum_usage,
        ),
        Share::PriorityFloor { floor } => visit.key(
            "minimum_usage",
            "the least usage counted of an account",
            &Number::NotNegative,
            floor,
        ),
        Share::Drf {
            resources,
            protected_fraction,
            prefer_large,
        } => drf(visit, resources, protected_fraction, prefer_large),
    }
}

fn drf(
    visit: &mut impl Visit,
    resources: &mut BTreeMap<String, f64>,
    protected_fraction: &mut f64,
    prefer_large: &mut Preference,
) {
    visit.key(
        "protected_fraction",
        "an account at or below this fraction of its fair share is not evicted from",
        &Number::NotNegative,
        protected_fraction,
    );
    visit.key(
        "prefer_large",
        "larger jobs first where accounts are level",
        &Truth,
        prefer_large,
    );
    visit.map(
        "resources",
        "Resources considered, each with its multiplier; 0 ignores it.",
        &Number::NotNegative,
        resources,
    );
}

impl Share {
    pub(in crate::policy) fn kind(&self) -> Algorithm {
        match self {
            Share::None => Algorithm::None,
            Share::Classic { .. } => Algorithm::Classic,
            Share::Ticket { .. } => Algorithm::Ticket,
            Share::FairTree => Algorithm::FairTree,
            Share::ProjectRatio { .. } => Algorithm::ProjectRatio,
            Share::PbsTree { .. } => Algorithm::PbsTree,
            Share::PriorityFloor { .. } => Algorithm::PriorityFloor,
            Share::Drf { .. } => Algorithm::Drf,
        }
    }
}

/// What an algorithm takes that the preset did not have: the values of the system it comes from.
fn fresh(algorithm: Algorithm) -> Share {
    match algorithm {
        Algorithm::None => Share::None,
        Algorithm::Classic => Share::Classic {
            shape: Shape::Exp2,
            damping: 1.0,
            blend: Blend::Part,
        },
        Algorithm::Ticket => Share::Ticket {
            floor: TicketFloor::Overall,
            tickets: 1000.0,
        },
        Algorithm::FairTree => Share::FairTree,
        Algorithm::ProjectRatio => Share::ProjectRatio { max: 1e6 },
        Algorithm::PbsTree => Share::PbsTree { minimum_usage: 1.0 },
        Algorithm::PriorityFloor => Share::PriorityFloor { floor: 0.5 },
        Algorithm::Drf => Share::Drf {
            resources: ["cores", "gpus", "memory"]
                .map(|name| (name.to_owned(), 1.0))
                .into(),
            protected_fraction: 1.0,
            prefer_large: Preference::Off,
        },
    }
}
