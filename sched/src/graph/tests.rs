//! Tests of the graph: cases computed by hand, and laws over random graphs.

mod cases;
mod laws;

use std::sync::Arc;

use eddy_wire::jobspec::Jobspec;
use serde_json::{Value, json};

use super::{Graph, Match, Matcher, Place, Refusal, Want};

/// A jobspec of resources, with one task in the slot `s`.
fn jobspec(resources: Value) -> Jobspec {
    jobspec_with(resources, json!({"duration": 60}))
}

fn jobspec_with(resources: Value, system: Value) -> Jobspec {
    Jobspec::from_value(json!({
        "version": 1,
        "resources": resources,
        "tasks": [{"command": ["a"], "slot": "s", "count": {"per_slot": 1}}],
        "attributes": {"system": system},
    }))
    .unwrap()
}

/// Slots of cores.
fn slots(count: Value, cores: u32) -> Value {
    json!([{"type": "slot", "label": "s", "count": count, "with": [{"type": "core", "count": cores}]}])
}

fn graph(text: &str) -> Arc<Graph> {
    Arc::new(Graph::generate(text).unwrap())
}

fn want(graph: &Graph, resources: Value, place: &Place) -> Want {
    Want::of(graph, &jobspec(resources), place)
        .unwrap()
        .unwrap()
}

fn allocate(matcher: &mut Matcher, resources: Value, place: &Place) -> Result<Match, Refusal> {
    let graph = matcher.graph().clone();
    match Want::of(&graph, &jobspec(resources), place).unwrap() {
        Ok(want) => matcher.allocate(&want),
        Err(refusal) => Err(refusal),
    }
}
