//! One round: workload and faults at the same time, then quiet, then checks.

use std::thread::ScopedJoinHandle;

use anyhow::{Context, anyhow, ensure};
use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::running::Ran;
use serde_json::Value;

use super::client::{Memory, Person, Waiter};
use super::dice::Dice;
use super::fault::{Fault, moment};
use super::oracle;
use super::task::{self, Ledger};

/// How many submit at the same time.
const PEOPLE: u64 = 3;

/// What a round was.
#[derive(Debug)]
pub struct Played {
    /// Jobs that were submitted.
    pub jobs: usize,
    /// What was done to the instance, in order.
    pub faults: Vec<&'static str>,
    /// What else came of it, for the line of the round.
    pub moves: Option<String>,
}

/// Plays the round of this seed; what it leaves is kept if it fails.
///
/// # Errors
/// The promise that was broken.
pub fn play(seed: u64, jobs: u32) -> anyhow::Result<Played> {
    let mut dice = Dice::of(seed, 0);
    let cores = format!("--cores={}", dice.pick(&[3, 4, 8]));
    let options = [cores.as_str(), "-S", "exec.kill_grace=0.2s"];
    let mut instance = Instance::start(&options)?;
    let played = in_instance(&instance, dice, seed, jobs);
    if played.is_err() {
        instance.place.end_all()?;
        instance.place.keep();
    }
    played
}

fn in_instance(
    instance: &Instance,
    mut dice: Dice,
    seed: u64,
    jobs: u32,
) -> anyhow::Result<Played> {
    let script = task::install(&instance.place)?;
    let memory = Memory::default();
    let share = u64::from(jobs).div_ceil(PEOPLE);
    let faults = std::thread::scope(|scope| {
        let people: Vec<_> = (0..PEOPLE)
            .map(|number| {
                let dice = Dice::of(seed, number + 1);
                let person = Person {
                    instance,
                    script: &script,
                    memory: &memory,
                    number,
                    dice,
                };
                scope.spawn(move || person.live(share))
            })
            .collect();
        let faults = strike(instance, &mut dice, &people);
        for person in people {
            person.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        faults
    })?;
    let rows = quiet(instance, &memory)?;
    let jobs = rows.len();
    let ledger = Ledger::read(&instance.place)?;
    oracle::check(instance, &memory, &rows, &ledger)?;
    // A start after an orderly end finds what was there.
    instance.shut_down().context("the shutdown")?;
    oracle::journal_is_whole(instance)?;
    instance
        .start_again()
        .context("the start after the shutdown")?;
    ensure!(
        all_rows(instance)? == rows,
        "other rows after a shutdown and a start"
    );
    instance.shut_down().context("the last shutdown")?;
    Ok(Played {
        jobs,
        faults,
        moves: None,
    })
}

/// Faults as long as somebody submits, and some after that.
fn strike<T>(
    instance: &Instance,
    dice: &mut Dice,
    people: &[ScopedJoinHandle<'_, T>],
) -> anyhow::Result<Vec<&'static str>> {
    let mut names = Vec::new();
    let mut left = 2 + dice.below(5);
    while left > 0 {
        moment(dice, 500);
        let fault = Fault::any(dice);
        names.push(fault.name());
        fault
            .strike(instance, dice)
            .with_context(|| format!("fault {}: {}", names.len(), fault.name()))?;
        if people.iter().all(ScopedJoinHandle::is_finished) {
            left = left.min(2);
        }
        left -= 1;
    }
    Ok(names)
}

/// Waits until everybody who waited knows, and every job is over.
fn quiet(instance: &Instance, memory: &Memory) -> anyhow::Result<Vec<Value>> {
    let rows = all_rows(instance)?;
    let held = rows
        .iter()
        .filter(|row| row["urgency"] == 0 && row["result"].is_null());
    for row in held {
        // It may be over by now, which is told as a refusal.
        instance.run(&["job", "urgency", &row["id"].to_string(), "16"])?;
    }
    // Before the listing that counts: a client that was begun last may not have submitted yet.
    let waiters = std::mem::take(&mut *memory.waiters.lock().expect("nobody panics"));
    let mut told = Vec::new();
    for Waiter { name, running } in waiters {
        let ran = running.wait();
        told.push((ran.with_context(|| format!("who waits for {name}"))?, name));
    }
    let rows = all_rows(instance)?;
    let ids: Vec<String> = rows.iter().map(|row| row["id"].to_string()).collect();
    let status = [
        vec!["job", "status"],
        ids.iter().map(String::as_str).collect(),
    ]
    .concat();
    if let Err(error) = instance.run(&status) {
        let mut stuck = all_rows(instance)?;
        stuck.retain(|row| row["state"] != "INACTIVE");
        return Err(error.context(format!("{} jobs are stuck: {stuck:?}", stuck.len())));
    }
    let rows = all_rows(instance)?;
    for (ran, name) in told {
        told_the_truth(&name, &ran, &rows)?;
    }
    Ok(rows)
}

/// Who waited for a job ended as it did.
fn told_the_truth(name: &str, ran: &Ran, rows: &[Value]) -> anyhow::Result<()> {
    let row = rows.iter().find(|row| row["name"] == name);
    let row = row.with_context(|| format!("{name}: told {ran:?} of a job that is not there"))?;
    let code = row["returncode"]
        .as_i64()
        .map(|code| if code < 0 { 1 } else { code });
    let Ran {
        code: seen, err, ..
    } = ran;
    ensure!(
        code == Some((*seen).into()),
        "{name}: ended with {seen}, its job is {row}: {err}"
    );
    Ok(())
}

/// Every job there is.
pub fn all_rows(instance: &Instance) -> anyhow::Result<Vec<Value>> {
    match instance.json(&["jobs", "-a", "-A", "-c", "0", "--json"])? {
        Value::Array(rows) => Ok(rows),
        other => Err(anyhow!("not a list of jobs: {other}")),
    }
}
