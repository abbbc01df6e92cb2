//! Whether the instances that a configuration declares can be, and what is to be said of them where they can.
//!
//! Called once, while a leader begins. What an administrator took out since is no reason not to begin.

use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;

use super::StartError;
use crate::config::declared::{FitError, homes_apart, misfits};
use crate::leader::configured::{Configured, Unfit};

/// Whether the declared instances can be had at all, each and together; what is to be said if they can.
///
/// # Errors
/// Each that can not, by more than the ranks that were removed.
pub(super) fn fits(
    configured: &Configured,
    inventory: &ResourceSet,
    removed: &Idset,
) -> Result<Vec<String>, StartError> {
    let declared = &configured.config.instance.declared;
    let is_told =
        |error: &FitError| configured.unfit() == Unfit::Told || error.is_of_removed(removed);
    let (told, mut errors): (Vec<FitError>, Vec<FitError>) =
        misfits(declared, inventory).into_iter().partition(is_told);
    errors.extend(homes_apart(declared, inventory).err());
    if !errors.is_empty() {
        return Err(StartError::Fit(errors));
    }
    let told = told.iter().map(ToString::to_string);
    let told: Vec<String> = told.chain(configured.doubts(inventory)).collect();
    let which = configured.which();
    let all = told.iter().chain(&which);
    all.for_each(|line| tracing::warn!("{line}"));
    // Whoever started it sees what of all that is said is to be looked at.
    let told = told.iter().map(|line| format!("warning: {line}"));
    Ok(told.chain(which.clone()).collect())
}
