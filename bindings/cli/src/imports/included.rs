//! A configuration with the files that it includes in the place of the lines that do.
//!
//! Used by `eddy config import` of `slurm.conf`. It is given how files are read; a file of a relative name is beside
//! the one that names it.

use std::path::Path;

use anyhow::bail;

/// Files are included in included ones at most so deep.
const DEPTH_MAX: usize = 8;
/// At most so many lines are one configuration, all files together.
const LINES_MAX: usize = 1_000_000;

/// The text of all files as one, and of which each line is.
#[derive(Debug, Default)]
pub struct Whole {
    /// All of it.
    pub text: String,
    files: Vec<String>,
    /// The file of each line, and its number there.
    lines: Vec<(usize, usize)>,
}

impl Whole {
    /// What a file says, and what it includes; `read` says what is in one.
    ///
    /// # Errors
    /// A file that cannot be read, that includes itself, or is included too deep: by file and line of the `Include`.
    pub fn read(
        file: &str,
        read: &dyn Fn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<Whole> {
        let text = read(file)?;
        let mut whole = Whole::default();
        whole.add((file, &text), &mut vec![file.to_owned()], read)?;
        Ok(whole)
    }

    /// Where a line of the text is, as it is told: `nodes.conf: line 3`.
    pub fn place(&self, line: usize) -> String {
        match self.lines.get(line.saturating_sub(1)) {
            Some((file, line)) => format!("{}: line {line}", self.files[*file]),
            None => format!("line {line}"),
        }
    }

    /// How many lines say something.
    pub fn says(&self) -> usize {
        let lines = self.text.lines().map(|line| line.split('#').next());
        lines
            .filter(|line| line.is_some_and(|line| !line.trim().is_empty()))
            .count()
    }

    fn add(
        &mut self,
        (file, text): (&str, &str),
        within: &mut Vec<String>,
        read: &dyn Fn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        let at = self.files.len();
        self.files.push(file.to_owned());
        for (number, line) in (1..).zip(text.lines()) {
            if self.lines.len() >= LINES_MAX {
                bail!(
                    "{file}: line {number}: allowed are at most {LINES_MAX} lines with what is included"
                );
            }
            let Some(named) = included(line) else {
                self.lines.push((at, number));
                self.text.push_str(line);
                self.text.push('\n');
                continue;
            };
            let path = beside(file, named);
            let wrong = |why: &str| format!("{file}: line {number}: Include {named}: {why}");
            if within.contains(&path) {
                bail!(wrong("it is included in itself"));
            }
            if within.len() > DEPTH_MAX {
                bail!(wrong(&format!(
                    "included files may include others {DEPTH_MAX} deep"
                )));
            }
            let text = read(&path).map_err(|error| error.context(wrong("cannot be read")))?;
            within.push(path.clone());
            self.add((&path, &text), within, read)?;
            within.pop();
        }
        Ok(())
    }
}

/// The file that a line includes.
fn included(line: &str) -> Option<&str> {
    let line = line.split('#').next()?.trim();
    let (word, file) = line.split_once(char::is_whitespace)?;
    let file = file.trim();
    (word.eq_ignore_ascii_case("include") && !file.is_empty()).then_some(file)
}

fn beside(file: &str, named: &str) -> String {
    match Path::new(file).parent() {
        Some(place) => place.join(named).display().to_string(),
        None => named.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use anyhow::Context;

    use super::*;

    /// What is read of `/etc/slurm.conf`, where these files are.
    fn read(files: &[(&str, &str)]) -> anyhow::Result<Whole> {
        let files: BTreeMap<&str, &str> = files.iter().copied().collect();
        let of = |name: &str| {
            let text = files.get(name).context("no such file")?;
            Ok((*text).to_owned())
        };
        Whole::read("/etc/slurm.conf", &of)
    }

    #[test]
    fn what_is_included_stands_in_the_place_of_the_line_and_is_told_by_its_own() {
        let whole = read(&[
            (
                "/etc/slurm.conf",
                "A=1\ninclude parts/nodes.conf # those\nB=2\n",
            ),
            ("/etc/parts/nodes.conf", "C=3\nInclude more.conf\n"),
            ("/etc/parts/more.conf", "D=4\n"),
        ]);
        let whole = whole.expect("it is read");
        assert_eq!(whole.text, "A=1\nC=3\nD=4\nB=2\n");
        let places: BTreeSet<String> = (1..=4).map(|line| whole.place(line)).collect();
        let told = [
            "/etc/parts/more.conf: line 1",
            "/etc/parts/nodes.conf: line 1",
            "/etc/slurm.conf: line 1",
            "/etc/slurm.conf: line 3",
        ];
        assert!(places.iter().eq(told.iter()), "{places:?}");
        assert_eq!(whole.says(), 4);
        assert_eq!(
            read(&[("/etc/slurm.conf", "# nothing\n\n")])
                .expect("read")
                .says(),
            0
        );
    }

    #[test]
    fn what_cannot_be_included_is_refused_by_file_and_line() {
        let said = |files: &[(&str, &str)]| format!("{:#}", read(files).expect_err("refused"));
        let missing = said(&[("/etc/slurm.conf", "A=1\nInclude x.conf\n")]);
        let at = "/etc/slurm.conf: line 2: Include x.conf: ";
        assert_eq!(missing, format!("{at}cannot be read: no such file"));
        let cycle = said(&[
            ("/etc/slurm.conf", "Include x.conf\n"),
            ("/etc/x.conf", "\nInclude slurm.conf\n"),
        ]);
        assert_eq!(
            cycle,
            "/etc/x.conf: line 2: Include slurm.conf: it is included in itself"
        );
        let deep: Vec<(String, String)> = (0..20)
            .map(|n| (format!("/etc/{n}"), format!("Include {}\n", n + 1)))
            .collect();
        let mut files = vec![("/etc/slurm.conf", "Include 0\n")];
        files.extend(
            deep.iter()
                .map(|(name, text)| (name.as_str(), text.as_str())),
        );
        assert!(said(&files).ends_with("8 deep"), "{}", said(&files));
    }
}
