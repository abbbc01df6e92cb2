//! `eddy policy`: the presets, a policy in full, and what is wrong with one.
//!
//! Reads files and what is compiled in; it needs an instance only to show what that obeys.

use std::fs;

use anyhow::Context;
use clap::Subcommand;
use eddy_brokerd::text;
use eddy_sched::policy::outweigh::outweighs;
use eddy_sched::policy::print::print;
use eddy_sched::policy::read::read;
use eddy_sched::policy::warn::warnings;
use eddy_sched::policy::{PRESETS, Policy, PolicyError, preset};
use eddy_wire::services::sched::Policy as Obeyed;

use crate::output;
use crate::session::Global;
use crate::table::{Align, Table};

/// List, show and check scheduling policies
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// List the presets and what each is for
    List,
    /// Print a policy in full, with what each key means and what outweighs what
    ///
    /// What is printed is TOML that reads back to the same policy; what differs from the preset is
    /// marked.
    Show {
        /// A preset, such as flux or hybrid-8, or a file; - is standard input; none is what the
        /// running instance obeys
        #[arg(value_name = "NAME|FILE")]
        name: Option<String>,
    },
    /// Check a file: print every error in it with its line, then what is seldom meant
    ///
    /// Ends with 1 where there is an error, with 0 where there are only warnings.
    Check {
        /// The file; - is standard input
        #[arg(value_name = "FILE")]
        file: String,
    },
}

/// The longest policy that is read, in bytes: far more than anybody writes.
const TEXT_MAX: usize = 1 << 20;

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    match args.verb {
        Verb::List => list(),
        Verb::Show { name: Some(name) } => show(&name),
        Verb::Show { name: None } => show_obeyed(global),
        Verb::Check { file } => check(&file),
    }
}

fn list() -> anyhow::Result<u8> {
    let columns = ["NAME", "WHAT IT DOES", "WHAT IT IS FOR"];
    let mut table = Table::new(columns.map(|column| (column, Align::Left)));
    for preset in PRESETS {
        table.push(
            [preset.name, preset.what, preset.purpose]
                .map(str::to_owned)
                .to_vec(),
        );
    }
    table.write(&mut output::stdout())?;
    Ok(0)
}

fn show(name: &str) -> anyhow::Result<u8> {
    let policy = match preset(name) {
        Some(policy) => policy,
        None => match of_file(name)? {
            Ok(policy) => policy,
            Err(errors) => return Ok(refused("show", name, &errors)),
        },
    };
    shown(&policy)
}

/// The policy that the running instance obeys.
fn show_obeyed(global: &Global) -> anyhow::Result<u8> {
    let reply = global.session(async |client| Ok(client.call::<Obeyed>(&()).await?))?;
    match read(&reply.text) {
        Ok(policy) => shown(&policy),
        // An instance that is newer may obey more than this command knows.
        Err(_) => {
            output::lines(reply.text.lines())?;
            Ok(0)
        }
    }
}

fn shown(policy: &Policy) -> anyhow::Result<u8> {
    let mut text = print(policy);
    let sections = [
        (
            "What outweighs what, in the first formula:",
            outweighs(policy),
        ),
        (
            "Seldom meant:",
            warnings(policy).iter().map(ToString::to_string).collect(),
        ),
    ];
    for (heading, lines) in sections {
        if !lines.is_empty() {
            let lines: String = lines.iter().map(|line| format!("# - {line}\n")).collect();
            text += &format!("\n# {heading}\n{lines}");
        }
    }
    output::lines(text.lines())?;
    Ok(0)
}

fn check(file: &str) -> anyhow::Result<u8> {
    match of_file(file)? {
        Ok(policy) => {
            for warning in warnings(&policy) {
                let line = output::one_line(&warning.to_string());
                eprintln!("eddy policy check: {file}: warning: {line}");
            }
            Ok(0)
        }
        Err(errors) => Ok(refused("check", file, &errors)),
    }
}

fn refused(verb: &str, file: &str, errors: &[PolicyError]) -> u8 {
    for error in errors {
        let line = output::one_line(&error.to_string());
        eprintln!("eddy policy {verb}: {file}: {line}");
    }
    output::FAILED
}

/// The policy of a file, or what is wrong with it.
fn of_file(file: &str) -> anyhow::Result<Result<Policy, Vec<PolicyError>>> {
    Ok(read(&text_of(file)?))
}

/// The text of the policy that a word names: a preset, a file, or `-`, standard input.
///
/// # Errors
/// It is none of these, or is too long.
pub fn named(word: &str) -> anyhow::Result<String> {
    match preset(word) {
        Some(policy) => Ok(print(&policy)),
        None => text_of(word),
    }
}

fn text_of(file: &str) -> anyhow::Result<String> {
    if file == "-" {
        return text::of(&mut std::io::stdin().lock(), TEXT_MAX).context("standard input");
    }
    let mut opened = fs::File::open(file)
        .with_context(|| format!("{file}: is no preset and no file that can be read"))?;
    text::of(&mut opened, TEXT_MAX).with_context(|| file.to_owned())
}
