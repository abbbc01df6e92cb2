//! `eddy job kill`: a signal to the tasks of jobs, or to the program of an instance.

use anyhow::Context;
use eddy_wire::services::job::{Kill, KillRequest};

use crate::session::Global;
use crate::verbs::cancel::{change, refusals};
use crate::{ids, signals};

/// Send a signal to all tasks of running jobs
///
/// Of an instance (batch, alloc) it goes to the initial program, and never to the leader: one without such a program is
/// refused. eddy cancel ends an instance.
#[derive(clap::Args)]
pub struct Args {
    /// Name or number
    #[arg(short = 's', long, value_name = "SIGNAL", default_value = "TERM")]
    signal: String,
    /// Jobs: f2JL, 1000, lists and ranges, copies (f5_all, f5_3), of an instance 905/f5
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&args.ids)?;
    let (jobs, signal) = (
        ids::many(ids)?,
        signals::parse(&args.signal).context("--signal")?,
    );
    let request = |jobs| KillRequest { jobs, signal };
    global.session(async |client| {
        Ok(refusals(
            "job kill",
            &change::<Kill>(&client, jobs, request).await?,
        ))
    })
}
