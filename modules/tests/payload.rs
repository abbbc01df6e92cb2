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
use eddy_wire::services::child::{
    Adopt, AdoptRequest, ChildOf, FromParent, PassState, Passed, Told as TellsOf, ToldOf,
    ToldRequest,
};
use eddy_wire::services::job::{Output, OutputRequest};
use eddy_wire::spec::Spec;
use serde_json::{Value, json};

use crate::nest_stand::*;
use crate::pass::{CHANNEL, CLIENT, child, core, said, starts, with_shells, words};

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

/// What is asked of a job with three MiB of environment, which no other number has.
fn long_one(number: u32) -> Value {
    json!({"duration": 60, "environment": {"LONG": format!("{number}{}", "x".repeat(3 << 20))}})
}

/// The child says over that channel that these jobs have come to this.
fn says(stand: &mut Stand, channel: u64, jobs: &[u64], state: &PassState) -> Vec<Effect> {
    let told = |job: &u64| ToldOf {
        state: state.clone(),
        ..ToldOf::accepted(JobId(*job), Attempt(1))
    };
    let request = ToldRequest {
        child: ChildOf {
            job: BATCH,
            attempt: Attempt(1),
        },
        jobs: jobs.iter().map(told).collect(),
    };
    stand.call::<TellsOf>(channel, 0, &request)
}

#[test]
fn what_a_child_says_that_it_has_is_not_passed_again() {
    let mut stand = Stand::with_children(&with_batch());
    with_shells(&mut stand);
    keeping(&mut stand, CHANNEL);
    three_passed(&mut stand);
    let other = CHANNEL + 1;
    stand.call::<Adopt>(other, 0, &hello(BATCH));
    says(&mut stand, other, &[3], &PassState::Running);
    says(&mut stand, other, &[4], &PassState::Accepted);
    let again = settle(&mut stand, other);
    assert_eq!(passes(&again, other).len(), 1, "the third");
}

#[test]
fn long_ones_are_passed_when_some_before_them_were_answered() {
    let mut stand = Stand::with_children(&with_batch());
    with_shells(&mut stand);
    adopt(&mut stand, CHANNEL, BATCH);
    let mut told = Vec::new();
    for number in 0..5 {
        let mut asked = long_one(number);
        asked["queue"] = json!("long");
        stand.submit(CLIENT, USER, asked);
        let at = core([3 - number / 4], number % 4);
        told.push(starts(&mut stand, JobId(3 + u64::from(number)), at));
    }
    let counts = |told: &[Vec<Effect>], channel| -> Vec<usize> {
        let counts = told.iter().map(|effects| passes(effects, channel).len());
        counts.collect()
    };
    assert_eq!(counts(&told, CHANNEL), [1, 1, 1, 0, 0]);
    // What is short overtakes them: it takes no room.
    stand.submit(CLIENT, USER, json!({"queue": "long"}));
    let short = starts(&mut stand, JobId(8), core([2], 1));
    assert_eq!(passes(&short, CHANNEL).len(), 1);
    let next = says(&mut stand, CHANNEL, &[4], &PassState::Accepted);
    assert_eq!(passes(&next, CHANNEL).len(), 1);
    // What is asked of the tasks of one that waits for its turn goes behind it.
    let output = OutputRequest {
        id: JobId(7),
        attempt: None,
        offsets: Vec::new(),
        follow: true,
    };
    let asked = stand.call::<Output>(CLIENT, USER, &output);
    let words = words(&asked);
    assert!(
        matches!(&words[..], [FromParent::Pass(passed), FromParent::Request { .. }] if passed.job == JobId(7)),
        "{} words",
        words.len()
    );
    // All that is not known to be there is said again over another channel, and no more at a time.
    let other = CHANNEL + 1;
    let mut again = vec![adopt(&mut stand, other, BATCH)];
    for job in [3, 4] {
        again.push(says(&mut stand, other, &[job], &PassState::Accepted));
    }
    assert_eq!(counts(&again, other), [4, 1, 1]);
}

#[test]
fn a_long_one_is_answered_as_soon_as_it_is_there() {
    let mut stand = child();
    let short = spec(60);
    let effects = stand.tell(comes(77, 1, &short, &short.text, &short.environment_text));
    assert_eq!(said(&effects), []);
    let jobspec = Jobspec::from_value(jobspec(long_one(1))).expect("a jobspec");
    let long = Spec::from_jobspec(jobspec).expect("a request");
    for _ in 0..2 {
        let comes = comes(78, 1, &long, &long.text, &long.environment_text);
        assert_eq!(said(&stand.tell(comes)), [PassState::Accepted]);
    }
}
