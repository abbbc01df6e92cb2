//! Tasks that are stopped for a while, and go on, perhaps on other cores.
//!
//! Called by the shell's loop as the book says.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use eddy_broker::shellbook::ShellInput;
use eddy_wire::idset::Idset;
use eddy_wire::shell::{Part, Start};

use super::{Inputs, Tasks};
use crate::shell::affinity::CpuSet;
use crate::shell::leftover::{self, Process, Quarry};
use crate::shell::process::pause;
use crate::shell::{affinity, procfs};

impl Tasks {
    /// Stops everything of a part, from now on, for that time.
    pub fn pause(&mut self, now: Instant, part: Part, stop: u32) {
        if let Some(quarry) = self.quarry(part) {
            self.pausing.begin(now, (part, stop), quarry);
        }
    }

    /// When to look again for what is to be stopped.
    pub fn next_stop(&self) -> Option<Instant> {
        self.pausing.next()
    }

    /// Looks again.
    pub fn stop_more(&mut self, now: Instant, inputs: &mut Inputs) {
        let stopped = self.pausing.due(now);
        let stopped = stopped.into_iter();
        inputs.extend(stopped.map(|(part, stop)| ShellInput::Paused(part, stop)));
    }

    /// Lets everything of a part go on, on these cores if any are named.
    pub fn proceed(&mut self, part: Part, cores: &Idset) {
        self.pausing.forget(part);
        let Some(quarry) = self.quarry(part) else {
            return;
        };
        let went_on = leftover::find(&quarry).and_then(|found| {
            if !cores.is_empty() {
                self.rebind(part, cores, &found);
            }
            pause::proceed(&found)
        });
        if let Err(error) = went_on {
            // Its tasks stay as they are until the next word: better that than half of them running.
            tracing::error!(%part, %error, "cannot look for processes that are to go on");
        }
    }

    fn quarry(&self, part: Part) -> Option<Quarry> {
        let live = self.live.get(&part)?;
        let tasks = live.tasks.iter().filter_map(|task| task.process).collect();
        let marker = live.marker.clone();
        Some(Quarry::Attempt { marker, tasks })
    }

    /// Binds what runs of a part to other cores, by the rule of its start: what is of the session of a
    /// task to that of the task, anything else to those of all. Threads that bound themselves are bound
    /// anew as well, since the cores that they chose may be another's.
    fn rebind(&mut self, part: Part, cores: &Idset, found: &BTreeSet<Process>) {
        let Some(live) = self.live.get_mut(&part) else {
            return;
        };
        if live.start.cores == *cores {
            return;
        }
        let mut start = Start::clone(&live.start);
        start.cores = cores.clone();
        live.start = Arc::new(start);
        let (start, Some(program)) = (Arc::clone(&live.start), live.program.clone()) else {
            return;
        };
        let tasks: Vec<(i32, u32)> = (start.first_task..)
            .zip(&live.tasks)
            .filter_map(|(task, own)| Some((own.process?.pid, task)))
            .collect();
        for process in found {
            let session = procfs::stat(process.pid).map(|stat| stat.session);
            let task = tasks.iter().find(|(pid, _)| Some(*pid) == session);
            let cpus = match task {
                Some((_, task)) => self.binding(&program, &start, *task),
                None => {
                    let all = tasks.iter().map(|(_, task)| *task).collect::<Vec<u32>>();
                    let all = all.into_iter();
                    let each = all.filter_map(|task| self.binding(&program, &start, task));
                    each.reduce(|sum, more| sum.union(&more))
                }
            };
            if let Some(cpus) = cpus
                && let Err(error) = bind(process.pid, &cpus)
            {
                tracing::warn!(pid = process.pid, %error, "cannot be bound to its new cores");
            }
        }
    }
}

/// Binds all threads of a process.
fn bind(pid: i32, cpus: &CpuSet) -> io::Result<()> {
    for entry in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let name = entry?.file_name();
        if let Some(thread) = name.to_str().and_then(|text| text.parse().ok()) {
            match affinity::bind(thread, cpus) {
                // It ended since it was listed; the others are still to be bound.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                bound => bound?,
            }
        }
    }
    Ok(())
}
