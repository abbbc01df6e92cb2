//! Who knocks at us: admitted by the kernel's word on who it is, heard within
//! a time, answered by the overlay.
//!
//! Whatever comes here is hostile until it has been read as a hello: bytes that
//! are none are refused by name and touch no transport library.

use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use eddy_broker::tree::overlay::{OverlayInput, PipeId};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::link::{Hello, HelloAnswer};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{MissedTickBehavior, timeout};

use super::fault::Fault;
use super::{End, Hall, Phase, Transport, dealer, remove, stream, word};
use crate::clients::LOOK;

/// After a failure to accept (no descriptors left) the next try waits so long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A door that can be found.
pub(super) struct Door {
    path: PathBuf,
    listener: UnixListener,
    inode: u64,
}

impl Door {
    /// Opens it, in the place of an old one: the caller holds the directory, so nobody listens there.
    pub(super) fn open(path: PathBuf) -> io::Result<Door> {
        remove(&path)?;
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let inode = std::fs::symlink_metadata(&path)?.ino();
        Ok(Door {
            path,
            listener,
            inode,
        })
    }

    /// Opens it again where it is gone, as the sockets beside it are ([`crate::clients`]): those make the run
    /// directory again, too.
    fn look(&mut self) {
        let meta = std::fs::symlink_metadata(&self.path);
        if meta.is_ok_and(|meta| meta.ino() == self.inode) || !self.has_directory() {
            return;
        }
        let path = self.path.display().to_string();
        match Door::open(self.path.clone()) {
            Ok(door) => {
                tracing::warn!("the door {path} was gone and is there again");
                *self = door;
            }
            Err(error) => tracing::error!(%error, "the door {path} is gone"),
        }
    }

    fn has_directory(&self) -> bool {
        self.path.parent().is_some_and(Path::is_dir)
    }
}

/// Takes in one after the other, for as long as the rank lives.
pub(super) async fn accept(hall: Rc<Hall>, mut door: Door) {
    let chairs = Arc::new(Semaphore::new(hall.limits.knocks));
    let mut look = tokio::time::interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let accepted = tokio::select! {
            accepted = door.listener.accept() => accepted,
            _ = look.tick() => {
                door.look();
                continue;
            }
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::error!(%error, "cannot accept a knock");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
        if !hall.admits(uid) {
            tracing::warn!(uid, "a knock is refused: only the owner is admitted");
            let text = format!(
                "user {uid} is not admitted; the ranks of this instance are of user {}",
                hall.owner
            );
            turn_away(&stream, Refusal::new(Code::Denied, text));
            continue;
        }
        let Ok(chair) = Arc::clone(&chairs).try_acquire_owned() else {
            let text = format!(
                "{} knocks are unanswered, as many as allowed",
                hall.limits.knocks
            );
            turn_away(&stream, Refusal::new(Code::Busy, text));
            continue;
        };
        let pipe = hall.number();
        hall.begin(pipe, knock(Rc::clone(&hall), pipe, stream, chair));
    }
}

/// Refuses without waiting: a new connection has room for one line, and whose
/// has not never asked.
fn turn_away(stream: &UnixStream, refusal: Refusal) {
    if let Ok(bytes) = serde_json::to_vec(&HelloAnswer::Refused(refusal)) {
        let mut line = (bytes.len() as u32).to_be_bytes().to_vec();
        line.extend(bytes);
        let _ = stream.try_write(&line);
    }
}

/// One that was let in, from its hello to its end.
async fn knock(
    hall: Rc<Hall>,
    pipe: PipeId,
    mut stream: UnixStream,
    chair: OwnedSemaphorePermit,
) -> End {
    let hello = match hear(&hall, &mut stream).await {
        Ok(hello) => hello,
        Err(fault) => {
            tracing::debug!(pipe = pipe.0, %fault, "a knock is refused");
            turn_away(&stream, Refusal::invalid(fault));
            return End::Known; // it was never told of
        }
    };
    let answer = match ask(&hall, pipe, &stream, hello).await {
        Ok(answer) => answer,
        Err(fault) => return End::Closed(fault),
    };
    drop(chair);
    let welcome = matches!(answer, HelloAnswer::Welcome { .. });
    match (welcome, hall.transport) {
        (false, _) => {
            let said = say(&hall, &mut stream, &answer).await;
            tracing::debug!(pipe = pipe.0, ?answer, ?said, "sent away");
            End::Known
        }
        (true, Transport::Stream) => match say(&hall, &mut stream, &answer).await {
            Ok(()) => End::Closed(stream::carry(&hall, pipe, stream).await),
            Err(fault) => End::Closed(fault),
        },
        (true, Transport::Zeromq) => match meet(&hall, &mut stream, answer).await {
            Ok(pair) => End::Closed(dealer::carry(&hall, pipe, pair, stream).await),
            Err(fault) => End::Closed(fault),
        },
    }
}

async fn hear(hall: &Hall, stream: &mut UnixStream) -> Result<Hello, Fault> {
    let limit = hall.limits.hello;
    let what = "hello";
    timeout(limit, word::read(stream))
        .await
        .unwrap_or(Err(Fault::Late { what, limit }))
}

async fn say(hall: &Hall, stream: &mut UnixStream, answer: &HelloAnswer) -> Result<(), Fault> {
    let limit = hall.limits.hello;
    let what = "room for an answer";
    timeout(limit, word::write(stream, answer))
        .await
        .unwrap_or(Err(Fault::Late { what, limit }))
}

/// Brings the hello to the overlay and waits for what it says. Who knocks gives
/// up after the same time, so an answer later than that is nobody's.
async fn ask(
    hall: &Hall,
    pipe: PipeId,
    stream: &UnixStream,
    hello: Hello,
) -> Result<HelloAnswer, Fault> {
    let (tell, answer) = oneshot::channel();
    hall.enter(pipe, Phase::Unanswered(tell));
    hall.say(OverlayInput::Knock(pipe, hello)).await;
    let limit = hall.limits.hello;
    let late = Fault::Late {
        what: "answer of this rank",
        limit,
    };
    tokio::select! {
        answer = timeout(limit, answer) => answer.ok().and_then(Result::ok).ok_or(late),
        fault = word::hung_up(stream) => Err(fault),
    }
}

/// Welcomes to an endpoint of its own and waits until it has come there.
async fn meet(
    hall: &Hall,
    stream: &mut UnixStream,
    mut answer: HelloAnswer,
) -> Result<dealer::Pair, Fault> {
    let seat = match dealer::Seat::bind(hall).await {
        Ok(seat) => seat,
        Err(fault) => {
            let text = format!("this rank has no endpoint: {fault}");
            turn_away(stream, Refusal::new(Code::Busy, text));
            return Err(fault);
        }
    };
    if let HelloAnswer::Welcome { endpoint, .. } = &mut answer {
        *endpoint = Some(seat.endpoint());
    }
    say(hall, stream, &answer).await?;
    let limit = hall.limits.connect;
    let what = "connection to the endpoint";
    tokio::select! {
        pair = timeout(limit, seat.accept()) => pair.unwrap_or(Err(Fault::Late { what, limit })),
        fault = word::hung_up(stream) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_door_that_was_removed_is_there_again_once_its_directory_is() {
        let dir = tempfile::tempdir().expect("a directory");
        let rundir = dir.path().join("run");
        std::fs::create_dir(&rundir).expect("a directory");
        let path = rundir.join("door");
        let mut door = Door::open(path.clone()).expect("a free directory");
        let inode = door.inode;
        door.look();
        assert_eq!(door.inode, inode, "nothing is done where it is there");
        std::fs::remove_dir_all(&rundir).expect("it was there");
        door.look();
        assert!(!rundir.exists(), "it is the sockets' to make");
        std::fs::create_dir(&rundir).expect("a directory");
        door.look();
        let knocks = UnixStream::connect(&path).await.expect("it is there");
        door.listener.accept().await.expect("a connection");
        drop(knocks);
        let mode = std::fs::metadata(&path).expect("a socket").mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
