//! What makes a leader the leader of a child: where it is told who it is, what
//! it has of its parent, its channel at work, and the program that it was
//! started for.
//!
//! Used by the start, which reads the environment and keeps what was granted,
//! and by the loop, which gives what the channel brought and does what comes of
//! it. Requests of the parent are clients' here, numbered from the top.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use eddy_broker::{Arrival, Caller, ClientId, ParentWord, Reply, Saying, ToParent};
use eddy_modules::settings::Place;
use eddy_wire::access::Access;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::IdBlock;
use eddy_wire::id::{Attempt, Epoch, JobId};
use eddy_wire::lifecycle::JobResult;
use eddy_wire::message::{MESSAGE_BYTES_MAX, Message, MessageError, Roles, Target, Type};
use eddy_wire::services::Service;
use eddy_wire::services::child::{
    self, AdoptRequest, Answer, AnswerKind, AnswerRequest, ChildOf, FromParent, HandUp,
    HandUpRequest, Ids, IdsRequest, Report, ReportRequest, ToldOf, ToldRequest,
};
use eddy_wire::services::job::Submitted;
use eddy_wire::time::{Span, Time};
use tokio::sync::mpsc;

use super::channel::{ADOPT_TAG, Address, Heard};
use super::program::Program;
use crate::link::DOOR_SOCKET;
use crate::rundir;
use crate::socket::Outlet;

/// The leader itself as a client.
const SELF: ClientId = ClientId(u64::MAX);
/// What the parent may not have answered yet, but for what is referred to it: half of what it allows a client.
const OUTSTANDING_MAX: usize = 512;
/// Bytes of the message in which an answer to the parent rides, at most.
const ANSWER_BYTES: usize = 2048;
/// How much earlier than this says the limit may have ended the program: the
/// parent says how much time is left again and again.
const END_SLACK: Span = Span::seconds(1);
/// Of how many jobs one word says what they have come to.
const TOLD_MAX: usize = 256;
/// Bytes that may wait for a parent that does not read; over it the calls it
/// made are given up.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// A child's leader, as far as it is one.
pub struct Child {
    of: ChildOf,
    /// Where it is and until when.
    place: Place,
    heard: mpsc::Receiver<Heard>,
    outlet: Option<Rc<Outlet>>,
    /// What was asked and not answered, by match number.
    asked: BTreeMap<u64, Asked>,
    last_tag: u64,
    /// What is referred to it, by who asked.
    referred: BTreeMap<Caller, u64>,
    /// What is to be asked when there is room.
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    /// What jobs that were passed have come to, to be told.
    told: Vec<ToldOf>,
    /// The parent's calls here.
    calls: BTreeMap<ClientId, u64>,
    clients: BTreeMap<u64, ClientId>,
    next_client: u64,
    program: Program,
    code: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Ids,
    /// To take a submission, by its tag here.
    Submit(u64),
    /// To take one that this instance took, by the number of its first job.
    TakenUp(JobId),
    /// What this client asked here.
    Referred(Caller),
    /// What needs no more than to be there.
    Told,
}

/// What comes of it for the loop.
#[derive(Debug)]
pub enum Come {
    /// These may connect from now on.
    Admitted(Access),
    /// An arrival for the broker.
    Arrival(Arrival),
    /// A message of a client.
    Message(ClientId, Message),
    /// A client is gone.
    Gone(ClientId),
    /// The instance is to end in order.
    End,
}

impl Child {
    /// A child in this place whose channel brings what `heard` gives.
    pub fn new(of: ChildOf, place: Place, heard: mpsc::Receiver<Heard>, program: Program) -> Child {
        Child {
            of,
            place,
            heard,
            outlet: None,
            asked: BTreeMap::new(),
            last_tag: ADOPT_TAG,
            referred: BTreeMap::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            told: Vec::new(),
            calls: BTreeMap::new(),
            clients: BTreeMap::new(),
            next_client: SELF.0 - 1,
            program,
            code: 0,
        }
    }

    /// What the channel brings next. It may be dropped and asked again.
    pub async fn next(&mut self) -> Heard {
        match self.heard.recv().await {
            Some(heard) => heard,
            // It was refused: nothing more comes.
            None => std::future::pending().await,
        }
    }

    /// The code of the process after an orderly end.
    pub fn code(&self) -> i32 {
        self.program.code().unwrap_or(self.code)
    }

    /// The leader leads: starts the program, or waits for its end. `last` is the
    /// highest job number ever given.
    pub fn begin(&mut self, last: JobId) -> Vec<Come> {
        let message = self.program.begin(last);
        message.map_or_else(Vec::new, |message| vec![Come::Message(SELF, own(message))])
    }

    /// Takes what the channel brought.
    pub fn take(&mut self, now: Time, heard: Heard) -> Vec<Come> {
        match heard {
            Heard::Up(outlet) => {
                tracing::info!("the channel to the parent stands");
                self.outlet = Some(outlet);
                Vec::new()
            }
            Heard::Away => self.away(),
            Heard::Refused(refusal) => {
                tracing::error!(%refusal, "the parent refuses this instance, which ends");
                eprintln!("eddy broker: the parent refuses this instance: {refusal}");
                self.code = super::CODE_NO_BEGIN;
                vec![Come::End]
            }
            Heard::Message(message) => self.message(now, message),
        }
    }

    fn away(&mut self) -> Vec<Come> {
        tracing::warn!("the channel to the parent is down");
        self.outlet = None;
        self.asked.clear();
        self.referred.clear();
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.told.clear();
        self.clients.clear();
        let calls = std::mem::take(&mut self.calls).into_keys();
        let word = Come::Arrival(Arrival::Parent(ParentWord::Away));
        calls.map(Come::Gone).chain([word]).collect()
    }

    fn message(&mut self, now: Time, message: Message) -> Vec<Come> {
        if message.matchtag == ADOPT_TAG {
            return match message.parse::<FromParent>() {
                Ok(word) => self.word(now, word, &message),
                Err(refusal) => {
                    tracing::error!(%refusal, "a word of the parent is not understood");
                    Vec::new()
                }
            };
        }
        let asked = self.asked.remove(&message.matchtag);
        if let Some(Asked::Referred(caller)) = asked {
            return vec![self.answered(caller, message)];
        }
        match (asked, message.kind) {
            (Some(Asked::Ids), Type::Reply) => match message.parse::<IdBlock>() {
                Ok(block) => vec![Come::Arrival(Arrival::Parent(ParentWord::Ids(block)))],
                Err(refusal) => {
                    tracing::error!(%refusal, "a block of job numbers is not understood");
                    Vec::new()
                }
            },
            (Some(Asked::Ids), Type::Refused) => match message.parse::<Refusal>() {
                Ok(refusal) => {
                    tracing::warn!(%refusal, "the parent gives no job numbers");
                    vec![Come::Arrival(Arrival::Parent(ParentWord::NoIds(refusal)))]
                }
                Err(refusal) => {
                    tracing::error!(%refusal, "a refusal of job numbers is not understood");
                    Vec::new()
                }
            },
            (Some(asked @ (Asked::Submit(_) | Asked::TakenUp(_))), Type::Reply | Type::Refused) => {
                let outcome = match message.kind {
                    Type::Reply => message.parse::<Submitted>(),
                    _ => Err(message.parse().unwrap_or_else(|refusal| refusal)),
                };
                let word = match asked {
                    Asked::TakenUp(first) => ParentWord::TakenUp(first, outcome),
                    Asked::Submit(tag) => ParentWord::Submitted(tag, outcome),
                    Asked::Ids | Asked::Told | Asked::Referred(_) => return Vec::new(),
                };
                vec![Come::Arrival(Arrival::Parent(word))]
            }
            (Some(Asked::Told), Type::Refused) => {
                let refusal: Result<Refusal, _> = message.parse();
                tracing::warn!(?refusal, "the parent refuses what this instance says");
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// An answer to what was referred, perhaps not the last.
    fn answered(&mut self, to: Caller, message: Message) -> Come {
        let reply = Reply {
            to,
            kind: message.kind,
            body: message.body,
            tail: message.tail,
        };
        match reply.is_last() {
            true => drop(self.referred.remove(&to)),
            false => drop(self.asked.insert(message.matchtag, Asked::Referred(to))),
        }
        Come::Arrival(Arrival::Parent(ParentWord::Answered(reply)))
    }

    fn word(&mut self, now: Time, word: FromParent, message: &Message) -> Vec<Come> {
        match Saying::new(word, &message.tail) {
            Saying::Modules(word) => vec![Come::Arrival(Arrival::Parent(word))],
            Saying::Granted(granted) => {
                self.place.told(now, &granted);
                let admitted = granted.admits().cloned().map(Come::Admitted);
                let word = ParentWord::Granted(granted);
                let come = Come::Arrival(Arrival::Parent(word));
                let come = admitted.into_iter().chain([come]);
                come.chain(self.over(now)).collect()
            }
            Saying::Request(call) => match Message::decode(&message.tail) {
                Ok(request) => self.call(call, request),
                Err(error) => {
                    let refusal = Refusal::invalid(format!("the relayed message: {error}"));
                    let answer = Message::answer(Type::Refused, 0, &refusal);
                    self.answer(call, AnswerKind::Refused, &answer);
                    Vec::new()
                }
            },
            Saying::Cancel(call) => match self.clients.remove(&call) {
                Some(client) => {
                    self.calls.remove(&client);
                    vec![Come::Gone(client)]
                }
                None => Vec::new(),
            },
        }
    }

    fn call(&mut self, call: u64, mut request: Message) -> Vec<Come> {
        let client = ClientId(self.next_client);
        self.next_client -= 1;
        self.calls.insert(client, call);
        self.clients.insert(call, client);
        request.matchtag = 1;
        vec![Come::Message(client, request)]
    }

    /// The end of the program is that of the instance. One that the limit ended
    /// is waited out: its parent ends the job in a moment, as any job of that
    /// limit, and so the job's result is TIMEOUT.
    fn over(&self, now: Time) -> Option<Come> {
        let is_late = |end: Time| now >= Time(end.0.saturating_sub(END_SLACK.0));
        match self.program.result() {
            Some(JobResult::Timeout) if self.place.end().is_some_and(is_late) => None,
            _ => self.program.is_over().then_some(Come::End),
        }
    }

    /// An answer to the parent, or to the leader itself.
    pub fn reply(&mut self, now: Time, reply: Reply) -> Vec<Come> {
        let client = reply.to.client;
        if client == SELF {
            return match self.program.answered(&reply) {
                Some(message) => vec![Come::Message(SELF, own(message))],
                None => self.over(now).into_iter().collect(),
            };
        }
        let Some(call) = self.calls.get(&client).copied() else {
            return Vec::new();
        };
        let kind = match reply.kind {
            Type::Part => AnswerKind::Part,
            Type::Refused => AnswerKind::Refused,
            Type::Reply | Type::Request | Type::Cancel => AnswerKind::Reply,
        };
        let message = Message {
            kind: reply.kind,
            topic: String::new(),
            uid: u32::MAX,
            roles: Roles::NONE,
            matchtag: 0,
            target: Target::Service,
            body: reply.body,
            tail: reply.tail,
        };
        match kind {
            AnswerKind::Part if self.waiting_bytes <= WAITING_BYTES_MAX => {
                self.answer(call, kind, &message);
                return Vec::new();
            }
            AnswerKind::Part => {
                let text = format!("limit `reply_bytes` of {WAITING_BYTES_MAX} is reached");
                let refusal = Refusal::new(Code::Busy, text);
                let refused = Message::answer(Type::Refused, 0, &refusal);
                self.answer(call, AnswerKind::Refused, &refused);
            }
            AnswerKind::Reply | AnswerKind::Refused => self.answer(call, kind, &message),
        }
        self.calls.remove(&client);
        self.clients.remove(&call);
        vec![Come::Gone(client)]
    }

    fn answer(&mut self, call: u64, kind: AnswerKind, message: &Message) {
        let child = self.of;
        let body = AnswerRequest { child, call, kind };
        // It rides in a message of its own, which has to fit too.
        let encoded = match message.wire_len() > MESSAGE_BYTES_MAX - ANSWER_BYTES {
            true => Err(MessageError::TooLarge(message.wire_len())),
            false => message.encode(),
        };
        match encoded {
            Ok(tail) => self.ask(Answer::TOPIC, &body, Some(tail), Asked::Told),
            Err(error) => {
                tracing::error!(%error, "an answer to the parent cannot be sent");
                let refusal = Refusal::new(Code::TooLarge, format!("the answer: {error}"));
                let refused = Message::answer(Type::Refused, 0, &refusal);
                let kind = AnswerKind::Refused;
                let body = AnswerRequest { child, call, kind };
                self.ask(Answer::TOPIC, &body, refused.encode().ok(), Asked::Told);
            }
        }
    }

    /// Tells the parent; lost while the channel is down.
    pub fn tell(&mut self, word: ToParent) {
        let child = self.of;
        match word {
            ToParent::Ids(number) => {
                let body = IdsRequest { child, number };
                self.ask(Ids::TOPIC, &body, None, Asked::Ids);
            }
            // That a short one began goes with its end.
            ToParent::Told(told) => told.join(&mut self.told),
            ToParent::Submit(tag, handed) => {
                let body = HandUpRequest {
                    child,
                    user: handed.user,
                    roles: handed.roles,
                    submission: handed.submission,
                    taken: None,
                };
                self.ask(HandUp::TOPIC, &body, None, Asked::Submit(tag));
            }
            ToParent::TakenUp(handed, taken) => {
                // What it said of jobs before goes before it.
                self.gather();
                let first = taken.first;
                let body = HandUpRequest {
                    child,
                    user: handed.user,
                    roles: handed.roles,
                    submission: handed.submission,
                    taken: Some(taken),
                };
                self.ask(HandUp::TOPIC, &body, None, Asked::TakenUp(first));
            }
            ToParent::Settled(open) => {
                self.gather();
                let body = child::SettledRequest { child, open };
                self.ask(child::Settled::TOPIC, &body, None, Asked::Told);
            }
            ToParent::Release(ranks) => {
                let body = child::ReleaseRequest { child, ranks };
                self.ask(child::Release::TOPIC, &body, None, Asked::Told);
            }
            ToParent::Drained(nodes) => {
                let body = child::DrainedRequest { child, nodes };
                self.ask(child::Drained::TOPIC, &body, None, Asked::Told);
            }
            ToParent::Report(summary) => {
                let body = ReportRequest { child, summary };
                self.ask(Report::TOPIC, &body, None, Asked::Told);
            }
            ToParent::Refer(caller, request) => {
                let asked = Asked::Referred(caller);
                self.ask(child::Refer::TOPIC, &child, Some(request), asked);
                self.referred.insert(caller, self.last_tag);
            }
            ToParent::TakeBack(caller) => self.take_back(caller),
        }
    }

    /// Nobody waits for that answer any more.
    fn take_back(&mut self, caller: Caller) {
        let Some(tag) = self.referred.remove(&caller) else {
            return;
        };
        self.asked.remove(&tag);
        let unsaid = self.waiting.iter().position(|one| one.matchtag == tag);
        match unsaid.and_then(|at| self.waiting.remove(at)) {
            Some(message) => self.waiting_bytes -= message.wire_len(),
            None if self.outlet.is_some() => {
                let message = Message::answer(Type::Cancel, tag, &());
                self.waiting_bytes += message.wire_len();
                self.waiting.push_back(message);
            }
            None => {}
        }
    }

    fn ask(
        &mut self,
        topic: &str,
        body: &impl serde::Serialize,
        tail: Option<bytes::Bytes>,
        asked: Asked,
    ) {
        if self.outlet.is_none() {
            return;
        }
        self.last_tag += 1;
        self.asked.insert(self.last_tag, asked);
        let message = Message::request(topic, self.last_tag, body);
        let message = message.with_tail(tail.unwrap_or_default());
        self.waiting_bytes += message.wire_len();
        self.waiting.push_back(message);
    }

    /// What was said of jobs since the last time goes as one word.
    fn gather(&mut self) {
        if !self.told.is_empty() {
            let jobs = std::mem::take(&mut self.told);
            let of = self.of;
            for jobs in jobs.chunks(TOLD_MAX) {
                let jobs = jobs.to_vec();
                self.ask(
                    child::Told::TOPIC,
                    &ToldRequest { child: of, jobs },
                    None,
                    Asked::Told,
                );
            }
        }
    }

    /// Writes what there is room for.
    pub fn flush(&mut self) {
        self.gather();
        let Some(outlet) = &self.outlet else { return };
        let answered = |waiting: &VecDeque<Message>| self.referred.len() + waiting.len();
        while self.asked.len().saturating_sub(answered(&self.waiting)) < OUTSTANDING_MAX
            && let Some(message) = self.waiting.pop_front()
        {
            self.waiting_bytes -= message.wire_len();
            if let Err(error) = outlet.put(&message) {
                self.asked.remove(&message.matchtag);
                tracing::error!(%error, "a word to the parent cannot be sent");
            }
        }
        if outlet.waiting() > 0 {
            // An error is seen by the reading end, which tells.
            let _ = outlet.flush();
        }
    }
}

/// A request of the leader itself.
fn own(mut message: Message) -> Message {
    message.uid = rustix::process::geteuid().as_raw();
    message.roles = Roles::OWNER.or(Roles::USER);
    message
}

/// What the task that leads a child is told by its environment.
#[derive(Clone, Debug)]
pub struct Told {
    /// Where the parent is reached.
    pub uri: String,
    /// Which job this instance is.
    pub of: ChildOf,
    /// Its state directory.
    pub statedir: PathBuf,
}

impl Told {
    /// Reads the environment; a line for each variable that is not there.
    pub fn read() -> Result<Told, Vec<String>> {
        let mut wrong = Vec::new();
        let mut text = |name: &str| {
            std::env::var(name).unwrap_or_else(|_| {
                wrong.push(format!("--child: {name} is not set; a shell sets it"));
                String::new()
            })
        };
        let uri = text("EDDY_URI");
        let statedir = PathBuf::from(text("EDDY_JOB_STATEDIR"));
        let (job, attempt) = (text("EDDY_JOB_ID"), text("EDDY_JOB_ATTEMPT"));
        match (job.parse(), attempt.parse()) {
            (Ok(job), Ok(attempt)) if wrong.is_empty() => Ok(Told {
                uri,
                of: ChildOf {
                    job: JobId(job),
                    attempt: Attempt(attempt),
                },
                statedir,
            }),
            _ if wrong.is_empty() => {
                let line = "--child: EDDY_JOB_ID and EDDY_JOB_ATTEMPT are to be numbers";
                Err(vec![line.to_owned()])
            }
            _ => Err(wrong),
        }
    }

    /// Where the parent is reached.
    pub fn parent(&self) -> Address {
        // `children` is in the state directory of the parent's rank.
        let statedir = self.statedir.parent().and_then(Path::parent);
        Address {
            uri: self.uri.clone(),
            statedir: statedir.map(Path::to_owned),
        }
    }

    /// What the child says of itself when it is reached in this run directory.
    pub fn hello(&self, instance: &str, rundir: &Path) -> AdoptRequest {
        AdoptRequest {
            child: self.of,
            instance: instance.to_owned(),
            uri: rundir::uri(rundir),
            door: rundir.join(DOOR_SOCKET).display().to_string(),
            statedir: self.statedir.display().to_string(),
            leader: Epoch(0),
            beat: None,
            keeps: None,
        }
    }

    /// The name of a declared instance: its state directory has it, and outlives the attempt.
    pub fn declared(&self) -> Option<&str> {
        let ChildOf { job, attempt } = self.of;
        let name = self.statedir.file_name()?.to_str()?;
        (name != format!("{job}.{attempt}")).then_some(name)
    }
}
