//! Whose limits count for a job: as accounts and configurations are recorded.

use std::collections::BTreeMap;
use std::fmt;

use eddy_modules::settings::{Qos, Queue};
use eddy_wire::account::{Book, Change, Limits, Name};
use eddy_wire::event::Submit;
use eddy_wire::jobspec::{Takes, Work};
use eddy_wire::queue;
use eddy_wire::usage::Payer;

/// Whom a limit is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// All of an account and those under it.
    Account(Name),
    /// A user in an account.
    Member(Name, u32),
    /// A user.
    User(u32),
    /// All of a QoS.
    Qos(Name),
    /// A user in it.
    QosUser(Name, u32),
    /// All of a queue.
    Queue(String),
    /// A user in it.
    QueueUser(String, u32),
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

/// All limits that there are.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    book: Book,
    qos: BTreeMap<Name, Qos>,
    queues: BTreeMap<String, queue::Rules>,
}

/// Whether a job takes nothing of anybody.
pub(super) fn is_nobodys(submit: &Submit) -> bool {
    let request = &submit.spec.request;
    let is_declared = matches!(request.work, Work::Instance { name: Some(_) });
    is_declared || request.takes == Takes::Nothing
}

/// The queue that a job names.
pub(super) fn queue(submit: &Submit) -> Option<&str> {
    submit.spec.jobspec.attributes.system.queue.as_deref()
}

impl Rules {
    /// The configuration says this.
    pub fn configured(&mut self, qos: &[Qos], queues: &[Queue]) {
        let qos = qos.iter().map(|one| (one.name.clone(), one.clone()));
        let queues = queues.iter();
        let queues = queues.map(|one| (one.name.clone(), one.rules.clone()));
        (self.qos, self.queues) = (qos.collect(), queues.collect());
    }

    /// Without what is recorded of accounts.
    pub fn forgetful(&self) -> Rules {
        Rules {
            book: Book::default(),
            ..self.clone()
        }
    }

    /// Somebody changed an account, a member or a user.
    pub fn changed(&mut self, change: &Change) {
        self.book.apply(change);
    }

    /// Whether what a job takes is of this limit.
    pub fn counts(&self, whose: &Whose, submit: &Submit) -> bool {
        let (user, party) = (submit.user, &submit.party);
        if is_nobodys(submit) {
            return false;
        }
        let waived = || {
            let qos = party.qos.as_ref().and_then(|name| self.qos.get(name));
            qos.is_some_and(|qos| qos.limits_waived)
        };
        match whose {
            Whose::Account(_) | Whose::Member(..) | Whose::User(_) if waived() => false,
            _ => {
                let payer = Payer {
                    account: party.account.clone(),
                    user,
                    qos: party.qos.clone(),
                    queue: queue(submit).map(str::to_owned),
                };
                self.pays(whose, &payer)
            }
        }
    }

    /// Whether what a payer has used is of this limit.
    pub fn pays(&self, whose: &Whose, payer: &Payer) -> bool {
        match whose {
            Whose::Account(name) => {
                let own = payer.account.as_ref();
                own.is_some_and(|own| self.book.line(own).any(|(above, _)| above == name))
            }
            Whose::Member(name, of) => payer.account.as_ref() == Some(name) && payer.user == *of,
            Whose::User(of) => payer.user == *of,
            Whose::Qos(name) => payer.qos.as_ref() == Some(name),
            Whose::QosUser(name, of) => payer.qos.as_ref() == Some(name) && payer.user == *of,
            Whose::Queue(name) => payer.queue.as_ref() == Some(name),
            Whose::QueueUser(name, of) => payer.queue.as_ref() == Some(name) && payer.user == *of,
        }
    }

    /// The limits that count for a job.
    pub fn of(&self, submit: &Submit) -> Vec<(Whose, Limits)> {
        let all = self.all(submit);
        all.filter(|(whose, _)| self.counts(whose, submit))
            .collect()
    }

    /// Those that would count if its QoS waived none.
    pub fn of_anybody(&self, submit: &Submit) -> impl Iterator<Item = Limits> {
        self.all(submit).map(|(_, limits)| limits)
    }

    fn all(&self, submit: &Submit) -> impl Iterator<Item = (Whose, Limits)> {
        let (user, party) = (submit.user, &submit.party);
        let mut all = Vec::new();
        if let Some(account) = &party.account {
            let line = self.book.line(account);
            all.extend(line.map(|(name, value)| (Whose::Account(name.clone()), value.limits)));
            let member = self.book.member(account, user);
            all.extend(member.map(|one| (Whose::Member(account.clone(), user), one.limits)));
        }
        let own = self.book.user(user);
        all.extend(own.map(|one| (Whose::User(user), one.limits)));
        if let Some((name, qos)) = party
            .qos
            .as_ref()
            .and_then(|own| self.qos.get_key_value(own))
        {
            all.push((Whose::Qos(name.clone()), qos.limits));
            all.push((Whose::QosUser(name.clone(), user), qos.user_limits));
        }
        let queue = queue(submit).and_then(|own| self.queues.get_key_value(own));
        if let Some((name, rules)) = queue {
            all.push((Whose::Queue(name.clone()), rules.limits));
            all.push((Whose::QueueUser(name.clone(), user), rules.user_limits));
        }
        let some = |(_, limits): &(Whose, Limits)| !limits.limits_nothing();
        all.into_iter().filter(some)
    }
}
