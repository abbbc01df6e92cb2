//! Links the program so that it begins soon: an instance inside another is four processes of it, and
//! workflows are of thousands.
//!
//! The compiler's own runtime (unwinding) is linked in: as a shared library it is one more file to map,
//! relocate and initialize, a tenth of a millisecond. And the program has a fixed address: at any other
//! the loader has to write 27,000 pointers into a hundred pages before the first line of it, which are
//! 130 page faults, a third of what a short command takes. Heap, stacks and libraries still lie where
//! the kernel draws them.
//!
//! Called by cargo. Where there is no such library or linker the program is linked as any other.

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
    println!("cargo:rustc-link-arg-bins=-no-pie");
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
