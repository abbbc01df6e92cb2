//! What a demo is played on: a root on a temporary directory, which is gone with
//! everything that ran on it when the demo ends, however that was.
//!
//! Used by `survive` and `tree_tax`. It ends only processes that name its directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use eddy_brokerd::leader::configured::CONFIG_FILE;
use eddy_client::Client;
use eddy_wire::services::child::{ChildRow, Children, ChildrenRequest, Stage};
use tempfile::TempDir;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::processes;
use crate::instance::{Leader, Life, StartOptions, temporary_statedir};
use crate::output;

/// The pause between two looks at what is waited for.
pub const LOOK: Duration = Duration::from_millis(20);
/// How long an instance may take until it serves.
const SERVES_WITHIN: Duration = Duration::from_secs(30);
/// How long a process may outlive what it was of before it is an orphan.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// One line of a demo.
///
/// # Errors
/// The reader went away.
pub fn tell(text: impl AsRef<str>) -> anyhow::Result<()> {
    Ok(output::lines([format!("eddy demo: {}", text.as_ref())])?)
}

/// The signals that end a demo in order, from when this is made.
pub struct Ends {
    signals: [(Signal, SignalKind); 3],
}

impl Ends {
    /// From here on they are waited for and kill nobody.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn listen() -> anyhow::Result<Ends> {
        let one = |kind| signal(kind).map(|signal| (signal, kind));
        let signals = [
            one(SignalKind::interrupt())?,
            one(SignalKind::terminate())?,
            one(SignalKind::hangup())?,
        ];
        Ok(Ends { signals })
    }

    /// The exit code of a command that one of them ended, when it comes.
    pub async fn come(&mut self) -> u8 {
        let [(first, a), (second, b), (third, c)] = &mut self.signals;
        let kind = tokio::select! {
            _ = first.recv() => *a,
            _ = second.recv() => *b,
            _ = third.recv() => *c,
        };
        u8::try_from(128 + kind.as_raw_value()).unwrap_or(output::FAILED)
    }
}

/// How a demo came to its end.
pub enum Played<T> {
    /// It was played to its end.
    Whole(T),
    /// Somebody ended it before; the exit code.
    Ended(u8),
}

/// A root, and the directory of the demo around its state directory.
pub struct Ground {
    directory: TempDir,
    statedir: PathBuf,
    options: StartOptions,
    leader: Leader,
}

impl Ground {
    /// Starts a root of this configuration.
    ///
    /// # Errors
    /// There is no room, or the leader does not start.
    pub fn start(configuration: &str, options: StartOptions) -> anyhow::Result<Ground> {
        let directory = temporary_statedir()?;
        let statedir = directory.path().join("state");
        fs::create_dir(&statedir).context("cannot make the state directory")?;
        fs::write(statedir.join(CONFIG_FILE), configuration)
            .context("cannot write the configuration")?;
        let leader = Leader::start(&statedir, &options, Life::OfCommand)?;
        Ok(Ground {
            directory,
            statedir,
            options,
            leader,
        })
    }

    /// The directory of the demo.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The same as a working directory of jobs.
    ///
    /// # Errors
    /// It is not UTF-8.
    pub fn cwd(&self) -> anyhow::Result<String> {
        let path = self.path().to_str();
        let path = path.context("the temporary directory is not UTF-8")?;
        Ok(path.to_owned())
    }

    /// The state directory of a node of the root that is not its leader's.
    pub fn node(&self, rank: u32) -> PathBuf {
        self.statedir.join("ranks").join(rank.to_string())
    }

    /// The leader of the root.
    pub fn leader(&self) -> &Leader {
        &self.leader
    }

    /// Kills the leader of the root and starts it again.
    ///
    /// # Errors
    /// It does not come back.
    pub fn strike(&mut self) -> anyhow::Result<()> {
        self.leader.kill()?;
        self.leader = Leader::start(&self.statedir, &self.options, Life::OfCommand)?;
        Ok(())
    }

    /// Ends the root and whatever is left then: how many processes that were.
    ///
    /// # Errors
    /// The root does not end in order; it is ended all the same.
    pub async fn end(mut self) -> anyhow::Result<usize> {
        self.leader.shutdown("the demo is over").await?;
        Ok(none_left(|| processes::naming(self.path())).await)
    }
}

/// Nothing is left behind, also by a demo that failed.
impl Drop for Ground {
    fn drop(&mut self) {
        // First the leader, which would start others.
        let _ended_already = self.leader.kill();
        processes::end_all(self.directory.path());
    }
}

/// How many of these processes are there still after a while in which they may end.
pub async fn none_left(found: impl Fn() -> Vec<processes::Found>) -> usize {
    let until = Instant::now() + ENDS_WITHIN;
    loop {
        let left = found().len();
        if left == 0 || Instant::now() > until {
            return left;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The row of the instance of that name, once it serves.
///
/// # Errors
/// It does not.
pub async fn serving(client: &Client, name: &str) -> anyhow::Result<ChildRow> {
    let until = Instant::now() + SERVES_WITHIN;
    loop {
        let rows = client.call::<Children>(&ChildrenRequest::default()).await?;
        let serves = |row: &ChildRow| row.name == name && row.stage == Stage::Serving;
        if let Some(row) = rows.into_iter().find(serves) {
            return Ok(row);
        }
        anyhow::ensure!(
            Instant::now() < until,
            "instance {name} does not serve within {} s",
            SERVES_WITHIN.as_secs()
        );
        tokio::time::sleep(LOOK).await;
    }
}
