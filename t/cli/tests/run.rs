//! `eddy run` and `eddy submit`: what a person sees of a job that runs.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::{LIMIT, Running};

type Tested = anyhow::Result<()>;

/// Lines in alphabetical order: tasks print at the same time.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn run_ends_with_the_exit_code_of_its_tasks() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let code = |words: &[&str]| -> anyhow::Result<i32> {
        Ok(instance.run(&[&["run"], words].concat())?.code)
    };
    assert_eq!(code(&["true"])?, 0);
    assert_eq!(code(&["false"])?, 1);
    assert_eq!(code(&["sh", "-c", "exit 42"])?, 42);
    assert_eq!(code(&["sh", "-c", "kill -9 $$"])?, 128 + 9);
    assert_eq!(code(&["sh", "-c", "kill -TERM $$"])?, 128 + 15);
    // The highest of several tasks.
    assert_eq!(code(&["-n4", "sh", "-c", "exit $EDDY_TASK_RANK"])?, 3);
    Ok(())
}

#[test]
fn a_program_that_is_not_there_is_named() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let ran = instance.run(&["run", "no-such-program-here"])?;
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("no-such-program-here"), "{}", ran.err);
    let ran = instance.run(&["run", "--cwd=/no/such/place", "true"])?;
    assert_ne!(ran.code, 0);
    assert!(ran.err.contains("/no/such/place"), "{}", ran.err);
    Ok(())
}

#[test]
fn output_of_all_tasks_comes_by_stream_and_is_labelled_when_asked() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let speak = "echo out $FLUX_TASK_RANK of $FLUX_JOB_SIZE; echo err $FLUX_TASK_RANK >&2";
    let ran = instance.run(&["run", "-n4", "sh", "-c", speak])?;
    assert_eq!(
        sorted(&ran.out),
        ["out 0 of 4", "out 1 of 4", "out 2 of 4", "out 3 of 4"]
    );
    assert_eq!(sorted(&ran.err), ["err 0", "err 1", "err 2", "err 3"]);
    let ran = instance.run(&["run", "-l", "-n2", "echo", "hello"])?;
    assert_eq!(sorted(&ran.out), ["0: hello", "1: hello"]);
    let watch = ["submit", "--quiet", "--watch", "-l", "--cc=1-2"];
    let ran = instance.run(&[&watch[..], &["-n2", "echo", "{cc}"]].concat())?;
    assert_eq!(sorted(&ran.out), ["0: 1", "0: 2", "1: 1", "1: 2"]);
    let unseen = instance.run(&["submit", "-l", "true"])?;
    let line = unseen.refusal()?;
    assert!(line.contains("--watch"), "{line}");
    // Bytes as they are, with and without a last line break.
    let ran = instance.run(&["run", "printf", "no end"])?;
    assert_eq!(ran.out, "no end");
    Ok(())
}

#[test]
fn much_output_comes_whole_and_in_order() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let ran = instance.run(&["run", "seq", "1", "200000"])?;
    let expected: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(ran.code, 0);
    assert_eq!(ran.out.len(), expected.len());
    assert!(ran.out == expected);
    Ok(())
}

#[test]
fn standard_input_goes_to_every_task() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let ran = Running::start_with_input(instance.eddy(&["run", "cat"]), b"one\ntwo\n")?.wait()?;
    assert_eq!((ran.code, ran.out.as_str()), (0, "one\ntwo\n"));
    let words = ["run", "-n3", "sh", "-c", "read line; echo $line"];
    let ran = Running::start_with_input(instance.eddy(&words), b"x\n")?.wait()?;
    assert_eq!(ran.out, "x\nx\nx\n");
    // More than any pipe holds.
    let much = vec![b'a'; 3 << 20];
    let ran = Running::start_with_input(instance.eddy(&["run", "wc", "-c"]), &much)?.wait()?;
    assert_eq!(ran.out.trim(), much.len().to_string());
    // None at all: a task that reads is not left waiting.
    assert_eq!(instance.run(&["run", "cat"])?.code, 0);
    Ok(())
}

#[test]
fn tasks_run_where_and_with_what_was_asked_for() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let place = instance.place.path();
    fs::create_dir(place.join("deep"))?;
    let cwd = |words: &[&str]| instance.ok(&[&["run"], words, &["pwd"]].concat());
    assert_eq!(cwd(&[])?, place.display().to_string());
    assert_eq!(
        cwd(&["--cwd=deep"])?,
        place.join("deep").display().to_string()
    );
    assert_eq!(cwd(&["--cwd=/"])?, "/");
    let mut command = instance.eddy(&[
        "run",
        "--env=-GONE*",
        "--env=NEW=one two",
        "sh",
        "-c",
        "echo ${GONE_A-unset} $KEPT \"$NEW\"",
    ]);
    command.env("GONE_A", "here").env("KEPT", "kept");
    assert_eq!(
        Running::start(command)?.wait()?.ok()?,
        "unset kept one two\n"
    );
    Ok(())
}

#[test]
fn tasks_are_told_who_they_are() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = instance.submit(&["env"])?;
    assert_eq!(instance.code(&job)?, 0);
    let row = instance.row(&job)?;
    let seen = instance.ok(&["job", "attach", &job])?;
    let has = |line: &str| seen.lines().any(|seen| seen == line);
    assert!(has(&format!("EDDY_JOB_ID={}", row["id"])), "{seen}");
    assert!(has(&format!("EDDY_URI={}", instance.uri())), "{seen}");
    assert!(
        has("EDDY_JOB_ATTEMPT=1") && has("EDDY_TASK_RANK=0"),
        "{seen}"
    );
    assert!(has("EDDY_JOB_SIZE=1") && has("FLUX_JOB_NNODES=1"), "{seen}");
    // And reach the instance they are in.
    let program = instance.place.program();
    assert_eq!(
        instance.ok(&["run", &program, "run", "echo", "inner"])?,
        "inner"
    );
    Ok(())
}

#[test]
fn files_take_output_and_give_input() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let at = |name: &str| instance.place.join(name);
    let read = |name: &str| fs::read_to_string(at(name));
    let ran = instance.run(&["run", "--output=both", "sh", "-c", "echo out; echo err >&2"])?;
    assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", ""));
    assert_eq!(sorted(&read("both")?), ["err", "out"]);
    let words = [
        "--output=o.{{id}}",
        "--error=e",
        "sh",
        "-c",
        "echo out; echo err >&2",
    ];
    let job = instance.submit(&words)?;
    assert_eq!(instance.code(&job)?, 0);
    assert_eq!(
        (
            read(&format!("o.{}", instance.row(&job)?["id"]))?,
            read("e")?
        ),
        ("out\n".into(), "err\n".into())
    );
    instance.ok(&[
        "run",
        "-n2",
        "--output=t.{{taskid}}",
        "sh",
        "-c",
        "echo $EDDY_TASK_RANK",
    ])?;
    assert_eq!((read("t.0")?, read("t.1")?), ("0\n".into(), "1\n".into()));
    assert_ne!(instance.run(&["run", "--input=o.in", "cat"])?.code, 0);
    fs::write(at("o.in"), "from a file\n")?;
    assert_eq!(instance.ok(&["run", "--input=o.in", "cat"])?, "from a file");
    assert_eq!(instance.ok(&["run", "--output=none", "echo", "x"])?, "");
    Ok(())
}

#[test]
fn a_file_of_output_keeps_what_an_earlier_attempt_wrote_if_that_is_asked_for() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    for (option, kept) in [
        (&["--open-mode=append"][..], "1\n2\n"),
        (&["-o", "output.mode=append"], "1\n2\n"),
        (&["--open-mode=truncate"], "2\n"),
        (&[], "2\n"),
    ] {
        let mut said = instance.place.fifo("said")?;
        // It says so once its line is in the file.
        let script = format!(
            "echo $EDDY_JOB_ATTEMPT; test $EDDY_JOB_ATTEMPT = 2 || {{ echo so >{}; exec sleep 1000; }}",
            said.path().display()
        );
        let words = [option, &["--output=tries", "sh", "-c", &script]].concat();
        let job = instance.submit(&words)?;
        said.line()?;
        instance.ok(&["job", "requeue", &job])?;
        assert_eq!(instance.code(&job)?, 0);
        let tries = instance.place.join("tries");
        assert_eq!(fs::read_to_string(&tries)?, kept, "{option:?}");
        fs::remove_file(tries)?;
        fs::remove_file(said.path())?;
    }
    let wrong = instance.run(&["submit", "-o", "output.mode=a", "true"])?;
    let line = wrong.refusal()?;
    assert!(
        line.contains("output.mode: is \"a\"; allowed are truncate and append"),
        "{line}"
    );
    Ok(())
}

#[test]
fn attach_shows_the_output_from_its_beginning_during_and_after() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut gate = instance.place.fifo("gate")?;
    let words = [
        "sh",
        "-c",
        "echo begun; read line <gate; echo ended; exit 3",
    ];
    let job = instance.submit_started(&words)?;
    let attached = instance.begin(&["job", "attach", &job])?;
    attached.prints("begun\n")?;
    gate.let_go(1)?;
    let ran = attached.wait()?;
    assert_eq!((ran.code, ran.out.as_str()), (3, "begun\nended\n"));
    let ran = instance.run(&["job", "attach", &job])?;
    assert_eq!((ran.code, ran.out.as_str()), (3, "begun\nended\n"));
    Ok(())
}

#[test]
fn what_a_task_leaves_behind_ends_with_its_job() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut told = instance.place.fifo("told")?;
    // A child in the background, and a daemon in a session of its own that shed its environment.
    let leave = "sleep 1000 & echo $! >told; \
        setsid env -i sh -c 'echo $$; exec sleep 1000' >told 2>/dev/null </dev/null & \
        read line <gate";
    let mut gate = instance.place.fifo("gate")?;
    let job = instance.submit_started(&["sh", "-c", leave])?;
    let mut left = Vec::new();
    for _ in 0..2 {
        let pid: i32 = told.line()?.trim().parse()?;
        left.extend(Process::of(pid));
    }
    assert_eq!(left.len(), 2, "both run");
    gate.let_go(1)?;
    assert_eq!(instance.code(&job)?, 0);
    // The job is over when nothing of it runs: no waiting here.
    instance.event(&job, "clean")?;
    let alive: Vec<_> = left.iter().filter(|one| one.hold().is_some()).collect();
    assert!(alive.is_empty(), "{alive:?}");
    assert!(left.iter().all(|one| one.ends_within(LIMIT)));
    Ok(())
}

#[test]
fn every_copy_of_cc_runs_with_its_number() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let ids = instance.ok(&[
        "submit",
        "--cc=1-20",
        "--wait",
        "sh",
        "-c",
        "echo {cc} $EDDY_JOB_CC >cc.{cc}",
    ])?;
    assert_eq!(ids.lines().count(), 20);
    for cc in 1..=20 {
        let text = fs::read_to_string(instance.place.join(&format!("cc.{cc}")))?;
        assert_eq!(text, format!("{cc} {cc}\n"));
    }
    let ran = instance.run(&[
        "submit",
        "--cc=0-3",
        "--wait",
        "--quiet",
        "sh",
        "-c",
        "exit {cc}",
    ])?;
    assert_eq!((ran.code, ran.out.as_str()), (3, ""));
    let ran = instance.run(&[
        "submit",
        "--quiet",
        "--cc=1-3",
        "--watch",
        "echo",
        "copy {cc}",
    ])?;
    assert_eq!(sorted(&ran.out), ["copy 1", "copy 2", "copy 3"]);
    Ok(())
}

#[test]
fn what_is_submitted_again_under_its_key_is_the_same_jobs() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let key = instance.ok(&["job", "key"])?;
    let submit = |key: &str, cc: &str, command: &str| {
        instance.run(&["submit", &format!("--key={key}"), cc, command])
    };
    let ids = submit(&key, "--cc=1-3", "true")?.ok()?;
    assert_eq!(ids.lines().count(), 3, "{ids}");
    assert_eq!(submit(&key, "--cc=1-3", "true")?.ok()?, ids);
    for (cc, command, other) in [
        ("--cc=1-3", "false", "with another jobspec"),
        ("--cc=1-4", "true", "with another number of copies"),
        ("--cc=4-6", "true", "with another set of copies"),
        ("--cc=1-2,4", "true", "with another set of copies"),
    ] {
        let refused = submit(&key, cc, command)?;
        assert!(refused.refusal()?.ends_with(other), "{refused:?}");
    }
    for wrong in ["5f", "550e8400-e29b-41d4-a716-446655440000", ""] {
        let refused = submit(wrong, "--cc=1", "true")?;
        let allowed = "allowed is a UUID of version 7, such as `eddy job key` prints";
        assert!(
            refused.code != 0 && refused.err.contains(allowed),
            "{refused:?}"
        );
    }
    let all = instance.ok(&["jobs", "-a", "--no-header"])?;
    assert_eq!(all.lines().count(), 3, "{all}");
    // From another shell, and an hour from when the key was made.
    let key = instance.ok(&["job", "key"])?;
    let line = ["submit", "--key", &key, "--begin-time=+1h", "true"];
    let id = instance.ok(&line)?;
    let mut again = instance.eddy(&line);
    again.env("SHLVL", "7");
    assert_eq!(Running::start(again)?.wait()?.ok()?.trim_end(), id);
    let refused = instance.run(&[&line[..4], &["--requeue", "true"]].concat())?;
    assert!(
        refused.refusal()?.ends_with("with another `requeue`"),
        "{refused:?}"
    );
    instance.ok(&["cancel", &id])?;
    instance.shut_down()
}

#[test]
fn a_long_list_of_jobs_is_waited_for_at_once() -> Tested {
    let instance = Instance::start(&["--cores=16"])?;
    let ran = instance.run(&["submit", "--cc=1-300", "--quiet", "--wait", "true"])?;
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let stats = instance.run(&["jobs", "--stats"])?;
    assert_eq!(
        stats.out.trim(),
        "0 pending, 0 running, 300 completed, 0 failed, 0 canceled, 0 timeout"
    );
    Ok(())
}
