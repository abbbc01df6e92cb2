//! Changing the course of a job: cancel, kill, time limits, urgency, requeue,
//! waitable jobs.

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::running::Running;
use eddy_wire::id::JobId;
use rustix::process::Signal;
use serde_json::Value;

type Tested = anyhow::Result<()>;

/// One core, so that a second job waits.
fn narrow() -> anyhow::Result<Instance> {
    Instance::start(&["--cores=1", "-S", "exec.kill_grace=0.2s"])
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or_default()
}

#[test]
fn a_waiting_job_is_cancelled_without_having_run() -> Tested {
    let instance = narrow()?;
    let head = instance.submit_started(&["sleep", "1000"])?;
    let job = instance.submit(&["touch", "ran"])?;
    assert_eq!(text(&instance.row(&job)?, "state"), "SCHED");
    instance.ok(&["cancel", "-m", "not needed", &job])?;
    assert_eq!(instance.code(&job)?, 1);
    let row = instance.row(&job)?;
    assert_eq!(
        (text(&row, "state"), text(&row, "result")),
        ("INACTIVE", "CANCELED")
    );
    assert!(text(&row, "reason").contains("not needed"), "{row}");
    instance.ok(&["cancel", &head])?;
    instance.event(&head, "clean")?;
    assert!(!instance.place.path().join("ran").exists());
    Ok(())
}

#[test]
fn a_signal_to_an_instance_goes_to_its_program() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut told = instance.place.fifo("told")?;
    let handle =
        "trap 'echo handled >told; exit 5' USR1; echo ready >told; while :; do sleep 0.01; done";
    let job = instance.ok(&["batch", "-n1", "--wrap", handle])?;
    assert_eq!(told.line()?, "ready");
    instance.ok(&["job", "kill", "-s", "USR1", &job])?;
    assert_eq!(told.line()?, "handled");
    assert_eq!(instance.code(&job)?, 5);
    // One that comes while the leader begins waits for the program.
    let early = instance.ok(&["batch", "-n1", "--wrap", "sleep 1000"])?;
    instance.event(&early, "start")?;
    instance.ok(&["job", "kill", "-s", "USR1", &early])?;
    assert_eq!(instance.code(&early)?, 128 + 10);
    // Nobody but the leader of this one is there, which is not stopped.
    let uri = instance.ok(&["alloc", "-n1", "--bg"])?;
    let row = &instance.json(&["jobs", "--json"])?[0];
    let alloc = text(row, "f58");
    let refused = instance.run(&["job", "kill", "-s", "STOP", alloc])?;
    assert_eq!(
        refused.refusal()?,
        format!(
            "eddy job kill: job {alloc}: it is an instance without an initial program, which a signal is for"
        )
    );
    instance.ok(&["--at", &uri, "ping"])?;
    Ok(())
}

#[test]
fn a_running_job_is_cancelled_by_a_signal_its_tasks_can_handle() -> Tested {
    let instance = narrow()?;
    let mut told = instance.place.fifo("told")?;
    let handle =
        "trap 'echo handled >told; exit 5' TERM; echo ready >told; while :; do sleep 0.01; done";
    let job = instance.submit(&["sh", "-c", handle])?;
    assert_eq!(told.line()?, "ready");
    let watch = instance.begin(&["job", "attach", &job])?;
    instance.ok(&["cancel", &job])?;
    assert_eq!(told.line()?, "handled");
    let ran = watch.wait()?;
    assert_eq!(ran.code, 5);
    assert!(ran.err.contains("type=cancel"), "{}", ran.err);
    assert_eq!(text(&instance.row(&job)?, "result"), "CANCELED");
    Ok(())
}

#[test]
fn all_jobs_are_cancelled_by_state() -> Tested {
    let instance = narrow()?;
    let running = instance.submit_started(&["sleep", "1000"])?;
    instance.ok(&["submit", "--quiet", "--cc=1-5", "sleep", "1000"])?;
    instance.ok(&["cancel", "--quiet", "-S", "pending"])?;
    let rows = instance.json(&["jobs", "--json"])?;
    let active = rows.as_array().map_or(0, Vec::len);
    assert_eq!((active, text(&rows[0], "f58")), (1, running.as_str()));
    instance.ok(&["cancel", "--all"])?;
    instance.event(&running, "clean")?;
    let over = instance.run(&["jobs", "--stats"])?;
    assert_eq!(
        over.out.trim(),
        "0 pending, 0 running, 0 completed, 0 failed, 6 canceled, 0 timeout"
    );
    // Nothing is left to cancel, and that is told of a job by name.
    let ran = instance.run(&["cancel", &running])?;
    assert_eq!(ran.code, 1);
    assert!(ran.refusal()?.contains(&running), "{}", ran.err);
    Ok(())
}

#[test]
fn tasks_that_ignore_the_first_signal_get_the_second() -> Tested {
    let instance = narrow()?;
    let mut told = instance.place.fifo("told")?;
    let ignore = "trap '' TERM; echo ready >told; while :; do sleep 0.01; done";
    let job = instance.submit(&["sh", "-c", ignore])?;
    assert_eq!(told.line()?, "ready");
    instance.ok(&["cancel", &job])?;
    assert_eq!(instance.code(&job)?, 128 + 9);
    Ok(())
}

#[test]
fn a_time_limit_ends_a_job_that_ignores_the_first_signal_too() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "exec.kill_grace=0.2s"])?;
    let obeys = instance.submit(&["-t", "0.2s", "sleep", "1000"])?;
    let ignores = instance.submit(&[
        "-t",
        "0.2s",
        "sh",
        "-c",
        "trap '' TERM; while :; do sleep 0.01; done",
    ])?;
    assert_eq!(
        (instance.code(&obeys)?, instance.code(&ignores)?),
        (128 + 15, 128 + 9)
    );
    for job in [&obeys, &ignores] {
        let row = instance.row(job)?;
        assert_eq!(text(&row, "result"), "TIMEOUT", "{row}");
        let took = row["t_finish"].as_f64().unwrap_or(0.0) - row["t_run"].as_f64().unwrap_or(0.0);
        assert!((0.19..5.0).contains(&took), "{took}");
    }
    // One that ends before its limit is none of its business.
    let quick = instance.submit(&["-t", "1m", "true"])?;
    assert_eq!(instance.code(&quick)?, 0);
    Ok(())
}

#[test]
fn kill_sends_the_signal_that_was_named() -> Tested {
    let instance = narrow()?;
    let mut told = instance.place.fifo("told")?;
    let handle = "trap 'echo usr1 >told' USR1; echo ready >told; while :; do sleep 0.01; done";
    let job = instance.submit(&["sh", "-c", handle])?;
    assert_eq!(told.line()?, "ready");
    instance.ok(&["job", "kill", "-s", "USR1", &job])?;
    assert_eq!(told.line()?, "usr1");
    instance.ok(&["job", "kill", "-s", "9", &job])?;
    assert_eq!(instance.code(&job)?, 128 + 9);
    // A signal is not a cancel: the job failed.
    assert_eq!(text(&instance.row(&job)?, "result"), "FAILED");
    let ran = instance.run(&["job", "kill", "-s", "NOPE", &job])?;
    assert!(ran.refusal()?.contains("NOPE"), "{}", ran.err);
    Ok(())
}

#[test]
fn urgency_holds_releases_and_orders() -> Tested {
    let instance = narrow()?;
    let held = instance.submit(&["--urgency=hold", "sh", "-c", "echo held >>order"])?;
    let row = instance.row(&held)?;
    assert!(text(&row, "reason").contains("is held"), "{row}");
    let mut gate = instance.place.fifo("gate")?;
    let head = instance.submit_started(&["sh", "-c", "read line <gate"])?;
    let later = instance.submit(&["sh", "-c", "echo later >>order"])?;
    let first = instance.submit(&["--urgency=31", "sh", "-c", "echo first >>order"])?;
    let row = instance.row(&later)?;
    let id: u64 = instance.row(&first)?["id"].as_u64().unwrap_or(0);
    let ahead = format!("waits behind job {}", JobId(id).f58_ascii());
    assert!(text(&row, "reason").contains(&ahead), "{row}");
    instance.ok(&["job", "urgency", &held, "20"])?;
    gate.let_go(1)?;
    for job in [&head, &held, &later, &first] {
        assert_eq!(instance.code(job)?, 0);
    }
    let order = std::fs::read_to_string(instance.place.join("order"))?;
    assert_eq!(order, "first\nheld\nlater\n");
    let ran = instance.run(&["job", "urgency", &held, "32"])?;
    assert!(ran.refusal()?.contains("0 to 31"), "{}", ran.err);
    Ok(())
}

#[test]
fn of_a_group_that_is_held_those_that_run_are_no_error() -> Tested {
    let instance = narrow()?;
    let printed = instance.ok(&["submit", "--job-set=night", "--cc=1-4", "sleep", "1000"])?;
    let jobs: Vec<&str> = printed.lines().collect();
    instance.event(jobs[0], "start")?;
    let (all, range) = (
        format!("{}_all", jobs[2]),
        format!("{}-{}", jobs[0], jobs[3]),
    );
    let groups: [&[&str]; 3] = [&[&all], &[&range], &["--job-set=night"]];
    for (group, verb) in groups
        .iter()
        .flat_map(|group| [(group, "hold"), (group, "release")])
    {
        let ran = instance.run(&[&[verb], *group].concat())?;
        let told = format!("eddy {verb}: 3 jobs\n");
        assert_eq!((ran.code, ran.err), (0, told), "{group:?}");
    }
    let ran = instance.run(&["job", "urgency", &all, "5"])?;
    let told = "eddy job urgency: 3 jobs\n";
    assert_eq!((ran.code, ran.err.as_str()), (0, told));
    // By itself it is what is asked of; and beside others that are named so, too.
    let past = "it is running: its place in the queue is past";
    for named in [&jobs[..1], &jobs[..2]] {
        let ran = instance.run(&[&["hold"], named].concat())?;
        assert_eq!(
            ran.refusal()?,
            format!("eddy hold: job {}: {past}", jobs[0])
        );
    }
    assert_eq!(instance.row(jobs[1])?["urgency"], 0);
    instance.ok(&["cancel", &all])?;
    Ok(())
}

#[test]
fn a_requeued_job_runs_again_as_its_next_attempt() -> Tested {
    let instance = narrow()?;
    let again = "echo $EDDY_JOB_ATTEMPT >>attempts; test $EDDY_JOB_ATTEMPT = 2 || exec sleep 1000";
    let job = instance.submit_started(&["sh", "-c", again])?;
    let watch = instance.begin(&["job", "attach", &job])?;
    instance.ok(&["job", "requeue", "-m", "once more", &job])?;
    assert_eq!(watch.wait()?.code, 0);
    let row = instance.row(&job)?;
    assert_eq!(
        (row["attempt"].as_u64(), text(&row, "result")),
        (Some(2), "COMPLETED")
    );
    let attempts = std::fs::read_to_string(instance.place.join("attempts"))?;
    assert_eq!(attempts, "1\n2\n");
    Ok(())
}

#[test]
fn a_waitable_job_is_collected_once() -> Tested {
    let instance = narrow()?;
    let good = instance.submit(&["--flags=waitable", "true"])?;
    let bad = instance.submit(&["--flags=waitable", "sh", "-c", "exit 7"])?;
    let other = instance.submit(&["true"])?;
    assert_eq!(instance.run(&["job", "wait", &bad])?.code, 1);
    let ran = instance.run(&["job", "wait"])?;
    assert_eq!((ran.code, ran.out.trim()), (0, good.as_str()));
    for nothing in [
        vec!["job", "wait"],
        vec!["job", "wait", &good],
        vec!["job", "wait", &other],
    ] {
        assert_eq!(instance.run(&nothing)?.code, 2, "{nothing:?}");
    }
    // Of none that is left all ended well.
    let none = instance.run(&["job", "wait", "--all"])?;
    assert_eq!((none.code, none.err.as_str()), (0, ""));
    // Asked before it has ended.
    let mut gate = instance.place.fifo("gate")?;
    let slow = instance.submit_started(&["--flags=waitable", "sh", "-c", "read line <gate"])?;
    let waiting = instance.begin(&["job", "wait", "--all", "-v"])?;
    gate.let_go(1)?;
    let ran = waiting.wait()?;
    assert_eq!(ran.code, 0);
    assert!(ran.err.contains(&slow), "{}", ran.err);
    Ok(())
}

#[test]
fn an_exception_of_a_users_choice_is_kept_and_ends_the_job_at_severity_0() -> Tested {
    let instance = narrow()?;
    let job = instance.submit_started(&["sleep", "1000"])?;
    instance.ok(&[
        "job", "raise", "-t", "remark", "-s", "7", "-m", "just so", &job,
    ])?;
    assert_eq!(text(&instance.row(&job)?, "state"), "RUN");
    instance.ok(&["job", "raise", "-t", "broken", "-m", "no more", &job])?;
    assert_ne!(instance.code(&job)?, 0);
    let row = instance.row(&job)?;
    assert_eq!(text(&row, "result"), "FAILED");
    assert!(text(&row, "reason").contains("no more"), "{row}");
    Ok(())
}

#[test]
fn an_interrupt_pressed_twice_cancels_the_job_that_is_run() -> Tested {
    let instance = narrow()?;
    let running = instance.begin(&["run", "sh", "-c", "echo ready; exec sleep 1000"])?;
    running.prints("ready")?;
    running.signal(Signal::INT)?;
    // The first one is only answered: the job goes on, and the second is waited for.
    let job = instance.ok(&["job", "last"])?;
    assert_eq!(text(&instance.row(&job)?, "state"), "RUN");
    running.signal(Signal::INT)?;
    assert_eq!(running.wait()?.code, 128 + 15);
    assert_eq!(text(&instance.row(&job)?, "result"), "CANCELED");
    Ok(())
}

#[test]
fn what_ends_the_command_ends_the_job_that_it_runs() -> Tested {
    let instance = narrow()?;
    let signals = [
        (Signal::TERM, 128 + 15),
        (Signal::HUP, 128 + 1),
        (Signal::QUIT, 128 + 3),
    ];
    for (signal, code) in signals {
        let running = instance.begin(&["run", "sh", "-c", "echo ready; exec sleep 1000"])?;
        running.prints("ready")?;
        let job = instance.ok(&["job", "last"])?;
        running.signal(signal)?;
        let ran = running.wait()?;
        let told = format!("eddy run: cancelling job {job}, whose end is not waited for\n");
        assert_eq!((ran.code, ran.err), (code, told));
        instance.event(&job, "clean")?;
        assert_eq!(text(&instance.row(&job)?, "result"), "CANCELED");
    }
    // Nobody reads what it prints any more.
    let mut piped = instance.place.command("sh");
    piped.env("EDDY_URI", instance.uri());
    piped
        .args(["-c", "\"$0\" run yes | head -n1"])
        .arg(instance.place.program());
    let ran = Running::start(piped)?.wait()?;
    let job = instance.ok(&["job", "last"])?;
    let told = "eddy run: nobody reads the output any more\neddy run: cancelling job ";
    assert_eq!((ran.code, ran.out.as_str()), (0, "y\n"));
    assert!(ran.err.starts_with(told), "{}", ran.err);
    instance.event(&job, "clean")?;
    assert_eq!(text(&instance.row(&job)?, "result"), "CANCELED");
    Ok(())
}

/// As with `eddy run 2>&1 | tee log`, where one ctrl-C ends both.
#[test]
fn a_job_is_ended_also_where_nobody_reads_what_is_said_of_it() -> Tested {
    let instance = narrow()?;
    let pipe = instance.place.fifo("pipe")?;
    let mut piped = instance.place.command("sh");
    piped.env("EDDY_URI", instance.uri());
    piped
        .args([
            "-c",
            "exec \"$0\" run sh -c 'echo ready; exec sleep 1000' 2> \"$1\"",
        ])
        .arg(instance.place.program())
        .arg(pipe.path());
    let running = Running::start(piped)?;
    running.prints("ready")?;
    drop(pipe);
    let job = instance.ok(&["job", "last"])?;
    running.signal(Signal::INT)?;
    running.signal(Signal::TERM)?;
    assert_eq!(running.wait()?.code, 128 + 15);
    instance.event(&job, "clean")?;
    assert_eq!(text(&instance.row(&job)?, "result"), "CANCELED");
    Ok(())
}

#[test]
fn a_signal_that_is_ignored_or_not_for_who_runs_the_job_ends_no_job() -> Tested {
    let instance = narrow()?;
    let job = instance.submit_started(&["sh", "-c", "echo ready; exec sleep 1000"])?;
    let attached = instance.begin(&["job", "attach", &job])?;
    attached.prints("ready")?;
    attached.signal(Signal::TERM)?;
    assert_eq!(attached.wait()?.code, 128 + 15);
    assert_eq!(text(&instance.row(&job)?, "state"), "RUN");
    instance.ok(&["cancel", &job])?;
    instance.event(&job, "clean")?;
    // As under nohup: the task is let go after the signal.
    let mut pipe = instance.place.fifo("pipe")?;
    let fifo = pipe.path().display();
    let waits = format!("#!/bin/sh\necho ready\nread line <{fifo}\nexit 7\n");
    let waits = instance.place.script("waits", &waits)?;
    let mut deaf = instance.place.command("sh");
    deaf.env("EDDY_URI", instance.uri());
    deaf.args(["-c", "trap '' HUP; exec \"$0\" run \"$1\""])
        .args([instance.place.program(), waits]);
    let deaf = Running::start(deaf)?;
    deaf.prints("ready")?;
    deaf.signal(Signal::HUP)?;
    pipe.let_go(1)?;
    assert_eq!(deaf.wait()?.code, 7);
    Ok(())
}

#[test]
fn a_place_with_nothing_in_it_is_left_clean() -> Tested {
    let place = Place::new()?;
    place.nothing_is_left()
}
