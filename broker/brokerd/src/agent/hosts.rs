//! The ranks of inner instances that a rank hosts on its node: begun and ended
//! by the word of its leader.
//!
//! Used by [`super::following`]. Each is a task of this process; an order that
//! is repeated changes nothing, one that differs begins the rank anew.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;

use eddy_wire::tree::HostOrder;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};

use super::following::{Following, Post};
use super::{AgentError, Common};
use crate::shell::procfs::{MARKER_VARIABLE, Marker};

/// Name of the directory with the state directories of inner instances' ranks.
const CHILDREN: &str = "children";

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
}

#[derive(Debug)]
struct Hosted {
    order: HostOrder,
    /// Dropped, it ends the rank.
    _stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Hosts {
    /// None yet, for this rank.
    pub fn new(post: &Post, common: Rc<Common>) -> Hosts {
        let outer = std::env::var(MARKER_VARIABLE).ok();
        Hosts {
            common,
            instance: post.instance.clone(),
            node: post.node,
            statedir: post.statedir.clone(),
            marker: post.marker.clone().or(outer),
            hosted: BTreeMap::new(),
            ending: Vec::new(),
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
        let task = spawn_local(async move {
            // The one before has the same sockets: its end comes first.
            if let Some(before) = before {
                let _ = before.await;
            }
            host_one(post, common, stopped).await;
        });
        let hosted = Hosted {
            order,
            _stop: stop,
            task,
        };
        self.hosted.insert(hosted.order.instance.clone(), hosted);
    }

    /// Hosts that instance no more.
    pub fn unhost(&mut self, instance: &str) {
        let Some(hosted) = self.hosted.remove(instance) else {
            return;
        };
        tracing::info!(instance, "hosts a rank no more");
        self.ending.retain(|task| !task.is_finished());
        self.ending.push(hosted.task);
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

    fn post(&self, order: &HostOrder) -> Post {
        let marker = Marker {
            instance: self.instance.clone(),
            job: order.job.0,
            attempt: order.attempt.0,
            rank: self.node,
        };
        let marker = match &self.marker {
            None => marker.to_string(),
            Some(outer) => format!("{outer}:{marker}"),
        };
        let name = format!("{}.{}", order.job.0, order.attempt.0);
        Post {
            instance: order.instance.clone(),
            rank: order.rank,
            node: order.rank.0,
            leader: order.door.clone(),
            statedir: self.statedir.join(CHILDREN).join(name),
            marker: Some(marker),
        }
    }
}

async fn host_one(post: Post, common: Rc<Common>, stop: oneshot::Receiver<()>) {
    let (instance, rank) = (post.instance.clone(), post.rank.0);
    let begun: Result<Following, AgentError> = super::make(&post.statedir)
        .map_err(super::io("make the state directory"))
        .and_then(|()| Following::begin(post, common));
    match begun {
        Ok(following) => {
            following.run(stop).await;
        }
        // Ordered again with the leader's next tenure.
        Err(error) => tracing::error!(instance, rank, "a rank cannot be hosted: {error}"),
    }
}
