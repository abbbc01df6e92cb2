//! `eddy job requeue`: run a running job again.

use std::collections::BTreeMap;

use eddy_client::Client;
use eddy_wire::id::{Attempt, JobId};
use eddy_wire::services::job::{JobSet, RequeueJob, RequeueRequest};

use crate::declared::{job_of, left_out, several};
use crate::ids;
use crate::listing::{Filter, Question};
use crate::session::Global;
use crate::verbs::cancel::{change, refusals};

/// End the running attempt of jobs and let them wait again as the next
#[derive(clap::Args)]
pub struct Args {
    /// Why, one line
    #[arg(short = 'm', long, value_name = "TEXT")]
    message: Option<String>,
    /// The declared instance of this name; its number alone does not mean it. It is begun again, and the jobs that
    /// run in it fail
    #[arg(long, value_name = "NAME", conflicts_with = "ids")]
    instance: Option<String>,
    /// Jobs: f2JL, 1000, lists and ranges, copies (f5_all, f5_3), of an instance 905/f5
    #[arg(required_unless_present = "instance", value_name = "ID")]
    ids: Vec<String>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&args.ids)?;
    let jobs = ids::many(ids)?;
    global.session(async |client| {
        let jobs = match &args.instance {
            Some(name) => job_of(&client, name).await?,
            None => jobs,
        };
        let (jobs, left) = several(&client, jobs).await?;
        left_out("job requeue", &left);
        if jobs.is_empty() {
            return Ok(0);
        }
        let mut code = 0;
        for (attempt, jobs) in by_attempt(&client, jobs).await? {
            let request = |jobs| RequeueRequest {
                declared: args.instance.clone(),
                jobs,
                attempt,
                note: args.message.clone().unwrap_or_default(),
            };
            let changed = change::<RequeueJob>(&client, jobs, request).await?;
            code = code.max(refusals("job requeue", &changed));
        }
        Ok(code)
    })
}

/// The jobs by the attempt they are in now, so that a request repeated over a
/// restart of the leader ends no attempt but that. Those the instance does not
/// know are asked for all the same: it says so better.
async fn by_attempt(
    client: &Client,
    jobs: JobSet,
) -> anyhow::Result<BTreeMap<Option<Attempt>, JobSet>> {
    let question = Question {
        filter: Filter::active(),
        jobs: jobs.clone(),
        ..Question::default()
    };
    let mut active: BTreeMap<Attempt, Vec<JobId>> = BTreeMap::new();
    for row in question.rows(client).await? {
        active.entry(row.attempt).or_default().push(row.id);
    }
    let known = JobSet::of(active.values().flatten().copied());
    let single = |(first, last): &(JobId, JobId)| first == last && !known.contains(*first);
    let unknown: Vec<_> = jobs.ranges.into_iter().filter(single).collect();
    let mut groups: BTreeMap<_, _> = active
        .into_iter()
        .map(|(attempt, ids)| (Some(attempt), JobSet::of(ids)))
        .collect();
    if !unknown.is_empty() {
        groups.insert(None, JobSet { ranges: unknown });
    }
    Ok(groups)
}
