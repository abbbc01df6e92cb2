//! How the shell ends what jobs leave behind, with real processes: children
//! that outlive their task, daemons, and the leavings of a killed shell.

mod shell_leaves;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;

use eddy_brokerd::shell::leftover::{self, Patience, Process, Quarry, Unclaimed};
use eddy_brokerd::shell::procfs::{self, Marker};
use eddy_brokerd::shell::reap::{self, Delivery, Orphans};
use eddy_brokerd::shell::spawn::Child;
use eddy_brokerd::shell::sweep::{self, LockError, ShellLock};

use eddy_wire::idset::Idset;
use rustix::process::geteuid;
use shell_leaves::{has_ended, instance, line, script, spawn_piped};

/// A shell in miniature: adopts orphans and knows one attempt.
struct Attempt {
    marker: Marker,
    child: Child,
    output: File,
}

impl Attempt {
    fn start(instance: &str, job: u64, text: &str) -> Attempt {
        reap::become_subreaper().unwrap();
        let marker = Marker {
            instance: instance.to_owned(),
            job,
            attempt: 1,
            rank: 0,
        };
        let (child, output) = spawn_piped(script(text, &marker.to_string()));
        Attempt {
            marker,
            child,
            output,
        }
    }

    fn quarry(&self) -> Quarry {
        let task = Process {
            pid: self.child.pid,
            start_time: self.child.start_time,
        };
        Quarry::Attempt {
            marker: self.marker.clone(),
            tasks: BTreeSet::from([task]),
        }
    }

    /// Reads the number of a process that the script started, and opens it.
    fn stray(&mut self) -> OwnedFd {
        let pid: i32 = line(&mut self.output).parse().unwrap();
        let stat = procfs::stat(pid).unwrap();
        reap::open_exact(pid, stat.start_time).unwrap().unwrap()
    }

    fn wait(&self) -> i32 {
        reap::wait(self.child.pidfd.as_fd()).unwrap().status
    }
}

/// A test that fails leaves no process either.
impl Drop for Attempt {
    fn drop(&mut self) {
        let _ = leftover::end(&self.quarry(), Patience::THOROUGH);
    }
}

fn no_tasks(_: i32) -> bool {
    false
}

/// Ends it and takes away the ended orphans.
fn end(quarry: &Quarry) -> usize {
    let outcome = leftover::end(quarry, Patience::THOROUGH).unwrap();
    assert_eq!(
        (outcome.left.len(), outcome.refused.len()),
        (0, 0),
        "{outcome:?}"
    );
    Orphans::open().reap(no_tasks).unwrap();
    outcome.ended.len()
}

#[test]
fn a_child_that_outlives_its_task_is_found_by_the_session() {
    // env -i takes the marker away.
    let mut attempt = Attempt::start(
        &instance("session"),
        1,
        "env -i /bin/sleep 1000 >&- & echo $!",
    );
    let stray = attempt.stray();
    assert_eq!(attempt.wait(), 0);
    assert!(Orphans::open().has_strays(no_tasks).unwrap());
    assert_eq!(end(&attempt.quarry()), 1);
    assert!(has_ended(&stray));
}

#[test]
fn a_daemon_in_a_session_of_its_own_is_found_by_the_marker() {
    let daemon = "setsid sh -c 'sleep 1000 >&- & echo $!' & wait";
    let mut attempt = Attempt::start(&instance("daemon"), 1, daemon);
    let stray = attempt.stray();
    assert_eq!(attempt.wait(), 0);
    assert_eq!(end(&attempt.quarry()), 1);
    assert!(has_ended(&stray));
}

#[test]
fn what_descends_from_a_marked_process_ends_with_it() {
    let nested = "setsid sh -c 'setsid env -i /bin/sleep 1000 >&- & echo $!; wait' & wait";
    let mut attempt = Attempt::start(&instance("descent"), 1, nested);
    let stray = attempt.stray();
    assert_eq!(end(&attempt.quarry()), 3, "task, its child and that one's");
    assert!(has_ended(&stray));
    assert_eq!(
        attempt.wait(),
        libc::SIGKILL,
        "the status stays for the loop"
    );
}

#[test]
fn a_job_without_leavings_ends_nothing() {
    let attempt = Attempt::start(&instance("clean"), 1, "exit 0");
    assert_eq!(attempt.wait(), 0);
    assert_eq!(end(&attempt.quarry()), 0);
}

#[test]
fn another_attempt_is_left_alone() {
    let name = instance("other");
    let mut one = Attempt::start(&name, 1, "sleep 1000 >&- & echo $!");
    let mut two = Attempt::start(
        &name,
        2,
        "setsid sleep 1000 >&- & echo $!; read x </dev/zero",
    );
    let (mine, other) = (one.stray(), two.stray());
    one.wait();
    assert_eq!(end(&one.quarry()), 1);
    assert!(has_ended(&mine));
    assert_eq!(reap::signal(other.as_fd(), 0).unwrap(), Delivery::Sent);
    assert_eq!(reap::try_wait(two.child.pidfd.as_fd()).unwrap(), None);
    assert_eq!(end(&two.quarry()), 2);
    assert!(has_ended(&other));
    two.wait();
}

#[test]
fn a_task_number_given_to_somebody_else_is_no_session_of_ours() {
    let mut other = Attempt::start(&instance("reused"), 1, "echo $$; read x </dev/zero");
    let pidfd = other.stray();
    // A task that had the same number before.
    let earlier = Process {
        pid: other.child.pid,
        start_time: other.child.start_time - 1,
    };
    let marker = Marker {
        job: 7,
        ..other.marker.clone()
    };
    let quarry = Quarry::Attempt {
        marker,
        tasks: BTreeSet::from([earlier]),
    };
    assert_eq!(end(&quarry), 0);
    assert_eq!(
        reap::signal(pidfd.as_fd(), libc::SIGKILL).unwrap(),
        Delivery::Sent
    );
    other.wait();
}

#[test]
fn an_orphan_without_any_sign_ends_with_the_attempts_that_may_own_it() {
    let name = instance("silent");
    // Neither the session nor the marker, and by the time we look no parent. A marker of a job that
    // nobody has is one that it gave itself.
    // One of another user's job is so, too.
    let others = Marker {
        instance: name.clone(),
        job: 2,
        attempt: 1,
        rank: 0,
    };
    let (own, another) = (geteuid().as_raw(), geteuid().as_raw() + 1);
    for given in [
        "".to_owned(),
        format!("EDDY_TASK={name}/999999.1.0"),
        format!("EDDY_TASK={others}"),
    ] {
        let text =
            format!("setsid env -i {given} /bin/sh -c '/bin/sleep 1000 >&- & echo $!' & wait");
        let mut attempt = Attempt::start(&name, 1, &text);
        let stray = attempt.stray();
        assert_eq!(attempt.wait(), 0);
        assert_eq!(end(&attempt.quarry()), 0, "it has shed every sign");
        let orphans = Orphans::open().list(no_tasks).unwrap();
        let sessions = BTreeSet::from([attempt.child.pid]);
        let held = BTreeMap::from([(attempt.marker.clone(), own), (others.clone(), another)]);
        // Other tests' daemons are silent orphans of this process too.
        let silent: BTreeSet<Process> = leftover::without_sign(&orphans, &held, &sessions)
            .into_iter()
            .filter(|process| pid_of(&stray) == Some(process.pid))
            .collect();
        assert_eq!(silent.len(), 1, "{given}");
        let mut unclaimed = Unclaimed::default();
        silent
            .iter()
            .for_each(|process| unclaimed.observe(*process, [(1, 1)]));
        assert_eq!(end(&Quarry::Trees(unclaimed.ended(&(1, 1)))), 1);
        assert!(has_ended(&stray));
    }
}

/// The number in the kernel's record of a pidfd.
fn pid_of(pidfd: &OwnedFd) -> Option<i32> {
    use std::os::fd::AsRawFd;
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("Pid:"))?
        .trim()
        .parse()
        .ok()
}

#[test]
fn a_gentle_signal_reaches_all_of_an_attempt() {
    let text = "setsid sh -c 'sleep 1000 >&- & echo $!; wait' & wait";
    let mut attempt = Attempt::start(&instance("gentle"), 1, text);
    let stray = attempt.stray();
    assert_eq!(
        leftover::signal(&attempt.quarry(), libc::SIGTERM).unwrap(),
        3
    );
    assert!(has_ended(&stray));
    assert_eq!(attempt.wait(), libc::SIGTERM);
    end(&attempt.quarry());
}

#[test]
fn an_ended_orphan_is_reaped_and_a_tasks_status_is_not_taken() {
    let mut attempt = Attempt::start(
        &instance("reap"),
        1,
        "sh -c 'sleep 1000 >&- & echo $!'; exit 5",
    );
    let stray = attempt.stray();
    assert!(has_ended(&attempt.child.pidfd));
    reap::signal(stray.as_fd(), libc::SIGKILL).unwrap();
    assert!(has_ended(&stray));
    // Another test may have reaped it meanwhile: it is gone in any case.
    Orphans::open().reap(no_tasks).unwrap();
    assert_eq!(reap::signal(stray.as_fd(), 0).unwrap(), Delivery::Gone);
    assert_eq!(attempt.wait(), 5 << 8);
}

/// Not a test of its own: the shell that is killed in the next test. It starts
/// a task that starts a daemon, says so, and waits.
#[test]
fn role_of_a_shell_that_is_killed() {
    let Ok(name) = std::env::var("EDDY_TEST_SHELL") else {
        return;
    };
    let directory = std::env::var("EDDY_TEST_DIRECTORY").unwrap();
    let _lock = ShellLock::take(directory.as_ref()).unwrap();
    let text = "setsid sleep 1000 >&- 2>&- & echo $!; exec sleep 1000 >&-";
    let mut attempt = Attempt::start(&name, 1, text);
    let daemon = line(&mut attempt.output);
    // Past the harness, which keeps what is printed to stdout by `print`.
    writeln!(std::io::stderr(), "{} {daemon}", attempt.child.pid).unwrap();
    attempt.wait();
}

#[test]
fn a_new_shell_ends_what_a_killed_one_left() {
    reap::become_subreaper().unwrap();
    let name = instance("sweep");
    let place = tempfile::tempdir().unwrap();
    let mut old = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "role_of_a_shell_that_is_killed", "--nocapture"])
        .env("EDDY_TEST_SHELL", &name)
        .env("EDDY_TEST_DIRECTORY", place.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = File::from(OwnedFd::from(old.stderr.take().unwrap()));
    let pids = line(&mut said);
    let open = |pid: &str| {
        let stat = procfs::stat(pid.parse().unwrap()).unwrap();
        reap::open_exact(stat.pid, stat.start_time)
            .unwrap()
            .unwrap()
    };
    let (task, daemon) = pids
        .split_once(' ')
        .map(|(t, d)| (open(t), open(d)))
        .unwrap();
    let held = ShellLock::take(place.path()).unwrap_err();
    let LockError::Held {
        holder: Some(holder),
        ..
    } = held
    else {
        panic!("{held}")
    };
    assert_eq!(holder.pid as u32, old.id());

    old.kill().unwrap();
    old.wait().unwrap();
    assert!(
        has_ended(&task),
        "the kernel ends what the shell started itself"
    );
    assert_eq!(
        reap::signal(daemon.as_fd(), 0).unwrap(),
        Delivery::Sent,
        "but not the daemon"
    );

    let lock = ShellLock::take(place.path()).unwrap();
    let other = sweep::sweep(&lock, &name, &Idset::one(1), None).unwrap();
    assert_eq!(
        other.ended.len(),
        0,
        "another rank's shell has nothing here"
    );
    let swept = sweep::sweep(
        &lock,
        &name,
        &Idset::one(0),
        Some(rustix::process::getuid().as_raw()),
    )
    .unwrap();
    let daemon_pid: i32 = pids.split_once(' ').unwrap().1.parse().unwrap();
    assert!(
        swept.ended.iter().any(|process| process.pid == daemon_pid),
        "{swept:?}"
    );
    assert_eq!((swept.left.len(), swept.refused.len()), (0, 0));
    assert!(has_ended(&daemon));
    assert_eq!(
        sweep::sweep(&lock, &name, &Idset::one(0), None).unwrap(),
        leftover::Outcome::default()
    );
    Orphans::open().reap(no_tasks).unwrap();
}
