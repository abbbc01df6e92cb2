//! Whom a job is charged to, and as what: settled when it is submitted, so that a later change of
//! a default moves no job that is there.
//!
//! Where there are no accounts everybody may submit and is charged by user, as in an instance of
//! one's own. What takes nothing, and the instances that the configuration declares, are charged
//! to nobody.

use std::collections::BTreeSet;

use eddy_wire::account::{Book, Name, Party};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::gang;
use eddy_wire::id::Seq;
use eddy_wire::queue::Rules;
use eddy_wire::spec::Spec;
use eddy_wire::time::{Span, Time};
use serde_json::{Map, Value};

use crate::limits::{Limits, Whose, is_nobodys};
use crate::live::Change;
use crate::sched::{Obeyed, is_policy};
use crate::settings::{Class, Qos, Settings};

const ACCOUNT: &str = "attributes.system.account";
const BANK: &str = "attributes.system.bank";
const QOS: &str = "attributes.system.qos";
/// The same where the queue gives it.
const QOS_OF_QUEUE: &str = "attributes.system.qos, which the queue gives by default";
const CLASS: &str = "attributes.system.class";

/// Who may name what, and have how much of it.
#[derive(Debug)]
pub struct Parties {
    charter: Charter,
    limits: Limits,
}

/// Who may name what.
#[derive(Debug)]
pub(crate) struct Charter {
    pub(crate) book: Book,
    named: Named,
}

/// The QoS and classes that jobs may ask for: by the configuration, and by the policy that is obeyed.
#[derive(Debug, Default)]
pub(crate) struct Named {
    obeyed: Obeyed,
    configured: (Vec<Qos>, Vec<Class>),
    pub(crate) qos: BTreeSet<String>,
    classes: BTreeSet<String>,
}

impl Named {
    /// Those of a start.
    pub fn new(settings: &Settings) -> Named {
        let mut named = Named {
            obeyed: Obeyed::new(&settings.policy),
            configured: (settings.qos.clone(), settings.classes.clone()),
            qos: BTreeSet::new(),
            classes: BTreeSet::new(),
        };
        named.settle();
        named
    }

    /// Takes a memo in: of another configuration, or of a policy that was set.
    pub fn apply(&mut self, seq: Seq, memo: &Map<String, Value>) {
        if let Some(Change { live, by, .. }) = Change::told(memo) {
            self.obeyed.configured(&by, live.policy());
            self.configured = (live.qos, live.classes);
            self.settle();
        } else if is_policy(memo) {
            self.obeyed.apply(seq, memo);
            self.settle();
        }
    }

    fn settle(&mut self) {
        let (qos, classes) = &self.configured;
        let policy = self.obeyed.policy();
        let qos = qos.iter().map(|qos| qos.name.to_string());
        let of_policy = policy.priority.factors.qos.keys().cloned();
        self.qos = qos.chain(of_policy).collect();
        let classes = classes.iter().map(|class| class.name.to_string());
        let of_policy = policy.placement.classes.keys().cloned();
        self.classes = classes.chain(of_policy).collect();
    }
}

impl Parties {
    /// With the QoS and classes that the configuration has, and no accounts yet.
    pub fn new(settings: &Settings) -> Parties {
        Parties {
            charter: Charter::new(settings),
            limits: Limits::new(settings),
        }
    }

    /// Takes a record in, if it is about accounts or jobs.
    pub fn apply(&mut self, record: &Record) {
        self.limits.apply(record);
        self.charter.apply(record);
    }

    /// Who may name what.
    pub fn charter(&self) -> &Charter {
        &self.charter
    }

    /// Who has how much of which limit.
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The most cores that a job may be given.
    pub fn most_cores(&self, spec: &Spec) -> u64 {
        self.limits.most_cores(spec)
    }

    /// The longest time limit that a job may have, if that is limited.
    pub fn longest(&self, (user, party): (u32, &Party), spec: &Spec) -> Option<Span> {
        self.limits.longest(user, party, spec)
    }

    /// Whose limit of nodes counts for a job, if any does.
    pub fn of_nodes(&self, (user, party): (u32, &Party), spec: &Spec) -> Option<Whose> {
        self.limits.of_nodes(user, party, spec)
    }

    /// On how many nodes so many pieces may lie that go anywhere, the fewest first.
    pub fn numbers_of_nodes(&self, spec: &Spec, pieces: u32) -> Vec<u32> {
        self.limits.numbers_of_nodes(spec, pieces)
    }

    /// Whether so many more jobs of a party can be taken.
    ///
    /// # Errors
    /// They would be over a limit, alone or where that is to be refused.
    pub fn within_limits(
        &self,
        now: Time,
        (user, party): (u32, &Party),
        spec: &Spec,
        count: u32,
    ) -> Result<(), Refusal> {
        if gang::of(spec).is_ok_and(|gang| gang.is_some())
            && let Some(whose) = self.limits.of_running(user, party, spec)
        {
            // Some of a gang that are let through would wait for the others, and keep their place.
            let text = format!(
                "attributes.system.{}: {whose} has a limit of what may run, by which members would start one by one; \
                 a gang is served where there is none",
                gang::ATTRIBUTE
            );
            return Err(Refusal::invalid(text));
        }
        match self.limits.refusing(now, user, party, spec, count) {
            None => Ok(()),
            Some(bound) => Err(Refusal::new(Code::TooLarge, bound.text)),
        }
    }
}

/// A job of a user: whom it is charged to with what it asks for, before and after.
type Moved<'a> = (u32, (&'a Party, &'a Spec), (&'a Party, &'a Spec));

impl Parties {
    /// Whether one that is there may be charged otherwise, or ask for something else: by the limits that did not
    /// count for it before, as of one that is submitted.
    ///
    /// # Errors
    /// It would be over a limit, alone or where that is to be refused.
    pub fn within_limits_moved(&self, now: Time, moved: Moved<'_>) -> Result<(), Refusal> {
        match self.limits.refusing_moved(now, moved) {
            None => Ok(()),
            Some(bound) => Err(Refusal::new(Code::TooLarge, bound.text)),
        }
    }
}

impl Charter {
    /// With the QoS and classes that the configuration has, and no accounts yet.
    pub fn new(settings: &Settings) -> Charter {
        Charter {
            book: Book::default(),
            named: Named::new(settings),
        }
    }

    /// Takes a record in, if it is about accounts or the configuration.
    pub fn apply(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::Account(changed) => self.book.apply(&changed.change),
            Kind::Memo(memo) => self.named.apply(record.seq, memo),
            _ => {}
        }
    }

    /// Whom a job of this user is charged to that names nobody.
    pub fn party_of(&self, user: u32) -> Party {
        let account = self.book.charged(ACCOUNT, user, None);
        Party {
            account: account.ok().flatten(),
            ..Party::default()
        }
    }

    /// Whom a job of this user is charged to, in a queue with these rules.
    ///
    /// # Errors
    /// What it names is not there, or not for this user; the field says which.
    pub fn party(&self, user: u32, spec: &Spec, rules: Option<&Rules>) -> Result<Party, Refusal> {
        let system = &spec.jobspec.attributes.system;
        let of_queue = |name: Option<&Name>| name.map(Name::to_string);
        let class = system.class.clone();
        let class = class.or_else(|| of_queue(rules?.default_class.as_ref()));
        let class = named(CLASS, class.as_deref(), &self.named.classes, "classes")?;
        let asked = system.qos.clone();
        let qos_field = match asked {
            Some(_) => QOS,
            None => QOS_OF_QUEUE,
        };
        let asked = asked.or_else(|| of_queue(rules?.default_qos.as_ref()));
        let asked = named(qos_field, asked.as_deref(), &self.named.qos, "QoS")?;
        let default = of_queue(rules.and_then(|rules| rules.default_account.as_ref()));
        let (field, name) = match (&system.account, &system.bank) {
            (Some(account), Some(bank)) if account != bank => {
                let text = format!(
                    "{BANK}: `{}` given, and {ACCOUNT} is `{}`; they are one thing",
                    bank.escape_debug(),
                    account.escape_debug()
                );
                return Err(Refusal::invalid(text));
            }
            (None, Some(bank)) => (BANK, Some(bank.as_str())),
            (account, _) => (ACCOUNT, account.as_deref().or(default.as_deref())),
        };
        let account = name.map(str::parse::<Name>).transpose();
        let account = account.map_err(|error| Refusal::invalid(format!("{field}: {error}")))?;
        if self.book.is_empty() || is_nobodys(spec) {
            // What one names where nobody is charged is kept for listings.
            let qos = asked;
            return Ok(Party {
                account,
                qos,
                class,
            });
        }
        let is_named = system.account.is_some() || system.bank.is_some();
        let below = match (name, is_named) {
            (Some(default), false) => self.own_below(user, default),
            (_, true) | (None, false) => None,
        };
        let account = match below {
            Some(account) => Ok(Some(account)),
            None => self.book.charged(field, user, name),
        };
        let Some(account) = account.map_err(Refusal::invalid)? else {
            return Ok(Party::default());
        };
        let qos = self.book.qos(qos_field, &account, user, asked);
        let qos = qos.map_err(Refusal::invalid)?.map(|name| name.to_string());
        // What an account has by default may be configured no more, or not yet.
        let field = format!("{QOS}: of account `{account}` or its user");
        Ok(Party {
            qos: named(&field, qos.as_deref(), &self.named.qos, "QoS")?,
            account: Some(account),
            class,
        })
    }

    /// What a user is charged to by default, where that is below this account and he is not in it himself.
    fn own_below(&self, user: u32, account: &str) -> Option<Name> {
        let own = self.book.charged(ACCOUNT, user, None).ok()??;
        let (top, _) = self.book.named(ACCOUNT, account).ok()?;
        let is_below = self.book.line(&own).any(|(above, _)| above == top);
        let is_in_it = self.book.member(top, user).is_some();
        (is_below && !is_in_it).then_some(own)
    }
}

/// A name that must be among those there are.
pub(crate) fn named(
    field: &str,
    given: Option<&str>,
    known: &BTreeSet<String>,
    what: &str,
) -> Result<Option<Name>, Refusal> {
    let Some(given) = given else {
        return Ok(None);
    };
    let found = known.get(given).and_then(|name| name.parse().ok());
    if found.is_some() {
        return Ok(found);
    }
    let given = given.escape_debug();
    let text = match known.is_empty() {
        true => format!("{field}: `{given}` given, this instance has no {what}"),
        false => {
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            format!("{field}: `{given}` given, there are {}", known.join(", "))
        }
    };
    Err(Refusal::invalid(text))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use eddy_wire::account::{Account, Change as AccountChange, Member, QosRules};
    use eddy_wire::jobspec::Ask;
    use eddy_wire::resource_set::ResourceSet;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    #[test]
    fn a_qos_that_the_queue_gives_is_refused_as_that_and_by_whose_list_it_is() {
        let mut charter = Charter::new(&Settings::for_inventory(Arc::new(ResourceSet::default())));
        charter.named.qos = ["normal", "long"].map(str::to_owned).into();
        charter.book.apply(&AccountChange::Account {
            name: name("physics"),
            value: Some(Account {
                qos: QosRules {
                    allowed: Some([name("long")].into()),
                    default: None,
                },
                ..Account::default()
            }),
        });
        charter.book.apply(&AccountChange::Member {
            account: name("physics"),
            user: 7,
            value: Some(Member::default()),
        });
        let ask = Ask {
            command: vec!["true".to_owned()],
            ..Ask::default()
        };
        let spec = |qos: Option<&str>| {
            let mut jobspec = ask.jobspec().expect("a jobspec");
            jobspec.attributes.system.qos = qos.map(str::to_owned);
            Spec::from_jobspec(jobspec).expect("a spec")
        };
        let rules = Rules {
            default_qos: Some(name("normal")),
            ..Rules::default()
        };
        let refused = |qos, rules| {
            charter
                .party(7, &spec(qos), rules)
                .expect_err("refused")
                .text
        };
        assert_eq!(
            refused(None, Some(&rules)),
            "attributes.system.qos, which the queue gives by default: `normal` is given; account `physics` may have long"
        );
        assert_eq!(
            refused(Some("normal"), None),
            "attributes.system.qos: `normal` is given; account `physics` may have long"
        );
    }
}
