//! Constraints: what nodes of a set they allow, and the text that says the same.

use eddy_wire::constraint::Constraint;
use eddy_wire::jobspec::{Ask, Jobspec, Takes};
use eddy_wire::resource_set::ResourceSet;
use serde_json::{Value, json};

/// Ranks 0 to 3 are n0 to n3; 1-2 are fast, 2-3 in r1 and 0 in r2, 3 has a GPU.
fn four() -> ResourceSet {
    let set = json!({"version": 1, "execution": {
        "R_lite": [
            {"rank": "0-2", "children": {"core": "0-3"}},
            {"rank": "3", "children": {"core": "0-3", "gpu": "0"}},
        ],
        "nodelist": ["n[0-3]"],
        "starttime": 0,
        "expiration": 0,
        "properties": {"fast": "1-2", "rack=r1": "2-3", "rack=r2": "0"},
    }});
    ResourceSet::from_value(set).expect("a set of four nodes")
}

fn ranks(constraint: &Value) -> String {
    let constraint = Constraint::from_value(constraint).expect("a constraint");
    let ranks = constraint.ranks(&four());
    let text = constraint.to_string();
    if !constraint.allows_all() && !text.contains("any node") {
        let again = Constraint::from_query(&text).expect("what it is written as");
        assert_eq!(again.ranks(&four()), ranks, "{text}");
        assert_eq!(again.to_string(), text);
    }
    ranks.to_string()
}

#[test]
fn each_operator_allows_its_nodes() {
    assert_eq!(ranks(&json!({})), "0-3");
    assert_eq!(ranks(&json!({"properties": ["fast"]})), "1-2");
    assert_eq!(ranks(&json!({"properties": ["^fast"]})), "0,3");
    assert_eq!(ranks(&json!({"properties": ["fast", "rack=r1"]})), "2");
    assert_eq!(
        ranks(&json!({"properties": ["n3"]})),
        "3",
        "its name is one"
    );
    assert_eq!(
        ranks(&json!({"properties": ["rack"]})),
        "0,2-3",
        "of any value"
    );
    assert_eq!(ranks(&json!({"properties": ["rac"]})), "");
    assert_eq!(ranks(&json!({"properties": ["gpu"]})), "3", "said of none");
    assert_eq!(ranks(&json!({"hostlist": ["n[1-2]", "n9"]})), "1-2");
    assert_eq!(ranks(&json!({"ranks": ["0-1", "7"]})), "0-1");
    assert_eq!(
        ranks(&json!({"and": [{"properties": ["fast"]}, {"ranks": ["0-1"]}]})),
        "1"
    );
    assert_eq!(
        ranks(&json!({"or": [{"properties": ["fast"]}, {"ranks": ["0-1"]}]})),
        "0-2"
    );
    assert_eq!(ranks(&json!({"not": [{"properties": ["fast"]}]})), "0,3");
    let both = json!({"not": [{"properties": ["fast"]}, {"ranks": ["0-1"]}]});
    assert_eq!(ranks(&both), "0,2-3", "not both");
    assert_eq!(ranks(&json!({"and": []})), "0-3");
    assert_eq!(ranks(&json!({"or": []})), "0-3");
    assert_eq!(ranks(&json!({"not": []})), "");
}

#[test]
fn what_is_written_is_read_as_the_same() {
    let text = |text: &str| Constraint::from_query(text).expect(text).to_string();
    assert_eq!(
        text("fast  ^gpu|host:n1,n2"),
        "(fast and ^gpu) or host:n[1-2]"
    );
}

#[test]
fn a_request_has_what_its_jobspec_says_of_nodes() {
    let request = |constraints: Value| {
        let ask = Ask {
            command: vec!["true".to_owned()],
            attributes: vec![("constraints".to_owned(), constraints)],
            ..Ask::default()
        };
        ask.jobspec().expect("a jobspec").request()
    };
    let plain = request(json!({"ranks": ["1-2"]})).expect("ranks alone");
    assert_eq!(
        (plain.constraint.is_none(), plain.named_ranks().is_some()),
        (true, true)
    );
    let like = request(json!({"properties": ["fast"]})).expect("a property");
    assert_eq!(
        (like.constraint.is_some(), like.ranks.is_none()),
        (true, true)
    );
    let none = request(json!({"and": []})).expect("no condition");
    assert_eq!((none.constraint, none.ranks), (None, None));
    let wrong = |constraints: Value| request(constraints).expect_err("it is wrong").to_string();
    assert_eq!(
        wrong(json!({"nor": []})),
        "attributes.system.constraints.nor: has the operator `nor`; allowed are properties, \
         hostlist, ranks, and, or, not"
    );
    assert_eq!(
        wrong(json!({"properties": ["a|b"]})),
        "attributes.system.constraints.properties: has the property `a|b`; allowed are names \
         without ! & ' \" ` | ( ) and inner ^"
    );
}

#[test]
fn ranks_and_a_constraint_are_both_asked_for() {
    let ask = Ask {
        command: vec!["true".to_owned()],
        ranks: "0-1".parse().ok(),
        constraint: Constraint::from_query("fast").ok(),
        ..Ask::default()
    };
    let read = |ask: &Ask| -> Jobspec { ask.jobspec().expect("a jobspec") };
    assert_eq!(
        Value::Object(read(&ask).attributes.system.constraints),
        json!({"and": [{"ranks": ["0-1"]}, {"properties": ["fast"]}]})
    );
    let beside = Ask {
        takes: Takes::Nothing,
        ..ask
    };
    let refused = read(&beside).request().expect_err("it names no ranks");
    assert!(
        refused
            .to_string()
            .starts_with("attributes.system.constraints: is "),
        "{refused}"
    );
}
