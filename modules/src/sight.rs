//! Of whose jobs somebody is told: of everybody's, or, where listings are private, of his own only.
//!
//! Part of the modules that answer for jobs by their numbers; each folds it beside its own state. Whoever may not
//! know that a job is there is refused in the words that are said of a number that nobody has: where both are told
//! apart, asking for one number after the other is a listing. It opens no job to anybody: that is
//! [`Sender::may_act_for`].

use eddy_broker::Sender;
use eddy_wire::access::Access;
use eddy_wire::error::Refusal;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;

use crate::live;
use crate::settings::Settings;

/// What users know of each other's jobs.
#[derive(Debug, Default)]
pub(crate) struct Sight {
    access: Access,
}

impl Sight {
    /// As a start is told.
    pub(crate) fn new(settings: &Settings) -> Sight {
        Sight {
            access: settings.access.clone(),
        }
    }

    /// All of it, for instances that this one admits its users to.
    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Folds what may change it while the instance runs.
    pub(crate) fn apply(&mut self, record: &Record) {
        if let Kind::Memo(memo) = &record.event.kind
            && let Some(access) = live::admitted(memo)
        {
            self.access = access;
        }
    }

    /// Whose jobs a sender is shown: everybody's, or only those of this user.
    pub(crate) fn only(&self, sender: Sender) -> Option<u32> {
        self.access.only(sender.uid, sender.roles)
    }

    /// Whether a job of this user is, for this sender, none that is there.
    pub(crate) fn hides(&self, sender: Sender, user: u32) -> bool {
        self.only(sender).is_some_and(|own| own != user)
    }

    /// Whether a sender may act on a job of this user, and read what is its user's alone.
    ///
    /// # Errors
    /// Whose it is, or `unseen`, what is said of a number that nobody has, where he may not know that.
    pub(crate) fn permits(
        &self,
        sender: Sender,
        (job, user): (JobId, u32),
        unseen: impl FnOnce(JobId) -> Refusal,
    ) -> Result<(), Refusal> {
        match sender.may_act_for(user) {
            true => Ok(()),
            false if self.hides(sender, user) => Err(unseen(job)),
            false => Err(sender.refused(job, user)),
        }
    }
}

/// What is said of a number that nobody has, or nobody of whom the sender may know.
pub(crate) fn no_job(id: JobId) -> Refusal {
    Refusal::not_found(format!("id: {}", there_is_none(id)))
}

/// The same as words, in both spellings that people type: who gave one looks for it in the answer.
pub(crate) fn there_is_none(id: JobId) -> String {
    format!("there is no job {} ({id})", id.f58_ascii())
}
