//! How a job ended, step by step against what its fold as a whole says.

use super::*;
use crate::event::{Event, Record};
use crate::id::{Attempt, JobId, Seq};
use crate::job::Job;
use crate::jobspec::Ask;
use crate::spec::Spec;
use crate::time::Time;
use std::sync::Arc;

fn fatal(kind: &str) -> Kind {
    Kind::Exception(Box::new(Exception {
        kind: kind.to_owned(),
        severity: 0,
        note: String::new(),
        userid: None,
        until: None,
    }))
}

/// A job that waits, and what is told of it then, with its result by both folds.
fn results(requeue: Requeue, kinds: &[Kind]) -> (JobResult, JobResult) {
    let ask = Ask {
        command: vec!["true".to_owned()],
        ..Ask::default()
    };
    let spec = Spec::from_jobspec(ask.jobspec().expect("a jobspec")).expect("a spec");
    let submit = Submit {
        requeue,
        ..Submit::plain(7, Arc::new(spec))
    };
    let mut ending = Ending::new(&submit);
    let record = |at: usize, kind: &Kind| {
        let event = Event {
            t: Time(at as i64),
            job: Some(JobId(1)),
            kind: kind.clone(),
        };
        let seq = Seq(at as u64 + 1);
        Record { seq, event }
    };
    let made = record(0, &Kind::Submit(Arc::new(submit)));
    let mut job = Job::from_record(&made).expect("a submission");
    let begin = [Kind::Validate, Kind::Depend, Kind::Priority(16)];
    for (at, kind) in begin.iter().chain(kinds).enumerate() {
        ending.apply(kind);
        job.apply(&record(at + 1, kind)).expect("a life");
    }
    (ending.result(), job.result().expect("it is over"))
}

#[test]
fn a_result_is_the_one_that_the_whole_fold_has() {
    let again = [
        fatal("requeue"),
        Kind::Requeue(Attempt(2)),
        Kind::Priority(16),
    ];
    let lives: [&[Kind]; 6] = [
        &[fatal("cancel"), Kind::Clean],
        &[fatal("alloc"), fatal("cancel"), Kind::Clean],
        &[fatal("timeout"), fatal("cancel"), Kind::Clean],
        &[fatal("requeue"), fatal("cancel"), Kind::Clean],
        &[fatal("node-failure"), fatal("cancel"), Kind::Clean],
        &[&again[..], &[fatal("alloc"), Kind::Clean]].concat(),
    ];
    for requeue in [Requeue::No, Requeue::OnNodeFailure] {
        let results = lives.map(|kinds| results(requeue, kinds));
        for (at, (short, whole)) in results.into_iter().enumerate() {
            assert_eq!(short, whole, "{requeue:?}, life {at}");
        }
    }
}

#[test]
fn those_that_did_not_end_well_are_one_figure() {
    let mut ends = Ends::default();
    for result in [
        JobResult::Completed,
        JobResult::Failed,
        JobResult::Canceled,
        JobResult::Timeout,
    ] {
        ends.count(result);
    }
    assert_eq!((ends.completed, ends.unwell()), (1, 3));
}
