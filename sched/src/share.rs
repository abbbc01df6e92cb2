//! What each account is due: part (b) of a policy.
//!
//! Shares and usage of a tree of accounts become a factor, a rank or a cost. Used
//! by formulas (a factor), by rounds (a cost that moves as jobs are placed) and by
//! listings. Charges nothing and knows no jobs.
//!
//! - `tree`: accounts and users, their shares, and what they have used.
//! - `classic` with `among` (how usage is blended down), `ticket`, `fair_tree`, `pbs_tree`, `project`,
//!   `floor`: the algorithms.
//! - `drf`: costs by the dominant resource; `adjusted`: shares that demand leaves over.
//! - `book`: all of them behind one interface.

pub mod adjusted;
mod among;
pub mod classic;
pub mod drf;
pub mod fair_tree;
pub mod floor;
pub mod pbs_tree;
pub mod project;
pub mod ticket;

mod book;
mod tree;

pub use book::{Ask, Book, BookError, Present};
pub use tree::{Account, Members, NodeId, Shares, Tree, TreeError, Usage};

#[cfg(test)]
mod tests;
