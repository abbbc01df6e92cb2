//! A connected Unix socket as a rank's loop uses it: it is woken by what comes, and by room to write
//! only while something did not fit.
//!
//! Used for clients, shells and the channel to a parent. A socket that is watched for both wakes the
//! loop each time that the other end has read something, which is once a message and for nothing.

use std::cell::{Cell, RefCell};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as Plain;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use eddy_wire::message::{Message, MessageError};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::task::spawn_local;

use crate::frame;

/// What one read takes at most.
const READ_BYTES: usize = 64 << 10;
/// A buffer that grew beyond this is given back once it is empty.
const KEPT_BYTES: usize = 64 << 10;
/// Before a socket is written again that cannot be watched for want of descriptors.
const WATCH_PAUSE: Duration = Duration::from_millis(10);

thread_local! {
    /// Where reads go before it is known how much they are: connections are many and mostly silent.
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// Both ends of a new connection: to read, and to write.
///
/// # Errors
/// The system's, if it cannot be watched.
pub fn both(stream: UnixStream) -> io::Result<(Inlet, Rc<Outlet>)> {
    let plain = stream.into_std()?;
    let socket = Rc::new(watch(plain, Interest::READABLE)?);
    let inlet = Inlet(Rc::clone(&socket));
    Ok((inlet, Rc::new(Outlet::new(socket))))
}

type Socket = Rc<AsyncFd<Plain>>;

/// The new name of this function is unsafe for the sake of types whose descriptor may change; that
/// of a socket does not.
#[expect(deprecated, reason = "the other one is unsafe and does the same")]
fn watch(plain: Plain, interest: Interest) -> io::Result<AsyncFd<Plain>> {
    AsyncFd::with_interest(plain, interest)
}

/// The reading end.
#[derive(Debug)]
pub struct Inlet(Socket);

impl Inlet {
    /// Appends what has come; 0 at the end. May be dropped and called again.
    ///
    /// # Errors
    /// The system's; the connection is over.
    pub async fn read(&mut self, into: &mut BytesMut) -> io::Result<usize> {
        loop {
            let mut guard = self.0.readable().await?;
            let read: io::Result<usize> = SCRATCH.with_borrow_mut(|scratch| {
                let read = guard.get_inner().read(scratch)?;
                into.extend_from_slice(&scratch[..read]);
                Ok(read)
            });
            match read {
                Ok(0) => return Ok(0),
                Ok(bytes) => {
                    // Less than there was room for was all: what comes later wakes anew, and that
                    // the other end is gone is kept.
                    if bytes < READ_BYTES {
                        guard.clear_ready();
                    }
                    return Ok(bytes);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => guard.clear_ready(),
                    io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

/// The writing end: what is to be sent waits here.
#[derive(Debug)]
pub struct Outlet {
    socket: Socket,
    buffer: RefCell<BytesMut>,
    flow: Cell<Flow>,
    /// When it was seen last that the other end takes what there is.
    took: Cell<Instant>,
}

/// Whether the other end keeps up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// Nothing is waited for.
    Open,
    /// A task writes what is left as the other end reads.
    Draining,
}

impl Outlet {
    fn new(socket: Socket) -> Outlet {
        Outlet {
            socket,
            buffer: RefCell::new(BytesMut::new()),
            flow: Cell::new(Flow::Open),
            took: Cell::new(Instant::now()),
        }
    }

    /// Puts a message behind what waits; returns how many bytes wait now.
    ///
    /// # Errors
    /// A message over the limit; nothing of it waits then.
    pub fn put(&self, message: &Message) -> Result<usize, MessageError> {
        self.put_with(|buffer| frame::put(buffer, message))
    }

    /// Puts what `write` writes behind what waits.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn put_with(
        &self,
        write: impl FnOnce(&mut BytesMut) -> Result<(), MessageError>,
    ) -> Result<usize, MessageError> {
        let mut buffer = self.buffer.borrow_mut();
        if buffer.is_empty() {
            // Nothing was there to be taken.
            self.took.set(Instant::now());
        }
        write(&mut buffer)?;
        Ok(buffer.len())
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.buffer.borrow().len()
    }

    /// Ends the connection without what waits: the other end does not read it, and it would wait for ever.
    pub fn discard(&self) {
        *self.buffer.borrow_mut() = BytesMut::new();
        let _ = self.socket.get_ref().shutdown(Shutdown::Both);
    }

    /// For how long nothing was taken of what waits.
    pub fn stands(&self) -> Duration {
        match self.waiting() {
            0 => Duration::ZERO,
            _ => self.took.get().elapsed(),
        }
    }

    /// Sends what the socket takes now, in as few calls as it lets; the rest
    /// follows by itself.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn flush(self: &Rc<Outlet>) -> io::Result<()> {
        if self.flow.get() == Flow::Draining {
            return Ok(());
        }
        match self.write()? {
            Flow::Open => Ok(()),
            Flow::Draining => {
                self.flow.set(Flow::Draining);
                let outlet = Rc::clone(self);
                spawn_local(async move { outlet.drain().await });
                Ok(())
            }
        }
    }

    fn write(&self) -> io::Result<Flow> {
        let mut buffer = self.buffer.borrow_mut();
        while !buffer.is_empty() {
            match send(self.socket.get_ref(), &buffer, SendFlags::NOSIGNAL) {
                Ok(bytes) => {
                    buffer.advance(bytes);
                    self.took.set(Instant::now());
                }
                Err(Errno::AGAIN) => return Ok(Flow::Draining),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if buffer.capacity() > KEPT_BYTES {
            *buffer = BytesMut::new();
        }
        Ok(Flow::Open)
    }

    /// Writes as there is room. An error ends this; the reading end tells the loop of it.
    async fn drain(self: Rc<Outlet>) {
        while let Ok(Flow::Draining) = self.room().await {}
        self.flow.set(Flow::Open);
    }

    /// Waits for room by a descriptor of its own, and writes.
    async fn room(&self) -> io::Result<Flow> {
        let copy = self.socket.get_ref().try_clone();
        let watched = copy.and_then(|copy| watch(copy, Interest::WRITABLE));
        let Ok(watched) = watched else {
            tokio::time::sleep(WATCH_PAUSE).await;
            return self.write();
        };
        loop {
            let mut guard = watched.writable().await?;
            match self.write()? {
                Flow::Draining => guard.clear_ready(),
                Flow::Open => return Ok(Flow::Open),
            }
        }
    }
}

impl Drop for Outlet {
    /// Who writes no more is done; what the other end still says is read.
    fn drop(&mut self) {
        let _ = self.socket.get_ref().shutdown(Shutdown::Write);
    }
}
