//! What stands for a jobspec whose text is lost.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_wire::Time;
use eddy_wire::event::{Adoption, Event, Kind, PassedTo};
use eddy_wire::grant::Grant;
use eddy_wire::hash::Hash;
use eddy_wire::id::{Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::remains::{Remains, Shape};
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::spec::Spec;

fn of(shape: &Shape, text: Option<&[u8]>) -> Spec {
    let hashes = (Hash::of(b"a jobspec"), Hash::of(b"an environment"));
    let spec = Spec::lost(shape, hashes, text.map(Arc::from), None);
    assert!(spec.is_lost());
    assert_eq!((spec.hash, spec.environment_hash), hashes);
    spec
}

/// So many cores on one node, with one more that job 9 holds for it.
fn grant(cores: u32, passed: Option<&str>) -> Kind {
    let node = NodeSet {
        cores: (0..cores).collect::<Idset>(),
        ..NodeSet::default()
    };
    let mut set = ResourceSet::default();
    set.nodes.insert(Rank(3), node);
    let passed = passed.map(|instance| PassedTo {
        instance: instance.to_owned(),
        with: None,
    });
    Kind::Alloc(Arc::new(Grant {
        epoch: Epoch(1),
        set: Arc::new(set),
        shells: BTreeMap::new(),
        beside: BTreeMap::from([(Rank(4), JobId(9))]),
        passed: passed.map(Arc::new),
    }))
}

fn adopted(statedir: &str) -> Kind {
    Kind::Adopt(Box::new(Adoption {
        instance: "i".to_owned(),
        uri: "u".to_owned(),
        statedir: statedir.to_owned(),
    }))
}

#[test]
fn a_lost_jobspec_asks_for_what_the_records_of_its_job_tell() {
    let told: [(JobId, Kind); 6] = [
        (JobId(1), grant(4, None)),
        (JobId(2), grant(2, Some("batch"))),
        (JobId(3), grant(0, None)),
        (JobId(4), adopted("/state/children/4.1")),
        (JobId(5), adopted("/state/children/batch")),
        (JobId(5), grant(0, None)),
    ];
    let mut remains = Remains::default();
    for (job, kind) in told {
        let job = Some(job);
        remains.apply(&Event {
            t: Time(1),
            job,
            kind,
        });
    }
    let spec = |job| of(&remains.shape(JobId(job)), None);
    assert_eq!(spec(1).request.slots, 4);
    let queue = spec(2).jobspec.attributes.system.queue;
    assert_eq!(queue.as_deref(), Some("batch"));
    assert_eq!(spec(3).request.takes, Takes::Nothing);
    let instance = |name: Option<&str>| Work::Instance {
        name: name.map(str::to_owned),
    };
    assert_eq!(spec(4).request.work, instance(None));
    assert_eq!(spec(5).request.work, instance(Some("batch")));
    assert_eq!(spec(5).request.takes, Takes::Nothing);
    assert_eq!(spec(9).request.grows(), Some(JobId(5)));
    assert_eq!(spec(8).request.work, Work::Tasks);
}

#[test]
fn a_jobspec_that_is_whole_stays_where_its_environment_is_lost() {
    let text = Shape::default()
        .jobspec()
        .to_string()
        .replace("\"?\"", "\"true\"");
    let spec = of(&Shape::default(), Some(text.as_bytes()));
    assert_eq!(spec.jobspec.name(), "true");
    // And one that is no jobspec is as if it were lost.
    assert_eq!(of(&Shape::default(), Some(b"{}")).jobspec.name(), "?");
}
