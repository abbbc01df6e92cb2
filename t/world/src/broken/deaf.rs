//! A module that does not hear some records.

use std::collections::BTreeMap;

use eddy_broker::{Endpoint, Input, Module, Outbox, Request};
use eddy_modules::live;
use eddy_wire::account::{Change, Limits, Name, Period};
use eddy_wire::event::{Event, Kind, Record};
use eddy_wire::id::Seq;
use eddy_wire::reservation::Kept;
use eddy_wire::time::Time;

/// How a module is made not to hear something.
pub type Deafening = fn(Box<dyn Module + Send>) -> Deaf;

/// What is heard of a record.
enum Heard {
    AsItIs,
    Nothing,
    /// This in its place.
    As(Kind),
}

impl Heard {
    fn unless(deaf: bool) -> Heard {
        match deaf {
            true => Heard::Nothing,
            false => Heard::AsItIs,
        }
    }
}

/// Limits as somebody hears them who does not hear all of them.
fn with_limits(kind: &Kind, hears: fn(&mut Limits)) -> Heard {
    let mut kind = kind.clone();
    let Kind::Account(changed) = &mut kind else {
        return Heard::AsItIs;
    };
    match &mut changed.change {
        Change::Account { value, .. } => value.iter_mut().for_each(|of| hears(&mut of.limits)),
        Change::Member { value, .. } => value.iter_mut().for_each(|of| hears(&mut of.limits)),
        Change::User { value, .. } => value.iter_mut().for_each(|of| hears(&mut of.limits)),
    }
    Heard::As(kind)
}

/// Around the real one.
pub struct Deaf {
    real: Box<dyn Module + Send>,
    hears: fn(&Kind) -> Heard,
    /// The records of what stands that it did not hear: they count all the same.
    unheard: BTreeMap<Name, Seq>,
}

impl Deaf {
    /// What is done to queues it does not hear.
    pub fn to_queues(real: Box<dyn Module + Send>) -> Deaf {
        let hears = |kind: &Kind| Heard::unless(matches!(kind, Kind::Queue(_)));
        Deaf {
            real,
            hears,
            unheard: BTreeMap::new(),
        }
    }

    /// Of another configuration it hears nothing.
    pub fn to_configurations(real: Box<dyn Module + Send>) -> Deaf {
        let hears = |kind: &Kind| {
            Heard::unless(matches!(kind, Kind::Memo(memo) if live::Change::told(memo).is_some()))
        };
        Deaf {
            real,
            hears,
            unheard: BTreeMap::new(),
        }
    }

    /// How many jobs accounts may have submitted it does not hear.
    pub fn to_submitted(real: Box<dyn Module + Send>) -> Deaf {
        let hears = |kind: &Kind| with_limits(kind, |limits| limits.submitted_jobs = None);
        Deaf {
            real,
            hears,
            unheard: BTreeMap::new(),
        }
    }

    /// How many nodes, cores and GPUs may be had it does not hear.
    pub fn to_sizes(real: Box<dyn Module + Send>) -> Deaf {
        let hears = |kind: &Kind| {
            with_limits(kind, |limits| {
                (limits.nodes, limits.cores, limits.gpus) = (None, None, None);
                limits.memory = None;
            })
        };
        Deaf {
            real,
            hears,
            unheard: BTreeMap::new(),
        }
    }

    /// For how long core-minutes are it does not hear.
    pub fn to_periods(real: Box<dyn Module + Send>) -> Deaf {
        let hears = |kind: &Kind| with_limits(kind, |limits| limits.period = Period::Day);
        Deaf {
            real,
            hears,
            unheard: BTreeMap::new(),
        }
    }

    /// What jobs are granted it does not hear.
    pub fn to_grants(real: Box<dyn Module + Send>) -> Deaf {
        let hears = |kind: &Kind| Heard::unless(matches!(kind, Kind::Alloc(_)));
        Deaf {
            real,
            hears,
            unheard: BTreeMap::new(),
        }
    }

    /// That a node failed under a job it hears as any other end.
    pub fn to_failures(real: Box<dyn Module + Send>) -> Deaf {
        let hears = |kind: &Kind| match kind {
            Kind::Exception(exception) if exception.kind == "node-failure" => {
                let mut exception = exception.clone();
                exception.kind = "cancel".to_owned();
                Heard::As(Kind::Exception(exception))
            }
            _ => Heard::AsItIs,
        };
        Deaf {
            real,
            hears,
            unheard: BTreeMap::new(),
        }
    }

    /// That nodes are to be given it does not hear.
    pub fn to_shrinking(real: Box<dyn Module + Send>) -> Deaf {
        let hears = |kind: &Kind| Heard::unless(matches!(kind, Kind::Shrink(_)));
        Deaf {
            real,
            hears,
            unheard: BTreeMap::new(),
        }
    }

    /// Of reservations it hears nothing.
    pub fn to_reservations(real: Box<dyn Module + Send>) -> Deaf {
        let hears = |kind: &Kind| Heard::unless(matches!(kind, Kind::Reservation(_)));
        Deaf {
            real,
            hears,
            unheard: BTreeMap::new(),
        }
    }
}

impl Module for Deaf {
    fn name(&self) -> &'static str {
        self.real.name()
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        self.real.endpoints()
    }

    fn claims(&self, request: &Request) -> bool {
        self.real.claims(request)
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        self.real.live(seqs);
        seqs.extend(self.unheard.values());
    }

    fn stands(&self, event: &Event) -> bool {
        self.real.stands(event)
    }

    fn completes(&self, event: &mut Event) {
        self.real.completes(event);
    }

    fn apply(&mut self, record: &Record) {
        if let Kind::Reservation(kept) = &record.event.kind
            && matches!((self.hears)(&record.event.kind), Heard::Nothing)
        {
            self.unheard.remove(kept.name());
            if matches!(**kept, Kept::Made(_)) {
                self.unheard.insert(kept.name().clone(), record.seq);
            }
        }
        match (self.hears)(&record.event.kind) {
            Heard::AsItIs => self.real.apply(record),
            Heard::Nothing => {}
            Heard::As(kind) => {
                let mut record = record.clone();
                record.event.kind = kind;
                self.real.apply(&record);
            }
        }
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Applied(record)
                if matches!((self.hears)(&record.event.kind), Heard::Nothing) => {}
            _ => self.real.handle(now, input, out),
        }
    }
}
