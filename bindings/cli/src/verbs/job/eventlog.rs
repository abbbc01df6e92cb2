//! `eddy job eventlog`: what happened to a job.

use std::io::Write;

use clap::ValueEnum;
use eddy_client::EventFeed;
use eddy_wire::services::job::EventsLine;
use eddy_wire::time::Time;
use serde_json::{Map, Value};

use crate::session::Global;
use crate::{ids, output, when};

/// Print the event log of a job (RFC 18, RFC 21)
#[derive(clap::Args)]
pub struct Args {
    /// json or text
    #[arg(short = 'f', long, value_name = "FORM", default_value = "text")]
    format: Form,
    /// The same as --format=json: one object a line
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// raw, iso, offset (seconds since the first event) or human
    #[arg(short = 'T', long, value_name = "FORM", default_value = "raw")]
    time_format: Stamp,
    /// The same as --time-format=human
    #[arg(short = 'H', long)]
    human: bool,
    /// Go on until the job is over
    #[arg(short = 'F', long)]
    follow: bool,
    /// The job; of an instance 905/f5
    #[arg(value_name = "ID")]
    id: String,
}

/// How an event is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// As a line of an RFC 18 event log.
    Json,
    /// Time, name, key=value.
    Text,
}

/// How its time is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Stamp {
    /// Seconds since 1970.
    Raw,
    /// Date and time here.
    Iso,
    /// Seconds since the first event.
    Offset,
    /// Date and time of the first, then seconds since it.
    Human,
}

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (global, ids) = &global.inside(&[&args.id])?;
    let job = ids::single(ids)?;
    let form = if args.json { Form::Json } else { args.format };
    let stamp = if args.human {
        Stamp::Human
    } else {
        args.time_format
    };
    global.session(async |client| {
        let mut feed = match args.follow {
            true => EventFeed::following(&client, job)?,
            false => EventFeed::so_far(&client, job)?,
        };
        let mut begin = None;
        while let Some(lines) = feed.next().await? {
            let mut out = output::stdout();
            for line in &lines {
                let first = *begin.get_or_insert(line.timestamp);
                writeln!(out, "{}", show(line, form, stamp, first))?;
            }
            out.flush()?;
        }
        Ok(0)
    })
}

/// One event as a line; `begin` is the time of the first.
pub fn show(line: &EventsLine, form: Form, stamp: Stamp, begin: Time) -> String {
    let context = line.context.as_ref().map(|raw| raw.get());
    if form == Form::Json {
        let name = Value::from(line.name.as_str());
        let context = context
            .map(|text| format!(",\"context\":{text}"))
            .unwrap_or_default();
        return format!(
            "{{\"timestamp\":{},\"name\":{name}{context}}}",
            line.timestamp
        );
    }
    let time = match stamp {
        Stamp::Raw => line.timestamp.to_string(),
        Stamp::Iso => when::local(line.timestamp),
        Stamp::Offset => (line.timestamp - begin).to_string(),
        Stamp::Human if line.timestamp == begin => format!("[{}]", when::local(begin)),
        Stamp::Human => format!("[{:>+19.6}]", (line.timestamp - begin).0 as f64 / 1e6),
    };
    let members: Map<String, Value> = context
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let mut text = format!("{time} {}", line.name);
    for (key, value) in members {
        text.push_str(&format!(" {key}={value}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::id::Seq;

    #[test]
    fn an_event_is_a_line_of_json_or_of_text() {
        let context = r#"{"urgency":16,"note":"a b"}"#.to_owned();
        let line = EventsLine {
            seq: Seq(1),
            timestamp: Time(2_500_000),
            name: "submit".into(),
            context: EventsLine::raw(context.clone()),
        };
        let shown = |form, stamp| show(&line, form, stamp, Time(1_000_000));
        assert_eq!(
            shown(Form::Json, Stamp::Raw),
            format!("{{\"timestamp\":2.500000,\"name\":\"submit\",\"context\":{context}}}")
        );
        assert_eq!(
            shown(Form::Text, Stamp::Raw),
            "2.500000 submit urgency=16 note=\"a b\""
        );
        assert_eq!(
            shown(Form::Text, Stamp::Offset),
            "1.500000 submit urgency=16 note=\"a b\""
        );
        assert!(shown(Form::Text, Stamp::Human).starts_with("[          +1.500000] submit"));
    }
}
