//! `eddy job wait`: collect the results of waitable jobs, each once.

use eddy_client::{Client, ClientError};
use eddy_wire::error::Code;
use eddy_wire::id::JobId;
use eddy_wire::services::job::{Collect, CollectRequest, JobEnd};

use crate::attach::exit_code;
use crate::listing::end_to_json;
use crate::session::Global;
use crate::{ids, output};

/// The exit code when no job is there to be waited for.
const NOTHING: u8 = 2;

/// Wait for a job that was submitted with --flags=waitable
///
/// Without an id: for whichever ends next, and print its id. Each result can be collected
/// once. Exit code: 0 if the job ended well, 1 if not, 2 if there is nothing to wait for. With --all it is 0
/// where there is nothing: all that there are ended well.
#[derive(clap::Args)]
pub struct Args {
    /// For all; over at once, and well, where there are none
    #[arg(short = 'a', long, conflicts_with = "id")]
    all: bool,
    /// Say also which jobs ended well
    #[arg(short = 'v', long)]
    verbose: bool,
    /// One object: id, result, returncode, exception (as in eddy jobs --json); null if there is nothing to wait
    /// for; with --all an array of them
    #[arg(long)]
    json: bool,
    /// The job; of an instance 905/f5
    #[arg(value_name = "ID")]
    id: Option<String>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(args.id.as_slice())?;
    let id = args.id.as_ref().map(|_| ids::single(ids)).transpose()?;
    global.session(async |client| {
        if args.all {
            return all(&client, args).await;
        }
        let end = collect(&client, id).await?;
        if args.json {
            output::json(&end.as_ref().map(end_to_json))?;
        }
        let Some(end) = end else {
            eprintln!("eddy job wait: no job is there to be waited for");
            return Ok(NOTHING);
        };
        if id.is_none() && !args.json {
            output::lines([ids::show(end.id)])?;
        }
        Ok(tell(&end, args.verbose))
    })
}

async fn all(client: &Client, args: &Args) -> anyhow::Result<u8> {
    let (mut highest, mut ends) = (0, Vec::new());
    while let Some(end) = collect(client, None).await? {
        highest = highest.max(tell(&end, args.verbose));
        ends.push(end);
    }
    if args.json {
        output::json(&ends.iter().map(end_to_json).collect::<Vec<_>>())?;
    }
    Ok(highest)
}

async fn collect(client: &Client, id: Option<JobId>) -> Result<Option<JobEnd>, ClientError> {
    match client.call::<Collect>(&CollectRequest { id }).await {
        Ok(end) => Ok(Some(end)),
        Err(error) if matches!(error.code(), Some(Code::End | Code::NotFound)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says how it ended; 0 or 1.
fn tell(end: &JobEnd, verbose: bool) -> u8 {
    let job = ids::show(end.id);
    match (&end.exception, exit_code(end)) {
        (_, 0) => {
            if verbose {
                eprintln!("eddy job wait: job {job}: exit code 0");
            }
            0
        }
        (Some(why), _) => {
            eprintln!("eddy job wait: job {job}: {}", output::one_line(why));
            1
        }
        (None, code) => {
            eprintln!("eddy job wait: job {job}: exit code {code}");
            1
        }
    }
}
