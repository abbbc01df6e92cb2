//! A module that knows what it is asked for again, and does not say so.
//!
//! Put in the place of the one that it is around by whoever breaks that rule on purpose.

use eddy_broker::{Input, Module, Outbox, Reacts};
use eddy_wire::event::Record;
use eddy_wire::id::Seq;
use eddy_wire::time::Time;

/// The same module, but that it claims no request.
pub struct Unclaimed(Box<dyn Module + Send>);

impl Unclaimed {
    /// Around that one.
    pub fn around(real: Box<dyn Module + Send>) -> Unclaimed {
        Unclaimed(real)
    }
}

impl Module for Unclaimed {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn apply(&mut self, record: &Record) {
        self.0.apply(record);
    }

    fn reacts(&self) -> Reacts {
        self.0.reacts()
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        self.0.handle(now, input, out);
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.0.live(seqs);
    }
}
