//! The connection of a child's leader to its parent, over the socket for clients
//! on its own node.
//!
//! Kept by a task of the runtime: it connects, says who the child is, brings
//! what the parent says to the loop, and begins anew when the connection is
//! lost, for ever. Before there is a loop, [`first_grant`] asks once and waits.
//! It does not look at what is said, but for a refusal of the child itself and
//! the answer to its own question whether the parent is there.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream as Blocking;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::message::{Message, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::{Adopt, AdoptRequest, Beat, ChildOf, FromParent, Granted};
use eddy_wire::services::job::{Info, InfoKey, InfoReply, InfoRequest};
use eddy_wire::time::Span;
use serde_json::Value;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval_at};

use crate::frame::{self, FrameError, Inbound, READ_BYTES};
use crate::rundir::{self, LOCAL_SOCKET, SCHEME};
use crate::socket::{self, Inlet, Outlet};

/// The match number of the adoption on every connection.
pub const ADOPT_TAG: u64 = 1;
/// The match number of the question for the job's own jobspec.
const INFO_TAG: u64 = 2;
/// The first pause between two tries to connect.
const PAUSE_MIN: Duration = Duration::from_millis(10);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// The match number of the question whether the parent is there.
const BEAT_TAG: u64 = u64::MAX;
/// How often that is asked at most and at least, and so many times in a lease.
const BEAT_MIN: Duration = Duration::from_millis(50);
const BEAT_MAX: Duration = Duration::from_secs(20);
const BEATS: u32 = 4;
/// How often a leader that cannot begin says what it waits for.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Where the parent is reached from this node.
#[derive(Clone, Debug)]
pub struct Address {
    /// As the task was told: EDDY_URI.
    pub uri: String,
    /// The state directory of the parent's rank on this node, which says where it
    /// is reached now.
    pub statedir: Option<PathBuf>,
}

impl Address {
    /// Its socket for clients.
    pub fn socket(&self) -> PathBuf {
        let recorded = self.statedir.as_deref().and_then(rundir::recorded);
        let told = || PathBuf::from(self.uri.strip_prefix(SCHEME).unwrap_or(&self.uri));
        recorded.map_or_else(told, |rundir| rundir.join(LOCAL_SOCKET))
    }
}

/// What the channel brings.
#[derive(Debug)]
pub enum Heard {
    /// A connection stands and the child has said who it is.
    Up(Rc<Outlet>),
    /// The parent said something.
    Message(Message),
    /// The connection is lost.
    Away,
    /// The parent does not take this instance for its child, now or later.
    Refused(Refusal),
}

/// Why a connection ended.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The system.
    #[error("it cannot be used: {0}")]
    Io(#[from] io::Error),
    /// What came over it.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The other end.
    #[error("the parent closed it")]
    Closed,
    /// What the parent says.
    #[error("the parent answers: {0}")]
    Refused(Refusal),
    /// That it says nothing.
    #[error("the parent has not answered for {0:?}")]
    Silent(Duration),
    /// This end.
    #[error("the leader ends")]
    Ending,
}

/// How often to ask whether the parent is there, where work begins for so long without it.
pub fn beat(lease: Span) -> Duration {
    let lease = Duration::from_micros(lease.0.max(0).unsigned_abs());
    (lease / BEATS).clamp(BEAT_MIN, BEAT_MAX)
}

/// Whether asking again is of no use.
fn is_final(refusal: &Refusal) -> bool {
    match refusal.code {
        Code::Invalid
        | Code::Denied
        | Code::NotFound
        | Code::Conflict
        | Code::TooLarge
        | Code::NoService => true,
        Code::Busy | Code::NotReady | Code::Unreachable | Code::End => false,
    }
}

/// Keeps the channel for the life of the leader. A rank on the way may hold a connection open to a
/// parent that is gone: so the parent is asked, and a connection over which it does not answer is dropped.
pub async fn keep(
    address: Address,
    hello: AdoptRequest,
    heard: mpsc::Sender<Heard>,
    beat: Duration,
) {
    let mut pause = PAUSE_MIN;
    loop {
        let begun = Instant::now();
        let error = match serve(&address, &hello, &heard, beat).await {
            LinkError::Refused(refusal) if is_final(&refusal) => {
                // The loop is gone only when the process ends.
                let _ = heard.send(Heard::Refused(refusal)).await;
                return;
            }
            LinkError::Ending => return,
            error => error,
        };
        tracing::debug!(%error, "no channel to the parent");
        pause = match begun.elapsed() > PAUSE_MAX {
            true => PAUSE_MIN,
            false => (pause * 2).min(PAUSE_MAX),
        };
        tokio::time::sleep(pause).await;
    }
}

/// One connection, to its end.
async fn serve(
    address: &Address,
    hello: &AdoptRequest,
    heard: &mpsc::Sender<Heard>,
    beat: Duration,
) -> LinkError {
    let stream = match UnixStream::connect(address.socket()).await {
        Ok(stream) => stream,
        Err(error) => return error.into(),
    };
    let (mut inlet, outlet) = match socket::both(stream) {
        Ok(both) => both,
        Err(error) => return error.into(),
    };
    let adopt = Message::request(Adopt::TOPIC, ADOPT_TAG, hello);
    if let Err(error) = outlet.put(&adopt) {
        return FrameError::from(error).into();
    }
    if let Err(error) = outlet.flush() {
        return error.into();
    }
    if heard.send(Heard::Up(Rc::clone(&outlet))).await.is_err() {
        return LinkError::Ending;
    }
    let mut inbound = Inbound::default();
    let mut beats = interval_at(tokio::time::Instant::now() + beat, beat);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asked = Asked::No;
    let error = loop {
        let come = tokio::select! {
            come = next(&mut inlet, &mut inbound) => come,
            _ = beats.tick() => {
                match std::mem::replace(&mut asked, Asked::Yes) {
                    Asked::No if ask_beat(&outlet, hello.child) => continue,
                    Asked::No => break LinkError::Closed,
                    Asked::Yes => break LinkError::Silent(beat),
                }
            }
        };
        asked = Asked::No;
        match come {
            Ok(message) if message.matchtag == BEAT_TAG => {}
            Ok(message) if message.kind == Type::Refused && message.matchtag == ADOPT_TAG => {
                break refusal_of(&message);
            }
            Ok(message) => {
                if heard.send(Heard::Message(message)).await.is_err() {
                    return LinkError::Ending;
                }
            }
            Err(error) => break error,
        }
    };
    if heard.send(Heard::Away).await.is_err() {
        return LinkError::Ending;
    }
    error
}

/// Whether an answer of the parent is outstanding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    No,
    Yes,
}

/// Asks whether the parent is there, if the connection takes it.
fn ask_beat(outlet: &Rc<Outlet>, child: ChildOf) -> bool {
    let beat = Message::request(Beat::TOPIC, BEAT_TAG, &child);
    outlet.put(&beat).is_ok() && outlet.flush().is_ok()
}

async fn next(inlet: &mut Inlet, inbound: &mut Inbound) -> Result<Message, LinkError> {
    loop {
        if let Some(message) = inbound.message()? {
            return Ok(message);
        }
        if inlet.read(&mut inbound.buffer).await? == 0 {
            return Err(LinkError::Closed);
        }
    }
}

fn refusal_of(message: &Message) -> LinkError {
    LinkError::Refused(message.parse().unwrap_or_else(|refusal| refusal))
}

/// Asks the parent what this child has, and for the text of its job's jobspec,
/// before there is a loop. Waits for the parent as long as it takes, saying so.
///
/// # Errors
/// The parent's refusal.
pub fn first_grant(
    address: &Address,
    hello: &AdoptRequest,
) -> Result<(Box<Granted>, Value), Refusal> {
    let mut pause = PAUSE_MIN;
    let mut told = Instant::now();
    loop {
        let error = match ask(address, hello) {
            Ok(answers) => return Ok(answers),
            Err(LinkError::Refused(refusal)) if is_final(&refusal) => return Err(refusal),
            Err(error) => error,
        };
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            let (job, socket) = (hello.child.job, address.socket());
            let socket = socket.display();
            eprintln!("eddy broker: job {job} waits for its parent at {socket}: {error}");
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

fn ask(address: &Address, hello: &AdoptRequest) -> Result<(Box<Granted>, Value), LinkError> {
    let mut stream = Blocking::connect(address.socket())?;
    let mut out = BytesMut::new();
    for message in [
        Message::request(Adopt::TOPIC, ADOPT_TAG, hello),
        Message::request(Info::TOPIC, INFO_TAG, &jobspec_of(hello.child.job)),
    ] {
        frame::put(&mut out, &message).map_err(FrameError::from)?;
    }
    stream.write_all(&out)?;
    let (mut granted, mut jobspec) = (None, None);
    let mut inbound = Inbound::default();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        while let Some(message) = inbound.message()? {
            match (message.kind, message.matchtag) {
                (Type::Refused, _) => return Err(refusal_of(&message)),
                (_, ADOPT_TAG) => {
                    if let Ok(FromParent::Granted(what)) = message.parse() {
                        granted = Some(what);
                    }
                }
                (_, INFO_TAG) => {
                    let reply: InfoReply = message.parse().map_err(LinkError::Refused)?;
                    jobspec = Some(reply.document);
                }
                _ => {}
            }
        }
        if let (Some(_), Some(_)) = (&granted, &jobspec)
            && let Some(both) = granted.take().zip(jobspec.take())
        {
            return Ok(both);
        }
        match stream.read(&mut buffer)? {
            0 => return Err(LinkError::Closed),
            bytes => inbound.room().extend_from_slice(&buffer[..bytes]),
        }
    }
}

fn jobspec_of(job: JobId) -> InfoRequest {
    InfoRequest {
        id: job,
        key: InfoKey::Jobspec,
    }
}
