//! Tasks that are none: of instances with made-up nodes and of jobs that ask
//! for mock execution. They start at once, last a while and end as told.
//!
//! Used by the shell's loop in place of `tasks`. No process, no file, no output.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use eddy_broker::shellbook::ShellInput;
use eddy_wire::shell::Part;

use super::program::Mock;

/// Signals that end no task: those a process ignores unless it says otherwise.
const HARMLESS: [i32; 4] = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH];

/// The mock tasks that last.
#[derive(Debug, Default)]
pub struct Mocks {
    running: HashMap<Part, HashMap<u32, i32>>,
    due: BinaryHeap<Reverse<(Instant, Part, u32)>>,
    /// What tasks that are stopped would still last.
    paused: HashMap<Part, Vec<(u32, Duration)>>,
}

impl Mocks {
    /// Starts one; it is running at once, and over at once if it lasts no time.
    pub fn start(
        &mut self,
        now: Instant,
        part: Part,
        task: u32,
        mock: Mock,
        inputs: &mut VecDeque<ShellInput>,
    ) {
        inputs.push_back(ShellInput::Spawned(part, task));
        let micros = u64::try_from(mock.duration.0).unwrap_or(0);
        match now.checked_add(Duration::from_micros(micros)) {
            Some(_) if micros == 0 => inputs.push_back(ShellInput::Exited(part, task, mock.status)),
            Some(at) => {
                self.running
                    .entry(part)
                    .or_default()
                    .insert(task, mock.status);
                self.due.push(Reverse((at, part, task)));
            }
            // Longer than the clock counts: it ends by a signal.
            None => drop(
                self.running
                    .entry(part)
                    .or_default()
                    .insert(task, mock.status),
            ),
        }
    }

    /// Stops those of a part, if it has any here.
    pub fn pause(
        &mut self,
        now: Instant,
        (part, stop): (Part, u32),
        inputs: &mut VecDeque<ShellInput>,
    ) {
        if !self.running.contains_key(&part) {
            return;
        }
        let stopped = self.paused.entry(part).or_default();
        self.due.retain(|Reverse((at, of, task))| {
            let is_of_it = *of == part;
            if is_of_it {
                stopped.push((*task, at.saturating_duration_since(now)));
            }
            !is_of_it
        });
        inputs.push_back(ShellInput::Paused(part, stop));
    }

    /// Lets them go on.
    pub fn proceed(&mut self, now: Instant, part: Part) {
        for (task, left) in self.paused.remove(&part).into_iter().flatten() {
            self.due
                .extend(now.checked_add(left).map(|at| Reverse((at, part, task))));
        }
    }

    /// Ends those whose time is over.
    pub fn expire(&mut self, now: Instant, inputs: &mut VecDeque<ShellInput>) {
        while let Some(Reverse((at, part, task))) = self.due.peek().copied() {
            if at > now {
                break;
            }
            self.due.pop();
            if let Some(status) = self.remove(part, task) {
                inputs.push_back(ShellInput::Exited(part, task, status));
            }
        }
    }

    /// When the next one ends.
    pub fn next(&self) -> Option<Instant> {
        self.due.peek().map(|Reverse((at, _, _))| *at)
    }

    /// A signal to all of a part: as if they had no handler.
    pub fn signal(&mut self, part: Part, signal: i32, inputs: &mut VecDeque<ShellInput>) {
        if HARMLESS.contains(&signal) {
            return;
        }
        // Of a process that is stopped nothing is heard but its death; it heeds others when it goes on.
        if self.paused.contains_key(&part) && signal != libc::SIGKILL {
            return;
        }
        self.paused.remove(&part);
        for task in self
            .running
            .remove(&part)
            .into_iter()
            .flat_map(HashMap::into_keys)
        {
            inputs.push_back(ShellInput::Exited(part, task, signal));
        }
    }

    fn remove(&mut self, part: Part, task: u32) -> Option<i32> {
        let tasks = self.running.get_mut(&part)?;
        let status = tasks.remove(&task);
        if tasks.is_empty() {
            self.running.remove(&part);
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::id::{Attempt, JobId, Rank};
    use eddy_wire::time::Span;

    const PART: Part = Part {
        job: JobId(1),
        attempt: Attempt(1),
        rank: Rank(0),
    };

    fn started(duration: Span) -> (Mocks, VecDeque<ShellInput>, Instant) {
        let (mut mocks, mut inputs, now) = (Mocks::default(), VecDeque::new(), Instant::now());
        mocks.start(
            now,
            PART,
            0,
            Mock {
                duration,
                status: 256,
            },
            &mut inputs,
        );
        (mocks, inputs, now)
    }

    #[test]
    fn one_that_lasts_no_time_is_over_at_once() {
        let (mocks, inputs, _) = started(Span::ZERO);
        let expected = [
            ShellInput::Spawned(PART, 0),
            ShellInput::Exited(PART, 0, 256),
        ];
        assert_eq!(inputs, expected);
        assert_eq!(mocks.next(), None);
    }

    #[test]
    fn one_ends_when_its_time_is_over_or_by_a_signal_but_once() {
        let (mut mocks, mut inputs, now) = started(Span::seconds(5));
        inputs.clear();
        mocks.expire(now, &mut inputs);
        mocks.signal(PART, libc::SIGCONT, &mut inputs);
        assert!(inputs.is_empty());
        mocks.signal(PART, libc::SIGTERM, &mut inputs);
        assert_eq!(inputs, [ShellInput::Exited(PART, 0, libc::SIGTERM)]);
        mocks.expire(now + Duration::from_secs(6), &mut inputs);
        assert_eq!(inputs.len(), 1);
    }

    #[test]
    fn one_that_is_stopped_lasts_as_much_longer() {
        let (mut mocks, mut inputs, now) = started(Span::seconds(5));
        inputs.clear();
        mocks.pause(now + Duration::from_secs(2), (PART, 1), &mut inputs);
        assert_eq!(inputs, [ShellInput::Paused(PART, 1)]);
        mocks.expire(now + Duration::from_secs(60), &mut inputs);
        mocks.proceed(now + Duration::from_secs(60), PART);
        mocks.expire(now + Duration::from_secs(62), &mut inputs);
        assert_eq!(inputs.len(), 1);
        mocks.expire(now + Duration::from_secs(63), &mut inputs);
        assert_eq!(inputs[1], ShellInput::Exited(PART, 0, 256));
    }
}
