//! The threads that spawn, apart from the shell's loop so that an exec on a
//! slow disk holds up neither exits nor output.
//!
//! Called by the shell's loop, which waits on [`SpawnPool::wake_fd`]. The pool
//! never reaps and never drops a result: what was taken is answered once.
//!
//! Its threads are the parents of the tasks (see `spawn`), so dropping the pool
//! ends every task it started.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use super::cgroup::Cgroups;
use super::overdue::Overdue;
use super::spawn::{Child, Command, SpawnError, Spawner};
use crate::users::Accounts;

/// The answer to one command.
#[derive(Debug)]
pub struct Spawned<T> {
    /// What the command was submitted under.
    pub tag: T,
    /// The task, or why there is none.
    pub result: Result<Child, SpawnError>,
}

/// A command that found the queue at its bound; it was not taken.
#[derive(Debug, thiserror::Error)]
#[error("{waiting} starts wait for a spawner thread; at most {bound} may")]
pub struct QueueFull<T> {
    /// Commands waiting.
    pub waiting: usize,
    /// The bound the pool was started with.
    pub bound: usize,
    /// Given back.
    pub tag: T,
    /// Given back.
    pub command: Box<Command>,
}

/// A fixed number of spawner threads behind one bounded queue.
#[derive(Debug)]
pub struct SpawnPool<T> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
    watched: Vec<Arc<Overdue>>,
}

#[derive(Debug)]
struct Shared<T> {
    queue: Mutex<Queue<T>>,
    arrived: Condvar,
    results: Mutex<Vec<Spawned<T>>>,
    wake: OwnedFd,
    bound: usize,
}

#[derive(Debug)]
enum Queue<T> {
    Open(VecDeque<(T, Command)>),
    Closed,
}

impl<T: Send + 'static> SpawnPool<T> {
    /// Starts `threads` spawners; at most `bound` commands wait for them.
    /// Errors: no memory, no thread, no descriptor.
    pub fn start(threads: usize, bound: usize) -> io::Result<SpawnPool<T>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue::Open(VecDeque::new())),
            arrived: Condvar::new(),
            results: Mutex::new(Vec::new()),
            wake,
            bound,
        });
        let mut pool = SpawnPool {
            shared,
            threads: Vec::new(),
            watched: Vec::new(),
        };
        let (accounts, cgroups) = (Arc::new(Accounts::default()), Arc::new(Cgroups::default()));
        for number in 0..threads {
            let mut spawner = Spawner::new(Arc::clone(&accounts), Arc::clone(&cgroups))?;
            pool.watched.push(spawner.watched());
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new()
                .name(format!("spawn-{number}"))
                .spawn(move || shared.work(&mut spawner))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Queues a command; its result comes under `tag`. The order in which
    /// commands start is that of the queue, the order of results is not.
    pub fn submit(&self, tag: T, command: Command) -> Result<(), QueueFull<T>> {
        let mut queue = self.shared.queue();
        let Queue::Open(waiting) = &mut *queue else {
            unreachable!("the queue is closed by drop only, which has the pool to itself")
        };
        if waiting.len() >= self.shared.bound {
            let (waiting, bound) = (waiting.len(), self.shared.bound);
            return Err(QueueFull {
                waiting,
                bound,
                tag,
                command: Box::new(command),
            });
        }
        waiting.push_back((tag, command));
        drop(queue);
        self.shared.arrived.notify_one();
        Ok(())
    }

    /// When a start that is under way is to be ended, if it has not come to its exec by then.
    pub fn due(&self) -> Option<Instant> {
        self.watched.iter().filter_map(|start| start.due()).min()
    }

    /// Ends the starts that users hold up.
    pub fn end_late(&self, now: Instant) {
        self.watched.iter().for_each(|start| start.end_late(now));
    }

    /// Readable while results wait to be taken.
    pub fn wake_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }

    /// Takes all results there are, without waiting.
    pub fn take(&self) -> Vec<Spawned<T>> {
        let mut results = self.shared.results();
        // Under the lock, so that a result put after this is announced anew.
        // It fails only when nothing was announced.
        let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
        std::mem::take(&mut *results)
    }
}

impl<T> Shared<T> {
    fn work(&self, spawner: &mut Spawner) {
        while let Some((tag, command)) = self.next() {
            let result = spawner.spawn(&command);
            // Before the result is seen: the task's ends of pipes must be closed
            // here, or their readers would wait for an end that does not come.
            drop(command);
            self.put(Spawned { tag, result });
        }
    }

    /// The next command; `None` once the pool is dropped.
    fn next(&self) -> Option<(T, Command)> {
        let mut queue = self.queue();
        loop {
            match &mut *queue {
                Queue::Closed => return None,
                Queue::Open(waiting) => match waiting.pop_front() {
                    Some(next) => return Some(next),
                    None => {
                        queue = self
                            .arrived
                            .wait(queue)
                            .unwrap_or_else(PoisonError::into_inner);
                    }
                },
            }
        }
    }

    fn put(&self, spawned: Spawned<T>) {
        let mut results = self.results();
        results.push(spawned);
        if results.len() == 1 {
            // An eventfd takes 2^64 - 2 before it refuses.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn results(&self) -> MutexGuard<'_, Vec<Spawned<T>>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for SpawnPool<T> {
    fn drop(&mut self) {
        *self.shared.queue() = Queue::Closed;
        self.shared.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // A spawner that panicked has nothing more to say here.
            let _ = thread.join();
        }
    }
}
