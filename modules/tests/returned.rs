//! Nodes that an instance in that of a queue gives back: what its parent there says, and the root records.

use eddy_broker::Arrival;
use eddy_wire::event::Kind;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::idset::Idset;
use eddy_wire::message::Type;
use eddy_wire::services::child::{ChildOf, PassState, Told as TellsOf, ToldOf, ToldRequest};
use serde_json::{Value, json};

use crate::nest_stand::*;
use crate::pass::{CHANNEL, CLIENT, JOB, core, starts, tells, with_shells};

/// A job of the queue that has both nodes of `batch`, and runs there.
fn running(system: Value) -> Stand {
    let mut stand = Stand::with_children(&with_batch());
    with_shells(&mut stand);
    adopt(&mut stand, CHANNEL, BATCH);
    stand.submit(CLIENT, USER, system);
    starts(&mut stand, JOB, core([2, 3], 1));
    tells(&mut stand, 1, PassState::Running);
    stand
}

fn instance() -> Stand {
    running(json!({"queue": "long", "instance": {}}))
}

fn returned(ranks: Idset) -> PassState {
    PassState::Returned { ranks }
}

/// The ranks of each grant that is recorded of it.
fn held(stand: &Stand) -> Vec<Idset> {
    let records = stand.records.iter();
    let of = records.filter(|record| record.event.job == Some(JOB));
    let grants = of.filter_map(|record| match &record.event.kind {
        Kind::Alloc(grant) | Kind::GrantChanged(grant) => Some(grant.set.ranks()),
        _ => None,
    });
    grants.collect()
}

#[test]
fn what_is_returned_is_recorded_once_in_the_ranks_of_the_root() {
    let mut stand = instance();
    tells(&mut stand, 1, returned(Idset::one(1)));
    tells(&mut stand, 1, returned(Idset::one(1)));
    assert_eq!(held(&stand), [Idset::range(2, 3), Idset::one(2)]);
    let mut stand = stand.again_from_mark(&with_batch());
    adopt(&mut stand, CHANNEL, BATCH);
    tells(&mut stand, 1, returned(Idset::one(1)));
    let names = stand.names(JOB);
    let changes = names.iter().filter(|name| **name == "grant-changed");
    assert_eq!(changes.count(), 1, "{names:?}");
    tells(&mut stand, 1, returned(Idset::one(7)));
    // Endless if looked at one by one.
    tells(&mut stand, 1, returned(Idset::range(2, u32::MAX / 2)));
    tells(&mut stand, 1, returned(Idset::first_ids(2)));
    assert_eq!(stand.names(JOB), names, "its last node goes with it");
}

#[test]
fn what_an_attempt_that_is_over_returned_changes_nothing() {
    let mut stand = instance();
    let over = PassState::Over {
        began: true,
        status: Some(0),
        exception: None,
    };
    tells(&mut stand, 1, over);
    tells(&mut stand, 1, returned(Idset::one(1)));
    tells(&mut stand, 2, returned(Idset::one(1)));
    stand.tell(Arrival::Tick);
    assert_eq!(held(&stand), [Idset::range(2, 3)]);
}

/// What a user's instance says of a job is refused: nothing is passed to it.
#[test]
fn a_users_instance_says_nothing_of_jobs() {
    let mut stand = instance();
    let other = JobId(OWN.0);
    let child = ChildOf {
        job: other,
        attempt: Attempt(1),
    };
    let over = PassState::Over {
        began: true,
        status: Some(0),
        exception: None,
    };
    for state in [returned(Idset::first_ids(9)), over] {
        for job in [other, JOB] {
            let of = ToldOf {
                job,
                attempt: Attempt(1),
                state: state.clone(),
                began: None,
                ended: None,
                begun: None,
                adopted: None,
            };
            let names = stand.names(job);
            let jobs = vec![of];
            let request = ToldRequest { child, jobs };
            let effects = stand.call::<TellsOf>(CLIENT, USER, &request);
            let refused = told(&effects, CLIENT);
            assert_eq!(refused.last().map(|one| one.kind), Some(Type::Refused));
            assert_eq!(stand.names(job), names);
        }
    }
}

#[test]
fn tasks_return_nothing() {
    let mut stand = running(json!({"queue": "long"}));
    let names = stand.names(JOB);
    tells(&mut stand, 1, returned(Idset::one(1)));
    assert_eq!(stand.names(JOB), names);
}
