//! `eddy job urgency`: change how urgent jobs are.

use eddy_wire::services::job::{Scope, Urgency, UrgencyRequest};

use crate::session::Global;
use crate::verbs::cancel::{change, counted, refusals};
use crate::{ids, request};

/// Change the urgency of waiting jobs; 0 holds them, 31 puts them first
#[derive(clap::Args)]
pub struct Args {
    /// Jobs: f2JL, 1000, lists and ranges, copies (f5_all, f5_3), of an instance 905/f5
    #[arg(value_name = "ID")]
    id: String,
    /// 0 to 31, hold (0), default (16) or expedite (31); above 16 (or what it has) only the owner and admins
    #[arg(value_name = "N", value_parser = request::urgency)]
    urgency: u8,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&[&args.id])?;
    let jobs = ids::many(ids)?;
    let request = |jobs| UrgencyRequest {
        jobs,
        job_set: None,
        scope: Scope::Named,
        urgency: args.urgency,
    };
    global.session(async |client| {
        let changed = change::<Urgency>(&client, jobs.clone(), request).await?;
        if jobs.has_range() {
            counted("job urgency", &changed);
        }
        Ok(refusals("job urgency", &changed))
    })
}
