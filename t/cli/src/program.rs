//! Where the `eddy` under test is. Called once by each place.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// The variable that names another program than the one built beside the tests.
pub const PROGRAM_VARIABLE: &str = "EDDY_BIN";

/// The `eddy` command: `EDDY_BIN`, or the one that was built into the same
/// directory as this test (which is in it, or in `deps` below it).
///
/// # Errors
/// There is none.
pub fn eddy() -> anyhow::Result<PathBuf> {
    if let Some(given) = std::env::var_os(PROGRAM_VARIABLE) {
        return Ok(PathBuf::from(given));
    }
    let own = std::env::current_exe().context("the path of this program")?;
    let places = own.ancestors().skip(1).take(2);
    let Some(found) = places
        .map(|place| place.join("eddy"))
        .find(|path| path.is_file())
    else {
        let own = own.parent().map_or(Path::new(""), |parent| parent);
        bail!(
            "no `eddy` at {}: cargo build --release -p eddy-cli, or set {PROGRAM_VARIABLE}",
            own.display()
        );
    };
    Ok(found)
}
