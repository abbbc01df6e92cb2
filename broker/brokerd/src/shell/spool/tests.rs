//! A spool written, cut short, damaged and read while it grows.

use super::*;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const ID: SpoolId = SpoolId {
    job: 905,
    attempt: 1,
    rank: 0,
};

fn frame(task: u32, stream: Stream, bytes: &[u8]) -> Frame<'_> {
    Frame {
        task,
        stream,
        time: 7,
        bytes,
    }
}

fn stdout(bytes: &[u8]) -> Frame<'_> {
    frame(0, Stream::Stdout, bytes)
}

/// All whole frames from an offset as (task, stream, bytes), and the offset
/// after them.
fn read_all(directory: &Path, from: u64) -> (Vec<(u32, Stream, Vec<u8>)>, u64) {
    let mut reader = Reader::open_at(directory, ID, from).unwrap();
    let mut all = Vec::new();
    while let Next::Frame(frame) = reader.next().unwrap() {
        all.push((frame.task, frame.stream, frame.bytes.to_vec()));
    }
    (all, reader.offset())
}

#[test]
fn no_output_makes_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(directory.path(), ID, LIMIT_BYTES);
    let end = frame(0, Stream::StdoutEnd, b"");
    assert_eq!(writer.write(&end).unwrap(), Written::Dropped);
    assert!(is_absent(&Reader::open(directory.path(), ID).unwrap_err()));
}

#[test]
fn the_directory_and_the_file_are_the_owners_alone() {
    let directory = tempfile::tempdir().unwrap();
    let spool = directory.path().join("spool");
    let mut writer = Writer::new(&spool, ID, LIMIT_BYTES);
    writer.write(&stdout(b"one")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&spool), mode(&ID.path(&spool))), (0o700, 0o600));
}

#[test]
fn a_reader_follows_the_writer_and_goes_on_from_its_offset() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(directory.path(), ID, LIMIT_BYTES);
    writer.write(&stdout(b"one")).unwrap();
    let (first, offset) = read_all(directory.path(), 0);
    let written = writer.write(&frame(3, Stream::Stderr, b"two")).unwrap();
    let (second, end) = read_all(directory.path(), offset);
    assert_eq!(first, [(0, Stream::Stdout, b"one".to_vec())]);
    assert_eq!(second, [(3, Stream::Stderr, b"two".to_vec())]);
    assert_eq!(written, Written::Kept { end });
}

#[test]
fn output_beyond_the_limit_is_cut_once_with_a_note() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(directory.path(), ID, 100);
    for _ in 0..5 {
        writer.write(&stdout(&[b'x'; 20])).unwrap();
    }
    writer.write(&frame(0, Stream::StdoutEnd, b"")).unwrap();
    let (all, _) = read_all(directory.path(), 0);
    let streams: Vec<Stream> = all.iter().map(|(_, stream, _)| *stream).collect();
    assert_eq!(streams, [Stream::Stdout, Stream::Note, Stream::StdoutEnd]);
    assert_eq!(all[1].2, b"output cut: more than 100 bytes on this node\n");
}

#[test]
fn more_than_a_frame_becomes_several() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(directory.path(), ID, LIMIT_BYTES);
    writer.write(&stdout(&vec![1; 2 * FRAME_MAX + 1])).unwrap();
    let (all, _) = read_all(directory.path(), 0);
    let lengths: Vec<usize> = all.iter().map(|(_, _, bytes)| bytes.len()).collect();
    assert_eq!(lengths, [FRAME_MAX, FRAME_MAX, 1]);
}

#[test]
fn a_writer_killed_in_a_frame_leaves_the_frames_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(directory.path(), ID, LIMIT_BYTES);
    writer.write(&stdout(b"whole")).unwrap();
    let (_, whole) = read_all(directory.path(), 0);
    writer.write(&stdout(b"partial")).unwrap();
    let bytes = fs::read(ID.path(directory.path())).unwrap();
    for cut in whole as usize..bytes.len() {
        fs::write(ID.path(directory.path()), &bytes[..cut]).unwrap();
        assert_eq!(read_all(directory.path(), 0).1, whole, "cut at {cut}");
        let mut next = Writer::resume(directory.path(), ID, LIMIT_BYTES).unwrap();
        next.write(&frame(0, Stream::Note, b"shell lost")).unwrap();
        let (all, _) = read_all(directory.path(), 0);
        assert_eq!(all[0].2, b"whole");
        assert_eq!(all[1], (0, Stream::Note, b"shell lost".to_vec()));
        assert_eq!(all.len(), 2);
    }
}

#[test]
fn a_writer_killed_in_the_head_leaves_an_empty_spool() {
    let directory = tempfile::tempdir().unwrap();
    for cut in 0..HEAD_BYTES {
        fs::write(ID.path(directory.path()), &frame::head()[..cut]).unwrap();
        assert_eq!(read_all(directory.path(), 0), (vec![], 0), "cut at {cut}");
        let mut next = Writer::resume(directory.path(), ID, LIMIT_BYTES).unwrap();
        next.write(&stdout(b"x")).unwrap();
        assert_eq!(read_all(directory.path(), 0).0.len(), 1);
    }
}

#[test]
fn an_offset_between_frames_is_found_to_be_damage() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(directory.path(), ID, LIMIT_BYTES);
    writer.write(&stdout(&[b'x'; 100])).unwrap();
    let mut reader = Reader::open_at(directory.path(), ID, 30).unwrap();
    let error = reader.next().unwrap_err();
    assert!(
        matches!(error, SpoolError::Damaged { offset: 30, .. }),
        "{error}"
    );
}

#[test]
fn a_full_disk_leaves_whole_frames_and_the_output_can_be_offered_again() {
    let mut writer = Writer::new(Path::new("/dev"), ID, LIMIT_BYTES);
    let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
    writer.state = State::Open {
        file: full,
        end: 16,
    };
    let error = writer.write(&stdout(b"x")).unwrap_err();
    assert_eq!(error.to_string(), "cannot write /dev/905.1.0");
    assert!(matches!(writer.state, State::Open { end: 16, .. }));
}

proptest! {
    #[test]
    fn what_is_written_in_pieces_is_read_in_the_same_order(
        pieces in prop::collection::vec((0..4u32, prop::collection::vec(any::<u8>(), 1..3000)), 0..60),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = Writer::new(directory.path(), ID, LIMIT_BYTES);
        for (task, bytes) in &pieces {
            writer.write(&frame(*task, Stream::Stdout, bytes)).unwrap();
        }
        if !pieces.is_empty() {
            let (all, _) = read_all(directory.path(), 0);
            let read: Vec<_> = all.into_iter().map(|(task, _, bytes)| (task, bytes)).collect();
            prop_assert_eq!(read, pieces);
        }
    }

    #[test]
    fn a_hostile_file_is_refused_or_waited_for_in_bounded_steps(
        mut bytes in prop::collection::vec(any::<u8>(), 0..4000), headed: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        if headed {
            bytes.splice(0..0, frame::head());
        }
        fs::write(ID.path(directory.path()), &bytes).unwrap();
        let mut reader = Reader::open(directory.path(), ID).unwrap();
        for _ in 0..=bytes.len() / FRAME_HEAD_BYTES {
            if !matches!(reader.next(), Ok(Next::Frame(_))) {
                break;
            }
        }
        prop_assert!(reader.buffer.capacity() <= 2 * (FRAME_MAX + FRAME_HEAD_BYTES + READ_BYTES));
    }
}

#[test]
fn on_a_disk_that_is_nearly_full_output_is_cut_with_a_note() {
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::new(directory.path(), ID, LIMIT_BYTES);
    writer.write(&stdout(b"there is room")).unwrap();
    writer.reserve = |disk| disk;
    writer.write(&stdout(b"there is none")).unwrap();
    writer.reserve = |_| 0;
    assert_eq!(writer.write(&stdout(b"again")).unwrap(), Written::Dropped);
    writer.write(&frame(0, Stream::StdoutEnd, b"")).unwrap();
    let (all, _) = read_all(directory.path(), 0);
    let note = b"output cut: the disk of this node is nearly full\n";
    let expected = [
        (0, Stream::Stdout, b"there is room".to_vec()),
        (0, Stream::Note, note.to_vec()),
        (0, Stream::StdoutEnd, Vec::new()),
    ];
    assert_eq!(all, expected);
}

#[test]
fn what_is_left_free_follows_the_size_of_the_disk() {
    let gib = 1 << 30;
    let left = [1 << 20, gib, 10 * gib, 100 * gib].map(reserve);
    assert_eq!(left, [(1 << 20) / 10, gib / 10, RESERVE_BYTES, 2 * gib]);
}
