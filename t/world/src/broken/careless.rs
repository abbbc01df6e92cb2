//! The sched module, but something that jobs ask for it does not hear.

use std::sync::Arc;

use eddy_broker::{Input, Module, Outbox};
use eddy_modules::sched::Sched;
use eddy_wire::event::{Kind, Record};
use eddy_wire::jobspec;
use eddy_wire::time::Time;

use super::around::Twist;

/// In place of that one.
pub struct Careless {
    forgets: fn(&mut jobspec::Request),
}

impl Careless {
    /// It takes any node.
    pub fn of_nodes() -> Careless {
        let forgets = |request: &mut jobspec::Request| request.constraint = None;
        Careless { forgets }
    }

    /// It knows what is asked of nodes, and nothing of sockets.
    pub fn of_sockets() -> Careless {
        let forgets = |request: &mut jobspec::Request| request.sockets = None;
        Careless { forgets }
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

impl Twist<Sched> for Careless {
    const NAME: &'static str = "sched that hears not all";

    fn apply(&mut self, real: &mut Sched, record: &Record) {
        real.apply(&self.careless(record));
    }

    fn handle(&mut self, real: &mut Sched, (now, input): (Time, Input<'_>), out: &mut Outbox) {
        match input {
            Input::Applied(record) => {
                let record = self.careless(record);
                real.handle(now, Input::Applied(&record), out);
            }
            _ => real.handle(now, input, out),
        }
    }
}
