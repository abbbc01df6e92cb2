//! The sched module, but what jobs ask of nodes it does not hear.

use std::sync::Arc;

use eddy_broker::{Endpoint, Input, Module, Outbox, Request};
use eddy_modules::sched::Sched;
use eddy_wire::event::{Event, Kind, Record};
use eddy_wire::id::Seq;
use eddy_wire::time::Time;

/// Around the real one.
pub struct Careless {
    inner: Sched,
}

impl Careless {
    /// In place of that one.
    pub fn new(inner: Sched) -> Careless {
        Careless { inner }
    }
}

impl Module for Careless {
    fn name(&self) -> &'static str {
        "sched that takes any node"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        self.inner.endpoints()
    }

    fn claims(&self, request: &Request) -> bool {
        self.inner.claims(request)
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.inner.live(seqs);
    }

    fn stands(&self, event: &Event) -> bool {
        self.inner.stands(event)
    }

    fn apply(&mut self, record: &Record) {
        self.inner.apply(&careless(record));
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Applied(record) => {
                let record = careless(record);
                self.inner.handle(now, Input::Applied(&record), out);
            }
            _ => self.inner.handle(now, input, out),
        }
    }
}

/// The record of a submission without that.
fn careless(record: &Record) -> Record {
    let mut record = record.clone();
    if let Kind::Submit(submit) = &mut record.event.kind
        && submit.spec.request.constraint.is_some()
    {
        let submit = Arc::make_mut(submit);
        Arc::make_mut(&mut submit.spec).request.constraint = None;
    }
    record
}
