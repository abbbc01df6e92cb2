//! Nodes that go while the instance on them goes on: here as the parent takes them back, and of instances
//! in this one that are to give some.
//!
//! An instance has until a recorded time to vacate a node (`shrink`). Whatever of it is left there then is
//! killed, again and again as with any end, and the node leaves it as ground that is over does (`seats`).

use std::collections::BTreeMap;

use eddy_broker::Outbox;
use eddy_wire::event::{Exception, Kind};
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::services::child::Granted;
use eddy_wire::shrinking::Shrinking;
use eddy_wire::time::{Span, Time};

use super::due::KILLS_MAX;
use super::run::{PartView, Run};
use super::{Exec, SIGKILL};

/// Which nodes an instance is to give, and what was done where it did not.
#[derive(Default)]
pub(super) struct Leaving {
    nodes: Shrinking,
    /// Where its ground was cleared since the time was over: how often, and when last.
    cleared: BTreeMap<Rank, (u32, Time)>,
}

impl Leaving {
    pub fn apply(&mut self, kind: &Kind) {
        self.nodes.apply(kind);
        if let Kind::GrantChanged(grant) = kind {
            let stays = |rank: &Rank| grant.set.nodes.contains_key(rank);
            self.cleared.retain(|rank, _| stays(rank));
        }
    }
}

impl Run {
    /// When ground of it is to be cleared, next, where it gives nodes and goes on; `grace` is the distance from one
    /// KILL to the next, which doubles.
    pub(super) fn clears(&self, grace: Span) -> Option<(Time, Rank)> {
        let goes_on = self.end.is_none() && self.is_started();
        let ranks = self.leaving.nodes.ranks();
        let ranks = ranks.iter().map(Rank).filter(|_| goes_on);
        let left = ranks.filter(|rank| {
            let is_over = matches!(self.view(*rank), None | Some(PartView::Ended(_)));
            self.is_ground(*rank) && !is_over
        });
        let at = left.filter_map(|rank| {
            let at = match self.leaving.cleared.get(&rank) {
                None => self.leaving.nodes.until(rank)?,
                Some((times, last)) => last.after(doubled(grace, *times)),
            };
            Some((at, rank))
        });
        at.min()
    }
}

/// The distance between the KILL of this number, from 1, and the next.
pub(super) fn doubled(grace: Span, kills: u32) -> Span {
    let factor = 1_i64 << (kills.max(1) - 1).min(6);
    Span(grace.0.max(1).saturating_mul(factor))
}

impl Exec {
    /// Clears ground of instances that had until now to vacate it.
    pub(super) fn clear_left(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        while let Some((_, rank)) = run.clears(self.kill_grace).filter(|(at, _)| *at <= now) {
            let (times, last) = run.leaving.cleared.entry(rank).or_insert((0, now));
            (*times, *last) = (*times + 1, now);
            if *times == KILLS_MAX {
                let reason = format!("what job {} has there cannot be killed", job.f58_ascii());
                out.append_own(now, Kind::Drain(Idset::one(rank.0), reason, u32::MAX));
            }
            run.evicted.insert(rank.0);
            if let Some(shell) = run.shell(rank) {
                run.tell(rank, shell, SIGKILL, &self.shells, out);
            }
        }
    }

    /// The parent takes nodes back: jobs that run there are to end in time.
    pub(super) fn leave(&mut self, now: Time, granted: &Granted, out: &mut Outbox) {
        if granted.leaving.is_empty() {
            return;
        }
        for run in self.runs.values() {
            if run.end.is_some() || run.is_over() {
                continue;
            }
            let taken = run.grant.set.ranks().intersect(&granted.leaving);
            // An instance in this one gives its ground back as this one does.
            let gives = run.is_instance() && run.name().is_none();
            let is_given = |rank: u32| gives && run.is_ground(Rank(rank));
            if taken.iter().all(is_given) {
                continue;
            }
            let said = |rank: u32| granted.within.get(&Rank(rank)).copied();
            let left = taken
                .iter()
                .map(|rank| said(rank).unwrap_or(self.kill_grace));
            let left = left
                .min()
                .filter(|_| taken.iter().any(|rank| said(rank).is_some()));
            let exception = Exception {
                kind: "node-failure".to_owned(),
                severity: 0,
                note: "its node goes back to the instance around this one".to_owned(),
                userid: None,
                until: left.map(|left| now.after(left)),
            };
            out.append(now, run.job, Kind::Exception(Box::new(exception)));
        }
    }
}
