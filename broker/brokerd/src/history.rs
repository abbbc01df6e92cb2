//! `eddy history`: answers questions about an instance that is over, from its
//! journal.
//!
//! Started by a command that was asked about a finished child, and gone with
//! it. The broker and its modules fold the journal and are never resumed: they
//! start nothing, record nothing and reach no shell. Everything but a closed
//! list of questions is refused by name. It holds the lock of the state
//! directory, so a leader and it cannot both be there. Output is read from the
//! spools that its ranks left (`history/output.rs`). Who only wants the records
//! reads them beside a leader that lives (`history/records.rs`).

mod output;

mod records;

pub use records::records;

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use eddy_broker::broker::Identity;
use eddy_broker::{Arrival, Broker, Caller, ClientId, Effect, Output, Reply};
use eddy_modules::{Settings, row};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::JobId;
use eddy_wire::message::{Message, Roles, Target, Type};
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::Service;
use eddy_wire::services::child::{ChildRow, Stage};
use eddy_wire::services::job::{JobEnd, JobRow, JobSet, OutputRequest, WaitRequest};
use eddy_wire::services::{child, instance, job, kvs, resource, usage};
use eddy_wire::time::Time;
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{LocalSet, spawn_local};

use crate::frame::{self, Inbound};
use crate::journal::{DATABASE, Journal, OpenError, Options, ReadError, Reader, Recover, Sync};
use crate::leader::answers;
use crate::leader::replay::{ReplayError, replay};
use crate::leader::rows::{self, RowsError};
use crate::leader::texts::{Aim, Specs};
use crate::rundir::LOCAL_SOCKET;
use output::Spools;

/// How long a lock that is held is tried for: another reader of the same history may have it.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// How often.
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// Turns that one question may take: the journal asked, its answer given, again.
const TURNS_MAX: usize = 10_000;

/// What may be asked of a history.
const QUESTIONS: &[&str] = &[
    instance::Ping::TOPIC,
    job::List::TOPIC,
    job::Info::TOPIC,
    job::Events::TOPIC,
    job::Wait::TOPIC,
    kvs::Get::TOPIC,
    kvs::List::TOPIC,
    resource::List::TOPIC,
    child::Children::TOPIC,
    usage::Report::TOPIC,
    usage::Ended::TOPIC,
];

/// What a history is read from.
#[derive(Clone, Debug, clap::Args)]
pub struct HistoryArgs {
    /// State directory of the instance that is over
    #[arg(long, value_name = "DIR")]
    pub statedir: PathBuf,
    /// Where to listen: a private directory, removed at the end
    #[arg(long, value_name = "DIR", required_unless_present = "ends")]
    pub rundir: Option<PathBuf>,
    /// Listen nowhere: say how those jobs ended that standard input names, and be gone
    #[arg(long, conflicts_with = "rundir")]
    pub ends: bool,
    /// The path of the instance, as 905/3
    #[arg(long, value_name = "PATH", default_value = "")]
    pub path: String,
}

/// Why a history cannot be read.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// The state directory or its journal.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The journal was opened and cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The records cannot be folded.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Rows of jobs that were over cannot be written.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// The system refused something.
    #[error("cannot {attempt}")]
    Io {
        /// What.
        attempt: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

fn io(attempt: &'static str) -> impl FnOnce(io::Error) -> HistoryError {
    move |source| HistoryError::Io { attempt, source }
}

/// Answers until standard input ends; the process's exit code. Says `ready` on
/// standard output once it listens, or why it cannot.
pub fn run_history(args: &HistoryArgs) -> i32 {
    let answered = match &args.rundir {
        Some(rundir) => serve(args, rundir),
        None => tell_ends(args),
    };
    match answered {
        Ok(()) => 0,
        Err(error) => {
            println!("{}", crate::leader::chain(&error));
            1
        }
    }
}

/// How jobs ended, for a leader that waits for them: numbers and ends, where those are recorded. What is not
/// told is a job that the instance did not know.
fn tell_ends(args: &HistoryArgs) -> Result<(), HistoryError> {
    let jobs = serde_json::from_reader(io::stdin().lock());
    let jobs: JobSet = jobs.map_err(|error| io("read which jobs")(error.into()))?;
    // To open a journal makes it. Of one that was removed no end is recorded, whatever jobs it had.
    let is_there = args.statedir.join(DATABASE).try_exists();
    let ends = match is_there.map_err(io("look for the journal"))? {
        true => History::open(&args.statedir, &args.path)?.ends(jobs),
        false => {
            let each = jobs.ranges.into_iter();
            let each = each.flat_map(|(first, last)| first.0..=last.0);
            each.map(|job| (JobId(job), None)).collect()
        }
    };
    let ends = serde_json::to_string(&ends).expect("ends are JSON");
    println!("{ends}");
    Ok(())
}

fn serve(args: &HistoryArgs, rundir: &Path) -> Result<(), HistoryError> {
    let history = Rc::new(RefCell::new(History::open(&args.statedir, &args.path)?));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io("make a runtime"))?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let listener = UnixListener::bind(rundir.join(LOCAL_SOCKET)).map_err(io("listen"))?;
        println!("ready");
        // Whoever asked is gone when our input ends.
        let ended = tokio::task::spawn_blocking(|| io::stdin().read(&mut [0; 1]));
        spawn_local(accept(listener, history));
        let _ = ended.await;
        let _ = std::fs::remove_dir_all(rundir);
        Ok(())
    })
}

async fn accept(listener: UnixListener, history: Rc<RefCell<History>>) {
    let mut client = 0;
    while let Ok((stream, _)) = listener.accept().await {
        let own = rustix::process::geteuid().as_raw();
        let uid = stream.peer_cred().map_or(u32::MAX, |peer| peer.uid());
        if uid != own && uid != 0 {
            continue;
        }
        client += 1;
        spawn_local(converse(stream, ClientId(client), Rc::clone(&history)));
    }
}

/// Answers one client, one question after the other.
async fn converse(mut stream: UnixStream, client: ClientId, history: Rc<RefCell<History>>) {
    let mut inbound = Inbound::default();
    loop {
        loop {
            let mut message = match inbound.message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(_) => return,
            };
            message.uid = rustix::process::geteuid().as_raw();
            message.roles = Roles::OWNER.or(Roles::USER);
            // Output may be more than is to be in memory: each part is read when
            // the one before is written.
            let output = history.borrow().output(client, &message);
            let replies = output.unwrap_or_else(|| {
                let replies = history.borrow_mut().ask(client, message);
                Box::new(replies.into_iter())
            });
            for reply in replies {
                if stream.write_all(&framed(reply)).await.is_err() {
                    return;
                }
            }
        }
        match stream.read_buf(inbound.room()).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

fn framed(reply: Reply) -> BytesMut {
    let message = Message {
        kind: reply.kind,
        topic: String::new(),
        uid: u32::MAX,
        roles: Roles::NONE,
        matchtag: reply.to.matchtag,
        target: Target::Service,
        body: reply.body,
        tail: reply.tail,
    };
    let mut out = BytesMut::new();
    if let Err(error) = frame::put(&mut out, &message) {
        let refusal = Refusal::new(Code::TooLarge, error.to_string());
        let refused = Message::answer(Type::Refused, message.matchtag, &refusal);
        frame::put(&mut out, &refused).expect("a refusal is small");
    }
    out
}

/// Answers that are made as they are sent.
type Replies = Box<dyn Iterator<Item = Reply>>;

/// An instance that is over, folded.
struct History {
    broker: Broker,
    reader: Reader,
    path: String,
    spools: Spools,
    /// The last moment it knows of.
    now: Time,
    /// Held, so that no leader begins here meanwhile.
    _journal: Journal,
}

impl History {
    fn open(statedir: &Path, path: &str) -> Result<History, HistoryError> {
        let options = Options {
            sync: Sync::Normal,
            recover: Recover::Refuse,
            ballast_bytes: 0,
            size_max: None,
        };
        let until = Instant::now() + LOCK_PATIENCE;
        let (mut journal, recovered) = loop {
            match Journal::open(statedir, &options) {
                Err(OpenError::Locked { .. }) if Instant::now() < until => {
                    std::thread::sleep(LOCK_PAUSE);
                }
                answer => break answer?,
            }
        };
        rows::complete(&mut journal, Aim::Know)?;
        let mut settings = Settings::for_inventory(Arc::new(ResourceSet::default()));
        settings.last_job = JobId(recovered.last_job);
        let identity = Identity {
            instance: journal.meta("instance")?.unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            owner: rustix::process::geteuid().as_raw(),
            path: path.to_owned(),
            depth: path.split('/').filter(|part| !part.is_empty()).count() as u32,
            parent: None,
            declared: None,
        };
        let mut broker = Broker::new(identity, eddy_modules::leader(&settings));
        replay(&journal, Specs::of(&journal, Aim::Know), &mut broker)?;
        let now = Time(recovered.last_t);
        // What is folded is on disk: nothing is to be held for it.
        broker.handle(now, Arrival::Durable(broker.last()));
        Ok(History {
            broker,
            reader: Reader::open(statedir)?,
            path: path.to_owned(),
            spools: Spools::of(statedir),
            now,
            _journal: journal,
        })
    }

    /// The answers to a question for output; none to other messages.
    fn output(&self, client: ClientId, message: &Message) -> Option<Replies> {
        if message.kind != Type::Request || message.topic != job::Output::TOPIC {
            return None;
        }
        let matchtag = message.matchtag;
        let caller = Caller { client, matchtag };
        Some(match message.parse::<OutputRequest>() {
            Ok(request) => Box::new(self.spools.output(caller, &request)),
            Err(refusal) => {
                let refused = Reply::new(caller, Type::Refused, &refusal);
                Box::new(std::iter::once(refused))
            }
        })
    }

    /// Those of these jobs that it knows, with their ends where those are recorded.
    fn ends(&mut self, jobs: JobSet) -> Vec<(JobId, Option<JobEnd>)> {
        let request = job::ListRequest {
            jobs,
            ..job::ListRequest::default()
        };
        let mut message = Message::request(job::List::TOPIC, 1, &request);
        message.uid = rustix::process::geteuid().as_raw();
        message.roles = Roles::OWNER.or(Roles::USER);
        let replies = self.ask(ClientId(1), message);
        let rows = |reply: &Reply| serde_json::from_slice::<Vec<JobRow>>(&reply.body).ok();
        let rows = replies.iter().filter_map(rows).flatten();
        let end = |row: JobRow| (row.id, row.result.map(|_| row::end_of_row(&row)));
        rows.map(end).collect()
    }

    /// All answers to one message. A stream that would go on ends: nothing more happens here.
    fn ask(&mut self, client: ClientId, message: Message) -> Vec<Reply> {
        if message.kind != Type::Request {
            return Vec::new();
        }
        let caller = Caller {
            client,
            matchtag: message.matchtag,
        };
        if !QUESTIONS.contains(&message.topic.as_str()) {
            let text = format!(
                "instance {} has ended; its history can only be read, and {} is not asked of it",
                self.path, message.topic
            );
            return vec![refused(caller, Code::NotReady, text)];
        }
        let question = Question::of(&message);
        let mut replies = Vec::new();
        let mut outputs = VecDeque::from([self
            .broker
            .handle(self.now, Arrival::Message(client, message))]);
        for _ in 0..TURNS_MAX {
            let Some(output) = outputs.pop_front() else {
                break;
            };
            self.take(output, &mut outputs, &mut replies);
        }
        let is_last = |reply: &Reply| reply.to == caller && reply.kind != Type::Part;
        if !replies.iter().any(is_last) {
            replies.push(question.last(caller, &self.path, &replies));
            let gone = self.broker.handle(self.now, Arrival::Gone(client));
            drop(gone);
        }
        replies
            .iter_mut()
            .for_each(|reply| question.say_over(self.now, reply));
        replies
    }

    /// Does what may be done of an output: answers, and questions to the journal.
    fn take(&mut self, output: Output, more: &mut VecDeque<Output>, replies: &mut Vec<Reply>) {
        for effect in output.effects {
            match effect {
                Effect::Reply(reply) => replies.push(reply),
                Effect::Query(tag, query) => {
                    let answer = answers::answer(&self.reader, &query, &[]);
                    let answer = Arrival::Answer(tag, answer);
                    more.push_back(self.broker.handle(self.now, answer));
                }
                Effect::Wake(_) => more.push_back(self.broker.handle(self.now, Arrival::Tick)),
                // Nothing is started, told or planned for what is over.
                Effect::Shell(..)
                | Effect::LaunchShell(..)
                | Effect::CheckShell(..)
                | Effect::EndShell(..)
                | Effect::Host(..)
                | Effect::Unhost(..)
                | Effect::Parent(_)
                | Effect::Filter(..)
                | Effect::Plan(_)
                | Effect::Exit(_) => {}
            }
        }
    }
}

/// Why a job has no result.
const UNENDED: &str = "its instance ended before it did: no end of it is recorded";

/// What is asked, as far as the fold does not know that the instance is over.
enum Question {
    Ping,
    /// The instances inside.
    Children,
    /// The ends of these jobs.
    Ends(JobSet),
    /// Rows of jobs.
    Jobs,
    Other,
}

impl Question {
    fn of(message: &Message) -> Question {
        match message.topic.as_str() {
            instance::Ping::TOPIC => Question::Ping,
            child::Children::TOPIC => Question::Children,
            job::List::TOPIC => Question::Jobs,
            job::Wait::TOPIC => match message.parse::<WaitRequest>() {
                Ok(request) => Question::Ends(request.jobs),
                Err(_) => Question::Other,
            },
            _ => Question::Other,
        }
    }

    /// The phase of a rank that was never resumed is that of a start, and what
    /// was in the instance when it was killed is over as it is, at the last moment known.
    fn say_over(&self, now: Time, reply: &mut Reply) {
        match self {
            Question::Ping => {
                if let Ok(mut pong) = serde_json::from_slice::<instance::Pong>(&reply.body) {
                    "over".clone_into(&mut pong.phase);
                    *reply = Reply::new(reply.to, reply.kind, &pong);
                }
            }
            Question::Children => {
                if let Ok(mut rows) = serde_json::from_slice::<Vec<ChildRow>>(&reply.body) {
                    rows.iter_mut().for_each(|row| row.stage = Stage::Over);
                    *reply = Reply::new(reply.to, reply.kind, &rows);
                }
            }
            Question::Jobs => {
                if let Ok(mut rows) = serde_json::from_slice::<Vec<JobRow>>(&reply.body) {
                    for row in rows.iter_mut().filter(|row| row.result.is_none()) {
                        UNENDED.clone_into(&mut row.reason);
                        row.t_unended = Some(now);
                    }
                    *reply = Reply::new(reply.to, reply.kind, &rows);
                }
            }
            Question::Ends(_) | Question::Other => {}
        }
    }

    /// The last answer to a question that waits for what never comes. An end that
    /// is not recorded is no success.
    fn last(&self, caller: Caller, path: &str, replies: &[Reply]) -> Reply {
        let Question::Ends(jobs) = self else {
            return refused(caller, Code::End, "the instance has ended".to_owned());
        };
        let told = |reply: &Reply| serde_json::from_slice::<Vec<JobEnd>>(&reply.body);
        let told = replies.iter().filter_map(|reply| told(reply).ok());
        let told: BTreeSet<JobId> = told.flatten().map(|end| end.id).collect();
        let mut numbers = jobs
            .ranges
            .iter()
            .flat_map(|(first, last)| first.0..=last.0);
        match numbers.find(|number| !told.contains(&JobId(*number))) {
            Some(job) => {
                let text = format!(
                    "instance {path} ended before its job {job} did: no end of it is recorded"
                );
                refused(caller, Code::NotReady, text)
            }
            None => refused(caller, Code::End, "the instance has ended".to_owned()),
        }
    }
}

fn refused(to: Caller, code: Code, text: String) -> Reply {
    Reply::new(to, Type::Refused, &Refusal::new(code, text))
}
