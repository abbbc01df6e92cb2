//! Queues of an instance: what they refuse, give and hold back, and how an administrator shuts them.

use eddy_cli_tests::instance::Instance;
use serde_json::json;

type Tested = anyhow::Result<()>;

const CONFIG: &str = r#"
[defaults]
time = "2h"

[exec.test]
run_duration = "3000s"

[[queue]]
name = "debug"
priority = 3
max_nodes = 1
max_cores = 1
max_time = "30m"
default_time = "10m"
user_limits = { running_jobs = 1 }

[[queue]]
name = "others"
users = [4294967294]

[[queue]]
name = "plain"
default = true
"#;

fn start() -> anyhow::Result<Instance> {
    let place = eddy_cli_tests::place::Place::new()?;
    let file = place.path().join("eddy.toml");
    std::fs::write(&file, CONFIG)?;
    let (file, state) = (file.display().to_string(), place.path().join("state"));
    Instance::start_in(
        place,
        state,
        &["--fake", "nodes=2,cores=2", "--config", &file],
    )
}

#[test]
fn a_queue_gives_what_a_job_does_not_say_and_refuses_by_field() -> Tested {
    let instance = start()?;
    let job = instance.submit(&["-q", "debug", "true"])?;
    let row = instance.row(&job)?;
    assert_eq!(
        (&row["queue"], &row["duration"]),
        (&json!("debug"), &json!(600.0))
    );
    let unnamed = instance.submit(&["true"])?;
    let row = instance.row(&unnamed)?;
    assert_eq!(
        (&row["queue"], &row["duration"]),
        (&json!("plain"), &json!(7200.0))
    );
    let unlimited = instance.submit(&["-t", "inf", "true"])?;
    assert_eq!(instance.row(&unlimited)?["duration"], json!(null));
    let second = instance.submit(&["-q", "debug", "true"])?;
    let reason = instance.row(&second)?["reason"].to_string();
    assert!(
        reason.contains("limit `running_jobs` of user") && reason.contains("in queue `debug` is 1"),
        "{reason}"
    );
    for (options, refusal) in [
        (
            &["-q", "debug", "-t", "31m"][..],
            "attributes.system.duration: 1860 s given, queue `debug` allows 1800 s; queue `plain` could take it",
        ),
        (
            &["-q", "debug", "-t", "inf"],
            "attributes.system.duration: none given, queue `debug` allows 1800 s; queue `plain` could take it",
        ),
        (
            &["-q", "debug", "-N2"],
            "resources: 2 nodes given, queue `debug` allows at most 1; queue `plain` could take it",
        ),
        (
            &["-q", "debug", "-N1", "--exclusive"],
            "resources: up to 2 cores, of what is whole, given, queue `debug` allows at most 1 cores; \
             queue `plain` could take it",
        ),
        (
            &["-q", "fast"],
            "attributes.system.queue: `fast` given, there are debug, others, plain",
        ),
    ] {
        let ran = instance.run(&[&["submit"], options, &["true"]].concat())?;
        assert_eq!(ran.refusal()?, format!("eddy submit: {refusal}"));
    }
    let ran = instance.run(&["submit", "-q", "others", "true"])?;
    let refusal = ran.refusal()?;
    assert!(
        refusal.contains("`others` given, it is not open to user")
            && refusal.ends_with("allowed are user 4294967294"),
        "{refusal}"
    );
    let rows = instance.json(&["queue", "list", "--json", "debug"])?;
    assert_eq!(rows[0]["rules"]["max_time"], 1800.0);
    assert_eq!(
        (&rows[0]["pending"], &rows[0]["running"]),
        (&json!(1), &json!(1))
    );
    Ok(())
}

#[test]
fn a_queue_that_is_shut_stays_so_over_a_restart_and_says_why() -> Tested {
    let instance = start()?;
    instance.ok(&["queue", "stop", "plain", "-m", "the fan"])?;
    instance.ok(&["queue", "disable", "debug", "-m", "closing time"])?;
    let job = instance.submit(&["true"])?;
    instance.kill_leader()?;
    instance.start_again()?;
    let why = instance.ok(&["why", &job])?;
    assert!(
        why.contains("waits for queue `plain`, which is stopped: the fan"),
        "{why}"
    );
    let ran = instance.run(&["submit", "-q", "debug", "true"])?;
    assert_eq!(
        ran.refusal()?,
        "eddy submit: attributes.system.queue: `debug` given, it takes no submissions now: closing time"
    );
    let status = instance.ok(&["queue", "status"])?;
    let shut: Vec<&str> = status
        .lines()
        .filter(|line| line.contains(" no "))
        .collect();
    assert_eq!(shut.len(), 2, "{status}");
    assert!(
        shut[1].starts_with("plain: starts no jobs since 20"),
        "{status}"
    );
    instance.ok(&["queue", "start", "--all"])?;
    instance.event(&job, "start")?;
    let ran = instance.run(&["queue", "stop"])?;
    assert_eq!(
        ran.refusal()?,
        "eddy queue stop: no queue given; allowed are --all and debug, others, plain"
    );
    let audit = instance.ok(&["audit", "--event", "queue", "-n"])?;
    assert_eq!(audit.lines().count(), 3, "{audit}");
    Ok(())
}

#[test]
fn a_drained_queue_is_waited_for() -> Tested {
    let instance = start()?;
    let job = instance.submit(&["-q", "debug", "true"])?;
    let drain = instance.begin(&["queue", "drain", "debug", "--wait", "-m", "update"])?;
    instance.ok(&["cancel", &job])?;
    drain.wait()?.ok()?;
    assert_eq!(instance.row(&job)?["state"], "INACTIVE");
    let ran = instance.run(&["submit", "-q", "debug", "true"])?;
    assert!(ran.refusal()?.ends_with("takes no submissions now: update"));
    Ok(())
}
