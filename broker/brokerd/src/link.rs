//! The pipes under a rank's links: the door where others knock, the dialling of
//! doors, and two transports that carry frames both ways until they break.
//!
//! One [`Pipes`] for each rank, driven by the leader's loop or by an agent on a
//! current-thread runtime inside a `LocalSet`. It moves frames and says when a
//! pipe is there and when it is gone; who is let in and what a frame means is
//! decided by `eddy_broker::tree::overlay`. It never repeats a frame, never
//! makes a pipe again and never waits for a peer: a pipe that fails in any way
//! is closed once, whole, and the link above makes a new one.
//!
//! Reading order: `word` (the first words), `door` (who knocks at us), `dial`
//! (where we knock), then the transports `stream` and `dealer`.

mod dealer;
mod dial;
mod door;
mod fault;
mod stream;
mod word;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use eddy_broker::link::{FRAME_HEADER_BYTES, PIECE_BYTES_MAX, WINDOW_BYTES};
use eddy_broker::tree::overlay::{OverlayInput, OverlayOutput, PipeId};
use eddy_wire::link::{Hello, HelloAnswer};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, spawn_local};

use crate::rundir::SOCKET_PATH_MAX;
use fault::Fault;

/// Name of the socket where ranks knock.
pub const DOOR_SOCKET: &str = "door";
/// Longest frame in bytes: a link's piece behind its header.
pub const FRAME_BYTES_MAX: usize = PIECE_BYTES_MAX + FRAME_HEADER_BYTES;

/// What carries the frames of a link after its welcome. The acceptor chooses,
/// the dialler obeys: ranks of one tree may differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The connection on which was knocked, each frame behind its length.
    Stream,
    /// A pair of ZeroMQ DEALER sockets; that connection stays open beside it
    /// and tells of the other end's death.
    #[default]
    Zeromq,
}

/// How long and how much is borne before a pipe is given up.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the first word of who knocks, and for the answer to it.
    pub hello: Duration,
    /// For a connection to be made, at the door and then by the transport.
    pub connect: Duration,
    /// Knocks that may be unanswered at a time.
    pub knocks: usize,
    /// Bytes of one pipe that may wait to be written. Twice what the window of
    /// a link lets be under way, so that only a link without one gets there.
    pub unsent_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            hello: Duration::from_secs(5),
            connect: Duration::from_secs(5),
            knocks: 256,
            unsent_bytes: 2 * WINDOW_BYTES,
        }
    }
}

/// All pipes of one rank and its door.
pub struct Pipes {
    hall: Rc<Hall>,
    door: Option<AbortHandle>,
}

impl Pipes {
    /// No pipe yet, nobody listens. What happens goes to `events`; when that is
    /// full, reading stops until there is room. `rundir` is a private directory
    /// of this rank alone, for the door and the transport's endpoints. Only
    /// processes of `owner_uid` and of the administrator are let in or asked.
    pub fn new(
        transport: Transport,
        rundir: &Path,
        owner_uid: u32,
        events: mpsc::Sender<OverlayInput>,
    ) -> Pipes {
        Pipes::with_limits(transport, rundir, owner_uid, events, Limits::default())
    }

    /// The same with other limits.
    pub fn with_limits(
        transport: Transport,
        rundir: &Path,
        owner_uid: u32,
        events: mpsc::Sender<OverlayInput>,
        limits: Limits,
    ) -> Pipes {
        let hall = Rc::new(Hall {
            transport,
            rundir: rundir.to_owned(),
            owner: owner_uid,
            limits,
            events,
            pipes: RefCell::new(BTreeMap::new()),
            knocked: Cell::new(0),
            put: RefCell::new(Vec::new()),
        });
        Pipes { hall, door: None }
    }

    /// Opens the door. An old socket there and endpoints that a killed process
    /// left are removed: the caller holds the lock that says nobody listens.
    ///
    /// # Errors
    /// The file system's, or that a path in the directory would be too long.
    pub fn listen(&mut self) -> io::Result<()> {
        dealer::sweep(&self.hall.rundir)?;
        let path = self.hall.rundir.join(DOOR_SOCKET);
        let endpoint = dealer::endpoint_path(&self.hall.rundir);
        let bytes = endpoint.as_os_str().len();
        if self.hall.transport == Transport::Zeromq && bytes > SOCKET_PATH_MAX {
            let text = format!(
                "run directory {}: an endpoint in it has {bytes} bytes of path; allowed are at most {SOCKET_PATH_MAX}",
                self.hall.rundir.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let door = door::Door::open(path)?;
        let task = spawn_local(door::accept(Rc::clone(&self.hall), door));
        self.door = Some(task.abort_handle());
        Ok(())
    }

    /// Does what is asked of a driver's pipes; gives everything else back.
    ///
    /// A pipe ends with one `Closed`, or with `Answered(.., Err)` if it was
    /// never welcomed. Nothing is said after an end that the overlay made itself:
    /// `Close`, or an answer given or got that is no welcome. What an outlived
    /// pipe is told is dropped.
    pub fn obey(&mut self, output: OverlayOutput) -> Option<OverlayOutput> {
        match output {
            OverlayOutput::Answer(pipe, answer) => self.hall.answer(pipe, answer),
            OverlayOutput::Dial(pipe, door, hello) => self.dial(pipe, door, *hello),
            OverlayOutput::Frame(pipe, frame) => self.hall.send(pipe, frame),
            OverlayOutput::Close(pipe, why) => self.hall.close(pipe, &why),
            other @ (OverlayOutput::Deliver(_)
            | OverlayOutput::Reached(..)
            | OverlayOutput::Lost(..)
            | OverlayOutput::Upstream(_)
            | OverlayOutput::Wake(_)) => return Some(other),
        }
        None
    }

    /// Writes what was put since the last time, each pipe's frames in one call
    /// where the socket takes them; the rest follows by itself.
    pub fn flush(&mut self) {
        for pipe in self.hall.put.take() {
            let wrote = match self.hall.pipes.borrow().get(&pipe) {
                Some(Entry {
                    phase: Phase::Open(Outlet::Stream(outlet)),
                    ..
                }) => outlet.flush(),
                _ => Ok(()),
            };
            if let Err(fault) = wrote {
                self.hall.fail(pipe, fault);
            }
        }
    }

    fn dial(&mut self, pipe: PipeId, door: String, hello: Hello) {
        let life = dial::dial(Rc::clone(&self.hall), pipe, door, hello);
        self.hall.begin(pipe, life);
    }
}

impl Drop for Pipes {
    fn drop(&mut self) {
        for (_, entry) in self.hall.pipes.take() {
            entry.task.abort();
        }
        if let Some(door) = self.door.take() {
            door.abort();
            // Nobody can be helped if it cannot be removed; the next one does.
            let _ = remove(&self.hall.rundir.join(DOOR_SOCKET));
        }
    }
}

/// What the tasks of the door and of each pipe share.
struct Hall {
    transport: Transport,
    rundir: PathBuf,
    owner: u32,
    limits: Limits,
    events: mpsc::Sender<OverlayInput>,
    pipes: RefCell<BTreeMap<PipeId, Entry>>,
    /// The last number given to one who knocked: even, the overlay's are odd.
    knocked: Cell<u64>,
    /// Pipes with frames that `flush` is to write.
    put: RefCell<Vec<PipeId>>,
}

/// A pipe as the driver sees it; its task has the rest.
struct Entry {
    task: AbortHandle,
    fault: Option<oneshot::Sender<Fault>>,
    phase: Phase,
}

/// How far a pipe has come.
enum Phase {
    /// Knocking or dialling: nothing can be asked of it.
    Coming,
    /// It has knocked and waits for this.
    Unanswered(oneshot::Sender<HelloAnswer>),
    /// Frames pass.
    Open(Outlet),
}

/// Where frames are put.
enum Outlet {
    Stream(Rc<stream::Outlet>),
    Dealer(dealer::Outlet),
}

/// What an ended pipe says as its last word.
enum End {
    /// The overlay knows already.
    Known,
    /// A knock of ours came to nothing.
    Unanswered(Fault),
    /// It broke.
    Closed(Fault),
}

impl Hall {
    fn number(&self) -> PipeId {
        self.knocked.set(self.knocked.get() + 2);
        PipeId(self.knocked.get())
    }

    /// Whoever may be at the other end: the owner, and the administrator of the
    /// host, who can become the owner anyway.
    fn admits(&self, uid: u32) -> bool {
        uid == self.owner || uid == 0
    }

    /// Starts the one task of a pipe. It alone speaks for the pipe, so its last
    /// word is the last, and there is one.
    fn begin(self: &Rc<Hall>, pipe: PipeId, life: impl Future<Output = End> + 'static) {
        let (fault, faulted) = oneshot::channel();
        let hall = Rc::clone(self);
        let task = spawn_local(async move {
            let end = tokio::select! {
                biased;
                Ok(fault) = faulted => End::Closed(fault),
                end = life => end,
            };
            hall.end(pipe, end).await;
        });
        let entry = Entry {
            task: task.abort_handle(),
            fault: Some(fault),
            phase: Phase::Coming,
        };
        let before = self.pipes.borrow_mut().insert(pipe, entry);
        assert!(before.is_none(), "pipe {} has one life", pipe.0);
    }

    async fn end(&self, pipe: PipeId, end: End) {
        // First out of the table: what is sent from now on goes nowhere.
        drop(self.pipes.borrow_mut().remove(&pipe));
        let (word, why) = match end {
            End::Known => return,
            End::Unanswered(fault) => {
                let why = fault.to_string();
                (OverlayInput::Answered(pipe, Err(why.clone())), why)
            }
            End::Closed(fault) => {
                let why = fault.to_string();
                (OverlayInput::Closed(pipe, why.clone()), why)
            }
        };
        tracing::debug!(pipe = pipe.0, why, "pipe ended");
        self.say(word).await;
    }

    /// Tells the overlay, as soon as it has room to hear.
    async fn say(&self, word: OverlayInput) {
        // Nobody hears only when the loop is gone, and then nobody needs to.
        let _ = self.events.send(word).await;
    }

    fn enter(&self, pipe: PipeId, phase: Phase) {
        if let Some(entry) = self.pipes.borrow_mut().get_mut(&pipe) {
            entry.phase = phase;
        }
    }

    /// Frames can pass: first they can be put, then it is said.
    async fn open(&self, pipe: PipeId, outlet: Outlet) {
        self.enter(pipe, Phase::Open(outlet));
        tracing::debug!(pipe = pipe.0, "pipe opened");
        self.say(OverlayInput::Opened(pipe)).await;
    }

    fn answer(&self, pipe: PipeId, answer: HelloAnswer) {
        if let Some(entry) = self.pipes.borrow_mut().get_mut(&pipe) {
            let phase = std::mem::replace(&mut entry.phase, Phase::Coming);
            match phase {
                // An error: its task has just ended, and says so.
                Phase::Unanswered(knock) => drop(knock.send(answer)),
                other => entry.phase = other,
            }
        }
    }

    fn send(&self, pipe: PipeId, frame: Bytes) {
        let put = match self.pipes.borrow().get(&pipe).map(|entry| &entry.phase) {
            None => Ok(()),
            Some(Phase::Coming | Phase::Unanswered(_)) => Err(Fault::NotOpen),
            Some(Phase::Open(_)) if frame.len() > FRAME_BYTES_MAX => {
                Err(Fault::FrameTooLong { given: frame.len() })
            }
            Some(Phase::Open(Outlet::Dealer(outlet))) => outlet.put(frame, self.limits),
            Some(Phase::Open(Outlet::Stream(outlet))) => {
                self.put
                    .borrow_mut()
                    .extend(outlet.is_idle().then_some(pipe));
                outlet.put(&frame, self.limits)
            }
        };
        if let Err(fault) = put {
            self.fail(pipe, fault);
        }
    }

    /// Ends a pipe from this side of it; its task says so.
    fn fail(&self, pipe: PipeId, fault: Fault) {
        if let Some(entry) = self.pipes.borrow_mut().get_mut(&pipe) {
            entry.phase = Phase::Coming;
            // The first fault is the reason.
            if let Some(tell) = entry.fault.take() {
                drop(tell.send(fault));
            }
        }
    }

    fn close(&self, pipe: PipeId, why: &str) {
        let Some(entry) = self.pipes.borrow_mut().remove(&pipe) else {
            return;
        };
        tracing::debug!(pipe = pipe.0, why, "pipe closed");
        if let Phase::Open(Outlet::Stream(outlet)) = &entry.phase {
            // What the socket takes at once is still sent: a last word of the
            // link mostly gets there. Nothing relies on it.
            let _ = outlet.flush();
        }
        entry.task.abort();
    }
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
