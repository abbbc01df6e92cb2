//! Charges of small histories, and that a summary stands for them.

use eddy_wire::event::{Basis, Event, Exception, Final, PassedTo};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Attempt, Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Ask, Jobspec};
use eddy_wire::reservation::{Kept, Purpose, Reservation};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::spec::Spec;

use super::*;

const SECOND: i64 = MICROS;

/// A ledger and the records that it folded.
#[derive(Default)]
struct Told {
    ledger: Ledger,
    records: Vec<Record>,
}

fn nodes(count: u32, cores: u32) -> Arc<ResourceSet> {
    let node = |rank: u32| {
        let node = NodeSet {
            host: format!("n{rank}").into(),
            cores: Idset::first_ids(cores),
            gpus: Idset::new(),
            memory: 4 << 30,
            ..NodeSet::default()
        };
        (Rank(rank), node)
    };
    Arc::new(ResourceSet {
        nodes: (0..count).map(node).collect(),
        ..ResourceSet::default()
    })
}

fn submit(account: &str) -> Kind {
    let ask = Ask {
        command: vec!["true".to_owned()],
        ..Ask::default()
    };
    let jobspec: Jobspec = ask.jobspec().expect("a jobspec");
    Kind::Submit(Arc::new(Submit {
        party: Party {
            account: Some(account.parse().expect("a name")),
            ..Default::default()
        },
        ..Submit::plain(7, Arc::new(Spec::from_jobspec(jobspec).expect("a spec")))
    }))
}

fn alloc(set: &Arc<ResourceSet>) -> Kind {
    Kind::Alloc(Arc::new(Grant {
        epoch: Epoch(1),
        set: Arc::clone(set),
        shells: BTreeMap::new(),
        beside: Default::default(),
        passed: None,
    }))
}

fn exception(kind: &str) -> Kind {
    Kind::Exception(Box::new(Exception {
        kind: kind.to_owned(),
        severity: 0,
        note: String::new(),
        userid: None,
        until: None,
    }))
}

impl Told {
    fn tell(&mut self, at: i64, job: u64, kind: Kind) {
        let record = Record {
            seq: Seq(self.records.len() as u64 + 1),
            event: Event {
                t: Time(at * SECOND),
                job: (job > 0).then_some(JobId(job)),
                kind,
            },
        };
        self.ledger.apply(&record);
        self.records.push(record);
    }

    /// Two nodes of four cores, both served.
    fn begun() -> Told {
        let mut told = Told::default();
        told.tell(0, 0, Kind::ResourceDefine(nodes(2, 4), Basis::default()));
        told.tell(0, 0, Kind::ShellStart(Idset::first_ids(2), Epoch(1)));
        told
    }

    fn report(&self, at: i64) -> UsageReport {
        report(&self.ledger, at)
    }
}

fn report(ledger: &Ledger, at: i64) -> UsageReport {
    let request = Request {
        caller: eddy_broker::Caller {
            client: eddy_broker::ClientId(1),
            matchtag: 1,
        },
        topic: "usage.report".to_owned(),
        uid: 0,
        roles: eddy_wire::message::Roles::OWNER,
        body: "{}".into(),
        tail: Default::default(),
    };
    let report = ledger
        .report(Time(at * SECOND), &request)
        .expect("a report");
    assert_eq!(
        report.identity.spent.sum(),
        report.identity.capacity,
        "{report:?}"
    );
    let spent = &report.identity.spent;
    let held = spent.jobs.plus(spent.instances);
    let paid = report.identity.charged.plus(report.identity.uncharged);
    assert_eq!(held.cores, paid.cores, "{report:?}");
    report
}

fn core_seconds(amounts: Amounts) -> u128 {
    assert_eq!(amounts.cores % SECOND as u128, 0);
    amounts.cores / SECOND as u128
}

#[test]
fn a_job_is_charged_from_its_grant_to_its_release_node_by_node() {
    let mut told = Told::begun();
    told.tell(10, 1, submit("a"));
    told.tell(10, 1, alloc(&nodes(2, 4)));
    assert_eq!(core_seconds(told.report(15).rows[0].running), 40);
    told.tell(20, 1, Kind::Finish(0));
    told.tell(20, 1, Kind::Release(Idset::one(0), Final::No));
    told.tell(30, 1, Kind::Release(Idset::first_ids(2), Final::Yes));
    told.tell(30, 1, Kind::Free);
    told.tell(30, 1, Kind::Clean);
    let report = told.report(100);
    assert_eq!(core_seconds(report.rows[0].charged), 40 + 80);
    assert_eq!(report.rows[0].running, Amounts::default());
    assert_eq!(core_seconds(report.identity.spent.idle), 800 - 120);
    assert_eq!(report.rows[0].charged.nodes, 30 * SECOND as u128);
}

#[test]
fn nobody_pays_for_a_node_that_failed_and_both_attempts_are_paid_for_else() {
    let mut told = Told::begun();
    told.tell(0, 1, submit("a"));
    for (attempt, why) in [(1, "node-failure"), (2, "requeue")] {
        let begin = i64::from(attempt) * 100;
        told.tell(begin, 1, alloc(&nodes(1, 4)));
        told.tell(begin + 10, 1, exception(why));
        told.tell(begin + 10, 1, Kind::Release(Idset::one(0), Final::Yes));
        told.tell(begin + 10, 1, Kind::Free);
        told.tell(begin + 10, 1, Kind::Requeue(Attempt(attempt + 1)));
    }
    told.tell(300, 1, alloc(&nodes(1, 4)));
    let report = told.report(305);
    assert_eq!(core_seconds(report.identity.uncharged), 40);
    assert_eq!(core_seconds(report.rows[0].charged), 40);
    assert_eq!(core_seconds(report.rows[0].running), 20);
}

#[test]
fn what_is_out_of_service_is_not_idle() {
    let mut told = Told::begun();
    told.tell(10, 0, Kind::Drain(Idset::one(0), "x".to_owned(), 0));
    told.tell(20, 0, Kind::Undrain(Idset::one(0), None));
    told.tell(30, 0, Kind::ShellLost(Epoch(1), None));
    told.tell(40, 0, Kind::ResourceDefine(nodes(1, 4), Basis::default()));
    let spent = told.report(50).identity.spent;
    let seconds = [spent.idle, spent.drained, spent.down].map(core_seconds);
    assert_eq!(seconds, [10 * 8 + 10 * 4 + 10 * 8, 10 * 4, 10 * 8 + 10 * 4]);
}

#[test]
fn what_jobs_hold_of_a_node_that_has_left_is_capacity_still() {
    let mut told = Told::begun();
    told.tell(10, 1, submit("a"));
    told.tell(10, 1, alloc(&nodes(2, 3)));
    told.tell(20, 0, Kind::ResourceDefine(nodes(1, 4), Basis::default()));
    told.tell(30, 1, Kind::Free);
    let identity = told.report(40).identity;
    assert_eq!(core_seconds(identity.capacity), 20 * 8 + 10 * 7 + 10 * 4);
    assert_eq!(identity.spent.sum(), identity.capacity);
    assert_eq!(core_seconds(identity.spent.jobs), 20 * 6);
}

/// A shell says late when its job ended, where no leader was there; the node was counted meanwhile.
#[test]
fn what_was_given_back_before_it_was_heard_of_is_not_held_until_then() {
    let mut told = Told::begun();
    told.tell(10, 1, submit("a"));
    told.tell(10, 1, alloc(&nodes(1, 3)));
    told.tell(30, 0, Kind::ShellLost(Epoch(1), None));
    told.tell(20, 1, Kind::Free);
    let identity = told.report(40).identity;
    assert_eq!(core_seconds(identity.charged), 10 * 3);
    assert_eq!(core_seconds(identity.spent.jobs), 10 * 3);
    assert_eq!(identity.spent.sum(), identity.capacity);
}

/// A queue instance whose clock was set back says that a job began before anything was counted, and how it ended.
#[test]
fn what_began_by_a_clock_that_was_set_back_is_no_more_than_it_held() {
    let mut told = Told::begun();
    let to = PassedTo {
        instance: "q".to_owned(),
        with: None,
    };
    told.tell(
        40,
        0,
        Kind::Drain(Idset::first_ids(2), "new fans".to_owned(), 0),
    );
    for job in [1, 2] {
        told.tell(40, job, submit("a"));
        told.tell(40, job, Kind::Passed(to.clone()));
        told.tell(-100, job, alloc(&nodes(1, 2)));
    }
    told.tell(-90, 1, Kind::Free);
    told.tell(-85, 2, Kind::Free);
    let identity = told.report(50).identity;
    assert_eq!(core_seconds(identity.spent.jobs), 10 * 2 + 15 * 2);
    assert_eq!(core_seconds(identity.capacity), 50 * 8);
}

#[test]
fn a_summary_keeps_what_is_owed_by_a_clock_that_was_set_back() {
    let mut told = Told::begun();
    let to = PassedTo {
        instance: "q".to_owned(),
        with: None,
    };
    told.tell(40, 0, Kind::Drain(Idset::first_ids(2), "x".to_owned(), 0));
    for job in [1, 2] {
        told.tell(40, job, submit("a"));
        told.tell(40, job, Kind::Passed(to.clone()));
        told.tell(-100, job, alloc(&nodes(1, 2)));
    }
    let before = told.report(50);
    let (_, summary) = told.ledger.summary(Time(50 * SECOND));
    told.tell(50, 0, Kind::Usage(Box::new(summary)));
    assert_eq!(told.report(50), before);
    told.tell(-90, 1, Kind::Free);
    told.tell(-85, 2, Kind::Free);
    let identity = told.report(50).identity;
    assert_eq!(core_seconds(identity.capacity), 50 * 8);
    assert_eq!(identity.spent.sum(), identity.capacity);
}

#[test]
fn a_summary_stands_for_all_before_it() {
    let mut told = Told::begun();
    for (job, account) in [(1, "a"), (2, "b"), (3, "a")] {
        let begin = job as i64 * 5_000;
        told.tell(begin, job, submit(account));
        told.tell(begin, job, alloc(&nodes(1, 2)));
        told.tell(begin + 4_321, job, Kind::Free);
        told.tell(begin + 4_321, job, Kind::Clean);
    }
    told.tell(20_000, 4, submit("b"));
    told.tell(20_001, 4, alloc(&nodes(1, 2)));
    let (days, summary) = told.ledger.summary(Time(90_000 * SECOND));
    assert!(days.is_empty(), "none is over for so long");
    let text = serde_json::to_string(&summary).expect("JSON");
    assert_eq!(serde_json::from_str::<Tally>(&text).expect("read"), summary);
    let before = told.report(90_000);
    told.tell(90_000, 0, Kind::Usage(Box::new(summary)));
    assert_eq!(told.report(90_000), before);
    told.tell(90_010, 4, Kind::Free);
    told.tell(90_010, 4, Kind::Clean);
    // What a mark keeps: the inventory, the shells, the job that was running, the summary.
    let mut again = Ledger::default();
    let kept = |record: &&Record| matches!(record.event.job, None | Some(JobId(4)));
    told.records
        .iter()
        .filter(kept)
        .for_each(|one| again.apply(one));
    assert_eq!(report(&again, 95_000), told.report(95_000));
}

#[test]
fn how_jobs_ended_is_counted_through_summaries() {
    let mut told = Told::begun();
    let ends: [(u64, &[Kind]); 4] = [
        (1, &[Kind::Finish(0)]),
        (2, &[Kind::Finish(256)]),
        (3, &[exception("cancel")]),
        (4, &[Kind::Finish(0), exception("timeout")]),
    ];
    for (job, kinds) in ends {
        told.tell(1, job, submit("a"));
        kinds
            .iter()
            .for_each(|kind| told.tell(2, job, kind.clone()));
        told.tell(3, job, Kind::Clean);
    }
    let (_, summary) = told.ledger.summary(Time(4 * SECOND));
    // What is kept of those jobs is the summary.
    let mut again = Told::begun();
    again.tell(4, 0, Kind::Usage(Box::new(summary.clone())));
    again.tell(5, 5, submit("a"));
    again.tell(6, 5, exception("requeue"));
    again.tell(6, 5, Kind::Requeue(Attempt(2)));
    again.tell(7, 5, Kind::Finish(0));
    again.tell(7, 5, Kind::Clean);
    let all = Ends {
        completed: 2,
        failed: 1,
        canceled: 1,
        timeout: 1,
    };
    assert_eq!(again.ledger.past, Past::Whole(all));
    // Of one that was made without it nothing is known, also later.
    let unsaid = Tally {
        ends: None,
        ..summary
    };
    again.tell(8, 0, Kind::Usage(Box::new(unsaid)));
    again.tell(9, 6, submit("a"));
    again.tell(9, 6, Kind::Clean);
    let (_, summary) = again.ledger.summary(Time(10 * SECOND));
    assert_eq!(summary.ends, None);
}

#[test]
fn a_long_run_is_few_stretches_and_their_sum_is_exact() {
    let mut books = Books::default();
    let payer = Payer::default();
    let held = Amounts {
        cores: 3,
        ..Amounts::default()
    };
    let (from, to) = (Time(7), Time(900 * 86_400 * SECOND + 12_345));
    books.charge(&payer, from, to, held);
    assert_eq!(books.total(), held.over(to - from));
    let count = books.stretches().count();
    assert!(count < 700, "{count} stretches");
    let later = Time(to.0 + 500 * 86_400 * SECOND);
    let (days, rest) = books.summary(later);
    assert!(days.len() < 50 && rest.is_empty());
    let mut wider = Books::default();
    for (seq, day) in (1..).zip(days) {
        wider.said(Seq(seq), &Arc::new(day));
    }
    wider.restore(later, &rest);
    assert_eq!(wider.total(), books.total());
}

#[test]
fn what_is_kept_and_unused_is_counted_apart_from_the_beginning_to_the_end() {
    let made = |name: &str, (from, until): (i64, i64), ranks: Idset, purpose: Purpose| {
        Kind::Reservation(Box::new(Kept::Made(Arc::new(Reservation {
            name: name.parse().expect("a name"),
            from: Time(from * SECOND),
            until: Time(until * SECOND),
            ranks,
            purpose,
            userid: 0,
        }))))
    };
    let jobs = Purpose::Jobs {
        accounts: Vec::new(),
        users: vec![7],
    };
    let mut told = Told::begun();
    told.tell(0, 0, made("r", (10, 40), Idset::first_ids(2), jobs.clone()));
    told.tell(
        0,
        0,
        made("m", (60, 90), Idset::one(0), Purpose::Maintenance),
    );
    told.tell(0, 0, made("d", (45, 99), Idset::one(1), jobs));
    told.tell(15, 1, submit("a"));
    told.tell(15, 1, alloc(&nodes(1, 4)));
    told.tell(20, 0, Kind::Drain(Idset::one(1), "x".to_owned(), 0));
    told.tell(25, 1, Kind::Free);
    told.tell(30, 0, Kind::Undrain(Idset::one(1), None));
    let (name, userid) = ("d".parse().expect("a name"), 0);
    let deleted = Kept::Deleted { name, userid };
    told.tell(50, 0, Kind::Reservation(Box::new(deleted)));
    told.tell(70, 0, Kind::Drain(Idset::one(0), "x".to_owned(), 0));
    let spent = told.report(100).identity.spent;
    let seconds = [spent.reserved, spent.maintenance, spent.drained].map(core_seconds);
    // Rank 0 but for the job, rank 1 but while it was drained, and rank 1 until that was deleted.
    let reserved = (5 + 15) * 4 + (10 + 10) * 4 + 5 * 4;
    assert_eq!(seconds, [reserved, 30 * 4, 10 * 4 + 10 * 4]);
}

/// The mark of a year's use, with a start from what it leaves.
#[test]
fn a_start_reads_closed_days_and_the_summary_and_tells_the_same() {
    let day = 86_400;
    let mut told = Told::begun();
    for job in 1..=40_u64 {
        let begin = job as i64 * 11 * day;
        told.tell(begin, job, submit("a"));
        told.tell(begin, job, alloc(&nodes(1, 2)));
        told.tell(begin + 2 * day + 77, job, Kind::Free);
        told.tell(begin + 2 * day + 77, job, Kind::Clean);
        let at = begin + 5 * day;
        let (days, summary) = told.ledger.summary(Time(at * SECOND));
        for one in days {
            told.tell(at, 0, Kind::UsageDay(Arc::new(one)));
        }
        told.tell(at, 0, Kind::Usage(Box::new(summary)));
    }
    let mut live = Vec::new();
    told.ledger.live(&mut live);
    let mut again = Ledger::default();
    for record in &told.records {
        let name = record.event.kind.name();
        let is_kept = match name {
            "usage" | "usage-day" => live.contains(&record.seq),
            _ => record.event.job.is_none(),
        };
        if is_kept {
            again.apply(record);
        }
    }
    assert_eq!(report(&again, 500 * day), told.report(500 * day));
    assert_eq!(
        core_seconds(told.report(500 * day).rows[0].charged),
        80 * (2 * day as u128 + 77)
    );
}
