//! `eddy usage`: who used how much, and where the capacity went.

mod jobs;

use std::io::Write;

use eddy_wire::id::JobId;
use eddy_wire::services::account::List;
use eddy_wire::services::usage::{Identity, Report, ReportRequest, UsageReport, UsageRow};
use eddy_wire::usage::Amounts;
use serde_json::{Value, json};

use crate::names::Users;
use crate::session::Global;
use crate::table::{Align, Table, escaped};
use crate::verbs::why::known;
use crate::{ids, output, request, when};
use jobs::Which;

/// Show who used how much, and where the capacity went
///
/// A job is charged for what it holds from its grant to its release, node by node; an instance of a
/// user as one job. Of a job whose node failed nobody is charged that attempt, nor of one that came
/// back from its queue instance and never began. Nothing is faded or weighed here: that is done by the
/// policy, and `eddy shares` shows it.
#[derive(clap::Args)]
#[command(after_long_help = FIELDS)]
pub struct Args {
    /// Only of this account
    #[arg(short = 'A', long, value_name = "NAME")]
    account: Option<String>,
    /// Only of this user, by name or number
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,
    /// Only what was used since then: -1h, 2026-01-31, seconds since 1970. Exact to the minute
    /// within the last hour, to the hour within 3 days, then to the day: from the next whole one on.
    /// Of jobs that hold something now it is all that they held so far
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    since: Option<String>,
    /// Where all core-seconds went since counting began: each in one place, together the capacity
    #[arg(long, conflicts_with_all = ["account", "user", "since"])]
    identity: bool,
    /// By job, yours of this set, for user 0 those of all users: what each was charged, and of instances what was
    /// used of it
    #[arg(long, value_name = "NAME", value_parser = request::job_set, conflicts_with_all = ["account", "user", "since", "identity", "ids"])]
    job_set: Option<String>,
    /// By job, of users' instances that run
    #[arg(long, conflicts_with_all = ["account", "user", "since", "identity", "ids", "job_set"])]
    instances: bool,
    /// No heading
    #[arg(short = 'n', long = "no-header")]
    no_header: bool,
    /// One object with all that is known
    #[arg(long)]
    json: bool,
    /// By job, of these: f2JL, 1000, lists and ranges (f5-f9), copies (f5_all, f5_3), of an instance 905/f5
    #[arg(value_name = "ID", conflicts_with_all = ["account", "user", "since", "identity"])]
    ids: Vec<String>,
}

/// So many instances of other users are named; it is told how many more there are.
const OTHERS_NAMED: usize = 8;

const FIELDS: &str = "By job there is a line for each, with what it holds so far in it, and their sum. USED is of an instance
what its jobs held and the instances in it, as its own ledger says, also when it is over; HAD is all that it had, grown
nodes with it, which are charged as jobs of their own and so not in CORE-S; RATIO is USED to HAD. It is - of what is no
instance or cannot be asked. Up to 1,000,000 jobs that are over.
A declared instance is charged nothing. USED is what the jobs of its queues are charged since counting began, - to who may not see
all of them; HAD is that and what the instance had for nobody, - where it has no nodes of its own. The sum has each once: what is
used in instances of those queues is in it.

Fields of --json:
  from to      when counting began, and until when; --since cuts `usage` alone, and of that what is charged
  usage        by who pays: account, user, uid, qos, queue, charged (of jobs that are over),
               running (of jobs that hold something, so far), each with node_us, core_us, gpu_us,
               mib_us: amounts times microseconds, exact
  identity     capacity, jobs, instances, declared (by name), reserved (kept and unused),
               maintenance, idle, drained, down, charged, uncharged (held by an attempt whose node failed, or that came back): core_us, gpu_us, mib_us. All of
               jobs to down add up to capacity; jobs and instances are charged and uncharged
By job it is an array: id, f58, user, uid, account, name, charged, running, used and had (null where they are not known;
node_us of had always, as nodes that several jobs have part of are counted by core alone)";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let users = Users::read();
    let (global, named) = &global.inside(&args.ids)?;
    match (&args.job_set, args.instances, named.is_empty()) {
        (Some(name), ..) => by_job(global, args, (Which::Set(name.clone()), &[]), &users),
        (None, true, _) => by_job(global, args, (Which::Instances, &[]), &users),
        (None, false, false) => {
            let jobs = Which::Named(ids::many(named)?);
            by_job(global, args, (jobs, named), &users)
        }
        (None, false, true) => by_payer(global, args, &users),
    }
}

fn by_job(
    global: &Global,
    args: &Args,
    (which, named): (Which, &[String]),
    users: &Users,
) -> anyhow::Result<u8> {
    let costs = global.session(async |client| jobs::costs(&client, global, which).await)?;
    let mut code = match named.is_empty() {
        true => 0,
        false => known("usage", named, &jobs::rows(&costs)),
    };
    for (job, name, why) in costs.iter().filter_map(jobs::Cost::unasked) {
        let (job, name, why) = (ids::show(job), escaped(name), escaped(why));
        eprintln!("eddy usage: what was used in {name} (job {job}) is not shown: {why}");
        code = output::FAILED;
    }
    if let Some(line) = of_others(costs.iter().filter_map(jobs::Cost::anothers)) {
        eprintln!("{line}");
    }
    match args.json {
        true => output::json(&jobs::document(&costs, users))?,
        false => print(&jobs::table(&costs, users), args)?,
    }
    Ok(code)
}

/// What is said of instances that nobody but their users may ask, in one line: there may be many, and nothing is wrong.
fn of_others(jobs: impl Iterator<Item = JobId>) -> Option<String> {
    let jobs: Vec<String> = jobs.map(ids::show).collect();
    if jobs.is_empty() {
        return None;
    }
    let (shown, more) = jobs.split_at(jobs.len().min(OTHERS_NAMED));
    let more = match more.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = shown.join(", ");
    Some(format!(
        "eddy usage: what was used in the instances of other users is not shown: {shown}{more}"
    ))
}

fn print(table: &Table, args: &Args) -> anyhow::Result<()> {
    let mut out = output::stdout();
    match args.no_header {
        true => table.write_rows(&mut out)?,
        false => table.write(&mut out)?,
    }
    Ok(out.flush()?)
}

fn by_payer(global: &Global, args: &Args, users: &Users) -> anyhow::Result<u8> {
    let user = args.user.as_ref().map(|user| users.number(user));
    let request = ReportRequest {
        account: args.account.clone(),
        user: user.transpose()?,
        since: args.since.as_deref().map(when::since).transpose()?,
    };
    let report = global.session(async |client| {
        let report = client.call::<Report>(&request).await?;
        // One that was taken out may have used something all the same.
        if let Some(account) = request
            .account
            .as_deref()
            .filter(|_| report.rows.is_empty())
        {
            let book = client.call::<List>(&()).await?.book();
            book.named("--account", account)?;
        }
        Ok(report)
    })?;
    if args.json {
        output::json(&document(&report, users))?;
        return Ok(0);
    }
    let table = match args.identity {
        true => identity(&report.identity),
        false => payers(&report.rows, users),
    };
    print(&table, args)?;
    Ok(0)
}

/// Microseconds of something as seconds, with no place behind the point.
fn seconds(amount: u128) -> String {
    ((amount + 500_000) / 1_000_000).to_string()
}

fn payers(rows: &[UsageRow], users: &Users) -> Table {
    let columns = [
        ("ACCOUNT", Align::Left),
        ("USER", Align::Left),
        ("QOS", Align::Left),
        ("QUEUE", Align::Left),
        ("NODE-S", Align::Right),
        ("CORE-S", Align::Right),
        ("GPU-S", Align::Right),
        ("RUNNING", Align::Right),
    ];
    let mut table = Table::new(columns);
    for row in rows {
        let dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
        table.push(vec![
            dash(row.payer.account.as_ref().map(|name| name.as_str())),
            users.name(row.payer.user),
            dash(row.payer.qos.as_ref().map(|name| name.as_str())),
            dash(row.payer.queue.as_deref()),
            seconds(row.charged.nodes),
            seconds(row.charged.cores),
            seconds(row.charged.gpus),
            seconds(row.running.cores),
        ]);
    }
    table
}

fn identity(identity: &Identity) -> Table {
    let columns = [
        ("WHAT", Align::Left),
        ("CORE-S", Align::Right),
        ("PART", Align::Right),
    ];
    let mut table = Table::new(columns);
    let all = identity.capacity.cores;
    let mut line = |what: String, amounts: Amounts| {
        let part = match all {
            0 => 0.0,
            all => amounts.cores as f64 / all as f64,
        };
        let part = format!("{:.2} %", part * 100.0);
        table.push(vec![what, seconds(amounts.cores), part]);
    };
    let spent = &identity.spent;
    line("jobs".to_owned(), spent.jobs);
    line("sub-instances".to_owned(), spent.instances);
    for (name, amounts) in &spent.declared {
        line(format!("instance {name}"), *amounts);
    }
    line("reserved, unused".to_owned(), spent.reserved);
    line("maintenance".to_owned(), spent.maintenance);
    line("idle".to_owned(), spent.idle);
    line("drained".to_owned(), spent.drained);
    line("down".to_owned(), spent.down);
    line("sum".to_owned(), spent.sum());
    line("capacity".to_owned(), identity.capacity);
    table
}

fn amounts_json(amounts: &Amounts) -> Value {
    // JSON has no integers as large as these may become in decades.
    let number = |amount: u128| match u64::try_from(amount) {
        Ok(amount) => Value::from(amount),
        Err(_) => Value::from(amount as f64),
    };
    json!({
        "node_us": number(amounts.nodes),
        "core_us": number(amounts.cores),
        "gpu_us": number(amounts.gpus),
        "mib_us": number(amounts.memory),
    })
}

fn document(report: &UsageReport, users: &Users) -> Value {
    let amounts = amounts_json;
    let row = |row: &UsageRow| {
        json!({
            "account": row.payer.account,
            "user": users.name(row.payer.user),
            "uid": row.payer.user,
            "qos": row.payer.qos,
            "queue": row.payer.queue,
            "charged": amounts(&row.charged),
            "running": amounts(&row.running),
        })
    };
    let identity = &report.identity;
    let spent = &identity.spent;
    let declared = spent.declared.iter();
    let declared: serde_json::Map<String, Value> = declared
        .map(|(name, of)| (name.clone(), amounts(of)))
        .collect();
    json!({
        "from": report.from,
        "to": report.to,
        "usage": report.rows.iter().map(row).collect::<Vec<Value>>(),
        "identity": {
            "capacity": amounts(&identity.capacity),
            "jobs": amounts(&spent.jobs),
            "instances": amounts(&spent.instances),
            "declared": declared,
            "reserved": amounts(&spent.reserved),
            "maintenance": amounts(&spent.maintenance),
            "idle": amounts(&spent.idle),
            "drained": amounts(&spent.drained),
            "down": amounts(&spent.down),
            "charged": amounts(&identity.charged),
            "uncharged": amounts(&identity.uncharged),
        },
    })
}
