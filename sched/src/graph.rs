//! The graph of resources: what contains what, and what of it matches a jobspec.
//!
//! Called by whoever must place a canonical jobspec or plan over racks, sockets
//! and site-wide pools, where the rooms of a walk know only nodes and cores. It
//! reads no files and no clock; who asks for what is not its concern. The files
//! in the order in which a match comes about:
//!
//! - `draft`: containment as it is read, from `from_r`, `jgf`, `host` and `generator`; `sockets` gives of it
//!   what an inventory has.
//! - `containment`: the finished [`Graph`], its vertices numbered in preorder by `maker`.
//! - `constraint`: which nodes are allowed, by RFC 31 and RFC 35.
//! - `want`: a jobspec as goals over the types of one graph.
//! - `stock`: what is free and in service, with summaries (`index`, `usage`).
//! - `search`: goals against a stock; `entangled` where a greedy search is not enough.
//! - `matcher`: a stock with refusals explained; `found`: what was found, as R.
//! - `plan`: the same over time.

mod constraint;

mod draft;

mod from_r;

mod jgf;

mod host;

mod generator;

mod containment;

mod maker;

mod want;

mod compile;

mod stock;

mod index;

mod usage;

mod search;

mod hosts;

mod entangled;

mod found;

mod sockets;

mod matcher;

mod plan;

pub use containment::{Body, Class, Graph, Kind, Vertex};
pub use draft::{Draft, GraphError, Size, State, Thing};
pub use found::{Match, Pick, Share};
pub use generator::GeneratorError;
pub use host::{Domain, Host, Package};
pub use jgf::JgfError;
pub use matcher::{Matcher, Refusal, When};
pub use plan::{ClaimId, Plan};
pub use stock::Stock;
pub use want::{Arrange, Gang, Group, Place, Share as PlaceShare, Want, WantError};

#[cfg(test)]
mod tests;
