//! What others have to do with where a job is: who came before it, for whom it gave way, whose nodes it is not lent.
//!
//! Used by `why`, a line each. It asks nobody.

use eddy_wire::plan::{Lent, Moved, Mover};
use eddy_wire::preempt::{Mode, Shrink};
use eddy_wire::services::job::JobRow;
use eddy_wire::time::Span;

use crate::ids::Spelling;
use crate::table::escaped;
use crate::when;

/// That a start was promised which was moved, and for what.
pub fn said(moved: Moved, spelling: Spelling) -> String {
    let from = when::local(moved.from);
    let why = match moved.by {
        Mover::Job { job } => format!("job {} came before it", spelling.show(job)),
        Mover::Another => "a job came before it".to_owned(),
        Mover::ExtensionOfAnother => "a job was given more time".to_owned(),
        Mover::Nodes => "nodes that it was to have went out of service".to_owned(),
        Mover::Extension { job } => {
            format!("job {} was given more time", spelling.show(job))
        }
        Mover::Policy => "another policy was set since".to_owned(),
        Mover::Overrun => "what runs ends later than was planned".to_owned(),
    };
    format!("  moved:  was promised a start by {from}; {why}")
}

/// Which nodes it is not given, since its limit is longer than they are lent.
pub fn not_lent(lent: &Lent) -> String {
    let to = match lent.most {
        Span::ZERO => "no jobs of other queues".to_owned(),
        most => format!(
            "jobs of other queues with a limit of at most {}",
            when::short(most)
        ),
    };
    format!(
        "  lent:   ranks {} are the home of {}, which lends them to {to} (lend_max)",
        lent.ranks,
        escaped(&lent.instance)
    )
}

/// For whom an attempt ended, or gave its cores, the last time; of another user's job no more than that where
/// listings are private.
pub fn preempted(row: &JobRow, spelling: Spelling) -> Option<String> {
    let Some(last) = &row.preempted else {
        let times = match row.preemptions {
            0 => return None,
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        return Some(format!("  preempted: {times}, for another user's job"));
    };
    let times = match (last.preemption.mode, row.preemptions) {
        (Mode::Suspend, _) => "it gave its cores the last time".to_owned(),
        (Mode::Requeue | Mode::Cancel, 1) => "once".to_owned(),
        (Mode::Requeue | Mode::Cancel, times) => format!("{times} times, the last"),
    };
    Some(format!(
        "  preempted: {times} at {} for job {}: {}",
        when::local(last.t),
        spelling.show(last.preemption.by),
        escaped(&last.preemption.why)
    ))
}

/// Which nodes it is to give while it goes on, by when, and for whom.
pub fn gives(one: &Shrink, spelling: Spelling) -> String {
    let by = one.by.map(|by| format!(" for job {}", spelling.show(by)));
    format!(
        "  gives: ranks {} by {}{}: {}",
        one.ranks,
        when::local(one.until),
        by.unwrap_or_default(),
        escaped(&one.why)
    )
}
