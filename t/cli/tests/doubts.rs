//! What is said of a configuration that is allowed and hardly meant.

use std::fs;

use eddy_cli_tests::place::Place;

type Tested = anyhow::Result<()>;

const TEXT: &str = "access.users = []\n[[instance]]\nname = \"own\"\nnodes = 1\n\
                    [[queue]]\nname = \"wide\"\ninstance = \"own\"\nmin_nodes = 2\n\
                    [[queue]]\nname = \"fast\"\ninstance = \"root\"\nrequires = [\"fast\"]\n";

#[test]
fn what_is_hardly_meant_is_warned_of_by_a_check_and_by_a_start() -> Tested {
    let place = Place::new()?;
    let file = place.join("site.toml");
    fs::write(&file, TEXT)?;
    let nobody = "line 1: access.users: is []; nobody but the owner and admins is let in; \"all\" lets everybody in";
    let wide = "line 8: queue[0].min_nodes: is 2; instance `own` has 1 at most, so that no job can be of this queue";
    let fast = "line 12: queue[1].requires: is `fast`; no node has that property, so that no job of this queue can begin";
    let checked = place.run(&["config", "check", &file])?;
    let told: Vec<&str> = checked.err.lines().collect();
    let warned = |line: &str| format!("eddy config check: {file}: warning: {line}");
    assert_eq!(
        (checked.code, &told[..]),
        (0, &[&*warned(nobody), &*warned(wide)][..])
    );
    let state = place.join("state");
    let words = [
        "start",
        "--background",
        "--fake=nodes=2,cores=1",
        "--statedir",
    ];
    let started = place.run(&[&words[..], &[state.as_str(), "--config", &file]].concat())?;
    assert_eq!(started.code, 0, "{}", started.err);
    for line in [nobody, wide, fast] {
        let warned = started
            .err
            .lines()
            .any(|told| told.contains("warning: ") && told.ends_with(line));
        assert!(warned, "{line}: {}", started.err);
    }
    place.run(&["shutdown", "--at", &state])?.ok()?;
    place.nothing_is_left()
}

#[test]
fn a_weight_that_no_formula_names_is_warned_of_by_a_check() -> Tested {
    let place = Place::new()?;
    let file = place.join("site.toml");
    fs::write(
        &file,
        "[policy]\npreset = \"flux\"\n[policy.priority.weights]\nwiat = 3\n",
    )?;
    let checked = place.run(&["config", "check", &file])?;
    let line = "warning: policy.priority.weights.wiat: no formula names w_wiat";
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.err.contains(line), "{}", checked.err);
    Ok(())
}
