//! Standard input of the tasks of a part, as clients send it: kept until the
//! tasks read, once for all of them.
//!
//! Used by the shell's loop. It counts what is kept for one part, so that whoever
//! sends is told to go on only when there is room: nothing is ever dropped, and
//! the slowest task sets the pace.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use eddy_wire::shell::Part;

use super::watch::{Token, Until, Watch, Watched};
use crate::shell::stdio::{Given, InputPipe};

/// Input of one part that may be kept while whoever sends it is told to go on.
pub const SUPPLY_BYTES: usize = 1 << 20;
/// The most that is kept, of many who send or of one who does not wait to be told.
pub const SUPPLY_BYTES_MAX: usize = 8 << 20;
/// What it costs to remember that a task is still to be given a piece.
const PLACE_BYTES: usize = 32;

/// Input of one part that is kept.
#[derive(Debug, Default)]
pub struct Supply {
    kept: Rc<Cell<usize>>,
}

/// A piece of it, kept as long as a task is to be given it.
#[derive(Debug)]
pub struct Piece {
    data: Vec<u8>,
    kept: Rc<Cell<usize>>,
}

impl Supply {
    /// Takes a piece, for the backlogs of tasks.
    pub fn take(&self, data: Vec<u8>) -> Rc<Piece> {
        self.kept.set(self.kept.get() + data.len());
        Rc::new(Piece {
            data,
            kept: Rc::clone(&self.kept),
        })
    }

    /// A task's part of it.
    pub fn backlog(&self) -> Backlog {
        Backlog {
            pipe: None,
            token: None,
            pieces: VecDeque::new(),
            given: 0,
            kept: Rc::clone(&self.kept),
            more: More::MayCome,
        }
    }

    /// Whether whoever sends is to wait.
    pub fn is_plenty(&self) -> bool {
        self.kept.get() > SUPPLY_BYTES
    }

    /// Whether no more is taken.
    pub fn is_full(&self) -> bool {
        self.kept.get() > SUPPLY_BYTES_MAX
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.kept.set(self.kept.get() - self.data.len());
    }
}

/// What a task is still to be given.
#[derive(Debug)]
pub struct Backlog {
    pipe: Option<InputPipe>,
    token: Option<Token>,
    pieces: VecDeque<Rc<Piece>>,
    /// How much of the first it was given.
    given: usize,
    /// What is kept for its part.
    kept: Rc<Cell<usize>>,
    more: More,
}

#[derive(Debug, PartialEq, Eq)]
enum More {
    MayCome,
    /// It is complete.
    None,
    /// And the task has seen the end.
    Told,
    /// The task reads no more.
    Unread,
}

impl Backlog {
    /// Makes the pipe; the end returned becomes the task's input.
    pub fn open(&mut self) -> io::Result<Arc<OwnedFd>> {
        let (pipe, task) = InputPipe::open()?;
        self.pipe = Some(pipe);
        Ok(task)
    }

    /// Takes input.
    pub fn offer(&mut self, piece: &Rc<Piece>) {
        if self.more == More::MayCome && !piece.data.is_empty() {
            self.kept.set(self.kept.get() + PLACE_BYTES);
            self.pieces.push_back(Rc::clone(piece));
        }
    }

    /// There is no more of it.
    pub fn end(&mut self) {
        if self.more == More::MayCome {
            self.more = More::None;
        }
    }

    /// Hands on what the task takes now and watches for when it takes more.
    pub fn pump(&mut self, part: Part, task: u32, watch: &mut Watch) {
        // Before anything is handed on, since the pipe closes itself at the end.
        self.unwatch(watch);
        let Some(pipe) = &mut self.pipe else { return };
        while let Some(piece) = self.pieces.front() {
            match pipe.give(&piece.data[self.given..]) {
                Given::Bytes(bytes) => self.given += bytes,
                Given::Full => {
                    let fd = pipe.fd().expect("a pipe that is full is open");
                    let name = Watched::Input(part, task);
                    self.token = watch.add(fd, Until::Writable, name).ok();
                    return;
                }
                Given::Closed => return self.close(watch),
            }
            if self.given == piece.data.len() {
                self.given = 0;
                self.pieces.pop_front();
                self.kept.set(self.kept.get() - PLACE_BYTES);
            }
        }
        if self.more == More::None {
            self.close(watch);
            self.more = More::Told;
        }
    }

    /// Whether nobody will read what it is offered.
    pub fn is_unread(&self) -> bool {
        self.more == More::Unread
    }

    /// Whether it was said that nothing follows.
    pub fn is_complete(&self) -> bool {
        matches!(self.more, More::None | More::Told)
    }

    fn clear(&mut self) {
        self.given = 0;
        let places = self.pieces.len() * PLACE_BYTES;
        self.kept.set(self.kept.get() - places);
        self.pieces.clear();
    }

    fn unwatch(&mut self, watch: &mut Watch) {
        if let Some(token) = self.token.take()
            && let Some(fd) = self.pipe.as_ref().and_then(InputPipe::fd)
        {
            watch.remove(token, fd);
        }
    }

    /// The task has ended, or reads no more.
    pub fn close(&mut self, watch: &mut Watch) {
        self.unwatch(watch);
        self.pipe = None;
        self.clear();
        self.more = More::Unread;
    }
}

impl Drop for Backlog {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;

    use eddy_wire::id::{Attempt, JobId, Rank};

    use super::*;

    const PART: Part = Part {
        job: JobId(1),
        attempt: Attempt(1),
        rank: Rank(0),
    };

    /// Tasks of a part, each with its end of the pipe.
    struct Tasks {
        supply: Supply,
        watch: Watch,
        backlogs: Vec<Backlog>,
        ends: Vec<File>,
    }

    impl Tasks {
        fn new(count: usize) -> Tasks {
            let supply = Supply::default();
            let mut backlogs: Vec<Backlog> = (0..count).map(|_| supply.backlog()).collect();
            let ends = backlogs.iter_mut().map(|backlog| {
                let end = backlog.open().expect("a pipe");
                Arc::try_unwrap(end).expect("ours alone").into()
            });
            let ends = ends.collect();
            let watch = Watch::new().expect("an epoll");
            Tasks {
                supply,
                watch,
                backlogs,
                ends,
            }
        }

        fn give(&mut self, bytes: usize) {
            let piece = self.supply.take(vec![7; bytes]);
            for (task, backlog) in (0..).zip(&mut self.backlogs) {
                backlog.offer(&piece);
                backlog.pump(PART, task, &mut self.watch);
            }
        }

        /// Reads all that a task is given, with its end or without.
        fn read(&mut self, task: usize) -> usize {
            let mut got = 0;
            let mut buffer = vec![0; 64 << 10];
            while !self.backlogs[task].pieces.is_empty() {
                got += self.ends[task].read(&mut buffer).expect("a pipe");
                self.backlogs[task].pump(PART, task as u32, &mut self.watch);
            }
            got
        }

        /// What is left in its pipe, to its end.
        fn rest(&mut self, task: usize) -> usize {
            self.backlogs[task].close(&mut self.watch);
            let mut rest = Vec::new();
            self.ends[task].read_to_end(&mut rest).expect("a pipe")
        }
    }

    #[test]
    fn what_many_tasks_do_not_read_is_kept_once() {
        let mut tasks = Tasks::new(20);
        for _ in 0..3 {
            tasks.give(2 << 20);
        }
        assert!(tasks.supply.is_plenty() && !tasks.supply.is_full());
        // The places of those who are to be given it count, too.
        assert!(tasks.supply.kept.get() > 6 << 20);
        assert!(tasks.supply.kept.get() < 7 << 20);
        drop(tasks.backlogs.pop());
        tasks.backlogs.clear();
        assert_eq!(tasks.supply.kept.get(), 0);
    }

    #[test]
    fn the_slowest_task_says_when_there_is_room_and_no_byte_is_dropped() {
        let mut tasks = Tasks::new(2);
        tasks.give(3 << 20);
        let first = tasks.read(0);
        assert!(tasks.supply.is_plenty());
        let second = tasks.read(1);
        assert!(!tasks.supply.is_plenty());
        let all = [first + tasks.rest(0), second + tasks.rest(1)];
        assert_eq!(all, [3 << 20; 2]);
    }

    #[test]
    fn who_reads_no_more_keeps_nobody_waiting() {
        let mut tasks = Tasks::new(2);
        tasks.give(3 << 20);
        tasks.read(0);
        drop(tasks.ends.pop());
        tasks.backlogs[1].pump(PART, 1, &mut tasks.watch);
        assert!(tasks.backlogs[1].is_unread() && !tasks.supply.is_plenty());
        assert!(!tasks.backlogs[0].is_unread());
    }
}
