//! The first words on a door: a length of four bytes, big endian, then JSON
//! (doc/protocol/link.md). Used by who knocks and who answers. Nothing that
//! follows a word is read with it: those bytes are the transport's.

use std::io;

use eddy_wire::link::HELLO_BYTES_MAX;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

use super::fault::Fault;

/// Reads one word. The caller bounds the time.
pub(super) async fn read<T: DeserializeOwned>(stream: &mut UnixStream) -> Result<T, Fault> {
    let mut head = [0; 4];
    stream.read_exact(&mut head).await.map_err(ended)?;
    let given = u32::from_be_bytes(head) as usize;
    if given > HELLO_BYTES_MAX {
        return Err(Fault::WordTooLong { given });
    }
    let mut body = vec![0; given];
    stream.read_exact(&mut body).await.map_err(ended)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Writes one word. The caller bounds the time.
pub(super) async fn write<T: Serialize>(stream: &mut UnixStream, word: &T) -> Result<(), Fault> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, word)?;
    let given = bytes.len() - 4;
    if given > HELLO_BYTES_MAX {
        return Err(Fault::WordTooLong { given });
    }
    bytes[..4].copy_from_slice(&(given as u32).to_be_bytes());
    stream.write_all(&bytes).await.map_err(ended)
}

fn ended(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset => Fault::HungUp,
        _ => Fault::Io(error),
    }
}

/// Waits for the end of a connection on which nothing is said. The kernel
/// closes it when the process at the other end dies, however it dies.
pub(super) async fn hung_up(stream: &UnixStream) -> Fault {
    loop {
        if let Err(error) = stream.readable().await {
            return ended(error);
        }
        match stream.try_read(&mut [0; 1]) {
            Ok(0) => return Fault::HungUp,
            Ok(_) => return Fault::OutOfTurn,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return ended(error),
        }
    }
}
