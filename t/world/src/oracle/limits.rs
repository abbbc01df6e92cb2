//! Whether a limit is ever exceeded: counted anew from all records at each place given.
//!
//! Knows accounts as recorded and jobs as submitted, nothing of how they are let through.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::account::{Book, Excess, Limits, Name, STANDBY};
use eddy_wire::event::{Final, Kind, Record, Submit};
use eddy_wire::held::{Fate, Held};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Takes;
use eddy_wire::lifecycle::JobState;
use eddy_wire::time::{MICROS, Time};
use eddy_wire::update;

use super::Ledger;

/// Jobs that are not over, and the accounts.
#[derive(Debug, Default)]
pub struct Limited {
    book: Book,
    jobs: BTreeMap<JobId, Seen>,
    /// Core-microseconds that jobs of an account and those under it held, but those that stood by.
    used: BTreeMap<Name, u128>,
}

#[derive(Debug)]
struct Seen {
    submit: Arc<Submit>,
    state: JobState,
    place: i64,
    holds: Holds,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holds {
    Nothing,
    Something,
}

impl Seen {
    fn counts(&self, account: &Name, book: &Book) -> bool {
        let taken = self.holds == Holds::Something
            || self.state == JobState::Run
            || self.state == JobState::Sched && self.place > 0;
        taken && self.is_under(account, book)
    }

    /// Whether it is of the account, or of one under it, and asks for something.
    fn is_under(&self, account: &Name, book: &Book) -> bool {
        let own = self.submit.party.account.as_ref();
        let under = own.is_some_and(|own| book.line(own).any(|(name, _)| name == account));
        under && self.submit.spec.request.takes == Takes::Resources
    }

    fn stands_by(&self) -> bool {
        let qos = self.submit.party.qos.as_ref();
        qos.is_some_and(|qos| qos.as_str() == STANDBY)
    }

    /// What it comes to if it is given no more than it asks for.
    fn least_work(&self) -> u128 {
        let request = &self.submit.spec.request;
        let cores = u128::from(request.slots) * u128::from(request.cores_per_slot);
        cores * request.duration.unwrap_or(0).max(0).unsigned_abs() as u128
    }
}

impl Limited {
    /// One more record.
    ///
    /// # Errors
    /// It lets a job through over a limit, or gives it more than its limits were told of.
    pub fn apply(&mut self, record: &Record, ledger: &Ledger) -> Result<(), String> {
        match (&record.event.kind, record.event.job) {
            (Kind::Account(changed), _) => self.book.apply(&changed.change),
            (Kind::Submit(submit), Some(id)) => {
                let seen = Seen {
                    submit: Arc::clone(submit),
                    state: submit.entry.state(),
                    place: 0,
                    holds: Holds::Nothing,
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
                    seen.state = JobState::Sched;
                    seen.place = *place;
                }
            }
            (kind, Some(id)) => return self.moved(record.event.t, id, kind),
            (_, None) => {}
        }
        Ok(())
    }

    fn moved(&mut self, t: Time, id: JobId, kind: &Kind) -> Result<(), String> {
        self.holds(t, id, kind);
        let Some(seen) = self.jobs.get_mut(&id) else {
            return Ok(());
        };
        seen.state = seen.state.next(kind).unwrap_or(seen.state);
        match kind {
            Kind::Alloc(grant) => {
                seen.holds = Holds::Something;
                return self.least(id, grant.set.nodes.len());
            }
            Kind::Free | Kind::Release(_, Final::Free(_)) => seen.holds = Holds::Nothing,
            Kind::Priority(place) => {
                seen.place = *place;
                self.within(id)?;
                return self.affords(id);
            }
            Kind::JobspecUpdate(map) => {
                update::submit(&mut seen.submit, map);
                if update::duration(map).is_none() {
                    return self.may_stand_by(id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// What it held counts for its accounts.
    fn holds(&mut self, t: Time, id: JobId, kind: &Kind) {
        let Some(seen) = self.jobs.get_mut(&id) else {
            return;
        };
        seen.held.apply(t, kind);
        let (true, Some(account)) = (kind.frees(), &seen.submit.party.account) else {
            return;
        };
        let (fate, stays) = seen.held.settle();
        if fate == Fate::Failed || seen.stands_by() {
            return;
        }
        let work: u128 = stays.iter().map(|stay| stay.used().cores).sum();
        let line: Vec<Name> = self
            .book
            .line(account)
            .map(|(name, _)| name.clone())
            .collect();
        for name in line {
            *self.used.entry(name).or_default() += work;
        }
    }

    /// Whether all that is let through stays within the core-minutes of its accounts, by what it asks
    /// for at least.
    fn affords(&self, id: JobId) -> Result<(), String> {
        let seen = &self.jobs[&id];
        let Some(account) = &seen.submit.party.account else {
            return Ok(());
        };
        if seen.place <= 0 || seen.stands_by() || seen.submit.pass.is_some() {
            return Ok(());
        }
        for (name, account) in self.book.line(account) {
            let Some(most) = account.limits.core_minutes else {
                continue;
            };
            let jobs = self.jobs.values();
            let counted = jobs.filter(|job| job.counts(name, &self.book) && !job.stands_by());
            let to_come: u128 = counted.map(Seen::least_work).sum();
            let used = self.used.get(name).copied().unwrap_or(0);
            if used + to_come > u128::from(most) * 60 * MICROS as u128 {
                return Err(format!(
                    "job {id} was let through, and account `{name}` has {most} core-minutes: {used} core-us are used and {to_come} may be"
                ));
            }
        }
        Ok(())
    }

    fn may_stand_by(&self, id: JobId) -> Result<(), String> {
        let seen = &self.jobs[&id];
        let account = seen.submit.party.account.as_ref();
        let mut line = account.into_iter().flat_map(|own| self.book.line(own));
        let may = line.any(|(_, account)| account.limits.excess == Excess::Standby);
        match may || !seen.stands_by() {
            true => Ok(()),
            false => Err(format!("job {id} stands by, and no account of it lets it")),
        }
    }

    /// Whether somebody limits how much a job like this may have.
    fn sized(&self, submit: &Submit) -> Sized {
        let Some(account) = &submit.party.account else {
            return Sized::No;
        };
        let mut line = self.book.line(account);
        let limits = line.any(|(_, account)| {
            let given = &account.limits;
            given.nodes.is_some() || given.cores.is_some() || given.core_minutes.is_some()
        });
        match limits {
            true => Sized::Yes,
            false => Sized::No,
        }
    }

    /// Who leaves his number of nodes open is let through as the fewest, and is given those.
    fn least(&self, id: JobId, given: usize) -> Result<(), String> {
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

    /// Whether there were not too many of its accounts already, waiting or not, when it was taken. What an
    /// instance took without this one, or was passed, was not asked about here.
    fn may_come(&self, id: JobId) -> Result<(), String> {
        let submit = &self.jobs[&id].submit;
        if submit.taken_in.is_some() || submit.pass.is_some() {
            return Ok(());
        }
        let most = |limits: &Limits| limits.submitted_jobs;
        match self.over(id, most, Seen::is_under) {
            None => Ok(()),
            Some((name, count, most)) => Err(format!(
                "job {id} was taken as number {count} of account `{name}`, in which {most} may be submitted"
            )),
        }
    }

    fn within(&self, id: JobId) -> Result<(), String> {
        if self.jobs[&id].place <= 0 {
            return Ok(());
        }
        let most = |limits: &Limits| limits.running_jobs;
        match self.over(id, most, Seen::counts) {
            None => Ok(()),
            Some((name, count, most)) => Err(format!(
                "job {id} was let through as number {count} of account `{name}`, whose limit is {most}"
            )),
        }
    }

    /// An account of the job in which more count than may, how many do, and how many may.
    fn over(
        &self,
        id: JobId,
        most: fn(&Limits) -> Option<u32>,
        counts: fn(&Seen, &Name, &Book) -> bool,
    ) -> Option<(&Name, usize, u32)> {
        let submit = &self.jobs[&id].submit;
        let own = submit.party.account.as_ref()?;
        if submit.spec.request.takes == Takes::Nothing {
            return None;
        }
        self.book.line(own).find_map(|(name, account)| {
            let most = most(&account.limits)?;
            let jobs = self.jobs.values();
            let count = jobs.filter(|job| counts(job, name, &self.book)).count();
            (count > most as usize).then_some((name, count, most))
        })
    }
}
