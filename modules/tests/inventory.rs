//! An instance started again with more nodes than before.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::broker::Identity;
use eddy_broker::{Arrival, Broker, Effect, Output};
use eddy_modules::{Settings, leader};
use eddy_wire::Time;
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::{NodeSet, ResourceSet};

fn broker(ranks: u32) -> Broker {
    let node = |rank: u32| NodeSet {
        host: format!("n{rank}").into(),
        cores: Idset::range(0, 3),
        gpus: Idset::new(),
        memory: 0,
        ..NodeSet::default()
    };
    let nodes: BTreeMap<Rank, NodeSet> = (0..ranks).map(|rank| (Rank(rank), node(rank))).collect();
    let set = ResourceSet {
        nodes,
        ..ResourceSet::default()
    };
    let identity = Identity {
        instance: "test".to_owned(),
        version: "0".to_owned(),
        owner: 0,
        path: String::new(),
        depth: 0,
        parent: None,
        declared: None,
    };
    Broker::new(identity, leader(&Settings::for_inventory(Arc::new(set))))
}

/// Resumes and makes durable whatever is recorded: all records and effects.
fn resumed(broker: &mut Broker, replayed: &[Arc<Record>]) -> (Vec<Arc<Record>>, Vec<Effect>) {
    replayed.iter().for_each(|record| broker.replay(record));
    let now = Time(1_000_000);
    let Output {
        mut records,
        mut effects,
        ..
    } = broker.resume(now, broker.last(), None);
    let durable = broker.handle(now, Arrival::Durable(broker.last()));
    records.extend(durable.records);
    effects.extend(durable.effects);
    (records, effects)
}

fn launches(effects: &[Effect]) -> Vec<Epoch> {
    let epoch = |effect: &Effect| match effect {
        Effect::LaunchShell(_, epoch) => Some(*epoch),
        _ => None,
    };
    effects.iter().filter_map(epoch).collect()
}

#[test]
fn nodes_that_were_added_are_served_by_the_shell_that_is_there() {
    let (first, effects) = resumed(&mut broker(1), &[]);
    assert_eq!(
        launches(&effects),
        [Epoch(1)],
        "a new instance starts a shell"
    );
    let (again, effects) = resumed(&mut broker(2), &first);
    assert_eq!(
        launches(&effects),
        [],
        "a node has one shell, and it may be alive"
    );
    let served = again.iter().find_map(|record| match &record.event.kind {
        Kind::ShellStart(ranks, epoch) => Some((ranks.to_string(), *epoch)),
        _ => None,
    });
    assert_eq!(served, Some(("0-1".to_owned(), Epoch(1))));
}
