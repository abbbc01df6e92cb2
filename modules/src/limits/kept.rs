//! Who waits to be let through, by whose limits count for him, behind whom he does, and who has a place meanwhile
//! that he has no use for.
//!
//! Part of the limits. Lets nobody through: the manager does, in the same order.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use eddy_wire::account::{Excess, Party};
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::Reason;
use eddy_wire::spec::Spec;
use eddy_wire::time::Time;

use super::check::Question;
use super::shut::Shut;
use super::{Alone, Bound, Counts, Limits, Order, Seen, Stage, Step, Whose, is_nobodys};

/// Of those who may be first of a limit so many are looked at for who is.
const LOOKED_AT: usize = 16;
/// So many give their places up at a time; their records bring more.
const YIELDS_MAX: usize = 64;

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

/// As what somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stand {
    /// To be let through.
    Kept,
    /// With a place, for what the planner finds.
    Placed,
    /// With a place, of a queue that is stopped or in a reservation: it may be that it cannot begin.
    Aside,
}

type Lines = BTreeMap<(Whose, Stand), BTreeSet<Turn>>;

/// Those who wait, by the limits that count for them. Made when somebody asks, and kept from then on.
#[derive(Debug, Default)]
pub(super) struct Kept {
    by: OnceCell<Lines>,
}

impl Seen {
    /// As what it waits, and its turn, if it does. What instances began or were passed is theirs to order.
    fn stands(&self, id: JobId, shut: &Shut) -> Option<(Stand, Turn)> {
        let Stage {
            state,
            urgency,
            place,
            since,
            ..
        } = self.stage;
        let waits = urgency > 0 && since.is_none() && !is_nobodys(&self.spec);
        let stand = match state {
            JobState::Priority => Stand::Kept,
            JobState::Sched if place <= 0 || self.order == Order::Elsewhere => return None,
            JobState::Sched if shut.may_shut(&self.spec) => Stand::Aside,
            JobState::Sched => Stand::Placed,
            _ => return None,
        };
        waits.then(|| (stand, Turn::of(id, urgency)))
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

    fn add_kept(&self, kept: &mut Lines, id: JobId, step: Step) {
        let seen = self.jobs.get(&id);
        let stands = seen.and_then(|seen| Some((seen, seen.stands(id, &self.shut)?)));
        let Some((seen, (stand, turn))) = stands else {
            return;
        };
        for whose in self.bound_by(&seen.party, seen.user, &seen.spec) {
            let of = (whose, stand);
            match step {
                Step::More => drop(kept.entry(of).or_default().insert(turn)),
                Step::Less => {
                    if let Some(line) = kept.get_mut(&of) {
                        line.remove(&turn);
                        if line.is_empty() {
                            kept.remove(&of);
                        }
                    }
                }
            }
        }
    }

    fn kept(&self) -> &Lines {
        self.kept.by.get_or_init(|| {
            let mut kept = BTreeMap::new();
            let all = self.jobs.keys();
            all.for_each(|id| self.add_kept(&mut kept, *id, Step::More));
            kept
        })
    }

    /// Those who wait by a limit like this.
    fn line(&self, whose: &Whose, stand: Stand) -> impl DoubleEndedIterator<Item = Turn> + '_ {
        let line = self.kept().get(&(whose.clone(), stand));
        line.into_iter().flatten().copied()
    }

    /// Those who have no use for their places, of the limits that keep a job back, until it would be let through; each
    /// with the record by which he waits for another.
    pub fn yielding(&mut self, now: Time, id: JobId) -> Vec<(JobId, Kind)> {
        self.counts();
        let Some(mut counts) = self.counts.take() else {
            return Vec::new();
        };
        let mut yielding = Vec::new();
        while yielding.len() < YIELDS_MAX
            && let Some(bound) = self.binding_by(now, &counts, id)
            && bound.alone == Alone::Within
            && let Some(other) = self.idle(now, &bound.whose, &yielding)
        {
            self.add(&mut counts, other, Step::Less);
            yielding.push(other);
        }
        // What they have counts until their records say otherwise.
        for other in &yielding {
            self.add(&mut counts, *other, Step::More);
        }
        self.counts.set(counts).expect("they were just taken");
        let again = |id: JobId| {
            let seen = self.jobs.get(&id)?;
            Some((id, Kind::Urgency(seen.stage.urgency, seen.user)))
        };
        yielding.into_iter().filter_map(again).collect()
    }

    /// What keeps a job back, where others have that.
    fn binding_by(&self, now: Time, counts: &Counts, id: JobId) -> Option<Bound> {
        let seen = self.jobs.get(&id)?;
        let whose = self.bound_by(&seen.party, seen.user, &seen.spec);
        let bound = self.over_counted(
            now,
            (whose, counts),
            (&seen.party, &seen.spec),
            Question::Start,
        );
        bound.filter(|bound| bound.excess != Excess::Standby)
    }

    /// One more who has a place by that limit and cannot begin.
    fn idle(&self, now: Time, whose: &Whose, but: &[JobId]) -> Option<JobId> {
        let mut aside = self.line(whose, Stand::Aside).map(|turn| turn.job);
        aside.rfind(|job| !but.contains(job) && self.is_shut(now, *job))
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
        let line = self.line(whose, Stand::Kept);
        let before = line.take_while(|other| *other < turn).take(LOOKED_AT);
        let open = before.filter(|other| !self.is_shut(self.t, other.job));
        let mut bound = open.filter_map(|turn| Some((turn.job, self.binding_then(turn.job)?)));
        bound.find(|(_, bound)| bound.whose == *whose && bound.holds_up())
    }
}
