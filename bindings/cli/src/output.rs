//! Where everything printed goes out, and what a failed command prints.
//!
//! Used by every verb. A reader that went away (`eddy jobs | head`) ends the
//! command quietly, with the code a shell would show for SIGPIPE.

use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;

/// The exit code of a command that fails.
pub const FAILED: u8 = 1;
/// The exit code of a command whose reader went away: 128 + SIGPIPE.
const READER_GONE: u8 = 141;

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

/// Prints why `verb` failed, in one line; gives its exit code.
pub fn failed(verb: &str, error: &anyhow::Error) -> ExitCode {
    let gone = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    };
    if error.chain().any(gone) {
        return ExitCode::from(READER_GONE);
    }
    eprintln!("{verb}: {}", one_line(&format!("{error:#}")));
    ExitCode::from(FAILED)
}

/// A text without line breaks and other control characters.
pub fn one_line(text: &str) -> String {
    let line = text
        .split(['\n', '\r'])
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ");
    crate::table::escaped(&line).into_owned()
}
