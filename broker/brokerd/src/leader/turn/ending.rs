//! The end of a leader: shells are dismissed, answers read, agents ended.
//!
//! Part of the loop, after the end of the instance is durable. It waits for
//! nobody longer than its patience.

use std::time::{Duration, Instant};

use eddy_broker::Effect;
use eddy_wire::id::Epoch;
use eddy_wire::shell::ToShell;

use super::{Event, Leader, TURN_MAX};
use crate::leader::Inner;

/// How long the end waits for answers to be read and shells to be gone.
const END_PATIENCE: Duration = Duration::from_secs(2);
/// And for each rank on another node.
const END_PATIENCE_PER_RANK: Duration = Duration::from_millis(20);
const END_LOOK: Duration = Duration::from_millis(2);

impl Leader {
    /// Tells a shell that it may go. The broker has recorded its end and answers
    /// nobody, and a shell that nobody answers waits for another leader.
    pub(super) fn dismiss(&mut self, epoch: Epoch) {
        let leader = self.broker.epoch();
        for word in [ToShell::Welcome { leader }, ToShell::Exit] {
            self.act(Effect::Shell(epoch, word));
        }
    }

    /// Takes what still comes, for the shells that say hello only now.
    fn dismiss_late_shells(&mut self) {
        for _ in 0..TURN_MAX {
            let event = match (self.arrived.try_recv(), self.tree.try_next()) {
                (Ok(arrived), None) => Event::Arrived(arrived),
                (Err(_), Some(input)) => Event::Tree(input),
                (Ok(arrived), Some(input)) => {
                    self.event(Event::Arrived(arrived));
                    Event::Tree(input)
                }
                (Err(_), None) => return,
            };
            self.event(event);
        }
    }

    /// Lets answers be read and shells be gone, for a moment; then ends the
    /// agents.
    pub(super) async fn end(mut self) {
        let ranks = self.tree.others().len() as u32;
        let until = Instant::now() + END_PATIENCE + END_PATIENCE_PER_RANK * ranks;
        loop {
            self.peers.flush();
            self.tree.flush();
            while let Ok(inner) = self.inner.try_recv() {
                if let Inner::ShellDead(epoch) = inner {
                    self.shells.dead(epoch);
                }
            }
            self.dismiss_late_shells();
            let shells = self.shells.watched() + self.tree.shells();
            let done = self.peers.waiting() == 0 && shells == 0;
            if done || Instant::now() >= until {
                break;
            }
            tokio::time::sleep(END_LOOK).await;
        }
        self.shells.leave();
        let patience = END_PATIENCE + END_PATIENCE_PER_RANK * ranks;
        self.nodes.end((Instant::now() + patience).into()).await;
        self.store.close();
        tracing::info!("the instance has ended");
    }
}
