//! Every target with the inputs of one seed. A failure prints the input, which
//! becomes an example in `corpus.rs`.

use std::panic::catch_unwind;

use eddy_fuzz::TARGETS;
use eddy_fuzz::corpus::examples;
use eddy_fuzz::generate::Generator;

/// Inputs for each target; enough to meet each branch often, and done in seconds.
const INPUTS: usize = 100_000;

#[test]
fn no_input_breaks_a_parser() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut findings = Vec::new();
    for (name, target) in TARGETS {
        let mut generator = Generator::new(1);
        for number in 0..INPUTS {
            let input = generator.input(examples(name));
            if catch_unwind(|| target(&input)).is_err() {
                findings.push(format!("{name} {number}: {}", input.escape_ascii()));
                break;
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn examples_are_valid() {
    for (name, target) in TARGETS {
        assert!(!examples(name).is_empty(), "{name}");
        examples(name).iter().for_each(|example| target(example));
    }
}

#[test]
fn every_target_has_its_wrapper() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/cargo-fuzz");
    let manifest = std::fs::read_to_string(format!("{folder}/Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        let wrapper = std::fs::read_to_string(format!("{folder}/fuzz_targets/{name}.rs")).unwrap();
        assert!(
            wrapper.contains(&format!("eddy_fuzz::run(\"{name}\", data)")),
            "{name}"
        );
        assert!(
            manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")),
            "{name}"
        );
    }
}
