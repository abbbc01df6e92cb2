//! The client against a leader of a few lines that dies and comes back when the test says so.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::message::{Message, Type};
use eddy_wire::services::Service;
use eddy_wire::services::instance::{Config, Ping, PingRequest};
use eddy_wire::services::job::{Events, EventsLine, EventsReply, EventsRequest};
use eddy_wire::time::Time;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use crate::{Client, ClientError, EventFeed, Options, Uri};

/// The leader's side of one connection.
struct Peer(Framed<UnixStream, LengthDelimitedCodec>);

impl Peer {
    async fn receive(&mut self) -> Message {
        let frame = self.0.next().await.expect("a message").expect("a frame");
        Message::decode(&frame.freeze()).expect("a message")
    }

    async fn answer(&mut self, kind: Type, to: &Message, body: &impl serde::Serialize) {
        let message = Message::answer(kind, to.matchtag, body).with_tail(to.tail.clone());
        self.0
            .send(message.encode().expect("small"))
            .await
            .expect("sent");
    }
}

struct Leader {
    listener: UnixListener,
    path: PathBuf,
}

impl Leader {
    fn at(directory: &Path) -> Leader {
        let path = directory.join("local");
        Leader {
            listener: UnixListener::bind(&path).expect("bound"),
            path,
        }
    }

    async fn accept(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.expect("a client");
        Peer(Framed::new(stream, LengthDelimitedCodec::new()))
    }

    /// Dies as by SIGKILL and is there again.
    fn restart(self) -> Leader {
        drop(self.listener);
        std::fs::remove_file(&self.path).expect("removed");
        Leader::at(self.path.parent().expect("a directory"))
    }

    async fn client(&self, wait: Duration) -> Client {
        let uri = Uri::of_socket(&self.path).expect("short");
        Client::connect(&uri, Options { wait })
            .await
            .expect("connected")
    }
}

fn check(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

const PATIENT: Duration = Duration::from_secs(20);

fn line(seq: u64) -> EventsLine {
    EventsLine {
        seq: Seq(seq),
        timestamp: Time(1),
        name: "submit".into(),
        context: None,
    }
}

#[test]
fn answers_find_their_calls_in_any_order() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let client = leader.client(PATIENT).await;
        let mut peer = leader.accept().await;
        let request = PingRequest::default();
        let first = client.call_with_tail::<Ping>(&request, Bytes::from_static(b"1"));
        let second = client.call_with_tail::<Config>(&(), Bytes::from_static(b"2"));
        let serve = async {
            let (one, two) = (peer.receive().await, peer.receive().await);
            assert_eq!(
                (one.topic.as_str(), two.topic.as_str()),
                (Ping::TOPIC, Config::TOPIC)
            );
            peer.answer(Type::Reply, &two, &"configuration").await;
            peer.answer(
                Type::Refused,
                &one,
                &Refusal::new(Code::NotReady, "not yet"),
            )
            .await;
        };
        let (first, second, ()) = tokio::join!(first, second, serve);
        assert_eq!(first.expect_err("refused").to_string(), "not yet");
        let (value, tail) = second.expect("answered");
        assert_eq!(
            (value.as_str(), tail.as_ref()),
            (Some("configuration"), b"2".as_ref())
        );
    });
}

#[test]
fn a_call_is_repeated_over_a_restart_and_one_that_must_not_be_is_lost() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let client = leader.client(PATIENT).await;
        let serve = async {
            let mut peer = leader.accept().await;
            let (before, _) = (peer.receive().await, peer.receive().await);
            let leader = leader.restart();
            drop(peer);
            let mut peer = leader.accept().await;
            let again = peer.receive().await;
            assert_eq!(
                (&again.topic, again.matchtag),
                (&before.topic, before.matchtag)
            );
            peer.answer(Type::Reply, &again, &7).await;
        };
        let repeated = client.call::<Config>(&());
        let once = client.call_once::<Config>(&(), Bytes::new());
        let (repeated, once, ()) = tokio::join!(repeated, once, serve);
        assert_eq!(repeated.expect("answered"), 7);
        assert!(matches!(once, Err(ClientError::Lost { .. })));
    });
}

/// Whoever serves as many clients as it may would serve none but those it turns away.
#[test]
fn where_there_is_no_room_a_client_comes_again_after_longer_and_longer_pauses() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let client = leader.client(Duration::from_millis(400)).await;
        let full = Refusal::new(Code::Busy, "limit `clients` of 1 connections is reached");
        let mut turned_away = 0;
        let serve = async {
            loop {
                let Peer(mut frames) = leader.accept().await;
                turned_away += 1;
                assert!(turned_away < 100, "it comes without a pause");
                let message = Message::answer(Type::Refused, 0, &full);
                let bytes = message.encode().expect("small");
                // It may have closed its end by now.
                let _ = frames.send(bytes).await;
            }
        };
        let asked = tokio::select! {
            answer = client.call::<Config>(&()) => answer,
            () = serve => unreachable!("it serves for ever"),
        };
        let refusal = asked.expect_err("there is never room");
        assert_eq!(refusal.to_string(), full.text);
        assert!(turned_away > 1, "it came again");
    });
}

#[test]
fn what_is_not_reached_behind_the_instance_is_asked_for_again() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let client = leader.client(PATIENT).await;
        let mut feed = EventFeed::following(&client, JobId(1)).expect("sent");
        let away = Refusal::new(Code::Unreachable, "queue instance a (job 1) is not reached");
        let lines = |seq| EventsReply {
            lines: vec![line(seq)],
        };
        let serve = async {
            let mut peer = leader.accept().await;
            let first = peer.receive().await;
            peer.answer(Type::Part, &first, &lines(3)).await;
            peer.answer(Type::Refused, &first, &away).await;
            let second = peer.receive().await;
            assert_eq!(second.topic, first.topic);
            peer.answer(Type::Refused, &second, &away).await;
            let third = peer.receive().await;
            peer.answer(Type::Part, &third, &lines(9)).await;
            peer
        };
        let read = async {
            let first = feed.next().await.expect("no error").expect("a part");
            let second = feed.next().await.expect("no error").expect("a part");
            [first[0].seq.0, second[0].seq.0]
        };
        let (seen, mut peer) = tokio::join!(read, serve);
        assert_eq!(seen, [3, 9]);
        // What is not about jobs is answered at once.
        let ping = PingRequest::default();
        let answer = async {
            let mut asked = peer.receive().await;
            while asked.topic != Ping::TOPIC {
                asked = peer.receive().await;
            }
            peer.answer(Type::Refused, &asked, &away).await;
        };
        let (refused, ()) = tokio::join!(client.call::<Ping>(&ping), answer);
        assert_eq!(
            refused.expect_err("refused").code(),
            Some(Code::Unreachable)
        );
    });
}

#[test]
fn patience_with_what_is_not_reached_ends() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let client = leader.client(Duration::from_millis(250)).await;
        let away = Refusal::new(Code::Unreachable, "queue instance a (job 1) is not reached");
        let mut feed = EventFeed::following(&client, JobId(1)).expect("sent");
        let mut peer = leader.accept().await;
        let serve = async {
            loop {
                let asked = peer.receive().await;
                if asked.kind == Type::Request {
                    peer.answer(Type::Refused, &asked, &away).await;
                }
            }
        };
        tokio::select! {
            () = serve => {}
            refused = feed.next() => {
                let refused = refused.expect_err("refused");
                assert_eq!(refused.code(), Some(Code::Unreachable));
            }
        }
    });
}

#[test]
fn a_feed_goes_on_over_a_restart_without_repeating_itself() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let client = leader.client(PATIENT).await;
        let mut feed = EventFeed::following(&client, JobId(1)).expect("sent");
        let lines = |seqs: &[u64]| EventsReply {
            lines: seqs.iter().map(|&seq| line(seq)).collect(),
        };
        let serve = async {
            let mut peer = leader.accept().await;
            let request = peer.receive().await;
            peer.answer(Type::Part, &request, &lines(&[3, 4])).await;
            let leader = leader.restart();
            drop(peer);
            let mut peer = leader.accept().await;
            let request = peer.receive().await;
            peer.answer(Type::Part, &request, &lines(&[3, 4])).await;
            peer.answer(Type::Part, &request, &lines(&[3, 4, 9])).await;
            peer.answer(Type::Refused, &request, &Refusal::new(Code::End, "end"))
                .await;
        };
        let read = async {
            let mut seen = Vec::new();
            while let Some(lines) = feed.next().await.expect("no error") {
                seen.extend(lines.iter().map(|line| line.seq.0));
            }
            seen
        };
        let (seen, ()) = tokio::join!(read, serve);
        assert_eq!(seen, [3, 4, 9]);
    });
}

#[test]
fn a_stream_that_is_dropped_is_taken_back() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let client = leader.client(PATIENT).await;
        let mut peer = leader.accept().await;
        let parts = client.stream::<Events>(&EventsRequest {
            id: JobId(1),
            follow: true,
        });
        let request = peer.receive().await;
        drop(parts);
        let cancel = peer.receive().await;
        assert_eq!(
            (cancel.kind, cancel.matchtag),
            (Type::Cancel, request.matchtag)
        );
    });
}

#[test]
fn a_dead_socket_is_named_with_what_was_tried() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        drop(Leader::at(directory.path()));
        let uri = Uri::of_socket(directory.path().join("local")).expect("short");
        let options = Options {
            wait: Duration::from_millis(60),
        };
        let error = Client::connect(&uri, options)
            .await
            .expect_err("dead")
            .to_string();
        assert!(
            error.contains("local: no instance listens there (tried "),
            "{error}"
        );
        let once = ClientError::Unreachable {
            path: "local".into(),
            why: "no instance listens there".to_owned(),
            tries: 1,
            waited: 0.004,
        };
        let told = "local: no instance listens there (tried once)";
        assert_eq!(once.to_string(), told);
    });
}

#[test]
fn who_comes_back_within_the_patience_is_reached_however_late() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        drop(Leader::at(directory.path()));
        let uri = Uri::of_socket(directory.path().join("local")).expect("short");
        let wait = Duration::from_millis(1000);
        let begun = std::time::Instant::now();
        let error = Client::connect(&uri, Options { wait }).await;
        assert!(matches!(error, Err(ClientError::Unreachable { .. })));
        assert!(begun.elapsed() >= wait, "after {:?}", begun.elapsed());
    });
}

/// What was said to be waited for, in a test of its own process or thread.
fn said(what: &str) {
    SAID.with_borrow_mut(|said| said.push(what.to_owned()));
}

thread_local! {
    static SAID: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

#[test]
fn a_leader_that_takes_the_connection_and_says_nothing_is_told_of_and_given_up() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let uri = Uri::of_socket(&leader.path).expect("short");
        let wait = Duration::from_millis(1500);
        let client = Client::connect_told(&uri, Options { wait }, said).await;
        let client = client.expect("connected");
        let _silent = leader.accept().await;
        let begun = std::time::Instant::now();
        let error = client.call::<Ping>(&PingRequest::default()).await;
        let error = error.expect_err("no answer").to_string();
        assert!(error.contains("no answer for 1.5 s"), "{error}");
        assert!(begun.elapsed() >= wait && begun.elapsed() < wait * 4);
        SAID.with_borrow(|said| {
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(
                said[0].ends_with("/local, which does not answer"),
                "{said:?}"
            );
        });
    });
}

/// What a leader says whose disk is full.
fn lacking() -> Value {
    json!({
        "instance": "i", "epoch": 1, "version": "0", "owner": 0, "rank": 0, "path": "", "depth": 0,
        "phase": "run", "durable": 1, "lack": "no space left", "t": 1.0, "pad": "",
    })
}

#[test]
fn a_leader_that_lacks_room_for_too_long_is_given_up_but_not_what_is_to_happen() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let client = leader.client(Duration::from_secs(1)).await;
        let mut peer = leader.accept().await;
        let request = EventsRequest {
            id: JobId(1),
            follow: true,
        };
        let mut ends = client.feed::<Events>(&request).expect("sent");
        let serve = async {
            loop {
                let asked = peer.receive().await;
                if asked.topic == Ping::TOPIC {
                    peer.answer(Type::Reply, &asked, &lacking()).await;
                }
            }
        };
        let error = tokio::select! {
            answer = client.call::<Config>(&()) => answer.expect_err("there is no room").to_string(),
            part = ends.next() => panic!("{part:?} of what is to happen"),
            () = serve => unreachable!("it serves for ever"),
        };
        assert!(
            error.contains(" s: no space left; a request may or may not"),
            "{error}"
        );
    });
}

#[test]
fn a_leader_that_lacks_room_is_waited_for_and_says_why() {
    check(async {
        let directory = tempfile::tempdir().expect("a directory");
        let leader = Leader::at(directory.path());
        let uri = Uri::of_socket(&leader.path).expect("short");
        let client = Client::connect_told(&uri, Options { wait: PATIENT }, said).await;
        let client = client.expect("connected");
        let mut peer = leader.accept().await;
        let asked = client.call::<Config>(&());
        let serve = async {
            let asked = peer.receive().await;
            let links = peer.receive().await;
            peer.answer(Type::Reply, &links, &json!([])).await;
            let ping = peer.receive().await;
            assert_eq!(ping.topic, Ping::TOPIC);
            peer.answer(Type::Reply, &ping, &lacking()).await;
            while SAID.with_borrow(Vec::is_empty) {
                tokio::task::yield_now().await;
            }
            peer.answer(Type::Reply, &asked, &"there").await;
        };
        let (answer, ()) = tokio::join!(asked, serve);
        assert_eq!(answer.expect("answered"), "there");
        SAID.with_borrow(|said| assert!(said[0].ends_with("/local: no space left"), "{said:?}"));
    });
}

#[test]
fn an_instance_that_ended_in_order_is_not_waited_for() {
    check(async {
        let uri = Uri::of_socket("/nonexistent/run/local").expect("short");
        let begun = std::time::Instant::now();
        let error = Client::connect(&uri, Options { wait: PATIENT })
            .await
            .expect_err("gone");
        assert!(
            error.to_string().contains("no instance is there"),
            "{error}"
        );
        assert!(begun.elapsed() < PATIENT / 2);
    });
}

#[test]
fn a_foreign_socket_is_told_from_an_instance() {
    for bytes in [
        b"HTTP/1.1 400 Bad Request\r\n".as_slice(),
        b"\0\0\0\x05hello",
    ] {
        check(async {
            let directory = tempfile::tempdir().expect("a directory");
            let leader = Leader::at(directory.path());
            let client = leader.client(PATIENT).await;
            let serve = async {
                let (stream, _) = leader.listener.accept().await.expect("a client");
                stream.writable().await.expect("open");
                stream.try_write(bytes).expect("written");
                stream
            };
            let (answer, _stream) = tokio::join!(client.call::<Config>(&()), serve);
            let error = answer.expect_err("foreign").to_string();
            assert!(error.contains("is not an eddy instance"), "{error}");
        });
    }
}
