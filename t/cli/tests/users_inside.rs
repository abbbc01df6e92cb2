//! Several users and instances inside others, with real users and real processes: whose everything in them is, and
//! who is told of it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use eddy_cli_tests::process::Process;
use eddy_cli_tests::users::{Site, can_make_cgroups, can_make_users, cgroup_of, owner_of};
use eddy_wire::id::JobId;
use rustix::process::Signal;

use crate::users::{site, tasks};

type Tested = anyhow::Result<()>;

const ANN: usize = 0;
const BOB: usize = 1;
const CYD: usize = 2;

#[test]
fn an_instance_of_a_user_is_his_down_to_its_last_process() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = site(&["--size=2", "--cores=2"])?;
    let (mut told, held) = (instance.place.fifo("told")?, instance.place.fifo("held")?);
    for pipe in [&told, &held] {
        fs::set_permissions(pipe.path(), fs::Permissions::from_mode(0o666))?;
    }
    let (eddy, pipe, hold) = (
        site.program().display(),
        told.path().display(),
        held.path().display(),
    );
    // Each stays the program that told: one that it became by `exec` might not be there yet.
    let task = format!("echo >{pipe}; read line <{hold}");
    let text = format!("#!/bin/sh\nexec {eddy} run -N2 -n2 sh -c '{task}'\n");
    let script = site.script(ANN, "inner", &text)?;
    let job = site.ok(
        &instance,
        ANN,
        &["batch", "-N2", "-n2", "--exclusive", &script],
    )?;
    for _ in 0..2 {
        told.line()?;
    }
    let ann = site.users[ANN].uid;
    let found = tasks(&instance, "sh");
    assert_eq!(found.len(), 2, "{found:?}");
    for task in &found {
        assert_eq!(owner_of(task.pid)?, ann, "{task}");
    }
    // Nothing that its leader can order to start anything has more rights than ann.
    let inside = |process: &Process| {
        let line = process.arguments.join(" ");
        line.contains("--child") || line.contains("/children/")
    };
    let cgroup = format!("/eddy/uid-{ann}");
    let his = can_make_cgroups()?;
    for process in instance.place.processes().iter().filter(|one| inside(one)) {
        assert_eq!(owner_of(process.pid)?, ann, "{process}");
        let own = cgroup_of(process.pid)?.unwrap_or_default();
        assert_eq!(own.ends_with(&cgroup), his, "{process}: {own}");
    }
    let number: JobId = job.parse()?;
    let state = instance.state().join(format!("children/{number}.1"));
    let meta = fs::metadata(&state)?;
    assert_eq!((meta.uid(), meta.mode() & 0o777), (ann, 0o700));
    let refused = site.run(&instance, BOB, &["--at", &job, "jobs"])?;
    let line = refused.refusal()?;
    assert!(
        line.contains(&format!("an instance of user {}", site.users[ANN].name)),
        "{line}"
    );
    // How a job in it ended is told nobody else either, and that it is left out is said.
    let inside = format!("--dependency=afterok:{job}/1");
    let refused = site.run(&instance, BOB, &["submit", &inside, "true"])?;
    let line = refused.refusal()?;
    assert!(
        line.contains("may wait for what is inside his own instances"),
        "{line}"
    );
    let listed = site.run(&instance, BOB, &["jobs", "-R"])?;
    let others = format!("eddy jobs: what is in the instances of other users is not shown: {job} ");
    assert!(listed.err.starts_with(&others), "{listed:?}");
    assert_eq!(listed.code, 0, "{listed:?}");
    let used = site.run(&instance, BOB, &["usage", "--instances"])?;
    let others =
        format!("eddy usage: what was used in the instances of other users is not shown: {job}\n");
    assert_eq!((used.code, used.err), (0, others));
    // Whoever knows where it is is told that it is closed to him, and not that there is none.
    let uri = site.ok(&instance, ANN, &["uri", &job])?;
    let closed = site.run(&instance, BOB, &["--at", &uri, "jobs"])?;
    let line = closed.refusal()?;
    assert!(line.contains("permission denied"), "{line}");
    let tree = site.ok(&instance, BOB, &["tree"])?;
    assert!(
        tree.contains("another user's: what is in it is not shown"),
        "{tree}"
    );
    site.ok(&instance, ANN, &["--at", &job, "jobs"])?;
    site.ok(&instance, ANN, &["submit", &inside, "true"])?;
    site.ok(&instance, ANN, &["cancel", &job])?;
    site.run(&instance, ANN, &["job", "status", &job])?;
    assert!(tasks(&instance, "sh").is_empty());
    Ok(())
}

/// Its leader is stopped where it is, so that it has no time to remove its sockets itself.
#[test]
fn an_instance_of_a_user_that_is_killed_leaves_no_run_directory() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = site(&["--cores=2", "-S", "exec.kill_grace=0.2s"])?;
    let job = site.ok(&instance, ANN, &["alloc", "--bg", "-n1"])?;
    // Commands wait for its socket, which comes a moment after its word that it takes work.
    site.ok(&instance, ANN, &["--at", &job, "run", "true"])?;
    let number: JobId = job.parse()?;
    let state = instance.state().join(format!("children/{number}.1"));
    let uri = fs::read_to_string(state.join("uri"))?;
    let socket = PathBuf::from(uri.trim().trim_start_matches("local://"));
    assert!(socket.exists(), "{uri}");
    let leads =
        |one: &Process| one.is_eddy("broker") && one.arguments.iter().any(|word| word == "--child");
    let leader = instance.place.processes().into_iter().find(leads);
    leader.expect("its leader").signal(Signal::STOP)?;
    site.ok(&instance, ANN, &["cancel", &job])?;
    instance.event(&job, "clean")?;
    assert!(!socket.exists(), "{uri}");
    assert_eq!(socket.parent().map(std::path::Path::exists), Some(false));
    Ok(())
}

#[test]
fn root_asks_for_nodes_for_an_instance_of_a_user() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = site(&["--size=3", "--cores=2"])?;
    let job = site.ok(&instance, ANN, &["alloc", "--bg", "-N1"])?;
    let ask = ["--at", &job, "grant", "ask", "--wait", "-N1"];
    let more = instance.ok(&ask)?;
    assert_eq!(instance.row(&more)?["userid"], site.users[ANN].uid);
    let submit = instance.json(&["audit", "--event", "submit", "--json"])?;
    assert!(submit.to_string().contains(r#""asked_by":0"#), "{submit}");
    let bob = [&ask[..], &["--as", &site.users[BOB].name]].concat();
    let refused = instance.run(&bob)?;
    let line = format!("that is no instance of user {}", site.users[BOB].name);
    assert!(refused.refusal()?.contains(&line), "{}", refused.err);
    site.ok(&instance, ANN, &["cancel", &job])?;
    instance.event(&more, "clean")
}

/// The process that hosts a rank for her is within her job, so the end of that job may kill it.
#[test]
fn an_instance_of_a_user_over_several_nodes_leaves_no_run_directory() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let (site, instance) = site(&["--size=4", "--cores=2"])?;
    for _ in 0..6 {
        let alloc = ["alloc", "-N3", "-n3", "--exclusive", "true"];
        site.ok(&instance, ANN, &alloc)?;
    }
    let shared = PathBuf::from(format!("/tmp/eddy-{}", site.users[ANN].uid));
    instance.shut_down()?;
    let left: Vec<PathBuf> = fs::read_dir(&shared)?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

#[test]
fn a_job_in_a_queue_instance_belongs_to_who_submitted_it() -> Tested {
    if !can_make_users() {
        return Ok(());
    }
    let config = "[[instance]]\nname = \"batch\"\nnodes = 1\n\n[[queue]]\nname = \"batch\"\ninstance = \"batch\"\n";
    let (site, instance) = Site::configured(config, &["--size=2", "--cores=2"])?;
    let run = ["run", "-q", "batch", "id", "-u"];
    for (user, of) in site.users.iter().enumerate() {
        assert_eq!(site.ok(&instance, user, &run)?, of.uid.to_string());
    }
    let submit = [
        "submit",
        "-q",
        "batch",
        "--wait-event=start",
        "sleep",
        "600",
    ];
    let job = site.ok(&instance, ANN, &submit)?;
    let found = tasks(&instance, "sleep");
    assert_eq!(found.len(), 1);
    assert_eq!(owner_of(found[0].pid)?, site.users[ANN].uid);
    let refused = site.run(&instance, BOB, &["cancel", &job])?;
    assert!(refused.refusal()?.contains("another user's"), "{refused:?}");
    // Directly, past the root: the queue instance knows users by the kernel's word, too.
    let refused = site.run(&instance, BOB, &["--at", "batch", "cancel", &job])?;
    assert!(refused.refusal()?.contains("another user's"), "{refused:?}");
    // What is submitted there is handed up, and is the root's job of that user.
    let submit = ["--at", "batch", "submit", "id", "-u"];
    let handed = site.ok(&instance, CYD, &submit)?;
    assert_eq!(
        site.ok(&instance, CYD, &["job", "attach", &handed])?,
        site.users[CYD].uid.to_string()
    );
    site.ok(&instance, ANN, &["cancel", &job])?;
    instance.shut_down()
}
