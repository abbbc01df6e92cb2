//! What an attempt is charged in the end is what its records tell, whatever was reckoned while it held something.

use std::sync::Arc;

use eddy_wire::held::Stay;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Owner, Verdict, Want};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{MICROS, Time};
use eddy_wire::usage::Amounts;

use super::model::{inventory, nodes};
use crate::policy::read::read;
use crate::{Lines, Planner};

const NOW: i64 = 1_800_000_000;
const USER: u32 = 7;
const JOB: JobId = JobId(1);

/// So many seconds from the beginning on.
fn at(seconds: i64) -> Time {
    Time((NOW + seconds) * MICROS)
}

fn owner() -> Owner {
    Owner {
        user: USER,
        ..Owner::default()
    }
}

/// These ranks of four cores each, since the beginning.
fn held(ranks: u32) -> Arc<ResourceSet> {
    let mut set = (*inventory(&[(4, 0, 0); 3])).clone();
    set.nodes.retain(|rank, _| rank.0 < ranks);
    set.starttime = at(0).0;
    Arc::new(set)
}

/// So many cores of a node for so long.
fn stay(from: i64, to: i64, cores: u128) -> Stay {
    Stay {
        from: at(from),
        to: at(to),
        held: Amounts {
            nodes: 1,
            cores,
            ..Amounts::default()
        },
    }
}

fn settled(stays: &[Stay]) -> Delta {
    Delta::Settled(JOB, owner(), Stay::together(stays).into())
}

/// Planners that forget by this.
fn lines(decay: &str) -> Lines {
    let mut lines = Lines::new();
    let text = format!("preset = \"flux\"\nusage.decay = {decay}");
    lines.apply(Delta::Policy(text.as_str().into()));
    lines.apply(Delta::Inventory(inventory(&[(4, 0, 0); 3])));
    lines.apply(Delta::Up(Idset::first_ids(3)));
    lines
}

/// What the user is told to have used by then.
fn used(lines: &mut Lines, seconds: i64) -> f64 {
    lines.apply(Delta::Shares(1));
    let told = lines.plan(at(seconds), 9).shares.expect("asked for");
    let row = told.rows.into_iter().find(|row| row.user == Some(USER));
    row.map_or(0.0, |row| row.usage)
}

const NONE: &str = "{ form = \"none\" }";

#[test]
fn what_ended_long_before_it_was_heard_is_charged_to_its_end() {
    let mut lines = lines(NONE);
    lines.apply(Delta::Held(JOB, owner(), held(1)));
    assert_eq!(
        used(&mut lines, 20),
        80.0,
        "it is charged until its end is heard"
    );
    lines.apply(settled(&[stay(0, 3, 4)]));
    lines.apply(Delta::Freed(JOB));
    assert_eq!(used(&mut lines, 30), 12.0);
    assert_eq!(used(&mut lines, 300), 12.0);
}

#[test]
fn what_is_nobodys_is_charged_to_nobody() {
    let mut lines = lines(NONE);
    lines.apply(Delta::Held(JOB, owner(), held(2)));
    assert_eq!(used(&mut lines, 10), 80.0);
    lines.apply(settled(&[]));
    lines.apply(Delta::Freed(JOB));
    assert_eq!(used(&mut lines, 20), 0.0);
}

/// Of an attempt that several passes charged, while hardly anything fades, nothing is left, however little.
#[test]
fn who_has_nothing_left_is_due_what_he_was() {
    for decay in [NONE, "{ form = \"exponential\", half = \"7d\" }"] {
        let mut lines = lines(decay);
        lines.apply(Delta::Held(JOB, owner(), held(1)));
        for seconds in [3, 7] {
            assert!(used(&mut lines, seconds) > 0.0);
        }
        lines.apply(settled(&[]));
        lines.apply(Delta::Freed(JOB));
        assert_eq!(used(&mut lines, 9), 0.0, "{decay}");
    }
}

#[test]
fn who_used_something_else_has_that_alone_left() {
    const OTHER: JobId = JobId(2);
    for decay in [
        NONE,
        "{ form = \"exponential\", half = \"1m\" }",
        "{ form = \"bins\", count = 4, period = \"1m\", factor = 0.5 }",
    ] {
        let alone = {
            let mut lines = lines(decay);
            lines.apply(Delta::Held(OTHER, owner(), held(1)));
            used(&mut lines, 200)
        };
        let mut lines = lines(decay);
        lines.apply(Delta::Held(OTHER, owner(), held(1)));
        lines.apply(Delta::Held(JOB, owner(), held(2)));
        used(&mut lines, 90);
        lines.apply(settled(&[]));
        lines.apply(Delta::Freed(JOB));
        used(&mut lines, 150);
        let left = used(&mut lines, 200);
        assert!(
            (left - alone).abs() < 1e-9 * alone,
            "{decay}: {left}, not {alone}"
        );
    }
}

/// What it gave back before it was over it is not charged for on.
#[test]
fn each_node_is_charged_to_when_it_was_given_back() {
    let mut lines = lines(NONE);
    lines.apply(Delta::Held(JOB, owner(), held(3)));
    used(&mut lines, 10);
    lines.apply(Delta::Held(JOB, owner(), held(2)));
    used(&mut lines, 20);
    let stays = [stay(0, 10, 4), stay(0, 15, 4), stay(0, 20, 4)];
    lines.apply(settled(&stays));
    lines.apply(Delta::Freed(JOB));
    assert_eq!(used(&mut lines, 40), 40.0 + 60.0 + 80.0);
}

/// The next attempt has begun before a pass hears of the end of the last.
#[test]
fn each_attempt_is_charged_by_itself() {
    let mut lines = lines(NONE);
    lines.apply(Delta::Held(JOB, owner(), held(1)));
    used(&mut lines, 10);
    lines.apply(settled(&[]));
    lines.apply(Delta::Freed(JOB));
    let mut again = (*held(1)).clone();
    again.starttime = at(12).0;
    lines.apply(Delta::Held(JOB, owner(), Arc::new(again)));
    assert_eq!(used(&mut lines, 20), 32.0);
    lines.apply(settled(&[stay(12, 15, 4)]));
    lines.apply(Delta::Freed(JOB));
    assert_eq!(used(&mut lines, 30), 12.0);
}

/// Also in the lines of others, where none of what it has left is held.
#[test]
fn what_was_suspended_is_charged_what_it_had() {
    let aside: Arc<str> = "aside".into();
    for line in [None, Some(aside.clone())] {
        let mut lines = lines(NONE);
        lines.apply(Delta::Line(aside.clone(), Some(held(2))));
        let owner = Owner {
            line: line.clone(),
            ..owner()
        };
        lines.apply(Delta::Held(JOB, owner.clone(), held(1)));
        assert_eq!(used(&mut lines, 10), 40.0);
        lines.apply(Delta::Rests(JOB, line, Arc::new(ResourceSet::new())));
        assert_eq!(used(&mut lines, 10), 40.0);
        assert_eq!(used(&mut lines, 20), 40.0);
        lines.apply(Delta::Held(JOB, owner.clone(), held(1)));
        assert_eq!(
            used(&mut lines, 20),
            40.0,
            "its rest is not charged when it goes on"
        );
        assert_eq!(used(&mut lines, 30), 80.0);
        let stays = [stay(0, 9, 4), stay(20, 30, 4)];
        lines.apply(Delta::Settled(JOB, owner, Stay::together(&stays).into()));
        lines.apply(Delta::Freed(JOB));
        assert_eq!(used(&mut lines, 40), 76.0);
    }
}

/// However late it is heard of.
#[test]
fn who_goes_on_is_charged_from_then() {
    for decay in [NONE, "{ form = \"exponential\", half = \"7d\" }"] {
        let mut lines = lines(decay);
        lines.apply(Delta::Held(JOB, owner(), held(1)));
        used(&mut lines, 10);
        lines.apply(Delta::Rests(JOB, None, Arc::new(ResourceSet::new())));
        let before = used(&mut lines, 10);
        used(&mut lines, 15);
        let mut again = (*held(1)).clone();
        again.starttime = at(20).0;
        lines.apply(Delta::Held(JOB, owner(), Arc::new(again)));
        let more = used(&mut lines, 30) - before;
        assert!((more - 40.0).abs() < 0.01, "{decay}: {more}");
    }
}

#[test]
fn a_start_that_is_not_recorded_was_never_charged() {
    let policy = read(&format!("preset = \"flux\"\nusage.decay = {NONE}"));
    let mut planner = Planner::with(policy.expect("a policy"));
    planner.apply(Delta::Inventory(inventory(&[(4, 0, 0)])));
    planner.apply(Delta::Up(Idset::one(0)));
    let want = Want {
        owner: owner(),
        ..Want::of(16, nodes(1, 1, 4))
    };
    planner.apply(Delta::Want(JOB, want));
    let outcome = planner.plan(at(0), 9);
    assert!(matches!(outcome.verdicts[..], [(JOB, Verdict::Start(_))]));
    planner.plan(at(5), 9);
    planner.apply(Delta::Unwant(JOB));
    planner.apply(Delta::Freed(JOB));
    planner.apply(Delta::Shares(1));
    let told = planner.plan(at(10), 9).shares.expect("asked for");
    assert!(told.rows.iter().all(|row| row.usage == 0.0), "{told:?}");
}

/// Another account is to pay for it by the time its start is recorded.
#[test]
fn a_start_that_is_recorded_as_anothers_is_not_charged_to_who_asked() {
    let mut lines = lines(NONE);
    let asked = Owner { user: 8, ..owner() };
    let want = Want {
        owner: asked,
        ..Want::of(16, nodes(1, 1, 4))
    };
    lines.apply(Delta::Want(JOB, want));
    let outcome = lines.plan(at(0), 9);
    let Some((_, Verdict::Start(set))) = outcome.verdicts.into_iter().next() else {
        panic!("it starts");
    };
    lines.plan(at(5), 9);
    lines.apply(Delta::Held(JOB, owner(), set));
    assert_eq!(used(&mut lines, 10), 40.0);
    lines.apply(settled(&[stay(0, 10, 4)]));
    lines.apply(Delta::Freed(JOB));
    assert_eq!(used(&mut lines, 20), 40.0);
    lines.apply(Delta::Shares(1));
    let told = lines.plan(at(30), 9).shares.expect("asked for");
    let all: f64 = told
        .rows
        .iter()
        .filter(|row| row.user.is_some())
        .map(|row| row.usage)
        .sum();
    assert_eq!(all, 40.0, "{told:?}");
}
