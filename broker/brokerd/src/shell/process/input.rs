//! Standard input of one task, as clients send it: kept until the task reads.
//!
//! Used by the shell's loop. It bounds what is kept; what is over ends the
//! input, since a task that got a part of its input and then more would
//! compute something else.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use eddy_wire::shell::Part;

use super::watch::{Token, Until, Watch, Watched};
use crate::shell::stdio::{Feed, InputPipe};

/// The most input kept for one task that does not read it.
pub const BACKLOG_BYTES: usize = 64 << 20;
/// What is handed to the pipe at a time.
const PIECE_BYTES: usize = 64 << 10;

/// What a task is still to be given.
#[derive(Debug, Default)]
pub struct Backlog {
    pipe: Option<InputPipe>,
    token: Option<Token>,
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    more: More,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum More {
    #[default]
    MayCome,
    None,
    Told,
}

/// What became of input that was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It is kept or handed on.
    Taken,
    /// It is over [`BACKLOG_BYTES`]: the input ends here.
    Cut,
}

impl Backlog {
    /// Makes the pipe; the end returned becomes the task's input.
    pub fn open(&mut self) -> io::Result<Arc<OwnedFd>> {
        let (pipe, task) = InputPipe::open()?;
        self.pipe = Some(pipe);
        Ok(task)
    }

    /// Takes input, or that there is no more of it.
    pub fn offer(&mut self, data: &[u8], eof: bool) -> Offered {
        if self.more != More::MayCome {
            return Offered::Taken;
        }
        let cut = self.bytes + data.len() > BACKLOG_BYTES;
        if !cut {
            self.pieces
                .extend(data.chunks(PIECE_BYTES).map(<[u8]>::to_vec));
            self.bytes += data.len();
        }
        if eof || cut {
            self.more = More::None;
        }
        if cut { Offered::Cut } else { Offered::Taken }
    }

    /// Hands on what the task takes now and watches for when it takes more.
    pub fn pump(&mut self, part: Part, task: u32, watch: &mut Watch) {
        // Before anything is handed on, since the pipe closes itself at the end.
        self.unwatch(watch);
        let Some(pipe) = &mut self.pipe else { return };
        let state = loop {
            while let Some(piece) = self.pieces.front() {
                if pipe.push(piece).is_err() {
                    break;
                }
                self.bytes -= piece.len();
                self.pieces.pop_front();
            }
            if self.pieces.is_empty() && self.more == More::None {
                pipe.end();
                self.more = More::Told;
            }
            match pipe.flush() {
                Feed::Idle if !self.pieces.is_empty() => {}
                other => break other,
            }
        };
        match state {
            Feed::Blocked => {
                let fd = pipe.fd().expect("a pipe that is full is open");
                self.token = watch
                    .add(fd, Until::Writable, Watched::Input(part, task))
                    .ok();
            }
            Feed::Idle => {}
            Feed::Done => self.close(watch),
        }
    }

    fn unwatch(&mut self, watch: &mut Watch) {
        if let Some(token) = self.token.take()
            && let Some(fd) = self.pipe.as_ref().and_then(InputPipe::fd)
        {
            watch.remove(token, fd);
        }
    }

    /// The task has ended: nobody reads any more.
    pub fn close(&mut self, watch: &mut Watch) {
        self.unwatch(watch);
        self.pipe = None;
        self.pieces.clear();
        self.bytes = 0;
        self.more = More::Told;
    }
}
