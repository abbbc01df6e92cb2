//! A leader that has just begun: the ranks that were there come back to it one after the other.
//!
//! Until they have, nobody is taken from. What is free, or is being given up, on a rank that is not reached
//! yet would do in a moment, and who ended for the lack of it would have ended for nothing. And for a moment
//! nobody begins: on the first that are back narrow jobs would, however long, before a wide one that was
//! promised all of them.

use std::collections::BTreeSet;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Verdict};
use eddy_wire::time::{Span, Time};

use super::Sched;

/// So long nobody begins while ranks that had a shell are not back: twice the longest pause between two
/// tries to reach the leader.
const TOGETHER: Span = Span::seconds(2);
/// So long ranks that had a shell are waited for.
const SETTLING: Span = Span::seconds(10);
/// What was planned before the last of them came is heard within this time.
const UNDER_WAY: Span = Span::seconds(1);

/// Whether all that were there have come back.
#[derive(Debug, Default)]
pub(super) enum Settling {
    #[default]
    Over,
    /// These have not.
    Until {
        at: Time,
        missing: Idset,
        /// Until when nobody begins, unless all are back.
        together: Option<Time>,
        /// Who would have been taken from meanwhile.
        kept: BTreeSet<JobId>,
    },
}

impl Settling {
    /// Until when nobody is taken from.
    pub(super) fn until(&self, now: Time) -> Option<Time> {
        match self {
            Settling::Until { at, .. } if *at > now => Some(*at),
            Settling::Until { .. } | Settling::Over => None,
        }
    }
}

impl Settling {
    /// Which of the ranks that are reached the planner is told of: all at once.
    pub(super) fn shown(&self, online: &Idset) -> Idset {
        match self {
            Settling::Until {
                missing,
                together: Some(_),
                ..
            } if !missing.is_empty() => Idset::new(),
            Settling::Until { .. } | Settling::Over => online.clone(),
        }
    }
}

impl Sched {
    /// A leader begins.
    pub(super) fn settles(&mut self, now: Time, out: &mut Outbox) {
        self.await_instances(now, self.sets.elastic_away(), out);
        let shells: Idset = self.shells.keys().map(|rank| rank.0).collect();
        let expected = shells.intersect(&self.ranks).difference(&self.drained);
        let missing = expected.difference(&self.online);
        self.settling = match missing.is_empty() {
            true => Settling::Over,
            false => {
                let together = now.after(TOGETHER);
                out.volatile(Volatile::Wake(together));
                Settling::Until {
                    at: now.after(SETTLING),
                    missing,
                    together: Some(together),
                    kept: BTreeSet::new(),
                }
            }
        };
    }

    /// Nobody is taken from before then.
    pub(super) fn keep_all(
        &mut self,
        until: Time,
        verdicts: &[(JobId, Verdict)],
        out: &mut Outbox,
    ) {
        let is_taken = |verdict: &Verdict| matches!(verdict, Verdict::Preempt { .. });
        let taken = verdicts.iter().filter(|(_, verdict)| is_taken(verdict));
        let taken: BTreeSet<JobId> = taken.map(|(job, _)| *job).collect();
        if taken.is_empty() {
            return;
        }
        let goes_on = taken.iter().map(|job| Delta::Kept(*job, until));
        out.volatile(Volatile::Plan(goes_on.collect()));
        out.volatile(Volatile::Wake(until));
        if let Settling::Until { kept, .. } = &mut self.settling {
            kept.extend(taken);
        }
    }

    /// These are reached now.
    pub(super) fn reached(&mut self, now: Time, online: &Idset, out: &mut Outbox) {
        self.online.clone_from(online);
        self.come_back(now, out);
        self.tell_ranks(out);
        self.start_all_passed(now, out);
    }

    /// Once all are back it is over soon.
    fn come_back(&mut self, now: Time, out: &mut Outbox) {
        let Settling::Until { at, missing, .. } = &mut self.settling else {
            return;
        };
        if missing.is_empty() {
            return;
        }
        *missing = missing.difference(&self.online);
        if missing.is_empty() {
            *at = now.after(UNDER_WAY).min(*at);
            out.volatile(Volatile::Wake(*at));
        }
    }

    /// When it is over those that were kept may be taken from.
    pub(super) fn settled(&mut self, now: Time, out: &mut Outbox) {
        self.await_no_more(now, out);
        let Settling::Until {
            at, kept, together, ..
        } = &mut self.settling
        else {
            return;
        };
        let begins = together.take_if(|until| *until <= now).is_some();
        if *at > now {
            if begins {
                self.tell_ranks(out);
            }
            return;
        }
        let kept = std::mem::take(kept).into_iter();
        let open: Vec<Delta> = kept.map(|job| Delta::Kept(job, now)).collect();
        self.settling = Settling::Over;
        if !open.is_empty() {
            out.volatile(Volatile::Plan(open));
        }
    }
}
