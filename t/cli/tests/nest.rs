//! Instances that are jobs, with real processes: their leaders, what they are
//! started for, their crashes and their ends.

use std::io::Read;
use std::os::unix::net::UnixListener;
use std::path::Path;

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::{LIMIT, Ran, Running};
use eddy_wire::id::JobId;
use eddy_wire::jobspec::{Ask, Environment, Work};
use eddy_wire::services::job::SubmitRequest;
use rustix::process::Signal;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// Submits an instance that is started for this command; the job's number.
fn child(instance: &Instance, command: &[&str], files: &Value) -> anyhow::Result<JobId> {
    let mut words = vec![instance.place.program(), "broker".into(), "--child".into()];
    if !command.is_empty() {
        words.push("--".into());
        words.extend(command.iter().map(|word| (*word).to_owned()));
    }
    let mark = instance.place.mark();
    let environment: Environment = [
        mark.split_once('=').unwrap_or_default(),
        ("PATH", &std::env::var("PATH")?),
        ("XDG_RUNTIME_DIR", &instance.place.join("run")),
        ("TEST_EDDY", &instance.place.program()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), Some(value.to_owned())))
    .collect();
    let ask = Ask {
        command: words,
        cores_per_task: 2,
        work: Work::Instance { name: None },
        cwd: Some(instance.place.path().display().to_string()),
        environment,
        attributes: vec![("files".to_owned(), files.clone())],
        ..Ask::default()
    };
    let jobspec = serde_json::to_value(ask.jobspec()?)?;
    let key = uuid::Uuid::now_v7();
    let request: SubmitRequest = serde_json::from_value(json!({"key": key, "jobspec": jobspec}))?;
    Ok(instance.submit_request(&request)?.first)
}

/// Runs `eddy` in the child that this job is.
fn in_child(instance: &Instance, job: JobId, arguments: &[&str]) -> anyhow::Result<Ran> {
    let state = instance.state().join(format!("children/{job}.1"));
    let mut command = instance.place.eddy(arguments);
    command.env("EDDY_URI", state);
    Running::start(command)?.wait()
}

fn leaders(instance: &Instance) -> Vec<Process> {
    let mut found = instance.place.processes();
    found.retain(|one| one.is_eddy("broker") && one.arguments.iter().any(|word| word == "--child"));
    found
}

/// The leader that is nobody's child.
fn root_leader(instance: &Instance) -> anyhow::Result<Process> {
    let children = leaders(instance);
    let mut found = instance.place.processes();
    found.retain(|one| one.is_eddy("broker") && !children.contains(one));
    found.pop().context("there is no leader")
}

#[test]
fn a_child_takes_jobs_within_its_grant_and_is_what_its_program_is() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let script = "echo begun $EDDY_JOB_ID; $TEST_EDDY run -n2 sh -c 'echo task $EDDY_TASK_RANK'; \
                  $TEST_EDDY run -n3 true 2>&1; echo error >&2; exit 7";
    let job = child(&instance, &["sh", "-c", script], &json!({}))?;
    assert_eq!(instance.code(&job.to_string())?, 7);
    let output = instance.run(&["job", "attach", &job.to_string()])?;
    let mut lines: Vec<&str> = output.out.lines().collect();
    lines.sort_unstable();
    assert!(
        lines.contains(&"begun 1") && lines.contains(&"task 0"),
        "{lines:?}"
    );
    assert!(lines.contains(&"task 1"), "{lines:?}");
    assert!(
        output.out.contains("cores"),
        "three cores do not fit: {lines:?}"
    );
    assert!(output.err.contains("error"), "{}", output.err);
    instance.shut_down()
}

#[test]
fn a_script_that_comes_with_the_job_is_run_with_its_arguments() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let files = json!({"script": {"data": "#!/bin/sh\necho \"$# $1 $2\"\n", "mode": 448}});
    let job = child(&instance, &["one", "two words"], &files)?;
    let output = instance.run(&["job", "attach", &job.to_string()])?;
    assert_eq!((output.code, output.out.as_str()), (0, "2 one two words\n"));
    instance.shut_down()
}

#[test]
fn a_leader_that_is_killed_goes_on_and_runs_its_program_once() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let script = "echo once; echo $$ >told; read line <gate; $TEST_EDDY run echo inner; echo end";
    let job = child(&instance, &["sh", "-c", script], &json!({}))?;
    let program = tells.line()?.trim().parse()?;
    let program = Process::of(program);
    for leader in leaders(&instance) {
        leader.kill()?;
    }
    assert!(
        program.is_some_and(|program| program.hold().is_some()),
        "it went on"
    );
    gate.let_go(1)?;
    assert_eq!(instance.code(&job.to_string())?, 0);
    let output = instance.run(&["job", "attach", &job.to_string()])?;
    assert_eq!(output.out, "once\ninner\nend\n");
    instance.shut_down()
}

/// A parent says where its children are as soon as they told it, to clients that then wait there.
#[test]
fn where_a_child_says_it_is_there_is_something_to_wait_at() -> Tested {
    let place = Place::new()?;
    let parent = UnixListener::bind(place.path().join("run/local"))?;
    std::fs::create_dir(place.path().join("state"))?;
    let mut command = place.eddy(&["broker", "--child"]);
    command.env("EDDY_URI", format!("local://{}", place.join("run/local")));
    command.env("EDDY_JOB_STATEDIR", place.join("state"));
    command.envs([("EDDY_JOB_ID", "1"), ("EDDY_JOB_ATTEMPT", "1")]);
    let child = Running::start(command)?;
    let (mut channel, _) = parent.accept()?;
    channel.set_read_timeout(Some(LIMIT))?;
    channel.read_exact(&mut [0; 4])?;
    let uri = std::fs::read_to_string(place.path().join("state/uri"))?;
    let socket = uri.trim().strip_prefix("local://").context("no socket")?;
    let directory = Path::new(socket).parent().context("no directory")?;
    assert!(directory.is_dir(), "{socket}");
    child.signal(Signal::KILL)?;
    child.wait()?;
    Ok(())
}

#[test]
fn a_child_goes_on_while_its_parent_is_away() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let job = child(&instance, &[], &json!({}))?;
    instance.event(&job.to_string(), "adopt")?;
    let before = in_child(&instance, job, &["submit", "true"])?.ok()?;
    root_leader(&instance)?.kill()?;
    for leader in leaders(&instance) {
        leader.kill()?;
    }
    let here = in_child(
        &instance,
        job,
        &["--reconnect=60s", "run", "echo", "without"],
    )?;
    assert_eq!(here.out, "without\n", "{}", here.err);
    instance.start_again()?;
    let code = in_child(&instance, job, &["job", "status", before.trim()])?;
    assert_eq!(code.code, 0, "{}", code.err);
    in_child(&instance, job, &["shutdown"])?.ok()?;
    assert_eq!(instance.code(&job.to_string())?, 0);
    instance.shut_down()
}

#[test]
fn the_end_of_a_job_ends_everything_nested_in_it() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut tells = instance.place.fifo("told")?;
    // Three instances deep; each starts the next and waits for it.
    let leave = "setsid sleep 1000 & echo $! >told; wait";
    let third = nested(&format!("sh -c '{leave}'"));
    let second = nested(&format!("$TEST_EDDY {third}"));
    let script = format!("$TEST_EDDY {second}");
    let script = script.as_str();
    let job = child(&instance, &["sh", "-c", script], &json!({}))?;
    let deepest = tells.line()?.trim().parse()?;
    let deepest = Process::of(deepest);
    assert_eq!(leaders(&instance).len(), 3);
    instance.ok(&["cancel", &job.to_string()])?;
    instance.event(&job.to_string(), "clean")?;
    assert_eq!(leaders(&instance), []);
    assert!(deepest.is_none_or(|one| one.ends_within(LIMIT)));
    assert_eq!(instance.row(&job.to_string())?["result"], "CANCELED");
    instance.shut_down()
}

/// `eddy batch --wait` of a command.
fn nested(command: &str) -> String {
    let quoted = command.replace('\'', "'\\''");
    format!("batch -n1 --wait --output=kvs --wrap '{quoted}'")
}

#[test]
fn who_is_with_a_job_whose_instance_is_cancelled_is_told_how_it_ended() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let outer = instance.ok(&["alloc", "-n1", "--bg"])?;
    let inner = instance.submit(&["--at", &outer, "sh", "-c", "echo here; sleep 3000"])?;
    let path = format!("{outer}/{inner}");
    let attached = instance.begin(&["job", "attach", &path])?;
    attached.prints("here")?;
    instance.ok(&["cancel", &outer])?;
    let ran = attached.wait()?;
    let status = instance.run(&["job", "status", &path])?;
    assert_eq!(
        (ran.code, ran.out.trim()),
        (status.code, "here"),
        "{}",
        ran.err
    );
    assert_ne!(ran.code, 0);
    assert!(!ran.err.contains("no instance is there"), "{}", ran.err);
    Ok(())
}

/// What it says last it says as it is ended, when its instance tells nobody any more.
#[test]
fn who_is_with_a_job_whose_instance_ends_sees_its_last_words_once() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let outer = instance.ok(&["alloc", "-n1", "--bg"])?;
    let words = "trap 'for i in 1 2 3 4 5 6 7 8 9; do echo last $i; done; exit 3' TERM; echo first; read x <gate";
    let _gate = instance.place.fifo("gate")?;
    let inner = instance.submit(&["--at", &outer, "sh", "-c", words])?;
    let path = format!("{outer}/{inner}");
    let attached: Vec<_> = (0..4)
        .map(|_| instance.begin(&["job", "attach", &path]))
        .collect::<anyhow::Result<_>>()?;
    for one in &attached {
        one.prints("first")?;
    }
    instance.ok(&["cancel", &outer])?;
    let late = instance.run(&["job", "attach", &path])?;
    let expected =
        "first\nlast 1\nlast 2\nlast 3\nlast 4\nlast 5\nlast 6\nlast 7\nlast 8\nlast 9\n";
    for ran in attached.into_iter().map(|one| one.wait()).chain([Ok(late)]) {
        let ran = ran?;
        assert_eq!((ran.out.as_str(), ran.code), (expected, 3), "{}", ran.err);
    }
    Ok(())
}

/// Each is waited for before the next is done: what changes is drawn again, without being asked.
/// Told to the first attempt, which did not come to its end: the next one hears it too.
#[test]
fn an_instance_that_is_requeued_while_it_is_shut_down_ends_all_the_same() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "exec.kill_grace=1s"])?;
    let mut seen = instance.place.fifo("seen")?;
    let _gate = instance.place.fifo("gate")?;
    let task = "trap \"echo term >seen\" TERM; echo here >seen; while :; do read line <gate; done";
    let script = format!("{} submit --wait sh -c '{task}'", instance.place.program());
    let outer = instance.ok(&["batch", "-n1", "--output=none", "--wrap", &script])?;
    assert_eq!(seen.line()?, "here");
    let ending = instance.begin(&["shutdown", &outer])?;
    assert_eq!(seen.line()?, "term");
    instance.ok(&["job", "requeue", &outer])?;
    while seen.line()? != "here" {}
    assert_eq!(ending.wait()?.code, 0);
    let row = instance.row(&outer)?;
    assert_eq!(
        (&row["state"], &row["attempt"]),
        (&json!("INACTIVE"), &json!(2)),
        "{row}"
    );
    instance.shut_down()
}

#[test]
fn a_tree_that_is_watched_is_drawn_as_instances_come_and_go() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let drawn = instance.begin(&["tree", "--watch", "--no-header"])?;
    let objects = instance.begin(&["tree", "--watch", "--json"])?;
    drawn.prints(" run ")?;
    objects.prints("\"children\":[]")?;
    let outer = instance.ok(&["alloc", "-n1", "--bg", "--job-name=outer"])?;
    drawn.prints("outer")?;
    objects.prints("\"name\":\"outer\"")?;
    // Also what comes inside one that was not there at first.
    let inner = ["--at", &outer, "alloc", "-n1", "--bg", "--job-name=inner"];
    instance.ok(&inner)?;
    drawn.prints("inner")?;
    objects.prints("\"name\":\"inner\"")?;
    instance.ok(&["cancel", &outer])?;
    instance.ok(&["job", "wait-event", &outer, "clean"])?;
    objects.prints("\"cores\":2,\"pending\":0,\"running\":0,\"completed\":0,\"failed\":1")?;
    // An interrupt is how it is to end.
    drawn.signal(Signal::INT)?;
    objects.signal(Signal::INT)?;
    assert_eq!(
        drawn.wait()?.ok()?.matches("INSTANCE").count(),
        0,
        "no heading"
    );
    let last = objects.wait()?.ok()?;
    let last = last.lines().last().unwrap_or_default();
    assert!(last.ends_with("\"children\":[]}"), "{last}");
    Ok(())
}

#[test]
fn an_instance_that_is_left_by_its_allocation_answers_at_once() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    for _ in 0..3 {
        let job = instance.ok(&["alloc", "-n1", "--bg"])?;
        instance.ok(&["--reconnect=0s", "--at", &job, "ping"])?;
        instance.ok(&["shutdown", &job])?;
    }
    instance.shut_down()
}
