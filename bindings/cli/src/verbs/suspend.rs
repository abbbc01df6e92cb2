//! `eddy suspend` and `eddy resume`: stop running jobs for a while, and let them go on.

use anyhow::bail;
use eddy_wire::services::job::{Changed, JobSet, Resume, Scope, Suspend, SuspendRequest};

use crate::ids;
use crate::request;
use crate::session::Global;
use crate::verbs::cancel::{change, known, refusals, whose};

/// Stop running jobs for a while, until eddy resume
///
/// Everything of the job is stopped (SIGSTOP) on all its nodes; then its cores are free for others.
/// It keeps its memory, its GPUs and what it has of pools, and is charged for these alone; its time
/// limit does not run. A job that others end for (cancel, a limit of its instance) ends as any other.
#[derive(clap::Args)]
pub struct SuspendArgs {
    #[command(flatten)]
    which: Which,
}

/// Let suspended jobs go on as soon as there are cores for them
///
/// A job goes on on the nodes that it is on, with as many cores on each as it had. It waits for them
/// before all jobs that never began, and nobody ends for it; eddy why tells what it waits for. Its
/// tasks are bound to the new cores as they were to the old ones.
#[derive(clap::Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    which: Which,
}

/// The jobs that are meant.
#[derive(clap::Args)]
struct Which {
    /// All your jobs of which it can be true
    #[arg(long, conflicts_with_all = ["ids", "job_set"])]
    all: bool,
    /// With --all: those of this user, or of all users; owner and admins may
    #[arg(short = 'u', long, value_name = "USER|all", requires = "all")]
    user: Option<String>,
    /// The jobs of this set
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

    fn request(&self, jobs: JobSet, scope: Scope) -> SuspendRequest {
        SuspendRequest {
            jobs,
            job_set: self.job_set.clone(),
            scope,
        }
    }

    /// Says what became of it.
    fn told(&self, verb: &str, changed: &Changed) -> u8 {
        if self.all || self.job_set.is_some() {
            eprintln!("eddy {verb}: {} jobs", changed.count);
        }
        refusals(verb, changed)
    }
}

pub fn suspend(global: &Global, args: &SuspendArgs) -> anyhow::Result<u8> {
    let which = &args.which;
    let (global, jobs) = which.jobs(global)?;
    let scope = which.scope()?;
    global.session(async |client| {
        let changed = change::<Suspend>(&client, jobs, |jobs| which.request(jobs, scope)).await?;
        known(&client, which.job_set.as_ref(), &changed).await?;
        Ok(which.told("suspend", &changed))
    })
}

pub fn resume(global: &Global, args: &ResumeArgs) -> anyhow::Result<u8> {
    let which = &args.which;
    let (global, jobs) = which.jobs(global)?;
    let scope = which.scope()?;
    global.session(async |client| {
        let changed = change::<Resume>(&client, jobs, |jobs| which.request(jobs, scope)).await?;
        known(&client, which.job_set.as_ref(), &changed).await?;
        Ok(which.told("resume", &changed))
    })
}
