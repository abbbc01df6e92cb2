//! The language of scripts: changes in short form, and what a planner says to them.
//!
//! ```text
//! nodes 4c 8c,2g,16m         inventory: cores, GPUs, bytes of memory of each node
//! up 0-1 / down 1 / lost 1   ranks: in service, drained, offline
//! want 7 slots=2 cores=4     also nodes= most= gpus= node-mem= core-mem= task-mem= tasks= at= ranks=
//!                            whole beside
//! unwant 7 / freed 7
//! held 7 0/0-3 1/0-3         rank/cores
//! ground 7 0/0-3             the same, of an instance of a fixed size
//! plan [steps]               prints verdicts: rank/cores, then gGPUS and mBYTES if there are any
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::id::{JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Choice, Count, MemoryNeed, Request, Sharing, Takes, Tasks};
use eddy_wire::plan::{Delta, Outcome, Owner, Unavailable, Verdict, Want};
use eddy_wire::resource_set::{NodeSet, ResourceSet};

use super::model::{inventory, nodes, slots, urgency};
use crate::Planner;

/// Runs a script; what it prints is what is expected after the line `----`.
pub(crate) fn check(text: &str) {
    let (script, expected) = text.split_once("----\n").expect("a script has a line ----");
    let mut planner = Planner::new();
    let mut said = String::new();
    for line in script
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["plan", steps @ ..] => {
                let steps = steps
                    .first()
                    .map_or(100, |steps| steps.parse().expect("steps"));
                print(&mut said, &planner.plan(Time(5), steps));
            }
            words => planner.apply(delta(words)),
        }
    }
    let expected: Vec<&str> = expected
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    assert_eq!(
        said.lines().collect::<Vec<_>>(),
        expected,
        "of script\n{script}"
    );
}

fn delta(words: &[&str]) -> Delta {
    let job = |text: &str| JobId(text.parse().expect("a job is a number"));
    let ranks = |text: &str| text.parse::<Idset>().expect("ranks are an idset");
    match words {
        ["nodes", nodes @ ..] => {
            Delta::Inventory(inventory(&nodes.iter().map(node).collect::<Vec<_>>()))
        }
        ["up", up] => Delta::Up(ranks(up)),
        ["down", down] => Delta::Down(ranks(down), Unavailable::Drained),
        ["lost", down] => Delta::Down(ranks(down), Unavailable::Offline),
        ["want", id, asks @ ..] => {
            let (priority, request) = want(asks);
            Delta::Want(job(id), Want::of(urgency(priority), request))
        }
        ["unwant", id] => Delta::Unwant(job(id)),
        ["freed", id] => Delta::Freed(job(id)),
        ["held", id, parts @ ..] => Delta::Held(job(id), Owner::default(), set(parts)),
        ["ground", id, parts @ ..] => Delta::Ground(job(id), set(parts)),
        other => panic!("no such line: {other:?}"),
    }
}

fn set(parts: &[&str]) -> Arc<ResourceSet> {
    Arc::new(ResourceSet {
        nodes: parts.iter().map(|part| held(part)).collect(),
        ..ResourceSet::default()
    })
}

fn held(part: &str) -> (Rank, NodeSet) {
    let (rank, cores) = part.split_once('/').expect("rank/cores");
    let cores = cores.parse().expect("cores are an idset");
    let host = format!("node{rank}").into();
    (
        Rank(rank.parse().expect("a rank")),
        NodeSet {
            host,
            cores,
            gpus: Idset::new(),
            memory: 0,
            ..NodeSet::default()
        },
    )
}

fn node(text: &&str) -> (u32, u32, u64) {
    let mut node = (0, 0, 0);
    for part in text.split(',') {
        let (number, unit) = part.split_at(part.len() - 1);
        let number = number.parse().expect("an amount");
        match unit {
            "c" => node.0 = number,
            "g" => node.1 = number,
            "m" => node.2 = u64::from(number),
            other => panic!("no such amount: {other}"),
        }
    }
    node
}

fn want(asks: &[&str]) -> (i64, Request) {
    let mut numbers = BTreeMap::new();
    let (mut sharing, mut takes, mut ranks) = (Sharing::Shared, Takes::Resources, None);
    for ask in asks {
        if let Some(set) = ask.strip_prefix("ranks=") {
            ranks = Some(set.parse::<Idset>().expect("ranks are an idset"));
        } else if let Some((key, number)) = ask.split_once('=') {
            numbers.insert(key, number.parse::<i64>().expect("a number"));
        } else if *ask == "beside" {
            takes = Takes::Nothing;
        } else {
            assert_eq!(*ask, "whole");
            sharing = Sharing::Exclusive;
        }
    }
    let most = numbers.remove("most");
    let mut take = |key| numbers.remove(key);
    let count = |number: Option<i64>| number.map(|number| number as u32);
    let (asked, each) = (
        count(take("slots")).unwrap_or(1),
        count(take("cores")).unwrap_or(1),
    );
    let mut request = match count(take("nodes")) {
        Some(number) => nodes(number, asked, each),
        None => slots(asked, each),
    };
    if let (Some(most), Some(least)) = (most, request.nodes) {
        let nodes: Count = format!("{least}-{most}").parse().expect("a choice");
        let tasks = Tasks::OnEach;
        request.choice = Some(Arc::new(Choice { nodes, tasks }));
    }
    (request.sharing, request.takes, request.ranks) = (sharing, takes, ranks);
    request.gpus_per_slot = count(take("gpus")).unwrap_or(0);
    request.ntasks = count(take("tasks")).unwrap_or(request.ntasks);
    for key in ["node-mem", "core-mem", "task-mem"] {
        let Some(bytes) = take(key) else { continue };
        let bytes = bytes as u64;
        request.memory = match key {
            "node-mem" => MemoryNeed::PerNode(bytes),
            "core-mem" => MemoryNeed::PerCore(bytes),
            _ => MemoryNeed::PerTask(bytes),
        };
    }
    let priority = take("at").unwrap_or(16);
    assert!(numbers.is_empty(), "no such asks: {numbers:?}");
    (priority, request)
}

fn print(said: &mut String, outcome: &Outcome) {
    use std::fmt::Write;
    for (job, verdict) in &outcome.verdicts {
        match verdict {
            Verdict::Start(set) => {
                write!(said, "start {job}").expect("strings take text");
                for (rank, node) in &set.nodes {
                    write!(said, " {rank}/{}", node.cores).expect("strings take text");
                    if !node.gpus.is_empty() {
                        write!(said, "g{}", node.gpus).expect("strings take text");
                    }
                    if node.memory > 0 {
                        write!(said, "m{}", node.memory).expect("strings take text");
                    }
                }
                said.push('\n');
            }
            Verdict::Never(reason) => writeln!(said, "never {job} {reason}").expect("text"),
            Verdict::Preempt { by, .. } => writeln!(said, "end {job} for {by}").expect("text"),
        }
    }
    match &outcome.head {
        Some((job, reason)) => writeln!(said, "head {job} {reason}").expect("text"),
        None if outcome.unfinished => said.push_str("unfinished\n"),
        None => said.push_str("done\n"),
    }
}
