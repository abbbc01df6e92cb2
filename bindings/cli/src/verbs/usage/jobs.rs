//! `eddy usage JOB... | --job-set | --instances`: what single jobs were charged, and what was used of
//! those that are instances.
//!
//! The same fold as the ledger's, of their event logs; what was used inside, each instance's own ledger
//! says, also when it is over.

use anyhow::{Context, bail};
use eddy_client::{Client, EventFeed};
use eddy_wire::event::Kind;
use eddy_wire::held::{Fate, Held};
use eddy_wire::id::JobId;
use eddy_wire::services::child::{Children, ChildrenRequest};
use eddy_wire::services::job::{EventsLine, JobRow, JobSet};
use eddy_wire::services::usage::{Report, ReportRequest};
use eddy_wire::time::Time;
use eddy_wire::usage::Amounts;
use serde_json::{Value, json};

use super::amounts_json;
use crate::ids;
use crate::listing::{Filter, Question};
use crate::names::Users;
use crate::session::Global;
use crate::table::{Align, Table};

/// Event logs that are asked for at a time.
const ASKED_MAX: usize = 64;

/// Which jobs.
#[derive(Clone, Debug)]
pub enum Which {
    /// These.
    Named(JobSet),
    /// Those of a set.
    Set(String),
    /// Users' instances that run.
    Instances,
}

/// What a job was charged.
pub struct Cost {
    row: JobRow,
    /// By attempts that gave back what they held.
    charged: Amounts,
    /// By what it holds, so far.
    running: Amounts,
    inside: Inside,
}

/// What is known of the use of what a job holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inside {
    /// It is no instance.
    Job,
    /// It was passed on: the instance that has it knows whether it is one.
    Elsewhere,
    /// It is one that never said hello, or cannot be asked.
    Unknown,
    /// What its jobs held, and the instances in it, and all that it had, by its own ledger.
    Used { used: Amounts, of: Amounts },
}

impl Cost {
    fn all(&self) -> Amounts {
        self.charged.plus(self.running)
    }

    /// What was used inside, and of how much.
    fn used(&self) -> Option<(Amounts, Amounts)> {
        match self.inside {
            Inside::Used { used, of } => Some((used, of)),
            Inside::Job | Inside::Elsewhere | Inside::Unknown => None,
        }
    }
}

/// Asks after each of them.
pub async fn costs(client: &Client, global: &Global, which: Which) -> anyhow::Result<Vec<Cost>> {
    let mut question = Question {
        filter: Filter::all(),
        ..Question::default()
    };
    match which {
        Which::Named(jobs) => question.jobs = jobs,
        Which::Set(name) => question.job_set = Some(name),
        Which::Instances => {
            question.jobs = JobSet::of(instances(client, global).await?);
            if question.jobs.is_empty() {
                return Ok(Vec::new());
            }
        }
    }
    let mut rows = question.rows(client).await?;
    if rows.is_empty()
        && let Some(unknown) = question.unknown(client).await?
    {
        bail!(unknown);
    }
    rows.sort_by_key(|row| row.id);
    // Of an instance that is over nothing runs on: by its clock.
    let now = client.call::<Report>(&ReportRequest::default()).await?.to;
    let mut costs = Vec::with_capacity(rows.len());
    for some in rows.chunks(ASKED_MAX) {
        let feeds = some
            .iter()
            .map(|row| EventFeed::so_far(client, row.id))
            .collect::<Result<Vec<_>, _>>()?;
        for (row, mut feed) in some.iter().zip(feeds) {
            let mut lines = Vec::new();
            while let Some(batch) = feed.next().await? {
                lines.extend(batch);
            }
            let job = row.id;
            let mut cost = cost(row.clone(), &lines, now).with_context(|| format!("job {job}"))?;
            cost.inside = match cost.inside {
                Inside::Elsewhere if !is_instance(client, job).await => Inside::Job,
                Inside::Elsewhere | Inside::Unknown => {
                    used_in(global, job).await.unwrap_or(Inside::Unknown)
                }
                inside @ (Inside::Job | Inside::Used { .. }) => inside,
            };
            costs.push(cost);
        }
    }
    Ok(costs)
}

/// Users' instances that run, here and in declared instances.
async fn instances(client: &Client, global: &Global) -> anyhow::Result<Vec<JobId>> {
    let rows = client.call::<Children>(&ChildrenRequest::default()).await?;
    let mut all = Vec::new();
    for row in rows {
        match (row.declared, &row.uri) {
            (false, _) => all.push(row.job),
            (true, Some(uri)) => {
                let inside = Client::connect(&uri.parse()?, global.options()).await?;
                let rows = inside.call::<Children>(&ChildrenRequest::default()).await?;
                all.extend(rows.iter().map(|row| row.job));
            }
            // It has not said hello yet.
            (true, None) => {}
        }
    }
    Ok(all)
}

/// Whether a job that was passed on is an instance, or was.
async fn is_instance(client: &Client, job: JobId) -> bool {
    let request = ChildrenRequest {
        job: Some(job),
        ..ChildrenRequest::default()
    };
    let rows = client.call::<Children>(&request).await;
    rows.is_ok_and(|rows| rows.iter().any(|row| row.job == job))
}

/// What a job's event log comes to.
fn cost(row: JobRow, lines: &[EventsLine], now: Time) -> anyhow::Result<Cost> {
    let mut held = Held::default();
    let mut cost = Cost {
        row,
        charged: Amounts::default(),
        running: Amounts::default(),
        inside: Inside::Job,
    };
    for line in lines {
        match line.name.as_str() {
            // It names a jobspec, and changes nothing of what is held.
            "submit" => continue,
            "adopt" => cost.inside = Inside::Unknown,
            "passed" => cost.inside = Inside::Elsewhere,
            _ => {}
        }
        let context = line.context.as_ref().map_or("", |context| context.get());
        let kind = Kind::decode(&line.name, 1, context, &mut |_, _| None)?;
        held.apply(line.timestamp, &kind);
        if kind.frees() {
            let (fate, stays) = held.settle();
            let used = stays.iter().map(eddy_wire::held::Stay::used);
            cost.charged = match fate {
                Fate::Failed => cost.charged,
                Fate::Charged | Fate::Ending => used.fold(cost.charged, Amounts::plus),
            };
        }
    }
    cost.running = held.so_far(now);
    Ok(cost)
}

/// What the jobs and instances in an instance held, by its own ledger.
async fn used_in(global: &Global, job: JobId) -> anyhow::Result<Inside> {
    let inside = global.connect_to(Some(&format!("jobid:{job}"))).await?;
    let report = inside.call::<Report>(&ReportRequest::default()).await?;
    let spent = report.identity.spent;
    Ok(Inside::Used {
        used: spent.jobs.plus(spent.instances),
        of: report.identity.capacity,
    })
}

/// The jobs themselves.
pub fn rows(costs: &[Cost]) -> Vec<JobRow> {
    costs.iter().map(|cost| cost.row.clone()).collect()
}

/// One line for each, and one for all.
pub fn table(costs: &[Cost], users: &Users) -> Table {
    let columns = [
        ("JOBID", Align::Right),
        ("USER", Align::Left),
        ("ACCOUNT", Align::Left),
        ("NAME", Align::Left),
        ("NODE-S", Align::Right),
        ("CORE-S", Align::Right),
        ("GPU-S", Align::Right),
        ("USED", Align::Right),
        ("RATIO", Align::Right),
    ];
    let mut table = Table::new(columns);
    let mut line = |words: [String; 4], all: Amounts, part: Option<(Amounts, Amounts)>| {
        let used = part.map(|(used, _)| tenths(used.cores));
        let mut cells = Vec::from(words);
        cells.extend([all.nodes, all.cores, all.gpus].map(tenths));
        cells.push(used.unwrap_or_else(dash));
        cells.push(part.map_or_else(dash, |(used, of)| percent(used, of)));
        table.push(cells);
    };
    for cost in costs {
        let account = Some(&cost.row.account).filter(|account| !account.is_empty());
        let words = [
            ids::show(cost.row.id),
            users.name(cost.row.userid),
            account.cloned().unwrap_or_else(dash),
            cost.row.name.clone(),
        ];
        line(words, cost.all(), cost.used());
    }
    let sum = |amounts: &mut dyn Iterator<Item = Amounts>| {
        amounts.fold(Amounts::default(), Amounts::plus)
    };
    let known = || costs.iter().filter_map(Cost::used);
    let used = sum(&mut known().map(|(used, _)| used));
    let of = sum(&mut known().map(|(_, of)| of));
    let part = (of != Amounts::default()).then_some((used, of));
    let words = ["sum".to_owned(), dash(), dash(), dash()];
    line(words, sum(&mut costs.iter().map(Cost::all)), part);
    table
}

fn dash() -> String {
    "-".to_owned()
}

/// Microseconds of something as seconds.
fn tenths(amount: u128) -> String {
    let tenths = (amount + 50_000) / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn percent(used: Amounts, of: Amounts) -> String {
    match of.cores {
        0 => dash(),
        of => format!("{:.1} %", used.cores as f64 / of as f64 * 100.0),
    }
}

/// An object for each.
pub fn document(costs: &[Cost], users: &Users) -> Value {
    let object = |cost: &Cost| {
        json!({
            "id": cost.row.id,
            "f58": cost.row.id.f58_ascii(),
            "user": users.name(cost.row.userid),
            "uid": cost.row.userid,
            "account": cost.row.account,
            "name": cost.row.name,
            "charged": amounts_json(&cost.charged),
            "running": amounts_json(&cost.running),
            "used": cost.used().map(|(used, _)| amounts_json(&used)),
            "had": cost.used().map(|(_, of)| amounts_json(&of)),
        })
    };
    costs.iter().map(object).collect()
}
