//! `eddy trace`: the time of each step of a job's path.

use eddy_client::{Client, ClientError, EventFeed};
use eddy_wire::error::Code;
use eddy_wire::id::Seq;
use eddy_wire::services::instance::{Commit, Commits, CommitsRequest};
use eddy_wire::services::job::EventsLine;
use eddy_wire::time::{Span, Time};
use serde_json::json;

use crate::session::Global;
use crate::table::{Align, Table};
use crate::{ids, output};

/// Show when each step of a job's path was taken and when it was on disk
///
/// SINCE is counted from the first event, STEP from the one before, DURABLE from the event to
/// the end of the commit that holds it; all in milliseconds. COMMIT is the last record of that
/// commit. These two are told to the owner and admins; to others, and of what an earlier leader wrote,
/// they are `-`, in JSON null. Fields of --json: seq, name, t, durable, commit.
#[derive(clap::Args)]
pub struct Args {
    /// One array of objects
    #[arg(long)]
    json: bool,
    /// The job; of an instance 905/f5
    #[arg(value_name = "ID")]
    id: String,
}

/// One step and the commit that made it durable, if that is known.
struct Step {
    line: EventsLine,
    commit: Option<Commit>,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&[&args.id])?;
    let job = ids::single(ids)?;
    global.session(async |client| {
        let mut feed = EventFeed::so_far(&client, job)?;
        let mut lines = Vec::new();
        while let Some(batch) = feed.next().await? {
            lines.extend(batch);
        }
        let seqs: Vec<Seq> = lines.iter().map(|line| line.seq).collect();
        let commits = commits(&client, seqs).await?;
        let steps = join(lines, commits);
        match args.json {
            true => output::json(&steps.iter().map(to_json).collect::<Vec<_>>())?,
            false => table(&steps).write(&mut output::stdout())?,
        }
        Ok(0)
    })
}

/// The commits that hold these records; none for who is neither owner nor admin, and is told so.
async fn commits(client: &Client, seqs: Vec<Seq>) -> Result<Vec<Commit>, ClientError> {
    match client.call::<Commits>(&CommitsRequest { seqs }).await {
        Err(ClientError::Refused(refusal)) if refusal.code == Code::NoService => {
            eprintln!("eddy trace: when a step was on disk is told to the owner and admins alone");
            Ok(Vec::new())
        }
        answered => answered,
    }
}

/// A record is durable by the commit that it is in: of one that an earlier leader made nothing is known.
fn join(lines: Vec<EventsLine>, mut commits: Vec<Commit>) -> Vec<Step> {
    commits.sort_by_key(|commit| commit.seq);
    let step = |line: EventsLine| {
        let at = commits.partition_point(|commit| commit.seq < line.seq);
        let commit = commits
            .get(at)
            .copied()
            .filter(|commit| commit.first <= line.seq && commit.t >= line.timestamp);
        Step { line, commit }
    };
    lines.into_iter().map(step).collect()
}

fn to_json(step: &Step) -> serde_json::Value {
    json!({
        "seq": step.line.seq,
        "name": step.line.name,
        "t": step.line.timestamp,
        "durable": step.commit.map(|commit| commit.t),
        "commit": step.commit.map(|commit| commit.seq),
    })
}

fn table(steps: &[Step]) -> Table {
    let mut table = Table::new([
        ("EVENT", Align::Left),
        ("SINCE", Align::Right),
        ("STEP", Align::Right),
        ("DURABLE", Align::Right),
        ("SEQ", Align::Right),
        ("COMMIT", Align::Right),
    ]);
    let begin = steps.first().map_or(Time(0), |step| step.line.timestamp);
    let mut before = begin;
    for step in steps {
        let t = step.line.timestamp;
        let commit = |show: fn(&Commit, Time) -> String| {
            step.commit
                .as_ref()
                .map_or_else(|| "-".to_owned(), |commit| show(commit, t))
        };
        table.push(vec![
            step.line.name.clone(),
            millis(t - begin),
            millis(t - before),
            commit(|commit, t| millis(commit.t - t)),
            step.line.seq.to_string(),
            commit(|commit, _| commit.seq.to_string()),
        ]);
        before = t;
    }
    table
}

fn millis(span: Span) -> String {
    format!("{:.3}", span.0 as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_durable_by_the_commit_that_holds_it() {
        let line = |seq, t| EventsLine {
            seq: Seq(seq),
            timestamp: Time(t),
            name: format!("e{seq}"),
            context: None,
        };
        let commits = vec![
            Commit {
                first: Seq(7),
                seq: Seq(9),
                t: Time(9_000),
            },
            Commit {
                first: Seq(4),
                seq: Seq(5),
                t: Time(5_500),
            },
        ];
        let steps = join(
            vec![
                line(3, 900),
                line(4, 1_000),
                line(5, 5_000),
                line(7, 8_000),
                line(12, 9_500),
            ],
            commits,
        );
        let found: Vec<_> = steps
            .iter()
            .map(|step| step.commit.map(|c| c.seq.0))
            .collect();
        assert_eq!(found, [None, Some(5), Some(5), Some(9), None]);
        let mut text = Vec::new();
        table(&steps).write(&mut text).expect("memory");
        let text = String::from_utf8(text).expect("UTF-8");
        assert_eq!(
            text.lines().nth(3),
            Some("e5     4.100  4.000    0.500    5       5")
        );
        assert!(
            text.lines()
                .last()
                .expect("a line")
                .ends_with("-   12       -"),
            "{text}"
        );
    }
}
