//! `eddy job submit`: submit jobspecs that were written by hand or by a program.

mod lines;

use anyhow::Context;
use eddy_wire::event::{Requeue, Waitable};
use eddy_wire::jobspec::{JOBSPEC_BYTES_MAX, Jobspec};
use eddy_wire::services::job::{SubmitRequest, URGENCY_DEFAULT};
use serde_json::Value;
use uuid::Uuid;

use crate::request::{self, remark};
use crate::session::Global;
use crate::text;
use crate::verbs::submit::{print_ids, submitted};

/// Submit a jobspec (RFC 14, RFC 25), JSON or YAML, and print the id
///
/// It is sent as it is: the environment and the working directory of the tasks are those that it names.
/// What it asks for and this scheduler does not serve is refused by name. Attributes of the system that nothing here
/// reads are kept, as in Flux, and named on standard error.
///
/// With --lines many, one a line, each as JSON: a jobspec, or {"jobspec": ..., "key": ..., "urgency": ...}. They
/// are submitted in the order of the lines, 64 under way at a time, and their ids printed in it, one a line. A line
/// that is refused has an empty one in its place, and its number and what is wrong on standard error; those behind
/// it are submitted all the same, and the exit code is 1; so is one that is blank. One that the instance has no
/// room for now is tried again for as long as a leader is waited for (--reconnect), and is refused only then;
/// meanwhile none behind it is sent, but those that are under way already may be taken before it. A restart of the
/// leader is waited for, and no line is submitted twice by it; where it is given up (--reconnect) the command ends,
/// and what became of the lines without an id is not known. Where this command itself may be repeated, give each
/// line a key: the same key again prints the same id. A key is a UUID of version 7, such as eddy job key prints.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// 0 to 31, hold (0), default (16) or expedite (31)
    #[arg(long, value_name = "N", value_parser = request::urgency)]
    urgency: Option<u8>,
    /// waitable: keep the result until `eddy job wait` has collected it
    #[arg(long, value_name = "FLAG", value_delimiter = ',', value_parser = ["waitable"])]
    flags: Vec<String>,
    /// Each line of the file is a submission
    #[arg(long)]
    lines: bool,
    /// File of the jobspec; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: String,
}

const EXAMPLES: &str = "Examples:
  eddy run --dry-run -n2 ./solve | eddy job submit
  eddy job submit --urgency=hold job.yaml
  ./workflow --print-jobs | eddy job submit --lines";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let request = SubmitRequest {
        key: Uuid::now_v7(),
        jobspec: Value::Null,
        cc: None,
        urgency: args.urgency.unwrap_or(URGENCY_DEFAULT),
        waitable: match args.flags.is_empty() {
            true => Waitable::No,
            false => Waitable::Yes,
        },
        requeue: Requeue::No,
        on_behalf: None,
    };
    if args.lines {
        return lines::submit(global, &args.file, &request);
    }
    let text = text::read(&args.file, JOBSPEC_BYTES_MAX)?;
    let jobspec = Jobspec::parse(text.as_bytes()).with_context(|| args.file.clone())?;
    if let Some(remark) = remark(&jobspec) {
        eprintln!("{remark}");
    }
    let request = SubmitRequest {
        jobspec: serde_json::to_value(&jobspec).context("the jobspec is not JSON")?,
        ..request
    };
    global.session(async |client| {
        print_ids(submitted(&client, &request).await?)?;
        Ok(0)
    })
}
