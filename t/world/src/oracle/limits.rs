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
    /// It lets a job through over a limit.
    pub fn apply(&mut self, record: &Record) -> Result<(), String> {
        match (&record.event.kind, record.event.job) {
            (Kind::Account(changed), _) => self.book.apply(&changed.change),
            (Kind::Submit(submit), Some(id)) => {
                let seen = Seen {
                    submit: Arc::clone(submit),
                    state: JobState::New,
                    place: 0,
                    holds: Holds::Nothing,
                };
                self.jobs.insert(id, seen);
            }
            (Kind::Clean, Some(id)) => {
                self.jobs.remove(&id);
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
            Kind::Alloc(_) => seen.holds = Holds::Something,
            Kind::Free => seen.holds = Holds::Nothing,
            Kind::Priority(place) => {
                seen.place = *place;
                return self.within(id);
            }
            _ => {}
        }
        Ok(())
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
