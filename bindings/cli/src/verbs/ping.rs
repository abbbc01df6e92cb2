//! `eddy ping`: is the instance there, or one rank of it, and how fast does it
//! answer.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use eddy_client::Client;
use eddy_wire::id::Rank;
use eddy_wire::message::Target;
use eddy_wire::services::instance::{Ping, PingRequest, Pong};
use eddy_wire::services::resource::Status;

use crate::number::{ANY, number};
use crate::output;
use crate::session::{Global, span};

/// Ask the instance, or one rank of it, whether it is there
///
/// Fields of --json: instance, epoch (how many leaders it had), version, owner (user id), rank
/// (who answers; 0 is the leader), path (905/3; empty for a root), depth, parent (where the parent
/// is reached, or null), phase (run when it takes work), durable (the last record on disk), t (its
/// time), pad, seconds (until the answer).
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// So many times
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1, value_parser = number(ANY))]
    count: u32,
    /// Time between two
    #[arg(short = 'i', long, value_name = "FSD", default_value = "1s", value_parser = span)]
    interval: Duration,
    /// Carry so many bytes along
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number(0..=1_048_576_u32))]
    pad: u32,
    /// One object for each
    #[arg(long)]
    json: bool,
    /// A rank by number or host name, or `upstream` [default: whoever takes the request]
    #[arg(value_name = "RANK")]
    rank: Option<String>,
}

const EXAMPLES: &str = "Examples:
  eddy ping
  eddy ping 3 -c 10 -i 100ms
  eddy --at 905/3 ping";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        let target = target(&client, args.rank.as_deref()).await?;
        let request = PingRequest {
            pad: "x".repeat(args.pad as usize),
        };
        for turn in 0..args.count {
            if turn > 0 {
                tokio::time::sleep(args.interval).await;
            }
            let begun = Instant::now();
            let pong = client.call_target::<Ping>(&request, target).await?;
            let seconds = begun.elapsed().as_secs_f64();
            if let Target::Rank(rank) = target {
                ensure!(
                    pong.rank == rank,
                    "rank {rank} is not there; rank {} answered",
                    pong.rank
                );
            }
            if args.json {
                let mut object = serde_json::to_value(&pong)?;
                object["seconds"] = seconds.into();
                output::json(&object)?;
                continue;
            }
            output::lines([line(&pong, seconds)])?;
        }
        Ok(0)
    })
}

/// The same for every rank. What only the leader knows is left out for others.
fn line(pong: &Pong, seconds: f64) -> String {
    let durable = match pong.rank {
        Rank(0) => format!(" durable {}", pong.durable),
        Rank(_) => String::new(),
    };
    let lack = pong.lack.as_ref();
    format!(
        "rank {} instance {} epoch {} version {} phase {}{durable} time {:.3} ms{}",
        pong.rank,
        pong.instance,
        pong.epoch,
        pong.version,
        pong.phase,
        seconds * 1e3,
        lack.map_or_else(String::new, |lack| format!(": {lack}"))
    )
}

/// Who is to answer.
async fn target(client: &Client, rank: Option<&str>) -> anyhow::Result<Target> {
    let Some(text) = rank else {
        return Ok(Target::Service);
    };
    if text == "upstream" {
        return Ok(Target::Upstream);
    }
    if let Ok(rank) = text.parse() {
        return Ok(Target::Rank(Rank(rank)));
    }
    let ranks = client.call::<Status>(&()).await?;
    let found = ranks.iter().find(|status| status.host == text);
    let found =
        found.with_context(|| format!("`{text}` is neither a rank nor a host of the instance"))?;
    Ok(Target::Rank(found.rank))
}
