//! Where the next job of a declared instance goes, and whether there is to be one.

use std::sync::Arc;

use eddy_wire::event::{Adoption, Event, Submit};
use eddy_wire::grant::Grant;
use eddy_wire::id::{Epoch, Rank};
use eddy_wire::jobspec::Jobspec;
use eddy_wire::queue::Turned;
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::spec::Spec;

use super::*;

/// One instance of so many nodes is declared.
fn declares(nodes: u32) -> Settings {
    let mut settings = Settings::for_inventory(Arc::default());
    settings.declared = vec![Declared {
        name: "batch".to_owned(),
        extent: Extent::Fixed { nodes, ranks: None },
        leader: Leader::Node,
        set: Vec::new(),
    }];
    settings
}

fn batch(nodes: u32) -> Fleet {
    Fleet::new(&declares(nodes))
}

fn submit(fleet: &Fleet) -> Kind {
    let text = jobspec(&fleet.missing()[0], &Idset::one(0), &["eddy".to_owned()]);
    let jobspec = Jobspec::from_value(text).expect("a jobspec");
    Kind::Submit(Arc::new(Submit {
        urgency: FLEET_URGENCY,
        ..Submit::plain(
            0,
            Arc::new(Spec::from_jobspec(jobspec).expect("it is served")),
        )
    }))
}

fn ranks(fleet: &Fleet) -> Option<Idset> {
    match &fleet.missing()[0].0.extent {
        Extent::Fixed { ranks, .. } => ranks.clone(),
        Extent::Elastic(elastic) => elastic.ranks.clone(),
    }
}

fn alloc(ranks: [u32; 2]) -> Kind {
    let node = NodeSet {
        host: "node".into(),
        cores: Idset::one(0),
        gpus: Idset::new(),
        memory: 0,
        ..NodeSet::default()
    };
    let nodes = ranks.map(|rank| (Rank(rank), node.clone()));
    let set = Arc::new(ResourceSet {
        nodes: nodes.into_iter().collect(),
        ..ResourceSet::default()
    });
    Kind::Alloc(Arc::new(Grant {
        epoch: Epoch(1),
        set,
        shells: BTreeMap::new(),
        beside: Default::default(),
        passed: None,
    }))
}

fn adopt() -> Kind {
    Kind::Adopt(Box::new(Adoption {
        instance: "i".to_owned(),
        uri: "local:///tmp/x/local".to_owned(),
        statedir: "/tmp/x".to_owned(),
    }))
}

fn record(fleet: &mut Fleet, seq: u64, job: Option<JobId>, kind: Kind) -> Record {
    let t = Time(0);
    let seq = Seq(seq);
    let event = Event { t, job, kind };
    let record = Record { seq, event };
    fleet.apply(&record);
    record
}

#[test]
fn the_next_job_of_a_declared_instance_goes_where_its_journal_is() {
    let mut fleet = batch(2);
    let job = Some(JobId(1));
    assert_eq!(ranks(&fleet), None);
    let kind = submit(&fleet);
    record(&mut fleet, 1, job, kind);
    assert_eq!(fleet.notes().count(), 0);
    record(&mut fleet, 2, job, alloc([3, 5]));
    record(&mut fleet, 3, job, Kind::Clean);
    assert_eq!(
        (fleet.notes().count(), ranks(&fleet)),
        (0, None),
        "it never came up there: any nodes will do"
    );
    let kind = submit(&fleet);
    record(&mut fleet, 1, job, kind);
    record(&mut fleet, 2, job, alloc([3, 5]));
    assert_eq!(fleet.notes().count(), 0);
    record(&mut fleet, 2, job, adopt());
    let notes: Vec<Kind> = fleet.notes().collect();
    let note = record(&mut fleet, 3, None, notes[0].clone());
    assert_eq!(fleet.notes().count(), 0, "it is noted");
    record(&mut fleet, 4, job, Kind::Clean);
    let home = |fleet: &Fleet| ranks(fleet).map(|ranks| ranks.to_string());
    assert_eq!(home(&fleet).as_deref(), Some("3,5"));
    let mut seqs = Vec::new();
    fleet.live(&mut seqs);
    assert_eq!(seqs, [Seq(3)]);
    let mut later = batch(2);
    later.apply(&note);
    assert_eq!(home(&later).as_deref(), Some("3,5"), "from the note alone");
    let mut larger = batch(3);
    larger.apply(&note);
    assert_eq!(
        home(&larger),
        None,
        "another number of nodes is placed anew"
    );
}

#[test]
fn one_that_is_down_is_tried_again_when_its_queue_is_started() {
    let mut settings = declares(2);
    settings.queues = vec![Queue {
        name: "all".to_owned(),
        instance: Some("batch".to_owned()),
        ..Queue::default()
    }];
    let mut fleet = Fleet::new(&settings);
    for job in 1..=ENDS_MAX as u64 {
        let kind = submit(&fleet);
        record(&mut fleet, job, Some(JobId(job)), kind);
        record(&mut fleet, job, Some(JobId(job)), Kind::Clean);
    }
    assert!(fleet.down("batch").is_some());
    assert!(fleet.is_its(JobId(5)), "the last of its jobs is known");
    let turned = |queue: &str, turn| {
        Kind::Queue(Box::new(Turned {
            queue: queue.to_owned(),
            turn,
            reason: String::new(),
            userid: 0,
        }))
    };
    record(&mut fleet, 9, None, turned("root", Turn::Start));
    record(&mut fleet, 9, None, turned("all", Turn::Enable));
    assert!(fleet.down("batch").is_some(), "that is not its start");
    record(&mut fleet, 9, None, turned("all", Turn::Start));
    assert_eq!((fleet.down("batch"), fleet.missing().len()), (None, 1));
}

#[test]
fn a_damaged_journal_is_cut_until_its_leader_came_once() {
    let mut settings = declares(2);
    settings.damage = Damage::Cut;
    let mut fleet = Fleet::new(&settings);
    let job = Some(JobId(1));
    let kind = submit(&fleet);
    record(&mut fleet, 1, job, kind);
    assert_eq!(fleet.damage("batch"), Damage::Cut);
    record(&mut fleet, 2, job, adopt());
    assert_eq!(fleet.damage("batch"), Damage::Refuse, "it was asked once");
    record(&mut fleet, 3, None, Kind::LeaderStart(Epoch(2)));
    assert_eq!(fleet.damage("batch"), Damage::Cut, "and is asked anew");
}

#[test]
fn who_names_no_nodes_takes_none_that_others_name_or_were_on() {
    let mut settings = Settings::for_inventory(Arc::default());
    let fixed = |name: &str, ranks: Option<&str>| Declared {
        name: name.to_owned(),
        extent: Extent::Fixed {
            nodes: 2,
            ranks: ranks.map(|ranks| ranks.parse().expect("ranks")),
        },
        leader: Leader::Node,
        set: Vec::new(),
    };
    let names = Some("2-3");
    settings.declared = vec![fixed("a", None), fixed("b", names), fixed("c", None)];
    let mut fleet = Fleet::new(&settings);
    let asks = |fleet: &Fleet| -> Vec<String> {
        let missing = fleet.missing();
        let asked = missing
            .iter()
            .map(|one| jobspec(one, &Idset::one(0), &["eddy".to_owned()]));
        asked
            .map(|asked| asked["attributes"]["system"]["constraints"].to_string())
            .collect()
    };
    let not_theirs = r#"{"not":[{"ranks":["2-3"]}]}"#;
    let its_own = r#"{"ranks":["2-3"]}"#;
    assert_eq!(asks(&fleet), [not_theirs, its_own, not_theirs]);
    let note = |name: &str, ranks: &str| {
        let note = json!({"instance": name, "ranks": ranks});
        Kind::Memo(Map::from_iter([(HOME_KEY.to_owned(), note)]))
    };
    record(&mut fleet, 1, None, note("a", "0-1"));
    record(&mut fleet, 2, None, note("c", "3-4"));
    let home = r#"{"ranks":["0-1"]}"#;
    let elsewhere = r#"{"not":[{"ranks":["0-3"]}]}"#;
    assert_eq!(asks(&fleet), [home, its_own, elsewhere]);
}

#[test]
fn an_elastic_instance_begins_beside_what_runs_on_the_leaders_node() {
    let mut declared = batch(1).missing().remove(0);
    let mut asks = |ranks: Option<Idset>, local: &str| {
        declared.0.extent = Extent::Elastic(Elastic {
            ranks,
            ..Elastic::default()
        });
        let local: Idset = local.parse().expect("ranks");
        let text = jobspec(&declared, &local, &["eddy".to_owned()]);
        let jobspec = Jobspec::from_value(text).expect("a jobspec");
        let spec = Spec::from_jobspec(jobspec).expect("it is served");
        spec.request.beside().expect("it takes nothing").to_string()
    };
    assert_eq!(asks(None, "0"), "0");
    assert_eq!(asks(None, "0-3"), "0-3");
    let some: Idset = "2-9".parse().expect("ranks");
    assert_eq!(asks(Some(some.clone()), "0-3"), "0,2-3");
    assert_eq!(asks(Some(some), "0"), "0");
}
