//! Jobs whose tasks lie in sockets, with real processes: over killed leaders, in instances in instances, and of
//! inventories that tell of sockets in each of the ways they can.

use std::fs;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// Two nodes of two sockets of two cores, by `sockets`; every second core is of the other socket.
fn start(scheduling: &Value) -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let file = place.join("R.json");
    let inventory = json!({"version": 1, "execution": {
        "R_lite": [{"rank": "0-1", "children": {"core": "0-3"}}],
        "nodelist": ["n[0-1]"],
        "starttime": 0,
        "expiration": 0,
    }, "scheduling": scheduling});
    fs::write(&file, inventory.to_string())?;
    let state = place.path().join("state");
    Instance::start_in(place, state, &["--resources", &file])
}

/// As this scheduler tells of them.
fn own() -> Value {
    json!({"eddy": {"sockets": {"0-1": [{"core": "0,2"}, {"core": "1,3"}]}}})
}

/// As others do: RFC 40.
fn graph() -> Value {
    let mut nodes = vec![json!({"id": "c", "metadata": {"type": "cluster", "id": 0}})];
    let mut edges = Vec::new();
    let mut add = |under: &str, id: String, kind: &str, number: usize, rank: usize| {
        edges.push(json!({"source": under, "target": id}));
        let metadata = json!({"type": kind, "id": number, "rank": rank});
        nodes.push(json!({"id": id, "metadata": metadata}));
        id
    };
    for rank in 0..2 {
        let node = add("c", format!("n{rank}"), "node", rank, rank);
        for socket in 0..2 {
            let id = add(&node, format!("{node}s{socket}"), "socket", socket, rank);
            for core in [socket, socket + 2] {
                add(&id, format!("{id}c{core}"), "core", core, rank);
            }
        }
    }
    json!({"graph": {"nodes": nodes, "edges": edges}})
}

/// The cores that a job has, by rank.
fn cores(instance: &Instance, job: &str) -> anyhow::Result<Vec<(String, String)>> {
    let r: Value = serde_json::from_str(&instance.ok(&["job", "info", job, "R"])?)?;
    let parts = r["execution"]["R_lite"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let part = |part: &Value| (text(&part["rank"]), text(&part["children"]["core"]));
    Ok(parts.iter().map(part).collect())
}

fn is(cores: &[(String, String)], expected: &[(&str, &str)]) -> bool {
    let told = cores
        .iter()
        .map(|(rank, cores)| (rank.as_str(), cores.as_str()));
    told.eq(expected.iter().copied())
}

fn started(instance: &Instance, words: &[&str]) -> anyhow::Result<String> {
    let job = instance.submit(words)?;
    instance.ok(&["job", "wait-event", &job, "start"])?;
    Ok(job)
}

#[test]
fn tasks_lie_in_sockets_over_a_killed_leader() -> Tested {
    for scheduling in [own(), graph()] {
        let instance = start(&scheduling)?;
        let words = ["-n2", "--tasks-per-socket=2", "sleep", "1000"];
        let first = started(&instance, &words)?;
        assert!(is(&cores(&instance, &first)?, &[("0", "0,2")]));
        // One core of a socket is not as good as two.
        let one = started(&instance, &["-n1", "sleep", "1000"])?;
        assert!(is(&cores(&instance, &one)?, &[("0", "1")]));
        let whole = [
            "-n2",
            "--tasks-per-socket=1",
            "--whole-sockets",
            "sleep",
            "1000",
        ];
        let both = started(&instance, &whole)?;
        assert!(is(&cores(&instance, &both)?, &[("1", "0-3")]));
        let waits = instance.submit(&words)?;
        let reason = "waits for 2 cores in one socket on one node; 1 is free now";
        assert_eq!(instance.row(&waits)?["reason"], json!(reason));
        instance.kill_leader()?;
        instance.start_again()?;
        let list = instance.json(&["resource", "list", "--json"])?;
        let told = &list["all"]["R"]["scheduling"]["eddy"]["sockets"]["0-1"];
        assert_eq!(*told, own()["eddy"]["sockets"]["0-1"]);
        let table = instance.ok(&["resource", "list"])?;
        assert!(table.contains("NSOCKETS"), "{table}");
        assert_eq!(instance.row(&waits)?["reason"], json!(reason));
        // Another core alone would do for cores; the socket is whole only when its last is free.
        instance.ok(&["cancel", &one])?;
        instance.ok(&["job", "wait-event", &waits, "start"])?;
        assert!(is(&cores(&instance, &waits)?, &[("0", "1,3")]));
        let suspended = instance.run(&["suspend", &waits])?;
        let text = "its cores lie in sockets, which might not be free together again";
        assert!(suspended.refusal()?.contains(text), "{}", suspended.err);
        instance.ok(&["cancel", "--all"])?;
    }
    Ok(())
}

#[test]
fn what_no_node_has_is_refused() -> Tested {
    let instance = start(&own())?;
    let refused = |words: &[&str]| -> anyhow::Result<String> {
        let ran = instance.run(&[&["submit"][..], words, &["true"]].concat())?;
        Ok(ran.refusal()?.to_owned())
    };
    let words = ["-n3", "-c1", "--tasks-per-socket=3"];
    let text = "asks for 3 cores in one socket on one node; the largest has 2";
    assert!(refused(&words)?.contains(text));
    let words = ["-N1", "-n3", "-c1", "--tasks-per-socket=1"];
    let text = "asks for 3 sockets on one node; the largest has 2";
    assert!(refused(&words)?.contains(text));
    let ran = instance.run(&["submit", "--tasks-per-socket=1", "true"])?;
    assert!(ran.err.contains("--ntasks"), "{}", ran.err);
    Ok(())
}

#[test]
fn a_child_knows_the_sockets_that_it_has() -> Tested {
    let instance = start(&own())?;
    let script = instance.place.join("steps.sh");
    let eddy = instance.eddy(&[]);
    let eddy = eddy.get_program().to_string_lossy();
    // Its grant is one socket and a half of a node.
    let steps = format!(
        "#!/bin/sh\n\
         {eddy} run -n1 --tasks-per-socket=1 --whole-sockets true || exit 3\n\
         {eddy} submit -n2 --tasks-per-socket=1 --whole-sockets true 2>&1 | grep 'has 1' || exit 4\n"
    );
    fs::write(&script, steps)?;
    let output = instance.place.join("out");
    instance
        .run(&["batch", "-n3", "--wait", "--output", &output, &script])?
        .ok()?;
    Ok(())
}

#[test]
fn made_up_nodes_have_sockets() -> Tested {
    let instance = Instance::start(&["--fake", "nodes=2,sockets=2,cores=8,gpus=2"])?;
    let jobspec = json!({
        "version": 1,
        "resources": [{"type": "node", "count": 2, "with": [{"type": "socket", "count": 2, "with": [
            {"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 3}, {"type": "gpu", "count": 1}]}]}]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0}},
    });
    let file = instance.place.join("job.json");
    fs::write(&file, jobspec.to_string())?;
    let job = instance.ok(&["job", "submit", &file])?.trim().to_owned();
    assert_eq!(instance.code(&job)?, 0);
    assert!(is(&cores(&instance, &job)?, &[("0-1", "0-2,4-6")]));
    assert_eq!(instance.row(&job)?["ntasks"], json!(4));
    let wrong = Place::new()?;
    let state = wrong.path().join("state");
    let refused = Instance::start_in(wrong, state, &["--fake", "sockets=3,cores=2"]);
    let text = format!(
        "{:#}",
        refused
            .err()
            .map_or_else(String::new, |error| format!("{error:#}"))
    );
    assert!(text.contains("--fake sockets: is `3`"), "{text}");
    Ok(())
}
