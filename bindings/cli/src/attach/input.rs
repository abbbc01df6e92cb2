//! Our standard input on its way to the tasks of a job.
//!
//! Each portion says where it stands, so one that is sent again after a loss is not written twice. One is under way at
//! a time and is answered when the tasks have room for the next: who does not read holds up whoever writes to us, as
//! in a pipe. What was sent first is kept as long as it is not much, for an attempt that begins anew.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use eddy_client::{Client, ClientError, Options, Uri};
use eddy_wire::error::Code;
use eddy_wire::idset::Idset;
use eddy_wire::input::{Position, Taken};
use eddy_wire::services::job::{Input, InputReply, InputRequest};
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use super::{How, say};

/// Standard input read and sent at a time.
const INPUT_BYTES: usize = 32 << 10;
/// Pieces of input that wait to be sent.
const INPUT_WAITING: usize = 4;
/// What was taken is kept up to so much in all, for another attempt.
const KEPT_BYTES_MAX: u64 = 1 << 20;
/// The pause before input is offered again where there is no room or no way.
const INPUT_AGAIN: Duration = Duration::from_millis(50);

/// Our input being sent, by a task of its own.
pub struct Forwarding {
    starts: watch::Sender<()>,
    cut: Arc<AtomicBool>,
}

impl Forwarding {
    /// The tasks run: they may have it.
    pub fn begin(uri: Uri, options: Options, how: How) -> Forwarding {
        let (starts, started) = watch::channel(());
        let cut = Arc::<AtomicBool>::default();
        let sender = Sender {
            how,
            source: Uuid::now_v7(),
            pieces: None,
            input: Sent::default(),
            cut: Arc::clone(&cut),
        };
        tokio::spawn(sender.run(uri, options, started));
        Forwarding { starts, cut }
    }

    /// Tasks run again, of another attempt perhaps, which begins with the first byte.
    pub fn starts_again(&self) {
        self.starts.send_replace(());
    }

    /// Whether the tasks did not get all that they could have read.
    pub fn is_cut(&self) -> bool {
        self.cut.load(Ordering::SeqCst)
    }
}

/// What was read here and is not known to have been taken, and what is kept besides.
#[derive(Debug, Default)]
struct Sent {
    /// Where what is kept begins.
    first: u64,
    kept: Vec<u8>,
    /// Up to where the tasks have it.
    taken: u64,
    end: End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// More may come.
    #[default]
    Open,
    /// Nothing follows, which is to be said.
    Reached,
    /// It was said.
    Said,
}

/// What is to be sent.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    offset: u64,
    data: Bytes,
    end: bool,
}

impl Sent {
    fn total(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    fn push(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
    }

    /// The next portion, if there is something to say.
    fn next(&self) -> Option<Piece> {
        let from = usize::try_from(self.taken - self.first).expect("it is in memory");
        let rest = &self.kept[from..];
        let data = &rest[..rest.len().min(INPUT_BYTES)];
        let end = data.is_empty() && self.end == End::Reached;
        (end || !data.is_empty()).then(|| Piece {
            offset: self.taken,
            data: Bytes::copy_from_slice(data),
            end,
        })
    }

    /// A question how far the tasks are, which says the end again if it was said.
    fn again(&mut self) -> Piece {
        let end = self.taken == self.total() && self.end != End::Open;
        if self.end == End::Said {
            self.end = End::Reached;
        }
        Piece {
            offset: self.taken,
            data: Bytes::new(),
            end,
        }
    }

    /// The tasks have all before `next`. Refused with what they miss, if that is kept no more.
    fn go_on(&mut self, next: u64, said: &Piece) -> Result<(), Missing> {
        if next < self.first || next > self.total() {
            let missing = Missing {
                from: next,
                to: self.first,
            };
            *self = Sent {
                first: next,
                kept: Vec::new(),
                taken: next,
                end: End::Reached,
            };
            return Err(missing);
        }
        self.taken = next;
        if said.end && next == said.offset {
            self.end = End::Said;
        }
        if self.total() > KEPT_BYTES_MAX {
            let known = usize::try_from(next - self.first).expect("it is in memory");
            self.kept.drain(..known);
            self.first = next;
        }
        Ok(())
    }
}

/// Bytes that the tasks miss and nobody has any more.
#[derive(Debug, PartialEq, Eq)]
struct Missing {
    from: u64,
    to: u64,
}

/// Whether it is to be gone on with sending.
enum Course {
    On,
    /// Not before tasks run again.
    NextStart,
    Over,
}

struct Sender {
    how: How,
    source: Uuid,
    /// What is read here; nothing is before somebody takes it.
    pieces: Option<mpsc::Receiver<io::Result<Bytes>>>,
    input: Sent,
    cut: Arc<AtomicBool>,
}

impl Sender {
    async fn run(mut self, uri: Uri, options: Options, mut starts: watch::Receiver<()>) {
        let client = loop {
            match Client::connect(&uri, options.clone()).await {
                Ok(client) => break client,
                // Whoever is with the job says so, and ends when it is of no use.
                Err(_) => tokio::time::sleep(INPUT_AGAIN).await,
            }
        };
        let mut piece = Some(self.input.again());
        loop {
            piece = match piece.or_else(|| self.input.next()) {
                Some(piece) => match self.send(&client, piece).await {
                    Course::On => None,
                    Course::NextStart if starts.changed().await.is_ok() => Some(self.input.again()),
                    Course::NextStart | Course::Over => return,
                },
                None => tokio::select! {
                    () = self.read() => None,
                    started = starts.changed() => match started {
                        Ok(()) => Some(self.input.again()),
                        Err(_) => return,
                    },
                },
            };
        }
    }

    /// Takes what there is of our input.
    async fn read(&mut self) {
        if self.input.end != End::Open {
            return std::future::pending().await;
        }
        let pieces = self.pieces.get_or_insert_with(read_input);
        match pieces.recv().await {
            Some(Ok(bytes)) => self.input.push(&bytes),
            Some(Err(error)) => {
                self.input.end = End::Reached;
                self.complain(&format!("it cannot be read: {error}"));
            }
            None => self.input.end = End::Reached,
        }
    }

    async fn send(&mut self, client: &Client, piece: Piece) -> Course {
        let request = InputRequest {
            id: self.how.job,
            tasks: Idset::new(),
            eof: piece.end,
            at: Some(Position {
                source: self.source,
                offset: piece.offset,
            }),
        };
        let answer = loop {
            match client
                .call_with_tail::<Input>(&request, piece.data.clone())
                .await
            {
                Err(error) if is_passing(&error) => tokio::time::sleep(INPUT_AGAIN).await,
                other => break other,
            }
        };
        match answer {
            Ok((Some(reply), _)) => self.answered(&reply, &piece),
            // Between two attempts, or after the last.
            Err(error) if error.code() == Some(Code::NotFound) => Course::NextStart,
            // Who may not send may not see either: whoever is with the job says so, and ends.
            Err(error) if error.code() == Some(Code::Denied) => Course::Over,
            Ok((None, _)) => {
                self.give_up(client, "the instance does not say what became of it")
                    .await
            }
            Err(error) => self.give_up(client, &error.to_string()).await,
        }
    }

    fn answered(&mut self, reply: &InputReply, piece: &Piece) -> Course {
        match reply.taken {
            Taken::Kept => {
                if let Err(Missing { from, to }) = self.input.go_on(reply.next, piece) {
                    self.complain(&format!(
                        "the tasks have {from} bytes of it, and what is kept here begins at {to}; it ends there"
                    ));
                }
                Course::On
            }
            // As where nobody reads a pipe.
            Taken::Unread | Taken::Elsewhere => Course::NextStart,
            Taken::Over | Taken::Later | Taken::Crowded => {
                self.complain("somebody else who sends input to the job ended it");
                Course::NextStart
            }
        }
    }

    /// The rest of our input goes nowhere: the tasks are told that it ends.
    async fn give_up(&mut self, client: &Client, why: &str) -> Course {
        self.complain(why);
        let end = InputRequest {
            id: self.how.job,
            tasks: Idset::new(),
            eof: true,
            at: None,
        };
        // Of whoever does not take even that nothing more can be had.
        let _ = client.call::<Input>(&end).await;
        Course::Over
    }

    fn complain(&self, why: &str) {
        if !self.cut.swap(true, Ordering::SeqCst) {
            say(self.how.verb, &format!("standard input is cut: {why}"));
        }
    }
}

/// Whether the same may be taken later: there was no room, or no way.
fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::Refused(refusal) => matches!(
            refusal.code,
            Code::Busy | Code::NotReady | Code::Unreachable
        ),
        ClientError::Lost { .. }
        | ClientError::Unreachable { .. }
        | ClientError::Lacking { .. }
        | ClientError::Silent { .. } => true,
        _ => false,
    }
}

/// Reads our input on a thread of its own, as fast as it is taken.
fn read_input() -> mpsc::Receiver<io::Result<Bytes>> {
    let (pieces, read) = mpsc::channel(INPUT_WAITING);
    std::thread::spawn(move || {
        let mut stdin = io::stdin().lock();
        let mut buffer = vec![0; INPUT_BYTES];
        loop {
            let piece = match stdin.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => Ok(Bytes::copy_from_slice(&buffer[..read])),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The terminal is gone, which is its end.
                Err(error) if error.raw_os_error() == Some(EIO) => return,
                Err(error) => Err(error),
            };
            let is_last = piece.is_err();
            if pieces.blocking_send(piece).is_err() || is_last {
                return;
            }
        }
    });
    read
}

/// What reading from a terminal that is gone is refused with.
const EIO: i32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// Has it sent until there is nothing to say; the tasks have `next` bytes after each portion.
    fn taken(input: &mut Sent) {
        while let Some(piece) = input.next() {
            let next = piece.offset + piece.data.len() as u64;
            input.go_on(next, &piece).expect("it is kept");
        }
    }

    #[test]
    fn what_was_not_taken_is_sent_again_from_there() {
        let mut input = Sent::default();
        input.push(b"abcdef");
        let piece = input.next().expect("something");
        input.go_on(2, &piece).expect("it is kept");
        assert_eq!(input.next().expect("something").data, "cdef");
        taken(&mut input);
        input.end = End::Reached;
        assert!(input.next().expect("the end").end);
        taken(&mut input);
        assert_eq!(input.next(), None);
    }

    #[test]
    fn another_attempt_has_all_of_a_short_input_and_its_end() {
        let mut input = Sent::default();
        input.push(b"abc");
        input.end = End::Reached;
        taken(&mut input);
        let asked = input.again();
        input.go_on(0, &asked).expect("it is kept");
        assert_eq!(input.next().expect("something").data, "abc");
        taken(&mut input);
        assert_eq!(input.end, End::Said);
    }

    #[test]
    fn of_a_long_input_another_attempt_has_nothing_and_that_is_said() {
        let mut input = Sent::default();
        for _ in 0..40 {
            input.push(&[7; INPUT_BYTES]);
            taken(&mut input);
        }
        let to = 40 * INPUT_BYTES as u64;
        let asked = input.again();
        assert_eq!(input.go_on(0, &asked), Err(Missing { from: 0, to }));
        let end = input.next().expect("its end");
        assert_eq!((end.offset, end.end), (0, true));
        assert!(input.kept.is_empty());
    }
}
