//! The writer: the only one that changes a running journal. The loop sends batches and hears when
//! they are durable. A thread commits them, at once when idle; what arrives during a commit is the
//! next one. Where a commit waits for no disk, the loop commits small batches itself
//! ([`Writer::at_hand`]): two changes of threads cost more than they do.
//! It never drops a batch: a full disk is waited out, anything else ends it.

mod work;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, thread};

use thiserror::Error;

use self::work::Work;
use super::open::Journal;
use super::store::{CommitError, Done};
use super::{BACKLOG_BYTES_MAX, BACKLOG_ROWS_MAX, Batch};

/// Log pages (4 KiB) from which an idle moment is used to write them back. Fewer would write the
/// last page of each table back again and again; the bound for busy times is in `schema`.
const CHECKPOINT_PAGES: usize = 1_024;
/// Pauses between attempts while the disk is full.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// How often the ballast is tried again while it is missing.
const BALLAST_PAUSE: Duration = Duration::from_secs(2);

/// The largest batch that is committed on the thread of whoever sends it, in records and in bytes.
const HERE_ROWS_MAX: usize = 256;
const HERE_BYTES_MAX: usize = 256 << 10;

/// What the writer tells. On the writer's thread, or where it is made: pass it on and return.
#[derive(Debug)]
pub enum Committed {
    /// Every record up to `seq`, and all else sent with them, survives what [`super::Sync`] says.
    Durable {
        /// The last durable record.
        seq: u64,
        /// How many batches this commit was of, in the order in which they were sent.
        batches: u64,
        /// Finished jobs forgotten by purges in this commit.
        purged: u64,
        /// Those that wait for a mark to be forgotten.
        unmarked: u64,
        /// When it became durable.
        at: Instant,
        /// How long the commit took.
        took: Duration,
    },
    /// No space; said once, at the start if it is so then, until [`Committed::SpaceBack`]. Commits are retried, on the
    /// room of the ballast first: records of ends may still become durable, so intake should refuse.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What the thread is to do beside commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upkeep {
    None,
    /// The log is to be written back.
    Checkpoint,
}

#[derive(Debug)]
struct State {
    queue: VecDeque<Batch>,
    backlog: Backlog,
    order: Order,
    upkeep: Upkeep,
    /// A size limit to apply before the next attempt.
    size_max: Option<Option<u64>>,
}

#[derive(Debug)]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    Plenty,
    /// The ballast is given up, or there was none.
    Low,
}

/// The journal. Who has the lock commits: the thread takes it before it takes batches, so whoever
/// has it and sees that none wait knows that none is on its way either.
struct Disk {
    journal: Journal,
    space: Space,
}

impl Disk {
    fn commit(&mut self, group: &[Batch]) -> Result<Committed, CommitError> {
        let start = Instant::now();
        let done = self.journal.store.commit(group)?;
        Ok(self.committed(start, done, group.len()))
    }

    /// The same, but `None` where it would wait for another process.
    fn try_commit(&mut self, batch: &Batch) -> Result<Option<Committed>, CommitError> {
        let start = Instant::now();
        let done = self.journal.store.try_commit(std::slice::from_ref(batch))?;
        Ok(done.map(|done| self.committed(start, done, 1)))
    }

    fn committed(&self, start: Instant, done: Done, batches: usize) -> Committed {
        let at = Instant::now();
        self.journal.acknowledge();
        Committed::Durable {
            seq: done.seq,
            batches: batches as u64,
            purged: done.purged,
            unmarked: done.unmarked,
            at,
            took: at - start,
        }
    }

    /// At an orderly end. Best effort: a log that is not written back is read at the next start.
    fn settle(&mut self) {
        let _ = self.journal.store.checkpoint();
        let _ = self.journal.acknowledged.sync();
    }

    fn is_to_be_written_back(&self) -> bool {
        self.journal.store.log_pages >= CHECKPOINT_PAGES
    }
}

/// Whom commits of the thread are told.
type Tell = Box<dyn FnMut(Committed) + Send>;

/// The thread, which a writer at hand may never need.
enum Thread {
    NotYet(Tell),
    Started(JoinHandle<Result<(), CloseError>>),
    /// It was waited for, or could not be started.
    Gone,
}

/// Where batches are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On the thread, all of them.
    Thread,
    /// Here if they are small and the thread is at rest.
    Here,
}

/// The handle of the writer. Dropping it ends the thread after the commit under way; what
/// still waits is lost, as by a crash. See [`Writer::close`].
pub struct Writer {
    shared: Arc<Shared>,
    disk: Arc<Mutex<Disk>>,
    place: Place,
    thread: Thread,
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
        let mut writer = Writer::new(journal, Place::Thread, Box::new(on_commit));
        writer.start_thread()?;
        Ok(writer)
    }

    /// For a journal that waits for no disk (`Sync::Normal`): [`Writer::commit`] commits small batches
    /// at once. The thread is started when it is needed, for large ones, a full disk, and the log.
    pub fn at_hand(journal: Journal, on_commit: impl FnMut(Committed) + Send + 'static) -> Writer {
        Writer::new(journal, Place::Here, Box::new(on_commit))
    }

    fn new(mut journal: Journal, place: Place, mut tell: Tell) -> Writer {
        let state = State {
            queue: VecDeque::new(),
            backlog: Backlog::default(),
            order: Order::Run,
            upkeep: Upkeep::None,
            size_max: None,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let space = match journal.low.take() {
            None => Space::Plenty,
            Some(free) => {
                let (dir, waiting) = (journal.dir.clone(), 0);
                tell(Committed::DiskFull { dir, free, waiting });
                Space::Low
            }
        };
        Writer {
            shared,
            disk: Arc::new(Mutex::new(Disk { journal, space })),
            place,
            thread: Thread::NotYet(tell),
        }
    }

    fn start_thread(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.thread, Thread::Gone) {
            Thread::NotYet(tell) => {
                let work = Work::new(Arc::clone(&self.disk), Arc::clone(&self.shared), tell);
                let builder = thread::Builder::new().name("journal".into());
                self.thread = Thread::Started(builder.spawn(move || work.run())?);
            }
            other => self.thread = other,
        }
        Ok(())
    }

    /// Hands over a batch; never blocks on the disk.
    ///
    /// # Errors
    /// [`SendError`]; then the batch is not part of the journal's order.
    pub fn send(&mut self, batch: Batch) -> Result<(), SendError> {
        // A writer without a thread ends as one whose thread ended.
        self.start_thread().map_err(|_| SendError::Ended)?;
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

    /// Commits a small batch at once where that waits for no disk, and says so; else hands it over
    /// like [`Writer::send`].
    ///
    /// # Errors
    /// [`SendError`]; then the batch is not part of the journal's order.
    pub fn commit(&mut self, batch: Batch) -> Result<Option<Committed>, SendError> {
        let is_small = batch.rows.len() <= HERE_ROWS_MAX && batch.bytes() <= HERE_BYTES_MAX;
        if self.place == Place::Here && is_small {
            match self.try_commit(&batch)? {
                Some(committed) => return Ok(Some(committed)),
                None => return self.send(batch).map(|()| None),
            }
        }
        self.send(batch).map(|()| None)
    }

    /// `None` if the batch is for the thread, which has other work, or has to wait for room.
    fn try_commit(&mut self, batch: &Batch) -> Result<Option<Committed>, SendError> {
        let mut disk = match self.disk.try_lock() {
            Ok(disk) => disk,
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Poisoned(_)) => return Err(SendError::Ended),
        };
        let state = self.shared.lock();
        if state.order != Order::Run {
            return Err(SendError::Ended);
        }
        if !state.queue.is_empty() || state.size_max.is_some() || disk.space == Space::Low {
            return Ok(None);
        }
        drop(state);
        let committed = match disk.try_commit(batch) {
            Ok(Some(committed)) => committed,
            Ok(None) | Err(CommitError::Full(_)) => return Ok(None),
            Err(error) => {
                self.shared.lock().order = Order::Ended;
                return Ok(Some(Committed::Fatal(error)));
            }
        };
        let is_long = disk.is_to_be_written_back();
        drop(disk);
        if is_long {
            self.shared.lock().upkeep = Upkeep::Checkpoint;
            // Without a thread the log grows until a commit writes it back.
            if self.start_thread().is_ok() {
                self.shared.changed.notify_one();
            }
        }
        Ok(Some(committed))
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
        if let Thread::NotYet(_) = self.thread {
            let mut disk = self.disk.lock().unwrap_or_else(PoisonError::into_inner);
            disk.settle();
            return match self.shared.lock().order {
                Order::Ended => Err(CloseError::Fatal),
                Order::Run | Order::Drain | Order::Abandon => Ok(()),
            };
        }
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
        match std::mem::replace(&mut self.thread, Thread::Gone) {
            Thread::Started(thread) => match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            },
            Thread::NotYet(_) | Thread::Gone => Ok(()),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if matches!(self.thread, Thread::Started(_)) && !thread::panicking() {
            // Whoever drops it does not want to know; who does, closes.
            let _ = self.end(Order::Abandon);
        }
    }
}
