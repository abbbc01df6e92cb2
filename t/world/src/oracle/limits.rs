//! Whether a limit is ever exceeded: counted anew from all records at each place given, and of what is held
//! at each grant.
//!
//! Knows accounts and configurations as recorded and jobs as submitted, nothing of how they are let through.
//! What a job takes of a limit it does not know either: at a place it counts the least that it may be, and at
//! a grant what is held.

mod grades;
mod periods;
mod turns;
mod whose;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_modules::live::{Change, Live};
use eddy_wire::account::{Excess, Limits, STANDBY};
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::held::{Fate, Held};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::jobspec::{MemoryNeed, Sharing, Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::queue::Gates;
use eddy_wire::time::{MICROS, Time};
use eddy_wire::update;
use eddy_wire::usage::Payer;

use super::Ledger;
use grades::Obeyed;
use periods::Periods;
use whose::{Rules, Whose};

/// Jobs that are not over, and whose limits there are.
#[derive(Debug, Default)]
pub struct Limited {
    rules: Rules,
    jobs: BTreeMap<JobId, Seen>,
    used: Periods,
    obeyed: Obeyed,
    gates: Gates,
    /// Which limits counted as somebody was let through, by that record.
    places: BTreeMap<Seq, Vec<(Whose, Limits)>>,
}

#[derive(Debug)]
struct Seen {
    submit: Arc<Submit>,
    state: JobState,
    place: i64,
    urgency: u8,
    /// Since when it waits as it does.
    since: Time,
    /// The record by which it was let through last, unless an instance did that.
    let_through: Option<Seq>,
    grant: Option<Arc<Grant>>,
    /// What it is charged.
    held: Held,
    /// Whether a limit of size counted for it as it came.
    sized: Sized,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sized {
    No,
    Yes,
}

/// What is had of a limit at a time.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    jobs: u64,
    nodes: u64,
    cores: u64,
    gpus: u64,
    memory: u64,
}

/// The first limit that is had more of.
fn first_over(
    all: impl IntoIterator<Item = (&'static str, u64, Option<u64>)>,
) -> Option<(&'static str, u64, u64)> {
    let mut all = all
        .into_iter()
        .filter_map(|(name, has, most)| Some((name, has, most?)));
    all.find(|(_, has, most)| has > most)
}

impl Taken {
    fn plus(self, other: Taken) -> Taken {
        Taken {
            jobs: self.jobs + other.jobs,
            nodes: self.nodes + other.nodes,
            cores: self.cores + other.cores,
            gpus: self.gpus + other.gpus,
            memory: self.memory + other.memory,
        }
    }

    /// The limit that this is over.
    fn over(self, limits: &Limits) -> Option<(&'static str, u64, u64)> {
        first_over([
            (
                "running_jobs",
                self.jobs,
                limits.running_jobs.map(u64::from),
            ),
            ("nodes", self.nodes, limits.nodes.map(u64::from)),
            ("cores", self.cores, limits.cores.map(u64::from)),
            ("gpus", self.gpus, limits.gpus.map(u64::from)),
            ("memory", self.memory, limits.memory),
        ])
    }

    /// The limit of one job that this is over, had by one.
    fn over_each(self, limits: &Limits) -> Option<(&'static str, u64, u64)> {
        first_over([
            ("job_nodes", self.nodes, limits.job_nodes.map(u64::from)),
            ("job_cores", self.cores, limits.job_cores.map(u64::from)),
            ("job_gpus", self.gpus, limits.job_gpus.map(u64::from)),
            ("job_memory", self.memory, limits.job_memory),
        ])
    }
}

impl Seen {
    /// Whether it has been let through, or holds something.
    fn is_through(&self) -> bool {
        self.grant.is_some()
            || self.state == JobState::Run
            || self.state == JobState::Sched && self.place > 0
    }

    fn stands_by(&self) -> bool {
        let qos = self.submit.party.qos.as_ref();
        qos.is_some_and(|qos| qos.as_str() == STANDBY)
    }

    /// What it will have at least. An instance may have given some of it back.
    fn least(&self) -> Taken {
        let request = &self.submit.spec.request;
        let asked = Taken {
            jobs: 1,
            nodes: u64::from(request.nodes.unwrap_or(1)),
            cores: u64::from(request.slots) * u64::from(request.cores_per_slot),
            gpus: u64::from(request.slots) * u64::from(request.gpus_per_slot),
            memory: match request.memory {
                MemoryNeed::None => 0,
                MemoryNeed::PerNode(bytes) => bytes * u64::from(request.nodes.unwrap_or(1)),
                MemoryNeed::PerCore(bytes) => {
                    bytes * u64::from(request.slots) * u64::from(request.cores_per_slot)
                }
                MemoryNeed::PerTask(bytes) => bytes * u64::from(request.ntasks),
            },
        };
        match (&request.work, self.holds()) {
            (Work::Instance { .. } | Work::Ground { .. }, Some(holds)) => Taken {
                nodes: asked.nodes.min(holds.nodes),
                cores: asked.cores.min(holds.cores),
                gpus: asked.gpus.min(holds.gpus),
                memory: asked.memory.min(holds.memory),
                ..asked
            },
            _ => asked,
        }
    }

    /// What it has. One that came before nodes were limited, and does not say on how many its slots are to
    /// lie, counts as on one.
    fn holds(&self) -> Option<Taken> {
        let set = &self.grant.as_ref()?.set;
        let request = &self.submit.spec.request;
        let is_anywhere = request.nodes.is_none() && request.sharing == Sharing::Shared;
        Some(Taken {
            jobs: 1,
            nodes: match is_anywhere {
                true => 1,
                false => set.nodes.len() as u64,
            },
            cores: set.nodes.values().map(|node| node.cores.len()).sum(),
            gpus: set.nodes.values().map(|node| node.gpus.len()).sum(),
            memory: set.memory(),
        })
    }

    /// Whether it is within what one job may have, where it has or will have this.
    fn within_each(
        &self,
        id: JobId,
        has: Taken,
        (whose, limits): (&Whose, &Limits),
    ) -> Result<(), String> {
        if let Some((limit, has, most)) = has.over_each(limits) {
            return Err(format!(
                "job {id} has or will have {has} `{limit}`, and {whose} lets one have {most}"
            ));
        }
        let time = self.submit.spec.request.duration;
        match limits
            .job_time
            .filter(|most| time.is_none_or(|time| time > most.0))
        {
            Some(most) => Err(format!(
                "job {id} was let through for {time:?} us, and {whose} lets one have {most} s"
            )),
            None => Ok(()),
        }
    }

    /// What it comes to if it is given no more than it asks for.
    fn least_work(&self) -> u128 {
        let limit = self.submit.spec.request.duration.unwrap_or(0).max(0);
        u128::from(self.least().cores) * limit.unsigned_abs() as u128
    }
}

impl Limited {
    /// This is in force now.
    pub fn configured(&mut self, live: &Live) {
        self.rules.configured(&live.qos, &live.queues);
        self.obeyed.configured(live);
    }

    /// Whether what is submitted so is of any limit.
    pub fn counts_for(&self, submit: &Submit) -> bool {
        !self.rules.of(submit).is_empty()
    }

    /// With the same configuration, and no records; what counted at those up to that one is still known.
    pub fn forgetful(&mut self, last: Seq) -> Limited {
        let mut places = std::mem::take(&mut self.places);
        places.retain(|seq, _| *seq <= last);
        Limited {
            rules: self.rules.forgetful(),
            obeyed: self.obeyed.forgetful(),
            places,
            ..Limited::default()
        }
    }

    /// What counted as jobs were let through that are over is not asked for any more.
    pub fn let_go(&mut self) {
        let through = self.jobs.values().filter_map(|seen| seen.let_through);
        let through: BTreeSet<Seq> = through.collect();
        self.places.retain(|seq, _| through.contains(seq));
    }

    /// One more record.
    ///
    /// # Errors
    /// It lets a job through over a limit, or gives it more than its limits were told of.
    pub fn apply(&mut self, record: &Record, ledger: &Ledger) -> Result<(), String> {
        match (&record.event.kind, record.event.job) {
            (Kind::Account(changed), _) => self.rules.changed(&changed.change),
            (Kind::Memo(memo), None) => {
                if self.obeyed.remarked(memo) {
                    self.wait_anew(record.event.t);
                }
                if let Some(Change { live, .. }) = Change::told(memo) {
                    self.rules.configured(&live.qos, &live.queues);
                }
            }
            (Kind::Queue(turned), _) => self.gates.apply(record.event.t, turned),
            (Kind::Submit(submit), Some(id)) => {
                let seen = Seen {
                    submit: Arc::clone(submit),
                    state: submit.entry.state(),
                    place: 0,
                    urgency: submit.urgency,
                    since: record.event.t,
                    let_through: None,
                    grant: None,
                    held: Held::default(),
                    sized: self.sized(submit),
                };
                self.jobs.insert(id, seen);
                return self.may_come(id);
            }
            (Kind::Clean, Some(id)) => {
                self.jobs.remove(&id);
            }
            // What an instance began without this one is recorded as it was: no limit undoes it.
            (Kind::Priority(place), Some(id)) if ledger.has_begun_below(id) => {
                if let Some(seen) = self.jobs.get_mut(&id) {
                    (seen.state, seen.place) = (JobState::Sched, *place);
                    seen.let_through = None;
                }
            }
            (_, Some(id)) => return self.moved(record, id),
            (_, None) => {}
        }
        Ok(())
    }

    fn moved(&mut self, record: &Record, id: JobId) -> Result<(), String> {
        let (t, kind) = (record.event.t, &record.event.kind);
        self.holds(t, id, kind);
        let Some(seen) = self.jobs.get_mut(&id) else {
            return Ok(());
        };
        seen.state = seen.state.next(kind).unwrap_or(seen.state);
        seen.waits_anew(t, kind);
        match kind {
            Kind::Alloc(grant) => {
                seen.grant = Some(Arc::clone(grant));
                self.may_hold(id)?;
                self.may_hold_alone(id)?;
                return self.fewest(id, grant.set.nodes.len());
            }
            Kind::GrantChanged(grant) => {
                seen.grant = Some(Arc::clone(grant));
            }
            kind if kind.frees() => seen.grant = None,
            Kind::Priority(place) => {
                seen.place = *place;
                return self.placed(record.seq, t, id);
            }
            Kind::JobspecUpdate(map) => {
                let stood = seen.stands_by();
                update::submit(&mut seen.submit, map);
                // Who did so before goes on to, also where he moves to others.
                if update::duration(map).is_none() && !stood {
                    return self.may_stand_by(id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// It has a place: it is let through, or held by its user.
    fn placed(&mut self, seq: Seq, t: Time, id: JobId) -> Result<(), String> {
        let seen = &self.jobs[&id];
        // Of what was passed down the parent has let it through, and has a judge of its own.
        if seen.place <= 0 || seen.submit.pass.is_some() {
            return Ok(());
        }
        let of = self.rules.of(&seen.submit);
        let of = self.places.entry(seq).or_insert(of).clone();
        if let Some(seen) = self.jobs.get_mut(&id) {
            seen.let_through = Some(seq);
        }
        for (whose, limits) in &of {
            let through = self.jobs.values().filter(|job| job.is_through());
            let taken = self.sum(whose, through, |job| Some(job.least()));
            if let Some((limit, has, most)) = taken.over(limits) {
                return Err(format!(
                    "job {id} was let through, and those of {whose} come to {has} `{limit}`, whose limit is {most}"
                ));
            }
            let seen = &self.jobs[&id];
            seen.within_each(id, seen.least(), (whose, limits))?;
            self.affords(t, id, (whose, limits))?;
        }
        self.passes_nobody(t, id)
    }

    fn sum<'a>(
        &self,
        whose: &Whose,
        jobs: impl Iterator<Item = &'a Seen>,
        takes: fn(&Seen) -> Option<Taken>,
    ) -> Taken {
        jobs.filter(|job| self.rules.counts(whose, &job.submit))
            .filter_map(takes)
            .fold(Taken::default(), Taken::plus)
    }

    /// What is held of a limit is within what it was as the last of those who hold it was let through: all of
    /// them counted then. Or within what it is now: once it is lifted nobody is kept from the most of a choice.
    fn may_hold(&self, id: JobId) -> Result<(), String> {
        let submit = &self.jobs[&id].submit;
        for (whose, now) in self.rules.of(submit) {
            let holds = || {
                let jobs = self.jobs.values().filter(|job| job.grant.is_some());
                jobs.filter(|job| self.rules.counts(&whose, &job.submit))
            };
            let last = holds().filter_map(|job| job.let_through).max();
            let then = last.and_then(|last| self.places.get(&last));
            let Some((_, limits)) = then.and_then(|all| all.iter().find(|(of, _)| *of == whose))
            else {
                continue;
            };
            // What instances began by themselves nobody let through.
            if holds().any(|job| job.let_through.is_none()) {
                continue;
            }
            let taken = self.sum(&whose, holds(), Seen::holds);
            if let Some((limit, has, most)) = taken.over(limits)
                && taken.over(&now).is_some()
            {
                return Err(format!(
                    "job {id} begins, and those of {whose} hold {has} `{limit}`, whose limit is {most}"
                ));
            }
        }
        Ok(())
    }

    /// What it holds itself is within what one may have, as its limits were when it was let through.
    fn may_hold_alone(&self, id: JobId) -> Result<(), String> {
        let seen = &self.jobs[&id];
        let then = seen.let_through.and_then(|seq| self.places.get(&seq));
        let now = self.rules.of(&seen.submit);
        let Some(holds) = seen.holds() else {
            return Ok(());
        };
        for (whose, limits) in then.into_iter().flatten() {
            let still = now.iter().find(|(of, _)| of == whose);
            if let (Some((limit, has, most)), Some((_, now))) = (holds.over_each(limits), still)
                && holds.over_each(now).is_some()
            {
                return Err(format!(
                    "job {id} begins with {has} `{limit}`, and {whose} lets one have {most}"
                ));
            }
        }
        Ok(())
    }

    /// What it held counts for whoever pays for it.
    fn holds(&mut self, t: Time, id: JobId, kind: &Kind) {
        let Some(seen) = self.jobs.get_mut(&id) else {
            return;
        };
        seen.held.apply(t, kind, |_| {});
        if !kind.frees() {
            return;
        }
        let (fate, stays) = seen.held.settle();
        if fate == Fate::Failed || whose::is_nobodys(&seen.submit) {
            return;
        }
        let payer = Payer {
            account: seen.submit.party.account.clone(),
            user: seen.submit.user,
            qos: seen.submit.party.qos.clone(),
            queue: whose::queue(&seen.submit).map(str::to_owned),
        };
        for stay in stays {
            self.used.add(&payer, (stay.from, stay.to), stay.held.cores);
        }
    }

    /// Whether all that is let through stays within core-minutes, by what it asks for at least.
    fn affords(
        &self,
        now: Time,
        id: JobId,
        (whose, limits): (&Whose, &Limits),
    ) -> Result<(), String> {
        let seen = &self.jobs[&id];
        let goes_beyond = |job: &Seen| limits.excess == Excess::Standby && job.stands_by();
        let Some(most) = limits.core_minutes.filter(|_| !goes_beyond(seen)) else {
            return Ok(());
        };
        if seen.submit.spec.request.duration.is_none() {
            return Err(format!(
                "job {id} was let through without a time limit, and {whose} has {most} core-minutes"
            ));
        }
        let counted = self.jobs.values().filter(|job| {
            job.is_through() && !goes_beyond(job) && self.rules.counts(whose, &job.submit)
        });
        let to_come: u128 = counted.map(Seen::least_work).sum();
        let (used, before) = self.used.of(&self.rules, whose, limits, now);
        let carried = {
            let at_most = u128::from(most) * u128::from(limits.carry) / 100;
            let left = u128::from(most).saturating_sub(before / (60 * MICROS as u128));
            left.min(at_most)
        };
        let most = u128::from(most) + carried;
        match used + to_come > most * 60 * MICROS as u128 {
            true => Err(format!(
                "job {id} was let through, and {whose} has {most} core-minutes: {used} core-us are used and {to_come} may be"
            )),
            false => Ok(()),
        }
    }

    fn may_stand_by(&self, id: JobId) -> Result<(), String> {
        let seen = &self.jobs[&id];
        // By the limits of all, since those of the QoS that it has now are others.
        let mut may = self.rules.of_anybody(&seen.submit);
        let may = may.any(|limits| limits.excess == Excess::Standby);
        match may || !seen.stands_by() {
            true => Ok(()),
            false => Err(format!("job {id} stands by, and no limit of it lets it")),
        }
    }

    /// Whether somebody limits how much a job like this may have.
    fn sized(&self, submit: &Submit) -> Sized {
        let is_of_size = |given: &Limits| {
            let is_of_size = given.limits_together() || given.limits_size_of_each();
            given.core_minutes.is_some() || is_of_size
        };
        match self
            .rules
            .of(submit)
            .iter()
            .any(|(_, given)| is_of_size(given))
        {
            true => Sized::Yes,
            false => Sized::No,
        }
    }

    /// Who leaves his number of nodes open is let through as the fewest, and is given those.
    fn fewest(&self, id: JobId, given: usize) -> Result<(), String> {
        let seen = &self.jobs[&id];
        let request = &seen.submit.spec.request;
        let is_sized = seen.sized == Sized::Yes && self.sized(&seen.submit) == Sized::Yes;
        let wider = request.choice.is_some() && request.nodes != Some(given as u32);
        // Of what was passed down the parent has let it through, and has a judge of its own.
        match is_sized && wider && seen.submit.pass.is_none() {
            true => Err(format!(
                "job {id} was given {given} nodes, and its limits were told of the fewest"
            )),
            false => Ok(()),
        }
    }

    /// Whether somebody waits to be let through by limits of which nobody has anything who may begin, and that are
    /// enough for it. What core-minutes leave others judge.
    pub fn forgotten(&self) -> Option<JobId> {
        let waits = |seen: &Seen| {
            let (submit, request) = (&seen.submit, &seen.submit.spec.request);
            // How many cores sockets have is not known here.
            let is_counted = request.sockets.is_none() && request.sharing == Sharing::Shared;
            let is_plain = request.choice.is_none() && is_counted;
            seen.state == JobState::Priority
                && submit.pass.is_none()
                && submit.taken_in.is_none()
                && is_plain
                && eddy_wire::gang::of(&submit.spec).is_ok_and(|gang| gang.is_none())
        };
        let lets = |seen: &Seen, (whose, limits): &(Whose, Limits)| {
            let through = self.jobs.values().filter(|job| job.is_through());
            let through = through.filter(|job| job.grant.is_some() || !self.is_stopped(job));
            let taken = self.sum(whose, through, |job| Some(job.least()));
            // On how many nodes one counts that came before the limit is not known here.
            let is_known = limits.nodes.is_none() || !is_spread(&seen.submit);
            // Who is over what one may have waits for ever.
            let is_one = !limits.limits_each();
            let is_free = taken.jobs == 0 && is_one && seen.least().over(limits).is_none();
            is_known && is_free && limits.core_minutes.is_none()
        };
        let waiting = self.jobs.iter();
        let waiting = waiting.filter(|(_, seen)| waits(seen) && !self.may_be_shut(seen));
        let mut forgotten = waiting.filter(|(_, seen)| {
            let of = self.rules.of(&seen.submit);
            of.iter().all(|one| lets(seen, one))
        });
        forgotten.next().map(|(id, _)| *id)
    }

    /// Whether there were not too many already, waiting or not, when it was taken. What an instance took
    /// without this one, or was passed, was not asked about here.
    fn may_come(&self, id: JobId) -> Result<(), String> {
        let submit = &self.jobs[&id].submit;
        if submit.taken_in.is_some() || submit.pass.is_some() {
            return Ok(());
        }
        for (whose, limits) in self.rules.of(submit) {
            if (limits.nodes.is_some() || limits.job_nodes.is_some()) && is_spread(submit) {
                return Err(format!(
                    "job {id} was taken without saying on how many nodes it lies, and {whose} limits them"
                ));
            }
            let Some(most) = limits.submitted_jobs else {
                continue;
            };
            let jobs = self.jobs.values();
            let own = jobs.filter(|job| self.rules.counts(&whose, &job.submit));
            let count = own.count();
            if count > most as usize {
                return Err(format!(
                    "job {id} was taken as number {count} of {whose}, of which {most} may be submitted"
                ));
            }
        }
        Ok(())
    }
}

/// Whether it may lie on any number of nodes, whoever is to say how many it has.
fn is_spread(submit: &Submit) -> bool {
    let request = &submit.spec.request;
    let is_own = matches!(request.work, Work::Tasks | Work::Instance { name: None });
    let is_anywhere = request.nodes.is_none() && request.takes == Takes::Resources;
    is_own && is_anywhere && submit.spec.jobspec.pieces() > 1
}
