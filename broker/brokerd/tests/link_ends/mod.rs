//! Ranks that the tests of pipes let knock at each other: each a `Pipes` with
//! its directory and what it has been told, played by the test itself.
//!
//! Used by `link_*.rs`; each of them needs a part of it.
#![allow(dead_code)]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use eddy_broker::tree::overlay::{OverlayInput, OverlayOutput, PipeId};
use eddy_brokerd::link::{Limits, Pipes, Transport};
use eddy_wire::id::Rank;
use eddy_wire::link::{Hello, HelloAnswer, PROTOCOL_MAX, PROTOCOL_MIN};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::LocalSet;
use uuid::Uuid;

/// Both transports.
pub const BOTH: [Transport; 2] = [Transport::Stream, Transport::Zeromq];
/// What a rank can have been told and not heard yet.
pub const EVENTS: usize = 64;
/// No single thing a test waits for takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs a check on a runtime as ranks have it.
pub fn run<F: Future<Output = ()>>(check: impl FnOnce(PathBuf) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let directory = tempfile::tempdir().expect("a directory");
    let checked = check(directory.path().to_owned());
    LocalSet::new().block_on(&runtime, async {
        tokio::time::timeout(2 * PATIENCE, checked)
            .await
            .expect("it comes to an end");
    });
}

/// Who the tests run as.
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Short enough for a test of what takes too long, long enough for a busy machine.
pub fn short() -> Limits {
    Limits {
        hello: Duration::from_secs(1),
        connect: Duration::from_secs(5),
        ..Limits::default()
    }
}

/// One rank: what an overlay would do is done by the test.
pub struct End {
    /// Its pipes.
    pub pipes: Pipes,
    /// What it is told.
    pub events: Receiver<OverlayInput>,
    /// Its run directory.
    pub rundir: PathBuf,
    dialled: u64,
}

impl End {
    /// A rank that listens in a directory of this name.
    pub fn new(folder: &Path, name: &str, transport: Transport, limits: Limits) -> End {
        End::of(folder, name, transport, limits, own_uid(), EVENTS)
    }

    /// The same, of this owner and with room for so many events.
    pub fn of(
        folder: &Path,
        name: &str,
        transport: Transport,
        limits: Limits,
        owner: u32,
        room: usize,
    ) -> End {
        let rundir = folder.join(name);
        std::fs::create_dir_all(&rundir).expect("a directory");
        let (tell, events) = channel(room);
        let mut pipes = Pipes::with_limits(transport, &rundir, owner, tell, limits);
        pipes.listen().expect("a door");
        End {
            pipes,
            events,
            rundir,
            dialled: 0,
        }
    }

    /// Its door.
    pub fn door(&self) -> PathBuf {
        self.rundir.join("door")
    }

    /// What it says of itself.
    pub fn hello(&self) -> Hello {
        Hello {
            protocol: (PROTOCOL_MIN, PROTOCOL_MAX),
            instance: "3f2a".into(),
            job: None,
            rank: Rank(1),
            life: Uuid::from_u128(7),
            door: self.door().display().to_string(),
            heard: None,
        }
    }

    /// Its welcome.
    pub fn welcome(&self) -> HelloAnswer {
        HelloAnswer::Welcome {
            protocol: PROTOCOL_MAX,
            hello: self.hello(),
            endpoint: None,
        }
    }

    /// Asks something of the pipes that is theirs to do.
    pub fn ask(&mut self, output: OverlayOutput) {
        let back = self.pipes.obey(output);
        assert_eq!(back, None, "it is the pipes' to do");
    }

    /// Knocks at a door.
    pub fn dial(&mut self, door: &Path) -> PipeId {
        self.dial_with(door, self.hello())
    }

    /// The same with a hello of the test's own.
    pub fn dial_with(&mut self, door: &Path, hello: Hello) -> PipeId {
        let pipe = PipeId(2 * self.dialled + 1);
        self.dialled += 1;
        let door = door.display().to_string();
        self.ask(OverlayOutput::Dial(pipe, door, Box::new(hello)));
        pipe
    }

    /// Sends frames in one turn.
    pub fn send(&mut self, pipe: PipeId, frames: impl IntoIterator<Item = Bytes>) {
        for frame in frames {
            self.ask(OverlayOutput::Frame(pipe, frame));
        }
        self.pipes.flush();
    }

    /// Closes a pipe.
    pub fn close(&mut self, pipe: PipeId) {
        self.ask(OverlayOutput::Close(pipe, "the test says so".into()));
    }

    /// The next thing it is told.
    pub async fn next(&mut self) -> OverlayInput {
        tokio::time::timeout(PATIENCE, self.events.recv())
            .await
            .expect("something happens")
            .expect("the pipes live")
    }

    /// The next frame of that pipe, and nothing else before it.
    pub async fn frame(&mut self, pipe: PipeId) -> Bytes {
        match self.next().await {
            OverlayInput::Frame(from, frame) if from == pipe => frame,
            other => panic!("a frame of {pipe:?} was expected, not {other:?}"),
        }
    }

    /// The end of that pipe, behind frames at most; the text says why.
    pub async fn closed(&mut self, pipe: PipeId) -> String {
        loop {
            match self.next().await {
                OverlayInput::Closed(from, why) if from == pipe => return why,
                OverlayInput::Frame(from, _) if from == pipe => {}
                other => panic!("the end of {pipe:?} was expected, not {other:?}"),
            }
        }
    }

    /// The next knock, welcomed.
    pub async fn let_in(&mut self) -> PipeId {
        match self.next().await {
            OverlayInput::Knock(pipe, _) => {
                let welcome = self.welcome();
                self.ask(OverlayOutput::Answer(pipe, welcome));
                pipe
            }
            other => panic!("a knock was expected, not {other:?}"),
        }
    }

    /// That pipe opens now.
    pub async fn opened(&mut self, pipe: PipeId) {
        assert_eq!(self.next().await, OverlayInput::Opened(pipe));
    }

    /// What was answered to that knock.
    pub async fn answered(&mut self, pipe: PipeId) -> Result<HelloAnswer, String> {
        match self.next().await {
            OverlayInput::Answered(from, answer) if from == pipe => answer,
            other => panic!("an answer was expected, not {other:?}"),
        }
    }

    /// Sockets in its run directory.
    pub fn sockets(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.rundir).expect("a directory");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names.map(|n| n.into_string().expect("UTF-8")).collect();
        names.sort();
        names
    }
}

/// `one` knocks at `other`, which welcomes; the pipe's names at both.
pub async fn meet(one: &mut End, other: &mut End) -> (PipeId, PipeId) {
    let mine = one.dial(&other.door());
    let yours = other.let_in().await;
    let (answer, ()) = tokio::join!(
        async {
            let answer = one.answered(mine).await;
            one.opened(mine).await;
            answer
        },
        other.opened(yours),
    );
    assert!(
        matches!(answer, Ok(HelloAnswer::Welcome { .. })),
        "{answer:?}"
    );
    (mine, yours)
}
