//! Jobs that are suspended and go on, with real processes: everything of a job stops, its cores are
//! others', it goes on on other cores, and its time limit is as much later.

use std::time::{Duration, Instant};

use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until a job stands so.
fn stands(instance: &Instance, job: &str, standing: &str) -> Tested {
    let begun = Instant::now();
    loop {
        let row = instance.row(job)?;
        if row["standing"] == json!(standing) {
            return Ok(());
        }
        anyhow::ensure!(begun.elapsed() < PATIENCE, "not {standing}: {row}");
    }
}

/// Of a process: its state letter and the processors that it may run on.
fn process(pid: &str) -> anyhow::Result<(String, String)> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    let state = field("State:").chars().take(1).collect();
    Ok((state, field("Cpus_allowed_list:")))
}

/// A job that runs a process and one that left its session, whose numbers it wrote to a file.
fn family(
    instance: &Instance,
    options: &[&str],
    file: &str,
) -> anyhow::Result<(String, Vec<String>)> {
    let script = format!(
        "setsid sleep 1000 & sleep 1000 & echo $$ > {file}.new; jobs -p >> {file}.new; \\
         mv {file}.new {file}; wait"
    );
    let command = ["sh", "-c", &script];
    let job = instance.submit_started(&[options, &command].concat())?;
    let begun = Instant::now();
    loop {
        if let Ok(text) = std::fs::read_to_string(file) {
            return Ok((job, text.lines().map(str::to_owned).collect()));
        }
        anyhow::ensure!(begun.elapsed() < PATIENCE, "the job did not write {file}");
    }
}

fn all_are(pids: &[String], letter: &str) -> Tested {
    for pid in pids {
        let (state, _) = process(pid)?;
        anyhow::ensure!(state == letter, "process {pid} of {pids:?} is {state}");
    }
    Ok(())
}

/// Waits until none of them is stopped.
fn go_on(pids: &[String]) -> Tested {
    let begun = Instant::now();
    let is_stopped = |pid: &String| process(pid).is_ok_and(|(state, _)| state == "T");
    while pids.iter().any(is_stopped) {
        anyhow::ensure!(begun.elapsed() < PATIENCE, "something stays stopped");
    }
    Ok(())
}

#[test]
fn all_of_it_stops_and_goes_on_on_cores_that_are_free() -> Tested {
    let instance = Instance::start(&["--cores=2"])?;
    let file = instance.state().join("pids").display().to_string();
    let (job, pids) = family(&instance, &["-c1"], &file)?;
    assert_eq!(pids.len(), 3, "{pids:?}");
    let before = process(&pids[0])?;
    instance.ok(&["suspend", &job])?;
    stands(&instance, &job, "suspended")?;
    all_are(&pids, "T")?;
    let shown = instance.ok(&[
        "jobs",
        "--no-header",
        "-o",
        "{status} {standing} {ncores} {reason}",
        &job,
    ])?;
    let hint = format!("SUSPENDED suspended 0 it is suspended (`eddy resume {job}` lets it go on)");
    assert_eq!(shown.trim(), hint);

    // Its core is another's, and so it goes on on the other one.
    let other = instance.submit_started(&["-c1", "sleep", "1000"])?;
    instance.ok(&["resume", &job])?;
    stands(&instance, &job, "runs")?;
    go_on(&pids)?;
    if before.1 == "0" {
        for pid in &pids {
            assert_eq!(process(pid)?.1, "1", "process {pid} of {pids:?}");
        }
    }
    instance.ok(&["suspend", &job])?;
    stands(&instance, &job, "suspended")?;
    instance.ok(&["cancel", &job, &other])?;
    assert_eq!(instance.code(&job)?, 128 + 15);
    // What has ended may wait to be reaped.
    let lives = |pid: &&String| process(pid).is_ok_and(|(state, _)| state != "Z");
    assert_eq!(pids.iter().filter(lives).count(), 0, "of {pids:?}");
    Ok(())
}

#[test]
fn its_limit_does_not_run_and_it_stays_so_though_its_leader_dies() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let job = instance.submit_started(&["-t4s", "-c1", "sleep", "3"])?;
    instance.ok(&["suspend", &job])?;
    instance.kill_leader()?;
    instance.start_again()?;
    stands(&instance, &job, "suspended")?;
    // Longer than the limit, on its core.
    let other = instance.submit(&["-c1", "sleep", "5"])?;
    assert_eq!(instance.code(&other)?, 0);
    let next = instance.submit_started(&["-c1", "sleep", "1000"])?;
    instance.ok(&["resume", &job])?;
    let why = instance.ok(&["why", &job])?;
    assert!(why.contains("waits for 1 core of ranks 0"), "{why}");
    instance.kill_leader()?;
    instance.start_again()?;
    instance.ok(&["cancel", &next])?;
    assert_eq!(instance.code(&job)?, 0);
    let row: Value = instance.row(&job)?;
    assert!(
        row["suspended"]
            .as_f64()
            .is_some_and(|seconds| seconds > 4.9),
        "{row}"
    );
    Ok(())
}

#[test]
fn what_cannot_be_suspended_is_refused_by_its_reason() -> Tested {
    let instance = Instance::start(&["--cores=1"])?;
    let job = instance.submit_started(&["-c1", "sleep", "1000"])?;
    let waits = instance.submit(&["-c1", "true"])?;
    let refused = |words: &[&str], why: &str| -> Tested {
        let ran = instance.run(words)?;
        let said = ran.refusal()?;
        assert!(said.contains(why), "{words:?}: {said}");
        Ok(())
    };
    refused(&["suspend"], "no jobs given")?;
    refused(&["suspend", &waits], "it is not running")?;
    refused(&["resume", &waits], "it is not running")?;
    refused(&["suspend", "f99999"], "there is no such job")?;
    instance.ok(&["suspend", &job])?;
    stands(&instance, &job, "suspended")?;
    refused(
        &["job", "kill", "-s", "CONT", &job],
        "`resume` lets it go on",
    )?;
    // Said twice, each is what it was.
    instance.ok(&["suspend", &job])?;
    instance.ok(&["resume", "--all"])?;
    instance.ok(&["resume", &job])?;
    instance.ok(&["cancel", "--all"])?;
    Ok(())
}

#[test]
fn a_job_of_a_qos_that_is_suspended_stops_for_another_and_goes_on_by_itself() -> Tested {
    let place = Place::new()?;
    let file = place.path().join("eddy.toml");
    let config = "[[qos]]\nname = \"high\"\npreempts = [\"low\"]\n\n[[qos]]\nname = \"low\"\nmode = \"suspend\"\n";
    std::fs::write(&file, config)?;
    let (file, state) = (file.display().to_string(), place.path().join("state"));
    let instance = Instance::start_in(place, state, &["--cores=2", "--config", &file])?;
    let pids = instance.state().join("pids").display().to_string();
    let (low, pids) = family(&instance, &["--qos=low", "-c2"], &pids)?;
    let mut gate = instance.place.fifo("gate")?;
    let high = instance.submit(&["--qos=high", "-c2", "sh", "-c", "read line <gate"])?;
    instance.event(&high, "start")?;
    all_are(&pids, "T")?;
    let row = instance.row(&low)?;
    assert_eq!(
        (&row["state"], &row["attempt"], &row["preemptions"]),
        (&json!("RUN"), &json!(1), &json!(0))
    );
    assert_eq!(row["preempted"]["mode"], json!("suspend"));
    instance.kill_leader()?;
    instance.start_again()?;
    let why = instance.ok(&["why", &low])?;
    assert!(
        why.contains("it gave its cores the last time at")
            && why.contains(&format!("for job {high}: QoS high preempts QoS low")),
        "{why}"
    );
    gate.let_go(1)?;
    assert_eq!(instance.code(&high)?, 0);
    stands(&instance, &low, "runs")?;
    go_on(&pids)?;
    instance.ok(&["cancel", &low])?;
    Ok(())
}

#[test]
fn a_job_in_a_queue_instance_gives_its_cores_and_goes_on_whoever_dies() -> Tested {
    let place = Place::new()?;
    let file = place.path().join("eddy.toml");
    let config = concat!(
        "[[instance]]\nname = \"batch\"\nelastic = \"all\"\n\n",
        "[[queue]]\nname = \"batch\"\ninstance = \"batch\"\n\n",
        "[[qos]]\nname = \"high\"\npreempts = [\"low\"]\n\n",
        "[[qos]]\nname = \"low\"\nmode = \"suspend\"\n",
    );
    std::fs::write(&file, config)?;
    let (file, state) = (file.display().to_string(), place.path().join("state"));
    let instance = Instance::start_in(place, state, &["--cores=2", "--config", &file])?;
    let file = instance.state().join("pids").display().to_string();
    let (job, pids) = family(&instance, &["-qbatch", "--qos=low", "-c2"], &file)?;

    // A person stops it; its cores are another's, which is the root's own.
    instance.ok(&["suspend", &job])?;
    stands(&instance, &job, "suspended")?;
    all_are(&pids, "T")?;
    let killed = instance.run(&["job", "kill", "-s", "CONT", &job])?;
    let refused = killed.refusal()?;
    assert!(refused.contains("`resume` lets it go on"), "{refused}");
    let other = instance.submit_started(&["-c2", "sleep", "1000"])?;
    leader_of(&instance.state().join("children/batch"))?.kill()?;
    instance.ok(&["resume", &job])?;
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    stands(&instance, &job, "resuming")?;
    all_are(&pids, "T")?;
    instance.ok(&["cancel", &other])?;
    stands(&instance, &job, "runs")?;
    go_on(&pids)?;

    // One of a higher QoS takes from it, and it goes on by itself.
    let mut gate = instance.place.fifo("gate")?;
    let high = instance.submit(&["--qos=high", "-c2", "sh", "-c", "read line <gate"])?;
    instance.event(&high, "start")?;
    all_are(&pids, "T")?;
    gate.let_go(1)?;
    assert_eq!(instance.code(&high)?, 0);
    stands(&instance, &job, "runs")?;
    go_on(&pids)?;

    // What is suspended can be ended.
    instance.ok(&["suspend", &job])?;
    stands(&instance, &job, "suspended")?;
    instance.ok(&["cancel", &job])?;
    assert_eq!(instance.code(&job)?, 128 + 15);
    Ok(())
}
