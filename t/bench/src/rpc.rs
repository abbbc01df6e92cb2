//! How long a request takes to a rank and back: from a client of the leader, over no link, one, two
//! and three.

use anyhow::Context as _;
use serde_json::Value;

use crate::Setup;
use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Entry, alternate, quantile};

/// With two ranks under each, these are 0, 1, 2 and 3 links from the leader.
const RANKS: [(&str, &str, &str); 4] = [
    ("0", "no link: the leader answers", "<= 60 us"),
    ("1", "one link", "<= 200 us"),
    ("3", "two links", ""),
    ("7", "three links", "<= 500 us"),
];

/// The median round trip of each, in alternating rounds.
///
/// # Errors
/// A rank does not answer.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let instance = Instance::start(
        setup,
        &["--size", "8", "--cores", "1", "-S", "tree.fanout=2"],
    )?;
    let count = setup.count(500).to_string();
    let entries = RANKS
        .iter()
        .map(|(rank, name, _)| Entry::new(name, "us", || ping(&instance, rank, &count)))
        .collect();
    let mut report = Report::default();
    for (series, (_, _, budget)) in alternate(setup.rounds(5), entries)?.iter().zip(RANKS) {
        match budget {
            "" => report.add(series),
            budget => report.add_budgeted(series, budget),
        }
    }
    report.note("each figure is the median of one command's round trips");
    Ok(report)
}

/// The median round trip of `count` pings, in microseconds.
///
/// # Errors
/// The rank does not answer.
pub fn ping(instance: &Instance, rank: &str, count: &str) -> anyhow::Result<f64> {
    let text = instance.output(&["ping", rank, "--count", count, "--interval", "0", "--json"])?;
    let mut took = Vec::new();
    for pong in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        let pong = pong.context("eddy ping --json")?;
        took.push(pong["seconds"].as_f64().context("no `seconds` in a pong")? * 1e6);
    }
    Ok(quantile(&took, 0.5))
}
