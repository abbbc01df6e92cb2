//! What is told of jobs and instances, from what ledgers say.

use eddy_wire::services::usage::Identity;
use eddy_wire::usage::{Payer, Spent};

use super::*;

fn seconds(nodes: u128, cores: u128) -> Amounts {
    Amounts {
        nodes: nodes * 1_000_000,
        cores: cores * 1_000_000,
        ..Amounts::default()
    }
}

fn paid(queue: &str, nodes: u128, cores: u128) -> UsageRow {
    UsageRow {
        payer: Payer {
            queue: Some(queue.to_owned()),
            ..Payer::default()
        },
        charged: seconds(nodes, cores),
        running: Amounts::default(),
    }
}

/// Of a root with jobs in three queues, and an instance that has 30 core-seconds for nobody.
fn report() -> UsageReport {
    UsageReport {
        rows: vec![paid("a", 1, 8), paid("b", 2, 5), paid("c", 3, 10)],
        identity: Identity {
            capacity: seconds(0, 100),
            spent: Spent {
                jobs: seconds(0, 23),
                declared: [("fixed".to_owned(), seconds(0, 30))].into(),
                ..Spent::default()
            },
            charged: seconds(6, 23),
            uncharged: Amounts::default(),
        },
        ..UsageReport::default()
    }
}

fn declared(name: &str, queue: &str) -> ChildRow {
    let row = json!({
        "job": 2, "name": name, "instance": null, "uri": null, "statedir": null, "stage": "serving",
        "nnodes": 0, "ncores": 0, "queues": [queue], "declared": true, "until": null,
        "summary": eddy_wire::services::child::Summary::default(),
    });
    serde_json::from_value(row).expect("a row")
}

fn row(queue: &str) -> JobRow {
    JobRow {
        queue: queue.to_owned(),
        ..crate::field::tests::row()
    }
}

fn cost(queue: &str, charged: Amounts, inside: Inside) -> Cost {
    Cost {
        row: row(queue),
        charged,
        running: Amounts::default(),
        lives: Lives::default(),
        inside,
    }
}

#[test]
fn a_declared_instance_is_told_what_the_jobs_of_its_queues_are_charged() {
    let report = report();
    let elastic = Served::of(&declared("elastic", "a"), &report);
    assert_eq!((elastic.used, elastic.of), (Some(seconds(1, 8)), None));
    let fixed = Served::of(&declared("fixed", "c"), &report);
    assert_eq!(fixed.used, Some(seconds(3, 10)));
    assert_eq!(fixed.of.map(|of| of.cores), Some(40_000_000));
    let mut own = report;
    own.rows.pop();
    let told = Served::of(&declared("elastic", "a"), &own);
    assert_eq!(told.used, None, "who is told of his own jobs alone");
}

#[test]
fn a_sum_has_each_core_second_once() {
    let report = report();
    let served = |name, queue| Inside::Declared(Served::of(&declared(name, queue), &report));
    let of_user = |used| Inside::Used {
        used: seconds(1, used),
        of: seconds(0, 8),
    };
    let nothing = Amounts::default();
    let costs = [
        cost("", nothing, served("elastic", "a")),
        cost("", nothing, served("fixed", "c")),
        cost("a", seconds(1, 8), of_user(6)),
        cost("b", seconds(2, 5), of_user(4)),
    ];
    let text = |costs: &[Cost]| {
        let mut text = Vec::new();
        table(costs, &Users::read())
            .write_rows(&mut text)
            .expect("memory");
        let text = String::from_utf8(text).expect("UTF-8");
        let words = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().skip(4).collect();
            words.join(" ")
        };
        text.lines().map(words).collect::<Vec<String>>()
    };
    assert_eq!(
        text(&costs),
        [
            "- - - 8.0 - -",
            "- - - 10.0 40.0 25.0 %",
            "1.0 8.0 0.0 6.0 8.0 75.0 %",
            "2.0 5.0 0.0 4.0 8.0 50.0 %",
            "3.0 13.0 0.0 22.0 - -",
        ],
        "the instance in queue a is in what the first used"
    );
    assert_eq!(text(&costs[2..])[2], "3.0 13.0 0.0 10.0 16.0 62.5 %");
}

#[test]
fn nodes_are_told_where_they_are_counted() {
    let (used, of) = used_of(&report());
    let inside = Inside::Used { used, of };
    let told = document(&[cost("a", seconds(1, 8), inside)], &Users::read());
    assert_eq!(told[0]["used"]["node_us"], 6_000_000);
    assert_eq!(told[0]["had"]["node_us"], Value::Null);
    assert_eq!(told[0]["had"]["core_us"], 100_000_000);
}
