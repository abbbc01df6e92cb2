//! What queue instances took and began while this one was away, as this one takes it in.

use std::sync::Arc;

use crate::nest_stand::*;
use crate::pass::*;
use eddy_broker::{Answer, Arrival, Effect, Query};
use eddy_modules::Settings;
use eddy_modules::settings::{Declared, Extent};
use eddy_wire::Time;
use eddy_wire::event::Kind;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::idset::Idset;
use eddy_wire::message::Roles;
use eddy_wire::plan::Delta;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{
    Begun, ChildOf, FromParent, HandUp, HandUpRequest, Ids, IdsRequest, PassState, TakenUp,
    Told as TellsOf, ToldOf, ToldRequest,
};
use eddy_wire::services::job::{
    Events, EventsRequest, JobSet, Raise, RaiseRequest, Scope, SubmitRequest,
};
use eddy_wire::time::Span;
use serde_json::json;

/// The channel over which it says what it did.
pub const NEXT: u64 = CHANNEL + 1;

pub fn child() -> ChildOf {
    ChildOf {
        job: BATCH,
        attempt: Attempt(1),
    }
}

fn ago(seconds: i64) -> Time {
    Time(START.0 - seconds * 1_000_000)
}

/// A parent, begun again by these settings while a job was on its way to its instance, which has drawn
/// numbers from the one that is given.
pub fn back(settings: &Settings) -> (Stand, JobId) {
    let (mut stand, _) = passed();
    let drawn = stand.ask::<Ids>(
        CHANNEL,
        0,
        &IdsRequest {
            child: child(),
            number: 1,
        },
    );
    let first = JobId(drawn.body["first"].as_u64().expect("a number"));
    let mut stand = stand.again(settings);
    with_shells(&mut stand);
    (stand, first)
}

pub fn hello_only(stand: &mut Stand) -> Vec<FromParent> {
    let effects = stand.call::<eddy_wire::services::child::Adopt>(NEXT, 0, &hello(BATCH));
    of(&effects)
}

/// What came over the channel.
pub fn of(effects: &[Effect]) -> Vec<FromParent> {
    let told = told(effects, NEXT).into_iter();
    let parts = told.filter(|told| told.kind == eddy_wire::message::Type::Part);
    parts.map(|told| told.word()).collect()
}

pub fn hands_up(stand: &mut Stand, first: JobId, begun: &[JobId]) -> Told {
    hands_up_as(stand, (first, first), begun)
}

/// The same, of the submission that has another job's key.
pub fn hands_up_as(stand: &mut Stand, of: (JobId, JobId), begun: &[JobId]) -> Told {
    let told = told(&hand_up(stand, of, begun), NEXT);
    told.last().expect("an answer").clone()
}

pub fn hands_up_all(stand: &mut Stand, first: JobId, begun: &[JobId]) -> Vec<Effect> {
    hand_up(stand, (first, first), begun)
}

fn hand_up(stand: &mut Stand, (first, key): (JobId, JobId), begun: &[JobId]) -> Vec<Effect> {
    let submission = submit_request(stand.now, key.0, json!({"queue": "long", "duration": 3600}));
    hand_up_of(stand, first, submission, begun)
}

fn hand_up_of(
    stand: &mut Stand,
    first: JobId,
    submission: SubmitRequest,
    begun: &[JobId],
) -> Vec<Effect> {
    let taken = TakenUp {
        first,
        submitted: ago(9),
        asked_by: None,
        sent: None,
        begun: begun.iter().copied().collect(),
        urgencies: Default::default(),
    };
    let request = HandUpRequest {
        child: child(),
        user: USER,
        roles: Roles::USER,
        submission,
        taken: Some(Box::new(taken)),
    };
    stand.call::<HandUp>(NEXT, 0, &request)
}

/// It says that it began this job five seconds ago, or more, on core 1 of its second node.
pub fn says(stand: &mut Stand, job: JobId, began: i64, state: PassState) -> Vec<FromParent> {
    let told = began_of(job, began, state);
    tell(stand, told)
}

pub fn began_of(job: JobId, began: i64, state: PassState) -> ToldOf {
    let ended = matches!(state, PassState::Over { .. }).then(|| ago(began - 1));
    let set: Arc<ResourceSet> = core_of_child();
    let begun = Begun { t: ago(began), set };
    ToldOf {
        job,
        attempt: Attempt(1),
        state,
        began: Some(ago(began)),
        ended,
        begun: Some(Box::new(begun)),
        adopted: None,
    }
}

pub fn tell(stand: &mut Stand, told: ToldOf) -> Vec<FromParent> {
    let jobs = vec![told];
    of(&stand.call::<TellsOf>(
        NEXT,
        0,
        &ToldRequest {
            child: child(),
            jobs,
        },
    ))
}

pub fn settles(stand: &mut Stand) -> Vec<Effect> {
    settle(stand, NEXT)
}

fn alloc_of(stand: &Stand, job: JobId) -> (Time, Arc<ResourceSet>) {
    let its = stand
        .records
        .iter()
        .filter(|record| record.event.job == Some(job));
    let mut grants = its.filter_map(|record| match &record.event.kind {
        Kind::Alloc(grant) => Some((record.event.t, Arc::clone(&grant.set))),
        _ => None,
    });
    grants.next_back().expect("it was granted something")
}

pub fn deltas(effects: &[Effect]) -> Vec<&Delta> {
    let plans = effects.iter().filter_map(|effect| match effect {
        Effect::Plan(deltas) => Some(deltas),
        _ => None,
    });
    plans.flatten().collect()
}

/// Kind and note of the first exception of a job.
pub fn ending(stand: &Stand, job: JobId) -> (String, String) {
    let its = stand
        .records
        .iter()
        .filter(|record| record.event.job == Some(job));
    let mut ends = its.filter_map(|record| match &record.event.kind {
        Kind::Exception(exception) => Some((exception.kind.clone(), exception.note.clone())),
        _ => None,
    });
    ends.next().expect("it ends")
}

pub fn raise(job: JobId) -> RaiseRequest {
    RaiseRequest {
        declared: None,
        jobs: JobSet::one(job),
        states: Vec::new(),
        job_set: None,
        scope: Scope::Named,
        kind: "cancel".to_owned(),
        severity: 0,
        note: String::new(),
    }
}

#[test]
fn what_was_on_its_way_is_not_passed_before_all_is_said_and_gives_way_to_what_began() {
    let (mut stand, first) = back(&with_batch());
    let words = hello_only(&mut stand);
    assert!(matches!(words[..], [FromParent::Granted(_)]), "{words:?}");
    hands_up(&mut stand, first, &[first]);
    let words = says(&mut stand, first, 5, over(Some(0), None));
    assert!(words.is_empty(), "{words:?}");
    assert_eq!(
        stand.names(first),
        ["submit", "validate", "depend", "priority"]
    );
    let effects = settles(&mut stand);
    let passes = |word: &FromParent| matches!(word, FromParent::Pass(_));
    assert!(!of(&effects).iter().any(passes), "{effects:?}");
    let names = stand.names(JOB);
    assert_eq!(
        names[6..11],
        ["recalled", "exception", "finish", "release", "free"]
    );
    let life = [
        "passed", "alloc", "start", "finish", "release", "release", "free", "clean",
    ];
    assert_eq!(
        stand.names(first)[4..],
        life,
        "in one go with what was in its way"
    );
    assert_eq!(alloc_of(&stand, first).0, ago(5));
}

#[test]
fn what_was_taken_is_told_from_here_when_it_is_over_also_by_a_leader_of_later() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    hands_up(&mut stand, first, &[first]);
    says(&mut stand, first, 5, over(Some(0), None));
    settles(&mut stand);
    assert_eq!(stand.names(first).last(), Some(&"clean"));
    let is_told_here = |stand: &mut Stand, job| {
        let request = EventsRequest {
            id: job,
            follow: false,
        };
        let effects = stand.call::<Events>(CLIENT, USER, &request);
        let mut asked = effects.iter();
        asked.any(|effect| matches!(effect, Effect::Query(_, Query::Finished(id)) if *id == job))
    };
    assert!(is_told_here(&mut stand, first));
    let other = JobId(first.0 + 1);
    assert!(!is_told_here(&mut stand, other), "it is its instance's own");
    stand.tell(Arrival::Marking);
    let mut later = stand.again_from_mark(&with_batch());
    assert!(is_told_here(&mut later, first));
}

#[test]
fn what_runs_nothing_began_upon_is_passed_again_when_all_is_said() {
    let (mut stand, _) = back(&with_batch());
    hello_only(&mut stand);
    let words = of(&settles(&mut stand));
    assert!(
        matches!(&words[..], [FromParent::Pass(pass)] if pass.job == JOB),
        "{words:?}"
    );
}

#[test]
fn a_planner_charges_what_was_begun_once() {
    let (mut stand, first) = back(&with_batch());
    let second = JobId(first.0 + 1);
    hello_only(&mut stand);
    for (job, began) in [(first, 8), (second, 5)] {
        hands_up(&mut stand, job, &[job]);
        let state = match job == first {
            true => over(Some(0), None),
            false => PassState::Running,
        };
        says(&mut stand, job, began, state);
    }
    let effects = settles(&mut stand);
    let deltas = deltas(&effects);
    let used = deltas.iter().filter_map(|delta| match delta {
        Delta::Settled(job, _, stays) if !stays.is_empty() => {
            let stays = stays.iter();
            let stays = stays.map(|stay| (stay.from, stay.to, stay.held.cores));
            Some((*job, stays.collect()))
        }
        _ => None,
    });
    let used: Vec<(JobId, Vec<_>)> = used.collect();
    assert_eq!(
        used,
        [(first, vec![(ago(8), ago(7), 1)])],
        "of what is over alone"
    );
    let held = deltas.iter().filter_map(|delta| match delta {
        Delta::Held(job, _, set) => Some((*job, Time(set.starttime))),
        _ => None,
    });
    let held: Vec<_> = held.collect();
    assert_eq!(
        held,
        [(first, ago(8)), (second, ago(5))],
        "each from its beginning"
    );
}

#[test]
fn many_that_began_one_after_the_other_on_the_same_core_are_recorded_in_that_order() {
    const MANY: i64 = 1000;
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    for at in 0..MANY {
        let job = JobId(first.0 + at as u64);
        hands_up(&mut stand, job, &[job]);
        // Those with low numbers came last.
        says(&mut stand, job, 10 + at, over(Some(0), None));
    }
    settles(&mut stand);
    for at in 0..MANY {
        let job = JobId(first.0 + at as u64);
        assert_eq!(stand.names(job).last(), Some(&"clean"), "job {job}");
    }
}

#[test]
fn what_has_begun_is_taken_though_its_queue_is_gone_and_no_more_jobs_are_let_in() {
    let mut settings = with_batch();
    settings.queues.remove(0);
    settings.jobs_max = 0;
    let (mut stand, first) = back(&settings);
    hello_only(&mut stand);
    hands_up(&mut stand, first, &[first]);
    says(&mut stand, first, 5, PassState::Running);
    let effects = settles(&mut stand);
    assert_eq!(stand.names(first)[4..], ["passed", "alloc", "start"]);
    let lines = deltas(&effects)
        .into_iter()
        .filter_map(|delta| match delta {
            Delta::Held(job, owner, _) if *job == first => owner.line.clone(),
            _ => None,
        });
    let lines: Vec<_> = lines.collect();
    assert_eq!(
        lines,
        ["batch".into()],
        "it is held of what the instance has"
    );
}

/// Its number was told to whoever submitted it, who looks for it here.
#[test]
fn what_has_not_begun_and_is_refused_is_recorded_with_the_reason() {
    let mut settings = with_batch();
    settings.queues.remove(0);
    let (mut stand, first) = back(&settings);
    hello_only(&mut stand);
    let asked = json!({"queue": "long", "duration": 3600});
    let submission = submit_request(stand.now, first.0, asked);
    let effects = hand_up_of(&mut stand, first, submission.clone(), &[]);
    let answer = &told(&effects, NEXT)[0];
    assert_eq!(answer.body, json!({"first": first.0, "count": 1}));
    let words = of(&effects);
    assert!(
        matches!(&words[..], [FromParent::End { job, .. }, FromParent::Forget { .. }] if *job == first),
        "{words:?}"
    );
    assert_eq!(
        stand.names(first),
        ["submit", "validate", "depend", "exception", "clean"]
    );
    let (kind, note) = ending(&stand, first);
    assert_eq!(kind, "cancel");
    let said = "refused when `batch` handed it up, which took it while its parent was away: \
                attributes.system.queue: `long` given, it does not lead to the instance `batch`";
    assert_eq!(note, said);
    // It is handed up once more, since the answer may be lost.
    let again = told(&hand_up_of(&mut stand, first, submission, &[]), NEXT);
    assert_eq!(again[0].body, json!({"first": first.0, "count": 1}));
    assert_eq!(stand.names(first).len(), 5);
}

#[test]
fn what_could_be_placed_nowhere_is_recorded_with_the_reason() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    let nowhere = json!({"queue": "long", "constraints": {"hostlist": ["nowhere"]}});
    let submission = submit_request(stand.now, first.0, nowhere);
    hand_up_of(&mut stand, first, submission, &[]);
    let (_, note) = ending(&stand, first);
    assert!(note.contains("nowhere"), "{note}");
}

#[test]
fn what_cannot_be_taken_now_is_refused_and_not_recorded() {
    let mut settings = with_batch();
    settings.jobs_max = 0;
    let (mut stand, first) = back(&settings);
    hello_only(&mut stand);
    let refused = hands_up(&mut stand, first, &[]);
    assert!(refused.refusal().contains("waiting_jobs"), "{refused:?}");
    assert!(stand.names(first).is_empty());
}

#[test]
fn nobody_ends_here_what_its_instance_may_have_begun() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    hands_up(&mut stand, first, &[]);
    let refused = stand.ask::<Raise>(CLIENT, USER, &raise(first));
    assert!(
        refused.refusal().contains("may have begun it"),
        "{refused:?}"
    );
    let jobs = vec![ToldOf {
        job: first,
        attempt: Attempt(1),
        state: PassState::Accepted,
        began: None,
        ended: None,
        begun: None,
        adopted: None,
    }];
    stand.call::<TellsOf>(
        NEXT,
        0,
        &ToldRequest {
            child: child(),
            jobs,
        },
    );
    stand.call::<Raise>(CLIENT, USER, &raise(first));
    assert_eq!(stand.names(first).last(), Some(&"clean"));
}

#[test]
fn who_might_have_a_job_so_urgent_there_may_have_it_so_here() {
    let (mut stand, first) = back(&with_batch());
    hello_only(&mut stand);
    let mut submission = submit_request(stand.now, first.0, json!({"queue": "long"}));
    submission.urgency = 20;
    hand_up_of(&mut stand, first, submission, &[]);
    assert_eq!(
        stand.names(first).first(),
        Some(&"submit"),
        "the roles of its user are not told, and were looked at there"
    );
}

#[test]
fn who_waits_for_what_another_instance_may_have_taken_is_to_be_handed_up_again() {
    let mut settings = with_batch();
    settings.declared.push(Declared {
        name: "debug".to_owned(),
        extent: Extent::Fixed {
            nodes: 2,
            ranks: Some(Idset::range(0, 1)),
        },
        leader: eddy_wire::jobspec::Leader::Node,
        set: Vec::new(),
    });
    let mut stand = Stand::with_two(&settings);
    with_shells(&mut stand);
    hello_only(&mut stand);
    let mut waits_for = |job: &str, number: u64| {
        let needs = json!([{"scheme": "afterany", "value": job}]);
        let asked = json!({"queue": "long", "dependencies": needs});
        let submission = submit_request(stand.now, number, asked);
        let effects = hand_up_of(&mut stand, JobId(number), submission, &[]);
        let Some(Effect::Query(tag, _)) = effects.last() else {
            panic!("{effects:?}")
        };
        let nothing = Arrival::Answer(*tag, Answer::Finished(None));
        let told = told(&stand.tell(nothing), NEXT);
        let answer = told.first().expect("an answer");
        match stand.names(JobId(number)).is_empty() {
            true => answer.refusal().to_owned(),
            false => ending(&stand, JobId(number)).1,
        }
    };
    assert!(waits_for("3000", 3024).ends_with("has not said yet what it took"));
    assert!(waits_for("1976", 3025).contains("there is no such job here"));
}

#[test]
fn an_instance_that_never_says_that_this_was_all_is_served_after_a_while() {
    let (mut stand, _) = back(&with_batch());
    hello_only(&mut stand);
    stand.now = stand.now.after(Span::seconds(29));
    assert!(of(&stand.tell(Arrival::Tick)).is_empty());
    stand.now = stand.now.after(Span::seconds(1));
    let words = of(&stand.tell(Arrival::Tick));
    assert!(
        matches!(&words[..], [FromParent::Pass(pass)] if pass.job == JOB),
        "{words:?}"
    );
}

#[test]
fn a_drained_node_and_a_kept_one_are_told_to_instances_in_their_own_ranks() {
    use eddy_wire::services::resource::{Drain, DrainRequest};
    let (mut stand, _) = back(&with_batch());
    hello_only(&mut stand);
    let request: DrainRequest =
        serde_json::from_value(json!({"targets": {"ranks": "3"}, "reason": "hot"}))
            .expect("a request");
    let words = of(&stand.call::<Drain>(NEXT, 0, &request));

    let [FromParent::Granted(granted)] = &words[..] else {
        panic!("{words:?}")
    };
    let closed: Vec<String> = granted
        .closed
        .iter()
        .map(|one| one.ranks.to_string())
        .collect();
    assert_eq!(closed, ["1"]);
}
