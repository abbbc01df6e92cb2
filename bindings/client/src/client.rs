//! A connection to one instance: calls with one answer, calls with many.
//!
//! [`Client`] is a handle; the socket belongs to a driver task that it starts.
//! Any number of calls may be under way, each known by its match number.
//!
//! A stream has a bounded queue, and a full one stops the whole connection
//! until its reader takes something. So whoever holds a stream must not wait
//! for another call of the same client without reading on: use a second client.

use std::marker::PhantomData;
use std::time::Duration;

use bytes::Bytes;
use eddy_wire::error::Code;
use eddy_wire::message::{Message, Target, Type};
use eddy_wire::services::Service;
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, oneshot};

use crate::driver::{Answer, Command, Driver, Waiting};
use crate::error::ClientError;
use crate::uri::Uri;

/// Parts of a stream that wait for their reader before the connection does.
const PARTS_WAITING_MAX: usize = 64;

/// How patient a client is.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long it tries to reach the instance, at first and after a loss, and
    /// how long it bears silence.
    pub wait: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            wait: Duration::from_secs(30),
        }
    }
}

/// A handle on a connection. Cheap to clone; the connection closes with the last.
#[derive(Clone, Debug)]
pub struct Client {
    uri: Uri,
    commands: mpsc::UnboundedSender<Command>,
}

impl Client {
    /// Connects; waits for a leader that is just starting.
    pub async fn connect(uri: &Uri, options: Options) -> Result<Client, ClientError> {
        Client::connect_told(uri, options, |_| ()).await
    }

    /// As [`Client::connect`]; `told` hears what is waited for, whenever the
    /// leader is waited for longer than a second, now or later.
    pub async fn connect_told(
        uri: &Uri,
        options: Options,
        told: fn(&str),
    ) -> Result<Client, ClientError> {
        let (commands, received) = mpsc::unbounded_channel();
        let (ready, connected) = oneshot::channel();
        let driver = Driver::new(uri.path().to_owned(), options.wait, told, received);
        tokio::spawn(driver.run(ready));
        connected
            .await
            .expect("the driver answers before it ends")?;
        Ok(Client {
            uri: uri.clone(),
            commands,
        })
    }

    /// Where it is connected to.
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// One request, one answer. Repeated by itself when the leader restarts in
    /// between, so only for services where a repetition changes nothing.
    pub async fn call<S: Service>(&self, request: &S::Request) -> Result<S::Reply, ClientError> {
        let sent = self.open::<S>(request, Bytes::new(), Waiting::Repeated, Target::Service);
        Ok(answered::<S>(self.answer(sent).await)?.0)
    }

    /// As [`Client::call`], sent before this returns: what is asked one after another arrives so.
    ///
    /// # Errors
    /// The future gives those of [`Client::call`].
    pub fn ask<S: Service>(
        &self,
        request: &S::Request,
    ) -> impl Future<Output = Result<S::Reply, ClientError>> + use<S> {
        let sent = self.open::<S>(request, Bytes::new(), Waiting::Repeated, Target::Service);
        let client = self.clone();
        async move { Ok(answered::<S>(client.answer(sent).await)?.0) }
    }

    /// As [`Client::call`], with raw bytes both ways.
    pub async fn call_with_tail<S: Service>(
        &self,
        request: &S::Request,
        tail: Bytes,
    ) -> Result<(S::Reply, Bytes), ClientError> {
        let sent = self.open::<S>(request, tail, Waiting::Repeated, Target::Service);
        answered::<S>(self.answer(sent).await)
    }

    /// As [`Client::call_with_tail`], but never repeated: a loss before the
    /// answer is [`ClientError::Lost`].
    pub async fn call_once<S: Service>(
        &self,
        request: &S::Request,
        tail: Bytes,
    ) -> Result<(S::Reply, Bytes), ClientError> {
        let sent = self.open::<S>(request, tail, Waiting::Once, Target::Service);
        answered::<S>(self.answer(sent).await)
    }

    /// As [`Client::call`], answered by that rank of the instance.
    pub async fn call_target<S: Service>(
        &self,
        request: &S::Request,
        target: Target,
    ) -> Result<S::Reply, ClientError> {
        let sent = self.open::<S>(request, Bytes::new(), Waiting::Repeated, target);
        Ok(answered::<S>(self.answer(sent).await)?.0)
    }

    /// What comes of a request. Knows no service, as [`Client::send`] does not: what waits, and what it waits by,
    /// is compiled once and not for each.
    async fn answer(&self, sent: Result<Sent, ClientError>) -> Answer {
        sent?
            .answers
            .recv()
            .await
            .unwrap_or_else(|| Err(self.lost()))
    }

    /// One request, many answers. A loss ends it with [`ClientError::Lost`];
    /// the feeds of [`crate::follow`] know how to go on.
    pub fn stream<S: Service>(&self, request: &S::Request) -> Result<Parts<S>, ClientError> {
        self.parts::<S>(request, Waiting::Stream)
    }

    /// The same for what waits for something to happen, which is not given up while the leader lacks room on its
    /// disk.
    pub fn feed<S: Service>(&self, request: &S::Request) -> Result<Parts<S>, ClientError> {
        self.parts::<S>(request, Waiting::Feed)
    }

    fn parts<S: Service>(
        &self,
        request: &S::Request,
        waiting: Waiting,
    ) -> Result<Parts<S>, ClientError> {
        let sent = self.open::<S>(request, Bytes::new(), waiting, Target::Service)?;
        let commands = self.commands.clone();
        Ok(Parts {
            matchtag: sent.matchtag,
            answers: sent.answers,
            commands,
            state: Flow::Open,
            service: PhantomData,
        })
    }

    fn open<S: Service>(
        &self,
        request: &S::Request,
        tail: Bytes,
        waiting: Waiting,
        target: Target,
    ) -> Result<Sent, ClientError> {
        // The number is taken here and not by the driver, so that a stream can
        // be taken back before the driver has seen it.
        let message = Message::request(S::TOPIC, next_matchtag(), request)
            .with_tail(tail)
            .to(target);
        self.send(S::TOPIC, &message, waiting)
    }

    fn send(
        &self,
        topic: &'static str,
        message: &Message,
        waiting: Waiting,
    ) -> Result<Sent, ClientError> {
        let bytes = message
            .encode()
            .map_err(|source| ClientError::Request { topic, source })?;
        let (answers, received) = mpsc::channel(PARTS_WAITING_MAX);
        let matchtag = message.matchtag;
        let command = Command::Send {
            matchtag,
            bytes,
            waiting,
            answers,
        };
        self.commands.send(command).map_err(|_| self.lost())?;
        Ok(Sent {
            matchtag,
            answers: received,
        })
    }

    fn lost(&self) -> ClientError {
        ClientError::Lost {
            path: self.uri.path().to_owned(),
        }
    }
}

/// A request that is under way.
struct Sent {
    matchtag: u64,
    answers: mpsc::Receiver<Answer>,
}

/// Match numbers are unique in a process, which is more than a connection needs.
fn next_matchtag() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn read<S: Service, T: DeserializeOwned>(message: &Message) -> Result<T, ClientError> {
    serde_json::from_slice(&message.body).map_err(|error| ClientError::Answer {
        topic: S::TOPIC,
        why: error.to_string(),
    })
}

fn answered<S: Service>(answer: Answer) -> Result<(S::Reply, Bytes), ClientError> {
    let message = answer?;
    match message.kind {
        Type::Refused => Err(refusal::<S>(&message)),
        _ => Ok((read::<S, S::Reply>(&message)?, message.tail)),
    }
}

fn refusal<S: Service>(message: &Message) -> ClientError {
    match read::<S, _>(message) {
        Ok(refusal) => ClientError::Refused(refusal),
        Err(error) => error,
    }
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Open,
    Ended,
}

/// The answers of one streaming call, in order. Dropped early, it tells the
/// instance to stop.
#[derive(Debug)]
pub struct Parts<S: Service> {
    matchtag: u64,
    answers: mpsc::Receiver<Answer>,
    commands: mpsc::UnboundedSender<Command>,
    state: Flow,
    service: PhantomData<fn() -> S>,
}

impl<S: Service> Parts<S> {
    /// The next answer with its tail; `None` after the last. May be dropped
    /// while it waits without losing anything.
    pub async fn next(&mut self) -> Option<Result<(S::Reply, Bytes), ClientError>> {
        if self.state == Flow::Ended {
            return None;
        }
        let answer = match self.answers.recv().await {
            Some(Ok(message)) => self.part(message),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        };
        if !matches!(answer, Some(Ok(_))) {
            self.state = Flow::Ended;
        }
        answer
    }

    fn part(&mut self, message: Message) -> Option<Result<(S::Reply, Bytes), ClientError>> {
        match message.kind {
            Type::Refused => match refusal::<S>(&message) {
                error if error.code() == Some(Code::End) => None,
                error => Some(Err(error)),
            },
            // The last answer may be an empty one that only says so.
            Type::Reply if matches!(message.body.as_ref(), b"" | b"null") => None,
            kind => {
                if kind == Type::Reply {
                    self.state = Flow::Ended;
                }
                Some(read::<S, S::Reply>(&message).map(|reply| (reply, message.tail)))
            }
        }
    }
}

impl<S: Service> Drop for Parts<S> {
    fn drop(&mut self) {
        // Also after the end: the driver knows whether there is anything to stop.
        let _ = self.commands.send(Command::Cancel {
            matchtag: self.matchtag,
        });
    }
}
