//! `eddy shutdown`: end an instance in order.

use std::time::Duration;

use anyhow::Context;
use eddy_client::{Client, ClientError, EndFeed, Options, Uri};
use eddy_wire::id::JobId;
use eddy_wire::services::child::{Children, ChildrenRequest};
use eddy_wire::services::instance::{Ping, PingRequest, Pong, Shutdown, ShutdownRequest};
use eddy_wire::services::job::JobSet;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::declared;
use crate::session::{Global, told};

/// End an instance in order, with everything in it
///
/// Running jobs are cancelled, instances in it are ended likewise. In a root waiting jobs stay in
/// the journal and run after the next `eddy start --statedir`. An instance that is a job ends for
/// good, and so does its job; what it leaves can still be read (`eddy --at PATH jobs -a`).
///
/// In a shell of no instance a root is ended only if it is named: by --at or EDDY_URI.
///
/// One that the configuration declares has the jobs of others in it and is begun again at once: no path means it, only
/// --instance does. To take no more work in it, stop its queues (eddy queue stop); to be rid of it, take it
/// out of the configuration.
///
/// Returns when the leader of a root has exited, or when the job of another is over. A leader whose disk is full
/// ends when there is room for the record of it: the command says so and waits on.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Do not wait for the end
    #[arg(long)]
    background: bool,
    /// Why, one line
    #[arg(short = 'm', long, value_name = "TEXT")]
    message: Option<String>,
    /// The declared instance of this name, with all jobs that run in it; its path alone does not mean it. From inside
    /// it is asked of the instance around: eddy --parent shutdown --instance NAME
    #[arg(long, value_name = "NAME", conflicts_with = "path")]
    instance: Option<String>,
    /// The instance, as a path such as 905/3 [default: the instance itself]
    #[arg(value_name = "PATH")]
    path: Option<String>,
}

const EXAMPLES: &str = "Examples:
  eddy shutdown 905              # a sub-instance
  eddy shutdown 905/3
  eddy --at ~/q shutdown         # the instance of a state directory";

/// How often a leader that was told to end is asked what that waits for.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// How long the instance around that of a queue is waited for, which may be away.
const ABOVE_AFTER_MAX: Duration = Duration::from_secs(5);
/// How long an instance that was told to end may take before it is told again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    crate::session::block_on(async {
        let client = match &args.instance {
            Some(name) => declared_of(global, name).await?,
            None => global.connect_to(args.path.as_deref()).await?,
        };
        if args.path.is_none() && args.instance.is_none() && !global.names_instance()? {
            let uri = client.uri();
            anyhow::bail!(
                "no instance is named, and the only one is {uri}; allowed is `eddy --at {uri} shutdown`, or EDDY_URI"
            );
        }
        let pong = client.call::<Ping>(&PingRequest::default()).await?;
        // Opened before anything is asked: its end is the exit of the leader.
        let watched = UnixStream::connect(client.uri().path()).await;
        let over = job_of(global, &pong).await?;
        let request = ShutdownRequest {
            note: args.message.clone().unwrap_or_default(),
            declared: args.instance.clone(),
        };
        match client
            .call_once::<Shutdown>(&request, bytes::Bytes::new())
            .await
        {
            // A leader that is gone before its answer was read did what was asked.
            Ok(_) | Err(ClientError::Lost { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        match (args.background, over, watched) {
            (true, _, _) => {}
            (false, Some(job), _) => {
                until_over(client, &request, &job.parent, (job.id, job.over)).await?;
                if let Some(mut above) = job.above {
                    // Whoever leads there may be away: it is over all the same.
                    let _ = tokio::time::timeout(ABOVE_AFTER_MAX, above.next()).await;
                }
            }
            (false, None, Ok(watched)) => until_gone(&client, watched).await,
            (false, None, Err(_)) => {}
        }
        Ok(0)
    })
}

/// The declared instance of this name, in the instance that this command is for.
async fn declared_of(global: &Global, name: &str) -> anyhow::Result<Client> {
    let around = global.connect().await?;
    let job = declared::job_of(&around, name).await?;
    let job = job.ranges.first().map(|(job, _)| job.to_string());
    global.connect_to(job.as_deref()).await
}

/// Waits for the exit of the leader, and says what that waits for itself.
async fn until_gone(client: &Client, mut watched: UnixStream) {
    let mut rest = Vec::new();
    let mut gone = std::pin::pin!(watched.read_to_end(&mut rest));
    tokio::select! {
        _ = &mut gone => return,
        lack = lacked(client) => told(&format!("the end of the instance: {lack}")),
    }
    let _ = gone.await;
}

/// What the leader lacks to end, once it says so; for ever if nothing.
async fn lacked(client: &Client) -> String {
    let ping = PingRequest::default();
    loop {
        tokio::time::sleep(LOOK_AFTER).await;
        let pong = client.call_once::<Ping>(&ping, bytes::Bytes::new());
        match pong.await.map(|(pong, _)| pong.lack) {
            Ok(Some(lack)) => return lack,
            Ok(None) => {}
            // It is gone, which is seen at the other connection.
            Err(_) => return std::future::pending().await,
        }
    }
}

/// Waits for the end of the job. A leader that dies as it ends is started again by its shell and
/// knows nothing of it, nor does one of a next attempt, that is elsewhere: it is told again.
async fn until_over(
    client: Client,
    request: &ShutdownRequest,
    parent: &Client,
    (job, mut over): (JobId, EndFeed),
) -> anyhow::Result<()> {
    let mut over = std::pin::pin!(over.next());
    let mut client = client;
    loop {
        let again = async {
            tokio::time::sleep(AGAIN_AFTER).await;
            if let Some(there) = moved(parent, job, client.uri()).await {
                client = there;
            }
            // One that is ending refuses, one that has ended does not answer: the job tells.
            let call = client.call_once::<Shutdown>(request, bytes::Bytes::new());
            let _ = tokio::time::timeout(AGAIN_AFTER, call).await;
        };
        tokio::select! {
            ended = &mut over => {
                ended?;
                return Ok(());
            }
            () = again => {}
        }
    }
}

/// The instance of a job where it is now, if that is another place.
async fn moved(parent: &Client, job: JobId, known: &Uri) -> Option<Client> {
    let request = ChildrenRequest {
        job: Some(job),
        ..ChildrenRequest::default()
    };
    let asked = parent.call_once::<Children>(&request, bytes::Bytes::new());
    let (rows, _) = tokio::time::timeout(AGAIN_AFTER, asked).await.ok()?.ok()?;
    let uri: Uri = rows.first()?.uri.as_ref()?.parse().ok()?;
    if uri == *known {
        return None;
    }
    let options = Options { wait: AGAIN_AFTER };
    Client::connect(&uri, options).await.ok()
}

/// The job that an instance is.
struct Job {
    id: JobId,
    /// The instance around.
    parent: Client,
    /// Its end in the instance around.
    over: EndFeed,
    /// The same where that is one of a queue: whoever submits there asks the instance around it, which knows
    /// the job by the same number and hears of its end a moment later.
    above: Option<EndFeed>,
}

/// The job that an instance is; none for a root.
async fn job_of(global: &Global, pong: &Pong) -> anyhow::Result<Option<Job>> {
    let Some(parent) = &pong.parent else {
        return Ok(None);
    };
    let id = number(pong)?;
    let parent = Client::connect_told(&parent.parse()?, global.options(), told).await?;
    Ok(Some(Job {
        id,
        over: EndFeed::of(&parent, JobSet::one(id))?,
        above: above(global, &parent, id).await,
        parent,
    }))
}

/// The number of the job that an instance is.
fn number(pong: &Pong) -> anyhow::Result<JobId> {
    let last = pong.path.rsplit('/').next().unwrap_or_default();
    last.parse().context("the instance's path")
}

/// The end of a job of this instance in the one around it, where this is a declared one and that is there.
async fn above(global: &Global, client: &Client, job: JobId) -> Option<EndFeed> {
    let pong = client.call::<Ping>(&PingRequest::default()).await.ok()?;
    let uri = pong.parent.as_ref()?.parse().ok()?;
    let request = ChildrenRequest {
        job: Some(number(&pong).ok()?),
        ..ChildrenRequest::default()
    };
    let ask = async {
        let around = Client::connect(&uri, global.options()).await.ok()?;
        let rows = around.call::<Children>(&request).await.ok()?;
        let is_declared = rows.iter().any(|row| row.declared);
        is_declared.then(|| EndFeed::of(&around, JobSet::one(job)).ok())?
    };
    tokio::time::timeout(ABOVE_AFTER_MAX, ask).await.ok()?
}
