//! Who is let into a reservation, and what is said to who is not.

use eddy_wire::reservation::Kept;
use eddy_wire::resource_set::NodeSet;
use serde_json::{Value, json};

use super::*;
use eddy_wire::event::Event;
use eddy_wire::id::{Rank, Seq};
use eddy_wire::jobspec::Jobspec;

const HOUR: i64 = 3600;

fn spec(nodes: u32, duration: i64, reservation: Option<Value>) -> Spec {
    let mut system = json!({"duration": duration});
    if let Some(name) = reservation {
        system["reservation"] = name;
    }
    let slot = json!({"type": "slot", "count": 1, "label": "task",
                      "with": [{"type": "core", "count": 2}]});
    let jobspec = Jobspec::from_value(json!({
        "version": 1,
        "resources": [{"type": "node", "count": nodes, "with": [slot]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": system},
    }));
    Spec::from_jobspec(jobspec.expect("a jobspec")).expect("one that is served")
}

/// Four nodes; ranks 1 to 3 are kept for user 7 and account `physics` from 100 s on for an hour, and
/// rank 0 is under maintenance.
fn reserved() -> Reserved {
    let node = |rank: u32| {
        let set = NodeSet {
            host: format!("n{rank}").into(),
            cores: Idset::range(0, 3),
            gpus: Idset::new(),
            memory: 0,
            ..NodeSet::default()
        };
        (Rank(rank), set)
    };
    let inventory = ResourceSet {
        nodes: (0..4).map(node).collect(),
        ..ResourceSet::default()
    };
    let made = |name: &str, ranks: Idset, purpose: Purpose| {
        Kind::Reservation(Box::new(Kept::Made(Arc::new(Reservation {
            name: name.parse().expect("a name"),
            from: Time(0).after(Span::seconds(100)),
            until: Time(0).after(Span::seconds(100 + HOUR)),
            ranks,
            purpose,
            userid: 0,
        }))))
    };
    let physics = "physics".parse().expect("a name");
    let purpose = Purpose::Jobs {
        accounts: vec![physics],
        users: vec![7],
    };
    let kinds = [
        Kind::ResourceDefine(Arc::new(inventory), Default::default()),
        made("course", Idset::range(1, 3), purpose),
        made("fan", Idset::one(0), Purpose::Maintenance),
    ];
    let mut reserved = Reserved::default();
    for (seq, kind) in kinds.into_iter().enumerate() {
        let event = Event {
            t: Time(0),
            job: None,
            kind,
        };
        reserved.apply(&Record {
            seq: Seq(seq as u64 + 1),
            event,
        });
    }
    reserved
}

fn asked(user: u32, spec: &Spec, ground: Option<Idset>) -> Result<(), String> {
    let (party, book) = (Party::default(), Book::default());
    let whose = (user, &party, &book);
    let lets = reserved().lets(Time(0), whose, spec, ground.as_ref());
    lets.map_err(|refusal| refusal.text)
}

#[test]
fn a_job_is_let_in_that_is_of_it_ends_in_it_and_fits_it() {
    let course = || Some(json!("course"));
    assert_eq!(asked(8, &spec(4, 0, None), None), Ok(()));
    assert_eq!(asked(7, &spec(3, HOUR - 11, course()), None), Ok(()));
    let refused = |user, spec: &Spec, ground| asked(user, spec, ground).expect_err("refused");
    assert_eq!(
        refused(7, &spec(1, 60, Some(json!("curse"))), None),
        "attributes.system.reservation: \"curse\" given, there are course, fan"
    );
    assert_eq!(
        refused(7, &spec(1, 60, Some(json!(3))), None),
        "attributes.system.reservation: 3 given, there are course, fan"
    );
    assert_eq!(
        refused(8, &spec(1, 60, course()), None),
        "attributes.system.reservation: \"course\" given, it is for account physics, user 7"
    );
    assert_eq!(
        refused(7, &spec(1, 60, Some(json!("fan"))), None),
        "attributes.system.reservation: \"fan\" given, it is for maintenance, nothing runs in it"
    );
    let late = "attributes.system.duration: none given, reservation `course` has 3589 s left for jobs (11 s before its end they \
         are to begin to end)";
    assert_eq!(refused(7, &spec(1, 0, course()), None), late);
    assert_eq!(
        refused(7, &spec(1, HOUR, course()), None),
        late.replace("none", "3600 s")
    );
    assert_eq!(
        refused(7, &spec(4, 60, course()), None),
        "attributes.system.reservation: \"course\" given, its ranks 1-3 will not do: asks for 4 nodes; \
         the instance has 3"
    );
    let ground = Some(Idset::range(0, 1));
    assert_eq!(
        refused(7, &spec(2, 60, course()), ground),
        "attributes.system.reservation: \"course\" given, its ranks 1 will not do: asks for 2 nodes; \
         the instance has 1"
    );
}
