//! Ground of elastic instances, which comes and goes with the nodes.
//!
//! An elastic instance holds nothing: what its jobs are given is theirs. On each node that they may
//! be given it has ground all the same, so that they start there at once, and so that whatever it
//! leaves is ended. A node that is there becomes part of its grant; one whose shell is lost, or
//! that is taken out, leaves it (`grant-changed`), and the instance goes on. Chooses no node for
//! any job: sched does.

use std::sync::Arc;

use eddy_broker::{Outbox, Volatile};
use eddy_wire::event::Kind;
use eddy_wire::grant::Grant;
use eddy_wire::id::{Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::NodeSet;
use eddy_wire::shell::ToShell;
use eddy_wire::time::{Span, Time};

use super::run::{PartView, Run};
use super::{Effect, Exec, SIGKILL};

/// Nodes that come within this time come as one change: each change is told to the instance.
const GATHER: Span = Span::millis(50);

impl Exec {
    /// Nodes may have come.
    pub(super) fn gather(&mut self, now: Time, out: &mut Outbox) {
        if !self.elastic.is_empty() && self.gather.is_none() {
            let at = now.after(GATHER);
            self.gather = Some(at);
            out.volatile(Volatile::Wake(at));
        }
    }

    /// Those that have come are seated.
    pub(super) fn gathered(&mut self, now: Time, out: &mut Outbox) {
        if self.gather.take_if(|at| *at <= now).is_none() {
            return;
        }
        let elastic = self.runs.values().filter(|run| run.is_elastic());
        let jobs: Vec<JobId> = elastic.map(|run| run.job).collect();
        for job in jobs {
            let come = self.come(job);
            self.reseat(now, job, &come, out);
        }
    }

    /// The ranks that are there and that this instance has no ground on.
    fn come(&self, job: JobId) -> Idset {
        let run = &self.runs[&job];
        let within = run.name().and_then(|name| self.elastic.get(name));
        let (Some(within), true) = (within, run.is_seating()) else {
            return Idset::new();
        };
        let there = match within {
            Some(ranks) => self.online.intersect(ranks),
            None => self.online.clone(),
        };
        let there = there.difference(&run.grant.set.ranks());
        let new = there.iter().filter(|rank| {
            let shell = self.shells.of(Rank(*rank));
            shell.is_some_and(|shell| !run.has_failed_on(Rank(*rank), shell))
        });
        new.collect()
    }

    /// Ground that is over leaves the instance.
    pub(super) fn reseat_left(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let elastic = self.runs.get(&job).filter(|run| run.is_elastic());
        if elastic.is_some_and(Run::is_seating) {
            self.reseat(now, job, &Idset::new(), out);
        }
    }

    fn reseat(&mut self, now: Time, job: JobId, come: &Idset, out: &mut Outbox) {
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        let left = run.ground_over();
        let grant = &run.grant;
        if (come.is_empty() && left.is_empty()) || run.reseated > grant.epoch {
            return;
        }
        let mut next = Grant {
            epoch: grant.epoch.next(),
            set: Arc::clone(&grant.set),
            shells: grant.shells.clone(),
        };
        let set = Arc::make_mut(&mut next.set);
        for (rank, why) in left {
            set.nodes.remove(&rank);
            next.shells.remove(&rank);
            if let Some(why) = why {
                // Jobs that were given something of it could not start there.
                let reason = format!("job {job} has no ground there: {why}");
                out.append_own(now, Kind::Drain(Idset::one(rank.0), reason, u32::MAX));
            }
        }
        for rank in come.iter().map(Rank) {
            let (Some(shell), Some(host)) = (self.shells.of(rank), self.shells.host(rank)) else {
                continue;
            };
            set.nodes.insert(rank, nothing_on(host));
            next.shells.insert(rank, shell);
        }
        run.reseated = next.epoch;
        out.append(now, job, Kind::GrantChanged(Arc::new(next)));
    }

    /// A grant has changed: ground that came is started, what left is forgotten.
    pub(super) fn reseated(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        self.start(job, out);
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        for (rank, epoch) in std::mem::take(&mut run.left) {
            let part = run.part(rank);
            out.effect(Effect::Shell(epoch, ToShell::Forget { part }));
        }
        self.gather(now, out);
    }

    /// Nodes were taken out: ground there is cleared.
    pub(super) fn evict(&mut self, inventory: &Idset, out: &mut Outbox) {
        for run in self.runs.values_mut().filter(|run| run.is_elastic()) {
            run.evicted = run.grant.set.ranks().difference(inventory);
            for rank in run.evicted.iter().map(Rank) {
                if let Some(shell) = run.shell(rank) {
                    run.tell(rank, shell, SIGKILL, &self.shells, out);
                }
            }
        }
    }
}

fn nothing_on(host: Arc<str>) -> NodeSet {
    NodeSet {
        host,
        cores: Idset::new(),
        gpus: Idset::new(),
        memory: 0,
    }
}

impl Run {
    /// Whether it is an instance that has ground and holds nothing.
    pub(super) fn is_elastic(&self) -> bool {
        let request = &self.submit.spec.request;
        self.name().is_some() && request.beside().is_some()
    }

    /// Whether nodes may come to it.
    fn is_seating(&self) -> bool {
        self.is_started() && self.end.is_none() && !self.is_without_leader()
    }

    /// Whether ground could not be had there in this life of the rank's shell.
    fn has_failed_on(&self, rank: Rank, shell: Epoch) -> bool {
        self.failed.get(&rank) == Some(&shell)
    }

    /// Ground that is over while the instance goes on, and why if it never was.
    fn ground_over(&self) -> Vec<(Rank, Option<String>)> {
        let over = |(rank, view): (&Rank, &PartView)| match view {
            PartView::Ended(ended) if self.spares(*rank) => Some((*rank, ended.note.clone())),
            PartView::Ended(_) | PartView::Asked | PartView::Running => None,
        };
        self.parts().filter_map(over).collect()
    }

    /// Whether the end of this part is not the end of the job: ground comes and goes.
    pub(super) fn spares(&self, rank: Rank) -> bool {
        self.is_elastic() && self.is_ground(rank) && self.end.is_none() && !self.is_without_leader()
    }
}
