//! From what the kernel hands over to a parsed command, or one line of error.
//!
//! Called by `main` before anything else. Long options are never abbreviated,
//! and what is not UTF-8 is refused by place and value, since jobspecs and
//! messages are JSON.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::{ArgMatches, Command, Parser};

/// The exit code of a command line that is wrong.
const USAGE: u8 = 2;

/// The name of the verb (`eddy job wait`) and the parsed command line; or the
/// exit code after its help or error was printed.
pub fn parse<C: Parser>() -> Result<(String, C), ExitCode> {
    let args = under(std::env::args_os().collect());
    let unreadable = not_utf8(&args);
    if unreadable.is_none()
        && let Ok(parsed) = parse_by::<C>(&mut C::command(), &args)
    {
        return Ok(parsed);
    }
    // What each verb is for, and its options, are known once all are put together.
    let mut command = C::command();
    command.build();
    let verb = verb_of(&command, &args);
    if let Some(line) = unreadable {
        eprintln!("{verb}: {line}");
        return Err(ExitCode::from(USAGE));
    }
    parse_by::<C>(&mut command, &args).map_err(|error| refuse(&verb, &error))
}

fn parse_by<C: Parser>(
    command: &mut Command,
    args: &[OsString],
) -> Result<(String, C), clap::Error> {
    let mut matches = command.try_get_matches_from_mut(args)?;
    let verb = verb_of_matches(&matches);
    C::from_arg_matches_mut(&mut matches).map(|cli| (verb, cli))
}

/// `account add NAME --parent OTHER` is its option `--under`: everywhere else `--parent` is the
/// instance above, and one name cannot be both.
fn under(mut args: Vec<OsString>) -> Vec<OsString> {
    let is = |arg: Option<&OsString>, words: &[&str]| {
        let text = arg.and_then(|arg| arg.to_str());
        text.is_some_and(|text| words.contains(&text))
    };
    let verb = (1..args.len())
        .find(|at| is(args.get(*at), &["account"]) && is(args.get(at + 1), &["add", "edit"]));
    for arg in args.iter_mut().skip(verb.unwrap_or(usize::MAX)) {
        let text = arg.to_str().and_then(|text| text.strip_prefix("--parent"));
        let rest = text.filter(|rest| rest.is_empty() || rest.starts_with('='));
        if let Some(rest) = rest {
            *arg = format!("--under{rest}").into();
        }
    }
    args
}

fn not_utf8(args: &[OsString]) -> Option<String> {
    let at = args.iter().position(|arg| arg.to_str().is_none())?;
    Some(format!(
        "argument {at} is {:?}; arguments are UTF-8",
        args[at]
    ))
}

fn refuse(verb: &str, error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Whoever closed the pipe has read enough.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ => {
            let line = crate::output::one_line(&one_line(error));
            eprintln!("{verb}: {line} (see {verb} --help)");
            ExitCode::from(USAGE)
        }
    }
}

/// What clap says in several lines, in one, without its advice.
pub fn one_line(error: &clap::Error) -> String {
    // Which of the two it is depends on whether any option was given.
    let no_verb = [
        ErrorKind::MissingSubcommand,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    if no_verb.contains(&error.kind()) {
        return "no verb given".to_owned();
    }
    let text = error.render().to_string();
    let said: Vec<&str> = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"))
        .filter(|line| !line.is_empty() && !line.starts_with("tip:"))
        .collect();
    let mut line = said.join(" ").trim_start_matches("error: ").to_owned();
    if let Some(meant) = error.get(ContextKind::SuggestedArg) {
        line.push_str(&format!("; there is {meant}"));
    }
    line
}

fn verb_of_matches(matches: &ArgMatches) -> String {
    let mut name = "eddy".to_owned();
    let mut at = matches;
    while let Some((verb, inner)) = at.subcommand() {
        name.push(' ');
        name.push_str(verb);
        at = inner;
    }
    name
}

/// The verb of a command line that may be wrong.
fn verb_of(command: &Command, args: &[OsString]) -> String {
    let mut name = "eddy".to_owned();
    let mut at = command;
    for arg in args.iter().skip(1).filter_map(|arg| arg.to_str()) {
        match at.find_subcommand(arg) {
            Some(inner) => {
                name.push(' ');
                name.push_str(arg);
                at = inner;
            }
            None if at.has_subcommands() => {}
            None => break,
        }
    }
    name
}
