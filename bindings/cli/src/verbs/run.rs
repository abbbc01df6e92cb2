//! `eddy run`: submit a job and be with it until it ends.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use super::submit::{begin, dry_run};
use crate::attach::{Forward, How, Interrupt, Label, attach};
use crate::request::{JobOptions, Stdin, Terms};
use crate::session::Global;

/// Run a job: submit it, show its output, exit with its exit code
///
/// Options end at the first word that is none: what follows is the command.
/// The exit code is the highest of the tasks', 128 + signal for one that was
/// killed. Standard input goes to all tasks. ctrl-C twice within two seconds
/// cancels the job; ctrl-C then ctrl-Z leaves it running. TERM, HUP and QUIT
/// (ctrl-\; unless they are ignored, as HUP is under nohup) cancel it at once,
/// and so does a reader of the output that goes away (eddy run yes | head): what
/// ends this command ends the job. A restart of the leader is waited for.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    options: JobOptions,
}

pub fn run(global: &Global, mut args: Args) -> anyhow::Result<u8> {
    args.options.terms.eligible.name_copies(global)?;
    let (stdin, forward) = stdin(&args.options.terms);
    if args.options.terms.dry_run {
        return dry_run(&args.options, stdin);
    }
    let label = match args.options.terms.label_io {
        true => Label::Task,
        false => Label::Plain,
    };
    let request = args.options.request(None, stdin)?;
    global.session(async |client| {
        let how = |job| How {
            job,
            label,
            forward,
            interrupt: Interrupt::Own,
            verb: "run",
        };
        let begun = begin(global, (&client, &request), (Interrupt::Own, how));
        let (how, mut watches) = match begun.await? {
            Ok(begun) => begun,
            Err(code) => return Ok(code),
        };
        let left = attach(&client, global.options(), how, &mut watches).await?;
        Ok(left.code())
    })
}

/// Where tasks get standard input from, and whether ours is sent. An empty one
/// need not be: the tasks get one of their own.
pub fn stdin(terms: &Terms) -> (Stdin, Forward) {
    match terms.input.is_some() {
        true => (Stdin::Attached, Forward::No),
        false if is_null() => (Stdin::Empty, Forward::No),
        false => (Stdin::Attached, Forward::Yes),
    }
}

/// Whether our standard input is /dev/null, or closed.
fn is_null() -> bool {
    let null = std::fs::metadata("/dev/null");
    let ours = std::fs::metadata("/proc/self/fd/0");
    match (ours, null) {
        (Ok(ours), Ok(null)) => ours.file_type().is_char_device() && ours.rdev() == null.rdev(),
        _ => true,
    }
}
