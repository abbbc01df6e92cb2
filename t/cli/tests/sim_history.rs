//! `eddy sim` over what an instance has recorded: while it runs, when it is over,
//! from its state directory, its listing and its own mouth.

use std::fs;

use anyhow::Context;
use eddy_cli_tests::instance::Instance;
use serde_json::Value;

type Tested = anyhow::Result<()>;

/// Four cores that are pretended, first come first served.
const START: [&str; 4] = ["--fake", "nodes=1,cores=4", "-S", "policy.preset=fcfs"];

/// A job whose tasks are pretended to last so long.
fn submit(instance: &Instance, words: &[&str], lasts: &str) -> anyhow::Result<String> {
    let lasts = format!("--setattr=system.exec.test.run_duration={lasts}");
    instance.submit(&[words, &[&lasts, "true"]].concat())
}

/// A long narrow job, a wide one that waits for it, one that could pass it and must not, and one
/// that is cancelled before it starts.
fn history() -> anyhow::Result<Instance> {
    let instance = Instance::start(&START)?;
    let first = submit(&instance, &["-n3", "-t", "10m"], "1.5s")?;
    instance.event(&first, "start")?;
    let wide = submit(&instance, &["-n4", "-t", "1m"], "0.5s")?;
    let filler = submit(&instance, &["-n1", "-t", "1m"], "0.7s")?;
    let never = instance.submit(&["-n1", "--urgency=0", "true"])?;
    instance.ok(&["cancel", &never])?;
    for job in [&first, &wide, &filler] {
        assert_eq!(instance.code(job)?, 0);
    }
    Ok(instance)
}

const POLICIES: [&str; 3] = ["--policy=fcfs", "--policy=easy", "--json"];

fn number(figures: &Value, policy: &str, name: &str) -> anyhow::Result<f64> {
    let figure = figures[policy][name].as_f64();
    figure.with_context(|| format!("no {policy}.{name} in {figures}"))
}

/// What is told of that history, wherever it is read.
fn is_that_history(figures: &Value) -> Tested {
    let recorded = |name| number(figures, "recorded", name);
    // The filler waited for the wide one and that for the first, since nobody passes.
    assert_eq!((recorded("jobs")?, recorded("dropped")?), (3.0, 1.0));
    assert_eq!((recorded("procs")?, recorded("max_queue")?), (4.0, 2.0));
    let waited = recorded("max_wait")?;
    assert!(waited > 1.5, "{figures}");
    // What it records of itself a replay of its own policy gives again, but for what it takes an
    // instance to say and to write so.
    let again = number(figures, "fcfs", "max_wait")?;
    assert!((again - waited).abs() < 0.5, "{figures}");
    let (mean, mean_again) = (
        recorded("mean_wait")?,
        number(figures, "fcfs", "mean_wait")?,
    );
    assert!((mean - mean_again).abs() < 0.5, "{figures}");
    assert_eq!(figures["recorded"]["passes"], Value::Null);
    // Another policy lets the filler pass, and delays nobody for it.
    assert_eq!(number(figures, "easy", "backfilled")?, 1.0);
    let easy = number(figures, "easy", "mean_wait")?;
    assert!(easy < mean_again - 0.4, "{figures}");
    let wide = number(figures, "easy", "max_wait")?;
    assert!(wide < again, "{figures}");
    Ok(())
}

#[test]
fn the_history_of_an_instance_is_replayed_under_other_policies() -> Tested {
    let instance = history()?;
    let state = instance.state().display().to_string();
    let of_directory = || -> anyhow::Result<Value> {
        let words = [&["sim", &state], &POLICIES[..]].concat();
        Ok(serde_json::from_str(&instance.place.run(&words)?.ok()?)?)
    };
    // While the leader lives and writes.
    let living = of_directory()?;
    is_that_history(&living)?;
    is_that_history(&instance.json(&[&["sim", "--history"], &POLICIES[..]].concat())?)?;
    let rows = instance.ok(&["jobs", "-a", "--json"])?;
    fs::write(instance.place.join("rows.json"), rows)?;
    let listed = ["sim", "rows.json", "--procs=4"];
    is_that_history(&instance.json(&[&listed, &POLICIES[..]].concat())?)?;
    let table = instance
        .place
        .run(&["sim", &state, "--policy=easy"])?
        .ok()?;
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 3, "{table}");
    assert!(
        lines[1].starts_with("recorded ") && lines[2].starts_with("easy "),
        "{table}"
    );
    // And when it is over: what was recorded is what it was.
    instance.shut_down()?;
    assert_eq!(of_directory()?, living);
    Ok(())
}

#[test]
fn jobs_are_charged_to_their_accounts_and_come_when_they_could_start() -> Tested {
    let instance = Instance::start(&START)?;
    let held = submit(
        &instance,
        &["-n1", "--urgency=0", "--setattr=system.account=physics"],
        "0.1s",
    )?;
    let other = submit(&instance, &["-n1"], "1s")?;
    assert_eq!(instance.code(&other)?, 0);
    instance.ok(&["job", "urgency", &held, "16"])?;
    assert_eq!(instance.code(&held)?, 0);
    let state = instance.state().display().to_string();
    fs::write(instance.place.join("shares.json"), r#"{"physics": 3}"#)?;
    let words = [
        "sim",
        &state,
        "--shares=shares.json",
        "--policy=fcfs",
        "--json",
    ];
    let figures: Value = serde_json::from_str(&instance.place.run(&words)?.ok()?)?;
    // It waited for nobody while it was held.
    assert!(number(&figures, "recorded", "max_wait")? < 0.5, "{figures}");
    assert!(figures["fcfs"]["fairness"].is_number(), "{figures}");
    fs::write(instance.place.join("shares.json"), r#"{"chemistry": 3}"#)?;
    let refused = instance.place.run(&words)?;
    let line = refused.refusal()?;
    assert!(line.contains("`chemistry` is no account"), "{line}");
    Ok(())
}

#[test]
fn a_job_has_only_nodes_that_it_asked_for() -> Tested {
    let fake = ["--fake", "nodes=2,cores=4", "-S", "policy.preset=fcfs"];
    let instance = Instance::start(&fake)?;
    let first = ["-n4", "-t", "1m", "--requires=rank:0"];
    let first = submit(&instance, &first, "1.5s")?;
    let second = submit(&instance, &["-n4", "-t", "1m", "--requires=rank:0"], "0.5s")?;
    for job in [&first, &second] {
        assert_eq!(instance.code(job)?, 0);
    }
    let state = instance.state().display().to_string();
    let waited = |words: &[&str]| {
        let words = [&["sim", &state, "--policy=fcfs", "--json"], words].concat();
        let figures: Value = serde_json::from_str(&instance.place.run(&words)?.ok()?)?;
        number(&figures, "fcfs", "max_wait")
    };
    // The other node was free all the time.
    assert!(waited(&[])? > 1.0);
    assert!(waited(&["--procs=8"])? < 0.5, "so many cores are all alike");
    Ok(())
}

#[test]
fn a_directory_without_a_history_is_refused_in_one_line() -> Tested {
    let instance = Instance::start(&START)?;
    let state = instance.state().display().to_string();
    let refused = instance.place.run(&["sim", &state, "--policy=easy"])?;
    let line = refused.refusal()?;
    assert!(line.contains("no job with cores is recorded"), "{line}");
    fs::create_dir(instance.place.join("empty"))?;
    let refused = instance.place.run(&["sim", "empty", "--policy=easy"])?;
    let line = refused.refusal()?;
    assert!(line.contains("empty: "), "{line}");
    Ok(())
}
