//! Who asks why jobs wait is answered in turn, and holds nobody up for long.

use eddy_wire::Time;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::plan::{Delta, Question, Suppose, Want};

use super::model::{inventory, slots};
use crate::Lines;

#[test]
fn of_those_who_name_jobs_one_is_answered_in_a_slice() {
    const JOB: JobId = JobId(50);
    let mut lines = Lines::new();
    lines.apply(Delta::Inventory(inventory(&[(4, 0, 0), (4, 0, 0)])));
    lines.apply(Delta::Up(Idset::first_ids(1)));
    lines.apply(Delta::Want(JOB, Want::of(16, slots(8, 1))));
    let question = |tag: u64, jobs: Option<Vec<(JobId, JobId)>>| {
        Delta::Explain(Question {
            tag,
            jobs,
            most: 9,
            suppose: Suppose::default(),
            wants: Vec::new(),
            lent: Vec::new(),
        })
    };
    let named = || Some(vec![(JOB, JOB)]);
    for delta in [
        question(1, named()),
        question(2, named()),
        question(3, None),
        question(4, named()),
    ] {
        lines.apply(delta);
    }
    let mut slices = Vec::new();
    loop {
        let outcome = lines.plan(Time(0), 100);
        let mut tags: Vec<u64> = outcome.answers.iter().map(|one| one.tag).collect();
        tags.sort_unstable();
        slices.push(tags);
        assert!(outcome.answers.iter().all(|one| one.jobs.len() == 1));
        if !outcome.unfinished {
            break;
        }
    }
    assert_eq!(slices, [vec![1, 3], vec![2], vec![4]]);
}
