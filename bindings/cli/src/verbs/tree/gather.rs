//! The tree of instances as it is now: every instance is asked for those in it.
//!
//! Used by `eddy tree` and the demo. All instances of a level are asked at once,
//! each for at most a second: one that hangs is shown as such and hides only
//! what is in it. Connections are kept for the next look.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use eddy_client::resolve::PathError;
use eddy_client::{Client, ClientError, Options, Uri};
use eddy_wire::ending::Ends;
use eddy_wire::error::Code;
use eddy_wire::lifecycle::JobResult;
use eddy_wire::services::child::{
    ChildRow, Children, ChildrenRequest, NESTING_MAX, Stage, Summary,
};
use eddy_wire::services::instance::{Ping, PingRequest, Pong};
use eddy_wire::services::job::JobRow;
use eddy_wire::services::resource::List;
use eddy_wire::time::Time;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::ids;
use crate::listing::{Filter, Question, ended};

/// Why nobody but its user and root is told what is in an instance.
const ANOTHERS: &str = "another user's: what is in it is not shown";
/// How long one instance may take to answer.
const ANSWER: Duration = Duration::from_secs(1);
/// Instances asked at the same time.
const ASKED_MAX: usize = 64;
/// Jobs that are over are counted up to here, where the instance does not count them.
const OVER_MAX: u32 = 10_000;

/// Whose an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Somebody's who lets whoever asks in, as far as is known.
    Open,
    /// Another user's: the instance around it does not say where it is.
    Anothers,
}

/// One instance with those in it (fields documented in eddy-tree(1)).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Branch {
    /// From where the command looks: job ids with / between, empty for the first.
    pub path: String,
    /// Its path from the root, where it is the first of this tree.
    #[serde(skip)]
    pub place: String,
    /// The job that it is; none for the first.
    pub job: Option<u64>,
    /// The name it was declared under or its job has; none for the first.
    pub name: Option<String>,
    /// Where it is in its life.
    pub state: String,
    /// Whether it answered.
    pub reached: bool,
    /// Why it did not.
    pub why: Option<String>,
    /// Whether it may be asked.
    #[serde(skip)]
    pub whose: Whose,
    /// Nodes it has.
    pub nodes: u64,
    /// Cores it has.
    pub cores: u64,
    /// Its figures.
    #[serde(flatten)]
    pub summary: Summary,
    /// Its jobs that it left without an end; it is over then.
    pub unended: u64,
    /// When it ends by its limit.
    pub until: Option<Time>,
    /// Where it takes clients.
    pub uri: Option<String>,
    /// Instances in it.
    pub children: Vec<Branch>,
}

/// What is known of an instance before it is asked.
enum Known {
    /// The one the command began at.
    First(Client),
    /// What its parent says.
    Child(Box<ChildRow>),
}

/// Asks instances, and keeps connections to them.
pub struct Gatherer {
    first: Client,
    depth: u32,
    clients: Mutex<BTreeMap<String, Client>>,
    asked: Semaphore,
}

type Gathering = Pin<Box<dyn Future<Output = Branch> + Send>>;

impl Gatherer {
    /// For the tree below `first`, so many levels deep.
    pub fn new(first: Client, depth: Option<u32>) -> Arc<Gatherer> {
        Arc::new(Gatherer {
            first,
            depth: depth.unwrap_or(NESTING_MAX).min(NESTING_MAX),
            clients: Mutex::default(),
            asked: Semaphore::new(ASKED_MAX),
        })
    }

    /// The tree now.
    pub async fn look(self: &Arc<Self>) -> Branch {
        let first = Known::First(self.first.clone());
        let tree = self.clone().branch(first, String::new(), self.depth).await;
        let mut reached = Vec::new();
        uris(&tree, &mut reached);
        // Those that are over need no connection any more.
        let mut clients = self.clients.lock().expect("no holder panics");
        clients.retain(|uri, _| reached.contains(uri));
        tree
    }

    fn branch(self: Arc<Self>, known: Known, path: String, depth: u32) -> Gathering {
        Box::pin(async move {
            let mut branch = blank(&known, path);
            let Some(facts) = self.ask(&known, &mut branch).await else {
                return branch;
            };
            branch.reached = true;
            if let Known::First(client) = &known {
                branch.uri = Some(client.uri().to_string());
                branch.state.clone_from(&facts.pong.phase);
                branch.place.clone_from(&facts.pong.path);
                branch.nodes = facts.nodes;
                branch.cores = facts.cores;
                branch.summary = facts.summary;
                branch.unended = facts.unended;
                branch.until = facts.until;
            }
            let live = facts.children.into_iter();
            let live = live.filter(|row| row.stage != Stage::Over);
            if depth == 0 {
                return branch;
            }
            let mut below = JoinSet::new();
            for (at, row) in live.enumerate() {
                let path = match branch.path.as_str() {
                    "" => row.job.to_string(),
                    path => format!("{path}/{}", row.job),
                };
                let one = self
                    .clone()
                    .branch(Known::Child(Box::new(row)), path, depth - 1);
                below.spawn(async move { (at, one.await) });
            }
            let mut children = below.join_all().await;
            children.sort_by_key(|(at, _)| *at);
            branch.children = children.into_iter().map(|(_, child)| child).collect();
            branch
        })
    }

    /// What an instance says of itself; what is missing is put into `branch`.
    async fn ask(&self, known: &Known, branch: &mut Branch) -> Option<Facts> {
        let uri = match known {
            Known::First(_) => None,
            Known::Child(row) => match (row.stage, &row.uri) {
                (Stage::Serving | Stage::Away | Stage::Ending, Some(uri)) => Some(uri.clone()),
                // It has said where it is.
                (_, None) if row.instance.is_some() => {
                    branch.whose = Whose::Anothers;
                    branch.why = Some(ANOTHERS.to_owned());
                    return None;
                }
                _ => return None,
            },
        };
        let _permit = self.asked.acquire().await.expect("never closed");
        let answer = timeout(ANSWER, async {
            match (&uri, known) {
                (None, Known::First(client)) => first_facts(client).await,
                (Some(uri), _) => child_facts(&self.client(uri).await?).await,
                (None, Known::Child(_)) => unreachable!("a child that is asked has a URI"),
            }
        });
        let why = match answer.await {
            Ok(Ok(facts)) => return Some(facts),
            Ok(Err(error)) if is_turned_away(&error) => {
                // Who administers the instance around it knows where it is, and is let in no more than others.
                branch.whose = Whose::Anothers;
                ANOTHERS.to_owned()
            }
            Ok(Err(error)) => crate::output::one_line(&format!("{error:#}")),
            Err(_) => format!("no answer within {} s", ANSWER.as_secs()),
        };
        if let Some(uri) = &uri {
            self.clients.lock().expect("no holder panics").remove(uri);
        }
        branch.why = Some(why);
        None
    }

    async fn client(&self, uri: &str) -> anyhow::Result<Client> {
        if let Some(client) = self.clients.lock().expect("no holder panics").get(uri) {
            return Ok(client.clone());
        }
        let place: Uri = uri.parse()?;
        let client = Client::connect(&place, Options { wait: ANSWER }).await?;
        let mut clients = self.clients.lock().expect("no holder panics");
        clients.insert(uri.to_owned(), client.clone());
        Ok(client)
    }
}

/// Whether an instance lets nobody like us in: by its word, or by the modes of the directory that it is in.
pub fn is_turned_away(error: &anyhow::Error) -> bool {
    let on_the_way = || match error.downcast_ref() {
        Some(PathError::Client(error)) => Some(error),
        Some(_) | None => None,
    };
    match error.downcast_ref().or_else(on_the_way) {
        Some(ClientError::Refused(refusal)) => refusal.code == Code::Denied,
        Some(ClientError::Unreachable { path, .. }) => std::fs::symlink_metadata(path)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied),
        Some(_) | None => false,
    }
}

fn uris(branch: &Branch, found: &mut Vec<String>) {
    found.extend(branch.uri.clone().filter(|_| branch.reached));
    branch.children.iter().for_each(|child| uris(child, found));
}

/// What is known before anything was asked.
fn blank(known: &Known, path: String) -> Branch {
    let row = match known {
        Known::First(_) => None,
        Known::Child(row) => Some(row),
    };
    Branch {
        path,
        place: String::new(),
        job: row.map(|row| row.job.0),
        name: row.map(|row| row.name.clone()),
        state: row.map_or("unknown", |row| stage(row.stage)).to_owned(),
        reached: false,
        why: None,
        whose: Whose::Open,
        nodes: row.map_or(0, |row| row.nnodes.into()),
        cores: row.map_or(0, |row| row.ncores.into()),
        summary: row.map(|row| row.summary).unwrap_or_default(),
        unended: 0,
        until: row.and_then(|row| row.until),
        uri: row.and_then(|row| row.uri.clone()),
        children: Vec::new(),
    }
}

/// The word for where a child is in its life.
pub fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Waiting => "waiting",
        Stage::Starting => "starting",
        Stage::Serving => "serving",
        Stage::Away => "away",
        Stage::Ending => "ending",
        Stage::Over => "over",
    }
}

/// What an instance says of itself.
struct Facts {
    pong: Pong,
    nodes: u64,
    cores: u64,
    summary: Summary,
    unended: u64,
    /// When it ends by its limit.
    until: Option<Time>,
    children: Vec<ChildRow>,
}

impl Facts {
    /// Counts one that is not over, as `eddy jobs` calls it.
    fn count(&mut self, row: &JobRow) {
        let summary = &mut self.summary;
        match (row.t_unended, row.state.is_pending()) {
            (Some(_), _) => self.unended += 1,
            (None, true) => summary.pending += 1,
            (None, false) => summary.running += 1,
        }
    }
}

async fn child_facts(client: &Client) -> anyhow::Result<Facts> {
    let pong = client.call::<Ping>(&PingRequest::default()).await?;
    Ok(Facts {
        pong,
        nodes: 0,
        cores: 0,
        summary: Summary::default(),
        unended: 0,
        until: None,
        children: children(client).await?,
    })
}

async fn children(client: &Client) -> Result<Vec<ChildRow>, ClientError> {
    client.call::<Children>(&ChildrenRequest::default()).await
}

/// Nobody above the first one says what it has and does: it is asked itself.
async fn first_facts(client: &Client) -> anyhow::Result<Facts> {
    let resources = client.call::<List>(&()).await?;
    let mut facts = Facts {
        // Where its leader is it may have nothing else.
        nodes: resources
            .all
            .nodes
            .values()
            .filter(|node| !node.is_empty())
            .count() as u64,
        cores: resources.all.ncores() as u64,
        until: Some(Time(resources.all.expiration)).filter(|until| *until > Time(0)),
        ..child_facts(client).await?
    };
    let active = Question {
        filter: Filter::active(),
        here: true,
        ..Question::default()
    };
    facts.summary.cores_used = resources.allocated.ncores() as u64;
    for row in active.rows(client).await? {
        facts.count(&row);
    }
    let ends = match ended(client).await? {
        Some(ends) => ends,
        None => counted(client).await?,
    };
    let summary = &mut facts.summary;
    (summary.completed, summary.failed) = (ends.completed, ends.unwell());
    let inside = |row: &ChildRow| 1 + row.summary.instances;
    let live = facts.children.iter().filter(|row| row.stage != Stage::Over);
    summary.instances = live.map(inside).sum();
    Ok(facts)
}

/// How those ended that whoever asks is shown, the last of them.
async fn counted(client: &Client) -> anyhow::Result<Ends> {
    let over = Question {
        filter: Filter::parse("inactive")?,
        limit: OVER_MAX,
        here: true,
        ..Question::default()
    };
    let mut ends = Ends::default();
    for row in over.rows(client).await? {
        ends.count(row.result.unwrap_or(JobResult::Failed));
    }
    Ok(ends)
}

/// Whether one of a tree could not be asked that may be.
pub fn is_missing(branch: &Branch) -> bool {
    let own = branch.why.is_some() && branch.whose == Whose::Open;
    own || branch.children.iter().any(is_missing)
}

/// How an instance is called in the tree.
pub fn title(branch: &Branch) -> String {
    match (branch.job, &branch.name) {
        (Some(job), Some(name)) if !name.is_empty() => {
            format!("{} {name}", ids::show(eddy_wire::id::JobId(job)))
        }
        (Some(job), _) => ids::show(eddy_wire::id::JobId(job)),
        (None, _) if branch.place.is_empty() => "/".to_owned(),
        (None, _) => branch.place.clone(),
    }
}
