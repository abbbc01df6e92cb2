//! `eddy reservation`: nodes kept from a time to a time, for some jobs or for maintenance.

use anyhow::{Context, bail};
use clap::{ArgGroup, Subcommand};
use eddy_wire::account::Name;
use eddy_wire::reservation::Purpose;
use eddy_wire::services::reservation::{
    Create, CreateRequest, Delete, DeleteRequest, Deleted, List, ReservationRow, Running, Which,
};
use eddy_wire::time::{Span, Time};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::ids::Spelling;
use crate::names::Users;
use crate::number::number;
use crate::session::Global;
use crate::table::{Align, Table, escaped};
use crate::verbs::resource::targets;
use crate::{output, when};

/// Keep nodes from a time to a time, for jobs that name it or for maintenance
///
/// From its beginning to its end only jobs start on the nodes of a reservation that name it (eddy
/// submit --reservation) and are of its accounts or users; they end before it does. Before it begins
/// only those start there whose time limit is over by then; jobs without a limit do not. When it ends
/// its nodes are everybody's again.
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
    /// Make a reservation; owner and admins may
    ///
    /// It is refused where jobs would still run on its nodes when it begins, and where another
    /// reservation has one of them at that time. So is one in which no job fits, since its jobs begin to end
    /// some time before it does (11 s where exec.kill_grace is 5 s), but for --maintenance.
    Create(Box<New>),
    /// List reservations that are on or to come
    ///
    /// Fields of --json: name, start, end (seconds since 1970), state (on, to come), ranks, hosts,
    /// unreached (those of its ranks that nobody can have whom it is for, since no queue leads there that
    /// is open to them; the column counts them), purpose (jobs, maintenance), accounts, users (ids),
    /// pending and running (jobs that name it), userid (who made it).
    List {
        /// One array of objects
        #[arg(long)]
        json: bool,
        /// No heading
        #[arg(short = 'n', long = "no-header")]
        no_header: bool,
    },
    /// End reservations before their time, all that are named or none: what runs goes on, jobs that
    /// wait for them are ended, and named
    Delete {
        /// Which
        #[arg(value_name = "NAME", required = true)]
        names: Vec<Name>,
    },
}

/// How long ago a start may have been that is meant as now.
const LATE: Span = Span::seconds(60);

/// A reservation to make.
#[derive(clap::Args)]
#[command(group = ArgGroup::new("which").args(["nodes", "count"]).required(true))]
struct New {
    /// What jobs are to name: up to 64 of A-Z, a-z, 0-9, `-`, `_` and `.`
    #[arg(value_name = "NAME")]
    name: Name,
    /// From when: now, +1h, 16:00, tomorrow, 2026-01-31T12:00, seconds since 1970
    #[arg(long, value_name = "TIME", default_value = "now")]
    start: String,
    /// For how long: 2h, 30m, 1d
    #[arg(long, value_name = "FSD")]
    duration: String,
    /// Ranks (0-3,7) or hosts (n[1-4]); these or --count
    #[arg(long, value_name = "TARGETS")]
    nodes: Option<String>,
    /// So many nodes, chosen now among those that are free at the start
    ///
    /// As far as there are such they are of those that jobs of one queue can have that is open to somebody
    /// it is for. Where there are fewer, it is said how many are not.
    #[arg(long, value_name = "N", value_parser = number(1..=262_144_u32), conflicts_with = "nodes")]
    count: Option<u32>,
    /// For jobs of these accounts and of those under them; these, --users or --maintenance
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    accounts: Vec<Name>,
    /// For jobs of these users, by name or number
    #[arg(long, value_name = "USER,...", value_delimiter = ',')]
    users: Vec<String>,
    /// For nobody's jobs
    #[arg(long, conflicts_with_all = ["accounts", "users"])]
    maintenance: bool,
    /// Also where jobs will still run there when it begins: they go on
    #[arg(long)]
    ignore_running: bool,
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        match args.verb {
            Verb::Create(new) => {
                let made = client.call::<Create>(&new.request(when::now())?).await?;
                let (from, until) = (when::local(made.from), when::local(made.until));
                let name = &made.name;
                output::lines([format!(
                    "{name}: ranks {} from {from} to {until}",
                    made.ranks
                )])?;
                let rows = client.call::<List>(&()).await?;
                let row = rows.iter().find(|row| row.reservation.name == made.name);
                output::lines(row.and_then(unreached))?;
            }
            Verb::List { json, no_header } => {
                let rows = client.call::<List>(&()).await?;
                match json {
                    true => output::json(&rows.iter().map(object).collect::<Vec<Value>>())?,
                    false => table(&rows, no_header)?,
                }
            }
            Verb::Delete { names } => {
                let (name, also) = names.split_first().expect("one is required");
                let (name, also) = (name.clone(), also.to_vec());
                let once = Some(Uuid::now_v7());
                let request = DeleteRequest { name, also, once };
                let gone = client.call::<Delete>(&request).await?;
                output::lines(gone.iter().filter_map(ended))?;
            }
        }
        Ok(0)
    })
}

impl New {
    fn request(self, now: Time) -> anyhow::Result<CreateRequest> {
        let users = Users::read();
        let purpose = match self.maintenance {
            true => Purpose::Maintenance,
            false => Purpose::Jobs {
                accounts: self.accounts,
                users: self
                    .users
                    .iter()
                    .map(|user| users.number(user))
                    .collect::<anyhow::Result<Vec<u32>>>()
                    .context("--users")?,
            },
        };
        let nodes = match (&self.nodes, self.count) {
            (Some(text), _) => Which::Named(targets(text)),
            (None, count) => Which::Count(count.context("--nodes or --count is needed")?),
        };
        let from = when::begin(&self.start, now).context("--start")?;
        // A minute that has just begun is meant as now.
        if (now - from) >= LATE {
            let given = self.start.escape_debug();
            bail!("--start: `{given}` given, which is over; allowed are now and later");
        }
        Ok(CreateRequest {
            name: self.name,
            from,
            span: when::length("--duration", &self.duration)?,
            nodes,
            purpose,
            running: match self.ignore_running {
                true => Running::Ignore,
                false => Running::Refuse,
            },
            once: Some(Uuid::now_v7()),
        })
    }
}

/// Whom the end of one ends; nothing of one for which nobody waits.
fn ended(gone: &Deleted) -> Option<String> {
    if gone.pending == 0 {
        return None;
    }
    let spelling = Spelling::of_locale();
    let mut words: Vec<String> = gone.jobs.iter().map(|job| spelling.show(*job)).collect();
    let more = gone.pending.saturating_sub(gone.jobs.len() as u64);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    let jobs = match gone.pending {
        1 => "1 job that waits for it is".to_owned(),
        many => format!("{many} jobs that wait for it are"),
    };
    Some(format!("{}: {jobs} ended: {}", gone.name, words.join(", ")))
}

/// That nobody can have some of its nodes whom it is for.
fn unreached(row: &ReservationRow) -> Option<String> {
    let (name, ranks) = (&row.reservation.name, &row.unreached);
    let nodes = match ranks.len() {
        0 => return None,
        1 => format!("1 of its nodes (rank {ranks})"),
        many => format!("{many} of its nodes (ranks {ranks})"),
    };
    Some(format!(
        "{name}: no queue leads to {nodes} that is open to those it is for"
    ))
}

fn state(row: &ReservationRow) -> &'static str {
    match row.on {
        true => "on",
        false => "to come",
    }
}

fn object(row: &ReservationRow) -> Value {
    let one = &row.reservation;
    let (purpose, accounts, users) = match &one.purpose {
        Purpose::Jobs { accounts, users } => ("jobs", json!(accounts), json!(users)),
        Purpose::Maintenance => ("maintenance", json!([]), json!([])),
    };
    json!({
        "name": one.name,
        "start": one.from,
        "end": one.until,
        "state": state(row),
        "ranks": one.ranks,
        "hosts": row.hosts,
        "unreached": row.unreached,
        "purpose": purpose,
        "accounts": accounts,
        "users": users,
        "pending": row.pending,
        "running": row.running,
        "userid": one.userid,
    })
}

/// Whom it is for.
fn whom(purpose: &Purpose, users: &Users) -> String {
    match purpose {
        Purpose::Maintenance => "maintenance".to_owned(),
        Purpose::Jobs {
            accounts,
            users: ids,
        } => {
            let accounts = accounts.iter().map(ToString::to_string);
            let ids = ids.iter().map(|user| users.name(*user));
            accounts.chain(ids).collect::<Vec<_>>().join(",")
        }
    }
}

fn table(rows: &[ReservationRow], no_header: bool) -> anyhow::Result<()> {
    let users = Users::read();
    let mut table = Table::new([
        ("NAME", Align::Left),
        ("STATE", Align::Left),
        ("START", Align::Left),
        ("END", Align::Left),
        ("NNODES", Align::Right),
        ("NODELIST", Align::Left),
        ("UNREACHED", Align::Right),
        ("FOR", Align::Left),
        ("PENDING", Align::Right),
        ("RUNNING", Align::Right),
    ]);
    for row in rows {
        let one = &row.reservation;
        table.push(vec![
            one.name.to_string(),
            state(row).to_owned(),
            when::local(one.from),
            when::local(one.until),
            one.ranks.len().to_string(),
            escaped(&row.hosts).into_owned(),
            row.unreached.len().to_string(),
            whom(&one.purpose, &users),
            row.pending.to_string(),
            row.running.to_string(),
        ]);
    }
    let mut out = output::stdout();
    match no_header {
        true => table.write_rows(&mut out)?,
        false => table.write(&mut out)?,
    }
    Ok(())
}
