//! `cargo run --release -p eddy-tidy`: prints what breaks the repository's rules, one line each, and
//! fails if there is anything. Called by hand; the same findings are tests in the library.
//! Never changes a file.

use std::process::ExitCode;

use eddy_tidy::tree::Tree;

fn main() -> ExitCode {
    let tree = match Tree::read(&Tree::root()) {
        Ok(tree) => tree,
        Err(error) => {
            eprintln!("eddy-tidy: {error}");
            return ExitCode::from(2);
        }
    };
    let findings = eddy_tidy::findings(&tree);
    for finding in &findings {
        println!("{finding}");
    }
    println!("{} files, {} findings", tree.paths.len(), findings.len());
    if findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
