//! Streams that go on over a restart of the leader.
//!
//! Each feed remembers how far it came, asks again from there after a loss,
//! and drops what it has already given out. Used by attach, wait, eventlog,
//! watch; they never give the same line twice.

use std::collections::BTreeSet;
use std::task::Poll;

use bytes::Bytes;
use eddy_wire::id::{Attempt, JobId, Seq};
use eddy_wire::resource_set::RANKS_MAX;
use eddy_wire::services::Service;
use eddy_wire::services::instance::{Stream, StreamReply, StreamRequest};
use eddy_wire::services::job::{
    Events, EventsLine, EventsReply, EventsRequest, JobEnd, JobSet, Output, OutputReply,
    OutputRequest, Wait, WaitRequest,
};
use eddy_wire::services::kvs::{Entry, KeyRequest, Watch};
use eddy_wire::time::Span;

use crate::client::{Client, Parts};
use crate::error::ClientError;
use crate::owners::owners;

/// How a stream is asked for anew, and what of an answer is new.
trait Progress {
    type Service: Service;
    type Item;

    /// What to ask now; `None` when all there was to ask is answered.
    fn request(&self) -> Option<<Self::Service as Service>::Request>;

    /// What of this answer was not given out before.
    fn take(&mut self, reply: <Self::Service as Service>::Reply, tail: Bytes)
    -> Option<Self::Item>;
}

/// A stream and how far it came.
struct Feed<P: Progress> {
    client: Client,
    parts: Option<Parts<P::Service>>,
    progress: P,
}

impl<P: Progress> Feed<P> {
    fn new(client: &Client, progress: P) -> Feed<P> {
        Feed {
            client: client.clone(),
            parts: None,
            progress,
        }
    }

    /// Sends the request without waiting for anything.
    fn open(&mut self) -> Result<(), ClientError> {
        if self.parts.is_none()
            && let Some(request) = self.progress.request()
        {
            self.parts = Some(self.client.feed::<P::Service>(&request)?);
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<P::Item>, ClientError> {
        loop {
            self.open()?;
            let Some(parts) = &mut self.parts else {
                return Ok(None);
            };
            match parts.next().await {
                Some(Ok((reply, tail))) => {
                    if let Some(item) = self.progress.take(reply, tail) {
                        return Ok(Some(item));
                    }
                }
                Some(Err(ClientError::Lost { .. })) => self.parts = None,
                Some(Err(error)) => return Err(error),
                None => return Ok(None),
            }
        }
    }
}

/// The events of one job, each once.
pub struct EventFeed(Feed<EventProgress>);

struct EventProgress {
    request: EventsRequest,
    seen: Seq,
}

impl Progress for EventProgress {
    type Service = Events;
    type Item = Vec<EventsLine>;

    fn request(&self) -> Option<EventsRequest> {
        Some(self.request.clone())
    }

    fn take(&mut self, reply: EventsReply, _: Bytes) -> Option<Vec<EventsLine>> {
        let mut lines = reply.lines;
        lines.retain(|line| line.seq > self.seen);
        self.seen = lines.last()?.seq;
        Some(lines)
    }
}

impl EventFeed {
    /// What happened to `job` and what will, until it is over.
    pub fn following(client: &Client, job: JobId) -> Result<EventFeed, ClientError> {
        EventFeed::with(
            client,
            EventsRequest {
                id: job,
                follow: true,
            },
        )
    }

    /// What happened to `job` so far.
    pub fn so_far(client: &Client, job: JobId) -> Result<EventFeed, ClientError> {
        EventFeed::with(
            client,
            EventsRequest {
                id: job,
                follow: false,
            },
        )
    }

    fn with(client: &Client, request: EventsRequest) -> Result<EventFeed, ClientError> {
        let mut feed = Feed::new(
            client,
            EventProgress {
                request,
                seen: Seq(0),
            },
        );
        feed.open()?;
        Ok(EventFeed(feed))
    }

    /// The next lines; `None` after the last. May be dropped while it waits.
    pub async fn next(&mut self) -> Result<Option<Vec<EventsLine>>, ClientError> {
        self.0.next().await
    }
}

/// The records of an instance from a place on, each once.
pub struct RecordFeed(Feed<RecordProgress>);

struct RecordProgress {
    request: StreamRequest,
}

impl Progress for RecordProgress {
    type Service = Stream;
    type Item = Vec<(Option<JobId>, EventsLine)>;

    fn request(&self) -> Option<StreamRequest> {
        Some(self.request.clone())
    }

    fn take(&mut self, reply: StreamReply, _: Bytes) -> Option<Self::Item> {
        let mut records = reply.records;
        records.retain(|(_, line)| line.seq >= self.request.from);
        // All lines of a record come in one answer.
        self.request.from = records.last()?.1.seq.next();
        Some(records)
    }
}

impl RecordFeed {
    /// What is recorded from `from` on, and what will be.
    pub fn following(client: &Client, from: Seq) -> Result<RecordFeed, ClientError> {
        RecordFeed::with(client, StreamRequest { from, follow: true })
    }

    /// What is recorded from `from` on so far.
    pub fn so_far(client: &Client, from: Seq) -> Result<RecordFeed, ClientError> {
        RecordFeed::with(
            client,
            StreamRequest {
                from,
                follow: false,
            },
        )
    }

    fn with(client: &Client, request: StreamRequest) -> Result<RecordFeed, ClientError> {
        let mut feed = Feed::new(client, RecordProgress { request });
        feed.open()?;
        Ok(RecordFeed(feed))
    }

    /// The next records; `None` after the last. May be dropped while it waits.
    pub async fn next(&mut self) -> Result<Option<Vec<(Option<JobId>, EventsLine)>>, ClientError> {
        self.0.next().await
    }
}

/// The output of one attempt of a job: frames of its spool, each once.
pub struct OutputFeed(Feed<OutputProgress>);

struct OutputProgress {
    request: OutputRequest,
    missing: String,
}

impl Progress for OutputProgress {
    type Service = Output;
    type Item = (OutputReply, Bytes);

    fn request(&self) -> Option<OutputRequest> {
        Some(self.request.clone())
    }

    fn take(&mut self, reply: OutputReply, frames: Bytes) -> Option<(OutputReply, Bytes)> {
        // The last answer is of no attempt and only says so.
        if reply.attempt == Attempt(0) {
            self.missing = reply.missing;
            return None;
        }
        // No job is on so many: nothing is kept for what cannot be.
        if u64::from(reply.node_index) >= RANKS_MAX {
            return None;
        }
        let at = reply.node_index as usize;
        // Another attempt has other spools, read from their beginning.
        if self.request.attempt != Some(reply.attempt) {
            self.request.attempt = Some(reply.attempt);
            self.request.offsets.clear();
        }
        if self.request.offsets.len() <= at {
            self.request.offsets.resize(at + 1, 0);
        }
        if reply.next <= self.request.offsets[at] {
            return None;
        }
        self.request.offsets[at] = reply.next;
        Some((reply, frames))
    }
}

impl OutputFeed {
    /// The output of an attempt of `job` (the latest if none is named), and
    /// what it will write, until it is over.
    pub fn following(
        client: &Client,
        job: JobId,
        attempt: Option<Attempt>,
    ) -> Result<OutputFeed, ClientError> {
        let request = OutputRequest {
            id: job,
            attempt,
            offsets: Vec::new(),
            follow: true,
        };
        let missing = String::new();
        let mut feed = Feed::new(client, OutputProgress { request, missing });
        feed.open()?;
        Ok(OutputFeed(feed))
    }

    /// The next frames; `None` after the last. May be dropped while it waits.
    pub async fn next(&mut self) -> Result<Option<(OutputReply, Bytes)>, ClientError> {
        self.0.next().await
    }

    /// After the last: the hosts (RFC 29) of whose output nothing could be told; empty is none.
    pub fn missing(&self) -> &str {
        &self.0.progress.missing
    }

    /// The attempt whose output came last.
    pub fn attempt(&self) -> Option<Attempt> {
        self.0.progress.request.attempt
    }
}

/// The ends of many jobs, each once. Jobs of several instances are waited for at
/// once, a stream for each instance.
pub struct EndFeed {
    client: Client,
    gather: Span,
    feeds: Vec<Feed<EndProgress>>,
}

struct EndProgress {
    left: Left,
    gather: Span,
}

/// Jobs not heard of yet: the ranges asked for, less those that ended.
struct Left {
    asked: JobSet,
    ended: BTreeSet<JobId>,
}

impl Left {
    fn ranges(&self) -> JobSet {
        self.asked.without(&self.ended)
    }
}

impl Progress for EndProgress {
    type Service = Wait;
    type Item = Vec<JobEnd>;

    fn request(&self) -> Option<WaitRequest> {
        let jobs = self.left.ranges();
        let gather = self.gather;
        (!jobs.is_empty()).then_some(WaitRequest { jobs, gather })
    }

    fn take(&mut self, mut ends: Vec<JobEnd>, _: Bytes) -> Option<Vec<JobEnd>> {
        ends.retain(|end| self.left.ended.insert(end.id));
        (!ends.is_empty()).then_some(ends)
    }
}

impl EndFeed {
    /// The ends of these jobs.
    pub fn of(client: &Client, jobs: JobSet) -> Result<EndFeed, ClientError> {
        EndFeed::gathered(client, jobs, Span::ZERO)
    }

    /// The same for who does not need each end at once: they may come so much later, together.
    pub fn gathered(client: &Client, jobs: JobSet, gather: Span) -> Result<EndFeed, ClientError> {
        Ok(EndFeed {
            client: client.clone(),
            gather,
            feeds: vec![ends_of(client, jobs, gather)?],
        })
    }

    /// The next ends; `None` after the last. May be dropped while it waits.
    pub async fn next(&mut self) -> Result<Option<Vec<JobEnd>>, ClientError> {
        loop {
            let Some((at, next)) = self.first_of_all().await else {
                return Ok(None);
            };
            match next {
                Ok(Some(ends)) => return Ok(Some(ends)),
                Ok(None) => drop(self.feeds.swap_remove(at)),
                Err(error) => self.split(at, error).await?,
            }
        }
    }

    /// What comes first from any of the streams, and from which; none without one.
    async fn first_of_all(&mut self) -> Option<(usize, Result<Option<Vec<JobEnd>>, ClientError>)> {
        if self.feeds.is_empty() {
            return None;
        }
        let feeds = self.feeds.iter_mut();
        let mut waits: Vec<_> = feeds.map(|feed| Box::pin(feed.next())).collect();
        let first = std::future::poll_fn(|context| {
            for (at, wait) in waits.iter_mut().enumerate() {
                if let Poll::Ready(next) = wait.as_mut().poll(context) {
                    return Poll::Ready((at, next));
                }
            }
            Poll::Pending
        });
        Some(first.await)
    }

    /// A refused stream of jobs of several instances becomes one for each.
    async fn split(&mut self, at: usize, error: ClientError) -> Result<(), ClientError> {
        // Whoever drops this while it waits finds the stream asked for again.
        self.feeds[at].parts = None;
        let jobs = self.feeds[at].progress.left.ranges();
        let mut feeds = Vec::new();
        for jobs in owners(&self.client, &jobs, error).await? {
            feeds.push(ends_of(&self.client, jobs, self.gather)?);
        }
        self.feeds.swap_remove(at);
        self.feeds.append(&mut feeds);
        Ok(())
    }
}

fn ends_of(client: &Client, jobs: JobSet, gather: Span) -> Result<Feed<EndProgress>, ClientError> {
    let left = Left {
        asked: jobs,
        ended: BTreeSet::new(),
    };
    let mut feed = Feed::new(client, EndProgress { left, gather });
    feed.open()?;
    Ok(feed)
}

/// A value of the instance, now and whenever it changes.
pub struct ValueFeed(Feed<ValueProgress>);

struct ValueProgress {
    key: String,
    seen: Option<Seq>,
}

impl Progress for ValueProgress {
    type Service = Watch;
    type Item = Entry;

    fn request(&self) -> Option<KeyRequest> {
        Some(KeyRequest {
            key: self.key.clone(),
        })
    }

    fn take(&mut self, entry: Entry, _: Bytes) -> Option<Entry> {
        if self.seen.is_some_and(|seen| entry.seq <= seen) {
            return None;
        }
        self.seen = Some(entry.seq);
        Some(entry)
    }
}

impl ValueFeed {
    /// The value of `key`.
    pub fn of(client: &Client, key: &str) -> Result<ValueFeed, ClientError> {
        let mut feed = Feed::new(
            client,
            ValueProgress {
                key: key.to_owned(),
                seen: None,
            },
        );
        feed.open()?;
        Ok(ValueFeed(feed))
    }

    /// The next value; `None` when the instance ends the stream.
    pub async fn next(&mut self) -> Result<Option<Entry>, ClientError> {
        self.0.next().await
    }
}
