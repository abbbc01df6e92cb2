//! Output on its way to the broker: each read goes through one spool file from
//! an offset, to its end or on with what is still written.
//!
//! Used by the shell's loop. It reads spools of any part, held or forgotten,
//! and stops while the link is full, so that memory stays bounded however much
//! was written.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use eddy_wire::shell::{FromShell, Part};
use eddy_wire::time::Time;

use super::link::Link;
use crate::shell::frame::{self, Frame, Stream};
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

    /// Begins a read; one of the same name is replaced. Over the limit it is over at once, with a note that says so.
    pub fn begin(
        &mut self,
        now: Time,
        (part, read): (Part, u64),
        (offset, follow): (u64, bool),
        link: &mut Link,
    ) {
        if self.reads.len() >= READS_MAX && !self.reads.contains_key(&read) {
            tracing::warn!(
                read,
                "limit `reads` of {READS_MAX} is reached; the read is ended"
            );
            let text = format!("output is not told: this node has {READS_MAX} readers already\n");
            let note = Frame {
                task: 0,
                stream: Stream::Note,
                time: now.0,
                bytes: text.as_bytes(),
            };
            let mut frames = Vec::new();
            frame::encode(&note, &mut frames);
            return link.say(FromShell::Output {
                read,
                next: offset,
                frames,
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

    /// When more is to be sent although nothing happens: at once, where there is more to read and the link takes it.
    /// It was full when that was looked at last, and one write may have emptied it.
    pub fn next(&self, link: &Link, now: Instant) -> Option<Instant> {
        (!self.ready.is_empty() && !link.is_full()).then_some(now)
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;

    use eddy_wire::id::{Attempt, JobId, Rank};

    use super::super::link::Outlook;
    use super::super::watch::Watch;
    use super::*;
    use crate::frame::Inbound;
    use crate::rundir;
    use crate::shell::frame::Decoded;
    use crate::shell::spool::Writer;
    use crate::speech;

    const PART: Part = Part {
        job: JobId(1),
        attempt: Attempt(1),
        rank: Rank(0),
    };

    /// A link that is up, and its other end.
    fn link(folder: &Path, watch: &mut Watch) -> (Link, std::os::unix::net::UnixStream) {
        let listener = UnixListener::bind(folder.join(rundir::SHELL_SOCKET)).expect("a socket");
        let mut link = Link::new(folder, folder);
        assert!(link.try_connect(Instant::now(), watch));
        (link, listener.accept().expect("the shell").0)
    }

    #[test]
    fn what_a_full_link_held_up_goes_on_once_it_is_empty() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut writer = Writer::new(folder.path(), spool_id(PART), 4 << 20);
        for _ in 0..30 {
            let bytes = &[7; 100 << 10];
            let (task, stream, time) = (0, Stream::Stdout, 0);
            writer
                .write(&Frame {
                    task,
                    stream,
                    time,
                    bytes,
                })
                .expect("written");
        }
        let mut watch = Watch::new().expect("an epoll");
        let (mut link, mut broker) = link(folder.path(), &mut watch);
        let mut reads = Reads::new(folder.path());
        let now = Instant::now();
        reads.begin(Time(0), (PART, 1), (0, false), &mut link);
        reads.pump(&mut link, |_| Written::Out);
        assert_eq!(reads.next(&link, now), None, "the link is full");
        broker.set_nonblocking(true).expect("no waiting");
        let mut buffer = vec![0; 1 << 20];
        while link.is_full() {
            link.flush(now, Outlook::Quiet, &watch)
                .expect("it is there");
            while broker.read(&mut buffer).is_ok() {}
        }
        assert_eq!(reads.next(&link, now), Some(now));
    }

    #[test]
    fn who_reads_over_the_limit_is_told_so() {
        let folder = tempfile::tempdir().expect("a directory");
        let mut watch = Watch::new().expect("an epoll");
        let (mut link, mut broker) = link(folder.path(), &mut watch);
        let mut reads = Reads::new(folder.path());
        for read in 0..=READS_MAX as u64 {
            reads.begin(Time(0), (PART, read), (0, true), &mut link);
        }
        link.flush(Instant::now(), Outlook::Quiet, &watch)
            .expect("it is there");
        let mut inbound = Inbound::default();
        let mut buffer = vec![0; 4096];
        let bytes = broker.read(&mut buffer).expect("a word");
        inbound.room().extend_from_slice(&buffer[..bytes]);
        let message = inbound.message().expect("frames").expect("whole");
        let word = speech::read_from_shell(&message).expect("understood");
        let FromShell::Output {
            read, frames, end, ..
        } = word
        else {
            panic!("not output: {word:?}");
        };
        assert_eq!((read, end), (READS_MAX as u64, true));
        let Ok(Decoded::Whole(note, _)) = frame::decode(&frames) else {
            panic!("no frame");
        };
        assert_eq!(note.stream, Stream::Note);
        assert_eq!(
            String::from_utf8_lossy(note.bytes),
            "output is not told: this node has 4096 readers already\n"
        );
    }
}
