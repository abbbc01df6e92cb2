//! What carries frames between ranks: the pipes of both transports against a bare Unix socket with a
//! length before each frame, which is their limit. Both ends are threads of this process, each with a
//! runtime as a rank has it; there is no link above the pipes, so nothing is acknowledged or repeated.

use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, bail};
use bytes::Bytes;
use eddy_broker::tree::overlay::{OverlayInput, OverlayOutput, PipeId};
use eddy_brokerd::link::{Pipes, Transport};
use eddy_wire::id::Rank;
use eddy_wire::link::{Hello, HelloAnswer, PROTOCOL_MAX, PROTOCOL_MIN};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::LocalSet;
use uuid::Uuid;

use crate::Setup;
use crate::report::Report;
use crate::rounds::{Entry, alternate};

/// Bytes of a frame: a letter with a short message in it.
const FRAME_BYTES: usize = 200;
/// Frames that may be under way, as with a link.
const WINDOW: usize = 4_096;
/// The other end answers one frame in so many of a stream.
const ACK_EVERY: usize = 1_024;
/// Frames put before a write.
const BATCH: usize = 64;
/// First byte of a frame that is sent back, and of one that is only counted.
const PING: u8 = b'p';
const DATA: u8 = b'd';

/// The only pipe that each end makes: dialled numbers are odd, the first knock is 2.
const DIALLED: PipeId = PipeId(1);
const KNOCKED: PipeId = PipeId(2);

/// Ping-pong and one-way rate of each.
///
/// # Errors
/// A socket's or a thread's.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let count = setup.count(10_000);
    let folder = setup.fresh_folder()?;
    let folder = folder.path();
    let (stream, zeromq) = (Transport::Stream, Transport::Zeromq);
    let each = |seconds: f64| seconds * 1e6 / count as f64;
    let pings = vec![
        Entry::new("bare socket, ping", "us", || Ok(each(bare(PING, count)?))),
        Entry::new("stream, ping", "us", || {
            Ok(each(piped(folder, stream, PING, count)?))
        }),
        Entry::new("zeromq, ping", "us", || {
            Ok(each(piped(folder, zeromq, PING, count)?))
        }),
    ];
    let many = count * 20;
    let rate = |seconds: f64| many as f64 / seconds;
    let flows = vec![
        Entry::new("bare socket, one way", "frames/s", || {
            Ok(rate(bare(DATA, many)?))
        }),
        Entry::new("stream, one way", "frames/s", || {
            Ok(rate(piped(folder, stream, DATA, many)?))
        }),
        Entry::new("zeromq, one way", "frames/s", || {
            Ok(rate(piped(folder, zeromq, DATA, many)?))
        }),
    ];
    let mut report = Report::default();
    for (entries, what) in [(pings, "ping"), (flows, "one way")] {
        let series = alternate(setup.rounds(7), entries)?;
        for one in &series {
            report.add(one);
        }
        for (one, name) in series[1..].iter().zip(["stream", "zeromq"]) {
            report.add(&one.percent_of(&series[0], &format!("{name} of bare socket, {what}")));
        }
    }
    report.note(format!(
        "{count} pings and {many} frames of {FRAME_BYTES} bytes in each round, at most {WINDOW} under way"
    ));
    Ok(report)
}

fn frame(kind: u8) -> Bytes {
    vec![kind; FRAME_BYTES].into()
}

/// Seconds that `count` frames take over a bare socket.
fn bare(kind: u8, count: usize) -> anyhow::Result<f64> {
    let (mine, yours) = UnixStream::pair()?;
    std::thread::scope(|scope| {
        let other = scope.spawn(move || answer_bare(&yours));
        let begun = Instant::now();
        match kind {
            PING => ping_bare(&mine, count)?,
            _ => flow_bare(&mine, count)?,
        }
        let seconds = begun.elapsed().as_secs_f64();
        drop(mine);
        match other.join() {
            Ok(answered) => answered.map(|()| seconds),
            Err(_) => bail!("the other end panicked"),
        }
    })
}

fn put(to: &mut impl Write, frame: &[u8]) -> std::io::Result<()> {
    to.write_all(&(frame.len() as u32).to_be_bytes())?;
    to.write_all(frame)
}

fn take(from: &mut impl Read, frame: &mut Vec<u8>) -> std::io::Result<()> {
    let mut head = [0; 4];
    from.read_exact(&mut head)?;
    frame.resize(u32::from_be_bytes(head) as usize, 0);
    from.read_exact(frame)
}

fn answer_bare(stream: &UnixStream) -> anyhow::Result<()> {
    let (mut from, mut to) = (
        BufReader::with_capacity(64 << 10, stream),
        BufWriter::new(stream),
    );
    let mut frame = Vec::new();
    for n in 1.. {
        match take(&mut from, &mut frame) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
            taken => taken?,
        }
        if frame[0] == PING || n % ACK_EVERY == 0 {
            put(&mut to, &frame)?;
            to.flush()?;
        }
    }
    Ok(())
}

fn ping_bare(stream: &UnixStream, count: usize) -> anyhow::Result<()> {
    let (mut from, mut to) = (BufReader::new(stream), BufWriter::new(stream));
    let (ping, mut back) = (frame(PING), Vec::new());
    for _ in 0..count {
        put(&mut to, &ping)?;
        to.flush()?;
        take(&mut from, &mut back)?;
    }
    Ok(())
}

fn flow_bare(stream: &UnixStream, count: usize) -> anyhow::Result<()> {
    let mut from = BufReader::new(stream);
    let mut to = BufWriter::with_capacity(BATCH * (FRAME_BYTES + 4), stream);
    let (data, mut back) = (frame(DATA), Vec::new());
    let mut taken = 0;
    for sent in 0..count {
        while sent - taken >= WINDOW {
            take(&mut from, &mut back)?;
            taken += ACK_EVERY;
        }
        put(&mut to, &data)?;
    }
    to.flush()?;
    while taken < count / ACK_EVERY * ACK_EVERY {
        take(&mut from, &mut back)?;
        taken += ACK_EVERY;
    }
    Ok(())
}

/// One end: its pipes and what they say.
struct End {
    pipes: Pipes,
    events: Receiver<OverlayInput>,
    pipe: PipeId,
}

impl End {
    fn new(rundir: &Path, transport: Transport, pipe: PipeId) -> anyhow::Result<End> {
        std::fs::create_dir_all(rundir)?;
        let (tell, events) = channel(1024);
        let owner = rustix::process::geteuid().as_raw();
        let mut pipes = Pipes::new(transport, rundir, owner, tell);
        pipes.listen()?;
        Ok(End {
            pipes,
            events,
            pipe,
        })
    }

    fn put(&mut self, frame: &Bytes) {
        self.pipes
            .obey(OverlayOutput::Frame(self.pipe, frame.clone()));
    }

    async fn event(&mut self) -> anyhow::Result<OverlayInput> {
        self.events.recv().await.context("the pipes live")
    }

    async fn back(&mut self) -> anyhow::Result<Bytes> {
        match self.event().await? {
            OverlayInput::Frame(_, frame) => Ok(frame),
            other => bail!("a frame was expected, not {other:?}"),
        }
    }
}

/// Seconds that `count` frames take over pipes.
fn piped(folder: &Path, transport: Transport, kind: u8, count: usize) -> anyhow::Result<f64> {
    let (mine, yours) = (folder.join("1"), folder.join("0"));
    std::thread::scope(|scope| {
        let (tell, listening) = std::sync::mpsc::channel();
        let other = scope.spawn(|| on_runtime(answer_piped(&yours, transport, tell)));
        let measured = match listening.recv() {
            Ok(()) => on_runtime(measure(&mine, &yours.join("door"), transport, kind, count)),
            Err(_) => Err(anyhow::anyhow!("the other end does not listen")),
        };
        match other.join() {
            Ok(answered) => measured.and_then(|seconds| answered.map(|()| seconds)),
            Err(_) => bail!("the other end panicked"),
        }
    })
}

fn on_runtime<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build()?;
    LocalSet::new().block_on(&runtime, work)
}

fn hello(rank: u32) -> Hello {
    Hello {
        protocol: (PROTOCOL_MIN, PROTOCOL_MAX),
        instance: "bench".to_owned(),
        job: None,
        rank: Rank(rank),
        life: Uuid::from_u128(1),
        door: String::new(),
        heard: None,
    }
}

/// Lets one in and answers it until it goes.
async fn answer_piped(
    rundir: &Path,
    transport: Transport,
    listens: std::sync::mpsc::Sender<()>,
) -> anyhow::Result<()> {
    let mut end = End::new(rundir, transport, KNOCKED)?;
    listens.send(())?;
    drop(listens);
    let mut count = 0;
    loop {
        let mut event = end.event().await?;
        // What has come already is one turn, and its answers are one write.
        loop {
            match event {
                OverlayInput::Knock(pipe, _) => {
                    let welcome = HelloAnswer::Welcome {
                        protocol: PROTOCOL_MAX,
                        hello: hello(0),
                        endpoint: None,
                    };
                    end.pipes.obey(OverlayOutput::Answer(pipe, welcome));
                }
                OverlayInput::Frame(_, frame) => {
                    count += 1;
                    if frame[0] == PING || count % ACK_EVERY == 0 {
                        end.put(&frame);
                    }
                }
                OverlayInput::Closed(..) => return Ok(()),
                OverlayInput::Opened(_) => {}
                other => bail!("it only answers, so not {other:?}"),
            }
            match end.events.try_recv() {
                Ok(next) => event = next,
                Err(_) => break,
            }
        }
        end.pipes.flush();
    }
}

async fn measure(
    rundir: &Path,
    door: &Path,
    transport: Transport,
    kind: u8,
    count: usize,
) -> anyhow::Result<f64> {
    let mut end = End::new(rundir, transport, DIALLED)?;
    let door = door.display().to_string();
    end.pipes
        .obey(OverlayOutput::Dial(DIALLED, door, Box::new(hello(1))));
    while end.event().await? != OverlayInput::Opened(DIALLED) {}
    let begun = Instant::now();
    match kind {
        PING => ping_piped(&mut end, count).await?,
        _ => flow_piped(&mut end, count).await?,
    }
    Ok(begun.elapsed().as_secs_f64())
}

async fn ping_piped(end: &mut End, count: usize) -> anyhow::Result<()> {
    let ping = frame(PING);
    for _ in 0..count {
        end.put(&ping);
        end.pipes.flush();
        end.back().await?;
    }
    Ok(())
}

async fn flow_piped(end: &mut End, count: usize) -> anyhow::Result<()> {
    let data = frame(DATA);
    let (mut sent, mut taken) = (0, 0);
    while sent < count {
        while sent + BATCH - taken > WINDOW {
            end.back().await?;
            taken += ACK_EVERY;
        }
        for _ in 0..BATCH.min(count - sent) {
            end.put(&data);
            sent += 1;
        }
        end.pipes.flush();
        tokio::task::yield_now().await;
    }
    while taken < count / ACK_EVERY * ACK_EVERY {
        end.back().await?;
        taken += ACK_EVERY;
    }
    Ok(())
}
