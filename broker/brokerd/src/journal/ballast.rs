//! The ballast: a file that only takes room, so that when the disk is full there is some to give up
//! and the ends of running jobs can be recorded. The writer drops and re-makes it. It never holds data.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// A smaller one than this part of what it should be is not worth its file.
const LEAST_PART: u64 = 16;

/// Where it is and how large it should be; 0 bytes for none.
#[derive(Debug)]
pub(super) struct Ballast {
    dir: PathBuf,
    bytes: u64,
    /// What was free once it was given up: with that alone the disk is still full.
    floor: u64,
}

impl Ballast {
    pub fn new(dir: &Path, bytes: u64) -> Ballast {
        Ballast {
            dir: dir.into(),
            bytes,
            floor: 0,
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.join("ballast")
    }

    /// Makes it if it is not there, and if as much again stays free: else it would be what fills
    /// the disk. So it is smaller on a small disk, where somebody else has made room since it was given up. Answers
    /// whether it is there now.
    pub fn make(&self) -> io::Result<bool> {
        if self.bytes == 0 {
            return Ok(true);
        }
        let least = (self.bytes / LEAST_PART).max(1);
        if fs::metadata(self.path()).is_ok_and(|m| (least..=self.bytes).contains(&m.len())) {
            return Ok(true);
        }
        let free = self.free();
        let is_more = free >= self.floor.saturating_add(least.saturating_mul(2));
        if !is_more && free < self.bytes.saturating_mul(2) {
            return Ok(false);
        }
        let made = self.allocate(self.bytes.min(free / 2));
        if made.is_err() {
            let _ = fs::remove_file(self.path());
        }
        made.map(|()| true)
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(self.path())?;
        match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            // A file system that cannot reserve: written zeros take room as well, unless it compresses.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                let zeros = vec![0u8; 1 << 16];
                let mut left = bytes;
                while left > 0 {
                    let part = left.min(zeros.len() as u64);
                    file.write_all(&zeros[..part as usize])?;
                    left -= part;
                }
                file.sync_all()
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives the room up; answers whether there was any.
    pub fn drop_it(&mut self) -> bool {
        let size = fs::metadata(self.path()).map_or(0, |m| m.len());
        let before = self.free();
        let dropped = self.bytes > 0 && fs::remove_file(self.path()).is_ok();
        if dropped {
            // The file system may take a while to free what was removed.
            self.floor = self.free().max(before.saturating_add(size));
        }
        dropped
    }

    /// Bytes this user may still write where the journal is; 0 if that cannot be asked.
    pub fn free(&self) -> u64 {
        statvfs(&self.dir).map_or(0, |fs| fs.f_bavail.saturating_mul(fs.f_frsize))
    }
}
