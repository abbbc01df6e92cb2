//! Spans and axes of time, in the units that people use.
//!
//! Used by all parts of the page.

use eddy_wire::time::{MICROS, Span};

use crate::verbs::sim::chart::{Axis, number, round_step};

const DAY: f64 = 86_400.0;

/// The units of a page, the longest first: seconds, short, long.
const UNITS: [(f64, &str, &str); 4] = [
    (DAY, "d", "days"),
    (3600.0, "h", "hours"),
    (60.0, "min", "minutes"),
    (1.0, "s", "seconds"),
];

/// Steps that people count in, up to a day.
const ROUND: [f64; 18] = [
    1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0,
    10_800.0, 21_600.0, 43_200.0, DAY,
];

/// In seconds.
pub fn seconds(span: Span) -> f64 {
    span.0 as f64 / MICROS as f64
}

/// A round number of seconds, at least so many.
pub fn round(least: f64) -> f64 {
    let step = ROUND.into_iter().find(|step| *step >= least);
    step.unwrap_or_else(|| round_step(least / DAY) * DAY)
}

/// The longest unit of which there are so many, seconds at least; with its short name.
pub fn unit(seconds: f64, many: f64) -> (f64, &'static str) {
    let (unit, short, _) = fits(seconds, many);
    (unit, short)
}

fn fits(seconds: f64, many: f64) -> (f64, &'static str, &'static str) {
    let [.., shortest] = UNITS;
    let mut units = UNITS.into_iter();
    units
        .find(|(unit, ..)| seconds >= many * unit)
        .unwrap_or(shortest)
}

/// A span in the longest unit of which there are two.
pub fn said(span: Span) -> String {
    let seconds = seconds(span);
    let (unit, name) = unit(seconds, 2.0);
    // Tenths of a second interest nobody, nor those of 20 days.
    match seconds / unit {
        many if unit == 1.0 || many >= 20.0 || many.fract() == 0.0 => format!("{many:.0} {name}"),
        few => format!("{few:.1} {name}"),
    }
}

/// An axis of time that is so long; `since` says what it counts from.
pub fn axis(since: &str, length: f64) -> Axis {
    let (unit, _, name) = fits(length, 3.0);
    let step = round(length / 9.0);
    let ticks = (0..10).map(|at| f64::from(at) * step);
    let ticks = ticks.take_while(|tick| *tick <= length);
    let ticks = ticks.map(|tick| (tick, number(tick / unit)));
    let title = match since {
        "" => String::new(),
        since => format!("time since {since} ({name})"),
    };
    Axis::even(title, (0.0, length), ticks.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_and_spans_are_such_as_people_count_in() {
        assert_eq!(round(0.3), 1.0);
        assert_eq!(round(61.0), 120.0);
        assert_eq!(round(61_000.0), DAY);
        assert_eq!(round(3.0 * DAY), 5.0 * DAY);
        assert_eq!(said(Span::seconds(0)), "0 s");
        assert_eq!(said(Span::seconds(119)), "119 s");
        assert_eq!(said(Span::seconds(5400)), "90 min");
        assert_eq!(said(Span::seconds(137_520)), "38 h");
        assert_eq!(said(Span::seconds(216_000)), "2.5 d");
    }

    #[test]
    fn an_axis_is_in_the_unit_of_its_length() {
        let ticks = |length| -> Vec<String> {
            let axis = axis("then", length);
            axis.ticks.into_iter().map(|(_, said)| said).collect()
        };
        assert_eq!(
            ticks(131.0),
            ["0", "15", "30", "45", "60", "75", "90", "105", "120"]
        );
        assert_eq!(
            ticks(4.5 * DAY),
            ["0", "0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5"]
        );
        assert_eq!(
            ticks(340.0 * DAY),
            ["0", "50", "100", "150", "200", "250", "300"]
        );
        assert_eq!(axis("then", 340.0 * DAY).title, "time since then (days)");
        assert_eq!(axis("then", 0.5).ticks.len(), 1);
    }
}
