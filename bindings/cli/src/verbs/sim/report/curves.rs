//! Charts that are lines: use of the machine and queue over time, and waits.
//!
//! Use swings too much to lie in one picture, so each policy has its own, one above
//! the other; the others are laid over each other.

use std::fmt::Write;

use eddy_sched::sim::{Scene, Series, last_end};
use eddy_wire::time::{MICROS, Span, Time};

use super::{lines, span};
use crate::verbs::sim::Played;
use crate::verbs::sim::chart::{Axis, Chart, Scale, safe};

/// Steps of a chart at most: one for two dots of a page.
const STEPS: usize = 480;

/// How much higher one queue is than another where they need a logarithmic axis.
const SPREAD: f64 = 8.0;

/// Processors in use over time.
pub fn used(scene: Scene<'_>, played: &[Played]) -> String {
    let over = Over::new(scene, played);
    let all = scene.machine.procs() as f64;
    let mut html = format!(
        "<h2>Utilisation over time</h2><p>Processors in use, mean of each {}.</p>\n",
        over.step()
    );
    for (colour, (one, series)) in played.iter().zip(&over.series).enumerate() {
        let last = colour + 1 == played.len();
        // One time for all, below the last.
        let (since, height) = if last { (SINCE, 124.0) } else { ("", 104.0) };
        let mut chart = Chart::new(over.axis(since), Axis::percent("in use (%)"), height);
        chart.filled(&points(series, &series.used, 100.0 / all), colour);
        let (name, mean) = (safe(&one.name), one.figures.utilisation * 100.0);
        let about = format!("processors in use over time under {}", one.name);
        let _ = write!(html, "<h3>{name}: {mean:.1} %</h3>{}", chart.svg(&about));
    }
    html
}

/// Jobs that wait over time.
pub fn queue(scene: Scene<'_>, played: &[Played]) -> String {
    let over = Over::new(scene, played);
    let highest = over.series.iter().map(|one| highest(&one.queue));
    let axis = jobs_waiting(&highest.collect::<Vec<f64>>());
    let said = match axis.scale {
        Scale::Even(..) => "",
        Scale::Log(..) => " Logarithmic; less than one is at the bottom.",
    };
    let mut chart = Chart::new(over.axis(SINCE), axis, 280.0);
    for (colour, one) in over.series.iter().enumerate() {
        chart.steps(&points(one, &one.queue, 1.0), colour);
    }
    format!(
        "<h2>Queue length over time</h2><p>Jobs that wait, mean of each {}.{said}</p>{}{}",
        over.step(),
        lines(played),
        chart.svg("jobs waiting over time")
    )
}

/// The axis of queues of which these are the longest.
fn jobs_waiting(longest: &[f64]) -> Axis {
    let most = highest(longest);
    let least = longest.iter().copied().fold(most, f64::min);
    match most > least.max(1.0) * SPREAD {
        true => Axis::by_tens("jobs waiting", most),
        false => Axis::from_zero("jobs waiting", most),
    }
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

const SINCE: &str = "the first submission";

/// All policies over the same steps of time.
struct Over {
    series: Vec<Series>,
    step: Span,
    length: f64,
}

impl Over {
    fn new(scene: Scene<'_>, played: &[Played]) -> Over {
        let ends = played
            .iter()
            .map(|one| last_end(scene.workload, &one.course));
        let until = ends.max().unwrap_or_default();
        let first = scene.workload.jobs.iter().map(|job| job.submit).min();
        let length = span::seconds(until - first.unwrap_or(until));
        let step = Span((span::round(length / STEPS as f64) * MICROS as f64) as i64);
        let series = |one: &Played| Series::new(scene.workload, &one.course, until, step);
        Over {
            series: played.iter().map(series).collect(),
            step,
            length,
        }
    }

    fn axis(&self, since: &str) -> Axis {
        span::axis(since, self.length)
    }

    fn step(&self) -> String {
        span::said(self.step)
    }
}

fn points(series: &Series, values: &[f64], times: f64) -> Vec<(f64, f64)> {
    let at = |step: usize| span::seconds(series.step) * step as f64;
    let points = values.iter().enumerate();
    points
        .map(|(step, value)| (at(step), value * times))
        .collect()
}

/// Marks that people know: seconds, name.
const SPANS: [(f64, &str); 9] = [
    (1.0, "1 s"),
    (10.0, "10 s"),
    (60.0, "1 min"),
    (600.0, "10 min"),
    (3600.0, "1 h"),
    (21_600.0, "6 h"),
    (86_400.0, "1 d"),
    (604_800.0, "7 d"),
    (2_592_000.0, "30 d"),
];

/// How many jobs waited how long.
pub fn waits(scene: Scene<'_>, played: &[Played]) -> String {
    let of = |one: &Played| {
        let jobs = scene.workload.jobs.iter().zip(&one.course.starts);
        let wait = |submit: Time, start: Time| span::seconds(start - submit);
        let mut waits: Vec<f64> = jobs
            .filter_map(|(job, start)| Some(wait(job.submit, (*start)?)))
            .collect();
        waits.sort_by(f64::total_cmp);
        waits
    };
    let waits: Vec<Vec<f64>> = played.iter().map(of).collect();
    let longest = waits.iter().filter_map(|waits| waits.last().copied());
    let most = longest.fold(60.0, f64::max) * 1.1;
    let ticks = SPANS.iter().filter(|(at, _)| *at <= most);
    let x = Axis {
        title: "wait (logarithmic; less than 1 s is at the left edge)".to_owned(),
        scale: Scale::Log(1.0, most),
        ticks: ticks.map(|(at, name)| (*at, (*name).to_owned())).collect(),
    };
    let mut chart = Chart::new(x, Axis::percent("jobs that waited no longer (%)"), 280.0);
    for (colour, waits) in waits.iter().enumerate() {
        let points = (0..=STEPS).map(|step| {
            let wait = most.powf(step as f64 / STEPS as f64);
            let shorter = waits.partition_point(|one| *one <= wait);
            (wait, 100.0 * shorter as f64 / waits.len().max(1) as f64)
        });
        chart.steps(&points.collect::<Vec<_>>(), colour);
    }
    format!(
        "<h2>Waits</h2><p>What part of the jobs waited no longer than that; higher is better.</p>{}{}",
        lines(played),
        chart.svg("distribution of waits")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_of_very_different_lengths_are_all_to_be_seen() {
        let scale = |longest: &[f64]| jobs_waiting(longest).scale;
        assert!(matches!(scale(&[1002.0, 121.0]), Scale::Log(..)));
        assert!(matches!(scale(&[802.0, 543.0]), Scale::Even(..)));
        // Against an empty queue everything is long.
        assert!(matches!(scale(&[5.0, 0.0]), Scale::Even(..)));
        assert!(matches!(scale(&[]), Scale::Even(..)));
    }
}
