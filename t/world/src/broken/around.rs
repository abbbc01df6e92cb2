//! A module in the place of another, which does as that does but where a rule is broken.
//!
//! Made by those that break one, each by what it does otherwise; all else is handed on.

use eddy_broker::{Endpoint, Input, Module, Outbox, Request};
use eddy_wire::event::{Event, Record};
use eddy_wire::id::Seq;
use eddy_wire::time::Time;

/// What a module in the place of another does otherwise.
pub trait Twist<M: Module> {
    /// What it is called.
    const NAME: &'static str;

    /// Has the real one fold a record.
    fn apply(&mut self, real: &mut M, record: &Record) {
        real.apply(record);
    }

    /// Has the real one put into an event what would follow from it.
    fn completes(&self, real: &M, event: &mut Event) {
        real.completes(event);
    }

    /// Has the real one react.
    fn handle(&mut self, real: &mut M, (now, input): (Time, Input<'_>), out: &mut Outbox) {
        real.handle(now, input, out);
    }
}

/// Around the real one.
pub struct Around<M, T> {
    real: M,
    twist: T,
}

impl<M: Module, T: Twist<M>> Around<M, T> {
    /// In place of that one.
    pub fn new(real: M, twist: T) -> Around<M, T> {
        Around { real, twist }
    }
}

/// It reacts to all words about records, also to those that the real one has no use for: a twist may have one.
impl<M: Module, T: Twist<M>> Module for Around<M, T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        self.real.endpoints()
    }

    fn claims(&self, request: &Request) -> bool {
        self.real.claims(request)
    }

    fn stands(&self, event: &Event) -> bool {
        self.real.stands(event)
    }

    fn completes(&self, event: &mut Event) {
        self.twist.completes(&self.real, event);
    }

    fn apply(&mut self, record: &Record) {
        self.twist.apply(&mut self.real, record);
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        self.twist.handle(&mut self.real, (now, input), out);
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.real.live(seqs);
    }
}
