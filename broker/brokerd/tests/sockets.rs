//! The sockets of a rank against hostile bytes, strangers and slow readers.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream as Plain;
use std::path::Path;
use std::time::Duration;

use bytes::BytesMut;
use eddy_broker::ClientId;
use eddy_brokerd::clients::{ARRIVALS_MAX, Admission, Arrived, Budget, Door, listen, read_client};
use eddy_brokerd::frame::{self, Inbound};
use eddy_brokerd::socket::{self, Outlet};
use eddy_wire::error::Refusal;
use eddy_wire::message::{Message, Roles, Type};
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::LocalSet;

/// Runs `check` beside listeners of `owner` in a directory of their own.
fn beside<F: Future<Output = ()>>(
    owner: u32,
    check: impl FnOnce(tempfile::TempDir, Receiver<Arrived>, eddy_brokerd::clients::Arrivals) -> F,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let directory = tempfile::tempdir().expect("a directory");
    LocalSet::new().block_on(&runtime, async {
        let (arrivals, arrived) = channel(ARRIVALS_MAX);
        let admission = Admission::own(owner, directory.path(), directory.path());
        listen(directory.path(), &admission, &arrivals).expect("listening");
        let patience = Duration::from_secs(20);
        let checked = tokio::time::timeout(patience, check(directory, arrived, arrivals));
        checked.await.expect("it comes to an end");
    });
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn connect(directory: &Path) -> Plain {
    Plain::connect(directory.join("local")).expect("a listener")
}

/// The next connection, being read as a client's.
async fn admit(
    arrived: &mut Receiver<Arrived>,
    arrivals: &eddy_brokerd::clients::Arrivals,
) -> std::rc::Rc<Outlet> {
    match arrived.recv().await {
        Some(Arrived::Connection(Door::Local, stream, uid)) => {
            assert_eq!(uid, own_uid());
            let (inlet, outlet) = socket::both(stream).expect("it can be watched");
            let purse = Budget::default().of(uid, Roles::OWNER);
            read_client(ClientId(1), inlet, purse, arrivals.clone());
            outlet
        }
        other => panic!("a connection was expected, not {other:?}"),
    }
}

#[test]
fn hostile_bytes_end_their_connection_and_no_other() {
    let hostile: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 64],
        &[0, 0, 0, 4, 0xed, 9, 9, 9],
        &[0, 0, 0, 0],
        &[
            0, 0, 0, 30, 0xed, 1, 99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
            0, 0, 0, 0, 0, 0, 0,
        ],
    ];
    beside(own_uid(), async |directory, mut arrived, arrivals| {
        for bytes in hostile {
            let mut stream = connect(directory.path());
            let _outlet = admit(&mut arrived, &arrivals).await;
            stream.write_all(bytes).expect("written");
            let ended = arrived.recv().await;
            assert!(
                matches!(ended, Some(Arrived::Gone(ClientId(1)))),
                "{bytes:?}: {ended:?}"
            );
        }
        // And the next one is served as if nothing had been.
        let mut stream = connect(directory.path());
        let _outlet = admit(&mut arrived, &arrivals).await;
        let mut out = BytesMut::new();
        frame::put(&mut out, &Message::request("instance.ping", 7, &())).expect("small");
        stream.write_all(&out).expect("written");
        match arrived.recv().await {
            Some(Arrived::Message(_, message, None)) => assert_eq!(message.matchtag, 7),
            other => panic!("a message was expected, not {other:?}"),
        }
    });
}

#[test]
fn a_stranger_is_told_why_he_is_not_admitted() {
    // The tests may run as user 0, who is admitted everywhere.
    if own_uid() == 0 {
        let place = Path::new("/nowhere");
        assert_eq!(Admission::own(1000, place, place).roles(4242), Roles::NONE);
        return;
    }
    beside(own_uid() + 1, async |directory, _arrived, _arrivals| {
        let socket = directory.path().join("local");
        let stream = tokio::net::UnixStream::connect(socket)
            .await
            .expect("a listener");
        let mut inbound = Inbound::default();
        let message = loop {
            if let Some(message) = inbound.message().expect("frames") {
                break message;
            }
            stream.readable().await.expect("an open socket");
            let _ = stream.try_read_buf(inbound.room());
        };
        assert_eq!(message.kind, Type::Refused);
        let refusal: Refusal = serde_json::from_slice(&message.body).expect("a refusal");
        assert!(refusal.text.contains("is not admitted"), "{refusal}");
    });
}

#[test]
fn a_large_message_comes_whole_with_its_share_of_the_budget() {
    beside(own_uid(), async |directory, mut arrived, arrivals| {
        let path = directory.path().to_owned();
        let sender = std::thread::spawn(move || {
            let tail = vec![7u8; 12 << 20];
            let message = Message::request("job.input", 1, &()).with_tail(tail.into());
            let mut out = BytesMut::new();
            frame::put(&mut out, &message).expect("below the limit");
            connect(&path).write_all(&out).expect("written");
        });
        let _outlet = admit(&mut arrived, &arrivals).await;
        match arrived.recv().await {
            Some(Arrived::Message(_, message, Some(_))) => assert_eq!(message.tail.len(), 12 << 20),
            other => panic!("a message was expected, not {other:?}"),
        }
        sender.join().expect("it was sent");
    });
}

#[test]
fn what_a_client_does_not_read_waits_and_follows_by_itself() {
    beside(own_uid(), async |directory, mut arrived, arrivals| {
        let mut stream = connect(directory.path());
        let outlet = admit(&mut arrived, &arrivals).await;
        let message = Message::answer(Type::Part, 1, &"x".repeat(1 << 20));
        for _ in 0..8 {
            outlet.put(&message).expect("small enough");
        }
        outlet.flush().expect("the other end is there");
        assert!(outlet.waiting() > 0, "a socket does not hold 8 MiB");
        let reader = std::thread::spawn(move || {
            let mut all = vec![0; 8 * (4 + message.wire_len())];
            stream.read_exact(&mut all).expect("all of it");
        });
        while outlet.waiting() > 0 {
            tokio::task::yield_now().await;
        }
        reader.join().expect("it was read");
    });
}
