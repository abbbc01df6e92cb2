//! A job as everybody sees it: the fold of its records.
//!
//! The manager folds records when they are appended, the listing when they are
//! durable, the oracles of the simulated world when they please; all by
//! [`Job::apply`]. It decides nothing and remembers nothing that is not in the
//! records.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use crate::event::{Exception, Final, Kind, Record, Submit, Waitable};
use crate::grant::Grant;
use crate::id::{Attempt, JobId, Seq};
use crate::idset::Idset;
use crate::lifecycle::{Illegal, JobResult, JobState};
use crate::preempt::{Mode, Preempted, Preemption};
use crate::services::job::URGENCY_DEFAULT;
use crate::shrinking::Shrinking;
use crate::suspension::{Standing, Suspension};
use crate::time::Time;
use crate::update;

/// What an attempt holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Holding {
    /// Nothing yet.
    Nothing,
    /// These resources.
    Held(Arc<Grant>),
    /// Nothing any more; this is what it was.
    Freed(Arc<Grant>),
}

/// Why an attempt is ending: its first fatal exception.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// When it was recorded: TERM is due then, KILL a grace later.
    pub t: Time,
    /// What happened.
    pub exception: Exception,
}

/// Whether what another takes from a job is still to be given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// It was given, or nobody takes.
    Done,
    /// It is to end, or to be stopped.
    UnderWay,
}

/// A place among jobs that their user put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// How many are before it.
    pub at: u32,
    /// How many there are.
    pub of: u32,
}

impl Place {
    /// Alone: as a job that was never put in order.
    pub const FIRST: Place = Place { at: 0, of: 1 };

    /// The factor `user`: 1 for the first, less for each behind it, never nothing.
    pub fn factor(self) -> f64 {
        let of = f64::from(self.of.max(1));
        1.0 - f64::from(self.at.min(self.of.saturating_sub(1))) / of
    }
}

/// A job: the fold of its records.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// What was submitted.
    pub submit: Arc<Submit>,
    /// Where it is in its life.
    pub state: JobState,
    /// Which run this is, from 1.
    pub attempt: Attempt,
    /// 0 holds, 31 expedites.
    pub urgency: u8,
    /// The urgency that a release gives it back: its last that did not hold it.
    pub urgency_before: u8,
    /// Place in the queue, once given.
    pub priority: Option<i64>,
    /// What it still waits for.
    pub dependencies: BTreeSet<String>,
    /// What this attempt holds or held.
    pub holding: Holding,
    /// When this attempt's tasks had started on all ranks.
    pub started: Option<Time>,
    /// The largest wait status of this attempt's tasks.
    pub status: Option<i32>,
    /// Why this attempt is ending, when by an exception.
    pub end: Option<End>,
    /// Ranks on which nothing of this attempt runs any more.
    pub released: Idset,
    /// Set once the release was final.
    pub release: Final,
    /// How many of its attempts came back from the instance they were passed to.
    pub recalls: u32,
    /// How many of its attempts were ended for the sake of another job.
    pub preemptions: u32,
    /// The last time that another took from it.
    pub preempted: Option<Preempted>,
    /// Whether that is still to come.
    pub taking: Taking,
    /// Whether it has its cores, where it runs.
    pub suspension: Suspension,
    /// Which nodes it is to give while it runs.
    pub shrinking: Shrinking,
    /// Its place among the jobs that its user put in order.
    pub place: Place,
    /// What was said of this attempt that could be said without end: exceptions that end no job, places in an order,
    /// urgencies, and that it is to stop for a while.
    pub remarks: u32,
    /// The key of the reckoning by which its time limit was changed last.
    pub reckoned: Option<Uuid>,
    /// Whether its result was collected.
    pub collected: bool,
    /// When it was submitted, first got resources (this attempt), became inactive.
    pub t_submit: Time,
    /// When this attempt's resources were granted.
    pub t_alloc: Option<Time>,
    /// When its tasks had all ended.
    pub t_finish: Option<Time>,
    /// When it was over.
    pub t_inactive: Option<Time>,
    /// Its records, in order: how its event log is found again.
    pub seqs: Vec<Seq>,
}

impl Job {
    /// The job that a `submit` record makes; `None` for any other record.
    pub fn from_record(record: &Record) -> Option<Job> {
        let (Kind::Submit(submit), Some(id)) = (&record.event.kind, record.event.job) else {
            return None;
        };
        Some(Job {
            id,
            submit: Arc::clone(submit),
            state: submit.entry.state(),
            attempt: first_attempt(submit),
            urgency: submit.urgency,
            urgency_before: match submit.urgency {
                0 => URGENCY_DEFAULT,
                urgency => urgency,
            },
            priority: None,
            dependencies: BTreeSet::new(),
            holding: Holding::Nothing,
            started: None,
            status: None,
            end: None,
            released: Idset::new(),
            release: Final::No,
            recalls: 0,
            preemptions: 0,
            preempted: None,
            taking: Taking::Done,
            suspension: Suspension::default(),
            shrinking: Shrinking::default(),
            place: Place::FIRST,
            remarks: 0,
            reckoned: None,
            collected: false,
            t_submit: record.event.t,
            t_alloc: None,
            t_finish: None,
            t_inactive: None,
            seqs: vec![record.seq],
        })
    }

    /// Folds one more of this job's records, or what one implies.
    pub fn apply(&mut self, record: &Record) -> Result<(), Illegal> {
        let t = record.event.t;
        let next = self.state.next(&record.event.kind)?;
        match &record.event.kind {
            Kind::Priority(priority) => self.priority = Some(*priority),
            Kind::JobspecUpdate(map) => {
                update::submit(&mut self.submit, map);
                self.reckoned = update::key(map);
            }
            Kind::Urgency(urgency, _) => self.urge(*urgency),
            Kind::DependencyAdd(description) => {
                self.dependencies.insert(description.clone());
            }
            Kind::DependencyRemove(description) => {
                self.dependencies.remove(description);
            }
            Kind::Alloc(grant) => {
                self.holding = Holding::Held(Arc::clone(grant));
                self.t_alloc = Some(t);
            }
            Kind::GrantChanged(grant) => self.holding = Holding::Held(Arc::clone(grant)),
            Kind::Start => self.started = Some(t),
            Kind::Finish(status) => self.finish(t, *status),
            Kind::Exception(exception) if exception.severity == 0 => self.end_by(t, exception),
            Kind::Release(ranks, last) => self.left(t, ranks, *last),
            Kind::Free => self.free(),
            Kind::Clean => self.t_inactive = Some(t),
            Kind::Requeue(attempt) => self.begin(*attempt),
            Kind::Waited => self.collected = true,
            Kind::Recalled(_) => self.recalls += 1,
            Kind::Preempted(preemption) => self.preempt(t, preemption),
            Kind::Submit(_)
            | Kind::Validate
            | Kind::Depend
            | Kind::PrologStart(_)
            | Kind::PrologFinish(..)
            | Kind::EpilogStart(_)
            | Kind::EpilogFinish(..)
            | Kind::Exception(_)
            | Kind::Memo(_)
            | Kind::Suspend(_)
            | Kind::Shrink(_)
            | Kind::Resume(_)
            | Kind::Passed(_)
            | Kind::Adopt(_)
            | Kind::IdBlock(_)
            | Kind::LeaderStart(_)
            | Kind::LeaderStop
            | Kind::ResourceDefine(..)
            | Kind::ShellStart(..)
            | Kind::ShellLost(..)
            | Kind::Drain(..)
            | Kind::Undrain(..)
            | Kind::Put(..)
            | Kind::Delete(..)
            | Kind::Account(_)
            | Kind::Queue(_)
            | Kind::Order(..)
            | Kind::Reservation(_)
            | Kind::GiveBack(_)
            | Kind::Usage(_)
            | Kind::UsageDay(_) => {}
        }
        self.folded(record, next);
        Ok(())
    }

    fn urge(&mut self, urgency: u8) {
        // Whoever is let go was held before, which was a remark.
        self.remarks += u32::from(self.urgency > 0 || urgency == 0);
        self.urgency = urgency;
        if urgency > 0 {
            self.urgency_before = urgency;
        }
    }

    fn folded(&mut self, record: &Record, next: JobState) {
        self.suspension.apply(record.event.t, &record.event.kind);
        self.shrinking.apply(&record.event.kind);
        let is_change = matches!(record.event.kind, Kind::GrantChanged(_));
        if is_change && self.suspension.standing() == Standing::Suspended {
            self.taking = Taking::Done;
        }
        self.remarked(&record.event.kind);
        self.state = next;
        // What a record implies is of its place.
        if self.seqs.last() != Some(&record.seq) {
            self.seqs.push(record.seq);
        }
    }

    /// Counts what may be said without end: what changes nothing of it, or can be taken back.
    fn remarked(&mut self, kind: &Kind) {
        match kind {
            Kind::Exception(exception) if exception.severity > 0 => self.remarks += 1,
            // What goes on was stopped before.
            Kind::Suspend(Some(_)) => self.remarks += 1,
            Kind::Order(place, _) => {
                self.place = *place;
                self.remarks += 1;
            }
            _ => {}
        }
    }

    /// What is held now.
    pub fn grant(&self) -> Option<&Grant> {
        match &self.holding {
            Holding::Held(grant) => Some(grant),
            Holding::Nothing | Holding::Freed(_) => None,
        }
    }

    /// What this attempt holds or held, for listings.
    pub fn placed(&self) -> Option<&Grant> {
        match &self.holding {
            Holding::Held(grant) | Holding::Freed(grant) => Some(grant),
            Holding::Nothing => None,
        }
    }

    /// Whether the attempt that is ending is to be followed by another.
    /// Of a job that was passed down its parent decides that.
    pub fn is_to_be_requeued(&self) -> bool {
        let again = |end: &End| self.submit.runs_again_after(&end.exception);
        self.submit.pass.is_none() && self.end.as_ref().is_some_and(again)
    }

    /// For whom this attempt is to end, or to give its cores, if that was decided and is not done.
    pub fn preemption(&self) -> Option<&Preemption> {
        let preempted = self.preempted.as_ref()?;
        (self.taking == Taking::UnderWay).then_some(&preempted.preemption)
    }

    /// Whether it may leave memory: over, and collected if it was to be.
    pub fn is_done(&self) -> bool {
        let is_kept = self.submit.waitable == Waitable::Yes || self.submit.pass.is_some();
        self.state == JobState::Inactive && (!is_kept || self.collected)
    }

    /// How it ended; `None` while it has not.
    pub fn result(&self) -> Option<JobResult> {
        if self.state != JobState::Inactive {
            return None;
        }
        Some(match (&self.end, self.status) {
            (Some(end), _) => match end.exception.kind.as_str() {
                "cancel" => JobResult::Canceled,
                "timeout" => JobResult::Timeout,
                _ => JobResult::Failed,
            },
            (None, Some(0)) => JobResult::Completed,
            (None, _) => JobResult::Failed,
        })
    }

    /// The exit code scripts expect: the code, 128 + signal, or 1 for a job
    /// that never started, or whose tasks ended well as it was cancelled; `None` while it has not ended.
    pub fn returncode(&self) -> Option<i32> {
        let code = self.status.map_or(1, exit_code);
        self.result().map(|result| match result {
            JobResult::Completed => code,
            JobResult::Failed | JobResult::Canceled | JobResult::Timeout => code.max(1),
        })
    }

    /// The first fatal exception stands; only a cancel overrides a requeue, so
    /// that a job being requeued can still be ended for good.
    fn end_by(&mut self, t: Time, exception: &Exception) {
        let requeue_cancelled = self.is_to_be_requeued() && exception.kind == "cancel";
        let end = End {
            t,
            exception: exception.clone(),
        };
        match &mut self.end {
            None => self.end = Some(end),
            // It is under way: its KILL stays for when it was.
            Some(first) if requeue_cancelled => {
                let until = first.exception.until;
                first.exception = Exception {
                    until,
                    ..end.exception
                };
            }
            Some(_) => {}
        }
    }

    fn preempt(&mut self, t: Time, preemption: &Preemption) {
        // Of one attempt only the first counts, until it is done.
        if self.preemption().is_none() {
            self.taking = Taking::UnderWay;
            if preemption.mode != Mode::Suspend {
                self.preemptions += 1;
            }
            self.preempted = Some(Preempted {
                attempt: self.attempt,
                t,
                preemption: preemption.clone(),
            });
        }
    }

    fn finish(&mut self, t: Time, status: i32) {
        (self.status, self.t_finish) = (Some(status), Some(t));
    }

    fn left(&mut self, t: Time, ranks: &Idset, last: Final) {
        self.released = self.released.union(ranks);
        self.release = last;
        if let Final::Free(status) | Final::Over(status) = last {
            status.into_iter().for_each(|status| self.finish(t, status));
            self.free();
        }
    }

    fn free(&mut self) {
        if let Holding::Held(grant) = std::mem::replace(&mut self.holding, Holding::Nothing) {
            self.holding = Holding::Freed(grant);
        }
    }

    fn begin(&mut self, attempt: Attempt) {
        self.attempt = attempt;
        self.taking = Taking::Done;
        self.holding = Holding::Nothing;
        self.started = None;
        self.status = None;
        self.end = None;
        self.released = Idset::new();
        self.release = Final::No;
        self.remarks = 0;
        self.t_alloc = None;
        self.t_finish = None;
    }
}

/// The attempt a job begins with: the first, or the one in which its parent passed it down.
pub fn first_attempt(submit: &Submit) -> Attempt {
    submit.pass.as_ref().map_or(Attempt(1), |pass| pass.attempt)
}

/// A wait status as a shell would report it: the code, or 128 + the signal.
pub fn exit_code(wait_status: i32) -> i32 {
    match wait_status & 0x7f {
        0 => (wait_status >> 8) & 0xff,
        signal => 128 + signal,
    }
}
