//! A named pipe between a test and its tasks: tasks tell where they are, and
//! wait until they are let go.
//!
//! The test holds both ends, so that neither opening nor writing blocks a task,
//! and a task that still reads when the test is over reads an end.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::process::readable_within;
use crate::running::LIMIT;

/// One named pipe.
#[derive(Debug)]
pub struct Fifo {
    path: PathBuf,
    both: File,
}

impl Fifo {
    /// Makes it at `path`.
    ///
    /// # Errors
    /// There is something already.
    pub fn make(path: PathBuf) -> anyhow::Result<Fifo> {
        let mode = Mode::RUSR | Mode::WUSR;
        mknodat(CWD, &path, FileType::Fifo, mode, 0).with_context(|| path.display().to_string())?;
        let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
        let both = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(nonblock)
            .open(&path)?;
        Ok(Fifo { path, both })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next line that a task wrote.
    ///
    /// # Errors
    /// None comes.
    pub fn line(&mut self) -> anyhow::Result<String> {
        let mut line = Vec::new();
        loop {
            ensure!(
                readable_within(&self.both, LIMIT),
                "nothing comes by {}",
                self.path.display()
            );
            let mut byte = [0];
            self.both.read_exact(&mut byte)?;
            match byte {
                [b'\n'] => return Ok(String::from_utf8_lossy(&line).into_owned()),
                [other] => line.push(other),
            }
        }
    }

    /// Lets so many readers of a line go. Each line is one byte: readers at the same time cannot
    /// mix theirs.
    ///
    /// # Errors
    /// The pipe is full.
    pub fn let_go(&mut self, readers: usize) -> anyhow::Result<()> {
        Ok(self.both.write_all(&vec![b'\n'; readers])?)
    }
}
