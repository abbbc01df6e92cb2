//! The rules, held against this repository: one test for each, so that a failure names the rule. Each
//! prints its findings as `file:line: what to do`.

use std::sync::LazyLock;

use crate::tree::Tree;
use crate::{CHECKS, Finding, Rule, findings};

static FINDINGS: LazyLock<Vec<Finding>> =
    LazyLock::new(|| findings(&Tree::read(&Tree::root()).expect("the repository can be read")));

fn holds(rule: Rule) {
    let broken: Vec<String> = FINDINGS
        .iter()
        .filter(|finding| finding.rule == rule)
        .map(ToString::to_string)
        .collect();
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

macro_rules! rules {
    ($($name:ident => $rule:ident,)*) => {
        $(#[test]
        fn $name() {
            holds(Rule::$rule);
        })*

        const TESTED: &[Rule] = &[$(Rule::$rule),*];
    };
}

rules! {
    dependencies_flow_one_way => Direction,
    nothing_impure_comes_in_below_a_pure_crate => Firewall,
    every_external_crate_is_explained => Purpose,
    pure_crates_name_no_clock_disk_or_unordered_map => Purity,
    files_are_short => FileSize,
    functions_are_short => FunctionSize,
    comments_are_narrow => Width,
    files_begin_by_saying_what_they_are => Header,
    public_functions_take_no_bool => Boolean,
    unsafe_is_where_it_belongs_and_explained => Unsafe,
    nothing_is_left_for_later => Unfinished,
    no_test_sleeps => Sleep,
    names_say_something => Name,
    the_top_level_is_the_designs => TopLevel,
    links_lead_somewhere => Link,
    protocol_pages_are_on_the_map => Protocol,
    nobodys_machine_is_named => Workplace,
}

#[test]
fn every_rule_has_a_check_and_a_test() {
    assert_eq!(CHECKS.map(|(rule, _)| rule), *TESTED);
}

#[test]
fn the_repository_is_seen() {
    let tree = Tree::read(&Tree::root()).expect("the repository can be read");
    assert!(tree.holds("Cargo.toml") && tree.holds("t/tidy/src/tests.rs"));
    assert!(
        tree.sources
            .iter()
            .any(|source| source.path == "broker/wire/src/lib.rs")
    );
    assert!(!tree.holds("target") && !tree.holds(".git"));
}

#[test]
fn a_bad_tree_is_told_about_every_rule_it_breaks() {
    let long = format!(
        "use std::fs;\npub fn a(b: bool) {{\n{}}}\n",
        "    // todo\n".repeat(700)
    );
    let wide = format!(
        "//! X.\n// TODO {}\nfn f() {{ unsafe {{ std::thread::sleep(d) }} }}\n",
        "x".repeat(120)
    );
    let tree = Tree::of(&[
        ("sched/src/utils.rs", long.as_str()),
        ("t/cli/src/main.rs", wide.as_str()),
        ("sched/Cargo.toml", "[dependencies]\nrand = \"1\"\n"),
        ("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\n"),
        (
            "Cargo.lock",
            "[[package]]\nname = \"eddy-sched\"\ndependencies = [\"mio\"]\n",
        ),
        ("doc/architecture.md", "[gone](gone.md)"),
        ("doc/protocol/ids.md", concat!("/wo", "rk/x")),
        ("notes.txt", ""),
    ]);
    let mut broken: Vec<Rule> = findings(&tree)
        .into_iter()
        .map(|finding| finding.rule)
        .collect();
    broken.sort();
    broken.dedup();
    assert_eq!(broken, *TESTED);
}
