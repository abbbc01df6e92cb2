//! What `eddy shares` tells of use is what `eddy usage` charges.

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::LIMIT;
use serde_json::Value;

type Tested = anyhow::Result<()>;

/// Where what was used counts, and is never forgotten.
const COUNTING: [&str; 5] = [
    "--cores=4",
    "-S",
    "policy.preset=flux",
    "-S",
    "policy.usage.decay={form = \"none\"}",
];

/// Half of the microsecond in which times are recorded, in seconds.
const NEAR: f64 = 0.5e-6;

/// A task that tells its process and waits to be let go.
const GATED: &str = "echo $$ >told; read line <gate";

/// Core-seconds by shares, and charged by usage.
fn used(instance: &Instance) -> anyhow::Result<(f64, f64)> {
    let rows = |told: &Value| told.as_array().cloned().unwrap_or_default();
    let shares = rows(&instance.json(&["shares", "--json"])?["shares"]);
    let users = shares.iter().filter(|row| !row["user"].is_null());
    let shares = users.filter_map(|row| row["usage"].as_f64()).sum();
    let usage = rows(&instance.json(&["usage", "--json"])?["usage"]);
    let charged = usage.iter();
    let charged = charged.filter_map(|row| row["charged"]["core_us"].as_u64());
    Ok((shares, charged.sum::<u64>() as f64 / 1e6))
}

fn agree(instance: &Instance) -> anyhow::Result<f64> {
    let (shares, usage) = used(instance)?;
    assert!((shares - usage).abs() < NEAR, "{shares} and {usage}");
    Ok(usage)
}

#[test]
fn shares_have_what_usage_has_of_jobs_that_ended_while_the_leader_was_away() -> Tested {
    let instance = Instance::start(&COUNTING)?;
    let (mut tells, mut gate) = (instance.place.fifo("told")?, instance.place.fifo("gate")?);
    let mut jobs = Vec::new();
    for cores in ["-n1", "-c2", "-n1"] {
        let job = instance.submit(&[cores, "sh", "-c", GATED])?;
        let task = Process::of(tells.line()?.trim().parse()?);
        jobs.push((job, task.expect("it waits")));
    }
    instance.kill_leader()?;
    gate.let_go(3)?;
    for (_, task) in &jobs {
        assert!(task.ends_within(LIMIT));
    }
    instance.start_again()?;
    for (job, _) in &jobs {
        instance.event(job, "clean")?;
    }
    assert!(agree(&instance)? > 0.0);
    // Nor is it another figure by the next leader.
    instance.kill_leader()?;
    instance.start_again()?;
    agree(&instance)?;
    instance.shut_down()
}
