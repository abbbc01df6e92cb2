//! `eddy start --size N`: ranks with agents and shells of their own, as if each
//! were a host, and what becomes of jobs over them when processes are killed.

use std::collections::BTreeSet;
use std::fs::File;

use anyhow::Context;
use eddy_cli_tests::fifo::Fifo;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::{LIMIT, Running};
use rustix::process::Signal;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// A task that tells its process and waits to be let go; then `and` happens.
fn gated(and: &str) -> String {
    format!("echo $$ >told; read line <gate; {and}")
}

fn told(line: anyhow::Result<String>) -> anyhow::Result<Process> {
    let pid = line?.trim().parse()?;
    Process::of(pid).ok_or_else(|| anyhow::anyhow!("task {pid} has ended"))
}

/// Four nodes of this machine with two cores each.
fn four() -> anyhow::Result<Instance> {
    Instance::start(&["--size=4", "--cores=2"])
}

/// The process `eddy VERB` of that rank.
fn of_rank(instance: &Instance, verb: &str, rank: u32) -> anyhow::Result<Process> {
    let statedir = format!("{}/ranks/{rank}", instance.state().display());
    let mut found = instance.place.processes();
    found.retain(|process| process.is_eddy(verb) && process.arguments.contains(&statedir));
    let numbers: Vec<i32> = found.iter().map(|process| process.pid).collect();
    found.retain(|process| !numbers.contains(&process.parent));
    let first = found.first().cloned();
    first.with_context(|| format!("no `eddy {verb}` of rank {rank} runs"))
}

fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn a_shell_that_has_not_come_when_its_instance_ends_does_not_stay() -> Tested {
    let place = Place::new()?;
    let state = place.path().join("state");
    let rank = state.join("ranks/1");
    std::fs::create_dir_all(&rank)?;
    let mut log = Fifo::make(rank.join("log"))?;
    // The shell waits for its lock a while before it says anything to anybody.
    let lock = File::create(rank.join("shell.lock"))?;
    lock.lock()?;
    let options = ["--size=2", "--cores=2", "-S", "quorum.ranks=1"];
    let instance = Instance::start_in(place, state, &options)?;
    while !log.line()?.contains("a shell was started") {}
    instance.ok(&["shutdown"])?;
    drop(lock);
    instance.place.nothing_is_left()
}

#[test]
fn tasks_run_on_every_rank_and_reach_the_instance_from_there() -> Tested {
    let instance = four()?;
    let place = "echo $EDDY_TASK_RANK $EDDY_URI";
    let out = instance.ok(&["run", "-N4", "-n4", "sh", "-c", place])?;
    let ranks: Vec<&str> = lines(&out).iter().map(|line| &line[..1]).collect();
    assert_eq!(ranks, ["0", "1", "2", "3"], "{out}");
    let uris: BTreeSet<&str> = out
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .collect();
    assert_eq!(uris.len(), 4, "each rank has a socket of its own: {out}");
    let eddy = instance.place.program();
    let script = format!("{eddy} run -n1 echo from $EDDY_TASK_RANK && {eddy} ping >/dev/null");
    let out = instance.ok(&["run", "-N4", "-n4", "sh", "-c", &script])?;
    assert_eq!(lines(&out), ["from 0", "from 1", "from 2", "from 3"]);
    instance.shut_down()
}

#[test]
fn input_reaches_all_ranks_and_output_comes_from_all() -> Tested {
    let instance = four()?;
    let run = instance.eddy(&["run", "-N4", "-n4", "cat"]);
    let out = Running::start_with_input(run, b"one\ntwo\n")?
        .wait()?
        .ok()?;
    assert_eq!(lines(&out), [["one"; 4], ["two"; 4]].concat());
    let much = "i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done";
    let out = instance.ok(&["run", "-N4", "-n4", "sh", "-c", much])?;
    assert_eq!(out.lines().count(), 8000);
    Ok(())
}

#[test]
fn a_cancel_reaches_all_ranks() -> Tested {
    let instance = four()?;
    let (mut tells, _gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let job = instance.submit(&["-N4", "-n4", "sh", "-c", &gated("true")])?;
    let tasks: anyhow::Result<Vec<Process>> = (0..4).map(|_| told(tells.line())).collect();
    instance.ok(&["cancel", &job])?;
    assert!(tasks?.iter().all(|task| task.ends_within(LIMIT)));
    assert_eq!(instance.code(&job)?, 128 + 15);
    Ok(())
}

#[test]
fn tasks_go_on_without_their_agent_and_it_comes_back() -> Tested {
    let instance = four()?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let script = gated("echo ended $EDDY_TASK_RANK");
    let run = instance.begin(&["run", "-N4", "-n4", "sh", "-c", &script])?;
    let tasks: anyhow::Result<Vec<Process>> = (0..4).map(|_| told(tells.line())).collect();
    let first = of_rank(&instance, "agent", 2)?;
    first.kill()?;
    // What needs that rank waits until its agent is back.
    let on_all = instance.begin(&["run", "-N4", "-n4", "true"])?;
    assert_eq!(on_all.wait()?.code, 0);
    assert_ne!(of_rank(&instance, "agent", 2)?.pid, first.pid);
    assert!(
        tasks?.iter().all(|task| task.hold().is_some()),
        "they went on"
    );
    gate.let_go(4)?;
    let ran = run.wait()?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        lines(&ran.out),
        ["ended 0", "ended 1", "ended 2", "ended 3"]
    );
    instance.shut_down()
}

#[test]
fn all_ranks_outlive_the_leader() -> Tested {
    let instance = four()?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let script = gated("echo ended $EDDY_TASK_RANK");
    let run = instance.begin(&["run", "-N4", "-n4", "sh", "-c", &script])?;
    let tasks: anyhow::Result<Vec<Process>> = (0..4).map(|_| told(tells.line())).collect();
    let agent = of_rank(&instance, "agent", 3)?;
    instance.kill_leader()?;
    gate.let_go(2)?;
    instance.start_again()?;
    assert_eq!(of_rank(&instance, "agent", 3)?.pid, agent.pid);
    gate.let_go(2)?;
    drop(tasks?);
    let ran = run.wait()?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert_eq!(
        lines(&ran.out),
        ["ended 0", "ended 1", "ended 2", "ended 3"]
    );
    assert_eq!(
        instance.ok(&["run", "-N4", "-n4", "echo", "fine"])?,
        ["fine"; 4].join("\n")
    );
    instance.shut_down()
}

#[test]
fn a_killed_shell_ends_its_jobs_and_names_its_rank() -> Tested {
    let instance = four()?;
    let (mut tells, _gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let job = instance.submit(&["-N4", "-n4", "sh", "-c", &gated("true")])?;
    let tasks: anyhow::Result<Vec<Process>> = (0..4).map(|_| told(tells.line())).collect();
    of_rank(&instance, "shell", 2)?.kill()?;
    assert!(tasks?.iter().all(|task| task.ends_within(LIMIT)));
    assert_ne!(instance.code(&job)?, 0);
    let row = instance.row(&job)?;
    let why = row["reason"].as_str().unwrap_or_default();
    assert!(why.contains("node-failure") && why.contains('2'), "{row}");
    assert_eq!(
        instance.ok(&["run", "-N4", "-n4", "echo", "fine"])?,
        ["fine"; 4].join("\n")
    );
    Ok(())
}

#[test]
fn a_node_that_is_put_back_while_its_removal_waits_stays() -> Tested {
    let instance = four()?;
    let job = instance.submit_started(&["--requires=rank:3", "sleep", "3000"])?;
    let removal = instance.begin(&["resource", "remove", "--drain", "3"])?;
    removal.prints("waiting for")?;
    instance.ok(&["resource", "undrain", "3"])?;
    instance.ok(&["cancel", &job])?;
    let ended = removal.wait()?;
    assert!(
        ended.refusal()?.contains("nothing is removed"),
        "{}",
        ended.err
    );
    instance.ok(&["run", "-N4", "-n4", "true"])?;
    instance.shut_down()
}

#[test]
fn a_removal_waits_for_the_node_and_not_for_who_was_there() -> Tested {
    let instance = four()?;
    let inner = instance.ok(&["alloc", "--bg", "-N2", "-n2", "-x", "--requires=rank:2-3"])?;
    let inner = inner.trim();
    let removal = instance.begin(&["resource", "remove", "--drain", "3"])?;
    removal.prints("waiting for")?;
    instance.ok(&["--at", inner, "grant", "release", "1"])?;
    assert_eq!(removal.wait()?.code, 0);
    assert_eq!(instance.row(inner)?["state"], json!("RUN"));
    let job = instance.submit_started(&["-N2", "-n2", "-x", "--requeue", "sleep", "3000"])?;
    let removal = instance.begin(&["resource", "remove", "--drain", "1"])?;
    removal.prints("waiting for")?;
    instance.ok(&["cancel", inner])?;
    instance.event(inner, "clean")?;
    instance.ok(&["job", "requeue", &job])?;
    assert_eq!(removal.wait()?.code, 0);
    // On what is left it begins again, and is there to be cancelled.
    instance.ok(&["cancel", &job])?;
    instance.shut_down()
}

#[test]
fn nodes_are_drained_by_rank_and_by_host() -> Tested {
    let instance = four()?;
    let hosts = instance.ok(&["run", "-N4", "-n4", "sh", "-c", "echo $EDDY_TASK_RANK"])?;
    assert_eq!(hosts.lines().count(), 4);
    instance.ok(&["resource", "drain", "1", "by rank"])?;
    let listed = instance.ok(&["resource", "list"])?;
    let free = listed.lines().find(|line| line.starts_with("free"));
    assert!(free.is_some_and(|line| line.contains(" 3 ")), "{listed}");
    let host = listed
        .split_whitespace()
        .find_map(|word| word.split_once("-[").map(|(name, _)| format!("{name}-2")))
        .or_else(|| {
            listed
                .split_whitespace()
                .find_map(|word| word.split_once('[').map(|(name, _)| format!("{name}2")))
        })
        .with_context(|| listed.clone())?;
    instance.ok(&["resource", "drain", &host, "by host"])?;
    let listed = instance.ok(&["resource", "list"])?;
    let free = listed.lines().find(|line| line.starts_with("free"));
    assert!(free.is_some_and(|line| line.contains(" 2 ")), "{listed}");
    // One of them was not drained.
    let undrain = instance.run(&["resource", "undrain", "1-3"])?;
    let told = "3: not drained before; the others are back in service";
    assert!(
        undrain.code == 0 && undrain.err.trim_end().ends_with(told),
        "{}",
        undrain.err
    );
    let none = instance.run(&["resource", "undrain", "1-3"])?;
    assert!(
        none.refusal()?.ends_with("ranks 1-3 are not drained"),
        "{}",
        none.err
    );
    assert_eq!(instance.run(&["run", "-N4", "-n4", "true"])?.code, 0);
    // Whoever changes nodes is told of by name.
    instance.ok(&["resource", "add", "1"])?;
    instance.ok(&["run", "-N5", "-n5", "true"])?;
    let userid = json!(rustix::process::geteuid().as_raw());
    let audit = instance.json(&["audit", "--json"])?;
    let lines = audit.as_array().context("an array")?;
    let by = |event: &str, userid: &Value| {
        let is_it = |line: &&Value| line["event"] == event && line["uid"] == *userid;
        lines.iter().filter(is_it).count()
    };
    assert_eq!(by("undrain", &Value::Null) + by("drain", &Value::Null), 0);
    assert!(by("undrain", &userid) > 0, "{audit}");
    assert_eq!(by("resource-define", &userid), 1, "{audit}");
    Ok(())
}

#[test]
fn a_start_says_which_shells_are_missing_and_goes_on() -> Tested {
    let instance = four()?;
    instance.shut_down()?;
    let start = Running::start({
        let mut command = instance.starting();
        command.args(["-S", "quorum.timeout=0s"]);
        command
    })?
    .wait()?;
    assert_eq!(start.code, 0);
    assert!(
        start.err.contains("no shell yet on ranks 0-3"),
        "{}",
        start.err
    );
    assert_eq!(instance.run(&["run", "-N4", "-n4", "true"])?.code, 0);
    Ok(())
}

#[test]
fn a_size_that_is_not_that_of_the_nodes_is_refused() -> Tested {
    let place = Place::new()?;
    let ran = place.run(&["start", "--size=4", "--fake=nodes=3", "true"])?;
    assert_ne!(ran.code, 0);
    assert!(
        ran.err.contains("--size: is 4; allowed is 3"),
        "{}",
        ran.err
    );
    let ran = place.run(&["start", "--size=2000", "true"])?;
    assert_ne!(ran.code, 0);
    Ok(())
}

#[test]
fn sixty_four_made_up_ranks_start_run_and_end() -> Tested {
    for transport in ["zeromq", "stream"] {
        let set = format!("rank.transport={transport}");
        let instance = Instance::start(&["--size=64", "--fake=cores=2", "-S", &set])?;
        assert_eq!(instance.run(&["run", "-N64", "-n128", "true"])?.code, 0);
        let agents = instance.place.processes();
        let agents = agents.iter().filter(|process| process.is_eddy("agent"));
        assert_eq!(agents.count(), 63);
        instance.shut_down()?;
    }
    Ok(())
}

#[test]
fn a_node_that_is_declared_dead_gives_its_jobs_up_and_is_cleared_when_it_comes_back() -> Tested {
    let instance = four()?;
    let (mut tells, _gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let script = gated("true");
    let words = ["-N4", "-n4", "--exclusive", "sh", "-c", &script];
    let job = instance.submit(&words)?;
    let tasks: anyhow::Result<Vec<Process>> = (0..4).map(|_| told(tells.line())).collect();
    let refused = instance.run(&["resource", "dead", "2"])?;
    assert!(
        refused.refusal()?.contains("ranks 2 are in service"),
        "{refused:?}"
    );
    let (agent, shell) = (
        of_rank(&instance, "agent", 2)?,
        of_rank(&instance, "shell", 2)?,
    );
    for process in [&agent, &shell] {
        process.signal(Signal::STOP)?;
    }
    // It counts as there until it was silent for long enough.
    let rank = |field: &str| -> anyhow::Result<Value> {
        let rows = instance.json(&["resource", "status", "--json"])?;
        Ok(rows[2][field].clone())
    };
    while rank("state")? != "offline" {}
    instance.ok(&["resource", "dead", "2", "burnt"])?;
    assert_eq!(rank("drain")?["reason"], "burnt");
    assert_ne!(instance.code(&job)?, 0);
    let row = instance.row(&job)?;
    let why = row["reason"].as_str().unwrap_or_default();
    assert!(why.contains("node-failure"), "{row}");
    assert!(why.contains("declared rank 2 dead: burnt"), "{row}");
    instance.ok(&["resource", "dead", "2"])?;
    assert_eq!(rank("drain")?["reason"], "burnt", "nothing else is said");
    let still = tasks?.into_iter().filter(|task| task.hold().is_some());
    let still: Vec<Process> = still.collect();
    assert_eq!(
        still.len(),
        1,
        "nobody reaches the one on that node: {still:?}"
    );
    for process in [&agent, &shell] {
        process.signal(Signal::CONT)?;
    }
    assert!(
        still[0].ends_within(LIMIT),
        "it is killed when that is back"
    );
    instance.ok(&["resource", "undrain", "2"])?;
    assert_eq!(
        instance.ok(&["run", "-N4", "-n4", "echo", "fine"])?,
        ["fine"; 4].join("\n")
    );
    instance.shut_down()
}

#[test]
fn a_shell_that_hangs_is_ended_when_its_node_is_declared_dead_by_force() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=2"])?;
    let (mut tells, _gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let script = gated("true");
    let words = ["-N2", "-n2", "--exclusive", "sh", "-c", &script];
    let job = instance.submit(&words)?;
    let tasks = [told(tells.line())?, told(tells.line())?];
    // A task may speak before its shell has said that it runs.
    instance.event(&job, "start")?;
    let shell = of_rank(&instance, "shell", 1)?;
    shell.signal(Signal::STOP)?;
    let refused = instance.run(&["resource", "dead", "1", "stuck"])?;
    let way = "`resource dead --force` ends a shell that hangs";
    assert!(refused.refusal()?.contains(way), "{refused:?}");
    let refused = instance.run(&["resource", "dead", "--force", "0"])?;
    let own = "ranks 0 are on the leader's own node";
    assert!(refused.refusal()?.contains(own), "{refused:?}");
    instance.ok(&["resource", "dead", "--force", "1", "stuck"])?;
    assert_ne!(instance.code(&job)?, 0);
    let row = instance.row(&job)?;
    let why = row["reason"].as_str().unwrap_or_default();
    assert!(why.contains("declared rank 1 dead: stuck"), "{row}");
    let why = instance.ok(&["why", &job])?;
    assert!(
        why.contains("  ended:  as one of its nodes was lost on "),
        "{why}"
    );
    assert!(shell.ends_within(LIMIT));
    assert!(tasks.iter().all(|task| task.ends_within(LIMIT)));
    instance.ok(&["resource", "undrain", "1"])?;
    let echo = instance.ok(&["run", "-N2", "-n2", "echo", "fine"])?;
    assert_eq!(echo, "fine\nfine");
    instance.shut_down()
}
