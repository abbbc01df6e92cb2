//! The page of `eddy sim --report`: inputs, a table and charts in one file of HTML.
//!
//! Nothing is fetched and nothing runs: style and pictures are in the text. A policy
//! has one colour in all charts over policies. The page is put together here; `span`
//! says times, `figures` is the table, `curves`, `shares` and `gantt` are the charts.

mod span;

mod figures;

mod curves;

mod shares;

mod gantt;

use std::fmt::Write;

use eddy_sched::policy::PRESETS;
use eddy_sched::sim::Scene;

use super::chart::{COLOURS, safe, stroke};
use super::{Args, Order, Played, RECORDED};

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1d2430;--dim:#5b6675;--grid:#e3e7ec;--paper:#fff;--band:#f4f6f8}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1040px;margin:2em auto;padding:0 1em;print-color-adjust:exact}
h1{font-size:1.5em;margin:0 0 .4em;overflow-wrap:anywhere}h2{font-size:1.15em;margin:2.2em 0 .2em}h3{font-size:1em;margin:.8em 0 0}p{color:var(--dim);margin:.2em 0 .6em}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1em 1.2em;margin:0}dt{color:var(--dim)}dd{grid-column:2;margin:0;overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums;width:100%}
th,td{padding:.45em .55em;text-align:right;white-space:nowrap}thead th{color:var(--dim);font-weight:600;white-space:normal;vertical-align:bottom;line-height:1.25}
th:first-child{text-align:left}tbody tr:nth-child(odd){background:var(--band)}td.best{font-weight:700}tbody th{font-weight:400}
svg{width:100%;min-width:800px;height:auto;display:block}svg text{fill:var(--dim);font-size:11px}svg text.t{fill:var(--ink);font-size:12px}svg text.in{fill:var(--paper);pointer-events:none}
.g{stroke:var(--grid);stroke-width:1}.l{fill:none;stroke-width:1.6;stroke-linejoin:round}.dash{stroke-dasharray:5 3}.under{fill-opacity:.25}
.key span{display:inline-block;margin-right:1.2em;color:var(--ink)}.key svg{display:inline-block;width:1.6em;min-width:0;height:.8em;margin-right:.4em}
rect{stroke:var(--paper);stroke-width:.4}.due{fill:var(--dim);fill-opacity:.45}.rest{fill:var(--dim)}
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
pub fn page(trace: &str, args: &Args, scene: Scene<'_>, played: &[Played]) -> String {
    let name = trace.trim_end_matches('/').rsplit('/').next();
    let title = safe(&format!("eddy sim: {}", name.unwrap_or(trace)));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\"><title>{title}</title>\n\
         <style>\n{STYLE}{}</style></head><body>\n<h1>{title}</h1>\n",
        colours()
    );
    page += &inputs(trace, args, scene, played);
    page += &figures::table(played);
    page += &match played.iter().any(|one| one.figures.jobs > 0) {
        true => charts(scene, played),
        false => "<p>No job ran, so there is nothing to draw.</p>\n".to_owned(),
    };
    page + "</body></html>\n"
}

fn charts(scene: Scene<'_>, played: &[Played]) -> String {
    let charts = [
        curves::used,
        curves::queue,
        curves::waits,
        shares::compared,
        gantt::section,
    ];
    charts.map(|chart| chart(scene, played)).concat()
}

fn colours() -> String {
    let classes = |of: fn(&(&'static str, &'static str)) -> &'static str| {
        let colours = PALETTE.iter().map(of).enumerate();
        let classes = colours
            .map(|(at, colour)| format!(".c{at}{{stroke:{colour}}}.f{at}{{fill:{colour}}}\n"));
        classes.collect::<String>()
    };
    format!(
        "{}@media (prefers-color-scheme:dark){{\n\
         :root{{--ink:#e6e9ee;--dim:#9aa5b4;--grid:#2b323c;--paper:#14181e;--band:#1b2129}}\n{}}}\n",
        classes(|(light, _)| light),
        classes(|(_, dark)| dark)
    )
}

/// What was replayed, on what and how: all that is needed to do it again.
fn inputs(trace: &str, args: &Args, scene: Scene<'_>, played: &[Played]) -> String {
    let workload = scene.workload;
    let counted = |count: usize, one: &str| match count {
        1 => format!("1 {one}"),
        more => format!("{more} {one}s"),
    };
    let submitted = workload.jobs.iter().map(|job| job.submit);
    let first = submitted.clone().min().unwrap_or_default();
    let came = submitted.max().unwrap_or_default() - first;
    let jobs = format!(
        "{} of {}, submitted within {}",
        counted(workload.jobs.len(), "job"),
        counted(workload.owners.len(), "user"),
        span::said(came)
    );
    let from = args.resources.as_ref();
    let from = from.map_or(String::new(), |file| format!(", {file}"));
    let machine = match scene.machine.nodes().len() {
        0 => format!("{} processors", scene.machine.procs()),
        nodes => {
            let nodes = counted(nodes, "node");
            format!("{} cores on {nodes}{from}", scene.machine.procs())
        }
    };
    let shares = match (&args.shares, workload.shares.is_empty()) {
        (Some(file), _) => file.clone(),
        (None, false) => "those of the workload".to_owned(),
        (None, true) => "one for each".to_owned(),
    };
    let planned = match args.clairvoyant {
        true => "by the times that jobs will run (--clairvoyant)",
        false => "by the times that jobs ask for",
    };
    let passes = match args.order {
        Order::Batch => "one for all that happens at an instant",
        Order::PerEvent => "one for each event (--order per-event)",
    };
    let mut html = "<dl>\n".to_owned();
    let mut line = |term: &str, said: &str| {
        let _ = writeln!(html, "<dt>{term}</dt><dd>{}</dd>", safe(said));
    };
    line("Trace", trace);
    line("Jobs", &jobs);
    line("Machine", &machine);
    line("Shares", &shares);
    line("Planned", planned);
    line("Passes", passes);
    line("Made by", concat!("eddy ", env!("CARGO_PKG_VERSION")));
    html += "<dt>Policies</dt>";
    for one in played {
        let _ = writeln!(html, "<dd>{}</dd>", safe(&what(&one.name)));
    }
    html + "</dl>\n"
}

/// What a policy does, where it has a name.
fn what(name: &str) -> String {
    let preset = PRESETS.iter().find(|preset| preset.name == name);
    match preset {
        Some(preset) => format!("{name}: {}", preset.what),
        None if name == RECORDED => format!("{name}: what happened"),
        None => name.to_owned(),
    }
}

/// Which line is which policy.
fn lines(played: &[Played]) -> String {
    let names = played.iter().enumerate();
    let names = names.map(|(at, one)| {
        let class = stroke(at);
        let drawn = format!("<path class=\"{class}\" d=\"M0 4H16\" stroke-width=\"3\"/>");
        (drawn, &*one.name)
    });
    key(names)
}

/// A box of a key.
fn patch(class: &str) -> String {
    format!("<rect class=\"{class}\" x=\"4\" width=\"8\" height=\"8\"/>")
}

/// What is drawn how.
fn key<'n>(names: impl Iterator<Item = (String, &'n str)>) -> String {
    let mut html = "<p class=\"key\">".to_owned();
    for (drawn, name) in names {
        let _ = write!(
            html,
            "<span><svg viewBox=\"0 0 16 8\" aria-hidden=\"true\">{drawn}</svg>{}</span>",
            safe(name)
        );
    }
    html + "</p>\n"
}
