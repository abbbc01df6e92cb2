//! Links the compiler's own runtime (unwinding) into the program. As a shared library it is one more
//! file to map, relocate and initialize for each of the processes that an instance is of: a tenth of
//! a millisecond, a thousand times over in a workflow of instances.
//!
//! Called by cargo. Where there is no such library the program is linked as any other.

use std::env;
use std::path::PathBuf;
use std::process::Command;

const LIBRARY: &str = "libgcc_eh.a";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_native = env::var("HOST").ok() == env::var("TARGET").ok();
    let is_gnu = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if !is_native || !is_gnu {
        return;
    }
    if let Some(folder) = folder() {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static:+verbatim={LIBRARY}");
    }
}

/// Where the C compiler has it; an answer without a directory means that it has none.
fn folder() -> Option<PathBuf> {
    let asked = Command::new("cc")
        .arg(format!("-print-file-name={LIBRARY}"))
        .output()
        .ok()?;
    let path = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    let folder = path.is_absolute().then(|| path.parent().map(PathBuf::from));
    folder.flatten()
}
