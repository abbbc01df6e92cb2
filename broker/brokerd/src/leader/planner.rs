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
    deltas: Vec<Delta>,
    next: Next,
}

/// Whether a slice is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing was told that could let a job start.
    Idle,
    Slice,
}

impl PlannerThread {
    /// Starts it; it ends with the process.
    pub fn start(inside: Inside) -> io::Result<PlannerThread> {
        let (mailbox, letters) = channel::<(Time, Vec<Delta>)>();
        std::thread::Builder::new()
            .name("planner".into())
            .spawn(move || {
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
        Ok(PlannerThread {
            mailbox,
            outstanding: 0,
            deltas: Vec::new(),
            next: Next::Idle,
        })
    }

    /// Changes for the next slice; none at all asks for one all the same. That a
    /// job holds what the planner proposed lets no other start, so it is told
    /// along with the next change that may.
    pub fn tell(&mut self, deltas: Vec<Delta>) {
        let news = |delta: &Delta| !matches!(delta, Delta::Held(..));
        if deltas.is_empty() || deltas.iter().any(news) {
            self.next = Next::Slice;
        }
        self.deltas.extend(deltas);
    }

    /// Asks for a slice if one is due.
    pub fn ask(&mut self, now: Time) {
        if std::mem::replace(&mut self.next, Next::Idle) == Next::Slice {
            self.outstanding += 1;
            let sent = self.mailbox.send((now, std::mem::take(&mut self.deltas)));
            assert!(
                sent.is_ok(),
                "the planner's thread lives as long as the process"
            );
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
