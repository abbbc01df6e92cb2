//! How many jobs a user may have, and at once: what is over is refused, and leaves others their room.

use eddy_broker::Arrival;
use eddy_broker::effect::Answer;
use eddy_wire::message::Roles;
use serde_json::{Value, json};

use crate::instance::{Instance, ended};

const ANN: (u32, Roles) = (1001, Roles::USER);
const BOB: (u32, Roles) = (1002, Roles::USER);
const ADMIN: (u32, Roles) = (1003, Roles::USER.or(Roles::ADMIN));

/// A user may submit 3 jobs at once, and have 5.
fn narrow() -> Instance {
    let mut i = Instance::asleep(1);
    (i.settings.user_max.copies, i.settings.user_max.jobs) = (3, 5);
    // A leader that is told so.
    i.restart();
    i.reach("0");
    i.hello(1, &[]);
    i
}

/// What is said to that sender of so many copies of a job that has all cores.
fn submits(i: &mut Instance, sender: (u32, Roles), copies: u32) -> String {
    i.sender = sender;
    let body = json!({"key": i.key(), "jobspec": jobspec(), "cc": format!("1-{copies}")});
    i.call("job.submit", &body);
    // Where the key may be older than the leader.
    for (tag, _) in std::mem::take(&mut i.queries) {
        i.act(Arrival::Answer(tag, Answer::Key(None)));
    }
    i.answers.last().cloned().unwrap_or_default()
}

fn jobspec() -> Value {
    json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 4}]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 60}},
    })
}

#[test]
fn a_user_submits_so_many_jobs_at_once_and_admins_what_there_is_room_for() {
    let mut i = narrow();
    let refused = submits(&mut i, ANN, 4);
    let why = "cc: 4 ids given, a user may submit 3 jobs at once (limit `user_copies`)";
    assert!(refused.contains(why), "{refused}");
    let taken = submits(&mut i, ADMIN, 7);
    assert!(taken.contains("\"count\":7"), "{taken}");
    // One submission of more than he may have.
    (i.settings.user_max.copies, i.settings.user_max.jobs) = (6, 5);
    i.restart();
    let refused = submits(&mut i, ANN, 6);
    let why = "cc: 6 ids given, a user may have 5 jobs that are not over (limit `user_jobs`)";
    assert!(refused.contains(why), "{refused}");
}

#[test]
fn who_has_all_his_jobs_submits_again_when_one_is_over_and_others_do_meanwhile() {
    let mut i = narrow();
    for copies in [3, 2] {
        let taken = submits(&mut i, ANN, copies);
        assert!(taken.contains("\"first\""), "{taken}");
    }
    let why = "user 1001 has 5 jobs that are not over; the limit `user_jobs` is 5";
    // Also for a leader that comes after.
    for _ in 0..2 {
        let refused = submits(&mut i, ANN, 1);
        assert!(refused.contains(why), "{refused}");
        i.restart();
        i.reach("0");
        i.hello(1, &[]);
    }
    let taken = submits(&mut i, BOB, 1);
    assert!(taken.contains("\"first\":6"), "{taken}");
    i.started(1, 0);
    i.ended(1, 0, ended(0, None));
    let taken = submits(&mut i, ANN, 1);
    assert!(taken.contains("\"first\":7"), "{taken}");
    let refused = submits(&mut i, ANN, 1);
    assert!(refused.contains(why), "{refused}");
}
