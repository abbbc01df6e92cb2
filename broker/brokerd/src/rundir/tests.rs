//! Whose run directory is taken, and where one is that cannot be.

use super::*;
use std::fs::Permissions;
use std::os::unix::fs::symlink;

#[test]
fn where_somebody_else_was_first_it_is_in_the_state_directory() {
    let runtime = tempfile::tempdir().expect("a directory");
    let squatted = runtime.path().join("eddy");
    fs::create_dir(&squatted).expect("made");
    // Open to all, as one is not that is ours.
    fs::set_permissions(&squatted, Permissions::from_mode(0o777)).expect("ours");
    let state = tempfile::tempdir().expect("a directory");
    let text = runtime.path().to_str();
    let rank = RankOf {
        instance: "0123456789abcdef",
        job: None,
        rank: 1,
    };
    let path = place_rank(text, state.path(), rank).expect("a place");
    assert_eq!(path, state.path().join("run"));
    assert_eq!(make(state.path(), &path).expect("made"), Made::New);
    let deep = state.path().join("d".repeat(SOCKET_PATH_MAX));
    let error = place_rank(text, &deep, rank).expect_err("too long");
    assert!(matches!(error, RundirError::Foreign { .. }), "{error}");
}

#[test]
fn it_is_private_and_named_by_the_instance() {
    let runtime = tempfile::tempdir().expect("a directory");
    let text = runtime.path().to_str().expect("UTF-8");
    let path = place(None, Some(text), "0123456789abcdef").expect("a place");
    assert_eq!(path, runtime.path().join("eddy/01234567"));
    let state = tempfile::tempdir().expect("a directory");
    assert_eq!(make(state.path(), &path).expect("made"), Made::New);
    assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o700);
    assert_eq!(make(state.path(), &path).expect("there"), Made::Kept);
    let beside = place_beside(&uri(&path), "fedcba9876543210");
    assert_eq!(beside, Some(runtime.path().join("eddy/fedcba98")));
    // Others pass through it to the socket they know of.
    drop(std::os::unix::net::UnixListener::bind(
        path.join(LOCAL_SOCKET),
    ));
    open_to_others(state.path(), &path);
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o777;
    let shared = path.parent().expect("one");
    assert_eq!((mode(&path), mode(shared)), (0o711, 0o711));
    assert_eq!(mode(&path.join(LOCAL_SOCKET)), 0o666);
    assert_eq!(mode(&state.path().join("children")), 0o711);
    assert!(place_beside(&uri(&path), "fedcba9876543210").is_some());
    // What holds it is not private: others could have made what is there.
    fs::set_permissions(path.parent().expect("one"), Permissions::from_mode(0o755)).expect("ours");
    assert_eq!(place_beside(&uri(&path), "fedcba9876543210"), None);
}

#[test]
fn what_cannot_be_made_leaves_written_what_was() {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, nowhere) = (dir.path(), dir.path().join("no/where"));
    let error = make(state, &nowhere).expect_err("nothing to be in");
    assert!(matches!(error, RundirError::Io { .. }), "{error}");
    assert_eq!(recorded(state), None, "clients would wait for it");
    let open = dir.path().join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, Permissions::from_mode(0o777)).expect("ours");
    let before = dir.path().join("before");
    assert_eq!(make(state, &before).expect("made"), Made::New);
    let error = make(state, &open).expect_err("others could have made what is there");
    assert!(matches!(error, RundirError::Foreign { .. }), "{error}");
    assert_eq!(recorded(state).as_deref(), Some(&*before));
    assert!(before.is_dir(), "it has no other place");
}

#[test]
fn who_serves_in_it_keeps_it_from_other_state_directories() {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, copy, path) = (dir.path(), dir.path().join("copy"), dir.path().join("run"));
    fs::create_dir(&copy).expect("made");
    let claim = Claim::new(state, &path).expect("free");
    drop(std::os::unix::net::UnixListener::bind(
        path.join(LOCAL_SOCKET),
    ));
    let error = Claim::new(&copy, &path).expect_err("it is held");
    let (path_text, copy_text) = (path.display(), copy.display());
    let held = format!(
        "run directory {path_text}: held by the process of another state directory than {copy_text}"
    );
    assert_eq!(error.to_string(), held);
    // Neither what a copy says of it nor another place for that one takes it away.
    record(&copy, &path).expect("written");
    remove_of(&copy);
    make(&copy, &dir.path().join("elsewhere")).expect("made");
    assert!(path.join(LOCAL_SOCKET).exists());
    claim.remove();
    assert!(!path.exists());
    let mut again = Claim::new(state, &path).expect("free");
    again.keep();
    drop(again);
    assert!(path.exists());
}

#[test]
fn one_that_moves_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let (first, second) = (dir.path().join("1"), dir.path().join("2"));
    make(dir.path(), &first).expect("made");
    make(dir.path(), &second).expect("made");
    assert!(!first.exists() && second.exists());
}

#[test]
fn what_is_not_ours_is_not_removed() {
    let dir = tempfile::tempdir().expect("a directory");
    let (open, link) = (dir.path().join("open"), dir.path().join("link"));
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, Permissions::from_mode(0o755)).expect("ours");
    symlink(&open, &link).expect("made");
    drop(std::os::unix::net::UnixListener::bind(open.join("socket")));
    for path in [&open, &link] {
        remove(path);
        assert!(!may_be(path));
    }
    assert!(open.join("socket").exists());
    fs::set_permissions(&open, Permissions::from_mode(0o700)).expect("ours");
    remove(&link);
    assert!(open.join("socket").exists());
    remove(&open);
    assert!(!open.exists() && may_be(&open));
}

#[test]
fn what_others_could_have_put_there_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let (open, link) = (dir.path().join("open"), dir.path().join("link"));
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, Permissions::from_mode(0o755)).expect("ours");
    symlink(dir.path(), &link).expect("made");
    for path in [&open, &link] {
        let error = make(dir.path(), path).expect_err("not private");
        assert!(matches!(error, RundirError::Foreign { .. }), "{error}");
    }
    let long = format!("/tmp/{}", "x".repeat(100));
    assert!(matches!(
        place(Some(&long), None, "x"),
        Err(RundirError::TooLong { .. })
    ));
}

#[test]
fn what_was_killed_at_any_depth_is_cleared_away_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path().join("state");
    let deep = ["", "children/3.1", "children/3.1/ranks/1/children/2.1"];
    let left: Vec<PathBuf> = (0..4).map(|at| dir.path().join(at.to_string())).collect();
    for rundir in &left {
        make_private(rundir, own()).expect("made");
        drop(std::os::unix::net::UnixListener::bind(
            rundir.join(LOCAL_SOCKET),
        ));
    }
    for (below, rundir) in deep.iter().zip(&left) {
        fs::create_dir_all(state.join(below)).expect("made");
        record(&state.join(below), rundir).expect("written");
    }
    remove_below(&state);
    let there: Vec<bool> = left.iter().map(|rundir| rundir.exists()).collect();
    assert_eq!(there, [true, false, false, true]);
    remove_of(&state);
    assert!(!left[0].exists() && left[3].exists());
}

#[test]
fn where_it_is_can_be_read_back() {
    let state = tempfile::tempdir().expect("a directory");
    assert_eq!(recorded(state.path()), None);
    record(state.path(), Path::new("/tmp/eddy-0/abc")).expect("written");
    assert_eq!(
        recorded(state.path()),
        Some(PathBuf::from("/tmp/eddy-0/abc"))
    );
}
