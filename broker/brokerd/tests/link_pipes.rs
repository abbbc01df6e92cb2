//! Doors and pipes between two ranks: what is said when, over both transports
//! and between ranks that prefer different ones.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::link_ends::{BOTH, End, meet, own_uid, run, short};
use bytes::Bytes;
use eddy_broker::tree::overlay::{OverlayInput, OverlayOutput};
use eddy_brokerd::link::{FRAME_BYTES_MAX, Limits, Transport};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::Rank;
use eddy_wire::link::{HELLO_BYTES_MAX, Hello, HelloAnswer};

/// Frame number `n`, with its number in it.
fn numbered(n: u32, bytes: usize) -> Bytes {
    let mut frame = n.to_be_bytes().to_vec();
    frame.resize(bytes.max(4), n as u8);
    frame.into()
}

/// Bytes of a first word.
fn word(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// What a door says until it closes the connection. On a thread of its own, so
/// that the door can be played meanwhile.
async fn says(door: &Path, bytes: Vec<u8>) -> HelloAnswer {
    let door = door.to_owned();
    let heard = tokio::task::spawn_blocking(move || {
        let mut stream = UnixStream::connect(door).expect("a door");
        // A door that has refused closes before it has read everything.
        let _ = stream.write_all(&bytes);
        let mut head = [0; 4];
        stream.read_exact(&mut head).expect("an answer");
        let mut body = vec![0; u32::from_be_bytes(head) as usize];
        stream.read_exact(&mut body).expect("a whole answer");
        let rest = stream.read(&mut [0; 1]);
        assert!(!matches!(rest, Ok(1..)), "nothing follows a refusal");
        body
    });
    serde_json::from_slice(&heard.await.expect("read")).expect("an answer")
}

fn refusal(answer: HelloAnswer) -> Refusal {
    match answer {
        HelloAnswer::Refused(refusal) => refusal,
        other => panic!("a refusal was expected, not {other:?}"),
    }
}

#[test]
fn frames_pass_both_ways_in_order_whatever_each_end_prefers() {
    for (mine, yours) in BOTH.map(|mine| BOTH.map(|yours| (mine, yours))).concat() {
        run(async |folder| {
            let mut one = End::new(&folder, "1", mine, Limits::default());
            let mut other = End::new(&folder, "0", yours, Limits::default());
            let (here, there) = meet(&mut one, &mut other).await;
            assert_eq!(
                other.sockets(),
                ["door"],
                "the endpoint is gone behind the peer"
            );
            let sizes = [4, 200, 70_000, FRAME_BYTES_MAX, 5];
            let frames = || (0..200).map(|n| numbered(n, sizes[n as usize % sizes.len()]));
            one.send(here, frames().take(50));
            other.send(there, frames());
            one.send(here, frames().skip(50));
            let (at_other, at_one) = tokio::join!(
                async {
                    let mut all = Vec::new();
                    while all.len() < 200 {
                        all.push(other.frame(there).await);
                    }
                    all
                },
                async {
                    let mut all = Vec::new();
                    while all.len() < 200 {
                        all.push(one.frame(here).await);
                    }
                    all
                },
            );
            assert!(at_other.into_iter().eq(frames()), "{mine:?} to {yours:?}");
            assert!(at_one.into_iter().eq(frames()), "{yours:?} to {mine:?}");
        });
    }
}

#[test]
fn an_empty_frame_is_a_frame() {
    for transport in BOTH {
        run(async |folder| {
            let mut one = End::new(&folder, "1", transport, Limits::default());
            let mut other = End::new(&folder, "0", transport, Limits::default());
            let (here, there) = meet(&mut one, &mut other).await;
            one.send(here, [Bytes::new(), numbered(1, 4)]);
            assert_eq!(other.frame(there).await, Bytes::new());
            assert_eq!(other.frame(there).await, numbered(1, 4));
        });
    }
}

#[test]
fn closing_at_one_end_is_one_end_at_the_other_and_silence_here() {
    for transport in BOTH {
        run(async |folder| {
            let mut one = End::new(&folder, "1", transport, Limits::default());
            let mut other = End::new(&folder, "0", transport, Limits::default());
            let (here, there) = meet(&mut one, &mut other).await;
            one.close(here);
            assert_eq!(other.closed(there).await, "the other end is gone");
            // To a pipe that is over nothing can be sent, and nothing is said of it.
            other.send(there, [numbered(1, 4)]);
            other.close(there);
            one.send(here, [numbered(1, 4)]);
            let (here, there) = meet(&mut one, &mut other).await;
            other.close(there);
            assert_eq!(one.closed(here).await, "the other end is gone");
            meet(&mut other, &mut one).await;
        });
    }
}

#[test]
fn who_is_sent_elsewhere_or_refused_is_told_and_that_is_all() {
    run(async |folder| {
        let mut one = End::new(&folder, "1", Transport::Zeromq, Limits::default());
        let mut other = End::new(&folder, "0", Transport::Zeromq, Limits::default());
        let elsewhere = HelloAnswer::Elsewhere {
            rank: Rank(3),
            door: "/tmp/door".into(),
        };
        let refused = HelloAnswer::Refused(Refusal::new(Code::Denied, "no such rank"));
        for answer in [elsewhere, refused] {
            let mine = one.dial(&other.door());
            let yours = match other.next().await {
                OverlayInput::Knock(pipe, hello) => {
                    assert_eq!(hello, one.hello());
                    assert_eq!(pipe.0 % 2, 0, "what knocks at us is even");
                    pipe
                }
                unexpected => panic!("a knock was expected, not {unexpected:?}"),
            };
            other.ask(OverlayOutput::Answer(yours, answer.clone()));
            assert_eq!(one.answered(mine).await, Ok(answer));
        }
        meet(&mut one, &mut other).await;
    });
}

#[test]
fn a_knock_that_comes_to_nothing_says_why() {
    run(async |folder| {
        let mut one = End::new(&folder, "1", Transport::Zeromq, short());
        let pipe = one.dial(Path::new("/nowhere/door"));
        let why = one.answered(pipe).await.expect_err("no door");
        assert!(
            why.starts_with("door /nowhere/door: cannot be reached: No such file"),
            "{why}"
        );

        let listener = std::os::unix::net::UnixListener::bind(folder.join("mute")).expect("bound");
        let pipe = one.dial(&folder.join("mute"));
        let why = one.answered(pipe).await.expect_err("nobody answers");
        assert_eq!(why, "answer to our hello: nothing came within 1s");

        let pipe = one.dial(&folder.join("mute"));
        let hang_up = tokio::task::spawn_blocking(move || {
            drop(listener.accept().expect("the first"));
            drop(listener.accept().expect("the second"));
        });
        let why = one.answered(pipe).await.expect_err("hung up");
        assert_eq!(why, "the other end is gone");
        hang_up.await.expect("both");
    });
}

#[test]
fn an_endpoint_that_is_no_private_socket_is_not_gone_to() {
    for endpoint in [
        "tcp://127.0.0.1:7",
        "ipc://*",
        "ipc://",
        "",
        "ipc://@abstract",
    ] {
        run(async |folder| {
            let mut one = End::new(&folder, "1", Transport::Zeromq, Limits::default());
            let welcome = HelloAnswer::Welcome {
                protocol: 1,
                hello: one.hello(),
                endpoint: Some(endpoint.into()),
            };
            let listener =
                std::os::unix::net::UnixListener::bind(folder.join("door")).expect("bound");
            let pipe = one.dial(&folder.join("door"));
            let door = tokio::task::spawn_blocking(move || {
                let (mut stream, _) = listener.accept().expect("a knock");
                let answer = serde_json::to_vec(&welcome).expect("JSON");
                stream.write_all(&word(&answer)).expect("said");
                let mut rest = Vec::new();
                // Closed with or without what was not read.
                let _ = stream.read_to_end(&mut rest);
            });
            one.answered(pipe).await.expect("welcome");
            let why = one.closed(pipe).await;
            let expected = format!("endpoint {endpoint}: allowed is ipc:// and an absolute path");
            assert_eq!(why, expected);
            door.await.expect("closed");
        });
    }
}

#[test]
fn what_is_no_hello_is_refused_by_name_and_the_door_lives() {
    let zmtp = [&[0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3][..], &[0; 60]].concat();
    let long = ((HELLO_BYTES_MAX + 1) as u32).to_be_bytes().to_vec();
    let hostile: [(Vec<u8>, &str); 6] = [
        (
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            "first word of 1195725856 bytes",
        ),
        (zmtp, "first word of 4278190080 bytes"),
        (long, "first word of 65537 bytes; allowed are at most 65536"),
        (word(b""), "first word: EOF"),
        (
            word(b"{\"protocol\":[1,1]}"),
            "first word: missing field `instance`",
        ),
        (word(&[b'['; 60_000]), "first word: invalid type: sequence"),
    ];
    for transport in BOTH {
        run(async |folder| {
            let mut other = End::new(&folder, "0", transport, short());
            for (bytes, text) in hostile.clone() {
                let refusal = refusal(says(&other.door(), bytes).await);
                assert_eq!(refusal.code, Code::Invalid);
                assert!(refusal.text.starts_with(text), "{}", refusal.text);
            }
            let mut one = End::new(&folder, "1", transport, short());
            meet(&mut one, &mut other).await;
        });
    }
}

#[test]
fn a_stranger_is_refused_by_name() {
    run(async |folder| {
        // As root a thread becomes nobody; else the door is somebody else's.
        let (owner, stranger) = match own_uid() {
            0 => (4242, 65534),
            own => (own + 1, own),
        };
        let other = End::of(&folder, "0", Transport::Zeromq, short(), owner, 8);
        let door = other.door();
        // Open to all, so that only the kernel's word keeps anybody out.
        for path in [&folder, &other.rundir, &door] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).expect("open");
        }
        let heard = tokio::task::spawn_blocking(move || {
            std::thread::spawn(move || {
                if own_uid() == 0 {
                    let uid = rustix::process::Uid::from_raw(stranger);
                    rustix::thread::set_thread_res_uid(uid, uid, uid).expect("this thread alone");
                }
                let mut stream = UnixStream::connect(door).expect("a door");
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).expect("an answer");
                bytes
            })
            .join()
            .expect("read")
        });
        let heard = heard.await.expect("read");
        let refusal = refusal(serde_json::from_slice(&heard[4..]).expect("an answer"));
        assert_eq!(refusal.code, Code::Denied);
        let expected = format!(
            "user {stranger} is not admitted; the ranks of this instance are of user {owner}"
        );
        assert_eq!(refusal.text, expected);
    });
}

#[test]
fn a_rank_of_another_owner_is_not_told_hello() {
    // Root's door is anybody's who could become root; there is nothing to tell then.
    if own_uid() == 0 {
        return;
    }
    run(async |folder| {
        let other = End::new(&folder, "0", Transport::Zeromq, short());
        let mut one = End::of(&folder, "1", Transport::Zeromq, short(), own_uid() + 1, 8);
        let pipe = one.dial(&other.door());
        let why = one.answered(pipe).await.expect_err("foreign");
        assert!(why.contains("belongs to user"), "{why}");
    });
}

#[test]
fn silent_connections_are_all_closed_and_the_door_is_free_again() {
    run(async |folder| {
        let mut other = End::new(&folder, "0", Transport::Zeromq, short());
        let (door, knocks) = (other.door(), Limits::default().knocks);
        let crowd = tokio::task::spawn_blocking(move || {
            let silent: Vec<UnixStream> = (0..300)
                .map(|_| UnixStream::connect(&door).expect("a door"))
                .collect();
            let ends = silent.into_iter().map(|mut stream| {
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).expect("it is closed");
                serde_json::from_slice(&bytes[4..]).expect("an answer")
            });
            ends.map(|answer| refusal(answer).text).collect::<Vec<_>>()
        });
        let ends = crowd.await.expect("all closed");
        let late = ends
            .iter()
            .filter(|text| *text == "hello: nothing came within 1s");
        let busy = ends
            .iter()
            .filter(|text| *text == "256 knocks are unanswered, as many as allowed");
        assert_eq!(late.count() + busy.count(), 300);
        assert!(
            ends[..knocks].iter().all(|text| text.starts_with("hello")),
            "{ends:?}"
        );
        let mut one = End::new(&folder, "1", Transport::Zeromq, short());
        meet(&mut one, &mut other).await;
    });
}

#[test]
fn a_knock_that_nobody_answers_ends() {
    run(async |folder| {
        let mut other = End::new(&folder, "0", Transport::Zeromq, short());
        let patient = Limits {
            hello: Duration::from_secs(20),
            ..Limits::default()
        };
        let mut one = End::new(&folder, "1", Transport::Zeromq, patient);
        let mine = one.dial(&other.door());
        let OverlayInput::Knock(yours, _) = other.next().await else {
            panic!("a knock was expected");
        };
        let why = other.closed(yours).await;
        assert_eq!(why, "answer of this rank: nothing came within 1s");
        assert_eq!(
            one.answered(mine).await,
            Err("the other end is gone".into())
        );
        let late = other.welcome();
        other.ask(OverlayOutput::Answer(yours, late));
        meet(&mut one, &mut other).await;
    });
}

#[test]
fn who_is_welcomed_and_never_comes_is_given_up() {
    run(async |folder| {
        let limits = Limits {
            connect: Duration::from_millis(300),
            ..Limits::default()
        };
        let mut other = End::new(&folder, "0", Transport::Zeromq, limits);
        let hello = serde_json::to_vec(&other.hello()).expect("JSON");
        let door = other.door();
        let guest = tokio::task::spawn_blocking(move || {
            let mut stream = UnixStream::connect(door).expect("a door");
            stream.write_all(&word(&hello)).expect("said");
            let mut bytes = Vec::new();
            stream.read_to_end(&mut bytes).expect("closed at last");
        });
        let pipe = other.let_in().await;
        let why = other.closed(pipe).await;
        assert_eq!(why, "connection to the endpoint: nothing came within 300ms");
        guest.await.expect("closed");
        assert_eq!(other.sockets(), ["door"]);
    });
}

#[test]
fn a_rank_that_is_behind_stops_the_reading_and_loses_nothing() {
    for transport in BOTH {
        run(async |folder| {
            let limits = Limits {
                unsent_bytes: 4 << 20,
                ..Limits::default()
            };
            let mut one = End::new(&folder, "1", transport, limits);
            let mut other = End::of(&folder, "0", transport, limits, own_uid(), 2);
            let (here, there) = meet(&mut one, &mut other).await;
            let mut put = 0;
            let why = loop {
                one.send(here, [numbered(put, 64 << 10)]);
                put += 1;
                tokio::task::yield_now().await;
                match one.events.try_recv() {
                    Ok(OverlayInput::Closed(pipe, why)) if pipe == here => break why,
                    Ok(unexpected) => panic!("the end was expected, not {unexpected:?}"),
                    Err(_) => assert!(put < 1000, "nobody reads, so it has an end"),
                }
            };
            assert!(why.starts_with("the other end does not read: "), "{why}");
            let mut got = 0;
            let why = loop {
                match other.next().await {
                    OverlayInput::Frame(pipe, frame) => {
                        assert_eq!((pipe, frame), (there, numbered(got, 64 << 10)));
                        got += 1;
                    }
                    OverlayInput::Closed(pipe, why) if pipe == there => break why,
                    unexpected => panic!("frames were expected, not {unexpected:?}"),
                }
            };
            assert_eq!(why, "the other end is gone");
            assert!(got < put);
        });
    }
}

#[test]
fn a_frame_over_the_limit_ends_the_pipe_by_name() {
    for transport in BOTH {
        run(async |folder| {
            let mut one = End::new(&folder, "1", transport, Limits::default());
            let mut other = End::new(&folder, "0", transport, Limits::default());
            let (here, there) = meet(&mut one, &mut other).await;
            one.send(here, [numbered(1, FRAME_BYTES_MAX + 1)]);
            let why = one.closed(here).await;
            assert_eq!(why, "frame of 1048595 bytes; allowed are at most 1048594");
            assert_eq!(other.closed(there).await, "the other end is gone");
        });
    }
}

#[test]
fn a_start_removes_what_a_killed_process_left() {
    run(async |folder| {
        let left = End::new(&folder, "0", Transport::Zeromq, Limits::default());
        let door = std::fs::metadata(left.door()).expect("there");
        assert_eq!(door.permissions().mode() & 0o777, 0o600);
        let stale = left.rundir.join("link-0123456789abcdef");
        drop(std::os::unix::net::UnixListener::bind(&stale).expect("bound"));
        // As if killed: its door stays.
        std::mem::forget(left);
        let mut other = End::new(&folder, "0", Transport::Zeromq, Limits::default());
        assert_eq!(other.sockets(), ["door"]);
        let mut one = End::new(&folder, "1", Transport::Zeromq, Limits::default());
        meet(&mut one, &mut other).await;
        drop(one);
        assert!(
            std::fs::read_dir(folder.join("1"))
                .expect("there")
                .next()
                .is_none()
        );
    });
}

#[test]
fn a_directory_whose_endpoints_would_not_fit_is_refused_at_the_start() {
    run(async |folder| {
        let long = folder.join("x".repeat(89 - folder.as_os_str().len()));
        std::fs::create_dir(&long).expect("made");
        let (tell, _events) = tokio::sync::mpsc::channel(1);
        let mut pipes =
            eddy_brokerd::link::Pipes::new(Transport::Zeromq, &long, own_uid(), tell.clone());
        let error = pipes.listen().expect_err("too long");
        let text = error.to_string();
        assert!(
            text.ends_with("112 bytes of path; allowed are at most 107"),
            "{text}"
        );
        let mut pipes = eddy_brokerd::link::Pipes::new(Transport::Stream, &long, own_uid(), tell);
        pipes.listen().expect("a stream needs no endpoint");
    });
}

#[test]
fn what_is_not_the_pipes_is_given_back() {
    run(async |folder| {
        let mut one = End::new(&folder, "1", Transport::Zeromq, Limits::default());
        let lost = OverlayOutput::Lost(Rank(2), "gone".into());
        assert_eq!(one.pipes.obey(lost.clone()), Some(lost));
    });
}

/// The hello that `says` cannot make up.
#[test]
fn a_hello_in_pieces_is_a_hello() {
    run(async |folder| {
        let mut other = End::new(&folder, "0", Transport::Stream, Limits::default());
        let hello: Hello = other.hello();
        let bytes = word(&serde_json::to_vec(&hello).expect("JSON"));
        let door = other.door();
        let guest = tokio::task::spawn_blocking(move || {
            let mut stream = UnixStream::connect(door).expect("a door");
            for byte in bytes {
                stream.write_all(&[byte]).expect("said");
            }
            // The first frame may come right behind the hello's answer.
            let mut head = [0; 4];
            stream.read_exact(&mut head).expect("an answer");
            stream
        });
        let pipe = other.let_in().await;
        other.opened(pipe).await;
        drop(guest.await.expect("welcome"));
        other.closed(pipe).await;
    });
}
