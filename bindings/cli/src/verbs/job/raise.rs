//! `eddy job raise`: an exception of a user's choice.

use eddy_wire::services::job::{Raise, RaiseRequest, Scope};

use crate::ids;
use crate::number::number;
use crate::session::Global;
use crate::verbs::cancel::{change, refusals};

/// Raise an exception on jobs; severity 0 ends them
#[derive(clap::Args)]
pub struct Args {
    /// Its type: any word
    #[arg(
        short = 't',
        long = "type",
        value_name = "WORD",
        default_value = "cancel"
    )]
    kind: String,
    /// 0 (ends the job) to 7
    #[arg(short = 's', long, value_name = "N", default_value_t = 0, value_parser = number(0..=7_u8))]
    severity: u8,
    /// Why, one line
    #[arg(short = 'm', long, value_name = "TEXT")]
    message: Option<String>,
    /// Jobs: f2JL, 1000, lists and ranges, copies (f5_all, f5_3), of an instance 905/f5
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&args.ids)?;
    let jobs = ids::many(ids)?;
    let request = |jobs| RaiseRequest {
        declared: None,
        job_set: None,
        scope: Scope::Named,
        jobs,
        states: Vec::new(),
        kind: args.kind.clone(),
        severity: args.severity,
        note: args.message.clone().unwrap_or_default(),
    };
    global.session(async |client| {
        Ok(refusals(
            "job raise",
            &change::<Raise>(&client, jobs, request).await?,
        ))
    })
}
