//! The page of `eddy sim --report`: a table and charts in one file of HTML.
//!
//! Nothing is fetched and nothing runs: style and pictures are in the text. All
//! policies share a chart where they can be laid over each other, in one colour
//! each; a Gantt is drawn for each.

use std::fmt::Write;

use eddy_sched::sim::{Fairness, Scene, Series, Window, bars, bases, last_end};
use eddy_wire::time::{MICROS, Span, Time};

use super::chart::{Axis, COLOURS, Chart, Scale, round_step, safe};
use super::{COLUMNS, Played, cells};

/// Steps of a chart over time: about two for each dot of a page.
const STEPS: usize = 480;
/// Jobs of a Gantt at most.
const BARS: usize = 300;
/// Users of a chart at most.
const USERS: usize = 24;
/// Nodes whose names fit beside a Gantt.
const NAMED: usize = 24;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2430;--dim:#5b6675;--grid:#e3e7ec;--paper:#fff;--band:#f4f6f8}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1040px;margin:2em auto;padding:0 1em}
h1{font-size:1.5em;margin-bottom:0}h2{font-size:1.1em;margin:2em 0 .2em}p{color:var(--dim);margin:.2em 0 .6em}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:12px;font-variant-numeric:tabular-nums;width:100%}
th,td{padding:.4em .3em;text-align:right;white-space:nowrap}th{color:var(--dim);font-weight:600;white-space:normal;vertical-align:bottom}
th:first-child,td:first-child{text-align:left}tbody tr:nth-child(odd){background:var(--band)}
svg{width:100%;height:auto;display:block}svg text{fill:var(--dim);font-size:11px}svg text.t{fill:var(--ink);font-size:12px}
.g{stroke:var(--grid);stroke-width:1}.l{fill:none;stroke-width:1.6;stroke-linejoin:round}
.key span{display:inline-block;margin-right:1.2em;color:var(--ink)}.key i{display:inline-block;width:.9em;height:.9em;border-radius:2px;margin-right:.4em;vertical-align:-.1em}
rect{stroke:var(--paper);stroke-width:.4}rect.due{fill:var(--dim);fill-opacity:.45}
";

/// Light and dark of each colour; told apart by those who see fewer colours too.
const PALETTE: [(&str, &str); COLOURS] = [
    ("#0b62c4", "#5ea9ff"),
    ("#c85a00", "#ffa04d"),
    ("#00815f", "#3fcf9f"),
    ("#a3307f", "#f08acb"),
    ("#6a4fc0", "#ab97ff"),
    ("#8a6d00", "#dcc04a"),
    ("#007c91", "#4fc9de"),
    ("#b3261e", "#ff8a80"),
];

/// The page.
pub fn page(trace: &str, scene: Scene<'_>, played: &[Played]) -> String {
    let name = trace.rsplit('/').next().unwrap_or(trace);
    let title = safe(&format!("eddy sim: {name}"));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
         <style>\n{STYLE}{}</style></head><body>\n<h1>{title}</h1>\n",
        colours()
    );
    page += &summary(scene);
    page += &table(played);
    page += &over_time(scene, played);
    page += &waits(scene, played);
    page += &shares(scene, played);
    page += &gantts(scene, played);
    page + "</body></html>\n"
}

fn colours() -> String {
    let mut style = String::new();
    for (at, (light, _)) in PALETTE.iter().enumerate() {
        let _ = writeln!(
            style,
            ".c{at}{{stroke:{light}}}.f{at}{{fill:{light};background:{light}}}"
        );
    }
    style += "@media (prefers-color-scheme:dark){\n\
              :root{--ink:#e6e9ee;--dim:#9aa5b4;--grid:#2b323c;--paper:#14181e;--band:#1b2129}\n";
    for (at, (_, dark)) in PALETTE.iter().enumerate() {
        let _ = writeln!(
            style,
            ".c{at}{{stroke:{dark}}}.f{at}{{fill:{dark};background:{dark}}}"
        );
    }
    style + "}\n"
}

fn summary(scene: Scene<'_>) -> String {
    let (jobs, users) = (scene.workload.jobs.len(), scene.workload.owners.len());
    let machine = match scene.machine.nodes().len() {
        0 => format!("{} processors", scene.machine.procs()),
        nodes => format!("{} cores on {nodes} nodes", scene.machine.procs()),
    };
    let users = if users == 1 { "user" } else { "users" }.to_owned() + &format!(": {users}");
    format!("<p>{jobs} jobs, {machine}, {users}. Times in the table are in seconds.</p>\n")
}

fn table(played: &[Played]) -> String {
    let mut html = "<div class=\"wide\"><table><thead><tr><th>POLICY</th>".to_owned();
    for column in COLUMNS {
        let _ = write!(html, "<th>{column}</th>");
    }
    html += "</tr></thead><tbody>\n";
    for one in played {
        let _ = write!(html, "<tr><td>{}</td>", safe(&one.name));
        for cell in cells(one) {
            let _ = write!(html, "<td>{cell}</td>");
        }
        html += "</tr>\n";
    }
    html + "</tbody></table></div>\n<p>BSLD: bounded slowdown, a run of less than 10 s counts as 10 s. \
            FAIR: of the processors that users were due while they wanted them, by max-min fairness and \
            their shares, the part that they had.</p>\n"
}

/// Which colour is which policy.
fn key(played: &[Played]) -> String {
    let mut html = "<p class=\"key\">".to_owned();
    for (at, one) in played.iter().enumerate() {
        let (colour, name) = (at % COLOURS, safe(&one.name));
        let _ = write!(html, "<span><i class=\"f{colour}\"></i>{name}</span>");
    }
    html + "</p>\n"
}

fn over_time(scene: Scene<'_>, played: &[Played]) -> String {
    let ends = played
        .iter()
        .map(|one| last_end(scene.workload, &one.course));
    let until = ends.max().unwrap_or_default();
    let series = played
        .iter()
        .map(|one| Series::new(scene.workload, &one.course, until, STEPS));
    let series: Vec<Series> = series.collect();
    let Some(first) = series.first() else {
        return String::new();
    };
    let all = scene.machine.procs() as f64;
    let queues = series.iter().flat_map(|one| one.queue.iter().copied());
    let longest = queues.fold(0.0, f64::max);
    let axis = || {
        let length = Span(first.step.0.saturating_mul(first.used.len() as i64));
        times(first.from, first.from, first.from.after(length))
    };
    let percent = Axis::even(
        "processors in use (%)",
        (0.0, 104.0),
        [0.0, 25.0, 50.0, 75.0, 100.0]
            .map(|at| (at, at.to_string()))
            .to_vec(),
    );
    let mut used = Chart::new(axis(), percent, 260.0);
    let mut queue = Chart::new(axis(), Axis::from_zero("jobs waiting", longest), 260.0);
    for (colour, one) in series.iter().enumerate() {
        let points = |values: &[f64], times: f64| -> Vec<(f64, f64)> {
            let at = |step: usize| seconds(one.step) * step as f64;
            let points = values.iter().enumerate();
            points
                .map(|(step, value)| (at(step), value * times))
                .collect()
        };
        used.steps(&points(&one.used, 100.0 / all), colour);
        queue.steps(&points(&one.queue, 1.0), colour);
    }
    let step = said(first.step);
    format!(
        "<h2>Utilisation over time</h2><p>Mean of each {step}.</p>{}{}\
         <h2>Queue length over time</h2><p>Jobs that wait, mean of each {step}.</p>{}{}",
        key(played),
        used.svg("processors in use over time"),
        key(played),
        queue.svg("jobs waiting over time"),
    )
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

fn waits(scene: Scene<'_>, played: &[Played]) -> String {
    let of = |one: &Played| {
        let jobs = scene.workload.jobs.iter().zip(&one.course.starts);
        let mut waits: Vec<f64> = jobs
            .filter_map(|(job, start)| Some(seconds((*start)? - job.submit)))
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
    let percent = [0.0, 25.0, 50.0, 75.0, 100.0].map(|at| (at, at.to_string()));
    let y = Axis::even(
        "jobs that waited no longer (%)",
        (0.0, 104.0),
        percent.to_vec(),
    );
    let mut chart = Chart::new(x, y, 280.0);
    for (colour, waits) in waits.iter().enumerate() {
        let points = (0..=STEPS).map(|step| {
            let wait = most.powf(step as f64 / STEPS as f64);
            let shorter = waits.partition_point(|one| *one <= wait);
            (wait, 100.0 * shorter as f64 / waits.len().max(1) as f64)
        });
        chart.line(&points.collect::<Vec<_>>(), colour);
    }
    format!(
        "<h2>Waits</h2><p>What part of the jobs waited no longer than that; higher is better.</p>{}{}",
        key(played),
        chart.svg("distribution of waits")
    )
}

fn shares(scene: Scene<'_>, played: &[Played]) -> String {
    if scene.workload.owners.len() < 2 {
        return String::new();
    }
    let fair = played
        .iter()
        .map(|one| Fairness::new(scene.workload, scene.machine, &one.course));
    let fair: Vec<Fairness> = fair.collect();
    let Some(first) = fair.first() else {
        return String::new();
    };
    let mut owners: Vec<usize> = (0..first.owners.len()).collect();
    owners.sort_by(|a, b| first.owners[*b].used.total_cmp(&first.owners[*a].used));
    owners.truncate(USERS);
    let parts = |one: &Fairness, owner: usize| {
        let sum: f64 = one.owners.iter().map(|owner| owner.due).sum();
        let standing = &one.owners[owner];
        let part = |amount: f64| 100.0 * amount / sum.max(1e-9);
        (part(standing.due), part(standing.due - standing.short))
    };
    let all = fair
        .iter()
        .flat_map(|one| owners.iter().map(|&owner| parts(one, owner).0));
    let most = all.fold(0.0, f64::max);
    let ticks = owners.iter().enumerate().map(|(at, &owner)| {
        let user = &scene.workload.owners[owner].user;
        let name: String = user.chars().take(8).collect();
        (at as f64 + 0.5, name)
    });
    let x = Axis::even(
        "user, the heaviest first",
        (0.0, owners.len() as f64),
        ticks.collect(),
    );
    let mut chart = Chart::new(x, Axis::from_zero("of all that was due (%)", most), 280.0);
    let width = 0.8 / fair.len() as f64;
    for (at, &owner) in owners.iter().enumerate() {
        let user = &scene.workload.owners[owner].user;
        for (policy, (one, fair)) in played.iter().zip(&fair).enumerate() {
            let (due, had) = parts(fair, owner);
            let left = at as f64 + 0.1 + width * policy as f64;
            let (name, right) = (&one.name, left + width);
            let text = format!("user {user}, {name}: due {due:.2} %, had {had:.2} % while due");
            chart.area((left, 0.0), (right, due), "due", &text);
            let class = format!("f{}", policy % COLOURS);
            chart.area((left, 0.0), (right, had), &class, &text);
        }
    }
    format!(
        "<h2>Share against usage per user</h2><p>Grey with colour: what a user was due by its shares \
         while it wanted it; colour: what it had of that. Usage of what others left over is not in it.</p>{}{}",
        key(played),
        chart.svg("share against usage per user")
    )
}

fn gantts(scene: Scene<'_>, played: &[Played]) -> String {
    let Some(first) = played.first() else {
        return String::new();
    };
    let until = last_end(scene.workload, &first.course);
    let series = Series::new(scene.workload, &first.course, until, STEPS * 4);
    let busiest = (0..series.queue.len()).max_by(|a, b| {
        let (a, b) = (*a, *b);
        series.queue[a].total_cmp(&series.queue[b]).then(b.cmp(&a))
    });
    let step = busiest.unwrap_or(0) as i64;
    let at = Time(series.from.0 + series.step.0 * step + series.step.0 / 2);
    let window = Window::around(scene.workload, &first.course, at, BARS);
    let mut html = format!(
        "<h2>Who was where</h2><p>{} around the longest queue of {}. One colour for each user, colours come \
         again; point at a job for more. {}</p>",
        said(window.until - window.from),
        safe(&first.name),
        match scene.machine.nodes().is_empty() {
            true => "Processors are counted: those shown are the lowest that were free.",
            false => "Cores of a node are the lowest that were free.",
        }
    );
    for one in played {
        let _ = write!(
            html,
            "<p><b>{}</b></p>{}",
            safe(&one.name),
            gantt(scene, one, window, series.from)
        );
    }
    html
}

fn gantt(scene: Scene<'_>, one: &Played, window: Window, origin: Time) -> String {
    let machine = scene.machine;
    let all = machine.procs() as f64;
    let bases = bases(machine);
    let named = (1..=NAMED).contains(&machine.nodes().len());
    let y = match named {
        true => {
            let middle = |at: usize| (bases[at] + bases[at + 1]) as f64 / 2.0;
            let ticks = machine.nodes().iter().enumerate();
            let ticks = ticks.map(|(at, node)| (middle(at), node.host.chars().take(8).collect()));
            Axis::even("node", (0.0, all), ticks.collect())
        }
        false => {
            let what = if machine.nodes().is_empty() {
                "processor"
            } else {
                "core"
            };
            let mut y = Axis::from_zero(what, all);
            y.scale = Scale::Even(0.0, all);
            y.ticks.retain(|(at, _)| *at <= all);
            y
        }
    };
    let mut chart = Chart::new(times(origin, window.from, window.until), y, 380.0);
    let inside = |time: Time| seconds(time.max(window.from).min(window.until) - origin);
    // Another policy may have more in the same window: those that started first are drawn.
    for bar in bars(scene.workload, machine, &one.course, window, BARS * 2) {
        let job = &scene.workload.jobs[bar.place];
        let user = &scene.workload.owners[job.owner as usize].user;
        let text = format!(
            "job {}, user {user}: {} processors for {}, waited {}",
            job.id,
            job.procs,
            said(bar.end - bar.start),
            said(bar.start - job.submit)
        );
        let class = format!("f{}", job.owner as usize % COLOURS);
        for (from, until) in bar.procs {
            let (left, right) = (inside(bar.start), inside(bar.end));
            chart.area((left, from as f64), (right, until as f64), &class, &text);
        }
    }
    if named {
        bases.iter().for_each(|base| chart.level(*base as f64));
    }
    chart.svg(&format!("which job was where under {}", one.name))
}

/// An axis of time since the first submission, in the unit that fits.
fn times(origin: Time, from: Time, until: Time) -> Axis {
    let (first, last) = (seconds(from - origin), seconds(until - origin));
    let units = [
        (86_400.0, "days"),
        (3600.0, "hours"),
        (60.0, "minutes"),
        (1.0, "seconds"),
    ];
    let fits = |(unit, _): &(f64, &str)| last - first >= 3.0 * unit;
    let (unit, name) = units.into_iter().find(fits).unwrap_or((1.0, "seconds"));
    let step = round_step((last - first) / unit / 9.0);
    let start = (first / unit / step).ceil();
    let ticks = (0..12).map(|at| (start + f64::from(at)) * step);
    let ticks = ticks.take_while(|tick| tick * unit <= last);
    Axis::even(
        format!("time since the first submission ({name})"),
        (first, last),
        ticks
            .map(|tick| (tick * unit, super::chart::number(tick)))
            .collect(),
    )
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / MICROS as f64
}

/// A span in the largest unit of which there are two.
fn said(span: Span) -> String {
    let seconds = seconds(span);
    let units = [(86_400.0, "days"), (3600.0, "h"), (60.0, "min")];
    match units.into_iter().find(|(unit, _)| seconds >= 2.0 * unit) {
        Some((unit, name)) => format!("{:.1} {name}", seconds / unit),
        None => format!("{seconds:.0} s"),
    }
}
