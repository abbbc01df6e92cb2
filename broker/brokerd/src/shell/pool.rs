//! The threads that spawn, apart from the shell's loop so that an exec on a
//! slow disk holds up neither exits nor output.
//!
//! Called by the shell's loop, which waits on [`SpawnPool::wake_fd`]. The pool
//! never reaps and never drops a result: what was taken is answered once. A user
//! can hold up a start, so all threads are at one user's only where nobody else's wait; and one that
//! was ended in vain (a file system of his may keep what was killed) is the last of his until it comes back,
//! while another thread serves in the place of the one it keeps.
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
use super::overdue::{Overdue, Pace};
use super::rights::Rights;
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

/// Threads that serve in the place of those that do not come back, for as many users.
const SPARES: usize = 64;

/// A fixed number of spawner threads behind one bounded queue.
#[derive(Debug)]
pub struct SpawnPool<T> {
    shared: Arc<Shared<T>>,
    threads: Vec<JoinHandle<()>>,
    watched: Vec<Arc<Overdue>>,
    accounts: Arc<Accounts>,
    cgroups: Arc<Cgroups>,
    /// How many threads are to be there that come back.
    serving: usize,
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
struct Queue<T> {
    course: Course,
    waiting: VecDeque<(T, Command)>,
    /// Whose command each thread is at.
    at: Vec<Option<Rights>>,
    /// Whose starts are late, and may keep their threads.
    late: Vec<Rights>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    Open,
    Closed,
}

impl<T: Send + 'static> SpawnPool<T> {
    /// Starts `threads` spawners; at most `bound` commands wait for them.
    /// Errors: no memory, no thread, no descriptor.
    pub fn start(threads: usize, bound: usize) -> io::Result<SpawnPool<T>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue {
                course: Course::Open,
                waiting: VecDeque::new(),
                at: Vec::new(),
                late: Vec::new(),
            }),
            arrived: Condvar::new(),
            results: Mutex::new(Vec::new()),
            wake,
            bound,
        });
        let mut pool = SpawnPool {
            shared,
            threads: Vec::new(),
            watched: Vec::new(),
            accounts: Arc::default(),
            cgroups: Arc::default(),
            serving: threads,
        };
        for _ in 0..threads {
            pool.add()?;
        }
        Ok(pool)
    }

    /// One thread more.
    fn add(&mut self) -> io::Result<()> {
        let number = self.threads.len();
        let (accounts, cgroups) = (Arc::clone(&self.accounts), Arc::clone(&self.cgroups));
        let mut spawner = Spawner::new(accounts, cgroups)?;
        let watched = spawner.watched();
        self.shared.queue().at.push(None);
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name(format!("spawn-{number}"))
            .spawn(move || shared.work(number, &mut spawner))?;
        self.watched.push(watched);
        self.threads.push(thread);
        Ok(())
    }

    /// Queues a command; its result comes under `tag`. The order in which
    /// commands of one user start is that of the queue, the order of results is not.
    pub fn submit(&self, tag: T, command: Command) -> Result<(), QueueFull<T>> {
        let mut queue = self.shared.queue();
        let waiting = &mut queue.waiting;
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

    /// Takes back commands that no thread is at: their tags, and there will be no results.
    pub fn withdraw(&self, is_meant: impl Fn(&T) -> bool) -> Vec<T> {
        let mut queue = self.shared.queue();
        let (meant, kept) = std::mem::take(&mut queue.waiting)
            .into_iter()
            .partition::<VecDeque<_>, _>(|(tag, _)| is_meant(tag));
        queue.waiting = kept;
        drop(queue);
        meant.into_iter().map(|(tag, _)| tag).collect()
    }

    /// When a start that is under way is to be ended, if it has not come to its exec by then.
    pub fn due(&self) -> Option<Instant> {
        self.watched.iter().filter_map(|start| start.due()).min()
    }

    /// Ends the starts that users hold up. Until one is over its user has no other begun; where it stays, another
    /// thread serves in the place of the one it keeps.
    pub fn end_late(&mut self, now: Instant) {
        self.watched.iter().for_each(|start| start.end_late(now));
        let paces = self.watched.iter().map(|start| start.pace());
        if paces.clone().all(|pace| pace == Pace::InTime) {
            return;
        }
        let paces: Vec<Pace> = paces.collect();
        let kept = {
            let mut queue = self.shared.queue();
            queue.keep_back(&paces);
            queue.kept(&paces)
        };
        let lacking = (self.serving + kept).saturating_sub(paces.len());
        for _ in 0..lacking.min((self.serving + SPARES).saturating_sub(paces.len())) {
            if let Err(error) = self.add() {
                tracing::error!("no thread in the place of one that is kept: {error}");
                return;
            }
            tracing::warn!("a start that was ended keeps its thread: one more serves");
        }
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
    fn work(&self, number: usize, spawner: &mut Spawner) {
        while let Some((tag, command)) = self.next(number) {
            let result = spawner.spawn(&command);
            // Before the result is seen: the task's ends of pipes must be closed
            // here, or their readers would wait for an end that does not come.
            drop(command);
            self.put(Spawned { tag, result });
        }
    }

    /// The next command for this thread; `None` once the pool is dropped.
    fn next(&self, number: usize) -> Option<(T, Command)> {
        let mut queue = self.queue();
        if queue.come_back(number) {
            // All of his may have been waiting for this.
            self.arrived.notify_all();
        }
        loop {
            if queue.course == Course::Closed {
                return None;
            }
            if let Some(next) = queue.pop() {
                queue.at[number] = Some(next.1.rights);
                return Some(next);
            }
            queue = self
                .arrived
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
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

impl<T> Queue<T> {
    /// The first command of somebody whose other one no thread is at; the first of all where there is none such,
    /// but of nobody whose start is late.
    fn pop(&mut self) -> Option<(T, Command)> {
        let (at, late) = (&self.at, &self.late);
        let is_others = |(_, command): &(T, Command)| !at.contains(&Some(command.rights));
        let may_go = |(_, command): &(T, Command)| !late.contains(&command.rights);
        let mut waiting = self.waiting.iter();
        let place = waiting.position(is_others);
        let place = place.or_else(|| self.waiting.iter().position(may_go))?;
        self.waiting.remove(place)
    }

    /// A thread has done what it was at; whether its user was one whose starts are late. Where another start of his
    /// is late still, he stays one.
    fn come_back(&mut self, number: usize) -> bool {
        let rights = self.at[number].take();
        let of_his = |late: &Rights| Some(*late) == rights;
        let place = self.late.iter().position(of_his);
        if let Some(place) = place {
            self.late.swap_remove(place);
        }
        place.is_some()
    }

    /// How many threads may not come back: those that are stuck, and those that are at a start of the same user,
    /// which may wait for the same file.
    fn kept(&self, paces: &[Pace]) -> usize {
        let at = || self.at.iter().flatten();
        let stuck = self.at.iter().zip(paces);
        let stuck = stuck.filter(|(_, pace)| **pace == Pace::Stuck);
        let stuck: Vec<Rights> = stuck.filter_map(|(rights, _)| *rights).collect();
        at().filter(|rights| stuck.contains(rights)).count()
    }

    /// So the threads are on their way with what they are at.
    fn keep_back(&mut self, paces: &[Pace]) {
        let at = self.at.iter().zip(paces);
        let late = at.filter_map(|(rights, pace)| rights.filter(|_| *pace != Pace::InTime));
        self.late = late.collect();
    }
}

impl<T> Drop for SpawnPool<T> {
    fn drop(&mut self) {
        self.shared.queue().course = Course::Closed;
        self.shared.arrived.notify_all();
        for (thread, start) in self.threads.drain(..).zip(&self.watched) {
            // One that does not come back ends with the process.
            if start.pace() != Pace::Stuck {
                // A spawner that panicked has nothing more to say here.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::stdio;

    fn command(rights: Rights) -> Command {
        let null = stdio::null().expect("a null device");
        Command {
            argv: vec![c"/bin/true".to_owned()],
            env: Vec::new(),
            cwd: c"/".to_owned(),
            rights,
            stdin: Arc::clone(&null).into(),
            stdout: Arc::clone(&null).into(),
            stderr: null.into(),
            cpus: None,
            rlimits: Vec::new(),
            umask: 0o22,
        }
    }

    #[test]
    fn no_second_thread_is_at_one_users_starts_while_others_wait() {
        let users = [1001, 1001, 1002].map(Rights::Of);
        let mut queue = Queue {
            course: Course::Open,
            waiting: (0..).zip(users.map(command)).collect(),
            at: vec![Some(Rights::Of(1001)), None],
            late: Vec::new(),
        };
        let mut next = || queue.pop().map(|(tag, _)| tag);
        assert_eq!(
            [next(), next(), next(), next()],
            [Some(2), Some(0), Some(1), None]
        );
    }

    #[test]
    fn whose_start_keeps_a_thread_has_no_other_begun_until_it_comes_back() {
        let users = [1001, 1002, 1002].map(Rights::Of);
        let mut queue = Queue {
            course: Course::Open,
            waiting: (0..).zip(users.map(command)).collect(),
            at: vec![Some(Rights::Of(1001)), Some(Rights::Of(1002)), None],
            late: Vec::new(),
        };
        queue.keep_back(&[Pace::Late, Pace::InTime, Pace::InTime]);
        let mut next = || queue.pop().map(|(tag, _)| tag);
        assert_eq!([next(), next(), next()], [Some(1), Some(2), None]);
        queue.keep_back(&[Pace::InTime; 3]);
        assert_eq!(queue.pop().map(|(tag, _)| tag), Some(0));
    }

    /// Three tasks of one user with one output file, which the first is stuck at: the others wait for it to be open.
    #[test]
    fn who_waits_for_what_another_start_of_his_is_stuck_at_serves_nobody() {
        let (his, others) = (Some(Rights::Of(1001)), Some(Rights::Of(1002)));
        let mut queue = Queue {
            course: Course::Open,
            waiting: VecDeque::from([(0, command(Rights::Of(1001)))]),
            at: vec![his, his, others, None],
            late: Vec::new(),
        };
        let paces = [Pace::Stuck, Pace::InTime, Pace::InTime, Pace::InTime];
        assert_eq!(queue.kept(&paces), 2);
        assert_eq!(queue.kept(&[Pace::Late; 4]), 0);
        // Two of his are late: with the one he is not rid of the other.
        queue.keep_back(&[Pace::Stuck, Pace::Late, Pace::InTime, Pace::InTime]);
        assert!(queue.come_back(1));
        assert!(queue.pop().is_none(), "one of his keeps a thread");
        assert!(queue.come_back(0));
        assert_eq!(queue.pop().map(|(tag, _)| tag), Some(0));
        assert!(!queue.come_back(2));
    }

    #[test]
    fn what_is_withdrawn_is_not_started() {
        let pool = SpawnPool::start(0, 3).expect("no threads");
        for tag in 0..3 {
            pool.submit(tag, command(Rights::Kept))
                .expect("there is room");
        }
        assert_eq!(pool.withdraw(|tag| tag % 2 == 0), [0, 2]);
        assert_eq!(pool.withdraw(|_| true), [1]);
    }
}
