//! Who waits to be let through, by whose limits count for him, and behind whom he does.
//!
//! Part of the limits. Lets nobody through: the manager does, in the same order.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::account::Party;
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Reason;
use eddy_wire::spec::Spec;

use super::{Bound, Limits, Seen, Step, Whose, is_nobodys};

/// Of those who may be first of a limit so many are looked at for who is.
const LOOKED_AT: usize = 16;

/// In which order those whom a limit keeps back are let through: the most urgent, then the first submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    urgency: Reverse<u8>,
    pub job: JobId,
}

impl Turn {
    pub fn of(job: JobId, urgency: u8) -> Turn {
        Turn {
            urgency: Reverse(urgency),
            job,
        }
    }

    pub fn urgency(self) -> u8 {
        self.urgency.0
    }
}

/// Those who wait to be let through. Made when somebody asks, and kept from then on.
#[derive(Debug, Default)]
pub(super) struct Kept {
    by: OnceCell<BTreeMap<Whose, BTreeSet<Turn>>>,
}

impl Seen {
    /// Its turn, if it waits to be let through.
    fn turn(&self, id: JobId) -> Option<Turn> {
        let (state, urgency) = (self.stage.state, self.stage.urgency);
        let waits = state == JobState::Priority && urgency > 0 && !is_nobodys(&self.spec);
        waits.then(|| Turn::of(id, urgency))
    }
}

impl Limits {
    /// Limits are others: who waits by which is found anew when somebody asks.
    pub(super) fn forget_kept(&mut self) {
        self.kept.by.take();
    }

    /// One more of them, or one less.
    pub(super) fn count_kept(&mut self, id: JobId, step: Step) {
        let Some(mut kept) = self.kept.by.take() else {
            return;
        };
        self.add_kept(&mut kept, id, step);
        self.kept.by.set(kept).expect("they were just taken");
    }

    fn add_kept(&self, kept: &mut BTreeMap<Whose, BTreeSet<Turn>>, id: JobId, step: Step) {
        let Some((seen, turn)) = self
            .jobs
            .get(&id)
            .and_then(|seen| Some((seen, seen.turn(id)?)))
        else {
            return;
        };
        for whose in self.bound_by(&seen.party, seen.user, &seen.spec) {
            match step {
                Step::More => drop(kept.entry(whose).or_default().insert(turn)),
                Step::Less => {
                    if let Some(line) = kept.get_mut(&whose) {
                        line.remove(&turn);
                        if line.is_empty() {
                            kept.remove(&whose);
                        }
                    }
                }
            }
        }
    }

    fn kept(&self) -> &BTreeMap<Whose, BTreeSet<Turn>> {
        self.kept.by.get_or_init(|| {
            let mut kept = BTreeMap::new();
            let all = self.jobs.keys();
            all.for_each(|id| self.add_kept(&mut kept, *id, Step::More));
            kept
        })
    }

    /// Why a job is not let through, as of the last record: by what it asks for, or by whoever is before it.
    pub fn reason_then(&self, id: JobId) -> Option<Reason> {
        if let Some(bound) = self.binding_then(id) {
            return Some(bound.reason());
        }
        let seen = self.jobs.get(&id)?;
        let (head, bound) = self.behind((id, None), (seen.user, &seen.party, &seen.spec))?;
        Some(Reason::Behind {
            head,
            why: bound.reason().to_string(),
        })
    }

    /// Whom a job waits behind, and what keeps that one back, were it of that party, and asked for that, as
    /// urgently as that or as it does.
    pub fn behind(
        &self,
        (id, urgency): (JobId, Option<u8>),
        (user, party, spec): (u32, &Party, &Spec),
    ) -> Option<(JobId, Bound)> {
        let urgency = urgency.unwrap_or(self.jobs.get(&id)?.stage.urgency);
        let turn = Turn::of(id, urgency);
        let whose = self.bound_by(party, user, spec);
        whose.iter().find_map(|whose| self.first_of(whose, turn))
    }

    /// The first whom that limit keeps back, if it is before this one.
    fn first_of(&self, whose: &Whose, turn: Turn) -> Option<(JobId, Bound)> {
        let before = self.kept().get(whose)?.range(..turn).take(LOOKED_AT);
        let mut bound = before.filter_map(|turn| Some((turn.job, self.binding_then(turn.job)?)));
        bound.find(|(_, bound)| bound.whose == *whose && bound.holds_up())
    }
}
