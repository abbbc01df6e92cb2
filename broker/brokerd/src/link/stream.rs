//! The plain transport: frames on the connection of the knock, each behind its
//! length of four bytes, big endian. Frames put in one turn leave in one write.
//!
//! Memory is bounded by what came, by [`FRAME_BYTES_MAX`], and towards a peer
//! that does not read by the window of the link above, and beyond that by
//! `Limits::unsent_bytes`.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use eddy_broker::tree::overlay::{OverlayInput, PipeId};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Notify;

use super::fault::Fault;
use super::{FRAME_BYTES_MAX, Hall, Limits};

/// Bytes of the length before each frame.
const LENGTH_BYTES: usize = 4;
/// What a read is given room for.
const READ_BYTES: usize = 64 << 10;
/// An empty buffer above this is given back.
const KEPT_BYTES: usize = 256 << 10;

/// Carries frames both ways until it breaks.
pub(super) async fn carry(hall: &Hall, pipe: PipeId, stream: UnixStream) -> Fault {
    let (read, write) = stream.into_split();
    let outlet = Rc::new(Outlet {
        half: write,
        unsent: RefCell::new(BytesMut::new()),
        left: Notify::new(),
    });
    hall.open(pipe, super::Outlet::Stream(Rc::clone(&outlet)))
        .await;
    // Beside each other: a loop that is behind stops the reading, not the writing.
    tokio::select! {
        fault = read_frames(hall, pipe, read) => fault,
        fault = outlet.drain() => fault,
    }
}

async fn read_frames(hall: &Hall, pipe: PipeId, half: OwnedReadHalf) -> Fault {
    let mut buffer = BytesMut::new();
    loop {
        match take(&mut buffer) {
            Ok(Some(frame)) => {
                hall.say(OverlayInput::Frame(pipe, frame)).await;
                continue;
            }
            Ok(None) => {}
            Err(fault) => return fault,
        }
        if let Err(error) = half.readable().await {
            return error.into();
        }
        buffer.reserve(READ_BYTES);
        match half.try_read_buf(&mut buffer) {
            Ok(0) => return Fault::HungUp,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return error.into(),
        }
    }
}

/// The frame at the front, once it is whole.
fn take(buffer: &mut BytesMut) -> Result<Option<Bytes>, Fault> {
    let Some(head) = buffer.first_chunk::<LENGTH_BYTES>() else {
        return Ok(None);
    };
    let given = u32::from_be_bytes(*head) as usize;
    if given > FRAME_BYTES_MAX {
        return Err(Fault::FrameTooLong { given });
    }
    if buffer.len() < LENGTH_BYTES + given {
        return Ok(None);
    }
    buffer.advance(LENGTH_BYTES);
    Ok(Some(buffer.split_to(given).freeze()))
}

/// Where frames wait to be written.
pub(super) struct Outlet {
    half: OwnedWriteHalf,
    unsent: RefCell<BytesMut>,
    /// The socket took less than there was: the pipe's task goes on.
    left: Notify,
}

impl Outlet {
    /// Nothing waits.
    pub(super) fn is_idle(&self) -> bool {
        self.unsent.borrow().is_empty()
    }

    /// Puts a frame behind what waits.
    pub(super) fn put(&self, frame: &[u8], limits: Limits) -> Result<(), Fault> {
        let mut unsent = self.unsent.borrow_mut();
        let waiting = unsent.len() + LENGTH_BYTES + frame.len();
        let allowed = limits.unsent_bytes;
        if waiting > allowed {
            return Err(Fault::Unread { waiting, allowed });
        }
        unsent.reserve(LENGTH_BYTES + frame.len());
        unsent.put_u32(frame.len() as u32);
        unsent.put_slice(frame);
        Ok(())
    }

    /// Writes what the socket takes now.
    pub(super) fn flush(&self) -> Result<(), Fault> {
        let mut unsent = self.unsent.borrow_mut();
        while !unsent.is_empty() {
            match self.half.try_write(&unsent) {
                Ok(bytes) => unsent.advance(bytes),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.left.notify_one();
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Err(Fault::HungUp);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if unsent.capacity() > KEPT_BYTES {
            *unsent = BytesMut::new();
        }
        Ok(())
    }

    /// Writes what `flush` had to leave, as the other end reads.
    async fn drain(&self) -> Fault {
        loop {
            self.left.notified().await;
            if let Err(error) = self.half.writable().await {
                return error.into();
            }
            if let Err(fault) = self.flush() {
                return fault;
            }
        }
    }
}
