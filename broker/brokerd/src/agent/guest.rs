//! Ranks of another user's instances: each in a process of that user.
//!
//! Used by [`super::hosts`]. The leader of such an instance is that user's and orders what is
//! started there, so nothing of it may happen in a process with more rights than the user has. The
//! agent of the host's administrator starts `eddy agent` under those rights, by the one audited
//! path, watches it, and starts it again when it ends before its time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Common;
use super::following::Post;
use crate::life::Life;
use crate::own::Own;
use crate::rundir::left::Left;
use crate::shell::leftover::Process;
use crate::shell::overdue::Overdue;
use crate::shell::procfs::MARKER_VARIABLE;
use crate::shell::reap;
use crate::shell::rights::{Named, Rights, Stream, UMASK};
use crate::shell::spawn::{Child, Command, SpawnError, Spawner};
use crate::shell::stdio::{self, FileUse, OpenMode};

/// Name of the log in the state directory of a rank.
const LOG_FILE: &str = "log";
/// Before a rank is begun again that ended by itself.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// Between two looks whether a start is held up.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// From TERM to KILL of a rank that is to end.
const GRACE: Duration = Duration::from_secs(5);

/// What is asked of the thread of a user, and where its answer goes.
enum Asked {
    /// A start.
    Start(Command, oneshot::Sender<Result<Child, SpawnError>>),
    /// To remove the run directory of a rank that nothing hosts any more.
    Remove(Left, oneshot::Sender<io::Result<()>>),
}

/// The threads that start them, one for each user: a file system of a user's own can keep a thread for ever. They live
/// as long as this process does, since the kernel ends what a thread started when it ends.
#[derive(Debug, Default)]
pub struct Starters {
    of: RefCell<BTreeMap<u32, Rc<Starter>>>,
}

impl Starters {
    /// That of a user, begun where there is none yet.
    fn of(&self, user: u32) -> Result<Rc<Starter>, String> {
        let mut known = self.of.borrow_mut();
        if let Some(starter) = known.get(&user) {
            return Ok(Rc::clone(starter));
        }
        let begun = Starter::begin(user);
        let begun = Rc::new(begun.map_err(|error| format!("cannot start a thread: {error}"))?);
        known.insert(user, Rc::clone(&begun));
        Ok(begun)
    }

    /// Removes what a rank left, after every start for that user that was asked for before.
    async fn remove(&self, left: Left) -> Result<(), String> {
        let user = left.user;
        let (answer, answered) = oneshot::channel();
        let gone = || "the thread that starts processes has ended".to_owned();
        let asked = Asked::Remove(left, answer);
        self.of(user)?.asked.send(asked).map_err(|_| gone())?;
        match tokio::time::timeout(GRACE, answered).await {
            Ok(removed) => removed
                .map_err(|_| gone())?
                .map_err(|error| error.to_string()),
            Err(_) => Err(format!("not removed within {} s", GRACE.as_secs())),
        }
    }
}

#[derive(Debug)]
struct Starter {
    asked: Sender<Asked>,
    watched: Arc<Overdue>,
}

impl Starter {
    /// The thread, waiting.
    ///
    /// # Errors
    /// There is no room for it.
    fn begin(user: u32) -> io::Result<Starter> {
        let mut spawner = Spawner::new(Arc::default(), Arc::default())?;
        let watched = spawner.watched();
        let (asked, starts) = channel::<Asked>();
        std::thread::Builder::new()
            .name(format!("spawn-{user}"))
            .spawn(move || {
                while let Ok(asked) = starts.recv() {
                    match asked {
                        Asked::Start(command, answer) => start(&mut spawner, &command, answer),
                        // Who asked may have gone: it is removed all the same.
                        Asked::Remove(left, answer) => drop(answer.send(left.remove())),
                    }
                }
            })?;
        Ok(Starter { asked, watched })
    }

    async fn start(&self, command: Command) -> Result<Child, String> {
        let (answer, mut answered) = oneshot::channel();
        let gone = || "the thread that starts processes has ended".to_owned();
        let asked = Asked::Start(command, answer);
        self.asked.send(asked).map_err(|_| gone())?;
        loop {
            tokio::select! {
                child = &mut answered => {
                    let child = child.map_err(|_| gone())?;
                    return child.map_err(|error| error.to_string());
                }
                () = sleep(LOOK_PAUSE) => self.watched.end_late(Instant::now()),
            }
        }
    }
}

fn start(
    spawner: &mut Spawner,
    command: &Command,
    answer: oneshot::Sender<Result<Child, SpawnError>>,
) {
    // Who asked may have gone: the process is then seen by nobody and ended.
    if let Err(Ok(child)) = answer.send(spawner.spawn(command)) {
        let _ = reap::signal_group(child.pidfd.as_fd(), child.pid, libc::SIGKILL);
        let _ = reap::wait(child.pidfd.as_fd());
    }
}

/// Has the rank hosted by a process of that user until told to stop, and leaves nothing of it.
pub async fn host_as(
    user: u32,
    post: Post,
    common: &Common,
    starters: &Starters,
    stop: oneshot::Receiver<()>,
) {
    host_until(user, &post, common, starters, stop).await;
    // That process has the marker of its job: where the job's end has the shell of this node end what is within it,
    // it is killed, with its sockets there. The shell does not follow what a user's state directory says.
    let left = Left::of_rank(user, post.rank_of());
    if let Err(why) = starters.remove(left).await {
        tracing::warn!(
            instance = post.instance,
            user,
            "the run directory of a rank stays: {why}"
        );
    }
}

async fn host_until(
    user: u32,
    post: &Post,
    common: &Common,
    starters: &Starters,
    mut stop: oneshot::Receiver<()>,
) {
    let (instance, rank) = (post.instance.clone(), post.rank.0);
    loop {
        let begun = async { starters.of(user)?.start(command(user, post, common)?).await };
        let begun = tokio::select! {
            begun = begun => begun,
            // What is begun all the same is seen by nobody and ended.
            _ = &mut stop => return,
        };
        match begun {
            Ok(child) => {
                if let Ended::Asked = attend(&child, &mut stop).await {
                    return;
                }
                tracing::warn!(instance, rank, user, "a rank of another user ended");
            }
            // The order stands, and is not repeated while the leader is reached.
            Err(why) => tracing::error!(instance, rank, user, "a rank cannot be hosted: {why}"),
        }
        tokio::select! {
            _ = &mut stop => return,
            () = sleep(FAILURE_PAUSE) => {}
        }
    }
}

/// Why a process that hosts has ended.
enum Ended {
    Asked,
    ByItself,
}

/// Waits for the end of the process, or ends it.
async fn attend(child: &Child, stop: &mut oneshot::Receiver<()>) -> Ended {
    let process = Process {
        pid: child.pid,
        start_time: child.start_time,
    };
    let ended = match Life::of(process) {
        Ok(Some(mut life)) => tokio::select! {
            _ = stop => {
                let _ = life.signal(libc::SIGTERM);
                if tokio::time::timeout(GRACE, life.ended()).await.is_err() {
                    let _ = life.signal(libc::SIGKILL);
                    let _ = life.ended().await;
                }
                Ended::Asked
            }
            _ = life.ended() => Ended::ByItself,
        },
        Ok(None) => Ended::ByItself,
        Err(error) => {
            tracing::error!(%error, "a rank of another user cannot be watched and is ended");
            let _ = reap::signal_group(child.pidfd.as_fd(), child.pid, libc::SIGKILL);
            Ended::ByItself
        }
    };
    let _ = reap::wait(child.pidfd.as_fd());
    ended
}

/// `eddy agent` for that rank, with nothing of this process's environment.
fn command(user: u32, post: &Post, common: &Common) -> Result<Command, String> {
    let said = |what: &'static str| move |error: io::Error| format!("cannot {what}: {error}");
    super::make(&post.statedir).map_err(said("make the state directory"))?;
    // Nobody else makes anything in the directory that it is in.
    lchown(&post.statedir, Some(user), None).map_err(said("give away the state directory"))?;
    let program = Own::find().map_err(said("find this program"))?.file;
    let null = stdio::null().map_err(said("open /dev/null"))?;
    let how = stdio::output_flags(OpenMode::Append);
    let log = Named::new(&post.statedir, LOG_FILE, how, FileUse::Output, UMASK)?;
    let log = Arc::new(log);
    let (job, attempt) = post.job.ok_or("a rank of another user is of a job")?;
    let mut words: Vec<CString> = Vec::new();
    let path = |path: &Path| CString::new(path.as_os_str().as_bytes());
    let text = |text: &str| CString::new(text);
    let all = [
        path(&program),
        text("agent"),
        text("--statedir"),
        path(&post.statedir),
        text("--rank"),
        text(&post.node.to_string()),
        text("--instance"),
        text(&post.instance),
        text("--leader"),
        text(&post.leader),
        text("--job"),
        text(&format!("{job}.{attempt}")),
        text("--transport"),
        text(common.transport.name()),
        text("--fanout"),
        text(&common.fanout.to_string()),
    ];
    for word in all {
        words.push(word.map_err(|_| "a word of the order holds a NUL character".to_owned())?);
    }
    let marker = post.marker.as_deref().unwrap_or_default();
    let env = ["PATH=/usr/local/bin:/usr/bin:/bin".to_owned()]
        .into_iter()
        .chain([format!("{MARKER_VARIABLE}={marker}")]);
    let env: Result<Vec<CString>, _> = env.map(CString::new).collect();
    let open = |fd: &Arc<OwnedFd>| Stream::Open(Arc::clone(fd));
    Ok(Command {
        argv: words,
        env: env.map_err(|_| "the marker holds a NUL character".to_owned())?,
        cwd: c"/".to_owned(),
        rights: Rights::Of(user),
        stdin: open(&null),
        stdout: Stream::Named(Arc::clone(&log)),
        stderr: Stream::Named(log),
        cpus: None,
        rlimits: common.nofile.into_iter().collect(),
        umask: UMASK,
    })
}
