//! Texts of files, of which no more is read than may be there.

use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::makedev;

/// The longest configuration, in bytes.
pub const CONFIG_MAX: usize = 16 << 20;

/// What a file says, in at most that many bytes.
///
/// # Errors
/// It cannot be read, has more bytes, or is not UTF-8.
pub fn read(path: &Path, most: usize) -> io::Result<String> {
    of(&mut File::open(path)?, most)
}

/// What a regular file says, or nothing for `/dev/null`, in at most that many bytes. What may never say anything
/// (a pipe, a terminal) is refused, and its other end is not waited for.
///
/// # Errors
/// It is something else, cannot be read, has more bytes, or is not UTF-8.
pub fn of_file(path: &Path, most: usize) -> io::Result<String> {
    let wait_not = libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(wait_not)
        .open(path);
    let mut file = opened.map_err(|error| match (error.raw_os_error(), fs::metadata(path)) {
        // What cannot be opened at all.
        (Some(libc::ENXIO), Ok(found)) if found.file_type().is_socket() => no_file("a socket"),
        _ => error,
    })?;
    // What was opened is looked at, since the name may mean another by now.
    let found = file.metadata()?;
    let is_null = found.rdev() == makedev(1, 3);
    match what(found.file_type()) {
        None => of(&mut file, most),
        Some(DEVICE) if is_null => Ok(String::new()),
        Some(what) => Err(no_file(what)),
    }
}

const DEVICE: &str = "a character device";

/// What it is instead of a regular file.
fn what(kind: FileType) -> Option<&'static str> {
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () if kind.is_char_device() => Some(DEVICE),
        () => Some("a block device"),
    }
}

fn no_file(what: &str) -> io::Error {
    let text = format!("is {what}; allowed are a regular file and /dev/null");
    io::Error::new(ErrorKind::InvalidInput, text)
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
    #[test]
    fn what_is_no_file_is_refused_without_waiting_for_it() {
        let place = tempfile::tempdir().expect("a directory");
        let said = |path: &Path| of_file(path, 9).map_err(|error| error.to_string());
        let refused = |what: &str| {
            Err(format!(
                "is {what}; allowed are a regular file and /dev/null"
            ))
        };
        let (pipe, socket) = (place.path().join("pipe"), place.path().join("socket"));
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).expect("made");
        let _bound = std::os::unix::net::UnixListener::bind(&socket).expect("bound");
        assert_eq!(said(&pipe), refused("a pipe"));
        assert_eq!(said(&socket), refused("a socket"));
        assert_eq!(said(place.path()), refused("a directory"));
        assert_eq!(said(Path::new("/dev/zero")), refused("a character device"));
        assert_eq!(said(Path::new("/dev/null")), Ok(String::new()));
        let file = place.path().join("file");
        fs::write(&file, "text").expect("written");
        assert_eq!(said(&file), Ok("text".to_owned()));
        fs::write(&file, "much more").expect("written");
        assert!(of_file(&file, 3).is_err());
    }
}
