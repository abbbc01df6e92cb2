//! The ranks of inner instances that a rank hosts on its node: begun and ended
//! by the word of its leader.
//!
//! Used by [`super::following`]. Each is a task of this process; an order that
//! is repeated changes nothing, one that differs begins the rank anew. A rank
//! that is hosted no more has stopped before what it started is ended, so that
//! nothing begins meanwhile; when this process ends, shells go on.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use eddy_wire::tree::HostOrder;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, spawn_blocking, spawn_local};
use tokio::time::sleep;

use super::following::{Following, Post};
use super::guest::host_as;
use super::{AgentError, Common};
use crate::shell::leftover::end_within;
use crate::shell::procfs::{MARKER_VARIABLE, Marker};

/// Name of the directory with the state directories of inner instances' ranks.
const CHILDREN: &str = "children";

/// Before a rank is begun again that could not, for want of room or descriptors.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// Before the first look whether what was killed has ended; doubled each time.
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// The longest time between two looks.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The ranks hosted, by instance.
#[derive(Debug)]
pub struct Hosts {
    common: Rc<Common>,
    /// Instance, place and state directory of the rank that hosts.
    instance: String,
    node: u32,
    statedir: PathBuf,
    marker: Option<String>,
    hosted: BTreeMap<String, Hosted>,
    /// Those that were told to end.
    ending: Vec<JoinHandle<()>>,
    /// Where it is told that one has ended, with all that it started.
    ended: mpsc::UnboundedSender<String>,
}

#[derive(Debug)]
struct Hosted {
    order: HostOrder,
    /// Dropped, it ends the rank.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Hosts {
    /// None yet, for this rank; what is hosted no more is told there.
    pub fn new(post: &Post, common: Rc<Common>, ended: mpsc::UnboundedSender<String>) -> Hosts {
        let outer = std::env::var(MARKER_VARIABLE).ok();
        Hosts {
            common,
            instance: post.instance.clone(),
            node: post.node,
            statedir: post.statedir.clone(),
            marker: post.marker.clone().or(outer),
            hosted: BTreeMap::new(),
            ending: Vec::new(),
            ended,
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.hosted.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hosted.is_empty()
    }

    /// Hosts what is ordered.
    pub fn host(&mut self, order: HostOrder) {
        let before = self.hosted.remove(&order.instance);
        let before = match before {
            Some(hosted) if hosted.order == order && !hosted.task.is_finished() => {
                self.hosted.insert(order.instance.clone(), hosted);
                return;
            }
            Some(hosted) => Some(hosted.task),
            None => None,
        };
        tracing::info!(instance = order.instance, rank = order.rank.0, job = %order.job, "hosts a rank");
        let (stop, stopped) = oneshot::channel();
        let (post, common) = (self.post(&order), Rc::clone(&self.common));
        let user = order.user;
        let task = spawn_local(async move {
            // The one before has the same sockets: its end comes first.
            if let Some(before) = before {
                let _ = before.await;
            }
            match &common.starter {
                _ if user == common.owner => host_one(post, common, stopped).await,
                Some(starter) => host_as(user, post, &common, starter, stopped).await,
                None => {
                    let owner = common.owner;
                    tracing::error!(user, owner, "a rank of another user cannot be hosted here");
                }
            }
        });
        let hosted = Hosted { order, stop, task };
        self.hosted.insert(hosted.order.instance.clone(), hosted);
    }

    /// Hosts that instance no more: its rank ends, then its shells and whatever
    /// else runs within its job's part on this node.
    pub fn unhost(&mut self, instance: String) {
        let ended = self.ended.clone();
        let Some(Hosted { order, stop, task }) = self.hosted.remove(&instance) else {
            // Nobody waits for it when the rank that hosts is gone.
            let _ = ended.send(instance);
            return;
        };
        tracing::info!(instance, "hosts a rank no more");
        let marker = self.marker_of(&order);
        drop(stop);
        self.ending.retain(|task| !task.is_finished());
        let (stopped, has_stopped) = oneshot::channel::<()>();
        self.ending.push(spawn_local(async move {
            // One that panicked has ended, too.
            let _ = task.await;
            drop(stopped);
        }));
        spawn_local(async move {
            // An end of the sender is the word.
            let _ = has_stopped.await;
            clear(marker).await;
            let _ = ended.send(instance);
        });
    }

    /// Ends all of them.
    pub async fn end(&mut self) {
        let hosted = std::mem::take(&mut self.hosted);
        let tasks = hosted.into_values().map(|hosted| hosted.task);
        self.ending.extend(tasks);
        for task in self.ending.drain(..) {
            // One that panicked has ended, too.
            let _ = task.await;
        }
    }

    /// What marks everything within that job's part on this node.
    fn marker_of(&self, order: &HostOrder) -> Marker {
        Marker {
            instance: self.instance.clone(),
            job: order.job.0,
            attempt: order.attempt.0,
            rank: self.node,
        }
    }

    fn post(&self, order: &HostOrder) -> Post {
        let marker = self.marker_of(order);
        let marker = match &self.marker {
            None => marker.to_string(),
            Some(outer) => format!("{outer}:{marker}"),
        };
        let name = match &order.name {
            // What its shells keep there is asked for after its next job has begun.
            Some(name) => name.clone(),
            None => format!("{}.{}", order.job.0, order.attempt.0),
        };
        Post {
            instance: order.instance.clone(),
            job: Some(match order.child {
                Some(of) => (of.job, of.attempt),
                None => (order.job, order.attempt),
            }),
            rank: order.rank,
            node: order.rank.0,
            leader: order.door.clone(),
            statedir: self.statedir.join(CHILDREN).join(name),
            marker: Some(marker),
        }
    }
}

/// Ends what is within that part, and looks until nothing is.
async fn clear(marker: Marker) {
    let markers = BTreeSet::from([marker]);
    let mut pause = LOOK_PAUSE;
    loop {
        let looked = markers.clone();
        match spawn_blocking(move || end_within(&looked)).await {
            Ok(Ok(within)) if within.busy.is_empty() => {
                for (process, errno) in &within.refused {
                    let pid = process.pid;
                    tracing::error!(?markers, pid, errno, "a left-over stays");
                }
                return;
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!(?markers, %error, "cannot look what is left"),
            Err(error) => tracing::error!(?markers, %error, "a look did not end"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(LOOK_PAUSE_MAX);
    }
}

async fn host_one(post: Post, common: Rc<Common>, mut stop: oneshot::Receiver<()>) {
    let (instance, rank) = (post.instance.clone(), post.rank.0);
    loop {
        let begun: Result<Following, AgentError> = super::make(&post.statedir)
            .map_err(super::io("make the state directory"))
            .and_then(|()| Following::begin(post.clone(), Rc::clone(&common)));
        match begun {
            Ok(following) => {
                following.run(stop).await;
                return;
            }
            // The order stands, and is not repeated while the leader is reached.
            Err(error) => tracing::error!(instance, rank, "a rank cannot be hosted: {error}"),
        }
        tokio::select! {
            _ = &mut stop => return,
            () = sleep(FAILURE_PAUSE) => {}
        }
    }
}
