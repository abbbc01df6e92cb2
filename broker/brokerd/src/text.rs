//! Texts of files, of which no more is read than may be there.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// The longest configuration, in bytes.
pub const CONFIG_MAX: usize = 16 << 20;

/// What a file says, in at most that many bytes.
///
/// # Errors
/// It cannot be read, has more bytes, or is not UTF-8.
pub fn read(path: &Path, most: usize) -> io::Result<String> {
    of(&mut File::open(path)?, most)
}

/// What is left of a source.
///
/// # Errors
/// It cannot be read, has more bytes than that, or is not UTF-8.
pub fn of(source: &mut dyn Read, most: usize) -> io::Result<String> {
    let mut bytes = Vec::new();
    let length = source.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if length > most {
        let text = format!("has over {most} bytes; allowed are at most that many");
        return Err(io::Error::new(ErrorKind::FileTooLarge, text));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_than_may_be_there() {
        let of = |mut bytes: &[u8], most| of(&mut bytes, most).map_err(|error| error.to_string());
        assert_eq!(of(b"abc", 3), Ok("abc".to_owned()));
        let long = "has over 2 bytes; allowed are at most that many";
        assert_eq!(of(b"abc", 2), Err(long.to_owned()));
        // Cut where a letter is, too.
        assert_eq!(of("aä".as_bytes(), 1), Err(long.replace('2', "1")));
        assert_eq!(of(b"\xff", 1), Err("is not UTF-8".to_owned()));
        let endless = read(Path::new("/dev/zero"), 1 << 10).expect_err("endless");
        assert_eq!(endless.kind(), ErrorKind::FileTooLarge);
    }
}
