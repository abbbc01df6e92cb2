//! Describes the machine, since a figure without it says nothing. Asked once by `main`.
//! Leaves out whatever names a host, so that a report can be shown to anybody.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

/// CPU, cores, memory, kernel, file system below `folder`, load at this moment, and this build.
///
/// # Errors
/// `folder` does not exist.
pub fn describe(folder: &Path) -> anyhow::Result<Map<String, Value>> {
    let folder = folder.canonicalize()?;
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut machine = Map::new();
    machine.insert(
        "cpu".to_owned(),
        json!(value_of(&cpus, "model name").unwrap_or("unknown")),
    );
    machine.insert("cores".to_owned(), json!(cores));
    machine.insert(
        "memory".to_owned(),
        json!(value_of(&memory, "MemTotal").unwrap_or("unknown")),
    );
    machine.insert("kernel".to_owned(), json!(kernel.trim()));
    machine.insert("filesystem".to_owned(), json!(filesystem(&mounts, &folder)));
    machine.insert(
        "load".to_owned(),
        json!(load.split(' ').next().unwrap_or_default()),
    );
    machine.insert("release".to_owned(), json!(env!("CARGO_PKG_VERSION")));
    Ok(machine)
}

/// Value of the first line `key : value`.
fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

/// Type and options of the mount that holds `folder`: the one with the longest path above it.
fn filesystem(mounts: &str, folder: &Path) -> String {
    let parsed = mounts.lines().filter_map(|line| {
        // "36 35 98:0 /root /mount options - type source super-options"
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(4);
        Some((fields.next()?, fields.next()?, right.split(' ').next()?))
    });
    let holding = parsed.filter(|(mount, _, _)| folder.starts_with(mount));
    let nearest = holding.max_by_key(|(mount, _, _)| mount.len());
    nearest.map_or_else(
        || "unknown".to_owned(),
        |(_, options, kind)| format!("{kind} ({options})"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_names_the_filesystem() {
        let mounts = "1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/a rw\n\
                      2 1 0:2 / /tmp rw - tmpfs tmpfs rw\n\
                      3 1 0:3 / /tm ro - xfs b rw\n";
        assert_eq!(filesystem(mounts, Path::new("/tmp/x")), "tmpfs (rw)");
        assert_eq!(filesystem(mounts, Path::new("/var")), "ext4 (rw,relatime)");
    }

    #[test]
    fn a_description_can_be_made_here() {
        let machine = describe(Path::new("/")).unwrap();
        assert!(machine["cores"].as_u64().unwrap() >= 1);
        assert_ne!(machine["filesystem"], "unknown");
    }
}
