//! The journal, links and sockets as whoever uses them sees them.
//!
//! One program, so that what all need is linked once; `shell_leaves_*` make their process the parent of
//! orphans and are programs of their own.

mod journal;
mod journal_damage;
mod journal_fixture;
mod journal_full;
mod journal_purge;
mod journal_writer;
mod link_ends;
mod link_findings;
mod link_pipes;
mod link_soak;
mod sockets;
