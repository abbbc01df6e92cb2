//! When nothing begins here: the parent is silent for too long, or the instance is about to end.

use eddy_broker::{Notice, Outbox, Volatile};
use eddy_wire::time::Time;

use super::Sched;
use crate::silence::Turn;

impl Sched {
    /// It is now this time: whether work begins may have turned by that alone.
    pub(super) fn looks_at_time(&mut self, now: Time, out: &mut Outbox) {
        self.silence.ends_at(self.place.end());
        let turn = self.silence.at(now);
        self.parent_turns(turn, out);
    }

    pub(super) fn wake_at_end(&self, out: &mut Outbox) {
        if let Some(end) = self.place.end() {
            out.volatile(Volatile::Wake(end));
        }
    }

    /// The parent is not heard from now on.
    pub(super) fn parent_silent(&mut self, now: Time, out: &mut Outbox) {
        for then in self.silence.begins(now) {
            out.volatile(Volatile::Wake(then));
        }
        self.unordered.say_again();
    }

    /// The parent has been silent for too long, or is heard again: all who wait.
    pub(super) fn parent_turns(&mut self, turn: Option<Turn>, out: &mut Outbox) {
        if turn.is_some() {
            self.unordered.say_again();
            out.notice(Notice::Halted(self.silence.reason()));
            self.tell_wants(|_| true, out);
        }
    }
}
