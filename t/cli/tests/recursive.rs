//! One table over the tree, and queues whose rules the root keeps for the instance that serves them.

use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::program;
use rustix::process::Signal;
use serde_json::json;

type Tested = anyhow::Result<()>;

const CONFIG: &str = r#"
[[instance]]
name = "batch"
nodes = 1

[[queue]]
name = "batch"
instance = "batch"
max_nodes = 1
default_time = "10m"
max_time = "1h"

[[queue]]
name = "others"
instance = "batch"
users = [4294967294]
"#;

/// Does this with an instance and ends it, whatever came of it: it has leaders within.
fn with_instance(work: impl FnOnce(&Instance) -> Tested) -> Tested {
    let instance = start()?;
    let done = work(&instance);
    instance.shut_down()?;
    done
}

fn start() -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let file = place.path().join("eddy.toml");
    std::fs::write(&file, CONFIG)?;
    let (file, state) = (file.display().to_string(), place.path().join("state"));
    let options = ["--size=2", "--cores=2", "--config", &file];
    Instance::start_in(place, state, &options)
}

#[test]
fn what_is_inside_and_what_is_over_is_named_as_it_is() -> Tested {
    with_instance(named_as_it_is)
}

fn named_as_it_is(instance: &Instance) -> Tested {
    let id = instance.ok(&["alloc", "-n1", "-t1h", "--bg"])?;
    let first = instance.ok(&["--at", &id, "submit", "sleep", "600"])?;
    let wide = instance.ok(&["--at", &id, "submit", "true"])?;
    let last = instance.ok(&["--at", &id, "submit", "true"])?;
    let table = instance.ok(&["jobs", "-R", "-o", "{id} {contextual_info}"])?;
    let behind = format!("waits behind job {id}/{wide}, which");
    assert!(table.contains(&behind), "{table}");
    // One form for the same job, wherever it is told of.
    let named = format!("{id}/{wide} ");
    assert!(
        table
            .lines()
            .any(|row| row.trim_start().starts_with(&named)),
        "{table}"
    );
    // In the order in which they are named; of the instance itself what is left is told.
    let why = instance.ok(&["--at", &id, "why", &last, &first, &wide])?;
    let told = why.lines().filter_map(|line| line.strip_prefix("job "));
    let told: Vec<&str> = told.filter_map(|line| line.split(':').next()).collect();
    assert_eq!(told, [&last, &first, &wide]);
    let inner = format!("{id}/{first}");
    instance.ok(&["cancel", &inner])?;
    let ended = instance.run(&["wait", &inner])?.err;
    assert!(
        ended.contains(&format!("eddy wait: job {inner}: ")),
        "{ended}"
    );
    let left = instance.ok(&["tree", "-n", &id])?;
    assert!(left.contains(" 1h") || left.contains("59"), "{left}");
    let watch = format!("{} tree --watch | head -n 1", program::eddy()?.display());
    let heading = instance.ok(&["run", "sh", "-c", &watch])?;
    assert!(heading.starts_with("INSTANCE"), "{heading}");
    instance.ok(&["shutdown", &id])?;
    assert_eq!(instance.code(&id)?, 0);
    let over = instance.json(&["jobs", "--json", &id])?;
    assert_eq!(over[0]["instance"]["stage"], "over", "{over}");
    Ok(())
}

#[test]
fn jobs_of_all_instances_are_in_one_table_with_their_paths() -> Tested {
    with_instance(table_of_all)
}

fn table_of_all(instance: &Instance) -> Tested {
    let own = instance.submit_started(&["sleep", "600"])?;
    let inner = instance.submit_started(&["-q", "batch", "sleep", "600"])?;
    let rows = instance.json(&["jobs", "-R", "--json"])?;
    let rows = rows.as_array().cloned().unwrap_or_default();
    let path_of = |job: &str| {
        let row = rows.iter().find(|row| row["f58"] == job);
        row.map(|row| row["path"].clone())
    };
    anyhow::ensure!(path_of(&own) == Some(json!("")), "{rows:?}");
    let told = rows.iter().filter(|row| row["f58"] == inner.as_str());
    assert_eq!(told.count(), 1, "{rows:?}");
    anyhow::ensure!(
        path_of(&inner) == Some(json!("")),
        "it is the root's: {rows:?}"
    );
    let inner_row = rows.iter().find(|row| row["f58"] == inner.as_str());
    let duration = inner_row.map(|row| row["duration"].clone());
    assert_eq!(duration, Some(json!(600.0)), "the default of its queue");
    let leader = leader_of(&instance.state_of("batch")?)?;
    leader.signal(Signal::STOP)?;
    let partly = instance.run(&["jobs", "-R"])?;
    leader.signal(Signal::CONT)?;
    let missing = "eddy jobs: the jobs of f2 batch are not shown: no answer within 1 s\n";
    assert_eq!((partly.code, partly.err.as_str()), (1, missing));
    let table = instance.ok(&["jobs", "-R"])?;
    assert_eq!(table.lines().count(), rows.len() + 1, "{table}");
    let heading: Vec<&str> = table
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert_eq!(
        heading[..6],
        ["JOBID", "USER", "ACCOUNT", "QOS", "CLASS", "QUEUE"]
    );
    let ran = instance.run(&["jobs", "-R", "-c1", "-n"])?;
    assert_eq!((ran.code, ran.out.lines().count()), (0, 1));
    assert!(ran.err.contains("1 jobs are shown"), "{}", ran.err);
    Ok(())
}

#[test]
fn rules_of_a_queue_hold_for_the_instance_that_serves_it() -> Tested {
    with_instance(rules)
}

fn rules(instance: &Instance) -> Tested {
    for (options, part) in [
        (
            &["-q", "batch", "-N2"][..],
            "resources: 2 nodes given, queue `batch` allows at most 1",
        ),
        (
            &["-q", "batch", "-t2h"],
            "attributes.system.duration: 7200 s given, queue `batch` allows 3600 s",
        ),
        (
            &["-q", "others"],
            "attributes.system.queue: `others` given, it is not open to user",
        ),
    ] {
        let ran = instance.run(&[&["submit"], options, &["true"]].concat())?;
        assert!(ran.refusal()?.contains(part), "{}", ran.err);
    }
    instance.ok(&["queue", "stop", "batch", "-m", "the fan"])?;
    let job = instance.submit(&["-q", "batch", "true"])?;
    let why = instance.ok(&["why", &job])?;
    assert!(
        why.contains("waits for queue `batch`, which is stopped: the fan"),
        "{why}"
    );
    instance.ok(&["queue", "start", "batch"])?;
    assert_eq!(instance.code(&job)?, 0);
    instance.ok(&["queue", "disable", "batch", "-m", "closed"])?;
    let ran = instance.run(&["submit", "-q", "batch", "true"])?;
    assert!(
        ran.refusal()?
            .ends_with("it takes no submissions now: closed")
    );
    Ok(())
}
