//! Whether planners are told of each attempt that has given all back what it is charged, by its records.
//!
//! Of what is told the sum is judged where planners are asked what everybody has used (`heads/dues.rs`): so what
//! shares tell is what the ledger has.

use std::collections::{BTreeMap, VecDeque};

use eddy_wire::event::Record;
use eddy_wire::held::Stay;
use eddy_wire::id::JobId;
use eddy_wire::plan::Delta;
use eddy_wire::usage::Amounts;

use super::charges::Charges;

/// What is charged, and of whom that is to be told.
#[derive(Debug, Default)]
pub struct Settled {
    charges: Charges,
    due: BTreeMap<JobId, VecDeque<Amounts>>,
}

impl Settled {
    /// A record, or what one implies.
    pub fn apply(&mut self, record: &Record) {
        if let (Some(charged), Some(job)) = (self.charges.apply(record), record.event.job) {
            self.due.entry(job).or_default().push_back(charged);
        }
    }

    /// What is over by now the next planner is told with all that was used.
    pub fn begins_anew(&mut self) {
        self.due.clear();
    }

    /// A planner is told that.
    ///
    /// # Errors
    /// It is another sum than the records come to, or that a job is free is told without one.
    pub fn told(&mut self, delta: &Delta) -> Result<(), String> {
        match delta {
            Delta::Settled(job, _, stays) => {
                let told = stays.iter().map(Stay::used);
                let told = told.fold(Amounts::default(), Amounts::plus);
                let due = self.due.get_mut(job).and_then(VecDeque::pop_front);
                match due {
                    Some(due) if due == told => Ok(()),
                    Some(due) => Err(format!(
                        "job {job} is told as charged {told:?}; its records come to {due:?}"
                    )),
                    None => Err(format!("job {job} is told as charged, and is not over")),
                }
            }
            Delta::Freed(job) => match self.due.remove(job) {
                Some(due) if !due.is_empty() => Err(format!(
                    "job {job} is told as free, and not what it is charged: {due:?}"
                )),
                Some(_) | None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}
