//! What a limit lets through, and in which words it does not.

use std::sync::Arc;

use eddy_wire::account::{Account, Change, Changed, Excess, Member};
use eddy_wire::event::Event;
use eddy_wire::id::Seq;
use eddy_wire::jobspec::{Ask, MemoryNeed};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Span};
use eddy_wire::update;
use proptest::prelude::*;

use super::*;

mod budgets;

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn limits() -> Limits {
    Limits::new(&Settings::for_inventory(Arc::new(ResourceSet::default())))
}

fn tell(limits: &mut Limits, at: i64, job: u64, kind: Kind) {
    let event = Event {
        t: Time(at * MICROS),
        job: (job > 0).then_some(JobId(job)),
        kind,
    };
    limits.apply(&Record { seq: Seq(1), event });
}

fn set(limits: &mut Limits, change: Change) {
    let changed = Box::new(Changed { userid: 0, change });
    tell(limits, 0, 0, Kind::Account(changed));
}

fn account(text: &str, parent: Option<&str>, given: Given) -> Change {
    Change::Account {
        name: name(text),
        value: Some(Account {
            parent: parent.map(name),
            limits: given,
            ..Account::default()
        }),
    }
}

fn member(account: &str, given: Given) -> Change {
    Change::Member {
        account: name(account),
        user: 7,
        value: Some(Member {
            limits: given,
            ..Member::default()
        }),
    }
}

fn spec(cores: u32, seconds: i64) -> Arc<Spec> {
    let ask = Ask {
        command: vec!["true".to_owned()],
        cores_per_task: cores,
        duration: seconds * MICROS,
        ..Ask::default()
    };
    let jobspec = ask.jobspec().expect("a jobspec");
    Arc::new(Spec::from_jobspec(jobspec).expect("a spec"))
}

fn party(account: &str) -> Party {
    Party {
        account: Some(name(account)),
        ..Party::default()
    }
}

fn submit(limits: &mut Limits, job: u64, account: &str, spec: &Arc<Spec>) {
    let submit = Submit {
        party: party(account),
        ..Submit::plain(7, Arc::clone(spec))
    };
    tell(limits, 0, job, Kind::Submit(Arc::new(submit)));
    tell(limits, 0, job, Kind::Validate);
    tell(limits, 0, job, Kind::Depend);
}

/// Why it is kept back; empty if it is not.
fn why(limits: &Limits, job: u64) -> String {
    let bound = limits.binding_then(JobId(job));
    bound.map_or_else(String::new, |bound| bound.text)
}

#[test]
fn who_is_let_through_counts_from_his_place_in_the_queue_to_his_end() {
    let mut limits = limits();
    let two = Given {
        running_jobs: Some(2),
        ..Given::default()
    };
    set(&mut limits, account("a", None, two));
    set(&mut limits, account("b", Some("a"), Given::default()));
    set(&mut limits, member("b", Given::default()));
    let spec = spec(1, 60);
    for job in 1..=3 {
        submit(&mut limits, job, "b", &spec);
    }
    for job in 1..=2 {
        assert_eq!(why(&limits, job), "");
        tell(&mut limits, 0, job, Kind::Priority(16));
    }
    let full =
        "limit `running_jobs` of account `a` is 2: 2 are taken, 1 asked for (2 wait with a place)";
    assert_eq!(why(&limits, 3), full);
    // Held by its user it takes no place.
    tell(&mut limits, 0, 2, Kind::Urgency(0, 7));
    tell(&mut limits, 0, 2, Kind::Priority(0));
    assert_eq!(why(&limits, 3), "");
    tell(&mut limits, 0, 3, Kind::Priority(16));
    tell(&mut limits, 0, 2, Kind::Urgency(16, 7));
    assert_eq!(why(&limits, 2), full);
    let more = Given {
        running_jobs: Some(3),
        ..Given::default()
    };
    set(&mut limits, account("a", None, more));
    assert_eq!(why(&limits, 2), "");
}

#[test]
fn what_can_never_be_is_refused_and_what_cannot_be_now_only_where_that_is_said() {
    let mut limits = limits();
    let given = |excess| Given {
        cores: Some(4),
        submitted_jobs: Some(3),
        excess,
        ..Given::default()
    };
    set(&mut limits, account("a", None, given(Excess::Hold)));
    let refused = |limits: &Limits, cores: u32, count: u32| {
        let spec = spec(cores, 60);
        let bound = limits.refusing(Time(0), 7, &party("a"), &spec, count);
        bound.map_or_else(String::new, |bound| bound.text)
    };
    assert_eq!(
        refused(&limits, 5, 1),
        "limit `cores` of account `a` is 4: 0 are taken, 5 asked for"
    );
    assert!(refused(&limits, 1, 4).contains("`submitted_jobs`"));
    let three = spec(3, 60);
    submit(&mut limits, 1, "a", &three);
    tell(&mut limits, 0, 1, Kind::Priority(16));
    assert_eq!(refused(&limits, 2, 1), "");
    set(&mut limits, account("a", None, given(Excess::Refuse)));
    assert!(refused(&limits, 2, 1).contains("3 are taken, 2 asked for"));
    assert_eq!(refused(&limits, 1, 1), "");
}

#[test]
fn one_more_than_may_be_submitted_is_always_refused() {
    let mut limits = limits();
    let given = Given {
        running_jobs: Some(1),
        submitted_jobs: Some(2),
        excess: Excess::Hold,
        ..Given::default()
    };
    set(&mut limits, account("a", None, given));
    let one = spec(1, 60);
    for job in 1..=2 {
        let refused = limits.refusing(Time(0), 7, &party("a"), &one, 1);
        assert!(refused.is_none(), "{job}");
        submit(&mut limits, job, "a", &one);
        tell(&mut limits, 0, job, Kind::Priority(16));
    }
    // Over both: what holds a job does not hide what refuses it.
    let refused = limits.refusing(Time(0), 7, &party("a"), &one, 1);
    assert_eq!(
        refused.expect("refused").text,
        "limit `submitted_jobs` of account `a` is 2: 2 are taken, 1 asked for"
    );
}

#[test]
fn a_limit_that_refuses_is_heeded_beyond_one_that_holds() {
    let mut limits = limits();
    let given = |excess| Given {
        running_jobs: Some(1),
        excess,
        ..Given::default()
    };
    set(&mut limits, account("out", None, given(Excess::Refuse)));
    set(&mut limits, account("in", Some("out"), given(Excess::Hold)));
    let one = spec(1, 60);
    submit(&mut limits, 1, "in", &one);
    tell(&mut limits, 0, 1, Kind::Priority(16));
    let refused = limits.refusing(Time(0), 7, &party("in"), &one, 1);
    assert!(refused.expect("refused").text.contains("account `out`"));
}

fn granted(cores: u32) -> Arc<eddy_wire::grant::Grant> {
    let node = eddy_wire::resource_set::NodeSet {
        host: "n".into(),
        cores: eddy_wire::idset::Idset::first_ids(cores),
        gpus: eddy_wire::idset::Idset::new(),
        memory: 0,
        ..eddy_wire::resource_set::NodeSet::default()
    };
    let set = ResourceSet {
        nodes: [(eddy_wire::id::Rank(0), node)].into(),
        ..Default::default()
    };
    Arc::new(eddy_wire::grant::Grant {
        epoch: eddy_wire::id::Epoch(1),
        set: Arc::new(set),
        shells: BTreeMap::new(),
        beside: BTreeMap::new(),
        passed: None,
    })
}

#[test]
fn limits_of_size_are_those_of_nodes_cores_and_what_they_come_to() {
    let sized = |given: Given| {
        let mut limits = limits();
        set(&mut limits, account("a", None, given));
        limits.is_of_size(7, &party("a"), &spec(1, 60))
    };
    let none = Given::default;
    assert!(!sized(none()));
    assert!(!sized(Given {
        running_jobs: Some(1),
        ..none()
    }));
    for given in [
        Given {
            nodes: Some(1),
            ..none()
        },
        Given {
            cores: Some(1),
            ..none()
        },
        Given {
            gpus: Some(1),
            ..none()
        },
        Given {
            job_nodes: Some(1),
            ..none()
        },
        Given {
            core_minutes: Some(1),
            ..none()
        },
    ] {
        assert!(sized(given));
    }
}

#[test]
fn who_comes_from_elsewhere_is_refused_by_what_did_not_count_for_him() {
    let mut limits = limits();
    for account in ["a", "b"] {
        let one = Given {
            submitted_jobs: Some(1),
            ..Given::default()
        };
        set(&mut limits, member(account, one));
    }
    let minute = spec(1, 60);
    submit(&mut limits, 1, "a", &minute);
    let moved = |limits: &Limits, to: &str| {
        let of = (party("a"), party(to));
        let moved = (7, (&of.0, &*minute), (&of.1, &*minute));
        limits
            .refusing_moved(Time(0), moved)
            .map(|bound| bound.text)
    };
    assert_eq!((moved(&limits, "a"), moved(&limits, "b")), (None, None));
    submit(&mut limits, 2, "b", &minute);
    let text = "limit `submitted_jobs` of user 7 in account `b` is 1: 1 is taken, 1 asked for";
    assert_eq!(moved(&limits, "b").as_deref(), Some(text));
    let map = |kind| match kind {
        Kind::JobspecUpdate(map) => map,
        other => panic!("{other:?}"),
    };
    let change = update::Change {
        account: Some(name("a")),
        ..update::Change::default()
    };
    tell(
        &mut limits,
        0,
        2,
        Kind::JobspecUpdate(map(change.record(None, None))),
    );
    assert_eq!(moved(&limits, "b"), None, "and counts there no more");
}

/// Another user of an account.
fn user_of(text: &str, user: u32, given: Given) -> Change {
    Change::Member {
        account: name(text),
        user,
        value: Some(Member {
            limits: given,
            ..Member::default()
        }),
    }
}

#[test]
fn however_many_accounts_change_jobs_are_counted_once_when_somebody_asks() {
    let mut limits = limits();
    let two = Given {
        running_jobs: Some(2),
        ..Given::default()
    };
    set(&mut limits, account("a", None, two));
    let spec = spec(1, 60);
    for job in 1..=3 {
        submit(&mut limits, job, "a", &spec);
    }
    for user in 0..1_000 {
        set(&mut limits, user_of("a", user, two));
        assert!(limits.counts.get().is_none());
    }
    for job in 1..=2 {
        tell(&mut limits, 0, job, Kind::Priority(16));
    }
    assert!(why(&limits, 3).contains("2 are taken"));
    let counted = limits.counts.get().map(BTreeMap::len);
    assert!(counted.is_some());
    // What limits nobody otherwise, and moves nobody, is no reason to count again.
    let described = Change::Account {
        name: name("a"),
        value: Some(Account {
            description: "of many".to_owned(),
            limits: two,
            ..Account::default()
        }),
    };
    set(&mut limits, described);
    set(&mut limits, user_of("a", 1_000, Given::default()));
    assert_eq!(limits.counts.get().map(BTreeMap::len), counted);
    set(&mut limits, account("b", None, two));
    assert!(limits.counts.get().is_none());
    set(&mut limits, account("a", Some("b"), two));
    assert!(why(&limits, 3).contains("2 are taken"));
}

#[test]
fn who_is_kept_back_is_told_of_those_who_count_by_their_place() {
    let mut limits = limits();
    let three = Given {
        running_jobs: Some(3),
        ..Given::default()
    };
    set(&mut limits, account("a", None, three));
    let spec = spec(1, 60);
    for job in 1..=4 {
        submit(&mut limits, job, "a", &spec);
    }
    for job in 1..=3 {
        tell(&mut limits, 0, job, Kind::Priority(16));
    }
    for (job, told) in [
        (1, "3 are taken, 1 asked for (1 runs, 2 wait with a place)"),
        (2, "3 are taken, 1 asked for (2 run, 1 waits with a place)"),
        (3, "3 are taken, 1 asked for"),
    ] {
        tell(&mut limits, 1, job, Kind::Alloc(granted(1)));
        let why = why(&limits, 4);
        assert!(why.ends_with(told), "{why}");
    }
}

/// A record that moves one of three jobs on, or an account.
fn moves() -> impl Strategy<Value = (u64, u8)> {
    (1_u64..=3, 0_u8..7)
}

fn moved(limits: &mut Limits, at: i64, (job, step): (u64, u8)) {
    let some = Given {
        running_jobs: Some(2),
        core_minutes: Some(100),
        ..Given::default()
    };
    match step {
        0 if limits.jobs.contains_key(&JobId(job)) => {}
        0 => submit(limits, job, ["a", "b"][job as usize % 2], &spec(2, 60)),
        1 => tell(limits, at, job, Kind::Priority(16)),
        2 => tell(limits, at, job, Kind::Alloc(granted(2))),
        3 => tell(limits, at, job, Kind::Free),
        4 => tell(limits, at, job, Kind::Clean),
        5 => set(
            limits,
            account(["a", "b"][job as usize % 2], Some("top"), some),
        ),
        _ => drop(why(limits, job)),
    }
}

proptest! {
    /// Whoever asked when: what is kept of counts is what is counted anew.
    #[test]
    fn what_is_kept_is_what_is_counted_anew(all in prop::collection::vec(moves(), 0..60)) {
        let mut limits = limits();
        let top = Given {
            running_jobs: Some(9),
            ..Given::default()
        };
        set(&mut limits, account("top", None, top));
        for (at, step) in (0..).zip(all) {
            moved(&mut limits, at, step);
        }
        let some = |counts: &Counts| -> Counts {
            let some = counts.iter().filter(|(_, count)| **count != Count::default());
            some.map(|(whose, count)| (whose.clone(), *count)).collect()
        };
        let kept = some(limits.counts());
        limits.recount();
        prop_assert_eq!(kept, some(limits.counts()));
    }
}

/// A job for each that may run, and by itself more than one may have.
#[test]
fn a_limit_of_each_job_is_of_no_other() {
    let mut limits = limits();
    let each = Given {
        job_nodes: Some(2),
        job_cores: Some(4),
        job_gpus: Some(1),
        job_memory: Some(3 << 30),
        job_time: Some(Span(60 * MICROS)),
        ..Given::default()
    };
    set(&mut limits, account("a", None, each));
    set(&mut limits, account("b", Some("a"), Given::default()));
    set(&mut limits, member("b", Given::default()));
    let within = spec(4, 60);
    for job in 1..=5 {
        submit(&mut limits, job, "b", &within);
        tell(&mut limits, 0, job, Kind::Priority(16));
    }
    let refused = |spec: &Spec| {
        let over = limits.refusing(Time(0), 7, &party("b"), spec, 1);
        over.map_or_else(String::new, |bound| bound.text)
    };
    assert_eq!(refused(&within), "");
    assert_eq!(
        refused(&spec(5, 60)),
        "limit `job_cores` of account `a` is 4: 5 asked for"
    );
    assert_eq!(
        refused(&spec(1, 61)),
        "limit `job_time` of account `a` is 60 s: 61 s asked for"
    );
    assert_eq!(
        refused(&spec(1, 0)),
        "limit `job_time` of account `a` is 60 s: only jobs with a time limit (-t) can be within it"
    );
    assert_eq!(
        refused(&with_gpus(2)),
        "limit `job_gpus` of account `a` is 1: 2 asked for"
    );
    assert_eq!(refused(&with_memory(MemoryNeed::PerTask(1 << 30))), "");
    assert_eq!(
        refused(&with_memory(MemoryNeed::PerTask(2 << 30))),
        "limit `job_memory` of account `a` is 3G: 4G asked for"
    );
    let longest = limits.longest(7, &party("b"), &spec(1, 0));
    assert_eq!(longest, Some(Span(60 * MICROS)));
}

fn with_gpus(gpus: u32) -> Arc<Spec> {
    let ask = Ask {
        command: vec!["true".to_owned()],
        gpus_per_task: gpus,
        duration: 60 * MICROS,
        ..Ask::default()
    };
    let jobspec = ask.jobspec().expect("a jobspec");
    Arc::new(Spec::from_jobspec(jobspec).expect("a spec"))
}

/// Two tasks of one core each.
fn with_memory(memory: MemoryNeed) -> Arc<Spec> {
    let ask = Ask {
        command: vec!["true".to_owned()],
        ntasks: Some(2),
        duration: 60 * MICROS,
        memory,
        ..Ask::default()
    };
    let jobspec = ask.jobspec().expect("a jobspec");
    Arc::new(Spec::from_jobspec(jobspec).expect("a spec"))
}

/// Until it is known what it holds, whole nodes count with all that the widest has.
#[test]
fn memory_is_counted_as_it_is_asked_for_or_held() {
    let mut limits = limits();
    let given = Given {
        memory: Some(8 << 30),
        ..Given::default()
    };
    set(&mut limits, account("a", None, given));
    set(&mut limits, member("a", Given::default()));
    submit(
        &mut limits,
        1,
        "a",
        &with_memory(MemoryNeed::PerCore(3 << 30)),
    );
    tell(&mut limits, 0, 1, Kind::Priority(16));
    submit(
        &mut limits,
        2,
        "a",
        &with_memory(MemoryNeed::PerTask(2 << 30)),
    );
    let text =
        "limit `memory` of account `a` is 8G: 6G are taken, 4G asked for (1 waits with a place)";
    assert_eq!(why(&limits, 2), text);
    let mut grant = (*granted(2)).clone();
    let mut held = (*grant.set).clone();
    let node = held.nodes.values_mut().next().expect("a node");
    node.memory = 4 << 30;
    grant.set = Arc::new(held);
    tell(&mut limits, 1, 1, Kind::Alloc(Arc::new(grant)));
    assert_eq!(why(&limits, 2), "");
    submit(
        &mut limits,
        3,
        "a",
        &with_memory(MemoryNeed::PerNode(5 << 30)),
    );
    assert!(why(&limits, 3).contains("4G are taken, 10G asked for"));
}

/// Where no memory is known so much is asked for at will; the sum of two was more than a number holds.
#[test]
fn all_the_memory_that_can_be_asked_for_is_counted() {
    let mut limits = limits();
    set(&mut limits, account("a", None, Given::default()));
    let given = Given {
        running_jobs: Some(9),
        ..Given::default()
    };
    set(&mut limits, member("a", given));
    let most = with_memory(MemoryNeed::PerTask(i64::MAX as u64));
    for job in 1..=3 {
        submit(&mut limits, job, "a", &most);
        tell(&mut limits, 0, job, Kind::Priority(16));
        assert_eq!(why(&limits, job), "");
    }
    tell(&mut limits, 1, 1, Kind::Priority(0));
}

#[test]
fn gpus_are_counted_until_what_was_held_is_free() {
    let mut limits = limits();
    let three = Given {
        gpus: Some(3),
        ..Given::default()
    };
    set(&mut limits, account("a", None, three));
    set(&mut limits, member("a", Given::default()));
    let two = with_gpus(2);
    submit(&mut limits, 1, "a", &two);
    tell(&mut limits, 0, 1, Kind::Priority(16));
    submit(&mut limits, 2, "a", &two);
    let text = "limit `gpus` of account `a` is 3: 2 are taken, 2 asked for (1 waits with a place)";
    assert_eq!(why(&limits, 2), text);
    let mut grant = (*granted(1)).clone();
    let mut set = (*grant.set).clone();
    for node in set.nodes.values_mut() {
        node.gpus = "0-1".parse().expect("GPUs");
    }
    grant.set = Arc::new(set);
    tell(&mut limits, 1, 1, Kind::Alloc(Arc::new(grant)));
    assert!(why(&limits, 2).contains("2 are taken"));
    tell(&mut limits, 2, 1, Kind::Finish(0));
    tell(&mut limits, 2, 1, Kind::Free);
    assert_eq!(why(&limits, 2), "");
}
