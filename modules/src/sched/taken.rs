//! Jobs that end for the sake of others: what the planner names is recorded, if it is still true.
//!
//! How one ends, and how long it is given, says its QoS. The record comes before anything is done;
//! the manager makes an end of it, exec sends the signals at the times that were recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::account::Name;
use eddy_wire::event::Kind;
use eddy_wire::grace;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::{Delta, Gives, Verdict};
use eddy_wire::preempt::{Cause, Mode, PREEMPTIONS_MAX, Preemption, Preempts, QosRule};
use eddy_wire::reservation;
use eddy_wire::time::{Span, Time};

use super::seen::Seen;
use super::shrinks::shrinking;
use super::{Intake, Sched};
use crate::settings::{Qos, Settings};

/// Who may take from whom, and what becomes of those who are taken from.
#[derive(Debug, Default)]
pub(super) struct Rules {
    told: Arc<Preempts>,
    modes: BTreeMap<Name, Mode>,
    /// The QoS of which instances give nodes.
    shrinks: BTreeSet<Name>,
}

/// How jobs of a QoS end for others.
pub(super) struct End {
    mode: Mode,
    pub(super) grace: Span,
    exempt: Span,
}

impl Rules {
    pub(super) fn new(settings: &Settings) -> Rules {
        Rules::of(&settings.qos, settings.kill_grace)
    }

    fn of(qos: &[Qos], grace: Span) -> Rules {
        let rule = |qos: &Qos| QosRule {
            preempts: qos.preempts.clone(),
            exempt: qos.exempt,
            grace: qos.grace,
        };
        let rules = qos.iter().map(|qos| (qos.name.clone(), rule(qos)));
        Rules {
            told: Arc::new(Preempts {
                qos: rules.collect(),
                grace,
            }),
            modes: qos.iter().map(|qos| (qos.name.clone(), qos.mode)).collect(),
            shrinks: qos
                .iter()
                .filter(|qos| qos.shrink)
                .map(|qos| qos.name.clone())
                .collect(),
        }
    }

    /// The QoS are these from now on.
    pub(super) fn configured(&mut self, qos: &[Qos]) {
        *self = Rules::of(qos, self.grace());
    }

    pub(super) fn told(&self) -> Arc<Preempts> {
        Arc::clone(&self.told)
    }

    /// From TERM to KILL where nothing else is said.
    pub(super) fn grace(&self) -> Span {
        self.told.grace
    }

    /// Whether instances of that QoS give nodes while they go on.
    pub(super) fn shrinks(&self, qos: &str) -> bool {
        self.shrinks.iter().any(|name| name.as_str() == qos)
    }

    /// Whether anybody may take from jobs of that QoS.
    fn is_below(&self, qos: &str) -> bool {
        let mut takers = self.told.qos.iter();
        takers.any(|(_, rule)| rule.preempts.iter().any(|below| below.as_str() == qos))
    }

    /// Whether what somebody gives is ever less than all.
    fn spare(&self) -> bool {
        let suspends = |mode: &Mode| *mode == Mode::Suspend;
        self.modes.values().any(suspends) || !self.shrinks.is_empty()
    }

    pub(super) fn end(&self, qos: &str) -> End {
        let is_it = |name: &&Name| name.as_str() == qos;
        let rule = self.told.qos.iter().find(|(name, _)| is_it(name));
        let mode = self.modes.iter().find(|(name, _)| is_it(name));
        let grace = rule.and_then(|(_, rule)| rule.grace);
        End {
            mode: mode.map(|(_, mode)| *mode).unwrap_or_default(),
            grace: grace.unwrap_or(self.grace()),
            exempt: rule.map_or(Span::ZERO, |(_, rule)| rule.exempt),
        }
    }
}

/// Those for whom nothing is taken, of pairs of who gives and for whom: what is said of one who gives nothing takes
/// back all that he was named for.
fn with_others(mut void: BTreeSet<JobId>, pairs: &[(JobId, JobId)]) -> BTreeSet<JobId> {
    loop {
        let known = void.len();
        let kept = pairs.iter().filter(|(_, by)| void.contains(by));
        let kept: BTreeSet<JobId> = kept.map(|(giver, _)| *giver).collect();
        let named = pairs.iter().filter(|(giver, _)| kept.contains(giver));
        void.extend(named.map(|(_, by)| *by));
        if void.len() == known {
            return void;
        }
    }
}

impl Sched {
    /// What a planner is to know of one that holds something: whether it is ending, and whether it
    /// may be taken from.
    pub(super) fn standing(&self, id: JobId, deltas: &mut Vec<Delta>) {
        let Some(seen) = self.jobs.get(&id).filter(|seen| seen.held.is_some()) else {
            return;
        };
        // One by one: of each there is mostly none.
        match (seen.preempted, seen.ending) {
            (Some(way), _) => deltas.push(Delta::Ending(id, Some(way.by), way.until)),
            (None, Some(until)) => deltas.push(Delta::Ending(id, None, until)),
            (None, None) => {}
        }
        if seen.preemptions >= PREEMPTIONS_MAX {
            deltas.push(Delta::Spared(id));
        }
        match self.gives(seen) {
            Gives::All => {}
            gives => deltas.push(Delta::Gives(id, gives)),
        }
        deltas.extend(shrinking(id, seen));
    }

    /// One runs: only now is it known what it gives to who was passed over for it. Where nobody may take from it that
    /// is no news.
    pub(super) fn begun(&self, id: JobId, out: &mut Outbox) {
        let seen = self.jobs.get(&id);
        let is_below = seen.is_some_and(|seen| self.rules.is_below(self.qos_of(seen)));
        if is_below || self.gives_nodes(id) || self.obeyed.takes_by_class() {
            let mut standing = Vec::new();
            self.standing(id, &mut standing);
            out.volatile(Volatile::Plan(standing));
        }
    }

    /// Tells who gives what, by a policy that is new or where ranks serve or do not; where everybody always
    /// gives all that changes nothing.
    pub(super) fn tell_gifts(&self, out: &mut Outbox) {
        if self.rules.spare() {
            out.volatile(Volatile::Plan(self.gifts().collect()));
        }
    }

    /// Who gives what, by a configuration that is new.
    pub(super) fn gifts(&self) -> impl Iterator<Item = Delta> + '_ {
        let holders = self.jobs.iter().filter(|(_, seen)| seen.held.is_some());
        holders.map(|(id, seen)| Delta::Gives(*id, self.gives(seen)))
    }

    /// What a job gives when it is taken from, or is giving.
    fn gives(&self, seen: &Seen) -> Gives {
        let decided = seen.preempted.map(|way| way.mode);
        if let Some(but) = self.keeps(seen).filter(|_| decided.is_none()) {
            return Gives::Nodes { but };
        }
        match decided.unwrap_or_else(|| self.mode(seen)) {
            Mode::Suspend => Gives::Cores,
            Mode::Requeue | Mode::Cancel => Gives::All,
        }
    }

    /// What becomes of a job that is taken from.
    fn mode(&self, seen: &Seen) -> Mode {
        match self.rules.end(self.qos_of(seen)).mode {
            Mode::Suspend if !self.can_rest(seen) => Mode::Requeue,
            mode => mode,
        }
    }

    /// Whether a job can give its cores for a while. Only tasks are stopped, and not
    /// those whose cores are to lie in sockets; on a node that is drained, and
    /// in a reservation, whose time would run, it might never go on; and where accounts take turns what they
    /// take from each other is all of a job.
    fn can_rest(&self, seen: &Seen) -> bool {
        let spec = &seen.submit.spec;
        let held = seen.held.as_ref();
        let is_drained = held.is_some_and(|set| !set.ranks().is_disjoint(&self.drained));
        spec.request.work == Work::Tasks
            && spec.request.takes == Takes::Resources
            && spec.request.sockets.is_none()
            && reservation::of(spec).is_none()
            && !is_drained
            && !self.obeyed.takes_turns()
    }

    /// Those who are to end for others: all for one job, or none where one of them does not.
    pub(super) fn take_from(&mut self, now: Time, verdicts: &[(JobId, Verdict)], out: &mut Outbox) {
        if let Some(until) = self.settling.until(now) {
            return self.keep_all(until, verdicts, out);
        }
        let named = || {
            verdicts.iter().filter_map(|(id, verdict)| match verdict {
                Verdict::Preempt {
                    ranks,
                    by,
                    cause,
                    why,
                } => Some((*id, ranks.as_ref(), (*by, *cause), why)),
                Verdict::Start(_) | Verdict::Never(_) => None,
            })
        };
        let may = |id, ranks: Option<&Idset>| {
            self.may_end(now, id) && ranks.is_none_or(|ranks| self.may_shrink(id, ranks))
        };
        let void: BTreeSet<JobId> = named()
            .filter(|(id, ranks, (by, _), _)| !may(*id, *ranks) || !self.may_inherit(*by))
            .map(|(_, _, (by, _), _)| by)
            .collect();
        let pairs: Vec<(JobId, JobId)> = named().map(|(id, _, (by, _), _)| (id, by)).collect();
        let void = with_others(void, &pairs);
        let mut kept = BTreeMap::new();
        let ends = named().filter(|(_, ranks, ..)| ranks.is_none());
        let mut gone: BTreeSet<JobId> = ends.map(|(id, ..)| id).collect();
        for (id, ranks, (by, cause), why) in named() {
            match (self.jobs.get(&id).filter(|_| !void.contains(&by)), ranks) {
                (Some(seen), Some(ranks)) => {
                    let shrink = self.shrink(now, seen, ranks, (Some(by), cause), why);
                    out.append(now, id, Kind::Shrink(Box::new(shrink)));
                }
                (Some(seen), None) => {
                    let preemption = self.preemption(now, seen, (by, cause), why);
                    out.append(now, id, Kind::Preempted(Box::new(preemption)));
                    for mate in self.mates(id) {
                        let seen = self.jobs.get(&mate).filter(|_| self.may_end(now, mate));
                        let Some(seen) = seen.filter(|_| gone.insert(mate)) else {
                            continue;
                        };
                        let why = format!("{why}; its gang ends with job {}", id.f58_ascii());
                        let preemption = self.preemption(now, seen, (by, cause), &why);
                        out.append(now, mate, Kind::Preempted(Box::new(preemption)));
                    }
                }
                (None, _) => {
                    // One may be named for several.
                    let until = self.spare(now, id, by);
                    kept.entry(id)
                        .and_modify(|most: &mut Time| *most = until.max(*most))
                        .or_insert(until);
                }
            }
        }
        if !kept.is_empty() {
            let kept = kept.into_iter().map(|(id, until)| Delta::Kept(id, until));
            out.volatile(Volatile::Plan(kept.collect()));
        }
    }

    fn preemption(
        &self,
        now: Time,
        seen: &Seen,
        (by, cause): (JobId, Cause),
        why: &str,
    ) -> Preemption {
        let End { grace, .. } = self.rules.end(self.qos_of(seen));
        let grace = grace::within(&seen.submit.spec, grace);
        Preemption {
            by,
            until: now.after(grace),
            cause,
            mode: self.mode(seen),
            grace: grace.0,
            why: why.to_owned(),
        }
    }

    /// From when on a job may be taken from: what it holds is recorded a little later than planned.
    pub(super) fn exempt_until(&self, id: JobId) -> Option<Time> {
        let seen = self.jobs.get(&id)?;
        Some(seen.since.after(self.rules.end(self.qos_of(seen)).exempt))
    }

    pub(super) fn qos_of<'s>(&'s self, seen: &'s Seen) -> &'s str {
        let named = seen.submit.party.qos.as_ref().map(Name::as_str);
        named.unwrap_or(self.obeyed.default_qos())
    }

    fn may_end(&self, now: Time, id: JobId) -> bool {
        let open = self.exempt_until(id).is_some_and(|from| from <= now);
        open && self.jobs.get(&id).is_some_and(|seen| {
            let goes_on = seen.preempted.is_none() && seen.ending.is_none();
            let runs = seen.state == JobState::Run && seen.held.is_some();
            runs && goes_on && seen.preemptions < PREEMPTIONS_MAX
        })
    }

    fn may_inherit(&self, by: JobId) -> bool {
        let waits = self.jobs.get(&by).is_some_and(|seen| self.wants(seen));
        waits && self.intake == Intake::Open && self.takes_from(by).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_for_those_who_share_a_giver_with_one_for_whom_nothing_is() {
        let pairs = [(1, 10), (1, 11), (2, 11), (2, 12), (3, 13)];
        let pairs = pairs.map(|(giver, by)| (JobId(giver), JobId(by)));
        let void = with_others([JobId(10)].into(), &pairs);
        assert_eq!(void, [JobId(10), JobId(11), JobId(12)].into());
        assert!(with_others(BTreeSet::new(), &pairs).is_empty());
    }
}
