//! Nothing is lost to SIGKILL: of the leader, of the shell, of both, while
//! people wait.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::{LIMIT, Running};
use rustix::process::Signal;

type Tested = anyhow::Result<()>;

/// A task that tells its process and waits to be let go; then `and` happens.
fn gated(and: &str) -> String {
    format!("echo $$ >told; read line <gate; {and}")
}

fn told(line: anyhow::Result<String>) -> anyhow::Result<Process> {
    let pid = line?.trim().parse()?;
    Process::of(pid).ok_or_else(|| anyhow::anyhow!("task {pid} has ended"))
}

#[test]
fn a_task_that_outlives_the_leader_is_recorded_with_its_code() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let job = instance.submit(&["sh", "-c", &gated("echo after; exit 9")])?;
    let task = told(tells.line())?;
    instance.kill_leader()?;
    instance.start_again()?;
    assert!(task.hold().is_some(), "it went on");
    assert_eq!(instance.row(&job)?["state"], "RUN");
    gate.let_go(1)?;
    assert_eq!(instance.code(&job)?, 9);
    let row = instance.row(&job)?;
    assert_eq!(
        (&row["attempt"], &row["result"]),
        (&1.into(), &"FAILED".into())
    );
    assert_eq!(instance.run(&["job", "attach", &job])?.out, "after\n");
    Ok(())
}

#[test]
fn a_task_that_ended_while_there_was_no_leader_is_recorded_with_its_code() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let job = instance.submit(&["sh", "-c", &gated("exit 11")])?;
    let task = told(tells.line())?;
    instance.kill_leader()?;
    gate.let_go(1)?;
    assert!(task.ends_within(LIMIT));
    instance.start_again()?;
    assert_eq!(instance.code(&job)?, 11);
    let row = instance.row(&job)?;
    assert_eq!(
        (&row["attempt"], &row["result"]),
        (&1.into(), &"FAILED".into())
    );
    Ok(())
}

/// Rows of jobs that are over are written some at a time; nobody is to see it.
#[test]
fn who_is_over_is_listed_at_once_and_after_the_leader_was_killed() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let over = |jobs: &str| -> anyhow::Result<usize> {
        instance.ok(&["submit", "--quiet", "--wait", jobs, "true"])?;
        let listed = instance.ok(&["jobs", "-a", "--no-header", "--format={id} {result}"])?;
        Ok(listed.matches("COMPLETED").count())
    };
    assert_eq!(over("--cc=1-20")?, 20);
    assert_eq!(over("--cc=1-80")?, 100);
    let last = instance.submit(&["sh", "-c", "exit 3"])?;
    assert_eq!(instance.code(&last)?, 3);
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.row(&last)?["result"], "FAILED");
    assert_eq!(over("--cc=1-2")?, 102);
    Ok(())
}

#[test]
fn a_node_that_is_taken_out_when_its_jobs_end_is_through_a_restart() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=2"])?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    instance.submit(&["-N2", "-n2", "--flags=waitable", "sh", "-c", &gated("true")])?;
    told(tells.line())?;
    told(tells.line())?;
    let removed = instance.begin(&["resource", "remove", "--drain", "1"])?;
    removed.prints("drained; waiting for")?;
    instance.kill_leader()?;
    instance.start_again()?;
    gate.let_go(2)?;
    let ran = removed.wait()?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let left = instance.ok(&["overlay", "status"])?;
    assert_eq!(left, "full        1  0");
    instance.shut_down()
}

#[test]
fn everybody_who_waits_finishes_through_a_restart() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let script = gated("echo done; exit 6");
    let run = instance.begin(&["run", "sh", "-c", &format!("echo begun; {script}")])?;
    told(tells.line())?;
    run.prints("begun\n")?;
    let job = instance.submit(&["--flags=waitable", "sh", "-c", &script])?;
    told(tells.line())?;
    let waits = instance.begin(&["job", "wait", &job])?;
    let attach = instance.begin(&["job", "attach", &job])?;
    let status = instance.begin(&["job", "status", &job])?;
    let event = instance.begin(&["job", "wait-event", &job, "clean"])?;
    let watch = instance.begin(&[
        "submit",
        "--quiet",
        "--watch",
        "sh",
        "-c",
        &format!("echo begun; {script}"),
    ])?;
    told(tells.line())?;
    watch.prints("begun\n")?;
    let held = instance.begin(&["submit", "--quiet", "--wait", "--cc=1-2", "-n4", "true"])?;
    instance.kill_leader()?;
    // A new one is asked while there is no leader.
    let late = instance.begin(&["run", "echo", "late"])?;
    instance.start_again()?;
    gate.let_go(3)?;
    let ran = run.wait()?;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (6, "begun\ndone\n"),
        "{}",
        ran.err
    );
    assert_eq!(waits.wait()?.code, 1);
    let ran = attach.wait()?;
    assert_eq!((ran.code, ran.out.as_str()), (6, "done\n"), "{}", ran.err);
    assert_eq!((status.wait()?.code, event.wait()?.code), (6, 0));
    let ran = watch.wait()?;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (6, "begun\ndone\n"),
        "{}",
        ran.err
    );
    assert_eq!(held.wait()?.code, 0);
    assert_eq!(late.wait()?.ok()?, "late\n");
    Ok(())
}

#[test]
fn accepted_jobs_are_all_there_after_a_kill_and_run_once() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let mut gate = instance.place.fifo("gate")?;
    let head = instance.submit_started(&["-n4", "sh", "-c", "read line <gate"])?;
    let ids = instance.ok(&["submit", "--cc=1-50", "sh", "-c", "echo {cc} >>ran"])?;
    let ids: Vec<&str> = ids.lines().collect();
    instance.kill_leader()?;
    instance.start_again()?;
    gate.let_go(4)?;
    assert_eq!(instance.code(&head)?, 0);
    assert_eq!(
        instance.run(&[&["job", "status"], &ids[..]].concat())?.code,
        0
    );
    let ran = fs::read_to_string(instance.place.join("ran"))?;
    let mut ran: Vec<u32> = ran.lines().map(|line| line.parse().unwrap_or(0)).collect();
    ran.sort_unstable();
    assert_eq!(ran, (1..=50).collect::<Vec<u32>>());
    Ok(())
}

#[test]
fn tasks_of_a_killed_shell_are_ended_and_their_jobs_say_so() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let plain = instance.submit(&["sh", "-c", &gated("true")])?;
    let task = told(tells.line())?;
    let again = "test $EDDY_JOB_ATTEMPT = 2 || exec sleep 1000; read line <gate; exit 3";
    let script = format!("echo $$ >told; {again}");
    let requeued = instance.submit(&["--requeue", "sh", "-c", &script])?;
    let first = told(tells.line())?;
    let watch = instance.begin(&["job", "attach", &requeued])?;
    instance.kill_shell()?;
    assert!(task.ends_within(LIMIT) && first.ends_within(LIMIT));
    assert_ne!(instance.code(&plain)?, 0);
    let row = instance.row(&plain)?;
    assert_eq!(row["result"], "FAILED");
    assert!(
        row["reason"]
            .as_str()
            .is_some_and(|why| why.contains("node-failure")),
        "{row}"
    );
    let second = told(tells.line())?;
    assert_ne!(second.pid, first.pid);
    gate.let_go(1)?;
    assert_eq!((watch.wait()?.code, instance.code(&requeued)?), (3, 3));
    assert_eq!(instance.row(&requeued)?["attempt"], 2);
    assert_eq!(instance.ok(&["run", "echo", "fine"])?, "fine");
    Ok(())
}

#[test]
fn a_leader_whose_program_was_replaced_still_starts_shells() -> Tested {
    let mut place = Place::new()?;
    place.own_program()?;
    let state = place.path().join("state");
    let instance = Instance::start_in(place, state, &["--cores=1"])?;
    // As a package is upgraded.
    let (program, next) = (instance.place.program(), instance.place.join("next"));
    fs::copy(&program, &next)?;
    fs::rename(&next, &program)?;
    instance.kill_shell()?;
    // It may have been on its way to the one that was killed.
    let job = instance.submit(&["--requeue", "true"])?;
    assert_eq!(instance.code(&job)?, 0);
    let shell = instance.shell()?;
    assert_eq!(shell.arguments.first(), Some(&program));
    Ok(())
}

#[test]
fn both_killed_is_both_recovered_from() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let mut tells = instance.place.fifo("told")?;
    let mut gate = instance.place.fifo("gate")?;
    let running = instance.submit(&["sh", "-c", &gated("true")])?;
    let task = told(tells.line())?;
    let waiting = instance.submit(&["sh", "-c", "echo once >>ran"])?;
    let (leader, shell) = (instance.leader()?, instance.shell()?);
    leader.kill()?;
    shell.kill()?;
    instance.start_again()?;
    assert!(
        task.ends_within(LIMIT),
        "nobody is there to tell its end: it is ended"
    );
    assert_ne!(instance.code(&running)?, 0);
    let row = instance.row(&running)?;
    assert!(
        row["reason"]
            .as_str()
            .is_some_and(|why| why.contains("node-failure")),
        "{row}"
    );
    assert_eq!(instance.code(&waiting)?, 0);
    assert_eq!(fs::read_to_string(instance.place.join("ran"))?, "once\n");
    gate.let_go(1)
}

#[test]
fn what_was_asked_of_a_job_outlives_the_leader() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "exec.kill_grace=0.2s"])?;
    let (mut tells, _gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    // A time limit that passes while there is no leader, and a cancel just before.
    let limited = instance.submit(&["-t", "0.3s", "sh", "-c", &gated("true")])?;
    told(tells.line())?;
    let ignores = "trap '' TERM; echo $$ >told; while :; do sleep 0.01; done";
    let cancelled = instance.submit(&["sh", "-c", ignores])?;
    let task = told(tells.line())?;
    instance.ok(&["cancel", &cancelled])?;
    instance.kill_leader()?;
    assert!(task.hold().is_some());
    instance.start_again()?;
    assert_eq!(
        (instance.code(&cancelled)?, instance.code(&limited)?),
        (128 + 9, 128 + 15)
    );
    assert_eq!(instance.row(&cancelled)?["result"], "CANCELED");
    assert_eq!(instance.row(&limited)?["result"], "TIMEOUT");
    Ok(())
}

#[test]
fn a_stopped_leader_is_waited_for_and_a_stopped_shell_too() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let job = instance.submit(&["sh", "-c", &gated("exit 5")])?;
    let task = told(tells.line())?;
    let (leader, shell) = (instance.leader()?, instance.shell()?);
    leader.signal(Signal::STOP)?;
    let asked = instance.begin(&["run", "echo", "later"])?;
    shell.signal(Signal::STOP)?;
    gate.let_go(1)?;
    assert!(task.ends_within(LIMIT));
    leader.signal(Signal::CONT)?;
    shell.signal(Signal::CONT)?;
    assert_eq!(instance.code(&job)?, 5);
    assert_eq!(asked.wait()?.ok()?, "later\n");
    Ok(())
}

#[test]
fn start_brings_a_killed_leader_back_by_itself() -> Tested {
    use eddy_cli_tests::place::Place;
    use eddy_cli_tests::running::Running;
    let place = Place::new()?;
    let program = place.program();
    let script = format!("{program} run sh -c 'echo begun; read line <gate; echo ended; exit 4'");
    let mut gate = place.fifo("gate")?;
    let state = place.join("state");
    let command = place.eddy(&[
        "start",
        "--cores=2",
        "--statedir",
        &state,
        "sh",
        "-c",
        &script,
    ]);
    let started = Running::start(command)?;
    started.prints("begun\n")?;
    let first = place.only("broker")?;
    first.kill()?;
    gate.let_go(1)?;
    let ran = started.wait()?;
    assert_eq!(
        (ran.code, ran.out.as_str()),
        (4, "begun\nended\n"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("started again"), "{}", ran.err);
    place.nothing_is_left()
}

#[test]
fn what_recovery_cut_is_said_where_it_was_asked_for() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    instance.ok(&["run", "true"])?;
    instance.shut_down()?;
    // As after the loss of a file system that held no more than the other files.
    for name in ["journal.db", "journal.db-wal", "journal.db-shm"] {
        let removed = fs::remove_file(instance.state().join(name));
        assert!(removed.is_ok() || name != "journal.db", "{removed:?}");
    }
    let refused = Running::start(instance.starting())?.wait()?;
    assert!(refused.refusal()?.contains("last acknowledged was"));
    let mut recovering = instance.starting();
    recovering.arg("--recover");
    let ran = Running::start(recovering)?.wait()?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said = ran.err.lines().next().unwrap_or_default();
    assert!(
        said.starts_with("eddy start: the journal was cut: ")
            && said.contains("records 1..0 are kept"),
        "{}",
        ran.err
    );
    instance.ok(&["run", "true"])?;
    instance.shut_down()
}

/// A bit that fell over in it is not to hide all jobs that are over: the row is no more than what its records say.
#[test]
fn a_row_that_is_damaged_is_made_again_of_its_records() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    instance.ok(&["submit", "--quiet", "--wait", "--cc=1-3", "true"])?;
    let listed = || instance.ok(&["jobs", "-a", "--json"]);
    let before = listed()?;
    instance.shut_down()?;
    let path = instance.state().join("journal.db");
    let mut bytes = fs::read(&path)?;
    let name = b"\"reason\":";
    let places: Vec<usize> = (0..bytes.len() - name.len())
        .filter(|at| bytes[*at..].starts_with(name))
        .collect();
    let [first, .., last] = places[..] else {
        anyhow::bail!("not all rows are in the journal")
    };
    // One is no row any more, the other no text.
    bytes[first + 1] ^= 1;
    bytes[last + 1] ^= 0x80;
    fs::write(&path, &bytes)?;
    instance.start_again()?;
    assert_eq!(listed()?, before);
    instance.shut_down()
}
