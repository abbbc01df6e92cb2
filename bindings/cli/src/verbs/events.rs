//! `eddy events`: the records of an instance, as they come.

use std::io::Write;
use std::time::Duration;

use eddy_client::{Client, RecordFeed};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::services::instance::{Ping, PingRequest};
use eddy_wire::services::job::EventsLine;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use crate::number::number;
use crate::output;
use crate::session::Global;

/// Print the events of all jobs and of the instance, one JSON object a line
///
/// From the first record that is kept, or from the one that is named; with --follow also what comes, until
/// SIGINT or SIGTERM. Each event comes once and none is left out, also where the leader is another meanwhile: a
/// program that keeps the last seq it was done with goes on with --from that number and one. Several lines may
/// have one seq, since a record may stand for several events; they come together.
///
/// The owner of an instance and admins may; others follow a job with eddy job eventlog --follow.
#[derive(clap::Args)]
#[command(after_long_help = FIELDS)]
pub struct Args {
    /// The first record wanted; what is not kept any more is not told [default: the first there is]
    #[arg(long, value_name = "SEQ", value_parser = number(0..=u64::MAX), conflicts_with = "now")]
    from: Option<u64>,
    /// Only what comes from now on
    #[arg(long, requires = "follow")]
    now: bool,
    /// Go on with what comes
    #[arg(short = 'F', long)]
    follow: bool,
}

const FIELDS: &str = "Fields:
  seq        place of the record in the journal: rises, with holes where history was forgotten
  timestamp  when it happened, seconds since 1970
  job        number of the job; null of what is the instance's own
  name       what happened: submit, alloc, start, finish, exception, release, clean, ... (doc/protocol/events.md)
  context    the rest of it, an object; left out where there is none

Examples:
  eddy events --follow | jq 'select(.name == \"clean\").job'
  eddy events --from 1734 --follow";

/// How often it is looked whether anybody reads what is printed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        let from = match args.now {
            true => client
                .call::<Ping>(&PingRequest::default())
                .await?
                .durable
                .next(),
            false => Seq(args.from.unwrap_or_default()),
        };
        match args.follow {
            true => follow(&client, from).await,
            false => {
                let mut feed = RecordFeed::so_far(&client, from)?;
                while let Some(records) = feed.next().await? {
                    print(&records)?;
                }
                Ok(0)
            }
        }
    })
}

/// Goes on until a signal, between two lines: that is how this is meant to end.
async fn follow(client: &Client, from: Seq) -> anyhow::Result<u8> {
    let mut feed = RecordFeed::following(client, from)?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut look = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            records = feed.next() => match records? {
                Some(records) => print(&records)?,
                None => return Ok(0),
            },
            _ = interrupted.recv() => return Ok(0),
            _ = terminated.recv() => return Ok(0),
            // Where nothing comes for long no write would tell.
            _ = look.tick() => output::is_read()?,
        }
    }
}

/// Prints what came together, so that a reader has it at once and whole.
fn print(records: &[(Option<JobId>, EventsLine)]) -> anyhow::Result<()> {
    let mut out = output::stdout();
    for (job, line) in records {
        writeln!(out, "{}", show(*job, line))?;
    }
    Ok(out.flush()?)
}

/// One event as a line.
fn show(job: Option<JobId>, line: &EventsLine) -> String {
    let (name, job) = (
        Value::from(line.name.as_str()),
        job.map_or(Value::Null, |job| job.0.into()),
    );
    let context = line.context.as_ref().map(|raw| raw.get());
    let context = context
        .map(|text| format!(",\"context\":{text}"))
        .unwrap_or_default();
    let (seq, timestamp) = (line.seq, line.timestamp);
    format!("{{\"seq\":{seq},\"timestamp\":{timestamp},\"job\":{job},\"name\":{name}{context}}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::time::Time;

    #[test]
    fn an_event_is_one_object_with_its_job() {
        let line = |context| EventsLine {
            seq: Seq(7),
            timestamp: Time(2_500_000),
            name: "clean".into(),
            context,
        };
        assert_eq!(
            show(Some(JobId(3)), &line(None)),
            r#"{"seq":7,"timestamp":2.500000,"job":3,"name":"clean"}"#
        );
        assert_eq!(
            show(None, &line(EventsLine::raw(r#"{"epoch":2}"#.to_owned()))),
            r#"{"seq":7,"timestamp":2.500000,"job":null,"name":"clean","context":{"epoch":2}}"#
        );
    }
}
