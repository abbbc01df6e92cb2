//! The sched module, but it hears neither that its leader is to end nor how long before its limit an instance ends
//! what runs in it.

use eddy_broker::{Endpoint, Input, Module, Outbox, ParentWord, Request};
use eddy_modules::Settings;
use eddy_modules::sched::Sched;
use eddy_wire::event::{Event, Record};
use eddy_wire::id::Seq;
use eddy_wire::time::{Span, Time};

/// Around the real one.
pub struct Endless {
    inner: Sched,
}

impl Endless {
    /// One with these settings, but for that.
    pub fn new(settings: &Settings) -> Endless {
        let mut settings = settings.clone();
        settings.place.reserve = Span::ZERO;
        Endless {
            inner: Sched::new(&settings),
        }
    }
}

impl Module for Endless {
    fn name(&self) -> &'static str {
        "sched that hears of no end"
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
        match input {
            Input::Stop => {}
            Input::Parent(ParentWord::Granted(granted)) => {
                let mut granted = granted.clone();
                granted.reserve = Span::ZERO;
                let word = ParentWord::Granted(granted);
                self.inner.handle(now, Input::Parent(&word), out);
            }
            _ => self.inner.handle(now, input, out),
        }
    }
}
