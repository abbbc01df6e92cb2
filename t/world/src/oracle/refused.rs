//! What is recorded of submissions that are refused when an instance hands them up: that they were made, and
//! that they are over for that reason.

use std::collections::BTreeMap;

use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;

/// How the note of their end begins.
const NOTE: &str = "refused when `";

/// Jobs that were not to be taken, and why, until they are over.
#[derive(Clone, Debug, Default)]
pub struct Refused {
    against: BTreeMap<JobId, String>,
}

impl Refused {
    /// Something is found against a record. A submission that an instance took is refused yet.
    ///
    /// # Errors
    /// What was found, where it is another record.
    pub fn found(&mut self, record: &Record, checked: Result<(), String>) -> Result<(), String> {
        match (checked, &record.event.kind, record.event.job) {
            (Err(sentence), Kind::Submit(submit), Some(job)) if submit.taken_in.is_some() => {
                self.against.entry(job).or_insert(sentence);
                Ok(())
            }
            (checked, ..) => checked,
        }
    }

    /// One more record.
    ///
    /// # Errors
    /// A job that was not to be taken goes on.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        let Some(job) = record.event.job else {
            return Ok(());
        };
        match &record.event.kind {
            // Its place is recorded with its submission.
            Kind::Submit(_) | Kind::Priority(_) => Ok(()),
            kind => match self.against.remove(&job) {
                Some(sentence) if !is_refusal(kind) => Err(sentence),
                Some(_) | None => Ok(()),
            },
        }
    }
}

fn is_refusal(kind: &Kind) -> bool {
    matches!(kind, Kind::Exception(end) if end.severity == 0 && end.note.starts_with(NOTE))
}
