//! The ballast: a file that only takes room, so that when the disk is full there is some to give up
//! and the ends of running jobs can be recorded. The writer drops and re-makes it. It never holds data.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::io::Errno;

/// With less room than this a leader does not begin but on that of the ballast: for the index of the log (32 KiB), the
/// records of a start, files of its shells and of who is reached where.
pub(super) const ROOM_MIN: u64 = 1 << 20;
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

    /// Before anything is written where a journal begins: gives the room up if there is too little without. Answers
    /// how much was free then, if it was too little.
    pub fn make_room(&mut self) -> Option<u64> {
        let free = self.free();
        let is_low = self.bytes > 0 && free < ROOM_MIN;
        is_low.then(|| {
            self.drop_it();
            free
        })
    }

    /// Bytes this user may still write where the journal is; 0 if that cannot be asked.
    pub fn free(&self) -> u64 {
        free_in(&self.dir).unwrap_or(0)
    }
}

/// Bytes this user may still write in a directory, if that can be asked.
pub(super) fn free_in(dir: &Path) -> Option<u64> {
    let fs = statvfs(dir).ok()?;
    Some(fs.f_bavail.saturating_mul(fs.f_frsize))
}
