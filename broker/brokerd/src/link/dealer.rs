//! The ZeroMQ transport: a DEALER socket at both ends, one pair for each pipe,
//! bound by who was knocked at, connected by who knocked.
//!
//! The crate loses, spins, deadlocks and aborts in ways that are tried out in
//! `tests/link_*.rs`; each rule here answers one of them.
//!
//! - One peer for each socket, and no send is ever awaited: it is polled once,
//!   and what cannot be queued at once ends the pipe. (A send that waits holds a
//!   lock on which the crate parks the whole thread when a peer goes.)
//! - The first error of any kind ends the whole socket. (A peer that dies in
//!   mid-frame gives errors without end.)
//! - Each pipe has a fresh endpoint and a fresh identity. (A reused one loses the
//!   route of the living.)
//! - The endpoint is a socket in a private directory, under a name that only the
//!   welcome tells and only until the peer is there. (One header that claims
//!   2^46 bytes aborts the process that reads it.)
//! - The connection of the knock stays open and carries nothing: its end is the
//!   end of the pipe. (ZeroMQ says nothing when a peer dies.)
//! - *Memory.* The crate's queue is bounded in frames only, 100,000. Towards a peer
//!   that is stopped the link above stops at its window. Under it what the crate
//!   holds is counted here, as each frame's memory is given back when it has
//!   been copied for the kernel; above `Limits::unsent_bytes` the pipe ends. The
//!   crate's writer keeps what it holds of an ended pipe until the peer reads,
//!   closes or dies: at most that much for each peer that is stopped, since a
//!   stopped peer answers no knock and gets no second pipe.

use std::cell::RefCell;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use eddy_broker::tree::overlay::{OverlayInput, PipeId};
use futures_util::{Stream, StreamExt as _};
use tokio::net::UnixStream;
use uuid::Uuid;
use zeromq::util::PeerIdentity;
use zeromq::{
    DealerRecvHalf, DealerSendHalf, DealerSocket, Endpoint, Socket as _, SocketEvent,
    SocketOptions, SocketRecv as _, SocketSend as _, ZmqMessage,
};

use super::fault::Fault;
use super::{FRAME_BYTES_MAX, Hall, Limits, remove, word};

/// How the name of each endpoint begins; the rest is random.
const ENDPOINT_PREFIX: &str = "link-";
/// The scheme of an endpoint, with the first character of an absolute path.
const SCHEME: &str = "ipc://";

/// A path for a new endpoint. Its name has 62 random bits: who does not know it
/// would have to be able to list the private directory, and so be the owner.
pub(super) fn endpoint_path(rundir: &Path) -> PathBuf {
    let (_, random) = Uuid::new_v4().as_u64_pair();
    rundir.join(format!("{ENDPOINT_PREFIX}{random:016x}"))
}

/// Removes endpoints that a killed process left.
pub(super) fn sweep(rundir: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(rundir)? {
        let entry = entry?;
        if entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(ENDPOINT_PREFIX.as_bytes())
        {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// What the crate says of a socket's connections.
type Monitor = Box<dyn Stream<Item = SocketEvent> + Unpin>;

/// An endpoint's file, which goes when this goes.
struct EndpointFile(PathBuf);

impl Drop for EndpointFile {
    fn drop(&mut self) {
        // It is gone already when the peer came; else the next start sweeps.
        let _ = remove(&self.0);
    }
}

/// A bound socket that waits for its one peer.
pub(super) struct Seat {
    socket: DealerSocket,
    monitor: Monitor,
    bound: Endpoint,
    file: EndpointFile,
}

impl Seat {
    pub(super) async fn bind(hall: &Hall) -> Result<Seat, Fault> {
        let path = endpoint_path(&hall.rundir);
        let listener = UnixListener::bind(&path)?;
        let file = EndpointFile(path);
        std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(0o600))?;
        let (mut socket, monitor) = fresh(hall.limits);
        let bound = socket.bind_listener(listener).await?;
        Ok(Seat {
            socket,
            monitor,
            bound,
            file,
        })
    }

    /// What the welcome names.
    pub(super) fn endpoint(&self) -> String {
        format!("{SCHEME}{}", self.file.0.display())
    }

    /// Waits until the peer has come and takes the endpoint away behind it.
    pub(super) async fn accept(mut self) -> Result<Pair, Fault> {
        loop {
            match self.monitor.next().await {
                Some(SocketEvent::Accepted(..)) => break,
                Some(SocketEvent::AcceptFailed(error)) => return Err(error.into()),
                Some(_) => {}
                None => return Err(Fault::HungUp),
            }
        }
        // Before the halves are split, since afterwards it stays bound. The
        // crate removes the file here; an error is that it cannot.
        if let Err(error) = self.socket.unbind(self.bound).await {
            tracing::debug!(%error, "an endpoint was not unbound");
        }
        Ok(Pair::new(self.socket, self.monitor))
    }
}

/// Goes to the endpoint that a welcome named.
pub(super) async fn connect(hall: &Hall, endpoint: &str) -> Result<Pair, Fault> {
    // Any other scheme would panic inside the crate, which is built without.
    let absolute = endpoint
        .strip_prefix(SCHEME)
        .is_some_and(|path| path.starts_with('/'));
    if !absolute {
        let given = endpoint.to_owned();
        return Err(Fault::Endpoint { given });
    }
    let (mut socket, monitor) = fresh(hall.limits);
    socket.connect(endpoint).await?;
    Ok(Pair::new(socket, monitor))
}

fn fresh(limits: Limits) -> (DealerSocket, Monitor) {
    let mut options = SocketOptions::default();
    options.peer_identity(PeerIdentity::new());
    options.connect_timeout(limits.connect);
    let mut socket = DealerSocket::with_options(options);
    let monitor = Box::new(socket.monitor());
    (socket, monitor)
}

/// A connected socket in its two halves.
pub(super) struct Pair {
    send: DealerSendHalf,
    recv: DealerRecvHalf,
    monitor: Monitor,
}

impl Pair {
    fn new(socket: DealerSocket, monitor: Monitor) -> Pair {
        let (send, recv) = socket.split();
        Pair {
            send,
            recv,
            monitor,
        }
    }
}

/// Carries frames both ways until it breaks. `door` is the connection of the
/// knock, on which nothing is said any more.
pub(super) async fn carry(hall: &Hall, pipe: PipeId, pair: Pair, door: UnixStream) -> Fault {
    let Pair {
        send,
        mut recv,
        mut monitor,
    } = pair;
    let outlet = Outlet {
        half: RefCell::new(send),
        unsent: Arc::new(AtomicUsize::new(0)),
    };
    hall.open(pipe, super::Outlet::Dealer(outlet)).await;
    tokio::select! {
        biased;
        fault = word::hung_up(&door) => fault,
        fault = watch(&mut monitor) => fault,
        fault = read_frames(hall, pipe, &mut recv) => fault,
    }
}

/// Waits for what the crate says of its connection. Events may be missing (its
/// channel is bounded); the door tells in any case.
async fn watch(monitor: &mut Monitor) -> Fault {
    loop {
        match monitor.next().await {
            Some(SocketEvent::Disconnected(_)) | None => return Fault::HungUp,
            Some(SocketEvent::Accepted(..)) => return Fault::SecondPeer,
            Some(_) => {}
        }
    }
}

async fn read_frames(hall: &Hall, pipe: PipeId, recv: &mut DealerRecvHalf) -> Fault {
    loop {
        let mut parts = match recv.recv().await {
            Ok(message) => message.into_vecdeque(),
            Err(error) => return error.into(),
        };
        let frame = match (parts.pop_front(), parts.len()) {
            (Some(frame), 0) => frame,
            (_, more) => return Fault::Parts { given: more + 1 },
        };
        if frame.len() > FRAME_BYTES_MAX {
            return Fault::FrameTooLong { given: frame.len() };
        }
        hall.say(OverlayInput::Frame(pipe, frame)).await;
    }
}

/// Where frames are put. The crate writes them by itself, those of one turn in
/// one batch.
pub(super) struct Outlet {
    half: RefCell<DealerSendHalf>,
    /// Bytes that the crate holds and has not copied for the kernel.
    unsent: Arc<AtomicUsize>,
}

impl Outlet {
    pub(super) fn put(&self, frame: Bytes, limits: Limits) -> Result<(), Fault> {
        let waiting = self.unsent.load(Ordering::Relaxed) + frame.len();
        let allowed = limits.unsent_bytes;
        if waiting > allowed {
            return Err(Fault::Unread { waiting, allowed });
        }
        let message = ZmqMessage::from(counted(frame, &self.unsent));
        let mut half = self.half.borrow_mut();
        match half
            .send(message)
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Ok(())) => Ok(()),
            Poll::Ready(Err(error)) => Err(error.into()),
            Poll::Pending => Err(Fault::QueueFull),
        }
    }
}

/// The frame, counted in `unsent` for as long as anybody holds it.
fn counted(frame: Bytes, unsent: &Arc<AtomicUsize>) -> Bytes {
    unsent.fetch_add(frame.len(), Ordering::Relaxed);
    Bytes::from_owner(Counted {
        frame,
        unsent: Arc::clone(unsent),
    })
}

struct Counted {
    frame: Bytes,
    unsent: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.frame
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.unsent.fetch_sub(self.frame.len(), Ordering::Relaxed);
    }
}
