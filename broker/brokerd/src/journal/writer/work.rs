//! The writer's thread: commits what was sent, waits out a full disk, writes the log back when there
//! is nothing else to do. Started by the writer; whatever it does it does with the journal's lock.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{
    BALLAST_PAUSE, CloseError, Committed, Disk, Order, RETRY_MAX, RETRY_MIN, Shared, Space, State,
    Tell, Upkeep,
};
use crate::journal::store::CommitError;
use crate::journal::{Batch, COMMIT_BYTES_MAX, COMMIT_ROWS_MAX};

pub(super) struct Work {
    disk: Arc<Mutex<Disk>>,
    shared: Arc<Shared>,
    tell: Tell,
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
    Checkpoint,
    Rest,
    End(Order),
}

impl State {
    fn is_at_rest(&self) -> bool {
        self.queue.is_empty()
            && self.order == Order::Run
            && self.upkeep == Upkeep::None
            && self.size_max.is_none()
    }
}

impl Work {
    pub fn new(disk: Arc<Mutex<Disk>>, shared: Arc<Shared>, tell: Tell) -> Work {
        Work { disk, shared, tell }
    }

    pub fn run(mut self) -> Result<(), CloseError> {
        let _notice = EndNotice(Arc::clone(&self.shared));
        let disk = Arc::clone(&self.disk);
        loop {
            let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
            match self.next(&mut disk) {
                Next::Group(group) => self.commit(&mut disk, &group)?,
                Next::Checkpoint => checkpoint(&mut disk),
                Next::Rest => {
                    let space = disk.space;
                    drop(disk);
                    if self.rest(space) == Rested::InVain {
                        self.look_for_space();
                    }
                }
                Next::End(Order::Drain) => {
                    disk.settle();
                    return Ok(());
                }
                Next::End(_) => return Ok(()),
            }
        }
    }

    /// What is to be done, with as much as one commit may have.
    fn next(&self, disk: &mut Disk) -> Next {
        let mut state = self.shared.lock();
        apply_limit(disk, &mut state);
        let upkeep = std::mem::replace(&mut state.upkeep, Upkeep::None);
        if state.order == Order::Abandon {
            Next::End(Order::Abandon)
        } else if !state.queue.is_empty() {
            Next::Group(take_group(&mut state))
        } else if state.order != Order::Run {
            Next::End(state.order)
        } else if upkeep == Upkeep::Checkpoint || disk.is_to_be_written_back() {
            Next::Checkpoint
        } else {
            Next::Rest
        }
    }

    /// Waits for work; while the ballast is missing not longer than until it is to be tried again.
    fn rest(&self, space: Space) -> Rested {
        let state = self.shared.lock();
        let changed = &self.shared.changed;
        let is_at_rest = |state: &mut State| state.is_at_rest();
        match space {
            Space::Plenty => {
                let state = changed.wait_while(state, is_at_rest);
                drop(state.unwrap_or_else(PoisonError::into_inner));
                Rested::ForWork
            }
            Space::Low => {
                let waited = changed.wait_timeout_while(state, BALLAST_PAUSE, is_at_rest);
                let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
                drop(state);
                match timeout.timed_out() {
                    true => Rested::InVain,
                    false => Rested::ForWork,
                }
            }
        }
    }

    fn look_for_space(&mut self) {
        let disk = Arc::clone(&self.disk);
        let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
        self.restore_ballast(&mut disk);
    }

    /// Commits `group`, however long the disk is full.
    fn commit(&mut self, disk: &mut Disk, group: &[Batch]) -> Result<(), CloseError> {
        let mut pause = RETRY_MIN;
        loop {
            match disk.commit(group) {
                Ok(committed) => {
                    self.settle(group);
                    (self.tell)(committed);
                    if disk.space == Space::Low {
                        self.restore_ballast(disk);
                    }
                    return Ok(());
                }
                Err(CommitError::Full(_)) => {
                    let retry_now = self.run_low(disk);
                    if !retry_now && self.pause(disk, pause) != Order::Run {
                        return Err(CloseError::Full {
                            rows: self.shared.lock().backlog.rows,
                        });
                    }
                    pause = (pause * 2).min(RETRY_MAX);
                }
                Err(error) => {
                    (self.tell)(Committed::Fatal(error));
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
    fn run_low(&mut self, disk: &mut Disk) -> bool {
        let free = disk.journal.ballast.free();
        let dropped = disk.journal.ballast.drop_it();
        if disk.space == Space::Plenty {
            disk.space = Space::Low;
            let (dir, waiting) = (disk.journal.dir.clone(), self.shared.lock().backlog.rows);
            (self.tell)(Committed::DiskFull { dir, free, waiting });
        }
        dropped
    }

    fn restore_ballast(&mut self, disk: &mut Disk) {
        if matches!(disk.journal.ballast.make(), Ok(true)) {
            disk.space = Space::Plenty;
            let free = disk.journal.ballast.free();
            (self.tell)(Committed::SpaceBack { free });
        }
    }

    /// Waits until it is worth trying again, or until the order is another than to run.
    fn pause(&mut self, disk: &mut Disk, pause: Duration) -> Order {
        let mut state = self.shared.lock();
        let end = Instant::now() + pause;
        // More batches arriving is no reason to try again; an order or a new limit is.
        while state.order == Order::Run && state.size_max.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (state, _) = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner);
        }
        apply_limit(disk, &mut state);
        state.order
    }
}

/// Why the thread no longer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rested {
    ForWork,
    InVain,
}

fn apply_limit(disk: &mut Disk, state: &mut State) {
    if let Some(size_max) = state.size_max.take() {
        disk.journal.size_max = size_max;
        if let Err(error) = disk.journal.limit_size() {
            tracing::warn!(%error, "size limit of the journal not set");
        }
    }
}

fn checkpoint(disk: &mut Disk) {
    if let Err(error) = disk.journal.store.checkpoint() {
        // The records are in the log all the same; a real fault will fail the next commit.
        tracing::warn!(%error, "the journal's log was not written back");
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
