//! Words for why jobs wait that are told with times.

use serde::{Deserialize, Serialize};

use crate::account::Name;
use crate::time::Time;

/// How a reservation keeps a job from starting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bar {
    /// The job would not have ended when another's reservation begins.
    Ahead,
    /// Another's is on.
    On,
    /// Its own has not begun.
    Early,
    /// It would not have ended when its own does.
    Late,
}

impl Bar {
    pub(super) fn words(self, name: &Name, seconds: i64) -> String {
        match self {
            Bar::Ahead => {
                format!("would not have ended when reservation `{name}` begins, in {seconds} s")
            }
            Bar::On => {
                format!("waits for nodes that reservation `{name}` has for {seconds} s more")
            }
            Bar::Early => format!("waits for reservation `{name}`, which begins in {seconds} s"),
            Bar::Late => {
                format!("would not have ended when its reservation `{name}` does, in {seconds} s")
            }
        }
    }
}

/// The time of day of that moment, of UTC.
pub(super) fn clock(t: Time) -> String {
    let seconds = t.0.div_euclid(crate::time::MICROS).rem_euclid(86_400);
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02} UTC", seconds % 60)
}

pub(super) fn alone(until: Option<Time>) -> String {
    match until {
        Some(until) => format!("; it may begin without it from {} on", clock(until)),
        None => "; it does not begin without it".to_owned(),
    }
}
