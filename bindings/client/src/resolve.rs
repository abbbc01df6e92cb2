//! From what a person writes for an instance to a connection to it, step by
//! step through the tree of instances.
//!
//! Called once by a command. Each level is asked for the next (`child.list`); an
//! error names the level that is missing and why. It waits for an instance that
//! is starting, never for one that waits for resources.

mod error;

use std::pin::pin;
use std::time::Duration;

use eddy_wire::error::Code;
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::{JobResult, JobState};
use eddy_wire::services::child::{ChildRow, Children, ChildrenRequest, NESTING_MAX, Stage};
use eddy_wire::services::instance::{Ping, PingRequest, Pong};
use eddy_wire::services::job::{JobRow, JobSet, List, ListRequest};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::client::{Client, Options};
use crate::driver::Word;
use crate::error::ClientError;
use crate::path::{Begin, InstancePath, Meant, Step, meant};
use crate::uri::{LocateError, Uri, locate};

use error::so_far;
pub use error::{PathError, Remains};

/// How long an instance may take to say whether it is a root, when one of several is looked for.
const ROOT_ASKED: Duration = Duration::from_secs(1);
/// How long an instance may be starting before a word is said about it.
const TOLD_AFTER: Duration = Duration::from_secs(1);

/// Between two questions to an instance whose child is not reached.
const BETWEEN: Duration = Duration::from_millis(100);

/// Which instance a command is for.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// What was named: a URI, a file, or a path.
    pub at: Option<&'a str>,
    /// The value of EDDY_URI, for what was not named and for where a path begins.
    pub variable: Option<&'a str>,
    /// That one, or the one around it.
    pub side: Side,
}

/// Which of an instance and its parent is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The instance.
    Itself,
    /// The one it is a job of.
    Parent,
}

/// How long to wait, and who hears of it.
#[derive(Clone, Debug)]
pub struct Patience {
    /// Of each connection, and for each instance that is starting.
    pub options: Options,
    /// Hears what is waited for after a second.
    pub told: fn(&str),
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A connection to the instance that is meant.
///
/// # Errors
/// [`PathError`], which names the level that is missing.
pub async fn reach(choice: Choice<'_>, patience: &Patience) -> Result<Client, PathError> {
    let mut path = match choice.at.map(meant).transpose()? {
        Some(Meant::Socket(uri)) => {
            let client = connect(&uri, patience).await?;
            return match choice.side {
                Side::Itself => Ok(client),
                Side::Parent => Walk::from(client, uri.to_string(), patience).up().await,
            };
        }
        Some(Meant::Path(path)) => path,
        None => InstancePath {
            begin: Begin::Here,
            steps: Vec::new(),
        },
    };
    if choice.side == Side::Parent {
        path.steps.push(Step::Up);
    }
    let client = connect(&here(choice.variable).await?, patience).await?;
    Walk::from(client, path.to_string(), patience)
        .along(&path)
        .await
}

/// A connection to what is these steps further down from the history of an
/// instance, whose reader takes questions at `uri` and which is called `level`.
///
/// # Errors
/// [`PathError`], which names the level that is missing.
pub async fn descend(
    uri: &Uri,
    level: &str,
    rest: &[Step],
    patience: &Patience,
) -> Result<Client, PathError> {
    let path = InstancePath {
        begin: Begin::Here,
        steps: rest.to_vec(),
    };
    let client = connect(uri, patience).await?;
    let mut walk = Walk::from(client, format!("{level}/{path}"), patience);
    walk.level = format!("instance {level}");
    match walk.along(&path).await {
        Err(PathError::Ended {
            path,
            of,
            job,
            result,
            remains: Some(remains),
        }) => {
            let remains = Remains {
                path: format!("{level}/{}", remains.path),
                ..remains
            };
            Err(PathError::Ended {
                path,
                of,
                job,
                result,
                remains: Some(remains),
            })
        }
        reached => reached,
    }
}

async fn connect(uri: &Uri, patience: &Patience) -> Result<Client, ClientError> {
    Client::connect_told(uri, patience.options.clone(), patience.told).await
}

/// The instance that is used where none is named: EDDY_URI, the host's, this
/// user's only root.
async fn here(variable: Option<&str>) -> Result<Uri, PathError> {
    match locate(variable) {
        Err(LocateError::Several { uris }) => Ok(only_root(uris).await?),
        other => Ok(other?),
    }
}

/// The only one of these that is no job of another.
async fn only_root(uris: Vec<Uri>) -> Result<Uri, LocateError> {
    let mut asked: JoinSet<Option<Uri>> = JoinSet::new();
    for uri in uris.clone() {
        asked.spawn(async move {
            let options = Options { wait: ROOT_ASKED };
            let pong = async { ping(&Client::connect(&uri, options).await?).await };
            let is_child = matches!(
                timeout(ROOT_ASKED, pong).await,
                Ok(Ok(Pong {
                    parent: Some(_),
                    ..
                }))
            );
            (!is_child).then_some(uri)
        });
    }
    let mut roots: Vec<Uri> = asked.join_all().await.into_iter().flatten().collect();
    roots.sort_by(|a, b| a.path().cmp(b.path()));
    match <[Uri; 1]>::try_from(roots) {
        Ok([uri]) => Ok(uri),
        Err(roots) if roots.is_empty() => Err(LocateError::Several { uris }),
        Err(uris) => Err(LocateError::Several { uris }),
    }
}

async fn ping(client: &Client) -> Result<Pong, ClientError> {
    client.call::<Ping>(&PingRequest::default()).await
}

/// Where on a path we are.
struct Walk<'a> {
    client: Client,
    /// The whole path, for errors.
    path: String,
    /// What this level is called, for errors.
    level: String,
    patience: &'a Patience,
}

impl Walk<'_> {
    fn from(client: Client, path: String, patience: &Patience) -> Walk<'_> {
        Walk {
            client,
            path,
            level: "this instance".to_owned(),
            patience,
        }
    }

    async fn along(mut self, path: &InstancePath) -> Result<Client, PathError> {
        if path.begin == Begin::Root {
            self.climb().await?;
        }
        for (at, step) in path.steps.iter().enumerate() {
            let Step::Down(text) = step else {
                self.client = self.parent().await?;
                "the instance around it".clone_into(&mut self.level);
                continue;
            };
            let served = self.serving(text).await;
            let uri = served.map_err(|error| error.on(path, at))?;
            self.client = connect(&uri, self.patience).await?;
            self.level = format!("instance {}", so_far(path, at));
        }
        Ok(self.client)
    }

    async fn up(self) -> Result<Client, PathError> {
        self.parent().await
    }

    async fn climb(&mut self) -> Result<(), PathError> {
        for _ in 0..=NESTING_MAX {
            let pong = ping(&self.client).await?;
            let Some(parent) = pong.parent else { break };
            self.client = connect(&parent.parse()?, self.patience).await?;
        }
        "the root".clone_into(&mut self.level);
        Ok(())
    }

    async fn parent(&self) -> Result<Client, PathError> {
        let pong = ping(&self.client).await?;
        let parent = pong.parent.ok_or_else(|| PathError::Root {
            path: self.path.clone(),
            of: match self.level.as_str() {
                "this instance" => format!("instance {}", pong.instance),
                level => level.to_owned(),
            },
        })?;
        Ok(connect(&parent.parse()?, self.patience).await?)
    }

    /// Where the child that `text` names takes clients.
    async fn serving(&self, text: &str) -> Result<Uri, PathError> {
        let row = self.row(text).await?;
        let row = match row.stage {
            Stage::Starting => self.started(row).await?,
            _ => row,
        };
        let (path, of, job) = (self.path.clone(), self.level.clone(), row.job);
        match (row.stage, &row.uri) {
            (Stage::Serving | Stage::Away | Stage::Ending, Some(uri)) => Ok(uri.parse()?),
            (Stage::Waiting, _) => Err(PathError::Waiting {
                path,
                of,
                job,
                reason: self.reason(job).await?,
            }),
            (Stage::Over, _) => Err(PathError::Ended {
                path,
                of,
                job,
                result: self.result(job).await?,
                remains: row.statedir.map(|statedir| Remains {
                    statedir,
                    path: String::new(),
                    rest: Vec::new(),
                }),
            }),
            (Stage::Starting | Stage::Serving | Stage::Away | Stage::Ending, _) => {
                Err(PathError::Starting {
                    path,
                    of,
                    job,
                    waited: self.patience.options.wait.as_secs_f64(),
                })
            }
        }
    }

    /// The child that `text` names. A number is a job; any other text is a name
    /// first, for `fast` is also a job id in F58.
    async fn row(&self, text: &str) -> Result<ChildRow, PathError> {
        let job = Step::Down(text.to_owned()).job();
        if !is_number(text) || job.is_none() {
            let all = self.children(None).await?;
            let mut named: Vec<ChildRow> = all.into_iter().filter(|row| row.name == text).collect();
            if named.iter().any(|row| !row.queues.is_empty()) {
                named.retain(|row| !row.queues.is_empty());
            }
            match (named.len(), job) {
                (1, _) => return Ok(named.remove(0)),
                (0, Some(_)) => {}
                (0, None) => {
                    self.is_not_down(text).await?;
                    return Err(PathError::NoName {
                        path: self.path.clone(),
                        of: self.level.clone(),
                        name: text.to_owned(),
                    });
                }
                _ => {
                    return Err(PathError::Several {
                        path: self.path.clone(),
                        of: self.level.clone(),
                        name: text.to_owned(),
                        jobs: named.iter().map(|row| row.job).collect(),
                    });
                }
            }
        }
        let job = job.expect("what is no name is a job");
        match self.children(Some(job)).await?.into_iter().next() {
            Some(row) => Ok(row),
            None => Err(self.none(job, text).await?),
        }
    }

    /// Whether no declared instance of this name was given up.
    async fn is_not_down(&self, name: &str) -> Result<(), PathError> {
        let request = ChildrenRequest {
            name: Some(name.to_owned()),
            ..ChildrenRequest::default()
        };
        match self.client.call::<Children>(&request).await {
            Err(ClientError::Refused(no)) if no.code == Code::NotReady => Err(PathError::Down {
                path: self.path.clone(),
                why: no.text,
            }),
            // An instance that knows no such question declares none of that name.
            Err(ClientError::Refused(_)) | Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn children(&self, job: Option<JobId>) -> Result<Vec<ChildRow>, PathError> {
        let request = ChildrenRequest {
            job,
            ..ChildrenRequest::default()
        };
        let begun = Instant::now();
        let wait = self.patience.options.wait.max(TOLD_AFTER);
        loop {
            match self.asked(&request, begun + wait).await {
                Err(error) if error.code() == Some(Code::NotFound) => return Ok(Vec::new()),
                // Its leader may be restarting.
                Err(error)
                    if error.code() == Some(Code::Unreachable)
                        && begun.elapsed() < self.patience.options.wait =>
                {
                    if begun.elapsed() > TOLD_AFTER {
                        (self.patience.told)(&format!("an instance on the way: {error}"));
                    }
                    tokio::time::sleep(BETWEEN).await;
                }
                other => return Ok(other?),
            }
        }
    }

    /// An answer until then: a queue instance that is stopped gives none to who asks through this one.
    async fn asked(
        &self,
        request: &ChildrenRequest,
        until: Instant,
    ) -> Result<Vec<ChildRow>, ClientError> {
        let begun = Instant::now();
        let mut call = pin!(self.client.call::<Children>(request));
        if let Ok(answer) = timeout_at(until.min(begun + TOLD_AFTER), &mut call).await {
            return answer;
        }
        (self.patience.told)("an instance on the way, which does not answer");
        let answer = timeout_at(until, call).await;
        answer.unwrap_or_else(|_| {
            Err(ClientError::Silent {
                path: self.client.uri().path().to_owned(),
                waited: begun.elapsed().as_secs_f64(),
            })
        })
    }

    /// Why no child is this job.
    async fn none(&self, job: JobId, text: &str) -> Result<PathError, PathError> {
        let (path, of) = (self.path.clone(), self.level.clone());
        Ok(match self.job(job).await? {
            Some(row) if row.result.is_some() => PathError::NeverServed {
                path,
                of,
                job,
                result: result_name(row.result).to_owned(),
            },
            Some(_) => PathError::NotInstance { path, of, job },
            None if !is_number(text) => PathError::NoName {
                path,
                of,
                name: text.to_owned(),
            },
            None => PathError::NoJob {
                path,
                of,
                job: text.to_owned(),
            },
        })
    }

    /// The row again when it has left the stage of starting, or after our patience.
    async fn started(&self, row: ChildRow) -> Result<ChildRow, PathError> {
        let begun = Instant::now();
        let until = begun + self.patience.options.wait;
        let what = format!("the leader of job {} of {}", row.job, self.level);
        let mut word = Word::Owed;
        let request = ChildrenRequest {
            job: Some(row.job),
            follow: true,
            ..ChildrenRequest::default()
        };
        let mut row = row;
        let mut parts = self.client.stream::<Children>(&request)?;
        while row.stage == Stage::Starting && Instant::now() < until {
            let look = match word {
                Word::Owed => until.min(begun + TOLD_AFTER),
                Word::Said => until,
            };
            match timeout_at(look, parts.next()).await {
                Ok(Some(Ok((rows, _)))) => row = rows.into_iter().next().unwrap_or(row),
                Ok(Some(Err(ClientError::Lost { .. })) | None) => {
                    // The parent restarts, or ended the stream: asked again, and
                    // never in a circle without a pause.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    parts = self.client.stream::<Children>(&request)?;
                }
                Ok(Some(Err(error))) => return Err(error.into()),
                Err(_) if word == Word::Owed => {
                    word = Word::Said;
                    (self.patience.told)(&what);
                }
                Err(_) => {}
            }
        }
        Ok(row)
    }

    async fn job(&self, job: JobId) -> Result<Option<JobRow>, PathError> {
        let request = ListRequest {
            jobs: JobSet::one(job),
            states: JobState::ALL.to_vec(),
            ..ListRequest::default()
        };
        let mut parts = self.client.stream::<List>(&request)?;
        while let Some(part) = parts.next().await {
            if let Some(row) = part?.0.into_iter().next() {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    async fn reason(&self, job: JobId) -> Result<String, PathError> {
        let row = self.job(job).await?;
        let reason = row.map(|row| row.reason).unwrap_or_default();
        // The scheduler says it as a sentence about the job.
        let what = reason.strip_prefix("waits for ").unwrap_or(&reason);
        Ok(match what {
            "" => "no reason is known yet".to_owned(),
            what => what.to_owned(),
        })
    }

    async fn result(&self, job: JobId) -> Result<String, PathError> {
        let row = self.job(job).await?;
        Ok(result_name(row.and_then(|row| row.result)).to_owned())
    }
}

fn result_name(result: Option<JobResult>) -> &'static str {
    match result {
        Some(JobResult::Completed) => "COMPLETED",
        Some(JobResult::Failed) => "FAILED",
        Some(JobResult::Canceled) => "CANCELED",
        Some(JobResult::Timeout) => "TIMEOUT",
        None => "unknown",
    }
}

#[cfg(test)]
mod tests;
