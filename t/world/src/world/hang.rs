//! Leaders of instances that hang: who does, who is ended for it, and that none does for long.

use eddy_wire::time::{Span, Time};

use super::{Holder, World};
use crate::instance::Instance;
use crate::nature::{InstanceId, Life};
use crate::task::SIGKILL;

/// Until when who hangs is stopped.
const FOR_GOOD: Time = Time(i64::MAX);
/// How often is looked whether it was ended.
const LOOK: Span = Span::seconds(1);
/// Once it is calm nobody hangs longer: three in each other are begun anew, the outermost first, once the last stop
/// of others is over.
const HUNG_MAX: Span = Span::seconds(240);
/// Once it is calm for so long everybody who is there is heard.
const HEARD: Span = Span::seconds(60);

impl World {
    /// The leader of some instance hangs. Of one that its parent has not heard in this life nobody knows how long
    /// it takes to begin.
    pub(super) fn hang_some(&mut self) {
        let is_heard = |instance: &&Instance| {
            instance.nested.as_ref().is_some_and(|nested| {
                let life = nested.process.map(|process| process.life);
                nested.channel.pipe.is_some() && life.is_some() && nested.led == life
            })
        };
        let ids = self.instances.iter().filter(is_heard).map(|one| one.id);
        let ids: Vec<InstanceId> = ids.collect();
        if !ids.is_empty() {
            let id = *self.nature.random.pick(&ids);
            let of = self.instances[id.place()].of(&self.nature);
            self.nature.note(|| format!("the leader{of} hangs"));
            self.frozen.insert(Holder::Leader(id), FOR_GOOD);
        }
    }

    /// Until when what comes for somebody waits who is stopped until then.
    pub(super) fn waits_until(&self, until: Time) -> Time {
        match until {
            FOR_GOOD => self.nature.now.after(LOOK),
            until => until,
        }
    }

    /// The shell of a leader ends it since it hangs.
    pub(super) fn ends_hung(&mut self, id: InstanceId, life: Life) {
        let nested = self.instances[id.place()].nested.as_ref();
        let Some(nested) = nested.filter(|nested| nested.lives(life)) else {
            return;
        };
        let now = self.nature.now;
        let is_calm = self.nature.calm.is_some_and(|calm| now - calm > HEARD);
        let parent = Holder::Leader(nested.parent);
        let is_stopped =
            |holder: Holder| self.frozen.get(&holder).is_some_and(|until| *until > now);
        // One that waits before it tries again may do so for longer here than any process does.
        let is_there = nested.channel.pipe.is_some() && !is_stopped(Holder::Leader(id));
        if is_calm && is_there && !is_stopped(parent) {
            let sentence = "its leader is there, and is ended as one that hangs".to_owned();
            self.nature.fail(id, sentence);
        }
        self.child_ended(id, SIGKILL);
    }

    /// Who is stopped for good and was not ended.
    pub(super) fn hung(&self) -> Option<InstanceId> {
        let hangs = |(holder, until): (&Holder, &Time)| match holder {
            Holder::Leader(id) if *until == FOR_GOOD => Some(*id),
            Holder::Leader(_) | Holder::Agent(_) | Holder::Shell(..) => None,
        };
        self.frozen.iter().find_map(hangs)
    }

    /// Somebody hangs for longer than may be, now that it is calm since then.
    pub(super) fn hangs_too_long(&self, calm: Time) -> Option<InstanceId> {
        self.hung().filter(|_| self.nature.now - calm > HUNG_MAX)
    }
}
