//! How long one person waits for one job on an idle instance: whole commands as they are typed, and the
//! time between the events `submit` and `start` in the job's own eventlog.

use anyhow::Context as _;
use serde_json::Value;

use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate, quantile};
use crate::{Setup, disk, spawn};

/// Commands, events, and the spawn and the sync that nobody can save, in alternating rounds.
///
/// # Errors
/// The instance does not start, or a job fails.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let instance = Instance::start(setup, &["--cores", "2"])?;
    // The first job starts the shell, which is not what is measured.
    instance.run(&["run", "true"])?;
    let submit = || Ok(instance.run(&["submit", "true"])?.wall * 1e3);
    let run = || Ok(instance.run(&["run", "true"])?.wall * 1e3);
    let events = || {
        let id = instance.output(&["submit", "--wait", "true"])?;
        let log = instance.output(&["job", "eventlog", "--json", id.trim()])?;
        Ok(between(&log, "submit", "start")? * 1e3)
    };
    let entries = vec![
        Entry::new("eddy run true", "ms", run),
        Entry::new("eddy submit true", "ms", submit),
        Entry::new("submit to started, by its events", "ms", events),
        Entry::new("one bare spawn", "ms", || Ok(1e3 / spawn::rate(1, 1)?)),
        Entry::new("one fdatasync", "ms", || {
            Ok(quantile(&disk::syncs(setup, 1)?, 0.5))
        }),
    ];
    let series = alternate(setup.rounds(setup.count(50)), entries)?;
    let [run, submit, events, spawn, sync] = series.as_slice() else {
        anyhow::bail!("five series were asked for, {} came", series.len());
    };
    let least = spawn.summary().median + sync.summary().median;
    let figures = events.figures.iter().map(|took| took - least).collect();
    let beyond = Series {
        name: "the same, beyond spawn and fdatasync".to_owned(),
        unit: "ms",
        figures,
    };
    let mut report = Report::default();
    for series in [run, submit, events, spawn, sync] {
        report.add(series);
    }
    report.add_budgeted(&beyond, "<= 5 ms, goal <= 2 ms");
    Ok(report)
}

/// Seconds from the first event of one name to the first of another. Reads one object in a line, or
/// one array.
///
/// # Errors
/// There is no such event, or it is no log.
pub fn between(log: &str, from: &str, to: &str) -> anyhow::Result<f64> {
    let events: Vec<Value> = match log.trim_start().starts_with('[') {
        true => serde_json::from_str(log)?,
        false => log
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?,
    };
    let time = |name: &str| {
        let event = events.iter().find(|event| event["name"] == name);
        event
            .and_then(|event| event["timestamp"].as_f64())
            .with_context(|| format!("no event `{name}` in {log}"))
    };
    Ok(time(to)? - time(from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_eventlog_is_read_as_lines_or_as_one_array() {
        let lines =
            "{\"timestamp\":1.5,\"name\":\"submit\"}\n{\"timestamp\":1.75,\"name\":\"start\"}\n";
        assert_eq!(between(lines, "submit", "start").unwrap(), 0.25);
        let array = format!("[{}]", lines.trim().replace('\n', ","));
        assert_eq!(between(&array, "submit", "start").unwrap(), 0.25);
        assert!(between(lines, "submit", "finish").is_err());
    }
}
