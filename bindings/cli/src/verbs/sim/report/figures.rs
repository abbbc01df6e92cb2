//! The table of the page: figures by policy, the best of each in bold.
//!
//! Waits are in one unit, that of the shortest mean, so that they can be compared
//! across; the command prints them in seconds.

use std::fmt::Write;

use eddy_sched::sim::Measures;

use super::span;
use crate::verbs::sim::chart::safe;
use crate::verbs::sim::{Origin, Played};

/// A column.
struct Figure {
    title: &'static str,
    amount: Amount,
    better: Better,
    of: fn(&Measures) -> Option<f64>,
}

/// What a figure counts.
#[derive(Clone, Copy, PartialEq)]
enum Amount {
    Wait,
    Length,
    Percent,
    Ratio,
    Count,
    /// A count that nobody made of what happened.
    Made,
}

/// Which figure is the best of a column.
#[derive(Clone, Copy)]
enum Better {
    Less,
    More,
    Neither,
}

const fn figure(
    title: &'static str,
    amount: Amount,
    better: Better,
    of: fn(&Measures) -> Option<f64>,
) -> Figure {
    Figure {
        title,
        amount,
        better,
        of,
    }
}

const FIGURES: [Figure; 13] = [
    figure("mean wait", Amount::Wait, Better::Less, |of| {
        Some(of.mean_wait)
    }),
    figure("median wait", Amount::Wait, Better::Less, |of| {
        Some(of.median_wait)
    }),
    figure("p95 wait", Amount::Wait, Better::Less, |of| {
        Some(of.p95_wait)
    }),
    figure("longest wait", Amount::Wait, Better::Less, |of| {
        Some(of.max_wait)
    }),
    figure("longest of widest 10 %", Amount::Wait, Better::Less, |of| {
        Some(of.widest_tenth_max_wait)
    }),
    figure("mean slow-down", Amount::Ratio, Better::Less, |of| {
        Some(of.mean_bsld)
    }),
    figure("make-span", Amount::Length, Better::Less, |of| {
        Some(of.makespan)
    }),
    figure("used", Amount::Percent, Better::More, |of| {
        Some(of.utilisation)
    }),
    figure("fair", Amount::Percent, Better::More, |of| of.fairness),
    figure("longest queue", Amount::Count, Better::Neither, |of| {
        Some(of.max_queue as f64)
    }),
    figure("passed others", Amount::Made, Better::Neither, |of| {
        Some(of.backfilled as f64)
    }),
    figure("jobs", Amount::Count, Better::Neither, |of| {
        Some(of.jobs as f64)
    }),
    figure("left out", Amount::Count, Better::Neither, |of| {
        Some(of.dropped as f64)
    }),
];

const NOTE: &str = "\
    Bold is the best of a column. Slowdown: (wait + run) / run, where a run of less than 10 s counts as 10 s (bounded \
    slowdown). Used: processor time of processors times makespan. Fair: of the processors that users were due while \
    they wanted them, by max-min fairness and their shares, the part that they had. Passed others: jobs that started \
    while one before them in the queue went on waiting. Left out: jobs that never started, or that the trace does not \
    know enough of.";

/// The table with what its words mean.
pub fn table(played: &[Played]) -> String {
    let mut columns: Vec<Column> = FIGURES.iter().map(|one| one.column(played)).collect();
    // Nobody looks for a column in which nobody has anything.
    columns.retain(|column| column.cells.iter().any(|cell| cell.text != "-"));
    let mut html = "<h2>Figures</h2>\n<div class=\"wide\" tabindex=\"0\"><table>\n\
                    <thead><tr><th scope=\"col\">policy</th>"
        .to_owned();
    for column in &columns {
        let _ = write!(html, "<th scope=\"col\">{}</th>", column.title);
    }
    html += "</tr></thead><tbody>\n";
    for (row, one) in played.iter().enumerate() {
        let _ = write!(html, "<tr><th scope=\"row\">{}</th>", safe(&one.name));
        for cell in columns.iter().map(|column| &column.cells[row]) {
            let _ = write!(html, "<td{}>{}</td>", cell.class, cell.text);
        }
        html += "</tr>\n";
    }
    let _ = write!(html, "</tbody></table></div>\n<p>{NOTE}</p>\n");
    html
}

/// A column that is laid out.
struct Column {
    title: String,
    cells: Vec<Cell>,
}

struct Cell {
    text: String,
    class: &'static str,
}

impl Figure {
    fn column(&self, played: &[Played]) -> Column {
        let (unit, name) = self.unit(played);
        let value = |one: &Played| match (self.amount, one.origin) {
            (Amount::Made, Origin::Recorded) => None,
            _ => (self.of)(&one.figures),
        };
        let text = |value: f64| match self.amount {
            Amount::Count | Amount::Made => format!("{value:.0}"),
            Amount::Percent => format!("{:.1}", value * 100.0),
            Amount::Wait | Amount::Length if unit == 1.0 => format!("{value:.1}"),
            Amount::Wait | Amount::Length | Amount::Ratio => format!("{:.2}", value / unit),
        };
        let known = played.iter().filter_map(value);
        let best = match self.better {
            Better::Less => known.min_by(f64::total_cmp),
            Better::More => known.max_by(f64::total_cmp),
            Better::Neither => None,
        };
        let best = best.map(text);
        let texts = played.iter().map(|one| value(one).map(text));
        let texts: Vec<Option<String>> = texts.collect();
        // Where all are alike none is best.
        let differ = texts.iter().any(|text| *text != best);
        let cells = texts.into_iter().map(|text| Cell {
            class: match differ && text.is_some() && text == best {
                true => " class=\"best\"",
                false => "",
            },
            text: text.unwrap_or_else(|| "-".to_owned()),
        });
        Column {
            title: match name {
                "" => self.title.to_owned(),
                name => format!("{}, {name}", self.title),
            },
            cells: cells.collect(),
        }
    }

    /// What the figures of the column are divided by, and its name.
    fn unit(&self, played: &[Played]) -> (f64, &'static str) {
        let least = |of: fn(&Measures) -> f64| {
            let figures = played.iter().map(|one| of(&one.figures));
            figures.min_by(f64::total_cmp).unwrap_or(0.0)
        };
        match self.amount {
            Amount::Wait => span::unit(least(|of| of.mean_wait), 1.0),
            Amount::Length => span::unit(least(|of| of.makespan), 2.0),
            Amount::Percent => (1.0, "%"),
            Amount::Ratio | Amount::Count | Amount::Made => (1.0, ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use eddy_sched::sim::{Course, Machine, read_json};

    use super::*;

    fn played(name: &str, origin: Origin, [wait, longest]: [f64; 2]) -> Played {
        let text = r#"{"procs": 1, "jobs": [{"id": 1, "submit": 0, "run": 1, "procs": 1}]}"#;
        let workload = read_json(text.as_bytes()).expect("a workload");
        let course = Course::default();
        let figures = Measures::new(&workload, &Machine::count(1), &course);
        Played {
            name: name.to_owned(),
            origin,
            course,
            figures: Measures {
                mean_wait: wait,
                max_wait: longest,
                ..figures
            },
        }
    }

    #[test]
    fn waits_are_in_one_unit_and_the_best_of_a_column_is_bold() {
        let played = [
            played("recorded", Origin::Recorded, [5400.0, 10_800.0]),
            played("<mine>", Origin::Replayed, [9000.0, 7200.0]),
        ];
        let html = table(&played);
        for part in [
            "<th scope=\"col\">mean wait, h</th>",
            "<td class=\"best\">1.50</td>",
            "<td>3.00</td>",
            "<th scope=\"row\">&lt;mine&gt;</th><td>2.50</td>",
            "<td class=\"best\">2.00</td>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        // Nobody has users, all have the same makespan, and who passed whom was not recorded.
        assert!(!html.contains("fair, %"));
        assert_eq!(html.matches("class=\"best\"").count(), 2);
        assert_eq!(html.matches("<td>-</td>").count(), 1);
    }
}
