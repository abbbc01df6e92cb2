//! What the jobs of a demo leave behind of themselves, and what it proves.
//!
//! Each job has a file of its own, to which it writes a line when it begins and one when
//! it ends. Called by `survive`; it knows nothing of instances.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// How many of the broken are named in an error.
const NAMED_MAX: usize = 5;

/// What a job's task runs, `{cc}` in it being its number: the lines, and a tenth to half a second
/// between them.
pub fn script(folder: &str, lane: &str) -> String {
    format!(
        "echo begun >> {folder}/{lane}.{{cc}}; sleep 0.$(( {{cc}} % 5 + 1 )); \
         echo $EDDY_JOB_ID ended >> {folder}/{lane}.{{cc}}"
    )
}

/// A job that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The name of its file.
    pub file: String,
    /// How it is said to have ended; none if that was not heard.
    pub returncode: Option<i32>,
}

/// What became of the jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Accepted ones.
    pub submitted: usize,
    /// Those of them that began.
    pub ran: usize,
    /// Those that did not run to their end, or are said not to have.
    pub lost: Vec<String>,
    /// Those that began more than once.
    pub doubled: Vec<String>,
}

impl Count {
    /// Reads the file of each job.
    ///
    /// # Errors
    /// One cannot be read that is there.
    pub fn of(folder: &Path, jobs: &[Accepted]) -> anyhow::Result<Count> {
        let mut count = Count {
            submitted: jobs.len(),
            ..Count::default()
        };
        for job in jobs {
            let path = folder.join(&job.file);
            let text = match fs::read_to_string(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
                read => read.with_context(|| path.display().to_string())?,
            };
            let begun = text.lines().filter(|line| *line == "begun").count();
            let ended = text.lines().filter(|line| line.ends_with("ended")).count();
            count.ran += begun.min(1);
            if ended == 0 || job.returncode != Some(0) {
                count.lost.push(job.file.clone());
            }
            if begun > 1 || ended > 1 {
                count.doubled.push(job.file.clone());
            }
        }
        Ok(count)
    }

    /// Which were lost or doubled, if any was.
    pub fn broken(&self) -> Option<String> {
        let named = |what: &str, jobs: &[String]| {
            let names = jobs.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>();
            let more = if jobs.len() > NAMED_MAX { " ..." } else { "" };
            (!jobs.is_empty()).then(|| format!("{what}: {}{more}", names.join(" ")))
        };
        let parts = [named("lost", &self.lost), named("doubled", &self.doubled)];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_did_not_run_or_ran_twice_is_seen() {
        let folder = tempfile::tempdir().expect("a folder");
        let leave = |file: &str, text: &str, returncode| {
            if !text.is_empty() {
                fs::write(folder.path().join(file), text).expect("written");
            }
            let file = file.to_owned();
            Accepted { file, returncode }
        };
        let jobs = [
            leave("well", "begun\n7 ended\n", Some(0)),
            leave("never", "", Some(0)),
            leave("half", "begun\n", Some(0)),
            leave("killed", "begun\n8 ended\n", Some(137)),
            leave("unheard", "begun\n9 ended\n", None),
            leave("twice", "begun\nbegun\n3 ended\n", Some(0)),
        ];
        let count = Count::of(folder.path(), &jobs).expect("counted");
        assert_eq!((count.submitted, count.ran), (6, 5));
        assert_eq!(count.lost, ["never", "half", "killed", "unheard"]);
        assert_eq!(count.doubled, ["twice"]);
        let broken = count.broken().expect("broken");
        assert_eq!(broken, "lost: never half killed unheard; doubled: twice");
        let well = Count::of(folder.path(), &jobs[..1]).expect("counted");
        assert_eq!((well.submitted, well.ran, well.broken()), (1, 1, None));
    }
}
