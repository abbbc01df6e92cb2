//! Nodes that nobody hears of and that a person has declared dead.
//!
//! A shell is lost by the word of its agent, who has seen that nothing of it is left. Where an agent is there it ends
//! a shell that hangs when it is told to. Where none comes back
//! somebody has to say so, and takes it on himself. Should the node come back, its shell has that life behind
//! it as recorded: what it still has is killed, and then it ends.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Caller, Effect, Outbox};
use eddy_wire::event::{DeclaredDead, Kind};
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::shell::{Part, ToShell};
use eddy_wire::time::Time;

use super::{Exec, SIGKILL};

/// Parts that shells still have whose loss is recorded, as they told.
#[derive(Debug, Default)]
pub(super) struct Returned(BTreeMap<Epoch, BTreeSet<Part>>);

/// Shells that are being ended since somebody has declared their nodes dead, whose agents are there: they see to
/// it that nothing is left. Lost with this leader: whoever still wants it says so again.
#[derive(Debug, Default)]
pub(super) struct Ending(BTreeMap<Epoch, DeclaredDead>);

impl Ending {
    /// It is dead, and by whose word it was ended.
    pub(super) fn over(&mut self, epoch: Epoch) -> Option<Box<DeclaredDead>> {
        self.0.remove(&epoch).map(Box::new)
    }
}

impl Returned {
    /// A shell is back from a life that is over: what it has is killed, and without anything it ends.
    pub(super) fn welcome(
        &mut self,
        epoch: Epoch,
        parts: impl Iterator<Item = Part>,
        out: &mut Outbox,
    ) {
        let parts: BTreeSet<Part> = parts.collect();
        for part in &parts {
            let word = ToShell::signal(*part, SIGKILL);
            out.effect(Effect::Shell(epoch, word));
        }
        self.0.insert(epoch, parts);
        self.dismiss(epoch, out);
    }

    /// A part of it has ended: with the last it ends, too.
    pub(super) fn ended(&mut self, epoch: Epoch, part: Part, out: &mut Outbox) {
        if self
            .0
            .get_mut(&epoch)
            .is_some_and(|parts| parts.remove(&part))
        {
            self.dismiss(epoch, out);
        }
    }

    fn dismiss(&mut self, epoch: Epoch, out: &mut Outbox) {
        if self.0.get(&epoch).is_some_and(BTreeSet::is_empty) {
            self.0.remove(&epoch);
            out.effect(Effect::Shell(epoch, ToShell::Exit));
        }
    }

    /// Its connection ended: it tells anew.
    pub(super) fn away(&mut self, epoch: Epoch) {
        self.0.remove(&epoch);
    }
}

impl Exec {
    /// Ranks are reached: what their agents may not have heard before they are told again.
    pub(super) fn end_again(&self, new: &Idset, out: &mut Outbox) {
        for epoch in self.ending.0.keys() {
            let rank = self.shells.rank_of(*epoch);
            if let Some(rank) = rank.filter(|rank| new.contains(rank.0)) {
                out.effect(Effect::EndShell(rank, *epoch));
            }
        }
    }

    /// Somebody declares that nothing of the shells of these ranks is left. Where an agent is there it makes that true.
    pub(super) fn declared_dead(
        &mut self,
        now: Time,
        (caller, ranks): (Caller, &Idset),
        by: &DeclaredDead,
        out: &mut Outbox,
    ) {
        for rank in ranks.iter().map(Rank) {
            let shell = self.shells.of(rank);
            // The leader's own serves others, too, and is there.
            let shell = shell.filter(|epoch| self.shells.rank_of(*epoch) == Some(rank));
            let Some(epoch) = shell else {
                continue;
            };
            if self.shells.is_reached(rank) {
                // No word is better than that of its agent.
                self.ending.0.insert(epoch, by.clone());
                out.effect(Effect::EndShell(rank, epoch));
            } else {
                let by = Some(Box::new(by.clone()));
                out.append_own(now, Kind::ShellLost(epoch, by));
            }
        }
        out.reply(caller, &());
    }
}
