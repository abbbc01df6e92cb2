//! What a run has come to, as it is recorded: its start, its loss, its end.
//!
//! Called whenever a shell has said something of one of its parts. What is recorded the shells forget.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{Effect, Outbox};
use eddy_wire::event::{Exception, Final, Kind};
use eddy_wire::id::{Epoch, JobId};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::shell::{Ended, Part, ToShell};
use eddy_wire::spec::{LOST, Texts};
use eddy_wire::time::Time;

use super::{Exec, SIGKILL};

impl Exec {
    pub(super) fn not_mine(
        &mut self,
        now: Time,
        epoch: Epoch,
        part: Part,
        why: &str,
        out: &mut Outbox,
    ) {
        if let Some(run) = self.runs.get_mut(&part.job)
            && run.attempt == part.attempt
            && run.shell(part.rank) == Some(epoch)
        {
            let why = match run.submit.spec.texts {
                Texts::Whole => why,
                // It never got its start, or forgot it: there is nothing to begin it by.
                Texts::Lost => LOST,
            };
            run.lose(part.rank, now, why);
            self.conclude(now, part.job, out);
        }
    }

    pub(super) fn conclude_lost(&mut self, now: Time, out: &mut Outbox) {
        let lost: Vec<JobId> = self
            .runs
            .values()
            .filter(|run| run.is_lacking())
            .map(|run| run.job)
            .collect();
        for job in lost {
            self.conclude(now, job, out);
        }
    }

    /// Records what a run has come to: its start, its loss, its end.
    pub(super) fn conclude(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        if run.is_starting_recordable() {
            run.start_proposed = true;
            out.append(now, job, Kind::Start);
        }
        if let Some((kind, note)) = run.failure() {
            run.failure_proposed = true;
            let kind = kind.to_owned();
            let exception = Exception {
                kind,
                severity: 0,
                note,
                userid: None,
                until: None,
            };
            // Its fold brings us back here to record the end.
            return out.append(now, job, Kind::Exception(Box::new(exception)));
        }
        if let Some(status) = run.end_recordable() {
            run.end_proposed = true;
            let over = Over {
                t: run.over_at(now),
                status,
                ranks: run.grant.set.ranks(),
                work: &run.submit.spec.request.work,
            };
            over.record(now, job, out);
        }
        if let Some(grant) = run.suspension_recordable(now) {
            out.append(now, job, Kind::GrantChanged(Arc::new(grant)));
        }
        self.reseat_left(now, job, out);
    }

    /// The end of a run is recorded: the shells may forget it.
    pub(super) fn forget(&mut self, job: JobId, out: &mut Outbox) {
        let Some(run) = self.runs.get(&job) else {
            return;
        };
        for (rank, epoch) in &run.grant.shells {
            let part = run.part(*rank);
            out.effect(Effect::Shell(*epoch, ToShell::Forget { part }));
        }
    }
}

/// The end of all that ran of a job.
pub(crate) struct Over<'a> {
    /// When that was.
    pub t: Time,
    /// The largest wait status.
    pub status: i32,
    /// What it had.
    pub ranks: Idset,
    /// What it was.
    pub work: &'a Work,
}

impl Over<'_> {
    /// Records it, in one record where one says all of it.
    pub fn record(self, now: Time, job: JobId, out: &mut Outbox) {
        let Over {
            t,
            status,
            ranks,
            work,
        } = self;
        if t == now && *work == Work::Tasks {
            return out.append(t, job, Kind::Release(ranks, Final::Free(Some(status))));
        }
        out.append(t, job, Kind::Finish(status));
        if t < now {
            // It gave all back then, though it is free only now.
            out.append(t, job, Kind::Release(ranks.clone(), Final::No));
        }
        out.append(t, job, Kind::Release(ranks, Final::Yes));
    }
}

/// An end for a part nothing is known of: as if killed.
pub(super) fn killed(now: Time, note: Option<String>) -> Ended {
    Ended {
        t: now,
        status: SIGKILL,
        note,
        tasks: BTreeMap::new(),
    }
}
