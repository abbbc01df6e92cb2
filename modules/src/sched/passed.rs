//! Jobs that a parent passed down: they start where it said, as soon as that is there, and go on there
//! when they were suspended.
//!
//! The planner is not asked of them. One that cannot begin for [`BOUNCE_AFTER`] goes back; one that is to
//! go on waits, since the parent gives nobody else what it said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::{Exception, Kind, Together};
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
    /// Those of them that begin with others.
    groups: BTreeMap<Together, BTreeSet<JobId>>,
    /// To go on with these cores, as was said over a channel of this leader's life.
    back: BTreeMap<JobId, Arc<ResourceSet>>,
}

impl Passed {
    /// A job after one of its records.
    pub(super) fn apply(&mut self, id: JobId, seen: &Seen) {
        match (&seen.submit.pass, seen.is_queued()) {
            (Some(pass), true) => {
                self.begin.insert(id);
                if let Some(with) = pass.with {
                    self.groups.entry(with).or_default().insert(id);
                }
            }
            (Some(_), false) => self.begins_not(id),
            (None, _) => {}
        }
        if !seen.suspension.standing().is_without_cores() {
            self.back.remove(&id);
        }
    }

    pub(super) fn forget(&mut self, id: JobId) {
        self.begins_not(id);
        self.back.remove(&id);
    }

    fn begins_not(&mut self, id: JobId) {
        if self.begin.remove(&id) {
            self.groups.retain(|_, group| {
                group.remove(&id);
                !group.is_empty()
            });
        }
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
                if !self.start_with(now, job, &mut JustTaken::default(), out) {
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

    pub(super) fn start_all_passed(&self, now: Time, out: &mut Outbox) {
        let mut taken = JustTaken::default();
        for (job, cores) in &self.passed.back {
            if let Some(grant) = self.grant_back(*job, cores, &taken) {
                taken.add(cores, None);
                out.append(now, *job, Kind::GrantChanged(Arc::new(grant)));
            }
        }
        for job in &self.passed.begin {
            // Of those that start together the first asks for all.
            let group = self.group_of(*job).and_then(|(_, group)| group.first());
            if group.is_none_or(|first| first == job) {
                self.start_with(now, *job, &mut taken, out);
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

    /// With whom a job is to start, and who of them is there to begin.
    fn group_of(&self, job: JobId) -> Option<(Together, &BTreeSet<JobId>)> {
        let with = self.jobs.get(&job)?.submit.pass.as_ref()?.with?;
        Some((with, self.passed.groups.get(&with)?))
    }

    /// Starts a job with all that start with it, or nobody; says whether they start.
    fn start_with(&self, now: Time, job: JobId, taken: &mut JustTaken, out: &mut Outbox) -> bool {
        let mates = match self.group_of(job) {
            None => vec![job],
            Some((with, group)) if group.len() as u64 == u64::from(with.count) => {
                group.iter().copied().collect()
            }
            // One of them is still to come, or comes no more.
            Some(_) => return false,
        };
        let mut next = taken.clone();
        let mut grants = Vec::new();
        for mate in mates {
            let Some(grant) = self.passed_grant(mate, &next) else {
                return false;
            };
            let grows = self.jobs.get(&mate).and_then(Seen::grows);
            next.add(&grant.set, grows);
            grants.push((mate, grant));
        }
        *taken = next;
        for (mate, grant) in grants {
            out.append(now, mate, Kind::Alloc(Arc::new(grant)));
        }
        true
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
        let mut job = job;
        if let Some((Together { count, .. }, group)) = self.group_of(*job) {
            let there = group.len();
            if there as u64 != u64::from(count) {
                return format!(
                    "{there} of {count} that start together were there for {BOUNCE_AFTER} s"
                );
            }
            let alone = |mate: &&JobId| self.passed_grant(**mate, &JustTaken::default()).is_some();
            job = group.iter().find(|mate| !alone(mate)).unwrap_or(job);
        }
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
