//! The pipe between a shell and who launched it, its standard input: what the end of that one tells a shell
//! that no leader has welcomed yet.
//!
//! One end is the shell's loop's, the other is kept with the shells that are watched, by a leader or an agent.

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ChildStdin;

use eddy_wire::id::Epoch;

/// What is said before an end in order.
const IN_ORDER: &[u8] = b".";

/// How who launched a shell left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// In order, since the instance or this rank of it ends.
    InOrder,
    /// Without a word: it was killed, and is started again.
    Cut,
}

impl Parting {
    /// Reads it where the pipe is readable.
    pub fn read() -> Parting {
        match rustix::io::read(io::stdin(), &mut [0; 1]) {
            Ok(1) => Parting::InOrder,
            Ok(_) | Err(_) => Parting::Cut,
        }
    }
}

/// The pipes to shells that were launched here. They close with this process, however it ends.
#[derive(Debug, Default)]
pub struct Launched(HashMap<Epoch, ChildStdin>);

impl Launched {
    /// Keeps one.
    pub fn keep(&mut self, epoch: Epoch, pipe: Option<ChildStdin>) {
        self.0.extend(pipe.map(|pipe| (epoch, pipe)));
    }

    /// That shell is dead.
    pub fn drop(&mut self, epoch: Epoch) {
        self.0.remove(&epoch);
    }

    /// Tells all of them that this process ends in order.
    pub fn leave(&mut self) {
        for (_, mut pipe) in self.0.drain() {
            // One byte in an empty pipe waits for nobody, and who is dead need not know.
            let _ = pipe.write_all(IN_ORDER);
        }
    }
}
