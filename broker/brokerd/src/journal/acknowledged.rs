//! The side file `acknowledged`: the last record that was durable when others were told of it. The
//! store writes it after each commit; opening compares. It is a witness against the journal, never a
//! source of state.
//!
//! Crash orders. It is written after the commit, so whatever dies first, it is never ahead of what
//! was durable then. The process dies: the page cache keeps both. Power fails: it may be any number
//! of commits behind, because it is not synced by each, and then it only witnesses less. With
//! `Sync::Normal` a power failure may also take commits that it already names: then it says so, which
//! is what it is for.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use super::chain::Head;
use super::lock::sync_dir;
use super::open::Sync;

const NAME: &str = "acknowledged";
/// `00000000000000000042 1c291ca3 9be3e0a3\n`: sequence, its sum, CRC-32 of the text before.
const LENGTH: usize = 39;

/// What the file said when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Witness {
    /// There was no file, or an empty one.
    Missing,
    /// It does not read as it should: torn by a power failure, or edited.
    Damaged,
    /// This record was acknowledged.
    Said(Head),
}

/// The open file.
#[derive(Debug)]
pub(super) struct Acknowledged {
    file: File,
}

impl Acknowledged {
    /// Opens or makes the file in `dir`.
    pub fn open(dir: &Path, sync: Sync) -> io::Result<(Acknowledged, Witness)> {
        let path = dir.join(NAME);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let mut text = Vec::new();
        (&mut file).take(LENGTH as u64 + 1).read_to_end(&mut text)?;
        if text.is_empty() {
            // Written in place from now on: the name and the block must be there.
            file.write_all_at(&line(Head::default()), 0)?;
            if sync == Sync::Full {
                file.sync_all()?;
                sync_dir(dir)?;
            }
            return Ok((Acknowledged { file }, Witness::Missing));
        }
        Ok((Acknowledged { file }, parse(&text)))
    }

    /// Reads without making or changing anything.
    pub fn peek(dir: &Path) -> io::Result<Witness> {
        match std::fs::read(dir.join(NAME)) {
            Ok(text) if text.is_empty() => Ok(Witness::Missing),
            Ok(text) => Ok(parse(&text)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Witness::Missing),
            Err(e) => Err(e),
        }
    }

    /// Says that `head` is durable.
    pub fn write(&self, head: Head) -> io::Result<()> {
        self.file.write_all_at(&line(head), 0)
    }

    /// At an orderly end, so that the next start has the best witness.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

fn line(head: Head) -> Vec<u8> {
    let mut text = format!("{:020} {:08x}", head.seq, head.sum);
    let check = crc32fast::hash(text.as_bytes());
    text.push_str(&format!(" {check:08x}\n"));
    debug_assert_eq!(text.len(), LENGTH);
    text.into_bytes()
}

fn parse(bytes: &[u8]) -> Witness {
    let head = || {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut words = text.split_whitespace();
        let seq = words.next()?.parse().ok()?;
        let sum = u32::from_str_radix(words.next()?, 16).ok()?;
        let head = Head { seq, sum };
        (line(head) == bytes).then_some(head)
    };
    head().map_or(Witness::Damaged, Witness::Said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_damage_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let (file, witness) = Acknowledged::open(dir.path(), Sync::Full).unwrap();
        assert_eq!(witness, Witness::Missing);
        let head = Head {
            seq: 12,
            sum: 0xdead,
        };
        file.write(head).unwrap();
        assert_eq!(Acknowledged::peek(dir.path()).unwrap(), Witness::Said(head));
        let good = line(head);
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 1;
            assert_eq!(parse(&bad), Witness::Damaged, "byte {index}");
        }
    }
}
