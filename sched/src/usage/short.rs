//! Runs that ended early and still count as held until the least time is over
//! (Armada's short-job penalty).
//!
//! Where no usage is kept, only what is held now counts, and an account could
//! have more than its share by many short runs. Asked by rounds when they reckon
//! what an account holds. Knows no nodes: what it counts is held by nobody.

use std::collections::BTreeMap;

use eddy_wire::time::{Span, Time};

use crate::amounts::Amounts;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By itself, whatever its exit code, or by its owner.
    Itself,
    /// By the scheduler: nobody is blamed for that.
    Preempted,
}

/// Runs that count as held although they have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShortRuns {
    least: Span,
    runs: BTreeMap<(u64, u32), Late>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Late {
    account: String,
    until: Time,
    amounts: Amounts,
}

impl ShortRuns {
    /// Runs count for at least this long; 0 is as long as they run.
    pub fn new(least: Span) -> ShortRuns {
        ShortRuns {
            least,
            runs: BTreeMap::new(),
        }
    }

    /// A run has ended; the same run told twice counts once.
    pub fn ended(
        &mut self,
        (job, attempt): (u64, u32),
        account: &str,
        amounts: Amounts,
        started: Time,
        how: Ended,
    ) {
        match how {
            Ended::Preempted => {}
            Ended::Itself => {
                let late = Late {
                    account: account.to_owned(),
                    until: started + self.least,
                    amounts,
                };
                self.runs.entry((job, attempt)).or_insert(late);
            }
        }
    }

    /// Forgets what no longer counts at `now`: the penalty ends at the very instant.
    pub fn expire(&mut self, now: Time) {
        self.runs.retain(|_, run| run.until > now);
    }

    /// What each account still holds by this at `now`; accounts with nothing are absent.
    pub fn held(&self, now: Time) -> BTreeMap<&str, Amounts> {
        let mut held = BTreeMap::new();
        for run in self.runs.values().filter(|run| run.until > now) {
            *held.entry(run.account.as_str()).or_insert(Amounts::NONE) += run.amounts;
        }
        held
    }
}
