//! The channel of a child instance: who may speak, what it is told, who hosts
//! its ranks, which numbers it draws.

use crate::nest_stand::*;
use eddy_broker::{Arrival, ClientId, Effect};
use eddy_wire::event::{IdBlock, Kind};
use eddy_wire::id::{Attempt, Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::message::Type;
use eddy_wire::services::child::{
    Adopt, AdoptRequest, ChildOf, ChildRow, Children, ChildrenRequest, FromParent, Ids, IdsRequest,
    Report, ReportRequest, Stage, Summary,
};
use eddy_wire::services::job::{JobSet, Kill, KillRequest, Raise, RaiseRequest};
use eddy_wire::shell::ToShell;
use eddy_wire::time::Span;
use eddy_wire::time::Time;
use serde_json::json;

fn refused(stand: &mut Stand, uid: u32, change: impl FnOnce(&mut AdoptRequest)) -> String {
    let mut request = hello(OWN);
    change(&mut request);
    stand.ask::<Adopt>(99, uid, &request).refusal().to_owned()
}

#[test]
fn a_hello_of_another_job_attempt_user_or_instance_is_refused() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, 1, OWN);
    let mut no = |uid, change: fn(&mut AdoptRequest)| refused(&mut stand, uid, change);
    assert_eq!(
        no(USER, |hello| hello.child.job = JobId(9)),
        format!(
            "child.job: {} given, no instance that is not over is that job",
            JobId(9)
        )
    );
    assert_eq!(
        no(USER, |hello| hello.child.attempt = Attempt(2)),
        format!("child.attempt: 2 given, job {OWN} is in attempt 1")
    );
    assert_eq!(
        no(1001, |_| ()),
        format!("child.job: job {OWN} is of user 1000, user 1001 may not speak for it")
    );
    assert_eq!(
        no(USER, |hello| hello.instance = "other".to_owned()),
        format!("instance: `other` given, attempt 1 of job {OWN} is instance `child-{OWN}`")
    );
    assert_eq!(
        no(USER, |hello| hello.leader = Epoch(0)),
        "leader: epoch 0 given, the leader of epoch 1 has said hello"
    );
    assert_eq!(
        no(USER, |hello| hello.door.clear()),
        "door: 0 bytes given, one line of 1 to 4096 is needed"
    );
}

#[test]
fn a_child_is_told_its_grant_path_depth_and_time() {
    let mut settings = with_batch();
    settings.place.path = "905".to_owned();
    settings.place.depth = 1;
    let mut stand = Stand::with_children(&settings);
    let effects = adopt(&mut stand, 1, OWN);
    let FromParent::Granted(granted) = told(&effects, 1)[0].word() else {
        panic!("granted comes first: {effects:?}")
    };
    assert_eq!(granted.grant.set.ranks(), Idset::range(0, 1));
    assert_eq!(granted.local, Idset::one(0));
    assert_eq!((granted.path.as_str(), granted.depth), ("905/1", 2));
    assert_eq!(granted.remaining, Some(Span::seconds(90)));
    assert_eq!(granted.kill_grace, Span::seconds(4));
    assert_eq!(granted.reserve, Span::seconds(5));
    assert_eq!((granted.name, granted.mock), (None, None));
    assert!(stand.names(OWN).ends_with(&["adopt"]));
    let effects = adopt(&mut stand, 2, BATCH);
    let FromParent::Granted(granted) = told(&effects, 2)[0].word() else {
        panic!("granted comes first: {effects:?}")
    };
    assert_eq!(granted.name.as_deref(), Some("batch"));
    assert_eq!(granted.remaining, None);
}

#[test]
fn what_is_left_of_an_instance_bounds_its_children() {
    let mut settings = with_batch();
    settings.place.until = Some(START.after(Span::seconds(30)));
    let mut stand = Stand::with_children(&settings);
    let effects = adopt(&mut stand, 1, OWN);
    let FromParent::Granted(granted) = told(&effects, 1)[0].word() else {
        panic!("granted comes first: {effects:?}")
    };
    assert_eq!(granted.remaining, Some(Span::seconds(30)));
}

#[test]
fn each_level_ends_before_the_one_around_it_however_short_the_time() {
    let (mut grace, mut left) = (Span::seconds(5), Span::seconds(8));
    let mut told = Vec::new();
    for _ in 0..16 {
        let mut settings = with_batch();
        settings.kill_grace = grace;
        settings.place.until = Some(START.after(left));
        // A limit counts from the start: each is told as it begins.
        let mut stand = Stand::with_children_since(START, &settings);
        let effects = adopt(&mut stand, 1, OWN);
        let FromParent::Granted(granted) = told_of(&effects, 1) else {
            panic!("granted comes first: {effects:?}")
        };
        assert!(granted.kill_grace < grace && granted.kill_grace.0 > 0);
        let end = Span(granted.remaining.map_or(0, |left| left.0) - granted.reserve.0);
        assert!(end < left && end.0 > left.0 / 2, "{end} of {left}");
        told.push((granted.kill_grace.0 / 1000, end.0 / 1000));
        (grace, left) = (granted.kill_grace, end);
    }
    assert_eq!(
        told[..6],
        [
            (4000, 6000),
            (3000, 4500),
            (2000, 3375),
            (1000, 2531),
            (500, 1898),
            (250, 1423)
        ]
    );
}

fn told_of(effects: &[Effect], channel: u64) -> FromParent {
    told(effects, channel)[0].word()
}

#[test]
fn a_second_hello_replaces_the_channel_and_is_recorded_if_it_moved() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, 1, OWN);
    let effects = adopt(&mut stand, 2, OWN);
    assert_eq!(
        told(&effects, 1)[0].refusal(),
        "its leader has said hello again"
    );
    assert_eq!(told(&effects, 2).len(), 1);
    let adoptions = |stand: &Stand| {
        let names = stand.names(OWN);
        names.iter().filter(|name| **name == "adopt").count()
    };
    assert_eq!(adoptions(&stand), 1);
    let mut moved = hello(OWN);
    moved.uri = "local:///elsewhere".to_owned();
    stand.call::<Adopt>(3, USER, &moved);
    assert_eq!(adoptions(&stand), 2);
}

#[test]
fn ranks_are_hosted_when_reached_again_when_reached_anew_and_where_the_door_moved() {
    let mut stand = Stand::with_children(&with_batch());
    let ranks = |list: &str| Arrival::Ranks(list.parse().expect("an idset"));
    assert_eq!(
        hosting(&adopt(&mut stand, 1, OWN)),
        [""; 0],
        "rank 1 is not reached"
    );
    let of_own = format!("1 hosts 1 of child-{OWN} at /run/{OWN}/door");
    let of_batch = format!("3 hosts 1 of child-{BATCH} at /run/{BATCH}/door");
    assert_eq!(
        hosting(&stand.tell(ranks("0-3"))),
        std::slice::from_ref(&of_own)
    );
    assert_eq!(
        hosting(&adopt(&mut stand, 2, BATCH)),
        std::slice::from_ref(&of_batch)
    );
    assert_eq!(hosting(&stand.tell(ranks("0-3"))), [""; 0], "they know");
    assert_eq!(hosting(&stand.tell(ranks("0,2-3"))), [""; 0]);
    assert_eq!(hosting(&stand.tell(ranks("0-3"))), [of_own], "a new tenure");
    let mut moved = hello(BATCH);
    moved.door = "/run/new/door".to_owned();
    let effects = stand.call::<Adopt>(4, 0, &moved);
    assert_eq!(
        hosting(&effects),
        [format!("3 hosts 1 of child-{BATCH} at /run/new/door")]
    );
    // The next leader knows who they are and not where they knock.
    let mut stand = stand.again(&with_batch());
    assert_eq!(hosting(&stand.tell(ranks("0-3"))), [""; 0]);
    assert_eq!(hosting(&adopt(&mut stand, 2, BATCH)), [of_batch]);
}

#[test]
fn nodes_the_leader_serves_itself_are_not_hosted() {
    let mut settings = with_batch();
    settings.local = Idset::range(0, 3);
    let mut stand = Stand::with_children(&settings);
    stand.tell(Arrival::Ranks(Idset::range(0, 3)));
    assert_eq!(hosting(&adopt(&mut stand, 1, OWN)), [""; 0]);
    assert_eq!(hosting(&adopt(&mut stand, 2, BATCH)), [""; 0]);
}

#[test]
fn an_instance_that_is_over_is_hosted_no_more() {
    let mut stand = Stand::with_children(&with_batch());
    let ranks = |list: &str| Arrival::Ranks(list.parse().expect("an idset"));
    stand.tell(ranks("0-3"));
    adopt(&mut stand, 2, BATCH);
    stand.tell(ranks("0-2"));
    let mut effects = stand.tell(Arrival::ShellDead(Epoch(3)));
    effects.extend(stand.tell(Arrival::ShellDead(Epoch(4))));
    assert!(
        stand.names(BATCH).contains(&"release"),
        "{:?}",
        stand.names(BATCH)
    );
    assert_eq!(hosting(&effects), [""; 0], "rank 3 is not reached");
    let last = told(&effects, 2);
    assert_eq!(
        last.last().map(Told::refusal),
        Some(&*format!("job {BATCH} is over"))
    );
    assert_eq!(hosting(&stand.tell(ranks("0-3"))), [""; 0]);
    let effects = stand.tell(hosted_by(3, BATCH));
    assert_eq!(
        hosting(&effects),
        [format!("3 leaves child-{BATCH}")],
        "it is told when it says so"
    );
}

fn hosted_by(rank: u32, job: JobId) -> Arrival {
    Arrival::Hosted(Rank(rank), vec![(format!("child-{job}"), job, Attempt(1))])
}

#[test]
fn what_a_rank_says_it_hosts_goes_on_while_its_child_runs_there() {
    let mut stand = Stand::with_children(&with_batch());
    stand.tell(Arrival::Ranks(Idset::range(0, 3)));
    adopt(&mut stand, 1, OWN);
    assert_eq!(hosting(&stand.tell(hosted_by(1, OWN))), [""; 0]);
    let elsewhere = hosting(&stand.tell(hosted_by(3, OWN)));
    assert_eq!(elsewhere, [format!("3 leaves child-{OWN}")]);
    // The next leader knows who they are, before they say where they knock.
    let mut stand = stand.again(&with_batch());
    stand.tell(Arrival::Ranks(Idset::range(0, 3)));
    assert_eq!(hosting(&stand.tell(hosted_by(1, OWN))), [""; 0]);
    let unknown = hosting(&stand.tell(hosted_by(1, BATCH)));
    assert_eq!(unknown, [format!("1 leaves child-{BATCH}")]);
}

#[test]
fn what_an_earlier_attempt_left_hosted_ends_unless_its_place_is_taken() {
    let mut stand = Stand::with_children(&with_batch());
    stand.tell(Arrival::Ranks(Idset::range(0, 3)));
    adopt(&mut stand, 1, OWN);
    let left = || Arrival::Hosted(Rank(1), vec![(format!("child-{OWN}"), OWN, Attempt(7))]);
    assert_eq!(
        hosting(&stand.tell(left())),
        [""; 0],
        "what was ordered takes its place"
    );
    // The next leader has ordered nothing before the child says where it knocks.
    let mut stand = stand.again(&with_batch());
    stand.tell(Arrival::Ranks(Idset::range(0, 3)));
    assert_eq!(hosting(&stand.tell(hosted_by(1, OWN))), [""; 0]);
    let leaves = hosting(&stand.tell(left()));
    assert_eq!(leaves, [format!("1 leaves child-{OWN}")]);
}

fn draw(stand: &mut Stand, number: u64) -> Told {
    draw_in(stand, Attempt(1), number)
}

fn draw_in(stand: &mut Stand, attempt: Attempt, number: u64) -> Told {
    let child = ChildOf {
        job: BATCH,
        attempt,
    };
    stand.ask::<Ids>(2, 0, &IdsRequest { child, number })
}

fn block(told: &Told) -> (u64, u64) {
    let block: IdBlock = serde_json::from_value(told.body.clone()).expect("a block");
    (block.number, block.first.0)
}

#[test]
fn the_same_number_is_the_same_block_also_after_a_restart() {
    let mut stand = Stand::with_children(&with_batch());
    assert_eq!(block(&draw(&mut stand, 1)), (1, 3));
    assert_eq!(block(&draw(&mut stand, 1)), (1, 3));
    assert_eq!(block(&draw(&mut stand, 2)), (2, 1027));
    let line = draw(&mut stand, 1);
    assert_eq!(
        line.refusal(),
        "number: 1 given, block 2 was drawn; allowed are that one and later ones"
    );
    let mut stand = stand.again_from_mark(&with_batch());
    assert_eq!(block(&draw(&mut stand, 2)), (2, 1027));
    let effects = stand.submit(7, 0, json!({}));
    assert_eq!(
        told(&effects, 7)[0].body["first"],
        2051,
        "beyond all blocks"
    );
}

#[test]
fn another_attempt_which_knows_of_no_block_is_given_a_new_one() {
    let mut stand = Stand::with_children(&with_batch());
    assert_eq!(block(&draw(&mut stand, 1)), (1, 3));
    assert_eq!(block(&draw(&mut stand, 2)), (2, 1027));
    let mut stand = stand.in_attempt_two(&with_batch(), BATCH);
    let mut drawn = |number| block(&draw_in(&mut stand, Attempt(2), number));
    assert_eq!(drawn(1), (1, 2051));
    assert_eq!(drawn(1), (1, 2051));
    let mut stand = stand.again_from_mark(&with_batch());
    let drawn = block(&draw_in(&mut stand, Attempt(2), 1));
    assert_eq!(drawn, (1, 2051), "also for the next leader");
}

#[test]
fn numbers_of_an_instance_that_is_over_are_not_given_again() {
    let mut stand = Stand::with_children(&settings());
    draw(&mut stand, 1);
    stand.tell(Arrival::ShellDead(Epoch(3)));
    stand.tell(Arrival::ShellDead(Epoch(4)));
    assert!(stand.names(BATCH).ends_with(&["clean"]));
    let mut stand = stand.again_from_mark(&settings());
    let effects = stand.submit(7, 0, json!({}));
    let first = told(&effects, 7)[0].body["first"].as_u64();
    assert!(first > Some(1026), "{first:?}");
    let set = JobSet::one(JobId(17));
    let line = stand.ask::<eddy_wire::services::job::Wait>(7, 0, &set.into());
    assert_eq!(
        line.refusal(),
        "jobs: those named were of the instance `batch`, which is over"
    );
}

#[test]
fn a_users_own_instance_draws_no_numbers() {
    let mut stand = Stand::with_children(&with_batch());
    let child = ChildOf {
        job: OWN,
        attempt: Attempt(1),
    };
    let told = stand.ask::<Ids>(1, USER, &IdsRequest { child, number: 1 });
    assert_eq!(
        told.refusal(),
        "child.job: a user's own instance counts its jobs itself"
    );
}

fn report(cores_used: u64) -> ReportRequest {
    ReportRequest {
        child: ChildOf {
            job: OWN,
            attempt: Attempt(1),
        },
        summary: Summary {
            running: 3,
            cores_used,
            ..Summary::default()
        },
    }
}

#[test]
fn a_report_beyond_the_grant_is_refused() {
    let mut stand = Stand::with_children(&with_batch());
    let told = stand.ask::<Report>(1, USER, &report(9));
    assert_eq!(
        told.refusal(),
        format!("cores_used: 9 given, the grant of job {OWN} has 8")
    );
    assert_eq!(stand.ask::<Report>(1, USER, &report(8)).kind, Type::Reply);
}

fn rows(told: &Told) -> Vec<ChildRow> {
    serde_json::from_value(told.body.clone()).expect("rows")
}

#[test]
fn where_anothers_instance_is_reached_is_told_to_nobody() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, 1, OWN);
    let all = ChildrenRequest::default();
    let shown = |stand: &mut Stand, uid| {
        let rows = rows(&stand.ask::<Children>(5, uid, &all));
        (
            rows[0].uri.is_some(),
            rows[0].statedir.is_some(),
            rows[0].ncores > 0,
        )
    };
    assert_eq!(shown(&mut stand, 1001), (false, false, true));
    assert_eq!(shown(&mut stand, USER), (true, true, true));
    let one = ChildrenRequest {
        job: Some(OWN),
        ..ChildrenRequest::default()
    };
    let told = stand.ask::<Children>(6, 1001, &one);
    let text = told.refusal();
    assert!(
        text.contains("an instance of user 1000; user 1001"),
        "{text}"
    );
}

#[test]
fn a_listing_follows_what_children_come_to() {
    let mut stand = Stand::with_children(&with_batch());
    let follow = ChildrenRequest {
        job: None,
        follow: true,
        ..ChildrenRequest::default()
    };
    let effects = stand.call::<Children>(5, USER, &follow);
    let first = rows(&told(&effects, 5)[0]);
    let shown: Vec<_> = first
        .iter()
        .map(|row| (row.name.as_str(), row.stage))
        .collect();
    assert_eq!(
        shown,
        [("true", Stage::Starting), ("batch", Stage::Starting)]
    );
    assert_eq!(first[1].queues, ["long"]);
    assert_eq!(first[0].until, Some(Time(START.0 + 90_000_000)));
    adopt(&mut stand, 1, OWN);
    let effects = stand.tell(Arrival::Tick);
    let second = rows(&told(&effects, 5)[0]);
    assert_eq!(second[0].stage, Stage::Serving);
    assert_eq!(
        second[0].uri.as_deref(),
        Some(&*format!("local:///run/{OWN}"))
    );
    let effects = stand.call::<Report>(1, USER, &report(8));
    assert!(
        effects.contains(&Effect::Wake(START.after(Span::millis(100)))),
        "{effects:?}"
    );
    assert_eq!(told(&stand.tell(Arrival::Gone(ClientId(1))), 5), []);
    stand.now = START.after(Span::millis(100));
    let effects = stand.tell(Arrival::Tick);
    let third = rows(&told(&effects, 5)[0]);
    assert_eq!((third[0].stage, third[0].summary.running), (Stage::Away, 3));
}

/// What the shell of rank 1 and its agent are told of the ground of `OWN` there.
fn of_ground(effects: &[Effect]) -> Vec<String> {
    let told = |effect: &Effect| match effect {
        Effect::Shell(Epoch(2), ToShell::Signal { part, signal, .. }) if part.job == OWN => {
            Some(format!("signal {signal}"))
        }
        Effect::Unhost(Rank(1), instance) => Some(format!("leave {instance}")),
        _ => None,
    };
    effects.iter().filter_map(told).collect()
}

#[test]
fn ground_is_hosted_no_more_before_it_is_cleared_although_the_leader_may_live() {
    let mut stand = Stand::with_children(&with_batch());
    let ranks = |list: &str| Arrival::Ranks(list.parse().expect("an idset"));
    stand.tell(ranks("0-3"));
    adopt(&mut stand, 1, OWN);
    let effects = stand.call::<Raise>(6, USER, &cancel());
    assert_eq!(of_ground(&effects), [""; 0], "its leader has a grace");
    stand.now = stand.now.after(Span::seconds(60));
    let effects = stand.tell(Arrival::Tick);
    let leave = format!("leave child-{OWN}");
    assert_eq!(of_ground(&effects), [leave.as_str(), "signal 9"]);
    stand.tell(ranks("0,2-3"));
    assert_eq!(
        hosting(&stand.tell(ranks("0-3"))),
        [""; 0],
        "what was cleared is not hosted again"
    );
}

#[test]
fn a_signal_of_a_user_is_for_the_program_of_an_instance() {
    let mut stand = Stand::with_children(&with_batch());
    stand.tell(Arrival::Ranks(Idset::range(0, 3)));
    let kill = |stand: &mut Stand, job: JobId, user: u32, signal: i32| {
        let jobs = JobSet::one(job);
        stand.call::<Kill>(6, user, &KillRequest { jobs, signal })
    };
    let is_of_shell = |effect: &Effect| matches!(effect, Effect::Shell(_, ToShell::Signal { .. }));
    // Nobody hears its leader yet.
    let early = kill(&mut stand, OWN, USER, 10);
    assert_eq!(told(&early, 6)[0].body["count"], 1);
    let program = |effects: &[Effect], channel: u64| -> Vec<FromParent> {
        let words = told(effects, channel).into_iter().map(|told| told.word());
        words
            .filter(|word| matches!(word, FromParent::Program { .. }))
            .collect()
    };
    // A process that only asks what it has would not read it.
    let asks = AdoptRequest {
        leader: Epoch(0),
        ..hello(OWN)
    };
    assert!(program(&stand.call::<Adopt>(3, USER, &asks), 3).is_empty());
    let heard = adopt(&mut stand, 1, OWN);
    assert_eq!(program(&heard, 1), [FromParent::Program { signal: 10 }]);
    for signal in [9, 19] {
        let effects = kill(&mut stand, OWN, USER, signal);
        assert_eq!(program(&effects, 1), [FromParent::Program { signal }]);
        assert!(!effects.iter().any(is_of_shell), "{effects:?}");
    }
    let refused = kill(&mut stand, BATCH, 0, 9);
    let why = "it is an instance without an initial program, which a signal is for";
    assert_eq!(told(&refused, 6)[0].body["refused"], json!([[BATCH, why]]));
    assert!(!refused.iter().any(is_of_shell), "{refused:?}");
}

fn cancel() -> RaiseRequest {
    serde_json::from_value(json!({"jobs": {"ranges": [[1, 1]]}, "type": "cancel"}))
        .expect("a cancel")
}

#[test]
fn a_cancelled_instance_is_ending() {
    let mut stand = Stand::with_children(&with_batch());
    stand.call::<Raise>(6, USER, &cancel());
    let one = ChildrenRequest {
        job: Some(OWN),
        follow: false,
        ..ChildrenRequest::default()
    };
    let told = stand.ask::<Children>(5, 0, &one);
    assert_eq!(rows(&told)[0].stage, Stage::Ending);
    let ended = |record: &&std::sync::Arc<eddy_wire::event::Record>| {
        matches!(record.event.kind, Kind::Exception(_))
    };
    assert_eq!(stand.records.iter().filter(ended).count(), 1);
}

#[test]
fn an_instance_under_the_id_of_another_is_refused() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, 1, BATCH);
    let text = refused(&mut stand, USER, |hello| {
        hello.instance = format!("child-{BATCH}");
    });
    assert_eq!(
        text,
        format!(
            "instance: `child-{BATCH}` given, which is queue instance batch (job {BATCH}); job {OWN} has to have an id of its own"
        )
    );
    assert!(!stand.names(OWN).contains(&"adopt"));
    adopt(&mut stand, 2, OWN);
    assert!(stand.names(OWN).contains(&"adopt"));
}

#[test]
fn the_id_of_a_queue_instance_is_nobody_elses_between_two_of_its_jobs() {
    let mut stand = Stand::with_children(&with_batch());
    adopt(&mut stand, 1, BATCH);
    stand.tell(Arrival::ShellDead(Epoch(3)));
    stand.tell(Arrival::ShellDead(Epoch(4)));
    assert!(stand.names(BATCH).ends_with(&["clean"]));
    let text = refused(&mut stand, USER, |hello| {
        hello.instance = format!("child-{BATCH}");
    });
    assert_eq!(
        text,
        format!(
            "instance: `child-{BATCH}` given, which is queue instance batch; job {OWN} has to have an id of its own"
        )
    );
}
