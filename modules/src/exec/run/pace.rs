//! Whether a run has its cores, and what its shells are owed for that.

use std::collections::BTreeSet;
use std::sync::Arc;

use eddy_broker::{Effect, Outbox};
use eddy_wire::event::Kind;
use eddy_wire::grant::Grant;
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::shell::ToShell;
use eddy_wire::suspension::{Standing, Suspension};
use eddy_wire::time::{Span, Time};

use super::{PartView, Run};
use crate::exec::shells::Shells;

/// How far a run is stopped.
#[derive(Default)]
pub(super) struct Pace {
    suspension: Suspension,
    /// The parts that said they are stopped.
    stopped: BTreeSet<Rank>,
    /// Whether the change of its grant was proposed.
    proposed: Proposed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Proposed {
    #[default]
    NotYet,
    Yes,
}

impl Pace {
    pub(super) fn apply(&mut self, t: Time, kind: &Kind) {
        self.suspension.apply(t, kind);
        if matches!(
            kind,
            Kind::Suspend(_) | Kind::Resume(_) | Kind::GrantChanged(_)
        ) {
            self.proposed = Proposed::NotYet;
        }
        // What was said of an earlier stop says nothing of this one.
        if self.suspension.standing() == Standing::Runs || matches!(kind, Kind::Suspend(_)) {
            self.stopped.clear();
        }
    }

    /// Whether its time limit runs.
    pub(super) fn counts(&self) -> bool {
        !self.suspension.standing().is_without_cores()
    }

    /// How much later its time limit is over.
    pub(super) fn lasted(&self) -> Span {
        self.suspension.lasted()
    }
}

impl Run {
    /// It was granted what it runs on.
    pub(in super::super) fn granted(&mut self, t: Time, grant: &Arc<Grant>) {
        self.pace.apply(t, &Kind::Alloc(Arc::clone(grant)));
    }

    /// Whether a change of its grant still means what it did when it was proposed: of tasks, that they
    /// are to give their cores back, or to have them again.
    pub(in super::super) fn is_to_change(&self) -> bool {
        match self.pace.suspension.standing() {
            Standing::Stopping | Standing::Resuming => self.end.is_none() && !self.end_proposed,
            Standing::Runs | Standing::Suspended => self.is_instance(),
        }
    }

    /// Whether its tasks are stopped, or to be.
    pub(in super::super) fn is_to_stop(&self) -> bool {
        self.pace.suspension.standing() != Standing::Runs
    }

    /// What the part on a rank is to be told of its pace, whatever it was told before: nothing, where
    /// it never was to stop.
    fn owed_pace(&self, rank: Rank) -> Option<ToShell> {
        let part = self.part(rank);
        if self.is_instance() || !self.pace.suspension.is_touched() {
            return None;
        }
        match (self.end, self.pace.suspension.standing()) {
            // It is to end, which it cannot while it is stopped.
            (Some(_), _) => Some(ToShell::Proceed {
                part,
                cores: Idset::new(),
            }),
            (None, Standing::Runs) => Some(ToShell::Proceed {
                part,
                cores: self.grant.set.nodes.get(&rank)?.cores.clone(),
            }),
            (None, Standing::Stopping | Standing::Suspended | Standing::Resuming) => {
                let stop = self.pace.suspension.stops();
                Some(ToShell::Pause { part, stop })
            }
        }
    }

    /// Tells one part that runs.
    pub(in super::super) fn pace_part(
        &self,
        rank: Rank,
        epoch: Epoch,
        shells: &Shells,
        out: &mut Outbox,
    ) {
        let runs = self.view(rank) == Some(&PartView::Running);
        if let Some(word) = self.owed_pace(rank).filter(|_| runs)
            && shells.is_current(epoch)
        {
            out.effect(Effect::Shell(epoch, word));
        }
    }

    /// Tells all parts that run.
    pub(in super::super) fn pace_all(&self, shells: &Shells, out: &mut Outbox) {
        for rank in self.parts.keys() {
            if let Some(epoch) = self.shell(*rank) {
                self.pace_part(*rank, epoch, shells, out);
            }
        }
    }

    /// A part says that it is stopped, as it was to be for that time.
    pub(in super::super) fn paused(&mut self, rank: Rank, stop: u32) {
        let suspension = &self.pace.suspension;
        let is_to_stop = suspension.standing() == Standing::Stopping && suspension.stops() == stop;
        if self.parts.contains_key(&rank) && is_to_stop {
            self.pace.stopped.insert(rank);
        }
    }

    /// The grant without its cores, once every part that is not over is stopped.
    pub(in super::super) fn suspension_recordable(&mut self, now: Time) -> Option<Grant> {
        let is_due = self.pace.suspension.standing() == Standing::Stopping
            && self.pace.proposed == Proposed::NotYet
            && self.end.is_none()
            && !self.end_proposed
            && !self.is_lacking();
        if !is_due {
            return None;
        }
        let mut left = self.parts.iter();
        let is_stopped = |rank: &Rank| self.pace.stopped.contains(rank);
        let all = left.all(|(rank, view)| match view {
            PartView::Running => is_stopped(rank),
            PartView::Asked => false,
            PartView::Ended(_) => true,
        });
        // Where nothing is left that could be stopped its end is to be recorded.
        if !all || self.tally.unended == 0 {
            return None;
        }
        let grant = self.pace.suspension.without_cores(now)?;
        self.pace.proposed = Proposed::Yes;
        Some(grant)
    }
}
