//! Instances that give nodes to jobs of a higher QoS and go on, with real processes.

use std::fs;
use std::time::Instant;

use anyhow::Context;
use eddy_cli_tests::instance::{Instance, leader_of};
use eddy_cli_tests::place::Place;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::LIMIT;
use serde_json::json;

type Tested = anyhow::Result<()>;

/// Three nodes that an instance of QoS `low` has, and a job on each that goes on until that file is there.
struct Scene {
    instance: Instance,
    inside: String,
    jobs: Vec<String>,
}

impl Scene {
    fn new(grace: &str) -> anyhow::Result<Scene> {
        let place = Place::new()?;
        let config = place.join("eddy.toml");
        let low = format!("name = \"low\"\ngrace = \"{grace}\"\nshrink = true\n");
        let high = "name = \"high\"\npreempts = [\"low\"]\n";
        fs::write(&config, format!("[[qos]]\n{high}[[qos]]\n{low}"))?;
        let state = place.path().join("state");
        let options = ["--size=3", "--cores=2", "--config", &config];
        let instance = Instance::start_in(place, state, &options)?;
        let inside = instance.ok(&["alloc", "--bg", "-N3", "-n3", "--exclusive", "--qos=low"])?;
        let stays = format!(
            "trap '' TERM; until [ -e {} ]; do sleep 0.1; done",
            instance.place.join("over")
        );
        let submit = ["--at", &inside, "submit", "--wait-event=start", "-N1"];
        let submit = [&submit[..], &["-n1", "-c2", "sh", "-c", &stays]].concat();
        let jobs = (0..3).map(|_| instance.ok(&submit));
        let jobs = jobs.collect::<anyhow::Result<_>>()?;
        Ok(Scene {
            instance,
            inside,
            jobs,
        })
    }

    fn at(&self, words: &[&str]) -> anyhow::Result<String> {
        self.instance
            .ok(&[&["--at", self.inside.as_str()], words].concat())
    }

    fn urgent(&self) -> anyhow::Result<String> {
        let urgent = self
            .instance
            .submit(&["--qos=high", "-N1", "-n1", "-c2", "true"])?;
        self.instance.event(&self.inside, "shrink")?;
        Ok(urgent)
    }

    /// The job inside that is on the node that went.
    fn on_third(&self) -> anyhow::Result<&String> {
        let rows = self.at(&["jobs", "-a", "--no-header", "-o", "{id} {nodelist}"])?;
        let third = |job: &&String| {
            let mut rows = rows.lines();
            rows.any(|row| row.starts_with(job.as_str()) && row.ends_with("-2"))
        };
        self.jobs.iter().find(third).context("nothing was there")
    }
}

#[test]
fn a_workflow_gives_a_node_and_goes_on() -> Tested {
    let scene = Scene::new("10m")?;
    let (instance, inside) = (&scene.instance, &scene.inside);
    let urgent = scene.urgent()?;
    let why = instance.ok(&["why", inside])?;
    assert!(why.contains("gives: ranks 2 by "), "{why}");
    assert!(
        why.contains(&format!("for job {urgent}: QoS high preempts QoS low")),
        "{why}"
    );
    let waits = instance.ok(&["why", &urgent])?;
    assert!(
        waits.contains(&format!("waits for job {inside}, making room for it")),
        "{waits}"
    );
    scene.at(&["job", "wait-event", scene.on_third()?, "exception"])?;
    let kept = instance.run(&["--at", inside, "resource", "undrain", "2"])?;
    assert!(
        kept.refusal()?
            .contains("targets: ranks 2 given, which the instance around this one takes back")
    );
    let rows = scene.at(&["grant", "list", "--no-header"])?;
    assert!(rows.lines().any(|row| row.ends_with("leaving")), "{rows}");
    fs::write(instance.place.join("over"), "")?;
    assert_eq!(instance.code(&urgent)?, 0);
    let row = instance.row(inside)?;
    assert_eq!((&row["state"], &row["nnodes"]), (&json!("RUN"), &json!(2)));
    let went = scene.on_third()?;
    for job in scene.jobs.iter().filter(|job| *job != went) {
        scene.at(&["job", "status", job])?;
    }
    instance.shut_down()
}

#[test]
fn what_is_left_on_a_node_is_killed_in_time_whoever_leads() -> Tested {
    let scene = Scene::new("4s")?;
    let (instance, inside) = (&scene.instance, &scene.inside);
    let urgent = scene.urgent()?;
    let leads = |one: &Process| one.arguments.iter().any(|word| word == "--child");
    let mut leaders = instance.place.processes();
    leaders.retain(leads);
    leaders[0].kill()?;
    // That of the instance is there again by now, perhaps.
    leader_of(instance.state())?.kill()?;
    instance.start_again()?;
    assert_eq!(instance.code(&urgent)?, 0);
    let row = instance.row(inside)?;
    assert_eq!((&row["state"], &row["nnodes"]), (&json!("RUN"), &json!(2)));
    let went = scene.on_third()?;
    let ended = instance.run(&["--at", inside, "job", "status", went])?;
    assert_ne!(ended.code, 0);
    fs::write(instance.place.join("over"), "")?;
    for job in scene.jobs.iter().filter(|job| *job != went) {
        scene.at(&["job", "status", job])?;
    }
    instance.shut_down()
}

#[test]
fn a_node_that_is_removed_leaves_a_workflow_that_has_others() -> Tested {
    let scene = Scene::new("10m")?;
    let (instance, inside) = (&scene.instance, &scene.inside);
    let removal = instance.begin(&["resource", "remove", "--force", "2", "a", "new", "fan"])?;
    removal.prints(&format!("{inside} to go on without"))?;
    let why = instance.ok(&["why", inside])?;
    assert!(why.contains("gives: ranks 2 by "), "{why}");
    scene.at(&["job", "wait-event", scene.on_third()?, "exception"])?;
    fs::write(instance.place.join("over"), "")?;
    removal.wait()?.ok()?;
    let row = instance.row(inside)?;
    assert_eq!((&row["state"], &row["nnodes"]), (&json!("RUN"), &json!(2)));
    let ranks = instance.json(&["resource", "list", "--json"])?;
    assert_eq!(ranks["all"]["ranks"], json!("0-1"), "{ranks}");
    let went = scene.on_third()?;
    for job in scene.jobs.iter().filter(|job| *job != went) {
        scene.at(&["job", "status", job])?;
    }
    instance.shut_down()
}

#[test]
fn a_node_that_is_drained_is_closed_in_a_workflow_that_holds_it() -> Tested {
    let place = Place::new()?;
    let state = place.path().join("state");
    let instance = Instance::start_in(place, state, &["--size=3", "--cores=2"])?;
    let outer = instance.ok(&["alloc", "--bg", "-N3", "-n3", "--exclusive"])?;
    let at = |words: &[&str]| instance.ok(&[&["--at", outer.as_str()], words].concat());
    let inner = at(&["alloc", "--bg", "-N3", "-n3", "--exclusive"])?;
    let path = format!("{outer}/{inner}");
    let within = |words: &[&str]| instance.ok(&[&["--at", path.as_str()], words].concat());
    // It can be reached before all its ranks are there, and one that is not yet is down as well.
    within(&["run", "-N3", "-n3", "true"])?;
    instance.ok(&["resource", "drain", "2", "a new fan"])?;
    // Said to each by the one around it.
    let begun = Instant::now();
    while !within(&["resource", "status", "--no-header"])?.contains("closed") {
        anyhow::ensure!(begun.elapsed() < LIMIT, "it is told of nothing");
    }
    let listed = within(&["resource", "list", "--json"])?;
    let listed: serde_json::Value = serde_json::from_str(&listed)?;
    assert_eq!(listed["down"]["ranks"], json!("2"), "{listed}");
    within(&["run", "-N2", "-n2", "true"])?;
    let all = within(&["submit", "-N3", "-n3", "true"])?;
    let why = within(&["why", &all])?;
    assert!(why.contains("only 2 are in service"), "{why}");
    let undrain = instance.run(&["--at", &path, "resource", "undrain", "2"])?;
    let refused = undrain.refusal()?;
    assert!(
        refused.contains("are drained in the instance around"),
        "{refused}"
    );
    instance.ok(&["resource", "undrain", "2"])?;
    within(&["job", "status", &all])?;
    instance.shut_down()
}
