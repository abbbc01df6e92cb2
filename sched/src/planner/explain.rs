//! Why jobs wait: the first of them after each pass, and those asked about.
//!
//! Called by the planner when it has planned. It changes nothing of the plan: what
//! would start when is tried out on a copy.

use eddy_wire::id::JobId;
use eddy_wire::plan::{Answer, Breakdown, Estimate, Explained, Question, Reason};
use eddy_wire::time::{Span, Time};

use super::{Place, Planner, Waiting};
use crate::occupancy::{Ask, CLEANUP};
use crate::placement::{Unplaced, place};
use crate::policy::{Reservations, Walk};
use crate::turns::Turn;
use crate::walk::{Agenda, Job, Progress, Room, Rules, Verdict};

/// How many that are ahead of a job are planned to say when it would start.
const AHEAD_MAX: usize = 1000;
/// Looks of such a plan.
const LOOKS_MAX: u64 = 10_000;

impl Planner {
    /// The first who waits in turn, and why.
    pub(super) fn head(&mut self, now: Time) -> Option<(JobId, Reason)> {
        let turn = *self.agenda.first()?;
        let request = &self.waiting[&turn.job].want.request;
        let why = match place(self.occupancy.inventory(), request, now) {
            Err(Unplaced::Never(reason) | Unplaced::Wait(reason)) => reason,
            Ok(_) => self.promised_to_others(turn, now),
        };
        Some((turn.job, why))
    }

    pub(super) fn answer(&mut self, question: &Question, now: Time) -> Answer {
        let turns = self.turns();
        let asked = |turn: &&(u64, Turn)| match &question.jobs {
            None => true,
            Some(ranges) => {
                let job = turn.1.job;
                ranges
                    .iter()
                    .any(|(first, last)| (*first..=*last).contains(&job))
            }
        };
        let about: Vec<(u64, Turn)> = turns.iter().filter(asked).copied().collect();
        let told = about.iter().take(question.most);
        Answer {
            tag: question.tag,
            jobs: told
                .map(|(ahead, turn)| self.explain(*turn, *ahead, now))
                .collect(),
            more: about.len().saturating_sub(question.most) as u64,
        }
    }

    /// All who wait for resources in the order of their turn, with how many are ahead.
    fn turns(&self) -> Vec<(u64, Turn)> {
        let turn = |waiting: &Waiting| match waiting.place {
            Place::Turn(turn) => Some(turn),
            Place::Aside | Place::Beside => None,
        };
        let mut turns: Vec<Turn> = self.waiting.values().filter_map(turn).collect();
        turns.sort_unstable();
        (0..).zip(turns).collect()
    }

    fn explain(&mut self, turn: Turn, ahead: u64, now: Time) -> Explained {
        let start = self.estimate(turn, now);
        let reason = self.reason(turn, ahead, now);
        Explained {
            job: turn.job,
            reason,
            ahead,
            start,
            priority: self.breakdown(turn.job),
        }
    }

    fn breakdown(&self, job: JobId) -> Breakdown {
        let want = &self.waiting[&job].want;
        Breakdown {
            policy: self.policy.preset.clone(),
            value: want.priority as f64,
            terms: Vec::new(),
        }
    }

    fn reason(&mut self, turn: Turn, ahead: u64, now: Time) -> Reason {
        let request = &self.waiting[&turn.job].want.request;
        let why = match place(self.occupancy.inventory(), request, now) {
            Err(Unplaced::Never(reason)) => return reason,
            Err(Unplaced::Wait(reason)) => reason,
            Ok(_) => return self.promised_to_others(turn, now),
        };
        match (self.policy.queue.walk, ahead) {
            (Walk::Stop, 1..) => self.behind(now),
            (Walk::Stop | Walk::Skip | Walk::Reserve { .. }, _) => why,
        }
    }

    /// Why one waits for which there is room now.
    fn promised_to_others(&mut self, turn: Turn, now: Time) -> Reason {
        if self.policy.queue.walk == Walk::Stop && self.agenda.first() != Some(&turn) {
            return self.behind(now);
        }
        let first = self.agenda.bookings().filter(|(other, _)| **other != turn);
        match first.min_by_key(|(_, booking)| booking.at) {
            Some((other, booking)) => Reason::WouldDelay {
                job: other.job,
                within: Span((booking.at - now).0.max(0)),
            },
            None => Reason::New,
        }
    }

    fn behind(&mut self, now: Time) -> Reason {
        match self.head(now) {
            Some((head, why)) => Reason::Behind {
                head,
                why: why.to_string(),
            },
            None => Reason::New,
        }
    }

    /// When it would start if nothing else came: at best as soon as all it needs is given back,
    /// at worst when all that runs and is ahead has run to its limit.
    fn estimate(&mut self, turn: Turn, now: Time) -> Option<Estimate> {
        if let Some(booking) = self.agenda.booking(&turn) {
            return Some(estimate(now, booking.at));
        }
        let ahead: Vec<Turn> = self.turns().iter().map(|(_, turn)| *turn).collect();
        let place = ahead.iter().position(|other| *other == turn)?;
        if place > AHEAD_MAX {
            return None;
        }
        let mut room = self.occupancy.clone();
        let promised: Vec<_> = self
            .agenda
            .bookings()
            .map(|(_, booking)| (booking.spot.clone(), booking.at, booking.span))
            .collect();
        for (spot, at, span) in &promised {
            room.give(spot, *at, *span);
        }
        let mut rules = Rules::from(&self.policy.queue);
        (rules.walk, rules.lookback) = (Walk::Reserve { depth: Walk::ALL }, None);
        (rules.reservations, rules.window) = (Reservations::Kept, None);
        let mut agenda = Agenda::new(rules);
        for turn in &ahead[..=place] {
            let want = &self.waiting[&turn.job].want;
            let limit = want.request.duration.filter(|limit| *limit > 0);
            let limit = limit.map(|limit| Span(limit.saturating_add(CLEANUP.0)));
            let entry = Job {
                need: Ask::new(turn.job, want.request.clone()),
                since: want.eligible,
            };
            agenda.enter(*turn, entry, limit, &room);
        }
        let mut found = Vec::new();
        if agenda.pass(&mut room, now, LOOKS_MAX, &mut found) == Progress::More {
            return None;
        }
        found.into_iter().find_map(|verdict| match verdict {
            Verdict::Start { key, .. } if key == turn => Some(estimate(now, now)),
            Verdict::Reserve { key, at, .. } if key == turn => Some(estimate(now, at)),
            Verdict::Start { .. } | Verdict::Reserve { .. } | Verdict::Wait { .. } => None,
        })
    }
}

fn estimate(now: Time, at: Time) -> Estimate {
    Estimate {
        earliest: now,
        latest: (at < Time(i64::MAX)).then_some(at),
    }
}
