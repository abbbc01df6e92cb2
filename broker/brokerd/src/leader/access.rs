//! Who is admitted, from what the configuration says, with names looked up.
//!
//! Called by the start, by the thread that reads another configuration, and by whoever checks one. It
//! admits nobody itself.

use eddy_wire::access::{Access, HOST_ADMIN, Listing, Users};
use thiserror::Error;

use crate::config::{self, ConfigError};
use crate::users::{self, UserError};

/// Why users are not admitted.
#[derive(Debug, Error)]
pub enum AccessError {
    /// An instance that cannot serve several.
    #[error("access: is given; {why}")]
    Owner {
        /// Why not.
        why: &'static str,
    },
    /// Somebody who is not there.
    #[error("{field}: {source}")]
    Name {
        /// The key.
        field: &'static str,
        /// Who.
        source: UserError,
    },
}

/// Whose word it is who is admitted.
#[derive(Clone, Debug)]
pub(super) enum Admits {
    /// The configuration's, of a root of this owner.
    Configured(u32),
    /// Its parent's, of a declared instance.
    Parent(Access),
    /// Nobody's: an instance that a user has inside another serves him.
    Owner,
}

/// Every name in what a configuration says of access that this host does not know.
pub fn unknown(said: &config::Access) -> Vec<ConfigError> {
    let users: &[String] = match &said.users {
        config::Users::Unsaid | config::Users::All => &[],
        config::Users::Named(names) => names,
    };
    let users = users.iter().map(|name| ("access.users", name));
    let admins = said.admins.iter().map(|name| ("access.admins", name));
    let unknown = users.chain(admins).filter_map(|(field, name)| {
        let why = users::number(name).err()?;
        Some(ConfigError::User {
            path: field.to_owned(),
            why,
        })
    });
    unknown.collect()
}

/// Takes those out whom this host does not know.
pub(super) fn leave_out(said: &mut config::Access) {
    let is_there = |name: &String| users::number(name).is_ok();
    if let config::Users::Named(names) = &mut said.users {
        names.retain(is_there);
    }
    said.admins.retain(is_there);
}

/// Who is admitted, with names looked up. A root of uid 0 admits everybody unless it is told
/// otherwise, a declared instance whom its parent admits, every other one its owner.
pub(super) fn admitted(said: &config::Access, admits: &Admits) -> Result<Access, AccessError> {
    let is_said = said.users != config::Users::Unsaid || !said.admins.is_empty() || said.private;
    let refused = |why, instead| match is_said {
        true => Err(AccessError::Owner { why }),
        false => Ok(instead),
    };
    let own = Access::default();
    match admits {
        Admits::Parent(access) => {
            return refused("the root says who may connect", access.clone());
        }
        Admits::Owner => return refused("an instance inside another serves its owner", own),
        Admits::Configured(owner) if *owner != HOST_ADMIN => {
            return refused(
                "only what user 0 starts can run tasks of several users",
                own,
            );
        }
        Admits::Configured(_) => {}
    }
    let named = |field, names: &[String]| {
        users::numbers(names).map_err(|source| AccessError::Name { field, source })
    };
    Ok(Access {
        users: match &said.users {
            config::Users::Unsaid | config::Users::All => Users::All,
            config::Users::Named(names) => Users::Only(named("access.users", names)?),
        },
        admins: named("access.admins", &said.admins)?,
        listing: match said.private {
            true => Listing::Private,
            false => Listing::Open,
        },
    })
}
