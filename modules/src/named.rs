//! Whether jobs are named as a request may name them: by their numbers, and by what they are to be called.

use eddy_wire::error::{Code, Refusal};
use eddy_wire::services::job::{JOB_RANGES_MAX, JobSet};
use eddy_wire::spec::Spec;
use eddy_wire::update::NAME;

/// The longest text of a job that is one line, in bytes.
const LINE_BYTES_MAX: usize = 4096;

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

/// Whether a text of a job is one line, and no longer than it may be.
///
/// # Errors
/// By the field.
pub(crate) fn bounded(field: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > LINE_BYTES_MAX || text.contains('\n') {
        let text = format!("{field}: one line of at most {LINE_BYTES_MAX} bytes is allowed");
        return Err(Refusal::invalid(text));
    }
    Ok(())
}

/// Whether a job may be called so, when it is submitted and later.
///
/// # Errors
/// By the field.
pub(crate) fn job_name(name: &str) -> Result<(), Refusal> {
    bounded(NAME, name)?;
    match name {
        "" => Err(Refusal::invalid(format!(
            "{NAME}: an empty name given; allowed is any other, or none"
        ))),
        _ => Ok(()),
    }
}

/// Whether a job that is submitted may be called as it is to be.
///
/// # Errors
/// By the field.
pub(crate) fn a_job(spec: &Spec) -> Result<(), Refusal> {
    let name = spec.jobspec.attributes.system.job.get("name");
    name.map_or(Ok(()), |name| job_name(name))
}
