//! Cases computed by hand.

use eddy_wire::constraint::{Constraint, QueryError};
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::time::{Span, Time};
use serde_json::{Value, json};

use super::super::constraint::nodes;
use super::super::{
    Arrange, Domain, Gang, Graph, Group, Host, Matcher, Package, Place, PlaceShare, Plan, Refusal,
    State, Want, When,
};
use super::{allocate, graph, jobspec_with, slots, want};
use crate::policy::NodeRank;

fn place(rank: NodeRank) -> Place {
    Place {
        rank,
        ..Place::default()
    }
}

fn ranks(matcher: &mut Matcher, resources: Value, place: &Place) -> String {
    let found = allocate(matcher, resources, place).unwrap();
    found.resource_set(matcher.graph()).ranks().to_string()
}

#[test]
fn a_line_makes_numbered_nodes() {
    let graph = graph("cluster[1] rack[2] node[2] socket[2] core[4] gpu[1] memory[1KiB]");
    assert_eq!(graph.host_count(), 4);
    let core = graph.kind("core").unwrap();
    assert_eq!(graph.total(0, core), 32);
    let socket = graph.within(graph.host(3), graph.kind("socket").unwrap())[1];
    assert_eq!(graph.path(socket), "/cluster0/rack1/node3/socket1");
    let (run, position) = graph.find("/cluster0/rack1/node3/socket1/core6").unwrap();
    assert_eq!((graph.parent[run as usize], position), (socket, Some(2)));
}

#[test]
fn wrong_lines_say_where() {
    let wrong = |text: &str| Graph::generate(text).unwrap_err().to_string();
    assert_eq!(
        wrong("node"),
        "position 4: has `its end`; allowed is [ and a count"
    );
    assert_eq!(
        wrong("node[0]"),
        "position 5: count `0`; allowed are 1 to 4000000"
    );
    assert_eq!(
        wrong("node[2]"),
        "graph has the roots `node0` and `node1`; allowed is one"
    );
    assert_eq!(wrong(""), "graph has no vertex; allowed is at least one");
}

#[test]
fn r_comes_back_as_it_was_read() {
    let text = r#"{"version":1,"execution":{"R_lite":[{"rank":"3-4","children":{"core":"0-1,5","gpu":"0"}}],
        "nodelist":["n[3-4]"],"properties":{"big":"4"}},"scheduling":{"eddy":{"memory":{"3-4":1024}}}}"#;
    let set = ResourceSet::parse(text).unwrap();
    let mut matcher = Matcher::new(Graph::from_resource_set(&set).unwrap().into());
    let all =
        json!([{"type": "slot", "label": "s", "count": 1, "with": [{"type": "node", "count": 2}]}]);
    let found = allocate(&mut matcher, all, &Place::default()).unwrap();
    assert_eq!(found.resource_set(matcher.graph()), set);
}

#[test]
fn jgf_and_hosts_have_sockets() {
    let node = |id: &str, kind: &str, number: u32| json!({"id": id, "metadata": {"type": kind, "id": number}});
    let edge = |from: &str, to: &str| json!({"source": from, "target": to, "metadata": {"subsystem": "containment"}});
    let back = json!({"source": "3", "target": "1", "metadata": {"name": {"containment": "in"}}});
    let mut memory = node("6", "memory", 0);
    memory["metadata"]["size"] = json!(2);
    memory["metadata"]["unit"] = json!("KB");
    let document = json!({"graph": {
        "nodes": [node("0", "cluster", 0), node("1", "node", 7), node("2", "socket", 0), node("3", "core", 0),
            node("4", "socket", 1), node("5", "core", 0), memory],
        "edges": [edge("0", "1"), edge("1", "2"), edge("2", "3"), edge("1", "4"), edge("4", "5"), back, edge("1", "6")],
    }});
    let read = Graph::from_jgf(&document).unwrap();
    assert_eq!(read.total(0, read.kind("memory").unwrap()), 2048);
    // Both sockets call their core 0; in R they are two.
    let mut matcher = Matcher::new(read.into());
    let found = allocate(&mut matcher, slots(json!(2), 1), &Place::default()).unwrap();
    let set = found.resource_set(matcher.graph());
    assert_eq!(set.nodes.values().next().unwrap().cores, Idset::range(0, 1));
    let domain = |id, cores| Domain {
        id,
        cores,
        gpus: Idset::new(),
        memory: 10,
    };
    let package = |id, first| Package {
        id,
        domains: vec![domain(id, Idset::range(first, first + 1))],
    };
    let host = Host {
        name: "a".into(),
        rank: 2,
        packages: vec![package(0, 0), package(1, 2)],
        ..Host::default()
    };
    let read = Graph::from_hosts(&[host]).unwrap();
    assert_eq!(
        read.path(read.of_kind[read.kind("socket").unwrap().at()][1]),
        "/cluster0/a/socket1"
    );
    let twice = json!({"graph": {"nodes": [node("0", "a", 0), node("0", "a", 1)], "edges": []}});
    assert_eq!(
        Graph::from_jgf(&twice).unwrap_err().to_string(),
        "graph.nodes[1]: has the id `0` a second time"
    );
}

#[test]
fn constraints_choose_nodes() {
    let graph =
        graph("cluster[1]{rack[1]:cold{node[2]:fast core[1]} rack[1]:switch=b{node[2] core[1]}}");
    let hosts = |value: Value| -> Vec<usize> {
        let constraint = Constraint::from_value(&value).unwrap();
        nodes(&constraint, &graph).ones().collect()
    };
    assert_eq!(hosts(json!({})), [0, 1, 2, 3]);
    assert_eq!(hosts(json!({"not": []})), [0usize; 0]);
    assert_eq!(hosts(json!({"or": []})), [0, 1, 2, 3]);
    assert_eq!(hosts(json!({"properties": ["fast", "cold"]})), [0, 1]);
    assert_eq!(hosts(json!({"properties": ["^fast", "switch=b"]})), [2, 3]);
    assert_eq!(
        hosts(json!({"or": [{"hostlist": ["node[0,3]"]}, {"ranks": ["1"]}]})),
        [0, 1, 3]
    );
    let wrong = Constraint::from_value(&json!({"and": [{"nor": []}]}))
        .unwrap_err()
        .to_string();
    assert!(
        wrong.starts_with("constraints.and[0].nor: has the operator `nor`"),
        "{wrong}"
    );
}

#[test]
fn queries_read_as_the_rfc_says() {
    let value = |text: &str| Constraint::from_query(text).unwrap().to_value();
    assert_eq!(
        value("a b|c"),
        json!({"or": [{"and": [{"properties": ["a"]}, {"properties": ["b"]}]}, {"properties": ["c"]}]})
    );
    assert_eq!(value("-a,b"), json!({"not": [{"properties": ["a", "b"]}]}));
    assert_eq!(
        value("not (host:a[0-1] and rank:3)"),
        json!({"not": [{"and": [{"hostlist": ["a0", "a1"]}, {"ranks": ["3"]}]}]})
    );
    assert_eq!(
        value("'and' && b"),
        json!({"and": [{"properties": ["and"]}, {"properties": ["b"]}]})
    );
    for wrong in [
        "a|",
        "(a",
        "(a))",
        "-(a|b)",
        "foo and a:",
        "4g,host:foo",
        "& a",
        "'a",
    ] {
        let _: QueryError = Constraint::from_query(wrong).expect_err(wrong);
    }
}

#[test]
fn each_placement_takes_its_node() {
    let line = "cluster[1]{rack[2]{node[2] core[4]}}";
    let first = |rank| {
        let mut matcher = Matcher::new(graph(line));
        // node0 has 3 free, node1 4, node2 1, node3 2.
        for (host, used) in [(0, 1), (2, 3), (3, 2)] {
            let system = json!({"constraints": {"ranks": [host.to_string()]}});
            let spec = jobspec_with(slots(json!(1), used), system);
            let want = Want::of(matcher.graph(), &spec, &Place::default())
                .unwrap()
                .unwrap();
            matcher.allocate(&want).unwrap();
        }
        ranks(&mut matcher, slots(json!(1), 2), &place(rank))
    };
    assert_eq!(first(NodeRank::LowId), "0");
    assert_eq!(first(NodeRank::FirstFit), "0");
    assert_eq!(first(NodeRank::HighId), "3");
    assert_eq!(first(NodeRank::Pack), "3");
    assert_eq!(first(NodeRank::BestFit), "3");
    assert_eq!(first(NodeRank::Spread), "1");
    // Rack 1 has less free and room.
    assert_eq!(first(NodeRank::Locality), "3");
}

#[test]
fn locality_takes_the_fewest_racks_and_sockets() {
    let mut matcher = Matcher::new(graph("cluster[1] rack[3] node[4] socket[2] core[2]"));
    let nodes = |count: u32| json!([{"type": "slot", "label": "s", "count": count, "with": [{"type": "node", "count": 1}]}]);
    let near = place(NodeRank::Locality);
    assert_eq!(ranks(&mut matcher, nodes(2), &near), "0-1");
    // Racks have 2, 4 and 4 left: 4 in one, then 2 in what is left of the first.
    assert_eq!(ranks(&mut matcher, nodes(4), &near), "4-7");
    assert_eq!(ranks(&mut matcher, nodes(2), &near), "2-3");
    // One core of socket 0 is gone: two cores fit in socket 1 only.
    allocate(&mut matcher, slots(json!(1), 1), &near).unwrap();
    let found = allocate(&mut matcher, slots(json!(1), 2), &near).unwrap();
    assert_eq!(
        found.lines(matcher.graph()),
        ["/cluster0/rack2/node8/socket1/core[2-3]"]
    );
}

#[test]
fn spread_goes_round() {
    let mut matcher = Matcher::new(graph("cluster[1] node[3] core[4]"));
    let found = allocate(&mut matcher, slots(json!(5), 1), &place(NodeRank::Spread)).unwrap();
    let set = found.resource_set(matcher.graph());
    let cores: Vec<u64> = set.nodes.values().map(|node| node.cores.len()).collect();
    assert_eq!(cores, [2, 2, 1]);
}

#[test]
fn place_flags_arrange_slots() {
    let line = "cluster[1] node[3] core[4]";
    let with = |arrange, share| Place {
        arrange,
        share,
        ..Place::default()
    };
    let shared = PlaceShare::Shared;
    let mut matcher = Matcher::new(graph(line));
    allocate(&mut matcher, slots(json!(1), 2), &Place::default()).unwrap();
    assert_eq!(
        ranks(
            &mut matcher.clone(),
            slots(json!(3), 1),
            &with(Arrange::Free, shared)
        ),
        "0-1"
    );
    assert_eq!(
        ranks(
            &mut matcher.clone(),
            slots(json!(3), 1),
            &with(Arrange::Pack, shared)
        ),
        "1"
    );
    assert_eq!(
        ranks(
            &mut matcher.clone(),
            slots(json!(3), 1),
            &with(Arrange::Scatter, shared)
        ),
        "0-2"
    );
    assert_eq!(
        ranks(
            &mut matcher.clone(),
            slots(json!(3), 1),
            &with(Arrange::VScatter, shared)
        ),
        "0-2"
    );
    for share in [PlaceShare::Excl, PlaceShare::ExclHost] {
        let found = allocate(
            &mut matcher.clone(),
            slots(json!(5), 1),
            &with(Arrange::Free, share),
        )
        .unwrap();
        assert_eq!(found.resource_set(matcher.graph()).ncores(), 8);
        let refused = allocate(
            &mut matcher.clone(),
            slots(json!(3), 1),
            &with(Arrange::Scatter, share),
        );
        assert_eq!(refused.unwrap_err().when, When::Later);
    }
}

#[test]
fn gangs_stay_in_one_group() {
    let line = "cluster[1]{rack[1]:switch=b{node[3] core[2]} rack[1]:switch=a{node[2] core[2]} node[9]{core[2]}}";
    let members = |cardinality, minimum, group: &str| Place {
        gang: Some(Gang {
            cardinality,
            minimum,
        }),
        group: Some(Group::Property(group.to_owned())),
        ..Place::default()
    };
    let mut matcher = Matcher::new(graph(line));
    let of = |place: &Place| allocate(&mut matcher.clone(), slots(json!(1), 2), place);
    let found = of(&members(3, 2, "switch")).unwrap();
    assert_eq!((found.count, found.hosts(&graph(line)).len()), (3, 3));
    let found = of(&members(2, 1, "switch")).unwrap();
    // The smaller group will do.
    let switch_a = Constraint::from_value(&json!({"properties": ["switch=a"]})).unwrap();
    let switch_a = nodes(&switch_a, &graph(line));
    assert_eq!(
        found.hosts(&graph(line)),
        switch_a.ones().collect::<Vec<_>>()
    );
    assert_eq!(of(&members(9, 3, "switch")).unwrap().count, 3);
    assert_eq!(of(&members(9, 4, "switch")).unwrap_err().when, When::Never);
    assert!(of(&members(1, 1, "nothing")).is_err());
    let racks = Place {
        group: Some(Group::Kind("rack".to_owned())),
        ..Place::default()
    };
    assert_eq!(ranks(&mut matcher, slots(json!(5), 1), &racks).len(), 3);
}

#[test]
fn pools_are_planned_beside_nodes() {
    let mut matcher = Matcher::new(graph("cluster[1]{node[4]{core[4]} license[1x3]}"));
    let ask = json!([{"type": "slot", "label": "s", "count": 2, "with": [
        {"type": "core", "count": 1}, {"type": "license", "count": 1}]}]);
    allocate(&mut matcher, ask.clone(), &Place::default()).unwrap();
    let refused = allocate(&mut matcher, ask, &Place::default()).unwrap_err();
    let license = |when, asked, there| Refusal {
        when,
        kind: "license".into(),
        asked,
        there,
    };
    assert_eq!(refused, license(When::Later, 2, 1));
    let ask = json!([{"type": "license", "count": 4}, slots(json!(1), 1)[0]]);
    assert_eq!(
        allocate(&mut matcher, ask, &Place::default()).unwrap_err(),
        license(When::Never, 4, 3)
    );
}

#[test]
fn refusals_name_what_is_short() {
    let mut matcher = Matcher::new(graph("cluster[1] node[2] core[4] memory[1KiB]"));
    let refused = |matcher: &mut Matcher, ask: Value| {
        let refused = allocate(matcher, ask, &Place::default()).unwrap_err();
        (refused.when, refused.kind, refused.asked, refused.there)
    };
    assert_eq!(
        refused(&mut matcher, slots(json!(9), 1)),
        (When::Never, "core".into(), 9, 8)
    );
    assert_eq!(
        refused(&mut matcher, slots(json!(1), 5)),
        (When::Never, "slot".into(), 1, 0)
    );
    let gpu =
        json!([{"type": "slot", "label": "s", "count": 3, "with": [{"type": "gpu", "count": 2}]}]);
    assert_eq!(
        refused(&mut matcher, gpu),
        (When::Never, "gpu".into(), 6, 0)
    );
    matcher.set_state(matcher.graph().host(1), State::Drained);
    assert_eq!(
        refused(&mut matcher, slots(json!(2), 3)),
        (When::InService, "core".into(), 6, 4)
    );
    let found = allocate(&mut matcher, slots(json!(1), 3), &Place::default()).unwrap();
    assert_eq!(
        refused(&mut matcher, slots(json!(1), 2)),
        (When::Later, "core".into(), 2, 1)
    );
    matcher.free(&found);
    allocate(&mut matcher, slots(json!(1), 4), &Place::default()).unwrap();
}

#[test]
fn what_is_tangled_is_looked_at_in_all_ways() {
    // Socket 0 has 8 cores, socket 1 has 4: the first that would do for 4 is not the right one.
    let mut matcher = Matcher::new(graph(
        "cluster[1]{node[1]{socket[1]{core[8]} socket[1]{core[4]}}}",
    ));
    let socket = |cores: u32| json!({"type": "socket", "count": 1, "exclusive": true, "with": [{"type": "core", "count": cores}]});
    let slot = json!([{"type": "slot", "label": "s", "count": 1, "with": [socket(4), socket(6)]}]);
    allocate(&mut matcher.clone(), slot, &Place::default()).unwrap();
    let slot = json!([{"type": "slot", "label": "s", "count": 1, "with": [socket(4), {"type": "core", "count": 8}]}]);
    allocate(&mut matcher, slot, &Place::default()).unwrap();
}

#[test]
fn ranges_take_what_is_there() {
    let mut matcher = Matcher::new(graph("cluster[1] node[7] core[2]"));
    let nodes =
        |count: Value| json!([{"type": "node", "count": count, "with": slots(json!(1), 2)}]);
    let power = json!({"min": 1, "max": 64, "operator": "*", "operand": 2});
    assert_eq!(
        ranks(&mut matcher.clone(), nodes(power), &Place::default()),
        "0-3"
    );
    assert_eq!(
        ranks(
            &mut matcher.clone(),
            nodes(json!("2,6,9")),
            &Place::default()
        ),
        "0-5"
    );
    assert_eq!(
        ranks(&mut matcher, nodes(json!("3+")), &Place::default()),
        "0-6"
    );
}

#[test]
fn starts_wait_for_ends_and_maintenance() {
    let graph = graph("cluster[1] node[2] core[4] memory[64]");
    let mut plan = Plan::new(graph.clone());
    let ask = |slot: Value, system: Value| {
        Want::of(&graph, &jobspec_with(slot, system), &Place::default())
            .unwrap()
            .unwrap()
    };
    let three = want(&graph, slots(json!(1), 3), &Place::default());
    let span = Span(10);
    let (at, found) = plan.earliest(&three, Time(0), span).unwrap();
    assert_eq!(at, Time(0));
    plan.hold(&found, at, Time(10));
    // Maintenance of node 1 from 5 on: a job of 10 that begins now would run into it.
    let block = plan.block(&[graph.host(1)], Time(5), Time(30));
    let (at, _) = plan.earliest(&three, Time(0), Span(5)).unwrap();
    assert_eq!(at, Time(0));
    let (at, found) = plan.earliest(&three, Time(0), span).unwrap();
    assert_eq!((at, found.hosts(&graph)), (Time(10), vec![0]));
    plan.hold(&found, at, Time(20));
    assert_eq!(plan.earliest(&three, Time(0), span).unwrap().0, Time(20));
    plan.release(block);
    assert_eq!(plan.earliest(&three, Time(0), span).unwrap().0, Time(0));
    // Of an amount only what is claimed at once counts: 40 and then 40 leave 24 all along.
    let mut plan = Plan::new(graph.clone());
    let bytes = |bytes: u32| {
        ask(
            slots(json!(1), 1),
            json!({"memory_per_node": bytes.to_string(), "constraints": {"ranks": ["0"]}}),
        )
    };
    for from in [0, 10] {
        let (at, found) = plan.earliest(&bytes(40), Time(from), span).unwrap();
        assert_eq!(at, Time(from));
        plan.hold(&found, at, at.after(span));
    }
    assert_eq!(
        plan.earliest(&bytes(24), Time(0), Span(20)).unwrap().0,
        Time(0)
    );
    assert_eq!(
        plan.earliest(&bytes(25), Time(0), Span(20)).unwrap().0,
        Time(20)
    );
    assert_eq!(
        plan.earliest(&bytes(65), Time(0), span).unwrap_err().when,
        When::Never
    );
}
