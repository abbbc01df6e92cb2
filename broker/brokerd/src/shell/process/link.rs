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
    /// When the first of the words that wait was put there.
    gathered: Option<Instant>,
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
            gathered: None,
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
        if let State::Up(up) = &mut self.state
            && let Err(error) = speech::put_from_shell(&mut up.out, word)
        {
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
            State::Up(up) => up.gathered.map(|since| since + GATHER_MAX),
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
        if up.out.is_empty() {
            up.gathered = None;
        } else if up.waiting == Until::Readable && outlook == Outlook::More {
            let since = *up.gathered.get_or_insert(now);
            if now < since + GATHER_MAX {
                return Ok(());
            }
        }
        up.gathered = None;
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
    fn take_words(&mut self, words: &mut Vec<ToShell>) -> Result<(), LinkError> {
        while let Some(message) = self.inbound.message()? {
            words.push(speech::read_to_shell(&message)?);
        }
        Ok(())
    }
}
