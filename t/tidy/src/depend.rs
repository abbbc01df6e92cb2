//! Which crate may use which. Dependencies flow one way:
//!
//! ```text
//! wire <- sched, broker <- modules <- { brokerd, t/world }
//! wire <- client <- fronts <- cli;  { brokerd, sched } <- cli
//! ```
//!
//! The table below is that picture; `Cargo.toml` of each member is held against it. A new edge is a
//! new word here, with its reason in the commit. Does not look at source files.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

use crate::tree::Tree;
use crate::{Finding, Rule};

/// What a member may use besides the crates of this workspace.
enum Outside {
    /// These and no other, tests included.
    Only(&'static [&'static str]),
    /// Any crate of the workspace's table that is not refused everywhere.
    Listed,
}

/// One member and what it may use.
struct Member {
    folder: &'static str,
    name: &'static str,
    inside: &'static [&'static str],
    outside: Outside,
}

/// What tests of a pure crate may use besides: input makers, none of which reads a clock or a disk.
const TESTS_OF_PURE: &[&str] = &["proptest"];

const MEMBERS: &[Member] = &[
    Member {
        folder: "broker/wire",
        name: "eddy-wire",
        inside: &[],
        outside: Outside::Only(&[
            "serde",
            "serde_json",
            "serde-saphyr",
            "fixedbitset",
            "thiserror",
            "uuid",
            "sha2",
            "smallvec",
            "bytes",
        ]),
    },
    Member {
        folder: "broker/broker",
        name: "eddy-broker",
        inside: &["eddy-wire"],
        outside: Outside::Only(&["serde", "serde_json", "thiserror", "bytes", "uuid"]),
    },
    Member {
        folder: "sched",
        name: "eddy-sched",
        inside: &["eddy-wire"],
        outside: Outside::Only(&[
            "serde",
            "serde_json",
            "thiserror",
            "fastrand",
            "fixedbitset",
            "num-rational",
            "petgraph",
            "toml",
        ]),
    },
    Member {
        folder: "modules",
        name: "eddy-modules",
        inside: &["eddy-wire", "eddy-broker", "eddy-sched"],
        outside: Outside::Only(&["serde", "serde_json", "thiserror", "uuid", "bytes"]),
    },
    Member {
        folder: "broker/brokerd",
        name: "eddy-brokerd",
        inside: &["eddy-wire", "eddy-broker", "eddy-sched", "eddy-modules"],
        outside: Outside::Listed,
    },
    Member {
        folder: "bindings/client",
        name: "eddy-client",
        inside: &["eddy-wire"],
        outside: Outside::Listed,
    },
    Member {
        folder: "bindings/cli",
        name: "eddy-cli",
        inside: &["eddy-wire", "eddy-client", "eddy-brokerd", "eddy-sched"],
        outside: Outside::Listed,
    },
    Member {
        folder: "t/world",
        name: "eddy-world",
        inside: &["eddy-wire", "eddy-broker", "eddy-sched", "eddy-modules"],
        outside: Outside::Only(&[
            "serde",
            "serde_json",
            "thiserror",
            "uuid",
            "bytes",
            "anyhow",
            "clap",
        ]),
    },
    Member {
        folder: "t/bench",
        name: "eddy-bench",
        inside: &[
            "eddy-wire",
            "eddy-client",
            "eddy-broker",
            "eddy-brokerd",
            "eddy-sched",
            "eddy-world",
        ],
        outside: Outside::Listed,
    },
    Member {
        folder: "t/fuzz",
        name: "eddy-fuzz",
        inside: &["eddy-wire", "eddy-broker"],
        outside: Outside::Listed,
    },
    Member {
        folder: "t/tidy",
        name: "eddy-tidy",
        inside: &[],
        outside: Outside::Only(&["serde", "serde_json", "toml"]),
    },
    Member {
        folder: "t/vectors",
        name: "eddy-vectors",
        inside: &["eddy-wire", "eddy-sched"],
        outside: Outside::Listed,
    },
    Member {
        folder: "t/cli",
        name: "eddy-cli-tests",
        inside: &["eddy-wire", "eddy-client", "eddy-fuzz"],
        outside: Outside::Listed,
    },
];

/// Crates that no member may use, and what to use instead.
const REFUSED: &[(&str, &str)] = &[
    ("async-std", "tokio"),
    ("bincode", "serde_json"),
    ("chrono", "jiff"),
    ("core_affinity", "rustix"),
    ("env_logger", "tracing-subscriber"),
    (
        "evalexpr",
        "an evaluator of our own: its licence is the AGPL",
    ),
    ("hwloc2", "our own reader of /sys"),
    ("lazy_static", "std::sync::LazyLock"),
    ("log", "tracing, and only in drivers"),
    ("native-tls", "rustls with ring"),
    ("nix", "rustix"),
    ("num_cpus", "std::thread::available_parallelism"),
    ("once_cell", "std::sync::OnceLock"),
    ("openssl", "rustls with ring"),
    ("rand", "a seeded generator given as an argument"),
    ("serde_norway", "serde-saphyr"),
    ("serde_yaml", "serde-saphyr"),
    ("serde_yml", "serde-saphyr"),
    ("sqlx", "rusqlite: the two cannot be in one build"),
];

/// What nothing below a pure crate may bring in, tests included.
const BEHIND_THE_WALL: &[&str] = &["mio", "rusqlite", "rustix", "tokio", "tracing", "zeromq"];

/// The pure crates; their text is held to [`crate::purity`] as well.
pub const PURE: &[&str] = &["broker/wire/", "broker/broker/", "sched/", "modules/"];

/// Each member uses what its row allows, by the workspace's table of versions.
#[must_use]
pub fn direction(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in manifests(tree) {
        let folder = path.trim_end_matches("/Cargo.toml");
        let find = |what: &str, message: String| Finding {
            file: path.to_owned(),
            line: line_naming(text, what),
            rule: Rule::Direction,
            what: what.to_owned(),
            message,
        };
        let Ok(manifest) = text.parse::<Table>() else {
            findings.push(find(
                folder,
                "is not TOML: cargo would refuse it".to_owned(),
            ));
            continue;
        };
        if manifest.contains_key("workspace") && folder.starts_with("t/") {
            continue; // a workspace of its own, for a tool that nothing here is built from
        }
        let Some(member) = MEMBERS.iter().find(|member| member.folder == folder) else {
            let message =
                "crate has no row in t/tidy/src/depend.rs: add it with what it may use".to_owned();
            findings.push(find(folder, message));
            continue;
        };
        for (name, value, is_test) in dependencies(&manifest) {
            let problem = refusal(member, name, is_test).or_else(|| not_inherited(name, value));
            findings.extend(problem.map(|message| find(name, message)));
        }
    }
    findings
}

/// The line that gives the dependency, or the first one.
fn line_naming(text: &str, name: &str) -> usize {
    let names = |line: &str| {
        line.split(['.', '=', ' '])
            .next()
            .is_some_and(|word| word == name)
    };
    text.lines()
        .position(|line| names(line.trim()))
        .map_or(1, |index| index + 1)
}

fn manifests(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.texts
        .iter()
        .filter(|(path, _)| path.ends_with("/Cargo.toml"))
        .map(|(path, text)| (path.as_str(), text.as_str()))
}

/// Name, value and whether only tests use it, for each table of dependencies, per-target ones included.
fn dependencies(manifest: &Table) -> Vec<(&str, &Value, bool)> {
    let mut found = Vec::new();
    let targets = manifest.get("target").and_then(Value::as_table);
    let per_target = targets
        .into_iter()
        .flat_map(|table| table.values().filter_map(Value::as_table));
    for table in std::iter::once(manifest).chain(per_target) {
        for (kind, is_test) in [
            ("dependencies", false),
            ("build-dependencies", false),
            ("dev-dependencies", true),
        ] {
            let Some(entries) = table.get(kind).and_then(Value::as_table) else {
                continue;
            };
            found.extend(
                entries
                    .iter()
                    .map(|(name, value)| (name.as_str(), value, is_test)),
            );
        }
    }
    found
}

fn refusal(member: &Member, name: &str, is_test: bool) -> Option<String> {
    if let Some((_, instead)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Some(format!("`{name}` is used nowhere here: use {instead}"));
    }
    if name.starts_with("eddy-") {
        let allowed = member.inside.contains(&name);
        return (!allowed).then(|| {
            format!(
                "{} may not use {name}, only {}: dependencies flow one way",
                member.name,
                listing(member.inside)
            )
        });
    }
    match member.outside {
        Outside::Listed => None,
        Outside::Only(names) if names.contains(&name) => None,
        Outside::Only(_) if is_test && TESTS_OF_PURE.contains(&name) => None,
        Outside::Only(names) => Some(format!(
            "{} may not use `{name}`, only {}: move what needs it into a driver",
            member.name,
            listing(names)
        )),
    }
}

fn listing(names: &[&str]) -> String {
    if names.is_empty() {
        "no crate of this workspace".to_owned()
    } else {
        names.join(", ")
    }
}

fn not_inherited(name: &str, value: &Value) -> Option<String> {
    let inherited = value.get("workspace").and_then(Value::as_bool) == Some(true);
    (!inherited).then(|| {
        format!("`{name}` names its own version: put it in [workspace.dependencies] and write `{name}.workspace = true`")
    })
}

/// Nothing that a pure crate brings in, however deep, opens a socket or a file. Read from Cargo.lock.
#[must_use]
pub fn firewall(tree: &Tree) -> Vec<Finding> {
    let Some(lock) = tree
        .texts
        .get("Cargo.lock")
        .and_then(|text| text.parse::<Table>().ok())
    else {
        return Vec::new();
    };
    let graph = lock_graph(&lock);
    let mut findings = Vec::new();
    for member in MEMBERS
        .iter()
        .filter(|member| PURE.contains(&format!("{}/", member.folder).as_str()))
    {
        for name in reachable(&graph, member.name) {
            if BEHIND_THE_WALL.contains(&name.as_str()) {
                findings.push(Finding {
                    file: "Cargo.lock".to_owned(),
                    line: 1,
                    rule: Rule::Firewall,
                    message: format!(
                        "{} brings in `{name}`: see `cargo tree -p {} -i {name}` and drop the feature",
                        member.name, member.name
                    ),
                    what: name,
                });
            }
        }
    }
    findings
}

fn lock_graph(lock: &Table) -> BTreeMap<String, Vec<String>> {
    let mut graph: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let packages = lock.get("package").and_then(Value::as_array);
    for package in packages.into_iter().flatten() {
        let Some(name) = package.get("name").and_then(Value::as_str) else {
            continue;
        };
        let below = package.get("dependencies").and_then(Value::as_array);
        let names = below.into_iter().flatten().filter_map(Value::as_str);
        // "name" or "name version": two versions of one crate are one node here.
        let names = names
            .filter_map(|name| name.split(' ').next())
            .map(str::to_owned);
        graph.entry(name.to_owned()).or_default().extend(names);
    }
    graph
}

fn reachable(graph: &BTreeMap<String, Vec<String>>, from: &str) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(name) = open.pop() {
        if seen.insert(name.clone()) {
            open.extend(graph.get(&name).into_iter().flatten().cloned());
        }
    }
    seen
}

/// Each external crate of the workspace is named in doc/architecture.md, where its purpose is given.
#[must_use]
pub fn purpose(tree: &Tree) -> Vec<Finding> {
    let (Some(text), Some(page)) = (
        tree.texts.get("Cargo.toml"),
        tree.texts.get("doc/architecture.md"),
    ) else {
        return Vec::new();
    };
    let Some(manifest) = text.parse::<Table>().ok() else {
        return Vec::new();
    };
    let listed = manifest
        .get("workspace")
        .and_then(|w| w.get("dependencies"))
        .and_then(Value::as_table);
    let names = listed
        .into_iter()
        .flat_map(Table::keys)
        .filter(|name| !name.starts_with("eddy-"));
    names
        .filter(|name| !page.contains(&format!("`{name}`")))
        .map(|name| Finding {
            file: "Cargo.toml".to_owned(),
            line: line_naming(text, name),
            rule: Rule::Purpose,
            what: name.clone(),
            message: format!(
                "`{name}` is not explained: give it one line in doc/architecture.md or drop it"
            ),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction_of(folder: &str, manifest: &str) -> Vec<String> {
        let tree = Tree::of(&[(&format!("{folder}/Cargo.toml"), manifest)]);
        direction(&tree)
            .into_iter()
            .map(|finding| format!("{}:{}", finding.what, finding.line))
            .collect()
    }

    #[test]
    fn a_row_of_the_table_is_kept() {
        let good = "[dependencies]\neddy-wire.workspace = true\nserde = { workspace = true }\n[dev-dependencies]\nproptest.workspace = true\n";
        assert_eq!(direction_of("sched", good), [""; 0]);
        assert_eq!(
            direction_of("sched", "[dependencies]\neddy-modules.workspace = true\n"),
            ["eddy-modules:2"]
        );
        assert_eq!(
            direction_of(
                "broker/wire",
                "[dependencies]\neddy-sched.workspace = true\n"
            ),
            ["eddy-sched:2"]
        );
    }

    #[test]
    fn a_pure_crate_takes_no_runtime_even_for_its_tests_or_one_target() {
        assert_eq!(
            direction_of("modules", "[dependencies]\ntokio.workspace = true\n"),
            ["tokio:2"]
        );
        assert_eq!(
            direction_of("modules", "[dev-dependencies]\ntempfile.workspace = true\n"),
            ["tempfile:2"]
        );
        assert_eq!(
            direction_of(
                "modules",
                "[target.'cfg(unix)'.dependencies]\nlibc.workspace = true\n"
            ),
            ["libc:2"]
        );
        assert_eq!(
            direction_of("modules", "[dependencies]\nproptest.workspace = true\n"),
            ["proptest:2"]
        );
    }

    #[test]
    fn some_crates_are_refused_everywhere() {
        assert_eq!(
            direction_of(
                "broker/brokerd",
                "[dependencies]\nchrono.workspace = true\n"
            ),
            ["chrono:2"]
        );
    }

    #[test]
    fn versions_live_in_the_workspace() {
        assert_eq!(
            direction_of("broker/brokerd", "[dependencies]\ntokio = \"1\"\n"),
            ["tokio:2"]
        );
        assert_eq!(
            direction_of(
                "broker/brokerd",
                "[dependencies]\ntokio = { version = \"1\" }\n"
            ),
            ["tokio:2"]
        );
    }

    #[test]
    fn a_crate_without_a_row_is_noticed() {
        assert_eq!(
            direction_of("bindings/web", "[package]\n"),
            ["bindings/web:1"]
        );
    }

    #[test]
    fn the_wall_is_looked_behind() {
        let lock = "[[package]]\nname = \"eddy-wire\"\ndependencies = [\"harmless 1.0.0\"]\n[[package]]\nname = \"harmless\"\ndependencies = [\"tokio\"]\n";
        let found = firewall(&Tree::of(&[("Cargo.lock", lock)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "tokio");
        assert!(
            firewall(&Tree::of(&[(
                "Cargo.lock",
                &lock.replace("tokio", "bytes")
            )]))
            .is_empty()
        );
    }

    #[test]
    fn a_crate_has_a_purpose() {
        let manifest =
            "[workspace.dependencies]\neddy-wire = { path = \"x\" }\nserde = \"1\"\ntoml = \"1\"\n";
        let tree = Tree::of(&[
            ("Cargo.toml", manifest),
            ("doc/architecture.md", "| `serde` | forms |"),
        ]);
        let found: Vec<_> = purpose(&tree)
            .into_iter()
            .map(|f| (f.what, f.line))
            .collect();
        assert_eq!(found, [("toml".to_owned(), 4)]);
        assert!(purpose(&Tree::of(&[("Cargo.toml", manifest)])).is_empty());
    }
}
