//! Finished jobs are forgotten: what they used is not, what they wrote is.

use std::fs;

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

#[test]
fn forgotten_jobs_are_counted_through_restarts() -> Tested {
    let instance = Instance::start(&["--cores=2", "-S", "history.keep_jobs=1"])?;
    for _ in 0..3 {
        instance.ok(&["submit", "--quiet", "--wait", "true"])?;
    }
    instance.run(&["submit", "--quiet", "--wait", "false"])?;
    let counted = || -> anyhow::Result<[Value; 4]> {
        let tree = instance.json(&["tree", "--json"])?;
        let stats = instance.run(&["jobs", "-A", "--stats", "--json"])?;
        let stats: Value = serde_json::from_str(&stats.out)?;
        let (tree, stats) = (
            |key: &str| tree[key].clone(),
            |key: &str| stats[key].clone(),
        );
        Ok([
            tree("completed"),
            tree("failed"),
            stats("completed"),
            stats("failed"),
        ])
    };
    assert_eq!(counted()?, [3, 1, 3, 1].map(Value::from));
    begin_anew(&instance)?;
    instance.ok(&["submit", "--quiet", "--wait", "true"])?;
    let listed = instance.ok(&["jobs", "-a", "--no-header", "--format={id}"])?;
    assert_eq!(listed, "f6\nf5", "the others are forgotten");
    assert_eq!(counted()?, [4, 1, 4, 1].map(Value::from));
    begin_anew(&instance)?;
    assert_eq!(counted()?, [4, 1, 4, 1].map(Value::from));
    instance.shut_down()
}

#[test]
fn what_a_forgotten_job_wrote_on_any_rank_is_removed() -> Tested {
    let instance = Instance::start(&["--size=2", "--cores=2", "-S", "history.keep_jobs=1"])?;
    let word = ["--quiet", "--wait", "--requires=rank:1", "echo", "out"];
    for _ in 0..2 {
        instance.submit(&word)?;
    }
    instance.ok(&["submit", "--quiet", "--wait", "-N2", "-n2", "echo", "out"])?;
    let there = || -> anyhow::Result<Vec<String>> {
        let mut names = Vec::new();
        for directory in ["spool", "ranks/1/spool"] {
            for entry in fs::read_dir(instance.state().join(directory))? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    };
    assert_eq!(there()?, ["1.1.1", "2.1.1", "3.1.0", "3.1.1"]);
    begin_anew(&instance)?;
    instance.ok(&["submit", "--quiet", "--wait", "true"])?;
    // Its readers end with it.
    instance.ok(&["shutdown"])?;
    instance.place.nothing_is_left()?;
    assert_eq!(there()?, ["3.1.0", "3.1.1"]);
    Ok(())
}
