//! The keys of part (d): source, walk, and limits.

use std::collections::BTreeMap;

use crate::policy::kind::{Bucket, Depth, Length, Names, Number, Or, Whole};
use crate::policy::visit::Visit;
use crate::policy::{
    Evict, FillOrder, Limits, QueueRules, Remainder, Reservations, SliceBasis, Source, Walk,
};

/// The variants of [`Source`] without what is in them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Global,
    PerAccountCost,
    PerAccountSlices,
    ByQueue,
}

const SOURCES: Names<From> = Names(&[
    ("global", From::Global),
    ("per_account_cost", From::PerAccountCost),
    ("per_account_slices", From::PerAccountSlices),
    ("by_queue", From::ByQueue),
]);
const BASES: Names<SliceBasis> = Names(&[
    ("offered", SliceBasis::Offered),
    ("total_minus_used", SliceBasis::TotalMinusUsed),
]);
const REMAINDERS: Names<Remainder> = Names(&[
    ("random", Remainder::Random),
    ("largest_remainder", Remainder::Largest),
]);

/// The variants of [`Walk`] without what is in them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Stop,
    Skip,
    Reserve,
}

const WALKS: Names<Step> = Names(&[
    ("stop", Step::Stop),
    ("skip", Step::Skip),
    ("reserve", Step::Reserve),
]);
const FILLS: Names<FillOrder> = Names(&[
    ("queue", FillOrder::Queue),
    ("shortest", FillOrder::Shortest),
]);
const RESERVATIONS: Names<Reservations> = Names(&[
    ("kept", Reservations::Kept),
    ("replanned", Reservations::Replanned),
]);
const EVICTS: Names<Evict> = Names(&[
    ("nothing", Evict::Nothing),
    ("fair_share", Evict::FairShare),
]);

const OF_SLICES: &[(&str, &str)] = &[
    ("slice_basis", "source = \"per_account_slices\""),
    ("remainder", "source = \"per_account_slices\""),
];
const OF_RESERVE: &[(&str, &str)] = &[("depth", "walk = \"reserve\"")];

/// A length of time that may be without end.
const ENDLESS: Or<Length> = Or {
    some: Length::Longer,
    none: "inf",
};
const EACH_PASS: Or<Length> = Or {
    some: Length::Longer,
    none: "pass",
};
const RATE: Or<Bucket> = Or {
    some: Bucket,
    none: "none",
};

pub(super) fn walk(visit: &mut impl Visit, rules: &mut QueueRules) {
    source(visit, &mut rules.source);
    blocked(visit, &mut rules.walk);
    visit.key(
        "fill_order",
        "who fills gaps first: in the order of jobs, or the shortest time asked for",
        &FILLS,
        &mut rules.fill_order,
    );
    visit.key(
        "reservations",
        "kept: only moved earlier; replanned: planned anew",
        &RESERVATIONS,
        &mut rules.reservations,
    );
    visit.key(
        "replan_every",
        "how often all is planned anew; between, who is first is moved earlier, and whoever can starts",
        &EACH_PASS,
        &mut rules.replan_every,
    );
    times(visit, rules);
    visit.key(
        "evict",
        "running jobs put back at the beginning of a pass: those of accounts over their protected fraction",
        &EVICTS,
        &mut rules.evict,
    );
    visit.table("limits", "How much may be started.", |visit| {
        limits(visit, &mut rules.limits)
    });
}

fn times(visit: &mut impl Visit, rules: &mut QueueRules) {
    visit.key(
        "lookback",
        "jobs tried in a pass, per account where the source is per account",
        &LOOKBACK,
        &mut rules.lookback,
    );
    visit.key(
        "reserve_after",
        "after this wait a job is given a reservation whatever the order",
        &ENDLESS,
        &mut rules.reserve_after,
    );
    visit.key(
        "displace_margin",
        "how much better, as a fraction of its priority, a later job must be to move a kept reservation",
        &Number::NotNegative,
        &mut rules.displace_margin,
    );
    visit.key(
        "default_limit",
        "the time limit assumed of jobs that give none",
        &ENDLESS,
        &mut rules.default_limit,
    );
    visit.key(
        "window",
        "how far ahead is planned",
        &ENDLESS,
        &mut rules.window,
    );
}

const LOOKBACK: Or<Whole> = Or {
    some: Whole {
        least: 1,
        most: 1_000_000_000,
    },
    none: "all",
};

fn source(visit: &mut impl Visit, source: &mut Source) {
    let before = match source {
        Source::Global => From::Global,
        Source::PerAccountCost => From::PerAccountCost,
        Source::PerAccountSlices { .. } => From::PerAccountSlices,
        Source::ByQueue => From::ByQueue,
    };
    let mut now = before;
    visit.key(
        "source",
        "whose job is next: the first of all, that of the account whose cost would be least, by slices of the accounts, or of the highest queue",
        &SOURCES,
        &mut now,
    );
    if now != before {
        *source = match now {
            From::Global => Source::Global,
            From::PerAccountCost => Source::PerAccountCost,
            From::PerAccountSlices => Source::PerAccountSlices {
                basis: SliceBasis::TotalMinusUsed,
                remainder: Remainder::Random,
            },
            From::ByQueue => Source::ByQueue,
        };
    }
    match source {
        Source::Global | Source::PerAccountCost | Source::ByQueue => {}
        Source::PerAccountSlices { basis, remainder } => {
            visit.key(
                "slice_basis",
                "what slices are cut from: what is free, or everything less what the account has",
                &BASES,
                basis,
            );
            visit.key(
                "remainder",
                "how the rest is given: by a draw with the seed of the state, or the largest first",
                &REMAINDERS,
                remainder,
            );
        }
    }
    visit.foreign(OF_SLICES, &format!("source = {:?}", SOURCES.name(now)));
}

fn blocked(visit: &mut impl Visit, walk: &mut Walk) {
    let before = match walk {
        Walk::Stop => Step::Stop,
        Walk::Skip => Step::Skip,
        Walk::Reserve { .. } => Step::Reserve,
    };
    let mut now = before;
    visit.key(
        "walk",
        "at a job that does not fit now: stop lets nobody pass, skip keeps nothing for it, reserve keeps what it needs",
        &WALKS,
        &mut now,
    );
    if now != before {
        *walk = match now {
            Step::Stop => Walk::Stop,
            Step::Skip => Walk::Skip,
            Step::Reserve => Walk::Reserve { depth: 1 },
        };
    }
    match walk {
        Walk::Stop | Walk::Skip => {}
        Walk::Reserve { depth } => visit.key(
            "depth",
            "how many such jobs have a reservation: 1 is EASY, \"all\" conservative",
            &Depth,
            depth,
        ),
    }
    visit.foreign(OF_RESERVE, &format!("walk = {:?}", WALKS.name(now)));
}

fn limits(visit: &mut impl Visit, limits: &mut Limits) {
    visit.key(
        "rate",
        "jobs started in a second, by all; burst is the most saved up",
        &RATE,
        &mut limits.rate,
    );
    visit.key(
        "account_rate",
        "the same by each account",
        &RATE,
        &mut limits.account_rate,
    );
    visit.key(
        "preempt_rate",
        "jobs preempted in a second for fair share",
        &RATE,
        &mut limits.preempt_rate,
    );
    visit.map(
        "pass_fraction",
        "Fraction of the whole started in one pass, by resource; looked at before each start.",
        &Number::Fraction,
        &mut limits.pass_fraction,
    );
    visit.tables(
        (
            "account_fraction",
            "Fraction of the whole that an account may hold, by class and resource.",
        ),
        ("", &BTreeMap::new()),
        &mut limits.account_fraction,
        |visit, class| visit.entries(&Number::Fraction, class),
    );
}
