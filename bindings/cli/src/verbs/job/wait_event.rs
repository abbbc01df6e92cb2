//! `eddy job wait-event`: wait until something has happened to a job.

use std::time::Duration;

use anyhow::{Context, bail};
use eddy_client::EventFeed;
use eddy_wire::services::job::EventsLine;

use super::eventlog::{Form, Stamp, show};
use crate::number::{ANY, number};
use crate::request::json_or_text;
use crate::session::{Global, span};
use crate::{ids, output};

/// What can happen to a job (doc/protocol/events.md), its life first.
const EVENTS: [&str; 32] = [
    "submit",
    "validate",
    "dependency-add",
    "dependency-remove",
    "depend",
    "priority",
    "urgency",
    "order",
    "jobspec-update",
    "alloc",
    "start",
    "finish",
    "release",
    "free",
    "clean",
    "exception",
    "requeue",
    "waited",
    "memo",
    "suspend",
    "resume",
    "preempted",
    "shrink",
    "grant-changed",
    "passed",
    "recalled",
    "adopt",
    "id-block",
    "prolog-start",
    "prolog-finish",
    "epilog-start",
    "epilog-finish",
];

/// The name of an event: one that nothing is called would be waited for until the job is over.
pub fn event(text: &str) -> Result<String, String> {
    match EVENTS.contains(&text) {
        true => Ok(text.to_owned()),
        false => Err(format!("allowed are {}", EVENTS.join(" "))),
    }
}

/// Wait until an event has happened to a job, and print it
///
/// Events: submit validate depend priority alloc start finish release free clean exception
/// requeue and others (doc/protocol/events.md); a name that no event has is refused. Exit code 1 if
/// the job is over and it did not happen, or the time is over.
#[derive(clap::Args)]
pub struct Args {
    /// Wait no longer than this
    #[arg(short = 't', long, value_name = "FSD", value_parser = span)]
    timeout: Option<Duration>,
    /// Only with this value in its context
    #[arg(short = 'm', long, value_name = "KEY=VALUE")]
    match_context: Option<String>,
    /// Only when it has happened so often
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1, value_parser = number(ANY))]
    count: u32,
    /// Print nothing
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Print all events until then
    #[arg(short = 'v', long)]
    verbose: bool,
    /// json or text
    #[arg(short = 'f', long, value_name = "FORM", default_value = "text")]
    format: Form,
    /// The job; of an instance 905/f5
    #[arg(value_name = "ID")]
    id: String,
    /// The event
    #[arg(value_name = "NAME", value_parser = event)]
    name: String,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&[&args.id])?;
    let job = ids::single(ids)?;
    let wanted = match &args.match_context {
        Some(text) => Some(
            text.split_once('=')
                .with_context(|| format!("-m {text}: has no `=`"))?,
        ),
        None => None,
    };
    global.session_again(async |client| {
        let mut feed = EventFeed::following(&client, job)?;
        let found = find(&mut feed, args, wanted);
        let Some(limit) = args.timeout else {
            return found.await;
        };
        match tokio::time::timeout(limit, found).await {
            Ok(result) => result,
            Err(_) => bail!("event {} did not happen within {limit:?}", args.name),
        }
    })
}

async fn find(
    feed: &mut EventFeed,
    args: &Args,
    wanted: Option<(&str, &str)>,
) -> anyhow::Result<u8> {
    let mut left = args.count.max(1);
    let mut begin = None;
    while let Some(lines) = feed.next().await? {
        for line in &lines {
            let begin = *begin.get_or_insert(line.timestamp);
            let hit = line.name == args.name && has(line, wanted);
            left -= u32::from(hit);
            if !args.quiet && (args.verbose || hit && left == 0) {
                output::lines([show(line, args.format, Stamp::Raw, begin)])?;
            }
            if left == 0 {
                return Ok(0);
            }
        }
    }
    bail!("the job is over and event {} did not happen", args.name)
}

/// Whether the context has this value, as JSON or as text.
fn has(line: &EventsLine, wanted: Option<(&str, &str)>) -> bool {
    let Some((key, value)) = wanted else {
        return true;
    };
    let context = line.context.as_ref().map_or("null", |raw| raw.get());
    let context: serde_json::Value = serde_json::from_str(context).unwrap_or_default();
    match &context[key] {
        serde_json::Value::Null => false,
        serde_json::Value::String(text) => text == value,
        other => *other == json_or_text(value),
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::event::{EVENT_VERSION, EventError, Kind};

    use super::*;

    #[test]
    fn only_what_can_happen_is_waited_for() {
        let is_known = |name: &str| {
            let decoded = Kind::decode(name, EVENT_VERSION, "", &mut |_, _| None);
            !matches!(decoded, Err(EventError::Name(_)))
        };
        for name in EVENTS {
            assert!(is_known(name), "{name}");
            assert_eq!(event(name), Ok(name.to_owned()));
        }
        assert!(!is_known("strat"));
        let refused = event("strat").expect_err("no event");
        assert!(
            refused.starts_with("allowed are submit validate "),
            "{refused}"
        );
    }

    #[test]
    fn every_event_of_the_life_of_a_job_can_be_waited_for() {
        let page = include_str!("../../../../../doc/protocol/events.md");
        let (_, life) = page.split_once("## A job's life").expect("a chapter");
        let rows = life.lines().filter(|line| line.starts_with("| `"));
        let names: Vec<&str> = rows
            .filter_map(|row| row.split('|').nth(1))
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .collect();
        assert!(names.len() > 15, "{names:?}");
        for name in names {
            assert!(EVENTS.contains(&name), "{name}");
        }
    }
}
