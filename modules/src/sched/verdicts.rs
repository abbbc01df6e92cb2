//! What becomes of verdicts: each is held against the present when it comes, and recorded or taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Heads, Notice, Outbox, Volatile};
use eddy_wire::event::{Kind, PassedTo, Together};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Epoch, JobId};
use eddy_wire::plan::{Delta, Outcome, Reason, Verdict};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::Time;

use super::asked::Known;
use super::present::JustTaken;
use super::seen::Seen;
use super::sets::To;
use super::{Intake, Sched};

impl Sched {
    pub(super) fn planned(&mut self, now: Time, outcome: &Outcome, out: &mut Outbox) {
        // Verdicts of one outcome are recorded together, after the last.
        let mut taken = JustTaken::default();
        let mut void = BTreeSet::new();
        let mut with = BTreeMap::new();
        self.await_ground(now, outcome, out);
        for (id, verdict) in &outcome.verdicts {
            if let Verdict::Start(set) = verdict
                && self.comes_early(*id, set, outcome)
            {
                self.awaited.propose(*id);
                continue;
            }
            if let Some(gang) = outcome
                .together
                .iter()
                .find(|gang| gang.first() == Some(id))
            {
                void.extend(self.voided(now, gang, &outcome.verdicts, &taken));
                with.extend(together(gang, &outcome.verdicts));
            }
            if void.contains(id) {
                self.take_back(*id, out);
                continue;
            }
            match verdict {
                Verdict::Start(set) => {
                    self.start(now, (*id, with.get(id).copied()), set, &mut taken, out);
                }
                Verdict::Never(reason) => self.never(now, *id, reason, out),
                Verdict::Preempt { .. } => {}
            }
        }
        self.take_from(now, &outcome.verdicts, out);
        let line = self.obeyed.line();
        if self.head != outcome.head
            || self.apart != outcome.apart
            || self.line != line
            || is_timed(outcome)
        {
            self.head.clone_from(&outcome.head);
            self.apart.clone_from(&outcome.apart);
            self.line = line;
            let heads = Heads {
                main: outcome.head.clone(),
                apart: outcome.apart.clone(),
            };
            out.notice(Notice::Head(heads, line));
        }
        for answer in &outcome.answers {
            let known = Known {
                jobs: &self.jobs,
                book: &self.book,
                limits: &self.limits,
            };
            self.asked.answered(now, answer, &known, out);
        }
        if let Some(told) = &outcome.shares {
            self.asked.told(told, &self.obeyed.policy().preset, out);
        }
        if outcome.unfinished {
            out.volatile(Volatile::Plan(Vec::new()));
        } else if self.again != outcome.again {
            self.again = outcome.again;
            if let Some(at) = outcome.again {
                out.volatile(Volatile::Wake(at.max(now)));
            }
        }
    }

    /// Whether it may not begin there for another cause than that somebody has it: what a reservation refuses, or nodes
    /// that go, and the planner does not see, would be proposed at once again.
    fn is_barred(&self, now: Time, seen: &Seen, set: &Arc<ResourceSet>) -> bool {
        let lets = self.reserved.lets(now, seen, (set, self.end_of(set)));
        !lets || !self.lasts_on(now, seen, set)
    }

    /// Records the grant, if the verdict is still true.
    fn start(
        &mut self,
        now: Time,
        (id, with): (JobId, Option<Together>),
        set: &Arc<ResourceSet>,
        taken: &mut JustTaken,
        out: &mut Outbox,
    ) {
        let seen = self.jobs.get(&id);
        let wanted = seen.is_some_and(|seen| self.wants(seen));
        let to = seen.and_then(|seen| seen.to.clone());
        let is_free = self.is_let(now, id, set, taken);
        let is_barred = seen.is_some_and(|seen| self.is_barred(now, seen, set));
        let serves = self.sets.is_there(to.as_ref());
        let is_there = is_free && serves && self.sets.has(to.as_ref(), set);
        let shells = self.shells_for(id, set);
        if let Some(seen) = seen.filter(|seen| seen.resumes()) {
            // A queue that starts nothing, or an instance that ends, lets nobody go on.
            let goes_on = wanted && is_there && self.intake == Intake::Open;
            let grant = seen.suspension.with_cores(set).filter(|_| goes_on);
            match grant.filter(|grant| seen.suspension.is_whole(grant)) {
                Some(grant) => {
                    taken.add(set, None);
                    out.append(now, id, Kind::GrantChanged(Arc::new(grant)));
                }
                None if is_barred || is_free && self.sets.is_to_come(to.as_ref(), set) => {
                    self.soon(now, id, out)
                }
                None => self.take_back(id, out),
            }
            return;
        }
        let has_shells = shells.is_some();
        let seated = shells.and_then(|shells| self.seated(id, set, shells));
        let is_seat_to_come = has_shells && seated.is_none();
        match (
            wanted,
            self.intake,
            seated.filter(|_| is_there && !is_barred),
        ) {
            (true, Intake::Open, Some((granted, shells))) => {
                let grant = Grant {
                    epoch: Epoch(1),
                    set: granted,
                    // Of what is passed on the shells are its instance's.
                    shells: match to {
                        Some(_) => BTreeMap::new(),
                        None => shells,
                    },
                    beside: Default::default(),
                    passed: to.map(|to| passed_to(&to, with)),
                };
                taken.add(set, seen.and_then(Seen::grows));
                out.append(now, id, Kind::Alloc(Arc::new(grant)));
            }
            // Taken back; if it still waits it is asked for again.
            (_, _, _) => {
                let mut deltas = vec![Delta::Unwant(id)];
                let is_to_come = is_free && self.sets.is_to_come(to.as_ref(), set);
                let rests = is_to_come || is_seat_to_come || is_barred;
                if self.intake == Intake::Open && wanted && rests {
                    self.soon(now, id, out);
                } else if self.intake == Intake::Open && wanted {
                    deltas.push(self.want(id));
                }
                out.volatile(Volatile::Plan(deltas));
            }
        }
    }
}

/// Which instance a job is passed to, and with whom it starts there.
fn passed_to(to: &To, with: Option<Together>) -> Arc<PassedTo> {
    let instance = to.name.to_string();
    Arc::new(PassedTo { instance, with })
}

/// Whether a reason of it counts from now: the same once more is another.
fn is_timed(outcome: &Outcome) -> bool {
    let main = outcome.head.iter().map(|(_, reason)| reason);
    let apart = outcome.apart.iter().map(|head| &head.reason);
    main.chain(apart).any(Reason::is_timed)
}

/// Those of a gang who start, each with what says so where he is passed: one alone starts with nobody.
fn together(
    gang: &[JobId],
    verdicts: &[(JobId, Verdict)],
) -> impl Iterator<Item = (JobId, Together)> {
    let starts = |(id, verdict): &&(JobId, Verdict)| match verdict {
        Verdict::Start(_) => gang.contains(id),
        Verdict::Never(_) | Verdict::Preempt { .. } => false,
    };
    let starts: BTreeSet<JobId> = verdicts.iter().filter(starts).map(|(id, _)| *id).collect();
    let first = starts.first().copied().filter(|_| starts.len() > 1);
    let count = u32::try_from(starts.len()).unwrap_or(u32::MAX);
    let with = first.map(|first| Together { first, count });
    starts.into_iter().filter_map(move |id| Some((id, with?)))
}
