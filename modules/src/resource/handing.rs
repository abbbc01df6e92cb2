//! Drains of a queue instance's nodes, which are its parent's.
//!
//! Who drains one in the instance, or what cannot be killed there, means the node. So it is handed up and the
//! parent drains it; else that would go on passing jobs to it, which come back. Until the parent tells that it
//! has, the drain is this instance's own, so that nothing begins there; then it is let go, and the node is back
//! in service when the parent says so.

use std::collections::BTreeMap;

use eddy_broker::{Effect, Outbox, ToParent};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Kind;
use eddy_wire::id::{Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::services::child::DrainedNodes;
use eddy_wire::services::resource::DrainState;
use eddy_wire::time::Time;

use super::Resource;
use crate::settings::Place;

/// Whether drains are handed up, and what of them was.
pub(super) struct Handing {
    whose: Whose,
    /// What the parent was told over the present channel.
    told: Idset,
}

/// Whose the nodes are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The instance's, for as long as it has them.
    Own,
    /// The parent's.
    Parents,
}

impl Handing {
    pub(super) fn new(place: &Place) -> Handing {
        Handing {
            whose: match (&place.child, &place.name) {
                (Some(_), Some(_)) => Whose::Parents,
                (None, _) | (_, None) => Whose::Own,
            },
            told: Idset::new(),
        }
    }

    /// The channel stands anew: what was told may not have been heard.
    pub(super) fn told_anew(&mut self) {
        self.told = Idset::new();
    }

    /// Whether there may be something to hand up, or to let go.
    pub(super) fn is_owed(&self, drained: &BTreeMap<Rank, (DrainState, Seq)>) -> bool {
        self.whose == Whose::Parents && !drained.is_empty()
    }
}

impl Resource {
    /// Tells the parent of nodes that were drained here, and lets go those that are drained there.
    pub(super) fn hand_up_drains(&mut self, now: Time, out: &mut Outbox) {
        if !self.handing.is_owed(&self.drained) {
            return;
        }
        let above = self.above.drained();
        let both = self.drained().intersect(&above);
        if !both.is_empty() {
            out.append_own(now, Kind::Undrain(both, None));
        }
        let owed = self.drained().difference(&above);
        if owed == self.handing.told {
            return;
        }
        self.handing.told.clone_from(&owed);
        if owed.is_empty() {
            return;
        }
        let mut nodes: BTreeMap<(&str, u32), Idset> = BTreeMap::new();
        for (rank, (state, _)) in &self.drained {
            if owed.contains(rank.0) {
                let said = nodes.entry((&state.reason, state.userid)).or_default();
                said.insert(rank.0);
            }
        }
        let nodes = nodes
            .into_iter()
            .map(|((reason, userid), ranks)| DrainedNodes {
                ranks,
                reason: reason.to_owned(),
                userid,
            });
        out.effect(Effect::Parent(ToParent::Drained(nodes.collect())));
    }

    /// Refuses where one of these is the parent's to drain and to let go, and is drained there.
    pub(super) fn is_drained_above(&self, ranks: &Idset) -> Result<(), Refusal> {
        let above = ranks.intersect(&self.above.drained());
        if above.is_empty() {
            return Ok(());
        }
        let text = format!(
            "targets: ranks {above} are drained in the instance around this one, which lets them go there"
        );
        Err(Refusal::new(Code::Conflict, text))
    }
}
