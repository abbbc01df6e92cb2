//! Declared instances and their queues, with real processes: one number names a
//! job from the root, and leaders that are killed lose nothing.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::{LIMIT, Running};
use rustix::process::Signal;

type Tested = anyhow::Result<()>;

/// Two queue instances of a node each, a node for the root, and three queues.
const DECLARED: &str = r#"
[[instance]]
name = "batch"
nodes = 1

[[instance]]
name = "debug"
nodes = 1
set = { "exec.kill_grace" = "1s" }

[[queue]]
name = "batch"
instance = "batch"

[[queue]]
name = "short"
instance = "debug"

[[queue]]
name = "services"
instance = "root"
"#;

/// Three nodes of two cores, two of which belong to queue instances.
pub fn declared() -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let config = place.join("declared.toml");
    fs::write(&config, DECLARED)?;
    let state = place.path().join("state");
    Instance::start_in(
        place,
        state,
        &["--size=3", "--cores=2", "--config", &config],
    )
}

/// The state directory of a queue instance, on whatever node it is.
pub fn state_of(instance: &Instance, name: &str) -> anyhow::Result<PathBuf> {
    let mut nodes = vec![instance.state().to_owned()];
    nodes.extend((1..3).map(|rank| instance.state().join(format!("ranks/{rank}"))));
    let mut states = nodes
        .iter()
        .map(|node| node.join("children").join(name))
        .filter(|state| state.is_dir());
    states.next().with_context(|| format!("no state of {name}"))
}

/// The decimal number of a job, however it is spelled.
pub fn number(instance: &Instance, job: &str) -> anyhow::Result<u64> {
    let text = instance.ok(&["jobs", "--no-header", "-o", "{id.dec}", job])?;
    Ok(text.parse()?)
}

/// Numbers of all jobs that a listing with these words shows.
fn numbers(instance: &Instance, words: &[&str]) -> anyhow::Result<Vec<u64>> {
    let words = [&["jobs", "-a", "--no-header", "-o", "{id.dec}"], words].concat();
    let lines = instance.ok(&words)?;
    lines.lines().map(|line| Ok(line.parse()?)).collect()
}

#[test]
fn what_was_declared_is_there_again_without_the_file() -> Tested {
    let instance = declared()?;
    assert_eq!(instance.ok(&["run", "-q", "batch", "echo", "1"])?, "1");
    leader_of(instance.state())?.kill()?;
    let state = instance.state().to_string_lossy().into_owned();
    let again = ["start", "--background", "--statedir", &state];
    instance.place.run(&again)?.ok()?;
    assert_eq!(instance.ok(&["run", "-q", "batch", "echo", "2"])?, "2");
    let origin = instance.ok(&["config", "get", "origin"])?;
    assert_eq!(
        origin,
        format!("kept from an earlier start: {state}/config.kept.toml")
    );
    instance.shut_down()
}

#[test]
fn an_instance_that_can_never_be_is_refused_at_the_start() -> Tested {
    let place = Place::new()?;
    let config = place.join("nine.toml");
    fs::write(&config, "[[instance]]\nname = \"a\"\nnodes = 9\n")?;
    let state = place.join("state");
    let words = ["start", "--background", "--fake=nodes=2,cores=1"];
    let refused =
        place.run(&[&words[..], &["--statedir", &state, "--config", &config]].concat())?;
    assert_eq!(
        refused.refusal()?,
        "eddy start: instance `a`: asks for 9 nodes; there are 2"
    );
    let kept = place.path().join("state/config.kept.toml");
    assert!(!kept.exists(), "what is refused is not kept");
    place.nothing_is_left()
}

#[test]
fn an_instance_that_is_down_says_why() -> Tested {
    let place = Place::new()?;
    let state = place.path().join("state");
    fs::create_dir(&state)?;
    // As it was kept before two of three nodes were taken out.
    fs::write(
        state.join("config.kept.toml"),
        "[[instance]]\nname = \"a\"\nnodes = 9\n[[queue]]\nname = \"a\"\ninstance = \"a\"\n",
    )?;
    let instance = Instance::start_in(place, state, &["--fake=nodes=2,cores=1"])?;
    let begun = Instant::now();
    loop {
        let refused = instance.run(&["--at", "a", "jobs"])?;
        if refused.err.contains("is down") || begun.elapsed() > LIMIT {
            let line = refused.refusal()?;
            let wanted = "eddy jobs: a: instance `a` is down: its job ended 5 times";
            assert!(line.starts_with(wanted), "{line}");
            assert!(line.contains("asks for 9 whole nodes"), "{line}");
            let status = instance.ok(&["queue", "status", "a"])?;
            let wanted = "a: takes no submissions and starts no jobs: instance `a` is down";
            assert!(status.starts_with(wanted), "{status}");
            return instance.shut_down();
        }
    }
}

/// As after the loss of a file system that held no more than the other files.
fn damage(state: &Path) -> Tested {
    for name in ["journal.db", "journal.db-wal", "journal.db-shm"] {
        let removed = fs::remove_file(state.join(name));
        anyhow::ensure!(removed.is_ok() || name != "journal.db", "{removed:?}");
    }
    Ok(())
}

/// What is said of a queue once its instance is down.
fn down(instance: &Instance, queue: &str) -> anyhow::Result<String> {
    let begun = Instant::now();
    loop {
        let status = instance.ok(&["queue", "status", queue])?;
        if status.contains("is down") {
            return Ok(status);
        }
        anyhow::ensure!(begun.elapsed() < LIMIT, "{status}");
    }
}

#[test]
fn a_damaged_journal_of_a_queue_instance_is_told_and_cut_where_that_is_asked_for() -> Tested {
    const WHY: &str = "its journal is damaged (the instance around it started with --recover keeps what is whole): \
                       records 1..0 are whole, last acknowledged was";
    let instance = declared()?;
    instance.ok(&["run", "-q", "batch", "true"])?;
    let state = state_of(&instance, "batch")?;
    let waits = instance.submit(&["-q", "batch", "--urgency=hold", "true"])?;
    instance.shut_down()?;
    damage(&state)?;
    instance.start_again()?;
    let status = down(&instance, "batch")?;
    assert!(status.contains(WHY), "{status}");
    instance.ok(&["release", &waits])?;
    let row = instance.row(&waits)?;
    let reason = row["reason"].as_str().unwrap_or_default();
    let down = "waits for queue instance batch, which is down: its job ended 5 times";
    assert!(reason.starts_with(down), "{row}");
    let tried = instance.run(&["queue", "start", "batch"])?;
    assert_eq!(tried.code, 1, "{tried:?}");
    let line = tried.out.trim_end();
    assert!(
        line.starts_with("batch: instance `batch` is down: its job ended 5 times"),
        "{line}"
    );
    assert!(line.contains(WHY), "{line}");
    // It is nobody's to begin but the root's.
    let alone = [
        "start",
        "--recover",
        "--statedir",
        &state.to_string_lossy(),
        "true",
    ];
    let refused = instance.run(&alone)?;
    let line = refused.refusal()?;
    let root = instance.state().canonicalize()?;
    let inside = format!("is of an instance inside that of {}", root.display());
    assert!(line.contains(&inside), "{line}");
    // What was in the way is gone.
    fs::rename(&state, state.with_extension("aside"))?;
    let tried = instance.ok(&["queue", "start", "batch"])?;
    assert_eq!(tried.trim_end(), "batch: its instance is there again");
    assert_eq!(instance.code(&waits)?, 0);
    instance.shut_down()?;
    damage(&state)?;
    let mut recovering = instance.starting();
    recovering.arg("--recover");
    let ran = Running::start(recovering)?.wait()?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    instance.ok(&["run", "-q", "batch", "true"])?;
    instance.shut_down()
}

#[test]
fn a_job_of_a_queue_is_named_at_the_root_by_its_number() -> Tested {
    let instance = declared()?;
    assert_eq!(
        instance.ok(&["run", "-q", "batch", "echo", "batch"])?,
        "batch"
    );
    assert_eq!(
        instance.ok(&["run", "-q", "services", "echo", "here"])?,
        "here"
    );
    let failing = ["-q", "short", "sh", "-c", "echo out; echo err >&2; exit 3"];
    let job = instance.submit(&failing)?;
    let attached = instance.run(&["job", "attach", &job])?;
    assert_eq!(
        (attached.code, attached.out.as_str(), attached.err.trim()),
        (3, "out\n", "err")
    );
    assert_eq!(instance.code(&job)?, 3);
    assert_eq!(instance.row(&job)?["result"], "FAILED");
    assert_eq!(
        instance.events(&job)?.last().map(String::as_str),
        Some("clean")
    );
    // It is a job of that instance and of no other.
    let job = number(&instance, &job)?;
    assert!(numbers(&instance, &["-q", "short"])?.contains(&job));
    assert!(!numbers(&instance, &["-q", "batch"])?.contains(&job));
    let within = instance.ok(&["--at", "/debug", "job", "status", &job.to_string()]);
    assert!(within.is_err_and(|why| why.to_string().contains("exit code 3")));
    instance.shut_down()
}

#[test]
fn queue_instances_have_their_sockets_beside_those_of_the_root() -> Tested {
    let instance = declared()?;
    let beside = instance.place.path().join("run/eddy");
    assert_eq!(instance.socket().ancestors().nth(2), Some(beside.as_path()));
    for name in ["batch", "debug"] {
        instance.ok(&["--at", name, "ping"])?;
        let uri = fs::read_to_string(state_of(&instance, name)?.join("uri"))?;
        let socket = PathBuf::from(uri.trim().trim_start_matches("local://"));
        assert_eq!(socket.ancestors().nth(2), Some(beside.as_path()));
    }
    instance.shut_down()?;
    let left: Vec<_> = fs::read_dir(&beside)?.collect();
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

#[test]
fn a_job_of_a_queue_is_cancelled_and_waited_for_at_the_root() -> Tested {
    let instance = declared()?;
    let mut tells = instance.place.fifo("told")?;
    let script = "echo $$ >told; exec sleep 1000";
    let job = instance.submit(&["-q", "batch", "sh", "-c", script])?;
    let task = Process::of(tells.line()?.trim().parse()?).context("it has ended")?;
    let waits = instance.begin(&["job", "status", &job])?;
    instance.ok(&["cancel", &job])?;
    assert_eq!(waits.wait()?.code, 128 + 15);
    assert!(task.ends_within(LIMIT));
    let signalled = instance.submit(&["-q", "short", "sh", "-c", script])?;
    tells.line()?;
    instance.ok(&["job", "kill", "-s", "USR1", &signalled])?;
    assert_eq!(instance.code(&signalled)?, 128 + 10);
    let words = ["-q", "short", "--flags=waitable", "sh", "-c", "exit 4"];
    let collected = instance.submit(&words)?;
    let ran = instance.run(&["job", "wait", &collected])?;
    assert!(ran.refusal()?.ends_with(": exit code 4"), "{}", ran.err);
    let nested = ["batch", "-q", "batch", "--wait", "--quiet", "--output=none"];
    let nested = instance.run(&[&nested[..], &["--wrap", "exit 6"]].concat())?;
    assert_eq!(nested.code, 6, "{}", nested.err);
    instance.shut_down()
}

#[test]
fn an_instance_got_from_a_queue_is_reached_by_its_number() -> Tested {
    let instance = declared()?;
    let job = instance.ok(&["alloc", "-q", "batch", "-n1", "--bg"])?;
    assert_eq!(
        instance.ok(&["--at", &job, "run", "echo", "in it"])?,
        "in it"
    );
    let stage = ["-n", "-o", "{id.dec} {instance.stage}"];
    let here = format!("{} serving", number(&instance, &job)?);
    for listing in [&["jobs"][..], &["jobs", "-R"]] {
        let rows = instance.ok(&[listing, &stage].concat())?;
        assert!(rows.lines().any(|row| row == here), "{rows}");
    }
    instance.ok(&["shutdown", &job])?;
    assert_eq!(instance.code(&job)?, 0);
    let listing = ["jobs", "-a", "--no-header", "-o", "{name} {status}"];
    let over = instance.ok(&[&["--at", &job], &listing[..]].concat())?;
    assert_eq!(over, "echo COMPLETED");
    instance.shut_down()
}

#[test]
fn an_unknown_queue_is_refused_by_name() -> Tested {
    let instance = declared()?;
    for verb in ["submit", "run", "alloc"] {
        let ran = instance.run(&[verb, "-q", "night", "true"])?;
        let line = ran.refusal()?;
        assert!(line.contains("queue: `night` given, there are"), "{line}");
        for name in ["batch", "short", "services"] {
            assert!(line.contains(name), "{line}");
        }
    }
    instance.shut_down()
}

#[test]
fn submissions_outlive_the_leader_of_their_queue_and_each_runs_once() -> Tested {
    const SUBMITTERS: usize = 4;
    const EACH: usize = 50;
    let instance = declared()?;
    let mut tells = instance.place.fifo("told")?;
    instance.ok(&["run", "-q", "batch", "true"])?;
    let first = leader_of(&state_of(&instance, "batch")?)?;
    let script = format!(
        "i=0; while [ $i -lt {EACH} ]; do i=$((i+1)); \
         {eddy} submit -q batch sh -c 'echo $0 >>ran' $1.$i || exit; \
         [ $i != 10 ] || echo ten >told; done",
        eddy = instance.place.program()
    );
    let submitters: anyhow::Result<Vec<Running>> = (0..SUBMITTERS)
        .map(|one| {
            let mut command = instance.place.command("/bin/sh");
            command.env("EDDY_URI", instance.uri());
            command.args(["-c", &script, "sh", &one.to_string()]);
            Running::start(command)
        })
        .collect();
    let submitters = submitters?;
    tells.line()?;
    first.kill()?;
    let mut jobs = Vec::new();
    for submitter in submitters {
        let printed = submitter.wait()?.ok()?;
        jobs.extend(printed.lines().map(str::to_owned));
    }
    assert_eq!(jobs.len(), SUBMITTERS * EACH);
    assert_eq!(jobs.iter().collect::<BTreeSet<_>>().len(), jobs.len());
    let names: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let ended = instance.run(&[&["job", "status"], &names[..]].concat())?;
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_ne!(leader_of(&state_of(&instance, "batch")?)?, first);
    let ran = fs::read_to_string(instance.place.path().join("ran"))?;
    let once: BTreeSet<&str> = ran.lines().collect();
    assert_eq!((ran.lines().count(), once.len()), (jobs.len(), jobs.len()));
    instance.shut_down()
}

#[test]
fn queue_instances_keep_their_jobs_over_restarts_of_the_root() -> Tested {
    let instance = declared()?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let script = "echo $$ >told; read line <gate; echo ended";
    let runs = instance.submit(&["-q", "batch", "-n2", "sh", "-c", script])?;
    let waits = instance.submit(&["-q", "batch", "-n2", "echo", "waited"])?;
    let own = instance.submit(&["-q", "services", "true"])?;
    tells.line()?;
    tells.line()?;
    let state = state_of(&instance, "batch")?;
    let leader = leader_of(&state)?;
    // Its crash is nobody's end.
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    assert_eq!(leader_of(&state)?, leader);
    gate.let_go(2)?;
    assert_eq!(instance.ok(&["job", "attach", &runs])?, "ended\nended");
    assert_eq!(instance.ok(&["job", "attach", &waits])?, "waited\nwaited");
    let held = instance.submit(&["-q", "batch", "--urgency=hold", "echo", "later"])?;
    let before = numbers(&instance, &["-q", "batch"])?;
    let tree = instance.json(&["tree", "--json"])?;
    let children = tree["children"].as_array().context("children")?;
    let batch = children.iter().find(|child| child["name"] == "batch");
    let batch = batch.context("batch")?["job"].to_string();
    // An end in order ends its job; its next one has the same journal.
    instance.shut_down()?;
    instance.start_again()?;
    let after = instance.submit(&["-q", "batch", "echo", "after"])?;
    assert_eq!(instance.ok(&["job", "attach", &after])?, "after");
    // Its number before leads to who goes on with what it has left.
    let left = instance.ok(&["--at", &batch, "jobs", "-a", "-n", "-o", "{id.dec}"])?;
    let there = number(&instance, &after)?.to_string();
    assert!(left.lines().any(|job| job == there), "{left}");
    let all = numbers(&instance, &["-q", "batch"])?;
    assert!(
        before.iter().all(|job| all.contains(job)),
        "{before:?} {all:?}"
    );
    instance.ok(&["job", "urgency", &held, "16"])?;
    assert_eq!(instance.ok(&["job", "attach", &held])?, "later");
    let short = instance.submit(&["-q", "short", "true"])?;
    assert_eq!(instance.code(&short)?, 0);
    let mut seen = BTreeSet::from([number(&instance, &own)?]);
    let of_root = numbers(&instance, &["-q", "services"])?;
    let of_queues = [numbers(&instance, &["-q", "short"])?, all].concat();
    let count = of_queues.len() + of_root.iter().filter(|job| seen.insert(**job)).count();
    seen.extend(&of_queues);
    assert_eq!(seen.len(), count + 1, "{of_root:?} {of_queues:?}");
    assert!(number(&instance, &after)? > *before.iter().max().context("jobs")?);
    instance.shut_down()
}

#[test]
fn jobs_of_queues_are_the_roots_wherever_they_run() -> Tested {
    let instance = declared()?;
    for words in [
        &["account", "add", "physics"][..],
        &[
            "account",
            "add-user",
            "0",
            "--account",
            "physics",
            "--default",
        ],
        &["account", "edit", "physics", "--max-running-jobs", "1"],
    ] {
        instance.ok(words)?;
    }
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let script = "echo $EDDY_URI >told; read line <gate";
    let first = instance.submit(&["-q", "batch", "sh", "-c", script])?;
    // By the leader or by the rank of their node, whichever of the three the instance has.
    let (told, root) = (tells.line()?, instance.uri().trim_end_matches("/local"));
    assert!(told.starts_with(root), "its tasks know the root: {told}");
    // Another queue has room, and the limit of the account holds it all the same.
    let second = instance.submit(&["-q", "short", "echo", "second"])?;
    let why = instance.ok(&["why", &second])?;
    assert!(why.contains("running_jobs"), "{why}");
    let after = format!("--dependency=afterok:{first}");
    let third = instance.submit(&["-q", "services", &after, "echo", "third"])?;
    gate.let_go(1)?;
    assert_eq!(instance.ok(&["job", "attach", &second])?, "second");
    assert_eq!(instance.ok(&["job", "attach", &third])?, "third");
    for (job, passed) in [(&first, true), (&second, true), (&third, false)] {
        let events = instance.events(job)?;
        assert_eq!(
            events.iter().any(|name| name == "passed"),
            passed,
            "{events:?}"
        );
        assert_eq!(instance.row(job)?["account"], "physics");
    }
    instance.shut_down()
}

#[test]
fn a_stopped_leader_of_a_queue_holds_up_nobody_else() -> Tested {
    let instance = declared()?;
    instance.ok(&["run", "-q", "batch", "true"])?;
    let leader = leader_of(&state_of(&instance, "batch")?)?;
    leader.signal(Signal::STOP)?;
    let waits = instance.begin(&["run", "-q", "batch", "echo", "late"])?;
    assert_eq!(
        instance.ok(&["run", "-q", "short", "echo", "short"])?,
        "short"
    );
    assert_eq!(
        instance.ok(&["run", "-q", "services", "echo", "root"])?,
        "root"
    );
    leader.signal(Signal::CONT)?;
    assert_eq!(waits.wait()?.ok()?, "late\n");
    instance.shut_down()
}

#[test]
fn a_leader_that_says_nothing_is_taken_for_away_until_it_goes_on() -> Tested {
    let place = Place::new()?;
    let config = place.join("beating.toml");
    let beating = "[[instance]]\nname = \"a\"\nnodes = 1\nset = { \"grant.lease\" = \"4s\" }\n\
                   [[queue]]\nname = \"a\"\ninstance = \"a\"\n";
    fs::write(&config, beating)?;
    let state = place.path().join("state");
    let instance = Instance::start_in(place, state, &["--cores=2", "--config", &config])?;
    let over = ["batch", "-n1", "-q", "a", "--output=none", "--wrap", "true"];
    let over = instance.ok(&over)?;
    instance.ok(&["wait", &over])?;
    let leader = leader_of(&state_of(&instance, "a")?)?;
    leader.signal(Signal::STOP)?;
    let given = instance.submit(&["-q", "a", "true"])?;
    // A number that is the instance's: it is asked, and says nothing.
    let asked = instance.run(&["--reconnect=1s", "why", "3"])?;
    let silent = "queue instance a (job 1) is not reached";
    assert!(
        asked.code == 1 && asked.err.contains(silent),
        "{}",
        asked.err
    );
    let listed = instance.run(&["jobs", "-a", "--json"])?;
    let untold =
        format!("eddy jobs: what is left of instances that are over (1) is not known: {silent}");
    assert!(listed.err.contains(&untold), "{}", listed.err);
    let why = instance.ok(&["why", &given])?;
    assert!(why.contains("given to queue instance a at "), "{why}");
    let status = instance.ok(&["queue", "status", "a"])?;
    let last = status.lines().last().context("three lines")?;
    let unheard = "a: queue instance a did not say yet that 1 job runs, since ";
    assert!(last.starts_with(unheard), "{status}");
    let starts = "a: starts no jobs now: queue instance a is not reached";
    assert!(status.lines().any(|line| line == starts), "{status}");
    let list = instance.ok(&["queue", "list", "-n", "a"])?;
    let words: Vec<&str> = list.split_whitespace().take(4).collect();
    assert_eq!(words, ["a", "a", "yes", "away"]);
    let waits = instance.submit(&["-q", "a", "true"])?;
    let why = instance.ok(&["why", &waits])?;
    assert!(
        why.contains("waits for queue instance a, which is not reached"),
        "{why}"
    );
    leader.signal(Signal::CONT)?;
    instance.ok(&["wait", &given, &waits])?;
    instance.shut_down()
}

#[test]
fn jobs_that_name_no_queue_are_those_of_root_and_instances_are_not() -> Tested {
    let instance = declared()?;
    let over = instance.submit(&["true"])?;
    instance.ok(&["wait", &over])?;
    let job = instance.submit(&["sleep", "1000"])?;
    let listed = |states: &str| {
        let line = ["jobs", "-q", "root", "--no-header", states, "-o", "{id}"];
        let listed = instance.ok(&line)?;
        anyhow::Ok(
            listed
                .split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(listed("--filter=active")?, [&job[..]]);
    assert_eq!(listed("--filter=inactive")?, [&over[..]]);
    let drain = instance.begin(&["queue", "drain", "root", "--wait"])?;
    instance.ok(&["cancel", &job])?;
    drain.wait()?.ok()?;
    instance.shut_down()
}

#[test]
fn jobs_of_several_instances_are_named_in_one_command() -> Tested {
    let instance = declared()?;
    let jobs = [
        instance.submit(&["-q", "batch", "sh", "-c", "exit 3"])?,
        instance.submit(&["-q", "short", "sh", "-c", "exit 5"])?,
        instance.submit(&["-q", "services", "true"])?,
    ];
    let names: Vec<&str> = jobs.iter().map(String::as_str).collect();
    let ran = instance.run(&[&["job", "status", "-v"], &names[..]].concat())?;
    assert_eq!((ran.code, ran.err.lines().count()), (5, 3), "{}", ran.err);
    let listed = numbers(&instance, &names)?;
    let expected: anyhow::Result<BTreeSet<u64>> =
        jobs.iter().map(|job| number(&instance, job)).collect();
    assert_eq!(BTreeSet::from_iter(listed), expected?);
    let sleepers: anyhow::Result<Vec<String>> = ["batch", "short", "services"]
        .iter()
        .map(|queue| instance.submit_started(&["-q", queue, "sleep", "1000"]))
        .collect();
    let sleepers = sleepers?;
    let names: Vec<&str> = sleepers.iter().map(String::as_str).collect();
    instance.ok(&[&["cancel"], &names[..]].concat())?;
    let ran = instance.run(&[&["job", "status"], &names[..]].concat())?;
    assert_eq!(ran.code, 128 + 15, "{}", ran.err);
    for name in names {
        let again = instance.run(&["cancel", name])?;
        assert!(again.refusal()?.contains("it is over"), "{}", again.err);
    }
    instance.shut_down()
}

/// Jobs of a queue instance that are over and ended well, as its parent shows it.
fn completed(instance: &Instance, name: &str) -> anyhow::Result<u64> {
    let tree = instance.json(&["tree", "--json"])?;
    let children = tree["children"].as_array().context("children")?;
    let found = children.iter().find(|child| child["name"] == name);
    found
        .and_then(|child| child["completed"].as_u64())
        .context("a figure")
}

#[test]
fn figures_of_an_instance_outlive_its_leader() -> Tested {
    let instance = declared()?;
    for _ in 0..3 {
        instance.ok(&["run", "-q", "batch", "true"])?;
    }
    leader_of(&state_of(&instance, "batch")?)?.kill()?;
    instance.ok(&["run", "-q", "batch", "true"])?;
    // It is told to the parent a moment later.
    let until = Instant::now() + LIMIT;
    while completed(&instance, "batch")? < 4 && Instant::now() < until {}
    assert_eq!(completed(&instance, "batch")?, 4);
    instance.shut_down()
}

#[test]
fn an_id_that_is_nobodys_is_told_beside_those_that_are_acted_on() -> Tested {
    let instance = declared()?;
    let long = instance.submit_started(&["-q", "batch", "-n2", "sleep", "1000"])?;
    let ran = instance.run(&["--at", "batch", "cancel", &long, "f99999"])?;
    assert!(ran.refusal()?.contains("no such job"), "{}", ran.err);
    instance.event(&long, "clean")?;
    instance.shut_down()
}

#[test]
fn a_node_of_an_instance_of_a_fixed_size_is_not_taken_out_and_nothing_is_changed() -> Tested {
    let instance = declared()?;
    let long = instance.submit_started(&["-q", "batch", "-n2", "sleep", "1000"])?;
    let on = instance.row(&long)?["nodelist"]
        .as_str()
        .context("hosts")?
        .to_owned();
    let all = instance.json(&["resource", "status", "--json"])?;
    for how in ["--force", "--drain"] {
        let refused = instance.run(&["resource", "remove", how, &on])?;
        assert!(
            refused.refusal()?.contains("instance `batch`"),
            "{}",
            refused.err
        );
    }
    assert_eq!(instance.json(&["resource", "status", "--json"])?, all);
    assert_eq!(instance.row(&long)?["state"], "RUN");
    instance.ok(&["cancel", &long])?;
    instance.shut_down()
}

#[test]
fn who_was_ended_did_not_end_well_and_each_id_that_is_nobodys_is_told() -> Tested {
    let instance = declared()?;
    let ends = instance.submit_started(&["sh", "-c", "trap 'exit 0' TERM; sleep 1000 & wait"])?;
    let waiting = instance.begin(&["wait", &ends])?;
    instance.ok(&["cancel", &ends])?;
    assert_eq!(
        waiting.wait()?.refusal()?,
        format!("eddy wait: job {ends}: cancel")
    );
    let ran = instance.run(&["hold", "90001", "90002"])?;
    assert_eq!((ran.code, ran.err.lines().count()), (1, 2), "{}", ran.err);
    let none = instance.run(&["hold", "90001-90003"])?;
    assert!(none.refusal()?.contains("nor any up to"), "{}", none.err);
    instance.shut_down()
}

#[test]
fn what_a_job_wrote_in_an_instance_that_was_taken_out_is_told_as_missing() -> Tested {
    let instance = declared()?;
    let job = instance.submit(&["-q", "batch", "echo", "hi"])?;
    assert_eq!(instance.code(&job)?, 0);
    assert_eq!(instance.ok(&["job", "attach", &job])?, "hi");
    instance.shut_down()?;
    fs::write(instance.place.join("declared.toml"), "")?;
    instance.start_again()?;
    let attached = instance.run(&["job", "attach", &job])?;
    assert_eq!((attached.code, attached.out.as_str()), (1, ""));
    let told = format!(
        "eddy job attach: what job {job} wrote is not shown: jobs: those named were of the instance \
         `batch`, which is over"
    );
    assert_eq!(attached.err.trim_end(), told);
    instance.shut_down()
}
