//! The Standard Workload Format of the Parallel Workloads Archive: a line per
//! job, 18 numbers, `;` begins a comment.
//!
//! Of the header only `MaxProcs` (and `MaxNodes` where that is absent) is read;
//! of a job its number, submission, run time, processors and requested time, then
//! user, group and queue where they are. A line may end early after the requested time.
//! Nothing is guessed from waits.

use eddy_wire::time::{MICROS, Span, Time};
use thiserror::Error;

use super::workload::{LONGEST, Owner, Places, SimJob, Terms, UNKNOWN, Workload, twice};

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SwfError {
    /// A field that is no number.
    #[error("line {line}: field {field} ({name}): `{given}` is not a number from -1 to 1e12")]
    Number {
        /// From 1.
        line: usize,
        /// From 1.
        field: usize,
        /// What it would say.
        name: &'static str,
        /// What is there.
        given: String,
    },
    /// Fewer fields than a job needs.
    #[error("line {line}: {given} fields are given; a job has 18")]
    Short {
        /// From 1.
        line: usize,
        /// How many.
        given: usize,
    },
    /// The same job twice.
    #[error("job {0} is given twice")]
    Twice(u64),
}

/// The fields that are read, by their place from 1.
const ID: (usize, &str) = (1, "job number");
const SUBMIT: (usize, &str) = (2, "submit time");
const RUN: (usize, &str) = (4, "run time");
const PROCS: (usize, &str) = (5, "allocated processors");
const ASKED: (usize, &str) = (8, "requested processors");
const LIMIT: (usize, &str) = (9, "requested time");
/// Numbers of users, groups and queues are only names: what is no number is no name.
const USER: usize = 12;
const GROUP: usize = 13;
const QUEUE: usize = 15;

/// Reads a trace. Jobs that do not say how many processors they need or how long they ran are
/// dropped and counted: requested processors go before allocated ones, and a job that asked for no
/// time asked for its run time.
///
/// # Errors
/// [`SwfError`] with the line.
pub fn read_swf(text: &[u8]) -> Result<Workload, SwfError> {
    let mut workload = Workload::default();
    let mut nodes = None;
    let (mut owners, mut terms) = (Places::default(), Places::default());
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        match line.strip_prefix(b";") {
            Some(comment) => {
                workload.procs = workload.procs.or(header(comment, b"MaxProcs:"));
                nodes = nodes.or(header(comment, b"MaxNodes:"));
            }
            None if line.is_empty() => {}
            None => match job(line, at + 1, &mut owners, &mut terms)? {
                Some(job) => workload.jobs.push(job),
                None => workload.dropped += 1,
            },
        }
    }
    workload.procs = workload.procs.or(nodes);
    (workload.owners, workload.terms) = (owners.list(), terms.list());
    match twice(&workload.jobs) {
        Some(id) => Err(SwfError::Twice(id)),
        None => Ok(workload),
    }
}

/// The first number after a name.
fn header(comment: &[u8], name: &[u8]) -> Option<u64> {
    let rest = comment.trim_ascii().strip_prefix(name)?;
    let rest = std::str::from_utf8(rest).ok()?;
    let number = rest.split_whitespace().next()?.parse().ok()?;
    (number > 0).then_some(number)
}

fn job(
    line: &[u8],
    at: usize,
    owners: &mut Places<Owner>,
    terms: &mut Places<Terms>,
) -> Result<Option<SimJob>, SwfError> {
    let mut fields: [&[u8]; QUEUE] = [b""; QUEUE];
    let mut given = 0;
    let split = line.split(u8::is_ascii_whitespace);
    for field in split.filter(|field| !field.is_empty()) {
        if let Some(place) = fields.get_mut(given) {
            *place = field;
        }
        given += 1;
    }
    if given < LIMIT.0 {
        return Err(SwfError::Short { line: at, given });
    }
    let field = |(place, name)| number(fields[place - 1], at, (place, name));
    let id = field(ID)?;
    let (submit, run) = (field(SUBMIT)?, field(RUN)?);
    let (procs, asked) = (field(PROCS)?, field(ASKED)?);
    let limit = field(LIMIT)?;
    let procs = whole(asked).or(whole(procs));
    let (Some(id), Some(procs)) = (u64::try_from(id / MICROS).ok(), procs) else {
        return Ok(None);
    };
    if submit < 0 || run < 0 {
        return Ok(None);
    }
    let queue = match name(fields[QUEUE - 1]) {
        UNKNOWN => "",
        queue => queue,
    };
    let said = Terms {
        queue: queue.to_owned(),
        ..Terms::default()
    };
    Ok(Some(SimJob {
        id,
        submit: Time(submit),
        procs,
        nodes: None,
        run: Span(run),
        limit: Some(Span(if limit > 0 { limit } else { run })),
        owner: owners.owner(name(fields[GROUP - 1]), name(fields[USER - 1])),
        terms: terms.place(said),
    }))
}

/// The name of a user, group or queue, which is its number.
fn name(field: &[u8]) -> &str {
    let text = std::str::from_utf8(field).ok();
    let known = |text: &&str| text.parse::<u64>().is_ok();
    text.filter(known).unwrap_or(UNKNOWN)
}

/// A count of processors, at least 1.
fn whole(millionths: i64) -> Option<u64> {
    let count = u64::try_from(millionths / MICROS).ok()?;
    (count > 0).then_some(count)
}

/// A field in millionths. A few traces have decimals.
fn number(
    field: &[u8],
    line: usize,
    (place, name): (usize, &'static str),
) -> Result<i64, SwfError> {
    let text = std::str::from_utf8(field).ok();
    let whole = text.and_then(|text| text.parse::<i64>().ok());
    let millionths = match whole {
        Some(whole) => whole.checked_mul(MICROS),
        None => {
            let decimal = text.and_then(|text| text.parse::<f64>().ok());
            decimal.and_then(Time::from_seconds).map(|time| time.0)
        }
    };
    millionths
        .filter(|millionths| (-MICROS..=LONGEST).contains(millionths))
        .ok_or_else(|| SwfError::Number {
            line,
            field: place,
            name,
            given: String::from_utf8_lossy(&field[..field.len().min(40)]).into_owned(),
        })
}
