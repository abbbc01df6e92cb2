//! `eddy job info`: documents kept with a job.

use clap::ValueEnum;
use eddy_client::EventFeed;
use eddy_wire::services::job::{Info, InfoKey, InfoRequest};

use super::eventlog::{Form, Stamp, show};
use crate::session::Global;
use crate::{ids, output};

/// Print a document kept with a job
#[derive(clap::Args)]
pub struct Args {
    /// The job; of an instance 905/f5
    #[arg(value_name = "ID")]
    id: String,
    /// Which document
    #[arg(value_name = "KEY")]
    key: Key,
}

/// Which document.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Key {
    /// What was asked for (RFC 14)
    Jobspec,
    /// What was given (RFC 20)
    #[value(name = "R")]
    R,
    /// What happened (RFC 18)
    Eventlog,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&[&args.id])?;
    let id = ids::single(ids)?;
    global.session(async |client| {
        let key = match args.key {
            Key::Jobspec => InfoKey::Jobspec,
            Key::R => InfoKey::Resources,
            Key::Eventlog => {
                let mut feed = EventFeed::so_far(&client, id)?;
                while let Some(lines) = feed.next().await? {
                    let json = |line| show(line, Form::Json, Stamp::Raw, Default::default());
                    output::lines(lines.iter().map(json))?;
                }
                return Ok(0);
            }
        };
        let reply = client.call::<Info>(&InfoRequest { id, key }).await?;
        output::json(&reply.document)?;
        Ok(0)
    })
}
