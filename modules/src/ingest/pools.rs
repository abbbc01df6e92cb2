//! Whether the pools that a job takes of are there, and have so much.
//!
//! Asked by ingest when a job is submitted; what is wrong is told by field.

use eddy_wire::error::Refusal;
use eddy_wire::pool::{self, ATTRIBUTE, Pool};
use eddy_wire::spec::Spec;

/// Whether these pools can ever serve a job.
///
/// # Errors
/// By the field.
pub(super) fn have(pools: &[Pool], spec: &Spec) -> Result<(), Refusal> {
    for (name, asked) in pool::of(spec).map_err(Refusal::invalid)?.iter() {
        let path = format!("attributes.system.{ATTRIBUTE}");
        match pools.iter().find(|pool| pool.name == *name) {
            Some(pool) if *asked <= pool.count => {}
            Some(pool) => {
                let text = format!("{path}.{name}: {asked} given, there are {}", pool.count);
                return Err(Refusal::invalid(text));
            }
            None => {
                let there: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
                let there = match there.is_empty() {
                    true => "this instance has no pools".to_owned(),
                    false => format!("there are {}", there.join(", ")),
                };
                return Err(Refusal::invalid(format!("{path}: `{name}` given, {there}")));
            }
        }
    }
    Ok(())
}
