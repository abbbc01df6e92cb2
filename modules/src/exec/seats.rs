//! Ground of instances, which comes and goes with the nodes.
//!
//! An instance has ground on each of its nodes, so that its jobs start there at once, and so that
//! whatever it leaves is ended. Where ground is lost the instance goes on without that node: the
//! change of its grant is recorded (`grant-changed`), and it is told. What becomes of the node is a
//! matter of whose it was ([`Footing`]). Chooses no node for any job: sched does.

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
    /// What a job holds has changed, and with it perhaps the shells it runs through.
    pub(super) fn regranted(&mut self, job: JobId, t: Time, kind: &Kind) {
        if let Some(mut run) = self.runs.remove(&job) {
            self.forget_shells(&run);
            run.apply(t, kind);
            self.note_shells(&run);
            self.runs.insert(job, run);
        } else if let Some(away) = self.away.get_mut(&job) {
            away.apply(t, kind);
        }
    }

    pub(super) fn note_shells(&mut self, run: &Run) {
        for epoch in run.grant.shells.values() {
            self.on.entry(*epoch).or_default().insert(run.job);
        }
    }

    pub(super) fn forget_shells(&mut self, run: &Run) {
        for epoch in run.grant.shells.values() {
            if let Some(jobs) = self.on.get_mut(epoch) {
                jobs.remove(&run.job);
                if jobs.is_empty() {
                    self.on.remove(epoch);
                }
            }
        }
    }

    /// Nodes may have come.
    pub(super) fn gather(&mut self, now: Time, out: &mut Outbox) {
        if self.gather.is_none() && self.runs.values().any(Run::is_instance) {
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
        let instances = self.runs.values().filter(|run| run.is_instance());
        let jobs: Vec<JobId> = instances.map(|run| run.job).collect();
        for job in jobs {
            let come = self.come(job);
            self.reseat(now, job, &come, out);
        }
    }

    /// The ranks that are there, that may be this instance's, and that it has no ground on.
    fn come(&self, job: JobId) -> Idset {
        let run = &self.runs[&job];
        if !run.is_seating() {
            return Idset::new();
        }
        let within = match run.footing() {
            Footing::Elastic => match run.name().and_then(|name| self.elastic.get(name)) {
                Some(Some(ranks)) => ranks.clone(),
                Some(None) => self.online.clone(),
                None => Idset::new(),
            },
            Footing::Kept => run.grant.set.ranks(),
            Footing::Left => Idset::new(),
        };
        let there = self.online.intersect(&within);
        let new = there.iter().map(Rank).filter(|rank| {
            let shell = self.shells.of(*rank);
            let is_new = shell.is_some_and(|shell| !run.has_failed_on(*rank, shell));
            is_new && run.shell(*rank).is_none() && !run.evicted.contains(rank.0)
        });
        new.map(|rank| rank.0).collect()
    }

    /// Ground that is over leaves the instance.
    pub(super) fn reseat_left(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let instance = self.runs.get(&job).filter(|run| run.is_instance());
        if instance.is_some_and(Run::is_seating) {
            self.reseat(now, job, &Idset::new(), out);
        }
    }

    fn reseat(&mut self, now: Time, job: JobId, come: &Idset, out: &mut Outbox) {
        let Some(run) = self.runs.get(&job) else {
            return;
        };
        // What it has besides changes while it goes on only.
        let beside = match run.is_seating() {
            true => self.beside(job),
            false => run.grant.beside.clone(),
        };
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        let left = run.ground_over();
        let grant = &run.grant;
        let is_same = come.is_empty() && left.is_empty() && beside == grant.beside;
        if is_same || run.reseated > grant.epoch {
            return;
        }
        let mut next = Grant {
            epoch: grant.epoch.next(),
            set: Arc::clone(&grant.set),
            shells: grant.shells.clone(),
            beside,
            passed: grant.passed.clone(),
        };
        for (rank, why) in left {
            next.shells.remove(&rank);
            match run.footing() {
                Footing::Elastic | Footing::Left => {
                    Arc::make_mut(&mut next.set).remove(rank);
                }
                Footing::Kept => {}
            }
            if let Some(why) = why {
                // Jobs that were given something of it could not start there.
                let reason = format!("job {} has no ground there: {why}", job.f58_ascii());
                out.append_own(now, Kind::Drain(Idset::one(rank.0), reason, u32::MAX));
            }
        }
        for rank in come.iter().map(Rank) {
            let (Some(shell), Some(host)) = (self.shells.of(rank), self.shells.host(rank)) else {
                continue;
            };
            next.shells.insert(rank, shell);
            if !next.set.nodes.contains_key(&rank) {
                let nodes = &mut Arc::make_mut(&mut next.set).nodes;
                nodes.insert(rank, nothing_on(host));
            }
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
        self.ground_changed(now, job, out);
        self.gather(now, out);
    }

    /// A user's instance gives these ranks back: its ground there is cleared, and leaves it.
    pub(super) fn vacate(&mut self, job: JobId, ranks: &Idset, out: &mut Outbox) {
        let Some(run) = self.runs.get_mut(&job) else {
            return;
        };
        // One that is ending goes on doing so; of ground alone that is what is to come of it.
        let is_ending = run.end.is_some() && run.grows().is_none();
        let goes = run.footing() == Footing::Left;
        if !run.is_instance() || !goes || is_ending {
            return;
        }
        for rank in ranks
            .iter()
            .map(Rank)
            .filter(|rank| run.is_ground(*rank) && run.is_started())
            .collect::<Vec<_>>()
        {
            run.evicted.insert(rank.0);
            if let Some(shell) = run.shell(rank) {
                run.tell(rank, shell, SIGKILL, &self.shells, out);
            }
        }
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
        ..NodeSet::default()
    }
}

/// Whose the nodes of an instance are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Footing {
    /// It is declared and holds nothing: any node that is there comes to it, and goes with its ground.
    Elastic,
    /// It is declared and of a fixed size: a node stays its own, and it has ground there again as
    /// soon as that is back.
    Kept,
    /// It is a user's: a node without ground is given back, and is paid for no more.
    Left,
}

impl Run {
    fn footing(&self) -> Footing {
        match self.name() {
            Some(_) if self.is_elastic() => Footing::Elastic,
            Some(_) => Footing::Kept,
            None => Footing::Left,
        }
    }

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

    /// Whether the end of this part is not the end of the job: ground comes and goes. One that holds
    /// something begins only where all of that is.
    pub(super) fn spares(&self, rank: Rank) -> bool {
        let has_begun = self.is_elastic() || self.is_started();
        // Of ground alone the last that ends is the end.
        let goes_on = self.grows().is_none() || self.goes_on_but(rank);
        has_begun
            && goes_on
            && self.is_ground(rank)
            && self.end.is_none()
            && !self.is_without_leader()
    }
}
