//! One rank of an instance and the modules it hosts, as pure state.
//!
//! Read in this order: [`module`] (what a module is given and gives),
//! [`effect`] (what leaves), [`saying`] (what a parent says, and to whom),
//! [`gate`] (when it may leave), [`router`] (who answers what), [`phase`]
//! (what the rank is doing), [`broker`] (all of it together), [`shellbook`]
//! (the other process's bookkeeping), [`link`] (what holds two ranks
//! together), [`tree`] (all ranks of an instance).
//!
//! Two drivers run this same code: brokerd on a real machine and the simulated
//! world in t/world. Here is no clock, no file, no socket, no randomness.

pub mod module;

pub mod effect;

pub mod saying;

pub mod gate;

pub mod router;

pub mod phase;

pub mod broker;

pub mod shellbook;

pub mod link;

pub mod tree;

pub use broker::{Arrival, Broker, Output};
pub use effect::{
    Answer, Caller, ClientId, Disk, Effect, Exit, Finished, HandedUp, Left, ParentWord, Query,
    Reply, ToParent, Volatile,
};
pub use gate::Gate;
pub use module::{
    EndedBy, Heads, Inner, Input, Inside, Lent, LimitChange, LimitedJob, LimitsTold, Line, Module,
    NewLimit, NewLimits, Notice, Outbox, Reacts, Request, Sender, SupposedJob, TakenBy,
};
pub use phase::Phase;
pub use router::{Endpoint, Router};
pub use saying::Saying;
