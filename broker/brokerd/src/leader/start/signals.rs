//! The signals that a leader heeds. Called once, when all else has begun.

use std::io;

use crate::leader::{Inner, Inside};

/// TERM and INT end the instance in order; HUP is not for a daemon.
pub(super) fn watch_signals(inside: Inside) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::task::spawn_local(async move {
        loop {
            let name = tokio::select! {
                _ = terminate.recv() => "TERM",
                _ = interrupt.recv() => "INT",
                _ = hangup.recv() => {
                    tracing::info!("signal HUP is ignored");
                    continue;
                }
            };
            tracing::info!("signal {name}: the instance is to end");
            if inside.send(Inner::Stop).is_err() {
                return;
            }
        }
    });
    Ok(())
}
