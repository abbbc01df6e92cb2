//! What decides when a job may start, with real processes: other jobs, times, names, arrays, holds.

use std::time::Instant;

use anyhow::Context;
use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::program;
use eddy_cli_tests::running::{LIMIT, Running};
use rustix::process::Signal;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

fn states(instance: &Instance, jobs: &[&str]) -> anyhow::Result<Vec<Value>> {
    jobs.iter()
        .map(|job| Ok(instance.row(job)?["state"].clone()))
        .collect()
}

fn reason(instance: &Instance, job: &str) -> anyhow::Result<String> {
    Ok(instance.row(job)?["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

#[test]
fn a_chain_goes_on_over_a_killed_leader() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let mut gate = instance.place.fifo("gate")?;
    let first = instance.submit_started(&["sh", "-c", "read line <gate; exit 0"])?;
    let after = |scheme: &str, job: &str| format!("--dependency={scheme}:{job}");
    let second = instance.submit(&[&after("afterok", &first), "true"])?;
    let third = instance.submit(&[&after("afterok", &second), "sh", "-c", "exit 3"])?;
    let never = instance.submit(&[&after("afterok", &third), "true"])?;
    let rescue = instance.submit(&[&after("afternotok", &third), "true"])?;
    assert_eq!(
        reason(&instance, &second)?,
        format!("waits for job {first} to end well")
    );
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(states(&instance, &[&second, &third])?, ["DEPEND", "DEPEND"]);
    gate.let_go(1)?;
    assert_eq!(instance.code(&rescue)?, 0);
    assert_eq!(instance.code(&third)?, 3);
    assert_eq!(instance.code(&never)?, 1);
    assert_eq!(
        reason(&instance, &never)?,
        format!("dependency: it waited for job {third} to end well, which failed")
    );
    // All of them are over: the journal is asked.
    instance.kill_leader()?;
    instance.start_again()?;
    let late = instance.submit(&[&after("afterok", &second), "true"])?;
    assert_eq!(instance.code(&late)?, 0);
    let refused = instance.run(&["submit", "--dependency=afterok:999", "true"])?;
    assert!(
        refused.refusal()?.contains("no such job here"),
        "{}",
        refused.err
    );
    let path = instance.run(&["submit", "--dependency=afterok:12/3", "true"])?;
    assert!(
        path.err.contains("there is no such job here"),
        "{}",
        path.err
    );
    Ok(())
}

#[test]
fn the_end_of_a_job_in_an_instance_is_waited_for() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let mut gate = instance.place.fifo("gate")?;
    let outer = instance.ok(&["alloc", "--bg", "-n3"])?;
    let inner = |words: &[&str]| instance.ok(&[&["--at", &outer, "submit"], words].concat());
    let well = inner(&["sh", "-c", "read line <gate; exit 0"])?;
    let badly = inner(&["sh", "-c", "read line <gate; exit 3"])?;
    let long = inner(&["sleep", "1000"])?;
    let after = |scheme: &str, job: &str| format!("--dependency={scheme}:{outer}/{job}");
    let ok = instance.submit(&[&after("afterok", &well), "true"])?;
    let failed = instance.submit(&[&after("afternotok", &badly), "true"])?;
    let never = instance.submit(&[&after("afterok", &badly), "true"])?;
    let unknown = instance.submit(&[&after("afterany", "f99"), "true"])?;
    let end = instance.submit(&[&after("afterany", &long), "true"])?;
    assert_eq!(
        reason(&instance, &ok)?,
        format!("waits for job {outer}/{well} to end well")
    );
    // A new leader asks anew.
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    gate.let_go(2)?;
    assert_eq!(instance.code(&ok)?, 0);
    assert_eq!(instance.code(&failed)?, 0);
    assert_eq!(instance.code(&never)?, 1);
    let why = reason(&instance, &never)?;
    assert!(why.ends_with("to end well, which failed"), "{why}");
    assert_eq!(instance.code(&unknown)?, 1);
    let why = reason(&instance, &unknown)?;
    assert!(why.ends_with("which its instance does not know"), "{why}");
    // It ends with its instance, and that is an end, too.
    instance.ok(&["cancel", &outer])?;
    assert_eq!(instance.code(&end)?, 0);
    // What it has left tells, as long as it is there.
    let late = instance.submit(&[&after("afterok", &well), "true"])?;
    assert_eq!(instance.code(&late)?, 0);
    std::fs::remove_dir_all(instance.state_of("1.1")?)?;
    let later = instance.submit(&[&after("afterany", &well), "true"])?;
    assert_eq!(instance.code(&later)?, 0);
    instance.shut_down()
}

#[test]
fn the_end_of_a_job_in_an_instance_counts_though_the_root_was_away() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let (mut gate, mut began) = (instance.place.fifo("gate")?, instance.place.fifo("began")?);
    let task = "echo here >began; read line <gate; exit 0";
    let script = format!(
        "{} submit --quiet --wait sh -c '{task}'",
        program::eddy()?.display()
    );
    let outer = instance.ok(&["batch", "-n1", "--output=none", "--wrap", &script])?;
    let inner = format!("{outer}/2");
    began.line()?;
    let after = |scheme: &str| {
        let dependency = format!("--dependency={scheme}:{inner}");
        instance.submit(&[&dependency, "true"])
    };
    let (well, badly) = (after("afterok")?, after("afternotok")?);
    let leader = leader_of(&instance.state_of("1.1")?)?;
    leader_of(instance.state())?.kill()?;
    gate.let_go(1)?;
    assert!(leader.ends_within(LIMIT), "{leader}");
    instance.start_again()?;
    assert_eq!(instance.code(&well)?, 0);
    assert_eq!(instance.code(&badly)?, 1);
    let why = reason(&instance, &badly)?;
    assert!(why.ends_with("which ended well"), "{why}");
    instance.shut_down()
}

#[test]
fn a_job_of_an_instance_that_is_requeued_is_waited_for_in_its_next_attempt() -> Tested {
    let instance = Instance::start(&["--cores=4"])?;
    let (mut gate, mut began) = (instance.place.fifo("gate")?, instance.place.fifo("began")?);
    let task = "echo here >began; read line <gate; exit 0";
    let eddy = program::eddy()?.display().to_string();
    let script = format!("{eddy} submit --quiet --wait sh -c '{task}'");
    let outer = instance.ok(&["batch", "-n1", "--output=none", "--wrap", &script])?;
    let inner = format!("{outer}/2");
    began.line()?;
    let after = |scheme: &str| {
        let dependency = format!("--dependency={scheme}:{inner}");
        instance.submit(&[&dependency, "true"])
    };
    let (well, badly, over) = (after("afterok")?, after("afternotok")?, after("afterany")?);
    let waiting = instance.begin(&["wait", &inner])?;
    instance.ok(&["job", "requeue", &outer])?;
    began.line()?;
    assert_eq!(
        states(&instance, &[&well, &badly, &over])?,
        ["DEPEND", "DEPEND", "DEPEND"]
    );
    gate.let_go(1)?;
    assert_eq!(waiting.wait()?.code, 0);
    assert_eq!(instance.code(&well)?, 0);
    assert_eq!(instance.code(&over)?, 0);
    assert_eq!(instance.code(&badly)?, 1);
    instance.shut_down()
}

#[test]
fn a_begin_time_is_kept_over_a_killed_leader() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let later = instance.submit(&["--begin-time=+1h", "true"])?;
    let soon = instance.submit(&["--begin-time=+1s", "true"])?;
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.code(&soon)?, 0);
    let row = instance.row(&soon)?;
    let time = |name: &str| row[name].as_f64().unwrap_or_default();
    assert!(time("t_alloc") - time("t_submit") >= 0.9, "{row}");
    assert!(reason(&instance, &later)?.starts_with("waits for its begin time 20"));
    instance.ok(&["cancel", &later])?;
    Ok(())
}

#[test]
fn a_begin_time_is_shown_as_on_the_wall_of_who_looks() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let job = instance.submit(&["--begin-time=2099-01-01T12:00:00Z", "true"])?;
    let east = |words: &[&str]| {
        let mut command = instance.place.command(instance.place.program());
        command.env("EDDY_URI", instance.uri());
        command.env("TZ", "EAST-9").args(words);
        Running::start(command)
    };
    let told = "waits for its begin time 2099-01-01T21:00:00";
    for words in [
        &["why", &job][..],
        &["jobs", "--no-header", "-o", "{reason}"],
    ] {
        let shown = east(words)?.wait()?.ok()?;
        assert!(shown.contains(told), "{words:?}: {shown}");
    }
    let waiting = east(&["alloc", "--begin-time=2099-01-01T12:00:00Z", "true"])?;
    waiting.complains(&format!("{told}\n"))?;
    waiting.signal(Signal::TERM)?;
    waiting.wait()?;
    instance.ok(&["cancel", &job])?;
    Ok(())
}

#[test]
fn an_array_keeps_to_its_throttle_and_knows_its_numbers() -> Tested {
    let instance = Instance::start(&["--cores=8"])?;
    let script = "mkdir lock || exit 9; echo $EDDY_ARRAY_JOB_ID/$EDDY_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT >>out; rmdir lock";
    instance.ok(&[
        "submit",
        "--quiet",
        "--wait",
        "--array=0-20:5%1",
        "sh",
        "-c",
        script,
    ])?;
    let out = std::fs::read_to_string(instance.place.path().join("out"))?;
    assert_eq!(out, "1/0/5\n1/5/5\n1/10/5\n1/15/5\n1/20/5\n");
    Ok(())
}

#[test]
fn jobs_of_a_set_are_held_released_and_cancelled_together() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let mut gate = instance.place.fifo("gate")?;
    let holder = instance.submit_started(&["sh", "-c", "read line <gate"])?;
    instance.ok(&[
        "submit",
        "--job-set=night",
        "--urgency=20",
        "--cc=1-3",
        "true",
    ])?;
    let other = instance.submit(&["true"])?;
    let held = instance.run(&["hold", "--job-set=night"])?;
    assert_eq!((held.code, held.err.as_str()), (0, "eddy hold: 3 jobs\n"));
    gate.let_go(1)?;
    assert_eq!(instance.code(&other)?, 0, "the others are passed");
    let rows = instance.json(&["jobs", "--job-set=night", "--json"])?;
    let rows = rows.as_array().cloned().unwrap_or_default();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(row["urgency"], 0);
        assert!(
            row["reason"]
                .as_str()
                .unwrap_or_default()
                .contains("eddy release"),
            "{row}"
        );
    }
    let one = rows[0]["f58"].as_str().unwrap_or_default();
    instance.ok(&["release", one])?;
    assert_eq!(instance.code(one)?, 0);
    assert_eq!(
        instance.row(one)?["urgency"],
        20,
        "it has the one from before"
    );
    instance.ok(&["cancel", "--job-set=night"])?;
    let over = instance.json(&["jobs", "-a", "--job-set=night", "--json"])?;
    let results: Vec<&Value> = over
        .as_array()
        .into_iter()
        .flatten()
        .map(|row| &row["result"])
        .collect();
    assert_eq!(
        results
            .iter()
            .filter(|result| **result == "CANCELED")
            .count(),
        2
    );
    assert_eq!(instance.code(&holder)?, 0);
    Ok(())
}

#[test]
fn copies_are_named_by_the_id_of_any_of_them() -> Tested {
    let instance = Instance::start(&[
        "--fake",
        "nodes=1,cores=8",
        "-S",
        "exec.test.run_duration=3000s",
    ])?;
    let printed = instance.ok(&["submit", "--urgency=0", "--array=2-10:4", "true"])?;
    let jobs: Vec<&str> = printed.lines().collect();
    assert_eq!(jobs.len(), 3);
    let alone = instance.submit(&["--urgency=0", "true"])?;
    let all = |job: &str| format!("{job}_all");
    let urgencies = || -> anyhow::Result<Vec<Value>> {
        let rows = jobs.iter().copied().chain([alone.as_str()]);
        rows.map(|job| Ok(instance.row(job)?["urgency"].clone()))
            .collect()
    };
    instance.ok(&["release", &all(jobs[1])])?;
    assert_eq!(urgencies()?, [json!(16), json!(16), json!(16), json!(0)]);
    // The second has the number 6.
    instance.ok(&["cancel", &format!("{}_6", jobs[2])])?;
    instance.event(jobs[1], "clean")?;
    assert_eq!(instance.row(jobs[1])?["result"], json!("CANCELED"));
    let after = format!("--dependency=afterany:{}", all(jobs[0]));
    let after = instance.submit(&[&after, "true"])?;
    let reason = instance.row(&after)?["reason"].to_string();
    assert!(
        reason.contains(jobs[0]) && reason.contains(jobs[2]),
        "{reason}"
    );
    instance.ok(&["cancel", &all(jobs[2])])?;
    let ends = instance.run(&["wait", "--json", &all(jobs[0])])?;
    let ends: Value = serde_json::from_str(&ends.out)?;
    let results: Vec<&Value> = ends
        .as_array()
        .context("an array")?
        .iter()
        .map(|end| &end["result"])
        .collect();
    assert_eq!(results, [&json!("CANCELED"); 3]);
    instance.event(&after, "start")?;
    for (wrong, why) in [
        (format!("{alone}_3"), "is the copy with that number"),
        (format!("{}_x", jobs[0]), "allowed are"),
        ("99_all".to_owned(), "there is no job f2i"),
    ] {
        let refused = instance.run(&["cancel", &wrong])?;
        assert!(refused.refusal()?.contains(why), "{}", refused.err);
    }
    Ok(())
}

#[test]
fn a_job_takes_the_time_that_is_left_if_it_says_so_and_is_refused_otherwise() -> Tested {
    let root = Instance::start(&["--cores=1"])?;
    let mut gate = root.place.fifo("gate")?;
    let inside = root.ok(&["alloc", "-n1", "-t10m", "--bg"])?;
    let at = |words: &[&str]| root.run(&[&["--at", &inside], words].concat());
    let ok = |words: &[&str]| Ok::<_, anyhow::Error>(at(words)?.ok()?.trim_end().to_owned());
    let refused = at(&["submit", "-t20m", "true"])?;
    let line = refused.refusal()?;
    let given = "attributes.system.duration: 1200.000000 s given";
    let left = line
        .strip_prefix(&format!("eddy submit: {given}, this instance has "))
        .and_then(|rest| rest.strip_suffix(" s left for jobs"));
    let left: f64 = left.with_context(|| line.to_owned())?.parse()?;
    // The last five seconds are to end its jobs in.
    assert!((500.0..=595.0).contains(&left), "{left}");
    let script = ["sh", "-c", "read line <gate"];
    let takes = ok(&[&["submit", "-t20m", "--fit-remaining"], &script[..]].concat())?;
    let rows: Value = serde_json::from_str(&ok(&["jobs", "--json", &takes])?)?;
    let limit = rows[0]["duration"].as_f64();
    let is_cut = |limit| (500.0..=left).contains(&limit);
    assert!(limit.is_some_and(is_cut), "{rows} {left}");

    // Who asked for less has waited until that is too much.
    let waits = ok(&["submit", "-t5m", "true"])?;
    root.ok(&["update", &inside, "duration=4m"])?;
    let late = "reason: would not have ended when the instance ends its last jobs, at ";
    let begun = Instant::now();
    while !ok(&["why", &waits])?.contains(late) {
        anyhow::ensure!(begun.elapsed() < LIMIT, "it does not hear when it ends");
    }
    gate.let_go(1)?;
    assert_eq!(at(&["job", "status", &takes])?.code, 0);
    assert!(ok(&["why", &waits])?.contains(late), "a core is free");
    ok(&["update", &waits, "duration=1m"])?;
    assert_eq!(at(&["job", "status", &waits])?.code, 0);
    root.ok(&["shutdown", &inside])?;
    Ok(())
}
