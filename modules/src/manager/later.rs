//! Changes of many jobs: so many of their records in a turn, and the others in those that follow.
//!
//! Used by the manager for what people ask of many jobs at once. Every module folds each record: recorded all at
//! once, they would keep everybody else waiting. What is recorded later is asked again whether it can be; whoever is to
//! end by it begins no more. Recorded nowhere itself: who is not answered asks the next leader again.

use std::collections::{BTreeSet, VecDeque};

use eddy_broker::{Caller, Outbox, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::services::job::Changed;
use eddy_wire::time::Time;

use super::change::Proposed;

/// So many records are made in a turn: some tens of milliseconds of all modules' time.
pub(crate) const PART: usize = 1_000;
/// So many changes may be under way.
const CHANGES_MAX: usize = 64;

/// Whether one more change of many jobs may begin beside so many.
pub(crate) fn may_begin(under_way: usize) -> Result<(), Refusal> {
    if under_way < CHANGES_MAX {
        return Ok(());
    }
    let text = format!(
        "jobs: {CHANGES_MAX} changes of more than {PART} jobs each are under way already (limit `changes`); ask again \
         later"
    );
    Err(Refusal::new(Code::Busy, text))
}

/// Changes under way; one after the other has a turn.
#[derive(Debug, Default)]
pub(super) struct Later {
    changes: VecDeque<Change>,
}

/// One of them.
#[derive(Debug)]
struct Change {
    caller: Caller,
    events: VecDeque<(JobId, Kind)>,
    /// Those of them that it ends.
    ends: BTreeSet<JobId>,
    changed: Changed,
}

impl Later {
    /// Records what is proposed and answers, or the first time has it done from the next turn on.
    pub(super) fn begin(
        &mut self,
        now: Time,
        caller: Caller,
        proposed: Proposed,
        out: &mut Outbox,
    ) -> Result<(), Refusal> {
        if proposed.events.len() <= PART {
            let changed = proposed.append(now, out);
            out.reply(caller, &changed);
            return Ok(());
        }
        may_begin(self.changes.len())?;
        let (events, changed) = proposed.apart();
        let ends = events.iter().filter(|(_, kind)| is_end(kind));
        self.changes.push_back(Change {
            ends: ends.map(|(job, _)| *job).collect(),
            caller,
            events: events.into(),
            changed,
        });
        out.volatile(Volatile::Wake(now));
        Ok(())
    }

    /// Whether a job is to end by a change that is under way.
    pub(super) fn ends(&self, job: JobId) -> bool {
        self.changes.iter().any(|change| change.ends.contains(&job))
    }

    /// The next part of the change whose turn it is, of what `may_still` be; answers with the last.
    pub(super) fn part(
        &mut self,
        now: Time,
        may_still: impl Fn(JobId, &Kind) -> bool,
        out: &mut Outbox,
    ) {
        let Some(mut change) = self.changes.pop_front() else {
            return;
        };
        let part = change.events.len().min(PART);
        for (job, kind) in change.events.drain(..part) {
            change.ends.remove(&job);
            if may_still(job, &kind) {
                change.changed.count += 1;
                out.append(now, job, kind);
            }
        }
        match change.events.is_empty() {
            true => out.reply(change.caller, &change.changed),
            false => self.changes.push_back(change),
        }
        if !self.changes.is_empty() {
            out.volatile(Volatile::Wake(now));
        }
    }
}

fn is_end(kind: &Kind) -> bool {
    matches!(kind, Kind::Exception(exception) if exception.severity == 0)
}
