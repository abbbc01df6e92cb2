//! `eddy audit`: who changed what when, from the records.

mod words;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::bail;
use eddy_client::{Client, ClientError};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::services::instance::{Ping, PingRequest, SHUTDOWN, Stream, StreamRequest};
use eddy_wire::services::job::{EventsLine, JobSet, SIGNALLED};
use eddy_wire::time::Time;
use serde_json::{Value, json};

use crate::ids::Spelling;
use crate::listing::{Filter, Question};
use crate::names::Users;
use crate::session::Global;
use crate::table::{Align, Table};
use crate::{output, when};
use words::{Before, Begun, CONFIGURATION, POLICY};

/// Tell who changed what and when
///
/// From the records of the instance: accounts, queues turned on and off, nodes added, removed, taken out of service,
/// put back and declared dead, policies and values that were set, who shut it down, and what users did to jobs:
/// submissions for others, urgency, changes, suspensions, exceptions such as cancel, signals to jobs of others. Jobs
/// whose history was forgotten are not told of. Reads all records since the time that is given, so give
/// one where there is a long history.
#[derive(clap::Args)]
#[command(after_long_help = FIELDS)]
pub struct Args {
    /// Only since then: -1h, 2026-01-31, seconds since 1970
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,
    /// Only what this user did, by name or number
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,
    /// Only these: account, queue, reservation, drain, undrain, resource-define, shell-lost, leader-start,
    /// leader-stop, put, delete, submit, urgency, order, exception, jobspec-update, suspend, resume, memo, or of memos
    /// configuration, policy, shutdown, signal
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    event: Vec<String>,
    /// No heading
    #[arg(short = 'n', long = "no-header")]
    no_header: bool,
    /// One array of objects
    #[arg(long)]
    json: bool,
}

const FIELDS: &str = "Fields of --json:
  seq t        place and time of the record
  uid user     who did it; null where the record does not say
  event        the record's name
  job          number of the job, null where it is of none
  owner        whose job it is, null where it is of none
  what         what was done, in words
  context      the same as the record has it";

/// Records that say that somebody decided something, of the instance and of jobs.
const OWN: &[&str] = &[
    "account",
    "queue",
    "reservation",
    "drain",
    "undrain",
    "memo",
    "put",
    "delete",
    "resource-define",
    "shell-lost",
    "leader-start",
    "leader-stop",
];
const OF_JOBS: &[&str] = &[
    "submit",
    "urgency",
    "order",
    "exception",
    "jobspec-update",
    "suspend",
    "resume",
    "memo",
];

/// What of memos can be asked for by itself, and the key that such a memo has.
const OF_MEMOS: &[(&str, &str)] = &[
    ("configuration", CONFIGURATION),
    ("policy", POLICY),
    ("shutdown", SHUTDOWN),
    ("signal", SIGNALLED),
];

/// What memos say that are of no deed: other records of the same commit tell it.
const BESIDE: &[&str] = &["change-of-many", "done"];

/// One thing that somebody did.
struct Deed {
    job: Option<JobId>,
    /// Whose job it is.
    owner: Option<u32>,
    line: EventsLine,
    context: Value,
    what: String,
}

impl Deed {
    fn uid(&self) -> Option<u32> {
        by(&self.line.name, &self.context)
    }

    /// Whether it is what this name of an event asks for.
    fn is(&self, event: &str) -> bool {
        let of_memo = || {
            let (_, key) = OF_MEMOS.iter().find(|(name, _)| *name == event)?;
            self.context.get(key)
        };
        self.line.name == event || self.line.name == "memo" && of_memo().is_some()
    }

    /// What was done, and whose job it was where that is another's.
    fn what(&self, users: &Users) -> String {
        match self.owner.filter(|owner| self.uid() != Some(*owner)) {
            Some(owner) if self.line.name != "submit" => {
                format!("{} (job of {})", self.what, users.name(owner))
            }
            Some(_) | None => self.what.clone(),
        }
    }
}

/// Who did it, as the record says.
fn by(event: &str, context: &Value) -> Option<u32> {
    let user = |value: &Value| value["userid"].as_u64();
    // Some have what they are about in an object of its own. A value that somebody set is no such thing.
    let inner = || context.as_object()?.values().find_map(user);
    let uid = match event {
        "submit" => context["asked_by"].as_u64(),
        "memo" | "reservation" | "resource-define" => inner(),
        _ => user(context),
    };
    // Nobody is eddy itself.
    u32::try_from(uid?).ok().filter(|uid| *uid != u32::MAX)
}

/// Reads records one after the other.
struct Reader<'u> {
    users: &'u Users,
    before: Before,
    owners: BTreeMap<JobId, u32>,
    deeds: Vec<Deed>,
}

impl Reader<'_> {
    fn read(&mut self, job: Option<JobId>, line: EventsLine, since: Option<Time>) {
        let context = line.context.as_ref().map(|raw| raw.get());
        let context: Value = context
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null);
        if let ("submit", Some(job), Some(user)) = (&*line.name, job, context["userid"].as_u64()) {
            self.owners
                .extend(u32::try_from(user).map(|user| (job, user)));
        }
        let what = self.before.words(job, (&line.name, &context), self.users);
        let known = match job {
            None => OWN,
            Some(_) => OF_JOBS,
        };
        // What eddy did by itself names nobody: that is told of the instance only.
        let is_own = by(&line.name, &context).is_none();
        let is_of_somebody = job.is_some() || line.name == "shell-lost";
        let is_late = since.is_none_or(|since| line.timestamp >= since);
        let is_told = line.name == "memo" && BESIDE.iter().any(|key| context.get(key).is_some());
        let is_deed = known.contains(&line.name.as_str()) && !is_told;
        if is_deed && is_late && !(is_own && is_of_somebody) {
            self.deeds.push(Deed {
                owner: job.and_then(|job| self.owners.get(&job).copied()),
                job,
                line,
                context,
                what,
            });
        }
    }
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let users = Users::read();
    let user = args.user.as_ref().map(|user| users.number(user));
    let user = user.transpose()?;
    let since = args.since.as_deref().map(when::since).transpose()?;
    let known = known();
    let mut unknown = args.event.iter();
    if let Some(event) = unknown.find(|event| !known.contains(&event.as_str())) {
        bail!("--event: `{event}` given, allowed are {}", known.join(", "));
    }
    let mut deeds = global.session(async |client| all(&client, &users, since).await)?;
    deeds.retain(|deed| {
        (user.is_none() || deed.uid() == user)
            && (args.event.is_empty() || args.event.iter().any(|event| deed.is(event)))
    });
    if args.json {
        let object = |deed: &Deed| {
            json!({
                "seq": deed.line.seq,
                "t": deed.line.timestamp,
                "uid": deed.uid(),
                "user": deed.uid().map(|uid| users.name(uid)),
                "event": deed.line.name,
                "job": deed.job,
                "owner": deed.owner,
                "what": deed.what,
                "context": deed.context,
            })
        };
        output::json(&deeds.iter().map(object).collect::<Vec<Value>>())?;
        return Ok(0);
    }
    let columns = ["TIME", "USER", "EVENT", "JOB", "WHAT"];
    let mut table = Table::new(columns.map(|column| (column, Align::Left)));
    let spelling = Spelling::of_locale();
    for deed in &deeds {
        let dash = || "-".to_owned();
        table.push(vec![
            when::local(deed.line.timestamp),
            deed.uid().map_or_else(dash, |uid| users.name(uid)),
            deed.line.name.clone(),
            deed.job.map_or_else(dash, |job| spelling.show(job)),
            deed.what(&users),
        ]);
    }
    let mut out = output::stdout();
    match args.no_header {
        true => table.write_rows(&mut out)?,
        false => table.write(&mut out)?,
    }
    Ok(0)
}

/// What can be asked for.
fn known() -> Vec<&'static str> {
    let of_jobs = OF_JOBS.iter().filter(|event| !OWN.contains(event));
    let of_memos = OF_MEMOS.iter().map(|(name, _)| name);
    OWN.iter().chain(of_jobs).chain(of_memos).copied().collect()
}

/// All that somebody did since then.
///
/// Where nothing is to be told by what there was before that, reading begins there: the journal may be long.
async fn all(client: &Client, users: &Users, since: Option<Time>) -> anyhow::Result<Vec<Deed>> {
    let first = Seq(1);
    let from = match since {
        Some(since) => first_since(client, since).await?,
        None => first,
    };
    let mut reader = read(client, users, (from, since)).await?;
    if reader.before.begun() == Begun::TooLate {
        reader = read(client, users, (first, since)).await?;
    }
    let mut deeds = reader.deeds;
    if from > first {
        tell_owners(client, &mut deeds).await?;
    }
    Ok(deeds)
}

/// A place with nothing of that time or later before it, and not much that is older behind it. What was forgotten
/// leaves holes.
async fn first_since(client: &Client, since: Time) -> Result<Seq, ClientError> {
    let durable = client.call::<Ping>(&PingRequest::default()).await?.durable;
    let (mut from, mut to) = (Seq(1), durable.next());
    while from < to {
        let middle = Seq(from.0 + (to.0 - from.0) / 2);
        // Of a batch, since what began while this instance was away is recorded as of then.
        let batch = batch_from(client, middle).await?;
        let times = || batch.iter().map(|(_, line)| line.timestamp);
        match (times().next(), times().max(), batch.last()) {
            (Some(_), Some(latest), Some((_, line))) if latest < since => from = line.seq.next(),
            (Some(first), ..) if first < since => return Ok(middle),
            _ => to = middle,
        }
    }
    Ok(from)
}

/// The first records that are there from a place on.
async fn batch_from(
    client: &Client,
    from: Seq,
) -> Result<Vec<(Option<JobId>, EventsLine)>, ClientError> {
    let follow = false;
    let mut parts = client.stream::<Stream>(&StreamRequest { from, follow })?;
    match parts.next().await {
        Some(part) => Ok(part?.0.records),
        None => Ok(Vec::new()),
    }
}

/// Reads all from a place on; goes on where it was when the leader is another.
async fn read<'u>(
    client: &Client,
    users: &'u Users,
    (mut from, since): (Seq, Option<Time>),
) -> Result<Reader<'u>, ClientError> {
    let begun = match from > Seq(1) {
        true => Begun::Later,
        false => Begun::First,
    };
    let mut reader = Reader {
        users,
        before: Before::from(begun),
        owners: BTreeMap::new(),
        deeds: Vec::new(),
    };
    loop {
        let request = StreamRequest {
            from,
            follow: false,
        };
        let mut parts = client.stream::<Stream>(&request)?;
        loop {
            match parts.next().await {
                Some(Ok((part, _))) => {
                    for (job, line) in part.records {
                        from = line.seq.next();
                        reader.read(job, line, since);
                    }
                }
                Some(Err(ClientError::Lost { .. })) => break,
                Some(Err(error)) => return Err(error),
                None => return Ok(reader),
            }
        }
    }
}

/// Whose the jobs are that were submitted before.
async fn tell_owners(client: &Client, deeds: &mut [Deed]) -> anyhow::Result<()> {
    let unknown = deeds.iter().filter(|deed| deed.owner.is_none());
    let unknown: BTreeSet<JobId> = unknown.filter_map(|deed| deed.job).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let question = Question {
        filter: Filter::all(),
        jobs: JobSet::of(unknown),
        ..Question::default()
    };
    let rows = question.rows(client).await?;
    let owners: BTreeMap<JobId, u32> = rows.iter().map(|row| (row.id, row.userid)).collect();
    for deed in deeds.iter_mut().filter(|deed| deed.owner.is_none()) {
        deed.owner = deed.job.and_then(|job| owners.get(&job).copied());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[test]
    fn every_event_that_the_help_names_can_be_asked_for_and_the_other_way_round() {
        let command = Args::augment_args(clap::Command::new("audit"));
        let option = command.get_arguments().find(|one| one.get_id() == "event");
        let help = option.and_then(|one| one.get_help()).expect("a help");
        let help = help.to_string();
        let (_, names) = help.split_once(": ").expect("a list");
        let names = names.replace(" or of memos ", " ");
        let mut named: Vec<&str> = names.split(',').map(str::trim).collect();
        let mut all = known();
        named.sort_unstable();
        all.sort_unstable();
        assert_eq!(named, all);
    }
}
