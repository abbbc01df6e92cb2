//! Who takes from others, and whose turn it is to be looked at.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::gang::Gang;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Request, Sharing};
use eddy_wire::plan::{Delta, Unavailable, Want};

use super::model::{nodes, slots};
use super::preempt::{EASY, FCFS, Stand, limited, owner};

fn whole(count: u32) -> Request {
    Request {
        sharing: Sharing::Exclusive,
        ..nodes(count, 1, 1)
    }
}

#[test]
fn nobody_ends_for_one_who_is_to_go_on() {
    for policy in [EASY, FCFS] {
        let mut stand = Stand::new(policy, &[4, 4]);
        stand.holds(0, "2 low 0/0-2");
        let cores: BTreeMap<Rank, u32> = [(Rank(0), 2), (Rank(1), 2)].into();
        let want = Want {
            back: Some(Arc::new(cores)),
            owner: owner("high"),
            ..Want::of(16, limited(slots(4, 1), 30))
        };
        stand.apply(Delta::Want(JobId(1), want));
        assert_eq!(stand.says(1), [""; 0], "{policy}");
        stand.apply(Delta::Policy("preset = \"conservative\"".into()));
        assert_eq!(stand.says(2), [""; 0], "{policy}, and by another");
        stand.apply(Delta::Freed(JobId(2)));
        assert_eq!(stand.says(3), ["start 1 0/0-1 1/0-1"], "{policy}");
    }
}

#[test]
fn a_gang_takes_from_nobody_by_another_policy_either() {
    let mut stand = Stand::new(EASY, &[4, 4, 4, 4]);
    stand.holds(0, "9 low 0/0-3");
    let gang = Gang {
        name: "g".parse().expect("a name"),
        size: 2,
        min: 2,
        uniform: None,
    };
    for job in [1, 2] {
        let want = Want {
            gang: Some(Arc::new(gang.clone())),
            owner: owner("high"),
            ..Want::of(16, limited(whole(2), 30))
        };
        stand.apply(Delta::Want(JobId(job), want));
    }
    assert_eq!(stand.says(1), [""; 0]);
    stand.apply(Delta::Policy("preset = \"easy\"\nqueue.depth = 3".into()));
    assert_eq!(stand.says(2), [""; 0]);
    stand.apply(Delta::Freed(JobId(9)));
    assert_eq!(stand.says(3).len(), 2);
}

#[test]
fn many_who_find_nobody_to_take_from_keep_no_other_from_it() {
    let mut stand = Stand::new(EASY, &[4, 4]);
    stand.holds(0, "90 high 0/0-3");
    stand.holds(0, "91 low 1/0-3");
    let many = 40;
    for job in 1..=many {
        stand.wants(job, "high", limited(whole(2), 100 + job as i64));
    }
    stand.wants(many + 1, "high", limited(whole(1), 100));
    let mut said = Vec::new();
    for second in 1..=4 {
        said.extend(stand.says(second));
        // Something happens that has nothing to do with it.
        stand.wants(1000, "low", limited(slots(1, 1), 100 + second));
    }
    assert_eq!(said, [format!("end 91 for {}", many + 1)]);
}

#[test]
fn who_waits_too_long_is_found_behind_many_who_can_be_given_nothing() {
    for preset in ["easy", "armada"] {
        let walk = match preset {
            "easy" => "queue.walk = \"skip\"\n",
            _ => "",
        };
        let policy = format!("preset = \"{preset}\"\n{walk}queue.reserve_after = \"2s\"");
        let mut stand = Stand::new(&policy, &[4, 4]);
        stand.apply(Delta::Down(Idset::one(1), Unavailable::Offline));
        stand.holds(0, "99 mid 0/0");
        for job in 1..=100 {
            let elsewhere = Request {
                ranks: Some(Idset::one(1)),
                ..slots(1, 1)
            };
            stand.wants(job, "mid", limited(elsewhere, 10));
        }
        stand.wants(101, "mid", limited(whole(1), 10));
        assert_eq!(stand.says(1), [""; 0], "{preset}");
        assert_eq!(stand.says(10), [""; 0], "{preset}");
        // It would still run when the first is over, for whom the node is kept.
        stand.wants(102, "mid", limited(slots(3, 1), 20_000));
        assert_eq!(stand.says(11), [""; 0], "{preset}");
    }
}
