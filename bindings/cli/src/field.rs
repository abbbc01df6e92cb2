//! The fields of a job in a listing: names, headings, values and how they are
//! shown. Used by `eddy jobs -o`; documented in eddy-jobs(1).
//!
//! A format is a list of names (`id,state,returncode`), the name of a preset,
//! or a template like Flux's (`{id.f58:>12} {name:<10.10}`).

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::preempt::Mode;
use eddy_wire::services::child::{ChildRow, Summary};
use eddy_wire::services::job::JobRow;
use eddy_wire::suspension::Standing;
use eddy_wire::time::{Span, Time};

use crate::ids::Spelling;
use crate::listing::has_standing;
use crate::names::Users;
use crate::table::{Align, shown};
use crate::verbs::tree::gather::stage;
use crate::when;

/// What a listing knows besides the rows.
pub struct Scene {
    /// Names of users.
    pub users: Users,
    /// When it was made.
    pub now: Time,
    /// How ids are shown.
    pub spelling: Spelling,
    /// The instances among the jobs, as their parent sees them.
    pub children: BTreeMap<JobId, ChildRow>,
    /// The path of the listed instance, to be shown before each id; none shows ids alone.
    pub path: Option<String>,
}

impl Scene {
    fn id(&self, job: JobId) -> String {
        let job = self.spelling.show(job);
        match self.path.as_deref() {
            None | Some("") => job,
            Some(path) => format!("{}/{job}", self.spelling.path(path)),
        }
    }
}

/// A value before it is shown.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// There is none.
    None,
    /// As it is.
    Text(String),
    /// A number.
    Number(i64),
    /// A length of time.
    Length(Span),
    /// An instant.
    Instant(Time),
}

type Get = fn(&JobRow, &Scene) -> Value;

/// Name, heading, value.
const FIELDS: &[(&str, &str, Get)] = &[
    ("id", "JOBID", |row, scene| Value::Text(scene.id(row.id))),
    ("id.f58", "JOBID", |row, scene| {
        Value::Text(scene.spelling.show(row.id))
    }),
    ("id.f58plain", "JOBID", |row, _| {
        Value::Text(row.id.f58_ascii())
    }),
    ("id.dec", "JOBID", |row, _| Value::Text(row.id.to_string())),
    ("id.hex", "JOBID", |row, _| {
        Value::Text(format!("{:#x}", row.id.0))
    }),
    ("id.dothex", "JOBID", |row, _| Value::Text(row.id.dothex())),
    ("userid", "UID", |row, _| Value::Number(row.userid.into())),
    ("user", "USER", |row, scene| {
        Value::Text(scene.users.name(row.userid))
    }),
    ("username", "USER", |row, scene| {
        Value::Text(scene.users.name(row.userid))
    }),
    ("name", "NAME", |row, _| Value::Text(row.name.clone())),
    ("path", "PATH", |_, scene| {
        text(scene.path.as_deref().unwrap_or_default())
    }),
    ("queue", "QUEUE", |row, _| text(&row.queue)),
    ("account", "ACCOUNT", |row, _| text(&row.account)),
    ("bank", "BANK", |row, _| text(&row.account)),
    ("qos", "QOS", |row, _| text(&row.qos)),
    ("class", "CLASS", |row, _| text(&row.class)),
    ("job_set", "SET", |row, _| text(&row.job_set)),
    ("state", "STATE", |row, _| {
        Value::Text(row.state.name().to_owned())
    }),
    ("state_single", "S", |row, _| {
        Value::Text(row.state.letter().to_string())
    }),
    ("status", "STATUS", |row, _| {
        Value::Text(status(row).to_owned())
    }),
    ("status_abbrev", "ST", |row, _| {
        Value::Text(status_abbrev(row))
    }),
    ("result", "RESULT", |row, _| {
        row.result
            .map_or(Value::None, |r| Value::Text(result(r).0.into()))
    }),
    ("result_abbrev", "RS", |row, _| {
        row.result
            .map_or(Value::None, |r| Value::Text(result(r).1.into()))
    }),
    ("returncode", "RC", |row, _| number(row.returncode)),
    ("waitstatus", "WSTATUS", |row, _| number(row.status)),
    ("attempt", "ATTEMPT", |row, _| {
        Value::Number(row.attempt.0.into())
    }),
    ("preemptions", "PREEMPTED", |row, _| {
        Value::Number(row.preemptions.into())
    }),
    ("urgency", "URG", |row, _| Value::Number(row.urgency.into())),
    ("priority", "PRI", |row, _| number(row.priority)),
    ("reason", "REASON", |row, _| text(&row.reason)),
    ("nnodes", "NNODES", |row, _| {
        Value::Number(row.nnodes.into())
    }),
    ("ncores", "NCORES", |row, _| {
        Value::Number(row.ncores.into())
    }),
    ("ngpus", "NGPUS", |row, _| Value::Number(row.ngpus.into())),
    ("ntasks", "NTASKS", |row, _| {
        Value::Number(row.ntasks.into())
    }),
    ("nodelist", "NODELIST", |row, _| text(&row.nodelist)),
    ("duration", "DURATION", |row, _| length(row.duration)),
    ("runtime", "RUNTIME", |row, scene| runtime(row, scene.now)),
    ("contextual_time", "TIME", |row, scene| {
        runtime(row, scene.now)
    }),
    ("contextual_info", "INFO", info),
    ("uri", "URI", |row, scene| of_child(row, scene, uri)),
    ("instance.uri", "URI", |row, scene| {
        of_child(row, scene, uri)
    }),
    ("instance.id", "INSTANCE", |row, scene| {
        of_child(row, scene, |child| child.instance.clone().map(Value::Text))
    }),
    ("instance.stage", "STAGE", |row, scene| {
        of_child(row, scene, |child| Some(text(stage(child.stage))))
    }),
    ("instance.statedir", "STATEDIR", |row, scene| {
        of_child(row, scene, |child| child.statedir.clone().map(Value::Text))
    }),
    ("instance.summary", "SUMMARY", |row, scene| {
        of_child(row, scene, |child| Some(Value::Text(summary(child))))
    }),
    ("instance.pending", "PD", |row, scene| {
        count(row, scene, |summary| summary.pending)
    }),
    ("instance.running", "R", |row, scene| {
        count(row, scene, |summary| summary.running)
    }),
    ("instance.completed", "CD", |row, scene| {
        count(row, scene, |summary| summary.completed)
    }),
    ("instance.failed", "F", |row, scene| {
        count(row, scene, |summary| summary.failed)
    }),
    ("instance.cores_used", "USED", |row, scene| {
        count(row, scene, |summary| summary.cores_used)
    }),
    ("instance.instances", "INSIDE", |row, scene| {
        count(row, scene, |summary| summary.instances)
    }),
    ("t_submit", "T_SUBMIT", |row, _| {
        Value::Instant(row.t_submit)
    }),
    ("t_alloc", "T_ALLOC", |row, _| instant(row.t_alloc)),
    ("t_run", "T_RUN", |row, _| instant(row.t_run)),
    ("t_finish", "T_FINISH", |row, _| instant(row.t_finish)),
    ("t_cleanup", "T_CLEANUP", |row, _| instant(row.t_finish)),
    ("t_inactive", "T_INACTIVE", |row, _| instant(row.t_inactive)),
    ("t_suspend", "T_SUSPEND", |row, _| instant(row.t_suspend)),
    ("t_unended", "T_UNENDED", |row, _| instant(row.t_unended)),
    ("standing", "STANDING", |row, _| match has_standing(row) {
        true => Value::Text(standing(row.standing).to_owned()),
        false => Value::None,
    }),
    ("suspended", "SUSPENDED", |row, _| {
        length(Some(row.suspended))
    }),
];

/// Formats by name: `eddy jobs -o long`.
const PRESETS: &[(&str, &str)] = &[
    (
        "default",
        "{id:>8} {user:<8} {name:<12.32} {status_abbrev:>2} {ntasks:>6} {nnodes:>6} \
         {contextual_time!F:>8} {contextual_info}",
    ),
    (
        "long",
        "{id:>8} {user:<8} {queue:<8} {name:<12.32} {status:<9} {attempt:>7} {urgency:>3} \
         {ntasks:>6} {nnodes:>6} {ncores:>6} {t_submit!d:<19} {contextual_time!F:>8} {contextual_info}",
    ),
    (
        "endreason",
        "{id:>8} {status_abbrev:>2} {t_inactive!d:<19} {returncode:>3} {reason}",
    ),
];

fn text(text: &str) -> Value {
    if text.is_empty() {
        Value::None
    } else {
        Value::Text(text.to_owned())
    }
}

fn number<T: Into<i64>>(number: Option<T>) -> Value {
    number.map_or(Value::None, |number| Value::Number(number.into()))
}

fn instant(time: Option<Time>) -> Value {
    time.map_or(Value::None, Value::Instant)
}

fn length(seconds: Option<f64>) -> Value {
    let span = seconds.and_then(Time::from_seconds);
    span.map_or(Value::None, |micros| Value::Length(Span(micros.0)))
}

/// The long and the short name of a result.
fn result(result: JobResult) -> (&'static str, &'static str) {
    match result {
        JobResult::Completed => ("COMPLETED", "CD"),
        JobResult::Failed => ("FAILED", "F"),
        JobResult::Canceled => ("CANCELED", "CA"),
        JobResult::Timeout => ("TIMEOUT", "TO"),
    }
}

/// Whether one that runs has its cores.
fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Runs => "runs",
        Standing::Stopping => "stopping",
        Standing::Suspended => "suspended",
        Standing::Resuming => "resuming",
    }
}

/// Its state, or once it is over its result; of one that its instance did not see end, that.
pub fn status(row: &JobRow) -> &'static str {
    if row.t_unended.is_some() {
        return "UNENDED";
    }
    match (row.state, row.result) {
        (JobState::Inactive, Some(ended)) => result(ended).0,
        (JobState::Run, _) if row.standing.is_without_cores() => "SUSPENDED",
        (state, _) => state.name(),
    }
}

fn status_abbrev(row: &JobRow) -> String {
    if row.t_unended.is_some() {
        return "UE".to_owned();
    }
    match (row.state, row.result) {
        (JobState::Inactive, Some(ended)) => result(ended).1.to_owned(),
        (JobState::Run, _) if row.standing.is_without_cores() => "SU".to_owned(),
        (state, _) => state.letter().to_string(),
    }
}

fn runtime(row: &JobRow, now: Time) -> Value {
    let Some(begun) = row.t_run.or(row.t_alloc) else {
        return Value::None;
    };
    // Nobody knows for how long what has no end went on after that.
    let end = row.t_finish.or(row.t_inactive).or(row.t_unended);
    let end = end.unwrap_or(now);
    // While it is suspended it does not run.
    let end = row.t_suspend.map_or(end, |since| end.min(since));
    let suspended = Time::from_seconds(row.suspended).map_or(0, |micros| micros.0);
    Value::Length(Span(((end - begun).0 - suspended).max(0)))
}

/// A value of the instance that a job is; none for other jobs.
fn of_child(row: &JobRow, scene: &Scene, get: fn(&ChildRow) -> Option<Value>) -> Value {
    let child = scene.children.get(&row.id);
    child.and_then(get).unwrap_or(Value::None)
}

fn uri(child: &ChildRow) -> Option<Value> {
    child.uri.clone().map(Value::Text)
}

fn count(row: &JobRow, scene: &Scene, get: fn(&Summary) -> u64) -> Value {
    let child = scene.children.get(&row.id);
    let counted = child.and_then(|child| i64::try_from(get(&child.summary)).ok());
    counted.map_or(Value::None, Value::Number)
}

/// What an instance has come to, in a few words.
fn summary(child: &ChildRow) -> String {
    let Summary {
        pending,
        running,
        completed,
        failed,
        ..
    } = child.summary;
    let over = completed + failed;
    let stage = stage(child.stage);
    format!("{stage}, {pending} pending, {running} running, {over} done")
}

fn info(row: &JobRow, scene: &Scene) -> Value {
    match (row.state, scene.children.get(&row.id)) {
        (JobState::Run | JobState::Cleanup, Some(child)) if row.reason.is_empty() => {
            Value::Text(format!("{} ({})", row.nodelist, summary(child)))
        }
        _ if row.state.is_pending() => waiting(row, scene),
        _ => reason_or_hosts(row),
    }
}

/// Why one waits, and first that it has begun before, if it is for another's sake that it waits again.
fn waiting(row: &JobRow, scene: &Scene) -> Value {
    let by = row.preempted.as_ref().map(|last| {
        let is_last = last.preemption.mode == Mode::Requeue && last.attempt.next() == row.attempt;
        is_last.then(|| {
            format!(
                "preempted for job {}",
                scene.spelling.show(last.preemption.by)
            )
        })
    });
    let preempted = match (row.preemptions, by) {
        (0, _) | (_, Some(None)) => return text(&row.reason),
        (_, Some(Some(by))) => by,
        // Where listings are private it is not told of whose.
        (_, None) => "preempted for another user's job".to_owned(),
    };
    match row.reason.as_str() {
        "" => Value::Text(preempted),
        reason => Value::Text(format!("{preempted}; {reason}")),
    }
}

fn reason_or_hosts(row: &JobRow) -> Value {
    match row.state {
        JobState::Run | JobState::Cleanup | JobState::Inactive if row.reason.is_empty() => {
            text(&row.nodelist)
        }
        _ => text(&row.reason),
    }
}

/// How a value is turned into text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversion {
    /// Numbers with their fraction, which scripts can compute with.
    Plain,
    /// `!F`: a length as a duration with unit.
    Fsd,
    /// `!H`: a length as H:MM:SS.
    Clock,
    /// `!d`, `!D`: an instant as date and time.
    Date,
}

/// One field of a format.
#[derive(Clone)]
struct Column {
    title: &'static str,
    get: Get,
    conversion: Conversion,
    align: Align,
    width: usize,
    most: usize,
}

#[derive(Clone)]
enum Piece {
    Literal(String),
    Field(Column),
}

/// How a line of a listing is made.
pub enum Format {
    /// Columns as wide as they need to be.
    Columns(Vec<(&'static str, Align, Shown)>),
    /// Text with fields of given widths.
    Template(Template),
}

/// A field of a column.
#[derive(Clone)]
pub struct Shown(Column);

/// Text with fields in it.
pub struct Template(Vec<Piece>);

impl Format {
    /// What `-o` was given.
    pub fn parse(text: &str) -> anyhow::Result<Format> {
        if let Some((_, preset)) = PRESETS.iter().find(|(name, _)| *name == text) {
            return Ok(Format::Columns(columns(&template(preset)?)));
        }
        if text.contains('{') {
            return Ok(Format::Template(Template(template(text)?)));
        }
        let names = text.split([',', ' ']).filter(|name| !name.is_empty());
        let pieces = names.map(|name| Ok(Piece::Field(column(name)?)));
        let pieces: Vec<Piece> = pieces.collect::<anyhow::Result<_>>()?;
        match pieces.is_empty() {
            true => bail!("format is empty; allowed are names of fields, a preset or a template"),
            false => Ok(Format::Columns(columns(&pieces))),
        }
    }
}

fn columns(pieces: &[Piece]) -> Vec<(&'static str, Align, Shown)> {
    let fields = pieces.iter().filter_map(|piece| match piece {
        Piece::Field(column) => Some(column),
        Piece::Literal(_) => None,
    });
    fields
        .map(|column| (column.title, column.align, Shown(column.clone())))
        .collect()
}

impl Shown {
    /// The cell of a row; `-` when there is none.
    pub fn cell(&self, row: &JobRow, scene: &Scene) -> String {
        match (self.0.get)(row, scene) {
            Value::None => "-".to_owned(),
            value => cut(show(value, self.0.conversion), self.0.most),
        }
    }
}

impl Template {
    /// The line over all others.
    pub fn heading(&self) -> String {
        self.line(|column| column.title.to_owned())
    }

    /// The line of a row.
    pub fn row(&self, row: &JobRow, scene: &Scene) -> String {
        self.line(|column| show((column.get)(row, scene), column.conversion))
    }

    fn line(&self, text: impl Fn(&Column) -> String) -> String {
        let mut line = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(literal) => line.push_str(literal),
                Piece::Field(column) => {
                    let cell = cut(text(column), column.most);
                    column.align.put(&mut line, &cell, column.width);
                }
            }
        }
        line
    }
}

fn cut(mut text: String, most: usize) -> String {
    // No text has more characters than bytes.
    if text.len() > most
        && let Some((at, _)) = text.char_indices().nth(most)
    {
        text.truncate(at);
    }
    text
}

fn show(value: Value, conversion: Conversion) -> String {
    match (value, conversion) {
        (Value::None, _) => String::new(),
        (Value::Text(text), _) => shown(text),
        (Value::Number(number), _) => number.to_string(),
        (Value::Length(span), Conversion::Fsd) => when::short(span),
        (Value::Length(span), Conversion::Clock) => when::clock(span),
        (Value::Length(span), _) => span.to_string(),
        (Value::Instant(time), Conversion::Date) => when::local(time),
        (Value::Instant(time), _) => time.to_string(),
    }
}

fn column(name: &str) -> anyhow::Result<Column> {
    let found = FIELDS.iter().find(|(known, _, _)| *known == name);
    let (_, title, get) = found.with_context(|| {
        let known: Vec<&str> = FIELDS.iter().map(|(name, _, _)| *name).collect();
        format!("`{name}` is not a field; there are {}", known.join(" "))
    })?;
    Ok(Column {
        title,
        get: *get,
        conversion: Conversion::Plain,
        align: Align::Left,
        width: 0,
        most: usize::MAX,
    })
}

/// The pieces of a template; `{{` and `}}` are braces.
fn template(text: &str) -> anyhow::Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        literal.push_str(&rest[..at]);
        let (brace, after) = rest[at..].split_at(1);
        if let Some(after) = after.strip_prefix(brace) {
            literal.push_str(brace);
            rest = after;
            continue;
        }
        let (inner, after) = after
            .split_once('}')
            .filter(|_| brace == "{")
            .with_context(|| {
                format!(
                    "format `{text}`: a brace at byte {} has no other",
                    text.len() - rest.len() + at
                )
            })?;
        // Flux hides fields that are empty everywhere by `?:`; here they stay.
        for prefix in ["?+:", "?:", "+:"] {
            if let Some(before) = literal.strip_suffix(prefix) {
                literal.truncate(before.len());
            }
        }
        pieces.push(Piece::Literal(std::mem::take(&mut literal)));
        pieces.push(Piece::Field(field(inner)?));
        rest = after;
    }
    literal.push_str(rest);
    pieces.push(Piece::Literal(literal));
    Ok(pieces)
}

/// `NAME[!CONVERSION][:[<>^][WIDTH][.MOST]]`
fn field(inner: &str) -> anyhow::Result<Column> {
    let (named, layout) = inner.split_once(':').unwrap_or((inner, ""));
    let (name, conversion) = named.split_once('!').unwrap_or((named, ""));
    let mut column = column(name)?;
    column.conversion = match conversion {
        "" | "P" => Conversion::Plain,
        "F" => Conversion::Fsd,
        "H" => Conversion::Clock,
        "d" | "D" => Conversion::Date,
        other => bail!("`{{{inner}}}`: conversion !{other} is unknown; there are !F !H !d !D"),
    };
    let layout = layout.trim_end_matches(['h', '+', 's']);
    let (align, numbers) = match layout.split_at_checked(1) {
        Some(("<", rest)) => (Align::Left, rest),
        Some((">", rest)) => (Align::Right, rest),
        Some(("^", rest)) => (Align::Center, rest),
        _ => (Align::Left, layout),
    };
    column.align = align;
    let (width, most) = numbers.split_once('.').unwrap_or((numbers, ""));
    let count = |text: &str, default: usize| match text {
        "" => Ok(default),
        text => text.parse::<u16>().map(usize::from).with_context(|| {
            format!(
                "`{{{inner}}}`: `{text}` is not a width; allowed are 0 to {}",
                u16::MAX
            )
        }),
    };
    column.width = count(width, 0)?;
    column.most = count(most, usize::MAX)?;
    Ok(column)
}

#[cfg(test)]
pub(crate) mod tests;
