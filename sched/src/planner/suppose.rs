//! What would be: a job that asks for something else, or another policy; and by
//! what change a job that waits would start now.
//!
//! Called where somebody asks. Suppositions are tried on a copy, by the same walk
//! that decides; nothing of the plan changes.

use std::sync::Arc;

use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::plan::{
    Answer, Basis, Delta, Estimate, Explained, Question, Reason, Suppose, Verdict, Want,
};
use eddy_wire::services::sched::SUPPOSED_MAX;
use eddy_wire::time::{MICROS, Span, Time};

use super::hindsight::Hindsight;
use super::{Place, Planner, Waiting};
use crate::occupancy::Occupancy;
use crate::policy::Walk;
use crate::turns::Turn;
use crate::walk::{Room, Rules};

/// Verdicts of one slice of a supposed pass, and how many slices it has at most.
const STEPS: u32 = 256;
const SLICES_MAX: u32 = 64;
/// Where more wait nobody is advised, and something is supposed of one job of those that are named: each is tried
/// on a copy of all of them.
const WAITING_MAX: usize = 10_000;
/// How many promises are tried as the time by which a shorter job could end.
const GAPS_MAX: usize = 64;
/// How many limits are tried by which more nodes are lent.
const LENT_MAX: usize = 8;

impl Planner {
    /// The same planner once more, with nobody asking.
    pub(crate) fn copy(&self) -> Planner {
        Planner {
            policy: self.policy.clone(),
            turns: self.turns.clone(),
            lined: self.lined,
            occupancy: self.occupancy.clone(),
            agenda: self.agenda.copy(),
            table: self.table.clone(),
            waiting: self.waiting.clone(),
            gangs: self.gangs.clone(),
            owners: self.owners.clone(),
            rows: self.rows.clone(),
            beside: self.beside.clone(),
            holdings: self.holdings.clone(),
            charged: self.charged.clone(),
            grounds: self.grounds.clone(),
            taking: self.taking.clone(),
            pass: self.pass,
            questions: Vec::new(),
            shares: Vec::new(),
            hindsight: Hindsight::default(),
        }
    }

    /// Each of those asked about as if it alone were changed so.
    pub(super) fn supposed(&self, question: &Question, now: Time) -> Answer {
        let waits = |one: &Waiting| matches!(one.place, Place::Row(_) | Place::Gathered);
        let mut asked = self
            .waiting
            .iter()
            .filter(|(job, one)| waits(one) && question.names(**job));
        let most = match self.waiting.len() > WAITING_MAX {
            true => 1,
            false => question.most.min(SUPPOSED_MAX),
        };
        let told = asked.by_ref().take(most);
        let suppose = |(job, one): (&JobId, &Waiting)| {
            let mut wants = question.wants.iter();
            let want = match wants.find(|(of, _)| of == job) {
                Some((_, want)) => want.clone(),
                None => changed(&one.want, &question.suppose),
            };
            self.suppose((*job, want), &question.suppose, now)
        };
        Answer {
            tag: question.tag,
            jobs: told.filter_map(suppose).collect(),
            more: asked.count() as u64,
            let_go: self.let_go(question, now),
        }
    }

    /// Each of those who wait for something else than resources as if it alone waited for these. Who came by
    /// that is one of a crowd is told nothing: each is tried on a copy of all of them.
    pub(super) fn let_go(&self, question: &Question, now: Time) -> Vec<Explained> {
        if question.wants.is_empty() || self.waiting.len() > WAITING_MAX {
            return Vec::new();
        }
        let is_here =
            |job: &JobId| self.waiting.contains_key(job) || self.holdings.contains_key(job);
        let wants = question.wants.iter().filter(|(job, _)| !is_here(job));
        let wants = wants.take(SUPPOSED_MAX).cloned();
        let told = wants.filter_map(|want| self.suppose(want, &question.suppose, now));
        // To follow advice a job would have to come again.
        let plain = |one| Explained {
            advice: Vec::new(),
            ..one
        };
        told.map(plain).collect()
    }

    fn suppose(
        &self,
        (job, want): (JobId, Want),
        suppose: &Suppose,
        now: Time,
    ) -> Option<Explained> {
        let mut other = self.copy();
        if let Some(policy) = &suppose.policy {
            other.apply(Delta::Policy(Arc::clone(policy)));
        }
        let own = self.waiting.get(&job);
        if own.is_none_or(|own| want != *own.want) {
            other.apply(Delta::Want(job, want.clone()));
        }
        // With its start it is charged for all that it may still use: that is no part of what lets it begin.
        other.catch_up(now);
        let due = other.turns.breakdown(&want, now);
        for _ in 0..SLICES_MAX {
            let outcome = other.plan(now, STEPS);
            let verdict = outcome.verdicts.into_iter().find(|(of, _)| *of == job);
            let (reason, start) = match verdict {
                Some((_, Verdict::Start(_))) => (Reason::New, Some(at_once(now))),
                Some((_, Verdict::Never(reason))) => (reason, None),
                // It waits, so that nobody takes from it.
                Some((_, Verdict::Preempt { .. })) => break,
                None if outcome.unfinished => continue,
                None => break,
            };
            return Some(Explained {
                job,
                reason,
                ahead: 0,
                start,
                priority: due,
                moved: None,
                sharing: Sharing::default(),
                advice: Vec::new(),
                lent: Vec::new(),
            });
        }
        let question = Question {
            tag: 0,
            jobs: Some(vec![(job, job)]),
            most: 1,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        };
        other.answer(&question, now).jobs.pop()
    }

    /// Whether a job that is taken back, and submitted now as asking for that, starts at once.
    fn starts_anew(&self, job: JobId, want: Want, now: Time) -> bool {
        const LAST: JobId = JobId(u64::MAX);
        let mut other = self.copy();
        let want = Want {
            submitted: now,
            eligible: now,
            ..want
        };
        other.apply(Delta::Unwant(job));
        other.apply(Delta::Want(LAST, want));
        for _ in 0..SLICES_MAX {
            let outcome = other.plan(now, STEPS);
            let verdict = outcome.verdicts.iter().find(|(of, _)| *of == LAST);
            match verdict {
                Some((_, Verdict::Start(_))) => return true,
                Some((_, Verdict::Never(_) | Verdict::Preempt { .. })) => return false,
                None if outcome.unfinished => {}
                None => return false,
            }
        }
        false
    }

    /// By what least changes of its limit or of its size a job would start now. Where accounts take
    /// turns it is not the job alone on which that depends, and nobody is advised.
    pub(super) fn advice(
        &self,
        turn: Turn,
        ahead: u64,
        (question, now): (&Question, Time),
    ) -> Vec<Suppose> {
        let is_tried = match self.policy.queue.walk {
            Walk::Stop => ahead == 0,
            Walk::Skip | Walk::Reserve { .. } => true,
        };
        let rules = Rules::from(&self.policy.queue);
        if !is_tried
            || self.is_in_gang(turn.job)
            || self.waiting[&turn.job].want.back.is_some()
            || self.waiting.len() > WAITING_MAX
            || rules.lookback.is_some_and(|most| ahead >= u64::from(most))
        {
            return Vec::new();
        }
        let mut room = self.occupancy.clone();
        if let Some(booking) = self.agenda.booking(&turn) {
            room.give(&booking.spot, booking.at, booking.span);
        }
        if let Some(promise) = self.table.as_ref().and_then(|table| table.promise(&turn)) {
            promise.give_back(&mut room);
        }
        let want = &self.waiting[&turn.job].want;
        let mut fits = |suppose: &Suppose| {
            let want = Arc::new(changed(want, suppose));
            let (job, limit) = self.alone(turn.job, &want);
            let fitting: Result<_, _> =
                Occupancy::fit(&mut room, &job.need, now, rules.span(limit));
            fitting.is_ok()
        };
        if fits(&Suppose::default()) {
            return Vec::new();
        }
        let shorter = self.gaps(turn, now).find(&mut fits);
        let smaller = smaller(want, &mut fits);
        // Who follows it takes the job back and comes again, behind all others, who may have what the
        // job was promised.
        let holds = |suppose: &Suppose| self.starts_anew(turn.job, changed(want, suppose), now);
        let shorter = shorter
            .filter(holds)
            .or_else(|| self.lent(turn, (question, now)));
        shorter.into_iter().chain(smaller.filter(holds)).collect()
    }

    /// The longest limit by which a job would start now on nodes that it is not lent as it is.
    fn lent(&self, turn: Turn, (question, now): (&Question, Time)) -> Option<Suppose> {
        let own = question.lent.iter().filter(|(job, _)| *job == turn.job);
        let mut own: Vec<&Want> = own.map(|(_, want)| want).collect();
        own.sort_by_key(|want| std::cmp::Reverse(want.request.duration));
        let mut own = own.into_iter().take(LENT_MAX);
        let found = own.find(|want| self.starts_anew(turn.job, Want::clone(want), now));
        found.map(|want| Suppose {
            limit: want.request.duration.map(Span),
            ..Suppose::default()
        })
    }

    /// Limits by which a job would be over when a promise of another begins, or another is to take, the longest
    /// first.
    fn gaps(&self, turn: Turn, now: Time) -> impl Iterator<Item = Suppose> {
        let limit = self.waiting[&turn.job].want.request.duration;
        let others = self.promises().filter(|(other, ..)| *other != turn);
        let others = others.map(|(_, at, _)| at);
        let expected = self.expected().filter(|(other, _)| *other != turn.job);
        let others = others.chain(expected.map(|(_, at)| at));
        let mut ends: Vec<Time> = others.chain(self.occupancy.closings()).collect();
        ends.sort_unstable();
        ends.dedup();
        ends.truncate(GAPS_MAX);
        let cleanup = self.cleanup();
        let left = move |end: Time| in_time(Span((end - now).0 - cleanup.0)).0;
        let is_shorter = move |left: &i64| *left > 0 && limit.is_none_or(|limit| *left < limit);
        let left = ends.into_iter().rev().map(left).filter(is_shorter);
        left.map(|left| Suppose {
            limit: Some(Span(left)),
            ..Suppose::default()
        })
    }
}

/// A limit that is still short enough when whoever reads it has followed it: a minute less than there is, or a tenth.
/// From ten minutes on in whole minutes, else in whole seconds.
fn in_time(left: Span) -> Span {
    const MINUTE: i64 = 60 * MICROS;
    let left = left.0 - (left.0 / 10).min(MINUTE);
    let unit = match left >= 10 * MINUTE {
        true => MINUTE,
        false => MICROS,
    };
    Span(left.div_euclid(unit) * unit)
}

fn at_once(now: Time) -> Estimate {
    Estimate {
        earliest: now,
        latest: Some(now),
        basis: Basis::Forecast,
        likely: None,
    }
}

fn changed(want: &Want, suppose: &Suppose) -> Want {
    Want {
        urgency: suppose.urgency.unwrap_or(want.urgency),
        request: suppose.request(&want.request),
        ..want.clone()
    }
}

/// The most nodes, or slots where they may be anywhere, that would start now.
fn smaller(want: &Want, fits: &mut impl FnMut(&Suppose) -> bool) -> Option<Suppose> {
    let (asked, of): (u32, fn(u32) -> Suppose) = match want.request.nodes {
        Some(nodes) => (nodes, of_nodes),
        None => (want.request.slots, of_slots),
    };
    // None fits, and so many do not.
    let (mut most, mut too_many) = (0, asked);
    while too_many - most > 1 {
        let middle = most + (too_many - most) / 2;
        match fits(&of(middle)) {
            true => most = middle,
            false => too_many = middle,
        }
    }
    (most > 0).then(|| of(most))
}

fn of_nodes(nodes: u32) -> Suppose {
    Suppose {
        nodes: Some(nodes),
        ..Suppose::default()
    }
}

fn of_slots(slots: u32) -> Suppose {
    Suppose {
        slots: Some(slots),
        ..Suppose::default()
    }
}
