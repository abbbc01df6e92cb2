//! The planner: at once on the loop's own thread while that is a matter of
//! microseconds, else on a thread beside it, so that a long pass holds up nobody.
//!
//! Fed by the leader's loop. It works in bounded slices: an outcome that is
//! unfinished is asked for again by the sched module. Handing a slice over and
//! back costs two changes of threads, which for one job is more than planning it.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use eddy_sched::Lines;
use eddy_wire::plan::{Delta, Outcome};
use eddy_wire::time::Time;

use super::{Inner, Inside};

/// Verdicts of one slice, so that even on thousands of nodes a slice takes no
/// more than a few milliseconds.
const STEPS: u32 = 128;
/// Changes that are taken in at once; more of them are a pass of some size.
const DELTAS_HERE: usize = 256;
/// What a slice may have taken for the next to be worked at once.
const HERE_MAX: Duration = Duration::from_micros(150);

/// The planner and what it is to be told.
#[derive(Debug)]
pub struct Planning {
    planner: Arc<Mutex<Lines>>,
    thread: Thread,
    /// Slices asked of the thread and not answered.
    outstanding: u64,
    /// What the next slice will be told.
    deltas: Vec<Delta>,
    next: Next,
    /// How long the last slice took.
    took: Duration,
}

/// What the thread is told: the time, and what changed.
type Letter = (Time, Vec<Delta>);

/// The thread. Most instances inside others never need one.
#[derive(Debug)]
enum Thread {
    /// Its answers will go here.
    NotYet(Inside),
    /// Its mailbox.
    Started(Sender<Letter>),
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

/// Where a slice may be worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At once, if it is likely to be short.
    Here,
    /// On the thread.
    Beside,
}

/// Whether a slice is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing was told that could let a job start.
    Idle,
    Slice,
}

impl Planning {
    /// At rest; answers of the thread will go to `inside`.
    pub fn new(inside: Inside) -> Planning {
        Planning {
            planner: Arc::new(Mutex::new(Lines::new())),
            thread: Thread::NotYet(inside),
            outstanding: 0,
            deltas: Vec::new(),
            next: Next::Idle,
            took: Duration::ZERO,
        }
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

    /// Works a slice that is due, if it is likely to be short and may be worked
    /// here; else asks the thread for it.
    pub fn ask(&mut self, now: Time, place: Place) -> Option<Outcome> {
        if std::mem::replace(&mut self.next, Next::Idle) == Next::Idle {
            return None;
        }
        let deltas = std::mem::take(&mut self.deltas);
        let is_short = deltas.len() <= DELTAS_HERE && self.took <= HERE_MAX;
        // Slices are worked in the order of their changes: not past the thread.
        if place == Place::Here && is_short && self.outstanding == 0 {
            return Some(self.work(now, deltas));
        }
        let Some(mailbox) = self.mailbox() else {
            return Some(self.work(now, deltas));
        };
        let sent = mailbox.send((now, deltas));
        assert!(
            sent.is_ok(),
            "the planner's thread lives as long as the process"
        );
        self.outstanding += 1;
        None
    }

    fn work(&mut self, now: Time, deltas: Vec<Delta>) -> Outcome {
        let begun = Instant::now();
        let outcome = slice(&mut lock(&self.planner), now, deltas);
        self.took = begun.elapsed();
        outcome
    }

    /// The way to the thread, started now if it was not; none if the system has
    /// no thread to give, and then all is worked here.
    fn mailbox(&mut self) -> Option<&Sender<Letter>> {
        if let Thread::NotYet(inside) = &self.thread {
            let (mailbox, letters) = channel();
            let (planner, inside) = (Arc::clone(&self.planner), inside.clone());
            let builder = std::thread::Builder::new().name("planner".into());
            match builder.spawn(move || serve(&planner, &letters, &inside)) {
                Ok(_) => self.thread = Thread::Started(mailbox),
                Err(error) => tracing::error!(%error, "the planner has no thread"),
            }
        }
        match &self.thread {
            Thread::NotYet(_) => None,
            Thread::Started(mailbox) => Some(mailbox),
        }
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

/// The thread: works off what it is told; ends with the process.
fn serve(planner: &Mutex<Lines>, letters: &Receiver<Letter>, inside: &Inside) {
    while let Ok((mut now, mut deltas)) = letters.recv() {
        let mut covers = 1;
        while let Ok((later, more)) = letters.try_recv() {
            now = later;
            covers += 1;
            deltas.extend(more);
        }
        let begun = Instant::now();
        let outcome = slice(&mut lock(planner), now, deltas);
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
}

fn slice(planner: &mut Lines, now: Time, deltas: Vec<Delta>) -> Outcome {
    deltas.into_iter().for_each(|delta| planner.apply(delta));
    planner.plan(now, STEPS)
}

fn lock(planner: &Mutex<Lines>) -> MutexGuard<'_, Lines> {
    planner
        .lock()
        .expect("a panic on any thread ends the process")
}
