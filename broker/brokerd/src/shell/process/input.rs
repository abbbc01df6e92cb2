//! Standard input of the tasks of a part, as clients send it: kept until the
//! tasks read, once for all of them.
//!
//! Used by the shell's loop. It bounds what is kept for one part; what is over
//! ends the input of whoever is behind, since a task that got a part of its
//! input and then more would compute something else.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use eddy_wire::shell::Part;

use super::watch::{Token, Until, Watch, Watched};
use crate::shell::stdio::{Given, InputPipe};

/// The most input kept for the tasks of one part that do not read it.
pub const SUPPLY_BYTES: usize = 64 << 20;
/// What it costs to remember that a task is still to be given a piece.
const PLACE_BYTES: usize = 32;

/// Input of one part that is kept.
#[derive(Debug, Default)]
pub struct Supply {
    kept: Rc<Cell<usize>>,
    taken: Cell<u64>,
}

/// A piece of it, kept as long as a task is to be given it.
#[derive(Debug)]
pub struct Piece {
    /// In the order in which they came.
    number: u64,
    data: Vec<u8>,
    kept: Rc<Cell<usize>>,
}

impl Supply {
    /// Takes a piece, for the backlogs of tasks.
    pub fn take(&self, data: Vec<u8>) -> Rc<Piece> {
        self.kept.set(self.kept.get() + data.len());
        self.taken.set(self.taken.get() + 1);
        Rc::new(Piece {
            number: self.taken.get(),
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

    /// Whether more is kept than may be.
    pub fn is_over(&self) -> bool {
        self.kept.get() > SUPPLY_BYTES
    }

    /// Ends the input of tasks until no more is kept than may be, of those first who are furthest behind: with what
    /// is kept for them, and where that is too much for others to go on, with what they were given. Whose input is
    /// complete keeps it. Returns whose input ended.
    pub fn cut<'a>(
        &self,
        newest: Rc<Piece>,
        backlogs: impl Iterator<Item = (u32, &'a mut Backlog)>,
    ) -> Vec<u32> {
        let mut backlogs: Vec<(u32, &mut Backlog)> = backlogs
            .filter(|(_, backlog)| backlog.more != More::None)
            .collect();
        let mut cut = Vec::new();
        // Each time round whoever is furthest behind is cut or keeps nothing: there are no more rounds than tasks.
        while self.is_over_without(&newest)
            && let Some(oldest) = backlogs.iter().filter_map(|(_, one)| one.first()).min()
        {
            let furthest = |one: &Backlog| one.first() == Some(oldest);
            for (task, backlog) in backlogs.iter_mut().filter(|(_, one)| furthest(one)) {
                if std::mem::replace(&mut backlog.more, More::Cut) != More::Cut {
                    cut.push(*task);
                }
                if backlog.has_last(&newest) {
                    backlog.pop_last();
                }
            }
            if self.is_over_without(&newest) {
                let furthest = backlogs.iter_mut().filter(|(_, one)| furthest(one));
                furthest.for_each(|(_, backlog)| backlog.clear());
            }
        }
        cut
    }

    /// Whether it would be over if what only the caller holds were gone.
    fn is_over_without(&self, newest: &Rc<Piece>) -> bool {
        let own = match Rc::strong_count(newest) {
            1 => newest.data.len(),
            _ => 0,
        };
        self.kept.get() - own > SUPPLY_BYTES
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
    /// The limit was met.
    Cut,
    /// The task has seen the end.
    Told,
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
        if self.more != More::MayCome {
            self.close(watch);
        }
    }

    /// The first piece that it was not given yet.
    fn first(&self) -> Option<u64> {
        self.pieces.front().map(|piece| piece.number)
    }

    fn has_last(&self, piece: &Rc<Piece>) -> bool {
        self.pieces
            .back()
            .is_some_and(|last| Rc::ptr_eq(last, piece))
    }

    fn pop_last(&mut self) {
        if self.pieces.pop_back().is_some() {
            self.kept.set(self.kept.get() - PLACE_BYTES);
        }
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
        self.more = More::Told;
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

        /// Gives all of them so much; whose input that ends.
        fn give(&mut self, bytes: usize) -> Vec<u32> {
            let piece = self.supply.take(vec![7; bytes]);
            for (task, backlog) in (0..).zip(&mut self.backlogs) {
                backlog.offer(&piece);
                backlog.pump(PART, task, &mut self.watch);
            }
            match self.supply.is_over() {
                true => self.supply.cut(piece, (0..).zip(&mut self.backlogs)),
                false => Vec::new(),
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
    }

    #[test]
    fn what_many_tasks_do_not_read_is_kept_once() {
        let mut tasks = Tasks::new(20);
        for _ in 0..3 {
            assert!(tasks.give(16 << 20).is_empty());
        }
        assert!(tasks.supply.kept.get() < 49 << 20);
        // The places of those who are to be given it count, too.
        assert!(tasks.supply.kept.get() > 48 << 20);
        drop(tasks.backlogs.pop());
        tasks.backlogs.clear();
        assert_eq!(tasks.supply.kept.get(), 0);
    }

    #[test]
    fn over_the_limit_input_of_a_task_ends_with_what_is_kept() {
        let mut tasks = Tasks::new(1);
        for _ in 0..3 {
            assert!(tasks.give(20 << 20).is_empty());
        }
        assert_eq!(tasks.give(20 << 20), [0]);
        assert!(tasks.give(20 << 20).is_empty());
        tasks.read(0);
        assert!(tasks.backlogs[0].pipe.is_none(), "the input ends");
        assert_eq!(tasks.supply.kept.get(), 0);
    }

    #[test]
    fn a_task_that_reads_goes_on_beside_others_that_do_not() {
        let mut tasks = Tasks::new(3);
        let mut cut = Vec::new();
        for number in 0..100 {
            cut.extend(tasks.give(2 << 20));
            // It may be some pieces behind.
            if number % 5 == 0 {
                tasks.read(1);
            }
        }
        assert_eq!(cut, [0, 2]);
        assert_eq!(tasks.backlogs[1].more, More::MayCome);
    }
}
