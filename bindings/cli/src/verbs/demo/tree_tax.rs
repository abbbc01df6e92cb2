//! `eddy demo tree-tax`: the same jobs through one queue, through two queue instances
//! that share all cores, and through two that have half of them each.
//!
//! Real instances; tasks only last. What the jobs are is `burst`'s to say, what one queue makes of them `one_queue`'s.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use eddy_client::{Client, EndFeed, Options};
use eddy_wire::services::job::{JobRow, JobSet, Submit, SubmitRequest};
use eddy_wire::time::Span;
use tokio::task::JoinSet;

use super::burst::{self, Asked, CORES, GROUPS, NODES, WIDTH_MAX};
use super::ground::{Ends, Ground, Played, serving, tell};
use super::one_queue::{self, Ran};
use crate::instance::StartOptions;
use crate::listing::{Filter, Question};
use crate::request::{JobOptions, Stdin, Terms};
use crate::session::block_on;

/// How long one play may take on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(90);
/// A ratio within so much of 1 is called about the same.
const ABOUT: f64 = 0.1;

/// Play the same jobs through one queue, two elastic queue instances, and two fixed halves
///
/// Some 150 short jobs of 1 to 8 cores, the same each time, come in turns from two groups to a root
/// of 16 made-up cores (tasks last their time and do nothing): first to one queue under `easy`, then
/// each group to an elastic queue instance of its own, then each to an instance of half of the nodes.
/// Shown are the mean and the longest wait from submission until a job has its cores, and the mean as
/// a part of one queue's: of what the published algorithm makes of jobs that come when these came and
/// hold cores for as long as these did. The instances and their times are real: where this machine does
/// other things jobs hold their cores for longer and all wait longer, in that one queue, too.
/// Takes less than 20 seconds on a machine at rest.
#[derive(clap::Args)]
pub struct Args {}

/// Who has which cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    Flat,
    Elastic,
    Halves,
}

impl Layout {
    const ALL: [Layout; 3] = [Layout::Flat, Layout::Elastic, Layout::Halves];

    fn name(self) -> &'static str {
        match self {
            Layout::Flat => "one queue",
            Layout::Elastic => "two elastic queue instances",
            Layout::Halves => "two fixed halves",
        }
    }

    fn configuration(self) -> String {
        let has = match self {
            Layout::Flat => None,
            Layout::Elastic => Some("elastic = \"all\"".to_owned()),
            Layout::Halves => Some(format!(
                "nodes = {}\nset = {{ \"policy.preset\" = \"easy\" }}",
                NODES / 2
            )),
        };
        let queue = |has: &str, name: &str| {
            format!(
                "\n[[instance]]\nname = \"{name}\"\n{has}\n\n[[queue]]\nname = \"{name}\"\ninstance = \"{name}\"\n"
            )
        };
        let queues = has
            .iter()
            .flat_map(|has| GROUPS.map(|name| queue(has, name)));
        "[policy]\npreset = \"easy\"\n".to_owned() + &queues.collect::<String>()
    }

    fn queue(self, job: &Asked) -> Option<String> {
        match self {
            Layout::Flat => None,
            Layout::Elastic | Layout::Halves => Some(GROUPS[job.group].to_owned()),
        }
    }
}

/// What a play showed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Waits {
    mean: f64,
    longest: f64,
    /// What the mean would be in one queue.
    in_one: f64,
    /// By how much a job held its cores longer than its task lasts, on average.
    beside: f64,
}

impl Waits {
    /// In seconds, of these jobs and their rows.
    fn of(jobs: &[Asked], rows: &[JobRow]) -> anyhow::Result<Waits> {
        let ran = rows.iter().map(ran).collect::<anyhow::Result<Vec<Ran>>>()?;
        let seconds = |span: Span| span.0 as f64 / 1e6;
        let waits = ran.iter().map(|job| seconds(job.granted - job.submitted));
        let held: f64 = ran.iter().map(|job| seconds(job.over - job.granted)).sum();
        let lasted: f64 = jobs.iter().map(|job| job.lasts.as_secs_f64()).sum();
        Ok(Waits {
            mean: one_queue::mean_wait(&ran),
            longest: waits.fold(0.0, f64::max),
            in_one: one_queue::mean_wait_in_one(&ran, NODES * CORES)?,
            beside: (held - lasted) / rows.len().max(1) as f64,
        })
    }

    /// The mean as a part of that of one queue.
    fn ratio(&self) -> f64 {
        self.mean / self.in_one
    }
}

/// When a job came, had its cores and was over.
fn ran(row: &JobRow) -> anyhow::Result<Ran> {
    let why = || format!("job {} has not run", row.id);
    let limit = row
        .duration
        .with_context(|| format!("job {} has no limit", row.id))?;
    Ok(Ran {
        submitted: row.t_submit,
        granted: row.t_alloc.with_context(why)?,
        over: row.t_inactive.with_context(why)?,
        cores: row.ncores,
        limit: Span((limit * 1e6) as i64),
    })
}

pub fn run(_: &Args) -> anyhow::Result<u8> {
    block_on(async {
        let begun = Instant::now();
        let mut ends = Ends::listen()?;
        let jobs = burst::jobs();
        let work: f64 = jobs.iter().map(Asked::work).sum();
        tell(format!(
            "{} jobs of 1 to {WIDTH_MAX} cores, {work:.0} core-seconds, from two groups in turns, on {} made-up cores",
            jobs.len(),
            NODES * CORES
        ))?;
        let mut shown = Vec::new();
        for layout in Layout::ALL {
            match play(layout, &jobs, &mut ends).await? {
                Played::Whole(waits) => shown.push(waits),
                Played::Ended(code) => return Ok(code),
            }
            let waits = &shown[shown.len() - 1];
            tell(format!(
                "{:<28} mean wait {:.2} s, longest {:.2} s, {:.2} of one queue's",
                format!("{}:", layout.name()),
                waits.mean,
                waits.longest,
                waits.ratio()
            ))?;
        }
        for line in explained(&shown) {
            tell(line)?;
        }
        tell(format!("in {:.1} s", begun.elapsed().as_secs_f64()))?;
        Ok(0)
    })
}

/// What is seen, a line for each layout, and what the machine did to it.
fn explained(shown: &[Waits]) -> Vec<String> {
    let [flat, elastic, halves] = shown else {
        return Vec::new();
    };
    let seen = |ratio: f64| match ratio {
        ratio if ratio < 1.0 - ABOUT => "less than",
        ratio if ratio > 1.0 + ABOUT => "more than",
        _ => "about the same as",
    };
    let lines = [
        format!(
            "one queue: {} what the published algorithm makes of it, as the others are held against that",
            seen(flat.ratio())
        ),
        format!(
            "elastic: {} one queue, for the root orders all jobs and any core is for whoever is next",
            seen(elastic.ratio())
        ),
        format!(
            "halves: {} one queue, for a group waits while the other's half is idle",
            seen(halves.ratio())
        ),
        format!(
            "a job held its cores {:.0}, {:.0} and {:.0} ms longer than its task lasts: the more this machine has \
             to do the more, and the longer all wait, in one queue, too",
            flat.beside * 1e3,
            elastic.beside * 1e3,
            halves.beside * 1e3
        ),
    ];
    lines.to_vec()
}

async fn play(layout: Layout, jobs: &[Asked], ends: &mut Ends) -> anyhow::Result<Played<Waits>> {
    let options = StartOptions {
        fake: Some(format!("nodes={NODES},cores={CORES}")),
        ..StartOptions::default()
    };
    let ground = Ground::start(&layout.configuration(), options)?;
    let played = tokio::select! {
        waits = tokio::time::timeout(PATIENCE, waited(&ground, layout, jobs)) => match waits {
            Ok(waits) => waits.map(Played::Whole),
            Err(_) => Err(anyhow::anyhow!(
                "{}: the jobs did not end within {} s",
                layout.name(),
                PATIENCE.as_secs()
            )),
        },
        code = ends.come() => Ok(Played::Ended(code)),
    };
    let ended = ground.end().await;
    let played = played?;
    ended?;
    Ok(played)
}

/// Submits each job at its time, and waits for all.
async fn waited(ground: &Ground, layout: Layout, jobs: &[Asked]) -> anyhow::Result<Waits> {
    let client = Client::connect(&ground.leader().uri, Options::default()).await?;
    if layout != Layout::Flat {
        for name in GROUPS {
            serving(&client, name).await?;
        }
    }
    let requests = jobs.iter().map(|job| request(ground, layout, job));
    let requests = requests.collect::<anyhow::Result<Vec<_>>>()?;
    let begun = Instant::now();
    let mut asked = JoinSet::new();
    for (job, request) in jobs.iter().zip(requests) {
        tokio::time::sleep_until((begun + job.at).into()).await;
        let client = client.clone();
        // Not waited for: when one comes is no other's doing.
        asked.spawn(async move { client.call::<Submit>(&request).await });
    }
    let mut ids = Vec::with_capacity(jobs.len());
    while let Some(submitted) = asked.join_next().await {
        ids.push(submitted.context("a submission panicked")??.first);
    }
    let ids = JobSet::of(ids);
    let mut over = EndFeed::of(&client, ids.clone())?;
    while let Some(batch) = over.next().await? {
        for end in batch {
            let why = end.exception.as_deref().unwrap_or("no exception");
            let (id, code) = (end.id, end.returncode);
            ensure!(code == 0, "job {id} ended with {code}: {why}");
        }
    }
    let question = Question {
        filter: Filter::all(),
        jobs: ids,
        ..Question::default()
    };
    let rows = question.rows(&client).await?;
    let (there, all) = (rows.len(), jobs.len());
    ensure!(there == all, "of {all} jobs {there} are listed");
    Waits::of(jobs, &rows)
}

fn request(ground: &Ground, layout: Layout, job: &Asked) -> anyhow::Result<SubmitRequest> {
    let lasts = job.lasts.as_millis();
    let options = JobOptions {
        ntasks: Some(job.width),
        terms: Terms {
            job_name: Some("tax".to_owned()),
            cwd: Some(ground.cwd()?),
            queue: layout.queue(job),
            time_limit: Some(format!("{}ms", job.limit.as_millis())),
            setattr: vec![format!("exec.test.run_duration={lasts}ms")],
            ..Terms::default()
        },
        command: vec!["true".to_owned()],
        ..JobOptions::default()
    };
    options.request(None, Stdin::Empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(mean: f64) -> Waits {
        Waits {
            mean,
            longest: 3.0 * mean,
            in_one: 1.0,
            beside: 0.012,
        }
    }

    #[test]
    fn what_is_said_is_what_was_seen() {
        let words = |shown: [f64; 3]| explained(&shown.map(waits)).join("\n");
        let usual = words([1.0, 1.04, 2.5]);
        assert!(
            usual.contains("elastic: about the same as one queue"),
            "{usual}"
        );
        assert!(usual.contains("halves: more than one queue"), "{usual}");
        assert!(usual.contains("12, 12 and 12 ms"), "{usual}");
        let odd = words([1.0, 1.4, 0.5]);
        assert!(odd.contains("elastic: more than one queue"), "{odd}");
        assert!(odd.contains("halves: less than one queue"), "{odd}");
    }
}
