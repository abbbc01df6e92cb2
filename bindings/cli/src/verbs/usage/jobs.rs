//! `eddy usage JOB... | --job-set | --instances`: what single jobs were charged, and what was used of
//! those that are instances.
//!
//! The same fold as the ledger's, of their event logs; what was used inside, each instance's own ledger
//! says, also when it is over: those that run are asked side by side, each for a short time. A declared instance has no
//! ledger: what the jobs of its queues are charged says the ledger around it, and it is charged nothing itself.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use eddy_client::{Client, EventFeed};
use eddy_wire::event::Kind;
use eddy_wire::held::{Fate, Held};
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::child::{ChildRow, Children, ChildrenRequest, Stage};
use eddy_wire::services::job::{EventsLine, JobRow, JobSet};
use eddy_wire::services::usage::{Report, ReportRequest, UsageReport, UsageRow};
use eddy_wire::time::Time;
use eddy_wire::usage::Amounts;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::amounts_json;
use crate::listing::{Filter, Question};
use crate::names::Users;
use crate::session::Global;
use crate::table::{Align, Table, escaped};
use crate::verbs::tree::gather::is_turned_away;
use crate::{ids, output};

/// Event logs that are asked for at a time.
const ASKED_MAX: usize = 64;
/// Instances that are asked at a time.
const INSIDE_MAX: usize = 16;
/// How long one that runs may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

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
    lives: Lives,
    inside: Inside,
}

/// The instances that a job was, one for each attempt that anybody pays for.
#[derive(Clone, Debug, Default)]
struct Lives {
    /// The state directories of those that are over.
    over: Vec<String>,
    /// That of the one that is there.
    now: Option<String>,
}

/// What is known of the use of what a job holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Inside {
    /// It is no instance.
    Job,
    /// It was passed on: the instance that has it knows whether it is one.
    Elsewhere,
    /// It is one that never said hello, or cannot be asked: why, where it runs.
    Unknown(Option<Unasked>),
    /// What its jobs held, and the instances in it, and all that it had, by its own ledger.
    Used { used: Amounts, of: Amounts },
    /// A declared one.
    Declared(Served),
}

/// Why an instance says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Unasked {
    /// It is another user's, and serves him only.
    Anothers,
    /// Something else, in words.
    Why(String),
}

impl From<anyhow::Error> for Unasked {
    fn from(error: anyhow::Error) -> Unasked {
        match is_turned_away(&error) {
            true => Unasked::Anothers,
            false => Unasked::Why(output::one_line(&format!("{error:#}"))),
        }
    }
}

impl fmt::Display for Unasked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unasked::Anothers => f.write_str("another user's"),
            Unasked::Why(why) => f.write_str(why),
        }
    }
}

/// The queues of a declared instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Served {
    queues: Vec<String>,
    /// What their jobs are charged since counting began; none where who asks is not told of all of them.
    used: Option<Amounts>,
    /// That and what it had for nobody; none where it has nothing of its own.
    of: Option<Amounts>,
}

impl Cost {
    fn all(&self) -> Amounts {
        self.charged.plus(self.running)
    }

    /// What was used inside.
    fn used(&self) -> Option<Amounts> {
        match &self.inside {
            Inside::Used { used, .. } => Some(*used),
            Inside::Declared(served) => served.used,
            Inside::Job | Inside::Elsewhere | Inside::Unknown(_) => None,
        }
    }

    /// Of how much.
    fn had(&self) -> Option<Amounts> {
        match &self.inside {
            Inside::Used { of, .. } => Some(*of),
            Inside::Declared(served) => served.of,
            Inside::Job | Inside::Elsewhere | Inside::Unknown(_) => None,
        }
    }

    /// Which instance could not be asked, and why.
    pub fn unasked(&self) -> Option<(JobId, &str, &str)> {
        match &self.inside {
            Inside::Unknown(Some(Unasked::Why(why))) => Some((self.row.id, &self.row.name, why)),
            _ => None,
        }
    }

    /// The job, where it is an instance that serves another user.
    pub fn anothers(&self) -> Option<JobId> {
        (self.inside == Inside::Unknown(Some(Unasked::Anothers))).then_some(self.row.id)
    }

    /// Nobody pays for what a declared instance holds: its jobs are charged.
    fn is_charged(&self) -> bool {
        !matches!(self.inside, Inside::Declared(_))
    }
}

impl Served {
    /// What this report, of the instance around it, says of a declared one.
    fn of(row: &ChildRow, report: &UsageReport) -> Served {
        let paid = |row: &UsageRow| row.charged.plus(row.running);
        let sum = |rows: &mut dyn Iterator<Item = &UsageRow>| {
            rows.map(paid).fold(Amounts::default(), Amounts::plus)
        };
        let is_of_it = |paid: &&UsageRow| {
            let queue = paid.payer.queue.as_ref();
            queue.is_some_and(|queue| row.queues.contains(queue))
        };
        let is_all = sum(&mut report.rows.iter()) == report.identity.charged;
        // What was declared earlier under that name had the same queues.
        let is_there = row.stage != Stage::Over;
        let used = (is_all && is_there).then(|| sum(&mut report.rows.iter().filter(is_of_it)));
        let unused = report.identity.spent.declared.get(&row.name);
        let unused = unused.filter(|unused| unused.cores > 0);
        Served {
            queues: row.queues.clone(),
            of: used.and_then(|used| Some(used.plus(*unused?))),
            used,
        }
    }
}

/// Asks after each of them.
pub async fn costs(client: &Client, global: &Global, which: Which) -> anyhow::Result<Vec<Cost>> {
    let named = |jobs| Question {
        filter: Filter::all(),
        jobs,
        ..Question::default()
    };
    let question = match which {
        Which::Named(jobs) => named(jobs),
        Which::Set(name) => Question::of_set(name),
        Which::Instances => {
            let instances = instances(client, global).await?;
            if instances.is_empty() {
                return Ok(Vec::new());
            }
            named(JobSet::of(instances))
        }
    };
    let mut rows = question.rows(client).await?;
    if rows.is_empty()
        && let Some(unknown) = question.unknown(client).await?
    {
        bail!(unknown);
    }
    rows.sort_by_key(|row| row.id);
    // Of an instance that is over nothing runs on: by its clock.
    let report = client.call::<Report>(&ReportRequest::default()).await?;
    let (now, report) = (report.to, Arc::new(report));
    let mut work = JoinSet::new();
    let permits = Arc::new(Semaphore::new(INSIDE_MAX));
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
            let cost = cost(row.clone(), &lines, now).with_context(|| format!("job {job}"))?;
            let (client, global) = (client.clone(), global.clone());
            let (report, permits) = (Arc::clone(&report), Arc::clone(&permits));
            work.spawn(async move {
                let _permit = permits.acquire().await.expect("never closed");
                looked_into(cost, (&client, &global), &report).await
            });
        }
    }
    let mut costs = work.join_all().await;
    costs.sort_by_key(|cost| cost.row.id);
    Ok(costs)
}

/// What is asked of an instance that runs, or why it does not answer.
async fn in_time<T>(asked: impl Future<Output = anyhow::Result<T>>) -> Result<T, Unasked> {
    match timeout(ANSWER, asked).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(Unasked::Why(format!(
            "no answer within {} s",
            ANSWER.as_secs()
        ))),
    }
}

/// Users' instances that run, here and in declared instances.
async fn instances(client: &Client, global: &Global) -> anyhow::Result<Vec<JobId>> {
    let rows = client.call::<Children>(&ChildrenRequest::default()).await?;
    let mut all = Vec::new();
    for row in rows {
        match (row.declared, &row.uri) {
            (false, _) => all.push(row.job),
            (true, Some(uri)) => {
                let asked = in_time(async {
                    let inside = Client::connect(&uri.parse()?, global.options()).await?;
                    let request = ChildrenRequest::default();
                    Ok(inside.call::<Children>(&request).await?)
                });
                match asked.await {
                    Ok(rows) => all.extend(rows.iter().map(|row| row.job)),
                    Err(why) => {
                        let (job, name) = (ids::show(row.job), escaped(&row.name));
                        bail!("the instances in {name} (job {job}) are not known: {why}");
                    }
                }
            }
            // It has not said hello yet.
            (true, None) => {}
        }
    }
    Ok(all)
}

/// With what was used inside, if it is an instance.
async fn looked_into(
    mut cost: Cost,
    (client, global): (&Client, &Global),
    report: &UsageReport,
) -> Cost {
    let job = cost.row.id;
    let runs = cost.row.state == JobState::Run;
    if matches!(cost.inside, Inside::Job | Inside::Used { .. }) {
        return cost;
    }
    let known = in_time(async { Ok(instance(client, job).await) }).await;
    cost.inside = match (cost.inside, known) {
        (_, Err(why)) => Inside::Unknown(Some(why).filter(|_| runs)),
        (_, Ok(Some(row))) if row.declared => {
            (cost.charged, cost.running) = (Amounts::default(), Amounts::default());
            Inside::Declared(Served::of(&row, report))
        }
        (Inside::Elsewhere, Ok(None)) => Inside::Job,
        (_, Ok(_)) => used_in(global, job, &cost.lives)
            .await
            .unwrap_or_else(|why| Inside::Unknown(Some(why).filter(|_| runs))),
    };
    cost
}

/// The instance that a job is, or was.
async fn instance(client: &Client, job: JobId) -> Option<ChildRow> {
    let request = ChildrenRequest {
        job: Some(job),
        ..ChildrenRequest::default()
    };
    let rows = client.call::<Children>(&request).await.ok()?;
    rows.into_iter().find(|row| row.job == job)
}

/// What a job's event log comes to.
fn cost(row: JobRow, lines: &[EventsLine], now: Time) -> anyhow::Result<Cost> {
    let mut held = Held::default();
    let mut cost = Cost {
        row,
        charged: Amounts::default(),
        running: Amounts::default(),
        lives: Lives::default(),
        inside: Inside::Job,
    };
    for line in lines {
        let context = line.context.as_ref().map_or("", |context| context.get());
        match line.name.as_str() {
            // It names a jobspec, and changes nothing of what is held.
            "submit" => continue,
            "adopt" => {
                cost.inside = Inside::Unknown(None);
                let adopted: Option<Value> = serde_json::from_str(context).ok();
                let statedir = adopted.as_ref().and_then(|one| one["statedir"].as_str());
                cost.lives.now = statedir.map(str::to_owned);
            }
            "passed" => cost.inside = Inside::Elsewhere,
            _ => {}
        }
        let kind = Kind::decode(&line.name, 1, context, &mut |_, _| None)?;
        held.apply(line.timestamp, &kind, |_| {});
        if kind.frees() {
            let (fate, stays) = held.settle();
            let used = stays.iter().map(eddy_wire::held::Stay::used);
            let life = cost.lives.now.take();
            match fate {
                Fate::Failed => {}
                Fate::Charged | Fate::Ending => {
                    cost.charged = used.fold(cost.charged, Amounts::plus);
                    cost.lives.over.extend(life);
                }
            }
        }
    }
    cost.running = held.so_far(now);
    Ok(cost)
}

/// What the jobs and instances in an instance held, by its own ledger: in all attempts that are paid for.
async fn used_in(global: &Global, job: JobId, lives: &Lives) -> Result<Inside, Unasked> {
    let mut all: Option<(Amounts, Amounts)> = None;
    let mut add = |report: &UsageReport| {
        let (used, of) = all.unwrap_or_default();
        let (more, of_more) = used_of(report);
        all = Some((used.plus(more), of.plus(of_more)));
    };
    for statedir in &lives.over {
        add(&left(global, job, statedir).await?);
    }
    if lives.now.is_some() || lives.over.is_empty() {
        let asked = in_time(async {
            let inside = global.connect_to(Some(&format!("jobid:{job}"))).await?;
            Ok(inside.call::<Report>(&ReportRequest::default()).await?)
        });
        add(&asked.await?);
    }
    let (used, of) = all.unwrap_or_default();
    Ok(Inside::Used { used, of })
}

/// What an instance that is over has left, however long that takes to read.
async fn left(global: &Global, job: JobId, statedir: &str) -> anyhow::Result<UsageReport> {
    let left = global.left(&job.to_string(), statedir).await?;
    Ok(left.call::<Report>(&ReportRequest::default()).await?)
}

/// What was used in an instance, and of how much.
fn used_of(report: &UsageReport) -> (Amounts, Amounts) {
    let identity = &report.identity;
    let spent = identity.spent.jobs.plus(identity.spent.instances);
    // The capacity has no count of nodes, of which several jobs may each have a part.
    let nodes = identity.charged.plus(identity.uncharged).nodes;
    (Amounts { nodes, ..spent }, identity.capacity)
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
        ("HAD", Align::Right),
        ("RATIO", Align::Right),
    ];
    let mut table = Table::new(columns);
    for cost in costs {
        let account = Some(&cost.row.account).filter(|account| !account.is_empty());
        let words = [
            ids::show(cost.row.id),
            users.name(cost.row.userid),
            account.cloned().unwrap_or_else(dash),
            cost.row.name.clone(),
        ];
        let all = cost.is_charged().then(|| cost.all());
        table.push(cells(words, all, (cost.used(), cost.had())));
    }
    let all = sum(&mut costs.iter().map(Cost::all));
    let words = ["sum".to_owned(), dash(), dash(), dash()];
    table.push(cells(words, Some(all), used_by_all(costs)));
    table
}

fn cells(
    words: [String; 4],
    all: Option<Amounts>,
    (used, had): (Option<Amounts>, Option<Amounts>),
) -> Vec<String> {
    let mut cells = Vec::from(words);
    cells.extend(match all {
        Some(all) => [all.nodes, all.cores, all.gpus].map(tenths),
        None => [dash(), dash(), dash()],
    });
    for known in [used, had] {
        cells.push(known.map_or_else(dash, |known| tenths(known.cores)));
    }
    let part = used.zip(had);
    cells.push(part.map_or_else(dash, |(used, had)| percent(used, had)));
    cells
}

fn sum(amounts: &mut dyn Iterator<Item = Amounts>) -> Amounts {
    amounts.fold(Amounts::default(), Amounts::plus)
}

/// What was used in all of them, each core-second once, and of how much, where that is known of each: what a
/// user's instance holds is among what the jobs of its queue are charged.
fn used_by_all(costs: &[Cost]) -> (Option<Amounts>, Option<Amounts>) {
    let served = costs.iter().filter_map(|cost| match &cost.inside {
        Inside::Declared(served) if served.used.is_some() => Some(&served.queues),
        _ => None,
    });
    let counted: BTreeSet<&String> = served.flatten().collect();
    let is_apart = |cost: &&Cost| !cost.is_charged() || !counted.contains(&cost.row.queue);
    let known = costs
        .iter()
        .filter(|cost| cost.used().is_some() && is_apart(cost));
    let known: Vec<&Cost> = known.collect();
    if known.is_empty() {
        return (None, None);
    }
    let used = sum(&mut known.iter().filter_map(|cost| cost.used()));
    let had = match known.iter().all(|cost| cost.had().is_some()) {
        true => Some(sum(&mut known.iter().filter_map(|cost| cost.had()))),
        false => None,
    };
    (Some(used), had)
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

/// Nodes of which several jobs may each have a part are not counted.
fn but_nodes(amounts: &Amounts) -> Value {
    let mut object = amounts_json(amounts);
    object["node_us"] = Value::Null;
    object
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
            "used": cost.used().map(|used| amounts_json(&used)),
            "had": cost.had().map(|had| but_nodes(&had)),
        })
    };
    costs.iter().map(object).collect()
}

#[cfg(test)]
mod tests;
