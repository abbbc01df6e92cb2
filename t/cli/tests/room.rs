//! Whether declared instances have room beside each other.

use std::fs;
use std::path::PathBuf;

use eddy_cli_tests::instance::Instance;
use eddy_cli_tests::place::Place;

type Tested = anyhow::Result<()>;

/// Of a file in which each of these has as many nodes.
fn sized(nodes: &[(&str, u32)]) -> String {
    let each = |(name, nodes): &(&str, u32)| {
        format!(
            "[[instance]]\nname = \"{name}\"\nnodes = {nodes}\n[[queue]]\nname = \"{name}\"\ninstance = \"{name}\"\n"
        )
    };
    nodes.iter().map(each).collect()
}

#[test]
fn instances_that_cannot_all_be_are_refused_at_the_start_and_by_a_reload() -> Tested {
    let place = Place::new()?;
    let config = place.join("sized.toml");
    let two = [("a", 2), ("b", 2), ("c", 2), ("d", 1)];
    fs::write(&config, sized(&two))?;
    let state = place.join("state");
    let start = ["--fake=nodes=4,cores=1", "--config", &config];
    let words = [&["start", "--background", "--statedir", &state], &start[..]].concat();
    let leave = "of 4 others of a fixed size leave 0";
    let c = format!("instance `c`: `nodes` asks for 2 nodes; {leave}");
    let d = format!("instance `d`: `nodes` asks for 1 nodes; {leave}");
    let refused = place.run(&words)?;
    assert_eq!(refused.refusal()?, format!("eddy start: {c}; {d}"));
    fs::write(&config, sized(&two[..2]))?;
    let instance = Instance::start_in(place, PathBuf::from(state), &start)?;
    fs::write(&config, sized(&two))?;
    let reload = instance.run(&["config", "reload"])?;
    let lines: Vec<&str> = reload.err.lines().collect();
    assert!(
        lines.len() == 2 && lines[0].ends_with(&c) && lines[1].ends_with(&d),
        "{lines:?}"
    );
    fs::write(&config, sized(&[("a", 1), ("b", 3)]))?;
    let waits = instance.ok(&["config", "reload"])?;
    assert!(
        waits.contains("instance"),
        "counts from the next start on: {waits}"
    );
    instance.shut_down()
}
