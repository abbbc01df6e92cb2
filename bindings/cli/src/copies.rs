//! Jobs of one submission by the id of any of them: all copies of it (`f5_all`), or the one with a number (`f5_3`).
//!
//! Used wherever jobs are named. The jobs of a submission have numbers without gaps, which its records say, so
//! that they are a range from then on: whatever is asked of them is asked of all at once.

use anyhow::{Context, bail};
use eddy_client::{Client, EventFeed};
use eddy_wire::id::JobId;

/// Between the id of a job and which of its copies are meant.
const MARK: char = '_';
/// All of them.
const ALL: &str = "all";

/// Whether any of these names jobs by another of their submission.
pub fn are_named<T: AsRef<str>>(texts: &[T]) -> bool {
    texts.iter().any(|text| text.as_ref().contains(MARK))
}

/// The same, named by their own numbers.
///
/// # Errors
/// There is no such job or copy.
pub async fn by_number(client: &Client, texts: &[String]) -> anyhow::Result<Vec<String>> {
    let mut named = Vec::with_capacity(texts.len());
    for text in texts {
        named.push(match text.split_once(MARK) {
            None => text.clone(),
            Some((job, which)) => copies(client, job, which)
                .await
                .with_context(|| format!("`{}`", text.escape_debug()))?,
        });
    }
    Ok(named)
}

async fn copies(client: &Client, job: &str, which: &str) -> anyhow::Result<String> {
    let job = job.parse()?;
    let copy = copy(client, job).await?;
    if which == ALL {
        return Ok(format!("{}-{}", copy.first, copy.last));
    }
    let Ok(number) = which.parse::<u32>() else {
        bail!("allowed are {job}{MARK}{ALL} and {job}{MARK}N, the copy with the number N");
    };
    let Some(job) = numbered(client, &copy, number).await? else {
        bail!(
            "none of jobs {}-{} is the copy with that number",
            copy.first,
            copy.last
        );
    };
    Ok(job.to_string())
}

/// A job as one of its submission.
struct Copy {
    first: JobId,
    last: JobId,
    number: Option<u32>,
}

async fn copy(client: &Client, job: JobId) -> anyhow::Result<Copy> {
    let mut feed = EventFeed::so_far(client, job)?;
    let lines = feed.next().await?.unwrap_or_default();
    let submit = lines.into_iter().find(|line| line.name == "submit");
    let context = submit.and_then(|line| line.context);
    let context = context.context("its submission is not known any more")?;
    let context: serde_json::Value = serde_json::from_str(context.get())?;
    let number = |key: &str| context[key].as_u64();
    let (index, count) = (number("index").unwrap_or(0), number("count").unwrap_or(1));
    let first = job.0.saturating_sub(index);
    Ok(Copy {
        first: JobId(first),
        last: JobId(first + count.max(1) - 1),
        number: number("cc").and_then(|number| u32::try_from(number).ok()),
    })
}

/// The job with that number: they rise with the jobs.
async fn numbered(client: &Client, of: &Copy, number: u32) -> anyhow::Result<Option<JobId>> {
    let (mut low, mut high) = (of.first.0, of.last.0);
    while low <= high {
        let middle = low + (high - low) / 2;
        let Some(there) = copy(client, JobId(middle)).await?.number else {
            return Ok(None);
        };
        match there.cmp(&number) {
            std::cmp::Ordering::Equal => return Ok(Some(JobId(middle))),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater if middle == low => return Ok(None),
            std::cmp::Ordering::Greater => high = middle - 1,
        }
    }
    Ok(None)
}
