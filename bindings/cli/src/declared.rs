//! Declared instances among jobs: the site's own, which have the jobs of others in them.
//!
//! Used by verbs that end jobs, or wait for their end. No group of jobs means one, and its number
//! alone ends none: that looks like the number of any job.

use std::collections::BTreeSet;

use anyhow::bail;
use eddy_client::{Client, ClientError};
use eddy_wire::id::JobId;
use eddy_wire::services::child::{Children, ChildrenRequest};
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::services::job::{JobSet, is_declared};

use crate::ids;
use crate::listing::{Filter, Question};
use crate::session::Global;
use crate::table::escaped;

/// The jobs that are declared instances, also those that no queue leads to.
pub async fn declared(client: &Client) -> anyhow::Result<BTreeSet<JobId>> {
    Ok(serving(client)
        .await?
        .into_iter()
        .map(|(job, _)| job)
        .collect())
}

/// The same with their names.
async fn serving(client: &Client) -> anyhow::Result<Vec<(JobId, String)>> {
    let rows = match client.call::<Children>(&ChildrenRequest::default()).await {
        // What is left of an instance has none.
        Err(ClientError::Refused(_)) => Vec::new(),
        rows => rows?,
    };
    let declared = rows.into_iter().filter(|row| row.declared);
    Ok(declared.map(|row| (row.job, row.name)).collect())
}

/// The job that a declared instance is now.
pub async fn job_of(client: &Client, name: &str) -> anyhow::Result<JobSet> {
    let there = serving(client).await?;
    if let Some((job, _)) = there.iter().find(|(_, one)| one == name) {
        return Ok(JobSet::one(*job));
    }
    let name = name.escape_debug();
    let there: Vec<&str> = there.iter().map(|(_, name)| name.as_str()).collect();
    // Whoever is inside one means it by its name all the same.
    let around = match client.call::<Ping>(&PingRequest::default()).await?.parent {
        Some(_) => "; --parent asks the instance around this one",
        None => "",
    };
    match there.is_empty() {
        true => bail!("--instance: `{name}` given, no declared instance is here{around}"),
        false => bail!(
            "--instance: `{name}` given, there are {}{around}",
            there.join(", ")
        ),
    }
}

/// Several jobs without the declared instances among them, and these: no group means one.
pub async fn several(
    client: &Client,
    jobs: JobSet,
) -> anyhow::Result<(JobSet, Vec<(JobId, String)>)> {
    if jobs.len() <= 1 {
        return Ok((jobs, Vec::new()));
    }
    let mut left = serving(client).await?;
    left.retain(|(job, _)| jobs.contains(*job));
    let jobs = jobs.without(&left.iter().map(|(job, _)| *job).collect());
    Ok((jobs, left))
}

/// Says which declared instances were left out, and what means them where anything does.
pub fn left_out(verb: &str, left: &[(JobId, String)]) {
    for (job, name) in left {
        let (job, name) = (ids::show(*job), escaped(name));
        let means = match verb {
            "cancel" | "job requeue" => format!("; `eddy {verb} --instance={name}` means it"),
            _ => String::new(),
        };
        eprintln!(
            "eddy {verb}: job {job}: left out: {}{means}",
            is_declared(&name)
        );
    }
}

/// Says what is waited for where that is one job without an end of its own.
pub async fn unending(
    global: &Global,
    client: &Client,
    (verb, jobs): (&str, &JobSet),
) -> anyhow::Result<()> {
    let (1, Some((job, _))) = (jobs.len(), jobs.ranges.first()) else {
        return Ok(());
    };
    let question = Question {
        filter: Filter::active(),
        jobs: jobs.clone(),
        ..Question::default()
    };
    // The list of instances may be long: it is asked for where there is one. Where nothing can be told whoever waits
    // is told by that.
    let rows = question.rows(client).await.unwrap_or_default();
    if !rows.iter().any(|row| row.is_instance) {
        return Ok(());
    }
    let serving = serving(client).await?;
    if let Some((_, name)) = serving.iter().find(|(one, _)| one == job) {
        let (job, name) = (global.job(*job), escaped(name));
        let ends = global.hinted(&format!("`eddy shutdown --instance={name}`"));
        eprintln!(
            "eddy {verb}: waiting for the end of job {job}, the declared instance {name}, which does not end by \
             itself; {ends} ends it"
        );
    }
    Ok(())
}
