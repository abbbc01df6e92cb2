//! How a leader bears that something is lacking when it starts again: room on
//! the disk, descriptors, memory.
//!
//! Used by [`super::start`] and by the process around it. Its instance had begun,
//! and tasks of it may run: a lack that passes must not end it. What was never
//! begun, and a journal that is damaged, are refused at once.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::start::StartError;
use super::{CODE_FATAL, Starter, chain};
use crate::journal::{advice, may_pass};

/// The first pause between two tries; doubled each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How long a leader tries for whom nobody but a person starts another; such a
/// one waits for its word.
const OTHER_PATIENCE: Duration = Duration::from_secs(10);
/// Before a leader whose shell starts it again ends for what only a new process
/// can mend. A shell does that three times a minute, so it never has enough of it.
const SHELL_PAUSE: Duration = Duration::from_secs(25);

/// What is borne for one start.
#[derive(Debug)]
pub struct Patience {
    statedir: PathBuf,
    starter: Starter,
    begun: Instant,
    pause: Duration,
}

impl Patience {
    /// For a start on this state directory.
    pub fn new(statedir: PathBuf, starter: Starter) -> Patience {
        Patience {
            statedir,
            starter,
            begun: Instant::now(),
            pause: PAUSE_MIN,
        }
    }

    /// Waits a while if that may pass; whether to try again.
    pub fn bears(&mut self, error: &StartError) -> bool {
        let is_over = match self.starter {
            // Who ends such a leader for good sends it a signal.
            Starter::Shell => false,
            Starter::Other => self.begun.elapsed() >= OTHER_PATIENCE,
        };
        if is_over || !may_pass(error, &self.statedir) {
            return false;
        }
        let (line, pause) = (chain(error), self.pause);
        tracing::warn!(?pause, "the instance cannot go on yet and waits: {line}");
        std::thread::sleep(pause);
        self.pause = (pause * 2).min(PAUSE_MAX);
        true
    }

    /// What whoever waits for the start is told of its failure, in one line.
    pub fn line(&self, error: &StartError) -> String {
        advice(error, &self.statedir).unwrap_or_else(|| chain(error))
    }

    /// Whether no other start would come further.
    pub fn is_final(&self, error: &StartError) -> bool {
        !may_pass(error, &self.statedir)
    }

    /// The code of a process whose start failed so; it may not return, so that it
    /// is started again.
    pub fn code(&self, error: &StartError, no_begin: i32) -> i32 {
        if self.is_final(error) {
            return no_begin;
        }
        match self.starter {
            Starter::Other => CODE_FATAL,
            Starter::Shell => {
                std::thread::sleep(SHELL_PAUSE);
                self.starter.end_fatally()
            }
        }
    }
}
