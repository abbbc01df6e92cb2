//! Jobspecs that name ranks, take nothing, or are instances; grants of nothing.

use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Ask, Takes, Work};
use eddy_wire::resource_set::ResourceSet;

fn ask() -> Ask {
    Ask {
        command: vec!["true".to_owned()],
        ..Ask::default()
    }
}

#[test]
fn an_ask_for_ranks_beside_others_is_read_as_it_was_meant() {
    let beside = Ask {
        nodes: Some(3.into()),
        ranks: Some(Idset::range(1, 3)),
        takes: Takes::Nothing,
        ..ask()
    };
    let request = beside.jobspec().expect("a jobspec").request();
    let request = request.expect("it is served");
    assert_eq!(request.ranks, Some(Idset::range(1, 3)));
    assert_eq!((request.takes, request.ntasks), (Takes::Nothing, 3));
    assert_eq!(request.beside(), Some(Idset::range(1, 3)));
    let wrong = Ask {
        ranks: Some(Idset::range(1, 5)),
        ..beside
    };
    let refused = wrong.jobspec().expect("a jobspec").request();
    let text = refused.expect_err("3 nodes are not 5 ranks").to_string();
    assert!(
        text.contains("3 nodes are asked for beside what runs on 5 ranks"),
        "{text}"
    );
}

#[test]
fn what_takes_nothing_and_names_no_rank_is_with_the_leader() {
    let beside = Ask {
        takes: Takes::Nothing,
        ..ask()
    };
    let request = beside.jobspec().expect("a jobspec").request();
    assert_eq!(request.expect("it is served").beside(), Some(Idset::one(0)));
}

#[test]
fn an_instance_has_one_task_however_many_nodes_it_has() {
    let name = Some("debug".to_owned());
    for name in [None, name] {
        let instance = Ask {
            nodes: Some(4.into()),
            work: Work::Instance { name: name.clone() },
            ..ask()
        };
        let request = instance.jobspec().expect("a jobspec").request();
        let request = request.expect("it is served");
        assert_eq!((request.work, request.ntasks), (Work::Instance { name }, 1));
        assert_eq!(request.nodes, Some(4));
    }
}

#[test]
fn nodes_with_nothing_on_them_are_written_and_read() {
    let text = r#"{"version":1,"execution":{"R_lite":[{"rank":"1-2","children":{"core":""}}],
        "nodelist":["n[1-2]"],"starttime":0,"expiration":0}}"#;
    let set = ResourceSet::parse(text).expect("a set of two nodes");
    assert_eq!((set.nnodes(), set.ncores()), (2, 0));
    assert!(
        set.nodes
            .values()
            .all(eddy_wire::resource_set::NodeSet::is_empty)
    );
    assert_eq!(ResourceSet::from_value(set.to_value()), Ok(set));
}
