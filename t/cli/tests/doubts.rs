//! What is said of a configuration that is allowed and hardly meant.

use std::fs;

use eddy_cli_tests::instance::Instance;
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
fn a_change_tells_the_doubts_that_are_new_with_it() -> Tested {
    let place = Place::new()?;
    let (file, state) = (place.join("site.toml"), place.path().join("state"));
    let queue =
        |name: &str, least: u32| format!("[[queue]]\nname = \"{name}\"\nmin_nodes = {least}\n");
    fs::write(&file, queue("a", 3))?;
    let instance =
        Instance::start_in(place, state, &["--fake=nodes=2,cores=1", "--config", &file])?;
    let warned = |words: &[&str]| -> anyhow::Result<Vec<String>> {
        let ran = instance.run(&[&["config"][..], words].concat())?;
        assert_eq!(ran.code, 0, "{}", ran.err);
        let told = ran
            .err
            .lines()
            .filter_map(|line| line.split_once("warning: "));
        Ok(told.map(|(_, told)| told.to_owned()).collect())
    };
    let why = "this instance has 2 at most, so that no job can be of this queue";
    // It was told of at the start.
    assert_eq!(warned(&["reload"])?, [""; 0]);
    fs::write(&file, queue("b", 4) + &queue("a", 3))?;
    let of_b = format!("{file}: line 3: queue[0].min_nodes: is 4; {why}");
    assert_eq!(warned(&["reload"])?, [of_b]);
    assert_eq!(warned(&["reload"])?, [""; 0]);
    let of_a = format!("queue.a.min_nodes: is 5; {why}");
    assert_eq!(warned(&["set", "queue.a.min_nodes=5"])?, [of_a]);
    assert_eq!(warned(&["set", "history.keep_jobs=5"])?, [""; 0]);
    Ok(())
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
