//! Whether an instance that has not heard its parent for its lease begins nothing.
//!
//! Told by the driver when the channel is lost and when the parent is heard.

use eddy_wire::event::{Kind, Record};
use eddy_wire::id::JobId;
use eddy_wire::time::{MICROS, Span, Time};

use super::Ledger;

/// Since when the parent of an instance is silent, and until when jobs begin all the same.
#[derive(Debug, Default)]
pub struct Silent {
    since: Option<(Time, Span)>,
}

impl Silent {
    /// The channel is lost, by the clock of the instance.
    pub fn begins(&mut self, now: Time, lease: Span) {
        self.since.get_or_insert((now, lease));
    }

    /// The parent is heard, or another leader begins.
    pub fn ends(&mut self) {
        self.since = None;
    }

    /// One more record.
    ///
    /// # Errors
    /// A job begins after the lease. What a parent passed down it has said to begin.
    pub fn apply(&self, ledger: &Ledger, record: &Record) -> Result<(), String> {
        match (&record.event.kind, record.event.job) {
            (Kind::Alloc(_), Some(id)) if !is_passed(ledger, id) => self.began(record.event.t, id),
            _ => Ok(()),
        }
    }

    fn began(&self, t: Time, id: JobId) -> Result<(), String> {
        match self.since.filter(|(since, lease)| t > since.after(*lease)) {
            Some((since, lease)) => Err(format!(
                "job {id} begins {} s after the parent was heard last, the lease is {} s",
                (t - since).0 / MICROS,
                lease.0 / MICROS,
            )),
            None => Ok(()),
        }
    }
}

fn is_passed(ledger: &Ledger, id: JobId) -> bool {
    let job = ledger.jobs.get(&id);
    job.is_some_and(|job| job.submit.pass.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_between_the_lease_and_the_next_word_is_found() {
        let at = |seconds| Time(0).after(Span::seconds(seconds));
        let mut silent = Silent::default();
        assert_eq!(silent.began(at(100), JobId(1)), Ok(()));
        silent.begins(at(100), Span::seconds(5));
        // A channel that is lost once more was not heard in between.
        silent.begins(at(104), Span::seconds(5));
        assert_eq!(silent.began(at(105), JobId(1)), Ok(()));
        let found = silent.began(at(106), JobId(2)).expect_err("it is late");
        assert!(found.contains("job 2 begins 6 s after"), "{found}");
        silent.ends();
        assert_eq!(silent.began(at(107), JobId(3)), Ok(()));
    }
}
