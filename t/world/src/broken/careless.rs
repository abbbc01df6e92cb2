//! The sched module, but something that jobs ask for it does not hear.

use std::sync::Arc;

use eddy_broker::{Endpoint, Input, Module, Outbox, Request};
use eddy_modules::sched::Sched;
use eddy_wire::event::{Event, Kind, Record};
use eddy_wire::id::Seq;
use eddy_wire::jobspec;
use eddy_wire::time::Time;

/// Around the real one.
pub struct Careless {
    inner: Sched,
    forgets: fn(&mut jobspec::Request),
}

impl Careless {
    /// In place of that one: it takes any node.
    pub fn of_nodes(inner: Sched) -> Careless {
        let forgets = |request: &mut jobspec::Request| request.constraint = None;
        Careless { inner, forgets }
    }

    /// The same, which knows what is asked of nodes, and nothing of sockets.
    pub fn of_sockets(inner: Sched) -> Careless {
        let forgets = |request: &mut jobspec::Request| request.sockets = None;
        Careless { inner, forgets }
    }

    /// The record of a submission without that.
    fn careless(&self, record: &Record) -> Record {
        let mut record = record.clone();
        if let Kind::Submit(submit) = &mut record.event.kind {
            let spec = &mut Arc::make_mut(submit).spec;
            (self.forgets)(&mut Arc::make_mut(spec).request);
        }
        record
    }
}

impl Module for Careless {
    fn name(&self) -> &'static str {
        "sched that hears not all"
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
        self.inner.apply(&self.careless(record));
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Applied(record) => {
                let record = self.careless(record);
                self.inner.handle(now, Input::Applied(&record), out);
            }
            _ => self.inner.handle(now, input, out),
        }
    }
}
