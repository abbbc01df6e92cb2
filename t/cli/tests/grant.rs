//! What an instance holds while it runs, with real processes: a node that is lost leaves it, and is
//! its own again where the instance is declared.

use std::fs;

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;

type Tested = anyhow::Result<()>;

/// A queue whose instance holds two nodes.
const DECLARED: &str = r#"
[[instance]]
name = "batch"
ranks = "0-1"

[[queue]]
name = "batch"
instance = "batch"
"#;

/// Which of these jobs of the instance at that path runs on the root's node of that number.
fn on_node(instance: &Instance, at: &str, jobs: &[String], number: u32) -> anyhow::Result<usize> {
    let rows = ["--at", at, "jobs", "--no-header", "-o", "{id} {nodelist}"];
    let rows = instance.ok(&rows)?;
    let is_on = |job: &String| {
        let mut rows = rows.lines();
        rows.any(|row| row.starts_with(job.as_str()) && row.ends_with(&format!("-{number}")))
    };
    jobs.iter().position(is_on).with_context(|| rows.clone())
}

#[test]
fn a_workflow_goes_on_without_the_node_that_it_lost() -> Tested {
    let instance = Instance::start(&["--size=3", "--cores=2"])?;
    let inside = instance.ok(&["alloc", "--bg", "-N3", "-n3", "--exclusive"])?;
    let sleep = [
        "--at",
        &inside,
        "submit",
        "--wait-event=start",
        "-N1",
        "-n1",
        "-c2",
    ];
    let jobs: Vec<String> = (0..3)
        .map(|_| instance.ok(&[&sleep[..], &["sleep", "1000"]].concat()))
        .collect::<anyhow::Result<_>>()?;
    let lost = on_node(&instance, &inside, &jobs, 1)?;
    let waits = instance.submit(&["-N1", "-c2", "--exclusive", "true"])?;
    instance.shell_on(1)?.kill()?;
    // What it gave back is for who waits, as soon as the node is back.
    instance.event(&waits, "clean")?;
    let over = instance.run(&["--at", &inside, "job", "status", &jobs[lost]])?;
    assert_ne!(over.code, 0);
    for job in jobs.iter().filter(|job| **job != jobs[lost]) {
        instance.ok(&["--at", &inside, "cancel", job])?;
        instance.ok(&["--at", &inside, "job", "wait-event", job, "clean"])?;
    }
    let listed = instance.ok(&["--at", &inside, "resource", "list", "--no-header"])?;
    assert!(listed.contains("4"), "{listed}");
    assert_eq!(instance.row(&inside)?["nnodes"], 2);
    instance.ok(&["--at", &inside, "run", "-N2", "-n2", "true"])?;
    instance.shut_down()
}

#[test]
fn a_queue_instance_has_its_node_again_when_that_is_back() -> Tested {
    let place = Place::new()?;
    let config = place.join("queue.toml");
    fs::write(&config, DECLARED)?;
    let state = place.path().join("state");
    let options = ["--size=3", "--cores=2", "--config", &config];
    let instance = Instance::start_in(place, state, &options)?;
    let sleep = ["-q", "batch", "-N1", "-n1", "-c2", "sleep", "1000"];
    let jobs = [
        instance.submit_started(&sleep)?,
        instance.submit_started(&sleep)?,
    ];
    let lost = on_node(&instance, "batch", &jobs, 1)?;
    instance.shell_on(1)?.kill()?;
    instance.event(&jobs[lost], "clean")?;
    instance.ok(&["run", "-q", "batch", "-N1", "-c2", "true"])?;
    assert_eq!(instance.row(&jobs[1 - lost])?["state"], "RUN");
    instance.shut_down()
}

#[test]
fn nodes_go_back_when_nothing_runs_there_any_more() -> Tested {
    let instance = Instance::start(&["--size=3", "--cores=2"])?;
    let inside = instance.ok(&["alloc", "--bg", "-N3", "-n3", "--exclusive"])?;
    let at = |words: &[&str]| instance.ok(&[&["--at", &inside], words].concat());
    let sleep = [
        "submit",
        "--wait-event=start",
        "-N1",
        "-n1",
        "-c2",
        "sleep",
        "1000",
    ];
    let jobs = [at(&sleep)?, at(&sleep)?, at(&sleep)?];
    let busy = on_node(&instance, &inside, &jobs, 2)?;
    let own = instance.run(&["--at", &inside, "grant", "release", "0"])?;
    assert!(
        own.refusal()?
            .contains("nodes: ranks 0 given, where the instance's leader is")
    );
    let much = instance.run(&["--at", &inside, "grant", "release", "--count", "3"])?;
    assert!(
        much.refusal()?
            .contains("nodes: 3 given, allowed are 1 to 2")
    );
    assert_eq!(at(&["grant", "release", "2"])?, "2");
    let rows = at(&["grant", "list", "--no-header"])?;
    assert!(rows.lines().any(|row| row.ends_with("leaving")), "{rows}");
    let waits = instance.submit(&["-N1", "-c2", "--exclusive", "true"])?;
    assert_eq!(instance.row(&waits)?["state"], "SCHED");
    // Killing its leader in between changes nothing: what goes back is recorded.
    let leads = |one: &Process| one.arguments.iter().any(|word| word == "--child");
    let mut leaders = instance.place.processes();
    leaders.retain(leads);
    leaders[0].kill()?;
    at(&["cancel", &jobs[busy]])?;
    instance.event(&waits, "clean")?;
    assert_eq!(instance.row(&inside)?["nnodes"], 2);
    for job in jobs.iter().filter(|job| **job != jobs[busy]) {
        at(&["cancel", job])?;
    }
    at(&["run", "-N2", "-n2", "true"])?;
    // The other, of which nobody said which.
    assert_eq!(at(&["grant", "release", "--count", "1"])?, "1");
    instance.ok(&["run", "-N2", "-n2", "-c2", "--exclusive", "true"])?;
    let root = instance.run(&["grant", "list"])?;
    assert!(
        root.refusal()?
            .contains("this instance is no job of another")
    );
    instance.shut_down()
}

#[test]
fn idle_nodes_go_back_by_themselves() -> Tested {
    let instance = Instance::start(&["--size=4", "--cores=2"])?;
    let wrong = ["alloc", "--bg", "-N3", "--release-idle=soon"];
    let wrong = instance.run(&wrong)?;
    assert!(wrong.refusal()?.contains("--release-idle: `soon` given"));
    let few = ["alloc", "--bg", "-N3", "--keep-nodes=2"];
    assert_ne!(instance.run(&few)?.code, 0, "it says nothing by itself");
    let inside = instance.ok(&[
        "alloc",
        "--bg",
        "-N4",
        "--exclusive",
        "--release-idle=0.2s",
        "--keep-nodes=2",
    ])?;
    instance.ok(&["run", "-N2", "-n2", "-c2", "--exclusive", "true"])?;
    assert_eq!(instance.row(&inside)?["nnodes"], 2);
    instance.shut_down()
}

#[test]
fn nodes_stay_for_jobs_that_wait_for_others_or_are_held() -> Tested {
    let instance = Instance::start(&["--size=3", "--cores=2"])?;
    // Longer than a few commands take on a busy machine.
    let alloc = ["alloc", "--bg", "-N3", "--release-idle=3s"];
    let inside = instance.ok(&alloc)?;
    let inside = inside.trim_end();
    let at = |words: &[&str]| instance.ok(&[&["--at", inside, "submit"], words].concat());
    // Longer than nodes may be idle.
    let narrow = at(&["-n1", "sleep", "4"])?;
    let after = format!("--dependency=afterok:{}", narrow.trim_end());
    let wide = at(&["-N3", "-n3", &after, "true"])?;
    let held = at(&["-N2", "-n2", "--urgency=hold", "true"])?;
    let code = |job: &str| {
        let status = ["--at", inside, "job", "status", job.trim_end()];
        Ok::<_, anyhow::Error>(instance.run(&status)?.code)
    };
    assert_eq!(code(&wide)?, 0);
    instance.ok(&["--at", inside, "release", held.trim_end()])?;
    assert_eq!(code(&held)?, 0);
    instance.shut_down()
}

/// A queue whose instance is given what its jobs ask for, and one that the root serves.
const ELASTIC: &str = r#"
[[instance]]
name = "batch"
elastic = "all"

[[queue]]
name = "batch"
instance = "batch"

[[queue]]
name = "own"
instance = "root"
"#;

#[test]
fn what_a_workflow_in_a_queue_gives_back_is_for_others() -> Tested {
    let place = Place::new()?;
    let config = place.join("queue.toml");
    fs::write(&config, ELASTIC)?;
    let state = place.path().join("state");
    let options = ["--size=4", "--cores=2", "--config", &config];
    let instance = Instance::start_in(place, state, &options)?;
    let whole = ["alloc", "--bg", "-q", "batch", "-N4", "-n4", "--exclusive"];
    let inside = instance.ok(&whole)?;
    let waits = instance.submit(&["-q", "batch", "-N1", "-n2", "true"])?;
    assert_eq!(instance.row(&waits)?["state"], "SCHED");
    let released = instance.ok(&["--at", &inside, "grant", "release", "--count", "1"])?;
    assert_eq!(released.lines().count(), 1, "{released}");
    instance.event(&waits, "clean")?;
    assert_eq!(instance.row(&inside)?["nnodes"], 3);
    // What the root gives itself, while the leader of the queue's instance is gone and comes back.
    let leads = |one: &Process| one.arguments.iter().any(|word| word == "--child");
    let mut leaders = instance.place.processes();
    leaders.retain(leads);
    instance.ok(&["--at", &inside, "grant", "release", "--count", "1"])?;
    leaders[0].kill()?;
    instance.ok(&[
        "run",
        "-q",
        "own",
        "-N2",
        "-n2",
        "-c2",
        "--exclusive",
        "true",
    ])?;
    assert_eq!(instance.row(&inside)?["nnodes"], 2);
    instance.ok(&["--at", &inside, "run", "-N2", "-n2", "true"])?;
    instance.ok(&["cancel", &inside])?;
    instance.event(&inside, "clean")?;
    instance.ok(&["run", "-q", "batch", "-N4", "-n4", "-c2", "true"])?;
    instance.shut_down()
}

#[test]
fn a_workflow_grows_by_a_job_of_the_instance_around_it() -> Tested {
    let instance = Instance::start(&["--size=4", "--cores=2"])?;
    let inside = instance.ok(&["alloc", "--bg", "-N1", "-n2", "--exclusive"])?;
    let at = |words: &[&str]| instance.ok(&[&["--at", &inside], words].concat());
    let other = instance.submit_started(&["-N3", "-n3", "-c2", "sleep", "1000"])?;
    let more = at(&["grant", "ask", "-N2", "-n2", "-c2", "-t", "1h"])?;
    assert_eq!(instance.row(&more)?["state"], "SCHED");
    let wide = instance.run(&["--at", &inside, "run", "-N2", "-n2", "true"])?;
    assert_ne!(wide.code, 0, "it is one node yet");
    instance.ok(&["cancel", &other])?;
    instance.event(&more, "start")?;
    // Its nodes are there when that has ended which waits for them; those of `more` came before.
    let third = at(&["grant", "ask", "--wait", "-N1", "-c2"])?;
    at(&["run", "-N2", "-n2", "-c2", "true"])?;
    let rows = at(&["grant", "list", "--no-header"])?;
    assert_eq!(rows.lines().count(), 4, "{rows}");
    let by = |job: &str| rows.lines().filter(|row| row.ends_with(job)).count();
    assert_eq!((by(&more), by(&third)), (2, 1), "{rows}");
    let much = instance.run(&["--at", &inside, "grant", "ask", "-N4", "-c2"])?;
    let line = much.refusal()?;
    assert!(line.contains("nodes"), "{line}");
    // The job is cancelled: what runs on its nodes ends first, the rest goes on.
    let sleep = [
        "submit",
        "--wait-event=start",
        "-N1",
        "-n1",
        "-c2",
        "sleep",
        "1000",
    ];
    let jobs: Vec<String> = (0..4).map(|_| at(&sleep)).collect::<anyhow::Result<_>>()?;
    instance.ok(&["cancel", &more])?;
    instance.event(&more, "clean")?;
    let active = at(&["jobs", "--no-header", "-o", "{id}"])?;
    assert_eq!(active.lines().count(), 2, "{active} of {jobs:?}");
    instance.ok(&["run", "-N2", "-n2", "-c2", "--exclusive", "true"])?;
    // With the instance goes what it has grown by.
    instance.ok(&["shutdown", &inside])?;
    instance.event(&third, "clean")?;
    instance.ok(&["run", "-N4", "-n4", "-c2", "--exclusive", "true"])?;
    instance.shut_down()
}

#[test]
fn an_instance_asks_for_nodes_beside_those_of_a_fixed_one() -> Tested {
    let place = Place::new()?;
    let file = place.path().join("eddy.toml");
    fs::write(&file, DECLARED)?;
    let (file, state) = (file.display().to_string(), place.path().join("state"));
    let options = ["--size=4", "--cores=1", "--config", &file];
    let instance = Instance::start_in(place, state, &options)?;
    let inside = instance.ok(&["alloc", "--bg", "-N1"])?;
    // It names no node: all but its own would do, of which two are another's.
    instance.ok(&["--at", &inside, "grant", "ask", "--wait", "-N1"])?;
    let tree = instance.ok(&["tree"])?;
    assert!(tree.lines().any(|line| line.contains(" 2 ")), "{tree}");
    instance.ok(&["--at", &inside, "run", "-N2", "true"])?;
    let elsewhere = instance.run(&["submit", "--requires=rank:0", "true"])?;
    assert!(
        elsewhere.refusal()?.contains("instances of a fixed size"),
        "{}",
        elsewhere.err
    );
    instance.shut_down()
}

#[test]
fn what_an_instance_asks_for_that_has_a_part_of_every_node_says_why_it_waits() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=2"])?;
    let inside = instance.ok(&["alloc", "--bg", "-N1", "-n1"])?;
    let other = instance.submit_started(&["-N1", "-n1", "-c2", "sleep", "1000"])?;
    // Both could be had when they were asked for, and the first takes what there was.
    let ask = || instance.ok(&["--at", &inside, "grant", "ask", "-N1", "-n1"]);
    let (first, more) = (ask()?, ask()?);
    instance.ok(&["cancel", &other])?;
    instance.event(&first, "start")?;
    let reason = format!(
        "waits for nodes on which job {inside} has nothing yet: it has a part of every node"
    );
    let said = || -> anyhow::Result<bool> { Ok(instance.row(&more)?["reason"] == reason) };
    anyhow::ensure!(within_limit(said)?, "{}", instance.row(&more)?);
    let why = instance.ok(&["why", &more])?;
    assert!(why.contains(&format!("  reason: {reason}")), "{why}");
    instance.ok(&["cancel", &first])?;
    instance.event(&more, "start")?;
    instance.shut_down()
}

/// Whether something comes to be so.
fn within_limit(mut is_so: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<bool> {
    let until = std::time::Instant::now() + eddy_cli_tests::running::LIMIT;
    while std::time::Instant::now() < until {
        if is_so()? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[test]
fn an_instance_that_waits_again_is_not_kept_back_by_what_it_asked_for() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=1"])?;
    for account in ["a", "b"] {
        instance.ok(&["account", "add", account])?;
        instance.ok(&["account", "add-user", "root", "--account", account])?;
    }
    let other = ["--account=b", "-t", "10m", "sleep", "600"];
    instance.submit_started(&other)?;
    let inside = instance.ok(&["alloc", "--bg", "-N1", "-t", "10m", "--account=a"])?;
    let ask = instance.ok(&["--at", &inside, "grant", "ask", "-N1"])?;
    instance.ok(&["account", "edit", "a", "--max-running-jobs", "1"])?;
    // Who goes before it takes its node.
    let before = instance.submit(&[&["--urgency=31"], &other[..]].concat())?;
    instance.ok(&["job", "requeue", &inside])?;
    instance.event(&before, "start")?;
    let why = instance.ok(&["why", &ask])?;
    let waits = format!("job {inside}, the instance that is to grow by it, to run");
    assert!(why.contains(&waits), "{why}");
    assert!(!why.contains("at once"), "{why}");
    instance.ok(&["cancel", &before])?;
    instance.ok(&["job", "wait-event", "-c2", &inside, "start"])?;
    instance.ok(&["job", "wait-event", "-c2", &inside, "adopt"])?;
    let why = instance.ok(&["why", &ask])?;
    assert!(why.contains("limit `running_jobs` of account `a`"), "{why}");
    instance.ok(&["account", "edit", "a", "--max-running-jobs", "none"])?;
    instance.ok(&["cancel", "--all"])?;
    instance.shut_down()
}
