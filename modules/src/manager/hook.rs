//! The seam for site rules on a job's way to the scheduler.

use eddy_wire::event::Submit;
use eddy_wire::services::job::{URGENCY_DEFAULT, URGENCY_MAX};

/// Priority of an expedited job: before all others.
pub const PRIORITY_MAX: i64 = u32::MAX as i64;

/// Gives a job its place in the queue. Pure: the same job, the same place.
pub trait Hook {
    /// Of what was submitted and is as urgent by now. Larger is earlier; 0 holds the job.
    fn priority(&self, submit: &Submit, urgency: u8) -> i64;
}

/// First come, first served within equal urgency (RFC 30): urgency 0 holds,
/// 31 goes before everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByUrgency;

impl Hook for ByUrgency {
    fn priority(&self, _submit: &Submit, urgency: u8) -> i64 {
        const _: () = assert!(URGENCY_DEFAULT < URGENCY_MAX);
        match urgency {
            0 => 0,
            URGENCY_MAX.. => PRIORITY_MAX,
            urgency => i64::from(urgency),
        }
    }
}
