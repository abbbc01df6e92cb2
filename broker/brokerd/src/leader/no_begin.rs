//! A child's leader that cannot begin says why to the parent before it ends.
//!
//! Called by the process around the start, which knows no more than what its environment says. It raises an exception
//! of its own job, as its user may: so the reason is a record of the parent's, by which that tells why an instance is
//! over, or down. Whatever goes wrong is left alone: the end of the task is the end of the job all the same.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::BytesMut;
use eddy_wire::message::Message;
use eddy_wire::services::Service as _;
use eddy_wire::services::job::{JobSet, Raise, RaiseRequest, Scope};

use super::channel::LinkError;
use super::child::Told;
use super::replay::ReplayError;
use super::rows::RowsError;
use super::start::StartError;
use super::texts::TextError;
use crate::frame::{self, FrameError, Inbound, READ_BYTES};
use crate::journal::OpenError;

/// Of which kind the exception is: the job could not be run.
const KIND: &str = "exec";
/// How long the parent may take for each part of its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest reason: half of what a note may be.
const LINE_BYTES_MAX: usize = 512;

/// Tells the parent of a start that failed for good.
pub fn tell(told: &Told, error: &StartError, line: &str) {
    // What the parent refuses it knows.
    if matches!(error, StartError::Parent(_)) {
        return;
    }
    let request = RaiseRequest {
        declared: told.declared().map(str::to_owned),
        jobs: JobSet::one(told.of.job),
        kind: KIND.to_owned(),
        severity: 0,
        note: note(error, line, told.declared().is_some()),
        states: Vec::new(),
        job_set: None,
        scope: Scope::Named,
    };
    if let Err(error) = ask(told, &Message::request(Raise::TOPIC, 1, &request)) {
        tracing::warn!(%error, "the parent is not told why the leader cannot begin");
    }
}

/// What it is told, in one line.
fn note(error: &StartError, line: &str, is_declared: bool) -> String {
    let line = line.replace('\n', " ");
    let end = line.floor_char_boundary(LINE_BYTES_MAX);
    let what = match error {
        error if is_damage(error) && is_declared => {
            "its journal is damaged (the instance around it started with --recover keeps what is whole)"
        }
        error if is_damage(error) => "its journal is damaged",
        _ => "its leader cannot begin",
    };
    format!("{what}: {}", &line[..end])
}

fn is_damage(error: &StartError) -> bool {
    matches!(
        error,
        StartError::Open(OpenError::Damaged { .. })
            | StartError::Replay(ReplayError::Text(TextError::Damaged { .. }))
            | StartError::Rows(RowsError::Text(TextError::Damaged { .. }))
    )
}

/// Asks and waits for whatever is answered: from then on it is on the parent's disk.
fn ask(told: &Told, request: &Message) -> Result<(), LinkError> {
    let mut stream = UnixStream::connect(told.parent().socket())?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut out = BytesMut::new();
    frame::put(&mut out, request).map_err(FrameError::from)?;
    stream.write_all(&out)?;
    let mut inbound = Inbound::default();
    let mut buffer = vec![0; READ_BYTES];
    while inbound.message()?.is_none() {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            bytes => inbound.room().extend_from_slice(&buffer[..bytes]),
        }
    }
    Ok(())
}
