//! Nodes that nobody hears of and that a person has declared dead.
//!
//! A shell is lost by the word of its agent, who has seen that nothing of it is left. Where no agent comes back
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
            let (part, signal) = (*part, SIGKILL);
            out.effect(Effect::Shell(epoch, ToShell::Signal { part, signal }));
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
    /// Somebody declares that nothing of the shells of these ranks is left.
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
            if let Some(epoch) = shell {
                let by = Some(Box::new(by.clone()));
                out.append_own(now, Kind::ShellLost(epoch, by));
            }
        }
        out.reply(caller, &());
    }
}
