//! The Rust client of an eddy instance: find it, call its services, follow
//! what it streams, and get over a restart of its leader.
//!
//! Used by the command line and by every front written in Rust. It holds no
//! knowledge of jobs beyond the wire types, prints nothing and starts no
//! process. Runs on any tokio runtime, also a single-threaded one.

pub mod error;
pub mod path;
pub mod uri;

pub mod client;
mod driver;

pub mod follow;
pub mod owners;
pub mod resolve;

pub mod frames;

pub use client::{Client, Options, Parts};
pub use error::ClientError;
pub use follow::{EndFeed, EventFeed, OutputFeed, RecordFeed, ValueFeed};
pub use path::{InstancePath, Meant, meant};
pub use resolve::{Choice, PathError, Patience, Remains, Side, descend, reach};
pub use uri::{LocateError, Uri, locate};

#[cfg(test)]
mod tests;
