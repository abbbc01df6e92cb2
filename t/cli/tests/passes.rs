//! Jobs that carry much, passed to a queue instance, with real processes.

use std::fs;

use eddy_cli_tests::fifo::Fifo;
use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_wire::jobspec::Ask;
use eddy_wire::services::job::SubmitRequest;
use serde_json::json;

type Tested = anyhow::Result<()>;

const CONFIG: &str = r#"
[limits]
reply_bytes = "16M"

[[instance]]
name = "batch"
nodes = 1

[[queue]]
name = "batch"
instance = "batch"
"#;
/// With three MiB each they are more than twice what may wait for one who does not read.
const JOBS: usize = 12;

/// A job that is held, carries three MiB that no other does, says that it began, and waits at the gate.
fn held(number: usize, began: &Fifo, gate: &Fifo) -> anyhow::Result<SubmitRequest> {
    let (began, gate) = (began.path().display(), gate.path().display());
    let script = format!("echo > {began}; read line < {gate}");
    let ask = Ask {
        command: vec!["sh".to_owned(), "-c".to_owned(), script],
        queue: Some("batch".to_owned()),
        attributes: vec![(
            "user.long".to_owned(),
            json!(format!("{number}{}", "x".repeat(3 << 20))),
        )],
        ..Ask::default()
    };
    let jobspec = serde_json::to_value(ask.jobspec()?)?;
    let key = uuid::Uuid::now_v7();
    let request = json!({"key": key, "jobspec": jobspec, "urgency": 0});
    Ok(serde_json::from_value(request)?)
}

#[test]
fn jobs_that_carry_more_than_may_wait_for_their_instance_begin_together_and_outlive_a_leader()
-> Tested {
    let place = Place::new()?;
    let config = place.join("limits.toml");
    fs::write(&config, CONFIG)?;
    let state = place.path().join("state");
    let cores = format!("--cores={JOBS}");
    let instance = Instance::start_in(place, state, &["--size=2", &cores, "--config", &config])?;
    let mut began = instance.place.fifo("began")?;
    let mut gate = instance.place.fifo("gate")?;
    let mut jobs = Vec::new();
    for number in 0..JOBS {
        let request = held(number, &began, &gate)?;
        jobs.push(instance.submit_request(&request)?.first.to_string());
    }
    let named: Vec<&str> = jobs.iter().map(String::as_str).collect();
    instance.ok(&[&["release"], &named[..]].concat())?;
    for _ in &jobs {
        began.line()?;
    }
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    gate.let_go(JOBS)?;
    for job in &jobs {
        assert_eq!(instance.code(job)?, 0, "{job}");
    }
    instance.shut_down()
}
