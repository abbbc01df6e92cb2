//! What the commands of the world do: a task is a timer with an exit status.
//!
//! A job's command reads `task run=SECONDS exit=CODE term=die|ignore|SECONDS fail`, so that what a
//! job does is part of its jobspec, like anywhere else.

use eddy_wire::time::{MICROS, Span};
use serde_json::Value;

/// The signal that asks a task to end.
pub const SIGTERM: i32 = 15;
/// The signal that ends it.
pub const SIGKILL: i32 = 9;

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behaviour {
    /// How long it runs if nobody ends it.
    pub run: Span,
    /// Its exit code then.
    pub exit: u8,
    /// What TERM does to it.
    pub term: OnTerm,
    /// Whether it can be started at all.
    pub start: Start,
}

/// What TERM does to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTerm {
    /// It dies of it.
    Die,
    /// Nothing.
    Ignore,
    /// It exits 3 after this time.
    Exit(Span),
}

/// Whether a task can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It can.
    Works,
    /// There is no such program.
    Fails,
}

impl Default for Behaviour {
    fn default() -> Behaviour {
        Behaviour {
            run: Span::ZERO,
            exit: 0,
            term: OnTerm::Die,
            start: Start::Works,
        }
    }
}

impl Behaviour {
    /// As a command.
    pub fn command(&self) -> Vec<String> {
        let mut words = vec!["task".to_owned()];
        words.push(format!("run={}", self.run));
        words.push(format!("exit={}", self.exit));
        words.push(match self.term {
            OnTerm::Die => "term=die".to_owned(),
            OnTerm::Ignore => "term=ignore".to_owned(),
            OnTerm::Exit(after) => format!("term={after}"),
        });
        if self.start == Start::Fails {
            words.push("fail".to_owned());
        }
        words
    }

    /// Of a jobspec's text; of the default for a command that is not one of ours.
    pub fn of_jobspec(text: &str) -> Behaviour {
        let mut behaviour = Behaviour::default();
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let words = value["tasks"][0]["command"].as_array();
        for word in words.into_iter().flatten().filter_map(Value::as_str) {
            behaviour.take(word);
        }
        behaviour
    }

    /// Takes one word of a command or of a script; whether it was one of ours.
    pub fn take(&mut self, word: &str) -> bool {
        match word.split_once('=') {
            Some(("run", seconds)) => self.run = span(seconds),
            Some(("exit", code)) => self.exit = code.parse().unwrap_or(1),
            Some(("term", "die")) => self.term = OnTerm::Die,
            Some(("term", "ignore")) => self.term = OnTerm::Ignore,
            Some(("term", seconds)) => self.term = OnTerm::Exit(span(seconds)),
            None if word == "fail" => self.start = Start::Fails,
            Some(_) | None => return false,
        }
        true
    }

    /// Its wait status when nobody ends it.
    pub fn status(&self) -> i32 {
        i32::from(self.exit) << 8
    }
}

/// Decimal seconds.
pub fn span(text: &str) -> Span {
    let seconds: f64 = text.parse().unwrap_or(0.0);
    Span((seconds * MICROS as f64).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_behaviour_survives_its_command() {
        let behaviour = Behaviour {
            run: Span::millis(1500),
            exit: 7,
            term: OnTerm::Exit(Span::seconds(2)),
            start: Start::Fails,
        };
        let text = serde_json::json!({ "tasks": [{ "command": behaviour.command() }] });
        assert_eq!(Behaviour::of_jobspec(&text.to_string()), behaviour);
    }
}
