//! `eddy batch`: a script that has an instance of its own.

use std::io::{IsTerminal, Read};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use clap::{Args as _, Command};
use eddy_wire::jobspec::JOBSPEC_BYTES_MAX;

use super::submit::{print_ids, submitted, wait};
use crate::output;
use crate::request::Stdin;
use crate::request::directives::unread;
use crate::request::eligible::ArrayOption;
use crate::request::nested::{InstanceOptions, Program};
use crate::session::Global;

/// The file that the script's output goes to.
const OUTPUT: &str = "eddy-{{id}}.out";
/// The name that keeps the output with the job, as for `eddy submit`.
const KEPT: &str = "kvs";

/// Submit a script that runs in an instance of its own, and print the job's id
///
/// The job gets what is asked for and becomes an instance of it; the script is run there, on its
/// first node, and `eddy run`, `eddy submit`, `eddy batch` in it use that instance. The end of
/// the script is the end of the instance and of everything in it: wait for what was submitted.
/// A leader that dies is started again and goes on; the script is never run twice.
///
/// Lines at the beginning of the script give options, as RFC 36 has it; there is one below.
/// `# eddy:`, `#EDDY:`, `# flux:` and `#FLUX:` are taken, one kind in a script. Quotes are a
/// shell's, # begins a comment, three quotes hold several lines. Directives end at the first line
/// that is neither blank nor a comment; one behind it is an error. The command line wins.
/// Lines for other schedulers (`#SBATCH`, `#PBS`) are not read, which is said on standard error.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Make a script of COMMAND: its words with blanks between, for /bin/sh; the job is named after
    /// the first word of it (in Slurm it is `wrap`). Options stand before it
    #[arg(long, help_heading = "Submission")]
    wrap: bool,
    /// Wait for the end; exit with the script's exit code
    #[arg(long, help_heading = "Submission")]
    wait: bool,
    /// Print no id
    #[arg(long, help_heading = "Submission")]
    quiet: bool,
    #[command(flatten)]
    array: ArrayOption,
    #[command(flatten)]
    options: InstanceOptions,
    /// The script and its arguments, or with --wrap a command; without: standard input
    #[arg(trailing_var_arg = true, value_name = "SCRIPT")]
    script: Vec<String>,
}

const EXAMPLES: &str = "A script with options of its own:
  #!/bin/sh
  # eddy: -N2 -t 1h
  # eddy: --job-name=step
  eddy run -n2 ./step

Output goes to eddy-{{id}}.out in the working directory unless --output names \
another file, none (it is dropped) or kvs (it is kept for `eddy job attach`).

Examples:
  eddy batch -N2 -t 1h steps.sh input.dat
  eddy batch -n8 --wrap 'eddy submit --cc=1-1000 --wait ./step {cc}'
  eddy batch -N1 --conf journal.sync=full --output=none <steps.sh";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let (text, arguments, name) = script(args)?;
    let mut options = args.options.clone();
    if !args.wrap {
        let directives = InstanceOptions::of_script(&text).with_context(|| name.clone())?;
        options = options.over(directives);
        tell_unread(&text, &name);
    }
    let terms = &mut options.terms;
    terms.eligible.name_copies(global)?;
    terms.job_name.get_or_insert(name);
    match terms.output.as_deref() {
        None => terms.output = Some(OUTPUT.to_owned()),
        Some(KEPT) => terms.output = None,
        Some(_) => {}
    }
    let program = Program::Script { text, arguments };
    if options.terms.dry_run {
        output::json(&options.jobspec(&program, Stdin::Empty)?)?;
        return Ok(0);
    }
    let request = match &args.array.array {
        None => options.request(&program, Stdin::Empty)?,
        Some(array) => options.array_request(&program, array)?,
    };
    global.session(async |client| {
        let submitted = submitted(&client, &request).await?;
        if !args.quiet {
            print_ids(submitted)?;
        }
        match args.wait {
            true => wait(&client, "batch", submitted).await,
            false => Ok(0),
        }
    })
}

/// Says that lines of the script are not read which its author may think are.
fn tell_unread(text: &str, name: &str) {
    let Some((count, first)) = unread(text) else {
        return;
    };
    let lines = match count {
        1 => format!("the line `{first}` is not read"),
        more => format!("{more} lines such as `{first}` are not read"),
    };
    let line = output::one_line(&format!(
        "{name}: {lines}; options stand in lines that begin with `# eddy:`"
    ));
    eprintln!("eddy batch: {line}");
}

/// What of the words of a command that is wrapped is an option of ours, as it seems: one behind a whole command
/// line, or the last word. In a job it would be a word of the command.
fn misplaced(words: &[String]) -> Option<&String> {
    let (first, rest) = words.split_first()?;
    let is_line = first.contains(char::is_whitespace);
    let ours = Args::augment_args(Command::new("batch"));
    let is_ours = |word: &&String| {
        let long = word
            .strip_prefix("--")
            .map(|long| long.split_once('=').map_or(long, |(name, _)| name));
        long.is_some_and(|long| ours.get_arguments().any(|one| one.get_long() == Some(long)))
    };
    match is_line {
        true => rest.iter().find(|word| word.starts_with('-')),
        false => rest.last().filter(is_ours),
    }
}

/// The script's text, its arguments, and what the job is called.
fn script(args: &Args) -> anyhow::Result<(String, Vec<String>, String)> {
    let first = args.script.first();
    if args.wrap {
        let first = first.context("--wrap needs a command")?;
        if let Some(word) = misplaced(&args.script) {
            bail!(
                "`{word}`: stands behind the command of --wrap and would be a word of it; allowed are options before \
                 --wrap, and a command in quotes with all its words"
            );
        }
        let command = args.script.join(" ");
        // A line that says nothing is a job that does nothing.
        ensure!(
            !command.trim().is_empty(),
            "--wrap: `{}` given, which is no command; allowed is a command line",
            command.escape_debug()
        );
        let text = format!("#!/bin/sh\n{command}\n");
        let program = first.split_whitespace().next().unwrap_or("wrap");
        return Ok((text, Vec::new(), last_part(program)));
    }
    let (text, name) = match first {
        Some(path) => (read(path)?, last_part(path)),
        None => (standard_input()?, "script".to_owned()),
    };
    ensure!(
        text.starts_with("#!"),
        "{name}: is not a script: it does not begin with #!"
    );
    // The system would look for an interpreter with that at the end of its name, and say that there is none.
    let first = text.split('\n').next().unwrap_or_default();
    ensure!(
        !first.ends_with('\r'),
        "{name}: its lines end as on Windows (CR LF); allowed are those that end with LF alone (`dos2unix`, or \
         `tr -d '\\r'`)"
    );
    Ok((text, args.script.iter().skip(1).cloned().collect(), name))
}

fn last_part(path: &str) -> String {
    let name = Path::new(path).file_name();
    name.map_or_else(
        || path.to_owned(),
        |name| name.to_string_lossy().into_owned(),
    )
}

fn read(path: &str) -> anyhow::Result<String> {
    let file = std::fs::File::open(path).with_context(|| path.to_owned())?;
    text(file).with_context(|| path.to_owned())
}

fn standard_input() -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        bail!(
            "no script is named; allowed are a file, --wrap COMMAND, or a script on standard input"
        );
    }
    text(stdin.lock()).context("standard input")
}

fn text(from: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let most = JOBSPEC_BYTES_MAX as u64;
    from.take(most + 1).read_to_end(&mut bytes)?;
    ensure!(
        bytes.len() as u64 <= most,
        "the script has more than {most} bytes; allowed is a jobspec of that size with it (limit `jobspec`)"
    );
    String::from_utf8(bytes).context("the script is not UTF-8")
}
