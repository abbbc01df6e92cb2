//! Standard input on its way to the tasks of a part.
//!
//! Called by the shell's loop with what clients send, and when a task takes more. What became of a portion is said
//! when the tasks have room for the next, so whoever sends keeps their pace.

use eddy_wire::idset::Idset;
use eddy_wire::input::{Portion, Taken};
use eddy_wire::shell::{FromShell, Part};

use super::{Live, Task, Tasks};
use crate::shell::process::input::Backlog;
use crate::shell::process::intake::Said;
use crate::shell::process::watch::Watch;

impl Tasks {
    /// A portion of input for some tasks of a part, or its end. What becomes of it is said by [`Tasks::take_said`].
    pub fn input(&mut self, part: Part, portion: Portion, watch: &mut Watch) {
        let said = match self.live.get_mut(&part) {
            Some(live) => live.input(part, portion, watch),
            // It is over, or its tasks are pretended: nobody reads.
            None => Some(Said {
                portion: portion.number,
                next: 0,
                taken: Taken::Unread,
            }),
        };
        self.said.extend(said.map(|said| word(part, said)));
        self.release(part);
    }

    /// A task takes input again.
    pub fn hungry(&mut self, part: Part, task: u32, watch: &mut Watch) {
        if let Some(own) = self.task(part, task)
            && let Some(input) = &mut own.input
        {
            input.pump(part, task, watch);
        }
        self.release(part);
    }

    /// Says to those who wait that there is room, where there is.
    pub(super) fn release(&mut self, part: Part) {
        let Some(live) = self.live.get_mut(&part) else {
            return;
        };
        if !live.supply.is_plenty() {
            let due = live.intake.due().into_iter();
            self.said.extend(due.map(|said| word(part, said)));
        }
    }

    /// Another leader follows, or this one again: what it sent it sends again.
    pub fn forget_owed(&mut self) {
        self.said.clear();
        for live in self.live.values_mut() {
            drop(live.intake.due());
        }
    }

    /// What became of input, since this was last asked.
    pub fn take_said(&mut self) -> Vec<FromShell> {
        std::mem::take(&mut self.said)
    }
}

impl Live {
    /// What is said to those who wait, where nobody is left to read.
    pub(super) fn owed(&mut self, part: Part) -> Vec<FromShell> {
        let due = self.intake.due().into_iter();
        due.map(|said| word(part, said)).collect()
    }

    /// Takes it, whole or what is new of it. None where that is said later.
    fn input(&mut self, part: Part, mut portion: Portion, watch: &mut Watch) -> Option<Said> {
        if self.tasks.len() < self.start.ntasks as usize
            || self.supply.is_full()
            || self.intake.is_full()
        {
            return Some(self.intake.refused(&portion, Taken::Later));
        }
        let first = self.start.first_task;
        let mut named: Vec<_> = inputs(&mut self.tasks, first, &portion.tasks).collect();
        if named.iter().all(|(_, input)| input.is_unread()) {
            let taken = match named.is_empty() {
                true => Taken::Elsewhere,
                false => Taken::Unread,
            };
            return Some(self.intake.refused(&portion, taken));
        }
        let known = match self.intake.known(&portion) {
            Ok(known) => known,
            Err(said) => return Some(said),
        };
        let is_new = known < portion.data.len();
        if is_new && named.iter().any(|(_, input)| input.is_complete()) {
            return Some(self.intake.refused(&portion, Taken::Over));
        }
        let said = self.intake.take(&portion);
        let piece = self.supply.take(portion.data.split_off(known));
        for (task, input) in &mut named {
            input.offer(&piece);
            if portion.eof {
                input.end();
            }
            input.pump(part, *task, watch);
        }
        // Only now is it known how much is kept for whom.
        drop(piece);
        if self.supply.is_plenty() && !portion.eof {
            self.intake.owe(said);
            return None;
        }
        Some(said)
    }
}

fn word(part: Part, said: Said) -> FromShell {
    FromShell::Took {
        part,
        portion: said.portion,
        next: said.next,
        taken: said.taken,
    }
}

/// The tasks named, or all, that take input.
fn inputs<'a>(
    tasks: &'a mut [Task],
    first: u32,
    named: &'a Idset,
) -> impl Iterator<Item = (u32, &'a mut Backlog)> {
    let tasks = (first..).zip(tasks);
    let tasks = tasks.filter(|(task, _)| named.is_empty() || named.contains(*task));
    tasks.filter_map(|(task, own)| Some((task, own.input.as_mut()?)))
}
