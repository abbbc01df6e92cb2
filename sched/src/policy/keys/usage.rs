//! The keys of part (a): charge and decay.

use eddy_wire::time::Span;

use crate::policy::kind::{Length, Names, Number, Whole};
use crate::policy::visit::Visit;
use crate::policy::{Calendar, Charge, ChargedTime, Decay, UsageRules};

const CHARGES: Names<Charge> = Names(&[
    ("sum", Charge::Sum),
    ("max_of_node", Charge::MaxOfNode),
    ("scarcity", Charge::Scarcity),
]);
const TIMES: Names<ChargedTime> = Names(&[
    ("elapsed", ChargedTime::Elapsed),
    ("requested", ChargedTime::Requested),
]);
const CALENDARS: Names<Calendar> = Names(&[
    ("daily", Calendar::Daily),
    ("weekly", Calendar::Weekly),
    ("monthly", Calendar::Monthly),
    ("quarterly", Calendar::Quarterly),
    ("yearly", Calendar::Yearly),
]);

/// The variants of [`Decay`] without what is in them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    None,
    Exponential,
    TowardCurrent,
    Step,
    Bins,
    Reset,
}

const FORMS: Names<Form> = Names(&[
    ("none", Form::None),
    ("exponential", Form::Exponential),
    ("toward_current", Form::TowardCurrent),
    ("step", Form::Step),
    ("bins", Form::Bins),
    ("reset", Form::Reset),
]);

/// Each key of a variant with the variants it is of.
const KEYS: &[(&str, &str)] = &[
    ("half", "form = \"exponential\" or \"toward_current\""),
    ("interval", "form = \"step\""),
    ("factor", "form = \"step\" or \"bins\""),
    ("floor", "form = \"step\""),
    ("count", "form = \"bins\""),
    ("period", "form = \"bins\""),
    ("at", "form = \"reset\""),
];

pub(super) fn walk(visit: &mut impl Visit, rules: &mut UsageRules) {
    visit.key(
        "charge",
        "how the weighted amounts of a run become one number",
        &CHARGES,
        &mut rules.charge,
    );
    visit.key(
        "time",
        "which time of a run is charged",
        &TIMES,
        &mut rules.time,
    );
    visit.key(
        "minimum",
        "a run is charged for at least this long",
        &Length::FromZero,
        &mut rules.minimum,
    );
    visit.map(
        "weights",
        "Weight of each resource per unit (core, GPU, GiB) and second; others cost nothing.",
        &Number::NotNegative,
        &mut rules.weights,
    );
    visit.map(
        "factors",
        "Factor of each queue or QoS by name; 0 exempts, others have 1.",
        &Number::NotNegative,
        &mut rules.factors,
    );
    visit.map(
        "qos_factors",
        "Factor of each QoS by name, where it is not that of the queue of the same name; 0 exempts, others have theirs of factors.",
        &Number::NotNegative,
        &mut rules.qos_factors,
    );
    visit.table("decay", "How usage is forgotten.", |visit| {
        decay(visit, &mut rules.decay)
    });
}

fn decay(visit: &mut impl Visit, decay: &mut Decay) {
    let before = form(decay);
    let mut now = before;
    visit.key(
        "form",
        "none keeps it; exponential halves it, toward_current moves it to what is used now, step cuts it at intervals, bins weigh by age, reset ends it by the calendar",
        &FORMS,
        &mut now,
    );
    if now != before {
        *decay = fresh(now);
    }
    match decay {
        Decay::None => {}
        Decay::Exponential { half } => visit.key(
            "half",
            "usage halves in this time; to keep it until a reset is form = \"reset\"",
            &Length::Longer,
            half,
        ),
        Decay::TowardCurrent { half } => visit.key(
            "half",
            "half the way to what is used now in this time; \"0s\" has no memory",
            &Length::FromZero,
            half,
        ),
        Decay::Step {
            interval,
            factor,
            floor,
        } => {
            visit.key(
                "interval",
                "at each multiple of this since 1970",
                &Length::Longer,
                interval,
            );
            visit.key(
                "factor",
                "usage is multiplied by this",
                &Number::Fraction,
                factor,
            );
            visit.key("floor", "and is never less", &Number::NotNegative, floor);
        }
        Decay::Bins {
            count,
            period,
            factor,
        } => {
            visit.key("count", "how many periods are kept", &BINS, count);
            visit.key("period", "length of each", &Length::Longer, period);
            visit.key(
                "factor",
                "weight of a period against the next newer one",
                &Number::Fraction,
                factor,
            );
        }
        Decay::Reset(at) => visit.key(
            "at",
            "midnight UTC of the first day of each",
            &CALENDARS,
            at,
        ),
    }
    visit.foreign(KEYS, &format!("form = {:?}", FORMS.name(now)));
}

/// Older ones weigh nothing at any factor worth having.
const BINS: Whole = Whole {
    least: 1,
    most: 10_000,
};

fn form(decay: &Decay) -> Form {
    match decay {
        Decay::None => Form::None,
        Decay::Exponential { .. } => Form::Exponential,
        Decay::TowardCurrent { .. } => Form::TowardCurrent,
        Decay::Step { .. } => Form::Step,
        Decay::Bins { .. } => Form::Bins,
        Decay::Reset(_) => Form::Reset,
    }
}

/// What a variant has that the preset did not have: the values of the system it comes from.
fn fresh(form: Form) -> Decay {
    let week = Span::seconds(7 * 86_400);
    match form {
        Form::None => Decay::None,
        Form::Exponential => Decay::Exponential { half: week },
        Form::TowardCurrent => Decay::TowardCurrent {
            half: Span::seconds(20 * 60),
        },
        Form::Step => Decay::Step {
            interval: Span::seconds(86_400),
            factor: 0.5,
            floor: 1.0,
        },
        Form::Bins => Decay::Bins {
            count: 4,
            period: week,
            factor: 0.5,
        },
        Form::Reset => Decay::Reset(Calendar::Monthly),
    }
}
