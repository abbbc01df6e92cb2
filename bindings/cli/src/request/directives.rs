//! Options in a batch script: the lines `# eddy: -N2 -t 1h` at its beginning
//! (RFC 36, with `eddy` beside `flux`).
//!
//! Called by `eddy batch`. It gives words as a shell would; what they mean is
//! for the parser of the verb's options. It runs nothing.

use thiserror::Error;

/// The tags of a sentinel, as RFC 36 spells its own.
const TAGS: &[&str] = &["eddy:", "EDDY:", "flux:", "FLUX:"];

/// How lines begin by which other schedulers are told.
const FOREIGN: &[&str] = &[
    "#SBATCH", "#PBS", "#BSUB", "#MSUB", "#OAR", "#COBALT", "#PJM",
];

/// A word of a directive and the line of the script it stands on, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// Its text, quotes removed.
    pub text: String,
    /// The line on which it begins.
    pub line: usize,
}

/// Why the directives of a script cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DirectiveError {
    /// Two kinds of sentinel.
    #[error(
        "line {line}: directives begin with `{first}` above and with `{other}` here; allowed is one of them"
    )]
    Sentinel {
        /// The line.
        line: usize,
        /// The first sentinel.
        first: String,
        /// This one.
        other: String,
    },
    /// A directive behind the commands.
    #[error(
        "line {line}: a directive follows line {end}, which ends them; allowed are only comments and blank lines before and between directives"
    )]
    Late {
        /// The line of the directive.
        line: usize,
        /// The line that ended them.
        end: usize,
    },
    /// A quote without its other.
    #[error("line {line}: a quote {quote} has no other")]
    Quote {
        /// The line.
        line: usize,
        /// Which.
        quote: &'static str,
    },
    /// A backslash at the end.
    #[error("line {line}: a backslash ends the directive")]
    Backslash {
        /// The line.
        line: usize,
    },
    /// Text behind three quotes that open or close several lines.
    #[error("line {line}: three quotes over several lines stand at the end of their lines")]
    Triple {
        /// The line.
        line: usize,
    },
}

/// The words of all directives of `script`.
pub fn words(script: &str) -> Result<Vec<Word>, DirectiveError> {
    let lines = directives(script)?;
    let mut words = Vec::new();
    let mut at = 0;
    while let Some((number, text)) = lines.get(at) {
        let mut line = Line {
            number: *number,
            rest: text,
            words: &mut words,
        };
        at += 1;
        if let Some((word, quote)) = line.split()? {
            at = triple(&lines, at, *number, word, quote, &mut words)?;
        }
    }
    Ok(words)
}

/// Lines that look like directives and are none: those of other schedulers, and ours without the colon. How
/// many they are, and the first.
pub fn unread(script: &str) -> Option<(usize, &str)> {
    let mut lines = script.lines().filter(|line| is_unread(line));
    let first = lines.next()?;
    Some((1 + lines.count(), first))
}

fn is_unread(line: &str) -> bool {
    let is_foreign = |tag: &&str| {
        let rest = line.strip_prefix(*tag);
        rest.is_some_and(|rest| rest.starts_with([' ', '\t']))
    };
    if FOREIGN.iter().any(is_foreign) {
        return true;
    }
    let Some((tag, rest)) = line
        .strip_prefix('#')
        .and_then(|text| text.trim_start().split_once([' ', '\t']))
    else {
        return false;
    };
    let name = tag.trim_end_matches(':').to_ascii_lowercase();
    ["eddy", "flux"].contains(&name.as_str())
        && !TAGS.contains(&tag)
        && rest.trim_start().starts_with('-')
}

/// Number and text of each directive, without its sentinel.
fn directives(script: &str) -> Result<Vec<(usize, &str)>, DirectiveError> {
    let mut found: Vec<(usize, &str)> = Vec::new();
    let mut first: Option<(&str, &str)> = None;
    let mut end = None;
    for (at, line) in script.lines().enumerate() {
        let number = at + 1;
        let Some((prefix, tag)) = sentinel(line) else {
            if let (Some((prefix, _)), None) = (first, end)
                && !line.trim().is_empty()
                && !line.starts_with(prefix)
            {
                end = Some(number);
            }
            continue;
        };
        if first.is_none() {
            // What a comment looks like here is known only now.
            end = command_before(script, at, prefix.trim_end());
        }
        if let Some(end) = end {
            return Err(DirectiveError::Late { line: number, end });
        }
        let (first_prefix, first_tag) = *first.get_or_insert((prefix.trim_end(), tag));
        if (prefix.trim_end(), tag) != (first_prefix, first_tag) {
            return Err(DirectiveError::Sentinel {
                line: number,
                first: format!("{first_prefix} {first_tag}"),
                other: format!("{}{tag}", prefix),
            });
        }
        found.push((number, &line[prefix.len() + tag.len()..]));
    }
    Ok(found)
}

/// The first of the lines before `at` that is a command where comments begin with `prefix`.
fn command_before(script: &str, at: usize, prefix: &str) -> Option<usize> {
    let comment = |at: usize, line: &str| {
        let line = line.trim_start();
        line.is_empty() || line.starts_with(prefix) || (at == 0 && line.starts_with("#!"))
    };
    let mut before = script.lines().take(at).enumerate();
    before
        .find(|(at, line)| !comment(*at, line))
        .map(|(at, _)| at + 1)
}

/// The characters before the tag, none of which is part of a word, and the tag:
/// `^([^\w]*)(eddy|flux|EDDY|FLUX):`. A line without anything before the tag is
/// a command.
fn sentinel(line: &str) -> Option<(&str, &str)> {
    let at = line.find(|c: char| c.is_alphanumeric() || c == '_')?;
    let (prefix, rest) = line.split_at(at);
    let tag = TAGS.iter().find(|tag| rest.starts_with(**tag))?;
    (!prefix.trim().is_empty()).then_some((prefix, tag))
}

/// One directive being split.
struct Line<'a> {
    number: usize,
    rest: &'a str,
    words: &'a mut Vec<Word>,
}

impl Line<'_> {
    /// Splits as a shell does, `#` at the begin of a word ending it. Gives the
    /// word so far and the quotes when the line ends in three open ones.
    fn split(&mut self) -> Result<Option<(String, &'static str)>, DirectiveError> {
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.is_empty() || self.rest.starts_with('#') {
                return Ok(None);
            }
            let mut word = String::new();
            while let Some(c) = self.rest.chars().next() {
                if c.is_whitespace() {
                    break;
                }
                if let Some(quote) = self.take_triple(&mut word)? {
                    return Ok(Some((word, quote)));
                }
                self.take(&mut word)?;
            }
            self.words.push(Word {
                text: word,
                line: self.number,
            });
        }
    }

    /// Three quotes: up to their others in this line; the quotes when they open
    /// several lines.
    fn take_triple(&mut self, word: &mut String) -> Result<Option<&'static str>, DirectiveError> {
        for quote in ["\"\"\"", "'''"] {
            let Some(after) = self.rest.strip_prefix(quote) else {
                continue;
            };
            match after.split_once(quote) {
                Some((inner, rest)) => {
                    word.push_str(inner);
                    self.rest = rest;
                }
                None if after.trim().is_empty() => return Ok(Some(quote)),
                None => {
                    return Err(DirectiveError::Triple { line: self.number });
                }
            }
        }
        Ok(None)
    }

    /// One character, or what one quote holds.
    fn take(&mut self, word: &mut String) -> Result<(), DirectiveError> {
        let mut chars = self.rest.chars();
        let line = self.number;
        match chars.next() {
            Some('\\') => {
                let next = chars.next().ok_or(DirectiveError::Backslash { line })?;
                word.push(next);
                self.rest = chars.as_str();
            }
            Some('\'') => {
                let (inner, rest) = chars
                    .as_str()
                    .split_once('\'')
                    .ok_or(DirectiveError::Quote { line, quote: "'" })?;
                word.push_str(inner);
                self.rest = rest;
            }
            Some('"') => self.rest = double(chars.as_str(), word, line)?,
            Some(c) if c.is_whitespace() => {}
            Some(c) => {
                word.push(c);
                self.rest = chars.as_str();
            }
            None => {}
        }
        Ok(())
    }
}

/// What stands in double quotes: a backslash escapes what a shell lets it escape.
fn double<'a>(text: &'a str, word: &mut String, line: usize) -> Result<&'a str, DirectiveError> {
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return Ok(chars.as_str()),
            '\\' => match chars.next() {
                Some(next @ ('"' | '\\' | '$' | '`')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => break,
            },
            _ => word.push(c),
        }
    }
    Err(DirectiveError::Quote { line, quote: "\"" })
}

/// Lines up to one that ends in the same three quotes, their common indentation
/// removed; the number of the directive behind.
fn triple(
    lines: &[(usize, &str)],
    from: usize,
    opened: usize,
    mut word: String,
    quote: &'static str,
    words: &mut Vec<Word>,
) -> Result<usize, DirectiveError> {
    let closing = lines[from..]
        .iter()
        .position(|(_, text)| text.trim_end().ends_with(quote));
    let Some(closing) = closing.map(|at| from + at) else {
        return Err(DirectiveError::Quote {
            line: opened,
            quote,
        });
    };
    let last = lines[closing].1.trim_end();
    let last = &last[..last.len() - quote.len()];
    let inner: Vec<&str> = lines[from..closing].iter().map(|(_, text)| *text).collect();
    let blank = |text: &&&str| !text.trim().is_empty();
    let indents = inner.iter().filter(blank);
    let indent = indents
        .map(|text| text.len() - text.trim_start().len())
        .min()
        .unwrap_or(0);
    for text in inner {
        word.push_str(text.get(indent..).unwrap_or_default());
        word.push('\n');
    }
    if !last.trim().is_empty() {
        word.push_str(last.get(indent..).unwrap_or(last));
    }
    words.push(Word {
        text: word,
        line: opened,
    });
    Ok(closing + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(script: &str) -> Vec<String> {
        let words = words(script).expect("directives");
        words.into_iter().map(|word| word.text).collect()
    }

    fn refused(script: &str) -> String {
        words(script).expect_err("refused").to_string()
    }

    #[test]
    fn directives_are_the_lines_of_one_sentinel_at_the_beginning() {
        let script = "#!/bin/sh\n# eddy: -N2 -t 1h  # two\n\n# a comment\n# eddy: --job-name='a b'\necho # eddy\n";
        assert_eq!(texts(script), ["-N2", "-t", "1h", "--job-name=a b"]);
        assert_eq!(
            texts("#!/bin/sh\n#EDDY: -n 4\n#EDDY:-c2\n"),
            ["-n", "4", "-c2"]
        );
        assert_eq!(texts("#!/bin/sh\n# flux: -n1\n"), ["-n1"]);
        assert_eq!(texts("-- a\n-- flux: -n1\n"), ["-n1"]);
        assert!(texts("#!/bin/sh\necho hello\n# a comment about flux\n").is_empty());
        assert!(texts("flux: is a command here\n").is_empty());
    }

    #[test]
    fn a_directive_behind_commands_or_of_another_kind_is_an_error() {
        assert_eq!(
            refused("#!/bin/sh\n# eddy: -N1\nhostname\n# eddy: -n2\n"),
            "line 4: a directive follows line 3, which ends them; allowed are only comments and blank lines before and between directives"
        );
        // Also the only one, which would else be missed or obeyed against what was said.
        assert!(
            refused("#!/bin/sh\n\nhostname\n# eddy: -N2\n")
                .starts_with("line 4: a directive follows line 3, ")
        );
        assert_eq!(
            texts("#!/usr/bin/lua\n\n-- a\n-- eddy: -n1\n"),
            ["-n1"],
            "the first line is no command"
        );
        assert!(
            refused("# eddy: -N1\n# flux: -N1\n")
                .starts_with("line 2: directives begin with `# eddy:`")
        );
    }

    #[test]
    fn what_others_read_and_what_only_looks_like_ours_is_counted() {
        let script = "#!/bin/sh\n#SBATCH -N2\n#SBATCH --time=10\n# eddy: -n1\necho\n#SBATCH -n4\n";
        assert_eq!(unread(script), Some((3, "#SBATCH -N2")));
        for line in [
            "#PBS -l walltime=1:00:00",
            "# eddy -N2",
            "#FLUX -N2",
            "# Flux: -n1",
        ] {
            assert_eq!(unread(line), Some((1, line)), "{line}");
        }
        for line in [
            "# eddy: -N2",
            "#flux: -N2",
            "# flux runs this - or eddy",
            "#SBATCHES",
            "##SBATCH -N2",
        ] {
            assert_eq!(unread(line), None, "{line}");
        }
    }

    #[test]
    fn quotes_are_those_of_a_shell() {
        assert_eq!(
            texts("# flux: --env=A=\"x \\\"y\\\" \\n\" 'it''s' a\\ b \"\" #end\n"),
            ["--env=A=x \"y\" \\n", "its", "a b", ""]
        );
        assert_eq!(refused("# flux: 'x\n"), "line 1: a quote ' has no other");
        assert_eq!(refused("# flux: \"x\n"), "line 1: a quote \" has no other");
        assert_eq!(
            refused("# flux: x\\\n"),
            "line 1: a backslash ends the directive"
        );
    }

    #[test]
    fn three_quotes_hold_several_lines() {
        let script = "# flux: --setattr=user.conf=\"\"\"\n# flux:   [a]\n# flux:     b = 'c'\n# flux: \"\"\" -n2\n";
        assert!(words(script).is_err());
        let script = "# flux: --setattr=user.conf=\"\"\"\n# flux:   [a]\n# flux:     b = 'c'\n# flux: \"\"\"\n# flux: -n2\n";
        assert_eq!(
            texts(script),
            ["--setattr=user.conf=[a]\n  b = 'c'\n", "-n2"]
        );
        assert_eq!(texts("# flux: '''a \"b\"''' c\n"), ["a \"b\"", "c"]);
        assert_eq!(
            refused("# flux: x='''\n# flux: y\n"),
            "line 1: a quote ''' has no other"
        );
    }
}
