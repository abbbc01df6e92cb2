//! Resource sets: R version 1 both ways, their arithmetic, and what is refused.

use eddy_wire::field::FieldError;
use eddy_wire::id::Rank;
use eddy_wire::resource_set::{ResourceSet, ResourceSetError};
use serde_json::{Value, json};

fn set(value: Value) -> ResourceSet {
    ResourceSet::from_value(value).unwrap()
}

/// Four nodes of eight cores and 1 GiB; the last two have GPUs.
fn cluster() -> Value {
    json!({
        "version": 1,
        "execution": {
            "R_lite": [
                { "rank": "0-1", "children": { "core": "0-7" } },
                { "rank": "2-3", "children": { "core": "0-7", "gpu": "0-1" } },
            ],
            "nodelist": ["node[0-3]"],
            "starttime": 0,
            "expiration": 1700000000.5,
            "properties": { "gpu": "2-3", "fast": "0,3" },
        },
        "scheduling": { "graph": { "nodes": [1, 2] }, "eddy": { "memory": { "0-3": 1u64 << 30 } } },
    })
}

fn part(ranks: &str, nodes: &str, cores: &str, bytes: u64) -> ResourceSet {
    let memory = if bytes == 0 {
        json!({})
    } else {
        json!({ ranks: bytes })
    };
    set(json!({
        "version": 1,
        "execution": {
            "R_lite": [{ "rank": ranks, "children": { "core": cores } }],
            "nodelist": [nodes],
        },
        "scheduling": { "eddy": { "memory": memory } },
    }))
}

#[test]
fn a_resource_set_comes_back_as_it_went() {
    let set = set(cluster());
    assert_eq!((set.nnodes(), set.ncores(), set.ngpus()), (4, 32, 4));
    assert_eq!(set.memory(), 4 << 30);
    assert_eq!(set.nodelist(), "node[0-3]");
    assert_eq!(set.ranks().to_string(), "0-3");
    assert_eq!(set.expiration, 1_700_000_000_500_000);
    assert_eq!(set.to_value(), cluster());
    let text = serde_json::to_string(&set).unwrap();
    assert_eq!(serde_json::from_str::<ResourceSet>(&text).unwrap(), set);
}

#[test]
fn sockets_come_back_as_they_went() {
    let mut document = cluster();
    let sockets = json!([{ "core": "0-3", "gpu": "0" }, { "core": "4-15" }]);
    document["scheduling"]["eddy"]["sockets"] = json!({ "2-3": sockets });
    let set = set(document.clone());
    assert_eq!(set.to_value(), document);
    assert!(set.nodes[&Rank(0)].sockets.known().is_none());
    assert_eq!(set.nodes[&Rank(0)].sockets().len(), 1);
    let node = &set.nodes[&Rank(3)];
    // They are told in full, though the set has but a part of the second.
    assert_eq!(node.sockets()[1].cores.to_string(), "4-15");
    assert_eq!(node.of_socket(&node.sockets()[1]).cores.to_string(), "4-7");
    // Whatever is taken out, it is the same node.
    let left = set.difference(&part("2-3", "node[2-3]", "0-5", 0));
    assert_eq!(left.nodes[&Rank(2)].sockets, node.sockets);
}

#[test]
fn sockets_that_cannot_be_are_refused_by_name() {
    let refused = |sockets: Value| {
        let mut document = cluster();
        document["scheduling"]["eddy"]["sockets"] = sockets;
        ResourceSet::from_value(document).unwrap_err().to_string()
    };
    let path = "scheduling.eddy.sockets";
    let cases = [
        (
            json!({ "0": [] }),
            format!("{path}.0: has 0 sockets; allowed are 1 to 1024"),
        ),
        (
            json!({ "0": [{ "core": "0" }, { "gpu": "1" }] }),
            format!("{path}.0: socket 1 has no cores"),
        ),
        (
            json!({ "0": [{ "core": "0-3" }, { "core": "3-7" }] }),
            format!("{path}.0: core 3 lies in two sockets"),
        ),
        (
            json!({ "9": [{ "core": "0" }] }),
            format!("{path}.9: names ranks 9, which are not in execution.R_lite"),
        ),
    ];
    for (sockets, line) in cases {
        assert_eq!(refused(sockets), line);
    }
}

#[test]
fn names_belong_to_ranks_in_order_whatever_the_order_of_entries() {
    let set = set(json!({
        "version": 1,
        "execution": {
            "R_lite": [
                { "rank": "5", "children": { "core": "1" } },
                { "rank": "2", "children": { "core": "0" } },
            ],
            "nodelist": ["b", "a"],
        },
    }));
    let hosts: Vec<&str> = set.nodes.values().map(|node| &*node.host).collect();
    assert_eq!(hosts, ["b", "a"]);
    assert_eq!(set.nodelist(), "b,a");
}

#[test]
fn what_is_granted_leaves_what_is_free_and_comes_back() {
    let whole = set(cluster());
    let grant = part("1", "node1", "0-3", 1 << 29);
    assert!(whole.contains(&grant) && !grant.contains(&whole));
    let free = whole.difference(&grant);
    assert_eq!((free.ncores(), free.memory()), (28, (4 << 30) - (1 << 29)));
    assert!(free.is_disjoint(&grant) && whole.intersects(&grant));
    assert!(!free.contains(&grant));
    assert_eq!(free.union(&grant), whole);
}

#[test]
fn a_node_of_which_nothing_is_left_is_gone_with_its_properties() {
    let mut free = set(cluster());
    free.subtract(&part("0", "node0", "0-7", 1 << 30));
    assert_eq!(free.ranks().to_string(), "1-3");
    assert_eq!(free.properties["fast"].to_string(), "3");
    let rest = free.restrict(&"1".parse().unwrap());
    assert_eq!(
        (rest.nodelist().as_str(), rest.properties.len()),
        ("node1", 0)
    );
    assert!(rest.difference(&rest).is_empty());
}

#[test]
fn more_memory_than_a_node_has_is_not_in_it() {
    let whole = set(cluster());
    assert!(!whole.contains(&part("1", "node1", "0", (1 << 30) + 1)));
    assert!(!whole.contains(&part("9", "node9", "0", 0)));
}

#[test]
fn foreign_scheduling_content_rides_unread() {
    let set = set(cluster());
    let one = set.restrict(&"0".parse().unwrap()).to_value();
    assert_eq!(one["scheduling"]["graph"], cluster()["scheduling"]["graph"]);
    assert_eq!(
        one["scheduling"]["eddy"],
        json!({ "memory": { "0": 1u64 << 30 } })
    );
}

#[test]
fn the_empty_set_is_a_document_too() {
    let empty = ResourceSet::new();
    assert_eq!(ResourceSet::from_value(empty.to_value()).unwrap(), empty);
}

/// What is said of the cluster when the value at `pointer` is replaced.
fn refusal(pointer: &str, value: Value) -> String {
    let mut document = cluster();
    *document.pointer_mut(pointer).unwrap() = value;
    ResourceSet::from_value(document).unwrap_err().to_string()
}

#[test]
fn a_refusal_names_the_place() {
    let cases = [
        ("/version", json!(2), "version: is 2; allowed are 1 to 1"),
        (
            "/execution",
            json!([]),
            "execution: is an array; allowed is an object",
        ),
        (
            "/execution/R_lite/0",
            json!({}),
            "execution.R_lite[0].rank: is missing; allowed is an idset",
        ),
        (
            "/execution/R_lite/1/rank",
            json!("x"),
            "execution.R_lite[1].rank: is not an idset",
        ),
        (
            "/execution/R_lite/1/rank",
            json!("1-2"),
            "execution.R_lite[1].rank: has rank 1 a second time",
        ),
        (
            "/execution/R_lite/1/rank",
            json!("2-2147483647"),
            "execution.R_lite: has 2147483648 ranks; allowed are at most 262144",
        ),
        (
            "/execution/R_lite/0/children",
            json!({ "ssd": "0" }),
            "execution.R_lite[0].children.ssd: unknown key, allowed: core, gpu",
        ),
        (
            "/execution/R_lite/0/children/core",
            json!(3),
            "execution.R_lite[0].children.core: is a whole number; allowed is a string",
        ),
        (
            "/execution/nodelist/0",
            json!("node[0-2]"),
            "execution.nodelist: has 3 hosts for 4 ranks",
        ),
        (
            "/execution/nodelist/0",
            json!("node["),
            "execution.nodelist[0]: is not a hostlist",
        ),
        (
            "/execution/starttime",
            json!(-1),
            "execution.starttime: is not a time",
        ),
        (
            "/execution/starttime",
            json!(1700000001),
            "execution.expiration: is not after execution.starttime",
        ),
        (
            "/execution/properties/gpu",
            json!("2-4"),
            "execution.properties.gpu: names ranks 4, which are not in execution.R_lite",
        ),
        (
            "/scheduling/eddy/memory",
            json!({ "7": 1 }),
            "scheduling.eddy.memory.7: names ranks 7, which are not in execution.R_lite",
        ),
        (
            "/scheduling/eddy/memory",
            json!({ "0": 1, "0-1": 2 }),
            "scheduling.eddy.memory.0-1: has rank 0 a second time",
        ),
        (
            "/scheduling/eddy/memory/0-3",
            json!(-1),
            "scheduling.eddy.memory.0-3: is -1; allowed are 0 to 9223372036854775807",
        ),
        (
            "/scheduling/eddy",
            json!(3),
            "scheduling.eddy: is a whole number; allowed is an object",
        ),
    ];
    for (pointer, value, line) in cases {
        assert_eq!(refusal(pointer, value), line);
    }
    let unknown = ResourceSet::from_value(json!({ "version": 1, "resources": [] })).unwrap_err();
    assert!(matches!(
        unknown,
        ResourceSetError::Field(FieldError::Unknown { .. })
    ));
    assert!(matches!(
        ResourceSet::parse("{"),
        Err(ResourceSetError::Syntax { line: 1, .. })
    ));
}

#[test]
fn a_node_that_is_taken_out_takes_its_properties_along() {
    let text = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0"}}],
        "nodelist":["n[0-1]"],"properties":{"fast":"0-1","new":"1"}}}"#;
    let mut set = ResourceSet::parse(text).expect("a set of two nodes");
    set.remove(Rank(1));
    assert_eq!(ResourceSet::from_value(set.to_value()), Ok(set.clone()));
    let names: Vec<&str> = set.properties.keys().map(String::as_str).collect();
    assert_eq!(names, ["fast"]);
}
