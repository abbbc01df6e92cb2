//! Lists of host names in short form (RFC 29): `node[0-3,7],login1`.
//!
//! The names of a resource set's nodes, and what people type after `--requires`
//! and `drain`. Order and repetition count; kept as runs, never expanded except
//! by who iterates. Resolves no names.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;

/// The most hosts a list may have, expanded.
pub const HOSTLIST_HOSTS_MAX: u64 = 65_536 * 16;

/// The longest host name, in bytes.
pub const HOST_NAME_MAX: usize = 255;

/// The most digits of a name that are counted with; more in front are part of the name.
const DIGITS_MAX: usize = 15;

/// An ordered list of host names. Text and JSON string are the short form.
#[derive(Clone, Default)]
pub struct Hostlist {
    runs: Vec<Run>,
    hosts: u64,
}

/// Hosts whose names differ in one number, or one host without a number.
#[derive(Clone, Debug)]
struct Run {
    before: String,
    after: String,
    numbers: Option<Numbers>,
}

/// The numbers `first..=last`, written with at least `width` digits.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    first: u64,
    last: u64,
    width: usize,
}

/// Why a text is not a hostlist. Places count bytes from 0.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum HostlistError {
    /// More than [`HOSTLIST_HOSTS_MAX`] hosts.
    #[error("hostlist has {hosts} hosts; allowed are at most {HOSTLIST_HOSTS_MAX}")]
    TooManyHosts {
        /// How many it would have.
        hosts: u64,
    },
    /// A name longer than [`HOST_NAME_MAX`].
    #[error("host name has {given} bytes at position {at}; allowed are at most {HOST_NAME_MAX}")]
    NameTooLong {
        /// Its length.
        given: usize,
        /// Where its expression begins.
        at: usize,
    },
    /// Not printable ASCII, or a bracket out of place.
    #[error(
        "hostlist has {unexpected:?} at position {at}; allowed are printable ASCII without blanks, commas between \
         hosts, and one pair of brackets around numbers"
    )]
    Unexpected {
        /// The character.
        unexpected: char,
        /// Where.
        at: usize,
    },
    /// An opening bracket is never closed.
    #[error("hostlist has no `]` for the `[` at position {at}; allowed are pairs")]
    Unclosed {
        /// Where the bracket is.
        at: usize,
    },
    /// A number in brackets is missing or not a number.
    #[error(
        "hostlist has `{given}` at position {at} in brackets; allowed are numbers of at most {DIGITS_MAX} digits and \
         ranges"
    )]
    Number {
        /// What is there instead, at most 64 bytes of it.
        given: String,
        /// Where it begins.
        at: usize,
    },
    /// The range goes down.
    #[error(
        "hostlist has the range {first}-{last} at position {at}; the last must not be below the first"
    )]
    Backwards {
        /// Its first number.
        first: u64,
        /// Its last number.
        last: u64,
        /// Where it begins.
        at: usize,
    },
}

impl Hostlist {
    /// The empty list.
    pub const fn new() -> Hostlist {
        Hostlist {
            runs: Vec::new(),
            hosts: 0,
        }
    }

    /// How many hosts, repeated ones counted each time.
    pub fn len(&self) -> u64 {
        self.hosts
    }

    /// Whether there is no host.
    pub fn is_empty(&self) -> bool {
        self.hosts == 0
    }

    /// The names in order.
    pub fn hosts(&self) -> impl Iterator<Item = String> + '_ {
        self.runs.iter().flat_map(Run::names)
    }

    /// Puts one name at the end.
    pub fn push(&mut self, host: &str) -> Result<(), HostlistError> {
        check_name(host, 0)?;
        self.push_run(Run::of_name(host))
    }

    /// Puts the hosts of another list at the end.
    pub fn append(&mut self, other: &Hostlist) -> Result<(), HostlistError> {
        other
            .runs
            .iter()
            .try_for_each(|run| self.push_run(run.clone()))
    }

    fn push_run(&mut self, run: Run) -> Result<(), HostlistError> {
        let hosts = self.hosts.saturating_add(run.len());
        if hosts > HOSTLIST_HOSTS_MAX {
            return Err(HostlistError::TooManyHosts { hosts });
        }
        self.hosts = hosts;
        match self.runs.last_mut() {
            Some(last) if last.continued_by(&run) => last.extend_to(&run),
            _ => self.runs.push(run),
        }
        Ok(())
    }

    /// Reads one expression, `prefix[idlist]suffix`, which begins at `start` of the text.
    fn push_expression(&mut self, text: &str, start: usize) -> Result<(), HostlistError> {
        let Some(open) = text.find('[') else {
            check_name(text, start)?;
            return self.push_run(Run::of_name(text));
        };
        let close = text[open..]
            .find(']')
            .map(|length| open + length)
            .ok_or(HostlistError::Unclosed { at: start + open })?;
        let (before, ids, after) = (&text[..open], &text[open + 1..close], &text[close + 1..]);
        check_name(before, start)?;
        check_name(after, start + close + 1)?;
        let (mut width, mut at) = (None, start + open + 1);
        for id in ids.split(',') {
            let mut numbers = read_numbers(id, at)?;
            at += id.len() + 1;
            // The zeros of the first number hold for all (RFC 29); a later one may add more.
            numbers.width = numbers.width.max(*width.get_or_insert(numbers.width));
            let given = before.len() + after.len() + digits(numbers.last).max(numbers.width);
            if given > HOST_NAME_MAX {
                return Err(HostlistError::NameTooLong { given, at: start });
            }
            self.push_run(Run::of_numbers(before, numbers, after))?;
        }
        Ok(())
    }
}

fn check_name(name: &str, start: usize) -> Result<(), HostlistError> {
    let allowed = |c: char| c.is_ascii_graphic() && !matches!(c, '[' | ']' | ',');
    if let Some((at, unexpected)) = name.char_indices().find(|&(_, c)| !allowed(c)) {
        return Err(HostlistError::Unexpected {
            unexpected,
            at: start + at,
        });
    }
    if name.len() > HOST_NAME_MAX {
        return Err(HostlistError::NameTooLong {
            given: name.len(),
            at: start,
        });
    }
    Ok(())
}

/// `7`, `007` or `1-9`, which begin `at` that place; the width is that of the first number, 1 without leading zeros.
fn read_numbers(text: &str, at: usize) -> Result<Numbers, HostlistError> {
    let number = |part: &str| {
        let fits = (1..=DIGITS_MAX).contains(&part.len());
        if !fits || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            let given = text.chars().take(64).collect();
            return Err(HostlistError::Number { given, at });
        }
        Ok(part
            .bytes()
            .fold(0u64, |value, byte| value * 10 + u64::from(byte - b'0')))
    };
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(low)?, number(high)?);
    if last < first {
        return Err(HostlistError::Backwards { first, last, at });
    }
    Ok(Numbers {
        first,
        last,
        width: width(low),
    })
}

/// The least width that writes `digits` back as they are.
fn width(digits: &str) -> usize {
    if digits.starts_with('0') {
        digits.len()
    } else {
        1
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |log| log as usize + 1)
}

impl Numbers {
    /// Whether `self.width` writes the numbers of `other` as `other.width` does. The lowest
    /// number decides: both widths stop to matter from there upwards or never differ.
    fn writes_alike(&self, other: &Numbers) -> bool {
        let least = digits(other.first);
        self.width.max(least) == other.width.max(least)
    }
}

impl Run {
    /// A single name; the digits at its end are its number.
    fn of_name(name: &str) -> Run {
        let tail = name
            .bytes()
            .rev()
            .take(DIGITS_MAX)
            .take_while(u8::is_ascii_digit)
            .count();
        let (before, number) = name.split_at(name.len() - tail);
        let numbers = number.parse().ok().map(|n| Numbers {
            first: n,
            last: n,
            width: width(number),
        });
        Run {
            before: before.to_owned(),
            after: String::new(),
            numbers,
        }
    }

    fn of_numbers(before: &str, numbers: Numbers, after: &str) -> Run {
        let run = Run {
            before: before.to_owned(),
            after: after.to_owned(),
            numbers: Some(numbers),
        };
        if numbers.first == numbers.last {
            // One host is one name, however it was written, so that it melts with its like.
            return Run::of_name(&run.name(numbers.first));
        }
        run
    }

    fn len(&self) -> u64 {
        self.numbers
            .map_or(1, |numbers| numbers.last - numbers.first + 1)
    }

    fn name(&self, number: u64) -> String {
        match self.numbers {
            None => self.before.clone(),
            Some(Numbers { width, .. }) => {
                format!("{}{number:0width$}{}", self.before, self.after)
            }
        }
    }

    fn names(&self) -> impl Iterator<Item = String> + '_ {
        let (first, last) = self
            .numbers
            .map_or((0, 0), |numbers| (numbers.first, numbers.last));
        (first..=last).map(|number| self.name(number))
    }

    /// Whether both can be written in one pair of brackets.
    fn same_bracket(&self, other: &Run) -> bool {
        match (&self.numbers, &other.numbers) {
            (Some(mine), Some(theirs)) => {
                self.before == other.before
                    && self.after == other.after
                    && mine.writes_alike(theirs)
            }
            _ => false,
        }
    }

    fn continued_by(&self, other: &Run) -> bool {
        let follows = match (&self.numbers, &other.numbers) {
            (Some(mine), Some(theirs)) => mine.last + 1 == theirs.first,
            _ => false,
        };
        follows && self.same_bracket(other)
    }

    fn extend_to(&mut self, other: &Run) {
        if let (Some(mine), Some(theirs)) = (&mut self.numbers, &other.numbers) {
            mine.last = theirs.last;
        }
    }
}

impl PartialEq for Hostlist {
    /// Equal are lists of the same names in the same order, however they were written.
    fn eq(&self, other: &Hostlist) -> bool {
        self.hosts == other.hosts && self.hosts().eq(other.hosts())
    }
}

impl Eq for Hostlist {}

impl fmt::Debug for Hostlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hostlist({self})")
    }
}

impl fmt::Display for Hostlist {
    /// Neighbouring runs that differ in one number share brackets; nothing is sorted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.runs.as_slice();
        while let Some(run) = rest.first() {
            if rest.len() < self.runs.len() {
                f.write_str(",")?;
            }
            let together = 1 + rest[1..]
                .iter()
                .take_while(|next| run.same_bracket(next))
                .count();
            write_together(f, &rest[..together])?;
            rest = &rest[together..];
        }
        Ok(())
    }
}

fn write_together(f: &mut fmt::Formatter<'_>, runs: &[Run]) -> fmt::Result {
    let run = &runs[0];
    if runs.len() == 1 && run.len() == 1 {
        return run.names().try_for_each(|name| f.write_str(&name));
    }
    write!(f, "{}[", run.before)?;
    let width = run.numbers.map_or(1, |numbers| numbers.width);
    for (at, Numbers { first, last, .. }) in runs.iter().filter_map(|run| run.numbers).enumerate() {
        let comma = if at == 0 { "" } else { "," };
        write!(f, "{comma}{first:0width$}")?;
        if first != last {
            write!(f, "-{last:0width$}")?;
        }
    }
    write!(f, "]{}", run.after)
}

impl FromStr for Hostlist {
    type Err = HostlistError;

    /// Empty parts between commas count for nothing.
    fn from_str(text: &str) -> Result<Hostlist, HostlistError> {
        let mut list = Hostlist::new();
        let (mut start, mut open) = (0, None);
        for (at, c) in text.char_indices().chain([(text.len(), ',')]) {
            match (c, open) {
                ('[', None) => open = Some(at),
                (']', Some(_)) => open = None,
                ('[' | ']', _) => return Err(HostlistError::Unexpected { unexpected: c, at }),
                (',', Some(open)) if at == text.len() => {
                    return Err(HostlistError::Unclosed { at: open });
                }
                (',', None) => {
                    if start < at {
                        list.push_expression(&text[start..at], start)?;
                    }
                    start = at + 1;
                }
                _ => {}
            }
        }
        Ok(list)
    }
}

impl Serialize for Hostlist {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hostlist {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Hostlist, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
