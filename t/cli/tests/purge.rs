//! Finished jobs are forgotten: what they used is not.

use eddy_cli_tests::instance::Instance;
use serde_json::Value;

type Tested = anyhow::Result<()>;

/// Ends the instance and begins it anew: the first commits of a leader forget what is too old.
fn begin_anew(instance: &Instance) -> Tested {
    instance.ok(&["shutdown"])?;
    instance.place.nothing_is_left()?;
    instance.start_again()
}

#[test]
fn what_a_forgotten_job_used_is_charged_through_restarts() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "history.keep_jobs=1"])?;
    for _ in 0..3 {
        instance.ok(&["submit", "--quiet", "--wait", "sleep", "0.05"])?;
    }
    let charged = || -> anyhow::Result<Value> {
        let report = instance.json(&["usage", "--json"])?;
        Ok(report["usage"][0]["charged"].clone())
    };
    let before = charged()?;
    begin_anew(&instance)?;
    // By the time that its end is told there was more than one commit.
    instance.ok(&["submit", "--quiet", "--wait", "sleep", "0.05"])?;
    let listed = instance.ok(&["jobs", "-a", "--no-header", "--format={id}"])?;
    assert_eq!(listed, "f5\nf4");
    let used = charged()?;
    assert_ne!(used, before);
    begin_anew(&instance)?;
    assert_eq!(charged()?, used);
    instance.shut_down()
}
