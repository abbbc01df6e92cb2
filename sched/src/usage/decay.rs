//! How usage fades: exact, so that one long step and many short ones agree.
//!
//! Each form is a function of (amount, what is in use, from, to). Steps, bins and
//! resets are anchored at 1970, so it does not matter when they are asked either.
//! It keeps nothing.

use eddy_wire::time::{MICROS, Span, Time};

use crate::policy::{Calendar, Decay};

const DAY: i64 = 86_400 * MICROS;

/// What is left of an amount after `elapsed`: `amount * 0.5^(elapsed / half)`. A half-life of 0 or
/// less does not decay; time that runs backwards changes nothing.
pub fn halved(amount: f64, elapsed: Span, half: Span) -> f64 {
    amount * kept(elapsed, half)
}

fn kept(elapsed: Span, half: Span) -> f64 {
    match half.0 > 0 && elapsed.0 > 0 {
        true => 0.5_f64.powf(elapsed.0 as f64 / half.0 as f64),
        false => 1.0,
    }
}

/// An amount that has moved toward what is in use, half the way in each half-life (Armada's
/// decayed priority, HTCondor): `b * amount + (1 - b) * using` with `b = 0.5^(elapsed / half)`. A
/// half-life of 0 has no memory; time that runs backwards changes nothing.
pub fn toward(amount: f64, using: f64, elapsed: Span, half: Span) -> f64 {
    match (elapsed.0 > 0, half.0 > 0) {
        (false, _) => amount,
        (true, false) => using,
        (true, true) => using + (amount - using) * kept(elapsed, half),
    }
}

/// An amount as it is read, and as it goes into [`toward`], where there is a floor (HTCondor 0.5).
pub fn floored(amount: f64, floor: f64) -> f64 {
    amount.max(floor)
}

/// What Slurm's decay leaves, which is no exact halving: `(1 - 0.693 / half)^elapsed` in seconds.
/// Only to compare figures with that system; nothing here decays by it.
pub fn per_second_approximation(amount: f64, elapsed: Span, half: Span) -> f64 {
    let in_seconds = |span: Span| span.0 as f64 / MICROS as f64;
    amount * (1.0 - 0.693 / in_seconds(half)).powf(in_seconds(elapsed))
}

/// The amount at `to` of what was `amount` at `from`, while `rate` units were added in each second
/// (for [`Decay::TowardCurrent`]: while `rate` was in use). Bins are the business of
/// [`super::Standing`]; here they only add.
pub fn faded(decay: &Decay, amount: f64, rate: f64, from: Time, to: Time) -> f64 {
    let elapsed = to - from;
    if elapsed.0 <= 0 {
        return amount;
    }
    let added = |span: Span| rate * (span.0 as f64 / MICROS as f64);
    match decay {
        Decay::None | Decay::Bins { .. } => amount + added(elapsed),
        Decay::TowardCurrent { half } => toward(amount, rate, elapsed, *half),
        Decay::Exponential { half } if half.0 <= 0 => amount + added(elapsed),
        Decay::Exponential { half } => {
            // The integral of what is added, each instant of it fading since.
            let part = kept(elapsed, *half);
            let lifetime = half.0 as f64 / MICROS as f64 / std::f64::consts::LN_2;
            amount * part + rate * lifetime * (1.0 - part)
        }
        Decay::Step {
            interval,
            factor,
            floor,
        } => stepped(amount, rate, from, to, *interval, *factor, *floor),
        Decay::Reset(calendar) => match last_reset(*calendar, to) {
            reset if reset > from => added(to - reset),
            _ => amount + added(elapsed),
        },
    }
}

/// How many multiples of `interval` since 1970 lie after `from` and not after `to`.
pub(super) fn boundaries(from: Time, to: Time, interval: Span) -> i64 {
    match interval.0 > 0 {
        true => to.0.div_euclid(interval.0) - from.0.div_euclid(interval.0),
        false => 0,
    }
}

/// Between boundaries it grows, at each it becomes `max(floor, factor * amount)`. Over n whole
/// intervals that map has a closed form, since it is monotone: the greater of the unfloored
/// iterate from the amount, the one from the floor, and the floor.
fn stepped(
    amount: f64,
    rate: f64,
    from: Time,
    to: Time,
    interval: Span,
    factor: f64,
    floor: f64,
) -> f64 {
    let in_seconds = |micros: i64| micros as f64 / MICROS as f64;
    let steps = boundaries(from, to, interval);
    if steps <= 0 {
        return amount + rate * in_seconds((to - from).0);
    }
    let first = interval.0 - from.0.rem_euclid(interval.0);
    let last = to.0.rem_euclid(interval.0);
    let at_first = (factor * (amount + rate * in_seconds(first))).max(floor);
    let whole = (steps - 1) as f64;
    let power = factor.powf(whole);
    let sum = match (1.0 - factor).abs() < f64::EPSILON {
        true => whole,
        false => factor * (1.0 - power) / (1.0 - factor),
    };
    let iterate = |start: f64| power * start + rate * in_seconds(interval.0) * sum;
    let at_last = match steps {
        1 => at_first,
        _ => iterate(at_first).max(iterate(floor)).max(floor),
    };
    at_last + rate * in_seconds(last)
}

/// The last midnight UTC at or before `at` at which usage is forgotten.
fn last_reset(calendar: Calendar, at: Time) -> Time {
    let day = at.0.div_euclid(DAY);
    let start = match calendar {
        Calendar::Daily => day,
        // 1970-01-01 was a Thursday, four days after a Sunday.
        Calendar::Weekly => day - (day + 4).rem_euclid(7),
        Calendar::Monthly => first_of(day, 1),
        Calendar::Quarterly => first_of(day, 3),
        Calendar::Yearly => first_of(day, 12),
    };
    Time(start.saturating_mul(DAY))
}

/// The first day of the group of so many months that the day is in; days since 1970.
///
/// Years are counted from March, so that the leap day is the last of its year and the month
/// lengths are a straight line (the usual calendar algorithm).
fn first_of(day: i64, months: i64) -> i64 {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    // Months since January of year 0, then back to the first of the group.
    let month = (era * 400 + year) * 12 + from_march + 2;
    let first = month - month.rem_euclid(months);
    let (year, from_march) = ((first - 2).div_euclid(12), (first - 2).rem_euclid(12));
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * from_march + 2) / 5;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}
