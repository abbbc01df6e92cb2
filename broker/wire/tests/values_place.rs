//! Where tasks lie, in the words of PBS, and what that makes of a jobspec.

use eddy_wire::jobspec::{Ask, AskError, Count, Place, Sharing};
use eddy_wire::spec::Spec;
use serde_json::Value;

use crate::values_jobspec::{ask, request};

#[test]
fn a_place_says_where_tasks_lie_and_who_may_be_beside_them() {
    let placed = |text: &str, ntasks, nodes: Option<u32>| Ask {
        place: text.parse().expect("a place"),
        ntasks,
        nodes: nodes.map(Count::from),
        ..ask()
    };
    let comes_to = |text: &str, ntasks, nodes| {
        let request = request(&placed(text, ntasks, nodes));
        (request.nodes, request.slots_per_node, request.sharing)
    };
    let (shared, whole) = (Sharing::Shared, Sharing::Exclusive);
    assert_eq!(comes_to("free", Some(4), None), (None, 4, shared));
    assert_eq!(comes_to("pack", Some(4), None), (Some(1), 4, shared));
    assert_eq!(comes_to("pack:excl", Some(4), None), (Some(1), 4, whole));
    assert_eq!(comes_to("scatter", Some(4), None), (Some(4), 1, shared));
    assert_eq!(comes_to("vscatter", Some(2), Some(2)), (Some(2), 1, shared));
    assert_eq!(comes_to("exclhost", Some(4), None), (None, 4, whole));
    assert_eq!(comes_to("free:excl", Some(4), Some(2)), (Some(2), 2, whole));
    // Nodes alone are whole, if it is not said otherwise.
    assert_eq!(comes_to("scatter", None, Some(3)), (Some(3), 1, whole));
    assert_eq!(comes_to("shared", None, Some(3)), (Some(3), 1, shared));
    let exclusive = |text: &str| Ask {
        sharing: Sharing::Exclusive,
        ..placed(text, Some(2), None)
    };
    assert_eq!(request(&exclusive("excl")).sharing, whole);
    assert_eq!(
        exclusive("shared").jobspec(),
        Err(AskError::ExclusiveAndShared)
    );
    assert_eq!(
        placed("pack", None, Some(2)).jobspec(),
        Err(AskError::PackedOnNodes { nodes: 2.into() })
    );
    let (nodes, tasks) = (2, 4);
    assert_eq!(
        placed("scatter", Some(tasks), Some(nodes)).jobspec(),
        Err(AskError::ScatteredOnNodes { nodes, tasks })
    );
}

#[test]
fn what_is_no_place_is_named_with_what_is_allowed() {
    let refused = |text: &str| text.parse::<Place>().expect_err("refused").to_string();
    let allowed = "allowed are free, pack, scatter and vscatter, then shared, excl and exclhost, with : between";
    for text in ["", "Pack", "pack:", "pack,excl"] {
        let word = text.rsplit(':').next().expect("a word");
        assert_eq!(refused(text), format!("`{word}` is not known; {allowed}"));
    }
    assert_eq!(
        refused("pack:scatter"),
        "`pack` and `scatter` cannot both hold"
    );
    assert_eq!(
        refused("shared:excl"),
        "`shared` and `excl` cannot both hold"
    );
    assert!(refused("scatter:group=rack").starts_with("`group=rack`: "));
    let with = |place: Value| {
        let ask = Ask {
            attributes: vec![("place".to_owned(), place)],
            ..ask()
        };
        let jobspec = ask.jobspec().expect("a jobspec");
        jobspec.request().map(|request| request.sharing)
    };
    assert_eq!(with("free:exclhost".into()), Ok(Sharing::Exclusive));
    for wrong in [serde_json::json!(1), "pack".into(), "near".into()] {
        let error = with(wrong).expect_err("refused").to_string();
        assert!(error.starts_with("attributes.system.place: "), "{error}");
    }
}

#[test]
fn what_lies_anywhere_is_put_on_nodes_as_if_they_were_named() {
    let on = |ask: &Ask, nodes| {
        let spec = Spec::from_jobspec(ask.jobspec().expect("a jobspec")).expect("a spec");
        let on = spec.on_nodes(nodes).expect("it is served");
        let again = Spec::from_blobs(on.text.clone(), on.environment_text.clone());
        assert_eq!(again.as_ref(), Ok(&on), "it is what its text says");
        (spec.jobspec.pieces(), on.request)
    };
    let tasks = |ntasks| Ask {
        ntasks: Some(ntasks),
        ..ask()
    };
    let (pieces, placed) = on(&tasks(8), 2);
    let named = |ntasks, nodes: u32| Ask {
        nodes: Some(nodes.into()),
        ..tasks(ntasks)
    };
    assert_eq!((pieces, placed), (8, request(&named(8, 2))));
    assert_eq!(on(&tasks(5), 2).1, request(&named(5, 2)));
    let in_sockets = |ask: Ask| Ask {
        tasks_per_socket: Some(2),
        ..ask
    };
    let (pieces, placed) = on(&in_sockets(tasks(8)), 2);
    assert_eq!((pieces, placed), (4, request(&in_sockets(named(8, 2)))));
}
