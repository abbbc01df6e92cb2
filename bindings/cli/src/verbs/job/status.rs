//! `eddy job status`: wait for jobs and tell how they ended.

use eddy_client::EndFeed;

use crate::attach::exit_code;
use crate::declared::{left_out, several, unending};
use crate::listing::end_to_json;
use crate::session::Global;
use crate::{ids, output};

/// Wait for the end of jobs and exit with the highest exit code
#[derive(clap::Args)]
pub struct Args {
    /// Say how each ended, on standard error
    #[arg(short = 'v', long)]
    verbose: bool,
    /// One array of objects: id, result, returncode, exception (as in eddy jobs --json)
    #[arg(short = 'j', long)]
    json: bool,
    /// Jobs: f2JL, 1000, lists and ranges, copies (f5_all, f5_3), of an instance 905/f5
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&args.ids)?;
    let jobs = ids::many(ids)?;
    global.session_again(async |client| {
        let (jobs, left) = several(&client, jobs.clone()).await?;
        left_out("job status", &left);
        unending(global, &client, ("job status", &jobs)).await?;
        let mut feed = EndFeed::of(&client, jobs)?;
        let mut ends = Vec::new();
        while let Some(batch) = feed.next().await? {
            ends.extend(batch);
        }
        ends.sort_by_key(|end| end.id);
        if args.json {
            output::json(&ends.iter().map(end_to_json).collect::<Vec<_>>())?;
        }
        if args.verbose {
            for end in &ends {
                let why = end
                    .exception
                    .as_ref()
                    .map(|why| format!(": {why}"))
                    .unwrap_or_default();
                let job = ids::show(end.id);
                eprintln!(
                    "eddy job status: job {job}: exit code {}{why}",
                    end.returncode
                );
            }
        }
        Ok(ends.iter().map(exit_code).max().unwrap_or(0))
    })
}
