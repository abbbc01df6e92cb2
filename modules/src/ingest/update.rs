//! Whether jobs may have other time limits: asked as of a submission, of what a longer one could be over.
//!
//! Who asks may (`manager/update.rs`). What an administrator says stands above the limits of queues and
//! accounts, as nothing of a submission does: it is said of one job that is known. It stands above nothing
//! that was promised: the end of the instance, and reservations.

use eddy_broker::{LimitChange, LimitedJob, NewLimit, NewLimits, Outbox, Sender};
use eddy_wire::error::Refusal;
use eddy_wire::services::job::{Changed, REFUSED_MAX};
use eddy_wire::time::Time;
use eddy_wire::update;

use super::Ingest;

impl Ingest {
    /// Records those that may be, and answers.
    pub(super) fn new_limits(&self, now: Time, limits: &NewLimits, out: &mut Outbox) {
        let mut changed = Changed {
            refused: limits.refused.clone(),
            ..Changed::default()
        };
        for new in &limits.asked {
            match self.may_last(now, limits.sender, new) {
                Ok(()) => {
                    changed.count += 1;
                    let by = Some(limits.sender.uid);
                    out.append(now, new.job, update::to_duration(new.limit, by, limits.key));
                }
                Err(refusal) => changed.refused.push((new.job, refusal.text)),
            }
        }
        changed.refused.truncate(REFUSED_MAX);
        out.reply(limits.caller, &changed);
    }

    fn may_last(&self, now: Time, sender: Sender, new: &NewLimit) -> Result<(), Refusal> {
        match (new.change, &new.stage) {
            (LimitChange::Shorter, _) => Ok(()),
            (LimitChange::Longer, LimitedJob::Waits) => self.may_ask(now, sender, new),
            (LimitChange::Longer, LimitedJob::Runs { ranks, until }) => {
                self.served.lasts(now, &new.submit.spec, *until)?;
                self.reserved.lets_on(&new.submit.spec, ranks, *until)
            }
        }
    }

    /// Whether one that waits could be submitted like that.
    fn may_ask(&self, now: Time, sender: Sender, new: &NewLimit) -> Result<(), Refusal> {
        let submit = &new.submit;
        let spec = submit.spec.with(None, Some(new.limit.0));
        self.served.admits(now, &spec)?;
        self.fits(&spec)?;
        self.fits_reservation(now, submit.user, &submit.party, &spec)?;
        if sender.roles.may_administer() {
            return Ok(());
        }
        self.is_let_in((submit.user, &submit.party), &spec)?;
        // It counts already.
        let count = 0;
        self.parties
            .within_limits(now, (submit.user, &submit.party), &spec, count)
    }
}
