//! Who is let in by which socket, and what is read from whoever is.

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

#[tokio::test]
async fn a_socket_that_was_removed_is_there_again_when_it_is_looked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let owner = rustix::process::geteuid().as_raw();
    let admission = Admission::own(owner, dir.path(), dir.path());
    let path = dir.path().join(LOCAL_SOCKET);
    let mut entrance = Entrance::open(dir.path(), LOCAL_SOCKET, Door::Local, &admission)
        .expect("a free directory");
    let inode = entrance.inode;
    entrance.look(&admission);
    assert_eq!(entrance.inode, inode, "nothing is done where it is there");
    std::fs::remove_file(&path).expect("a socket");
    entrance.look(&admission);
    let client = UnixStream::connect(&path).await.expect("it is there");
    entrance.listener.accept().await.expect("a connection");
    drop(client);
    let mode = std::fs::metadata(&path).expect("a socket").mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// As what cleans up in /tmp does it, with the directory that it is in.
#[tokio::test]
async fn a_run_directory_that_was_removed_is_there_again_with_its_sockets_and_as_open_as_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let owner = rustix::process::geteuid().as_raw();
    let (state, shared) = (dir.path().join("state"), dir.path().join("eddy-7"));
    let rundir = shared.join("0123abcd");
    for path in [&state, &shared, &rundir] {
        std::fs::create_dir(path).expect("a directory");
    }
    let admission = Admission::own(owner, &state, &rundir);
    let doors = [(LOCAL_SOCKET, Door::Local), (SHELL_SOCKET, Door::Shell)];
    let open = |(name, door)| Entrance::open(&rundir, name, door, &admission);
    let mut entrances = doors.map(|door| open(door).expect("a free directory"));
    let mode = |path: &Path| std::fs::metadata(path).map(|meta| meta.mode() & 0o777).ok();
    for (gone, users, modes) in [
        (&rundir, Users::Owner, (0o700, 0o600)),
        (&shared, Users::All, (0o711, 0o666)),
    ] {
        admission.learn(&Access {
            users,
            ..Access::default()
        });
        std::fs::remove_dir_all(gone).expect("it was there");
        for entrance in &mut entrances {
            entrance.look(&admission);
        }
        let local = rundir.join(LOCAL_SOCKET);
        assert_eq!(
            (mode(&rundir), mode(&local)),
            (Some(modes.0), Some(modes.1))
        );
        assert_eq!(mode(&rundir.join(SHELL_SOCKET)), Some(0o600));
        let client = UnixStream::connect(&local).await.expect("it is there");
        entrances[0].listener.accept().await.expect("a connection");
        drop(client);
        // Nobody else begins in it.
        let other = File::open(&rundir).expect("a directory");
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        assert!(rustix::fs::flock(&other, lock).is_err());
    }
}

/// A rank as it begins, and the modes of its sockets for clients and for the shell.
async fn begun(rundir: &Path, admission: &Admission) -> (u32, u32) {
    let (arrivals, _arrived) = mpsc::channel(1);
    tokio::task::LocalSet::new()
        .run_until(async { listen(rundir, admission, &arrivals).expect("a free directory") })
        .await;
    let mode = |name| {
        let meta = std::fs::metadata(rundir.join(name)).expect("a socket");
        meta.mode() & 0o777
    };
    (mode(LOCAL_SOCKET), mode(SHELL_SOCKET))
}

#[tokio::test]
async fn a_socket_is_as_open_from_the_first_as_it_will_be() {
    let dir = tempfile::tempdir().expect("a directory");
    let own = || Admission::own(1, dir.path(), dir.path());
    assert_eq!(begun(dir.path(), &own()).await, (0o600, 0o600));
    let leader = own();
    leader.learn(&Access {
        users: Users::All,
        ..Access::default()
    });
    assert_eq!(begun(dir.path(), &leader).await, (0o666, 0o600));
    // A rank that begins again and has not heard yet who is admitted.
    assert_eq!(begun(dir.path(), &own()).await, (0o666, 0o600));
    let closed = own();
    closed.learn(&Access::default());
    assert_eq!(begun(dir.path(), &closed).await, (0o600, 0o600));
}

#[test]
fn who_is_to_be_heard_of_yet_may_come_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let rank = Admission::own(1, dir.path(), dir.path());
    assert_eq!(rank.refusal(7).code, Code::Busy);
    assert_eq!(rank.roles(7), Roles::NONE);
    rank.learn(&Access::default());
    assert_eq!(rank.refusal(7).code, Code::Denied);
}

const NOBODY_ELSE: Duration = Duration::from_secs(20);

/// Both ends of a connection.
fn pair() -> (Inlet, Rc<crate::socket::Outlet>, UnixStream) {
    let (here, there) = UnixStream::pair().expect("two sockets");
    let (inlet, outlet) = crate::socket::both(here).expect("it can be watched");
    (inlet, outlet, there)
}

/// Claims the largest message there is on a new connection, and says nothing of it.
async fn claim(
    id: u64,
    purse: Purse,
    arrivals: &Arrivals,
) -> (Rc<crate::socket::Outlet>, UnixStream) {
    let (inlet, outlet, mut there) = pair();
    read_client(ClientId(id), inlet, purse, arrivals.clone());
    let head = (eddy_wire::message::MESSAGE_BYTES_MAX as u32).to_be_bytes();
    there.write_all(&head).await.expect("somebody reads");
    (outlet, there)
}

fn large() -> BytesMut {
    let message = Message::request(
        "shell",
        0,
        &FromShell::Output {
            read: 1,
            next: 2,
            frames: Vec::new(),
            end: true,
        },
    );
    let mut out = BytesMut::new();
    frame::put(&mut out, &message.with_tail(vec![0; 1 << 20].into())).expect("1 MiB");
    out
}

/// Runs a check with somewhere for arrivals to go.
async fn with_arrivals<F: Future<Output = ()>>(
    check: impl FnOnce(Arrivals, mpsc::Receiver<Arrived>) -> F,
) {
    let (arrivals, arrived) = mpsc::channel(ARRIVALS_MAX);
    let local = tokio::task::LocalSet::new();
    let checked = local.run_until(check(arrivals, arrived));
    let in_time = tokio::time::timeout(NOBODY_ELSE, checked).await;
    in_time.expect("nobody waits for whoever says nothing");
}

#[tokio::test]
async fn who_claims_all_there_is_keeps_no_other_user_waiting() {
    with_arrivals(async |arrivals, mut arrived| {
        let budget = Budget::default();
        let user = Roles::USER;
        let mut idle = Vec::new();
        for id in 0..16 {
            idle.push(claim(id, budget.of(1001, user), &arrivals).await);
        }
        for (uid, roles) in [(1002, user), (0, Roles::OWNER)] {
            let (inlet, _outlet, mut there) = pair();
            read_client(ClientId(99), inlet, budget.of(uid, roles), arrivals.clone());
            let sent = large();
            let sending = spawn_local(async move { there.write_all(&sent).await });
            let Some(Arrived::Message(ClientId(99), ..)) = arrived.recv().await else {
                panic!("a message of user {uid} was expected");
            };
            sending.await.expect("it ends").expect("it is read");
            assert!(matches!(
                arrived.recv().await,
                Some(Arrived::Gone(ClientId(99)))
            ));
        }
    })
    .await;
}

#[tokio::test]
async fn a_shell_waits_for_no_client() {
    with_arrivals(async |arrivals, mut arrived| {
        let budget = Budget::default();
        let mut idle = Vec::new();
        for id in 0..16 {
            idle.push(claim(id, budget.of(0, Roles::OWNER), &arrivals).await);
        }
        let (inlet, _outlet, mut there) = pair();
        read_shell(LinkId(1), inlet, arrivals.clone());
        let sent = large();
        let _sending = spawn_local(async move { there.write_all(&sent).await });
        assert!(matches!(
            arrived.recv().await,
            Some(Arrived::Word(LinkId(1), _))
        ));
    })
    .await;
}

#[tokio::test]
async fn who_does_not_send_what_he_claimed_is_closed() {
    with_arrivals(async |arrivals, mut arrived| {
        let budget = Budget {
            patience: Duration::from_millis(1),
            ..Budget::default()
        };
        let _idle = claim(1, budget.of(1001, Roles::USER), &arrivals).await;
        assert!(matches!(
            arrived.recv().await,
            Some(Arrived::Gone(ClientId(1)))
        ));
    })
    .await;
}
