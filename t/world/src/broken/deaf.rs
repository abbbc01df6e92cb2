//! A module that does not hear what is done to queues.

use eddy_broker::{Endpoint, Input, Module, Outbox, Request};
use eddy_wire::event::{Event, Kind, Record};
use eddy_wire::id::Seq;
use eddy_wire::time::Time;

/// Around the real one.
pub struct Deaf(pub Box<dyn Module + Send>);

impl Module for Deaf {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        self.0.endpoints()
    }

    fn claims(&self, request: &Request) -> bool {
        self.0.claims(request)
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.0.live(seqs);
    }

    fn stands(&self, event: &Event) -> bool {
        self.0.stands(event)
    }

    fn apply(&mut self, record: &Record) {
        if !matches!(record.event.kind, Kind::Queue(_)) {
            self.0.apply(record);
        }
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        self.0.handle(now, input, out);
    }
}
