//! The start path with real processes: what a task finds when it begins, and
//! what is said when it cannot.

mod shell_leaves;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use eddy_brokerd::shell::affinity::CpuSet;
use eddy_brokerd::shell::cgroup::{self, Cgroups};
use eddy_brokerd::shell::pool::SpawnPool;
use eddy_brokerd::shell::procfs;
use eddy_brokerd::shell::reap::{self, Delivery};
use eddy_brokerd::shell::rights::Rights;
use eddy_brokerd::shell::spawn::{Child, Rlimit, SpawnError, Spawner, Step};
use eddy_brokerd::shell::stdio::{self, Given, InputPipe, OpenMode};

use shell_leaves::{command, has_ended, line, run, spawn, spawn_piped};

/// The values of one line of /proc/self/status in the task.
fn status_line(name: &str) -> String {
    let (_, text) = run(command(&["/bin/cat", "/proc/self/status"]));
    text.lines()
        .find_map(|line| line.strip_prefix(name))
        .unwrap()
        .trim()
        .to_owned()
}

fn errno(spawned: Result<Child, SpawnError>) -> i32 {
    match spawned.unwrap_err() {
        SpawnError::Step { errno, .. } => errno,
        other => panic!("{other}"),
    }
}

fn refused(step: Step, errno: i32, what: &str) -> SpawnError {
    SpawnError::Step {
        step,
        errno,
        what: what.to_owned(),
    }
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    for code in [0, 1, 3, 255] {
        let (exit, _) = run(command(&["/bin/sh", "-c", &format!("exit {code}")]));
        assert_eq!((exit.status, exit.code()), (code << 8, code));
    }
    let (exit, _) = run(command(&["/bin/sh", "-c", "kill -KILL $$"]));
    assert_eq!((exit.status, exit.code()), (9, 137));
    assert!(exit.memory_max > 0 && exit.user >= 0 && exit.system >= 0);
}

#[test]
fn an_end_is_not_reported_before_it_happens_and_only_once() {
    let child = spawn(&command(&["/bin/sleep", "1000"])).unwrap();
    assert_eq!(reap::try_wait(child.pidfd.as_fd()).unwrap(), None);
    reap::signal_group(child.pidfd.as_fd(), child.pid, libc::SIGTERM).unwrap();
    assert!(has_ended(&child.pidfd));
    assert_eq!(
        reap::try_wait(child.pidfd.as_fd()).unwrap().unwrap().status,
        libc::SIGTERM
    );
    let again = reap::try_wait(child.pidfd.as_fd()).unwrap_err();
    assert_eq!(again.raw_os_error(), Some(libc::ECHILD));
    assert_eq!(
        reap::signal(child.pidfd.as_fd(), libc::SIGTERM).unwrap(),
        Delivery::Gone
    );
}

#[test]
fn a_missing_command_is_127_and_nothing_is_left() {
    for program in ["/nowhere/at-all", "no-such-command", "./relative", ""] {
        let error = spawn(&command(&[program])).unwrap_err();
        assert_eq!(error, refused(Step::Exec, libc::ENOENT, program));
        assert_eq!(error.exit_code(), 127);
    }
    assert_eq!(
        spawn(&command(&["/nowhere"])).unwrap_err().to_string(),
        "cannot execute /nowhere: No such file or directory (os error 2)"
    );
    assert_eq!(
        spawn(&command(&[])).unwrap_err(),
        refused(Step::Exec, libc::ENOENT, "")
    );
}

#[test]
fn what_may_not_be_executed_is_126() {
    let error = spawn(&command(&["/etc/passwd"])).unwrap_err();
    assert_eq!(error, refused(Step::Exec, libc::EACCES, "/etc/passwd"));
    assert_eq!(error.exit_code(), 126);
    assert_eq!(errno(spawn(&command(&["/etc"]))), libc::EACCES);
}

#[test]
fn a_bad_working_directory_is_named() {
    let mut bad = command(&["/bin/true"]);
    bad.cwd = c"/nowhere".to_owned();
    let error = spawn(&bad).unwrap_err();
    assert_eq!(error, refused(Step::Chdir, libc::ENOENT, "/nowhere"));
    assert_eq!(error.exit_code(), 126);
}

#[test]
fn a_directory_of_the_path_that_may_not_be_looked_into_hides_nothing() {
    let place = tempfile::tempdir().unwrap();
    let locked = place.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::write(locked.join("there"), "").unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let missing = |program: &str| {
        let mut command = command(&[program]);
        command.env = vec![CString::new(format!("PATH={}:/bin", locked.display())).unwrap()];
        // User 0 may look into everything.
        if rustix::process::geteuid().is_root() {
            command.rights = Rights::Of(NOBODY);
        }
        errno(spawn(&command))
    };
    assert_eq!(missing("there"), libc::ENOENT);
    // What is named itself was looked for nowhere else.
    let named = locked.join("there");
    assert_eq!(missing(named.to_str().unwrap()), libc::EACCES);
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn the_path_of_the_job_is_searched_as_a_shell_does() {
    let place = tempfile::tempdir().unwrap();
    let program = |directory: &str, text: &str, mode: u32| {
        let path = place.path().join(directory).join("tool");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    program("closed", "#!/bin/sh\necho closed\n", 0o600);
    program("open", "#!/bin/sh\necho open $1\n", 0o700);
    program("here", "echo plain $0 $1\n", 0o700);
    let search = |path: &str| {
        let mut command = command(&["tool", "x"]);
        command.env = vec![CString::new(format!("PATH={path}")).unwrap()];
        command.cwd = CString::new(place.path().to_str().unwrap()).unwrap();
        command
    };
    // Relative entries count from the job's directory; one that may not be
    // executed is passed over, and told of only if there is no other.
    assert_eq!(run(search("nowhere:closed:open")).1, "open x\n");
    assert_eq!(errno(spawn(&search("closed:nowhere"))), libc::EACCES);
    assert_eq!(errno(spawn(&search("nowhere"))), libc::ENOENT);
    // Without `#!` it is a script for sh; an empty entry is the directory itself.
    assert_eq!(run(search("nowhere:here")).1, "plain here/tool x\n");
    let mut empty = search(":/bin");
    empty.cwd = CString::new(place.path().join("open").to_str().unwrap()).unwrap();
    assert_eq!(run(empty).1, "open x\n");
}

#[test]
fn without_a_path_the_usual_directories_are_searched() {
    let mut bare = command(&["true"]);
    bare.env.clear();
    assert_eq!(run(bare).0.status, 0);
}

#[test]
fn the_environment_is_exactly_what_was_given() {
    let mut exact = command(&["/usr/bin/env"]);
    exact.env = [c"B=2", c"A=one two", c"EMPTY=", c"odd"]
        .map(|text| text.to_owned())
        .to_vec();
    let (_, text) = run(exact);
    assert_eq!(text, "B=2\nA=one two\nEMPTY=\nodd\n");
}

#[test]
fn the_task_has_its_three_descriptors_and_no_other() {
    // One that closes on exec and one that does not, as a library may leave it.
    let kept = fs::File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&kept, rustix::io::FdFlags::empty()).unwrap();
    let (_, text) = run(command(&["/bin/ls", "/proc/self/fd"]));
    let seen: BTreeSet<&str> = text.split_whitespace().collect();
    assert_eq!(
        seen,
        BTreeSet::from(["0", "1", "2", "3"]),
        "3 is the directory ls reads"
    );
}

#[test]
fn descriptors_that_stand_in_each_others_place_are_moved() {
    // The helper gives its own 1, 2 and 0 to be 0, 1 and 2.
    if std::env::var_os("EDDY_TEST_TURNED").is_some() {
        let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().unwrap();
        let (a, b) = (
            own(std::io::stdout().as_fd()),
            own(std::io::stderr().as_fd()),
        );
        drop(own(std::io::stdin().as_fd()));
        // SAFETY: this process is ours alone and says nothing more to libtest.
        let turned = unsafe {
            use std::os::fd::FromRawFd;
            [1, 2, 0].map(|fd| Arc::new(std::os::fd::OwnedFd::from_raw_fd(fd)))
        };
        let [stdin, stdout, stderr] = turned;
        let links = "readlink /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 >\"$OUT\"";
        let mut task = command(&["/bin/sh", "-c", links]);
        let out = std::env::var("OUT").unwrap();
        task.env.push(CString::new(format!("OUT={out}")).unwrap());
        (task.stdin, task.stdout, task.stderr) = (stdin.into(), stdout.into(), stderr.into());
        let child = spawn(&task).unwrap();
        let exit = reap::wait(child.pidfd.as_fd()).unwrap();
        drop((a, b));
        std::process::exit(exit.code());
    }
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| fs::File::create(place.path().join(name)).unwrap();
    let name = "descriptors_that_stand_in_each_others_place_are_moved";
    let status = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("EDDY_TEST_TURNED", "1")
        .env("OUT", place.path().join("links"))
        .stdin(file("zero"))
        .stdout(file("one"))
        .stderr(file("two"))
        .status()
        .unwrap();
    assert!(status.success());
    let links = fs::read_to_string(place.path().join("links")).unwrap();
    // readlink's own output goes to the file named OUT.
    let names: Vec<&str> = links
        .lines()
        .map(|line| line.rsplit('/').next().unwrap())
        .collect();
    assert_eq!(names, ["one", "links", "zero"]);
}

#[test]
fn signals_are_unblocked_and_default_whatever_the_shell_has() {
    // SAFETY: ignores a signal nobody sends here; blocks one in this thread.
    unsafe {
        libc::signal(libc::SIGUSR2, libc::SIG_IGN);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGHUP);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
    }
    for name in ["SigBlk:", "SigIgn:", "SigCgt:", "SigPnd:"] {
        assert_eq!(status_line(name), "0000000000000000", "{name}");
    }
    // And the shell's own mask is as it was.
    let own = fs::read_to_string("/proc/thread-self/status").unwrap();
    let mask = own
        .lines()
        .find_map(|line| line.strip_prefix("SigBlk:"))
        .unwrap();
    assert_eq!(mask.trim(), "0000000000000001");
}

#[test]
fn each_task_leads_a_session_and_a_group() {
    let (child, mut output) = spawn_piped(command(&["/bin/sh", "-c", "cat /proc/$$/stat; read x"]));
    let stat = procfs::Stat::parse(line(&mut output).as_bytes()).unwrap();
    assert_eq!((stat.pid, stat.session), (child.pid, child.pid));
    assert_eq!(stat.start_time, child.start_time);
    assert_eq!(stat.ppid as u32, std::process::id());
    reap::wait(child.pidfd.as_fd()).unwrap();
}

#[test]
fn limits_umask_and_processors_are_set() {
    let mut limited = command(&["/bin/sh", "-c", "ulimit -Sn; ulimit -Hn"]);
    limited.rlimits = vec![Rlimit {
        resource: libc::RLIMIT_NOFILE,
        soft: 64,
        hard: 128,
    }];
    assert_eq!(run(limited).1, "64\n128\n");
    let mut masked = command(&["/bin/sh", "-c", "umask"]);
    masked.umask = 0o137;
    assert_eq!(run(masked).1, "0137\n");
    let mut bound = command(&["/bin/grep", "Cpus_allowed_list", "/proc/self/status"]);
    bound.cpus = Some([0].into_iter().collect());
    assert_eq!(run(bound).1, "Cpus_allowed_list:\t0\n");
}

#[test]
fn a_limit_or_processor_that_cannot_be_is_named() {
    let mut bad = command(&["/bin/true"]);
    bad.rlimits = vec![Rlimit {
        resource: libc::RLIMIT_NOFILE,
        soft: 9,
        hard: 8,
    }];
    let nofile = libc::RLIMIT_NOFILE;
    assert_eq!(
        spawn(&bad).unwrap_err(),
        refused(Step::Rlimit, libc::EINVAL, &format!("{nofile} to 9:8"))
    );
    let mut nowhere = command(&["/bin/true"]);
    nowhere.cpus = Some(CpuSet::parse("8000-8001").unwrap());
    assert_eq!(
        spawn(&nowhere).unwrap_err(),
        refused(Step::Affinity, libc::EINVAL, "8000-8001")
    );
}

#[test]
fn a_task_ends_with_the_thread_that_spawned_it() {
    let thread = std::thread::spawn(|| spawn(&command(&["/bin/sleep", "1000"])).unwrap());
    let child = thread.join().unwrap();
    assert!(has_ended(&child.pidfd));
    assert_eq!(
        reap::wait(child.pidfd.as_fd()).unwrap().status,
        libc::SIGKILL
    );
}

#[test]
fn input_is_fed_until_its_end() {
    let (mut feed, task) = InputPipe::open().unwrap();
    let mut cat = command(&["/bin/cat"]);
    cat.stdin = task.into();
    assert_eq!(feed.give(b"some "), Given::Bytes(5));
    assert_eq!(feed.give(b"words\n"), Given::Bytes(6));
    feed.end();
    assert_eq!(run(cat).1, "some words\n");
}

/// Nobody's number.
const NOBODY: u32 = 65_534;

#[test]
fn a_users_process_is_born_in_his_cgroup_where_there_are_any() {
    // Of this test alone: what is in the way here is in nobody else's.
    let name = format!("eddy-test-{}", std::process::id());
    let home = cgroup::home().map(|home| home.with_file_name(&name));
    let home = home.filter(|home| fs::create_dir_all(home).is_ok());
    let cgroups = Arc::new(home.clone().map_or_else(Cgroups::default, Cgroups::at));
    let mut spawner = Spawner::new(Arc::default(), Arc::clone(&cgroups)).unwrap();
    let mut born_in = |rights| {
        let (ours, task) = stdio::output_pipe().unwrap();
        rustix::fs::fcntl_setfl(&ours, rustix::fs::OFlags::empty()).unwrap();
        let mut cat = command(&["/bin/cat", "/proc/self/cgroup"]);
        (cat.rights, cat.stdout) = (rights, task.into());
        let child = spawner.spawn(&cat);
        drop(cat);
        child.map(|child| {
            let mut text = String::new();
            fs::File::from(ours).read_to_string(&mut text).unwrap();
            assert_eq!(reap::wait(child.pidfd.as_fd()).unwrap().status, 0);
            text
        })
    };
    let own = born_in(Rights::Kept).unwrap();
    assert!(!own.contains("uid-"), "{own}");
    match (rustix::process::geteuid().is_root(), &home) {
        (false, _) => assert!(born_in(Rights::Of(NOBODY)).is_err()),
        (true, None) => assert_eq!(born_in(Rights::Of(NOBODY)).unwrap(), own),
        (true, Some(home)) => {
            let his = home.join(format!("uid-{NOBODY}"));
            // The second time it was removed by somebody else.
            for _ in 0..2 {
                let text = born_in(Rights::Of(NOBODY)).unwrap();
                assert!(text.contains(&format!("/{name}/uid-{NOBODY}\n")), "{text}");
                fs::remove_dir(&his).unwrap();
            }
            // Where it cannot be had the process starts all the same, and in it again when it can.
            fs::write(home.join("cgroup.max.descendants"), "0").unwrap();
            assert_eq!(born_in(Rights::Of(NOBODY)).unwrap(), own);
            fs::write(home.join("cgroup.max.descendants"), "max").unwrap();
            let text = born_in(Rights::Of(NOBODY)).unwrap();
            assert!(text.contains("/uid-"), "{text}");
            drop((spawner, cgroups));
            assert!(!his.exists(), "it is removed when nobody is left");
        }
    }
}

#[test]
fn a_named_file_is_the_tasks_own() {
    let place = tempfile::tempdir().unwrap();
    let mut echo = command(&["/bin/sh", "-c", "echo out; echo err >&2"]);
    let both = stdio::open_output(place.path(), "both", OpenMode::Truncate, 0o22);
    echo.stdout = both.unwrap().into();
    echo.stderr = echo.stdout.clone();
    let child = spawn(&echo).unwrap();
    assert_eq!(reap::wait(child.pidfd.as_fd()).unwrap().status, 0);
    assert_eq!(
        fs::read_to_string(place.path().join("both")).unwrap(),
        "out\nerr\n"
    );
}

#[test]
fn the_pool_answers_every_command_under_its_tag() {
    let pool = SpawnPool::start(2, 64).unwrap();
    for tag in 0..40 {
        let program = if tag % 4 == 0 {
            "/nowhere"
        } else {
            "/bin/true"
        };
        pool.submit(tag, command(&[program])).unwrap();
    }
    let mut answered = BTreeSet::new();
    while answered.len() < 40 {
        let mut polled = [rustix::event::PollFd::from_borrowed_fd(
            pool.wake_fd(),
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut polled, None).unwrap();
        for spawned in pool.take() {
            assert!(
                answered.insert(spawned.tag),
                "{} answered twice",
                spawned.tag
            );
            match spawned.result {
                Ok(child) => {
                    assert_ne!(spawned.tag % 4, 0);
                    assert_eq!(reap::wait(child.pidfd.as_fd()).unwrap().status, 0);
                }
                Err(error) => {
                    let is_exec = matches!(
                        error,
                        SpawnError::Step {
                            step: Step::Exec,
                            ..
                        }
                    );
                    assert_eq!((spawned.tag % 4, is_exec), (0, true));
                }
            }
        }
    }
    assert!(pool.take().is_empty());
}

#[test]
fn a_full_pool_gives_the_command_back() {
    let pool = SpawnPool::start(0, 2).unwrap();
    pool.submit(1, command(&["/bin/true"])).unwrap();
    pool.submit(2, command(&["/bin/true"])).unwrap();
    let full = pool.submit(3, command(&["/bin/false"])).unwrap_err();
    assert_eq!(
        (full.tag, full.command.argv[0].to_str()),
        (3, Ok("/bin/false"))
    );
    assert_eq!(
        full.to_string(),
        "2 starts wait for a spawner thread; at most 2 may"
    );
}

#[test]
fn dropping_the_pool_ends_its_tasks() {
    let pool = SpawnPool::start(1, 1).unwrap();
    pool.submit((), command(&["/bin/sleep", "1000"])).unwrap();
    let mut polled = [rustix::event::PollFd::from_borrowed_fd(
        pool.wake_fd(),
        rustix::event::PollFlags::IN,
    )];
    rustix::event::poll(&mut polled, None).unwrap();
    let child = pool.take().pop().unwrap().result.unwrap();
    drop(pool);
    assert!(has_ended(&child.pidfd));
    assert_eq!(
        reap::wait(child.pidfd.as_fd()).unwrap().status,
        libc::SIGKILL
    );
}

#[test]
fn a_program_that_stays_open_for_writing_is_refused_and_one_that_is_closed_starts() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("script");
    fs::write(&path, "#!/bin/sh\nexit 7\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let program = path.to_str().unwrap();
    let open = fs::OpenOptions::new().append(true).open(&path).unwrap();
    let error = spawn(&command(&[program])).unwrap_err();
    assert_eq!(error, refused(Step::Exec, libc::ETXTBSY, program));
    drop(open);
    assert_eq!(run(command(&[program])).0.code(), 7);
}

#[test]
fn the_start_time_is_the_kernels_whenever_the_clock_ticks() {
    let mut ticks = BTreeSet::new();
    while ticks.len() < 30 {
        let child = spawn(&command(&["/bin/true"])).unwrap();
        let stat = procfs::stat(child.pid).unwrap();
        assert_eq!(stat.start_time, child.start_time);
        ticks.insert(child.start_time);
        reap::wait(child.pidfd.as_fd()).unwrap();
    }
}
