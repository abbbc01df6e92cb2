//! What is heard of shells of the leader's own node.
//!
//! Part of the loop. All of it goes through the tree, which has an agent of this node end what it
//! hosts on ground that is over before the broker hears of that.

use eddy_broker::{Arrival, Phase};
use eddy_wire::id::Epoch;
use eddy_wire::shell::FromShell;

use super::Leader;
use crate::clients::LinkId;

impl Leader {
    pub(super) fn word(&mut self, id: LinkId, word: FromShell) {
        tracing::trace!(link = id.0, ?word, "shell");
        if let FromShell::Hello {
            epoch,
            instance,
            pid,
            ..
        } = &word
        {
            tracing::info!(epoch = epoch.0, pid, instance, "a shell says hello");
            if let Some(earlier) = self.peers.hello(id, *epoch) {
                self.peers.remove_shell(earlier);
                self.own_shell(Arrival::ShellAway(*epoch));
            }
        }
        match self.peers.epoch_of(id) {
            Some(epoch) if self.broker.phase() == Phase::Stopped => self.dismiss(epoch),
            Some(epoch) => self.own_shell(Arrival::Shell(epoch, word)),
            None => {
                tracing::warn!(link = id.0, "a shell spoke before its hello and is closed");
                self.close_shell(id);
            }
        }
    }

    pub(super) fn close_shell(&mut self, id: LinkId) {
        let Some(epoch) = self.peers.remove_shell(id) else {
            return;
        };
        tracing::info!(epoch = epoch.0, "a shell's connection ended");
        self.own_shell(Arrival::ShellAway(epoch));
        if self.dead.remove(&epoch) {
            self.own_shell(Arrival::ShellDead(epoch));
        }
    }

    /// A shell is dead and swept up after: what it said last counts first.
    pub(super) fn shell_dead(&mut self, epoch: Epoch) {
        self.shells.dead(epoch);
        if self.peers.has_shell(epoch) {
            self.dead.insert(epoch);
        } else {
            self.own_shell(Arrival::ShellDead(epoch));
        }
    }

    /// It comes back from the tree as an arrival, at once or in a while.
    fn own_shell(&mut self, arrival: Arrival) {
        self.tree.own_shell(self.clock.now(), arrival);
    }
}
