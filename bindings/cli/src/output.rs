//! Where everything printed goes out, and what a failed command prints.
//!
//! Used by every verb. A reader that went away (`eddy jobs | head`) ends the
//! command quietly, with the code a shell would show for SIGPIPE.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;

use crate::arguments::Typed;
use crate::names::named;
use crate::when;

/// The exit code of a command that fails.
pub const FAILED: u8 = 1;
/// The exit code of a command whose reader went away: 128 + SIGPIPE.
pub const READER_GONE: u8 = 141;

/// Standard output, buffered; flush it or drop it.
pub fn stdout() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(io::stdout().lock())
}

/// Writes these lines to standard output.
pub fn lines<T: AsRef<str>>(lines: impl IntoIterator<Item = T>) -> io::Result<()> {
    let mut out = stdout();
    for line in lines {
        writeln!(out, "{}", line.as_ref())?;
    }
    out.flush()
}

/// Writes a JSON document to standard output, in several lines for a terminal
/// and in one for a program.
pub fn json(document: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = match io::stdout().is_terminal() {
        true => serde_json::to_string_pretty(document)?,
        false => serde_json::to_string(document)?,
    };
    Ok(lines([text])?)
}

/// Prints why `verb` failed, in one line, with options as they were typed; gives its exit code, which is this one
/// where somebody reads.
pub fn failed(verb: &str, code: u8, error: &anyhow::Error, typed: Typed) -> ExitCode {
    if is_reader_gone(error) {
        return ExitCode::from(READER_GONE);
    }
    let text = typed.told(&named(&when::here(&format!("{error:#}"))));
    eprintln!("{verb}: {}", one_line(&text));
    ExitCode::from(code)
}

/// Whether it is that nobody reads what is printed any more.
pub fn is_reader_gone(error: &anyhow::Error) -> bool {
    let gone = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    error.chain().any(gone)
}

/// Whether nobody reads standard output any more, where that can be told without writing.
///
/// # Errors
/// That nobody does, as a write would end.
pub fn is_read() -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut asked, Some(&now))?;
    match asked[0].revents().contains(PollFlags::ERR) {
        true => Err(io::ErrorKind::BrokenPipe.into()),
        false => Ok(()),
    }
}

/// A text without line breaks and other control characters.
pub fn one_line(text: &str) -> String {
    let line = text
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    cut(&crate::table::escaped(&line))
}

/// The longest quoted text in an error, in characters: what a user gave may be anything.
const QUOTED_MAX: usize = 80;
/// The longest word: a path is shown whole where it is one that people write.
const WORD_MAX: usize = 256;
/// The longest line.
const LINE_MAX: usize = 4000;

/// The line with its long pieces cut: what stands in backticks, and words.
fn cut(line: &str) -> String {
    let mut pieces: Vec<String> = line.split('`').map(str::to_owned).collect();
    // A last backtick without another opens nothing.
    let quoted = (pieces.len() - 1) / 2;
    for piece in pieces.iter_mut().skip(1).step_by(2).take(quoted) {
        *piece = shortened(piece, QUOTED_MAX, QUOTED_MAX);
    }
    let words = pieces.join("`");
    let words: Vec<String> = words
        .split(' ')
        .map(|word| match word.strip_suffix(':') {
            Some(name) => shortened(name, WORD_MAX, QUOTED_MAX) + ":",
            None => shortened(word, WORD_MAX, QUOTED_MAX),
        })
        .collect();
    shortened(&words.join(" "), LINE_MAX, LINE_MAX)
}

/// At most `shown` characters of a text that has more than `most`, and how many there are.
fn shortened(text: &str, most: usize, shown: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let all = text.chars().count();
    if all <= most {
        return text.to_owned();
    }
    let begin: String = text.chars().take(shown).collect();
    format!("{begin}... ({all} characters)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_gave_is_shown_in_part_where_it_is_long() {
        let long = "x y".repeat(50_000);
        let line = one_line(&format!("`{long}` is not a path of jobs"));
        let end = "... (150000 characters)` is not a path of jobs";
        assert_eq!(line, format!("`{}{end}", &long[..80]));
        let line = one_line(&format!("{}: no instance is there", "z".repeat(300)));
        let begin = "z".repeat(80);
        assert_eq!(
            line,
            format!("{begin}... (300 characters): no instance is there")
        );
        assert!(one_line(&long).len() < 4100);
        let short = format!("`{}` at /{}", "a".repeat(80), "b".repeat(200));
        assert_eq!(one_line(&short), short);
        assert_eq!(one_line("it's one ` only"), "it's one ` only");
    }
}
