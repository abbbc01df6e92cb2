//! `eddy wait`: wait for the end of jobs, by their ids or by their set.

use anyhow::bail;
use eddy_wire::services::job::JobSet;

use crate::ids;
use crate::listing::{Filter, Question};
use crate::request;
use crate::session::Global;
use crate::verbs::submit::wait_for;

/// Wait for the end of jobs; exit with the highest exit code
///
/// Says which did not end well. With --job-set: for all jobs of that set that are not over when it
/// is asked; a set that no job is of is an error. It collects no results: that is eddy job wait.
#[derive(clap::Args)]
pub struct Args {
    /// The jobs of this set that are not over
    #[arg(long, value_name = "NAME", value_parser = request::job_set, conflicts_with = "ids")]
    job_set: Option<String>,
    /// Jobs: f2JL, 1000, lists and ranges (f5-f9), of an instance 905/f5
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&args.ids)?;
    let named = ids::many(ids)?;
    if named.is_empty() && args.job_set.is_none() {
        bail!("no jobs given; allowed are ids and --job-set NAME");
    }
    global.session_again(async |client| {
        let jobs = match &args.job_set {
            None => named.clone(),
            Some(_) => {
                let question = Question {
                    filter: Filter::active(),
                    job_set: args.job_set.clone(),
                    ..Question::default()
                };
                let rows = question.rows(&client).await?;
                if rows.is_empty()
                    && let Some(unknown) = question.unknown(&client).await?
                {
                    bail!(unknown);
                }
                JobSet::of(rows.iter().map(|row| row.id))
            }
        };
        match jobs.is_empty() {
            true => Ok(0),
            false => wait_for(&client, "wait", jobs).await,
        }
    })
}
