//! Elastic instances that are not reached yet, or not any more, and are expected back within moments; and those that
//! are to have ground on a node within moments, which has just come.
//!
//! A leader that begins finds its jobs before its instances are there, and one of those that was killed is
//! there again a moment later. Who waits for one of them keeps his turn meanwhile, with what the planner gives
//! him: else the next in line would begin there, for as long as it likes, before the head that was promised it.
//! What is proposed to him is neither recorded nor taken back until the instance is reached and has ground there, or
//! the moment is over. Nobody is taken from for him before it is reached: who ended might have ended for nothing.
//! Nobody else runs on what an instance of a fixed size has, so nobody is to be kept from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::plan::{Delta, Outcome, Verdict};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};

use super::seen::Seen;
use super::sets::{Sets, To};
use super::{Intake, Sched};

/// So long an instance is expected back: as long as ranks that had a shell are waited for.
const AWAITED: Span = Span::seconds(10);

/// Which are expected, and who would begin in them.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    until: BTreeMap<Arc<str>, Time>,
    /// Jobs whose start is proposed and waits for that.
    early: BTreeSet<JobId>,
    /// Those of which ground was awaited, and that have had no other since.
    grounded: BTreeSet<Arc<str>>,
    /// Jobs that would have been taken from for who waits for that.
    spared: BTreeSet<JobId>,
}

impl Awaited {
    /// Whether the instance that a job is passed to is expected.
    pub(super) fn has(&self, to: Option<&To>) -> bool {
        to.is_some_and(|to| self.until.contains_key(&to.name))
    }

    /// Until when the instance that a job is passed to is expected.
    fn until(&self, to: Option<&To>) -> Option<Time> {
        self.until.get(&to?.name).copied()
    }

    /// A start is proposed.
    pub(super) fn propose(&mut self, job: JobId) {
        self.early.insert(job);
    }
}

impl Sched {
    /// Channels of instances stand or are away: who waits for those waits in line, or does not.
    pub(super) fn serving(&mut self, now: Time, serving: &BTreeSet<String>, out: &mut Outbox) {
        let changed = self.sets.serving(serving);
        if changed.is_empty() {
            return;
        }
        let away = self.sets.elastic_away();
        self.await_instances(now, changed.intersection(&away).cloned(), out);
        let here = changed.difference(&away).cloned().collect();
        self.propose_again(&here, out);
        self.tell_those_of(&changed, out);
        self.spare_no_more(now, out);
    }

    /// What the planner is to find for those who wait for these instances.
    pub(super) fn tell_those_of(&self, instances: &BTreeSet<Arc<str>>, out: &mut Outbox) {
        let of_those = |seen: &Seen| {
            seen.to
                .as_ref()
                .is_some_and(|to| instances.contains(&to.name))
        };
        let waiting = self.jobs.iter().filter(|(id, seen)| {
            of_those(seen) && self.wants(seen) && !self.resting.contains_key(id)
        });
        let deltas: Vec<Delta> = waiting.map(|(id, _)| self.want(*id)).collect();
        if !deltas.is_empty() {
            out.volatile(Volatile::Plan(deltas));
        }
    }

    /// Whether the instance that a job is passed to is there, or is as good as there.
    pub(super) fn is_planned_for(&self, to: Option<&To>) -> bool {
        self.sets.is_there(to) || self.awaited.has(to)
    }

    /// These elastic instances are expected from now on.
    pub(super) fn await_instances(
        &mut self,
        now: Time,
        names: impl IntoIterator<Item = Arc<str>>,
        out: &mut Outbox,
    ) {
        let until = now.after(AWAITED);
        let mut names = names.into_iter().map(|name| (name, until)).peekable();
        // Also where one is lost again before its time was over: that counts anew.
        if names.peek().is_some() {
            out.volatile(Volatile::Wake(until));
        }
        self.awaited.until.extend(names);
    }

    /// What an instance has of nodes has changed: what was proposed for it may begin, where that is what it lacked.
    pub(super) fn seats_changed(&mut self, kind: &Kind, job: Option<JobId>, out: &mut Outbox) {
        let (Kind::Alloc(_) | Kind::GrantChanged(_), Some(job)) = (kind, job) else {
            return;
        };
        let seen = self.jobs.get(&job);
        let name = seen
            .and_then(|seen| Sets::name(&seen.submit))
            .map(Arc::from);
        let Some(name) = name else { return };
        self.awaited.grounded.remove(&name);
        if !self.awaited.early.is_empty() {
            self.propose_again(&BTreeSet::from([name]), out);
        }
    }

    /// A start is proposed on a node where its instance has no ground yet: that is awaited, too, once until it has
    /// another. Whoever is behind it would begin there else.
    pub(super) fn await_ground(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        for (id, verdict) in &outcome.verdicts {
            let Verdict::Start(set) = verdict else {
                continue;
            };
            let to = self.jobs.get(id).and_then(|seen| seen.to.as_ref());
            let is_to_come = self.sets.is_there(to) && self.sets.is_to_come(to, set);
            let Some(to) = to.filter(|to| is_to_come && to.line().is_none()) else {
                continue;
            };
            let name = Arc::clone(&to.name);
            if self.awaited.grounded.insert(Arc::clone(&name)) {
                self.await_instances(now, [name], out);
            }
        }
    }

    /// Whether a proposed start waits for an instance, or that of one with whom it begins: all of a gang or none.
    pub(super) fn comes_early(&self, id: JobId, set: &ResourceSet, outcome: &Outcome) -> bool {
        if self.awaited.until.is_empty() {
            return false;
        }
        let gang = outcome.together.iter().find(|gang| gang.contains(&id));
        let Some(gang) = gang else {
            return self.is_early(id, set);
        };
        outcome
            .verdicts
            .iter()
            .any(|(mate, verdict)| match verdict {
                Verdict::Start(set) if gang.contains(mate) => self.is_early(*mate, set),
                Verdict::Start(_) | Verdict::Never(_) | Verdict::Preempt { .. } => false,
            })
    }

    /// Whether the instance is expected that a job would begin in: it is not reached, or has no ground there yet.
    fn is_early(&self, id: JobId, set: &ResourceSet) -> bool {
        let to = self.jobs.get(&id).and_then(|seen| seen.to.as_ref());
        let lacks = !self.sets.is_there(to) || self.sets.is_to_come(to, set);
        lacks && self.awaited.has(to) && self.intake == Intake::Open && self.waits(id)
    }

    /// Those that did not come in time are waited for no more, and others go before who waits for them.
    pub(super) fn await_no_more(&mut self, now: Time, out: &mut Outbox) {
        let due = self.awaited.until.extract_if(.., |_, until| *until <= now);
        let due: BTreeSet<Arc<str>> = due.map(|(name, _)| name).collect();
        if due.is_empty() {
            return;
        }
        self.propose_again(&due, out);
        self.tell_those_of(&due, out);
        self.spare_no_more(now, out);
    }

    /// Until when nobody is taken from for a job, since its instance, or that of one with whom it begins, is only
    /// expected.
    pub(super) fn takes_from(&self, by: JobId) -> Option<Time> {
        let mates = self.mates(by);
        let gang = std::iter::once(&by).chain(&mates);
        let to = gang.filter_map(|id| self.jobs.get(id)?.to.as_ref());
        let away = to.filter(|to| !self.sets.is_there(Some(to)));
        away.filter_map(|to| self.awaited.until(Some(to))).max()
    }

    /// A job goes on that would have been taken from for another: until when at least.
    pub(super) fn spare(&mut self, now: Time, job: JobId, by: JobId) -> Time {
        let exempt = self.exempt_until(job).unwrap_or(now);
        let Some(until) = self.takes_from(by) else {
            return exempt;
        };
        self.awaited.spared.insert(job);
        exempt.max(until)
    }

    /// Those who went on may be taken from again; where an instance is not there yet they go on once more.
    fn spare_no_more(&mut self, now: Time, out: &mut Outbox) {
        let spared = std::mem::take(&mut self.awaited.spared);
        let open = spared.into_iter().map(|job| {
            let exempt = self.exempt_until(job).unwrap_or(now);
            Delta::Kept(job, exempt.max(now))
        });
        let open: Vec<Delta> = open.collect();
        if !open.is_empty() {
            out.volatile(Volatile::Plan(open));
        }
    }

    /// Whoever's start in these was proposed and is kept is planned anew.
    fn propose_again(&mut self, instances: &BTreeSet<Arc<str>>, out: &mut Outbox) {
        let jobs = &self.jobs;
        let is_of_those = |job: &JobId| {
            let to = jobs.get(job).and_then(|seen| seen.to.as_ref());
            to.is_none_or(|to| instances.contains(&to.name))
        };
        let early = self.awaited.early.extract_if(.., |job| is_of_those(job));
        let early: Vec<JobId> = early.collect();
        let waiting = early.into_iter().filter(|job| self.waits(*job));
        let anew = waiting.filter(|job| !self.resting.contains_key(job));
        let deltas: Vec<Delta> = anew
            .flat_map(|job| [Delta::Unwant(job), self.want(job)])
            .collect();
        if !deltas.is_empty() {
            out.volatile(Volatile::Plan(deltas));
        }
    }
}
