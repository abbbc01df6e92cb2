//! Jobs that a parent passed down: they start where it said, as soon as that is there, and go on there
//! when they were suspended.
//!
//! The planner is not asked of them. One that cannot begin for [`BOUNCE_AFTER`] goes back; one that is to
//! go on waits, since the parent gives nobody else what it said.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::{Exception, Final, Kind, Pass, Together};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch, JobId};
use eddy_wire::lifecycle::JobState;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::present::JustTaken;
use super::seen::Seen;
use super::unordered::may_be_placed;
use super::{Intake, Sched};
use crate::jobs::Jobs;

/// How long a job waits for what its parent said is free and its shells to come. A parent gives a
/// node that it has just moved along with the job, and the node's shell is on its way then.
pub(super) const BOUNCE_AFTER: Span = Span::seconds(10);

/// Those that are not where their parent wants them.
#[derive(Default)]
pub(super) struct Passed {
    /// To begin, and with whom.
    begin: BTreeMap<JobId, Option<Together>>,
    /// Those of them that begin with others.
    groups: BTreeMap<Together, Group>,
    /// To go on with these cores, as was said over a channel of this leader's life.
    back: BTreeMap<JobId, Arc<ResourceSet>>,
    /// Where those begin that this instance took itself, as was said over such a channel, and when.
    placed: BTreeMap<JobId, (Time, Arc<Pass>)>,
}

/// Those who begin with each other.
#[derive(Default)]
struct Group {
    /// Who is there to begin.
    there: BTreeSet<JobId>,
    /// How many have begun.
    begun: u32,
}

impl Group {
    /// Whether nobody is missing.
    fn is_whole(&self, with: Together) -> bool {
        self.there.len() as u64 + u64::from(self.begun) == u64::from(with.count)
    }
}

impl Passed {
    /// A job after one of its records.
    pub(super) fn apply(&mut self, id: JobId, seen: &Seen) {
        // Where the parent says that it begins it is held by nobody.
        let begins = match seen.submit.is_taken_here() {
            true => seen.state == JobState::Sched && self.placed.contains_key(&id),
            false => seen.is_queued() && seen.submit.pass.is_some(),
        };
        let with = self.pass_of(id, seen).and_then(|(_, pass)| pass.with);
        match begins {
            true => {
                if self.begin.get(&id).is_some_and(|before| *before != with) {
                    self.begins_not(id, seen);
                }
                self.begin.insert(id, with);
                if let Some(with) = with {
                    self.groups.entry(with).or_default().there.insert(id);
                }
            }
            false => self.begins_not(id, seen),
        }
        if !seen.suspension.standing().is_without_cores() {
            self.back.remove(&id);
        }
    }

    pub(super) fn forget(&mut self, id: JobId, seen: &Seen) {
        self.begins_not(id, seen);
        self.back.remove(&id);
        self.placed.remove(&id);
    }

    /// Whether any is to begin, or may go on.
    pub(super) fn is_any(&self) -> bool {
        !self.begin.is_empty() || !self.back.is_empty()
    }

    /// The parent says where one begins that this instance took itself.
    pub(super) fn place(&mut self, now: Time, id: JobId, pass: Pass, seen: &Seen) {
        self.placed.insert(id, (now, Arc::new(pass)));
        self.apply(id, seen);
    }

    /// Whether one is there to begin, with whomever.
    pub(super) fn is_to_begin(&self, id: JobId) -> bool {
        self.begin.contains_key(&id)
    }

    /// Those that this instance took and that are kept back here, though the parent has said where they begin;
    /// since when.
    fn kept_back<'a>(&'a self, jobs: &'a Jobs<Seen>) -> impl Iterator<Item = (JobId, Time)> + 'a {
        let waits = |id: &JobId| {
            let seen = jobs.get(id);
            seen.is_some_and(|seen| seen.state != JobState::Sched && may_be_placed(seen.state))
        };
        let placed = self.placed.iter().filter(move |(id, _)| waits(id));
        placed.map(|(id, (t, _))| (*id, *t))
    }

    /// How it is to begin, and since when that is known.
    fn pass_of<'a>(&'a self, id: JobId, seen: &'a Seen) -> Option<(Time, &'a Pass)> {
        match self.placed.get(&id) {
            Some((t, pass)) => Some((*t, pass)),
            None => Some((seen.eligible, seen.submit.pass.as_ref()?)),
        }
    }

    /// Whether a job is there to begin, and none of those that begin with it is missing.
    pub(super) fn may_begin(&self, id: JobId) -> bool {
        let with = self.begin.get(&id);
        with.is_some_and(|with| {
            with.is_none_or(|with| {
                let group = self.groups.get(&with);
                group.is_some_and(|group| group.is_whole(with))
            })
        })
    }

    /// It has begun, or will not.
    fn begins_not(&mut self, id: JobId, seen: &Seen) {
        let Some(with) = self.begin.remove(&id).flatten() else {
            return;
        };
        if let Some(group) = self.groups.get_mut(&with) {
            group.there.remove(&id);
            group.begun += u32::from(seen.state == JobState::Run);
            if group.there.is_empty() {
                self.groups.remove(&with);
            }
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
            (Kind::Priority(_), Some(job)) if self.passed.begin.contains_key(&job) => {
                if !self.start_with(now, job, &mut JustTaken::default(), out) {
                    out.volatile(Volatile::Wake(now.after(BOUNCE_AFTER)));
                }
            }
            (Kind::Alloc(_), Some(job)) if self.grounds.are_for(job) => {
                self.start_all_passed(now, out);
            }
            (Kind::Resume(_), Some(job)) => self.go_on(now, job, out),
            // What was suspended has given cores back.
            (
                Kind::Free
                | Kind::Release(_, Final::Free(_) | Final::Over(_))
                | Kind::GrantChanged(_),
                Some(_),
            )
            | (Kind::Undrain(..) | Kind::ShellStart(..), None) => {
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
        for job in self.passed.begin.keys() {
            // Of those that start together the first asks for all.
            let group = self.group_of(*job);
            let group = group.and_then(|(_, group)| group.there.first());
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
    fn group_of(&self, job: JobId) -> Option<(Together, &Group)> {
        let with = (*self.passed.begin.get(&job)?)?;
        Some((with, self.passed.groups.get(&with)?))
    }

    /// Starts a job with all that start with it, or nobody; says whether they start.
    pub(super) fn start_with(
        &self,
        now: Time,
        job: JobId,
        taken: &mut JustTaken,
        out: &mut Outbox,
    ) -> bool {
        let mates = match self.group_of(job) {
            None => vec![job],
            Some((with, group)) if group.is_whole(with) => group.there.iter().copied().collect(),
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
        let (_, pass) = self.passed.pass_of(job, seen)?;
        let set = &pass.set;
        let shells = self.shells_of(set, submit.spec.request.takes)?;
        let may = self.may_grow(seen) && self.is_apart(seen, set, taken);
        let starts = may && self.intake == Intake::Open && self.is_free(set, taken);
        starts.then(|| Grant {
            epoch: Epoch(1),
            set: Arc::clone(set),
            shells,
            beside: Default::default(),
            passed: None,
        })
    }

    /// Gives back what has waited too long, with all that start with it: the parent, who thought otherwise,
    /// plans it again.
    pub(super) fn bounce(&self, now: Time, out: &mut Outbox) {
        let since = |job: &JobId| {
            let seen = self.jobs.get(job)?;
            let pass = self.passed.pass_of(*job, seen);
            Some(pass.map_or(seen.eligible, |(t, _)| t))
        };
        for job in self.passed.begin.keys() {
            let group = self.group_of(*job);
            // The last that came counts for all.
            let last = match group {
                Some((_, group)) => group.there.iter().filter_map(since).max(),
                None => since(job),
            };
            let Some(due) = last.map(|since| since.after(BOUNCE_AFTER)) else {
                continue;
            };
            if due > now {
                out.volatile(Volatile::Wake(due));
                continue;
            }
            let exception = Exception {
                kind: BOUNCE.to_owned(),
                severity: 0,
                note: self.in_the_way(job),
                userid: None,
                until: None,
            };
            out.append(now, *job, Kind::Exception(Box::new(exception)));
        }
        for (job, since) in self.passed.kept_back(&self.jobs) {
            let due = since.after(BOUNCE_AFTER);
            if due > now {
                out.volatile(Volatile::Wake(due));
                continue;
            }
            let exception = Exception {
                kind: BOUNCE.to_owned(),
                severity: 0,
                note: format!("it was kept back for {BOUNCE_AFTER} s"),
                userid: None,
                until: None,
            };
            out.append(now, job, Kind::Exception(Box::new(exception)));
        }
    }

    fn in_the_way(&self, job: &JobId) -> String {
        let mut job = job;
        if let Some((with, group)) = self.group_of(*job) {
            let (there, count) = (group.there.len(), with.count);
            if !group.is_whole(with) {
                return format!(
                    "{there} of {count} that start together were there for {BOUNCE_AFTER} s"
                );
            }
            let alone = |mate: &&JobId| self.passed_grant(**mate, &JustTaken::default()).is_some();
            let mut mates = group.there.iter();
            job = mates.find(|mate| !alone(mate)).unwrap_or(job);
        }
        let pass = self
            .jobs
            .get(job)
            .and_then(|seen| self.passed.pass_of(*job, seen));
        let ranks = pass.map(|(_, pass)| pass.set.ranks()).unwrap_or_default();
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
