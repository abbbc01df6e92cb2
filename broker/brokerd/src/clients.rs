//! The two sockets of a rank and every connection on them.
//!
//! Called by the leader's loop and by each hosted rank. Here connections are admitted by the kernel's
//! word on who is at the other end, bytes become messages and messages bytes;
//! what a message means is not looked at. Hostile bytes close their connection
//! and cost nobody else anything: memory grows with what came, large messages
//! share a budget, and a loop that is behind stops the reading.

use std::cell::RefCell;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use eddy_broker::ClientId;
use eddy_wire::access::{Access, Users};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::message::{Message, Roles, Type};
use eddy_wire::shell::FromShell;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinHandle, spawn_local};

use crate::frame::{self, FrameError, Inbound};
use crate::rundir::{self, LOCAL_SOCKET, SHELL_SOCKET};
use crate::socket::Inlet;
use crate::speech;

/// What may have come and not been worked off yet, in arrivals.
pub const ARRIVALS_MAX: usize = 1024;
/// A message above this shares the budget of large ones.
const SMALL_BYTES: usize = 64 << 10;
/// The budget: large messages that may be under way at once, in KiB.
const LARGE_KIB: usize = 256 << 10;
/// How many who are not admitted may be on their way out.
const LEAVING_MAX: usize = 64;
/// How long each of them has.
const LEAVING: Duration = Duration::from_secs(1);
/// How often is read what one of them still sends.
const LEAVING_READS: usize = 16;
/// After a failure to accept (no descriptors left) the next try waits so long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Names a connection of a shell; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Who is at the other end of a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// A client.
    Local,
    /// A shell.
    Shell,
}

/// What connections bring.
#[derive(Debug)]
pub enum Arrived {
    /// A new connection of somebody who is admitted.
    Connection(Door, UnixStream, u32),
    /// A message of a client, with its share of the budget.
    Message(ClientId, Message, Option<OwnedSemaphorePermit>),
    /// A client's connection ended.
    Gone(ClientId),
    /// A shell's word.
    Word(LinkId, FromShell),
    /// A shell's connection ended.
    LinkGone(LinkId),
}

/// Where arrivals go.
pub type Arrivals = mpsc::Sender<Arrived>;

/// Whoever may connect: the owner, the administrator of the host, who can
/// become the owner anyway, and whom the configuration admits.
#[derive(Clone, Debug)]
pub struct Admission {
    /// User id of the owner.
    pub owner: u32,
    /// Who else. A rank other than the leader's learns it from the leader.
    access: Rc<RefCell<Access>>,
    statedir: Rc<Path>,
    rundir: Rc<Path>,
}

impl Admission {
    /// Nobody but the owner, until it learns of others. It is reached in that run directory.
    pub fn own(owner: u32, statedir: &Path, rundir: &Path) -> Admission {
        Admission {
            owner,
            access: Rc::default(),
            statedir: statedir.into(),
            rundir: rundir.into(),
        }
    }

    /// From now on these are admitted; whether that is other than before. It is called when it
    /// listens: what others have to pass is opened to them.
    pub fn learn(&self, access: &Access) -> bool {
        if *self.access.borrow() == *access {
            return false;
        }
        self.access.borrow_mut().clone_from(access);
        if access.admits_others() {
            rundir::open_to_others(&self.statedir, &self.rundir);
        }
        true
    }

    /// The roles of a user; none is refused.
    pub fn roles(&self, uid: u32) -> Roles {
        self.access.borrow().roles(self.owner, uid)
    }

    /// The roles of whoever comes through this door: a shell is the owner's.
    fn roles_at(&self, door: Door, uid: u32) -> Roles {
        match door {
            Door::Local => self.roles(uid),
            Door::Shell => Access::default().roles(self.owner, uid),
        }
    }

    fn serves(&self) -> &'static str {
        match self.access.borrow().users {
            Users::Owner => "it serves its owner only",
            Users::All => "this door is not for users",
            Users::Only(_) => "the configuration does not name that user (access.users)",
        }
    }
}

/// Listens on both sockets in this directory. Old sockets there are removed:
/// the caller holds the directory, so nobody listens. It lasts
/// until nobody takes arrivals any more.
pub fn listen(rundir: &Path, admission: &Admission, arrivals: &Arrivals) -> io::Result<()> {
    for (name, door) in [(LOCAL_SOCKET, Door::Local), (SHELL_SOCKET, Door::Shell)] {
        let path = rundir.join(name);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&path)?;
        // Who else may connect is let in by `Admission::learn`.
        std::fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        spawn_local(accept(listener, door, admission.clone(), arrivals.clone()));
    }
    Ok(())
}

async fn accept(listener: UnixListener, door: Door, admission: Admission, arrivals: Arrivals) {
    let leaving = Arc::new(Semaphore::new(LEAVING_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = arrivals.closed() => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
        if admission.roles_at(door, uid) == Roles::NONE {
            let (owner, serves) = (admission.owner, admission.serves());
            tracing::warn!(uid, ?door, "a connection is refused: {serves}");
            let text =
                format!("user {uid} is not admitted to this instance of user {owner}: {serves}");
            let refusal = Refusal::new(Code::Denied, text);
            // Over the bound they get no word, which they would hardly read.
            if let Ok(chair) = Arc::clone(&leaving).try_acquire_owned() {
                spawn_local(async move {
                    turn_away(stream, &refusal).await;
                    drop(chair);
                });
            }
            continue;
        }
        if arrivals
            .send(Arrived::Connection(door, stream, uid))
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Says why somebody is not admitted, and waits until it can have been read: what was sent and is
/// not read when we close would take our words back.
async fn turn_away(mut stream: UnixStream, refusal: &Refusal) {
    refuse(&stream, refusal).await;
    let goodbye = async {
        stream.shutdown().await?;
        let mut rest = [0; 4 << 10];
        for _ in 0..LEAVING_READS {
            if stream.read(&mut rest).await? == 0 {
                break;
            }
        }
        io::Result::Ok(())
    };
    // Whoever stays longer has heard it or never will.
    let _ = tokio::time::timeout(LEAVING, goodbye).await;
}

/// Says one refusal on a connection that is about to be closed.
pub async fn refuse(stream: &UnixStream, refusal: &Refusal) {
    let mut out = BytesMut::new();
    let message = Message::answer(Type::Refused, 0, refusal);
    if frame::put(&mut out, &message).is_ok() && stream.writable().await.is_ok() {
        // A new connection has room for one line; whose has not never asked.
        let _ = stream.try_write(&out);
    }
}

/// The budget for large messages of all connections.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Semaphore>);

impl Default for Budget {
    fn default() -> Budget {
        Budget(Arc::new(Semaphore::new(LARGE_KIB)))
    }
}

/// Why a connection was closed from here.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Speech(#[from] speech::SpeechError),
    #[error("it failed: {0}")]
    Io(#[from] io::Error),
    #[error("the rank ends")]
    Ending,
}

/// Starts to read a client's messages.
pub fn read_client(
    id: ClientId,
    inlet: Inlet,
    budget: Budget,
    arrivals: Arrivals,
) -> JoinHandle<()> {
    spawn_local(async move {
        let mut reader = Reader {
            inlet,
            inbound: Inbound::default(),
            budget,
        };
        let ended = loop {
            match reader.next().await {
                Ok(Some((message, permit))) => {
                    if arrivals
                        .send(Arrived::Message(id, message, permit))
                        .await
                        .is_err()
                    {
                        break Err(ReadError::Ending);
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        log_end("client", id.0, &ended);
        // The loop is gone only when the process ends.
        let _ = arrivals.send(Arrived::Gone(id)).await;
    })
}

/// Starts to read a shell's words.
pub fn read_shell(id: LinkId, inlet: Inlet, budget: Budget, arrivals: Arrivals) -> JoinHandle<()> {
    spawn_local(async move {
        let mut reader = Reader {
            inlet,
            inbound: Inbound::default(),
            budget,
        };
        let ended = loop {
            match reader.next().await {
                Ok(Some((message, _))) => match speech::read_from_shell(&message) {
                    Ok(word) => {
                        if arrivals.send(Arrived::Word(id, word)).await.is_err() {
                            break Err(ReadError::Ending);
                        }
                    }
                    Err(error) => break Err(error.into()),
                },
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        log_end("shell", id.0, &ended);
        let _ = arrivals.send(Arrived::LinkGone(id)).await;
    })
}

fn log_end(who: &'static str, id: u64, ended: &Result<(), ReadError>) {
    match ended {
        Ok(()) => tracing::debug!(who, id, "connection ended"),
        Err(error) => tracing::warn!(who, id, %error, "connection closed"),
    }
}

/// The reading end of a connection.
struct Reader {
    inlet: Inlet,
    inbound: Inbound,
    budget: Budget,
}

impl Reader {
    /// The next message and its share of the budget; `None` at the end.
    async fn next(&mut self) -> Result<Option<(Message, Option<OwnedSemaphorePermit>)>, ReadError> {
        let mut permit = None;
        loop {
            if let Some(message) = self.inbound.message()? {
                return Ok(Some((message, permit)));
            }
            if let Some(length) = self.inbound.claimed()?
                && length > SMALL_BYTES
                && permit.is_none()
            {
                let kib = (length >> 10) as u32 + 1;
                let share = Arc::clone(&self.budget.0).acquire_many_owned(kib).await;
                permit = Some(share.map_err(|_| ReadError::Ending)?);
            }
            if self.inlet.read(&mut self.inbound.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_takes_no_arrivals_any_more_keeps_no_socket_open() {
        let dir = tempfile::tempdir().expect("a directory");
        let owner = rustix::process::geteuid().as_raw();
        let (arrivals, mut arrived) = mpsc::channel(1);
        let local = tokio::task::LocalSet::new();
        let outcome = local
            .run_until(async {
                let admission = Admission::own(owner, dir.path(), dir.path());
                listen(dir.path(), &admission, &arrivals).expect("a free directory");
                let path = dir.path().join(LOCAL_SOCKET);
                let _client = UnixStream::connect(&path).await.expect("somebody listens");
                arrived.recv().await.expect("a connection");
                drop(arrived);
                tokio::task::yield_now().await;
                UnixStream::connect(&path).await
            })
            .await;
        let refused = outcome.map(drop).map_err(|error| error.kind());
        assert_eq!(refused, Err(io::ErrorKind::ConnectionRefused));
    }
}
