//! Whether anybody is let through past one before him who waits by the same limits: he would never come to
//! have what he asks for, where many ask for less.

use eddy_wire::event::Kind;
use eddy_wire::gang;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::lifecycle::JobState;
use eddy_wire::queue::UNNAMED;
use eddy_wire::reservation;
use eddy_wire::time::Time;

use super::whose::{Whose, queue};
use super::{Limited, Limits, Seen, is_spread};

impl Seen {
    /// What changes its turn, or begins its wait.
    pub(super) fn waits_anew(&mut self, t: Time, kind: &Kind) {
        match kind {
            Kind::Urgency(urgency, _) => (self.urgency, self.since) = (*urgency, t),
            Kind::Depend | Kind::Requeue(_) | Kind::JobspecUpdate(_) => self.since = t,
            _ => {}
        }
    }

    /// Whether it is kept back by nothing but limits. How much others come to is not known here.
    fn is_kept_by_limits(&self) -> bool {
        let (submit, request) = (&self.submit, &self.submit.spec.request);
        let is_here = submit.pass.is_none() && submit.taken_in.is_none();
        let is_counted = request.sockets.is_none() && request.sharing == Sharing::Shared;
        let is_plain = request.choice.is_none() && is_counted && !is_spread(submit);
        let is_alone = gang::of(&submit.spec).is_ok_and(|gang| gang.is_none());
        let waits = self.state == JobState::Priority && self.urgency > 0;
        waits && is_here && is_plain && is_alone && request.grows().is_none()
    }
}

impl Limited {
    /// Those who wait may have another order from then on.
    pub(super) fn wait_anew(&mut self, t: Time) {
        self.jobs.values_mut().for_each(|seen| seen.since = t);
    }

    /// Whether nothing of its queue begins.
    pub(super) fn is_stopped(&self, seen: &Seen) -> bool {
        let queue = queue(&seen.submit).unwrap_or(UNNAMED);
        self.gates.stopped(queue).is_some()
    }

    /// Whether something else than limits may keep it from having a place: its queue is stopped, or it is for a
    /// reservation.
    pub(super) fn may_be_shut(&self, seen: &Seen) -> bool {
        self.is_stopped(seen) || reservation::of(&seen.submit.spec).is_some()
    }

    /// Whoever waited before that for a place by the same limits, and is before this one, has one.
    pub(super) fn passes_nobody(&self, t: Time, id: JobId) -> Result<(), String> {
        let own = &self.jobs[&id];
        let by = self.rules.of(&own.submit);
        // What is spent is for whoever it is enough for; and who asks for more than there is waits for ever.
        let is_held = |limits: &Limits| limits.core_minutes.is_none() && !limits.limits_each();
        if by.is_empty() || !by.iter().all(|(_, limits)| is_held(limits)) {
            return Ok(());
        }
        let turn = |id: JobId, seen: &Seen| (255 - seen.urgency, self.obeyed.of(&seen.submit), id);
        let may_have = |seen: &Seen| {
            let of: Vec<(Whose, Limits)> = self.rules.of(&seen.submit);
            of == by
                && of
                    .iter()
                    .all(|(_, limits)| seen.least().over(limits).is_none())
        };
        let mut before = self.jobs.iter().filter(|(other, seen)| {
            let is_before = turn(**other, seen) < turn(id, own) && seen.since < t;
            is_before && seen.is_kept_by_limits() && may_have(seen) && !self.may_be_shut(seen)
        });
        match before.next() {
            None => Ok(()),
            Some((other, _)) => Err(format!(
                "job {id} was let through past job {other}, which is before it and waits by the same limits"
            )),
        }
    }
}
