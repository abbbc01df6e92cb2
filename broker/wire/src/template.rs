//! File names with tags, as users give them to `--output`, `--error`, `--input`.
//!
//! Tried when a job is submitted, and called by the shell before it opens a file. It never looks at files.
//! The tags are Flux's, but for `{{attempt}}`: there a job runs once.

use std::fmt::Write as _;

/// Longest name after expansion, the kernel's limit for a path.
pub const PATH_MAX: usize = 4096;

/// The tags that are known, as they are written.
pub const TAGS: &str = "{{id}} {{id.f58}} {{id.hex}} {{attempt}} {{name}} {{taskid}} {{rank}} {{node.name}} {{node.id}}";

/// What tags stand for in one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names<'a> {
    /// Number of the job: `{{id}}` and `{{jobid}}`; `.dec` and `.hex` choose a
    /// spelling.
    pub job: u64,
    /// The same in F58: `.f58`.
    pub job_f58: &'a str,
    /// Which run of the job it is, from 1: `{{attempt}}`.
    pub attempt: u32,
    /// Name of the job: `{{name}}`.
    pub name: &'a str,
    /// Number of the task in the job: `{{taskid}}`; also `{{rank}}`, for those
    /// who know it from MPI.
    pub task: u32,
    /// Name of the host: `{{node.name}}`.
    pub host: &'a str,
    /// Index of the node in the job: `{{node.id}}`.
    pub node: u32,
}

/// A file name that cannot be expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A tag nobody knows.
    #[error("file name has the tag {given:?}; known are {TAGS}")]
    UnknownTag {
        /// Between the braces.
        given: String,
    },
    /// `{{` without `}}`.
    #[error("file name has {{{{ at byte {at} without }}}}")]
    Unclosed {
        /// Byte of the braces.
        at: usize,
    },
    /// Longer than the kernel takes.
    #[error("file name is {bytes} bytes after expansion; at most {PATH_MAX} are allowed")]
    TooLong {
        /// Bytes it has, or had when the limit was passed.
        bytes: usize,
    },
}

/// Whether tasks of one job get different names from this template, so that
/// each has a file of its own.
pub fn is_per_task(template: &str) -> bool {
    let compact: String = template.chars().filter(|c| !c.is_whitespace()).collect();
    compact.contains("{{taskid}}") || compact.contains("{{rank}}")
}

/// Puts the names in place of the tags.
pub fn expand(template: &str, names: &Names<'_>) -> Result<String, TemplateError> {
    let mut out = String::new();
    let mut rest = template;
    while let Some(open) = rest.find("{{") {
        let at = template.len() - rest.len() + open;
        let close = rest[open..]
            .find("}}")
            .ok_or(TemplateError::Unclosed { at })?
            + open;
        out.push_str(&rest[..open]);
        push_tag(&mut out, rest[open + 2..close].trim(), names)?;
        rest = &rest[close + 2..];
        if out.len() > PATH_MAX {
            break;
        }
    }
    out.push_str(rest);
    match out.len() {
        bytes if bytes >= PATH_MAX => Err(TemplateError::TooLong { bytes }),
        _ => Ok(out),
    }
}

fn push_tag(out: &mut String, tag: &str, names: &Names<'_>) -> Result<(), TemplateError> {
    let written = match tag {
        "id" | "jobid" | "id.dec" | "jobid.dec" => write!(out, "{}", names.job),
        "id.hex" | "jobid.hex" => write!(out, "{:#x}", names.job),
        "id.f58" | "jobid.f58" => write!(out, "{}", names.job_f58),
        "attempt" => write!(out, "{}", names.attempt),
        "name" => write!(out, "{}", names.name),
        "taskid" | "rank" => write!(out, "{}", names.task),
        "node.name" => write!(out, "{}", names.host),
        "node.id" => write!(out, "{}", names.node),
        other => {
            let given = other.chars().take(64).collect();
            return Err(TemplateError::UnknownTag { given });
        }
    };
    written.expect("a String takes whatever is written");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'_> = Names {
        job: 905,
        job_f58: "fGb",
        attempt: 2,
        name: "train",
        task: 3,
        host: "n7",
        node: 1,
    };

    #[test]
    fn each_tag_is_replaced() {
        let read = |text| expand(text, &NAMES).unwrap();
        assert_eq!(read("{{id}} {{jobid}} {{id.dec}}"), "905 905 905");
        assert_eq!(read("{{id.f58}} {{ jobid.hex }}"), "fGb 0x389");
        assert_eq!(
            read("{{name}}-{{attempt}}-{{taskid}}.{{node.name}}/{{node.id}}"),
            "train-2-3.n7/1"
        );
        assert_eq!(read("plain } { }}"), "plain } { }}");
    }

    #[test]
    fn values_are_not_expanded_again() {
        let names = Names {
            name: "{{id}}",
            ..NAMES
        };
        assert_eq!(expand("{{name}}", &names).unwrap(), "{{id}}");
    }

    #[test]
    fn what_cannot_be_expanded_is_named() {
        let refused = |text: &str| expand(text, &NAMES).unwrap_err();
        assert_eq!(
            refused("a{{jid}}"),
            TemplateError::UnknownTag {
                given: "jid".into()
            }
        );
        assert_eq!(refused("ab{{id}"), TemplateError::Unclosed { at: 2 });
        assert_eq!(
            refused(&"x".repeat(4096)),
            TemplateError::TooLong { bytes: 4096 }
        );
        assert!(matches!(
            refused(&"{{name}}".repeat(9999)),
            TemplateError::TooLong { .. }
        ));
        assert_eq!(
            refused("ab{{id}").to_string(),
            "file name has {{ at byte 2 without }}"
        );
    }

    #[test]
    fn only_task_tags_make_a_file_per_task() {
        assert!(is_per_task("out.{{ taskid }}") && is_per_task("{{rank}}"));
        assert!(!is_per_task("{{id}}.{{node.id}}"));
    }
}
