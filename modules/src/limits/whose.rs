//! Whom a limit is of, and whose limits count for a job and for what a payer uses.
//!
//! Part of the limits. Counts nothing.

use std::fmt;
use std::sync::Arc;

use eddy_wire::account::{Limits as Given, Name, Party};
use eddy_wire::spec::Spec;
use eddy_wire::usage::Payer;

use super::Limits;

/// Whom a limit is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Whose {
    /// All jobs of an account and of those under it.
    Account(Name),
    /// Those of a user in an account.
    Member(Name, u32),
    /// Those of a user.
    User(u32),
    /// Those of a QoS.
    Qos(Name),
    /// Those of a user in a QoS.
    QosUser(Name, u32),
    /// Those of a queue.
    Queue(Arc<str>),
    /// Those of a user in a queue.
    QueueUser(Arc<str>, u32),
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Account(name) => write!(f, "account `{name}`"),
            Whose::Member(name, user) => write!(f, "user {user} in account `{name}`"),
            Whose::User(user) => write!(f, "user {user}"),
            Whose::Qos(name) => write!(f, "QoS `{name}`"),
            Whose::QosUser(name, user) => write!(f, "user {user} in QoS `{name}`"),
            Whose::Queue(name) => write!(f, "queue `{name}`"),
            Whose::QueueUser(name, user) => write!(f, "user {user} in queue `{name}`"),
        }
    }
}

impl Limits {
    /// Whose limits count for a job: those there are.
    pub(super) fn bound_by(&self, party: &Party, user: u32, spec: &Spec) -> Vec<Whose> {
        if self.limits_nobody() {
            return Vec::new();
        }
        let qos = party.qos.as_ref();
        let waived = qos.and_then(|name| self.qos.get(name));
        let mut all = match waived.is_some_and(|qos| qos.limits_waived) {
            true => Vec::new(),
            false => self.of_account(party.account.as_ref(), user),
        };
        let queue = spec.jobspec.attributes.system.queue.as_deref();
        all.extend(self.of_kind(qos, queue, user));
        all.retain(|whose| self.given(whose).is_some());
        all
    }

    /// Whose budgets what a payer uses is of.
    pub(super) fn budgets_of(&self, payer: &Payer) -> Vec<Whose> {
        if self.limits_nobody() {
            return Vec::new();
        }
        let mut all = self.of_account(payer.account.as_ref(), payer.user);
        all.extend(self.of_kind(payer.qos.as_ref(), payer.queue.as_deref(), payer.user));
        all.retain(|whose| self.has_budget(whose));
        all
    }

    /// Whether what is spent is limited for them.
    pub fn has_budget(&self, whose: &Whose) -> bool {
        let given = self.given(whose);
        given.is_some_and(|given| given.core_minutes.is_some())
    }

    /// Who is charged, and all above.
    fn of_account(&self, account: Option<&Name>, user: u32) -> Vec<Whose> {
        let mut all = Vec::new();
        if let Some(account) = account {
            let line = self.book.line(account);
            all.extend(line.map(|(name, _)| Whose::Account(name.clone())));
            all.push(Whose::Member(account.clone(), user));
        }
        all.push(Whose::User(user));
        all
    }

    /// As what a job runs, and of which queue.
    fn of_kind(&self, qos: Option<&Name>, queue: Option<&str>, user: u32) -> Vec<Whose> {
        let mut all = Vec::new();
        if let Some(name) = qos {
            all.push(Whose::Qos(name.clone()));
            all.push(Whose::QosUser(name.clone(), user));
        }
        if let Some((name, _)) = queue.and_then(|name| self.queues.get_key_value(name)) {
            all.push(Whose::Queue(Arc::clone(name)));
            all.push(Whose::QueueUser(Arc::clone(name), user));
        }
        all
    }

    pub(super) fn given(&self, whose: &Whose) -> Option<&Given> {
        match whose {
            Whose::QosUser(name, _) => {
                let qos = self.qos.get(name)?;
                Some(&qos.user_limits).filter(|limits| !limits.limits_nothing())
            }
            Whose::QueueUser(name, _) => {
                let rules = self.queues.get(name)?;
                Some(&rules.user_limits).filter(|limits| !limits.limits_nothing())
            }
            whose => self.limits.get(whose),
        }
    }
}
