//! Traces of real machines, where `EDDY_TRACES` names a folder with them.

use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use eddy_sched::sim::{Workload, read_swf};

/// The log of the SP2 at the Royal Institute of Technology in Stockholm (Parallel Workloads
/// Archive), as packed as it is there.
const KTH: &str = "predictsim-KTH-SP2.swf";

/// That log and its processors; `None` where no folder is named.
///
/// # Errors
/// The folder has it neither packed nor plain, or it is none.
pub fn kth() -> anyhow::Result<Option<(Workload, u64)>> {
    let Ok(folder) = std::env::var("EDDY_TRACES") else {
        return Ok(None);
    };
    let plain = Path::new(&folder).join(KTH);
    let text = match plain.exists() {
        true => fs::read(&plain).with_context(|| plain.display().to_string())?,
        false => unpacked(&plain.with_extension("swf.xz"))?,
    };
    let trace = read_swf(&text)?;
    let procs = trace.procs.context("a trace that names its processors")?;
    Ok(Some((trace, procs)))
}

fn unpacked(path: &Path) -> anyhow::Result<Vec<u8>> {
    let packed = fs::read(path).with_context(|| path.display().to_string())?;
    let mut text = Vec::new();
    let mut reader = lzma_rust2::XzReader::new(packed.as_slice(), true);
    reader
        .read_to_end(&mut text)
        .with_context(|| path.display().to_string())?;
    Ok(text)
}
