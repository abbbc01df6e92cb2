//! `eddy job requeue`: run a running job again.

use eddy_wire::services::job::{RequeueJob, RequeueRequest};

use crate::ids;
use crate::session::Global;
use crate::verbs::cancel::refusals;

/// End the running attempt of jobs and let them wait again as the next
#[derive(clap::Args)]
pub struct Args {
    /// Why, one line
    #[arg(short = 'm', long, value_name = "TEXT", default_value = "")]
    message: String,
    /// Jobs: f2JL, 1000, lists and ranges
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let request = RequeueRequest {
        jobs: ids::many(&args.ids)?,
        note: args.message.clone(),
    };
    global.session(async |client| {
        Ok(refusals(
            "job requeue",
            &client.call::<RequeueJob>(&request).await?,
        ))
    })
}
