//! `eddy hold` and `eddy release`: keep waiting jobs from starting, and let them go again.

use anyhow::bail;
use eddy_wire::services::job::{
    Changed, JobSet, Release, ReleaseRequest, Scope, Urgency, UrgencyRequest,
};

use crate::ids;
use crate::request;
use crate::session::Global;
use crate::verbs::cancel::{change, counted, known, refusals, whose};

/// Keep waiting jobs from starting, until eddy release
///
/// A held job keeps its place by the time it was submitted; it waits with the reason that it is
/// held. The same as an urgency of 0. Of several that are named together (f5-f9, f5_all, a set) those
/// that run go on; one that is named by itself is refused.
#[derive(clap::Args)]
pub struct HoldArgs {
    #[command(flatten)]
    which: Which,
}

/// Let held jobs go, with the urgency they had before
#[derive(clap::Args)]
pub struct ReleaseArgs {
    #[command(flatten)]
    which: Which,
}

/// The jobs that are meant.
#[derive(clap::Args)]
struct Which {
    /// All your jobs that wait
    #[arg(long, conflicts_with_all = ["ids", "job_set"])]
    all: bool,
    /// With --all: those of this user, or of all users; owner and admins may
    #[arg(short = 'u', long, value_name = "USER|all", requires = "all")]
    user: Option<String>,
    /// The jobs of this set, all in one commit
    #[arg(long, value_name = "NAME", value_parser = request::job_set, conflicts_with = "ids")]
    job_set: Option<String>,
    /// Jobs: f2JL, 1000, lists and ranges (f5-f9), copies (f5_all, f5_3), of an instance 905/f5
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

impl Which {
    /// They, and the options that lead to their instance.
    fn jobs(&self, global: &Global) -> anyhow::Result<(Global, JobSet)> {
        let (global, ids) = global.inside(&self.ids)?;
        let jobs = ids::many(&ids)?;
        if jobs.is_empty() && !self.all && self.job_set.is_none() {
            bail!("no jobs given; allowed are ids, --job-set NAME and --all");
        }
        Ok((global, jobs))
    }

    fn scope(&self) -> anyhow::Result<Scope> {
        match self.all {
            true => whose(self.user.as_deref()),
            false => Ok(Scope::Named),
        }
    }

    /// Says what became of it, `jobs` being those that are named.
    fn told(&self, verb: &str, jobs: &JobSet, changed: &Changed) -> u8 {
        if self.all || self.job_set.is_some() || jobs.has_range() {
            counted(verb, changed);
        }
        refusals(verb, changed)
    }
}

pub fn hold(global: &Global, args: &HoldArgs) -> anyhow::Result<u8> {
    let which = &args.which;
    let (global, jobs) = which.jobs(global)?;
    let scope = which.scope()?;
    let request = |jobs| UrgencyRequest {
        jobs,
        job_set: which.job_set.clone(),
        scope,
        urgency: 0,
    };
    global.session(async |client| {
        let changed = change::<Urgency>(&client, jobs.clone(), request).await?;
        known(&client, which.job_set.as_ref(), &changed).await?;
        Ok(which.told("hold", &jobs, &changed))
    })
}

pub fn release(global: &Global, args: &ReleaseArgs) -> anyhow::Result<u8> {
    let which = &args.which;
    let (global, jobs) = which.jobs(global)?;
    let scope = which.scope()?;
    let request = |jobs| ReleaseRequest {
        jobs,
        job_set: which.job_set.clone(),
        scope,
    };
    global.session(async |client| {
        let changed = change::<Release>(&client, jobs.clone(), request).await?;
        known(&client, which.job_set.as_ref(), &changed).await?;
        Ok(which.told("release", &jobs, &changed))
    })
}
