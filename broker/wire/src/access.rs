//! Who may connect to an instance and what each may do there.
//!
//! Numbers only: who looks names up is the driver. Used by every rank that takes clients and by the
//! modules that show jobs. It admits nobody by itself: the kernel says who is at the other end.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::message::Roles;

/// The administrator of the host.
pub const HOST_ADMIN: u32 = 0;

/// Who besides the owner may connect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Users {
    /// Nobody: the owner's own instance.
    #[default]
    Owner,
    /// Every user of the host.
    All,
    /// These.
    Only(BTreeSet<u32>),
}

/// What others see of somebody's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Listing {
    /// The rows of a listing.
    #[default]
    Open,
    /// Nothing but counts.
    Private,
}

/// Who may do what in an instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Access {
    /// Who may submit.
    #[serde(default)]
    pub users: Users,
    /// Who may act on everybody's jobs.
    #[serde(default)]
    pub admins: BTreeSet<u32>,
    /// What others see of a job.
    #[serde(default)]
    pub listing: Listing,
}

impl Access {
    /// Whether anybody but the owner and the host's administrator may connect.
    pub fn admits_others(&self) -> bool {
        self.users != Users::Owner || !self.admins.is_empty()
    }

    /// What a user may do in an instance of this owner; nothing is not being admitted.
    pub fn roles(&self, owner: u32, uid: u32) -> Roles {
        if uid == owner || uid == HOST_ADMIN {
            return Roles::OWNER.or(Roles::USER);
        }
        if self.admins.contains(&uid) {
            return Roles::ADMIN.or(Roles::USER);
        }
        match &self.users {
            Users::All => Roles::USER,
            Users::Only(users) if users.contains(&uid) => Roles::USER,
            Users::Owner | Users::Only(_) => Roles::NONE,
        }
    }

    /// Of whose jobs a sender is shown more than counts: of everybody's, or only of that user's.
    pub fn only(&self, uid: u32, roles: Roles) -> Option<u32> {
        let all = self.listing == Listing::Open || roles.may_administer();
        (!all).then_some(uid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_the_roles_that_he_is_given_and_nobody_else_any() {
        let own = Access::default();
        assert_eq!(own.roles(1000, 1000), Roles::OWNER.or(Roles::USER));
        assert_eq!(own.roles(1000, 0), Roles::OWNER.or(Roles::USER));
        assert_eq!(own.roles(1000, 1001), Roles::NONE);
        assert!(!own.admits_others());
        let some = Access {
            users: Users::Only(BTreeSet::from([5])),
            admins: BTreeSet::from([7]),
            listing: Listing::Private,
        };
        assert_eq!(some.roles(0, 5), Roles::USER);
        assert_eq!(some.roles(0, 6), Roles::NONE);
        assert_eq!(some.roles(0, 7), Roles::ADMIN.or(Roles::USER));
        assert!(some.admits_others());
        let only = |uid| some.only(uid, some.roles(0, uid));
        assert_eq!((only(5), only(7), only(0)), (Some(5), None, None));
    }
}
