//! `eddy grant`: what an instance holds of the instance around it.

use anyhow::bail;
use clap::Subcommand;
use eddy_wire::services::grant::{GrantRow, GrantState, List, Release, ReleaseRequest, Which};

use crate::output;
use crate::session::Global;
use crate::table::{Align, Table};
use crate::verbs::resource::targets;

/// Show what an instance holds of the one around it, and give nodes back
///
/// For instances that users have started (eddy batch, eddy alloc): what a queue's instance holds is
/// said by its configuration.
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show each node, and whether it stays
    ///
    /// Fields of --json: rank, host, ncores, ngpus, jobs (how many run there), state (leader: it goes
    /// back with the instance; held; leaving: it goes back when nothing runs there any more).
    List {
        /// One array of objects
        #[arg(long)]
        json: bool,
        /// No heading
        #[arg(short = 'n', long = "no-header")]
        no_header: bool,
    },
    /// Give nodes back, each as soon as nothing runs there any more
    ///
    /// Nothing new starts there from now on, and they are paid for until they are gone. Prints their
    /// ranks. `eddy resource undrain` keeps one that is not gone yet.
    Release {
        /// Ranks (0-3,7) or hosts (n[1-4])
        #[arg(value_name = "TARGETS", required_unless_present = "count")]
        targets: Option<String>,
        /// So many, those on which the fewest jobs run
        #[arg(long, value_name = "N", conflicts_with = "targets")]
        count: Option<u32>,
    },
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        match args.verb {
            Verb::List { json, no_header } => {
                let rows = client.call::<List>(&()).await?;
                match json {
                    true => output::json(&rows)?,
                    false => print(&rows, no_header)?,
                }
            }
            Verb::Release {
                targets: named,
                count,
            } => {
                let nodes = match (named, count) {
                    (Some(text), _) => Which::Named(targets(&text)),
                    (None, Some(count)) => Which::Count(count),
                    (None, None) => bail!("TARGETS or --count is needed"),
                };
                let ranks = client.call::<Release>(&ReleaseRequest { nodes }).await?;
                output::lines([ranks.to_string()])?;
            }
        }
        Ok(0)
    })
}

fn print(rows: &[GrantRow], no_header: bool) -> std::io::Result<()> {
    let columns = ["RANK", "HOST", "CORES", "GPUS", "JOBS", "STATE"];
    let mut table = Table::new(columns.map(|name| match name {
        "HOST" | "STATE" => (name, Align::Left),
        _ => (name, Align::Right),
    }));
    for row in rows {
        let state = match row.state {
            GrantState::Leader => "leader",
            GrantState::Held => "held",
            GrantState::Leaving => "leaving",
        };
        table.push(vec![
            row.rank.to_string(),
            row.host.clone(),
            row.ncores.to_string(),
            row.ngpus.to_string(),
            row.jobs.to_string(),
            state.to_owned(),
        ]);
    }
    let mut out = output::stdout();
    match no_header {
        true => table.write_rows(&mut out),
        false => table.write(&mut out),
    }
}
