//! A policy that a running instance obeys, and another that is set while jobs wait.

use std::time::{Duration, Instant};

use eddy_cli_tests::instance::Instance;
use serde_json::{Value, json};

type Tested = anyhow::Result<()>;

/// Four cores that are pretended, with tasks that last longer than any test.
const FAKE: [&str; 4] = [
    "--fake",
    "nodes=1,cores=4",
    "-S",
    "exec.test.run_duration=3000s",
];

fn start(policy: &str) -> anyhow::Result<Instance> {
    let preset = format!("policy.preset={policy}");
    Instance::start(&[&FAKE[..], &["-S", &preset]].concat())
}

/// A job that holds most, the first that waits, one that fits beside, one that would be in its way.
fn four(instance: &Instance) -> anyhow::Result<[String; 4]> {
    let holder = instance.submit(&["-n3", "-t", "10m", "true"])?;
    instance.event(&holder, "start")?;
    let head = instance.submit(&["-n4", "-t", "5m", "true"])?;
    let filler = instance.submit(&["-n1", "-t", "1m", "true"])?;
    let long = instance.submit(&["-n1", "-t", "60m", "true"])?;
    Ok([holder, head, filler, long])
}

fn why(instance: &Instance, job: &str) -> anyhow::Result<Value> {
    Ok(instance.json(&["why", job, "--json"])?[0].take())
}

#[test]
fn easy_lets_a_short_job_pass_and_tells_the_others_why_they_wait() -> Tested {
    let instance = start("easy")?;
    let [holder, head, filler, long] = four(&instance)?;
    instance.event(&filler, "start")?;
    let first = why(&instance, &head)?;
    assert_eq!(first["state"], "SCHED");
    assert_eq!(
        (&first["ahead"], &first["binding"]["kind"]),
        (&json!(0), &json!("no-room"))
    );
    let row = instance.row(&holder)?;
    let started = row["t_alloc"].as_f64().unwrap_or_default();
    // The limit of the holder, and ten seconds until everything is given back.
    let latest = first["start"]["latest"].as_f64().unwrap_or_default();
    assert!((latest - started - 610.0).abs() < 1.0, "{first} {row}");
    let last = why(&instance, &long)?;
    assert_eq!(last["ahead"], 1);
    assert!(last["start"]["latest"].as_f64() > Some(latest), "{last}");
    let listed = instance.row(&long)?["reason"].to_string();
    assert!(listed.contains("for its turn or for room"), "{listed}");
    let text = instance.ok(&["why", &head, &filler])?;
    for line in [
        "  ahead:  nobody",
        "  start:  between 20",
        "  turn:   easy: 16 = urgency 16",
    ] {
        assert!(text.contains(line), "no `{line}` in {text}");
    }
    let ran = instance.run(&["why", "f99999", &filler])?;
    assert_eq!(ran.code, 1);
    assert_eq!(ran.refusal()?, "eddy why: no such job here: f99999");
    Ok(())
}

#[test]
fn priority_is_a_table_of_terms_that_add_up() -> Tested {
    let instance = start("flux")?;
    let [_, head, _, long] = four(&instance)?;
    let told = instance.json(&["priority", "--json"])?;
    let jobs = told["jobs"].as_array().cloned().unwrap_or_default();
    assert_eq!((jobs.len(), &told["more"]), (2, &json!(0)), "{told}");
    assert_eq!(
        (&jobs[0]["f58"], &jobs[1]["f58"]),
        (&json!(head), &json!(long))
    );
    for job in &jobs {
        let terms = job["terms"].as_array().map_or(&[][..], Vec::as_slice);
        let sum: f64 = terms
            .iter()
            .filter_map(|term| term["contribution"].as_f64())
            .sum();
        let value = job["value"].as_f64().unwrap_or_default();
        assert!(value > 500_000.0 && (sum - value).abs() < 0.01, "{job}");
    }
    let table = instance.ok(&["priority"])?;
    let heading: Vec<&str> = table
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    assert_eq!(heading[..4], ["JOBID", "USER", "VALUE", "QOS"]);
    let long_form = instance.ok(&["priority", "-l", &long])?;
    assert!(long_form.contains("0.5x1000000=500000"), "{long_form}");
    assert_eq!(long_form.lines().count(), 2);
    Ok(())
}

#[test]
fn a_policy_set_while_jobs_wait_is_obeyed_at_once_and_by_the_next_leader() -> Tested {
    let instance = start("fcfs")?;
    let [_, head, filler, long] = four(&instance)?;
    let listed = instance.row(&filler)?["reason"].to_string();
    assert!(
        listed.contains(&format!("waits behind job {head}")),
        "{listed}"
    );
    instance.ok(&["config", "set", "policy.preset=easy"])?;
    instance.event(&filler, "start")?;
    let told = instance.ok(&["config", "set", "policy.queue.depth=3"])?;
    assert_eq!(told, "policy.queue.depth: 1 -> 3");
    let told = instance.ok(&["config", "set", "policy.queue.depth=3"])?;
    assert_eq!(told, "nothing changed");
    instance.kill_leader()?;
    instance.start_again()?;
    assert_eq!(instance.ok(&["config", "get", "policy.queue.depth"])?, "3");
    assert_eq!(why(&instance, &long)?["priority"]["policy"], "easy");
    let shown = instance.ok(&["policy", "show"])?;
    assert!(
        shown.contains("depth = 3  # overridden; easy has 1"),
        "{shown}"
    );
    instance.ok(&["config", "set", "policy.preset=fcfs"])?;
    let listed = instance.row(&long)?["reason"].to_string();
    assert!(listed.contains("waits behind job"), "{listed}");
    Ok(())
}

#[test]
fn what_would_be_is_told_and_advice_that_is_followed_starts_the_job() -> Tested {
    let instance = start("easy")?;
    let [_, head, filler, long] = four(&instance)?;
    instance.event(&filler, "start")?;
    instance.ok(&["cancel", &filler])?;
    instance.event(&filler, "clean")?;
    let told = why(&instance, &long)?;
    let limit = told["advice"][0]["limit"].as_f64().unwrap_or_default();
    assert!((500.0..600.0).contains(&limit), "{told}");
    let text = instance.ok(&["why", &long])?;
    assert!(text.contains("  sooner: with -t "), "{text}");
    let supposed = instance.ok(&["why", &head, "--if", "slots=1,time=2m"])?;
    let expected = "  if:     it asked for 1 slot -t 2m\n  start:  at once\n";
    assert!(supposed.contains(expected), "{supposed}");
    let never = instance.ok(&["why", &head, "--if", "slots=5"])?;
    let expected = "  reason: asks for 5 cores; the instance has 4\n  start:  never: the instance does not have that";
    assert!(never.ends_with(expected), "{never}");
    let held = instance.submit(&["--urgency=0", "true"])?;
    let told = instance.ok(&["why", &held, "--if", "slots=1"])?;
    assert!(
        told.contains("  if released, and kept back by nothing else: it would start "),
        "{told}"
    );
    let told = instance.ok(&["--at", instance.uri(), "why", &held])?;
    let release = format!("`eddy --at {} release {held}` lets it go", instance.uri());
    assert!(told.contains(&release), "{told}");
    let policy = instance.ok(&["why", &long, "--if-policy", "fcfs"])?;
    assert!(policy.contains("waits behind job"), "{policy}");
    assert!(
        policy.contains("  if:     policy `fcfs` were obeyed\n"),
        "{policy}"
    );
    for (given, expected) in [
        (
            ["--if", "nodes=0"],
            "--if: nodes: `0` given; allowed are 1 to 2147483647",
        ),
        (
            ["--if-policy", "nosuch"],
            "--if-policy: nosuch: is no preset",
        ),
    ] {
        let ran = instance.run(&[&["why", &long][..], &given[..]].concat())?;
        assert_ne!(ran.code, 0);
        assert!(ran.refusal()?.contains(expected), "{:?}", ran.refusal());
    }
    let seconds = format!("{}s", limit - 60.0);
    let short = instance.submit(&["-n1", "-t", &seconds, "true"])?;
    instance.event(&short, "start")?;
    Ok(())
}

#[test]
fn what_is_no_key_of_a_policy_that_is_obeyed_is_refused_by_name() -> Tested {
    let instance = start("fcfs")?;
    for (given, expected) in [
        ("journal.sync=full", "journal.sync: counts from a start on"),
        ("policy.queue.dept=3", "policy.queue.dept: unknown key"),
        (
            "policy.share.algorithm=drf policy.queue.evict=fair_share",
            "queue.evict running instances do not serve",
        ),
    ] {
        let words: Vec<&str> = ["config", "set"]
            .into_iter()
            .chain(given.split(' '))
            .collect();
        let ran = instance.run(&words)?;
        let line = ran.refusal()?;
        assert!(line.contains(expected), "{given}: {line}");
    }
    assert_eq!(instance.ok(&["config", "get", "policy.preset"])?, "fcfs");
    Ok(())
}

#[test]
fn accounts_take_turns_and_a_rate_lets_the_next_start_in_time() -> Tested {
    let instance = start("armada")?;
    let holder = instance.submit(&["-n3", "-t", "10m", "true"])?;
    instance.event(&holder, "start")?;
    let wide = instance.submit(&["-n4", "-t", "5m", "true"])?;
    let narrow = instance.submit(&["-n1", "-t", "60m", "true"])?;
    // Nothing is kept for the wide one.
    instance.event(&narrow, "start")?;
    let told = why(&instance, &wide)?;
    assert_eq!(told["binding"]["kind"], "no-room");
    let terms = told["priority"]["terms"].as_array().cloned();
    let terms: Vec<(Value, Value)> = terms
        .unwrap_or_default()
        .iter()
        .map(|term| (term["name"].clone(), term["factor"].clone()))
        .collect();
    assert_eq!(
        terms,
        [(json!("held"), json!(1.0)), (json!("asked"), json!(1.0))],
        "{told}"
    );
    let checked = instance.ok(&["priority"])?;
    assert!(
        checked
            .lines()
            .next()
            .is_some_and(|line| line.contains("HELD")),
        "{checked}"
    );
    // Half a job a second: the second of two waits for its token, and then for nothing else.
    instance.ok(&["cancel", &holder, &wide])?;
    instance.event(&holder, "clean")?;
    instance.ok(&[
        "config",
        "set",
        "policy.queue.limits.rate={ per_second = 0.5, burst = 1 }",
    ])?;
    let first = instance.submit(&["-n1", "-t", "1m", "true"])?;
    let second = instance.submit(&["-n1", "-t", "1m", "true"])?;
    instance.event(&first, "start")?;
    instance.event(&second, "start")?;
    let at = |job: &str| -> anyhow::Result<f64> {
        Ok(instance.row(job)?["t_alloc"].as_f64().unwrap_or_default())
    };
    let apart = at(&second)? - at(&first)?;
    assert!((1.9..30.0).contains(&apart), "{apart}");
    Ok(())
}

/// With tasks of its own: what narrow ones leave is never enough for a wide one, until that is kept for it.
#[test]
fn a_wide_job_under_narrow_ones_is_promised_a_start_after_so_long_and_begins() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "policy.preset=armada"])?;
    let mut gate = instance.place.fifo("gate")?;
    let script = ["sh", "-c", "read line <gate"];
    let narrow = || instance.submit(&[&["-c1", "-t10m"], &script[..]].concat());
    let runs = [narrow()?, narrow()?];
    for job in &runs {
        instance.event(job, "start")?;
    }
    let wide = instance.submit(&["-c2", "-t10m", "true"])?;
    let passes = narrow()?;
    gate.let_go(1)?;
    instance.event(&passes, "start")?;
    assert_eq!(why(&instance, &wide)?["start"]["basis"], "forecast");

    let bound = "policy.queue.reserve_after=1s";
    instance.ok(&["config", "set", bound])?;
    let begun = Instant::now();
    let start = loop {
        let start = why(&instance, &wide)?["start"].take();
        if start["basis"] == "promise" {
            break start;
        }
        let waited = begun.elapsed();
        anyhow::ensure!(waited < Duration::from_secs(20), "no promise: {start}");
    };
    let waits = narrow()?;
    gate.let_go(1)?;
    // A core is free, and whoever is over in time has it.
    let short = instance.submit(&["-c1", "-t1m", "true"])?;
    assert_eq!(instance.code(&short)?, 0);
    let told = instance.ok(&["why", &waits])?;
    let delays = format!("would delay job {wide}, which starts by");
    assert!(told.contains(&delays), "{told}");
    assert_eq!(instance.row(&wide)?["state"], "SCHED");
    gate.let_go(1)?;
    assert_eq!(instance.code(&wide)?, 0);
    let began = instance.row(&wide)?["t_alloc"].as_f64();
    assert!(began.is_some() && began <= start["latest"].as_f64());
    instance.event(&waits, "start")?;
    assert!(instance.row(&waits)?["t_alloc"].as_f64() > began);
    gate.let_go(1)?;
    assert_eq!(instance.code(&waits)?, 0);
    Ok(())
}

#[test]
fn a_placement_that_is_set_counts_for_the_next_job() -> Tested {
    let instance = Instance::start(&[
        "--fake",
        "nodes=3,cores=4",
        "-S",
        "exec.test.run_duration=3000s",
    ])?;
    let place = |rank: &str| -> anyhow::Result<String> {
        instance.ok(&["config", "set", &format!("policy.placement.rank={rank}")])?;
        let job = instance.submit(&["-n1", "true"])?;
        instance.event(&job, "start")?;
        Ok(instance.row(&job)?["nodelist"].to_string())
    };
    // Ranks 0, 1, 0 and 2 of three.
    let places = ["low_id", "spread", "pack", "high_id"].map(place);
    let places: Vec<String> = places.into_iter().collect::<anyhow::Result<_>>()?;
    assert_eq!(places[0], places[2], "{places:?}");
    assert!(places[0] < places[1] && places[1] < places[3], "{places:?}");
    Ok(())
}

#[test]
fn classes_and_qos_of_a_policy_that_is_set_may_be_asked_for_and_no_others() -> Tested {
    let instance = start("fcfs")?;
    let classed = ["submit", "--class=preemptible", "true"];
    let refused = instance.run(&classed)?;
    let line = refused.refusal()?;
    assert!(
        line.contains("class: `preemptible` given, there are default"),
        "{line}"
    );
    instance.ok(&[
        "config",
        "set",
        "policy.placement.classes.preemptible.priority=5",
        "policy.priority.factors.qos.gold=0.9",
    ])?;
    instance.ok(&classed)?;
    instance.ok(&["submit", "--qos=gold", "true"])?;
    instance.ok(&["account", "add", "a", "--qos=gold"])?;
    instance.ok(&["account", "del", "a"])?;
    instance.kill_leader()?;
    instance.start_again()?;
    instance.ok(&["submit", "--class=preemptible", "--qos=gold", "true"])?;
    let refused = instance.run(&["submit", "--qos=silver", "true"])?;
    let line = refused.refusal()?;
    assert!(
        line.contains("qos: `silver` given, there are expedite, gold"),
        "{line}"
    );
    Ok(())
}

/// A policy without fair share weighs nothing of what is used; what is used meanwhile counts all the same.
#[test]
fn what_was_used_under_another_policy_counts_by_the_one_that_is_set() -> Tested {
    let duration = ["-S", "exec.test.run_duration=200ms"];
    let fake = ["--fake", "nodes=1,cores=4", "-S", "policy.preset=fcfs"];
    let instance = Instance::start(&[&fake[..], &duration].concat())?;
    let uid = rustix::process::getuid().as_raw().to_string();
    for account in ["a", "b"] {
        instance.ok(&["account", "add", account])?;
        instance.ok(&["account", "add-user", &uid, "-A", account])?;
    }
    let job = instance.submit(&["-n4", "-A", "a", "true"])?;
    instance.event(&job, "clean")?;
    let used = |instance: &Instance| -> anyhow::Result<f64> {
        let shares = instance.json(&["shares", "--json"])?;
        let rows = shares["shares"].as_array().cloned().unwrap_or_default();
        let a = rows
            .iter()
            .find(|row| row["account"] == "a" && row["user"].is_null());
        Ok(a.and_then(|row| row["usage"].as_f64()).unwrap_or(-1.0))
    };
    instance.ok(&["config", "set", "policy.preset=flux"])?;
    let told = used(&instance)?;
    // Four cores for a fifth of a second at least.
    assert!(told > 0.79, "{told}");
    instance.kill_leader()?;
    instance.start_again()?;
    let after = used(&instance)?;
    assert!((told - after).abs() < 0.01, "{told} {after}");
    Ok(())
}
