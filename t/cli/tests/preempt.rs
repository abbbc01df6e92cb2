//! Jobs of a higher QoS take from those of a lower one, with real processes: TERM, KILL at the recorded
//! time though the leader is killed meanwhile, and the other begins.

use std::time::{Duration, Instant};

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

const CONFIG: &str = r#"
[[qos]]
name = "high"
preempts = ["low"]

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
    let again = Instant::now();
    while instance.row(&low)?["attempt"] != json!(2) {
        assert!(
            again.elapsed() < Duration::from_secs(20),
            "it does not wait again"
        );
    }
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
