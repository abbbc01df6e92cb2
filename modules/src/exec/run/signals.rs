//! Signals to the parts of a run, and what each is owed.

use eddy_broker::{Effect, Outbox};
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::shell::{Occasion, Role, ToShell};
use eddy_wire::time::Time;

use super::{PartView, Run};
use crate::exec::shells::Shells;
use crate::exec::{SIGKILL, SIGTERM};

impl Run {
    /// Sends a signal to every part that has not ended. Ground has no task
    /// that could be told anything; it is cleared by KILL when its time has come.
    pub(in super::super) fn signal(&self, signal: i32, shells: &Shells, out: &mut Outbox) {
        self.signal_for((signal, Occasion::Asked), shells, out);
    }

    /// The signal by which its end begins: no part hears it from two leaders.
    pub(in super::super) fn signal_end(&self, signal: i32, shells: &Shells, out: &mut Outbox) {
        self.signal_for((signal, Occasion::End), shells, out);
    }

    fn signal_for(&self, what: (i32, Occasion), shells: &Shells, out: &mut Outbox) {
        let (signal, _) = what;
        for (rank, view) in &self.parts {
            let spared = signal != SIGKILL || !self.is_ground_to_be_cleared();
            if self.role_of(*rank) == Role::Ground && spared {
                continue;
            }
            match (view, self.shell(*rank)) {
                (PartView::Asked | PartView::Running, Some(epoch)) if shells.is_current(epoch) => {
                    self.say(*rank, epoch, what, shells, out);
                }
                _ => {}
            }
        }
    }

    /// Sends a signal to every part that has not ended, whatever it is.
    pub(in super::super) fn signal_all(&self, signal: i32, shells: &Shells, out: &mut Outbox) {
        for rank in self.parts.keys().filter(|rank| !self.has_ended(**rank)) {
            match self.shell(*rank) {
                Some(epoch) if shells.is_current(epoch) => {
                    self.tell(*rank, epoch, signal, shells, out);
                }
                Some(_) | None => {}
            }
        }
    }

    fn has_ended(&self, rank: Rank) -> bool {
        matches!(self.view(rank), Some(PartView::Ended(_)))
    }

    /// Sends a signal to one part. Ground is hosted no more from then on, which
    /// is told first: a leader that still lives, and of which perhaps nobody
    /// knows, could start a shell there again, and jobs, after all was cleared.
    pub(in super::super) fn tell(
        &self,
        rank: Rank,
        epoch: Epoch,
        signal: i32,
        shells: &Shells,
        out: &mut Outbox,
    ) {
        self.say(rank, epoch, (signal, Occasion::Asked), shells, out);
    }

    /// The same of what one part is owed since its attempt ends.
    pub(in super::super) fn tell_end(
        &self,
        rank: Rank,
        epoch: Epoch,
        signal: i32,
        shells: &Shells,
        out: &mut Outbox,
    ) {
        self.say(rank, epoch, (signal, Occasion::End), shells, out);
    }

    fn say(
        &self,
        rank: Rank,
        epoch: Epoch,
        (signal, occasion): (i32, Occasion),
        shells: &Shells,
        out: &mut Outbox,
    ) {
        if let (Role::Ground, Some(instance)) = (self.role_of(rank), &self.instance)
            && shells.is_reached(rank)
        {
            out.effect(Effect::Unhost(rank, instance.clone()));
        }
        let word = ToShell::Signal {
            part: self.part(rank),
            signal,
            occasion,
        };
        out.effect(Effect::Shell(epoch, word));
    }

    /// Whether nothing of the instance is to be left: its leader has ended, or
    /// had the time to. A signal that a user sends is its leader's alone.
    fn is_ground_to_be_cleared(&self) -> bool {
        self.is_without_leader() || self.kills > 0
    }

    /// The signal that a part is to be told now, whatever it was told before.
    pub(in super::super) fn owed_signal(&self, rank: Rank) -> Option<i32> {
        match (self.role_of(rank), self.end) {
            (Role::Ground, _) if self.is_ground_to_be_cleared() => Some(SIGKILL),
            (Role::Ground, _) if self.evicted.contains(rank.0) => Some(SIGKILL),
            (Role::Ground, _) | (_, None) => None,
            (Role::Tasks | Role::Leader, Some(_)) if self.kills > 0 => Some(SIGKILL),
            (Role::Tasks | Role::Leader, Some(_)) => Some(SIGTERM),
        }
    }

    /// KILL is sent now, once more.
    pub(in super::super) fn kill(&mut self, now: Time, shells: &Shells, out: &mut Outbox) {
        self.kills += 1;
        self.last_kill = now;
        self.signal(SIGKILL, shells, out);
    }
}
