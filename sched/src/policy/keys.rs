//! Every key of a policy: its name, its meaning, and what it takes, in the order
//! in which `eddy policy show` prints them.
//!
//! Walked by `read` and `print`; what must agree between keys says `agree`.

mod queue;
mod share;
mod usage;

use super::kind::{Formulas, Length, Name, Names, Number, Or, Truth};
use super::visit::Visit;
use super::{
    Class, FactorRules, NodeRank, PlacementRules, Policy, Preference, PriorityRules, Rung,
    SizeFavour, WaitFrom,
};
use crate::policy::kind::{NameList, Signed};

pub(super) use share::SHARES;

/// All of a policy but the preset it starts from.
pub(super) fn walk(visit: &mut impl Visit, policy: &mut Policy) {
    visit.table(
        "usage",
        "(a) What use costs, and how it is forgotten.",
        |visit| usage::walk(visit, &mut policy.usage),
    );
    visit.table("share", "(b) What each account is due.", |visit| {
        share::walk(visit, &mut policy.share)
    });
    visit.table("priority", "(c) The order of jobs.", |visit| {
        priority(visit, &mut policy.priority)
    });
    visit.table(
        "queue",
        "(d) Who is looked at next, and what becomes of a job that does not fit.",
        |visit| queue::walk(visit, &mut policy.queue),
    );
    visit.table("placement", "(e) Where a job goes.", |visit| {
        placement(visit, &mut policy.placement)
    });
}

fn priority(visit: &mut impl Visit, rules: &mut PriorityRules) {
    visit.key(
        "order",
        "formulas, the highest value first; the next decides where one is level, then the earlier job",
        &Formulas,
        &mut rules.order,
    );
    visit.key(
        "threshold",
        "jobs whose first value is at or below this are not run",
        &Or {
            some: Number::Any,
            none: "none",
        },
        &mut rules.threshold,
    );
    visit.key(
        "refresh",
        "how often the values of waiting jobs are made anew",
        &Length::Longer,
        &mut rules.refresh,
    );
    visit.map(
        "weights",
        "Weights by name; a formula writes the weight `qos` as w_qos. 0 switches a factor off.",
        &Number::NotNegative,
        &mut rules.weights,
    );
    visit.table("factors", "How the factors are made.", |visit| {
        factors(visit, &mut rules.factors)
    });
}

const WAIT_FROM: Names<WaitFrom> = Names(&[
    ("submit", WaitFrom::Submit),
    ("eligible", WaitFrom::Eligible),
]);
const SIZES: Names<SizeFavour> =
    Names(&[("large", SizeFavour::Large), ("small", SizeFavour::Small)]);

fn factors(visit: &mut impl Visit, rules: &mut FactorRules) {
    visit.key(
        "max_wait",
        "the wait that counts as 1; longer ones count no more",
        &Length::Longer,
        &mut rules.max_wait,
    );
    visit.key(
        "wait_from",
        "from when a wait is counted: the submission, or when nothing but resources was missing",
        &WAIT_FROM,
        &mut rules.wait_from,
    );
    visit.key(
        "size",
        "which jobs the factor size favours: nodes over all nodes, or 1 less that",
        &SIZES,
        &mut rules.size,
    );
    visit.key(
        "default_qos",
        "the QoS of jobs that name none",
        &Name,
        &mut rules.default_qos,
    );
    visit.map(
        "qos",
        "The factor qos by name, 0 to 1; a job that names another is refused.",
        &Number::Fraction,
        &mut rules.qos,
    );
    visit.map(
        "queues",
        "Priority of each queue by name, the factor queue; others have 0.",
        &Number::Any,
        &mut rules.queues,
    );
}

const RANKS: Names<NodeRank> = Names(&[
    ("low_id", NodeRank::LowId),
    ("high_id", NodeRank::HighId),
    ("first_fit", NodeRank::FirstFit),
    ("pack", NodeRank::Pack),
    ("spread", NodeRank::Spread),
    ("best_fit", NodeRank::BestFit),
    ("locality", NodeRank::Locality),
]);
const RUNGS: Names<Rung> = Names(&[
    ("free", Rung::Free),
    ("evicted", Rung::Evicted),
    ("urgency", Rung::Urgency),
]);

/// A class of which nothing is said.
pub(super) const CLASS: Class = Class {
    priority: 0,
    fair_share_preemptible: Preference::Off,
    urgency_preemptible: Preference::On,
};

fn placement(visit: &mut impl Visit, rules: &mut PlacementRules) {
    visit.key(
        "rank",
        "which of the nodes that would do is taken",
        &RANKS,
        &mut rules.rank,
    );
    visit.key(
        "default_class",
        "the class of jobs that name none",
        &Name,
        &mut rules.default_class,
    );
    visit.key(
        "ladder",
        "what a job that does not fit may be given, in order: what is free, what evicted jobs had, what lower classes have",
        &NameList(RUNGS),
        &mut rules.ladder,
    );
    visit.tables(
        ("classes", "Classes of jobs by name."),
        ("", &CLASS),
        &mut rules.classes,
        class,
    );
}

fn class(visit: &mut impl Visit, class: &mut Class) {
    visit.key(
        "priority",
        "higher goes first, and may take from lower",
        &Signed,
        &mut class.priority,
    );
    visit.key(
        "fair_share_preemptible",
        "may be evicted for the fair share of others",
        &Truth,
        &mut class.fair_share_preemptible,
    );
    visit.key(
        "urgency_preemptible",
        "may be taken from by a higher class",
        &Truth,
        &mut class.urgency_preemptible,
    );
}
