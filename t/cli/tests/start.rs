//! Starting, finding and ending instances.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::{Ran, Running};
use rustix::process::Signal;
use serde_json::json;

type Tested = anyhow::Result<()>;

/// `eddy start` with a command in it.
fn start(place: &Place, words: &[&str]) -> anyhow::Result<Ran> {
    place.run(&[&["start", "--cores=2"], words].concat())
}

#[test]
fn start_ends_with_the_exit_code_of_its_command_and_leaves_nothing() -> Tested {
    let place = Place::new()?;
    let program = place.program();
    assert_eq!(start(&place, &["true"])?.code, 0);
    assert_eq!(start(&place, &["sh", "-c", "exit 7"])?.code, 7);
    assert_eq!(start(&place, &["sh", "-c", "kill -9 $$"])?.code, 128 + 9);
    let ran = start(&place, &[&program, "run", "-n2", "echo", "inside"])?;
    assert_eq!((ran.code, ran.out.as_str()), (0, "inside\ninside\n"));
    // A job that is left running goes with the instance.
    assert_eq!(
        start(&place, &[&program, "submit", "--quiet", "sleep", "1000"])?.code,
        0
    );
    let missing = start(&place, &["no-such-program-here"])?;
    assert!(
        missing.refusal()?.contains("no-such-program-here"),
        "{}",
        missing.err
    );
    place.nothing_is_left()?;
    let kept: Vec<_> = fs::read_dir(place.path().join("tmp"))?.collect();
    assert!(kept.is_empty(), "{kept:?}");
    Ok(())
}

#[test]
fn a_leader_that_hangs_at_the_end_leaves_nothing() -> Tested {
    let place = Place::new()?;
    let (mut told, mut gate) = (place.fifo("told")?, place.fifo("gate")?);
    let script = format!(
        "{} submit --quiet sh -c 'echo >told; sleep 1000'; read line <gate; exit 3",
        place.program()
    );
    let words = ["start", "--cores=2", "sh", "-c", &script];
    let running = Running::start(place.eddy(&words))?;
    told.line()?;
    place.only("broker")?.signal(Signal::STOP)?;
    gate.let_go(1)?;
    let ran = running.wait()?;
    let line =
        "eddy start: the leader did not end within 30 s and was killed; another ends what it left";
    assert_eq!((ran.code, ran.err.trim_end()), (3, line));
    place.nothing_is_left()
}

#[test]
fn a_command_that_shuts_its_instance_down_gives_its_exit_code() -> Tested {
    let place = Place::new()?;
    for size in ["--size=1", "--size=3"] {
        for code in [0, 4] {
            let script = format!("{} shutdown; exit {code}", place.program());
            let ran = start(&place, &[size, "sh", "-c", &script])?;
            assert_eq!((ran.code, ran.err.as_str()), (code, ""), "{size}");
        }
    }
    place.nothing_is_left()
}

/// It half began: no shell, and no word of why.
#[test]
fn a_start_that_may_not_have_the_descriptors_it_needs_is_refused_in_a_line() -> Tested {
    let place = Place::new()?;
    let start = |limit: &str, size: &str| {
        let mut command = place.command("sh");
        let script = format!("ulimit {limit} && exec \"$@\"");
        command.args(["-c", &script, "sh", &place.program()]);
        command.args(["start", "--cores=1", size, "true"]);
        Running::start(command)?.wait()
    };
    for (limit, size, said) in [
        (
            "-n 20",
            "--size=1",
            "is 20 (`ulimit -Hn`), this instance needs at least 40 (nodes: 1)",
        ),
        (
            "-n 48",
            "--size=4",
            "is 48 (`ulimit -Hn`), this instance needs at least 52 (nodes: 4)",
        ),
    ] {
        let ran = start(limit, size)?;
        let line = ran.refusal()?;
        assert_eq!(
            line,
            format!("eddy start: open files: the hard limit {said}")
        );
    }
    // A soft one is raised.
    let ran = start("-S -n 20", "--size=1")?;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let ran = start("-n 40", "--size=1")?;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    place.nothing_is_left()
}

#[test]
fn start_in_the_background_prints_where_it_is_and_is_found_in_every_way() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let socket = instance.socket().display().to_string();
    let state = instance.state().display().to_string();
    assert_eq!(instance.uri(), format!("local://{socket}"));
    let place = &instance.place;
    for words in [
        vec!["--at", instance.uri(), "ping"],
        vec!["--at", &socket, "ping"],
        vec!["ping", "--at", &state],
    ] {
        assert_eq!(place.run(&words)?.code, 0, "{words:?}");
    }
    // An administrator finds it by its command line.
    let line = instance.leader()?.arguments.join(" ");
    assert!(
        line.contains(&format!("broker --statedir {state}")),
        "{line}"
    );
    Ok(())
}

#[test]
fn a_second_leader_on_one_state_directory_is_refused() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let leader = instance.leader()?;
    let second = Running::start(instance.starting())?.wait()?;
    let said = second.refusal()?;
    assert!(
        said.contains("is in use by process") && said.contains(&leader.pid.to_string()),
        "{said}"
    );
    assert_eq!(instance.leader()?, leader);
    assert_eq!(instance.ok(&["run", "echo", "alive"])?, "alive");
    Ok(())
}

#[test]
fn a_start_that_fails_leaves_no_directory_of_sockets() -> Tested {
    let place = Place::new()?;
    let file = place.join("resources.json");
    fs::write(&file, "{}")?;
    let wrong: [&[&str]; 4] = [
        &["--cores=0", "true"],
        &["--fake=0x0", "true"],
        &["--resources", &file, "true"],
        &["--size=2", "--resources", &file, "true"],
    ];
    for words in wrong {
        place.run(&[&["start"], words].concat())?.refusal()?;
        let left = fs::read_dir(place.path().join("run/eddy"));
        let left: Vec<_> = left.into_iter().flatten().collect();
        assert!(left.is_empty(), "{words:?}: {left:?}");
    }
    place.nothing_is_left()
}

#[test]
fn a_state_directory_of_a_newer_version_is_refused_and_left_alone() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    instance.shut_down()?;
    let version = instance.state().join("version");
    fs::write(&version, "99\n")?;
    let refused = Running::start(instance.starting())?.wait()?;
    assert!(
        refused.refusal()?.contains("has format 99"),
        "{}",
        refused.err
    );
    assert_eq!(fs::read_to_string(&version)?, "99\n");
    Ok(())
}

#[test]
fn a_shutdown_ends_what_runs_and_keeps_what_waits() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let running = instance.submit_started(&["sleep", "1000"])?;
    let ids = instance.ok(&["submit", "--cc=1-3", "sh", "-c", "echo {cc} >>ran"])?;
    let waiting: Vec<String> = ids.lines().map(str::to_owned).collect();
    let run = instance.begin(&["job", "attach", &running])?;
    instance.shut_down()?;
    drop(run);
    assert!(!instance.socket().exists(), "its sockets are removed");
    instance.start_again()?;
    assert_eq!(instance.row(&running)?["result"], "CANCELED");
    for job in &waiting {
        assert_eq!(instance.code(job)?, 0);
        assert_eq!(instance.row(job)?["attempt"], 1);
    }
    assert_eq!(
        fs::read_to_string(instance.place.join("ran"))?
            .lines()
            .count(),
        3
    );
    Ok(())
}

#[test]
fn a_shutdown_just_after_the_start_takes_the_shell_along() -> Tested {
    // The shell may say hello before, during and after the end: each of some tries meets another.
    let instance = Instance::start(&["--cores=1"])?;
    for _ in 0..5 {
        instance.shut_down()?;
        instance.start_again()?;
        // And one that comes in place of another.
        instance.kill_shell()?;
        instance.shut_down()?;
        instance.start_again()?;
    }
    instance.shut_down()
}

#[test]
fn dead_and_foreign_sockets_are_told_apart() -> Tested {
    let place = Place::new()?;
    let (dead, foreign) = (place.join("dead"), place.join("foreign"));
    drop(UnixListener::bind(&dead)?);
    let refused = place.run(&["--at", &dead, "--reconnect=0.2s", "ping"])?;
    assert!(refused.refusal()?.contains(&dead), "{}", refused.err);
    let missing = place.run(&["--at", &place.join("nothing"), "--reconnect=0.2s", "ping"])?;
    assert!(missing.refusal()?.contains("nothing"), "{}", missing.err);
    let listener = UnixListener::bind(&foreign)?;
    // Ends with this process. Each connection is kept until the other end closes it: what was not
    // read by then would be lost with it.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream?;
            stream.write_all(b"220 mail.example.org ESMTP ready, what can I do for you?\r\n")?;
            stream.read_to_end(&mut Vec::new())?;
        }
        std::io::Result::Ok(())
    });
    let refused = place.run(&["--at", &foreign, "--reconnect=5s", "ping"])?;
    assert!(
        refused.refusal()?.contains("is not an eddy instance"),
        "{}",
        refused.err
    );
    let wrong = place.run(&["--at=ssh://host/x", "ping"])?;
    assert!(wrong.refusal()?.contains("ssh://host/x"), "{}", wrong.err);
    Ok(())
}

#[test]
fn fake_nodes_hold_jobs_for_as_long_as_they_say_and_run_nothing() -> Tested {
    let instance = Instance::start(&["--fake=nodes=8,cores=32,gpus=4,memory=256G"])?;
    assert_eq!(instance.run(&["run", "-N8", "true"])?.code, 0);
    let list = instance.json(&["resource", "list", "--json"])?;
    assert_eq!(
        (&list["all"]["nnodes"], &list["all"]["ncores"]),
        (&json!(8), &json!(256))
    );
    assert_eq!(
        (&list["all"]["ngpus"], &list["free"]["nnodes"]),
        (&json!(32), &json!(8))
    );
    let ran = instance.run(&[
        "submit",
        "--quiet",
        "--wait",
        "--cc=1-200",
        "-N2",
        "touch",
        "ran",
    ])?;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let job = instance.submit(&[
        "-n4",
        "-c16",
        "-g1",
        "-S",
        "exec.test.run_duration=0.1s",
        "true",
    ])?;
    assert_eq!(instance.code(&job)?, 0);
    let row = instance.row(&job)?;
    let took = row["t_finish"].as_f64().unwrap_or(0.0) - row["t_run"].as_f64().unwrap_or(0.0);
    assert!((0.09..5.0).contains(&took), "{row}");
    assert_eq!((&row["ncores"], &row["nnodes"]), (&json!(64), &json!(2)));
    let r = instance.json(&["job", "info", &job, "R"])?;
    assert!(
        r["execution"]["R_lite"][0]["children"]["gpu"].is_string(),
        "{r}"
    );
    assert!(!instance.place.path().join("ran").exists());
    Ok(())
}

#[test]
fn more_cores_may_be_declared_than_there_are() -> Tested {
    let instance = Instance::start(&["--cores=16"])?;
    let mut told = instance.place.fifo("told")?;
    let mut gate = instance.place.fifo("gate")?;
    let ids = instance.ok(&[
        "submit",
        "--cc=1-16",
        "sh",
        "-c",
        "echo here >told; read line <gate",
    ])?;
    for _ in 0..16 {
        assert_eq!(told.line()?, "here");
    }
    let running = instance.json(&["jobs", "--json", "-f", "running"])?;
    assert_eq!(
        running.as_array().map_or(0, Vec::len),
        16,
        "all at the same time"
    );
    gate.let_go(16)?;
    let ids: Vec<&str> = ids.lines().collect();
    assert_eq!(
        instance.run(&[&["job", "status"], &ids[..]].concat())?.code,
        0
    );
    Ok(())
}

#[test]
fn resources_are_taken_from_a_file_in_the_form_of_the_rfc() -> Tested {
    let place = Place::new()?;
    let file = place.join("R.json");
    let r = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0", "children": {"core": "0-2,5"}}],
        "starttime": 0.0, "expiration": 0.0, "nodelist": ["thishost"]}});
    fs::write(&file, r.to_string())?;
    let state = place.path().join("state");
    let instance = Instance::start_in(place, state, &["--resources", &file])?;
    let list = instance.json(&["resource", "list", "--json"])?;
    assert_eq!(
        (&list["all"]["ncores"], &list["all"]["nodelist"]),
        (&json!(4), &json!("thishost"))
    );
    assert_eq!(instance.run(&["run", "-n4", "true"])?.code, 0);
    let too_many = instance.run(&["run", "-n5", "true"])?;
    assert!(
        too_many.refusal()?.contains("asks for 5"),
        "{}",
        too_many.err
    );
    Ok(())
}

#[test]
fn sqlite3_reads_the_journal_while_the_instance_runs() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.submit(&["true"])?;
    instance.event(&job, "clean")?;
    let running = instance.submit_started(&["sleep", "1000"])?;
    let ask = |sql: &str| -> anyhow::Result<String> {
        let mut command = Command::new("sqlite3");
        command
            .arg("-readonly")
            .arg(instance.state().join("journal.db"))
            .arg(sql)
            .stdin(Stdio::null());
        Ok(Running::start(command)?.wait()?.ok()?.trim().to_owned())
    };
    assert_eq!(
        ask("SELECT group_concat(name, ' ') FROM eventlog WHERE job = 1 ORDER BY seq")?,
        "submit alloc start release"
    );
    assert_eq!(
        ask("SELECT count(*), count(DISTINCT seq), max(seq) - min(seq) + 1 FROM event")?
            .split('|')
            .collect::<std::collections::BTreeSet<_>>()
            .len(),
        1,
        "dense"
    );
    // Rows of jobs that are over are written together, a little later than their records.
    let begun = std::time::Instant::now();
    while ask("SELECT id, result FROM job")? != "1|completed" {
        anyhow::ensure!(
            begun.elapsed() < std::time::Duration::from_secs(20),
            "no row"
        );
    }
    // And the instance does not mind.
    instance.ok(&["cancel", &running])?;
    instance.event(&running, "clean")
}

/// Starts on that state directory, in the background.
fn start_on(place: &Place, state: &Path, words: &[&str]) -> anyhow::Result<Ran> {
    let mut command = place.eddy(&["start", "--background", "--cores=2", "--statedir"]);
    command.arg(state).args(words);
    Running::start(command)?.wait()
}

fn shut_down(place: &Place, started: Ran) -> Tested {
    let printed = started.ok()?;
    let uri = printed.trim_end().strip_prefix("EDDY_URI=");
    let mut command = place.eddy(&["shutdown"]);
    command.env("EDDY_URI", uri.unwrap_or_default());
    Running::start(command)?.wait()?.ok()?;
    place.nothing_is_left()
}

fn copied(place: &Place, from: &Path, to: &Path) -> Tested {
    let mut command = place.command("cp");
    command.arg("-a").arg(from).arg(to);
    Running::start(command)?.wait()?.ok().map(drop)
}

#[test]
fn a_copy_of_a_state_directory_takes_nothing_from_the_one_that_runs() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.submit_started(&["sleep", "1000"])?;
    let place = &instance.place;
    let copy = place.path().join("copy");
    copied(place, instance.state(), &copy)?;
    let (copy_text, state_text) = (copy.display(), instance.state().display());
    let refused = format!(
        "state directory {copy_text} is a copy of {state_text}, whose tasks and sockets it would \
         take for its own; if that one is not used any more, start this one with --moved"
    );
    let ran = start_on(place, &copy, &[])?;
    assert!(ran.refusal()?.contains(&refused), "{}", ran.err);
    // Whatever is said, not beside a leader that lives.
    let ran = start_on(place, &copy, &["--moved"])?;
    let held = format!("another state directory than {copy_text}");
    assert!(ran.refusal()?.contains(&held), "{}", ran.err);
    // The shell outlives its leader.
    instance.kill_leader()?;
    fs::remove_dir_all(&copy)?;
    copied(place, instance.state(), &copy)?;
    let ran = start_on(place, &copy, &[])?;
    assert!(ran.refusal()?.contains(&refused), "{}", ran.err);
    instance.start_again()?;
    let row = instance.row(&job)?;
    assert_eq!((&row["state"], &row["attempt"]), (&json!("RUN"), &json!(1)));
    instance.shut_down()
}

#[test]
fn a_state_directory_that_was_moved_is_the_same_instance() -> Tested {
    let place = Place::new()?;
    let [first, second, third] = ["1", "2", "3"].map(|name| place.path().join(name));
    shut_down(&place, start_on(&place, &first, &[])?)?;
    fs::rename(&first, &second)?;
    shut_down(&place, start_on(&place, &second, &[])?)?;
    // To another disk: that is a copy, and has to be said.
    copied(&place, &second, &third)?;
    fs::remove_dir_all(&second)?;
    assert_ne!(start_on(&place, &third, &[])?.code, 0);
    shut_down(&place, start_on(&place, &third, &["--moved"])?)?;
    shut_down(&place, start_on(&place, &third, &[])?)?;
    // Back from a backup.
    fs::rename(&third, &first)?;
    copied(&place, &first, &third)?;
    shut_down(&place, start_on(&place, &third, &[])?)
}

#[test]
fn a_clean_end_leaves_no_number_of_a_process_in_the_lock() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let child = instance.ok(&["alloc", "--bg", "-n1"])?;
    let of_child = fs::read_dir(instance.state().join("children"))?
        .next()
        .context("the instance's directory")??;
    let locks = [instance.state().to_owned(), of_child.path()].map(|dir| dir.join("lock"));
    for lock in &locks {
        assert!(!fs::read_to_string(lock)?.is_empty(), "{}", lock.display());
    }
    instance.ok(&["shutdown", &child])?;
    assert_eq!(fs::read_to_string(&locks[1])?, "");
    instance.shut_down()?;
    assert_eq!(fs::read_to_string(&locks[0])?, "");
    Ok(())
}
