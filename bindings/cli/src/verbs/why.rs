//! `eddy why`: why a job is where it is, and when it would start.

mod ended;
mod others;

use std::collections::BTreeMap;
use std::io::Write;

use anyhow::{Context, bail};
use eddy_client::{Client, ClientError};
use eddy_sched::policy::read::read;
use eddy_wire::error::Code;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Sharing;
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::{Basis, Estimate, Explained, Reason, Suppose};
use eddy_wire::services::job::{JobRow, JobSet};
use eddy_wire::services::queue::{List, QueueRow};
use eddy_wire::services::sched::{Becomes, Bounded};
use eddy_wire::suspension::Standing;
use eddy_wire::time::Time;
use serde_json::{Value, json};

use crate::explained::{bounds, supposed, turn};
use crate::field::status;
use crate::ids::{self, Spelling};
use crate::listing::{Filter, Question};
use crate::names::Users;
use crate::session::Global;
use crate::table::escaped;
use crate::verbs::policy;
use crate::verbs::queue::UNHEARD_AFTER;
use crate::{output, suppose, when};
use others::{gives, not_lent, preempted, said};

/// Tell why jobs wait, and when they would start
///
/// For a job that waits for resources: what is in its way, how many are ahead of it, between when
/// and when it would start if nothing else came, and what its turn comes from. For any other: its
/// state, and the reason if it waits; of one that did not end well how, where, when and by whom it
/// ended, and where its output is. Where others are ending to make room for a job
/// it is told which and by when; and of a job that was ended for another, for which and by which rule.
///
/// A start is reckoned from what is known: a job that has no time limit may run for ever, and then
/// nobody knows when what waits for it would start at the latest.
///
/// Of a few jobs it is also told by what least change each would start at once: a shorter time
/// limit, fewer nodes or slots. With --if and --if-policy it is told what would be; nothing is
/// changed by asking.
///
/// Of a job that waits for something else than resources (it is held, at a limit, for a time or for
/// another job) it is told what that is, and when the job would start if it were let go now.
///
/// A start that is promised is kept for the job; any other is only reckoned, and later where others come before it.
#[derive(clap::Args)]
#[command(after_long_help = FIELDS)]
pub struct Args {
    /// One array of objects
    #[arg(long)]
    json: bool,
    /// As if each job asked for that instead: nodes, slots, time (as -t), urgency, queue, account, qos; up to 16 jobs
    #[arg(long = "if", value_name = "KEY=VALUE,...")]
    suppose: Option<String>,
    /// As if the instance obeyed that policy: a preset, or a file; - is standard input
    #[arg(long, value_name = "NAME|FILE")]
    if_policy: Option<String>,
    /// Jobs: f2JL, 1000, lists and ranges (f5-f9), copies (f5_all, f5_3), of an instance 905/f5
    #[arg(value_name = "JOB", required = true)]
    ids: Vec<String>,
}

const FIELDS: &str = "Fields of --json, null where there is none:
  id f58       number of the job, and as text
  state result where it is in its life, and how it ended
  reason       why it waits or how it ended, in words
  binding      the same as data, of a job that waits for resources
  ahead        how many jobs are before it in turn
  start        null, or earliest and latest: seconds since 1970; null is unknown; and basis: promise, or
               forecast: as if nobody came before it
  moved        that an earlier start was promised: from, until when that was, and by, an object with kind: job
               (and its number), nodes that went, extension (of the job of that
               number), policy that was set, overrun of what runs; another and extension-of-another where
               the number is not for who asks
  priority     policy, value, terms with name, factor, weight, contribution
  requires     what its queue requires of nodes, as --requires spells it, of a job that waits
  advice       by what the job would start at once: objects with nodes, slots or limit (seconds)
  lent         nodes that it is not given, as its limit is longer than they are lent: instance, most, ranks
  ended        of one that did not end well: t, status (of wait), returncode, nodelist, by (the user who
               ended it), stdout and stderr (files, where its output is not kept by the instance)
  bound        with --if, what is in its way beside resources: becomes (refused, held by a limit, or
               standby) and why, which names the limit; then start is null, and let_go where it is refused
  let_go       of one that waits for something else than resources: reason, binding, ahead and start, were
               it let go now
  preemptions  how many of its attempts were ended for the sake of another job
  preempted    the last of them: attempt, t, by (a job), until, cause, mode, grace, why
  gives        of an instance that runs: nodes that it is to give; each with ranks, by, until, cause, grace, why
With --if and --if-policy all but id, f58, state and result are as they would be.";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&args.ids)?;
    let jobs = ids::many(ids)?;
    let (suppose, policy) = (args.suppose()?, args.policy());
    global.session_again(async |client| {
        let question = Question {
            filter: Filter::all(),
            jobs: jobs.clone(),
            ..Question::default()
        };
        let (mut rows, told) = asked(&client, &question, &suppose).await?;
        rows.sort_by_cached_key(|row| (ids::place(ids, row.id), row.id));
        let code = known("why", ids, &rows);
        let spelling = Spelling::of_locale();
        let shows = |job| global.command("job attach", &spelling.show(job));
        let told = Told {
            ended: ended::told_of(&client, &rows, shows).await?,
            ..told
        };
        let users = Users::read();
        let waits = |row: &JobRow| told.waiting.contains_key(&row.id);
        let unheard = Unheard::at(when::now());
        let is_asked_for = |row: &JobRow| waits(row) || unheard.is(row);
        let queues = match rows
            .iter()
            .any(|row| !row.queue.is_empty() && is_asked_for(row))
        {
            true => client.call::<List>(&()).await?,
            false => Vec::new(),
        };
        for row in rows.iter_mut().filter(|row| unheard.is(row)) {
            row.reason = unheard.reason(row, &queues);
        }
        let required = required(&queues);
        if args.json {
            let required = |row: &JobRow| required.get(&row.queue).map(String::as_str);
            let object = |row| object(row, &told, required(row));
            output::json(&rows.iter().map(object).collect::<Vec<Value>>())?;
            return Ok(code);
        }
        let mut out = output::stdout();
        for row in &mut rows {
            row.reason = global.hinted(&row.reason);
            for line in lines(row, &told, (&suppose, &policy), &users) {
                writeln!(out, "{line}")?;
            }
            if let (true, Some(required)) = (waits(row), required.get(&row.queue)) {
                let queue = escaped(&row.queue);
                writeln!(out, "  queue:  {queue} requires {}", escaped(required))?;
            }
        }
        out.flush()?;
        Ok(code)
    })
}

impl Args {
    /// How the other policy is called in what is told.
    fn policy(&self) -> String {
        match self.if_policy.as_deref() {
            None => String::new(),
            Some("-") => "of standard input".to_owned(),
            Some(word) => format!("`{}`", escaped(word)),
        }
    }

    fn suppose(&self) -> anyhow::Result<Suppose> {
        let mut suppose = match &self.suppose {
            Some(text) => suppose::parse(text)?,
            None => Suppose::default(),
        };
        if let Some(word) = &self.if_policy {
            let text = policy::named(word).context("--if-policy")?;
            if let Err(errors) = read(&text) {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                bail!("--if-policy: {}: {}", escaped(word), errors.join("; "));
            }
            suppose.policy = Some(text.into());
        }
        Ok(suppose)
    }
}

/// Says which of the jobs named one by one there are not, in one line; gives the exit code.
pub fn known(verb: &str, texts: &[String], rows: &[JobRow]) -> u8 {
    let mut missing = ids::singles(texts);
    missing.retain(|(_, job)| rows.iter().all(|row| row.id != *job));
    let unknown: Vec<&str> = missing.iter().map(|(text, _)| *text).collect();
    if unknown.is_empty() && !rows.is_empty() {
        return 0;
    }
    let unknown = match unknown.is_empty() {
        true => texts.join(" "),
        false => unknown.join(" "),
    };
    eprintln!("eddy {verb}: no such job here: {}", escaped(&unknown));
    output::FAILED
}

/// What an instance says of jobs.
#[derive(Default)]
struct Told {
    /// Of those that wait for resources.
    waiting: BTreeMap<JobId, Explained>,
    /// Of those that wait for something else, as if they were let go.
    let_go: BTreeMap<JobId, Explained>,
    /// Of those that did not end well.
    ended: BTreeMap<JobId, ended::Ended>,
    /// Of those that would not go on as is supposed.
    bounds: BTreeMap<JobId, Bounded>,
}

impl Told {
    /// What is in the way of one beside resources, unless it would never have those.
    fn bound(&self, one: &Explained) -> Option<&Bounded> {
        let bound = self.bounds.get(&one.job);
        bound.filter(|_| never(&one.reason).is_none())
    }
}

/// How often it is asked about jobs of which nothing was told.
const ASKED_MAX: usize = 4;

/// The rows of jobs, and what is said of those that wait. Who begins between the two questions waited by the one and
/// was not there by the other: then both are asked again.
async fn asked(
    client: &Client,
    question: &Question,
    suppose: &Suppose,
) -> anyhow::Result<(Vec<JobRow>, Told)> {
    let mut asked = 0;
    loop {
        let rows = question.rows(client).await?;
        let told = told_of(client, &rows, suppose).await?;
        asked += 1;
        if asked == ASKED_MAX || !rows.iter().any(|row| is_between(row, &told)) {
            return Ok((rows, told));
        }
    }
}

/// Whether only a planner knows why one waits, and said nothing of it.
fn is_between(row: &JobRow, told: &Told) -> bool {
    let left = [Reason::New, Reason::Turn { job: row.id }].map(|reason| reason.to_string());
    row.state == JobState::Sched
        && !told.waiting.contains_key(&row.id)
        && left.contains(&row.reason)
}

/// Those that wait, explained.
async fn told_of(client: &Client, rows: &[JobRow], suppose: &Suppose) -> anyhow::Result<Told> {
    let waits = |row: &&JobRow| match row.state {
        JobState::Sched | JobState::Depend | JobState::Priority => true,
        JobState::Run => row.standing == Standing::Resuming,
        _ => false,
    };
    let queued = rows.iter().filter(waits);
    let jobs = JobSet::of(queued.map(|row| row.id));
    if jobs.is_empty() {
        return Ok(Told::default());
    }
    let reply = match supposed(client, Some(jobs.clone()), suppose).await {
        // What an instance left that is over: the rows say so.
        Err(ClientError::Refused(refusal)) if refusal.code == Code::End => {
            return Ok(Told::default());
        }
        Err(ClientError::Refused(refusal))
            if refusal.code == Code::Invalid && suppose.policy.is_some() =>
        {
            bail!("--if-policy: {}", refusal.text);
        }
        reply => reply?,
    };
    let bounds = match suppose.is_of_jobs() {
        true => bounds(client, jobs, suppose).await?,
        false => Vec::new(),
    };
    let by_job = |all: Vec<Explained>| all.into_iter().map(|one| (one.job, one)).collect();
    Ok(Told {
        waiting: by_job(reply.jobs),
        let_go: by_job(reply.let_go),
        ended: BTreeMap::new(),
        bounds: bounds.into_iter().map(|one| (one.job, one)).collect(),
    })
}

/// What queues require of nodes, by queue, where they do.
fn required(queues: &[QueueRow]) -> BTreeMap<String, String> {
    let required = |row: &QueueRow| Some((row.name.clone(), row.rules.required()?.to_string()));
    queues.iter().filter_map(required).collect()
}

/// Jobs that were given what they asked for, and of which nothing was heard since.
struct Unheard {
    /// Those given it before that.
    given: Time,
}

impl Unheard {
    fn at(now: Time) -> Unheard {
        Unheard {
            given: Time(now.0 - UNHEARD_AFTER.0),
        }
    }

    fn is(&self, row: &JobRow) -> bool {
        let is_late = row.t_alloc.is_some_and(|given| given < self.given);
        is_late && row.state == JobState::Run && row.t_run.is_none() && row.reason.is_empty()
    }

    /// Who has not said since when that its tasks run.
    fn reason(&self, row: &JobRow, queues: &[QueueRow]) -> String {
        let since = when::local(row.t_alloc.unwrap_or(self.given));
        let mut queues = queues.iter();
        let queue = queues.find(|queue| queue.name == row.queue);
        match queue.and_then(|queue| queue.instance.as_ref()) {
            Some(name) => format!(
                "given to queue instance {name} at {since}, which has not said yet that it runs"
            ),
            None => {
                format!("its nodes were given to it at {since}, and none has said yet that it runs")
            }
        }
    }
}

fn lines(
    row: &JobRow,
    told: &Told,
    (suppose, policy): (&Suppose, &str),
    users: &Users,
) -> Vec<String> {
    let spelling = Spelling::of_locale();
    let mut lines = vec![format!("job {}: {}", spelling.show(row.id), status(row))];
    lines.extend(preempted(row, spelling));
    lines.extend(row.gives.iter().map(|one| gives(one, spelling)));
    let condition =
        (!suppose.is_nothing()).then(|| format!("  if:     {}", condition(suppose, policy)));
    let Some(one) = told.waiting.get(&row.id) else {
        if !row.reason.is_empty() {
            lines.push(format!("  reason: {}", escaped(&row.reason)));
        }
        if let Some(ended) = told.ended.get(&row.id) {
            lines.extend(ended::lines(row, ended, users));
        }
        lines.extend(supposed_aside(row, told, suppose, condition));
        return lines;
    };
    lines.extend(condition);
    if let Some(bound) = told.bound(one) {
        lines.push(bounded(bound));
        if bound.becomes != Becomes::Standby {
            return lines;
        }
    }
    if at_once(one) {
        lines.push("  start:  at once".to_owned());
        lines.push(format!("  turn:   {}", turn(&one.priority)));
        return lines;
    }
    lines.push(format!("  reason: {}", escaped(&one.reason.to_string())));
    // Of one that only waits so nodes may still come.
    if let Some(why) = never(&one.reason).filter(|_| !suppose.is_nothing()) {
        lines.push(format!("  start:  never: {why}"));
        return lines;
    }
    lines.push(match one.ahead {
        0 => "  ahead:  nobody".to_owned(),
        1 => "  ahead:  1 job".to_owned(),
        ahead => format!("  ahead:  {ahead} jobs"),
    });
    lines.push(format!("  start:  {}", start(one.start)));
    lines.extend(one.moved.map(|moved| said(moved, spelling)));
    if let Some(likely) = one.start.and_then(|start| start.likely) {
        let (from, to) = (when::local(likely.from), when::local(likely.to));
        lines.push(format!(
            "  likely: between {from} and {to}, as four of five lately"
        ));
    }
    lines.push(format!("  turn:   {}", turn(&one.priority)));
    lines.extend(one.lent.iter().map(not_lent));
    for advice in &one.advice {
        let options = advised(row, one.sharing, advice);
        lines.push(format!("  sooner: with {options} it would start at once"));
    }
    lines
}

/// What would be of one that waits for no resources.
fn supposed_aside(
    row: &JobRow,
    told: &Told,
    suppose: &Suppose,
    condition: Option<String>,
) -> Vec<String> {
    let Some(one) = told.let_go.get(&row.id) else {
        let text = match row.state.is_pending() {
            true => "  if:     is not reckoned of a job that waits for that",
            false => "  if:     is told only of jobs that wait",
        };
        return condition.map(|_| text.to_owned()).into_iter().collect();
    };
    let mut lines = Vec::from_iter(condition);
    lines.extend(told.bound(one).map(bounded));
    // Who is at a limit may be within it by another request.
    let is_held = row.reason.starts_with("waits for limit `");
    if is_held && suppose.is_of_jobs() && !told.bounds.contains_key(&row.id) {
        lines.push("  limit:  none would keep it back".to_owned());
    }
    if told.bound(one).is_none_or(|bound| !is_refused(bound)) {
        lines.push(let_go(row, one));
    }
    lines
}

/// Whether nothing else is to be told of it: it would not be there.
fn is_refused(bound: &Bounded) -> bool {
    bound.becomes == Becomes::Refused
}

/// What is in its way beside resources.
fn bounded(bound: &Bounded) -> String {
    let why = escaped(&bound.why);
    match bound.becomes {
        Becomes::Refused => format!("  start:  never: it would be refused: {why}"),
        Becomes::Held => format!("  limit:  it would be kept back: {why}"),
        Becomes::Standby => format!("  limit:  it would go on as QoS standby: {why}"),
    }
}

/// What would be of one that waits for something else than resources if it waited for nothing else.
fn let_go(row: &JobRow, one: &Explained) -> String {
    let when = match row.urgency {
        0 => "if released, and kept back by nothing else",
        _ => "if kept back by nothing else",
    };
    let behind = match one.ahead {
        0 => String::new(),
        1 => " behind 1 job".to_owned(),
        ahead => format!(" behind {ahead} jobs"),
    };
    let reason = one.reason.to_string();
    let reason = escaped(&reason);
    match (at_once(one), never(&one.reason), one.start) {
        (true, ..) => format!("  {when}: it would start at once"),
        (false, Some(why), _) => {
            format!("  {when}: it would never start ({why}): then it {reason}")
        }
        (false, None, None) => {
            format!("  {when}: it would wait{behind}, nobody knows how long: then it {reason}")
        }
        (false, None, at) => format!(
            "  {when}: it would start {}{behind}: then it {reason}",
            start(at)
        ),
    }
}

/// Spelled as options that whoever submits the job again puts in place of its own: so many nodes have fewer
/// tasks, but where it has them whole with a task each, which a number of nodes alone asks for.
fn advised(row: &JobRow, sharing: Sharing, advice: &Suppose) -> String {
    let options = suppose::options(advice);
    let Some(nodes) = advice.nodes.filter(|_| row.nnodes > 0) else {
        return options;
    };
    if sharing == Sharing::Exclusive && row.ntasks == row.nnodes {
        return options;
    }
    let tasks = u64::from(nodes) * u64::from(row.ntasks) / u64::from(row.nnodes);
    format!("{options} -n {}", tasks.max(u64::from(nodes)))
}

/// Why no end of another job would let it start, where that is so.
fn never(reason: &Reason) -> Option<&'static str> {
    match reason {
        Reason::NeverOnOneNode { .. }
        | Reason::NeverInAll { .. }
        | Reason::NoSuchRanks { .. }
        | Reason::NoSuchNodes { .. }
        | Reason::NeverPool { .. }
        | Reason::NotInQueue { .. } => Some("the instance does not have that"),
        Reason::NeverBeside { .. } | Reason::NotLent { .. } => {
            Some("it does not have that for others")
        }
        Reason::Refused { .. } => Some("its queue does not take that"),
        Reason::RefusedHere { .. } => Some("the instance does not take that"),
        Reason::NotInReservation { .. } => Some("its reservation does not take that"),
        _ => None,
    }
}

/// What is supposed, in words; `policy` as it was named.
fn condition(suppose: &Suppose, policy: &str) -> String {
    // Slots are no option: -n counts tasks, of which one may have several.
    let slots = suppose.slots.map(|slots| match slots {
        1 => "1 slot".to_owned(),
        slots => format!("{slots} slots"),
    });
    let rest = suppose::options(&Suppose {
        slots: None,
        ..suppose.clone()
    });
    let words = slots
        .into_iter()
        .chain(Some(rest).filter(|rest| !rest.is_empty()));
    let asked = words.collect::<Vec<String>>().join(" ");
    match (&suppose.policy, asked.is_empty()) {
        (None, _) => format!("it asked for {asked}"),
        (Some(_), true) => format!("policy {policy} were obeyed"),
        (Some(_), false) => format!("it asked for {asked} and policy {policy} were obeyed"),
    }
}

/// Nothing is in its way.
fn at_once(one: &Explained) -> bool {
    let is_sure = |start: Estimate| start.latest == Some(start.earliest);
    one.reason == Reason::New && one.start.is_some_and(is_sure)
}

/// When one would start, and what that rests on.
fn start(start: Option<Estimate>) -> String {
    let Some(Estimate {
        earliest,
        latest,
        basis,
        ..
    }) = start
    else {
        return "unknown".to_owned();
    };
    let Some(latest) = latest else {
        return format!("between {} and unknown", when::local(earliest));
    };
    let time = match latest == earliest {
        true => format!("at {}", when::local(latest)),
        false => format!(
            "between {} and {}",
            when::local(earliest),
            when::local(latest)
        ),
    };
    match basis {
        Basis::Promise => format!("{time} (promised)"),
        Basis::Forecast => format!("{time} (if nobody comes before it)"),
    }
}

fn object(row: &JobRow, told: &Told, required: Option<&str>) -> Value {
    let waits = told.waiting.get(&row.id);
    let reason = waits.map_or_else(|| row.reason.clone(), |one| one.reason.to_string());
    // Who waits for something else than resources has none.
    let turn = waits.filter(|one| !one.priority.policy.is_empty());
    let bound = told.bounds.get(&row.id);
    let goes_on = bound.is_none_or(|bound| bound.becomes == Becomes::Standby);
    let let_go = told.let_go.get(&row.id);
    let let_go = let_go.filter(|_| bound.is_none_or(|bound| !is_refused(bound)));
    json!({
        "id": row.id,
        "f58": row.id.f58_ascii(),
        "state": row.state,
        "result": row.result,
        "reason": reason,
        "binding": waits.map(|one| &one.reason),
        "ahead": turn.map(|one| one.ahead),
        "start": waits.filter(|_| goes_on).and_then(|one| one.start),
        "moved": waits.and_then(|one| one.moved),
        "priority": turn.map(|one| &one.priority),
        "requires": waits.and(required),
        "advice": waits.map(|one| &one.advice),
        "lent": waits.map(|one| &one.lent),
        "bound": bound.map(|bound| json!({"becomes": bound.becomes, "why": bound.why})),
        "let_go": let_go.map(|one| json!({
            "reason": one.reason.to_string(),
            "binding": one.reason,
            "ahead": one.ahead,
            "start": one.start,
        })),
        "ended": told.ended.get(&row.id).map(|ended| ended::object(row, ended)),
        "preemptions": row.preemptions,
        "preempted": row.preempted,
        "gives": row.gives,
    })
}
