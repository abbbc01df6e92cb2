//! The tree of ranks of one instance, as pure state.
//!
//! Read in this order: [`overlay`] (links to the rank above and the ranks
//! below, and which letter goes where), [`head`] (the leader's end: ranks seen
//! as clients and shells), [`follower`] (another rank's end: the clients and
//! the shell on its node). Links themselves are [`crate::link`].
//!
//! Shape: rank r hangs under rank (r - 1) / k while that is reached, else under
//! the next reached one above; the leader, where every rank knocks first, says
//! which. So the tree heals by ranks knocking again, and nobody keeps a map but
//! of what is below it.

pub mod overlay;

pub mod head;

pub mod follower;

pub use follower::{Asker, Follower, FollowerInput, FollowerOutput};
pub use head::{Head, Routed};
pub use overlay::{Overlay, OverlayInput, OverlayOutput, PipeId};
