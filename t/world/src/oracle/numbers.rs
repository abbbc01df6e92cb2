//! Whether who submits over one connection is given numbers in the order in which that was sent.
//!
//! Of what is new alone: what was there before has the number that it has. Filters take the time that each takes, what
//! a queue instance hands up has numbers of its parent, and about the jobs that one waits for the journal is asked
//! while others go on: these are not looked at.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Caller, ClientId, Reply};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Need;
use eddy_wire::message::Type;
use eddy_wire::services::job::Submitted;
use uuid::Uuid;

use super::{Nested, Oracle};
use crate::call::About;

/// The submissions that one leader heard.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    /// How many.
    heard: u64,
    /// Their keys.
    keys: BTreeSet<(u32, Uuid)>,
    /// Those that are new and not answered, by when they came.
    under_way: BTreeMap<Caller, u64>,
    /// The first job of each that is answered.
    given: BTreeMap<ClientId, BTreeMap<u64, JobId>>,
}

impl Numbers {
    /// One came, which may have been taken before.
    fn heard(&mut self, caller: Caller, name: (u32, Uuid), is_known: bool) {
        self.heard += 1;
        if self.keys.insert(name) && !is_known {
            self.under_way.insert(caller, self.heard);
        }
    }

    /// It is answered with this number.
    fn answered(&mut self, caller: Caller, job: JobId) -> Result<(), String> {
        let Some(when) = self.under_way.remove(&caller) else {
            return Ok(());
        };
        let given = self.given.entry(caller.client).or_default();
        let before = given.range(..when).next_back();
        let after = given.range(when..).next();
        if let Some((_, before)) = before.filter(|(_, before)| **before > job) {
            return Err(format!("job {job} was submitted after job {before}"));
        }
        if let Some((_, after)) = after.filter(|(_, after)| **after < job) {
            return Err(format!("job {after} was submitted after job {job}"));
        }
        given.insert(when, job);
        Ok(())
    }

    /// The leader is gone: over its connections comes nothing more.
    pub fn forget(&mut self) {
        *self = Numbers::default();
    }
}

impl Oracle {
    /// Nothing but the order in which they came says which number who has.
    fn numbers_in_turn(&self) -> bool {
        self.nested == Nested::Own && !self.screened.has_any()
    }

    /// A call reached the leader.
    pub(super) fn comes(&mut self, caller: Caller, about: &About) {
        if let (About::Submit { user, key, .. }, true) = (about, self.numbers_in_turn()) {
            let is_known = self.recorded.keys.contains_key(&(*user, *key, 0));
            self.numbers.heard(caller, (*user, *key), is_known);
        }
    }

    /// A call is answered.
    pub(super) fn is_in_turn(&mut self, reply: &Reply) -> Result<(), String> {
        if reply.kind != Type::Reply || !self.numbers_in_turn() {
            return Ok(());
        }
        match serde_json::from_slice::<Submitted>(&reply.body) {
            Ok(told) if !self.awaits_another(told.first) => {
                self.numbers.answered(reply.to, told.first)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether a job waits for others by their numbers.
    fn awaits_another(&self, job: JobId) -> bool {
        let needs = self
            .durable
            .jobs
            .get(&job)
            .map(|job| &job.submit.spec.needs);
        needs.is_some_and(|needs| {
            let mut needs = needs.iter();
            needs.any(|need| matches!(need, Need::After(..) | Need::Within(..)))
        })
    }
}
