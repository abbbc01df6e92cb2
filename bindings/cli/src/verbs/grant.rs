//! `eddy grant`: what an instance holds of the instance around it.

use anyhow::{Context, bail, ensure};
use clap::Subcommand;
use eddy_client::Client;
use eddy_wire::fsd::Fsd;
use eddy_wire::jobspec::Count;
use eddy_wire::services::grant::{
    Arrive, ArriveRequest, GrantRow, GrantState, List, Release, ReleaseRequest, Which,
};
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::services::job::{self, JobSet, ListRequest, Submit, Submitted};
use eddy_wire::time::Span;
use uuid::Uuid;

use crate::number::{COUNTS, number};
use crate::request::Terms;
use crate::request::nested::InstanceOptions;
use crate::session::Global;
use crate::table::{Align, Table};
use crate::verbs::resource::targets;
use crate::verbs::submit;
use crate::{ids, output};

/// Show what an instance holds of the one around it, and give nodes back
///
/// For instances that users have started (eddy batch, eddy alloc): what a queue's instance holds is
/// said by its configuration.
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
    /// Show each node, and whether it stays
    ///
    /// Fields of --json: rank, host, ncores, ngpus, jobs (how many run there), state (leader: it goes
    /// back with the instance; held; leaving: it goes back when nothing runs there any more).
    List {
        /// One array of objects
        #[arg(long)]
        json: bool,
        /// No heading
        #[arg(short = 'n', long = "no-header")]
        no_header: bool,
    },
    /// Ask for more nodes
    ///
    /// A job of the instance around this one, which waits, is ordered, charged and limited as any
    /// other; while it runs its nodes are this instance's, beside those that it has. They are others
    /// than those, and go when the job ends: by its time limit (without -t what is left of the
    /// instance, which is the most), by `eddy --parent cancel`, or as `eddy grant release` gives them back. What runs
    /// there then is told to end first. Prints the job's id.
    Ask(Box<More>),
    /// Give nodes back, each as soon as nothing runs there any more
    ///
    /// Nothing new starts there from now on, and they are paid for until they are gone. Prints their
    /// ranks. `eddy resource undrain` keeps one that is not gone yet.
    Release {
        /// Ranks (0-3,7) or hosts (n[1-4])
        #[arg(value_name = "TARGETS", required_unless_present = "count")]
        targets: Option<String>,
        /// So many, those on which the fewest jobs run
        #[arg(long, value_name = "N", value_parser = number(COUNTS), conflicts_with = "targets")]
        count: Option<u32>,
    },
}

/// The nodes that are asked for.
#[derive(clap::Args)]
struct More {
    #[command(flatten)]
    options: InstanceOptions,
    /// Come with so many as soon as they are free, and with up to -N if there are more then
    #[arg(long, value_name = "N", value_parser = number(COUNTS), requires = "nodes", help_heading = "Resources")]
    min: Option<u32>,
    /// Wait until they are there
    #[arg(long, help_heading = "Submission")]
    wait: bool,
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        match args.verb {
            Verb::List { json, no_header } => {
                let rows = client.call::<List>(&()).await?;
                match json {
                    true => output::json(&rows)?,
                    false => print(&rows, no_header)?,
                }
            }
            Verb::Ask(more) => return ask(global, &client, &more).await,
            Verb::Release {
                targets: named,
                count,
            } => {
                let nodes = match (named, count) {
                    (Some(text), _) => Which::Named(targets(&text)),
                    (None, Some(count)) => Which::Count(count),
                    (None, None) => bail!("TARGETS or --count is needed"),
                };
                let once = Some(Uuid::now_v7());
                let request = ReleaseRequest { nodes, once };
                let ranks = client.call::<Release>(&request).await?;
                output::lines([ranks.to_string()])?;
            }
        }
        Ok(0)
    })
}

/// So many nodes and up to as many as are asked for.
fn from(min: u32, nodes: Option<&Count>) -> anyhow::Result<Count> {
    let most = nodes.and_then(Count::fixed);
    let most =
        most.context("--min: -N is a choice of nodes already; allowed beside it is one number")?;
    ensure!(
        (1..=most).contains(&min),
        "--min: {min} given; allowed are 1 to {most}, what -N asks for"
    );
    format!("{min}-{most}").parse().context("--min")
}

async fn ask(global: &Global, client: &Client, more: &More) -> anyhow::Result<u8> {
    let pong = client.call::<Ping>(&PingRequest::default()).await?;
    let (Some(parent), Some(own)) = (pong.parent, pong.path.rsplit('/').next()) else {
        bail!("this instance is no job of another: what it has is its own");
    };
    let own = ids::one(own).context("the path of this instance")?;
    let parent = global.connect_to(Some(&parent)).await?;
    let mut options = more.options.clone();
    let request = ListRequest {
        jobs: JobSet::of([own]),
        ..ListRequest::default()
    };
    let rows = parent.call::<job::List>(&request).await?;
    let row = rows
        .first()
        .context("the instance around knows no job that this one is")?;
    let terms = &mut options.terms;
    // Its user's, whoever asks: the instance around says whether that may be asked for another.
    if terms.as_user.is_none() && row.userid != rustix::process::geteuid().as_raw() {
        terms.as_user = Some(row.userid.to_string());
    }
    if let Some(min) = more.min {
        terms.nodes = Some(from(min, terms.nodes.as_ref())?);
    }
    // What it says nothing of is as with the instance that grows.
    let account = match terms.bank {
        Some(_) => &mut None,
        None => &mut terms.account,
    };
    for (own, of) in [
        (&mut terms.queue, &row.queue),
        (account, &row.account),
        (&mut terms.qos, &row.qos),
        (&mut terms.class, &row.class),
    ] {
        if own.is_none() && !of.is_empty() {
            *own = Some(of.clone());
        }
    }
    if let (Some(limit), Some(began)) = (row.duration, row.t_run) {
        let ran = (pong.t - began).0 as f64 / 1e6;
        within(terms, (limit - ran).max(1.0).floor() as i64)?;
    }
    let submitted = parent.call::<Submit>(&options.ground(own)?).await?;
    submit::print_ids(submitted)?;
    if more.wait {
        arrived(client, &parent, submitted).await?;
    }
    Ok(0)
}

/// Asks for no longer than the instance has, in seconds: with it go the nodes that it grew by.
fn within(terms: &mut Terms, left: i64) -> anyhow::Result<()> {
    let is_longer = match terms.limit()? {
        None => true,
        Some(Fsd::Infinite) => true,
        Some(Fsd::Finite(micros)) => micros > Span::seconds(left).0,
    };
    match &terms.time_limit {
        Some(given) if is_longer && !terms.eligible.fit_remaining => bail!(
            "--time-limit: {given} given; the instance has {left} s left, after which its nodes go (allowed are less, \
             none, and --fit-remaining)"
        ),
        _ if is_longer => terms.time_limit = Some(format!("{left}s")),
        _ => {}
    }
    Ok(())
}

/// Waits until the nodes of a job of the instance around are in service here.
async fn arrived(client: &Client, parent: &Client, submitted: Submitted) -> anyhow::Result<()> {
    let job = submitted.first;
    let over = submit::wait_event(parent, submitted, "clean");
    let ask = ArriveRequest { job };
    let here = client.call::<Arrive>(&ask);
    tokio::select! {
        ranks = here => drop(ranks?),
        over = over => {
            over?;
            bail!("job {} is over: its nodes did not come, or are gone", ids::show(job));
        }
    }
    Ok(())
}

fn print(rows: &[GrantRow], no_header: bool) -> std::io::Result<()> {
    let columns = ["RANK", "HOST", "CORES", "GPUS", "JOBS", "STATE", "BY"];
    let mut table = Table::new(columns.map(|name| match name {
        "HOST" | "STATE" | "BY" => (name, Align::Left),
        _ => (name, Align::Right),
    }));
    for row in rows {
        let state = match row.state {
            GrantState::Leader => "leader",
            GrantState::Held => "held",
            GrantState::Leaving => "leaving",
        };
        table.push(vec![
            row.rank.to_string(),
            row.host.clone(),
            row.ncores.to_string(),
            row.ngpus.to_string(),
            row.jobs.to_string(),
            state.to_owned(),
            row.by.map(ids::show).unwrap_or_default(),
        ]);
    }
    let mut out = output::stdout();
    match no_header {
        true => table.write_rows(&mut out),
        false => table.write(&mut out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The limit that is asked for where this is given and so much is left.
    fn asked(
        given: Option<&str>,
        fit_remaining: bool,
        left: i64,
    ) -> Result<Option<String>, String> {
        let mut terms = Terms {
            time_limit: given.map(str::to_owned),
            ..Terms::default()
        };
        terms.eligible.fit_remaining = fit_remaining;
        let kept = within(&mut terms, left).map_err(|error| error.to_string());
        kept.map(|()| terms.time_limit)
    }

    #[test]
    fn more_nodes_are_asked_for_no_longer_than_the_instance_has() {
        let is = |text: &str| Ok(Some(text.to_owned()));
        assert_eq!(asked(None, false, 90), is("90s"));
        assert_eq!(asked(Some("1m"), false, 90), is("1m"));
        assert_eq!(asked(Some("1h"), true, 90), is("90s"));
        for given in ["91s", "1h", "inf"] {
            let refused = asked(Some(given), false, 90).expect_err("it is longer");
            let begin = format!("--time-limit: {given} given; the instance has 90 s left");
            assert!(refused.starts_with(&begin), "{refused}");
        }
    }
}
