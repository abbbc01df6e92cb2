//! What was promised, checked when all is quiet: by the listing, the journal,
//! what clients remember and what tasks wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::process::Process;
use eddy_cli_tests::running::Running;
use serde_json::Value;

use super::client::{Memory, Submission};
use super::task::Ledger;

/// Rows of jobs by number.
type Rows<'a> = BTreeMap<u64, &'a Value>;

/// Everything that must hold while the instance still runs.
///
/// # Errors
/// The first promise that was broken.
pub fn check(
    instance: &Instance,
    memory: &Memory,
    rows: &[Value],
    ledger: &Ledger,
) -> anyhow::Result<()> {
    let by_id: Rows<'_> = rows
        .iter()
        .filter_map(|row| Some((row["id"].as_u64()?, row)))
        .collect();
    ensure!(by_id.len() == rows.len(), "a job is listed twice");
    let submissions = memory.submissions.lock().expect("nobody panics");
    let disturbed: BTreeSet<u64> = memory
        .disturbed
        .lock()
        .expect("nobody panics")
        .iter()
        .copied()
        .collect();
    for row in rows {
        ensure!(row["state"] == "INACTIVE", "not over: {row}");
    }
    for submission in submissions.iter() {
        is_there_once(submission, &by_id)?;
    }
    ran_at_most_once(ledger, &by_id)?;
    let specs: BTreeMap<&str, &Submission> = submissions
        .iter()
        .map(|submission| (submission.name.as_str(), submission))
        .collect();
    for (id, row) in &by_id {
        let name = row["name"].as_str().unwrap_or_default();
        let submission = specs
            .get(name)
            .with_context(|| format!("nobody submitted {row}"))?;
        ended_as_it_must(*id, row, submission, disturbed.contains(id), ledger)?;
    }
    lives_are_whole(instance, &by_id)?;
    only_the_instance_runs(instance)
}

/// What was acknowledged is there; what was not is there whole or not at all; nothing is twice.
fn is_there_once(submission: &Submission, rows: &Rows<'_>) -> anyhow::Result<()> {
    let Submission {
        name, count, ids, ..
    } = submission;
    for id in ids {
        let row = rows
            .get(id)
            .with_context(|| format!("job {id} of {name} was accepted and is lost"))?;
        ensure!(
            row["name"] == name.as_str(),
            "job {id} was told to be {name} and is {row}"
        );
    }
    let there = rows
        .values()
        .filter(|row| row["name"] == name.as_str())
        .count() as u64;
    ensure!(
        there == *count || there == 0 && ids.is_empty(),
        "{name}: {there} jobs instead of {count}"
    );
    Ok(())
}

fn ran_at_most_once(ledger: &Ledger, rows: &Rows<'_>) -> anyhow::Result<()> {
    for (run, times) in &ledger.begun {
        let (id, attempt, task) = run;
        ensure!(
            *times == 1,
            "task {task} of attempt {attempt} of job {id} began {times} times"
        );
        let row = rows
            .get(id)
            .with_context(|| format!("job {id} ran and is not there"))?;
        ensure!(
            row["attempt"].as_u64() >= Some(*attempt),
            "attempt {attempt} ran of {row}"
        );
    }
    Ok(())
}

/// The code that is recorded is the true one, and a job ended by its own end unless somebody or a
/// lost shell ended it.
fn ended_as_it_must(
    id: u64,
    row: &Value,
    submission: &Submission,
    disturbed: bool,
    ledger: &Ledger,
) -> anyhow::Result<()> {
    let attempt = row["attempt"].as_u64().context("an attempt")?;
    let runs = || (0..submission.ntasks).map(|task| (id, attempt, task));
    let ended: Vec<i32> = runs()
        .filter_map(|run| ledger.ended.get(&run).copied())
        .collect();
    let reason = row["reason"].as_str().unwrap_or_default();
    match (row["result"].as_str(), reason) {
        (Some("COMPLETED"), _) | (Some("FAILED"), "") => {
            let code = row["returncode"].as_i64();
            let signalled = disturbed && ended.len() < submission.ntasks as usize;
            ensure!(
                signalled || ended.len() as u64 == submission.ntasks,
                "{} of {} tasks came to their end: {row}",
                ended.len(),
                submission.ntasks
            );
            ensure!(
                signalled || runs().all(|run| ledger.begun.contains_key(&run)),
                "a task never began: {row}"
            );
            let truth = ended.iter().max().copied().map(i64::from);
            ensure!(
                disturbed || truth == Some(submission.code.into()),
                "its code is {truth:?}: {row}"
            );
            ensure!(
                signalled || code == truth,
                "ended with {truth:?}, recorded is {row}"
            );
        }
        (Some("CANCELED"), _) => ensure!(disturbed, "nobody cancelled {row}"),
        (Some("FAILED"), reason) if reason.contains("node-failure") => {}
        (Some("FAILED"), reason) if reason.contains("requeue") => {
            ensure!(disturbed, "nobody requeued {row}");
        }
        _ => bail!("this is no end: {row}"),
    }
    Ok(())
}

/// Names of events of each job, as the journal has them.
fn lives_are_whole(instance: &Instance, rows: &Rows<'_>) -> anyhow::Result<()> {
    let text = sqlite(
        instance,
        "SELECT job, group_concat(name, ' ') FROM \
        (SELECT job, CASE name WHEN 'release' \
        THEN iif(json_extract(context, '$.free'), 'free', name) || iif(json_extract(context, '$.over'), ' clean', '') \
        ELSE name END AS name FROM event WHERE job > 0 ORDER BY seq) GROUP BY job",
    )?;
    let lives: BTreeMap<u64, Vec<&str>> = text
        .lines()
        .filter_map(|line| line.split_once('|'))
        .filter_map(|(job, names)| Some((job.parse().ok()?, names.split(' ').collect())))
        .collect();
    ensure!(
        lives.keys().eq(rows.keys()),
        "the journal has other jobs than the listing"
    );
    for (job, life) in &lives {
        let count = |name: &str| life.iter().filter(|event| **event == name).count();
        let attempts = 1 + count("requeue");
        let row = rows[job];
        ensure!(
            row["attempt"].as_u64() == Some(attempts as u64),
            "{attempts} attempts: {row}"
        );
        let once = ["submit", "clean"];
        ensure!(
            once.iter().all(|name| count(name) == 1),
            "job {job}: {life:?}"
        );
        ensure!(
            life[0] == "submit" && life[life.len() - 1] == "clean",
            "job {job}: {life:?}"
        );
        ensure!(
            count("alloc") == count("free") && count("alloc") <= attempts,
            "job {job}: {life:?}"
        );
        ensure!(count("start") <= count("alloc"), "job {job}: {life:?}");
        ensure!(count("finish") <= count("alloc"), "job {job}: {life:?}");
    }
    Ok(())
}

/// With every job over, nothing of them runs: no waiting, the end of a job says so.
fn only_the_instance_runs(instance: &Instance) -> anyhow::Result<()> {
    let of_it = |process: &Process| process.is_eddy("broker") || process.is_eddy("shell");
    let strays: Vec<Process> = instance
        .place
        .processes()
        .into_iter()
        .filter(|process| !of_it(process))
        .collect();
    ensure!(strays.is_empty(), "left running: {strays:?}");
    Ok(())
}

/// The journal of an instance that does not run: whole by SQLite's word and without gaps.
///
/// # Errors
/// It is not.
pub fn journal_is_whole(instance: &Instance) -> anyhow::Result<()> {
    let said = sqlite(instance, "PRAGMA integrity_check")?;
    ensure!(said == "ok", "journal: {said}");
    let gaps = sqlite(instance, "SELECT max(seq) - count(*) FROM event")?;
    ensure!(gaps == "0", "journal: {gaps} records are missing");
    Ok(())
}

fn sqlite(instance: &Instance, sql: &str) -> anyhow::Result<String> {
    let mut command = Command::new("sqlite3");
    command
        .arg("-readonly")
        .arg(instance.state().join("journal.db"))
        .arg(sql);
    command.stdin(std::process::Stdio::null());
    Ok(Running::start(command)?.wait()?.ok()?.trim().to_owned())
}
