//! `eddy job last`: ids of the jobs submitted last.

use anyhow::bail;

use crate::listing::{Filter, Question};
use crate::number::{ANY, number};
use crate::session::Global;
use crate::{ids, output};

/// Ended jobs looked through: the latest submission is hardly ever behind so many others that
/// ended after it.
const ENDED_LOOKED_AT: u32 = 1000;

/// Print the ids of your latest submissions, the latest first
#[derive(clap::Args)]
pub struct Args {
    /// How many
    #[arg(value_name = "N", default_value_t = 1, value_parser = number(ANY))]
    count: u32,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let user = Some(rustix::process::getuid().as_raw());
    global.session(async |client| {
        let ended = Filter {
            states: vec![eddy_wire::lifecycle::JobState::Inactive],
            results: vec![],
        };
        let limit = args.count.max(ENDED_LOOKED_AT);
        let mut jobs = Vec::new();
        for (filter, limit) in [(Filter::active(), 0), (ended, limit)] {
            let question = Question {
                filter,
                user,
                limit,
                ..Question::default()
            };
            question
                .ask(&client, |row| {
                    jobs.push(row.id);
                    Ok(())
                })
                .await?;
        }
        jobs.sort_unstable();
        if jobs.is_empty() {
            bail!("you have no jobs here");
        }
        let latest = jobs.iter().rev().take(args.count as usize);
        output::lines(latest.map(|job| ids::show(*job)))?;
        Ok(0)
    })
}
