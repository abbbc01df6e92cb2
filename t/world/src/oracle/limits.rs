//! Whether a limit is ever exceeded: counted anew from all records at each place given.
//!
//! Knows accounts as recorded and jobs as submitted, nothing of how they are let through.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::account::{Book, Name};
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Takes;
use eddy_wire::lifecycle::JobState;

use super::Ledger;

/// Jobs that are not over, and the accounts.
#[derive(Debug, Default)]
pub struct Limited {
    book: Book,
    jobs: BTreeMap<JobId, Seen>,
}

#[derive(Debug)]
struct Seen {
    submit: Arc<Submit>,
    state: JobState,
    place: i64,
    holds: Holds,
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
        let own = self.submit.party.account.as_ref();
        let under = own.is_some_and(|own| book.line(own).any(|(name, _)| name == account));
        taken && under && self.submit.spec.request.takes == Takes::Resources
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
                    state: JobState::New,
                    place: 0,
                    holds: Holds::Nothing,
                    sized: self.sized(submit),
                };
                self.jobs.insert(id, seen);
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
            (kind, Some(id)) => return self.moved(id, kind),
            (_, None) => {}
        }
        Ok(())
    }

    fn moved(&mut self, id: JobId, kind: &Kind) -> Result<(), String> {
        let Some(seen) = self.jobs.get_mut(&id) else {
            return Ok(());
        };
        seen.state = seen.state.next(kind).unwrap_or(seen.state);
        match kind {
            Kind::Alloc(grant) => {
                seen.holds = Holds::Something;
                return self.least(id, grant.set.nodes.len());
            }
            Kind::Free => seen.holds = Holds::Nothing,
            Kind::Priority(place) => {
                seen.place = *place;
                return self.within(id);
            }
            _ => {}
        }
        Ok(())
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

    fn within(&self, id: JobId) -> Result<(), String> {
        let seen = &self.jobs[&id];
        let Some(account) = &seen.submit.party.account else {
            return Ok(());
        };
        if seen.place <= 0 || seen.submit.spec.request.takes == Takes::Nothing {
            return Ok(());
        }
        for (name, account) in self.book.line(account) {
            let Some(most) = account.limits.running_jobs else {
                continue;
            };
            let jobs = self.jobs.values();
            let count = jobs.filter(|job| job.counts(name, &self.book)).count();
            if count > most as usize {
                return Err(format!(
                    "job {id} was let through as number {count} of account `{name}`, whose limit is {most}"
                ));
            }
        }
        Ok(())
    }
}
