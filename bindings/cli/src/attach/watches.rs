//! The signals that end a command which began a job: none of them may leave the job behind unseen.
//!
//! Begun before the job is asked for, so that there is no moment at which a signal ends the command alone. Used by
//! `run`, `exec` and `alloc`.

use anyhow::Context;
use eddy_client::{Client, Options};
use eddy_wire::id::JobId;
use eddy_wire::services::job::Submitted;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

use super::{FAILED, How, Interrupt, LEAVE_AFTER, leave};
use crate::signals;

/// SIGINT.
pub const INT: i32 = 2;
/// SIGTERM.
pub const TERM: i32 = 15;
/// SIGHUP.
const HUP: i32 = 1;
/// SIGQUIT, of the key ctrl-\.
pub const QUIT: i32 = 3;

/// Watches for INT, TERM, HUP and QUIT.
pub struct Watches {
    interrupts: Signal,
    terms: Option<Signal>,
    hangups: Option<Signal>,
    quits: Option<Signal>,
}

impl Watches {
    /// From now on they are seen; all but INT only where they are not to end this command alone.
    ///
    /// # Errors
    /// The system lets nobody watch for signals.
    pub fn begin(interrupt: Interrupt) -> anyhow::Result<Watches> {
        Ok(Watches {
            interrupts: signal(SignalKind::interrupt()).context("cannot watch for interrupts")?,
            terms: watch(SignalKind::terminate(), interrupt)?,
            hangups: watch(SignalKind::hangup(), interrupt)?,
            quits: watch(SignalKind::quit(), interrupt)?,
        })
    }

    /// The next of them to come, by its number.
    pub async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupts.recv() => INT,
            () = received(&mut self.terms) => TERM,
            () = received(&mut self.hangups) => HUP,
            () = received(&mut self.quits) => QUIT,
        }
    }

    /// How to be with the first job of a submission; or, where a signal comes before the answer, the exit code to end
    /// with. The answer is then waited for a moment, and its job ended.
    ///
    /// # Errors
    /// As the submission has.
    pub async fn first_of(
        &mut self,
        submission: impl Future<Output = anyhow::Result<Submitted>>,
        (client, options): (&Client, Options),
        how: impl FnOnce(JobId) -> How,
    ) -> anyhow::Result<Result<How, u8>> {
        let mut submission = std::pin::pin!(submission);
        let signal = tokio::select! {
            submitted = &mut submission => return Ok(Ok(how(submitted?.first))),
            signal = self.next() => signal,
        };
        match timeout(LEAVE_AFTER, submission).await {
            Ok(submitted) => {
                let how = how(submitted?.first);
                leave(client.uri(), options, &how, &note(signal, "to the command")).await;
            }
            Err(_) => {
                eprintln!("eddy: the instance does not answer; if it took the job, the job goes on")
            }
        }
        Ok(Err(exit_code(signal)))
    }
}

/// Why a job was cancelled, for its event log.
pub fn note(signal: i32, how: &str) -> String {
    let name = signals::named(signal).unwrap_or("signal");
    format!("{name} {how}")
}

/// What a command ends with that a signal ended.
pub fn exit_code(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(FAILED)
}

/// A watch for a signal where it is not to end this command alone. One that is ignored, as HUP is by nohup, still is.
fn watch(kind: SignalKind, interrupt: Interrupt) -> anyhow::Result<Option<Signal>> {
    match interrupt {
        Interrupt::Ask => Ok(None),
        Interrupt::Own | Interrupt::Pass if is_ignored(kind) => Ok(None),
        Interrupt::Own | Interrupt::Pass => {
            Ok(Some(signal(kind).context("cannot watch for signals")?))
        }
    }
}

/// Whether whoever started this command had it ignored.
fn is_ignored(kind: SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (kind.as_raw_value() - 1) & 1 == 1)
}

async fn received(watch: &mut Option<Signal>) {
    match watch {
        Some(watch) => drop(watch.recv().await),
        None => std::future::pending().await,
    }
}
