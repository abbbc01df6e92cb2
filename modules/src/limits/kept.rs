//! Who waits to be let through, by whose limits count for him, behind whom he does, and who has a place meanwhile
//! that he has no use for.
//!
//! Part of the limits. Lets nobody through: the manager does, in the same order.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use eddy_sched::Grade;
use eddy_wire::account::{Excess, NOBODY, Party};
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

/// In which order those whom a limit keeps back are let through: the most urgent, then by QoS, class and queue as the
/// policy has it, then the first submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn {
    urgency: Reverse<u8>,
    grade: Grade,
    pub job: JobId,
}

impl Turn {
    fn of(job: JobId, urgency: u8, grade: Grade) -> Turn {
        let urgency = Reverse(urgency);
        Turn {
            urgency,
            grade,
            job,
        }
    }

    pub fn urgency(self) -> u8 {
        self.urgency.0
    }

    /// Whether it goes before another by more than having come first.
    fn outranks(self, other: Turn) -> bool {
        (self.urgency, self.grade) < (other.urgency, other.grade)
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

/// Who is to be let through, and in which turn.
#[derive(Clone, Copy)]
struct Asking<'a> {
    turn: Turn,
    who: (u32, &'a Party, &'a Spec),
}

type Lines = BTreeMap<(Whose, Stand), BTreeSet<Turn>>;

/// Those who wait, by the limits that count for them. Made when somebody asks, and kept from then on.
#[derive(Debug, Default)]
pub(super) struct Kept {
    by: OnceCell<Lines>,
}

impl Seen {
    /// As what it waits, if it does. What instances began or were passed is theirs to order.
    fn stands(&self, shut: &Shut) -> Option<Stand> {
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
        waits.then_some(stand)
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
        let stands = seen.and_then(|seen| Some((seen, seen.stands(&self.shut)?)));
        let Some((seen, stand)) = stands else {
            return;
        };
        let all = self.bound_by(&seen.party, seen.user, &seen.spec);
        if all.is_empty() {
            return;
        }
        let turn = self.turn_of(id, seen.stage.urgency, (&seen.party, &seen.spec));
        for whose in all {
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

    /// The turn of a job that is as urgent as that.
    pub fn turn(&self, id: JobId, urgency: u8) -> Turn {
        match self.jobs.get(&id) {
            Some(seen) => self.turn_of(id, urgency, (&seen.party, &seen.spec)),
            None => Turn::of(id, urgency, Grade::default()),
        }
    }

    /// The same, were it of that party.
    fn turn_of(&self, id: JobId, urgency: u8, (party, spec): (&Party, &Spec)) -> Turn {
        Turn::of(id, urgency, self.grade(party, spec))
    }

    /// Whose places a job is to have, each with the record by which he waits for another.
    pub fn yielding(&mut self, now: Time, id: JobId) -> Vec<(JobId, Kind)> {
        self.counts();
        let Some(mut counts) = self.counts.take() else {
            return Vec::new();
        };
        let yielding = self.jobs.get(&id).map(|seen| {
            let who = (seen.user, &seen.party, &*seen.spec);
            let turn = self.turn(id, seen.stage.urgency);
            self.yields(now, &mut counts, Asking { turn, who })
        });
        let yielding = yielding.unwrap_or_default();
        // What they have counts until their records say otherwise.
        for other in &yielding {
            self.add(&mut counts, *other, Step::More);
        }
        self.counts.set(counts).expect("they were just taken");
        let again = |id: JobId| {
            let seen = self.jobs.get(&id)?;
            Some((id, Kind::Urgency(seen.stage.urgency, NOBODY)))
        };
        yielding.into_iter().filter_map(again).collect()
    }

    /// Whether a job that is kept back would have the places of others, were it of that party, and asked for that, as
    /// urgently as that.
    pub fn has_places_instead(
        &self,
        now: Time,
        (id, urgency): (JobId, Option<u8>),
        who: (u32, &Party, &Spec),
    ) -> bool {
        let Some(seen) = self.jobs.get(&id) else {
            return false;
        };
        let urgency = urgency.unwrap_or(seen.stage.urgency);
        let turn = self.turn_of(id, urgency, (who.1, who.2));
        let asking = Asking { turn, who };
        let mut others = self.counts().clone();
        self.add(&mut others, id, Step::Less);
        self.yields(now, &mut others, asking);
        self.binding_by(now, &others, asking).is_none()
    }

    /// Of those by whom a limit keeps somebody back those who have no use for their places, and where that is not
    /// enough those whose turn is later by urgency or grade; what is left is without them.
    fn yields(&self, now: Time, counts: &mut Counts, asking: Asking<'_>) -> Vec<JobId> {
        let mut yielding = self.idle(now, counts, asking);
        yielding.extend(self.lesser(now, counts, asking));
        yielding
    }

    /// Those who have places and cannot begin, until it would be let through; what is left is without them.
    fn idle(&self, now: Time, counts: &mut Counts, asking: Asking<'_>) -> Vec<JobId> {
        let mut idle = Vec::new();
        while idle.len() < YIELDS_MAX
            && let Some(bound) = self.binding_by(now, counts, asking)
            && bound.alone == Alone::Within
        {
            let aside = self.line(&bound.whose, Stand::Aside).rev();
            let mut aside = aside
                .filter(|turn| !idle.contains(&turn.job))
                .take(YIELDS_MAX);
            let Some(other) = aside.find(|turn| self.is_shut(now, turn.job)) else {
                break;
            };
            self.add(counts, other.job, Step::Less);
            idle.push(other.job);
        }
        idle
    }

    /// Those who have places and only wait, the last first; nobody if that is not enough for one who outranks them.
    /// All of one limit, in whose line he stands: there they wait behind him, and do not come back before.
    fn lesser(&self, now: Time, counts: &mut Counts, asking: Asking<'_>) -> Vec<JobId> {
        let mut lesser = Vec::new();
        let Some(first) = self.binding_by(now, counts, asking).filter(Bound::holds_up) else {
            return lesser;
        };
        let mut of = Some(first.whose.clone());
        while let Some(whose) = of.filter(|of| *of == first.whose && lesser.len() < YIELDS_MAX) {
            let waits = [Stand::Placed, Stand::Aside].map(|stand| {
                let line = self.line(&whose, stand).rev();
                line.into_iter()
                    .find(|turn| turn.job != asking.turn.job && !lesser.contains(&turn.job))
            });
            let last = waits.into_iter().flatten().max();
            let Some(other) = last.filter(|turn| asking.turn.outranks(*turn)) else {
                break;
            };
            self.add(counts, other.job, Step::Less);
            lesser.push(other.job);
            of = match self.binding_by(now, counts, asking) {
                Some(bound) => Some(bound.whose),
                None => return lesser,
            };
        }
        for other in lesser.drain(..) {
            self.add(counts, other, Step::More);
        }
        lesser
    }

    /// What keeps somebody back, where others have that.
    fn binding_by(&self, now: Time, counts: &Counts, asking: Asking<'_>) -> Option<Bound> {
        let (user, party, spec) = asking.who;
        let whose = self.bound_by(party, user, spec);
        let bound = self.over_counted(now, (whose, counts), (party, spec), Question::Start);
        bound.filter(|bound| bound.excess != Excess::Standby)
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
        let turn = self.turn_of(id, urgency, (party, spec));
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
