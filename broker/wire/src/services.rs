//! Every request an instance answers: topic, who may send it, what goes in and
//! out. One file per service; [`Service`] ties a topic to its types, so that
//! client and module cannot disagree.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::Roles;

pub mod account;
pub mod child;
pub mod grant;
pub mod instance;
pub mod job;
pub mod kvs;
pub mod overlay;
pub mod pool;
pub mod queue;
pub mod reservation;
pub mod resource;
pub mod sched;
pub mod usage;

/// How many requests that were done an instance remembers by their keys (`once`): the last of all that have one.
pub const ONCE_KEPT: usize = 1_024;

/// One request an instance answers.
pub trait Service {
    /// `service.verb`.
    const TOPIC: &'static str;
    /// Who may send it; every handler states it, the default is nobody.
    const ROLES: Roles;
    /// What is asked.
    type Request: Serialize + DeserializeOwned;
    /// What is answered: once, or in parts for a streaming service.
    type Reply: Serialize + DeserializeOwned;
}

/// Declares a service type.
macro_rules! service {
    ($(#[$doc:meta])* $name:ident, $topic:literal, $roles:expr, $request:ty => $reply:ty) => {
        $(#[$doc])*
        pub enum $name {}
        impl crate::services::Service for $name {
            const TOPIC: &'static str = $topic;
            const ROLES: crate::message::Roles = $roles;
            type Request = $request;
            type Reply = $reply;
        }
    };
}
pub(crate) use service;
