//! Declared instances as jobs: the site's own, which nobody ends or waits for by mistake.

use anyhow::Context;
use eddy_cli_tests::instance::leader_of;
use rustix::process::Signal;

use crate::queues::{declared, number, state_of};

type Tested = anyhow::Result<()>;

#[test]
fn cancel_of_all_leaves_declared_instances() -> Tested {
    let instance = declared()?;
    let own = instance.submit_started(&["-q", "services", "sleep", "1000"])?;
    instance.ok(&["run", "-q", "batch", "true"])?;
    let first = leader_of(&state_of(&instance, "batch")?)?;
    let listed = instance.ok(&["cancel", "--all", "--dry-run"])?;
    assert_eq!(number(&instance, &listed)?, number(&instance, &own)?);
    let ran = instance.run(&["cancel", "--all"])?;
    assert_eq!(ran.code, 0, "{}", ran.err);
    for name in ["batch", "debug"] {
        let line = format!(
            "left out: it is the declared instance {name}, in which others have jobs; \
             `eddy cancel --instance={name}` means it\n"
        );
        assert!(ran.err.contains(&line), "{}", ran.err);
    }
    assert_eq!(instance.code(&own)?, 128 + 15);
    assert_eq!(instance.run(&["cancel", "1-99999", "--dry-run"])?.out, "");
    for verb in [&["cancel"][..], &["job", "kill"], &["job", "requeue"]] {
        let ran = instance.run(&[verb, &["1-99999"]].concat())?;
        let line = "left out: it is the declared instance batch, in which others have jobs";
        assert!(ran.err.contains(line), "{}", ran.err);
    }
    instance.ok(&["run", "-q", "batch", "true"])?;
    assert_eq!(leader_of(&state_of(&instance, "batch")?)?, first);
    instance.shut_down()
}

#[test]
fn the_number_of_a_declared_instance_does_not_end_the_jobs_of_others() -> Tested {
    let instance = declared()?;
    let runs = instance.submit_started(&["-q", "batch", "sleep", "1000"])?;
    let first = leader_of(&state_of(&instance, "batch")?)?;
    let rows = instance.json(&["jobs", "--json"])?;
    let of_batch = |rows: &serde_json::Value| {
        let mut rows = rows.as_array()?.iter();
        let row = rows.find(|row| row["name"] == "batch")?;
        Some(row["f58"].as_str()?.to_owned())
    };
    let batch = of_batch(&rows).context("the instance is a job")?;
    for verb in [&["cancel"][..], &["job", "requeue"]] {
        let (ran, name) = (instance.run(&[verb, &[&batch]].concat())?, verb.join(" "));
        assert_eq!(
            ran.refusal()?,
            format!(
                "eddy {name}: job {batch}: it is the declared instance batch, in which others have jobs; \
                 `eddy {name} --instance=batch` means it"
            )
        );
    }
    let ran = instance.run(&["cancel", "--instance=night"])?;
    let said = "eddy cancel: --instance: `night` given, there are batch, debug";
    assert_eq!(ran.refusal()?, said);
    assert_eq!(instance.row(&runs)?["state"], "RUN");
    assert_eq!(leader_of(&state_of(&instance, "batch")?)?, first);
    instance.ok(&["job", "requeue", "--instance=batch"])?;
    instance.event(&batch, "requeue")?;
    assert_ne!(instance.code(&runs)?, 0, "as the help says");
    instance.ok(&["run", "-q", "batch", "true"])?;
    instance.ok(&["cancel", "--instance=batch"])?;
    assert_ne!(instance.code(&batch)?, 0);
    instance.shut_down()
}

#[test]
fn a_declared_instance_is_shut_down_by_its_name_only() -> Tested {
    let instance = declared()?;
    instance.ok(&["run", "-q", "batch", "true"])?;
    let runs = instance.submit_started(&["-q", "batch", "sleep", "1000"])?;
    let listed = instance.ok(&["jobs", "--no-header", "-o", "{id.f58plain} {name}"])?;
    let batch = listed.lines().find_map(|line| line.strip_suffix(" batch"));
    let batch = batch.context("the instance is a job")?;
    for path in [&["shutdown", batch], &["shutdown", "batch"]] {
        let said = "eddy shutdown: it is the declared instance batch, in which others have jobs, and would begin \
                    anew; `eddy shutdown --instance=batch` means it";
        assert_eq!(instance.run(path)?.refusal()?, said);
    }
    let ran = instance.run(&["shutdown", "--instance=night"])?;
    let said = "eddy shutdown: --instance: `night` given, there are batch, debug";
    assert_eq!(ran.refusal()?, said);
    let ran = instance.run(&["--at", "batch", "shutdown", "--instance=batch"])?;
    let said = "eddy shutdown: --instance: `batch` given, no declared instance is here; --parent asks the instance \
                around this one";
    assert_eq!(ran.refusal()?, said);
    assert_eq!(instance.row(&runs)?["state"], "RUN");
    let inside = ["--at", "batch", "--parent"];
    instance.ok(&[
        &inside[..],
        &["shutdown", "--instance=batch", "-m", "another kernel"],
    ]
    .concat())?;
    assert_ne!(instance.code(&runs)?, 0, "as the help says");
    assert_ne!(
        instance.ok(&["jobs", "--no-header", "-o", "{name}", batch])?,
        ""
    );
    instance.ok(&["run", "-q", "batch", "true"])?;
    instance.shut_down()
}

#[test]
fn who_waits_for_a_declared_instance_is_told_what_that_is() -> Tested {
    let instance = declared()?;
    instance.ok(&["run", "-q", "batch", "true"])?;
    let job = instance.submit_started(&["-q", "batch", "sleep", "1000"])?;
    let listed = instance.ok(&["jobs", "--no-header", "-o", "{id.f58plain} {name}"])?;
    let batch = listed.lines().find_map(|line| line.strip_suffix(" batch"));
    let batch = batch.context("the instance is a job")?;
    for verb in [&["wait"][..], &["job", "status"]] {
        let name = verb.join(" ");
        let waits = instance.begin(&[verb, &[batch]].concat())?;
        waits.complains(&format!(
            "eddy {name}: waiting for the end of job {batch}, the declared instance batch, which does not end by \
             itself; `eddy shutdown --instance=batch` ends it"
        ))?;
        waits.signal(Signal::TERM)?;
        waits.wait()?;
    }
    // Among others it is left out.
    instance.ok(&["cancel", &job])?;
    let ran = instance.run(&["wait", batch, &job])?;
    assert_eq!(ran.code, 128 + 15);
    let line = format!("eddy wait: job {batch}: left out: it is the declared instance batch");
    assert!(ran.err.contains(&line), "{}", ran.err);
    instance.shut_down()
}
