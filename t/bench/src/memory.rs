//! What an instance costs while nobody uses it: memory in use, and how often its threads are woken.
//! Looks only at the leader and the shell, and only after each has done some work.

use std::time::{Duration, Instant};

use crate::instance::Instance;
use crate::report::Report;
use crate::rounds::Series;
use crate::{Setup, process};

/// How long wake-ups are counted.
const LOOK: Duration = Duration::from_secs(10);

/// Memory of leader and shell, wake-ups of both, and CPU of both, over ten seconds of idleness.
///
/// # Errors
/// The instance does not start, or dies.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let instance = Instance::start(setup, &["--cores", "2"])?;
    instance.submit_many(setup.count(100), &["--wait", "true"])?;
    let leader = instance.leader()?;
    let parts: Vec<u32> = std::iter::once(leader).chain(instance.shell()).collect();
    let mut memory = Series::new("leader memory", "MB");
    let mut shell_memory = Series::new("shell memory", "MB");
    let mut wakeups = Series::new("wake-ups of both", "1/s");
    let mut cpu = Series::new("CPU of both", "ms/s");
    for _ in 0..setup.rounds(3) {
        let (woken_before, cpu_before) = (woken(&parts)?, instance.cpu()?);
        let begun = Instant::now();
        std::thread::sleep(LOOK);
        let (woken_after, cpu_after) = (woken(&parts)?, instance.cpu()?);
        let seconds = begun.elapsed().as_secs_f64();
        wakeups.figures.push((woken_after - woken_before) / seconds);
        let spent = cpu_after.leader + cpu_after.shell - cpu_before.leader - cpu_before.shell;
        cpu.figures.push(spent * 1e3 / seconds);
        memory.figures.push(process::memory_of(leader)?);
        shell_memory
            .figures
            .push(instance.shell().map_or(Ok(0.0), process::memory_of)?);
    }
    let mut report = Report::default();
    report.add_budgeted(&memory, "<= 20 MB, goal <= 10 MB");
    report.add(&shell_memory);
    report.add_budgeted(&wakeups, "<= 1 wake-up/s");
    report.add(&cpu);
    Ok(report)
}

fn woken(pids: &[u32]) -> anyhow::Result<f64> {
    pids.iter().map(|pid| process::wakeups_of(*pid)).sum()
}
