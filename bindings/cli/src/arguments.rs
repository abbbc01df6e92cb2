//! From what the kernel hands over to a parsed command, or one line of error.
//!
//! Called by `main` before anything else. Long options are never abbreviated,
//! and what is not UTF-8 is refused by place and value, since jobspecs and
//! messages are JSON.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ErrorKind};
use clap::{ArgMatches, Command, Parser};

use crate::number;

/// The exit code of a command line that is wrong.
const USAGE: u8 = 2;

/// The name of the verb (`eddy job wait`), the parsed command line and what was typed in it; or the
/// exit code after its help or error was printed.
pub fn parse<C: Parser>() -> Result<(String, C, Typed), ExitCode> {
    let (args, typed) = under(std::env::args_os().collect());
    let unreadable = not_utf8(&args);
    if unreadable.is_none()
        && let Ok((verb, cli)) = parse_by::<C>(&mut C::command(), &args)
    {
        return Ok((verb, cli, typed));
    }
    let mut command = whole::<C>(&args);
    let verb = verb_of(&command, &args);
    if let Some(line) = unreadable {
        eprintln!("{verb}: {line}");
        return Err(ExitCode::from(USAGE));
    }
    match parse_by::<C>(&mut command, &args) {
        Ok((verb, cli)) => Ok((verb, cli, typed)),
        Err(error) => Err(refuse(&verb, &error, typed)),
    }
}

/// How the account above is called in a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// As the option is called, if at all.
    Under,
    /// By its other spelling.
    Parent,
}

impl Typed {
    /// What is told of a line, with the option as it was typed there.
    pub fn told(self, line: &str) -> String {
        match self {
            Typed::Under => line.to_owned(),
            Typed::Parent => line.replace(UNDER, PARENT),
        }
    }
}

const UNDER: &str = "--under";
const PARENT: &str = "--parent";

/// The command with all its verbs and their options, for a line that was refused.
fn whole<C: Parser>(args: &[OsString]) -> Command {
    let mut command = C::command();
    command.build();
    number::with_minus(command, args.iter().filter_map(|arg| arg.to_str()))
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
fn under(mut args: Vec<OsString>) -> (Vec<OsString>, Typed) {
    let mut typed = Typed::Under;
    let is = |arg: Option<&OsString>, words: &[&str]| {
        let text = arg.and_then(|arg| arg.to_str());
        text.is_some_and(|text| words.contains(&text))
    };
    let verb = (1..args.len())
        .find(|at| is(args.get(*at), &["account"]) && is(args.get(at + 1), &["add", "edit"]));
    for arg in args.iter_mut().skip(verb.unwrap_or(usize::MAX)) {
        let text = arg.to_str().and_then(|text| text.strip_prefix(PARENT));
        let rest = text.filter(|rest| rest.is_empty() || rest.starts_with('='));
        if let Some(rest) = rest {
            *arg = format!("{UNDER}{rest}").into();
            typed = Typed::Parent;
        }
    }
    (args, typed)
}

fn not_utf8(args: &[OsString]) -> Option<String> {
    let at = args.iter().position(|arg| arg.to_str().is_none())?;
    Some(format!(
        "argument {at} is {:?}; arguments are UTF-8",
        args[at]
    ))
}

fn refuse(verb: &str, error: &clap::Error, typed: Typed) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Whoever closed the pipe has read enough.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ => {
            let line = crate::output::one_line(&typed.told(&one_line(error)));
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
    let mut words = args.iter().skip(1).filter_map(|arg| arg.to_str());
    while let Some(arg) = words.next() {
        if takes_next(at, arg) {
            // A value may be called like a verb.
            words.next();
            continue;
        }
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

/// Whether this word is an option whose value is the next word.
fn takes_next(command: &Command, word: &str) -> bool {
    let mut options = command.get_arguments();
    let option = match word.strip_prefix("--") {
        Some(long) => options.find(|option| {
            option.get_long() == Some(long)
                || option
                    .get_all_aliases()
                    .is_some_and(|all| all.contains(&long))
        }),
        None => match (word.strip_prefix('-'), word.chars().next_back()) {
            (Some(_), Some(last)) => options.find(|option| option.get_short() == Some(last)),
            _ => None,
        },
    };
    option.is_some_and(|option| option.get_action().takes_values())
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;

    use clap::CommandFactory;

    use super::*;
    use crate::Cli;

    /// The verb that a wrong line is said to be of, and what is said.
    fn refused(line: &str) -> String {
        let words = line.split(' ').map(OsString::from);
        let args: Vec<OsString> = words.collect();
        let fast = parse_by::<Cli>(&mut Cli::command(), &args);
        assert!(fast.is_err(), "{line}");
        let mut command = whole::<Cli>(&args);
        let verb = verb_of(&command, &args);
        match parse_by::<Cli>(&mut command, &args) {
            Err(error) => format!("{verb}: {}", one_line(&error)),
            Ok((verb, _)) => format!("{verb}: taken"),
        }
    }

    #[test]
    fn a_value_that_is_called_like_a_verb_is_none() {
        let urgency =
            "invalid value '99' for '<N>': allowed are 0 to 31, hold, default and expedite";
        for line in [
            "eddy --at batch job urgency 7 99",
            "eddy --at=batch job urgency 7 99",
            "eddy job --at batch urgency 7 99",
            "eddy --parent job urgency 7 99",
        ] {
            assert_eq!(
                refused(line),
                format!("eddy job urgency: {urgency}"),
                "{line}"
            );
        }
        let verb = refused("eddy --at batch jop");
        assert!(verb.starts_with("eddy: "), "{verb}");
    }

    #[test]
    fn what_is_below_a_range_is_refused_like_what_is_above() {
        for (line, said) in [
            (
                "eddy job urgency 7 -1",
                "eddy job urgency: invalid value '-1' for '<N>': allowed are 0 to 31, hold, default and expedite",
            ),
            (
                "eddy submit --urgency -3 true",
                "eddy submit: invalid value '-3' for '--urgency <N>': allowed are 0 to 31, hold, default and expedite",
            ),
            (
                "eddy submit -n -3 true",
                "eddy submit: invalid value '-3' for '--ntasks <N>': allowed are 1 to 2147483647",
            ),
            (
                "eddy account add x --shares -1",
                "eddy account add: invalid value '-1' for '--shares <N>': allowed are 0 to 1073741824 and `parent`",
            ),
            (
                "eddy account add x --carry -1",
                "eddy account add: invalid value '-1' for '--carry <PERCENT>': allowed are 0 to 100, and none",
            ),
            (
                "eddy reservation create r --duration 1h --maintenance --count -1",
                "eddy reservation create: invalid value '-1' for '--count <N>': allowed are 1 to 262144",
            ),
            (
                "eddy ping --interval -1s",
                "eddy ping: invalid value '-1s' for '--interval <FSD>': duration `-1s` is negative; allowed are 0 and more",
            ),
            // What is read later is refused there.
            (
                "eddy reservation create r --start -1h --duration 1h --count 1",
                "eddy reservation create: taken",
            ),
            ("eddy submit -t -5 true", "eddy submit: taken"),
            // What is no number is an option still.
            (
                "eddy submit -n 1 --urgent -3 true",
                "eddy submit: unexpected argument '--urgent' found; there is --urgency",
            ),
        ] {
            assert_eq!(refused(line), said, "{line}");
        }
    }

    #[test]
    fn the_account_above_is_called_as_it_was_typed() {
        let typed = |line: &str| {
            let (args, typed) = under(line.split(' ').map(OsString::from).collect());
            (args[args.len() - 1].clone(), typed)
        };
        let said = "--under: there is no account `b`";
        let (last, with_parent) = typed("eddy account add a --parent=b");
        assert_eq!(last, "--under=b");
        assert_eq!(with_parent.told(said), said.replace("under", "parent"));
        let (_, with_under) = typed("eddy --parent account edit a --under=b");
        assert_eq!(with_under.told(said), said);
    }

    /// What clap itself says of what is no number does not say what is allowed.
    #[test]
    fn every_number_says_what_is_allowed() {
        fn look(command: &Command, name: &str, seen: &mut usize) {
            let numbers = [TypeId::of::<u8>(), TypeId::of::<u32>(), TypeId::of::<u64>()];
            for argument in command.get_arguments().filter(|one| !one.is_hide_set()) {
                let read = argument.get_value_parser().type_id();
                // A range of literals is of one of these, and of no field.
                let is_literal = read == TypeId::of::<i32>() || read == TypeId::of::<i64>();
                assert!(
                    !is_literal,
                    "{name}: {}: its range has no type",
                    argument.get_id()
                );
                if !numbers.iter().any(|number| read == *number) {
                    continue;
                }
                *seen += 1;
                for wrong in ["-1", "x"] {
                    let line = match argument.get_long() {
                        Some(long) => format!("{name} --{long} {wrong}"),
                        None if argument.get_index() == Some(2) => format!("{name} 7 {wrong}"),
                        None => format!("{name} {wrong}"),
                    };
                    let said = refused(&line);
                    let begin = format!("{name}: invalid value '{wrong}' for '");
                    assert!(
                        said.starts_with(&begin) && said.contains(" allowed "),
                        "{line}: {said}"
                    );
                }
            }
            // Those that are hidden are called by eddy itself.
            for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
                look(verb, &format!("{name} {}", verb.get_name()), seen);
            }
        }
        let mut command = Cli::command();
        command.build();
        let mut seen = 0;
        look(&command, "eddy", &mut seen);
        assert!(seen > 20, "{seen} numbers");
    }
}
