//! The task that owns the socket: writes requests, hands answers to whoever
//! waits for them, and connects again when the leader restarts.
//!
//! Started by [`Client::connect`](crate::Client::connect), ends with the last
//! handle. It decides nothing about jobs: a call is repeated as it was sent,
//! a stream is told of the loss and goes on by itself.

mod connection;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::message::{Message, Type};
use eddy_wire::services::instance::Pong;
use eddy_wire::services::overlay::LinkState;
use futures_util::StreamExt;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};

use crate::error::ClientError;
use connection::{Connection, LOOK_TAG, PROBE_TAG, until};

/// The first pause between two tries to connect.
const BACKOFF_MIN: Duration = Duration::from_millis(10);
/// The longest.
const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// How long the leader is waited for without a word.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// How long a run directory may be missing before the instance is taken to have
/// ended in order.
const GONE_AFTER: Duration = Duration::from_secs(1);
/// Silence that is borne in any case, so that the questions can be answered.
const SILENCE_MIN: Duration = Duration::from_secs(1);
/// The pause before what could not be reached behind the instance is asked for again.
const AWAY_PAUSE: Duration = Duration::from_millis(100);
/// Nothing was out of reach for so long: the next time is another one.
const AWAY_OVER: Duration = Duration::from_secs(2);
/// The requests that an instance hands on to one that may be coming back: those about jobs, down, and about what is
/// its parent's alone, up.
const HANDED_ON: [&str; 7] = [
    "job.",
    "account.",
    "pool.",
    "queue.",
    "reservation.",
    "sched.",
    "usage.",
];

/// What comes back for a request.
pub(crate) type Answer = Result<Message, ClientError>;

/// What becomes of a request when the connection is lost before its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// It is sent again.
    Repeated,
    /// It fails.
    Once,
    /// It has many answers; its reader is told.
    Stream,
    /// The same of what waits for something to happen, however long that takes.
    Feed,
}

/// What handles ask of the driver.
#[derive(Debug)]
pub(crate) enum Command {
    /// Send this request and hand its answers over.
    Send {
        matchtag: u64,
        bytes: Bytes,
        waiting: Waiting,
        answers: mpsc::Sender<Answer>,
    },
    /// Nobody wants answers to this request any more.
    Cancel { matchtag: u64 },
}

#[derive(Debug)]
struct Pending {
    bytes: Bytes,
    waiting: Waiting,
    since: Instant,
    answers: mpsc::Sender<Answer>,
}

/// Whether it was said that something is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Word {
    /// Not yet.
    Owed,
    /// Once is enough.
    Said,
}

/// An instance behind this one cannot be reached.
#[derive(Clone, Copy)]
struct Away {
    since: Instant,
    last: Instant,
    word: Word,
}

/// Why a connection is no more.
enum Break {
    /// No handle is left.
    Done,
    /// The other end is gone.
    Lost,
    /// The other end is not an instance.
    Foreign(String),
    /// The other end says nothing.
    Silent,
    /// The other end admits nobody like us.
    Turned(Refusal),
    /// The other end has no room for us now.
    Full(Refusal),
}

/// Why we are not admitted: said at the door, before anything is asked, to no call. What passes, such as too
/// many clients, is borne as a restart is.
fn turned_away(message: &Message) -> Option<Break> {
    let refusal: Refusal = match message.kind {
        Type::Refused => serde_json::from_slice(&message.body).ok()?,
        Type::Request | Type::Reply | Type::Part | Type::Cancel => return None,
    };
    match refusal.code {
        Code::Denied => Some(Break::Turned(refusal)),
        Code::Busy => Some(Break::Full(refusal)),
        _ => None,
    }
}

pub(crate) struct Driver {
    path: PathBuf,
    wait: Duration,
    /// Hears that the leader is waited for.
    told: fn(&str),
    commands: mpsc::UnboundedReceiver<Command>,
    pending: BTreeMap<u64, Pending>,
    /// When it last heard anything, on whatever connection: the patience runs from here, so that
    /// a leader that dies of what it is sent does not keep its clients for ever.
    heard: Instant,
    /// When what is to be asked for again is due, in order.
    again: VecDeque<(Instant, u64)>,
    away: Option<Away>,
    /// Since when the leader says that it lacks something itself.
    lacks: Option<Instant>,
    /// The pause before the next connection, once there was no room for one.
    full: Duration,
}

impl Driver {
    pub(crate) fn new(
        path: PathBuf,
        wait: Duration,
        told: fn(&str),
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Driver {
        Driver {
            path,
            wait,
            told,
            commands,
            pending: BTreeMap::new(),
            heard: Instant::now(),
            again: VecDeque::new(),
            away: None,
            lacks: None,
            full: BACKOFF_MIN,
        }
    }

    /// Connects, says how that went, and serves until no handle is left.
    pub(crate) async fn run(mut self, ready: oneshot::Sender<Result<(), ClientError>>) {
        let mut connection = match self.connect().await {
            Ok(connection) => connection,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        loop {
            let failure = match self.serve(&mut connection).await {
                Break::Done => return,
                Break::Lost => None,
                Break::Foreign(why) => Some(ClientError::Foreign {
                    path: self.path.clone(),
                    why,
                }),
                Break::Turned(refusal) => Some(ClientError::Refused(refusal)),
                Break::Full(refusal) => self.wait_for_room(refusal).await,
                Break::Silent => Some(ClientError::Silent {
                    path: self.path.clone(),
                    waited: self.silence().as_secs_f64(),
                }),
            };
            match failure {
                Some(error) => self.fail(&error),
                None => self.tell_loss(),
            }
            // Nothing waits: connect when something is asked, not before.
            while self.pending.is_empty() {
                match self.commands.recv().await {
                    Some(command) => drop(self.take(command)),
                    None => return,
                }
                self.heard = Instant::now();
            }
            connection = match self.reconnect().await {
                Some(connection) => connection,
                None => return,
            };
        }
    }

    /// There was no room: a pause before the next connection, longer each time until something is heard, or whoever
    /// serves many would serve none but those it turns away. Gives the refusal once patience is at its end.
    async fn wait_for_room(&mut self, refusal: Refusal) -> Option<ClientError> {
        let pause = self.full;
        self.full = (pause * 2).min(BACKOFF_MAX);
        let left = self.left();
        if left.is_zero() {
            return Some(ClientError::Refused(refusal));
        }
        tokio::time::sleep(jittered(pause).min(left)).await;
        None
    }

    /// How much patience is left. A pause is cut by it, not it by a pause: the last try is at its end.
    fn left(&self) -> Duration {
        (self.heard + self.wait).saturating_duration_since(Instant::now())
    }

    /// Connects again and repeats what waits; `None` when no handle is left.
    async fn reconnect(&mut self) -> Option<Connection> {
        loop {
            match self.connect().await {
                Ok(connection) => {
                    self.absorb();
                    for pending in self.pending.values() {
                        let _ = connection.writer.send(pending.bytes.clone());
                    }
                    return Some(connection);
                }
                Err(error) => {
                    self.absorb();
                    self.fail(&error);
                    let command = self.commands.recv().await?;
                    drop(self.take(command));
                    self.heard = Instant::now();
                }
            }
        }
    }

    /// Takes what was asked while nobody listened.
    fn absorb(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            drop(self.take(command));
        }
    }

    /// Notes a command; gives what is to be written for it.
    fn take(&mut self, command: Command) -> Option<Bytes> {
        match command {
            Command::Send {
                matchtag,
                bytes,
                waiting,
                answers,
            } => {
                let pending = Pending {
                    bytes: bytes.clone(),
                    waiting,
                    since: Instant::now(),
                    answers,
                };
                self.pending.insert(matchtag, pending);
                Some(bytes)
            }
            Command::Cancel { matchtag } => {
                self.pending.remove(&matchtag)?;
                Message::answer(Type::Cancel, matchtag, &()).encode().ok()
            }
        }
    }

    async fn serve(&mut self, connection: &mut Connection) -> Break {
        loop {
            let silence = self.silence();
            let look_at = connection.look_at(silence);
            let (told_at, over_at) = (
                connection.probe.told_at(),
                connection.probe.over_at(silence),
            );
            let due = self.again.front().map(|(due, _)| *due);
            tokio::select! {
                command = self.commands.recv() => {
                    let Some(command) = command else { return Break::Done };
                    if self.pending.is_empty() {
                        connection.begin();
                    }
                    if let Some(bytes) = self.take(command) {
                        // The writer is gone only with the connection, which
                        // the reader will notice.
                        let _ = connection.writer.send(bytes);
                    }
                }
                frame = connection.reader.next() => {
                    let message = match frame {
                        None => return Break::Lost,
                        Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                            return Break::Foreign(error.to_string());
                        }
                        Some(Err(_)) => return Break::Lost,
                        Some(Ok(frame)) => Message::decode(&frame.freeze()),
                    };
                    match message {
                        Err(error) => return Break::Foreign(error.to_string()),
                        // A rank without a leader answers, too: that is no sign of life of it.
                        Ok(message) if message.matchtag == LOOK_TAG => {
                            self.looked(&message);
                            connection.probe.hush();
                            continue;
                        }
                        Ok(message) if message.matchtag == PROBE_TAG => match turned_away(&message) {
                            Some(turned) => return turned,
                            None => self.there(&message),
                        },
                        Ok(message) => self.deliver(message).await,
                    }
                    self.heard = Instant::now();
                    self.full = BACKOFF_MIN;
                    connection.hears(self.heard);
                }
                () = until(due) => self.ask_again(connection),
                () = until(Some(look_at)), if !self.pending.is_empty() => connection.look(),
                () = until(told_at), if !self.pending.is_empty() => {
                    connection.probe.hush();
                    let at = self.path.display();
                    (self.told)(&format!("the leader of {at}, which does not answer"));
                }
                () = until(over_at), if !self.pending.is_empty() => return Break::Silent,
            }
        }
    }

    /// The leader is there; it may say what it lacks itself. That is waited for as a restart is, and no longer.
    fn there(&mut self, message: &Message) {
        let pong = serde_json::from_slice::<Pong>(&message.body);
        let Some(why) = pong.ok().and_then(|pong| pong.lack) else {
            self.lacks = None;
            return;
        };
        let path = &self.path;
        (self.told)(&format!("the leader of {}: {why}", path.display()));
        let now = Instant::now();
        let since = *self.lacks.get_or_insert(now);
        let wait = self.wait;
        self.pending.retain(|_, pending| {
            let since = pending.since.max(since);
            let waits = pending.waiting == Waiting::Feed || now < since + wait;
            if !waits {
                let error = ClientError::Lacking {
                    path: path.clone(),
                    waited: (now - since).as_secs_f64(),
                    why: why.clone(),
                };
                report(&pending.answers, error);
            }
            waits
        });
    }

    /// The rank has said which links it has: one that follows and has no way up keeps what it is
    /// asked until there is a leader.
    fn looked(&self, message: &Message) {
        let links = serde_json::from_slice::<Vec<LinkState>>(&message.body);
        let links = links.unwrap_or_default();
        if links.iter().any(|link| link.is_up && link.state != "open") {
            let at = self.path.display();
            (self.told)(&format!(
                "the leader of the rank at {at}, which has no way up"
            ));
        }
    }

    /// How long the instance may say nothing while something is asked of it.
    fn silence(&self) -> Duration {
        self.wait.max(SILENCE_MIN)
    }

    async fn deliver(&mut self, message: Message) {
        let matchtag = message.matchtag;
        if message.kind == Type::Refused && self.waits_for_it(&message) {
            self.again
                .push_back((Instant::now() + AWAY_PAUSE, matchtag));
            return;
        }
        let Some(pending) = self.pending.get(&matchtag) else {
            return;
        };
        let last = message.kind != Type::Part;
        // Waits while the reader of a stream is behind: that is how a slow
        // reader slows the instance down instead of filling memory here.
        let taken = pending.answers.send(Ok(message)).await;
        if last || taken.is_err() {
            self.pending.remove(&matchtag);
        }
    }

    /// Whether this refusal says that an instance behind this one, which may be coming back, is
    /// not reached, and there is patience left. It is borne as a restart of the leader is.
    fn waits_for_it(&mut self, message: &Message) -> bool {
        let Some(pending) = self.pending.get(&message.matchtag) else {
            return false;
        };
        let refusal = serde_json::from_slice::<Refusal>(&message.body);
        let Some(refusal) = refusal.ok().filter(|no| no.code == Code::Unreachable) else {
            return false;
        };
        let asked = Message::decode(&pending.bytes);
        let is_so = |asked: Message| HANDED_ON.iter().any(|of| asked.topic.starts_with(of));
        let handed_on = asked.is_ok_and(is_so);
        if pending.waiting == Waiting::Once || !handed_on {
            return false;
        }
        let now = Instant::now();
        let before = self.away.filter(|away| now < away.last + AWAY_OVER);
        let mut away = before.unwrap_or(Away {
            since: now,
            last: now,
            word: Word::Owed,
        });
        away.last = now;
        if away.word == Word::Owed && now > away.since + TOLD_AFTER {
            away.word = Word::Said;
            (self.told)(refusal.text.trim_end_matches(" is not reached"));
        }
        self.away = Some(away);
        now + AWAY_PAUSE < away.since + self.wait
    }

    /// Asks again for what is due. A stream is told of a loss: it knows where to go on.
    fn ask_again(&mut self, connection: &Connection) {
        let now = Instant::now();
        while let Some((due, matchtag)) = self.again.front().copied()
            && due <= now
        {
            self.again.pop_front();
            match self.pending.get(&matchtag).map(|pending| pending.waiting) {
                Some(Waiting::Stream | Waiting::Feed) => {
                    if let Some(pending) = self.pending.remove(&matchtag) {
                        report(&pending.answers, self.lost());
                    }
                }
                Some(Waiting::Repeated | Waiting::Once) => {
                    let bytes = self.pending[&matchtag].bytes.clone();
                    let _ = connection.writer.send(bytes);
                }
                None => {}
            }
        }
    }

    fn lost(&self) -> ClientError {
        ClientError::Lost {
            path: self.path.clone(),
        }
    }

    /// The connection is gone: what is not repeated hears of it, all else is sent again.
    fn tell_loss(&mut self) {
        self.again.clear();
        self.lacks = None;
        let lost = self.lost();
        self.pending.retain(|_, pending| {
            if pending.waiting == Waiting::Repeated {
                return true;
            }
            report(&pending.answers, lost.clone());
            false
        });
    }

    fn fail(&mut self, error: &ClientError) {
        for pending in std::mem::take(&mut self.pending).into_values() {
            report(&pending.answers, error.clone());
        }
    }

    async fn connect(&mut self) -> Result<Connection, ClientError> {
        let begun = Instant::now();
        let mut pause = BACKOFF_MIN;
        let mut tries = 0;
        let mut word = Word::Owed;
        loop {
            tries += 1;
            let error = match UnixStream::connect(&self.path).await {
                Ok(stream) => return Ok(Connection::over(stream)),
                Err(error) => error,
            };
            let (now, left) = (Instant::now(), self.left());
            let over = left.is_zero() || (is_gone(&self.path) && now > begun + GONE_AFTER);
            if !may_come_back(&error) || over {
                let waited = now.duration_since(begun).as_secs_f64();
                let (path, why) = (self.path.clone(), describe(&error));
                return Err(ClientError::Unreachable {
                    path,
                    why,
                    tries,
                    waited,
                });
            }
            if word == Word::Owed && begun.elapsed() > TOLD_AFTER {
                word = Word::Said;
                (self.told)(&format!("the leader of {}", self.path.display()));
            }
            tokio::time::sleep(jittered(pause).min(left)).await;
            pause = (pause * 2).min(BACKOFF_MAX);
        }
    }
}

/// Hands an error over without waiting for a slow reader: what it has not read
/// yet comes first, and the closed channel tells it the rest.
fn report(answers: &mpsc::Sender<Answer>, error: ClientError) {
    if let Err(mpsc::error::TrySendError::Full(error)) = answers.try_send(Err(error)) {
        let answers = answers.clone();
        tokio::spawn(async move { answers.send(error).await });
    }
}

/// A missing or refusing socket, or a full queue of connections, is what a restart looks like.
fn may_come_back(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, ConnectionReset, Interrupted, NotFound, WouldBlock};
    matches!(
        error.kind(),
        NotFound | ConnectionRefused | ConnectionReset | WouldBlock | Interrupted
    )
}

/// The run directory itself is missing: an instance removes it when it ends in order.
fn is_gone(socket: &Path) -> bool {
    !socket.parent().is_some_and(Path::is_dir)
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "no instance is there".to_owned(),
        io::ErrorKind::ConnectionRefused => "no instance listens there".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "permission denied: a directory on the way is closed to you, or it is a user's own instance, which \
             serves that user and root only; be root there, or ask of its job in the instance around it"
                .to_owned()
        }
        _ => error.to_string(),
    }
}

/// Between half and all of `pause`, so that many clients of one leader spread.
fn jittered(pause: Duration) -> Duration {
    let random = uuid::Uuid::now_v7().as_bytes()[15];
    pause / 2 + pause.mul_f64(f64::from(random) / 512.0)
}
