//! What a queue instance is asked that is its parent's to say: queues, accounts, reservations, drains, who is
//! next. With real processes.

use std::fs;

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;
use eddy_wire::hostlist::Hostlist;

type Tested = anyhow::Result<()>;

/// A queue instance that holds a node, and one that holds none.
const SITE: &str = r#"
[[instance]]
name = "solid"
nodes = 1

[[instance]]
name = "elastic"
elastic = "all"

[[queue]]
name = "batch"
instance = "solid"

[[queue]]
name = "night"
instance = "elastic"
"#;

struct Site {
    instance: Instance,
}

impl Site {
    fn start() -> anyhow::Result<Site> {
        let place = Place::new()?;
        let config = place.join("site.toml");
        fs::write(&config, SITE)?;
        let state = place.path().join("state");
        let options = ["--size=3", "--cores=2", "--config", &config];
        let instance = Instance::start_in(place, state, &options)?;
        let site = Site { instance };
        // Waits until they have heard of their parent.
        for instance in ["solid", "elastic"] {
            site.at(instance, &["queue", "list"])?;
        }
        Ok(site)
    }

    fn at(&self, instance: &str, words: &[&str]) -> anyhow::Result<String> {
        self.instance.ok(&[&["--at", instance], words].concat())
    }

    /// Where a job is.
    fn hosts(&self, job: &str) -> anyhow::Result<String> {
        let row = ["jobs", "--no-header", "-a", "-o", "{nodelist}", job];
        Ok(self.instance.ok(&row)?.trim().to_owned())
    }
}

#[test]
fn queues_are_stopped_and_closed_from_within_the_instance_that_they_lead_to() -> Tested {
    let site = Site::start()?;
    for (instance, queue) in [("solid", "batch"), ("elastic", "night")] {
        site.at(instance, &["queue", "stop", queue, "--message", "later"])?;
        let waits = site.instance.submit(&["-q", queue, "true"])?;
        let why = site.instance.ok(&["why", &waits])?;
        assert!(why.contains("is stopped: later"), "{why}");
        // All that waits for it is listed there.
        let listed = site.at(instance, &["jobs", "--no-header", "-o", "{id.f58} {state}"])?;
        assert_eq!(listed.trim(), format!("{waits} SCHED"));
        site.at(instance, &["queue", "disable", queue])?;
        let refused = site.instance.run(&["submit", "-q", queue, "true"])?;
        assert!(
            refused.refusal()?.contains("is closed") || refused.err.contains(queue),
            "{}",
            refused.err
        );
        site.at(instance, &["queue", "enable", queue])?;
        site.at(instance, &["queue", "start", queue])?;
        assert_eq!(site.instance.code(&waits)?, 0);
        let listed = site.at(
            instance,
            &["jobs", "-a", "--no-header", "-o", "{id.f58} {result}"],
        )?;
        assert_eq!(listed.trim(), format!("{waits} COMPLETED"));
    }
    site.instance.shut_down()
}

#[test]
fn an_instance_in_that_of_a_queue_is_over_for_all_when_its_shutdown_returns() -> Tested {
    let site = Site::start()?;
    let root = &site.instance;
    for at in 0..6 {
        let inner = root.ok(&["alloc", "-q", "night", "--bg", "-N1", "-t5"])?;
        let inner = inner.trim_end();
        match at % 2 {
            0 => root.ok(&["shutdown", inner])?,
            _ => site.at(inner, &["shutdown"])?,
        };
        assert_eq!(root.row(inner)?["result"], "COMPLETED", "{at}");
    }
    site.instance.shut_down()
}

#[test]
fn accounts_reservations_and_usage_are_those_of_the_parent_wherever_one_asks() -> Tested {
    let site = Site::start()?;
    site.at("solid", &["account", "add", "physics", "--shares=3"])?;
    let me = rustix::process::geteuid().as_raw().to_string();
    let add = ["account", "add-user", &me, "--account=physics", "--default"];
    site.at("elastic", &add)?;
    let everywhere = |words: &[&str]| {
        let root = site.instance.ok(words)?;
        for instance in ["solid", "elastic"] {
            assert_eq!(site.at(instance, words)?, root, "{words:?} at {instance}");
        }
        Ok::<_, anyhow::Error>(root)
    };
    assert!(everywhere(&["account", "list"])?.contains("physics"));
    assert!(everywhere(&["shares", "-n"])?.contains("physics"));
    let create = [
        "reservation",
        "create",
        "later",
        "--start=+1h",
        "--duration=1h",
        "--maintenance",
    ];
    // Its own number for the node, which the root calls by another.
    site.at("solid", &[&create[..], &["--nodes=0"]].concat())?;
    assert!(everywhere(&["reservation", "list"])?.contains("later"));
    let rows = site.instance.json(&["reservation", "list", "--json"])?;
    let job = site.instance.submit(&["-q", "batch", "-t1m", "true"])?;
    assert_eq!(site.instance.code(&job)?, 0);
    assert_eq!(rows[0]["hosts"], site.hosts(&job)?.as_str());
    site.at("elastic", &["reservation", "delete", "later"])?;
    assert!(!everywhere(&["reservation", "list"])?.contains("later"));
    let refused = site
        .instance
        .run(&["--at", "solid", "config", "set", "policy.preset=easy"])?;
    assert!(
        refused.refusal()?.contains("set it there"),
        "{}",
        refused.err
    );
    site.instance
        .submit_started(&["-q", "batch", "-n2", "sleep", "1000"])?;
    let waits = site.instance.submit(&["-q", "batch", "true"])?;
    assert!(everywhere(&["priority", "--no-header"])?.contains(&waits));
    let usage = ["usage", "--json"];
    let charged = |text: &str| -> anyhow::Result<f64> {
        let usage: serde_json::Value = serde_json::from_str(text)?;
        let charged = usage["usage"][0]["charged"]["core_us"].as_f64();
        charged.context("what was charged")
    };
    let root = charged(&site.instance.ok(&usage)?)?;
    assert!(root > 0.0);
    assert_eq!(charged(&site.at("solid", &usage)?)?, root);
    let by_job = site.instance.json(&["usage", "1-3", "--json"])?;
    let of = |name: &str, what: &str| {
        let mut jobs = by_job.as_array().into_iter().flatten();
        let job = jobs.find(|job| job["name"] == name);
        job.map(|job| job[what]["core_us"].clone())
            .unwrap_or_default()
    };
    assert_eq!(of("solid", "charged"), 0, "{by_job}");
    assert_eq!(of("solid", "running"), 0, "{by_job}");
    assert!(of("solid", "used").as_f64() >= Some(root), "{by_job}");
    assert_eq!(of("elastic", "used"), 0, "nothing ran there: {by_job}");
    assert!(of("elastic", "had").is_null(), "{by_job}");
    site.instance.shut_down()
}

#[test]
fn nodes_that_are_drained_in_a_queue_instance_are_passed_nothing() -> Tested {
    let site = Site::start()?;
    // The two nodes that the fixed instance has not.
    let both = ["-q", "night", "-N2", "-n2", "-c2", "true"];
    let first = site.instance.submit(&both)?;
    assert_eq!(site.instance.code(&first)?, 0);
    let hosts: Hostlist = site.hosts(&first)?.parse()?;
    let host = hosts.hosts().next().context("a job has hosts")?;
    // By the number that the instance has for it, which is not the root's.
    let status = |at: &[&str]| {
        let rows = site
            .instance
            .json(&[at, &["resource", "status", "--json"]].concat())?;
        let rows = rows.as_array().context("rows")?;
        let row = rows.iter().find(|row| row["host"] == *host);
        row.cloned().context("the host is there")
    };
    let inside = ["--at", "elastic"];
    let rank = status(&inside)?["rank"].to_string();
    let drain = ["resource", "drain", &rank, "a fan", "is loud"];
    site.at("elastic", &drain)?;
    assert_eq!(status(&[])?["drain"]["reason"], "a fan is loud");
    let one = site.instance.submit(&["-q", "night", "-c2", "true"])?;
    let waits = site.instance.submit(&both)?;
    assert_eq!(site.instance.code(&one)?, 0);
    assert_ne!(site.hosts(&one)?, *host);
    let why = site.instance.ok(&["why", &waits])?;
    assert!(why.contains("waits for 2 nodes"), "{why}");
    site.at("elastic", &["resource", "undrain", &rank])?;
    assert_eq!(site.instance.code(&waits)?, 0);
    let again = [&inside[..], &["resource", "undrain", &rank]].concat();
    let again = site.instance.run(&again)?;
    assert!(
        again.refusal()?.contains("are not drained"),
        "{}",
        again.err
    );
    site.instance.shut_down()
}
