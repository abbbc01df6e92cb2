//! The planner: at once on the loop's own thread while that is a matter of
//! microseconds, else on a thread beside it, so that a long pass holds up nobody.
//!
//! Fed by the leader's loop. It works in bounded slices: an outcome that is
//! unfinished is asked for again by the sched module. Handing a slice over and
//! back costs two changes of threads, which for one job is more than planning it.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use eddy_sched::Planner;
use eddy_wire::plan::{Delta, Outcome};
use eddy_wire::time::Time;

use super::{Inner, Inside};

/// Verdicts of one slice, so that even on thousands of nodes a slice takes no
/// more than a few milliseconds.
const STEPS: u32 = 128;
/// Changes that are taken in at once; more of them are a pass of some size.
const DELTAS_HERE: usize = 64;
/// What a slice may have taken for the next to be worked at once.
const HERE_MAX: Duration = Duration::from_micros(150);

/// The planner and what it is to be told.
#[derive(Debug)]
pub struct Planning {
    planner: Arc<Mutex<Planner>>,
    /// Of the thread.
    mailbox: Sender<(Time, Vec<Delta>)>,
    /// Slices asked of the thread and not answered.
    outstanding: u64,
    /// What the next slice will be told.
    deltas: Vec<Delta>,
    next: Next,
    /// How long the last slice took.
    took: Duration,
}

/// What the thread worked off.
#[derive(Debug)]
pub struct Slice {
    /// The verdicts.
    pub outcome: Outcome,
    /// How many slices asked for it covers.
    pub covers: u64,
    /// How long it took.
    pub took: Duration,
}

/// Whether a slice is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing was told that could let a job start.
    Idle,
    Slice,
}

impl Planning {
    /// Starts the thread; it ends with the process.
    pub fn start(inside: Inside) -> io::Result<Planning> {
        let planner = Arc::new(Mutex::new(Planner::new()));
        let (mailbox, letters) = channel::<(Time, Vec<Delta>)>();
        let shared = Arc::clone(&planner);
        std::thread::Builder::new()
            .name("planner".into())
            .spawn(move || {
                while let Ok((mut now, mut deltas)) = letters.recv() {
                    let mut covers = 1;
                    while let Ok((later, more)) = letters.try_recv() {
                        now = later;
                        covers += 1;
                        deltas.extend(more);
                    }
                    let begun = Instant::now();
                    let outcome = slice(&mut lock(&shared), now, deltas);
                    let took = begun.elapsed();
                    let done = Slice {
                        outcome,
                        covers,
                        took,
                    };
                    if inside.send(Inner::Planned(done)).is_err() {
                        return;
                    }
                }
            })?;
        Ok(Planning {
            planner,
            mailbox,
            outstanding: 0,
            deltas: Vec::new(),
            next: Next::Idle,
            took: Duration::ZERO,
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

    /// Works a slice that is due, if it is likely to be short; else asks the
    /// thread for it.
    pub fn ask(&mut self, now: Time) -> Option<Outcome> {
        if self.next == Next::Idle {
            return None;
        }
        let is_short = self.deltas.len() <= DELTAS_HERE && self.took <= HERE_MAX;
        // Slices are worked in the order of their changes: not past the thread.
        if !is_short || self.outstanding > 0 {
            self.ask_thread(now);
            return None;
        }
        self.next = Next::Idle;
        let begun = Instant::now();
        let deltas = std::mem::take(&mut self.deltas);
        let outcome = slice(&mut lock(&self.planner), now, deltas);
        self.took = begun.elapsed();
        Some(outcome)
    }

    /// Asks the thread for a slice that is due.
    pub fn ask_thread(&mut self, now: Time) {
        if std::mem::replace(&mut self.next, Next::Idle) == Next::Idle {
            return;
        }
        self.outstanding += 1;
        let deltas = std::mem::take(&mut self.deltas);
        let sent = self.mailbox.send((now, deltas));
        assert!(
            sent.is_ok(),
            "the planner's thread lives as long as the process"
        );
    }

    /// The thread answered.
    pub fn answered(&mut self, slice: &Slice) {
        self.outstanding -= slice.covers;
        self.took = slice.took;
    }

    /// Whether an answer of the thread is to come.
    pub fn is_busy(&self) -> bool {
        self.outstanding > 0
    }
}

fn slice(planner: &mut Planner, now: Time, deltas: Vec<Delta>) -> Outcome {
    deltas.into_iter().for_each(|delta| planner.apply(delta));
    planner.plan(now, STEPS)
}

fn lock(planner: &Mutex<Planner>) -> MutexGuard<'_, Planner> {
    planner
        .lock()
        .expect("a panic on any thread ends the process")
}
