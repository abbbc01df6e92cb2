//! The bytes of a spool file: its head and its frames (doc/protocol/spool.md).
//!
//! Called by spool; pure. It never reads a file, and no bytes make it panic or
//! take more than one frame of memory.

/// First bytes of a spool file.
pub const MAGIC: [u8; 8] = *b"eddyspol";
/// Version of the form below; a reader takes no other.
pub const VERSION: u32 = 1;
/// Bytes before the first frame: magic, version, four zeros.
pub const HEAD_BYTES: usize = 16;
/// Bytes of a frame before its own.
pub const FRAME_HEAD_BYTES: usize = 24;
/// The most bytes in one frame.
pub const FRAME_MAX: usize = 1 << 20;

/// What the bytes of a frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Stream {
    /// Standard output of the task.
    Stdout = 1,
    /// Standard error of the task.
    Stderr = 2,
    /// End of its standard output; no bytes.
    StdoutEnd = 3,
    /// End of its standard error; no bytes.
    StderrEnd = 4,
    /// Text from the shell for a person, such as that output was cut.
    Note = 5,
}

impl Stream {
    fn from_code(code: u8) -> Option<Stream> {
        match code {
            1 => Some(Stream::Stdout),
            2 => Some(Stream::Stderr),
            3 => Some(Stream::StdoutEnd),
            4 => Some(Stream::StderrEnd),
            5 => Some(Stream::Note),
            _ => None,
        }
    }
}

/// One piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Number of the task in the job.
    pub task: u32,
    /// What the bytes are.
    pub stream: Stream,
    /// When the shell read them, microseconds of broker time.
    pub time: i64,
    /// At most [`FRAME_MAX`].
    pub bytes: &'a [u8],
}

/// Bytes that are not a spool file of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Another kind of file.
    #[error("not a spool file: begins with {given:02x?}")]
    Magic {
        /// The first bytes.
        given: [u8; 8],
    },
    /// Another version.
    #[error("spool version {given}; only {VERSION} is read")]
    Version {
        /// As written.
        given: u32,
    },
    /// Longer than any frame.
    #[error("frame of {given} bytes; at most {FRAME_MAX} are allowed")]
    TooLong {
        /// As written.
        given: u64,
    },
    /// A stream nobody knows, or rubbish where zeros belong.
    #[error("frame of stream {given:02x?}; 1 to 5, then three zeros are allowed")]
    Stream {
        /// As written.
        given: [u8; 4],
    },
    /// Whole, but not what was written.
    #[error("frame has checksum {given:08x}, its bytes have {found:08x}")]
    Checksum {
        /// As written.
        given: u32,
        /// Of what follows it.
        found: u32,
    },
}

/// The head of a spool file.
pub fn head() -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head
}

/// Reads the head of a spool file.
pub fn check_head(bytes: &[u8; HEAD_BYTES]) -> Result<(), FrameError> {
    let (magic, rest) = bytes.split_first_chunk::<8>().expect("a head is longer");
    if *magic != MAGIC {
        return Err(FrameError::Magic { given: *magic });
    }
    match word(rest, 0) {
        VERSION => Ok(()),
        given => Err(FrameError::Version { given }),
    }
}

/// What precedes the bytes of a frame.
///
/// # Panics
/// If it has more than [`FRAME_MAX`] bytes: who writes cuts before.
pub fn frame_head(frame: &Frame<'_>) -> [u8; FRAME_HEAD_BYTES] {
    assert!(
        frame.bytes.len() <= FRAME_MAX,
        "frame of {} bytes",
        frame.bytes.len()
    );
    let mut head = [0; FRAME_HEAD_BYTES];
    head[0..4].copy_from_slice(&(frame.bytes.len() as u32).to_le_bytes());
    head[8..16].copy_from_slice(&frame.time.to_le_bytes());
    head[16..20].copy_from_slice(&frame.task.to_le_bytes());
    head[20] = frame.stream as u8;
    let sum = checksum(&head, frame.bytes);
    head[4..8].copy_from_slice(&sum.to_le_bytes());
    head
}

/// Appends a whole frame.
pub fn encode(frame: &Frame<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(&frame_head(frame));
    out.extend_from_slice(frame.bytes);
}

/// What bytes at the begin of a frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// A frame, and how many bytes it took.
    Whole(Frame<'a>, usize),
    /// Only a part; so many bytes are needed to say more.
    Part {
        /// Bytes from the begin of the frame.
        needed: usize,
    },
}

/// Reads the frame at the begin of the bytes.
pub fn decode(bytes: &[u8]) -> Result<Decoded<'_>, FrameError> {
    let Some(head) = bytes.first_chunk::<FRAME_HEAD_BYTES>() else {
        return Ok(Decoded::Part {
            needed: FRAME_HEAD_BYTES,
        });
    };
    let length = word(head, 0) as usize;
    if length > FRAME_MAX {
        return Err(FrameError::TooLong {
            given: length as u64,
        });
    }
    let kind: [u8; 4] = head[20..24].try_into().expect("four bytes");
    let stream = match kind {
        [code, 0, 0, 0] => Stream::from_code(code),
        _ => None,
    };
    let stream = stream.ok_or(FrameError::Stream { given: kind })?;
    let needed = FRAME_HEAD_BYTES + length;
    let Some(body) = bytes.get(FRAME_HEAD_BYTES..needed) else {
        return Ok(Decoded::Part { needed });
    };
    let (given, found) = (word(head, 4), checksum(head, body));
    if given != found {
        return Err(FrameError::Checksum { given, found });
    }
    let time = i64::from_le_bytes(head[8..16].try_into().expect("eight bytes"));
    Ok(Decoded::Whole(
        Frame {
            task: word(head, 16),
            stream,
            time,
            bytes: body,
        },
        needed,
    ))
}

/// CRC-32 (IEEE) over the length, then all that follows the sum.
fn checksum(head: &[u8; FRAME_HEAD_BYTES], body: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&head[0..4]);
    sum.update(&head[8..]);
    sum.update(body);
    sum.finalize()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STREAMS: [Stream; 5] = [
        Stream::Stdout,
        Stream::Stderr,
        Stream::StdoutEnd,
        Stream::StderrEnd,
        Stream::Note,
    ];

    proptest! {
        #[test]
        fn a_frame_is_read_as_written_and_every_part_of_it_as_a_part(
            task: u32, which in 0..5usize, time: i64, bytes in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let frame = Frame { task, stream: STREAMS[which], time, bytes: &bytes };
            let mut out = Vec::new();
            encode(&frame, &mut out);
            prop_assert_eq!(decode(&out), Ok(Decoded::Whole(frame, out.len())));
            for cut in 0..out.len() {
                let Ok(Decoded::Part { needed }) = decode(&out[..cut]) else {
                    panic!("cut at {cut} gave {:?}", decode(&out[..cut]))
                };
                prop_assert!(needed > cut && needed <= out.len());
            }
        }

        #[test]
        fn any_changed_byte_is_noticed(
            bytes in prop::collection::vec(any::<u8>(), 0..64), at: usize, by in 1..=255u8,
        ) {
            let frame = Frame { task: 1, stream: Stream::Stdout, time: 5, bytes: &bytes };
            let mut out = Vec::new();
            encode(&frame, &mut out);
            let at = at % out.len();
            out[at] ^= by;
            prop_assert!(!matches!(decode(&out), Ok(Decoded::Whole(..))));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            if let Some(head) = bytes.first_chunk() {
                let _ = check_head(head);
            }
        }
    }

    #[test]
    fn a_block_of_zeros_left_by_a_power_cut_is_no_frame() {
        assert_eq!(
            decode(&[0; 4096]),
            Err(FrameError::Stream { given: [0; 4] })
        );
    }

    #[test]
    fn a_length_beyond_the_limit_is_refused_before_memory_is_taken() {
        let mut bytes = [0xff; FRAME_HEAD_BYTES];
        bytes[20..].copy_from_slice(&[1, 0, 0, 0]);
        assert_eq!(
            decode(&bytes),
            Err(FrameError::TooLong {
                given: u64::from(u32::MAX)
            })
        );
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = head();
        assert_eq!(check_head(&bytes), Ok(()));
        bytes[8] = 2;
        assert_eq!(
            check_head(&bytes).unwrap_err().to_string(),
            "spool version 2; only 1 is read"
        );
        bytes[0] = 0;
        assert!(matches!(check_head(&bytes), Err(FrameError::Magic { .. })));
    }
}
