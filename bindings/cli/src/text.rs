//! Texts that commands are given, in files or on standard input.

use std::io::stdin;
use std::path::Path;

use anyhow::Context;
use eddy_brokerd::text;

/// What a file says, `-` being standard input, in at most that many bytes.
///
/// # Errors
/// It cannot be read, has more bytes, or is not UTF-8; each by the name of the file.
pub fn read(file: &str, most: usize) -> anyhow::Result<String> {
    let text = match file {
        "-" => text::of(&mut stdin().lock(), most),
        file => text::read(Path::new(file), most),
    };
    text.with_context(|| file.to_owned())
}
