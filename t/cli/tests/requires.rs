//! Jobs that only some nodes will do for, or that lie on them in some way, with real processes: over
//! drained nodes, killed leaders and instances in instances.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use serde_json::json;

type Tested = anyhow::Result<()>;

/// Four nodes of two cores on this machine: ranks 1 and 2 are fast, 2 and 3 in rack r1. Jobs of the
/// queue `quick` are for fast ones.
fn start() -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let file = place.join("R.json");
    let inventory = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-3", "children": {"core": "0-1"}}],
        "nodelist": ["n[0-3]"],
        "starttime": 0,
        "expiration": 0,
        "properties": {"fast": "1-2", "rack=r0": "0-1", "rack=r1": "2-3"},
    }});
    fs::write(&file, inventory.to_string())?;
    let (config, state) = (place.join("eddy.toml"), place.path().join("state"));
    let queues = "[[queue]]\nname = \"quick\"\nrequires = [\"fast\"]\n";
    fs::write(&config, queues)?;
    Instance::start_in(place, state, &["--resources", &file, "--config", &config])
}

/// Where a job ran.
fn nodes(instance: &Instance, job: &str) -> anyhow::Result<String> {
    Ok(instance.row(job)?["nodelist"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

#[test]
fn tasks_lie_as_their_place_says() -> Tested {
    let instance = start()?;
    let placed = |place: &str, tasks: &str, command: &[&str]| -> anyhow::Result<String> {
        let line = [&["--place", place, "-n", tasks][..], command].concat();
        instance.submit(&line)
    };
    let on = |place: &str, tasks: &str| -> anyhow::Result<String> {
        let job = placed(place, tasks, &["true"])?;
        assert_eq!(instance.code(&job)?, 0);
        nodes(&instance, &job)
    };
    assert_eq!(on("pack", "2")?, "n0");
    assert_eq!(on("scatter", "2")?, "n[0-1]");
    assert_eq!(on("excl", "3")?, "n[0-1]");
    let wide = instance.run(&["submit", "--place=pack", "-n3", "true"])?;
    assert!(wide.refusal()?.contains("2"), "{}", wide.err);
    // Nobody is beside who has a node to himself, though half of it is free.
    let alone = placed("pack:excl", "1", &["sleep", "1000"])?;
    let beside = instance.submit(&["-n7", "true"])?;
    instance.ok(&["job", "wait-event", &alone, "start"])?;
    assert_eq!(instance.row(&beside)?["state"], "SCHED");
    let fits = instance.submit(&["-n6", "true"])?;
    instance.ok(&["cancel", &beside])?;
    assert_eq!(instance.code(&fits)?, 0);
    assert_eq!(nodes(&instance, &fits)?, "n[1-3]");
    instance.ok(&["cancel", &alone])?;
    let wrong = instance.run(&["submit", "--place=near", "true"])?;
    assert!(wrong.err.contains("`near` is not known"), "{}", wrong.err);
    Ok(())
}

#[test]
fn a_queue_is_for_nodes_with_what_it_requires() -> Tested {
    let instance = start()?;
    let first = instance.submit(&["-q", "quick", "-N2", "sleep", "1000"])?;
    instance.ok(&["job", "wait-event", &first, "start"])?;
    assert_eq!(nodes(&instance, &first)?, "n[1-2]");
    let wide = instance.run(&["submit", "-q", "quick", "-N3", "true"])?;
    let text = "does not fit queue `quick`, which requires fast: asks for 3 whole nodes of ranks 1-2 \
                (fast); the instance has 2";
    assert!(wide.refusal()?.ends_with(text), "{}", wide.err);
    let waits = instance.submit(&["-q", "quick", "--requires=rack=r1", "true"])?;
    let why = instance.ok(&["why", &waits])?;
    assert!(why.contains("queue:  quick requires fast"), "{why}");
    let list = instance.ok(&["queue", "list", "-n", "quick"])?;
    assert_eq!(list.split_whitespace().nth(8), Some("fast"), "{list}");
    let requires = |names: &str| {
        let key = format!("queue.quick.requires={names}");
        instance.ok(&["config", "set", &key])
    };
    requires(r#"["slow"]"#)?;
    let no_node = "does not fit queue `quick`, which requires slow: asks for nodes with rack=r1 and slow; \
                   no node is so";
    // Who asks the planner is answered after it has planned anew.
    instance.ok(&["why", &waits])?;
    let why = instance.ok(&["why", &waits])?;
    assert!(why.contains(no_node), "{why}");
    assert_eq!(instance.row(&waits)?["reason"], json!(no_node));
    assert_eq!(instance.row(&first)?["state"], json!("RUN"));
    instance.kill_leader()?;
    instance.start_again()?;
    requires(r#"["^fast"]"#)?;
    assert_eq!(instance.code(&waits)?, 0);
    assert_eq!(nodes(&instance, &waits)?, "n3");
    Ok(())
}

#[test]
fn a_job_gets_only_nodes_that_are_as_it_asks() -> Tested {
    let instance = start()?;
    let on = |query: &str| -> anyhow::Result<String> {
        let job = instance.submit(&["--requires", query, "-N1", "true"])?;
        assert_eq!(instance.code(&job)?, 0);
        nodes(&instance, &job)
    };
    assert_eq!(on("fast rack=r1")?, "n2");
    assert_eq!(on("-fast and not host:n0")?, "n3");
    assert_eq!(on("^fast")?, "n0");
    assert_eq!(on("rank:3|n3")?, "n3");
    let both = ["--requires=fast", "--requires=rank:2-3", "-N1", "true"];
    let both = instance.submit(&both)?;
    assert_eq!(instance.code(&both)?, 0);
    assert_eq!(nodes(&instance, &both)?, "n2");
    let none = instance.run(&["submit", "--requires=slow", "true"])?;
    let text = "asks for nodes with slow; no node is so; there are fast, rack=r0, rack=r1";
    assert!(none.refusal()?.ends_with(text), "{}", none.err);
    let wide = instance.run(&["submit", "-N3", "--requires=fast", "true"])?;
    let text = "asks for 3 whole nodes of ranks 1-2 (fast); the instance has 2";
    assert!(wide.refusal()?.ends_with(text), "{}", wide.err);
    let wrong = instance.run(&["submit", "--requires=fast|", "true"])?;
    assert!(
        wrong
            .err
            .contains("query ends; allowed are a term, not and ("),
        "{}",
        wrong.err
    );
    let free = instance.ok(&["resource", "list", "-n", "--requires=fast"])?;
    let rows: Vec<Vec<&str>> = free
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        ["free", "1", "2", "0", "fast,rack=r0", "n1"],
        "{free}"
    );
    assert_eq!(
        rows[1],
        ["free", "1", "2", "0", "fast,rack=r1", "n2"],
        "{free}"
    );
    let ranks = instance.json(&["resource", "status", "--requires=^fast", "--json"])?;
    assert_eq!(
        (&ranks[0]["rank"], &ranks[1]["rank"]),
        (&json!(0), &json!(3))
    );
    assert_eq!(ranks[1]["properties"], json!(["rack=r1"]));
    Ok(())
}

#[test]
fn what_only_drained_nodes_are_is_waited_for_over_a_killed_leader() -> Tested {
    let instance = start()?;
    instance.ok(&["resource", "drain", "2", "fan"])?;
    let job = instance.submit(&["--requires=fast,rack=r1", "true"])?;
    let text = "of ranks 2 (fast,rack=r1); only 0 are in service (down or drained: ranks 2)";
    let says = instance.ok(&["why", &job])?;
    assert!(says.contains(text), "{says}");
    instance.kill_leader()?;
    instance.start_again()?;
    let says = instance.ok(&["why", &job])?;
    assert!(says.contains(text), "{says}");
    instance.ok(&["resource", "undrain", "2"])?;
    assert_eq!(instance.code(&job)?, 0);
    assert_eq!(nodes(&instance, &job)?, "n2");
    Ok(())
}

#[test]
fn an_instance_that_is_a_job_has_the_properties_of_its_nodes() -> Tested {
    let instance = start()?;
    let eddy = instance.place.program();
    let script = format!(
        "{eddy} run -n1 --requires=fast true && {eddy} resource list -n --requires=fast && \
         {eddy} submit --requires=rack=r0 true"
    );
    let batch = [
        "batch",
        "-N1",
        "--output=kvs",
        "--requires=rack=r1 fast",
        "--wrap",
        &script,
    ];
    let job = instance.ok(&batch)?;
    assert_eq!(instance.code(&job)?, 1, "the last of it is refused there");
    let said = instance.run(&["job", "attach", &job])?;
    assert!(said.out.contains("fast,rack=r1"), "{}", said.out);
    let refused = "asks for nodes with rack=r0; no node is so; there are fast, rack=r1";
    assert!(said.err.contains(refused), "{}", said.err);
    assert_eq!(nodes(&instance, &job)?, "n2");
    Ok(())
}
