//! What a jobspec asks of the shell that starts its tasks (`attributes.system.shell.options`, RFC 25), as far as
//! it can be wrong.
//!
//! Looked at when a job is submitted, so that nobody waits in a queue for an option that cannot be obeyed, and by
//! the shell, which obeys it. Options that nobody knows are left alone: they may be another tool's.

use serde_json::Value;
use thiserror::Error;

use crate::jobspec::Jobspec;
use crate::template::{self, Names, TemplateError};
use crate::warning;

/// What tasks are bound to of the cores.
pub const CPU_AFFINITY: &str = "cpu-affinity";
/// What tasks are told of the GPUs.
pub const GPU_AFFINITY: &str = "gpu-affinity";
/// Where standard input comes from.
pub const INPUT: &str = "input";
/// Where output goes.
pub const OUTPUT: &str = "output";
/// How many tasks a node or core has.
pub const PER_RESOURCE: &str = "per-resource";
/// Soft limits of the tasks.
pub const RLIMIT: &str = "rlimit";
/// Which rights files that tasks make do not have.
pub const UMASK: &str = "umask";

/// All options that are obeyed, by the first word of their keys and in its order.
pub const OPTIONS: [&str; 8] = [
    CPU_AFFINITY,
    GPU_AFFINITY,
    INPUT,
    OUTPUT,
    PER_RESOURCE,
    RLIMIT,
    warning::OPTION,
    UMASK,
];

/// Whether an option of this dotted key does anything.
pub fn is_obeyed(key: &str) -> bool {
    let first = key.split('.').next();
    first.is_some_and(|first| OPTIONS.contains(&first))
}

/// What tasks are bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// All tasks to all cores of the part.
    On,
    /// Each task to its share of them.
    PerTask,
    /// Not bound.
    Off,
}

/// What becomes of what an output file holds already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputMode {
    /// Each attempt begins it anew.
    Truncate,
    /// Each attempt writes behind it.
    Append,
}

/// The limits that `-o rlimit` may name, as in `ulimit` and in Flux.
pub const RLIMITS: [&str; 16] = [
    "cpu",
    "fsize",
    "data",
    "stack",
    "core",
    "rss",
    "nproc",
    "nofile",
    "memlock",
    "as",
    "locks",
    "sigpending",
    "msgqueue",
    "nice",
    "rtprio",
    "rttime",
];
/// What Flux calls `nofile`, too.
const OFILE: &str = "ofile";
/// The most that a umask has: what it can take away.
const UMASK_MAX: u32 = 0o777;

/// An option that cannot be obeyed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OptionError {
    /// `cpu-affinity` or `gpu-affinity` is none of what it may be.
    #[error("shell option {option}: is {given}; allowed are on, off, per-task")]
    Affinity {
        /// Which.
        option: &'static str,
        /// What it is.
        given: String,
    },
    /// `rlimit` is no object.
    #[error("shell option rlimit: is not an object of names")]
    NoLimits,
    /// A limit that there is none of.
    #[error("shell option rlimit.{name}: is unknown; known are {}", RLIMITS.join(", "))]
    NoLimit {
        /// Its name.
        name: String,
    },
    /// A limit is no number, or less than -1.
    #[error("shell option rlimit.{name}: is {given}; allowed are -1 and more")]
    Limit {
        /// Its name.
        name: String,
        /// What it is.
        given: String,
    },
    /// `output.mode` is none of the two.
    #[error("shell option output.mode: is {given}; allowed are truncate and append")]
    OutputMode {
        /// What it is.
        given: String,
    },
    /// `umask` is no text of octal digits.
    #[error("shell option umask: is {given}; allowed are octal digits from 0 to 777, such as 022")]
    Umask {
        /// What it is.
        given: String,
    },
    /// A file has no name.
    #[error("shell option {option}: is empty; a file has a name")]
    NoName {
        /// Which.
        option: &'static str,
    },
    /// A file's name cannot be expanded.
    #[error("shell option {option}: {error}")]
    Name {
        /// Which.
        option: &'static str,
        /// Why.
        error: TemplateError,
    },
}

/// The files that a job may name.
const FILES: [&str; 3] = [
    "output.stdout.path",
    "output.stderr.path",
    "input.stdin.path",
];
/// The name that means no file.
const NONE: &str = "none";
/// What names are tried with.
const TRIED: Names<'_> = Names {
    job: 1,
    job_f58: "f2",
    attempt: 1,
    name: "",
    task: 0,
    host: "",
    node: 0,
};

/// Whether it names files for output, which tasks on several nodes then have in common.
pub fn names_output(jobspec: &Jobspec) -> bool {
    let outputs = FILES[..2].iter();
    outputs
        .filter_map(|option| jobspec.shell_option(option)?.as_str())
        .any(|name| name != NONE)
}

/// What `cpu-affinity` or `gpu-affinity` says; on where nothing is said.
///
/// # Errors
/// It is none of the three.
pub fn affinity(jobspec: &Jobspec, option: &'static str) -> Result<Affinity, OptionError> {
    match jobspec.shell_option(option) {
        None => Ok(Affinity::On),
        // `-o cpu-affinity` without a value is 1.
        Some(Value::Number(_) | Value::Bool(true)) => Ok(Affinity::On),
        Some(value) => match value.as_str() {
            Some("on") => Ok(Affinity::On),
            Some("off") => Ok(Affinity::Off),
            Some("per-task") => Ok(Affinity::PerTask),
            Some(_) | None => Err(OptionError::Affinity {
                option,
                given: shown(&value.to_string()),
            }),
        },
    }
}

/// The soft limits that a job asks for, by their place in [`RLIMITS`]; `None` is no limit.
///
/// # Errors
/// A name or a number is none.
pub fn rlimits(jobspec: &Jobspec) -> Result<Vec<(usize, Option<u64>)>, OptionError> {
    let Some(option) = jobspec.shell_option(RLIMIT) else {
        return Ok(Vec::new());
    };
    let given = option.as_object().ok_or(OptionError::NoLimits)?;
    let limit = |(name, value): (&String, &Value)| {
        let known = match name.as_str() {
            OFILE => "nofile",
            name => name,
        };
        let at = RLIMITS.iter().position(|limit| *limit == known);
        let at = at.ok_or_else(|| OptionError::NoLimit { name: shown(name) })?;
        match value.as_i64() {
            Some(-1) => Ok((at, None)),
            Some(soft) if soft >= 0 => Ok((at, Some(soft.unsigned_abs()))),
            _ => Err(OptionError::Limit {
                name: name.clone(),
                given: shown(&value.to_string()),
            }),
        }
    };
    given.iter().map(limit).collect()
}

/// The umask that a job asks for. It is a text and no number, since people read and write it in octal digits.
///
/// # Errors
/// It is not of octal digits, or takes away what no file has.
pub fn umask(jobspec: &Jobspec) -> Result<Option<u32>, OptionError> {
    let Some(value) = jobspec.shell_option(UMASK) else {
        return Ok(None);
    };
    let digits = value
        .as_str()
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let umask = digits.and_then(|text| u32::from_str_radix(text, 8).ok());
    match umask.filter(|umask| *umask <= UMASK_MAX) {
        Some(umask) => Ok(Some(umask)),
        None => Err(OptionError::Umask {
            given: shown(&value.to_string()),
        }),
    }
}

/// What `output.mode` says; as in Flux, output files begin anew where nothing is said.
///
/// # Errors
/// It is none of the two.
pub fn output_mode(jobspec: &Jobspec) -> Result<OutputMode, OptionError> {
    let Some(value) = jobspec.shell_option("output.mode") else {
        return Ok(OutputMode::Truncate);
    };
    match value.as_str() {
        Some("truncate") => Ok(OutputMode::Truncate),
        Some("append") => Ok(OutputMode::Append),
        Some(_) | None => Err(OptionError::OutputMode {
            given: shown(&value.to_string()),
        }),
    }
}

/// As much of what was given as one line has place for.
fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Whether the shell can obey all that is asked of it.
///
/// # Errors
/// The first that it cannot.
pub fn check(jobspec: &Jobspec) -> Result<(), OptionError> {
    if jobspec.attributes.system.shell.is_empty() {
        return Ok(());
    }
    affinity(jobspec, CPU_AFFINITY)?;
    affinity(jobspec, GPU_AFFINITY)?;
    rlimits(jobspec)?;
    umask(jobspec)?;
    output_mode(jobspec)?;
    for option in FILES {
        let Some(name) = jobspec.shell_option(option).and_then(Value::as_str) else {
            continue;
        };
        if name.is_empty() {
            return Err(OptionError::NoName { option });
        }
        template::expand(name, &TRIED).map_err(|error| OptionError::Name { option, error })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn with(options: Value) -> Jobspec {
        let jobspec = json!({
            "version": 1,
            "resources": [{"type": "slot", "count": 1, "label": "task",
                           "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 0, "shell": {"options": options}}},
        });
        Jobspec::from_value(jobspec).expect("a jobspec")
    }

    fn told(options: Value) -> Result<(), String> {
        check(&with(options)).map_err(|error| error.to_string())
    }

    #[test]
    fn what_the_shell_cannot_obey_is_named() {
        let path = |name: &str| json!({"output": {"stdout": {"path": name}}});
        assert_eq!(told(json!({})), Ok(()));
        assert_eq!(told(json!({"mpi": "none", "colour": 1})), Ok(()));
        assert_eq!(told(path("o.{{id}}.{cc}.{{taskid}}")), Ok(()));
        let refused = [
            (
                json!({"cpu-affinity": "bad"}),
                "cpu-affinity: is \"bad\"; allowed are on",
            ),
            (json!({"gpu-affinity": [1]}), "gpu-affinity: is [1]"),
            (json!({"rlimit": 3}), "rlimit: is not an object"),
            (
                json!({"rlimit": {"foo": 3}}),
                "rlimit.foo: is unknown; known are cpu",
            ),
            (json!({"rlimit": {"core": -2}}), "rlimit.core: is -2"),
            (
                json!({"output": {"mode": "a"}}),
                "output.mode: is \"a\"; allowed are truncate and append",
            ),
            (json!({"umask": 22}), "umask: is 22; allowed are octal"),
            (json!({"umask": "28"}), "umask: is \"28\""),
            (json!({"umask": "1000"}), "umask: is \"1000\""),
            (json!({"umask": "+7"}), "umask: is \"+7\""),
            (path(""), "output.stdout.path: is empty"),
            (path("a{{foo}}"), "the tag \"foo\"; known are {{id}}"),
            (path("a{{"), "has {{ at byte 1 without }}"),
        ];
        for (options, why) in refused {
            let error = told(options).expect_err("it is refused");
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn options_are_known_by_their_first_word() {
        assert!(is_obeyed("rlimit.core") && is_obeyed("signal"));
        assert!(!is_obeyed("mpi") && !is_obeyed("outputs") && !is_obeyed(""));
        assert!(OPTIONS.is_sorted(), "they are told in this order");
    }

    #[test]
    fn limits_are_told_by_place() {
        let asked = with(json!({"rlimit": {"core": 0, "nofile": -1}}));
        assert_eq!(rlimits(&asked), Ok(vec![(4, Some(0)), (7, None)]));
        let asked = with(json!({"rlimit": {"ofile": 9}}));
        assert_eq!(rlimits(&asked), Ok(vec![(7, Some(9))]));
    }

    #[test]
    fn a_umask_is_octal() {
        assert_eq!(umask(&with(json!({}))), Ok(None));
        assert_eq!(umask(&with(json!({"umask": "0027"}))), Ok(Some(0o27)));
    }
}
