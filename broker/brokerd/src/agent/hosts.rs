//! The ranks of inner instances that a rank hosts on its node: begun and ended
//! by the word of its leader.
//!
//! Used by [`super::following`]. Each is a task of this process; an order that
//! is repeated changes nothing, one that differs begins the rank anew.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use eddy_wire::shell::{FromShell, Part, PartState};
use eddy_wire::tree::HostOrder;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep};

use super::following::{Following, Post};
use super::{AgentError, Common};
use crate::shell::procfs::{MARKER_VARIABLE, Marker};

/// Name of the directory with the state directories of inner instances' ranks.
const CHILDREN: &str = "children";
/// How long a rank is hosted on that the leader has not ordered in its present
/// tenure: that it is over may have been said when nobody heard it. Far longer
/// than a leader inside takes to be started again and to say hello; one that
/// takes still longer has its rank hosted anew, which holds nothing.
const UNCLAIMED_MAX: Duration = Duration::from_secs(300);
/// Before a rank is begun again that could not, for want of room or descriptors.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

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
    /// When those are given up that were not ordered in this tenure.
    due: Option<Instant>,
    /// Those that were told to end, with their instance.
    ending: Vec<(String, JoinHandle<()>)>,
}

#[derive(Debug)]
struct Hosted {
    order: HostOrder,
    claim: Claim,
    /// Dropped, it ends the rank.
    _stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Whether it was ordered in the leader's present tenure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    Ordered,
    Before,
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
            due: None,
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

    /// The leader's tenure begins: all that is to go on is ordered again.
    pub fn tenure(&mut self) {
        let hosted = self.hosted.values_mut();
        hosted.for_each(|hosted| hosted.claim = Claim::Before);
        self.due = (!self.hosted.is_empty()).then(|| Instant::now() + UNCLAIMED_MAX);
    }

    /// When [`Hosts::drop_unclaimed`] is due.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Hosts no more what was not ordered in this tenure.
    pub fn drop_unclaimed(&mut self) {
        self.due = None;
        let hosted = self.hosted.iter();
        let unclaimed = hosted.filter(|(_, hosted)| hosted.claim == Claim::Before);
        let names: Vec<String> = unclaimed.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.unhost(name));
    }

    /// Hosts what is ordered.
    pub fn host(&mut self, order: HostOrder) {
        let before = self.hosted.remove(&order.instance);
        let before = match before {
            Some(mut hosted) if hosted.order == order && !hosted.task.is_finished() => {
                hosted.claim = Claim::Ordered;
                self.hosted.insert(order.instance.clone(), hosted);
                return;
            }
            Some(hosted) => Some(hosted.task),
            // An instance that its parent declared goes on in another job.
            None => self.ending_of(&order.instance),
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
            claim: Claim::Ordered,
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
        self.ending.retain(|(_, task)| !task.is_finished());
        self.ending.push((instance.to_owned(), hosted.task));
    }

    /// What the shell of this node says: where the ground of an instance is over
    /// nothing of it is hosted, whether or not the leader can say so.
    pub fn given_up(&mut self, word: &FromShell) {
        match word {
            FromShell::Ended { part, .. } => self.unhost_part(part),
            FromShell::Hello { parts, .. } => {
                let over = parts.iter();
                let over = over.filter(|(_, state)| matches!(state, PartState::Ended(_)));
                over.for_each(|(part, _)| self.unhost_part(part));
            }
            FromShell::Started { .. } | FromShell::NotMine { .. } | FromShell::Output { .. } => {}
        }
    }

    fn unhost_part(&mut self, part: &Part) {
        let within = |order: &HostOrder| (order.job, order.attempt) == (part.job, part.attempt);
        let hosted = self.hosted.iter();
        let over = hosted.filter(|(_, hosted)| within(&hosted.order));
        let names: Vec<String> = over.map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.unhost(name));
    }

    fn ending_of(&mut self, instance: &str) -> Option<JoinHandle<()>> {
        let at = self.ending.iter().rposition(|(of, _)| of == instance)?;
        Some(self.ending.remove(at).1)
    }

    /// Ends all of them.
    pub async fn end(&mut self) {
        for (instance, hosted) in std::mem::take(&mut self.hosted) {
            self.ending.push((instance, hosted.task));
        }
        for (_, task) in self.ending.drain(..) {
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
