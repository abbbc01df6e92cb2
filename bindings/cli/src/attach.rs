//! Being with a job until it ends: its output, its input, its exit code.
//!
//! Used by `run`, `job attach` and `submit --watch`. It goes on over a restart
//! of the leader and never shows a byte of output twice. A job that the command
//! began is cancelled when the command is ended by a signal or nobody reads its
//! output any more; about another it changes nothing unless the person asks, by
//! two interrupts.

mod input;
mod lines;
mod shown;
mod watches;

use std::io::{self, Write};
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use eddy_client::frames::Frames;
use eddy_client::{Client, ClientError, EndFeed, EventFeed, Options, OutputFeed, Uri};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Exception;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::lifecycle::JobResult;
use eddy_wire::services::Service;
use eddy_wire::services::job::{
    EventsLine, JobEnd, JobSet, Kill, KillRequest, Raise, RaiseRequest, Scope,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::output::FAILED;
use crate::table::escaped;
use crate::{ids, output};

use input::Forwarding;
pub use lines::{Label, Lines};
pub use shown::Shown;
use watches::TERM;
pub use watches::{INT, QUIT, Watches};

/// Two interrupts within this time cancel the job.
const INTERRUPT_AGAIN: Duration = Duration::from_secs(2);
/// How long an answer to the last cancel is waited for.
const LEAVE_AFTER: Duration = Duration::from_secs(1);

/// What a signal does. The end of a command that began the job is the end of the job, as that of a local
/// program's shell would be: else it would run on and nobody knew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Nothing but a word; a second one cancels the job. TERM, HUP and QUIT end this command alone: the job is
    /// not of its making.
    Ask,
    /// The same; TERM, HUP and QUIT cancel the job.
    Own,
    /// It goes to the tasks, as TERM does; a second one cancels the job and is
    /// obeyed at once, for the tasks may be where nobody reaches them. So are HUP and QUIT.
    Pass,
}

/// What becomes of this command's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// It goes to the tasks, once they run.
    Yes,
    /// It stays here.
    No,
}

/// Which job, and how to be with it.
#[derive(Clone, Debug)]
pub struct How {
    /// The job.
    pub job: JobId,
    /// How its output is shown.
    pub label: Label,
    /// Whether it gets our input.
    pub forward: Forward,
    /// What becomes of an interrupt.
    pub interrupt: Interrupt,
    /// The verb, for messages.
    pub verb: &'static str,
}

/// How being with a job ended.
pub enum Left {
    /// The job is over.
    Ended(JobEnd),
    /// The person went away; the job goes on.
    Detached,
    /// The person gave up: its cancel was asked for, its end not waited for. The
    /// exit code is that of the signal.
    GivenUp(u8),
}

impl Left {
    /// The exit code of a command that was with a job for as long.
    pub fn code(&self) -> u8 {
        match self {
            Left::Ended(end) => exit_code(end),
            Left::Detached => 0,
            Left::GivenUp(code) => *code,
        }
    }
}

/// The exit code of a command that ran this job. One that was ended did not end well, whatever its tasks made of that.
pub fn exit_code(end: &JobEnd) -> u8 {
    let code = u8::try_from(end.returncode).unwrap_or(FAILED);
    match end.result {
        JobResult::Completed => code,
        JobResult::Failed | JobResult::Canceled | JobResult::Timeout => code.max(FAILED),
    }
}

/// Shows the job's output and sends it our input until it is over.
pub async fn attach(
    client: &Client,
    options: Options,
    how: How,
    watches: &mut Watches,
) -> anyhow::Result<Left> {
    let (mut seen, label) = (Shown::default(), how.label.clone());
    let left = attach_on(client, options, how, (&mut seen, watches)).await;
    // Also where it failed: nobody goes on with what was begun.
    seen.lines.end(&label)?;
    left
}

/// The same of which so much was shown. Lines that were begun are left to whoever may go on with it.
pub async fn attach_on(
    client: &Client,
    options: Options,
    how: How,
    (seen, watches): (&mut Shown, &mut Watches),
) -> anyhow::Result<Left> {
    let mut attached = Attached::begin((client, options), how.clone(), seen)?;
    let left = with(client, &how, &mut attached, watches).await;
    match left {
        Err(error) if how.interrupt != Interrupt::Ask && output::is_reader_gone(&error) => {
            say(how.verb, "nobody reads the output any more");
            let (uri, options) = (client.uri(), attached.options.clone());
            leave(uri, options, &how, "nobody reads the output").await;
            Ok(Left::GivenUp(output::READER_GONE))
        }
        left => left,
    }
}

/// Is with it until it is over, or somebody went away.
async fn with(
    client: &Client,
    how: &How,
    attached: &mut Attached<'_>,
    watches: &mut Watches,
) -> anyhow::Result<Left> {
    let mut stops = signal(SignalKind::from_raw(STOP_KEY)).context("cannot watch for stops")?;
    // Asked for once the events show that there is such a job: of two refusals the one that came first would be said.
    let mut ends = None;
    let mut events = Some(EventFeed::following(client, how.job)?);
    let mut end = None;
    let mut signalled = Signalled::default();
    loop {
        if let (Some(_), None, None) = (&end, &events, &attached.output) {
            break;
        }
        tokio::select! {
            ended = next_ends(&mut ends), if end.is_none() => {
                end = ended?.and_then(|ends| ends.into_iter().next());
                end.as_ref().context("the instance does not say how the job ended")?;
            }
            lines = next_events(&mut events) => match lines? {
                Some(lines) => {
                    lines.iter().try_for_each(|line| attached.event(line))?;
                    if ends.is_none() {
                        ends = Some(EndFeed::of(client, JobSet::one(how.job))?);
                    }
                }
                None => events = None,
            },
            part = attached.next_output() => attached.show(part?)?,
            signal = watches.next() => {
                if let Some(how) = signalled.by(signal, attached) {
                    return Ok(attached.give_up(signal, how).await);
                }
            }
            _ = stops.recv() => {
                if signalled.is_interrupted() {
                    eprintln!("eddy {}: detached from job {}", how.verb, ids::show(how.job));
                    return Ok(Left::Detached);
                }
                // What the key would have done if nobody had watched for it.
                let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
            }
        }
    }
    Ok(Left::Ended(
        attached.ended(end.expect("the loop ends with an end")),
    ))
}

/// What came of signals so far.
#[derive(Default)]
struct Signalled {
    interrupted: Option<Instant>,
    terms_passed: u32,
}

impl Signalled {
    /// Whether an interrupt came just now.
    fn is_interrupted(&self) -> bool {
        self.interrupted
            .is_some_and(|at| at.elapsed() < INTERRUPT_AGAIN)
    }

    /// A signal came: what is to be done is, unless the command is to give up, of which is told how the signal came.
    fn by(&mut self, signal: i32, attached: &Attached<'_>) -> Option<&'static str> {
        match (signal, attached.how.interrupt) {
            (INT, of) => {
                let again = self.is_interrupted();
                self.interrupted = Some(Instant::now());
                match (again, of) {
                    (true, Interrupt::Pass) => return Some("twice"),
                    (true, Interrupt::Ask | Interrupt::Own) => attached.cancel(),
                    (false, _) => attached.interrupt(),
                }
            }
            (TERM, Interrupt::Pass) => {
                if self.terms_passed > 0 {
                    return Some("twice");
                }
                self.terms_passed += 1;
                attached.pass(TERM);
            }
            _ => return Some("to the command"),
        }
        None
    }
}

/// Asks for the end of a job and does not wait for it, nor long for the answer.
pub async fn leave(uri: &Uri, options: Options, how: &How, note: &str) {
    let How { job, verb, .. } = *how;
    let shown = ids::show(job);
    say(
        verb,
        &format!("cancelling job {shown}, whose end is not waited for"),
    );
    let asked = async {
        let client = Client::connect(uri, options).await?;
        client.call::<Raise>(&cancelling(job, note)).await
    };
    match tokio::time::timeout(LEAVE_AFTER, asked).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => say(verb, &error.to_string()),
        Err(_) => say(
            verb,
            &format!("the instance does not answer; job {shown} may go on"),
        ),
    }
}

/// The same after a signal to this command, which ends with the exit code.
pub async fn given_up(uri: &Uri, options: Options, how: &How, signal: i32) -> u8 {
    leave(uri, options, how, &watches::note(signal, "to the command")).await;
    watches::exit_code(signal)
}

/// One line on standard error.
fn say(verb: &str, text: &str) {
    eprintln!("eddy {verb}: {text}");
}

fn cancelling(job: JobId, note: &str) -> RaiseRequest {
    RaiseRequest {
        declared: None,
        job_set: None,
        scope: Scope::Named,
        jobs: JobSet::one(job),
        states: Vec::new(),
        kind: "cancel".to_owned(),
        severity: 0,
        note: note.to_owned(),
    }
}

/// The signal of the key that stops a program, SIGTSTP.
const STOP_KEY: i32 = 20;
async fn next_events(
    events: &mut Option<EventFeed>,
) -> Result<Option<Vec<EventsLine>>, ClientError> {
    match events {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

async fn next_ends(ends: &mut Option<EndFeed>) -> Result<Option<Vec<JobEnd>>, ClientError> {
    match ends {
        Some(ends) => ends.next().await,
        None => std::future::pending().await,
    }
}

/// One job being shown.
struct Attached<'a> {
    client: &'a Client,
    options: Options,
    how: How,
    output: Option<OutputFeed>,
    /// The attempt the job is in, by its events.
    attempt: Attempt,
    /// The attempt whose output was or is being shown.
    shown: Option<Attempt>,
    seen: &'a mut Shown,
    /// The last attempt of which tasks ran.
    started: Option<Attempt>,
    /// Why there is no output to be had, or not yet.
    refused: Option<Refusal>,
    /// The hosts of which was said that nothing of theirs can be shown.
    missing: String,
    /// Our input, not read before the tasks run.
    input: Option<Forwarding>,
}

impl<'a> Attached<'a> {
    fn begin(
        (client, options): (&'a Client, Options),
        how: How,
        seen: &'a mut Shown,
    ) -> anyhow::Result<Attached<'a>> {
        let output = Some(OutputFeed::following(client, how.job, None)?);
        Ok(Attached {
            client,
            options,
            how,
            output,
            attempt: Attempt(1),
            shown: None,
            seen,
            started: None,
            refused: None,
            missing: String::new(),
            input: None,
        })
    }

    async fn next_output(&mut self) -> Result<Option<Bytes>, ClientError> {
        let Some(output) = &mut self.output else {
            return std::future::pending().await;
        };
        let part = match output.next().await {
            Ok(part) => part,
            // No output to be had (yet): the start of the tasks asks again.
            Err(ClientError::Refused(refusal)) if refusal.code != Code::Denied => {
                self.refused = Some(refusal);
                None
            }
            Err(error) => return Err(error),
        };
        match &part {
            Some((reply, _)) => self.shown = Some(reply.attempt),
            None if output.missing() != self.missing => {
                output.missing().clone_into(&mut self.missing);
                miss(self.how.verb, &self.missing);
            }
            None => {}
        }
        Ok(part.map(|(_, frames)| frames))
    }

    fn show(&mut self, part: Option<Bytes>) -> anyhow::Result<()> {
        match part {
            Some(frames) => self.seen.show(self.shown, frames, &self.how.label),
            None => {
                self.output = None;
                Ok(self.seen.lines.end(&self.how.label)?)
            }
        }
    }

    fn event(&mut self, line: &EventsLine) -> anyhow::Result<()> {
        match line.name.as_str() {
            "start" => {
                self.started = Some(self.attempt);
                if self.output.is_none() && self.shown < Some(self.attempt) {
                    let (job, attempt) = (self.how.job, Some(self.attempt));
                    self.refused = None;
                    self.output = Some(OutputFeed::following(self.client, job, attempt)?);
                }
                match (&self.input, self.how.forward) {
                    (Some(input), _) => input.starts_again(),
                    (None, Forward::Yes) => {
                        let (uri, options) = (self.client.uri().clone(), self.options.clone());
                        self.input = Some(Forwarding::begin(uri, options, self.how.clone()));
                    }
                    (None, Forward::No) => {}
                }
            }
            "requeue" => self.attempt = self.attempt.next(),
            "exception" => {
                if let Some(exception) = exception(line)
                    && self.seen.is_fresh_exception()
                {
                    let text = said(&self.how, self.attempt, &exception);
                    eprintln!("eddy {}: {text}", self.how.verb);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// How it ended for this command: not well, if its tasks did not get our input, or what they wrote is not to be
    /// had.
    fn ended(&self, end: JobEnd) -> JobEnd {
        // What never ran wrote nothing.
        let unshown = self.refused.as_ref().filter(|_| self.started.is_some());
        if let Some(refusal) = unshown {
            let (job, why) = (ids::show(self.how.job), escaped(&refusal.text));
            say(
                self.how.verb,
                &format!("what job {job} wrote is not shown: {why}"),
            );
        }
        let is_cut = self.input.as_ref().is_some_and(Forwarding::is_cut);
        match is_cut || unshown.is_some() {
            true if end.returncode == 0 => JobEnd {
                returncode: FAILED.into(),
                ..end
            },
            true | false => end,
        }
    }

    fn interrupt(&self) {
        let How { job, verb, .. } = self.how;
        if self.how.interrupt == Interrupt::Pass {
            return self.pass(INT);
        }
        let job = ids::show(job);
        eprintln!("eddy {verb}: one more ctrl-C within 2 s cancels job {job}, ctrl-Z leaves it");
    }

    /// Sends a signal to the tasks.
    fn pass(&self, signal: i32) {
        self.ask::<Kill>(KillRequest {
            jobs: JobSet::one(self.how.job),
            signal,
        });
    }

    /// Asks for the end of the job.
    fn cancel(&self) {
        let How { job, verb, .. } = self.how;
        eprintln!("eddy {verb}: cancelling job {}", ids::show(job));
        self.ask::<Raise>(cancelling(job, "interrupted by ctrl-C"));
    }

    /// Asks for the end of the job and leaves: the signal came so.
    async fn give_up(&self, signal: i32, how: &str) -> Left {
        let (uri, options) = (self.client.uri(), self.options.clone());
        leave(uri, options, &self.how, &watches::note(signal, how)).await;
        Left::GivenUp(watches::exit_code(signal))
    }

    /// Asks something of the instance on a connection of its own, for this one
    /// has streams that must be read on.
    fn ask<S: Service + 'static>(&self, request: S::Request)
    where
        S::Request: Send + Sync,
        S::Reply: Send,
    {
        let (uri, options, verb) = (
            self.client.uri().clone(),
            self.options.clone(),
            self.how.verb,
        );
        tokio::spawn(async move {
            let asked = async {
                let client = Client::connect(&uri, options).await?;
                client.call::<S>(&request).await
            };
            if let Err(error) = asked.await {
                eprintln!("eddy {verb}: {error}");
            }
        });
    }
}

/// Says that nothing can be shown of what was written on these hosts.
pub fn miss(verb: &str, hosts: &str) {
    let hosts = escaped(hosts);
    eprintln!("eddy {verb}: what was written on {hosts} is not shown: not in the instance now");
}

/// The exception that a line tells of.
pub fn exception(line: &EventsLine) -> Option<Exception> {
    serde_json::from_str(line.context.as_ref()?.get()).ok()
}

fn said(how: &How, attempt: Attempt, exception: &Exception) -> String {
    let Exception {
        kind,
        severity,
        note,
        ..
    } = exception;
    let job = ids::show(how.job);
    // Of most jobs there is only the first.
    let of = match attempt.0 {
        0 | 1 => String::new(),
        later => format!(", attempt {later}"),
    };
    output::one_line(&match (how.verb, kind.as_str()) {
        ("alloc", "timeout") => format!("instance {job} is ended: {note}"),
        _ => format!("job {job}{of}: exception type={kind} severity={severity} {note}"),
    })
}

/// Writes frames to our standard output and error.
pub fn write_frames(frames: Bytes, label: &Label, lines: &mut Lines) -> anyhow::Result<()> {
    for frame in Frames::of(frames) {
        let frame = frame?;
        lines.show(&frame, &frame.bytes, label)?;
    }
    Ok(io::stdout().flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_was_ended_is_a_failure_of_the_command() {
        let end = |returncode| JobEnd {
            id: JobId(1),
            result: JobResult::Canceled,
            returncode,
            exception: None,
        };
        assert_eq!(
            [0, 3, 143, -128, 256].map(|code| exit_code(&end(code))),
            [1, 3, 143, 1, 1]
        );
    }
}
