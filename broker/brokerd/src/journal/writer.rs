//! The writer thread: the only one that changes a running journal. The loop sends batches and hears
//! when they are durable. It commits at once when idle; what arrives during a commit is the next one.
//! It never drops a batch: a full disk is waited out, anything else ends it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, thread};

use thiserror::Error;

use super::open::Journal;
use super::store::CommitError;
use super::{BACKLOG_BYTES_MAX, BACKLOG_ROWS_MAX, Batch, COMMIT_BYTES_MAX, COMMIT_ROWS_MAX};

/// Log pages (4 KiB) from which an idle moment is used to write them back. Fewer would write the
/// last page of each table back again and again; the bound for busy times is in `schema`.
const CHECKPOINT_PAGES: usize = 1_024;
/// Pauses between attempts while the disk is full.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How often the ballast is tried again while it is missing.
const BALLAST_PAUSE: Duration = Duration::from_secs(2);

/// What the writer tells. It is told on the writer's thread: pass it on and return.
#[derive(Debug)]
pub enum Committed {
    /// Every record up to `seq`, and all else sent with them, survives what [`super::Sync`] says.
    Durable {
        /// The last durable record.
        seq: u64,
        /// Finished jobs forgotten by purges in this commit.
        purged: u64,
        /// When it became durable.
        at: Instant,
        /// How long the commit took.
        took: Duration,
    },
    /// No space; said once, until [`Committed::SpaceBack`]. Commits are retried, on the room of the
    /// ballast first: records of ends may still become durable, so intake should refuse.
    DiskFull {
        /// The state directory.
        dir: PathBuf,
        /// Bytes free there, before the ballast was given up.
        free: u64,
        /// Records that wait.
        waiting: usize,
    },
    /// Commits succeed again and the ballast is back.
    SpaceBack {
        /// Bytes free.
        free: u64,
    },
    /// The journal cannot go on; nothing more will become durable. The leader ends and restarts.
    Fatal(CommitError),
}

/// Why a batch was not taken.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SendError {
    /// Too much waits already.
    #[error(
        "{rows} records of {bytes} bytes wait for the disk; at most {BACKLOG_ROWS_MAX} of {BACKLOG_BYTES_MAX} may"
    )]
    Backlog {
        /// Records waiting.
        rows: usize,
        /// Bytes waiting.
        bytes: usize,
    },
    /// The writer ended after a fatal error.
    #[error("the journal's writer has ended")]
    Ended,
}

/// Why not all that was sent is durable at the end.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CloseError {
    /// The disk is full.
    #[error("no space left for the journal; {rows} records were not written")]
    Full {
        /// Records not written.
        rows: usize,
    },
    /// [`Committed::Fatal`] was told before.
    #[error("the journal's writer ended after a fatal error")]
    Fatal,
}

/// What was sent and is not durable yet, the commit under way included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Records.
    pub rows: usize,
    /// Bytes of text and blobs.
    pub bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Go on.
    Run,
    /// Commit what was sent, then end.
    Drain,
    /// End after the commit under way.
    Abandon,
    /// It has ended.
    Ended,
}

struct State {
    queue: VecDeque<Batch>,
    backlog: Backlog,
    order: Order,
    /// A size limit to apply before the next attempt.
    size_max: Option<Option<u64>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic of the other side leaves plain numbers behind; ours then ends as well.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The handle of the writer thread. Dropping it ends the thread after the commit under way; what
/// still waits is lost, as by a crash. See [`Writer::close`].
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), CloseError>>>,
}

impl Writer {
    /// Starts the thread on an open journal.
    ///
    /// # Errors
    /// The system's, if it has no thread to give.
    pub fn start(
        journal: Journal,
        on_commit: impl FnMut(Committed) + Send + 'static,
    ) -> io::Result<Writer> {
        let state = State {
            queue: VecDeque::new(),
            backlog: Backlog::default(),
            order: Order::Run,
            size_max: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let work = Work {
            journal,
            shared: Arc::clone(&shared),
            on_commit: Box::new(on_commit),
            space: Space::Plenty,
        };
        let thread = thread::Builder::new()
            .name("journal".into())
            .spawn(move || work.run())?;
        Ok(Writer {
            shared,
            thread: Some(thread),
        })
    }

    /// Hands over a batch; never blocks on the disk.
    ///
    /// # Errors
    /// [`SendError`]; then the batch is not part of the journal's order.
    pub fn send(&self, batch: Batch) -> Result<(), SendError> {
        let mut state = self.shared.lock();
        if state.order != Order::Run {
            return Err(SendError::Ended);
        }
        let Backlog { rows, bytes } = state.backlog;
        if rows > BACKLOG_ROWS_MAX || bytes > BACKLOG_BYTES_MAX {
            return Err(SendError::Backlog { rows, bytes });
        }
        state.backlog = Backlog {
            rows: rows + batch.rows.len(),
            bytes: bytes + batch.bytes(),
        };
        state.queue.push_back(batch);
        drop(state);
        self.shared.changed.notify_one();
        Ok(())
    }

    /// What is not durable yet.
    pub fn backlog(&self) -> Backlog {
        self.shared.lock().backlog
    }

    /// Changes [`super::Options::size_max`]; a commit that waits for space is tried again at once.
    pub fn limit_size(&self, size_max: Option<u64>) {
        self.shared.lock().size_max = Some(size_max);
        self.shared.changed.notify_one();
    }

    /// Commits all that was sent, writes the log back and ends.
    ///
    /// # Errors
    /// [`CloseError`] if the last batches could not be committed; a full disk is not waited for.
    pub fn close(mut self) -> Result<(), CloseError> {
        self.end(Order::Drain)
    }

    fn end(&mut self, order: Order) -> Result<(), CloseError> {
        {
            let mut state = self.shared.lock();
            if state.order == Order::Run {
                state.order = order;
            }
        }
        self.shared.changed.notify_one();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.thread.is_some() && !thread::panicking() {
            // Whoever drops it does not want to know; who does, closes.
            let _ = self.end(Order::Abandon);
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Plenty,
    /// The ballast is given up, or there was none.
    Low,
}

struct Work {
    journal: Journal,
    shared: Arc<Shared>,
    on_commit: Box<dyn FnMut(Committed) + Send>,
    space: Space,
}

/// However the thread ends, senders must notice.
struct EndNotice(Arc<Shared>);

impl Drop for EndNotice {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.order = Order::Ended;
        state.queue.clear();
    }
}

enum Next {
    Group(Vec<Batch>),
    LookForSpace,
    End(Order),
}

impl Work {
    fn run(mut self) -> Result<(), CloseError> {
        let _notice = EndNotice(Arc::clone(&self.shared));
        loop {
            match self.next() {
                Next::Group(group) => self.commit(&group)?,
                Next::LookForSpace => self.restore_ballast(),
                Next::End(Order::Drain) => {
                    // Best effort: a log that is not written back is read at the next start.
                    let _ = self.journal.store.checkpoint();
                    let _ = self.journal.acknowledged.sync();
                    return Ok(());
                }
                Next::End(_) => return Ok(()),
            }
        }
    }

    /// Waits for work and takes as much as one commit may have.
    fn next(&mut self) -> Next {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        loop {
            self.apply_limit(&mut state);
            if state.order == Order::Abandon {
                return Next::End(Order::Abandon);
            }
            if !state.queue.is_empty() {
                return Next::Group(take_group(&mut state));
            }
            if state.order != Order::Run {
                return Next::End(state.order);
            }
            if self.journal.store.log_pages >= CHECKPOINT_PAGES {
                drop(state);
                self.checkpoint();
                state = shared.lock();
                continue;
            }
            state = match self.space {
                Space::Plenty => shared
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
                Space::Low => {
                    let (state, timeout) = shared
                        .changed
                        .wait_timeout(state, BALLAST_PAUSE)
                        .unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() {
                        return Next::LookForSpace;
                    }
                    state
                }
            };
        }
    }

    fn apply_limit(&mut self, state: &mut State) {
        if let Some(size_max) = state.size_max.take() {
            self.journal.size_max = size_max;
            if let Err(error) = self.journal.limit_size() {
                tracing::warn!(%error, "size limit of the journal not set");
            }
        }
    }

    fn checkpoint(&mut self) {
        if let Err(error) = self.journal.store.checkpoint() {
            // The records are in the log all the same; a real fault will fail the next commit.
            tracing::warn!(%error, "the journal's log was not written back");
        }
    }

    /// Commits `group`, however long the disk is full.
    fn commit(&mut self, group: &[Batch]) -> Result<(), CloseError> {
        let mut pause = RETRY_MIN;
        loop {
            let start = Instant::now();
            match self.journal.store.commit(group) {
                Ok(done) => {
                    let at = Instant::now();
                    self.journal.acknowledge();
                    self.settle(group);
                    let (seq, took) = (done.seq, at - start);
                    (self.on_commit)(Committed::Durable {
                        seq,
                        purged: done.purged,
                        at,
                        took,
                    });
                    if self.space == Space::Low {
                        self.restore_ballast();
                    }
                    return Ok(());
                }
                Err(CommitError::Full(_)) => {
                    let retry_now = self.run_low();
                    if !retry_now && self.pause(pause) != Order::Run {
                        return Err(CloseError::Full {
                            rows: self.shared.lock().backlog.rows,
                        });
                    }
                    pause = (pause * 2).min(RETRY_MAX);
                }
                Err(error) => {
                    (self.on_commit)(Committed::Fatal(error));
                    return Err(CloseError::Fatal);
                }
            }
        }
    }

    fn settle(&self, group: &[Batch]) {
        let mut state = self.shared.lock();
        for batch in group {
            state.backlog.rows -= batch.rows.len();
            state.backlog.bytes -= batch.bytes();
        }
    }

    /// The disk is full: gives up the ballast, and says so the first time. Answers whether that
    /// made room.
    fn run_low(&mut self) -> bool {
        let free = self.journal.ballast.free();
        let dropped = self.journal.ballast.drop_it();
        if self.space == Space::Plenty {
            self.space = Space::Low;
            let (dir, waiting) = (self.journal.dir.clone(), self.shared.lock().backlog.rows);
            (self.on_commit)(Committed::DiskFull { dir, free, waiting });
        }
        dropped
    }

    fn restore_ballast(&mut self) {
        if matches!(self.journal.ballast.make(), Ok(true)) {
            self.space = Space::Plenty;
            let free = self.journal.ballast.free();
            (self.on_commit)(Committed::SpaceBack { free });
        }
    }

    /// Waits until it is worth trying again, or until the order is another than to run.
    fn pause(&mut self, pause: Duration) -> Order {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let end = Instant::now() + pause;
        // More batches arriving is no reason to try again; an order or a new limit is.
        while state.order == Order::Run && state.size_max.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) = shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.apply_limit(&mut state);
        state.order
    }
}

/// The next batches in order, as many as one commit may have, at least one.
fn take_group(state: &mut State) -> Vec<Batch> {
    let mut group = Vec::new();
    let (mut rows, mut bytes) = (0, 0);
    while let Some(batch) = state.queue.front() {
        rows += batch.rows.len();
        bytes += batch.bytes();
        if !group.is_empty() && (rows > COMMIT_ROWS_MAX || bytes > COMMIT_BYTES_MAX) {
            break;
        }
        group.extend(state.queue.pop_front());
    }
    group
}
