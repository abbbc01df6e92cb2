//! Standard input on its way to the tasks of a part.
//!
//! Called by the shell's loop with what clients send, and when a task takes more.

use eddy_wire::idset::Idset;
use eddy_wire::shell::Part;

use super::{Task, Tasks};
use crate::shell::process::input::Backlog;
use crate::shell::process::watch::Watch;

/// Whether more input comes behind that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It may.
    Not,
    /// None does.
    Here,
}

impl Tasks {
    /// Input for some tasks of a part, or its end. Of a part whose standard input is something else nothing is
    /// taken.
    pub fn input(
        &mut self,
        part: Part,
        tasks: &Idset,
        data: Vec<u8>,
        end: Ends,
        watch: &mut Watch,
    ) {
        let Some(live) = self.live.get_mut(&part) else {
            return;
        };
        let piece = live.supply.take(data);
        for (task, input) in inputs(&mut live.tasks, live.start.first_task) {
            if !tasks.is_empty() && !tasks.contains(task) {
                continue;
            }
            input.offer(&piece);
            if end == Ends::Here {
                input.end();
            }
            input.pump(part, task, watch);
        }
        if !live.supply.is_over() {
            return;
        }
        let all = inputs(&mut live.tasks, live.start.first_task);
        let cut = live.supply.cut(piece, all);
        let cut: Idset = cut.into_iter().collect();
        tracing::warn!(%part, tasks = %cut, "limit `input` is reached; the input of these tasks ends here");
        for (task, input) in inputs(&mut live.tasks, live.start.first_task) {
            input.pump(part, task, watch);
        }
    }

    /// A task takes input again.
    pub fn hungry(&mut self, part: Part, task: u32, watch: &mut Watch) {
        if let Some(own) = self.task(part, task)
            && let Some(input) = &mut own.input
        {
            input.pump(part, task, watch);
        }
    }
}

/// The tasks that take input.
fn inputs(tasks: &mut [Task], first: u32) -> impl Iterator<Item = (u32, &mut Backlog)> {
    let tasks = (first..).zip(tasks);
    tasks.filter_map(|(task, own)| Some((task, own.input.as_mut()?)))
}
