//! A journal that was cut (`--recover`) between records that are written
//! together.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::Broker;
use eddy_broker::broker::Identity;
use eddy_modules::{Settings, leader};
use eddy_wire::Time;
use eddy_wire::event::{Event, Kind, Record, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Jobspec;
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::services::job::EventsLine;
use eddy_wire::spec::Spec;
use serde_json::json;

fn submit() -> Kind {
    let jobspec = json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task",
                       "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0}},
    });
    let jobspec = Jobspec::from_value(jobspec).expect("a plain jobspec");
    Kind::Submit(Arc::new(Submit {
        key: uuid::Uuid::from_u128(1),
        ..Submit::plain(
            0,
            Arc::new(Spec::from_jobspec(jobspec).expect("a plain request")),
        )
    }))
}

#[test]
fn a_job_whose_finish_is_its_last_record_is_released_by_the_next_leader() {
    let node = NodeSet {
        host: "n0".into(),
        cores: Idset::one(0),
        gpus: Idset::new(),
        memory: 0,
        ..NodeSet::default()
    };
    let set = Arc::new(ResourceSet {
        nodes: BTreeMap::from([(Rank(0), node)]),
        ..ResourceSet::default()
    });
    let grant = Grant {
        epoch: Epoch(1),
        set: Arc::clone(&set),
        shells: BTreeMap::from([(Rank(0), Epoch(1))]),
        beside: Default::default(),
        passed: None,
    };
    let own = [
        Kind::LeaderStart(Epoch(1)),
        Kind::ResourceDefine(Arc::clone(&set), Default::default()),
        Kind::ShellStart(Idset::one(0), Epoch(1)),
    ];
    let life = [
        submit(),
        Kind::Validate,
        Kind::Depend,
        Kind::Priority(16),
        Kind::Alloc(Arc::new(grant)),
        Kind::Start,
        Kind::Finish(0),
    ];
    let own = own.into_iter().map(|kind| (None, kind));
    let events = own.chain(life.into_iter().map(|kind| (Some(JobId(1)), kind)));
    let identity = Identity {
        instance: "test".to_owned(),
        version: "0".to_owned(),
        owner: 0,
        path: String::new(),
        depth: 0,
        parent: None,
        declared: None,
    };
    let mut broker = Broker::new(identity, leader(&Settings::for_inventory(set)));
    for (at, (job, kind)) in events.enumerate() {
        let (seq, t) = (Seq(at as u64 + 1), Time(at as i64 + 1));
        broker.replay(&Record {
            seq,
            event: Event { t, job, kind },
        });
    }
    let output = broker.resume(Time(100), broker.last(), None);
    let of_it = output.records.iter();
    let of_it = of_it.filter(|record| record.event.job.is_some());
    let lines: Vec<String> = of_it
        .flat_map(|record| EventsLine::of(record))
        .map(|line| line.name)
        .collect();
    assert_eq!(lines, ["release", "free", "clean"]);
}
