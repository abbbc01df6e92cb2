//! `eddy shutdown`: end an instance in order.

use std::io::Read;
use std::os::unix::net::UnixStream;

use eddy_client::ClientError;
use eddy_wire::services::instance::{Shutdown, ShutdownRequest};

use crate::session::Global;

/// End the instance
///
/// Running jobs are cancelled; waiting ones stay in the journal and run after the next
/// `eddy start --statedir`. Returns when the leader has exited.
#[derive(clap::Args)]
pub struct Args {
    /// Do not wait for the leader's exit
    #[arg(long)]
    background: bool,
    /// Why, one line
    #[arg(short = 'm', long, value_name = "TEXT", default_value = "")]
    message: String,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        // Opened before anything is asked: its end is the exit of the leader.
        let watched = UnixStream::connect(client.uri().path());
        let request = ShutdownRequest {
            note: args.message.clone(),
        };
        match client
            .call_once::<Shutdown>(&request, bytes::Bytes::new())
            .await
        {
            // A leader that is gone before its answer was read did what was asked.
            Ok(_) | Err(ClientError::Lost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if let (Ok(mut watched), false) = (watched, args.background) {
            let mut rest = Vec::new();
            let _ = watched.read_to_end(&mut rest);
        }
        Ok(0)
    })
}
