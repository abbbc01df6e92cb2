//! The planner on a thread of its own, so that a long pass holds up nobody.
//!
//! Fed by the leader's loop, answers into it. It works in bounded slices: an
//! outcome that is unfinished is asked for again by the sched module.

use std::io;
use std::sync::mpsc::{Sender, channel};

use eddy_sched::Planner;
use eddy_wire::plan::Delta;
use eddy_wire::time::Time;

use super::{Inner, Inside};

/// Verdicts of one slice, so that even on thousands of nodes a slice takes no
/// more than a few milliseconds.
const STEPS: u32 = 128;

/// The thread's mailbox.
#[derive(Debug)]
pub struct PlannerThread {
    mailbox: Sender<(Time, Vec<Delta>)>,
    /// Slices asked for and not answered.
    outstanding: u64,
    /// What the next slice will be told.
    deltas: Option<Vec<Delta>>,
}

impl PlannerThread {
    /// Starts it; it ends with the process.
    pub fn start(inside: Inside) -> io::Result<PlannerThread> {
        let (mailbox, letters) = channel::<(Time, Vec<Delta>)>();
        std::thread::Builder::new().name("planner".into()).spawn(move || {
            let mut planner = Planner::new();
            while let Ok((mut now, deltas)) = letters.recv() {
                let mut letters_read = 1;
                deltas.into_iter().for_each(|delta| planner.apply(delta));
                while let Ok((later, deltas)) = letters.try_recv() {
                    now = later;
                    letters_read += 1;
                    deltas.into_iter().for_each(|delta| planner.apply(delta));
                }
                let outcome = planner.plan(now, STEPS);
                if inside.send(Inner::Planned(outcome, letters_read)).is_err() {
                    return;
                }
            }
        })?;
        Ok(PlannerThread { mailbox, outstanding: 0, deltas: None })
    }

    /// Changes for the next slice, which is asked for even when there are none.
    pub fn tell(&mut self, deltas: Vec<Delta>) {
        self.deltas.get_or_insert_default().extend(deltas);
    }

    /// Asks for a slice if anything was told.
    pub fn ask(&mut self, now: Time) {
        if let Some(deltas) = self.deltas.take() {
            self.outstanding += 1;
            let sent = self.mailbox.send((now, deltas));
            assert!(sent.is_ok(), "the planner's thread lives as long as the process");
        }
    }

    /// An answer came that covers so many slices asked for.
    pub fn answered(&mut self, covers: u64) {
        self.outstanding -= covers;
    }

    /// Whether an answer is to come.
    pub fn is_busy(&self) -> bool {
        self.outstanding > 0
    }
}
