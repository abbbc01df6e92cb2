//! `eddy ping`: is the instance there, and how fast does it answer.

use std::time::{Duration, Instant};

use eddy_wire::services::instance::{Ping, PingRequest};

use crate::output;
use crate::session::{Global, span};

/// Ask the instance whether it is there
///
/// Fields of --json: instance, epoch (how many leaders it had), version, owner (user id),
/// phase (run when it takes work), durable (the last record on disk), t (its time), pad,
/// seconds (until the answer).
#[derive(clap::Args)]
pub struct Args {
    /// So many times
    #[arg(short = 'c', long, value_name = "N", default_value_t = 1)]
    count: u32,
    /// Time between two
    #[arg(short = 'i', long, value_name = "FSD", default_value = "1s", value_parser = span)]
    interval: Duration,
    /// Carry so many bytes along
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_048_576))]
    pad: u32,
    /// One object for each
    #[arg(long)]
    json: bool,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        let request = PingRequest {
            pad: "x".repeat(args.pad as usize),
        };
        for turn in 0..args.count {
            if turn > 0 {
                tokio::time::sleep(args.interval).await;
            }
            let begun = Instant::now();
            let pong = client.call::<Ping>(&request).await?;
            let seconds = begun.elapsed().as_secs_f64();
            if args.json {
                let mut object = serde_json::to_value(&pong)?;
                object["seconds"] = seconds.into();
                output::json(&object)?;
                continue;
            }
            output::lines([format!(
                "instance {} epoch {} version {} phase {} durable {} time {:.3} ms",
                pong.instance,
                pong.epoch,
                pong.version,
                pong.phase,
                pong.durable,
                seconds * 1e3
            )])?;
        }
        Ok(0)
    })
}
