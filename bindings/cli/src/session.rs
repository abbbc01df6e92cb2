//! The options every verb has, and the connection they lead to.
//!
//! A verb that asks something of an instance runs inside [`Global::session`].

use std::collections::BTreeMap;
use std::env::VarError;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::pin::{Pin, pin};
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;
use eddy_client::uri::{SOCKET_NAME, URI_VARIABLE};
use eddy_client::{
    Choice, Client, ClientError, Meant, Options, PathError, Patience, Side, Uri, descend, meant,
    reach,
};
use eddy_wire::fsd::{Fsd, parse_fsd};
use eddy_wire::id::JobId;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};

use crate::copies;
use crate::hints;
use crate::hints::quoted;
use crate::ids;
use crate::names::named;
use crate::when;

/// After how long without its leader an instance may be over, and its path is asked again.
const LOST: Duration = Duration::from_secs(3);
/// It was heard meanwhile when it took so much longer than that.
const HEARD: Duration = Duration::from_secs(1);
/// Between two such questions.
const BETWEEN: Duration = Duration::from_millis(250);

/// Before a path whose steps are no files.
const BY_NUMBER: &str = "jobid:";

/// Options that every verb takes.
#[derive(Args, Clone, Debug)]
pub struct Global {
    /// The instance: its URI (local:///PATH), socket or state directory, or its path: 905/3
    ///
    /// A path is job ids in any spelling, or names of declared instances, from the instance that
    /// would be used otherwise; with a leading / from the root, and .. goes up. What is there as a
    /// file is meant first.
    ///
    /// Without it EDDY_URI counts; without that /run/eddy/local, or your only running instance that
    /// is no job of another.
    #[arg(
        long,
        global = true,
        value_name = "URI|DIR|PATH",
        help_heading = "Instance"
    )]
    pub at: Option<String>,
    /// The parent of the instance that would be used
    #[arg(long, global = true, help_heading = "Instance")]
    pub parent: bool,
    /// How long to wait for a leader that is restarting, or begins without room on its disk
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
    /// The path to an instance from that one, which the ids of a command named.
    #[arg(skip)]
    within: Option<String>,
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
    // By its table: else all of the runtime is made once more for each verb that has something to wait for.
    let work: Pin<&mut dyn Future<Output = anyhow::Result<T>>> = pin!(work);
    let result = runtime.block_on(work);
    // A thread that reads standard input may never come back.
    runtime.shutdown_background();
    result
}

/// Signals by which the tasks of a job are warned (`--signal`) reach all that a script has started: they end
/// no command that waits for an instance. What a command starts has them as usual.
fn heeds_no_warning() {
    for kind in [SignalKind::user_defined1(), SignalKind::user_defined2()] {
        // Once it is listened for a signal ends nobody any more.
        drop(signal(kind));
    }
}

impl Global {
    /// Connects to the instance and does `work` with it.
    pub fn session<T>(
        &self,
        work: impl AsyncFnOnce(Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        block_on(async { work(self.connect().await?).await })
    }

    /// The same for what may be asked twice, of an instance that was named by its path, or of jobs that were:
    /// where it is lost the path is asked again, since what is over answers from what it has left.
    ///
    /// # Errors
    /// Those of `work`; the instance's, when it was away for as long as a leader is waited for.
    pub fn session_again<T>(
        &self,
        work: impl AsyncFn(Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        if !self.is_of_path() {
            return self.session(work);
        }
        block_on(async {
            let mut heard = Instant::now();
            loop {
                let left = self.reconnect.saturating_sub(heard.elapsed());
                let brisk = Global {
                    reconnect: left.min(LOST),
                    ..self.clone()
                };
                let result = match brisk.connect().await {
                    Err(error) => Err(error),
                    Ok(client) => {
                        let begun = Instant::now();
                        let result = work(client).await;
                        // What is silent from the beginning was not heard, whatever is done with it.
                        if begun.elapsed() > brisk.reconnect + HEARD {
                            heard = Instant::now() - brisk.reconnect;
                        }
                        result
                    }
                };
                match result {
                    Err(error) if is_away(&error) && heard.elapsed() < self.reconnect => {
                        tokio::time::sleep(BETWEEN).await;
                    }
                    result => return result.map_err(|error| in_all(error, heard.elapsed())),
                }
            }
        })
    }

    /// The same for what cannot be asked twice: where the instance of jobs that were named with a path is over
    /// meanwhile, `left` is done with what it has left.
    ///
    /// # Errors
    /// Those of `work`, unless the instance is over; then those of `left`.
    pub fn session_or_left<T>(
        &self,
        work: impl AsyncFnOnce(Client) -> anyhow::Result<T>,
        left: impl AsyncFn(Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut lived = None;
        let result = self.session(async |client| {
            lived = Some(client.uri().clone());
            work(client).await
        });
        let error = match result {
            Err(error) if self.is_of_path() && is_away(&error) => error,
            result => return result,
        };
        let found = self.session_again(async |client| match lived.as_ref() == Some(client.uri()) {
            // It is not over: it was away for longer than a leader is waited for.
            true => Ok(None),
            false => Ok(Some(left(client).await?)),
        });
        found?.ok_or(error)
    }

    /// Whether the instance was named by its path, or its jobs were.
    fn is_of_path(&self) -> bool {
        let is_path = |at: &String| matches!(meant(at), Ok(Meant::Path(_)));
        self.within.is_some() || self.at.as_ref().is_some_and(is_path)
    }

    /// For jobs that may be named with the path of their instance, as `905/3`: the
    /// options that lead to that instance, and what the jobs are called there.
    ///
    /// # Errors
    /// They are of different instances.
    pub fn inside<T: AsRef<str>>(&self, ids: &[T]) -> anyhow::Result<(Global, Vec<String>)> {
        ids::given(ids)?;
        let (path, ids) = ids::apart(ids)?;
        let within = path.map(|path| format!("{BY_NUMBER}{path}"));
        let global = Global {
            within,
            ..self.clone()
        };
        if !copies::are_named(&ids) {
            return Ok((global, ids));
        }
        let ids = global.session_again(async |client| copies::by_number(&client, &ids).await)?;
        Ok((global, ids))
    }

    /// What an instance says, with the way to it in the commands that it names: typed as they stand they reach it.
    /// Begin times and ends of periods are as on the wall here, and users by name: an instance knows no zone, and
    /// numbers only.
    pub fn hinted(&self, text: &str) -> String {
        let path = self.within.as_deref();
        self.hinted_in(text, path.and_then(|path| path.strip_prefix(BY_NUMBER)))
    }

    /// The same of what an instance says that has this path from the one that this command is for.
    pub fn hinted_in(&self, text: &str, path: Option<&str>) -> String {
        named(&when::here(&hints::with_way(text, &self.way(), path)))
    }

    /// The options that lead another command to the same instance, with a blank behind them.
    fn way(&self) -> String {
        match (&self.at, self.parent) {
            (Some(at), false) => format!("--at {} ", quoted(at)),
            (Some(at), true) => format!("--at {} --parent ", quoted(at)),
            (None, true) => "--parent ".to_owned(),
            (None, false) => String::new(),
        }
    }

    /// A command about a job of the instance that this one is for.
    pub fn command(&self, verb: &str, job: &str) -> String {
        format!("eddy {}{verb} {}{job}", self.way(), self.path())
    }

    /// A job of the instance that this one is for, as this command was told of it: behind the path that was given.
    pub fn job(&self, job: JobId) -> String {
        format!("{}{}", self.path(), ids::show(job))
    }

    /// The path that was given, to stand before an id; empty where none was.
    fn path(&self) -> String {
        let path = self.within.as_deref();
        let path = path.and_then(|path| path.strip_prefix(BY_NUMBER));
        path.map_or_else(String::new, |path| {
            format!("{}/", path.trim_end_matches('/'))
        })
    }

    /// Where the instance is a job whose path the ids of a command had, and which; nothing where they had none.
    pub fn around(&self) -> Option<(Global, JobId)> {
        let path = self.within.as_deref()?.strip_prefix(BY_NUMBER)?;
        let (outer, instance) = match path.rsplit_once('/') {
            Some(("", instance)) => (Some("/"), instance),
            Some((outer, instance)) => (Some(outer), instance),
            None => (None, path),
        };
        let around = Global {
            within: outer.map(|outer| format!("{BY_NUMBER}{outer}")),
            ..self.clone()
        };
        Some((around, instance.parse().ok()?))
    }

    /// A connection to the instance that this command is for.
    pub async fn connect(&self) -> anyhow::Result<Client> {
        heeds_no_warning();
        let variable = variable()?;
        let chosen = self.choice(variable.as_deref());
        let Some(path) = &self.within else {
            return self.reached(chosen).await;
        };
        let from = self.reached(chosen).await?.uri().to_string();
        self.reached_from(path, &from).await
    }

    /// Whether the instance is named: by an option, or as a task or a shell of it knows it.
    ///
    /// # Errors
    /// The environment's.
    pub fn names_instance(&self) -> anyhow::Result<bool> {
        Ok(self.at.is_some() || variable()?.is_some())
    }

    fn choice<'a>(&'a self, variable: Option<&'a str>) -> Choice<'a> {
        Choice {
            at: self.at.as_deref(),
            variable,
            side: match self.parent {
                true => Side::Parent,
                false => Side::Itself,
            },
        }
    }

    /// A connection to what is chosen, or to what it has left. What was inside an
    /// instance that is over is found in what that one has left.
    async fn reached(&self, choice: Choice<'_>) -> anyhow::Result<Client> {
        let mut found = reach(choice, &self.patience()).await;
        // Each turn goes a level down.
        loop {
            let remains = match found {
                Err(PathError::Ended {
                    remains: Some(remains),
                    ..
                }) if Path::new(&remains.statedir).is_dir() => remains,
                other => return Ok(other?),
            };
            let uri = remains_of(&remains.path, &remains.statedir).await?;
            found = match remains.rest.as_slice() {
                [] => return Ok(Client::connect_told(&uri, self.options(), told).await?),
                rest => descend(&uri, &remains.path, rest, &self.patience()).await,
            };
        }
    }

    /// A connection to what `target` names, seen from the instance that this
    /// command is for; without a target that instance itself.
    pub async fn connect_to(&self, target: Option<&str>) -> anyhow::Result<Client> {
        let Some(target) = target else {
            return self.connect().await;
        };
        // A file or URI needs no instance to begin at.
        if let Meant::Socket(uri) = meant(target)? {
            return Ok(Client::connect_told(&uri, self.options(), told).await?);
        }
        let from = self.connect().await?.uri().to_string();
        self.reached_from(target, &from).await
    }

    /// A connection to what an instance of that path has left in its state directory.
    ///
    /// # Errors
    /// It cannot be read here.
    pub async fn left(&self, path: &str, statedir: &str) -> anyhow::Result<Client> {
        let uri = remains_of(path, statedir).await?;
        Ok(Client::connect_told(&uri, self.options(), told).await?)
    }

    async fn reached_from(&self, target: &str, from: &str) -> anyhow::Result<Client> {
        let choice = Choice {
            at: Some(target),
            variable: Some(from),
            side: Side::Itself,
        };
        self.reached(choice).await
    }

    /// Where what `target` names takes clients, as in [`Global::connect_to`]; what
    /// is over does not.
    pub async fn address_of(&self, target: Option<&str>) -> anyhow::Result<Uri> {
        let variable = variable()?;
        let choice = self.choice(variable.as_deref());
        let (Some(target), patience) = (target, self.patience()) else {
            return Ok(reach(choice, &self.patience()).await?.uri().clone());
        };
        let from = match meant(target)? {
            Meant::Socket(_) => None,
            Meant::Path(_) => Some(reach(choice, &patience).await?.uri().to_string()),
        };
        let choice = Choice {
            at: Some(target),
            variable: from.as_deref(),
            side: Side::Itself,
        };
        Ok(reach(choice, &patience).await?.uri().clone())
    }

    /// How patient clients of this command are.
    pub fn options(&self) -> Options {
        Options {
            wait: self.reconnect,
        }
    }

    fn patience(&self) -> Patience {
        Patience {
            options: self.options(),
            told,
        }
    }
}

/// Whether an instance does not answer, which may be over.
fn is_away(error: &anyhow::Error) -> bool {
    let of_path = match error.downcast_ref::<PathError>() {
        Some(PathError::Client(error)) => Some(error),
        _ => None,
    };
    let error = of_path.or_else(|| error.downcast_ref::<ClientError>());
    match error {
        // Tried once it is there, and not for whoever asks.
        Some(ClientError::Unreachable { tries, .. }) => *tries > 1,
        Some(ClientError::Silent { .. } | ClientError::Lost { .. }) => true,
        _ => false,
    }
}

/// The same of an instance that was asked again and again, none of which was answered, for so long.
fn in_all(mut error: anyhow::Error, waited: Duration) -> anyhow::Error {
    let of_path = error.is::<PathError>();
    let silent = match of_path {
        true => match error.downcast_mut::<PathError>() {
            Some(PathError::Client(error)) => Some(error),
            _ => None,
        },
        false => error.downcast_mut::<ClientError>(),
    };
    if let Some(ClientError::Silent { waited: said, .. }) = silent {
        *said = said.max(waited.as_secs_f64());
    }
    error
}

/// EDDY_URI, if it is set. One that is empty was meant to name something.
fn variable() -> anyhow::Result<Option<String>> {
    let value = match std::env::var(URI_VARIABLE) {
        Ok(value) => value,
        Err(VarError::NotPresent) => return Ok(None),
        Err(VarError::NotUnicode(given)) => bail!("{URI_VARIABLE}={given:?}: is not UTF-8"),
    };
    ensure!(
        !value.trim().is_empty(),
        "{URI_VARIABLE} is set and empty; allowed are local:///PATH, a socket or a state directory, or unset it"
    );
    Ok(Some(value))
}

/// Where what an instance has left that is over is told of: by a reader, one for each as long as this process is
/// there, which keeps others out; or by the leader that goes on with it, as that of a declared instance does.
async fn remains_of(path: &str, statedir: &str) -> anyhow::Result<Uri> {
    static READERS: Mutex<BTreeMap<String, Uri>> = Mutex::new(BTreeMap::new());
    let readers = || READERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(uri) = readers().get(statedir) {
        return Ok(uri.clone());
    }
    // Of one that hangs, whose queue of connections is full, this does not wait.
    if let Ok(uri) = Uri::of_statedir(Path::new(statedir))
        && UnixStream::connect(uri.path()).await.is_ok()
    {
        return Ok(uri);
    }
    let uri = history(path, statedir)?;
    readers().insert(statedir.to_owned(), uri.clone());
    Ok(uri)
}

/// Starts a reader of what an instance has left that is over. It ends with this
/// process, whose end closes its standard input.
fn history(path: &str, statedir: &str) -> anyhow::Result<Uri> {
    let rundir = tempfile::Builder::new().prefix("eddy-history-").tempdir();
    let rundir = rundir.context("cannot make a temporary directory")?.keep();
    let program = std::env::current_exe().context("cannot find the program of this command")?;
    let mut reader = Command::new(program)
        .arg("history")
        .arg(format!("--statedir={statedir}"))
        .arg(format!("--path={}", path.trim_start_matches('/')))
        .arg("--rundir")
        .arg(&rundir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start the reader of the history")?;
    let mut said = String::new();
    let out = reader.stdout.take().expect("it is piped");
    BufReader::new(out).read_line(&mut said)?;
    if said.trim() != "ready" {
        let _ = std::fs::remove_dir_all(&rundir);
        let _ = reader.wait();
        anyhow::bail!("{path}: the history cannot be read: {}", said.trim());
    }
    // Its input stays open as long as this process is there.
    std::mem::forget(reader.stdin.take());
    Ok(Uri::of_socket(rundir.join(SOCKET_NAME))?)
}

/// Says what this command waits for, once.
pub fn told(what: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| eprintln!("eddy: waiting for {what}"));
}
