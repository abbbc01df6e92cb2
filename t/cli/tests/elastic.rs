//! Queue instances that share nodes, with real processes: any core is for whoever is next, a node
//! that is lost ends what ran there and not the instance, an owner's home is lent for so long.

use std::fs;

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use serde_json::json;

type Tested = anyhow::Result<()>;

/// Two that share all, of which one is at home on rank 2.
const DECLARED: &str = r#"
[policy]
preset = "easy"

[[instance]]
name = "batch"
elastic = "all"

[[instance]]
name = "owner"
elastic = "all"
home = "2"
lend_max = "1m"

[[queue]]
name = "batch"
instance = "batch"

[[queue]]
name = "owner"
instance = "owner"
"#;

/// Three nodes of two cores, nobody's.
fn shared() -> anyhow::Result<Instance> {
    declared(DECLARED)
}

fn declared(text: &str) -> anyhow::Result<Instance> {
    let place = Place::new()?;
    let config = place.join("shared.toml");
    fs::write(&config, text)?;
    let state = place.path().join("state");
    let options = ["--size=3", "--cores=2", "--config", &config];
    Instance::start_in(place, state, &options)
}

#[test]
fn each_queue_has_all_cores_when_the_other_has_none() -> Tested {
    let instance = shared()?;
    for queue in ["batch", "owner"] {
        instance.ok(&["run", "-q", queue, "-t", "1m", "-n", "6", "true"])?;
    }
    let rows = instance.ok(&["jobs", "-a", "--no-header", "-o", "{name} {queue} {nnodes}"])?;
    let mut rows: Vec<&str> = rows.lines().filter(|row| row.starts_with("true")).collect();
    rows.sort_unstable();
    assert_eq!(rows, ["true batch 3", "true owner 3"]);
    instance.shut_down()
}

#[test]
fn a_lost_node_ends_what_ran_there_and_the_instance_has_it_again() -> Tested {
    let instance = shared()?;
    let sleep = [
        "-q",
        "batch",
        "-t",
        "1m",
        "-N1",
        "--exclusive",
        "sleep",
        "1000",
    ];
    let jobs: Vec<String> = (0..3)
        .map(|_| instance.submit_started(&sleep))
        .collect::<anyhow::Result<_>>()?;
    let before = instance.ok(&["jobs", "--no-header", "-o", "{id}", "--name", "batch"]);
    let on_it = |job: &String| {
        let row = instance.row(job).ok()?;
        row["nodelist"].as_str()?.ends_with("-1").then_some(())
    };
    let lost = jobs.iter().position(|job| on_it(job).is_some());
    let lost = lost.context("no job runs on rank 1")?;
    instance.shell_on(1)?.kill()?;
    instance.event(&jobs[lost], "clean")?;
    let row = instance.row(&jobs[lost])?;
    let reason = row["reason"].as_str().unwrap_or_default().to_owned();
    assert!(reason.starts_with("node-failure"), "{reason}");
    // The node is back, as another rank of the instance, and takes the next.
    let next = [
        "run",
        "-q",
        "batch",
        "-t",
        "1m",
        "-N1",
        "--exclusive",
        "true",
    ];
    instance.ok(&next)?;
    for (at, job) in jobs.iter().enumerate().filter(|(at, _)| *at != lost) {
        assert_eq!(instance.row(job)?["state"], "RUN", "job {at}");
        instance.ok(&["cancel", job])?;
    }
    let after = instance.ok(&["jobs", "--no-header", "-o", "{id}", "--name", "batch"]);
    assert_eq!(before.ok(), after.ok(), "the instance is the same job");
    instance.shut_down()
}

#[test]
fn a_node_that_is_taken_out_leaves_the_instances() -> Tested {
    let instance = shared()?;
    instance.ok(&["resource", "add", "1"])?;
    instance.ok(&[
        "run",
        "-q",
        "batch",
        "-N4",
        "--exclusive",
        "-t",
        "1m",
        "true",
    ])?;
    let listed = instance.ok(&["jobs", "--no-header", "-o", "{id}", "--name", "batch"])?;
    let batch = listed.trim();
    let events = instance.events(batch)?;
    let changes = events
        .iter()
        .filter(|name| *name == "grant-changed")
        .count();
    instance.ok(&["resource", "remove", "3"])?;
    let next = (changes + 1).to_string();
    let waits = [
        "job",
        "wait-event",
        "-q",
        "-t",
        "20s",
        "-c",
        &next,
        batch,
        "grant-changed",
    ];
    instance.ok(&waits)?;
    assert_eq!(instance.row(batch)?["nnodes"], 3);
    instance.ok(&[
        "run",
        "-q",
        "batch",
        "-N3",
        "--exclusive",
        "-t",
        "1m",
        "true",
    ])?;
    // Nothing of what was there is waited for.
    instance.shut_down()
}

#[test]
fn a_home_is_lent_to_short_jobs_only() -> Tested {
    let instance = shared()?;
    // Four of six cores are nobody's home.
    let long = instance.submit(&["-q", "batch", "-t", "2m", "-n", "4", "sleep", "1000"])?;
    instance.event(&long, "start")?;
    let waits = instance.submit(&["-q", "batch", "-t", "2m", "sleep", "1000"])?;
    instance.ok(&["run", "-q", "owner", "-t", "1h", "-n", "2", "true"])?;
    let row = instance.row(&waits)?;
    assert_eq!(row["state"], "SCHED");
    let reason = row["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("of ranks 0-1"), "{reason}");
    instance.ok(&["cancel", &waits])?;
    instance.ok(&["run", "-q", "batch", "-t", "1m", "-n", "2", "true"])?;
    let refused = instance.run(&["run", "-q", "batch", "-t", "2m", "-n", "5", "true"])?;
    assert_ne!(refused.code, 0);
    assert!(
        refused.err.contains("asks for 5 cores of ranks 0-1"),
        "{}",
        refused.err
    );
    instance.ok(&["cancel", &long])?;
    instance.shut_down()
}

#[test]
fn a_node_that_queues_share_is_drained_when_the_last_job_on_it_is_over() -> Tested {
    let instance = shared()?;
    let job = ["-q", "batch", "-t1m", "-n2", "--requires=rank:1"];
    let job = instance.submit_started(&[&job[..], &["sleep", "60"]].concat())?;
    instance.ok(&["resource", "drain", "1", "repair"])?;
    let state = || -> anyhow::Result<String> {
        let status = instance.ok(&["resource", "status", "--no-header"])?;
        let line = status.lines().nth(1).context("rank 1")?;
        Ok(line
            .split_whitespace()
            .nth(2)
            .unwrap_or_default()
            .to_owned())
    };
    assert_eq!(state()?, "draining");
    instance.ok(&["cancel", &job])?;
    instance.event(&job, "clean")?;
    assert_eq!(state()?, "drained", "both instances have their place there");
    instance.shut_down()
}

#[test]
fn the_node_of_a_leader_is_none_of_its_instance() -> Tested {
    let late = "[[instance]]\nname = 'late'\nelastic = '1-2'\n\n[[queue]]\nname = 'late'\ninstance = 'late'\n";
    let instance = declared(late)?;
    // All its nodes have come.
    instance.ok(&["run", "-q", "late", "-N2", "true"])?;
    let tree = instance.json(&["tree", "--json"])?;
    let late = &tree["children"][0];
    assert_eq!((&late["nodes"], &late["cores"]), (&json!(2), &json!(4)));
    for (asked, nodes) in [(&["--at", "late"][..], 2), (&[], 3)] {
        let list = instance.json(&[asked, &["resource", "list", "--json"]].concat())?;
        let counts = (&list["all"]["nnodes"], &list["free"]["nnodes"]);
        assert_eq!(counts, (&json!(nodes), &json!(nodes)), "{asked:?}");
    }
    instance.shut_down()
}

#[test]
fn what_jobs_wrote_is_told_after_the_site_was_started_again() -> Tested {
    let instance = shared()?;
    let written = |job: &str| {
        let shown = instance.run(&["job", "attach", job])?;
        let mut lines: Vec<String> = shown.ok()?.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        Ok::<_, anyhow::Error>(lines)
    };
    let mut jobs = Vec::new();
    for round in 1..=4 {
        let echo = format!("echo {round} $EDDY_TASK_RANK");
        let job = instance.submit(&["-q", "owner", "-N3", "-n3", "sh", "-c", &echo])?;
        assert_eq!(instance.code(&job)?, 0);
        jobs.push(job);
        for (job, round) in jobs.iter().zip(1..) {
            let lines: Vec<String> = (0..3).map(|task| format!("{round} {task}")).collect();
            assert_eq!(written(job)?, lines, "job {job} of round {round}");
        }
        instance.ok(&["shutdown"])?;
        instance.start_again()?;
    }
    // What is not there is not told, and that is said.
    instance.ok(&["run", "-q", "owner", "-N3", "-n3", "true"])?;
    instance.ok(&["resource", "remove", "1"])?;
    let shown = instance.run(&["job", "attach", &jobs[0]])?;
    let hosts = instance.row(&jobs[0])?["nodelist"].to_string();
    assert!(
        shown.err.contains("is not shown: not in the instance now"),
        "{hosts} {}",
        shown.err
    );
    assert_eq!(shown.ok()?.lines().count(), 2);
    instance.shut_down()
}

#[test]
fn more_time_on_anothers_nodes_than_they_are_lent_for_is_given_by_force_only() -> Tested {
    let place = Place::new()?;
    let config = place.join("shared.toml");
    fs::write(&config, DECLARED)?;
    let state = place.path().join("state");
    let endless = ["-S", "exec.test.run_duration=3000s"];
    let options = ["--fake", "nodes=3,cores=2", "--config", &config];
    let instance = Instance::start_in(place, state, &[&options[..], &endless].concat())?;
    let guest = ["--requires=rank:2", "-q", "batch", "-t", "1m", "true"];
    let lent = instance.submit_started(&guest)?;
    let own = instance.submit_started(&["-q", "owner", "-t", "1m", "true"])?;
    let longer = instance.run(&["update", &lent, "duration=2m"])?;
    let why = "attributes.system.duration: 120.000000 s given, it runs on ranks 2 of instance owner, which lends \
               them for at most 60.000000 s; --force gives it the time";
    assert!(longer.refusal()?.ends_with(why), "{}", longer.err);
    let longer = instance.run(&["update", &lent, "duration=+1m"])?;
    assert!(longer.refusal()?.ends_with(why), "{}", longer.err);
    assert_eq!(instance.row(&lent)?["duration"], json!(60.0));
    instance.ok(&["update", "--force", &lent, "duration=2m"])?;
    instance.ok(&["update", &own, "duration=2m"])?;
    for job in [&lent, &own] {
        assert_eq!(instance.row(job)?["duration"], json!(120.0));
    }
    Ok(())
}

#[test]
fn a_node_of_an_instance_that_no_queue_leads_to_is_taken_out() -> Tested {
    let instance = declared("[[instance]]\nname = \"spare\"\nelastic = \"all\"\n")?;
    let job = instance.submit_started(&["--requires=rank:2", "sleep", "600"])?;
    let removal = instance.begin(&["resource", "remove", "--drain", "2"])?;
    removal.prints("waiting for")?;
    instance.ok(&["cancel", &job])?;
    assert_eq!(removal.wait()?.code, 0);
    instance.ok(&["resource", "remove", "--force", "1"])?;
    instance.shut_down()
}

/// Waits until a job has been granted these ranks.
fn until_it_has(instance: &Instance, job: &str, ranks: &str) -> Tested {
    let ranks = format!("\"rank\":\"{ranks}\"");
    loop {
        let log = instance.ok(&["job", "eventlog", job])?;
        let changes = log.lines().filter(|line| line.contains(" grant-changed "));
        if changes
            .clone()
            .next_back()
            .is_some_and(|line| line.contains(&ranks))
        {
            return Ok(());
        }
        let next = format!("--count={}", changes.count() + 1);
        instance.ok(&["job", "wait-event", &next, "-q", job, "grant-changed"])?;
    }
}

#[test]
fn a_job_that_a_removal_leaves_only_the_home_of_another_waits_until_that_is_lent() -> Tested {
    let instance = shared()?;
    instance.ok(&["resource", "add", "1"])?;
    instance.ok(&["run", "-N3", "-n3", "true"])?;
    let first = instance.submit_started(&["--requires=rank:0", "sleep", "600"])?;
    let wide = ["-N3", "-n3", "-x", "-t", "2h", "true"];
    let of_root = instance.submit(&wide)?;
    let passed = instance.submit(&[&["-q", "batch"], &wide[..]].concat())?;
    instance.ok(&["resource", "remove", "3"])?;
    // What the instances hold follows, which changes nothing of it.
    for queue_instance in ["1", "2"] {
        until_it_has(&instance, queue_instance, "0-2")?;
    }
    for job in [&of_root, &passed] {
        let why = instance.ok(&["why", job])?;
        assert!(why.contains("the home of instance `owner`"), "{why}");
    }
    instance.ok(&["config", "set", "instance.owner.lend_max=3h"])?;
    instance.ok(&["cancel", &first])?;
    for job in [&of_root, &passed] {
        assert_eq!(instance.code(job)?, 0);
    }
    instance.shut_down()
}
