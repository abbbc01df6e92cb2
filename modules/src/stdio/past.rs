//! Where the output of a job that is over is, by its event log.
//!
//! Part of stdio, which has let such a job go and asks the journal. It reads nothing itself.

use eddy_wire::event::Pass;
use eddy_wire::grant::Grant;
use eddy_wire::id::Attempt;
use eddy_wire::services::job::EventsLine;

use super::{Whereabouts, hosts};

/// Where an attempt of a finished job was, from its event log.
pub(super) fn whereabouts<'a>(
    lines: impl Iterator<Item = &'a EventsLine>,
    wanted: Option<Attempt>,
) -> Option<Whereabouts> {
    let mut attempt = Attempt(1);
    let mut found = None;
    let mut to = None;
    for line in lines {
        let context = line.context.as_ref().map_or("", |raw| raw.get());
        match line.name.as_str() {
            "alloc" if wanted.is_none_or(|wanted| wanted == attempt) => {
                let grant: Grant = serde_json::from_str(context).ok()?;
                let nodes = hosts(&grant.set);
                let to = to.take();
                found = Some(Whereabouts { attempt, nodes, to });
            }
            "passed" => to = passed_to(context),
            "submit" => attempt = passed_as(context).unwrap_or(attempt),
            "requeue" => attempt = attempt.next(),
            _ => {}
        }
    }
    found
}

/// Which attempt a job that was passed down is here, by its submission.
fn passed_as(submit: &str) -> Option<Attempt> {
    #[derive(serde::Deserialize)]
    struct Passed {
        pass: Pass,
    }
    let passed: Passed = serde_json::from_str(submit).ok()?;
    Some(passed.pass.attempt)
}

/// The instance that a job was passed to.
fn passed_to(passed: &str) -> Option<String> {
    let passed: serde_json::Value = serde_json::from_str(passed).ok()?;
    Some(passed.get("instance")?.as_str()?.to_owned())
}
