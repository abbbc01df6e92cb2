//! The manager, but each thing that jobs are owed is a record of its own.

use eddy_broker::{Endpoint, Input, Module, Outbox, Reacts, Request};
use eddy_modules::manager::Manager;
use eddy_wire::event::{Event, Record};
use eddy_wire::id::Seq;
use eddy_wire::time::Time;

/// Around the real one.
pub struct Wordy {
    inner: Manager,
}

impl Wordy {
    /// In place of that one.
    pub fn new(inner: Manager) -> Wordy {
        Wordy { inner }
    }
}

/// All but `completes`.
impl Module for Wordy {
    fn name(&self) -> &'static str {
        "manager that leaves nothing unsaid"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        self.inner.endpoints()
    }

    fn claims(&self, request: &Request) -> bool {
        self.inner.claims(request)
    }

    fn stands(&self, event: &Event) -> bool {
        self.inner.stands(event)
    }

    fn apply(&mut self, record: &Record) {
        self.inner.apply(record);
    }

    fn reacts(&self) -> Reacts {
        self.inner.reacts()
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        self.inner.handle(now, input, out);
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.inner.live(seqs);
    }
}
