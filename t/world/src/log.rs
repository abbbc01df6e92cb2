//! Records in their places, of which those of jobs that are over may be let go.
//!
//! Kept by the journal and by the oracle. Who never lets go has them all. It judges nothing.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use eddy_wire::event::{Event, Kind, Record};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::time::Time;

/// Records, each in its place.
#[derive(Clone, Debug, Default)]
pub struct Log {
    records: Vec<Arc<Record>>,
    /// Up to here each was looked at.
    seen: usize,
    /// Those of them that are of jobs which were not over then.
    left: Vec<usize>,
}

impl Log {
    /// One more.
    pub fn push(&mut self, record: Arc<Record>) {
        self.records.push(record);
    }

    /// Nobody reads of these jobs any more: in the places of their records is nothing. The last record stays,
    /// since the next follows it.
    pub fn let_go(&mut self, over: &BTreeSet<JobId>) {
        let end = self.records.len().saturating_sub(1);
        let nothing = Arc::new(Record {
            seq: Seq(0),
            event: Event {
                t: Time(0),
                job: None,
                kind: Kind::Memo(Default::default()),
            },
        });
        let mut left = std::mem::take(&mut self.left);
        left.extend(self.seen..end);
        self.seen = self.seen.max(end);
        left.retain(|at| match self.records[*at].event.job {
            Some(job) if over.contains(&job) => {
                self.records[*at] = Arc::clone(&nothing);
                false
            }
            Some(_) => true,
            None => false,
        });
        self.left = left;
    }
}

impl Deref for Log {
    type Target = [Arc<Record>];

    fn deref(&self) -> &[Arc<Record>] {
        &self.records
    }
}
