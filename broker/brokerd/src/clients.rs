//! The two sockets of a rank and every connection on them.
//!
//! Called by the leader's loop and by each hosted rank. Here connections are admitted by the kernel's
//! word on who is at the other end, bytes become messages and messages bytes;
//! what a message means is not looked at. Hostile bytes close their connection
//! and cost nobody else anything: memory grows with what came, large messages
//! of clients share a budget of which each user has a part, and a loop that is
//! behind stops the reading.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Weak};
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
use tokio::time::MissedTickBehavior;

use crate::frame::{self, FrameError, Inbound};
use crate::rundir::{self, LOCAL_SOCKET, RundirError, SHELL_SOCKET};
use crate::socket::Inlet;
use crate::speech;

/// What may have come and not been worked off yet, in arrivals.
pub const ARRIVALS_MAX: usize = 1024;
/// A message above this shares the budget of large ones.
const SMALL_BYTES: usize = 64 << 10;
/// The budget: large messages of users that may be under way at once, in KiB; as many more of the owner and admins.
const LARGE_KIB: usize = 256 << 10;
/// What one user may have of it: with less than all of it, others have some.
const USER_LARGE_KIB: usize = 64 << 10;
/// How long a large message may take from its share of the budget to its last byte.
const LARGE_PATIENCE: Duration = Duration::from_secs(30);
/// How many who are not admitted may be on their way out.
const LEAVING_MAX: usize = 64;
/// How long each of them has.
const LEAVING: Duration = Duration::from_secs(1);
/// How often is read what one of them still sends.
const LEAVING_READS: usize = 16;
/// What a socket is called until it may be found. No longer than their names, so that its path has room.
const NAMELESS: &str = "next";
/// How often is looked whether a socket can still be found.
pub const LOOK: Duration = Duration::from_secs(30);
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
    Message(ClientId, Message, Option<Share>),
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
    others: Rc<RefCell<Others>>,
    statedir: Rc<Path>,
    rundir: Rc<Path>,
}

/// Who may connect beside the owner.
#[derive(Clone, Debug)]
enum Others {
    /// A rank other than the leader's hears it from the leader.
    Unheard,
    Known(Access),
}

impl Others {
    fn access(&self) -> Cow<'_, Access> {
        match self {
            Others::Unheard => Cow::Owned(Access::default()),
            Others::Known(access) => Cow::Borrowed(access),
        }
    }
}

impl Admission {
    /// Nobody but the owner, until it learns of others. It is reached in that run directory.
    pub fn own(owner: u32, statedir: &Path, rundir: &Path) -> Admission {
        Admission {
            owner,
            others: Rc::new(RefCell::new(Others::Unheard)),
            statedir: statedir.into(),
            rundir: rundir.into(),
        }
    }

    /// From now on these are admitted; whether that is other than before. What others have to pass
    /// is opened to them.
    pub fn learn(&self, access: &Access) -> bool {
        let before = self.others.replace(Others::Known(access.clone()));
        if *before.access() == *access {
            return false;
        }
        if access.admits_others() {
            rundir::open_to_others(&self.statedir, &self.rundir);
        }
        true
    }

    /// Makes the run directory again where it is gone, as open as it was; answers it, to be held.
    fn again(&self) -> Result<Option<File>, RundirError> {
        let held = rundir::again(&self.statedir, &self.rundir)?;
        if held.is_some() {
            let rundir = self.rundir.display();
            tracing::warn!("the run directory {rundir} was gone and is there again");
            if self.others.borrow().access().admits_others() {
                rundir::open_to_others(&self.statedir, &self.rundir);
            }
        }
        Ok(held)
    }

    /// The roles of a user; none is refused.
    pub fn roles(&self, uid: u32) -> Roles {
        self.others.borrow().access().roles(self.owner, uid)
    }

    /// The roles of whoever comes through this door: a shell is the owner's.
    fn roles_at(&self, door: Door, uid: u32) -> Roles {
        match door {
            Door::Local => self.roles(uid),
            Door::Shell => Access::default().roles(self.owner, uid),
        }
    }

    /// Why a user is refused. Who is to be heard of yet may come again.
    fn refusal(&self, uid: u32) -> Refusal {
        let owner = self.owner;
        let serves = match &*self.others.borrow() {
            Others::Unheard => {
                let text = format!("this rank has not heard yet whether user {uid} is admitted");
                return Refusal::new(Code::Busy, text);
            }
            Others::Known(access) => match access.users {
                Users::Owner => "it serves its owner only",
                Users::All => "this door is not for users",
                Users::Only(_) => "the configuration does not name that user (access.users)",
            },
        };
        let text = format!("user {uid} is not admitted to this instance of user {owner}: {serves}");
        Refusal::new(Code::Denied, text)
    }

    /// Who may write to a socket by its mode; who connects is asked of the kernel. A rank that begins again leaves
    /// its own as open as it was.
    fn mode(&self, door: Door, path: &Path) -> u32 {
        let is_open = match (door, &*self.others.borrow()) {
            (Door::Shell, _) => false,
            (Door::Local, Others::Known(access)) => access.admits_others(),
            (Door::Local, Others::Unheard) => {
                std::fs::metadata(path).is_ok_and(|meta| meta.mode() & 0o002 != 0)
            }
        };
        if is_open { 0o666 } else { 0o600 }
    }
}

/// Listens on both sockets in this directory. Old sockets there are replaced:
/// the caller holds the directory, so nobody listens. It lasts
/// until nobody takes arrivals any more.
///
/// A socket has its name only when it is as open as it will be: a client waits where nobody listens, and gives up
/// at a door that is closed to it.
pub fn listen(rundir: &Path, admission: &Admission, arrivals: &Arrivals) -> io::Result<()> {
    for (name, door) in [(LOCAL_SOCKET, Door::Local), (SHELL_SOCKET, Door::Shell)] {
        let entrance = Entrance::open(rundir, name, door, admission)?;
        spawn_local(accept(entrance, admission.clone(), arrivals.clone()));
    }
    Ok(())
}

/// A socket that can be found.
struct Entrance {
    door: Door,
    nameless: PathBuf,
    path: PathBuf,
    listener: UnixListener,
    inode: u64,
    /// The run directory, if it was made again here.
    _held: Option<File>,
}

impl Entrance {
    fn open(rundir: &Path, name: &str, door: Door, admission: &Admission) -> io::Result<Entrance> {
        let (path, nameless) = (rundir.join(name), rundir.join(NAMELESS));
        let (listener, inode) = bind(&nameless, &path, admission.mode(door, &path))?;
        Ok(Entrance {
            door,
            nameless,
            path,
            listener,
            inode,
            _held: None,
        })
    }

    /// Opens it again where it is gone: what cleans up in /tmp may have removed it, its directory, or its user, and
    /// nobody would reach this rank any more.
    fn look(&mut self, admission: &Admission) {
        let meta = std::fs::symlink_metadata(&self.path);
        if meta.is_ok_and(|meta| meta.ino() == self.inode) {
            return;
        }
        match admission.again() {
            Ok(None) => {}
            Ok(Some(held)) => self._held = Some(held),
            Err(error) => {
                let error = crate::leader::chain(&error);
                return tracing::error!(%error, "the run directory is gone");
            }
        }
        let path = self.path.display();
        match bind(
            &self.nameless,
            &self.path,
            admission.mode(self.door, &self.path),
        ) {
            Ok((listener, inode)) => {
                tracing::warn!("the socket {path} was gone and is there again");
                (self.listener, self.inode) = (listener, inode);
            }
            Err(error) => tracing::error!(%error, "the socket {path} is gone"),
        }
    }
}

/// A socket, and the number of its file.
fn bind(nameless: &Path, path: &Path, mode: u32) -> io::Result<(UnixListener, u64)> {
    match std::fs::remove_file(nameless) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(nameless)?;
    std::fs::set_permissions(nameless, Permissions::from_mode(mode))?;
    let inode = std::fs::symlink_metadata(nameless)?.ino();
    std::fs::rename(nameless, path)?;
    Ok((listener, inode))
}

async fn accept(mut entrance: Entrance, admission: Admission, arrivals: Arrivals) {
    let leaving = Arc::new(Semaphore::new(LEAVING_MAX));
    let door = entrance.door;
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = entrance.listener.accept() => accepted,
            () = arrivals.closed() => return,
            _ = look.tick() => {
                entrance.look(&admission);
                continue;
            }
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
            let refusal = admission.refusal(uid);
            tracing::warn!(?door, %refusal, "a connection is refused");
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

/// The budget for large messages of all clients.
#[derive(Clone, Debug)]
pub struct Budget {
    /// Of the owner and admins.
    administering: Arc<Semaphore>,
    /// Of all others together.
    users: Arc<Semaphore>,
    /// Of each of those who are here.
    each: Rc<RefCell<HashMap<u32, Weak<Semaphore>>>>,
    patience: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            administering: Arc::new(Semaphore::new(LARGE_KIB)),
            users: Arc::new(Semaphore::new(LARGE_KIB)),
            each: Rc::default(),
            patience: LARGE_PATIENCE,
        }
    }
}

impl Budget {
    /// What a connection of this user takes from.
    pub fn of(&self, uid: u32, roles: Roles) -> Purse {
        if roles.may_administer() {
            return Purse {
                own: None,
                all: Arc::clone(&self.administering),
                patience: self.patience,
            };
        }
        let mut each = self.each.borrow_mut();
        let own = each.get(&uid).and_then(Weak::upgrade).unwrap_or_else(|| {
            // Those who left go, so that there are no more than have connections.
            each.retain(|_, own| own.strong_count() > 0);
            let own = Arc::new(Semaphore::new(USER_LARGE_KIB));
            each.insert(uid, Arc::downgrade(&own));
            own
        });
        Purse {
            own: Some(own),
            all: Arc::clone(&self.users),
            patience: self.patience,
        }
    }
}

/// What the large messages of one connection take from.
#[derive(Clone, Debug)]
pub struct Purse {
    /// What its user may have, where that is less than all.
    own: Option<Arc<Semaphore>>,
    all: Arc<Semaphore>,
    patience: Duration,
}

/// What a large message has of the budget until it is worked off.
#[derive(Debug)]
pub struct Share {
    _own: Option<OwnedSemaphorePermit>,
    _all: OwnedSemaphorePermit,
}

impl Purse {
    /// Waits for so much. Of all is taken last: who waits for what he has himself keeps nobody else waiting.
    async fn take(&self, length: usize) -> Result<Share, ReadError> {
        let kib = (length >> 10) as u32 + 1;
        let own = match &self.own {
            Some(own) => Some(Arc::clone(own).acquire_many_owned(kib).await),
            None => None,
        };
        let own = own.transpose().map_err(|_| ReadError::Ending)?;
        let all = Arc::clone(&self.all).acquire_many_owned(kib).await;
        Ok(Share {
            _own: own,
            _all: all.map_err(|_| ReadError::Ending)?,
        })
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
    #[error("a message of {length} bytes had not come after {} s", .patience.as_secs())]
    Late { length: usize, patience: Duration },
    #[error("the rank ends")]
    Ending,
}

/// Starts to read a client's messages.
pub fn read_client(id: ClientId, inlet: Inlet, purse: Purse, arrivals: Arrivals) -> JoinHandle<()> {
    spawn_local(async move {
        let mut reader = Reader {
            inlet,
            inbound: Inbound::default(),
            purse: Some(purse),
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

/// Starts to read a shell's words. They wait for no budget: a rank has one shell, which is the owner's, and all
/// that runs here is told by it.
pub fn read_shell(id: LinkId, inlet: Inlet, arrivals: Arrivals) -> JoinHandle<()> {
    spawn_local(async move {
        let mut reader = Reader {
            inlet,
            inbound: Inbound::default(),
            purse: None,
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
    /// What large messages take from; without one they take nothing.
    purse: Option<Purse>,
}

impl Reader {
    /// The next message and its share of the budget; `None` at the end.
    async fn next(&mut self) -> Result<Option<(Message, Option<Share>)>, ReadError> {
        loop {
            if let Some(message) = self.inbound.message()? {
                return Ok(Some((message, None)));
            }
            if let Some(purse) = self.purse.clone()
                && let Some(length) = self.inbound.claimed()?
                && length > SMALL_BYTES
            {
                return self.large(&purse, length).await;
            }
            if self.inlet.read(&mut self.inbound.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// A large message, which is to be there in time once it has its share: others wait for that.
    async fn large(
        &mut self,
        purse: &Purse,
        length: usize,
    ) -> Result<Option<(Message, Option<Share>)>, ReadError> {
        let share = purse.take(length).await?;
        let patience = purse.patience;
        let message = tokio::time::timeout(patience, self.whole()).await;
        let message = message.map_err(|_| ReadError::Late { length, patience })??;
        Ok(message.map(|message| (message, Some(share))))
    }

    /// The message at the front; `None` at the end.
    async fn whole(&mut self) -> Result<Option<Message>, ReadError> {
        loop {
            if let Some(message) = self.inbound.message()? {
                return Ok(Some(message));
            }
            if self.inlet.read(&mut self.inbound.buffer).await? == 0 {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests;
