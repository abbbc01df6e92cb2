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
    /// Those that were told to end, by instance.
    ending: Vec<(String, JoinHandle<()>)>,
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
        let mut before = match before {
            Some(hosted) if hosted.order == order && !hosted.task.is_finished() => {
                self.hosted.insert(order.instance.clone(), hosted);
                return;
            }
            Some(hosted) => vec![hosted.task],
            None => Vec::new(),
        };
        before.extend(self.take_ending(&order.instance));
        tracing::info!(instance = order.instance, rank = order.rank.0, job = %order.job, "hosts a rank");
        let (stop, stopped) = oneshot::channel();
        let (post, common) = (self.post(&order), Rc::clone(&self.common));
        let user = order.user;
        let task = spawn_local(async move {
            // The one before has the same state directory, and takes its sockets away as it ends: that comes first.
            for before in before {
                let _ = before.await;
            }
            match &common.starters {
                _ if user == common.owner => host_one(post, common, stopped).await,
                Some(starters) => host_as(user, post, &common, starters, stopped).await,
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
        self.ending.retain(|(_, task)| !task.is_finished());
        let (stopped, has_stopped) = oneshot::channel::<()>();
        let ending = spawn_local(async move {
            // One that panicked has ended, too.
            let _ = task.await;
            drop(stopped);
        });
        self.ending.push((instance.clone(), ending));
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
        let ending = self.ending.drain(..).map(|(_, task)| task);
        for task in ending.chain(tasks) {
            // One that panicked has ended, too.
            let _ = task.await;
        }
    }

    /// Those ranks of an instance that were told to end.
    fn take_ending(&mut self, instance: &str) -> Vec<JoinHandle<()>> {
        let (own, others) = std::mem::take(&mut self.ending)
            .into_iter()
            .partition(|(of, _)| of == instance);
        self.ending = others;
        own.into_iter().map(|(_, task): (String, _)| task).collect()
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

#[cfg(test)]
mod tests {
    use eddy_wire::id::{Attempt, JobId, Rank};

    use super::*;
    use crate::config::Transport;
    use crate::rundir::{LOCAL_SOCKET, recorded};

    const INSTANCE: &str = "11111111-2222-4333-8444-555555555555";

    fn order(job: u64, user: u32) -> HostOrder {
        HostOrder {
            instance: INSTANCE.to_owned(),
            job: JobId(job),
            attempt: Attempt(1),
            child: None,
            name: Some("batch".to_owned()),
            user,
            rank: Rank(1),
            door: "/nowhere/door".to_owned(),
        }
    }

    /// The rank of one job of a queue instance and that of its next have one state directory: whoever ended last
    /// took the sockets of whoever began first, whose shells then found none.
    #[test]
    fn a_rank_begins_when_the_one_that_was_told_to_end_has_ended() {
        let directory = tempfile::tempdir().expect("a directory");
        let owner = rustix::process::getuid().as_raw();
        let runtime = directory.path().to_string_lossy().into_owned();
        let common = Rc::new(Common {
            owner,
            transport: Transport::Stream,
            fanout: 16,
            nofile: None,
            runtime: Some(runtime),
            starters: None,
        });
        let post = Post {
            instance: "99999999-2222-4333-8444-555555555555".to_owned(),
            job: None,
            rank: Rank(1),
            node: 1,
            leader: "/nowhere/door".to_owned(),
            statedir: directory.path().join("state"),
            marker: None,
        };
        let state = directory.path().join("state/children/batch");
        let is_there = || {
            let rundir = recorded(&state);
            rundir.is_some_and(|rundir| rundir.join(LOCAL_SOCKET).exists())
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let all = tokio::task::LocalSet::new();
        runtime.expect("a runtime").block_on(all.run_until(async {
            let (ended, mut told) = mpsc::unbounded_channel();
            let mut hosts = Hosts::new(&post, common, ended);
            // One that is told to end, and does not before it may.
            let (may_end, slow) = oneshot::channel::<()>();
            let (stop, _stopped) = oneshot::channel();
            let task = spawn_local(async move { drop(slow.await) });
            let first = Hosted {
                order: order(1, owner),
                stop,
                task,
            };
            hosts.hosted.insert(INSTANCE.to_owned(), first);
            hosts.unhost(INSTANCE.to_owned());
            hosts.host(order(2, owner));
            for _ in 0..1_000 {
                tokio::task::yield_now().await;
            }
            assert!(!is_there(), "it began before the other's end");
            drop(may_end);
            assert_eq!(told.recv().await.as_deref(), Some(INSTANCE));
            while !is_there() {
                tokio::task::yield_now().await;
            }
            hosts.end().await;
        }));
    }

    /// Nodes of one machine are pretended, or rented one by one: the next life of an instance counts its ranks anew,
    /// and one has the number on another node that another of the life before has, which is ending.
    #[test]
    fn a_rank_that_ends_takes_no_sockets_of_the_next_life_on_another_node() {
        let directory = tempfile::tempdir().expect("a directory");
        let owner = rustix::process::getuid().as_raw();
        let common = Rc::new(Common {
            owner,
            transport: Transport::Stream,
            fanout: 16,
            nofile: None,
            runtime: Some(directory.path().to_string_lossy().into_owned()),
            starters: None,
        });
        let state = |node: u32| directory.path().join(format!("ranks/{node}"));
        let hosts = |node: u32| {
            let post = Post {
                instance: "99999999-2222-4333-8444-555555555555".to_owned(),
                job: None,
                rank: Rank(node),
                node,
                leader: "/nowhere/door".to_owned(),
                statedir: state(node),
                marker: None,
            };
            let (ended, told) = mpsc::unbounded_channel();
            (Hosts::new(&post, Rc::clone(&common), ended), told)
        };
        let local = |node: u32| {
            let rundir = recorded(&state(node).join("children/batch"));
            rundir.map(|rundir| rundir.join(LOCAL_SOCKET))
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let all = tokio::task::LocalSet::new();
        runtime.expect("a runtime").block_on(all.run_until(async {
            let ((mut first, mut told), (mut second, _)) = (hosts(1), hosts(2));
            first.host(order(1, owner));
            while !local(1).is_some_and(|socket| socket.exists()) {
                tokio::task::yield_now().await;
            }
            second.host(order(2, owner));
            while !local(2).is_some_and(|socket| socket.exists()) {
                tokio::task::yield_now().await;
            }
            first.unhost(INSTANCE.to_owned());
            assert_eq!(told.recv().await.as_deref(), Some(INSTANCE));
            let socket = local(2).expect("it is recorded");
            assert!(socket.exists(), "{} is gone", socket.display());
            second.end().await;
        }));
    }
}
