//! Whether jobs are named by their numbers as a request may name them.

use eddy_wire::error::{Code, Refusal};
use eddy_wire::services::job::{JOB_RANGES_MAX, JobSet};

/// Whether so many ranges may be asked about, and each is one. Asked before anything is done for the first.
///
/// # Errors
/// By the field.
pub(crate) fn ranges(set: &JobSet) -> Result<(), Refusal> {
    if set.ranges.len() > JOB_RANGES_MAX {
        let text = format!(
            "jobs: {} ranges given, at most {JOB_RANGES_MAX}",
            set.ranges.len()
        );
        return Err(Refusal::new(Code::TooLarge, text));
    }
    match set.reversed() {
        Some((first, last)) => Err(Refusal::invalid(format!(
            "jobs: {first}-{last} given, a range ends after it begins"
        ))),
        None => Ok(()),
    }
}
