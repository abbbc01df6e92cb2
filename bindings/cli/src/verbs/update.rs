//! `eddy update`: another time limit for jobs that wait or run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::bail;
use eddy_client::Client;
use eddy_wire::fsd::{Fsd, micros_of_seconds};
use eddy_wire::id::JobId;
use eddy_wire::services::job::{Changed, JobSet, LIMIT_MOVED, Reckoned, Update, UpdateRequest};
use eddy_wire::time::Span;
use eddy_wire::update::DURATION;
use uuid::Uuid;

use crate::ids;
use crate::listing::{Filter, Question};
use crate::request;
use crate::session::Global;
use crate::verbs::cancel::{change, known, refusals};

/// The short name of the time limit.
const SHORT: &str = "duration";

/// How often a limit is reckoned that others change meanwhile, and the pause between.
const TURNS_MAX: u32 = 200;
const BETWEEN: Duration = Duration::from_millis(20);
/// Of a job that is not there, as the service says it.
const GONE: &str = "there is no such job, or it is over";

/// Change the time limit of jobs that wait or run
///
/// duration=2h gives a job that limit, duration=+30m and duration=-30m make the one it has longer or
/// shorter; a number alone is seconds. A limit counts from the start of the tasks, and holds for later
/// attempts too. While a job waits its user may ask for what could be submitted like that. Once it has
/// begun he may make the limit shorter, to more than it has run; the owner and admins make it longer,
/// also beyond what a queue allows, but not into a reservation and not beyond the end of the instance.
///
/// Of an instance the jobs inside keep their own limits, but end with it.
#[derive(clap::Args)]
pub struct Args {
    /// The jobs of this set, in place of ids
    #[arg(long, value_name = "NAME", value_parser = request::job_set)]
    job_set: Option<String>,
    /// Jobs (f2JL, 1000, lists and ranges, of an instance 905/f5), and duration=[+-]TIME
    #[arg(value_name = "ID|KEY=VALUE", required = true)]
    words: Vec<String>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// This limit.
    To(Span),
    /// So much more than there is, or less.
    By(i64),
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (changes, jobs): (Vec<&String>, Vec<&String>) =
        args.words.iter().partition(|word| word.contains('='));
    let limit = match &changes[..] {
        [] => bail!("no change given; allowed is {SHORT}=[+-]TIME"),
        [one] => limit(one)?,
        [_, more, ..] => bail!("`{more}` given beside another change; allowed is one"),
    };
    let (global, named) = &global.inside(&jobs)?;
    let jobs = ids::many(named)?;
    match (jobs.is_empty(), &args.job_set) {
        (true, None) => bail!("no jobs given; allowed are ids and --job-set NAME"),
        (false, Some(_)) => bail!("--job-set: given beside ids; allowed is one of them"),
        (true, Some(_)) | (false, None) => {}
    }
    let job_set = args.job_set.clone();
    global.session(async |client| {
        let changed = match limit {
            Limit::To(limit) => set(&client, jobs, &job_set, (limit, None)).await?,
            Limit::By(micros) => shift(&client, jobs, &job_set, micros).await?,
        };
        known(&client, job_set.as_ref(), &changed).await?;
        Ok(refusals("update", &changed))
    })
}

async fn set(
    client: &Client,
    jobs: JobSet,
    job_set: &Option<String>,
    (limit, reckoned): (Span, Option<Reckoned>),
) -> anyhow::Result<Changed> {
    let request = |jobs| UpdateRequest {
        jobs,
        job_set: job_set.clone(),
        duration: limit,
        reckoned,
    };
    change::<Update>(client, jobs, request).await
}

/// Asks for what that comes to for each job as it is, since who asks again must not add it twice; and again
/// for those whose limit somebody else changed meanwhile.
async fn shift(
    client: &Client,
    jobs: JobSet,
    job_set: &Option<String>,
    micros: i64,
) -> anyhow::Result<Changed> {
    let mut question = Question {
        filter: Filter::active(),
        jobs,
        job_set: job_set.clone(),
        ..Question::default()
    };
    let mut all = Changed::default();
    for turn in 0..TURNS_MAX {
        let Changed { count, refused, .. } = shift_once(client, &question, micros).await?;
        all.count += count;
        let (moved, refused): (Vec<_>, Vec<_>) =
            refused.into_iter().partition(|(_, why)| why == LIMIT_MOVED);
        all.refused.extend(refused);
        if moved.is_empty() {
            break;
        }
        if turn + 1 == TURNS_MAX {
            all.refused.extend(moved);
            break;
        }
        question.jobs = JobSet::of(moved.into_iter().map(|(job, _)| job));
        question.job_set = None;
        tokio::time::sleep(BETWEEN).await;
    }
    Ok(all)
}

async fn shift_once(client: &Client, question: &Question, micros: i64) -> anyhow::Result<Changed> {
    let mut all = Changed::default();
    let mut limits: BTreeMap<(Span, Span), Vec<JobId>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for row in question.rows(client).await? {
        seen.insert(row.id);
        let before = row
            .duration
            .and_then(|seconds| micros_of_seconds(seconds).ok());
        let Some(before) = before else {
            let why = "it has no time limit; allowed is one without a sign";
            all.refused.push((row.id, why.to_owned()));
            continue;
        };
        match before.saturating_add(micros) {
            limit if limit > 0 => {
                limits
                    .entry((Span(limit), Span(before)))
                    .or_default()
                    .push(row.id);
            }
            _ => {
                let why = "nothing would be left of its time limit";
                all.refused.push((row.id, why.to_owned()));
            }
        }
    }
    let singly = question
        .jobs
        .ranges
        .iter()
        .filter(|(first, last)| first == last);
    let missing = singly.filter(|(job, _)| !seen.contains(job));
    all.refused
        .extend(missing.map(|(job, _)| (*job, GONE.to_owned())));
    for ((limit, from), jobs) in limits {
        let key = Uuid::now_v7();
        let reckoned = Some(Reckoned { from, key });
        let changed = set(client, JobSet::of(jobs), &None, (limit, reckoned)).await?;
        all.count += changed.count;
        all.refused.extend(changed.refused);
    }
    Ok(all)
}

/// The limit that `KEY=VALUE` says.
fn limit(change: &str) -> anyhow::Result<Limit> {
    let (key, value) = change.split_once('=').unwrap_or((change, ""));
    if key != SHORT && key != DURATION {
        bail!("`{key}` given; allowed is {SHORT} ({DURATION})");
    }
    let (text, of): (&str, fn(i64) -> Limit) = match value.split_at_checked(1) {
        Some(("+", more)) => (more, Limit::By),
        Some(("-", less)) => (less, |micros| Limit::By(-micros)),
        _ => (value, |micros| Limit::To(Span(micros))),
    };
    match text.parse() {
        Ok(Fsd::Finite(micros)) if micros > 0 => Ok(of(micros)),
        Ok(_) | Err(_) => bail!(
            "{key}: `{value}` given; allowed are a time of more than nothing (90, 90s, 1.5m, 2h, 1d), \
             and + or - before it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_limit_and_a_sign_makes_it_relative() {
        let minutes = |n: i64| Span::seconds(n * 60);
        let read = |text| limit(text).expect("it is one");
        assert_eq!(read("duration=2h"), Limit::To(minutes(120)));
        assert_eq!(read("duration=90"), Limit::To(Span::seconds(90)));
        assert_eq!(read("duration=+30m"), Limit::By(minutes(30).0));
        assert_eq!(
            read("attributes.system.duration=-1.5m"),
            Limit::By(-Span::seconds(90).0)
        );
    }

    #[test]
    fn what_is_no_limit_is_refused_by_what_was_given() {
        for wrong in [
            "duration=",
            "duration=0",
            "duration=+",
            "duration=inf",
            "duration=--5",
            "duration=x",
        ] {
            let text = limit(wrong).expect_err("it is none").to_string();
            let value = &wrong["duration=".len()..];
            assert!(
                text.starts_with(&format!("duration: `{value}` given; allowed")),
                "{text}"
            );
        }
        let text = limit("queue=debug").expect_err("not that").to_string();
        assert!(
            text.starts_with("`queue` given; allowed is duration"),
            "{text}"
        );
    }
}
