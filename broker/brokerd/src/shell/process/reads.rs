//! Output on its way to the broker: each read goes through one spool file from
//! an offset, to its end or on with what is still written.
//!
//! Used by the shell's loop. It reads spools of any part, held or forgotten,
//! and stops while the link is full, so that memory stays bounded however much
//! was written.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use eddy_wire::shell::{FromShell, Part};

use super::link::Link;
use crate::shell::frame;
use crate::shell::spool::{self, Next, Reader, SpoolError, SpoolId};

/// Frames sent in one message, in bytes; one larger frame goes alone.
const MESSAGE_BYTES: usize = 256 << 10;
/// The most reads at a time; each may hold a file open.
pub const READS_MAX: usize = 4096;

/// The spool file of a part.
pub fn spool_id(part: Part) -> SpoolId {
    SpoolId {
        job: part.job.0,
        attempt: part.attempt.0,
        rank: part.rank.0,
    }
}

/// Whether more may be written to the spool of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Its tasks may still write.
    On,
    /// Nobody writes any more.
    Out,
}

/// The reads that are under way.
#[derive(Debug)]
pub struct Reads {
    directory: PathBuf,
    reads: BTreeMap<u64, Read>,
    /// Those with something to look at.
    ready: HashSet<u64>,
}

#[derive(Debug)]
struct Read {
    part: Part,
    reader: Option<Reader>,
    offset: u64,
    follow: bool,
}

/// How far one read got.
enum Progress {
    /// There may be more.
    More,
    /// There is nothing more now.
    Dry,
    /// The file cannot be read on.
    Failed(SpoolError),
}

impl Reads {
    /// No reads, of spools in this directory.
    pub fn new(directory: &Path) -> Reads {
        Reads {
            directory: directory.to_owned(),
            reads: BTreeMap::new(),
            ready: HashSet::new(),
        }
    }

    /// Begins a read; one of the same name is replaced.
    pub fn begin(&mut self, part: Part, read: u64, offset: u64, follow: bool, link: &mut Link) {
        if self.reads.len() >= READS_MAX && !self.reads.contains_key(&read) {
            tracing::warn!(
                read,
                "limit `reads` of {READS_MAX} is reached; the read is ended"
            );
            return link.say(FromShell::Output {
                read,
                next: offset,
                frames: Vec::new(),
                end: true,
            });
        }
        self.reads.insert(
            read,
            Read {
                part,
                reader: None,
                offset,
                follow,
            },
        );
        self.ready.insert(read);
    }

    /// Ends a read without a word.
    pub fn stop(&mut self, read: u64) {
        self.reads.remove(&read);
        self.ready.remove(&read);
    }

    /// The connection is gone, and with it who asked.
    pub fn stop_all(&mut self) {
        self.reads.clear();
        self.ready.clear();
    }

    /// Something was written for this part, or it ended.
    pub fn grew(&mut self, part: Part) {
        let follow = self.reads.iter().filter(|(_, read)| read.part == part);
        self.ready.extend(follow.map(|(name, _)| *name));
    }

    /// Whether nobody reads.
    pub fn is_empty(&self) -> bool {
        self.reads.is_empty()
    }

    /// Sends what the link takes.
    pub fn pump(&mut self, link: &mut Link, written: impl Fn(Part) -> Written) {
        while !link.is_full()
            && let Some(name) = self.ready.iter().next().copied()
        {
            let read = self
                .reads
                .get_mut(&name)
                .expect("what is ready is under way");
            // Asked before the file is read: what was written before the end
            // is then in the file.
            let state = written(read.part);
            let mut frames = Vec::new();
            let progress = read.fill(&self.directory, &mut frames);
            let end = match &progress {
                Progress::More => false,
                Progress::Dry => !read.follow || state == Written::Out,
                Progress::Failed(error) => {
                    tracing::warn!(part = %read.part, %error, "output cannot be read on");
                    true
                }
            };
            if !frames.is_empty() || end {
                link.say(FromShell::Output {
                    read: name,
                    next: read.offset,
                    frames,
                    end,
                });
            }
            match progress {
                _ if end => self.stop(name),
                Progress::More => {}
                Progress::Dry | Progress::Failed(_) => drop(self.ready.remove(&name)),
            }
        }
    }
}

impl Read {
    fn fill(&mut self, directory: &Path, frames: &mut Vec<u8>) -> Progress {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => match Reader::open_at(directory, spool_id(self.part), self.offset) {
                Ok(reader) => self.reader.insert(reader),
                Err(error) if spool::is_absent(&error) => return Progress::Dry,
                Err(error) => return Progress::Failed(error),
            },
        };
        while frames.len() < MESSAGE_BYTES {
            match reader.next() {
                Ok(Next::Frame(one)) => frame::encode(&one, frames),
                Ok(Next::NotYet) => return Progress::Dry,
                Err(error) => return Progress::Failed(error),
            }
            self.offset = reader.offset();
        }
        Progress::More
    }
}
