//! The tree of ranks of one instance from outside: what is asked of ranks, what
//! becomes of agents that are killed, stopped or taken out, and what waits for a
//! leader.

use std::fs;
use std::time::Duration;

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::{LIMIT, Running};
use rustix::process::Signal;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// Between two signals to a command that is to obey the second.
const AGAIN: Duration = Duration::from_millis(100);

/// Four nodes of this machine with a core each.
fn four() -> anyhow::Result<Instance> {
    Instance::start(&["--size=4", "--cores=1"])
}

/// The agent of that rank: of those who name its state directory the one that
/// none of the others started.
fn agent(instance: &Instance, rank: u32) -> anyhow::Result<Process> {
    let statedir = format!("{}/ranks/{rank}", instance.state().display());
    let mut found = instance.place.processes();
    found.retain(|process| process.is_eddy("agent") && process.arguments.contains(&statedir));
    let numbers: Vec<i32> = found.iter().map(|process| process.pid).collect();
    found.retain(|process| !numbers.contains(&process.parent));
    let first = found.first().cloned();
    first.with_context(|| format!("no agent of rank {rank} runs"))
}

/// Where clients of that rank connect, as `--at` takes it.
fn at(instance: &Instance, rank: u32) -> String {
    format!("{}/ranks/{rank}", instance.state().display())
}

/// What a job over four ranks prints, sorted.
fn on_all(instance: &Instance) -> anyhow::Result<Vec<String>> {
    let out = instance.ok(&["run", "-N4", "-n4", "sh", "-c", "echo on $EDDY_TASK_RANK"])?;
    let mut lines: Vec<String> = out.lines().map(ToOwned::to_owned).collect();
    lines.sort_unstable();
    Ok(lines)
}

#[test]
fn ranks_answer_for_themselves_from_everywhere() -> Tested {
    let instance = four()?;
    let status = instance.ok(&["overlay", "status"])?;
    assert_eq!(status, "full        4  0-3");
    let on_two = at(&instance, 2);
    for asked in [1, 3] {
        let rank = asked.to_string();
        let pong = instance.ok(&["ping", &rank])?;
        assert!(
            pong.starts_with(&format!("rank {asked} instance ")),
            "{pong}"
        );
        let pong = instance.ok(&["--at", &on_two, "ping", &rank])?;
        assert!(
            pong.starts_with(&format!("rank {asked} instance ")),
            "{pong}"
        );
        for from in [&[][..], &["--at", &on_two]] {
            let links = [from, &["overlay", "links", "-r", &rank, "--json"]].concat();
            let links: Value = instance.json(&links)?;
            let up = &links[0];
            let seen = (
                up["peer"].as_u64(),
                up["is_up"].as_bool(),
                up["state"].as_str(),
            );
            assert_eq!(seen, (Some(0), Some(true), Some("open")), "{links}");
        }
    }
    let none = instance.run(&["ping", "9"])?;
    assert!(
        none.refusal()?
            .contains("no rank 9 in this instance, whose ranks are 0-3"),
        "{}",
        none.err
    );
    instance.shut_down()
}

#[test]
fn a_job_over_all_ranks_tells_the_worst_code_and_heals_after_a_killed_agent() -> Tested {
    let instance = four()?;
    let exits = "echo on $EDDY_TASK_RANK; exit $EDDY_TASK_RANK";
    let ran = instance.run(&["run", "-N4", "-n4", "sh", "-c", exits])?;
    assert_eq!((ran.code, ran.out.lines().count()), (3, 4), "{}", ran.err);
    let first = agent(&instance, 3)?;
    first.kill()?;
    assert_eq!(on_all(&instance)?, ["on 0", "on 1", "on 2", "on 3"]);
    assert_ne!(agent(&instance, 3)?.pid, first.pid);
    assert_eq!(instance.ok(&["overlay", "status"])?, "full        4  0-3");
    instance.shut_down()
}

#[test]
fn whoever_asks_a_rank_without_leader_is_told_and_answered_later() -> Tested {
    let instance = four()?;
    let on_one = at(&instance, 1);
    instance.kill_leader()?;
    let asks = ["-c", "exec \"$@\" 2>&1", "sh", &instance.place.program()];
    let mut waits = instance.place.command("/bin/sh");
    waits.args(asks).args(["--at", &on_one, "jobs"]);
    let waits = Running::start(waits)?;
    waits.prints("eddy: waiting for the leader of the rank at ")?;
    waits.prints("which has no way up\n")?;
    instance.start_again()?;
    let ran = waits.wait()?;
    assert_eq!(ran.code, 0, "{}", ran.out);
    assert_eq!(ran.out.matches("waiting for").count(), 1, "{}", ran.out);
    instance.shut_down()
}

#[test]
fn exec_on_a_rank_that_is_lost_says_so_and_is_given_up_at_once() -> Tested {
    let instance = four()?;
    let stopped = agent(&instance, 2)?;
    stopped.signal(Signal::STOP)?;
    let waits = instance.begin(&["exec", "-r", "2", "hostname"])?;
    let given_up = instance.begin(&["exec", "-r", "2", "hostname"])?;
    while instance
        .ok(&["jobs", "--no-header", "-f", "run"])?
        .lines()
        .count()
        < 2
    {}
    given_up.signal(Signal::TERM)?;
    while given_up.signal(Signal::TERM).is_ok() && !given_up.ends_within(AGAIN) {}
    assert_eq!(given_up.wait()?.code, 128 + 15);
    let lost = waits.wait()?;
    assert_eq!(lost.code, 68, "{}", lost.err);
    assert!(
        lost.err.contains("rank 2") && lost.err.contains("is not reached any more"),
        "{}",
        lost.err
    );
    stopped.signal(Signal::CONT)?;
    assert_eq!(on_all(&instance)?.len(), 4);
    instance.shut_down()
}

#[test]
fn an_agent_that_is_stopped_does_not_outlive_its_removal() -> Tested {
    let instance = four()?;
    let added = instance.ok(&["overlay", "add", "1"])?;
    assert_eq!(added, "4");
    let out = instance.ok(&["run", "-N5", "-n5", "echo", "fine"])?;
    assert_eq!(out.lines().count(), 5);
    let stopped = agent(&instance, 4)?;
    stopped.signal(Signal::STOP)?;
    instance.ok(&["overlay", "remove", "4"])?;
    assert!(stopped.ends_within(LIMIT), "it is killed");
    assert_eq!(on_all(&instance)?.len(), 4);
    instance.shut_down()
}

#[test]
fn nodes_come_and_go_as_resources() -> Tested {
    let instance = four()?;
    let added = instance.ok(&["resource", "add", "2"])?;
    assert!(added.starts_with("ranks 4-5: "), "{added}");
    let hosts = added.trim_start_matches("ranks 4-5: ").to_owned();
    assert!(hosts.ends_with("[4-5]"), "{added}");
    let first = instance.submit_started(&["-N6", "-n6", "sleep", "600"])?;
    let held = instance.run(&["resource", "remove", "5"])?;
    assert_eq!(held.code, 1);
    let host = hosts.replace("[4-5]", "5");
    assert_eq!(
        held.refusal()?,
        format!(
            "eddy resource remove: ranks 5 ({host}) are held by {first}; --drain waits for their end, --force ends them"
        )
    );
    let wrong = instance.run(&["resource", "remove", "9"])?;
    assert_eq!(
        wrong.refusal()?,
        "eddy resource remove: ranks 9: there are no such ranks; there are 0-5"
    );
    // Whoever says two words means both.
    for verb in [&["remove", "--force"][..], &["drain"], &["dead"]] {
        let two = [&["resource"][..], verb, &["4", "5"]].concat();
        let refused = instance.run(&two)?;
        let why = "`5` after `4` names nodes; targets are one word (`4,5`)";
        assert!(refused.refusal()?.contains(why), "{}", refused.err);
    }
    let waiting = instance.begin(&["resource", "remove", "--drain", "4", "a new fan"])?;
    waiting.prints("drained; waiting for")?;
    let status = instance.ok(&["resource", "status", "-n"])?;
    assert!(status.contains("a new fan"), "{status}");
    instance.ok(&["resource", "remove", "--force", &host])?;
    let gone = waiting.wait()?;
    assert_eq!(gone.code, 0, "{}", gone.err);
    assert_eq!(instance.code(&first)?, 143);
    assert_eq!(on_all(&instance)?.len(), 4);
    // The leader's own node stays, and what runs there goes on.
    let on_all = instance.submit_started(&["-N4", "-n4", "sleep", "600"])?;
    for how in ["--drain", "--force"] {
        let own = instance.run(&["resource", "remove", how, "0-3"])?;
        let line = own.refusal()?;
        assert!(
            line.contains("which are on the leader's own node"),
            "{line}"
        );
        let status = instance.ok(&["resource", "status", "-n"])?;
        assert!(!status.contains("to be removed"), "{status}");
    }
    assert_eq!(instance.row(&on_all)?["state"], json!("RUN"));
    instance.ok(&["cancel", &on_all])?;
    instance.shut_down()
}

#[test]
fn an_agent_of_no_inventory_is_told_which_ranks_there_are() -> Tested {
    let instance = four()?;
    let pong = instance.json(&["ping", "--json"])?;
    let id = pong["instance"].as_str().context("an id")?;
    let door = instance.socket().with_file_name("door");
    let mut command = instance.place.command("/bin/sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh", &instance.place.program()]);
    command.args(["agent", "--statedir", &instance.place.join("other")]);
    command
        .args(["--rank=9", "--instance", id, "--leader"])
        .arg(door);
    let stray = Running::start(command)?;
    stray.prints("rank 9 is not in the inventory, which has 0-3")?;
    stray.signal(Signal::TERM)?;
    assert_eq!(stray.wait()?.code, 0);
    instance.shut_down()
}

/// The agent on the leader's own node, which only hosts, outlives a leader, and the next has nothing for it to do.
#[test]
fn nothing_lies_about_of_an_agent_that_outlived_its_leader_and_was_killed() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=1"])?;
    let inside = instance.ok(&["alloc", "--bg", "-N1", "--requires=rank:1"])?;
    instance.ok(&["--at", &inside, "grant", "ask", "--wait", "-N1"])?;
    instance.ok(&["cancel", &inside])?;
    instance.event(&inside, "clean")?;
    instance.kill_leader()?;
    instance.start_again()?;
    let hosts = |one: &Process| one.arguments.iter().any(|word| word == "--hosts-only");
    let agents = instance.place.processes();
    let agent = agents.iter().find(|one| hosts(one));
    agent.context("an agent that hosts")?.kill()?;
    instance.shut_down()?;
    let run = instance.place.path().join("run/eddy");
    let left: Vec<_> = fs::read_dir(&run)?.collect();
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}
