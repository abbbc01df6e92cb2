//! `eddy audit`: who changed what when, from the records.

use anyhow::bail;
use eddy_client::{Client, ClientError};
use eddy_sched::policy::print::overrides;
use eddy_sched::policy::read::read;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::services::instance::{Stream, StreamRequest};
use eddy_wire::services::job::EventsLine;
use eddy_wire::time::Time;
use serde_json::{Value, json};

use crate::ids::Spelling;
use crate::names::Users;
use crate::session::Global;
use crate::table::{Align, Table};
use crate::{output, when};

/// Tell who changed what and when
///
/// From the records of the instance: accounts, queues turned on and off, nodes taken out of service and
/// put back, policies that were set, and what one user did to jobs: urgency, exceptions such as cancel. Jobs whose
/// history was forgotten are not told of. Reads all records since the time that is given, so give
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
    /// Only these: account, queue, reservation, drain, undrain, memo, urgency, exception, ...
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
  context      what was changed: the record's own words";

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
    "leader-start",
    "leader-stop",
];
const OF_JOBS: &[&str] = &["urgency", "order", "exception", "jobspec-update"];

/// The memo of a configuration that was changed.
const CONFIGURATION: &str = "configuration";
/// The memo of a policy that was set.
const POLICY: &str = "policy";

/// One thing that somebody did.
struct Deed {
    job: Option<JobId>,
    line: EventsLine,
    context: Value,
}

impl Deed {
    fn of(job: Option<JobId>, line: EventsLine) -> Option<Deed> {
        let known = match job {
            None => OWN,
            Some(_) => OF_JOBS,
        };
        if !known.contains(&line.name.as_str()) {
            return None;
        }
        let text = line.context.as_ref().map(|raw| raw.get());
        let context: Value = text
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null);
        // What eddy did to a job by itself names nobody.
        let is_own = job.is_some() && context["userid"].is_null();
        (!is_own).then_some(Deed { job, line, context })
    }

    fn uid(&self) -> Option<u32> {
        let user = |value: &Value| value["userid"].as_u64();
        // Memos and reservations have what they are about in an object of its own.
        let inner = || self.context.as_object()?.values().find_map(user);
        u32::try_from(user(&self.context).or_else(inner)?).ok()
    }

    /// The context without who did it.
    fn what(&self) -> String {
        let mut context = self.context.clone();
        if let Some(fields) = context.as_object_mut() {
            fields.remove("userid");
            for inner in fields.values_mut().filter_map(Value::as_object_mut) {
                inner.remove("userid");
            }
            // Nor two whole policies: what one has that its preset has not is enough.
            if let Some(set) = fields.get_mut(POLICY) {
                let policy = set["text"].as_str().and_then(|text| read(text).ok());
                *set = policy.map_or(Value::Null, |policy| {
                    let keys = overrides(&policy).into_iter();
                    keys.map(|(path, value)| format!("{path} = {value}"))
                        .collect()
                });
            }
            // Nobody reads an inventory in a line.
            if self.line.name == "resource-define" {
                fields.remove("R");
            }
            // Nor a whole configuration: what changed in it is beside.
            if let Some(change) = fields.get_mut(CONFIGURATION).and_then(Value::as_object_mut) {
                for field in ["live", "over"] {
                    change.remove(field);
                }
            }
        }
        match context {
            Value::Null => "-".to_owned(),
            context => context.to_string(),
        }
    }
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let users = Users::read();
    let user = args.user.as_ref().map(|user| users.number(user));
    let user = user.transpose()?;
    let since = args.since.as_deref().map(when::since).transpose()?;
    let known = || OWN.iter().chain(OF_JOBS);
    if let Some(event) = args
        .event
        .iter()
        .find(|event| !known().any(|one| one == event))
    {
        let all: Vec<&str> = known().copied().collect();
        bail!("--event: `{event}` given, allowed are {}", all.join(", "));
    }
    let mut deeds = global.session(async |client| Ok(all(&client, since).await?))?;
    deeds.retain(|deed| {
        (user.is_none() || deed.uid() == user)
            && (args.event.is_empty() || args.event.contains(&deed.line.name))
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
            deed.what(),
        ]);
    }
    let mut out = output::stdout();
    match args.no_header {
        true => table.write_rows(&mut out)?,
        false => table.write(&mut out)?,
    }
    Ok(0)
}

/// All that somebody did; goes on where it was when the leader is another.
async fn all(client: &Client, since: Option<Time>) -> Result<Vec<Deed>, ClientError> {
    let (mut deeds, mut from) = (Vec::new(), Seq(1));
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
                        if since.is_none_or(|since| line.timestamp >= since) {
                            deeds.extend(Deed::of(job, line));
                        }
                    }
                }
                Some(Err(ClientError::Lost { .. })) => break,
                Some(Err(error)) => return Err(error),
                None => return Ok(deeds),
            }
        }
    }
}
