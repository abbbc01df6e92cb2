//! The lines of RFC 21 that one record is told as, and what it implies for its job.

use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::event::{EVENT_VERSION, Entry, Event, Final, Kind, PassedTo, Record, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::job::{Holding, Job};
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::job::{EventsLine, Told};
use eddy_wire::usage::{Day, Share};
use serde_json::json;

use super::life::{alloc, life, running, submit, tally};

fn lines(version: u16, name: &str, context: String) -> Vec<String> {
    let line = EventsLine {
        seq: Seq(7),
        timestamp: Time(7),
        name: name.to_owned(),
        context: EventsLine::raw(context),
    };
    let told = Told { version, line }.lines();
    assert!(
        told.iter()
            .all(|line| (line.seq, line.timestamp) == (Seq(7), Time(7)))
    );
    told.into_iter().map(|line| line.name).collect()
}

#[test]
fn a_submission_that_waits_for_nothing_is_three_lines_and_leaves_its_job_in_priority() {
    let Kind::Submit(submit) = submit() else {
        panic!("it is a submission")
    };
    assert_eq!(
        lines(1, "submit", Kind::Submit(Arc::clone(&submit)).context()),
        ["submit"]
    );
    let at_once = Kind::Submit(Arc::new(Submit {
        entry: Entry::of(&submit.spec, None),
        ..submit.as_ref().clone()
    }));
    assert_eq!(
        lines(EVENT_VERSION, "submit", at_once.context()),
        ["submit", "validate", "depend"]
    );
    let job = Job::from_record(&Record {
        seq: Seq(1),
        event: Event {
            t: Time(1),
            job: Some(JobId(1)),
            kind: at_once,
        },
    });
    assert_eq!(job.map(|job| job.state), Some(JobState::Priority));
}

/// A job of which nothing is asked is in the queue by its submission and over by its last release: two records
/// less, and the same lines and the same job as with them.
#[test]
fn what_a_record_implies_is_a_line_of_it_and_folded_after_it() {
    let Kind::Submit(submit) = submit() else {
        panic!("it is a submission")
    };
    let queued = Kind::Submit(Arc::new(Submit {
        entry: Entry::Queued(16),
        ..submit.as_ref().clone()
    }));
    let over = Kind::Release(Idset::one(0), Final::Over(Some(9)));
    assert_eq!(
        lines(EVENT_VERSION, "submit", queued.context()),
        ["submit", "validate", "depend", "priority"]
    );
    assert_eq!(
        lines(EVENT_VERSION, "release", over.context()),
        ["finish", "release", "free", "clean"]
    );
    let record = |seq: u64, kind: &Kind| Record {
        seq: Seq(seq),
        event: Event {
            t: Time(seq as i64),
            job: Some(JobId(1)),
            kind: kind.clone(),
        },
    };
    let short = [queued, Kind::Alloc(alloc()), Kind::Start, over];
    let mut folded = Job::from_record(&record(1, &short[0])).expect("a submission");
    for (seq, kind) in (1..).zip(&short) {
        let own = record(seq, kind);
        if seq > 1 {
            folded.apply(&own).expect("a legal life");
        }
        if let Some(implied) = own.implied() {
            folded.apply(&implied).expect("a legal life");
        }
    }
    assert_eq!(folded.state, JobState::Inactive);
    assert_eq!((folded.priority, folded.status), (Some(16), Some(9)));
    assert_eq!(folded.t_inactive, Some(Time(4)));
    assert_eq!(folded.seqs, [1, 2, 3, 4].map(Seq));
}

/// What all were charged in a year is longer than a message may be, and `usage.report` tells of it.
#[test]
fn the_line_of_a_summary_leaves_out_who_was_charged_what() {
    let line = |kind: &Kind| {
        let record = Record {
            seq: Seq(7),
            event: Event {
                t: Time(7),
                job: None,
                kind: kind.clone(),
            },
        };
        let lines = EventsLine::of(&record);
        let context = lines[0].context.as_ref().expect("a context").get();
        let context: serde_json::Value = serde_json::from_str(context).expect("JSON");
        assert_eq!((lines.len(), lines[0].name.as_str()), (1, kind.name()));
        context
    };
    let told = line(&Kind::Usage(Box::new(tally())));
    assert_eq!(told["uncharged"], json!({"cores": 2}));
    assert!(told.get("accounts").is_none(), "{told}");
    let day = Kind::UsageDay(Arc::new(Day {
        from: 1,
        width: 2,
        until: 3,
        accounts: vec![Share::default()],
    }));
    assert_eq!(line(&day), json!({"from": 1, "width": 2, "until": 3}));
}

#[test]
fn a_grant_that_passes_its_job_is_two_lines() {
    let passed = Kind::Alloc(Arc::new(Grant {
        passed: Some(Arc::new(PassedTo {
            instance: "batch".to_owned(),
            with: None,
        })),
        ..alloc().as_ref().clone()
    }));
    assert_eq!(
        lines(EVENT_VERSION, "alloc", passed.context()),
        ["passed", "alloc"]
    );
    assert_eq!(
        lines(EVENT_VERSION, "alloc", Kind::Alloc(alloc()).context()),
        ["alloc"]
    );
}

#[test]
fn the_last_release_of_a_job_frees_what_it_held_and_is_two_lines() {
    let release = |last| Kind::Release(Idset::range(0, 3), last);
    let of = |last| lines(EVENT_VERSION, "release", release(last).context());
    assert_eq!(of(Final::No), ["release"]);
    assert_eq!(of(Final::Yes), ["release"]);
    assert_eq!(of(Final::Free(None)), ["release", "free"]);
    let ended = |last| life(&[running(), vec![Kind::Finish(0), release(last)]].concat());
    assert!(matches!(ended(Final::Yes).holding, Holding::Held(_)));
    assert!(matches!(
        ended(Final::Free(None)).holding,
        Holding::Freed(_)
    ));
    let illegal = JobState::Run.next(&release(Final::Free(None)));
    assert!(illegal.is_err(), "what runs is not free");
}

#[test]
fn a_release_with_the_status_of_its_tasks_is_their_end_too() {
    let release = |status| Kind::Release(Idset::one(0), Final::Free(status));
    let told = lines(EVENT_VERSION, "release", release(Some(9)).context());
    assert_eq!(told, ["finish", "release", "free"]);
    let at_once = life(&[running(), vec![release(Some(9))]].concat());
    let apart = life(&[running(), vec![Kind::Finish(9), release(None)]].concat());
    assert_eq!(at_once.state, JobState::Cleanup);
    assert_eq!(
        (at_once.status, at_once.result(), at_once.holding),
        (apart.status, apart.result(), apart.holding)
    );
}
