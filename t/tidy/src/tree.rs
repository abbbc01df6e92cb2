//! The repository as the rules see it: paths, texts, and Rust files already taken apart. Built by
//! `main` and the tests, once; the unit tests of the rules build small ones from pairs of path and text.
//! Never follows a symbolic link, never reads a file that git ignores.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::source::Source;

/// What is checked.
#[derive(Debug, Default)]
pub struct Tree {
    /// Every file, as a path from the top with `/` between its parts.
    pub paths: BTreeSet<String>,
    /// Text of those that are UTF-8.
    pub texts: BTreeMap<String, String>,
    /// The Rust files among them.
    pub sources: Vec<Source>,
}

impl Tree {
    /// Top of the repository that this crate was built from.
    #[must_use]
    pub fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
    }

    /// Reads what git tracks and what it would track: no commit is needed, a file just written
    /// counts. Where git cannot be asked (an unpacked archive), reads all but `target`.
    ///
    /// # Errors
    /// The first directory or file that exists and cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut files = Vec::new();
        for path in paths {
            // A tracked file may be deleted, and others write here while tests run.
            if let Ok(bytes) = std::fs::read(root.join(&path)) {
                files.push((path, bytes));
            }
        }
        Ok(Self::from_files(files))
    }

    /// A tree made of the given paths and texts.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        Self::from_files(
            files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
                .collect(),
        )
    }

    fn from_files(files: Vec<(String, Vec<u8>)>) -> Self {
        let mut tree = Self::default();
        for (path, bytes) in files {
            if let Ok(text) = String::from_utf8(bytes) {
                if Path::new(&path)
                    .extension()
                    .is_some_and(|extension| extension == "rs")
                {
                    tree.sources.push(Source::new(&path, &text));
                }
                tree.texts.insert(path.clone(), text);
            }
            tree.paths.insert(path);
        }
        tree
    }

    /// True if a file has this path or lies below it.
    #[must_use]
    pub fn holds(&self, path: &str) -> bool {
        let below = format!("{}/", path.trim_end_matches('/'));
        self.paths.contains(path)
            || self
                .paths
                .range(below.clone()..)
                .next()
                .is_some_and(|p| p.starts_with(&below))
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = text
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    // An archive unpacked inside another repository lists nothing of its own.
    (output.status.success() && paths.iter().any(|path| path == "Cargo.toml")).then_some(paths)
}

fn walked(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() && path != Path::new("target") && path != Path::new(".git") {
                folders.push(path);
            } else if kind.is_file() {
                paths.push(path.to_string_lossy().into_owned());
            }
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_holds_itself_and_what_lies_below_it() {
        let tree = Tree::of(&[("doc/guide/start.md", ""), ("doc.md", "")]);
        assert!(tree.holds("doc/guide/start.md"));
        assert!(tree.holds("doc/guide") && tree.holds("doc/guide/"));
        assert!(!tree.holds("doc/gui") && !tree.holds("doc/guide/stop.md"));
    }

    #[test]
    fn an_archive_without_git_is_walked_but_not_its_target() {
        let folder = std::env::temp_dir().join(format!("eddy-tidy-{}", std::process::id()));
        for (path, text) in [("a/b.rs", "//! B."), ("target/c.rs", ""), ("d.md", "")] {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let mut paths = walked(&folder).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        paths.sort();
        assert_eq!(paths, ["a/b.rs", "d.md"]);
    }
}
