//! One connection to a rank: its frames, and what is asked when nothing is heard.
//!
//! Used by [`super`], the driver, which decides when to connect and what becomes of
//! requests. It knows no request of a client, and closes nothing by itself.

use std::time::{Duration, Instant};

use bytes::Bytes;
use eddy_wire::message::{MESSAGE_BYTES_MAX, Message};
use eddy_wire::services::Service;
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::services::overlay::Links;
use futures_util::SinkExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_util::codec::{FramedRead, FramedWrite, LengthDelimitedCodec};

use super::Word;

/// Silence after which the leader is asked whether it is there, and the rank that took
/// the requests whether it has a way to it: that it answers itself.
const LOOK_AFTER: Duration = Duration::from_millis(300);
/// The pause before both are asked again.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The match number of the question to the rank.
pub(super) const LOOK_TAG: u64 = u64::MAX;
/// How long nothing is heard before that is said.
const SAID_AFTER: Duration = Duration::from_secs(1);
/// The match number of the question to the leader; calls count from 1.
pub(super) const PROBE_TAG: u64 = 0;

type Reader = FramedRead<OwnedReadHalf, LengthDelimitedCodec>;

/// A connection: what is read, and a queue of what its writer task writes.
pub(super) struct Connection {
    pub(super) reader: Reader,
    pub(super) writer: mpsc::UnboundedSender<Bytes>,
    pub(super) heard: Instant,
    pub(super) probe: Probe,
    /// When it was asked last whether there is a leader.
    looked: Option<Instant>,
}

impl Connection {
    /// When that is to be asked, while nothing is heard for at most `silence`.
    pub(super) fn look_at(&self, silence: Duration) -> Instant {
        match self.looked {
            None => self.heard + LOOK_AFTER,
            Some(looked) => self.heard.max(looked) + LOOK_AGAIN.min(silence),
        }
    }

    /// Something is asked while nothing was: silence counts from here.
    pub(super) fn begin(&mut self) {
        self.heard = Instant::now();
        self.probe = Probe::None;
        self.looked = None;
    }

    /// The leader was heard.
    pub(super) fn hears(&mut self, at: Instant) {
        self.heard = at;
        self.probe = Probe::None;
    }

    /// Asks the rank for its links, and the leader, unless it owes that answer already, whether
    /// it is there.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        self.looked = Some(now);
        let links = Message::request(Links::TOPIC, LOOK_TAG, &());
        let _ = self.writer.send(links.encode().expect("it is small"));
        if self.probe == Probe::None {
            let since = now;
            let word = Word::Owed;
            self.probe = Probe::Asked { since, word };
            let ping = Message::request(Ping::TOPIC, PROBE_TAG, &PingRequest::default());
            let _ = self.writer.send(ping.encode().expect("a ping is small"));
        }
    }
}

/// Whether the leader was asked if it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    None,
    Asked {
        since: Instant,
        /// That nobody answers.
        word: Word,
    },
}

impl Probe {
    /// When it is to be said that nobody answers.
    pub(super) fn told_at(self) -> Option<Instant> {
        match self {
            Probe::Asked {
                since,
                word: Word::Owed,
            } => Some(since + (SAID_AFTER - LOOK_AFTER)),
            Probe::Asked {
                word: Word::Said, ..
            }
            | Probe::None => None,
        }
    }

    /// When the silence has been too long.
    pub(super) fn over_at(self, silence: Duration) -> Option<Instant> {
        match self {
            Probe::Asked { since, .. } => Some(since + (silence - LOOK_AFTER)),
            Probe::None => None,
        }
    }

    /// Nothing more is to be said.
    pub(super) fn hush(&mut self) {
        if let Probe::Asked { word, .. } = self {
            *word = Word::Said;
        }
    }
}

/// As `sleep_until`; for ever without an instant.
pub(super) async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

impl Connection {
    /// Over this socket, with a task that writes.
    pub(super) fn over(stream: UnixStream) -> Connection {
        let (read, write) = stream.into_split();
        let (writer, queue) = mpsc::unbounded_channel();
        tokio::spawn(write_all(FramedWrite::new(write, codec()), queue));
        let reader = FramedRead::new(read, codec());
        Connection {
            reader,
            writer,
            heard: Instant::now(),
            probe: Probe::None,
            looked: None,
        }
    }
}

/// Writes in a task of its own, so that a large request to a leader that is
/// itself busy writing to us cannot stop both.
async fn write_all(
    mut sink: FramedWrite<OwnedWriteHalf, LengthDelimitedCodec>,
    mut queue: mpsc::UnboundedReceiver<Bytes>,
) {
    while let Some(bytes) = queue.recv().await {
        if sink.feed(bytes).await.is_err() {
            return;
        }
        while let Ok(bytes) = queue.try_recv() {
            if sink.feed(bytes).await.is_err() {
                return;
            }
        }
        if SinkExt::<Bytes>::flush(&mut sink).await.is_err() {
            return;
        }
    }
}

/// The framing of client sockets: a length of 32 bits, big-endian, then the message.
fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .max_frame_length(MESSAGE_BYTES_MAX)
        .new_codec()
}
