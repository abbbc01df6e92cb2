//! Whether those who start keep waiting whoever has waited longer than `queue.reserve_after`.
//!
//! Knows what the planner was told and who it starts, nothing of what it promises. Judged is one job at a
//! time of each line, that which alone has waited too long: then nothing that was promised to others can be in its way.
//! The start that it would have if nobody else came is its due from then on, which moves with what runs and
//! with nodes, and for nobody who begins. Where others have
//! reservations by their turn, what those are is not known here: `trial/crowd` judges by the end.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::policy::{Evict, Policy, Reservations, Rung, Source, Walk};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Takes;
use eddy_wire::plan::{Outcome, Want};
use eddy_wire::time::{Span, Time};

use super::apart::Queue;
use super::{Pass, Watched, starts};
use crate::quiet::is_slow;

/// By what a start is reckoned: the one who waits is the first.
fn alone(policy: &Policy) -> Arc<str> {
    let limit = policy.queue.default_limit;
    let limit = limit.map(|limit| format!("queue.default_limit = \"{limit}s\""));
    format!("preset = \"easy\"\n{}", limit.unwrap_or_default()).into()
}

/// What is due to whom.
#[derive(Default)]
pub(super) struct Overdue {
    due: BTreeMap<JobId, Time>,
}

/// What the planner is told of a policy where it does not hear that anybody may wait too long.
pub(super) fn patient(text: &Arc<str>) -> Arc<str> {
    match read(text) {
        Ok(mut policy) if policy.queue.reserve_after.is_some() => {
            policy.queue.reserve_after = None;
            print(&policy).into()
        }
        Ok(_) | Err(_) => Arc::clone(text),
    }
}

impl Watched {
    /// Nobody who starts has one start later that alone has waited too long in its line.
    pub(super) fn check_overdue(&mut self, outcome: &Outcome, now: Time) -> Result<(), String> {
        let policy = self.policy.as_ref().map(|(_, policy)| policy);
        let policy = policy.filter(|policy| is_judged(policy) && !self.closes());
        let known = std::mem::take(&mut self.overdue.due);
        let rules = policy.and_then(|policy| Some((policy.queue.reserve_after?, alone(policy))));
        let Some((after, alone)) = rules else {
            return Ok(());
        };
        let mut due = BTreeMap::new();
        let checked = self.queues().try_for_each(|queue| {
            let rules = (after, &alone);
            self.check_overdue_in(queue, rules, (outcome, now), (&known, &mut due))
        });
        self.overdue.due = due;
        checked
    }

    fn check_overdue_in(
        &self,
        queue: Queue<'_>,
        (after, alone): (Span, &Arc<str>),
        (outcome, now): (&Outcome, Time),
        (known, dues): (&BTreeMap<JobId, Time>, &mut BTreeMap<JobId, Time>),
    ) -> Result<(), String> {
        if !self.is_plain(queue) {
            return Ok(());
        }
        let waits = |(job, want): &(&JobId, &Want)| {
            want.request.takes == Takes::Resources
                && !queue.held.contains_key(job)
                && now - want.eligible >= after
        };
        let all = queue.wants.iter().filter(waits);
        let all: Vec<JobId> = all.map(|(job, _)| *job).collect();
        let decided = |job: &JobId| outcome.verdicts.iter().any(|(other, _)| other == job);
        let still = all.iter().filter(|job| !decided(job));
        dues.extend(still.filter_map(|job| Some((*job, *known.get(job)?))));
        let [job] = all[..] else {
            return Ok(());
        };
        let due = dues.get(&job).copied();
        let want = &queue.wants[&job];
        if decided(&job) || want.gang.is_some() || want.back.is_some() {
            return Ok(());
        }
        let mut starts = starts(queue, outcome);
        starts.retain(|job, _| queue.wants[job].request.takes == Takes::Resources);
        let before = self.start_in(queue, alone, (job, want), std::iter::empty(), now);
        let sets = starts.iter().map(|(job, set)| (*job, *set));
        let then = self.start_in(queue, alone, (job, want), sets, now);
        let Some(before) = before else {
            // Nothing is known to be due where something there has no end.
            return Ok(());
        };
        if let (Some(due), Some(filler)) = (due, starts.keys().next()) {
            let due = before.max(due);
            if then.is_none_or(|then| then > due) {
                let then = then.map_or("no time that is known".to_owned(), |at| at.to_string());
                let line = queue.name.map(|name| format!(" in line `{name}`"));
                let line = line.unwrap_or_default();
                return Err(format!(
                    "job {job} has waited too long{line} and would start at {due}; job {filler} begins, and it \
                     starts at {then}"
                ));
            }
        }
        // Of a pass in slices the first may not have known that it waits too long.
        if self.pass == Pass::Over && !outcome.unfinished {
            dues.extend(then.map(|then| (job, then)));
        }
        Ok(())
    }

    /// Nobody takes from others, and there are no pools: what is kept for whom others end is not known here,
    /// nor what is left of pools at a time.
    fn is_plain(&self, queue: Queue<'_>) -> bool {
        let takes_pools = queue.wants.values().any(|want| !want.pools.is_empty());
        let mut rules = self.preempts.qos.values();
        !takes_pools && !rules.any(|rule| !rule.preempts.is_empty())
    }
}

/// Where nobody but they has a reservation, nobody ends for others, and starts are not limited.
fn is_judged(policy: &Policy) -> bool {
    let queue = &policy.queue;
    let in_turn = match queue.source {
        Source::PerAccountCost | Source::PerAccountSlices { .. } => true,
        Source::Global => {
            queue.walk == Walk::Skip
                && queue.reservations == Reservations::Replanned
                && policy.priority.order == ["urgency"]
        }
        Source::ByQueue => false,
    };
    in_turn
        && queue.evict == Evict::Nothing
        && !is_slow(policy)
        && queue.replan_every.is_none()
        && policy.placement.ladder == [Rung::Free]
}
