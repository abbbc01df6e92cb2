//! What instances left that are over: how jobs of theirs ended, read for the loop.
//!
//! Each question is a process (`eddy history --ends`), which has the rights of the user whose instance it was
//! and nothing of this one's environment: a state directory is that user's, who may have put anything there,
//! and a leader that opened it would do so with rights of its own. It decides nothing, and it is given up after
//! some time: who asked hears that it failed, and asks again.

use std::collections::BTreeMap;
use std::io;
use std::process::Stdio;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use eddy_broker::effect::QueryTag;
use eddy_broker::{Answer, Left};
use eddy_wire::id::JobId;
use eddy_wire::services::job::JobEnd;
use rustix::process::geteuid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::timeout;

use super::{Inner, Inside};
use crate::own::Own;
use crate::users::{Accounts, UserError};

/// How many are read at a time: each folds a whole journal.
const READ_MAX: usize = 2;
/// How long one may take: it waits for a lock for some seconds, and a journal may be long.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest answer: a million ends.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Why what an instance left was not read.
#[derive(Debug, thiserror::Error)]
enum LeftError {
    /// The system refused something.
    #[error("what an instance left cannot be read")]
    Io(#[from] io::Error),
    /// It has a user that this host does not know.
    #[error(transparent)]
    User(#[from] UserError),
    /// What was said of it is not what was asked for.
    #[error("what an instance left cannot be understood")]
    Answer(#[from] serde_json::Error),
    /// It took too long.
    #[error("what an instance left was not read within {} s", PATIENCE.as_secs())]
    Late,
}

/// The readers. Those who wait are bounded by who asks.
pub struct Lefts {
    inside: Inside,
    users: Arc<Accounts>,
    room: Rc<Semaphore>,
}

impl Lefts {
    /// None yet; what they say will go to `inside`.
    pub fn new(inside: Inside) -> Lefts {
        Lefts {
            inside,
            users: Arc::new(Accounts::default()),
            room: Rc::new(Semaphore::new(READ_MAX)),
        }
    }

    /// Has one read; the answer comes under this tag.
    pub fn ask(&self, tag: QueryTag, left: Left) {
        let (inside, users) = (self.inside.clone(), Arc::clone(&self.users));
        let room = Rc::clone(&self.room);
        spawn_local(async move {
            let _room = room.acquire().await;
            let read = timeout(PATIENCE, read(&left, users)).await;
            let answer = match read.unwrap_or(Err(LeftError::Late)) {
                Ok(ends) => Answer::Within(ends),
                Err(error) => {
                    tracing::warn!(?left, "{}", super::chain(&error));
                    Answer::Failed(error.to_string())
                }
            };
            // The loop is gone only when the process ends.
            let _ = inside.send(Inner::Answer(tag, answer));
        });
    }
}

async fn read(
    left: &Left,
    users: Arc<Accounts>,
) -> Result<BTreeMap<JobId, Option<JobEnd>>, LeftError> {
    let mut command = Command::from(Own::find()?.command());
    command.args(["history", "--ends", "--statedir", &left.statedir]);
    command.env_clear().current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    let user = left.user;
    if user != geteuid().as_raw() {
        let account = spawn_blocking(move || users.get(user)).await;
        let account = account.map_err(io::Error::other)??;
        command.uid(account.uid).gid(account.gid);
    }
    let mut child = command.spawn()?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    if let Some(mut input) = input {
        input.write_all(&serde_json::to_vec(&left.jobs)?).await?;
    }
    let mut text = Vec::new();
    if let Some(output) = output {
        let mut output = output.take(ANSWER_BYTES_MAX);
        output.read_to_end(&mut text).await?;
    }
    let status = child.wait().await?;
    if !status.success() {
        let why = String::from_utf8_lossy(&text).trim_end().to_owned();
        return Err(io::Error::other(why).into());
    }
    let ends: Vec<(JobId, Option<JobEnd>)> = serde_json::from_slice(&text)?;
    Ok(ends.into_iter().collect())
}
