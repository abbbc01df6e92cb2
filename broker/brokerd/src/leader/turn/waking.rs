//! When the loop is to go on although nothing comes.
//!
//! Part of the loop. It sets the timer and waits for nothing.

use std::pin::Pin;
use std::time::Duration;

use eddy_wire::time::Time;
use tokio::time::Sleep;

use super::{FAR, Leader};
use crate::clock;

impl Leader {
    pub(super) fn first_wake(&self) -> Option<Time> {
        let own = self.wakes.first().copied();
        own.into_iter().chain(self.tree.wake()).min()
    }

    /// Sets the timer to the first wake-up that was asked for.
    pub(super) fn set_wake(&mut self, mut wake: Pin<&mut Sleep>) {
        let Some(at) = self.first_wake() else { return };
        let wait = clock::earliest(at - self.clock.now());
        let after = Duration::from_micros(wait.0.max(0) as u64);
        let at = tokio::time::Instant::now() + after.min(FAR);
        let late = wake.deadline().saturating_duration_since(at);
        let early = at.saturating_duration_since(wake.deadline());
        // Broker time and the runtime's clock differ by microseconds each time.
        if late > Duration::from_millis(1) || early > Duration::from_millis(1) {
            wake.as_mut().reset(at);
        }
    }
}
