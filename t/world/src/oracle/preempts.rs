//! Whether jobs are taken from by the rules: not too early, not too often, by nobody who does not
//! stand above them, and for somebody who then starts.
//!
//! Knows the rules that the instance was given and the records, nothing of who chooses.

use std::collections::{BTreeMap, BTreeSet};

use eddy_modules::settings::Qos;
use eddy_wire::account::Name;
use eddy_wire::event::{Exception, Final, Kind, Record};
use eddy_wire::grace;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::job::Job;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::preempt::{Cause, Mode, PREEMPTIONS_MAX, Preemption};
use eddy_wire::reservation;
use eddy_wire::shrinking::Shrinking;
use eddy_wire::suspension::Standing;
use eddy_wire::time::{Span, Time};

use super::Ledger;

/// For whom others ended starts so soon after the last of them, if nothing else happens: that long
/// planner, disk and network are slow at most.
const SOON: Span = Span::seconds(120);

/// So long a leader that has just begun waits for the ranks that had a shell.
const SETTLING: Span = Span::seconds(10);

/// The rules, and those for whom others end.
#[derive(Clone, Debug, Default)]
pub(super) struct Preempts {
    qos: BTreeMap<Name, Qos>,
    grace: Span,
    pub(super) heirs: BTreeMap<JobId, Heir>,
    /// The nodes that instances are to give.
    pub(super) shrinking: BTreeMap<JobId, Shrinking>,
    /// Since when nothing came or went by which that takes longer.
    pub(super) calm: Time,
    pub(super) peace: Peace,
    /// The ranks whose shells a leader that has just begun has not heard, and how long it waits for them.
    missing: (Time, Idset),
}

/// Whether anything went wrong yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Peace {
    #[default]
    Kept,
    Broken,
}

/// One for whom others end.
#[derive(Clone, Debug, Default)]
pub(super) struct Heir {
    pub(super) victims: BTreeSet<JobId>,
    /// When the last of them was over.
    pub(super) since: Option<Time>,
}

impl Preempts {
    /// By these rules; `grace` is that of who has no other.
    pub fn set(&mut self, qos: &[Qos], grace: Span) {
        self.qos = qos
            .iter()
            .map(|one| (one.name.clone(), one.clone()))
            .collect();
        self.grace = grace;
    }

    /// Something goes wrong that is not recorded.
    pub fn struck(&mut self) {
        self.peace = Peace::Broken;
    }

    /// The leader is gone.
    pub fn forget(&mut self) {
        self.heirs.clear();
        self.shrinking.clear();
        self.missing = Default::default();
    }

    /// A shell of these ranks says hello.
    pub fn hello(&mut self, ranks: &Idset) {
        self.missing.1 = self.missing.1.difference(ranks);
    }

    /// What is durable of it, once more.
    pub fn again(&mut self, record: &Record) {
        if let Some(id) = record.event.job {
            self.fold(id, &record.event.kind);
        }
    }

    /// One more record, which the ledger has.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub fn apply(&mut self, ledger: &Ledger, record: &Record) -> Result<(), String> {
        let (kind, t) = (&record.event.kind, record.event.t);
        let Some(id) = record.event.job else {
            if let Kind::LeaderStart(_) = kind {
                let shells = ledger.shells.values();
                let shells = shells.fold(Idset::new(), |all, ranks| all.union(ranks));
                self.missing = (t.after(SETTLING), shells.difference(&ledger.drained));
            }
            match kind {
                // What there is, or who decides, is another.
                Kind::LeaderStart(_)
                | Kind::ResourceDefine(..)
                | Kind::Drain(..)
                | Kind::Undrain(..)
                | Kind::ShellLost(..)
                | Kind::ShellStart(..)
                | Kind::Memo(_)
                | Kind::Account(_)
                | Kind::Queue(_) => {
                    self.heirs.clear();
                    self.calm = t;
                }
                _ => {}
            }
            return Ok(());
        };
        let Some(job) = ledger.jobs.get(&id) else {
            return Ok(());
        };
        self.is_first(id, kind)?;
        self.fold(id, kind);
        match kind {
            Kind::Preempted(preemption) if job.submit.pass.is_none() => {
                self.may_be_taken(ledger, job, preemption, t)?;
                self.gives(id, preemption.by);
            }
            Kind::Shrink(shrink) if job.submit.pass.is_none() => {
                self.may_shrink(ledger, job, shrink, t)?;
                shrink.by.into_iter().for_each(|by| self.gives(id, by));
            }
            Kind::Exception(exception) if exception.severity == 0 => {
                ends_as_decided(job, exception)?;
                self.heirs.remove(&id);
            }
            Kind::Alloc(_) => {
                self.heirs.remove(&id);
                self.begins_above(ledger, job);
            }
            Kind::Urgency(..) | Kind::JobspecUpdate(_) => {
                self.heirs.remove(&id);
            }
            Kind::GrantChanged(_) => {
                self.heirs.remove(&id);
                if job.suspension.standing() == Standing::Suspended {
                    self.gave(id, t);
                }
                self.gave_nodes(job, t);
            }
            Kind::Suspend(None) => stopped_as_decided(job)?,
            Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)) => self.gave(id, t),
            _ => {}
        }
        self.all_gave(ledger, t)?;
        self.all_start(ledger, t)
    }

    /// A job is to give something to another.
    fn gives(&mut self, id: JobId, by: JobId) {
        let heir = self.heirs.entry(by).or_default();
        heir.victims.insert(id);
        heir.since = None;
    }

    /// A job begins: who would be taken from for it at once does not, though others ended for him.
    fn begins_above(&mut self, ledger: &Ledger, job: &Job) {
        let mut heirs = std::mem::take(&mut self.heirs);
        heirs.retain(|id, _| {
            let heir = ledger.jobs.get(id);
            heir.is_none_or(|heir| self.stands_above(job, heir).is_err())
        });
        self.heirs = heirs;
    }

    /// A job has given what was to be taken from it.
    pub(super) fn gave(&mut self, id: JobId, t: Time) {
        for heir in self.heirs.values_mut() {
            if heir.victims.remove(&id) && heir.victims.is_empty() {
                heir.since = Some(t);
            }
        }
    }

    fn may_be_taken(
        &self,
        ledger: &Ledger,
        job: &Job,
        preemption: &Preemption,
        t: Time,
    ) -> Result<(), String> {
        let (id, by) = (job.id, preemption.by);
        if job.preemptions > PREEMPTIONS_MAX {
            return Err(format!("job {id} was taken from {} times", job.preemptions));
        }
        let other = self.may_give(ledger, job, by, t)?;
        self.has_its_grace(job, (preemption.until, preemption.grace), t)?;
        let mode = match self.rule(job).map(|rule| rule.mode).unwrap_or_default() {
            Mode::Suspend if !can_rest(job) => Mode::Requeue,
            // Where accounts take turns it ends.
            Mode::Suspend if preemption.mode == Mode::Requeue => Mode::Requeue,
            mode => mode,
        };
        if preemption.mode != mode {
            return Err(format!("job {id} ends by {:?}", preemption.mode));
        }
        self.is_for(preemption.cause, other, job)
    }

    /// The rules of its QoS.
    pub(super) fn rule(&self, job: &Job) -> Option<&Qos> {
        self.qos.get(job.submit.party.qos.as_ref()?)
    }

    /// For whom a job gives something: for one that waits, and not before its time.
    pub(super) fn may_give<'l>(
        &self,
        ledger: &'l Ledger,
        job: &Job,
        by: JobId,
        t: Time,
    ) -> Result<&'l Job, String> {
        let id = job.id;
        let (until, missing) = &self.missing;
        if t < *until && !missing.is_empty() {
            return Err(format!(
                "job {id} is taken from before ranks {missing} are back"
            ));
        }
        let other = ledger.jobs.get(&by);
        let Some(other) = other.filter(|other| wants(other)) else {
            return Err(format!(
                "job {id} is taken from for job {by}, which does not wait"
            ));
        };
        let exempt = self.rule(job).map_or(Span::ZERO, |rule| rule.exempt);
        let ran = job.t_alloc.map_or(Span::ZERO, |since| t - since);
        match ran < exempt {
            true => Err(format!(
                "job {id} is taken from after {ran}, it is exempt for {exempt}"
            )),
            false => Ok(other),
        }
    }

    pub(super) fn has_its_grace(
        &self,
        job: &Job,
        (until, given): (Time, i64),
        t: Time,
    ) -> Result<(), String> {
        let own = self.rule(job).and_then(|rule| rule.grace);
        let grace = grace::within(&job.submit.spec, own.unwrap_or(self.grace));
        match until == t.after(grace) && given == grace.0 {
            true => Ok(()),
            false => Err(format!(
                "job {} has until {until}, its grace is {grace}",
                job.id
            )),
        }
    }

    /// Whether one may take from the other for that.
    pub(super) fn is_for(&self, cause: Cause, other: &Job, job: &Job) -> Result<(), String> {
        let (id, by) = (job.id, other.id);
        match cause {
            Cause::Drain => Err(format!("job {id} is taken from for a drain")),
            Cause::Urgency => self.stands_above(other, job),
            Cause::FairShare => {
                let party = |job: &Job| (job.submit.party.account.clone(), job.submit.user);
                let (a, b) = (party(other), party(job));
                let is_same = if a.0.is_some() { a.0 == b.0 } else { a == b };
                match is_same {
                    true => Err(format!(
                        "job {id} is taken from for job {by} of its own account"
                    )),
                    false => Ok(()),
                }
            }
        }
    }

    /// By QoS as configured; by class where those of the two are not the same.
    fn stands_above(&self, taker: &Job, holder: &Job) -> Result<(), String> {
        let (of, other) = (&taker.submit.party, &holder.submit.party);
        let preempts = |of: &Option<Name>, other: &Option<Name>| {
            let rule = of.as_ref().and_then(|qos| self.qos.get(qos));
            rule.zip(other.as_ref())
                .is_some_and(|(rule, other)| rule.preempts.contains(other))
        };
        let by_qos = of.qos != other.qos && preempts(&of.qos, &other.qos);
        let by_class = of.class != other.class && !preempts(&other.qos, &of.qos);
        match by_qos || by_class {
            true => Ok(()),
            false => Err(format!(
                "job {} of {other:?} is taken from for job {} of {of:?}, which does not stand above it",
                holder.id, taker.id
            )),
        }
    }

    /// Whoever others ended for has started soon after, or does not wait.
    fn all_start(&mut self, ledger: &Ledger, t: Time) -> Result<(), String> {
        let mut late = None;
        self.heirs.retain(|id, heir| {
            let job = ledger.jobs.get(id);
            let waits = job.is_some_and(|job| wants(job) && job.urgency > 0);
            let since = heir.since.filter(|since| waits && t - *since > SOON);
            late = late.or(since.map(|since| (*id, since)));
            waits || heir.since.is_none()
        });
        match late {
            None => Ok(()),
            Some((id, since)) => Err(format!(
                "others ended for job {id}, the last at {since}, and it does not start"
            )),
        }
    }
}

/// Whether it waits for room: to begin, or to go on.
fn wants(job: &Job) -> bool {
    job.state == JobState::Sched || job.suspension.standing() == Standing::Resuming
}

/// Whether a job can give its cores and go on later.
fn can_rest(job: &Job) -> bool {
    let request = &job.submit.spec.request;
    let is_reserved = reservation::of(&job.submit.spec).is_some();
    let is_tasks = request.work == Work::Tasks && request.takes == Takes::Resources;
    is_tasks && !is_reserved
}

/// Nobody is stopped but by a person or for another.
fn stopped_as_decided(job: &Job) -> Result<(), String> {
    if job.submit.pass.is_some() {
        // Its parent decided, which has a judge of its own.
        return Ok(());
    }
    match job.preemption().map(|one| one.mode) {
        Some(Mode::Suspend) => Ok(()),
        Some(Mode::Requeue | Mode::Cancel) | None => Err(format!(
            "job {} is stopped, and nobody needs its cores",
            job.id
        )),
    }
}

/// The first end of who is taken from is that of the mode.
fn ends_as_decided(job: &Job, exception: &Exception) -> Result<(), String> {
    let Some(preemption) = job.preemption() else {
        return Ok(());
    };
    let ours = exception.userid.is_none() && exception.note == preemption.note();
    let kind = match preemption.mode {
        Mode::Requeue => "requeue",
        Mode::Cancel => "cancel",
        Mode::Suspend if ours => return Err(format!("job {} ends and is to be stopped", job.id)),
        Mode::Suspend => return Ok(()),
    };
    match ours && exception.kind != kind {
        true => Err(format!(
            "job {} ends by {}, not {kind}",
            job.id, exception.kind
        )),
        false => Ok(()),
    }
}
