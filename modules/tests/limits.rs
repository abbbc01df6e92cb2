//! Limits of what may run, and what happens to those they keep back.

use eddy_modules::settings::Queue;
use eddy_wire::account::{Excess, Limits, Period};
use eddy_wire::event::Kind;
use eddy_wire::queue::Rules;
use serde_json::json;

use crate::instance::Instance;

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
