//! The options every verb has, and the connection they lead to.
//!
//! A verb that asks something of an instance runs inside [`Global::session`].

use std::time::Duration;

use anyhow::Context;
use clap::Args;
use eddy_client::uri::URI_VARIABLE;
use eddy_client::{Client, Options, locate};
use eddy_wire::fsd::{Fsd, parse_fsd};

/// Options that every verb takes.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// The instance: its URI (local:///PATH), its socket, or its state directory
    ///
    /// Without it EDDY_URI counts; without that /run/eddy/local, or your only
    /// running instance.
    #[arg(long, global = true, value_name = "URI|DIR", help_heading = "Instance")]
    pub at: Option<String>,
    /// How long to wait for a leader that is restarting
    #[arg(
        long,
        global = true,
        value_name = "FSD",
        default_value = "30s",
        env = "EDDY_RECONNECT",
        value_parser = span,
        hide_env_values = true,
        help_heading = "Instance"
    )]
    pub reconnect: Duration,
}

/// A finite duration (RFC 23); a number without unit counts seconds.
pub fn span(text: &str) -> Result<Duration, String> {
    match parse_fsd(text).map_err(|error| error.to_string())? {
        Fsd::Finite(micros) => Ok(Duration::from_micros(micros.unsigned_abs())),
        Fsd::Infinite => Ok(Duration::from_secs(10 * 365 * 86_400)),
    }
}

/// A runtime of one thread: this one.
pub fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(work);
    // A thread that reads standard input may never come back.
    runtime.shutdown_background();
    result
}

impl Global {
    /// Connects to the instance and does `work` with it.
    pub fn session<T>(
        &self,
        work: impl AsyncFnOnce(Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let variable = std::env::var(URI_VARIABLE).ok();
        let uri = locate(self.at.as_deref().or(variable.as_deref()))?;
        block_on(async {
            let client = Client::connect(&uri, self.options()).await?;
            work(client).await
        })
    }

    /// How patient clients of this command are.
    pub fn options(&self) -> Options {
        Options {
            wait: self.reconnect,
        }
    }
}
