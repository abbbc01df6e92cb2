//! Limits of what may run, and what happens to those they keep back.

use eddy_modules::settings::Queue;
use eddy_wire::account::{Excess, Limits, Period};
use eddy_wire::event::Kind;
use eddy_wire::message::Roles;
use eddy_wire::queue::Rules;
use eddy_wire::shell::PartState;
use serde_json::{Value, json};

use crate::instance::{Instance, ended, part};

/// Each takes the node for all of the budget: the first runs, one waits for it and one for a place, as
/// `standby`.
#[test]
fn who_is_cancelled_with_one_whose_place_it_would_have_does_not_stand_by() {
    let mut i = Instance::asleep(1);
    let limits = Limits {
        core_minutes: Some(60),
        running_jobs: Some(2),
        period: Period::Day,
        excess: Excess::Standby,
        ..Limits::default()
    };
    i.settings.queues = vec![Queue {
        name: "day".to_owned(),
        instance: None,
        default: true,
        rules: Rules {
            limits,
            ..Rules::default()
        },
    }];
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    for _ in 1..=3 {
        i.submit(0, 4, &json!({"duration": 900.0}));
    }
    i.started(1, 0);
    let stand_by = |i: &Instance| {
        let updated = i
            .records
            .iter()
            .filter(|record| matches!(record.event.kind, Kind::JobspecUpdate(_)));
        updated
            .filter_map(|record| record.event.job)
            .map(|job| job.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        stand_by(&i),
        [2],
        "and the third waits until one of two is over"
    );
    i.call(
        "job.raise",
        &json!({"jobs": {"ranges": [[2, 3]]}, "type": "cancel"}),
    );
    assert_eq!(i.exceptions(3).len(), 1);
    assert_eq!(stand_by(&i), [2]);
}

#[test]
fn what_jobs_that_are_not_over_are_charged_to_is_not_removed() {
    let mut i = Instance::asleep(1);
    i.resume();
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let account = |value: &Value| json!({"account": {"name": "a", "value": value}});
    let member = |user: u32, value: &Value| json!({"member": {"account": "a", "user": user, "value": value}});
    let set = |i: &mut Instance, changes: &[Value]| {
        let changes = changes
            .iter()
            .map(|change| json!({"change": change, "before": "any"}));
        let changes: Vec<Value> = changes.collect();
        i.call("account.set", &json!({"changes": changes, "aim": "make"}))
    };
    let some = json!({"shares": 1});
    let made = set(
        &mut i,
        &[account(&some), member(7, &some), member(8, &some)],
    );
    assert!(made.contains("\"changed\":3"), "{made}");
    // Nodes are not reached yet: both wait.
    i.submit(0, 1, &json!({"account": "a"}));
    i.submit(0, 1, &json!({"account": "a"}));
    let none = Value::Null;
    let kept = set(&mut i, &[member(7, &none)]);
    let why = "user: 7 given, 2 jobs of that user that are not over are charged to account `a`; they have to end or \
               be cancelled first";
    assert!(kept.contains(why), "{kept}");
    // Of several it is said which, and nothing of it is done.
    let kept = set(
        &mut i,
        &[member(8, &none), member(7, &none), account(&none)],
    );
    assert!(
        kept.contains("user 7 in account `a`: user: 7 given, 2 jobs"),
        "{kept}"
    );
    let gone = set(&mut i, &[member(8, &none)]);
    assert!(gone.contains("\"changed\":1"), "{gone}");
    // Nor by a leader that read it.
    i.restart();
    let kept = set(&mut i, &[member(7, &none)]);
    assert!(kept.contains("2 jobs of that user"), "{kept}");
    i.call(
        "job.raise",
        &json!({"jobs": {"ranges": [[1, 2]]}, "type": "cancel"}),
    );
    assert!(
        i.life(2, "submit").contains(&"clean"),
        "{:?}",
        i.life(2, "submit")
    );
    let gone = set(&mut i, &[member(7, &none), account(&none)]);
    assert!(gone.contains("\"changed\":2"), "{gone}");
}

/// One of a queue with a limit ends, and who is let through for it is of another queue, kept back by
/// the account alone.
#[test]
fn who_waits_for_one_of_two_limits_is_asked_though_the_other_let_somebody_else_through() {
    let mut i = Instance::asleep(1);
    let limits = Limits {
        running_jobs: Some(1),
        ..Limits::default()
    };
    let queue = |name: &str, limits: Limits| Queue {
        name: name.to_owned(),
        instance: None,
        default: false,
        rules: Rules {
            limits,
            ..Rules::default()
        },
    };
    i.settings.queues = vec![queue("few", limits), queue("many", Limits::default())];
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let account = json!({"account": {"name": "a", "value": {"limits": {"cores": 2}}}});
    let member = json!({"member": {"account": "a", "user": 7, "value": {"shares": 1}}});
    let changes = [account, member].map(|change| json!({"change": change, "before": "any"}));
    let made = i.call("account.set", &json!({"changes": changes, "aim": "make"}));
    assert!(made.contains("\"changed\":2"), "{made}");
    for queue in ["few", "few", "many", "many"] {
        i.submit(0, 1, &json!({"account": "a", "queue": queue}));
    }
    let is_through = |i: &Instance, job: u64| i.life(job, "submit").contains(&"alloc");
    assert_eq!(
        [1, 2, 3, 4].map(|job| is_through(&i, job)),
        [true, false, true, false]
    );
    for job in [1, 3, 4] {
        i.started(job, 0);
        i.ended(job, 0, ended(0, None));
    }
    assert!(is_through(&i, 2), "{:?}", i.life(2, "submit"));
}

#[test]
fn one_that_asks_for_more_than_a_limit_holds_up_nobody_behind_it() {
    let mut i = Instance::asleep(1);
    i.resume();
    i.reach("0");
    i.hello(1, &[]);
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let set = |i: &mut Instance, cores: u32| {
        let account = json!({"account": {"name": "a", "value": {"limits": {"cores": cores}}}});
        let member = json!({"member": {"account": "a", "user": 7, "value": {"shares": 1}}});
        let changes = [account, member].map(|change| json!({"change": change, "before": "any"}));
        let made = i.call("account.set", &json!({"changes": changes, "aim": "make"}));
        assert!(made.contains("\"changed\":"), "{made}");
        i.tick_after(1);
    };
    set(&mut i, 4);
    let submit = |i: &mut Instance, tasks| i.submit(0, tasks, &json!({"account": "a"}));
    submit(&mut i, 4);
    submit(&mut i, 4);
    set(&mut i, 2);
    submit(&mut i, 1);
    i.started(1, 0);
    i.ended(1, 0, ended(0, None));
    let is_through = |i: &Instance, job: u64| i.life(job, "submit").contains(&"alloc");
    assert_eq!([2, 3].map(|job| is_through(&i, job)), [false, true]);
    set(&mut i, 5);
    i.started(3, 0);
    i.ended(3, 0, ended(0, None));
    assert!(is_through(&i, 2), "{:?}", i.life(2, "submit"));
}

/// Who was behind another in the line of a limit that does not count for him any more.
#[test]
fn whom_no_limit_binds_any_more_waits_for_nobody_in_its_line() {
    let mut i = Instance::asleep(1);
    i.resume();
    i.reach("0");
    i.hello(1, &[]);
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let set = |i: &mut Instance, changes: &[Value]| {
        let changes: Vec<Value> = changes
            .iter()
            .map(|change| json!({"change": change, "before": "any"}))
            .collect();
        let made = i.call("account.set", &json!({"changes": changes, "aim": "make"}));
        assert!(made.contains("\"changed\":"), "{made}");
        i.tick_after(1);
    };
    let account = |name: &str, value: Value| json!({"account": {"name": name, "value": value}});
    let member = |name: &str| json!({"member": {"account": name, "user": 7, "value": {}}});
    let top = account("top", json!({"limits": {"cores": 2}}));
    let under = |name: &str| account(name, json!({"parent": "top"}));
    set(
        &mut i,
        &[top, under("a"), under("b"), member("a"), member("b")],
    );
    for (tasks, account) in [(2, "a"), (2, "a"), (1, "b")] {
        i.submit(0, tasks, &json!({"account": account}));
    }
    let is_through = |i: &Instance, job: u64| i.life(job, "submit").contains(&"alloc");
    let through = |i: &Instance| [1, 2, 3].map(|job| is_through(i, job));
    assert_eq!(through(&i), [true, false, false]);
    set(&mut i, &[account("b", json!({}))]);
    assert_eq!(through(&i), [true, false, true]);
}

/// Who was kept back by another limit than the first in line.
#[test]
fn after_a_restart_everybody_is_kept_back_by_what_binds_him() {
    let mut i = Instance::asleep(1);
    i.resume();
    i.reach("0");
    i.hello(1, &[]);
    let one = json!({"limits": {"running_jobs": 1}});
    let root = json!({"user": {"user": 0, "value": one}});
    let a = json!({"account": {"name": "a", "value": one}});
    let member = |user: u32| json!({"member": {"account": "a", "user": user, "value": {}}});
    let other = json!({"account": {"name": "b", "value": {}}});
    let of_root = json!({"member": {"account": "b", "user": 0, "value": {}}});
    let changes = [root, a, member(7), other, of_root]
        .map(|change| json!({"change": change, "before": "any"}));
    i.sender = (0, Roles::OWNER.or(Roles::USER));
    let made = i.call("account.set", &json!({"changes": changes, "aim": "make"}));
    assert!(made.contains("\"changed\":"), "{made}");
    i.submit(0, 1, &json!({"account": "b"}));
    i.submit(0, 1, &json!({"account": "b"}));
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    i.submit(0, 1, &json!({"account": "a"}));
    i.submit(0, 1, &json!({"account": "a"}));
    i.started(1, 0);
    i.started(3, 0);
    i.restart();
    i.reach("0");
    let runs = |job| (part(job, 0), PartState::Running { t: i.now });
    let parts = [runs(1), runs(3)];
    i.hello(1, &parts);
    let is_through = |i: &Instance, job: u64| i.life(job, "submit").contains(&"alloc");
    assert_eq!([2, 4].map(|job| is_through(&i, job)), [false, false]);
    i.ended(3, 0, ended(0, None));
    assert!(is_through(&i, 4), "{:?}", i.life(4, "submit"));
}

/// An admin may move it there. It never starts, and says by what, with the figures.
#[test]
fn one_that_is_moved_to_where_it_asks_for_too_much_is_told_by_which_limit_it_waits() {
    let mut i = Instance::asleep(1);
    let queue = |name: &str, cores: Option<u32>| Queue {
        name: name.to_owned(),
        instance: None,
        default: cores.is_none(),
        rules: Rules {
            limits: Limits {
                cores,
                ..Limits::default()
            },
            ..Rules::default()
        },
    };
    i.settings.queues = vec![queue("wide", None), queue("narrow", Some(2))];
    i.restart();
    i.submit(0, 4, &json!({}));
    let asked = json!({"jobs": {"ranges": [[1, 1]]}, "set": {"queue": "narrow"}});
    let moved = i.call("job.update", &asked);
    assert!(moved.contains("\"count\":1"), "{moved}");
    let told = i.call("job.list", &json!({}));
    let why = "limit `cores` of queue `narrow` is 2: 0 are taken, 4 asked for, so that it never starts as things are: \
               it has to ask for less, or the limit to be more";
    assert!(told.contains(why), "{told}");
}

/// One who asks for more than is left is first in line, and what is left is kept for him.
#[test]
fn nobody_goes_before_one_whom_the_same_limit_keeps_back_and_each_is_told_behind_whom() {
    let mut i = Instance::asleep(2);
    i.resume();
    i.reach("0-1");
    i.hello(1, &[]);
    i.hello(2, &[]);
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let account = json!({"account": {"name": "a", "value": {"limits": {"cores": 3}}}});
    let member = json!({"member": {"account": "a", "user": 7, "value": {}}});
    let changes = [account, member].map(|change| json!({"change": change, "before": "any"}));
    let made = i.call("account.set", &json!({"changes": changes, "aim": "make"}));
    assert!(made.contains("\"changed\":2"), "{made}");
    // The fourth asks for 2, and behind it is one who comes when everybody is asked.
    for tasks in [1, 1, 1, 2, 1] {
        i.submit(0, tasks, &json!({"account": "a"}));
    }
    let is_through = |i: &Instance, job: u64| i.life(job, "submit").contains(&"alloc");
    let end = |i: &mut Instance, job| {
        i.started(job, 0);
        i.ended(job, 0, ended(0, None));
    };
    end(&mut i, 1);
    i.submit(0, 1, &json!({"account": "a"}));
    assert_eq!([4, 5, 6].map(|job| is_through(&i, job)), [false; 3]);
    let told = i.call("job.list", &json!({}));
    let behind = "waits behind job f5, which waits for limit `cores` of account `a` is 3: 2 are taken, 2 asked for";
    assert_eq!(told.matches(behind).count(), 2, "{told}");
    end(&mut i, 2);
    assert_eq!(
        [4, 5, 6].map(|job| is_through(&i, job)),
        [true, false, false]
    );
    end(&mut i, 3);
    assert_eq!([5, 6].map(|job| is_through(&i, job)), [true, false]);
}

/// What is spent comes back with the next period, whoever waits for it.
#[test]
fn who_waits_for_more_of_a_budget_than_is_left_keeps_it_from_nobody() {
    let mut i = Instance::asleep(1);
    let limits = Limits {
        core_minutes: Some(60),
        period: Period::Day,
        ..Limits::default()
    };
    i.settings.queues = vec![Queue {
        name: "day".to_owned(),
        instance: None,
        default: true,
        rules: Rules {
            limits,
            ..Rules::default()
        },
    }];
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    // 40 core-minutes, 40, and 30.
    for (tasks, minutes) in [(2, 20), (2, 20), (1, 30)] {
        i.submit(0, tasks, &json!({"duration": f64::from(minutes * 60)}));
    }
    let is_through = |i: &Instance, job: u64| i.life(job, "submit").contains(&"alloc");
    let through = |i: &Instance| [1, 2, 3].map(|job| is_through(i, job));
    assert_eq!(through(&i), [true, false, false]);
    // It used 25 of its 40.
    i.started(1, 0);
    i.tick_after(750);
    i.ended(1, 0, ended(0, None));
    assert_eq!(through(&i), [true, false, true]);
}

/// Who cannot begin has no use for what it would count for, and others of the account have.
#[test]
fn jobs_of_a_stopped_queue_hold_no_place_that_others_of_a_limit_wait_for() {
    let mut i = Instance::asleep(2);
    let queue = |name: &str| Queue {
        name: name.to_owned(),
        instance: None,
        default: name == "open",
        rules: Rules::default(),
    };
    i.settings.queues = vec![queue("shut"), queue("open")];
    i.restart();
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let account = json!({"account": {"name": "a", "value": {"limits": {"cores": 2}}}});
    let member = json!({"member": {"account": "a", "user": 7, "value": {}}});
    let changes = [account, member].map(|change| json!({"change": change, "before": "any"}));
    let made = i.call("account.set", &json!({"changes": changes, "aim": "make"}));
    assert!(made.contains("\"changed\":2"), "{made}");
    i.tick_after(1);
    let submit =
        |i: &mut Instance, queue: &str| i.submit(0, 1, &json!({"account": "a", "queue": queue}));
    let turn = |i: &mut Instance, turn: &str| {
        let turned = i.call(
            "queue.turn",
            &json!({"queues": ["shut"], "turn": turn, "reason": "fan"}),
        );
        assert!(turned.contains("\"changed\":1"), "{turned}");
        i.tick_after(1);
    };
    // Both have their places before it is stopped; nobody begins, since no node is reached.
    submit(&mut i, "shut");
    submit(&mut i, "shut");
    turn(&mut i, "stop");
    submit(&mut i, "shut");
    submit(&mut i, "open");
    i.reach("0-1");
    i.hello(1, &[]);
    i.hello(2, &[]);
    let is_through = |i: &Instance, job: u64| i.life(job, "submit").contains(&"alloc");
    let through = |i: &Instance| [1, 2, 3, 4].map(|job| is_through(i, job));
    assert_eq!(through(&i), [false, false, false, true]);
    let told = i.call("job.list", &json!({}));
    let stopped = "waits for queue `shut`, which is stopped: fan";
    assert_eq!(told.matches(stopped).count(), 3, "{told}");
    // Also by a leader that reads it.
    i.restart();
    i.reach("0-1");
    let runs = (part(4, 0), PartState::Running { t: i.now });
    i.hello(1, &[runs]);
    i.hello(2, &[]);
    assert_eq!(through(&i), [false, false, false, true]);
    turn(&mut i, "start");
    assert_eq!(
        through(&i).iter().filter(|through| **through).count(),
        2,
        "{:?}",
        through(&i)
    );
    i.ended(4, 0, ended(0, None));
    assert_eq!(through(&i), [true, true, false, true]);
}

/// They wait with all others of the limit once their queue is started, and the most urgent goes first.
#[test]
fn those_of_a_queue_that_is_started_have_their_places_in_turn() {
    let mut i = Instance::asleep(1);
    let one = Limits {
        running_jobs: Some(1),
        ..Limits::default()
    };
    i.settings.queues = vec![Queue {
        name: "night".to_owned(),
        instance: None,
        default: true,
        rules: Rules {
            limits: one,
            ..Rules::default()
        },
    }];
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    let turn = |i: &mut Instance, turn: &str| {
        let turned = i.call("queue.turn", &json!({"queues": ["night"], "turn": turn}));
        assert!(turned.contains("\"changed\":1"), "{turned}");
    };
    turn(&mut i, "stop");
    i.submit(0, 1, &json!({}));
    i.submit(0, 1, &json!({}));
    let jobs = json!({"ranges": [[2, 2]]});
    let told = i.call("job.urgency", &json!({"jobs": jobs, "urgency": 20}));
    assert!(told.contains("\"count\":1"), "{told}");
    turn(&mut i, "start");
    // Who comes before they are asked goes before nobody.
    i.submit(0, 1, &json!({}));
    i.tick_after(1);
    let through = |i: &Instance| [1, 2, 3].map(|job| i.life(job, "submit").contains(&"alloc"));
    assert_eq!(through(&i), [false, true, false]);
    i.ended(2, 0, ended(0, None));
    assert_eq!(through(&i), [true, true, false]);
}

#[test]
fn who_waits_for_a_reservation_to_begin_has_a_place_from_then_on() {
    let mut i = Instance::asleep(2);
    i.resume();
    i.reach("0-1");
    i.hello(1, &[]);
    i.hello(2, &[]);
    i.sender = (7, Roles::OWNER.or(Roles::USER));
    let account = json!({"account": {"name": "a", "value": {"limits": {"running_jobs": 1}}}});
    let member = json!({"member": {"account": "a", "user": 7, "value": {}}});
    let changes = [account, member].map(|change| json!({"change": change, "before": "any"}));
    let made = i.call("account.set", &json!({"changes": changes, "aim": "make"}));
    assert!(made.contains("\"changed\":2"), "{made}");
    let from = i.now.0 as f64 / 1e6 + 600.0;
    let made = i.call(
        "reservation.create",
        &json!({"name": "course", "from": from, "span": 3600.0, "nodes": {"count": 1},
                "purpose": {"jobs": {"accounts": ["a"], "users": []}}, "running": "refuse"}),
    );
    assert!(made.contains("course"), "{made}");
    i.tick_after(1);
    i.submit(
        0,
        1,
        &json!({"account": "a", "duration": 60.0, "reservation": "course"}),
    );
    i.submit(0, 1, &json!({"account": "a", "duration": 60.0}));
    let is_through = |i: &Instance, job: u64| i.life(job, "submit").contains(&"alloc");
    let through = |i: &Instance| [1, 2].map(|job| is_through(i, job));
    assert_eq!(through(&i), [false, true]);
    let told = i.call("job.list", &json!({}));
    assert!(told.contains("waits for reservation `course`"), "{told}");
    let rank = 0;
    i.started(2, rank);
    i.ended(2, rank, ended(0, None));
    assert_eq!(through(&i), [false, true]);
    i.tick_after(600);
    assert_eq!(through(&i), [true, true]);
}

/// One of a limit of one waits for nodes, behind others.
#[test]
fn who_is_more_urgent_has_the_place_of_one_who_only_waits() {
    let mut i = Instance::asleep(1);
    let few = Limits {
        running_jobs: Some(1),
        ..Limits::default()
    };
    let queue = |name: &str, limits: Limits| Queue {
        name: name.to_owned(),
        instance: None,
        default: false,
        rules: Rules {
            limits,
            ..Rules::default()
        },
    };
    i.settings.queues = vec![queue("debug", few), queue("all", Limits::default())];
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    i.submit(0, 4, &json!({"queue": "all"}));
    for _ in 2..=4 {
        i.submit(0, 4, &json!({"queue": "debug"}));
    }
    let queued = |i: &Instance| {
        let told = |job: u64| i.life(job, "submit").last().copied();
        [2, 3, 4].map(|job| told(job) == Some("priority"))
    };
    assert_eq!(queued(&i), [true, false, false]);
    // Whoever asks what that would come to is told the same.
    let bounds = |i: &mut Instance, urgency: u8| {
        let jobs = json!({"ranges": [[3, 3]]});
        i.call(
            "sched.bounds",
            &json!({"jobs": jobs, "suppose": {"urgency": urgency}}),
        )
    };
    assert!(
        bounds(&mut i, 16).contains("\"held\""),
        "{}",
        bounds(&mut i, 16)
    );
    assert_eq!(bounds(&mut i, 17), "[]");
    let urge = |i: &mut Instance, job: u64, urgency: u8| {
        let jobs = json!({"ranges": [[job, job]]});
        let told = i.call("job.urgency", &json!({"jobs": jobs, "urgency": urgency}));
        assert!(told.contains("\"count\":1"), "{told}");
        i.tick_after(1);
    };
    urge(&mut i, 3, 20);
    assert_eq!(queued(&i), [false, true, false]);
    urge(&mut i, 4, 31);
    assert_eq!(queued(&i), [false, false, true]);
    // Who is as urgent waits behind it.
    urge(&mut i, 2, 31);
    assert_eq!(queued(&i), [false, false, true]);
    let records = i.records.len();
    i.tick_after(86_400);
    assert_eq!(i.records.len(), records, "{:?}", &i.records[records..]);
    // And nobody has the place of one who has begun.
    i.started(1, 0);
    i.ended(1, 0, ended(0, None));
    urge(&mut i, 3, 31);
    let begun = [2, 3, 4].map(|job| i.life(job, "submit").contains(&"alloc"));
    assert_eq!(begun, [false, false, true]);
}
