//! Whole numbers as options take them, and values that begin with a minus.
//!
//! What is below a range is refused like what is above: by the option, with what was given and what is
//! allowed. So a minus must reach the reader of the value and not be taken for an option.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use clap::{Arg, Command};
use eddy_wire::idset::ID_MAX;

/// What a jobspec can count.
pub const COUNTS: RangeInclusive<u32> = 1..=ID_MAX;
/// The same, or none.
pub const COUNTS_OR_NONE: RangeInclusive<u32> = 0..=ID_MAX;
/// Of what is shown or waited for, so many.
pub const ANY: RangeInclusive<u32> = 0..=u32::MAX;

/// A reader of whole numbers in a range.
pub fn number<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("allowed are {} to {}", range.start(), range.end()))
    }
}

/// What values are called that are whole numbers, or begin with one.
const NUMBERS: [&str; 12] = [
    "N",
    "COUNT",
    "PERCENT",
    "RANK",
    "RANKS",
    "TARGETS",
    "IDSET",
    "IDSET[:STEP][%N]",
    "SEQ",
    "SIGNAL",
    "ID",
    "JOB",
];
/// Those with a unit behind the number, which clap does not know for numbers.
const WITH_UNIT: [&str; 4] = ["FSD", "TIME", "WHEN", "SIZE"];

/// The command for a line that it has refused: where a word of the line is a minus and a digit, numbers
/// and times may begin so, and whoever reads the value says what is wrong with it.
///
/// Only for such a line, since what takes anything behind a minus also takes the option that follows where
/// its own value was forgotten.
pub fn with_minus<'w>(command: Command, mut line: impl Iterator<Item = &'w str>) -> Command {
    match line.any(begins_with_minus) {
        true => open(command),
        false => command,
    }
}

fn begins_with_minus(word: &str) -> bool {
    let behind = word.strip_prefix('-');
    behind.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
}

fn open(command: Command) -> Command {
    let is = |argument: &Arg, names: &[&str]| {
        let called = argument.get_value_names().unwrap_or_default();
        called.iter().any(|name| names.contains(&name.as_str()))
    };
    let command = command.mut_args(|argument| {
        if is(&argument, &NUMBERS) {
            argument.allow_negative_numbers(true)
        } else if is(&argument, &WITH_UNIT) {
            argument.allow_hyphen_values(true)
        } else {
            argument
        }
    });
    command.mut_subcommands(open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_its_range_is_told_the_range() {
        let read = number(1..=31_u8);
        assert_eq!(read("31"), Ok(31));
        for wrong in ["0", "32", "300", "-1", "x", "", "1-2", "1.5"] {
            let allowed = "allowed are 1 to 31".to_owned();
            assert_eq!(read(wrong), Err(allowed), "{wrong}");
        }
    }
}
