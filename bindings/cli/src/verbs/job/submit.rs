//! `eddy job submit`: submit a jobspec that was written by hand or by a program.

use anyhow::Context;
use eddy_wire::event::{Requeue, Waitable};
use eddy_wire::jobspec::{JOBSPEC_BYTES_MAX, Jobspec};
use eddy_wire::services::job::{SubmitRequest, URGENCY_DEFAULT};
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
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// 0 to 31, hold (0), default (16) or expedite (31)
    #[arg(long, value_name = "N", value_parser = request::urgency)]
    urgency: Option<u8>,
    /// waitable: keep the result until `eddy job wait` has collected it
    #[arg(long, value_name = "FLAG", value_delimiter = ',', value_parser = ["waitable"])]
    flags: Vec<String>,
    /// File of the jobspec; - is standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: String,
}

const EXAMPLES: &str = "Examples:
  eddy run --dry-run -n2 ./solve | eddy job submit
  eddy job submit --urgency=hold job.yaml";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let text = text::read(&args.file, JOBSPEC_BYTES_MAX)?;
    let jobspec = Jobspec::parse(text.as_bytes()).with_context(|| args.file.clone())?;
    if let Some(remark) = remark(&jobspec) {
        eprintln!("{remark}");
    }
    let request = SubmitRequest {
        key: Uuid::now_v7(),
        jobspec: serde_json::to_value(&jobspec).context("the jobspec is not JSON")?,
        cc: None,
        urgency: args.urgency.unwrap_or(URGENCY_DEFAULT),
        waitable: match args.flags.is_empty() {
            true => Waitable::No,
            false => Waitable::Yes,
        },
        requeue: Requeue::No,
        on_behalf: None,
    };
    global.session(async |client| {
        print_ids(submitted(&client, &request).await?)?;
        Ok(0)
    })
}
