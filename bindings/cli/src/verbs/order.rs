//! `eddy order`: the order that a user wants among his own waiting jobs.

use eddy_sched::policy::read::read;
use eddy_wire::services::job::{Order, OrderRequest, Places};
use eddy_wire::services::sched::Policy;

use crate::ids;
use crate::session::Global;
use crate::table::escaped;

/// Put your own waiting jobs in order
///
/// The first named keeps its turn, each behind it has a lower factor `user` (1, then down in equal
/// steps): so none of them comes before where it was, and others are never pushed back. What that
/// weighs, beside how long each has waited and what else counts, is the policy's: `eddy priority` shows
/// it; where no formula of it names that factor the places are kept, and a line says that nobody goes by them. Jobs
/// that are not named have 1. A job that is named again has its last place.
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
        let obeyed = client.call::<Policy>(&()).await?;
        // An instance that is newer may obey more than this command knows.
        if request.places == Places::AsNamed
            && let Ok(policy) = read(&obeyed.text)
            && !policy.priority.counts("user")
        {
            eprintln!(
                "eddy order: the places are kept, and nobody goes by them: no formula of the policy (`{}`) \
                 names the factor `user`",
                escaped(&obeyed.preset)
            );
        }
        Ok(0)
    })
}
