//! Who was where: a Gantt of each policy over the same window of time.
//!
//! The window is around the longest queue of the first policy, since there policies
//! differ most.

use std::collections::BTreeMap;
use std::fmt::Write;

use eddy_sched::sim::{Bar, Machine, Scene, Series, SimJob, Window, bars, bases, last_end};
use eddy_wire::time::{Span, Time};

use super::{key, patch, span};
use crate::verbs::sim::Played;
use crate::verbs::sim::chart::{Axis, COLOURS, Chart, Scale, beside, safe};

/// Jobs of the first policy at most, and of each.
const BARS: usize = 300;
const DRAWN: usize = 2 * BARS;
/// Nodes whose names fit beside a Gantt.
const NAMED: usize = 24;
/// Steps in which the longest queue is looked for.
const LOOKS: i64 = 2000;

/// All Gantts.
pub fn section(scene: Scene<'_>, played: &[Played]) -> String {
    let (Some(first), Some(origin)) = (
        played.first(),
        scene.workload.jobs.iter().map(|job| job.submit).min(),
    ) else {
        return String::new();
    };
    let window = busiest(scene, first, origin);
    let drawn = played
        .iter()
        .map(|one| bars(scene.workload, scene.machine, &one.course, window, DRAWN));
    let drawn: Vec<Vec<Bar>> = drawn.collect();
    let colours = Colours::new(scene, &drawn);
    let mut html = format!(
        "<h2>Who was where</h2><p>{} around the longest queue of {}, from {} after the first submission. {} Numbers are \
         jobs; point at one for more. {}</p>{}",
        span::said(window.until - window.from),
        safe(&first.name),
        span::said(window.from - origin),
        colours.said(),
        match scene.machine.nodes().is_empty() {
            true => "Processors are counted: those shown are the lowest that were free.",
            false => "Cores of a node are the lowest that were free.",
        },
        colours.key(scene)
    );
    for (one, bars) in played.iter().zip(&drawn) {
        let _ = write!(html, "<h3>{}</h3>", safe(&one.name));
        // Another policy may start more jobs in the window than the first.
        if bars.len() == DRAWN {
            let _ = write!(html, "<p>The first {DRAWN} jobs are drawn.</p>");
        }
        let about = format!("which job was where under {}", one.name);
        html += &chart(scene, bars, &colours, window).svg(&about);
    }
    html
}

/// Around the longest queue.
fn busiest(scene: Scene<'_>, first: &Played, origin: Time) -> Window {
    let until = last_end(scene.workload, &first.course);
    let step = Span((until - origin).0 / LOOKS + 1);
    let series = Series::new(scene.workload, &first.course, until, step);
    let longest = (0..series.queue.len()).max_by(|a, b| {
        let (a, b) = (*a, *b);
        series.queue[a].total_cmp(&series.queue[b]).then(b.cmp(&a))
    });
    let at = Time(origin.0 + step.0 * longest.unwrap_or(0) as i64 + step.0 / 2);
    Window::around(scene.workload, &first.course, at, BARS)
}

fn chart(scene: Scene<'_>, bars: &[Bar], colours: &Colours, window: Window) -> Chart {
    let length = span::seconds(window.until - window.from);
    let x = span::axis("the window begins", length);
    let mut chart = Chart::new(x, places(scene.machine), 400.0);
    let inside = |time: Time| span::seconds(time.max(window.from).min(window.until) - window.from);
    for bar in bars {
        let job = &scene.workload.jobs[bar.place];
        let user = scene.workload.owners[job.owner as usize].name();
        let text = format!(
            "job {}, user {user}: {} processors for {}, waited {}",
            job.id,
            job.procs,
            span::said(bar.end - bar.start),
            span::said(bar.start - job.submit)
        );
        let class = colours.class(job);
        let (left, right) = (inside(bar.start), inside(bar.end));
        for &(from, until) in &bar.procs {
            let (low, high) = ((left, from as f64), (right, until as f64));
            chart.area(low, high, &class, &text);
            chart.label(low, high, &job.id.to_string());
        }
    }
    if named(scene.machine) {
        let bases = bases(scene.machine);
        bases.iter().for_each(|base| chart.level(*base as f64));
    }
    chart
}

fn named(machine: &Machine) -> bool {
    (1..=NAMED).contains(&machine.nodes().len())
}

/// The axis of nodes, or of what is counted.
fn places(machine: &Machine) -> Axis {
    let all = machine.procs() as f64;
    if named(machine) {
        let bases = bases(machine);
        let middle = |at: usize| (bases[at] + bases[at + 1]) as f64 / 2.0;
        let ticks = machine.nodes().iter().enumerate();
        let ticks = ticks.map(|(at, node)| (middle(at), beside(&node.host)));
        return Axis::even("node", (0.0, all), ticks.collect());
    }
    let what = match machine.nodes().is_empty() {
        true => "processor",
        false => "core",
    };
    let mut axis = Axis::from_zero(what, all);
    axis.scale = Scale::Even(0.0, all);
    axis.ticks.retain(|(at, _)| *at <= all);
    axis
}

/// The colours of jobs.
enum Colours {
    /// Of one user: its jobs are told apart.
    ByJob,
    /// Users with a colour of their own, those first who use most of what is drawn.
    ByUser(Vec<u32>),
}

impl Colours {
    fn new(scene: Scene<'_>, drawn: &[Vec<Bar>]) -> Colours {
        if scene.workload.owners.len() < 2 {
            return Colours::ByJob;
        }
        let mut used: BTreeMap<u32, f64> = BTreeMap::new();
        for bar in drawn.iter().flatten() {
            let job = &scene.workload.jobs[bar.place];
            *used.entry(job.owner).or_default() += span::seconds(job.runs()) * job.procs as f64;
        }
        let mut owners: Vec<(u32, f64)> = used.into_iter().collect();
        owners.sort_by(|a, b| b.1.total_cmp(&a.1));
        owners.truncate(COLOURS);
        Colours::ByUser(owners.into_iter().map(|(owner, _)| owner).collect())
    }

    fn class(&self, job: &SimJob) -> String {
        let colour = match self {
            Colours::ByJob => Some((job.id % COLOURS as u64) as usize),
            Colours::ByUser(owners) => owners.iter().position(|owner| *owner == job.owner),
        };
        colour.map_or("rest".to_owned(), |colour| format!("f{colour}"))
    }

    fn said(&self) -> &'static str {
        match self {
            Colours::ByJob => "Colours only tell jobs apart.",
            Colours::ByUser(_) => "Colours are users.",
        }
    }

    fn key(&self, scene: Scene<'_>) -> String {
        let Colours::ByUser(owners) = self else {
            return String::new();
        };
        let users = owners.iter();
        let users = users.map(|owner| scene.workload.owners[*owner as usize].name());
        let users: Vec<String> = users.collect();
        let named = users.iter().enumerate();
        let named = named.map(|(at, user)| (patch(&format!("f{at}")), user.as_str()));
        let all = scene.workload.owners.len() == users.len();
        let rest = (!all).then(|| (patch("rest"), "all others"));
        key(named.chain(rest))
    }
}
