//! The sched module, but the last of each gang does not start with the others.

use eddy_broker::{Endpoint, Input, Module, Outbox, Request};
use eddy_modules::sched::Sched;
use eddy_wire::event::{Event, Record};
use eddy_wire::id::Seq;
use eddy_wire::plan::Outcome;
use eddy_wire::time::Time;

/// Around the real one.
pub struct Loose {
    inner: Sched,
}

impl Loose {
    /// In place of that one.
    pub fn new(inner: Sched) -> Loose {
        Loose { inner }
    }
}

impl Module for Loose {
    fn name(&self) -> &'static str {
        "sched that scatters gangs"
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
        self.inner.apply(record);
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        let Input::Planned(outcome) = input else {
            return self.inner.handle(now, input, out);
        };
        let last = outcome.together.iter().filter_map(|gang| gang.last());
        let left: Vec<_> = last.copied().collect();
        let mut scattered = Outcome {
            together: Vec::new(),
            ..outcome.clone()
        };
        scattered.verdicts.retain(|(job, _)| !left.contains(job));
        self.inner.handle(now, Input::Planned(&scattered), out);
    }
}
