//! What a broker does that no module and no driver sees alone.

use serde_json::Map;

use super::*;
use crate::effect::Exit;

/// Ends the instance, and proposes one more thing in the same breath.
struct Hasty;

impl Module for Hasty {
    fn name(&self) -> &'static str {
        "hasty"
    }

    fn apply(&mut self, _record: &Record) {}

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        if let Input::Stop = input {
            out.append_own(now, Kind::LeaderStop);
            out.effect(Effect::Exit(Exit::Stopped));
            out.append_own(now, Kind::Memo(Map::new()));
            out.effect(Effect::Wake(now));
        }
    }
}

/// Proposes what does not stand, and says something with it.
struct Futile;

impl Module for Futile {
    fn name(&self) -> &'static str {
        "futile"
    }

    fn stands(&self, event: &Event) -> bool {
        !matches!(event.kind, Kind::Memo(_))
    }

    fn apply(&mut self, _record: &Record) {}

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        if let Input::Tick = input {
            out.append_own(now, Kind::Memo(Map::new()));
            out.effect(Effect::Wake(now));
        }
    }
}

/// Says so whenever it hears of a record.
struct Listener(Reacts);

impl Module for Listener {
    fn name(&self) -> &'static str {
        "listener"
    }

    fn apply(&mut self, _record: &Record) {}

    fn reacts(&self) -> Reacts {
        self.0
    }

    fn handle(&mut self, _now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Applied(_) => out.effect(Effect::Wake(Time(1))),
            Input::Durable(_) => out.effect(Effect::Wake(Time(2))),
            _ => {}
        }
    }
}

fn identity() -> Identity {
    Identity {
        instance: "i".to_owned(),
        version: "0".to_owned(),
        owner: 0,
        path: String::new(),
        depth: 0,
        parent: None,
        declared: None,
    }
}

#[test]
fn what_is_said_with_an_event_that_does_not_stand_is_said_all_the_same() {
    let mut broker = Broker::new(identity(), vec![Box::new(Futile)]);
    broker.resume(Time(1), Seq(0), None);
    let last = broker.last();
    broker.handle(Time(1), Arrival::Durable(last));
    let output = broker.handle(Time(2), Arrival::Tick);
    assert_eq!(
        (output.records.len(), &output.effects[..]),
        (0, &[Effect::Wake(Time(2))][..])
    );
}

#[test]
fn a_module_hears_of_records_what_it_reacts_to() {
    for (reacts, heard) in [
        (Reacts::ToNeither, &[][..]),
        (Reacts::ToApplied, &[1]),
        (Reacts::ToDurable, &[2]),
        (Reacts::ToBoth, &[1, 2]),
    ] {
        let mut broker = Broker::new(identity(), vec![Box::new(Listener(reacts))]);
        broker.resume(Time(1), Seq(0), None);
        let last = broker.last();
        let output = broker.handle(Time(1), Arrival::Durable(last));
        let mut said = output.effects;
        said.sort_by_key(|effect| matches!(effect, Effect::Wake(Time(2))));
        let heard = heard.iter().map(|t| Effect::Wake(Time(*t)));
        assert_eq!(said, heard.collect::<Vec<_>>(), "{reacts:?}");
    }
}

#[test]
fn a_leader_whose_end_is_recorded_ends_whatever_is_proposed_behind_it() {
    let mut broker = Broker::new(identity(), vec![Box::new(Hasty)]);
    broker.resume(Time(1), Seq(0), None);
    let ended = broker.handle(Time(2), Arrival::Stop);
    let kinds: Vec<&Kind> = ended.records.iter().map(|r| &r.event.kind).collect();
    assert_eq!(kinds, [&Kind::LeaderStop], "nothing is recorded behind it");
    let last = broker.last();
    let output = broker.handle(Time(3), Arrival::Durable(last));
    assert_eq!(
        output.effects,
        [Effect::Exit(Exit::Stopped)],
        "it ends, and tells nothing of what was not recorded"
    );
}
