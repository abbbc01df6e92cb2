//! The sched module, but the last of each gang does not start with the others.

use eddy_broker::{Input, Module, Outbox};
use eddy_modules::sched::Sched;
use eddy_wire::plan::Outcome;
use eddy_wire::time::Time;

use super::around::Twist;

/// In place of that one.
pub struct Loose;

impl Twist<Sched> for Loose {
    const NAME: &'static str = "sched that scatters gangs";

    fn handle(&mut self, real: &mut Sched, (now, input): (Time, Input<'_>), out: &mut Outbox) {
        let Input::Planned(outcome) = input else {
            return real.handle(now, input, out);
        };
        let last = outcome.together.iter().filter_map(|gang| gang.last());
        let left: Vec<_> = last.copied().collect();
        let mut scattered = Outcome {
            together: Vec::new(),
            ..outcome.clone()
        };
        scattered.verdicts.retain(|(job, _)| !left.contains(job));
        real.handle(now, Input::Planned(&scattered), out);
    }
}
