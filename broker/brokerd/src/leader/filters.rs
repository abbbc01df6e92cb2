//! The filters of submissions as processes: started with the leader, told one submission after the
//! other, started again when they end.
//!
//! Each filter is a task beside the leader's loop, which hands it lines and goes on; whatever becomes
//! of a line, a ruling comes back within the filter's time. It decides nothing about a submission:
//! ingest does. A process that ended is started again at once; one that ends the third time without an
//! answer after 1 s, then 2 s, ... 60 s. Whoever asks meanwhile waits for that where it comes in time, and is told
//! so at once where it does not, or where the failure of a filter keeps nobody out. A line that a process ended on
//! is asked once more.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Bound;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use eddy_broker::Answer;
use eddy_broker::effect::QueryTag;
use eddy_wire::account::Name;
use eddy_wire::filter::{ANSWER_BYTES_MAX, Asked, Filter, OnFailure, Ruling};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{spawn_blocking, spawn_local};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use super::{Inner, Inside};
use crate::users::Accounts;

/// Before a process that fell the third time in a row is started again.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest such time.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// What a process that closed its output has to end by itself.
const END_PATIENCE: Duration = Duration::from_millis(100);

/// The filters that run.
pub struct Filters {
    inside: Inside,
    users: Arc<Accounts>,
    running: BTreeMap<Name, Running>,
}

/// A filter, and the way to its task. Without a bound, since ingest bounds what it asks.
struct Running {
    filter: Filter,
    letters: UnboundedSender<Letter>,
}

/// A submission on its way to a process.
struct Letter {
    tag: QueryTag,
    asked: Box<Asked>,
    /// When a ruling is due.
    by: Instant,
}

/// The submissions that wait for a filter. Users take turns, so that nobody waits for all of another's.
#[derive(Default)]
struct Line {
    of: BTreeMap<u32, VecDeque<Letter>>,
    /// Whose turn was last.
    last: u32,
}

impl Line {
    fn push(&mut self, letter: Letter) {
        let own = self.of.entry(letter.asked.user).or_default();
        own.push_back(letter);
    }

    fn next(&mut self) -> Option<Letter> {
        let mut after = self
            .of
            .range((Bound::Excluded(self.last), Bound::Unbounded));
        let (user, _) = after.next().or_else(|| self.of.first_key_value())?;
        self.last = *user;
        let own = self.of.get_mut(&self.last)?;
        let letter = own.pop_front();
        if own.is_empty() {
            self.of.remove(&self.last);
        }
        letter
    }
}

impl Filters {
    /// None yet; what they say will go to `inside`.
    pub fn new(inside: Inside) -> Filters {
        Filters {
            inside,
            users: Arc::new(Accounts::default()),
            running: BTreeMap::new(),
        }
    }

    /// These are to run, and no others.
    pub fn want(&mut self, filters: &[Filter]) {
        self.running
            .retain(|_, running| filters.contains(&running.filter));
        for filter in filters {
            self.running_as(filter);
        }
    }

    /// Asks one; the ruling comes as the answer of this tag.
    pub fn ask(&mut self, tag: QueryTag, filter: &Filter, asked: Box<Asked>) {
        let by = Instant::now() + Duration::from_micros(filter.timeout.0.max(0) as u64);
        let letter = Letter { tag, asked, by };
        let sent = self.running_as(filter).letters.send(letter);
        assert!(sent.is_ok(), "a filter's task lives as long as its mailbox");
    }

    fn running_as(&mut self, filter: &Filter) -> &Running {
        let is_it = |running: &Running| running.filter == *filter;
        if !self.running.get(&filter.name).is_some_and(is_it) {
            let (letters, mailbox) = unbounded_channel();
            let attendant = Attendant::new(filter.clone(), Arc::clone(&self.users));
            spawn_local(attendant.serve(mailbox, self.inside.clone()));
            let filter = filter.clone();
            let running = Running {
                filter: filter.clone(),
                letters,
            };
            self.running.insert(filter.name.clone(), running);
        }
        &self.running[&filter.name]
    }
}

/// Who attends to one filter's process.
struct Attendant {
    filter: Filter,
    users: Arc<Accounts>,
    process: Option<Process>,
    /// How often in a row a process fell that had answered nothing.
    fallen: u32,
    /// Why the last one did.
    why: String,
    /// No other is started before.
    not_before: Instant,
}

/// One life of a filter's process. Its end is that of its group.
struct Process {
    child: Child,
    group: Option<Pid>,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Attendant {
    fn new(filter: Filter, users: Arc<Accounts>) -> Attendant {
        Attendant {
            filter,
            users,
            process: None,
            fallen: 0,
            why: String::new(),
            not_before: Instant::now(),
        }
    }

    async fn serve(mut self, mut letters: UnboundedReceiver<Letter>, inside: Inside) {
        let mut line = Line::default();
        loop {
            while let Ok(letter) = letters.try_recv() {
                line.push(letter);
            }
            let Some(letter) = line.next() else {
                let letter = tokio::select! {
                    biased;
                    letter = letters.recv() => letter,
                    () = self.idle() => continue,
                };
                // Nobody is to ask any more.
                let Some(letter) = letter else { return };
                line.push(letter);
                continue;
            };
            let tag = letter.tag;
            let ruling = self.rule(letter).await;
            if let Ruling::Failed(why) = &ruling {
                tracing::warn!(filter = %self.filter.name, "a submission is not ruled: {why}");
            }
            if inside
                .send(Inner::Answer(tag, Answer::Ruled(ruling)))
                .is_err()
            {
                return;
            }
        }
    }

    /// Waits until there is something to do for the process, and does it.
    async fn idle(&mut self) {
        match &mut self.process {
            None => {
                sleep_until(self.not_before).await;
                self.start();
            }
            Some(process) => {
                let heard = process.output.fill_buf().await;
                let heard = heard.map(<[u8]>::is_empty);
                let why = process.unasked(heard).await;
                self.fell(why);
            }
        }
    }

    async fn rule(&mut self, letter: Letter) -> Ruling {
        let late = format!("no answer within {}", seconds(&self.filter));
        let mut asked = letter.asked;
        let (users, user) = (Arc::clone(&self.users), asked.user);
        let named = spawn_blocking(move || users.get(user).ok());
        if let Ok(Ok(Some(account))) = timeout_at(letter.by, named).await {
            asked.user_name = Some(account.name.clone());
        }
        let mut line = serde_json::to_vec(&asked).expect("texts and numbers are JSON");
        line.push(b'\n');
        for _ in 0..2 {
            if self.process.is_none() && self.is_back_by(letter.by) {
                sleep_until(self.not_before).await;
            }
            let now = Instant::now();
            if now >= letter.by {
                return Ruling::Failed(late);
            }
            if self.process.is_none() && now >= self.not_before {
                self.start();
            }
            let Some(process) = &mut self.process else {
                return self.down(now);
            };
            match timeout_at(letter.by, process.exchange(&line)).await {
                Err(_) => {
                    self.fell(format!("was ended, since it gave {late}"));
                    return Ruling::Failed(late);
                }
                Ok(Ok(line)) => {
                    let ruling = Ruling::read(&line);
                    match &ruling {
                        // What comes next may be of another line.
                        Ruling::Failed(why) => self.fell(format!("was ended, since {why}")),
                        Ruling::Accept | Ruling::Modify(_) | Ruling::Refuse(_) => self.fallen = 0,
                    }
                    return ruling;
                }
                Ok(Err(why)) => self.fell(why),
            }
        }
        Ruling::Failed(format!("its process {}", self.why))
    }

    /// Whether there is a process again in time for a line that nobody else rules.
    fn is_back_by(&self, by: Instant) -> bool {
        self.filter.on_failure == OnFailure::Refuse && self.not_before < by
    }

    /// That there is no process now.
    fn down(&self, now: Instant) -> Ruling {
        let left = self.not_before.saturating_duration_since(now).as_secs() + 1;
        let why = &self.why;
        Ruling::Failed(format!(
            "its process {why}; it is started again within {left} s"
        ))
    }

    fn start(&mut self) {
        match Process::start(&self.filter) {
            Ok(process) => {
                let pid = process.child.id();
                tracing::info!(filter = %self.filter.name, pid, "a filter was started");
                self.process = Some(process);
            }
            Err(error) => self.fell(format!("cannot be started: {error}")),
        }
    }

    /// Its process is to end, or has.
    fn fell(&mut self, why: String) {
        self.process = None;
        self.fallen = self.fallen.saturating_add(1);
        let doubled = PAUSE.saturating_mul(1 << self.fallen.saturating_sub(3).min(10));
        let pause = match self.fallen {
            // Twice, since a line that one ended on is asked once more.
            1 | 2 => Duration::ZERO,
            _ => doubled.min(PAUSE_MAX),
        };
        self.not_before = Instant::now() + pause;
        tracing::warn!(filter = %self.filter.name, ?pause, "the filter's process {why}");
        self.why = why;
    }
}

impl Process {
    fn start(filter: &Filter) -> io::Result<Process> {
        let (program, arguments) = filter
            .command
            .split_first()
            .ok_or(io::ErrorKind::InvalidInput)?;
        // What it says on standard error is in the leader's log.
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let group = child.id().and_then(|pid| Pid::from_raw(pid as i32));
        Ok(Process {
            child,
            group,
            input,
            output: BufReader::new(output),
        })
    }

    /// Says a line and hears one; why not.
    async fn exchange(&mut self, line: &[u8]) -> Result<Vec<u8>, String> {
        // A line that is there already would be taken for the answer.
        if let Ok(heard) = timeout(Duration::ZERO, self.output.fill_buf()).await {
            let heard = heard.map(<[u8]>::is_empty);
            return Err(self.unasked(heard).await);
        }
        // Who has died is found out by reading.
        let said = self.input.write_all(line).await;
        let mut answer = Vec::new();
        let mut bounded = (&mut self.output).take(ANSWER_BYTES_MAX as u64);
        let heard = bounded.read_until(b'\n', &mut answer).await;
        match (said, heard) {
            (Ok(()), Ok(_)) if answer.pop_if(|last| *last == b'\n').is_some() => Ok(answer),
            (_, Ok(_)) if answer.len() >= ANSWER_BYTES_MAX => Err(format!(
                "gave an answer of more than {ANSWER_BYTES_MAX} bytes"
            )),
            (_, Ok(_)) => Err(self.ended().await),
            (_, Err(error)) => Err(format!("cannot be read: {error}")),
        }
    }

    /// What is wrong with one whose output has an end or something else to read while nothing is asked.
    async fn unasked(&mut self, heard: io::Result<bool>) -> String {
        match heard {
            Ok(true) => self.ended().await,
            Ok(false) => "spoke without being asked".to_owned(),
            Err(error) => format!("cannot be read: {error}"),
        }
    }

    /// How it ended, which it does now if it has not.
    async fn ended(&mut self) -> String {
        match timeout(END_PATIENCE, self.child.wait()).await {
            Ok(Ok(status)) => format!("ended with {}", spelled(status)),
            Ok(Err(error)) => format!("cannot be waited for: {error}"),
            Err(_) => "closed its output".to_owned(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(group) = self.group {
            // All of it may be gone.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn spelled(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no status".to_owned(),
    }
}

fn seconds(filter: &Filter) -> String {
    let seconds = eddy_wire::fsd::seconds_of_micros(filter.timeout.0);
    format!("{seconds} s")
}
