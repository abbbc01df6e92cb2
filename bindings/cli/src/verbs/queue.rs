//! `eddy queue`: which queues there are, and whether they take submissions and start jobs.

use std::time::{Duration, Instant};

use anyhow::bail;
use clap::Subcommand;
use eddy_client::Client;
use eddy_wire::queue::{Rules, Shut, Turn, UNNAMED};
use eddy_wire::services::job::JobSet;
use eddy_wire::services::queue::{List, QueueRow, TurnQueue, TurnRequest, Unheard};
use eddy_wire::time::{Span, Time};

use crate::listing::{Filter, Question};
use crate::names::Users;
use crate::session::Global;
use crate::table::{Align, Table, escaped};
use crate::verbs::submit::until_over;
use crate::{output, when};

/// A start that is not told of for so long is worth telling.
pub const UNHEARD_AFTER: Span = Span::seconds(2);
/// For so long a queue instance that is begun again is waited for.
const BEGUN_WITHIN: Duration = Duration::from_secs(30);
/// The pause between two looks at it: nobody is told of a queue by itself.
const BEGUN_LOOK: Duration = Duration::from_millis(100);

/// Show queues, and let them take submissions and start jobs or not
///
/// What is done to a queue is recorded and stands after a restart. The jobs that name no queue are
/// those of the queue `root`.
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List queues: where they lead, what is in them, what they allow
    ///
    /// Fields of --json: name, instance (null is this one), down (why that is; absent is not),
    /// unreached (it is up and not reached now; absent is not), default, gate (disabled and stopped: t,
    /// reason, userid; absent is open), pending and running (jobs of this instance), unheard (jobs that
    /// hold something and did not start yet as far as is known, and since when; absent is none), rules
    /// (what the configuration says; times in seconds).
    ///
    /// START is yes, no (stopped), down, away (the instance is not reached now) or unheard (the instance
    /// did not say for 2 s that jobs run which it was given).
    List {
        /// One array of objects
        #[arg(long)]
        json: bool,
        /// No heading
        #[arg(short = 'n', long = "no-header")]
        no_header: bool,
        /// These and no others
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Tell whether queues take submissions and start jobs, since when not, and why
    ///
    /// Also when an instance that serves one does not answer.
    Status {
        /// These and no others
        #[arg(value_name = "NAME")]
        names: Vec<String>,
    },
    /// Let queues take submissions again
    Enable(Which),
    /// Take no more submissions; what waits still starts
    Disable(Which),
    /// Let jobs of queues start again
    ///
    /// An instance that serves one and is down is begun again now, and what comes of that is said: that it is
    /// there, or, with exit code 1, why it is down again, or that it is not reached within 30 s.
    Start(Which),
    /// Start no more jobs of queues; what runs goes on, and submissions are taken
    ///
    /// The time that a job waits in a stopped queue does not count as waiting for resources.
    Stop(Which),
    /// Take no more submissions, and with --wait wait until all that is there is over
    ///
    /// What waits still starts. Another drain of the same queue only waits.
    Drain {
        #[command(flatten)]
        which: Which,
        /// Come back when the last job of the queues is over
        #[arg(long)]
        wait: bool,
    },
}

/// The queues that are meant.
#[derive(clap::Args)]
struct Which {
    /// All queues
    #[arg(short = 'a', long, conflicts_with = "names")]
    all: bool,
    /// Why, one line; shown to who is refused or waits
    #[arg(short = 'm', long, value_name = "TEXT")]
    message: Option<String>,
    /// The queues; may be left out where there is only one
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        match args.verb {
            Verb::List {
                json,
                no_header,
                names,
            } => {
                let rows = rows(&client, &names).await?;
                match json {
                    true => output::json(&rows)?,
                    false => table(&rows, no_header)?,
                }
            }
            Verb::Status { names } => {
                let users = Users::read();
                let rows = rows(&client, &names).await?;
                let now = when::now();
                output::lines(rows.iter().flat_map(|row| status(row, &users, now)))?;
            }
            Verb::Enable(which) => turn(&client, &which, Turn::Enable).await?,
            Verb::Disable(which) => turn(&client, &which, Turn::Disable).await?,
            Verb::Start(which) => return started(&client, &which).await,
            Verb::Stop(which) => turn(&client, &which, Turn::Stop).await?,
            Verb::Drain { which, wait } => {
                turn(&client, &which, Turn::Disable).await?;
                if wait {
                    drained(&client, &which).await?;
                }
            }
        }
        Ok(0)
    })
}

/// The queues of these names; all where none is given.
async fn rows(client: &Client, names: &[String]) -> anyhow::Result<Vec<QueueRow>> {
    let mut rows = client.call::<List>(&()).await?;
    let is_there = |name: &&String| rows.iter().any(|row| row.name == **name);
    if let Some(name) = names.iter().find(|name| !is_there(name)) {
        let there: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        bail!(
            "no queue `{}`; there are {}",
            escaped(name),
            there.join(", ")
        );
    }
    rows.retain(|row| names.is_empty() || names.contains(&row.name));
    Ok(rows)
}

/// Those that are meant by a change.
async fn meant(client: &Client, which: &Which) -> anyhow::Result<Vec<QueueRow>> {
    let rows = rows(client, &which.names).await?;
    if which.names.is_empty() && !which.all && rows.len() > 1 {
        let there: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        bail!("no queue given; allowed are --all and {}", there.join(", "));
    }
    Ok(rows)
}

async fn turn(client: &Client, which: &Which, turn: Turn) -> anyhow::Result<()> {
    let rows = meant(client, which).await?;
    let request = TurnRequest {
        queues: rows.into_iter().map(|row| row.name).collect(),
        turn,
        reason: which.message.clone().unwrap_or_default(),
    };
    client.call::<TurnQueue>(&request).await?;
    Ok(())
}

/// Lets jobs start, and says what comes of the instances that were down before.
async fn started(client: &Client, which: &Which) -> anyhow::Result<u8> {
    let rows = meant(client, which).await?;
    let down = rows.into_iter().filter(|row| row.down.is_some());
    let mut down: Vec<String> = down.map(|row| row.name).collect();
    turn(client, which, Turn::Start).await?;
    let until = Instant::now() + BEGUN_WITHIN;
    let mut code = 0;
    while !down.is_empty() {
        let is_late = Instant::now() >= until;
        let mut left = Vec::new();
        for row in self::rows(client, &down).await? {
            match begun(&row) {
                Some((line, worse)) => {
                    output::lines([line])?;
                    code = code.max(worse);
                }
                None if is_late => {
                    let (name, within) = (escaped(&row.name), BEGUN_WITHIN.as_secs());
                    output::lines([format!(
                        "{name}: its instance is not reached within {within} s"
                    )])?;
                    code = 1;
                }
                None => left.push(row.name),
            }
        }
        down = left;
        if !down.is_empty() {
            tokio::time::sleep(BEGUN_LOOK).await;
        }
    }
    Ok(code)
}

/// What came of the instance of a queue that was down, and the exit code; nothing yet while it begins.
fn begun(row: &QueueRow) -> Option<(String, u8)> {
    let name = escaped(&row.name);
    match &row.down {
        Some(why) => Some((format!("{name}: {}", escaped(why)), 1)),
        None if row.unreached => None,
        None => Some((format!("{name}: its instance is there again"), 0)),
    }
}

/// Waits for the ends of all jobs that are in queues.
async fn drained(client: &Client, which: &Which) -> anyhow::Result<()> {
    for row in meant(client, which).await? {
        let question = Question {
            filter: Filter::active(),
            queue: Some(row.name),
            ..Question::default()
        };
        let jobs = question.rows(client).await?;
        let jobs = JobSet::of(jobs.iter().map(|job| job.id));
        if jobs.is_empty() {
            continue;
        }
        until_over(client, jobs).await?;
    }
    Ok(())
}

fn status(row: &QueueRow, users: &Users, now: Time) -> Vec<String> {
    let name = escaped(&row.name);
    let told = |what: &str, not: &str, shut: &Option<Shut>| match shut {
        None => format!("{name}: {what}"),
        Some(shut) => {
            let why = match shut.reason.is_empty() {
                true => String::new(),
                false => format!(": {}", escaped(&shut.reason)),
            };
            let (t, user) = (when::local(shut.t), users.name(shut.userid));
            format!("{name}: {not} since {t} by {user}{why}")
        }
    };
    if let Some(why) = &row.down {
        return vec![format!(
            "{name}: takes no submissions and starts no jobs: {}",
            escaped(why)
        )];
    }
    let mut lines = vec![
        told(
            "takes submissions",
            "takes no submissions",
            &row.gate.disabled,
        ),
        match unreached(row) {
            Some(who) => format!("{name}: starts no jobs now: {who} is not reached"),
            None => told("starts jobs", "starts no jobs", &row.gate.stopped),
        },
    ];
    lines.extend(unheard(row, now));
    lines
}

/// Whose absence alone keeps the jobs of a queue from their start.
fn unreached(row: &QueueRow) -> Option<String> {
    let instance = row.instance.as_ref().filter(|_| row.unreached)?;
    let is_open = row.down.is_none() && row.gate.stopped.is_none();
    is_open.then(|| format!("queue instance {}", escaped(instance)))
}

/// Jobs of which it should have been said by now that they run.
fn overdue(row: &QueueRow, now: Time) -> Option<Unheard> {
    let late = |unheard: &Unheard| now.0 - unheard.since.0 >= UNHEARD_AFTER.0;
    row.unheard.filter(late)
}

/// Who has not said for how many jobs, for how long, that they run.
fn unheard(row: &QueueRow, now: Time) -> Option<String> {
    let unheard = overdue(row, now)?;
    let who = match &row.instance {
        Some(name) => format!("queue instance {}", escaped(name)),
        None => "nodes that they were given".to_owned(),
    };
    let jobs = match unheard.jobs {
        1 => "1 job runs".to_owned(),
        jobs => format!("{jobs} jobs run"),
    };
    Some(format!(
        "{}: {who} did not say yet that {jobs}, since {}",
        escaped(&row.name),
        when::local(unheard.since)
    ))
}

fn table(rows: &[QueueRow], no_header: bool) -> anyhow::Result<()> {
    let columns = [
        ("QUEUE", Align::Left),
        ("INSTANCE", Align::Left),
        ("SUBMIT", Align::Left),
        ("START", Align::Left),
        ("PENDING", Align::Right),
        ("RUNNING", Align::Right),
        ("PRIORITY", Align::Right),
        ("NODES", Align::Right),
        ("REQUIRES", Align::Left),
        ("TIME", Align::Right),
        ("DEFAULT", Align::Right),
    ];
    let mut table = Table::new(columns);
    let now = when::now();
    for row in rows {
        let name = match row.default && row.name != UNNAMED {
            true => format!("{}*", row.name),
            false => row.name.clone(),
        };
        table.push(vec![
            name,
            row.instance.clone().unwrap_or_else(|| "-".to_owned()),
            submits(row).to_owned(),
            starts(row, now).to_owned(),
            row.pending.to_string(),
            row.running.to_string(),
            row.rules.priority.to_string(),
            nodes(&row.rules),
            requires(&row.rules),
            time(row.rules.max_time),
            time(row.rules.default_time),
        ]);
    }
    let mut out = output::stdout();
    match no_header {
        true => table.write_rows(&mut out)?,
        false => table.write(&mut out)?,
    }
    Ok(())
}

fn submits(row: &QueueRow) -> &'static str {
    match (&row.down, &row.gate.disabled) {
        _ if row.gone => "gone",
        (Some(_), _) => "down",
        (None, None) => "yes",
        (None, Some(_)) => "no",
    }
}

fn starts(row: &QueueRow, now: Time) -> &'static str {
    match (&row.down, &row.gate.stopped) {
        (Some(_), _) => "down",
        (None, Some(_)) => "no",
        (None, None) if row.unreached => "away",
        (None, None) if overdue(row, now).is_some() => "unheard",
        (None, None) => "yes",
    }
}

fn nodes(rules: &Rules) -> String {
    match (rules.min_nodes, rules.max_nodes) {
        (None, None) => "-".to_owned(),
        (Some(least), None) => format!("{least}-"),
        (None, Some(most)) => format!("-{most}"),
        (Some(least), Some(most)) => format!("{least}-{most}"),
    }
}

fn requires(rules: &Rules) -> String {
    let required = rules.required();
    required.map_or_else(|| "-".to_owned(), |required| required.to_string())
}

fn time(span: Option<Span>) -> String {
    span.map_or_else(|| "-".to_owned(), when::clock)
}
