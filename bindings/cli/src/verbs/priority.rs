//! `eddy priority`: waiting jobs in the order of their turn, and what it comes from.

use std::collections::BTreeMap;
use std::io::Write;

use eddy_client::Client;
use eddy_wire::id::JobId;
use eddy_wire::plan::{Explained, Term};
use eddy_wire::services::job::{JobRow, JobSet};
use eddy_wire::services::sched::ExplainReply;
use serde_json::{Value, json};

use crate::explained::{explained, factor, number};
use crate::ids::{self, Spelling};
use crate::listing::{Filter, Question};
use crate::names::Users;
use crate::output;
use crate::session::Global;
use crate::table::{Align, Table};
use crate::verbs::why::known;

/// List waiting jobs in the order of their turn, with what it comes from
///
/// One column for each term of the policy's first formula: factor times weight, which add up to
/// the value; the higher the value, the earlier the job. With several formulas the next decides
/// where the first is level, then the earlier job. At most 1000 jobs are shown; how many more wait
/// is said below. Who waits for something else than resources (a hold, a dependency, a limit, a stopped
/// queue) has no turn.
#[derive(clap::Args)]
#[command(after_long_help = FIELDS)]
pub struct Args {
    /// Show factor, weight and contribution of each term
    #[arg(short = 'l', long)]
    long: bool,
    /// No heading
    #[arg(short = 'n', long = "no-header")]
    no_header: bool,
    /// One object with all that is known
    #[arg(long)]
    json: bool,
    /// Only these jobs: f2JL, 1000, lists and ranges (f5-f9), copies (f5_all, f5_3), of an instance 905/f5
    #[arg(value_name = "JOB")]
    ids: Vec<String>,
}

/// What is told of a term.
#[derive(Clone, Copy)]
enum Told {
    /// What it adds.
    Sum,
    /// The product that it is.
    Product,
}

impl Told {
    fn cell(self, term: &Term) -> String {
        let sum = number(term.contribution);
        match self {
            Told::Sum => sum,
            Told::Product => format!("{}x{}={sum}", factor(term), number(term.weight)),
        }
    }
}

const FIELDS: &str = "Fields of --json:
  jobs         in the order of their turn: id, f58, user, ahead (how many are before it), policy,
               value, terms with name, factor, weight, contribution
  more         how many more wait than are shown";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&args.ids)?;
    let asked = Some(ids::many(ids)?).filter(|jobs| !jobs.is_empty());
    global.session(async |client| {
        let mut code = 0;
        if let Some(jobs) = &asked {
            code = known("priority", ids, &rows(&client, jobs.clone()).await?);
        }
        let reply = explained(&client, asked.clone()).await?;
        let users = users(&client, &reply).await?;
        if args.json {
            output::json(&document(&reply, &users))?;
            return Ok(code);
        }
        let told = match args.long {
            true => Told::Product,
            false => Told::Sum,
        };
        let table = table(&reply.jobs, &users, told);
        let mut out = output::stdout();
        match args.no_header {
            true => table.write_rows(&mut out)?,
            false => table.write(&mut out)?,
        }
        if reply.more > 0 {
            writeln!(out, "{} more wait", reply.more)?;
        }
        out.flush()?;
        if reply.jobs.is_empty() && asked.is_none() {
            eprintln!("eddy priority: no job waits for resources; `eddy jobs` lists what waits for something else");
        }
        Ok(code)
    })
}

async fn rows(client: &Client, jobs: JobSet) -> anyhow::Result<Vec<JobRow>> {
    let question = Question {
        filter: Filter::all(),
        jobs,
        ..Question::default()
    };
    question.rows(client).await
}

/// Whose the jobs are.
async fn users(client: &Client, reply: &ExplainReply) -> anyhow::Result<BTreeMap<JobId, String>> {
    let jobs = JobSet::of(reply.jobs.iter().map(|one| one.job));
    if jobs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let names = Users::read();
    let rows = rows(client, jobs).await?;
    let named = rows.iter().map(|row| (row.id, names.name(row.userid)));
    Ok(named.collect())
}

fn of(users: &BTreeMap<JobId, String>, job: JobId) -> &str {
    users.get(&job).map_or("-", String::as_str)
}

fn document(reply: &ExplainReply, users: &BTreeMap<JobId, String>) -> Value {
    let job = |one: &Explained| {
        json!({
            "id": one.job,
            "f58": one.job.f58_ascii(),
            "user": of(users, one.job),
            "ahead": one.ahead,
            "policy": one.priority.policy,
            "value": one.priority.value,
            "terms": one.priority.terms,
        })
    };
    let jobs: Vec<Value> = reply.jobs.iter().map(job).collect();
    json!({ "jobs": jobs, "more": reply.more })
}

fn table(jobs: &[Explained], users: &BTreeMap<JobId, String>, told: Told) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for term in jobs.iter().flat_map(|one| &one.priority.terms) {
        if !names.contains(&term.name.as_str()) {
            names.push(&term.name);
        }
    }
    let fixed = [
        ("JOBID", Align::Right),
        ("USER", Align::Left),
        ("VALUE", Align::Right),
    ];
    let fixed = fixed.map(|(title, align)| (title.to_owned(), align));
    let terms = names.iter().map(|name| (name.to_uppercase(), Align::Right));
    let mut table = Table::new(fixed.into_iter().chain(terms));
    let spelling = Spelling::of_locale();
    for one in jobs {
        let cell = |name: &&str| {
            let of = one.priority.terms.iter().filter(|term| term.name == **name);
            let cells = of.map(|term| told.cell(term));
            cells.collect::<Vec<_>>().join("+")
        };
        let mut row = vec![
            spelling.show(one.job),
            of(users, one.job).to_owned(),
            number(one.priority.value),
        ];
        row.extend(names.iter().map(cell));
        table.push(row);
    }
    table
}
