//! The limit of every launcher: bare posix_spawn and waitpid of /bin/true in a loop. `throughput` holds
//! eddy against the two-thread loop taken in the same run. Passes no environment and no pipes.

use std::ptr;
use std::time::Instant;

use anyhow::bail;

use crate::Setup;
use crate::process::own_cpu;
use crate::report::Report;
use crate::rounds::{Entry, Series, alternate};

/// One and two threads: rate, and CPU for each spawn with that of the spawned program.
///
/// # Errors
/// /bin/true cannot be started.
pub fn run(setup: &Setup) -> anyhow::Result<Report> {
    let count = setup.count(1_000);
    let cpu = [
        Series::new("1 thread, CPU", "us each"),
        Series::new("2 threads, CPU", "us each"),
    ];
    let cpu = cpu.map(std::cell::RefCell::new);
    let take = |threads: usize| {
        let before = own_cpu()?;
        let rate = rate(threads, count)?;
        let spent = own_cpu()? - before;
        cpu[threads - 1]
            .borrow_mut()
            .figures
            .push(spent * 1e6 / count as f64);
        Ok(rate)
    };
    let entries = vec![
        Entry::new("1 thread", "spawns/s", || take(1)),
        Entry::new("2 threads", "spawns/s", || take(2)),
    ];
    let mut report = Report::default();
    for series in alternate(setup.rounds(5), entries)? {
        report.add(&series);
    }
    for series in &cpu {
        report.add(&series.borrow());
    }
    report.note(format!(
        "{count} times /bin/true in each round; CPU is of both processes"
    ));
    Ok(report)
}

/// Spawns per second of `count` spawns shared among `threads`.
///
/// # Errors
/// /bin/true cannot be started, or does not end with 0.
pub fn rate(threads: usize, count: usize) -> anyhow::Result<f64> {
    let each = count.div_ceil(threads);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| scope.spawn(move || spawn_many(each)))
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| match thread.join() {
                Ok(result) => result,
                Err(_) => bail!("a spawning thread panicked"),
            })
    })?;
    Ok((each * threads) as f64 / begun.elapsed().as_secs_f64())
}

fn spawn_many(count: usize) -> anyhow::Result<()> {
    for _ in 0..count {
        let status = spawn_and_wait()?;
        if status != 0 {
            bail!("/bin/true ended with wait status {status}");
        }
    }
    Ok(())
}

fn spawn_and_wait() -> anyhow::Result<i32> {
    let path = c"/bin/true";
    let arguments = [path.as_ptr().cast_mut(), ptr::null_mut()];
    let environment = [ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: path, arguments and environment are C strings and arrays that end with a null pointer
    // and outlive the call; posix_spawn keeps none of them and writes only `pid`.
    let error = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            path.as_ptr(),
            ptr::null(),
            ptr::null(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    if error != 0 {
        bail!(
            "posix_spawn of /bin/true: {}",
            std::io::Error::from_raw_os_error(error)
        );
    }
    let mut status = 0;
    // SAFETY: waits for a child of our own that nobody else waits for; writes only `status`.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    if ended != pid {
        bail!("waitpid of {pid}: {}", std::io::Error::last_os_error());
    }
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spawn_is_waited_for() {
        assert!(rate(2, 8).unwrap() > 0.0);
    }
}
