//! The sched module, but it hears neither that its leader is to end nor how long before its limit an instance ends
//! what runs in it.

use eddy_broker::{Input, Module, Outbox, ParentWord};
use eddy_modules::Settings;
use eddy_modules::sched::Sched;
use eddy_wire::time::{Span, Time};

use super::around::{Around, Twist};

/// In place of that one.
pub struct Endless;

impl Endless {
    /// Around one with these settings, but for that.
    pub fn around(settings: &Settings) -> Around<Sched, Endless> {
        let mut settings = settings.clone();
        settings.place.reserve = Span::ZERO;
        Around::new(Sched::new(&settings), Endless)
    }
}

impl Twist<Sched> for Endless {
    const NAME: &'static str = "sched that hears of no end";

    fn handle(&mut self, real: &mut Sched, (now, input): (Time, Input<'_>), out: &mut Outbox) {
        match input {
            Input::Stop => {}
            Input::Parent(ParentWord::Granted(granted)) => {
                let mut granted = granted.clone();
                granted.reserve = Span::ZERO;
                let word = ParentWord::Granted(granted);
                real.handle(now, Input::Parent(&word), out);
            }
            _ => real.handle(now, input, out),
        }
    }
}
