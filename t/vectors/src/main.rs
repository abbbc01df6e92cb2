//! `eddy-vectors FILE...`: small scheduling problems with known answers, held
//! against the scheduling library.
//!
//! A file is a JSON list of cases (`id`, `kind`, `input`, `expected`, optional
//! `tolerance`). One line per case, last `N passed, N failed`; exit 1 if any
//! failed. What each kind computes is in `kinds`, by subject; nothing here knows
//! an answer. Those in `own/` follow the documents that the policies come from, and
//! are always run.

mod compare;
mod kinds;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use serde::Deserialize;
use serde_json::Value;

/// Holds vector files against the scheduling library.
#[derive(Parser)]
#[command(name = "eddy-vectors")]
struct Args {
    /// Vector files: JSON lists of cases
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

/// One case of a file; what else it has (source, note) is for readers.
#[derive(Deserialize)]
struct Case {
    id: String,
    kind: String,
    input: Value,
    expected: Value,
    /// Absolute.
    tolerance: Option<f64>,
}

/// What a number may be off where a case does not say.
const TOLERANCE: f64 = 1e-9;

fn main() -> ExitCode {
    let (mut passed, mut failed) = (0_u64, 0_u64);
    for file in &Args::parse().files {
        match read(file) {
            Ok(mut cases) => {
                for case in &mut cases {
                    borrow_tree(case, file);
                    match verdict(case) {
                        Ok(()) => {
                            println!("ok {}", case.id);
                            passed += 1;
                        }
                        Err(line) => {
                            println!("{line}");
                            failed += 1;
                        }
                    }
                }
            }
            Err(error) => {
                println!("FAIL {}: {error:#}", file.display());
                failed += 1;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn read(file: &Path) -> Result<Vec<Case>> {
    let text = std::fs::read_to_string(file).context("cannot be read")?;
    serde_json::from_str(&text).context("is not a list of cases")
}

/// A case may name another, of this file or of one beside it, whose tree it takes.
fn borrow_tree(case: &mut Case, file: &Path) {
    let Some(lender) = case.input["tree_vector"].as_str() else {
        return;
    };
    let beside = file.parent().map(std::fs::read_dir);
    let mut files: Vec<PathBuf> = beside
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    let cases = files.iter().filter_map(|path| read(path).ok()).flatten();
    let tree = cases.into_iter().find(|case| case.id == lender);
    if let Some(tree) = tree.map(|case| case.input["tree"].clone()) {
        case.input["tree"] = tree;
    }
}

/// The line that says what is wrong with a case.
fn verdict(case: &Case) -> Result<(), String> {
    let Some(compute) = kinds::of(&case.kind) else {
        return Err(format!("unknown kind {}: {}", case.kind, case.id));
    };
    let got = compute(&case.input).map_err(|error| format!("FAIL {}: {error:#}", case.id))?;
    let tolerance = case.tolerance.unwrap_or(TOLERANCE);
    match compare::same(&got, &case.expected, tolerance) {
        true => Ok(()),
        false => {
            let (got, expected) = (compare::part(&got, &case.expected), &case.expected);
            Err(format!("FAIL {}: got {got} expected {expected}", case.id))
        }
    }
}
