//! How many core-minutes may be used in a period, and what counts for them.

use eddy_wire::account::{Period, STANDBY};

use super::*;

#[test]
fn core_minutes_count_what_was_used_in_the_period_and_what_may_still_be() {
    let mut limits = limits();
    let hour = Given {
        core_minutes: Some(60),
        period: Period::Day,
        ..Given::default()
    };
    set(&mut limits, member("a", hour));
    let (half, endless) = (spec(1, 1_800), spec(1, 0));
    for job in 1..=3 {
        submit(&mut limits, job, "a", &half);
    }
    submit(&mut limits, 4, "a", &endless);
    assert!(
        why(&limits, 4).contains("a time limit"),
        "{}",
        why(&limits, 4)
    );
    for job in 1..=2 {
        tell(&mut limits, 0, job, Kind::Priority(16));
        tell(&mut limits, 0, job, Kind::Alloc(granted(1)));
    }
    assert!(why(&limits, 3).ends_with("60 are taken, 30 asked for"));
    // It used ten minutes of its thirty.
    tell(&mut limits, 600, 1, Kind::Finish(0));
    tell(&mut limits, 600, 1, Kind::Free);
    assert!(why(&limits, 3).ends_with("40 are taken, 30 asked for"));
    // For half of its time the other has no core.
    tell(&mut limits, 600, 2, Kind::GrantChanged(granted(0)));
    // The other ends too, and the next day all is forgotten but what runs.
    tell(&mut limits, 1_200, 2, Kind::Finish(0));
    tell(&mut limits, 1_200, 2, Kind::Free);
    assert_eq!(why(&limits, 3), "");
    submit(&mut limits, 5, "a", &spec(1, 2_400));
    assert_eq!(why(&limits, 5), "");
    submit(&mut limits, 6, "a", &spec(1, 2_460));
    assert!(why(&limits, 6).ends_with("20 are taken, 41 asked for"));
    assert!(limits.binding(Time(86_400 * MICROS), JobId(3)).is_none());
}

#[test]
fn an_instance_counts_with_what_it_has_left_and_a_suspended_job_with_all() {
    let mut limits = limits();
    let two = Given {
        cores: Some(2),
        ..Given::default()
    };
    set(&mut limits, member("a", two));
    let wide = spec(2, 600);
    let mut instance = (*wide).clone();
    instance.request.work = Work::Instance { name: None };
    for (job, asked) in [(1, Arc::new(instance)), (3, wide)] {
        submit(&mut limits, job, "a", &asked);
        submit(&mut limits, job + 1, "a", &spec(1, 60));
        tell(&mut limits, 0, job, Kind::Priority(16));
        tell(&mut limits, 0, job, Kind::Alloc(granted(2)));
        assert!(why(&limits, job + 1).ends_with("2 are taken, 1 asked for"));
        tell(&mut limits, 1, job, Kind::GrantChanged(granted(1)));
        let expected = match job {
            1 => "",
            _ => {
                "limit `cores` of user 7 in account `a` is 2: 2 are taken, 1 asked for \
                  (1 is suspended and counts in full)"
            }
        };
        assert_eq!(why(&limits, job + 1), expected);
        tell(&mut limits, 2, job, Kind::GrantChanged(granted(2)));
        assert!(why(&limits, job + 1).ends_with("2 are taken, 1 asked for"));
        tell(&mut limits, 2, job, Kind::Finish(0));
        tell(&mut limits, 2, job, Kind::Free);
    }
}

#[test]
fn a_period_alone_limits_nobody() {
    let mut limits = limits();
    let period = Given {
        period: Period::Day,
        excess: Excess::Refuse,
        ..Given::default()
    };
    set(&mut limits, member("a", period));
    assert!(!limits.counts_in("any"));
}

#[test]
fn what_was_left_of_a_budget_may_be_carried_over_in_part() {
    let day = 86_400;
    let mut limits = limits();
    let given = Given {
        core_minutes: Some(60),
        period: Period::Day,
        carry: 50,
        ..Given::default()
    };
    set(&mut limits, member("a", given));
    submit(&mut limits, 1, "a", &spec(1, 2_400));
    tell(&mut limits, 0, 1, Kind::Priority(16));
    tell(&mut limits, 0, 1, Kind::Alloc(granted(1)));
    tell(&mut limits, 2_400, 1, Kind::Finish(0));
    tell(&mut limits, 2_400, 1, Kind::Free);
    // Of the day before the first nothing was used: half of an hour is carried, and no more.
    submit(&mut limits, 2, "a", &spec(1, 3_000));
    assert_eq!(why(&limits, 2), "");
    submit(&mut limits, 3, "a", &spec(1, 3_060));
    let text =
        "is 90 until 1970-01-02T00:00:00Z, 30 of them carried over: 40 are taken, 51 asked for";
    assert!(why(&limits, 3).ends_with(text), "{}", why(&limits, 3));
    // Of the first twenty minutes are left.
    submit(&mut limits, 4, "a", &spec(1, 4_800));
    submit(&mut limits, 5, "a", &spec(1, 4_860));
    let on = |days: i64, job| limits.binding(Time(days * day * MICROS), JobId(job));
    assert_eq!(on(1, 4), None);
    let text =
        "is 80 until 1970-01-03T00:00:00Z, 20 of them carried over: 0 are taken, 81 asked for";
    assert!(on(1, 5).is_some_and(|bound| bound.text.ends_with(text)));
    assert_eq!(on(2, 5), None, "and of the second all");
}

#[test]
fn beyond_its_budget_a_job_stands_by_and_counts_for_it_no_more() {
    let mut limits = limits();
    let given = Given {
        core_minutes: Some(60),
        running_jobs: Some(2),
        period: Period::Day,
        excess: Excess::Standby,
        ..Given::default()
    };
    set(&mut limits, member("a", given));
    let hour = spec(1, 3_600);
    for job in 1..=3 {
        submit(&mut limits, job, "a", &hour);
    }
    let excess = |limits: &Limits, job| limits.binding_then(JobId(job)).map(|bound| bound.excess);
    assert_eq!(excess(&limits, 1), None);
    tell(&mut limits, 0, 1, Kind::Priority(16));
    tell(&mut limits, 0, 1, Kind::Alloc(granted(1)));
    assert_eq!(excess(&limits, 2), Some(Excess::Standby));
    let endless = spec(1, 0);
    let refused = limits.refusing(Time(0), 7, &party("a"), &endless, 1);
    assert_eq!(refused, None, "nor is one that is over it alone");
    let standby = update::to_qos(&STANDBY.parse().expect("a name"));
    tell(&mut limits, 0, 2, standby);
    assert_eq!(excess(&limits, 2), None);
    tell(&mut limits, 0, 2, Kind::Priority(16));
    tell(&mut limits, 0, 2, Kind::Alloc(granted(1)));
    // Two run: another limit holds.
    assert_eq!(excess(&limits, 3), Some(Excess::Hold));
    for (job, until) in [(1, 600), (2, 1_800)] {
        tell(&mut limits, until, job, Kind::Finish(0));
        tell(&mut limits, until, job, Kind::Free);
    }
    // Ten minutes are used; what the other used is not of the budget.
    submit(&mut limits, 4, "a", &spec(1, 3_000));
    assert_eq!(excess(&limits, 4), None);
    assert_eq!(excess(&limits, 3), Some(Excess::Standby));
}

#[test]
fn core_minutes_of_a_queue_count_what_its_jobs_used_and_no_others() {
    let hour = Given {
        core_minutes: Some(60),
        period: Period::Day,
        ..Given::default()
    };
    let queue = Queue {
        name: "short".to_owned(),
        instance: None,
        default: false,
        rules: Rules {
            limits: hour,
            ..Rules::default()
        },
    };
    let mut settings = Settings::for_inventory(Arc::new(ResourceSet::default()));
    settings.queues.push(queue);
    let mut limits = Limits::new(&settings);
    let half = spec(1, 1_800);
    let of_queue = Arc::new(half.with(Some("short"), None));
    for (job, spec) in [(1, &of_queue), (2, &half), (3, &of_queue), (4, &of_queue)] {
        submit(&mut limits, job, "a", spec);
    }
    for job in 1..=2 {
        tell(&mut limits, 0, job, Kind::Priority(16));
        tell(&mut limits, 0, job, Kind::Alloc(granted(1)));
        tell(&mut limits, 1_800, job, Kind::Finish(0));
        tell(&mut limits, 1_800, job, Kind::Free);
    }
    // One of the two that used half an hour each was of the queue.
    assert_eq!(why(&limits, 3), "");
    tell(&mut limits, 1_800, 3, Kind::Priority(16));
    let text = "limit `core_minutes` of queue `short` is 60 until 1970-01-02T00:00:00Z: 60 are taken, 30 asked for";
    assert_eq!(why(&limits, 4), text);
    // The next day only what the third may still use is taken.
    assert!(limits.binding(Time(86_400 * MICROS), JobId(4)).is_none());
}

#[test]
fn a_node_that_a_job_gave_back_is_used_no_longer_than_the_ledger_charges_it() {
    let mut limits = limits();
    let hour = Given {
        core_minutes: Some(60),
        period: Period::Day,
        ..Given::default()
    };
    set(&mut limits, member("a", hour));
    submit(&mut limits, 1, "a", &spec(2, 1_200));
    let mut two = (*granted(1)).clone();
    let nodes = &mut Arc::make_mut(&mut two.set).nodes;
    let node = nodes[&eddy_wire::id::Rank(0)].clone();
    nodes.insert(eddy_wire::id::Rank(1), node);
    tell(&mut limits, 0, 1, Kind::Priority(16));
    tell(&mut limits, 0, 1, Kind::Alloc(Arc::new(two)));
    tell(&mut limits, 600, 1, Kind::Finish(0));
    let first = eddy_wire::idset::Idset::one(0);
    tell(&mut limits, 600, 1, Kind::Release(first, Final::No));
    // The other node is cleared for ten minutes more.
    tell(&mut limits, 1_200, 1, Kind::Free);
    submit(&mut limits, 2, "a", &spec(1, 1_860));
    assert!(why(&limits, 2).ends_with("30 are taken, 31 asked for"));
}
