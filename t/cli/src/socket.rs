//! A bare connection to a socket, for what no client would send.
//!
//! Used by tests of hostile bytes. It knows frames and nothing above them.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use eddy_wire::message::Message;
use serde::Serialize;

use crate::running::LIMIT;

/// One connection.
#[derive(Debug)]
pub struct Socket {
    stream: UnixStream,
}

impl Socket {
    /// Connects.
    ///
    /// # Errors
    /// Nobody listens.
    pub fn connect(path: &Path) -> anyhow::Result<Socket> {
        let stream = UnixStream::connect(path).with_context(|| path.display().to_string())?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(Duration::from_secs(5)))?;
        Ok(Socket { stream })
    }

    /// Sends bytes; the other end may have closed, which is no error here.
    pub fn send(&mut self, bytes: &[u8]) {
        let _may_be_closed = self.stream.write_all(bytes);
    }

    /// Sends a whole request and takes the next answer.
    ///
    /// # Errors
    /// The connection closes.
    pub fn ask(&mut self, topic: &str, body: &impl Serialize) -> anyhow::Result<Message> {
        self.send(&framed(&Message::request(topic, 1, body).encode()?));
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut bytes)?;
        Ok(Message::decode(&Bytes::from(bytes))?)
    }

    /// All that comes until the other end closes.
    ///
    /// # Errors
    /// It does not close.
    pub fn rest(mut self) -> anyhow::Result<Vec<u8>> {
        let mut rest = Vec::new();
        match self.stream.read_to_end(&mut rest) {
            Ok(_) => Ok(rest),
            // What was sent and not read is a reset to the kernel.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(rest),
            Err(error) => Err(error).context("the connection was to be closed"),
        }
    }

    /// Says that nothing more is sent, and waits until the other end closes.
    ///
    /// # Errors
    /// It does not.
    pub fn is_closed(self) -> anyhow::Result<()> {
        self.rest().map(drop)
    }
}

/// A frame: the length in four bytes, then the message.
#[must_use]
pub fn framed(message: &[u8]) -> Vec<u8> {
    let mut frame = (message.len() as u32).to_be_bytes().to_vec();
    frame.extend_from_slice(message);
    frame
}
