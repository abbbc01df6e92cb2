//! The graph of resources: what contains what, and what of it matches a jobspec.
//!
//! Read from R, from JGF (RFC 40) and from a short generator syntax.
