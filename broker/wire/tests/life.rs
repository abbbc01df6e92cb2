//! The life of a job against the table of RFC 21 and eddy's further lives, and
//! every event's way to disk and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::event::{
    DeclaredDead, EVENT_VERSION, Entry, Event, Exception, Final, Kind, PassedTo, Record, Requeue,
    Submit, Together, Waitable,
};
use eddy_wire::grant::Grant;
use eddy_wire::hash::Hash;
use eddy_wire::id::{Attempt, Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::job::{Holding, Job, Place, exit_code};
use eddy_wire::jobspec::Jobspec;
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::preempt::{Cause, Mode, Preemption};
use eddy_wire::reservation::{Kept, Purpose, Reservation};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::spec::Spec;
use eddy_wire::usage::{Account, Amounts, Day, Payer, Share, Stretch, Tally};
use serde_json::json;

fn spec() -> Arc<Spec> {
    let jobspec = json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task",
                       "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0, "environment": {"A": "1"}}},
    });
    let jobspec = Jobspec::from_value(jobspec).expect("a plain jobspec");
    Arc::new(Spec::from_jobspec(jobspec).expect("a plain request"))
}

pub(super) fn submit() -> Kind {
    Kind::Submit(Arc::new(Submit {
        user: 1000,
        urgency: 16,
        waitable: Waitable::Yes,
        requeue: Requeue::OnNodeFailure,
        key: uuid::Uuid::from_u128(7),
        index: 2,
        count: 3,
        cc: Some(5),
        asked_by: None,
        party: eddy_wire::account::Party {
            account: Some("physics".parse().expect("a name")),
            qos: None,
            class: Some("urgent".parse().expect("a name")),
        },
        sent: None,
        filtered: None,
        spec: spec(),
        pass: None,
        taken_in: Some("batch".into()),
        entry: Entry::New,
    }))
}

fn exception(kind: &str, severity: u8) -> Kind {
    let (kind, note) = (kind.to_owned(), "because".to_owned());
    Kind::Exception(Box::new(Exception {
        kind,
        severity,
        note,
        userid: Some(7),
        until: None,
    }))
}

pub(super) fn alloc() -> Arc<Grant> {
    let cores = Idset::range(0, 3);
    let node = NodeSet {
        host: "n0".into(),
        cores,
        gpus: Idset::new(),
        memory: 1 << 30,
        ..NodeSet::default()
    };
    let set = ResourceSet {
        nodes: BTreeMap::from([(Rank(0), node)]),
        ..ResourceSet::default()
    };
    let shells = BTreeMap::from([(Rank(0), Epoch(4))]);
    Arc::new(Grant {
        epoch: Epoch(1),
        set: Arc::new(set),
        shells,
        beside: Default::default(),
        passed: None,
    })
}

fn reservation() -> Kind {
    Kind::Reservation(Box::new(Kept::Made(Arc::new(Reservation {
        name: "course".parse().expect("a name"),
        from: Time(5),
        until: Time(9),
        ranks: Idset::range(0, 3),
        purpose: Purpose::Jobs {
            accounts: vec!["physics".parse().expect("a name")],
            users: vec![7],
        },
        userid: 0,
    }))))
}

/// One of every kind; exceptions of both sorts.
fn kinds() -> Vec<Kind> {
    let map = json!({"a.b": 1.5}).as_object().expect("an object").clone();
    vec![
        submit(),
        Kind::Validate,
        Kind::JobspecUpdate(map.clone()),
        Kind::DependencyAdd("after 3".to_owned()),
        Kind::DependencyRemove("after 3".to_owned()),
        Kind::Depend,
        Kind::Priority(16),
        Kind::Urgency(31, 0),
        Kind::Order(Place { at: 1, of: 3 }, 7),
        Kind::Alloc(alloc()),
        Kind::PrologStart("p".to_owned()),
        Kind::PrologFinish("p".to_owned(), 256),
        Kind::Start,
        Kind::Finish(9),
        Kind::EpilogStart("e".to_owned()),
        Kind::EpilogFinish("e".to_owned(), 0),
        Kind::Release(Idset::range(0, 3), Final::Yes),
        Kind::Release(Idset::range(0, 3), Final::Free(None)),
        Kind::Release(Idset::range(0, 3), Final::Free(Some(9))),
        Kind::Release(Idset::range(0, 3), Final::Over(None)),
        Kind::Release(Idset::range(0, 3), Final::Over(Some(9))),
        Kind::Free,
        Kind::Clean,
        exception("cancel", 0),
        exception("warning", 3),
        Kind::Memo(map),
        Kind::Waited,
        Kind::Requeue(Attempt(2)),
        Kind::Suspend(None),
        Kind::Suspend(Some(3)),
        Kind::Resume(None),
        Kind::Resume(Some(3)),
        Kind::Preempted(Box::new(Preemption {
            by: JobId(3),
            until: Time(17),
            cause: Cause::FairShare,
            mode: Mode::Cancel,
            grace: 5,
            why: "account a has more than its share".to_owned(),
        })),
        Kind::Passed(PassedTo {
            instance: "q".to_owned(),
            with: None,
        }),
        Kind::Passed(PassedTo {
            instance: "q".to_owned(),
            with: Some(Together {
                first: JobId(3),
                count: 2,
            }),
        }),
        Kind::Recalled("q".to_owned()),
        Kind::GrantChanged(alloc()),
        Kind::LeaderStart(Epoch(2)),
        Kind::LeaderStop,
        Kind::ResourceDefine(Arc::clone(&alloc().set), Default::default()),
        Kind::ShellStart(Idset::range(0, 3), Epoch(4)),
        Kind::ShellLost(Epoch(4), None),
        Kind::ShellLost(
            Epoch(4),
            Some(Box::new(DeclaredDead {
                userid: 7,
                reason: "burnt".to_owned(),
            })),
        ),
        Kind::Drain(Idset::one(2), "broken fan".to_owned(), 0),
        Kind::Undrain(Idset::one(2), Some(1000)),
        Kind::Put("k".to_owned(), json!({"x": [1, null, 2.5]}), Some(7)),
        Kind::Delete("k".to_owned(), None),
        reservation(),
        Kind::Usage(Box::new(tally())),
        Kind::UsageDay(Arc::new(Day {
            from: 86_400_000_000,
            width: 86_400_000_000,
            until: 172_800_000_000,
            accounts: vec![Share {
                payer: Payer::default(),
                used: cores(u128::MAX),
            }],
        })),
        Kind::Account(Box::new(eddy_wire::account::Changed {
            userid: 3,
            change: eddy_wire::account::Change::User {
                user: 7,
                value: None,
            },
        })),
    ]
}

#[test]
fn every_event_survives_the_disk() {
    let spec = spec();
    let mut find = |jobspec: &Hash, environment: &Hash| {
        let same = *jobspec == spec.hash && *environment == spec.environment_hash;
        same.then(|| Arc::clone(&spec))
    };
    for kind in kinds() {
        let (name, context) = (kind.name(), kind.context());
        let back = Kind::decode(name, EVENT_VERSION, &context, &mut find);
        assert_eq!(back.as_ref(), Ok(&kind), "{name} {context}");
    }
}

fn cores(cores: u128) -> Amounts {
    Amounts {
        cores,
        ..Amounts::default()
    }
}

pub(super) fn tally() -> Tally {
    Tally {
        since: Time(3),
        accounts: vec![Account {
            payer: Payer::default(),
            stretches: vec![Stretch {
                from: 0,
                width: 60_000_000,
                used: cores(9),
            }],
        }],
        uncharged: cores(2),
        ..Tally::default()
    }
}

#[test]
fn an_event_of_a_newer_version_or_without_its_jobspec_is_refused_by_name() {
    let nowhere = &mut |_: &Hash, _: &Hash| None;
    let newer = Kind::decode("start", EVENT_VERSION + 1, "", nowhere).expect_err("newer");
    assert_eq!(
        newer.to_string(),
        "event `start` has version 5; this build reads up to 4"
    );
    let unknown = Kind::decode("stat", 1, "", nowhere).expect_err("unknown");
    assert_eq!(
        unknown.to_string(),
        "event `stat` is unknown to this version"
    );
    let context = submit().context();
    let missing = Kind::decode("submit", 1, &context, nowhere).expect_err("missing");
    assert!(
        missing.to_string().contains("which is not stored"),
        "{missing}"
    );
    let odd = Kind::decode("finish", 1, "{\"status\":\"x\"}", nowhere).expect_err("odd");
    assert!(
        odd.to_string().starts_with("event `finish`: invalid type"),
        "{odd}"
    );
}

/// The whole table as a text: each state, the events it takes, what they lead
/// to (`=` stays). Everything not named is illegal.
const TABLE: &str = "\
NEW: submit=, validate DEPEND, dependency-add=, dependency-remove=, urgency=, jobspec-update=, memo=, order=
DEPEND: dependency-add=, dependency-remove=, depend PRIORITY, urgency=, jobspec-update=, \
exception CLEANUP, memo=, order=
PRIORITY: priority SCHED, urgency=, jobspec-update=, exception CLEANUP, memo=, order=
SCHED: priority=, urgency PRIORITY, jobspec-update PRIORITY, alloc RUN, passed=, exception CLEANUP, memo=, order=
RUN: start=, finish CLEANUP, release=, release-finish CLEANUP, prolog-start=, prolog-finish=, suspend=, resume=, \
preempted=, recalled=, grant-changed=, urgency=, jobspec-update=, exception CLEANUP, memo=, order=
CLEANUP: start=, finish=, release=, release-free=, release-finish=, free=, prolog-start=, prolog-finish=, epilog-start=, \
epilog-finish=, recalled=, grant-changed=, urgency=, exception=, requeue PRIORITY, clean INACTIVE, memo=, order=
INACTIVE: waited=, memo=
";

#[test]
fn the_transition_table_is_the_one_of_the_book() {
    let mut table: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for line in TABLE.lines() {
        let (state, events) = line.split_once(": ").expect("a state and its events");
        for event in events.split(", ") {
            let (name, next) = match event.strip_suffix('=') {
                Some(name) => (name, state),
                None => event.split_once(' ').expect("an event and where it leads"),
            };
            table.insert((state, name), next);
        }
    }
    for state in JobState::ALL {
        for kind in kinds() {
            let harmless = matches!(&kind, Kind::Exception(e) if e.severity > 0);
            let name = match &kind {
                Kind::Release(_, Final::Free(None) | Final::Over(None)) => "release-free",
                Kind::Release(_, Final::Free(Some(_)) | Final::Over(Some(_))) => "release-finish",
                kind => kind.name(),
            };
            let expected = table.get(&(state.name(), name)).map(|next| match harmless {
                true => state.name(),
                false => next,
            });
            let next = state.next(&kind).ok().map(JobState::name);
            assert_eq!(next, expected, "{name} in {}", state.name());
        }
    }
}

/// Folds these events of one job, a microsecond apart.
pub(super) fn life(events: &[Kind]) -> Job {
    let records: Vec<Record> = std::iter::once(submit())
        .chain(events.iter().cloned())
        .enumerate()
        .map(|(at, kind)| Record {
            seq: Seq(at as u64 + 1),
            event: Event {
                t: Time(at as i64),
                job: Some(JobId(1)),
                kind,
            },
        })
        .collect();
    let mut job = Job::from_record(&records[0]).expect("a submit");
    for record in &records[1..] {
        job.apply(record).expect("a legal life");
    }
    job
}

pub(super) fn running() -> Vec<Kind> {
    let alloc = Kind::Alloc(alloc());
    vec![
        Kind::Validate,
        Kind::Depend,
        Kind::Priority(16),
        alloc,
        Kind::Start,
    ]
}

fn ended(by: Vec<Kind>) -> Job {
    let release = Kind::Release(Idset::one(0), Final::Yes);
    life(&[running(), by, vec![release, Kind::Free, Kind::Clean]].concat())
}

#[test]
fn a_result_is_the_first_fatal_exception_or_the_status() {
    let cases = [
        (vec![Kind::Finish(0)], JobResult::Completed, 0),
        (vec![Kind::Finish(3 << 8)], JobResult::Failed, 3),
        (
            vec![exception("cancel", 0), Kind::Finish(15)],
            JobResult::Canceled,
            143,
        ),
        (
            vec![exception("timeout", 0), Kind::Finish(9)],
            JobResult::Timeout,
            137,
        ),
        (
            vec![
                exception("timeout", 0),
                exception("cancel", 0),
                Kind::Finish(9),
            ],
            JobResult::Timeout,
            137,
        ),
        (
            vec![exception("note", 4), Kind::Finish(0)],
            JobResult::Completed,
            0,
        ),
    ];
    for (events, result, code) in cases {
        let job = ended(events);
        assert_eq!(
            (job.result(), job.returncode()),
            (Some(result), Some(code)),
            "{job:?}"
        );
    }
    let never = life(&[Kind::Validate, exception("cancel", 0), Kind::Clean]);
    assert_eq!(
        (never.result(), never.returncode()),
        (Some(JobResult::Canceled), Some(1))
    );
}

#[test]
fn a_requeued_job_begins_again_and_a_cancel_still_ends_it() {
    let lost = [
        running(),
        vec![exception("node-failure", 0), Kind::Finish(9)],
    ]
    .concat();
    let release = vec![Kind::Release(Idset::one(0), Final::Yes), Kind::Free];
    let job = life(&[lost.clone(), release.clone()].concat());
    assert!(job.is_to_be_requeued());
    let again = life(
        &[
            lost.clone(),
            release.clone(),
            vec![Kind::Requeue(Attempt(2))],
        ]
        .concat(),
    );
    assert_eq!(
        (again.state, again.attempt),
        (JobState::Priority, Attempt(2))
    );
    assert_eq!((again.started, again.status, again.end), (None, None, None));
    assert_eq!(again.holding, Holding::Nothing);
    let cancelled = life(&[lost, vec![exception("cancel", 0)], release].concat());
    assert!(!cancelled.is_to_be_requeued());
}

#[test]
fn who_is_cancelled_while_it_ends_is_killed_when_that_was_to_be() {
    let Kind::Exception(mut lost) = exception("node-failure", 0) else {
        unreachable!("it is one")
    };
    lost.until = Some(Time(77));
    let end = [Kind::Exception(lost), exception("cancel", 0)];
    let job = life(&[running(), end.into()].concat());
    let end = job.end.expect("it ends");
    assert_eq!(
        (end.exception.kind.as_str(), end.exception.until),
        ("cancel", Some(Time(77)))
    );
}

#[test]
fn a_waitable_job_is_done_only_when_collected() {
    let job = ended(vec![Kind::Finish(0)]);
    assert!(!job.is_done());
    let release = Kind::Release(Idset::one(0), Final::Yes);
    let tail = vec![
        Kind::Finish(0),
        release,
        Kind::Free,
        Kind::Clean,
        Kind::Waited,
    ];
    assert!(life(&[running(), tail].concat()).is_done());
}

#[test]
fn wait_statuses_become_the_codes_scripts_expect() {
    for (status, code) in [
        (0, 0),
        (1 << 8, 1),
        (255 << 8, 255),
        (15, 143),
        (9, 137),
        (139, 139),
    ] {
        assert_eq!(exit_code(status), code, "status {status}");
    }
}
