//! Jobs take from others, with real processes: by QoS, by class and for fair share, at the root and in a
//! queue instance. TERM, KILL at the recorded time though leaders are killed meanwhile, and the other begins.

use std::time::{Duration, Instant};

use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

const CONFIG: &str = r#"
[[qos]]
name = "high"
preempts = ["low", "lost"]

[[qos]]
name = "low"
grace = "3s"

[[qos]]
name = "lost"
mode = "cancel"
"#;

#[test]
fn who_would_be_exempt_for_good_is_refused_by_the_field() -> Tested {
    let place = Place::new()?;
    let file = place.join("exempt.toml");
    let check = |exempt: &str| {
        std::fs::write(
            &file,
            format!("[[qos]]\nname = \"a\"\nexempt = \"{exempt}\"\n"),
        )?;
        place.run(&["config", "check", &file])
    };
    assert_eq!(check("366d")?.code, 0);
    let long = check("367d")?;
    let says = "qos[0].exempt: is \"367d\"; allowed is a duration such as \"5s\", or seconds, of at most 366 d";
    assert!(long.refusal()?.contains(says), "{}", long.err);
    Ok(())
}

fn start(config: &str) -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let file = place.path().join("eddy.toml");
    std::fs::write(&file, config)?;
    let (file, state) = (file.display().to_string(), place.path().join("state"));
    Instance::start_in(place, state, &["--cores=2", "--config", &file])
}

/// The record of that name in the log of a job.
fn record(instance: &Instance, job: &str, name: &str) -> anyhow::Result<Value> {
    let log = instance.ok(&["job", "eventlog", "--format=json", job])?;
    let lines = log.lines().map(serde_json::from_str::<Value>);
    let lines: Vec<Value> = lines.collect::<Result<_, _>>()?;
    let found = lines.into_iter().find(|line| line["name"] == name);
    found.ok_or_else(|| anyhow::anyhow!("job {job} has no `{name}`:\n{log}"))
}

/// Waits until a job that was taken from is in its second attempt.
fn waits_again(instance: &Instance, job: &str) -> Tested {
    let begun = Instant::now();
    while instance.row(job)?["attempt"] != json!(2) {
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "it does not wait again"
        );
    }
    Ok(())
}

#[test]
fn one_that_stays_is_killed_in_time_and_waits_again() -> Tested {
    let instance = start(CONFIG)?;
    let stubborn = "trap '' TERM; while :; do sleep 0.1; done";
    let low = instance.submit_started(&["--qos=low", "-c2", "sh", "-c", stubborn])?;
    let high = instance.submit(&["--qos=high", "-c2", "true"])?;
    instance.event(&low, "preempted")?;
    let why = instance.ok(&["why", &high])?;
    assert!(
        why.contains(&format!("waits for job {low}, making room for it")),
        "{why}"
    );
    let preempted = record(&instance, &low, "preempted")?;
    let context = &preempted["context"];
    assert_eq!(
        (&context["cause"], &context["mode"], &context["why"]),
        (
            &json!("urgency"),
            &json!("requeue"),
            &json!("QoS high preempts QoS low")
        )
    );
    let told = preempted["timestamp"].as_f64();
    let until = context["until"].as_f64();
    assert_eq!(
        until.zip(told).map(|(until, told)| (until - told).round()),
        Some(3.0)
    );
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.code(&high)?, 0);
    let killed = record(&instance, &low, "finish")?;
    let late = killed["timestamp"].as_f64().zip(until);
    assert!(
        late.is_some_and(|(killed, until)| killed >= until),
        "{late:?}"
    );
    waits_again(&instance, &low)?;
    let why = instance.ok(&["why", &low])?;
    assert!(
        why.contains(&format!("for job {high}: QoS high preempts QoS low"))
            && why.contains("preempted: once"),
        "{why}"
    );
    instance.ok(&["cancel", &low])?;
    Ok(())
}

#[test]
fn one_that_is_cancelled_ends_by_that_and_does_not_wait_again() -> Tested {
    let instance = start(CONFIG)?;
    let mut told = instance.place.fifo("told")?;
    let script = "echo $EDDY_JOB_ID >told; exec sleep 1000";
    let shown = instance.begin(&["run", "--qos=lost", "-c2", "sh", "-c", script])?;
    let lost = told.line()?;
    let high = instance.submit(&["--qos=high", "-c2", "true"])?;
    let why = format!("preempted for job {high}: QoS high preempts QoS lost");
    let shown = shown.wait()?;
    assert_eq!(shown.code, 128 + 15);
    assert!(shown.err.contains(&why), "{}", shown.err);
    assert_eq!(instance.code(&high)?, 0);
    let row = instance.row(&lost)?;
    assert_eq!(
        (&row["result"], &row["reason"], &row["attempt"]),
        (
            &json!("CANCELED"),
            &json!(format!("cancel: {why}")),
            &json!(1)
        )
    );
    let preempted = &row["preempted"];
    assert_eq!(
        (&preempted["mode"], &preempted["by"]),
        (&json!("cancel"), &instance.row(&high)?["id"])
    );
    let events = instance.events(&lost)?;
    assert_eq!(
        events.last().map(String::as_str),
        Some("clean"),
        "{events:?}"
    );
    let told = instance.ok(&["why", &lost])?;
    assert!(told.contains(&format!("reason: cancel: {why}")), "{told}");
    Ok(())
}

/// A task that tells by `told` that it is up, and on TERM waits to be let go by `gate`.
const STAYS: &str = "trap 'read line <gate; exit 1' TERM; echo $0 up >told; sleep 1000 & wait";

#[test]
fn an_account_above_its_share_gives_to_another_and_its_job_runs_again() -> Tested {
    let policy = ["-S", "policy.preset=armada", "-S", "exec.kill_grace=30s"];
    let instance = Instance::start(&[&["--cores=2"], &policy[..]].concat())?;
    let user = rustix::process::getuid().as_raw().to_string();
    for account in ["a", "b"] {
        instance.ok(&["account", "add", account])?;
        instance.ok(&["account", "add-user", &user, "-A", account])?;
    }
    let (mut told, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let of = |account: &str, name: &str| {
        let options = ["--class=preemptible", "-A", account, "-c1"];
        instance.submit(&[&options[..], &["sh", "-c", STAYS, name]].concat())
    };
    let first = of("a", "first")?;
    assert_eq!(told.line()?, "first up");
    let last = of("a", "last")?;
    assert_eq!(told.line()?, "last up");

    // Each is due a core: of those of who has two the one that began last goes.
    let other = of("b", "other")?;
    instance.event(&last, "preempted")?;
    let waits = instance.ok(&["why", &other])?;
    let room = format!("waits for job {last}, making room for it");
    assert!(waits.contains(&room), "{waits}");
    gate.let_go(1)?;
    assert_eq!(told.line()?, "other up");
    let row = instance.row(&last)?;
    let preempted = &row["preempted"];
    assert_eq!(
        (&row["state"], &row["attempt"], &row["preemptions"]),
        (&json!("SCHED"), &json!(2), &json!(1))
    );
    assert_eq!(
        (&preempted["cause"], &preempted["by"]),
        (&json!("fair-share"), &instance.row(&other)?["id"])
    );
    let why = instance.ok(&["why", &last])?;
    let because = format!("for job {other}: account a has more than its share");
    assert!(why.contains(&because), "{why}");
    let spared = instance.row(&first)?;
    assert_eq!(
        (&spared["state"], &spared["preemptions"]),
        (&json!("RUN"), &json!(0))
    );

    // It runs again where nobody else is due its core.
    instance.ok(&["cancel", &other])?;
    gate.let_go(1)?;
    assert_eq!(told.line()?, "last up");
    instance.ok(&["cancel", "--all"])?;
    gate.let_go(2)?;
    assert_eq!((instance.code(&first)?, instance.code(&last)?), (1, 1));
    Ok(())
}

const CLASSES: &str = r#"
exec = { kill_grace = "2s" }

[[instance]]
name = "batch"
elastic = "all"

[[queue]]
name = "batch"
instance = "batch"

[[class]]
name = "urgent"
priority = 100

[[class]]
name = "idle"
urgency_preemptible = true
default = true
"#;

#[test]
fn a_class_takes_from_another_in_a_queue_instance_whoever_dies() -> Tested {
    let instance = start(CLASSES)?;
    let (mut told, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let stubborn = "trap '' TERM; echo idle up >told; while :; do sleep 0.1; done";
    let inside = ["--at", "batch", "submit", "-c2", "sh", "-c", stubborn];
    let idle = instance.ok(&inside)?;
    assert_eq!(told.line()?, "idle up");
    let script = "echo urgent up >told; read line <gate";
    let urgent = ["-qbatch", "--class=urgent", "-c2", "sh", "-c", script];
    let urgent = instance.submit(&urgent)?;
    instance.event(&idle, "preempted")?;
    leader_of(&instance.state().join("children/batch"))?.kill()?;
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    assert_eq!(told.line()?, "urgent up");
    let until = record(&instance, &idle, "preempted")?["context"]["until"].as_f64();
    let killed = record(&instance, &idle, "finish")?["timestamp"].as_f64();
    let late = killed.zip(until);
    assert!(
        late.is_some_and(|(killed, until)| killed >= until),
        "{late:?}"
    );
    waits_again(&instance, &idle)?;
    let because = format!("for job {urgent}: class urgent stands above class idle");
    for at in [instance.uri(), "batch"] {
        let why = instance.ok(&["--at", at, "why", &idle])?;
        assert!(why.contains(&because), "at {at}: {why}");
    }
    gate.let_go(1)?;
    assert_eq!(instance.code(&urgent)?, 0);
    assert_eq!(told.line()?, "idle up");
    instance.ok(&["job", "kill", "-s", "KILL", &idle])?;
    assert_eq!(instance.code(&idle)?, 128 + 9);
    Ok(())
}

#[test]
fn what_a_qos_may_not_be_is_refused_by_name() -> Tested {
    let place = Place::new()?;
    let file = place.path().join("eddy.toml");
    std::fs::write(&file, "[[qos]]\nname = \"a\"\nmode = \"freeze\"\n")?;
    let file = file.display().to_string();
    let state = place.path().join("state");
    let started = Instance::start_in(place, state, &["--cores=1", "--config", &file]);
    let Err(error) = started else {
        anyhow::bail!("it starts with a mode that there is not");
    };
    let error = format!("{error:#}");
    assert!(
        error.contains("\"freeze\"") && error.contains("\"suspend\""),
        "{error}"
    );
    Ok(())
}
