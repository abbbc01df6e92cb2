//! What is said of a job that changes nothing of it: how often, and when it is a record.

use eddy_wire::event::Kind;
use eddy_wire::id::JobId;
use eddy_wire::message::Type;
use eddy_wire::services::job::{
    JobSet, Order, OrderRequest, Places, REMARKS_MAX, Raise, RaiseRequest, Scope, Urgency,
    UrgencyRequest,
};
use serde_json::json;

use crate::nest_stand::*;
use crate::pass::CLIENT;

const JOB: JobId = JobId(1);

fn raise(severity: u8) -> RaiseRequest {
    RaiseRequest {
        declared: None,
        jobs: JobSet::one(JOB),
        states: Vec::new(),
        job_set: None,
        scope: Scope::Named,
        kind: "note".to_owned(),
        severity,
        note: String::new(),
    }
}

fn order(jobs: impl IntoIterator<Item = u64>) -> OrderRequest {
    OrderRequest {
        jobs: jobs.into_iter().map(JobId).collect(),
        places: Places::AsNamed,
    }
}

fn count(stand: &Stand, is_it: impl Fn(&Kind) -> bool) -> usize {
    let records = stand.records.iter();
    records.filter(|record| is_it(&record.event.kind)).count()
}

#[test]
fn so_much_is_said_of_an_attempt_and_no_more() {
    let mut stand = Stand::with_nodes(&settings());
    for _ in 0..2 {
        stand.submit(CLIENT, USER, json!({"duration": 60}));
    }
    for _ in 0..REMARKS_MAX {
        let told = stand.ask::<Raise>(CLIENT, USER, &raise(1));
        assert_eq!(told.body["count"], 1, "{told:?}");
    }
    let told = stand.ask::<Raise>(CLIENT, USER, &raise(7));
    let limit = "the limit `remarks` of an attempt is 1000, all are made";
    assert!(told.body.to_string().contains(limit), "{told:?}");
    let told = stand.ask::<Order>(CLIENT, USER, &order([2, 1]));
    assert!(told.refusal().ends_with(limit), "{told:?}");
    let is_remark = |kind: &Kind| matches!(kind, Kind::Exception(_) | Kind::Order(..));
    assert_eq!(count(&stand, is_remark), REMARKS_MAX as usize);
    // What ends it is no remark.
    let told = stand.ask::<Raise>(CLIENT, USER, &raise(0));
    assert_eq!(told.body["count"], 1, "{told:?}");
}

#[test]
fn a_job_is_held_and_made_urgent_so_often_and_always_let_go() {
    let mut stand = Stand::with_nodes(&settings());
    stand.submit(CLIENT, USER, json!({"duration": 60}));
    let urgency = |urgency| UrgencyRequest {
        jobs: JobSet::one(JOB),
        urgency,
        job_set: None,
        scope: Scope::Named,
    };
    for at in 1..REMARKS_MAX {
        let told = stand.ask::<Urgency>(CLIENT, USER, &urgency(1 + at as u8 % 2));
        assert_eq!(told.body["count"], 1, "{told:?}");
    }
    let mut hold = |urgent| {
        let told = stand.ask::<Urgency>(CLIENT, USER, &urgency(urgent));
        let limit = "the limit `remarks` of an attempt is 1000, all are made";
        (
            told.body["count"] == 1,
            told.body.to_string().contains(limit),
        )
    };
    assert_eq!(hold(0), (true, false));
    assert_eq!(hold(0), (false, true));
    assert_eq!(hold(3), (true, false));
    assert_eq!(hold(4), (false, true));
    assert_eq!(hold(0), (false, true));
    let is_urgency = |kind: &Kind| matches!(kind, Kind::Urgency(..));
    assert_eq!(count(&stand, is_urgency), REMARKS_MAX as usize + 1);
}

#[test]
fn the_place_that_a_job_has_already_is_no_record() {
    let mut stand = Stand::with_nodes(&settings());
    for _ in 0..3 {
        stand.submit(CLIENT, USER, json!({"duration": 60}));
    }
    let is_order = |kind: &Kind| matches!(kind, Kind::Order(..));
    for (jobs, records) in [([1, 2, 3], 3), ([1, 2, 3], 3), ([1, 3, 2], 5)] {
        let told = stand.ask::<Order>(CLIENT, USER, &order(jobs));
        assert_eq!((told.kind, &told.body["count"]), (Type::Reply, &json!(3)));
        assert_eq!(count(&stand, is_order), records);
    }
}
