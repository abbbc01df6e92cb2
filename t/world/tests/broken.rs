//! Each rule broken on purpose is noticed by the swarm, within a bounded number of seeds.

mod instances;
mod queues;
mod records;
mod rules;
mod shares;
mod tasks;
mod turns;

use std::ops::Range;

use eddy_world::broken::Rule;
use eddy_world::script::play;
use eddy_world::swarm::{self, Shape};

/// Seeds until a broken rule must have been noticed.
const SEEDS: u64 = 1500;

/// What the oracles may say of it, in the first seed that finds something.
fn found(name: &str, sentences: &[&str]) {
    found_in(Shape::Flat, name, sentences);
}

fn found_in(shape: Shape, name: &str, sentences: &[&str]) {
    found_beside(shape, name, None, sentences);
}

/// The same from that seed on: of what few seeds notice, one in hundreds, soon.
fn found_from(from: u64, shape: Shape, name: &str, sentences: &[&str]) {
    found_among(from..from + SEEDS, shape, name, None, sentences);
}

/// The same, where what a sentence with `other` says comes of the broken rule, too, and is not what
/// it is about.
fn found_beside(shape: Shape, name: &str, other: Option<&str>, sentences: &[&str]) {
    found_among(0..SEEDS, shape, name, other, sentences);
}

fn found_among(
    seeds: Range<u64>,
    shape: Shape,
    name: &str,
    other: Option<&str>,
    sentences: &[&str],
) {
    let rule = Rule::named(name).expect("the rule has this name");
    let is_it = |sentence: &String| other.is_none_or(|other| !sentence.contains(other));
    let finding = |seed| swarm::run(seed, shape, Some(rule)).finding.filter(is_it);
    let mut among = seeds;
    let first = among.find_map(finding);
    let sentence = first.unwrap_or_else(|| panic!("{SEEDS} seeds did not notice `{name}`"));
    assert!(
        sentences.iter().any(|expected| sentence.contains(expected)),
        "`{name}` was noticed as: {sentence}"
    );
}

/// By a script that is given where the rule breaks; without that nothing is found.
fn found_by(script: impl Fn(&str) -> String, name: &str, sentence: &str) {
    let told = play(&script(&format!("break {name}\n"))).expect("a script");
    assert!(told.contains(sentence), "{told}");
    let told = play(&script("")).expect("a script");
    assert!(!told.contains("BROKEN"), "{told}");
}
