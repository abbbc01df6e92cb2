//! What a tree of instances costs while nobody uses it: a root and a hundred inside it, over ten
//! seconds of idleness.

use std::time::{Duration, Instant};

use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::Series;
use crate::{Setup, process};

/// How long wake-ups are counted.
const LOOK: Duration = Duration::from_secs(10);

/// Memory and wake-ups of all their processes.
///
/// # Errors
/// An instance does not start, or dies.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let count = setup.count(100);
    let cores = count.to_string();
    let instance = Instance::start(setup, &["--cores", &cores])?;
    for _ in 0..count {
        instance.run(&["alloc", "--bg", "-n1"])?;
    }
    let parts = instance.parts();
    let per = |figure: f64| figure / (count + 1) as f64;
    let mut memory = Series::new("memory of each, leader and shell", "MB");
    let mut woken = Series::new("wake-ups of each, leader and shell", "1/s");
    let mut cpu = Series::new("CPU of all", "ms/s");
    for _ in 0..setup.rounds(3) {
        let (before, used) = (wakeups(&parts)?, cpu_of(&parts)?);
        let begun = Instant::now();
        std::thread::sleep(LOOK);
        let seconds = begun.elapsed().as_secs_f64();
        woken
            .figures
            .push(per((wakeups(&parts)? - before) / seconds));
        cpu.figures.push((cpu_of(&parts)? - used) * 1e3 / seconds);
        let all: anyhow::Result<f64> = parts.iter().map(|pid| process::memory_of(*pid)).sum();
        memory.figures.push(per(all?));
    }
    let mut report = Report::default();
    report.add(&memory);
    report.add_budgeted(&woken, "<= 1 wake-up/s");
    report.add(&cpu);
    report.note(format!(
        "{} processes; pages they share count in each",
        parts.len()
    ));
    Ok(report)
}

fn wakeups(pids: &[u32]) -> anyhow::Result<f64> {
    pids.iter().map(|pid| process::wakeups_of(*pid)).sum()
}

fn cpu_of(pids: &[u32]) -> anyhow::Result<f64> {
    pids.iter().map(|pid| process::cpu_of(*pid)).sum()
}
