//! What the `zeromq` crate was seen to do wrong, each tried against our pipes:
//! the reasons for the rules in `src/link/dealer.rs`. Where only the crate can
//! be blamed, a test says that it still does so, in a process of its own.
//!
//! A peer that is killed or stopped is this test program again, told by its
//! environment which part to play.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::link_ends::{BOTH, End, meet, run};
use bytes::Bytes;
use eddy_broker::link::WINDOW_BYTES;
use eddy_broker::tree::overlay::{OverlayInput, OverlayOutput, PipeId};
use eddy_brokerd::link::{Limits, Transport};
use eddy_wire::link::{Hello, HelloAnswer};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use zeromq::{DealerSocket, Socket as _, SocketRecv as _};

/// Tells this program which part to play, and where.
const PART: &str = "EDDY_LINK_PART";
const FOLDER: &str = "EDDY_LINK_FOLDER";
/// A frame that many of fill a window.
const FRAME: usize = 64 << 10;

/// Another process, killed at the end whatever it does.
struct Peer(Child);

impl Peer {
    /// Starts this program in that part and waits until it is ready.
    fn start(part: &str, folder: &Path) -> Peer {
        let program = std::env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args(["link_findings::plays_its_part", "--exact", "--nocapture"])
            .env(PART, part)
            .env(FOLDER, folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let ready = lines
            .map_while(Result::ok)
            .any(|line| line.ends_with("ready"));
        assert!(ready, "{part} is ready");
        Peer(child)
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.0.id() as i32).expect("a child has a number")
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it is ours and not waited for");
    }

    /// Stops it, and waits until it stands.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let stopped = waitpid(Some(self.pid()), WaitOptions::UNTRACED).expect("it is a child");
        assert!(
            stopped.is_some_and(|(_, status)| status.stopped()),
            "it stands"
        );
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn plays_its_part() {
    let Ok(part) = std::env::var(PART) else {
        return; // no part: this is a run of the tests
    };
    let folder = std::env::var(FOLDER).expect("a folder");
    let folder = Path::new(&folder);
    run(async |_| match part.as_str() {
        "echo-stream" => echo(folder, Transport::Stream).await,
        "echo-zeromq" => echo(folder, Transport::Zeromq).await,
        "exposed" => exposed(folder).await,
        other => panic!("no part {other}"),
    });
}

fn part(transport: Transport) -> &'static str {
    match transport {
        Transport::Stream => "echo-stream",
        Transport::Zeromq => "echo-zeromq",
    }
}

/// Lets everybody in and sends the first bytes of each frame back.
async fn echo(folder: &Path, transport: Transport) {
    let mut end = End::new(folder, "0", transport, Limits::default());
    println!("ready");
    loop {
        match end.events.recv().await.expect("the pipes live") {
            OverlayInput::Knock(pipe, _) => {
                let welcome = end.welcome();
                end.ask(OverlayOutput::Answer(pipe, welcome));
            }
            OverlayInput::Frame(pipe, frame) => end.send(pipe, [frame.slice(..4)]),
            OverlayInput::Opened(_) | OverlayInput::Closed(..) => {}
            other => panic!("it only listens, so not {other:?}"),
        }
    }
}

/// A bare socket of the crate where anybody can reach it.
async fn exposed(folder: &Path) {
    let mut socket = DealerSocket::new();
    let endpoint = format!("ipc://{}", folder.join("bare").display());
    socket.bind(&endpoint).await.expect("bound");
    println!("ready");
    loop {
        socket.recv().await.expect("a message or an abort");
    }
}

/// Begins a pipe with a peer in another process.
async fn reach(one: &mut End, folder: &Path) -> PipeId {
    let pipe = one.dial(&folder.join("0/door"));
    one.answered(pipe).await.expect("welcome");
    one.opened(pipe).await;
    pipe
}

fn numbered(n: u32) -> Bytes {
    let mut frame = n.to_be_bytes().to_vec();
    frame.resize(FRAME, 0);
    frame.into()
}

/// The greeting of ZMTP 3.0 (RFC 23) with the mechanism NULL.
fn greeting() -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..11].copy_from_slice(&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3]);
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

/// A frame header that claims 2^62 bytes.
const HOSTILE: [u8; 9] = [2, 0x40, 0, 0, 0, 0, 0, 0, 0];

/// Speaks ZMTP until messages can follow.
fn handshake(mut stream: &UnixStream) {
    let ready = b"\x05READY\x0bSocket-Type\0\0\0\x06DEALER";
    stream.write_all(&greeting()).expect("greeted");
    stream.write_all(&[4, ready.len() as u8]).expect("said");
    stream.write_all(ready).expect("said");
    let mut head = [0; 66];
    stream.read_exact(&mut head).expect("greeted and ready");
    let mut body = vec![0; head[65].into()];
    stream.read_exact(&mut body).expect("ready");
}

/// Knocks by hand and goes where the welcome says: the connection of the knock
/// and the one at the endpoint.
fn come_in(door: &Path, hello: &Hello) -> (UnixStream, UnixStream) {
    let mut knock = UnixStream::connect(door).expect("a door");
    let body = serde_json::to_vec(hello).expect("JSON");
    knock
        .write_all(&(body.len() as u32).to_be_bytes())
        .expect("said");
    knock.write_all(&body).expect("said");
    let mut head = [0; 4];
    knock.read_exact(&mut head).expect("an answer");
    let mut body = vec![0; u32::from_be_bytes(head) as usize];
    knock.read_exact(&mut body).expect("an answer");
    let answer = serde_json::from_slice(&body).expect("an answer");
    let HelloAnswer::Welcome {
        endpoint: Some(endpoint),
        ..
    } = answer
    else {
        panic!("a welcome with an endpoint was expected, not {answer:?}");
    };
    let path = endpoint.strip_prefix("ipc://").expect("a socket");
    let stream = UnixStream::connect(path).expect("an endpoint");
    handshake(&stream);
    (knock, stream)
}

#[test]
fn a_peer_that_dies_in_mid_frame_is_one_end_and_no_more() {
    for stays in ["the knock stays", "both go"] {
        run(async |folder| {
            let mut other = End::new(&folder, "0", Transport::Zeromq, Limits::default());
            let (door, hello) = (other.door(), other.hello());
            let guest = tokio::task::spawn_blocking(move || come_in(&door, &hello));
            let pipe = other.let_in().await;
            other.opened(pipe).await;
            let (knock, mut stream) = guest.await.expect("it came in");
            stream.write_all(b"\x00\x03abc").expect("a frame");
            assert_eq!(other.frame(pipe).await, Bytes::from_static(b"abc"));
            stream
                .write_all(b"\x02\0\0\0\0\0\0\x10\0half of it")
                .expect("half a frame");
            drop(stream);
            let knock = Some(knock).filter(|_| stays == "the knock stays");
            let begun = Instant::now();
            other.closed(pipe).await;
            assert!(begun.elapsed() < Duration::from_secs(5), "{stays}");
            // A second end or an error would be noticed before this knock.
            let mut one = End::new(&folder, "1", Transport::Zeromq, Limits::default());
            meet(&mut one, &mut other).await;
            drop(knock);
        });
    }
}

#[test]
fn the_crate_gives_errors_without_end_when_its_peer_dies_in_mid_frame() {
    run(async |folder| {
        let mut socket = DealerSocket::new();
        let path = folder.join("bare");
        let endpoint = format!("ipc://{}", path.display());
        socket.bind(&endpoint).await.expect("bound");
        let guest = tokio::task::spawn_blocking(move || {
            let mut stream = UnixStream::connect(path).expect("an endpoint");
            handshake(&stream);
            stream
                .write_all(b"\x02\0\0\0\0\0\0\x10\0half of it")
                .expect("half a frame");
        });
        guest.await.expect("it died");
        // The day this fails the rule "the first error ends the socket" may go.
        for _ in 0..10_000 {
            assert!(socket.recv().await.is_err());
        }
    });
}

#[test]
fn a_stopped_peer_costs_a_bounded_amount_and_time_goes_on_when_it_dies() {
    for transport in BOTH {
        run(async |folder| {
            let limits = Limits {
                unsent_bytes: 8 << 20,
                ..Limits::default()
            };
            let peer = Peer::start(part(transport), &folder);
            let mut one = End::new(&folder, "1", transport, limits);
            let pipe = reach(&mut one, &folder).await;
            peer.stop();
            let mut put = 0;
            let why = loop {
                one.send(pipe, [numbered(put)]);
                put += 1;
                tokio::task::yield_now().await;
                match one.events.try_recv() {
                    Ok(OverlayInput::Closed(from, why)) if from == pipe => break why,
                    Ok(other) => panic!("the end was expected, not {other:?}"),
                    Err(_) => assert!(put < 10_000, "a stopped peer takes no more"),
                }
            };
            assert!(why.starts_with("the other end does not read: "), "{why}");
            // Beyond the limit: what the kernel and one write of the crate hold.
            let bytes = put as usize * FRAME;
            assert!(bytes <= limits.unsent_bytes + (2 << 20), "{bytes} bytes");
            // The crate's own writer is stuck in that socket; now it breaks.
            peer.signal(Signal::KILL);
            ticks().await;
            let mut other = End::new(&folder, "2", transport, limits);
            meet(&mut other, &mut one).await;
        });
    }
}

/// Timers run: a runtime that is parked for good does not come through here.
async fn ticks() {
    let mut interval = tokio::time::interval(Duration::from_millis(1));
    for _ in 0..20 {
        interval.tick().await;
    }
}

#[test]
fn a_whole_window_waits_for_a_stopped_peer_and_arrives() {
    for transport in BOTH {
        run(async |folder| {
            let peer = Peer::start(part(transport), &folder);
            let mut one = End::new(&folder, "1", transport, Limits::default());
            let pipe = reach(&mut one, &folder).await;
            peer.stop();
            let frames = (WINDOW_BYTES / FRAME) as u32;
            one.send(pipe, (0..frames).map(numbered));
            ticks().await;
            assert!(one.events.try_recv().is_err(), "a window is borne");
            peer.signal(Signal::CONT);
            for n in 0..frames {
                let back = one.frame(pipe).await;
                assert_eq!(back, &n.to_be_bytes()[..], "{transport:?}");
            }
        });
    }
}

#[test]
fn a_window_of_small_frames_is_far_below_the_crates_queue() {
    run(async |folder| {
        let peer = Peer::start(part(Transport::Zeromq), &folder);
        let mut one = End::new(&folder, "1", Transport::Zeromq, Limits::default());
        let pipe = reach(&mut one, &folder).await;
        peer.stop();
        // A link would stop at 4,096; without one the queue itself is the end.
        let small = Bytes::from_static(b"tick");
        let why = loop {
            one.send(pipe, vec![small.clone(); 4096]);
            ticks().await;
            match one.events.try_recv() {
                Ok(OverlayInput::Closed(from, why)) if from == pipe => break why,
                Ok(other) => panic!("the end was expected, not {other:?}"),
                Err(_) => {}
            }
        };
        assert_eq!(
            why,
            "the other end does not read: the queue of frames is full"
        );
    });
}

#[test]
fn a_killed_peer_is_known_at_once_and_nothing_sent_counts_as_delivered() {
    for transport in BOTH {
        run(async |folder| {
            let mut peer = Peer::start(part(transport), &folder);
            let mut one = End::new(&folder, "1", transport, Limits::default());
            let pipe = reach(&mut one, &folder).await;
            peer.stop();
            one.send(pipe, (0..500).map(numbered));
            ticks().await;
            assert!(one.events.try_recv().is_err(), "all were taken for sending");
            let begun = Instant::now();
            peer.signal(Signal::KILL);
            peer.0.wait().expect("it is a child");
            // No frame came back: that they were sent says nothing.
            match one.next().await {
                OverlayInput::Closed(from, _) => assert_eq!(from, pipe),
                other => panic!("the end was expected, not {other:?}"),
            }
            assert!(begun.elapsed() < Duration::from_secs(5), "at once");
            let mut other = End::new(&folder, "2", transport, Limits::default());
            meet(&mut other, &mut one).await;
        });
    }
}

#[test]
fn a_hostile_header_kills_who_exposes_the_crate_and_only_annoys_our_door() {
    run(async |folder| {
        let mut peer = Peer::start("exposed", &folder);
        let mut bare = UnixStream::connect(folder.join("bare")).expect("an endpoint");
        bare.write_all(&greeting()).expect("greeted");
        bare.write_all(&HOSTILE).expect("claimed");
        let status = peer.0.wait().expect("it is a child");
        // The day this fails the endpoints may be less private.
        assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()), "{status}");

        let mut other = End::new(&folder, "0", Transport::Zeromq, Limits::default());
        let door = other.door();
        let guest = tokio::task::spawn_blocking(move || {
            let mut stream = UnixStream::connect(door).expect("a door");
            stream.write_all(&greeting()).expect("greeted");
            // Refused already, perhaps.
            let _ = stream.write_all(&HOSTILE);
            let mut head = [0; 4];
            stream.read_exact(&mut head).expect("an answer");
            let mut body = vec![0; u32::from_be_bytes(head) as usize];
            stream.read_exact(&mut body).expect("an answer");
            body
        });
        let answer = guest.await.expect("refused");
        let answer = serde_json::from_slice(&answer).expect("an answer");
        assert!(matches!(answer, HelloAnswer::Refused(_)), "{answer:?}");
        let mut one = End::new(&folder, "1", Transport::Zeromq, Limits::default());
        meet(&mut one, &mut other).await;
    });
}

#[test]
fn after_each_of_many_quick_reconnects_the_living_pipe_works() {
    for transport in BOTH {
        run(async |folder| {
            let mut one = End::new(&folder, "1", transport, Limits::default());
            let mut other = End::new(&folder, "0", transport, Limits::default());
            for n in 0..200u32 {
                let (here, there) = meet(&mut one, &mut other).await;
                let frame = Bytes::copy_from_slice(&n.to_be_bytes());
                one.send(here, [frame.clone()]);
                assert_eq!(other.frame(there).await, frame);
                other.send(there, [frame.clone()]);
                assert_eq!(one.frame(here).await, frame);
                one.close(here);
                // Not waited for: the next one is there before this one's end.
                other.close(there);
            }
            assert_eq!(other.sockets(), ["door"]);
        });
    }
}
