//! `eddy resource`: what there is, what of it is free or in service.

use clap::Subcommand;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::resource::{
    Drain, DrainRequest, List, ListReply, RankState, RankStatus, Status, Targets, Undrain,
    UndrainRequest,
};
use serde_json::json;

use crate::names::Users;
use crate::session::Global;
use crate::table::{Align, Table};
use crate::{output, when};

/// Show resources and take them in and out of service
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
    /// Show what is free, allocated and down
    ///
    /// Fields of --json: for each of all, allocated, down, free: nnodes, ncores, ngpus,
    /// memory (bytes), nodelist (RFC 29), ranks (RFC 22) and R (RFC 20).
    List {
        /// One object
        #[arg(long)]
        json: bool,
        /// No heading
        #[arg(short = 'n', long = "no-header")]
        no_header: bool,
    },
    /// Show which ranks are in service, and why others are not
    ///
    /// Fields of --json: rank, host, state (online, offline), drain (null, or t, reason, userid),
    /// jobs (how many hold something there).
    Status {
        /// One array of objects
        #[arg(long)]
        json: bool,
        /// No heading
        #[arg(short = 'n', long = "no-header")]
        no_header: bool,
    },
    /// Take ranks out of service: what runs goes on, nothing new starts
    Drain {
        /// Replace the reason of ranks that are drained already
        #[arg(short = 'f', long)]
        force: bool,
        /// Ranks (0-3,7) or hosts (n[1-4]); without: show what is drained
        #[arg(value_name = "TARGETS")]
        targets: Option<String>,
        /// Why
        #[arg(value_name = "REASON", trailing_var_arg = true)]
        reason: Vec<String>,
    },
    /// Put ranks back into service
    Undrain {
        /// Ranks (0-3,7) or hosts (n[1-4])
        #[arg(value_name = "TARGETS")]
        targets: String,
    },
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        match args.verb {
            Verb::List { json, no_header } => {
                let reply = client.call::<List>(&()).await?;
                match json {
                    true => output::json(&list_json(&reply))?,
                    false => print(&list_table(&reply), no_header)?,
                }
            }
            Verb::Status { json, no_header } => {
                let ranks = client.call::<Status>(&()).await?;
                match json {
                    true => output::json(&ranks)?,
                    false => print(&status_table(&ranks), no_header)?,
                }
            }
            Verb::Drain { targets: None, .. } => {
                let ranks = client.call::<Status>(&()).await?;
                print(&drained_table(&ranks), false)?;
            }
            Verb::Drain {
                force,
                targets: Some(text),
                reason,
            } => {
                let request = DrainRequest {
                    targets: targets(&text),
                    reason: reason.join(" "),
                    force,
                };
                client.call::<Drain>(&request).await?;
            }
            Verb::Undrain { targets: text } => {
                client
                    .call::<Undrain>(&UndrainRequest {
                        targets: targets(&text),
                    })
                    .await?;
            }
        }
        Ok(0)
    })
}

/// Numbers are ranks, all else is hosts.
fn targets(text: &str) -> Targets {
    match text.parse() {
        Ok(ranks) => Targets::Ranks(ranks),
        Err(_) => Targets::Hosts(text.to_owned()),
    }
}

fn print(table: &Table, no_header: bool) -> std::io::Result<()> {
    let mut out = output::stdout();
    match no_header {
        true => table.write_rows(&mut out),
        false => table.write(&mut out),
    }
}

fn list_json(reply: &ListReply) -> serde_json::Value {
    let one = |set: &ResourceSet| {
        json!({
            "nnodes": set.nnodes(),
            "ncores": set.ncores(),
            "ngpus": set.ngpus(),
            "memory": set.memory(),
            "nodelist": set.nodelist(),
            "ranks": set.ranks(),
            "R": set,
        })
    };
    json!({
        "all": one(&reply.all),
        "allocated": one(&reply.allocated),
        "down": one(&reply.down),
        "free": one(&reply.free),
    })
}

fn list_table(reply: &ListReply) -> Table {
    let mut table = Table::new([
        ("STATE", Align::Left),
        ("NNODES", Align::Right),
        ("NCORES", Align::Right),
        ("NGPUS", Align::Right),
        ("NODELIST", Align::Left),
    ]);
    let sets = [
        ("free", &reply.free),
        ("allocated", &reply.allocated),
        ("down", &reply.down),
    ];
    for (state, set) in sets {
        let counts = [set.nnodes(), set.ncores(), set.ngpus()].map(|count| count.to_string());
        let mut row = vec![state.to_owned()];
        row.extend(counts);
        row.push(set.nodelist());
        table.push(row);
    }
    table
}

fn state(rank: &RankStatus) -> String {
    let drained = match (&rank.drain, rank.jobs) {
        (None, _) => "avail",
        (Some(_), 0) => "drained",
        (Some(_), _) => "draining",
    };
    match rank.state {
        RankState::Online => drained.to_owned(),
        RankState::Offline if rank.drain.is_none() => "offline".to_owned(),
        RankState::Offline => format!("{drained}*"),
    }
}

fn status_table(ranks: &[RankStatus]) -> Table {
    let mut table = Table::new([
        ("RANK", Align::Right),
        ("HOST", Align::Left),
        ("STATE", Align::Left),
        ("JOBS", Align::Right),
        ("REASON", Align::Left),
    ]);
    for rank in ranks {
        let reason = rank
            .drain
            .as_ref()
            .map(|drain| drain.reason.clone())
            .unwrap_or_default();
        let jobs = rank.jobs.to_string();
        table.push(vec![
            rank.rank.to_string(),
            rank.host.clone(),
            state(rank),
            jobs,
            reason,
        ]);
    }
    table
}

fn drained_table(ranks: &[RankStatus]) -> Table {
    let mut table = Table::new([
        ("TIMESTAMP", Align::Left),
        ("STATE", Align::Left),
        ("RANK", Align::Right),
        ("USER", Align::Left),
        ("REASON", Align::Left),
        ("HOST", Align::Left),
    ]);
    let users = Users::read();
    for rank in ranks {
        if let Some(drain) = &rank.drain {
            table.push(vec![
                when::local(drain.t),
                state(rank),
                rank.rank.to_string(),
                users.name(drain.userid),
                drain.reason.clone(),
                rank.host.clone(),
            ]);
        }
    }
    table
}
