//! Jobs that a parent passed down: they start where it said, as soon as that is there, and go on there
//! when they were suspended.
//!
//! The planner is not asked of them. One that cannot begin for [`BOUNCE_AFTER`] goes back; one that is to
//! go on waits, since the parent gives nobody else what it said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::{Exception, Kind};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch, JobId};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::present::JustTaken;
use super::seen::Seen;
use super::{Intake, Sched};

/// How long a job waits for what its parent said is free and its shells to come. A parent gives a
/// node that it has just moved along with the job, and the node's shell is on its way then.
const BOUNCE_AFTER: Span = Span::seconds(10);

/// Those that are not where their parent wants them.
#[derive(Default)]
pub(super) struct Passed {
    /// To begin.
    begin: BTreeSet<JobId>,
    /// To go on with these cores, as was said over a channel of this leader's life.
    back: BTreeMap<JobId, Arc<ResourceSet>>,
}

impl Passed {
    /// A job after one of its records.
    pub(super) fn apply(&mut self, id: JobId, seen: &Seen) {
        match seen.is_queued() && seen.submit.pass.is_some() {
            true => self.begin.insert(id),
            false => self.begin.remove(&id),
        };
        if !seen.suspension.standing().is_without_cores() {
            self.back.remove(&id);
        }
    }

    pub(super) fn forget(&mut self, id: JobId) {
        self.begin.remove(&id);
        self.back.remove(&id);
    }
}

impl Sched {
    /// After a record: starts what it lets start.
    pub(super) fn start_passed(
        &mut self,
        now: Time,
        kind: &Kind,
        job: Option<JobId>,
        out: &mut Outbox,
    ) {
        match (kind, job) {
            (Kind::Priority(_), Some(job)) if self.passed.begin.contains(&job) => {
                if !self.start_one(now, job, out) {
                    out.volatile(Volatile::Wake(now.after(BOUNCE_AFTER)));
                }
            }
            (Kind::Alloc(_), Some(job)) if self.grounds.are_for(job) => {
                self.start_all_passed(now, out);
            }
            (Kind::Resume(_), Some(job)) => self.go_on(now, job, out),
            // What was suspended has given cores back.
            (Kind::Free | Kind::GrantChanged(_), Some(_))
            | (Kind::Undrain(_) | Kind::ShellStart(..), None) => {
                self.start_all_passed(now, out);
            }
            _ => {}
        }
    }

    pub(super) fn start_all_passed(&mut self, now: Time, out: &mut Outbox) {
        let mut taken = JustTaken::default();
        for (job, cores) in &self.passed.back {
            if let Some(grant) = self.grant_back(*job, cores, &taken) {
                taken.add(cores, None);
                out.append(now, *job, Kind::GrantChanged(Arc::new(grant)));
            }
        }
        let jobs: Vec<JobId> = self.passed.begin.iter().copied().collect();
        for job in jobs {
            if let Some(grant) = self.passed_grant(job, &taken) {
                let seen = self.jobs.get(&job);
                taken.add(&grant.set, seen.and_then(Seen::grows));
                out.append(now, job, Kind::Alloc(Arc::new(grant)));
            }
        }
    }

    /// A leader begins: who waited already goes back in time.
    pub(super) fn resume_passed(&mut self, now: Time, out: &mut Outbox) {
        self.start_all_passed(now, out);
        if !self.passed.begin.is_empty() {
            out.volatile(Volatile::Wake(now));
        }
    }

    fn start_one(&self, now: Time, job: JobId, out: &mut Outbox) -> bool {
        let grant = self.passed_grant(job, &JustTaken::default());
        let starts = grant.is_some();
        if let Some(grant) = grant {
            out.append(now, job, Kind::Alloc(Arc::new(grant)));
        }
        starts
    }

    /// The parent has said on which cores one goes on.
    pub(super) fn goes_back(&mut self, job: JobId, attempt: Attempt, cores: &Arc<ResourceSet>) {
        let seen = self.jobs.get(&job);
        let pass = seen.and_then(|seen| seen.submit.pass.as_ref());
        if pass.is_some_and(|pass| pass.attempt == attempt) {
            self.passed.back.insert(job, Arc::clone(cores));
        }
    }

    /// Lets one go on that was suspended, if what its parent said is there now.
    pub(super) fn go_on(&self, now: Time, job: JobId, out: &mut Outbox) {
        let cores = self.passed.back.get(&job);
        let grant = cores.and_then(|cores| self.grant_back(job, cores, &JustTaken::default()));
        if let Some(grant) = grant {
            out.append(now, job, Kind::GrantChanged(Arc::new(grant)));
        }
    }

    fn grant_back(&self, job: JobId, cores: &ResourceSet, taken: &JustTaken) -> Option<Grant> {
        let seen = self.jobs.get(&job).filter(|seen| seen.resumes())?;
        let goes_on = self.intake == Intake::Open && self.is_free(cores, taken);
        let grant = seen.suspension.with_cores(cores).filter(|_| goes_on)?;
        seen.suspension.is_whole(&grant).then_some(grant)
    }

    /// What the parent said, if that is there now.
    fn passed_grant(&self, job: JobId, taken: &JustTaken) -> Option<Grant> {
        let seen = self.jobs.get(&job)?;
        let submit = &seen.submit;
        let set = &submit.pass.as_ref()?.set;
        let shells = self.shells_of(set, submit.spec.request.takes)?;
        let may = self.may_grow(seen) && self.is_apart(seen, set, taken);
        let starts = may && self.intake == Intake::Open && self.is_free(set, taken);
        starts.then(|| Grant {
            epoch: Epoch(1),
            set: Arc::clone(set),
            shells,
            beside: Default::default(),
        })
    }

    /// Gives back what has waited too long: the parent, who thought otherwise, plans it again.
    pub(super) fn bounce(&self, now: Time, out: &mut Outbox) {
        for job in &self.passed.begin {
            let Some(seen) = self.jobs.get(job) else {
                continue;
            };
            let due = seen.eligible.after(BOUNCE_AFTER);
            if due > now {
                out.volatile(Volatile::Wake(due));
                continue;
            }
            let exception = Exception {
                kind: BOUNCE.to_owned(),
                severity: 0,
                note: self.in_the_way(job),
                userid: None,
            };
            out.append(now, *job, Kind::Exception(Box::new(exception)));
        }
    }

    fn in_the_way(&self, job: &JobId) -> String {
        let pass = self.jobs.get(job).and_then(|seen| seen.submit.pass.clone());
        let ranks = pass.map(|pass| pass.set.ranks()).unwrap_or_default();
        let away = ranks.difference(&self.online);
        let drained = ranks.intersect(&self.drained);
        let span = BOUNCE_AFTER;
        match (away.is_empty(), drained.is_empty()) {
            (false, _) => format!("ranks {away} were not there for {span} s"),
            (true, false) => format!("ranks {drained} are drained"),
            (true, true) => format!("ranks {ranks} were not free for {span} s"),
        }
    }
}

/// The type of the exception by which a job goes back to the parent that passed it.
pub const BOUNCE: &str = "bounce";
