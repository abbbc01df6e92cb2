//! `eddy cancel`: end jobs.

use std::collections::BTreeMap;

use anyhow::bail;
use eddy_client::Client;
use eddy_client::owners::owners;
use eddy_wire::id::JobId;
use eddy_wire::lifecycle::JobState;
use eddy_wire::services::Service;
use eddy_wire::services::job::{Changed, JobSet, Raise, RaiseRequest, Scope, WouldRaise};

use crate::declared::{job_of, left_out, several};
use crate::listing::{Filter, Question};
use crate::names::{Users, named};
use crate::session::Global;
use crate::{ids, output, request};

/// Of a job that is not there, as the service says it.
pub const GONE: &str = "there is no such job, or it is over";

/// Cancel jobs
///
/// A waiting job ends at once. The tasks of a running one get SIGTERM and, after
/// the grace of the instance (exec.kill_grace), SIGKILL. Does not wait for the end.
#[derive(clap::Args)]
pub struct Args {
    /// All your jobs, in the states of -S if given; declared instances are left out
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// With --all or -S: those of this user, or of all users; owner and admins may
    #[arg(short = 'u', long, value_name = "USER|all", conflicts_with_all = ["ids", "job_set"])]
    user: Option<String>,
    /// The jobs of this set
    #[arg(long, value_name = "NAME", value_parser = request::job_set, conflicts_with_all = ["ids", "all"])]
    job_set: Option<String>,
    /// The declared instance of this name, with all jobs in it; its number alone does not mean it
    ///
    /// Jobs that run in it fail, and it is begun again. Where they are to end well first: eddy queue
    /// stop for each of its queues, and wait until none runs.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["ids", "all", "user", "job_set", "states"])]
    instance: Option<String>,
    /// Only jobs in these states: pending, running, active [default: active]
    #[arg(short = 'S', long, value_name = "STATE,...")]
    states: Option<String>,
    /// Why, one line
    #[arg(short = 'm', long, value_name = "TEXT")]
    message: Option<String>,
    /// Say what would be cancelled, and do nothing; jobs that are not there or are over fail as without it
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Do not say how many
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Jobs: f2JL, 1000, lists and ranges (f5-f9), copies (f5_all, f5_3), of an instance 905/f5
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let states = match &args.states {
        Some(text) => active_states(text)?,
        None => Vec::new(),
    };
    let (global, ids) = &global.inside(&args.ids)?;
    let jobs = ids::many(ids)?;
    let whose = whose(args.user.as_deref())?;
    let is_group = args.all || args.states.is_some() || args.job_set.is_some();
    if jobs.is_empty() && !is_group && args.instance.is_none() {
        bail!(
            "no jobs given; allowed are ids, --all, --job-set NAME, -S STATES and --instance NAME"
        );
    }
    global.session(async |client| {
        let jobs = match &args.instance {
            Some(name) => job_of(&client, name).await?,
            None => jobs,
        };
        let named = !jobs.is_empty();
        // That -S alone means all in these states was asked for above.
        let scope = match named || args.job_set.is_some() {
            true => Scope::Named,
            false => whose,
        };
        let request = |jobs| RaiseRequest {
            declared: args.instance.clone(),
            jobs,
            states: states.clone(),
            job_set: args.job_set.clone(),
            scope,
            kind: "cancel".to_owned(),
            severity: 0,
            note: args.message.clone().unwrap_or_default(),
        };
        if args.dry_run {
            return dry_run(&client, jobs, request, args.job_set.as_ref()).await;
        }
        let changed = change::<Raise>(&client, jobs, request).await?;
        known(&client, args.job_set.as_ref(), &changed).await?;
        if !named && !args.quiet {
            eprintln!("eddy cancel: {} jobs are being cancelled", changed.count);
        }
        Ok(refusals("cancel", &changed))
    })
}

fn active_states(text: &str) -> anyhow::Result<Vec<JobState>> {
    let filter = Filter::parse(text)?;
    if !filter.results.is_empty() || filter.states.contains(&JobState::Inactive) {
        bail!("--states={text}: a job that is over cannot be cancelled");
    }
    Ok(filter.states)
}

/// Says what would be cancelled, in the words of the instance.
async fn dry_run(
    client: &Client,
    jobs: JobSet,
    request: impl Fn(JobSet) -> RaiseRequest,
    job_set: Option<&String>,
) -> anyhow::Result<u8> {
    let (parts, spared) = parts_of::<WouldRaise>(client, jobs, request).await?;
    let mut all = Changed {
        spared,
        ..Changed::default()
    };
    let (mut jobs, mut others) = (Vec::new(), 0);
    for would in parts {
        all.count += would.jobs.len();
        jobs.extend(would.jobs.ranges);
        others += would.others;
        all.refused.extend(would.changed.refused);
        all.spared.extend(would.changed.spared);
    }
    if others == 0 {
        known(client, job_set, &all).await?;
    }
    let numbers = jobs.into_iter();
    let numbers = numbers.flat_map(|(first, last)| (first.0..=last.0).map(JobId));
    output::lines(numbers.map(ids::show))?;
    if others > 0 {
        eprintln!("eddy cancel: {others} more are other users', which you may not cancel");
    }
    Ok(refusals("cancel", &all))
}

/// Whose jobs are meant where none are named.
pub fn whose(user: Option<&str>) -> anyhow::Result<Scope> {
    Ok(match user {
        None => Scope::All,
        Some("all") => Scope::Everybody,
        Some(user) => Scope::User(Users::read().number(user)?),
    })
}

/// Asks for a change of these jobs, of each instance that has some of them.
pub async fn change<S>(
    client: &Client,
    jobs: JobSet,
    request: impl Fn(JobSet) -> S::Request,
) -> anyhow::Result<Changed>
where
    S: Service<Reply = Changed>,
{
    let (parts, spared) = parts_of::<S>(client, jobs, request).await?;
    let mut all = Changed {
        spared,
        ..Changed::default()
    };
    for changed in parts {
        all.count += changed.count;
        all.refused.extend(changed.refused);
        all.spared.extend(changed.spared);
    }
    Ok(all)
}

/// What each instance answers that has some of these jobs, and the declared instances that are left out.
async fn parts_of<S: Service>(
    client: &Client,
    jobs: JobSet,
    request: impl Fn(JobSet) -> S::Request,
) -> anyhow::Result<(Vec<S::Reply>, Vec<(JobId, String)>)> {
    let error = match client.call::<S>(&request(jobs.clone())).await {
        Ok(answer) => return Ok((vec![answer], Vec::new())),
        Err(error) => error,
    };
    let (mut answers, mut spared) = (Vec::new(), Vec::new());
    let parts = owners(client, &jobs, error).await?;
    // A part may be one number that was not given alone.
    let (_, left) = several(client, jobs).await?;
    for jobs in parts {
        let is_all = |job: JobId| jobs.len() == 1 && jobs.contains(job);
        if let Some(one) = left.iter().find(|(job, _)| is_all(*job)) {
            spared.push(one.clone());
            continue;
        }
        answers.push(client.call::<S>(&request(jobs)).await?);
    }
    Ok((answers, spared))
}

/// Refuses a set that no job is of: where nothing was changed its name may be mistyped.
pub async fn known(
    client: &Client,
    job_set: Option<&String>,
    changed: &Changed,
) -> anyhow::Result<()> {
    if changed.count > 0 || !changed.refused.is_empty() {
        return Ok(());
    }
    let question = Question {
        job_set: job_set.cloned(),
        ..Question::default()
    };
    match question.unknown(client).await? {
        Some(unknown) => bail!(unknown),
        None => Ok(()),
    }
}

/// Says how many jobs of a group were changed, whose others are left out; not where only refusals came of it.
pub fn counted(verb: &str, changed: &Changed) {
    if changed.count > 0 || changed.refused.is_empty() {
        eprintln!("eddy {verb}: {} jobs", changed.count);
    }
}

/// Prints what was left out and refused; the exit code of a change to many jobs.
pub fn refusals(verb: &str, changed: &Changed) -> u8 {
    left_out(verb, &changed.spared);
    for line in alike(&changed.refused) {
        eprintln!("eddy {verb}: {}", named(&line));
    }
    u8::from(!changed.refused.is_empty())
}

/// So many jobs that are refused for one reason have a line each; more have one together, with so many named.
const ALIKE_MAX: usize = 3;

/// What was refused, in the order of the jobs: where many were for one reason in one line with their number.
fn alike(refused: &[(JobId, String)]) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<JobId>)> = Vec::new();
    let mut at: BTreeMap<&str, usize> = BTreeMap::new();
    for (job, why) in refused {
        let group = *at.entry(why).or_insert(groups.len());
        match groups.get_mut(group) {
            Some((_, jobs)) => jobs.push(*job),
            None => groups.push((why, vec![*job])),
        }
    }
    let lines = groups.iter().flat_map(|(why, jobs)| {
        let named: Vec<String> = jobs
            .iter()
            .take(ALIKE_MAX)
            .map(|job| ids::show(*job))
            .collect();
        match jobs.len().saturating_sub(named.len()) {
            0 => named
                .iter()
                .map(|job| format!("job {job}: {why}"))
                .collect(),
            more => vec![format!(
                "{} jobs ({} and {more} more): {why}",
                jobs.len(),
                named.join(", ")
            )],
        }
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_that_are_refused_for_one_reason_are_one_line() {
        let refused = |jobs: &[u64], why: &str| -> Vec<(JobId, String)> {
            jobs.iter()
                .map(|job| (JobId(*job), why.to_owned()))
                .collect()
        };
        let few = [
            refused(&[1, 2, 3], "it is over"),
            refused(&[4], "it is running"),
        ]
        .concat();
        let job = |job| ids::show(JobId(job));
        assert_eq!(alike(&few).len(), 4);
        assert_eq!(alike(&few)[3], format!("job {}: it is running", job(4)));
        let many = [
            refused(&[1, 2, 3], "it runs"),
            refused(&[4], "it is over"),
            refused(&[5, 6], "it runs"),
        ];
        let (first, third) = (job(1), job(3));
        assert_eq!(
            alike(&many.concat()),
            [
                format!("5 jobs ({first}, {}, {third} and 2 more): it runs", job(2)),
                format!("job {}: it is over", job(4)),
            ]
        );
    }
}
