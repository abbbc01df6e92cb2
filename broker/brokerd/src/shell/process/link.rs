//! The shell's connection to its broker: found again whenever the broker is.
//!
//! Used by the shell's loop. It knows the sockets and the pauses between
//! attempts; what is said is the book's business. Reads and writes never wait.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use eddy_wire::shell::{FromShell, ToShell};

use super::watch::{Token, Until, Watch, Watched};
use crate::frame::{FrameError, Inbound};
use crate::rundir;
use crate::speech::{self, SpeechError};

/// The first pause between two tries to connect.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// Above this many bytes to be sent, output is not read from spools any more.
pub const OUTBOUND_FULL: usize = 1 << 20;
/// How long words wait for others while starts are under way, so that many
/// short tasks cost few writes.
const GATHER_MAX: Duration = Duration::from_millis(1);
/// How long it waits that something started, where another part ended less than [`BUSY`] ago: a
/// short task's end goes along with it, and the leader is woken once and not twice.
const STARTS_MAX: Duration = Duration::from_millis(5);
const BUSY: Duration = Duration::from_millis(20);
/// How much is read before others have their turn.
const READ_MAX: usize = 256 << 10;

/// The connection and where to find it again.
#[derive(Debug)]
pub struct Link {
    statedir: PathBuf,
    rundir: PathBuf,
    state: State,
}

#[derive(Debug)]
enum State {
    Down {
        since: Instant,
        retry: Instant,
        pause: Duration,
    },
    Up(Up),
}

#[derive(Debug)]
struct Up {
    stream: UnixStream,
    token: Token,
    inbound: Inbound,
    out: BytesMut,
    waiting: Until,
    /// What the words that wait tell of.
    news: News,
    /// Until when they may wait for others.
    until: Option<Instant>,
    /// When an end was told last.
    ended: Option<Instant>,
}

/// What words tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    /// Of nothing but starts.
    Starts,
    /// Of what somebody may wait for.
    More,
}

/// Whether more words are to be expected at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// Starts are under way, whose answers come soon.
    More,
    /// What there is to say was said.
    Quiet,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The broker closed it, or is gone.
    #[error("the broker closed the connection")]
    Closed,
    /// The socket failed.
    #[error("the connection to the broker failed: {0}")]
    Io(#[from] io::Error),
    /// What came is not frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// What came is not the shell's protocol.
    #[error(transparent)]
    Speech(#[from] SpeechError),
}

impl Link {
    /// A link that is down and may be tried at once.
    pub fn new(statedir: &Path, rundir: &Path) -> Link {
        let now = Instant::now();
        let state = State::Down {
            since: now,
            retry: now,
            pause: PAUSE_MIN,
        };
        Link {
            statedir: statedir.to_owned(),
            rundir: rundir.to_owned(),
            state,
        }
    }

    /// Whether there is a connection.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// The run directory last known, for the environment of tasks.
    pub fn rundir(&self) -> &Path {
        &self.rundir
    }

    /// How long there has been none.
    pub fn down_for(&self, now: Instant) -> Duration {
        match &self.state {
            State::Down { since, .. } => now.duration_since(*since),
            State::Up(_) => Duration::ZERO,
        }
    }

    /// When to try again; `None` while it is up.
    pub fn retry_at(&self) -> Option<Instant> {
        match &self.state {
            State::Down { retry, .. } => Some(*retry),
            State::Up(_) => None,
        }
    }

    /// Tries to connect if it is time to; true when a connection now stands.
    pub fn try_connect(&mut self, now: Instant, watch: &mut Watch) -> bool {
        let State::Down {
            since,
            retry,
            pause,
        } = &self.state
        else {
            return false;
        };
        if now < *retry {
            return false;
        }
        let (since, pause) = (*since, *pause);
        // A leader that was started with another environment may have another
        // run directory; the state directory says which.
        if let Some(rundir) = rundir::recorded(&self.statedir) {
            self.rundir = rundir;
        }
        match self.connect(watch) {
            Ok(up) => {
                self.state = State::Up(up);
                true
            }
            Err(_) => {
                let retry = now + pause;
                self.state = State::Down {
                    since,
                    retry,
                    pause: (pause * 2).min(PAUSE_MAX),
                };
                false
            }
        }
    }

    fn connect(&self, watch: &mut Watch) -> io::Result<Up> {
        let stream = UnixStream::connect(self.rundir.join(rundir::SHELL_SOCKET))?;
        stream.set_nonblocking(true)?;
        let token = watch.add(&stream, Until::Readable, Watched::Link)?;
        let (inbound, out) = (Inbound::default(), BytesMut::new());
        Ok(Up {
            stream,
            token,
            inbound,
            out,
            waiting: Until::Readable,
            news: News::Starts,
            until: None,
            ended: None,
        })
    }

    /// Ends the connection; it is tried again after a short pause.
    pub fn close(&mut self, now: Instant, watch: &mut Watch) {
        if let State::Up(up) = &self.state {
            watch.remove(up.token, &up.stream);
            self.state = State::Down {
                since: now,
                retry: now + PAUSE_MIN,
                pause: PAUSE_MIN,
            };
        }
    }

    /// Puts a word behind those to be sent; dropped while there is no connection.
    pub fn say(&mut self, word: FromShell) {
        let State::Up(up) = &mut self.state else {
            return;
        };
        match &word {
            FromShell::Started { .. } => {}
            FromShell::Ended { .. } => (up.news, up.ended) = (News::More, Some(Instant::now())),
            _ => up.news = News::More,
        }
        if let Err(error) = speech::put_from_shell(&mut up.out, word) {
            tracing::error!(%error, "a word to the broker is dropped");
        }
    }

    /// Whether more output would only wait.
    pub fn is_full(&self) -> bool {
        match &self.state {
            State::Up(up) => up.out.len() >= OUTBOUND_FULL,
            State::Down { .. } => true,
        }
    }

    /// Reads what came, as words of the broker, behind `words`. On an error the
    /// words before it still count.
    pub fn hear(&mut self, buffer: &mut [u8], words: &mut Vec<ToShell>) -> Result<(), LinkError> {
        let State::Up(up) = &mut self.state else {
            return Ok(());
        };
        let mut taken = 0;
        while taken < READ_MAX {
            match rustix::io::read(&up.stream, &mut *buffer) {
                Ok(0) => {
                    up.take_words(words)?;
                    return Err(LinkError::Closed);
                }
                Ok(bytes) => {
                    up.inbound.room().extend_from_slice(&buffer[..bytes]);
                    taken += bytes;
                    if bytes < buffer.len() {
                        break;
                    }
                }
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LinkError::Io(error.into())),
            }
        }
        up.take_words(words)
    }

    /// When the words that wait are to be sent at the latest.
    pub fn flush_at(&self) -> Option<Instant> {
        match &self.state {
            State::Up(up) => up.until,
            State::Down { .. } => None,
        }
    }

    /// Sends what the socket takes now, unless more is soon to come.
    pub fn flush(
        &mut self,
        now: Instant,
        outlook: Outlook,
        watch: &Watch,
    ) -> Result<(), LinkError> {
        let State::Up(up) = &mut self.state else {
            return Ok(());
        };
        if up.waits(now, outlook) {
            return Ok(());
        }
        (up.until, up.news) = (None, News::Starts);
        while !up.out.is_empty() {
            match rustix::io::write(&up.stream, &up.out) {
                Ok(bytes) => up.out.advance(bytes),
                Err(rustix::io::Errno::AGAIN) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(LinkError::Io(error.into())),
            }
        }
        let waiting = if up.out.is_empty() {
            Until::Readable
        } else {
            Until::Either
        };
        if waiting != up.waiting {
            watch.change(up.token, &up.stream, waiting)?;
            up.waiting = waiting;
        }
        Ok(())
    }
}

impl Up {
    /// Whether the words that are to be sent wait for others.
    fn waits(&mut self, now: Instant, outlook: Outlook) -> bool {
        if self.out.is_empty() || self.waiting != Until::Readable {
            return false;
        }
        let is_busy = self.ended.is_some_and(|ended| now < ended + BUSY);
        let longest = match (self.news, outlook) {
            (News::Starts, _) if is_busy => STARTS_MAX,
            (_, Outlook::More) => GATHER_MAX,
            (_, Outlook::Quiet) => return false,
        };
        let until = now + longest;
        let until = self.until.map_or(until, |earlier| earlier.min(until));
        self.until = Some(until);
        now < until
    }

    fn take_words(&mut self, words: &mut Vec<ToShell>) -> Result<(), LinkError> {
        while let Some(message) = self.inbound.message()? {
            words.push(speech::read_to_shell(&message)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixListener;

    use eddy_wire::id::{Attempt, JobId, Rank};
    use eddy_wire::shell::{Ended, Part};
    use eddy_wire::time::Time;

    use super::*;

    fn part(job: u64) -> Part {
        Part {
            job: JobId(job),
            attempt: Attempt(1),
            rank: Rank(0),
        }
    }

    fn started(job: u64) -> FromShell {
        FromShell::Started {
            part: part(job),
            t: Time(0),
        }
    }

    fn ended(job: u64) -> FromShell {
        FromShell::Ended {
            part: part(job),
            ended: Ended {
                t: Time(0),
                status: 0,
                note: None,
                tasks: std::collections::BTreeMap::new(),
            },
        }
    }

    #[test]
    fn a_start_waits_for_the_end_of_a_short_task_where_others_end() {
        let folder = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(folder.path().join(rundir::SHELL_SOCKET));
        let listener = listener.expect("a socket");
        let mut watch = Watch::new().expect("an epoll");
        let mut link = Link::new(folder.path(), folder.path());
        let now = Instant::now();
        assert!(link.try_connect(now, &mut watch));
        let (mut broker, _) = listener.accept().expect("the shell");
        broker.set_nonblocking(true).expect("no waiting");
        let mut heard = |link: &mut Link, now| {
            link.flush(now, Outlook::Quiet, &watch)
                .expect("it is there");
            broker.read(&mut [0; 4096]).unwrap_or(0) > 0
        };
        link.say(started(1));
        assert!(heard(&mut link, now), "nothing ended: it is told at once");
        link.say(ended(1));
        assert!(heard(&mut link, now), "an end waits for nothing");
        link.say(started(2));
        assert!(!heard(&mut link, now));
        let at = link.flush_at().expect("it waits so long");
        assert!(!heard(&mut link, at - Duration::from_micros(1)));
        assert!(heard(&mut link, at), "and no longer");
        link.say(started(3));
        assert!(!heard(&mut link, now));
        link.say(ended(2));
        assert!(heard(&mut link, now), "both");
        assert_eq!(link.flush_at(), None);
        link.say(started(4));
        let later = Instant::now() + BUSY;
        assert!(heard(&mut link, later), "nothing ended for a while");
    }
}
