//! How long a job's tasks are given between TERM and KILL, where the job says so itself.

use crate::jobspec::Work;
use crate::spec::Spec;
use crate::time::{MICROS, Span};

/// The attribute of a jobspec that says it, in seconds, under `attributes.system`.
pub const ATTRIBUTE: &str = "grace";

/// What a job says, if it says anything.
///
/// # Errors
/// It is no number of seconds, or the job has no tasks of its own.
pub fn of(spec: &Spec) -> Result<Option<Span>, String> {
    let Some(value) = spec.jobspec.attributes.system.other.get(ATTRIBUTE) else {
        return Ok(None);
    };
    let path = format!("attributes.system.{ATTRIBUTE}");
    if spec.request.work != Work::Tasks {
        return Err(format!(
            "{path}: {value} given, allowed is none: an instance needs its time to end"
        ));
    }
    let seconds = value
        .as_f64()
        .filter(|seconds| (0.0..=86_400.0).contains(seconds));
    match seconds {
        Some(seconds) => Ok(Some(Span((seconds * MICROS as f64) as i64))),
        None => Err(format!(
            "{path}: {value} given, allowed are 0 to 86400 seconds"
        )),
    }
}

/// What it is given where others are given `most`: no more than that.
pub fn within(spec: &Spec, most: Span) -> Span {
    match of(spec) {
        Ok(Some(own)) => own.min(most),
        Ok(None) | Err(_) => most,
    }
}
