//! Leaders of children that stop saying that they are there.

use eddy_broker::{Arrival, Effect};
use eddy_wire::id::JobId;
use eddy_wire::message::Type;
use eddy_wire::services::child::{
    Adopt, AdoptRequest, Beat, Children, ChildrenRequest, Ids, IdsRequest,
};
use eddy_wire::time::Span;

use crate::nest_relay::relayed;
use crate::nest_stand::*;

const CHANNEL: u64 = 2;
const CLIENT: u64 = 40;
/// How often the child says that it is there, and after how long it is not.
const EVERY: Span = Span::seconds(8);
const SILENT: Span = Span::seconds(24);

/// A child that said hello on a connection of that number, and will beat.
fn beating(stand: &mut Stand, channel: u64) -> Vec<Effect> {
    let hello = AdoptRequest {
        beat: Some(EVERY),
        ..hello(BATCH)
    };
    stand.call::<Adopt>(channel, 0, &hello)
}

fn later(stand: &mut Stand, span: Span) -> Vec<Effect> {
    stand.now = stand.now.after(span);
    stand.tell(Arrival::Tick)
}

fn wakes(effects: &[Effect]) -> bool {
    let is_wake = |effect: &Effect| matches!(effect, Effect::Wake(_));
    effects.iter().any(is_wake)
}

fn of(job: JobId) -> ChildrenRequest {
    ChildrenRequest {
        job: Some(job),
        ..ChildrenRequest::default()
    }
}

/// The stage in which the child is listed.
fn stage(stand: &mut Stand) -> String {
    let told = stand.ask::<Children>(CLIENT, 0, &of(BATCH));
    told.body[0]["stage"].as_str().expect("a word").to_owned()
}

#[test]
fn the_channel_of_a_leader_that_is_not_there_ends_as_if_it_were_cut() {
    let mut stand = Stand::with_children(&with_batch());
    assert!(wakes(&beating(&mut stand, CHANNEL)));
    let child = hello(BATCH).child;
    stand.ask::<Ids>(CHANNEL, 0, &IdsRequest { child, number: 1 });
    // It is asked for a job of its own.
    let effects = stand.call::<Children>(CLIENT + 1, USER, &of(JobId(3)));
    assert_eq!(relayed(&effects, CHANNEL).len(), 1);
    assert_eq!(stage(&mut stand), "serving");
    let effects = later(&mut stand, EVERY);
    assert!(told(&effects, CHANNEL).is_empty(), "it is only late");
    stand.ask::<Beat>(CHANNEL, 0, &child);
    // It was heard since, which is looked at when it would have been silent otherwise.
    let effects = later(&mut stand, Span(SILENT.0 - EVERY.0));
    assert!(told(&effects, CHANNEL).is_empty() && wakes(&effects));
    let effects = later(&mut stand, EVERY);
    let told_it = told(&effects, CHANNEL);
    assert_eq!(told_it[0].kind, Type::Refused);
    assert_eq!(told_it[0].body["code"], "unreachable");
    assert_eq!(told(&effects, CLIENT + 1)[0].kind, Type::Refused);
    assert_eq!(stage(&mut stand), "away");
    // It goes on: what it says over the old channel counts for nothing, and it says hello again.
    stand.ask::<Beat>(CHANNEL, 0, &child);
    assert_eq!(stage(&mut stand), "away");
    beating(&mut stand, CHANNEL + 1);
    assert_eq!(stage(&mut stand), "serving");
}

#[test]
fn who_does_not_say_that_it_beats_is_not_waited_for() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, CHANNEL, BATCH);
    assert!(told(&later(&mut stand, Span::seconds(86_400)), CHANNEL).is_empty());
    assert_eq!(stage(&mut stand), "serving");
    let hello = AdoptRequest {
        beat: Some(Span(1)),
        ..hello(BATCH)
    };
    let effects = stand.call::<Adopt>(CHANNEL + 1, 0, &hello);
    let refused = told(&effects, CHANNEL + 1)[0].refusal().to_owned();
    assert_eq!(refused, "beat: 1 given, allowed are 10000 to 3600000000 us");
}
