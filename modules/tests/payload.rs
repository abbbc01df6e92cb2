//! What jobs that are passed carry, said once over a channel.

use std::sync::Arc;

use bytes::Bytes;
use eddy_broker::effect::ParentWord;
use eddy_broker::{Arrival, Effect};
use eddy_wire::event::{Kind, Pass, Submit};
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::jobspec::Jobspec;
use eddy_wire::message::Type;
use eddy_wire::payload::Keeps;
use eddy_wire::services::child::{Adopt, AdoptRequest, FromParent, PassState, Passed};
use eddy_wire::spec::Spec;
use serde_json::json;

use crate::nest_stand::*;
use crate::pass::{CHANNEL, CLIENT, child, core, said, starts, with_shells};

const KEEPS: Keeps = Keeps {
    count: 4,
    bytes: 10_000,
};

/// A child that keeps payloads says hello, and that it did nothing alone.
fn keeping(stand: &mut Stand, channel: u64) -> Vec<Effect> {
    let hello = AdoptRequest {
        keeps: Some(KEEPS),
        ..hello(BATCH)
    };
    stand.call::<Adopt>(channel, 0, &hello);
    settle(stand, channel)
}

/// Of each job that is passed over that channel, how many bytes of its jobspec go along, and how many in all.
fn passes(effects: &[Effect], channel: u64) -> Vec<(u32, usize)> {
    let told = told(effects, channel).into_iter();
    let told = told.filter(|told| told.kind == Type::Part);
    let passes = told.filter_map(|told| match told.word() {
        FromParent::Pass(passed) => Some((passed.jobspec_bytes, told.tail.len())),
        _ => None,
    });
    passes.collect()
}

/// Two jobs of one jobspec, and one of another, are passed one after the other.
fn three_passed(stand: &mut Stand) -> Vec<(u32, usize)> {
    let mut all = Vec::new();
    for (number, duration) in [(0, 60), (1, 60), (2, 90)] {
        let system = json!({"queue": "long", "duration": duration});
        stand.submit(CLIENT, USER, system);
        let job = JobId(3 + number);
        all.extend(starts(stand, job, core([3], 1 + number as u32)));
    }
    passes(&all, CHANNEL)
}

#[test]
fn what_a_child_keeps_is_said_once_over_a_channel() {
    let mut stand = Stand::with_children(&with_batch());
    with_shells(&mut stand);
    keeping(&mut stand, CHANNEL);
    let [first, second, third] = three_passed(&mut stand)[..] else {
        panic!("three were passed");
    };
    assert!(
        first.0 > 0 && first.1 > first.0 as usize,
        "all of the first"
    );
    assert_eq!(second, (0, 0), "nothing of what is the same");
    assert_eq!(third.1, third.0 as usize, "its jobspec, and no environment");
    assert!(third.0 > 0);
    let again = keeping(&mut stand, CHANNEL + 1);
    assert_eq!(passes(&again, CHANNEL + 1), [first, second, third]);
}

#[test]
fn who_does_not_say_that_it_keeps_payloads_is_told_all() {
    let mut stand = Stand::with_children(&with_batch());
    with_shells(&mut stand);
    adopt(&mut stand, CHANNEL, BATCH);
    let told = three_passed(&mut stand);
    assert!(told.iter().all(|(jobspec, all)| *all > *jobspec as usize));
    assert_eq!(told[0], told[1]);
}

#[test]
fn nobody_may_keep_more_than_is_looked_through() {
    let mut stand = Stand::with_children(&with_batch());
    let keeps = Some(Keeps {
        count: 257,
        bytes: 1,
    });
    let hello = AdoptRequest {
        keeps,
        ..hello(BATCH)
    };
    let effects = stand.call::<Adopt>(CHANNEL, 0, &hello);
    let refused = &told(&effects, CHANNEL)[0];
    assert_eq!(refused.kind, Type::Refused);
    assert_eq!(
        refused.body["text"],
        "keeps.count: 257 given, at most 256 are allowed"
    );
}

fn spec(duration: u32) -> Spec {
    let system = json!({"queue": "long", "duration": duration});
    let jobspec = Jobspec::from_value(jobspec(system)).expect("a jobspec");
    Spec::from_jobspec(jobspec).expect("a request")
}

/// A job of that spec comes, with so much of it.
fn comes(job: u64, attempt: u32, spec: &Spec, text: &[u8], environment: &[u8]) -> Arrival {
    let passed = Passed {
        job: JobId(job),
        pass: Pass {
            attempt: Attempt(attempt),
            set: core([2], 2),
            with: None,
            taken: Default::default(),
        },
        user: USER,
        urgency: 16,
        cc: None,
        party: Default::default(),
        key: uuid::Uuid::from_u128(u128::from(job)),
        index: 0,
        count: 1,
        sent: None,
        jobspec: Some(spec.hash),
        environment: Some(spec.environment_hash),
        jobspec_bytes: text.len() as u32,
    };
    let tail = Bytes::from([text, environment].concat());
    Arrival::Parent(ParentWord::Pass(Box::new(passed), tail))
}

fn submitted(stand: &Stand, job: u64) -> Option<Arc<Submit>> {
    let mut records = stand.records.iter().rev();
    records.find_map(|record| match &record.event.kind {
        Kind::Submit(submit) if record.event.job == Some(JobId(job)) => Some(Arc::clone(submit)),
        _ => None,
    })
}

#[test]
fn a_child_finds_what_is_not_said_again() {
    let mut stand = child();
    let (one, other) = (spec(60), spec(90));
    stand.tell(comes(77, 1, &one, &one.text, &one.environment_text));
    stand.tell(comes(78, 1, &other, &other.text, &[]));
    stand.tell(comes(79, 1, &one, &[], &[]));
    for (job, spec) in [(77, &one), (78, &other), (79, &one)] {
        assert_eq!(*submitted(&stand, job).expect("it came").spec, *spec);
    }
}

#[test]
fn a_job_whose_payload_is_not_there_goes_back() {
    let mut stand = child();
    let spec = spec(60);
    stand.tell(comes(77, 1, &spec, &spec.text, &spec.environment_text));
    // Neither end knows of anything over another channel.
    stand.tell(Arrival::Parent(ParentWord::Away));
    let effects = stand.tell(comes(78, 1, &spec, &[], &[]));
    let states = said(&effects);
    let [
        PassState::Over {
            began: false,
            exception: Some(why),
            ..
        },
    ] = &states[..]
    else {
        panic!("{states:?}");
    };
    let note = format!("jobspec {} is not known here", spec.hash);
    assert_eq!((why.kind.as_str(), &why.note), ("bounce", &note));
    assert!(submitted(&stand, 78).is_none());
}

#[test]
fn a_next_attempt_that_has_to_wait_keeps_what_it_asks_for() {
    let mut stand = child();
    let (one, other) = (spec(60), spec(90));
    stand.tell(comes(77, 1, &one, &one.text, &one.environment_text));
    // The first is given up for it, and its end comes later.
    stand.tell(comes(77, 2, &other, &other.text, &[]));
    for duration in 100..170 {
        let filler = spec(duration);
        stand.tell(comes(u64::from(duration), 1, &filler, &filler.text, &[]));
    }
    let submit = submitted(&stand, 77).expect("it came");
    assert_eq!(
        submit.pass.as_ref().map(|pass| pass.attempt),
        Some(Attempt(2))
    );
    assert_eq!(*submit.spec, other);
}
