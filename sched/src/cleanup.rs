//! How long what a job holds is held beyond its time limit.
//!
//! Asked wherever an end is planned: by the planner, and by whoever holds a start or a submission
//! against a reservation. It knows no job.

use eddy_wire::time::Span;

/// The least that passes between the end of a job's limit and its resources being free: its end is
/// asked for, waited for, forced and recorded.
pub(crate) const CLEANUP: Span = Span::seconds(10);

/// Of that, what is left for the rest after the last KILL: tasks are reaped, their shells say so over
/// the links, and it is recorded. As much as there was of `CLEANUP` by the usual grace of 5 s.
const AFTER_KILL: Span = Span::seconds(5);

/// The same where so much passes between TERM and KILL. Whoever ignores TERM is there until KILL.
pub fn cleanup(grace: Span) -> Span {
    CLEANUP.max(Span(grace.0.saturating_add(AFTER_KILL.0)))
}
