//! How many jobs there may be at a time: of all users, of one, and of one submission.
//!
//! Part of [`super::Ingest`]. Who administers the instance is held to the first alone. All of a submission is recorded
//! in one turn, so that it is taken whole or not at all; of other users none should keep the instance for long by
//! that, nor leave no room for those beside him.

use std::collections::BTreeMap;

use eddy_wire::error::{Code, Refusal};
use eddy_wire::message::Roles;

use crate::settings::UserMax;

/// What there is room for.
#[derive(Debug)]
pub(super) struct Room {
    jobs_max: u64,
    user_max: UserMax,
    /// Jobs that are not over, of all and of each who has one.
    all: u64,
    of_user: BTreeMap<u32, u64>,
}

impl Room {
    /// For so many, and there are none yet.
    pub(super) fn new(jobs_max: u64, user_max: UserMax) -> Room {
        Room {
            jobs_max,
            user_max,
            all: 0,
            of_user: BTreeMap::new(),
        }
    }

    /// From now on for so many.
    pub(super) fn most(&mut self, jobs_max: u64, user_max: UserMax) {
        (self.jobs_max, self.user_max) = (jobs_max, user_max);
    }

    pub(super) fn submitted(&mut self, user: u32) {
        self.all += 1;
        *self.of_user.entry(user).or_default() += 1;
    }

    /// One is over; whose it was, if that is known.
    pub(super) fn ended(&mut self, user: Option<u32>) {
        self.all -= 1;
        let Some(user) = user else { return };
        if let Some(count) = self.of_user.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                self.of_user.remove(&user);
            }
        }
    }

    /// Whether a submission may have so many copies at all.
    pub(super) fn lets_copies(&self, count: u64, roles: Roles) -> Result<(), Refusal> {
        let (all, UserMax { jobs, copies }) = (self.jobs_max, self.user_max);
        let text = if count == 0 {
            return Err(Refusal::invalid(
                "cc: an empty set given, at least one id is needed",
            ));
        } else if count > all {
            // Waiting for others to be over does not help.
            format!(
                "cc: {count} ids given, at most {all} jobs are there at a time (limit `waiting_jobs`)"
            )
        } else if roles.may_administer() || count <= copies.min(jobs) {
            return Ok(());
        } else if copies <= jobs {
            format!(
                "cc: {count} ids given, a user may submit {copies} jobs at once (limit `user_copies`)"
            )
        } else {
            format!(
                "cc: {count} ids given, a user may have {jobs} jobs that are not over (limit `user_jobs`)"
            )
        };
        Err(Refusal::new(Code::TooLarge, text))
    }

    /// Whether there is room for so many more jobs of that user, whom limits of one user hold if `is_held`.
    pub(super) fn is_there(&self, user: u32, count: u32, is_held: bool) -> Result<(), Refusal> {
        let (all, of_user) = (self.jobs_max, self.user_max.jobs);
        let has = self.of_user.get(&user).copied().unwrap_or(0);
        let text = if self.all + u64::from(count) > all {
            format!(
                "the instance has {} jobs that are not over; the limit `waiting_jobs` is {all}",
                self.all
            )
        } else if is_held && has + u64::from(count) > of_user {
            format!(
                "user {user} has {has} jobs that are not over; the limit `user_jobs` is {of_user}"
            )
        } else {
            return Ok(());
        };
        Err(Refusal::new(Code::Busy, text))
    }
}
