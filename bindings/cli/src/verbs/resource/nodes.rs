//! `eddy resource add`, `remove` and `dead`: nodes come and go as resources.
//!
//! What the instance itself knows is to add ranks and to take out those that nobody holds; here is
//! what an administrator wants besides: drain them, wait for the jobs there, or end those.

use std::collections::BTreeSet;

use anyhow::bail;
use eddy_client::{Client, EventFeed};
use eddy_wire::error::Code;
use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::instance::Config;
use eddy_wire::services::job::{JobRow, JobSet, Raise, RaiseRequest, Scope};
use eddy_wire::services::overlay::{Add, AddRequest, Remove, RemoveRequest};
use eddy_wire::services::resource::{
    Dead, DeadRequest, Drain, DrainRequest, RankStatus, Status, Targets, Vacate, VacateRequest,
};
use serde_json::Value;
use uuid::Uuid;

use crate::declared::declared;
use crate::listing::{Filter, Question};
use crate::verbs::cancel::change;
use crate::verbs::submit::until_over;
use crate::{ids, output};

/// How many jobs are named.
const NAMED_MAX: usize = 8;
/// Why ranks are drained that are to go, where nothing is said.
const REASON: &str = "to be removed";

/// What becomes of jobs on nodes that are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jobs {
    /// They stay, and so do the nodes.
    Stay,
    /// They are waited for.
    End,
    /// They are cancelled and waited for.
    Cancelled,
}

/// Declares nodes dead, with the words that are given.
pub async fn dead(
    client: &Client,
    targets: Targets,
    reason: String,
    force: bool,
) -> anyhow::Result<()> {
    let request = DeadRequest {
        targets,
        reason,
        force,
    };
    Ok(client.call::<Dead>(&request).await?)
}

/// Adds so many nodes and prints their ranks and hosts.
pub async fn add(client: &Client, count: u32) -> anyhow::Result<()> {
    let key = Uuid::now_v7();
    let ranks = client.call::<Add>(&AddRequest { count, key }).await?;
    let ranks: Idset = ranks.iter().map(|rank| rank.0).collect();
    let all = client.call::<Status>(&()).await?;
    let hosts = hosts(&all, &ranks);
    output::lines([format!("ranks {ranks}: {hosts}")])?;
    Ok(())
}

/// Takes nodes out for good.
pub async fn remove(
    client: &Client,
    targets: Targets,
    reason: &str,
    jobs: Jobs,
) -> anyhow::Result<()> {
    let all = client.call::<Status>(&()).await?;
    let ranks = meant(&all, &targets)?;
    let on = hosts(&all, &ranks);
    of_nobody(client, &ranks, &on).await?;
    let request = RemoveRequest {
        ranks: ranks.clone(),
    };
    match client.call::<Remove>(&request).await {
        Ok(()) => {
            tell_named(client, &ranks).await;
            return Ok(());
        }
        // What is refused whoever holds something there is so before anybody's job ends for it.
        Err(error) if error.code() == Some(Code::Busy) => {}
        Err(error) => return Err(error.into()),
    }
    if jobs != Jobs::Stay {
        drain(client, &all, &ranks, reason).await?;
    }
    loop {
        let holders = holders(client, &on).await?;
        let holders: Vec<JobId> = holders.iter().map(|row| row.id).collect();
        if holders.is_empty() {
            break;
        }
        match jobs {
            Jobs::Stay => bail!(
                "ranks {ranks} ({on}) are held by {}; --drain waits for their end, --force ends them",
                named(&holders)
            ),
            Jobs::End => {
                output::lines([format!("{on}: drained; waiting for {}", named(&holders))])?;
                for job in holders {
                    until_left(client, &on, job).await?;
                }
            }
            Jobs::Cancelled => end(client, &ranks, &on, &holders).await?,
        }
        are_drained(client, &ranks).await?;
    }
    client.call::<Remove>(&request).await?;
    tell_named(client, &ranks).await;
    Ok(())
}

/// The first of these jobs, for people.
fn named(jobs: &[JobId]) -> String {
    let shown = jobs.iter().take(NAMED_MAX).map(|job| ids::show(*job));
    let shown: Vec<String> = shown.collect();
    let more = match jobs.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// Has instances that can go on without these nodes do so, and ends all else that is there; comes back when
/// nothing of it is left on them.
async fn end(
    client: &Client,
    ranks: &Idset,
    on: &Hostlist,
    holders: &[JobId],
) -> anyhow::Result<()> {
    let request = VacateRequest {
        ranks: ranks.clone(),
    };
    let going = client.call::<Vacate>(&request).await?;
    let going: BTreeSet<JobId> = going.into_iter().map(|one| one.job).collect();
    let (going, ending): (Vec<JobId>, Vec<JobId>) =
        holders.iter().partition(|job| going.contains(job));
    if !going.is_empty() {
        let line = format!("{on}: drained; {} to go on without", named(&going));
        output::lines([line])?;
    }
    if !ending.is_empty() {
        let line = format!("{on}: drained; cancelling {}", named(&ending));
        output::lines([line])?;
        cancel(client, JobSet::of(ending.iter().copied())).await?;
        until_over(client, JobSet::of(ending)).await?;
    }
    for job in going {
        until_left(client, on, job).await?;
    }
    Ok(())
}

/// Waits until a job has nothing there any more: it ends, begins anew elsewhere, or an instance goes on without.
async fn until_left(client: &Client, on: &Hostlist, job: JobId) -> anyhow::Result<()> {
    let mut feed = EventFeed::following(client, job)?;
    while let Some(lines) = feed.next().await? {
        let named = |name| lines.iter().any(|line| line.name == name);
        if named("clean") {
            return Ok(());
        }
        if !["grant-changed", "free", "requeue"].into_iter().any(named) {
            continue;
        }
        let there = there(client, on).await?;
        if there.iter().all(|row| row.id != job) {
            return Ok(());
        }
    }
    Ok(())
}

/// Says where the configuration names ranks that are gone.
async fn tell_named(client: &Client, gone: &Idset) {
    // They are gone: that nobody can say what else there is changes nothing of it.
    let Ok(config) = client.call::<Config>(&()).await else {
        return;
    };
    for line in named_in(&config["instance"], gone) {
        eprintln!("eddy resource remove: {line}");
    }
}

/// Which declared instances name some of these ranks, a line for each key.
fn named_in(instances: &Value, gone: &Idset) -> Vec<String> {
    let mut lines = Vec::new();
    for instance in instances.as_array().into_iter().flatten() {
        let name = instance["name"].as_str().unwrap_or_default();
        for key in ["ranks", "elastic", "home"] {
            let named = instance[key].as_str().and_then(|text| text.parse().ok());
            let named = named.map(|named: Idset| named.intersect(gone));
            if let Some(named) = named.filter(|named| !named.is_empty()) {
                lines.push(format!(
                    "instance `{name}`: `{key}` names ranks {named}, which are removed: take them out of the \
                     configuration, too"
                ));
            }
        }
    }
    lines
}

/// The ranks that are meant: all of them are there.
fn meant(all: &[RankStatus], targets: &Targets) -> anyhow::Result<Idset> {
    match targets {
        Targets::Ranks(ranks) => {
            let there: Idset = all.iter().map(|rank| rank.rank.0).collect();
            let foreign = ranks.difference(&there);
            if !foreign.is_empty() {
                bail!("ranks {foreign}: there are no such ranks; there are {there}");
            }
            Ok(ranks.clone())
        }
        Targets::Hosts(text) => {
            let hosts: Hostlist = text.parse()?;
            let mut ranks = Idset::new();
            for host in hosts.hosts() {
                let on = all.iter().filter(|rank| rank.host == *host);
                let on: Vec<u32> = on.map(|rank| rank.rank.0).collect();
                if on.is_empty() {
                    bail!("{}: there is no such host", crate::table::escaped(&host));
                }
                on.into_iter().for_each(|rank| ranks.insert(rank));
            }
            Ok(ranks)
        }
    }
}

fn hosts(all: &[RankStatus], ranks: &Idset) -> Hostlist {
    let on = all.iter().filter(|rank| ranks.contains(rank.rank.0));
    let mut hosts = Hostlist::default();
    for rank in on {
        // What is no host name was not recorded as one.
        let _ = hosts.push(&rank.host);
    }
    hosts
}

/// Lets nothing more start there; who is drained keeps the reason.
async fn drain(
    client: &Client,
    all: &[RankStatus],
    ranks: &Idset,
    reason: &str,
) -> anyhow::Result<()> {
    let open = all.iter().filter(|rank| rank.drain.is_none());
    let open = open
        .map(|rank| rank.rank.0)
        .filter(|rank| ranks.contains(*rank));
    let open: Idset = open.collect();
    if open.is_empty() {
        return Ok(());
    }
    let reason = match reason {
        "" => REASON,
        reason => reason,
    };
    let request = DrainRequest {
        targets: Targets::Ranks(open),
        reason: reason.to_owned(),
        force: false,
        once: Some(Uuid::now_v7()),
    };
    Ok(client.call::<Drain>(&request).await?)
}

/// Who puts a node back into service while it is waited for wants to keep it.
async fn are_drained(client: &Client, ranks: &Idset) -> anyhow::Result<()> {
    let all = client.call::<Status>(&()).await?;
    let back = all.iter().filter(|rank| rank.drain.is_none());
    let back: Idset = back.map(|rank| rank.rank.0).collect();
    let back = back.intersect(ranks);
    if !back.is_empty() {
        bail!("ranks {back} were put back into service meanwhile: nothing is removed");
    }
    Ok(())
}

/// Nodes of a declared instance of a fixed size stay its own: that is said before anything is changed.
async fn of_nobody(client: &Client, ranks: &Idset, on: &Hostlist) -> anyhow::Result<()> {
    let declared = declared(client).await?;
    let mut rows = there(client, on).await?;
    rows.retain(|row| declared.contains(&row.id) && row.ncores > 0);
    match rows.first() {
        None => Ok(()),
        Some(row) => bail!(
            "ranks {ranks} ({on}): instance `{}` (job {}) has some of them as its own and keeps them; declare it on \
             others, and shut it down",
            row.name,
            ids::show(row.id)
        ),
    }
}

/// The jobs that hold something there; declared instances, which are told, are not waited for.
async fn holders(client: &Client, on: &Hostlist) -> anyhow::Result<Vec<JobRow>> {
    let declared = declared(client).await?;
    let mut rows = there(client, on).await?;
    rows.retain(|row| !declared.contains(&row.id));
    Ok(rows)
}

/// All jobs that are there.
async fn there(client: &Client, on: &Hostlist) -> anyhow::Result<Vec<JobRow>> {
    let question = Question {
        filter: Filter {
            states: vec![JobState::Run, JobState::Cleanup],
            results: Vec::new(),
        },
        ..Question::default()
    };
    let mut rows = question.rows(client).await?;
    rows.retain(|row| {
        let at: Option<Hostlist> = row.nodelist.parse().ok();
        let is_there = |at: Hostlist| at.hosts().any(|host| on.hosts().any(|one| one == host));
        row.t_alloc.is_some() && at.is_some_and(is_there)
    });
    Ok(rows)
}

async fn cancel(client: &Client, jobs: JobSet) -> anyhow::Result<()> {
    let request = |jobs| RaiseRequest {
        declared: None,
        jobs,
        states: Vec::new(),
        job_set: None,
        scope: Scope::Named,
        kind: "cancel".to_owned(),
        severity: 0,
        note: "its node is removed".to_owned(),
    };
    change::<Raise>(client, jobs, request).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn instances_that_name_what_is_removed_are_told_with_the_key() {
        let instances = json!([
            {"name": "a", "elastic": "all", "home": "2-3", "lend_max": null},
            {"name": "b", "nodes": 2, "ranks": "0-1"},
            {"name": "c", "nodes": 1, "ranks": null},
        ]);
        let gone = Idset::one(3);
        let line = "instance `a`: `home` names ranks 3, which are removed: take them out of the \
                    configuration, too";
        assert_eq!(named_in(&instances, &gone), [line]);
    }
}
