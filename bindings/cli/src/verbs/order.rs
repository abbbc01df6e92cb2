//! `eddy order`: the order that a user wants among his own waiting jobs.

use eddy_wire::services::job::{Order, OrderRequest, Places};

use crate::ids;
use crate::session::Global;

/// Put your own waiting jobs in order
///
/// The first named keeps its turn, each behind it has a lower factor `user` (1, then down in equal
/// steps): so none of them comes before where it was, and others are never pushed back. What that
/// weighs, beside how long each has waited and what else counts, is the policy's: `eddy priority` shows
/// it. Jobs that are not named have 1. A job that is named again has its last place.
#[derive(clap::Args)]
pub struct Args {
    /// Forget the places of these jobs
    #[arg(long)]
    reset: bool,
    /// Jobs in the order in which they are to start: f2JL, 1000, several with commas between, of an instance 905/f5
    #[arg(value_name = "ID", required = true, value_delimiter = ',')]
    ids: Vec<String>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&args.ids)?;
    let jobs = ids.iter().map(|id| ids::one(id));
    let request = OrderRequest {
        jobs: jobs.collect::<anyhow::Result<_>>()?,
        places: match args.reset {
            true => Places::Forgotten,
            false => Places::AsNamed,
        },
    };
    global.session(async |client| {
        client.call::<Order>(&request).await?;
        Ok(0)
    })
}
