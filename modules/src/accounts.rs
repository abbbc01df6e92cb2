//! Accounts: who is in them, with how many shares, under which limits.
//!
//! Takes changes from administrators, checks each as if those before it were made, and proposes
//! one record for each; a request is taken as a whole or not at all. Ingest, sched and the
//! listings fold the same records. Charges nothing and holds nobody back.

use std::collections::{BTreeMap, BTreeSet};

use eddy_broker::{Endpoint, Input, Module, Outbox, Reacts, Request};
use eddy_wire::account::{Book, Change, Changed, Key, Name, QosRules};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::Seq;
use eddy_wire::services::Service;
use eddy_wire::services::account::{
    self, Accounts as Listed, Aim, Asked, Before, CHANGES_MAX, SetReply, SetRequest,
};
use eddy_wire::time::Time;
use eddy_wire::update;

use crate::ingest::parties::{Named, named};
use crate::jobs::Jobs;
use crate::once;
use crate::settings::Settings;

/// The accounts.
#[derive(Default)]
pub struct Accounts {
    book: Book,
    /// The last record of each key that stands: what a mark must keep.
    latest: BTreeMap<Key, Seq>,
    /// The QoS there are.
    named: Named,
    /// Whom each job that is not over is charged to: an account and a user of it.
    charged: Jobs<(Name, u32)>,
}

impl Module for Accounts {
    fn name(&self) -> &'static str {
        "accounts"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[
            Endpoint::of::<account::Set>(),
            Endpoint::of::<account::List>(),
        ];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        let changed = match (&record.event.kind, record.event.job) {
            (Kind::Account(changed), _) => changed,
            (Kind::Submit(submit), Some(job)) => {
                if let Some(account) = &submit.party.account {
                    self.charged.insert(job, (account.clone(), submit.user));
                }
                return;
            }
            (Kind::JobspecUpdate(map), Some(job)) => {
                if let (Some((account, _)), Some(other)) =
                    (self.charged.get_mut(&job), update::Change::of(map).account)
                {
                    *account = other;
                }
                return;
            }
            (Kind::Clean, Some(job)) => {
                self.charged.remove(&job);
                return;
            }
            (Kind::Memo(memo), _) => {
                self.named.apply(record.seq, memo);
                return;
            }
            _ => return,
        };
        self.book.apply(&changed.change);
        let key = changed.change.key();
        match changed.change.removes() {
            true => self.latest.remove(&key),
            false => self.latest.insert(key, record.seq),
        };
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToNeither
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        if let Input::Request(request) = input
            && let Err(refusal) = self.request(now, request, out)
        {
            out.refuse(request.caller, &refusal);
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.latest.values());
    }
}

impl Accounts {
    /// None yet, with the QoS that the configuration has.
    pub fn new(settings: &Settings) -> Accounts {
        Accounts {
            named: Named::new(settings),
            ..Accounts::default()
        }
    }

    fn request(&self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        match request.topic.as_str() {
            account::Set::TOPIC => {
                let asked: SetRequest = request.parse()?;
                let (aim, key) = (asked.aim, asked.once);
                let changes = self.changes(asked)?;
                let changed = changes.len() as u64;
                if aim == Aim::Try {
                    out.answer(request.caller, &SetReply { changed, changes });
                    return Ok(());
                }
                for change in changes {
                    let userid = request.uid;
                    let changed = Box::new(Changed { userid, change });
                    out.append_own(now, Kind::Account(changed));
                }
                let made = SetReply {
                    changed,
                    changes: Vec::new(),
                };
                once::reply(now, request, key, &made, out);
            }
            account::List::TOPIC => {
                let changes = self.book.to_changes();
                out.answer(request.caller, &Listed { changes });
            }
            other => unreachable!("the router sent `{other}` to accounts"),
        }
        Ok(())
    }

    /// What is to be recorded: those that change something, and what follows from them.
    fn changes(&self, request: SetRequest) -> Result<Vec<Change>, Refusal> {
        let given = request.changes.len();
        if given > CHANGES_MAX {
            let text =
                format!("changes: {given} given, the limit `account changes` is {CHANGES_MAX}");
            return Err(Refusal::new(Code::TooLarge, text));
        }
        let mut book = self.book.clone();
        let mut changes = Vec::new();
        for Asked { change, before } in request.changes {
            let there = value(&book, &change);
            if !change.removes() && there == Some(Value::of(&change)) {
                continue;
            }
            match (before, &there) {
                (Before::None, Some(_)) => {
                    let text = format!(
                        "{} is there already and is not as given; an edit changes it",
                        told(&change)
                    );
                    return Err(Refusal::new(Code::Conflict, text));
                }
                (Before::Some, None) => {
                    return Err(Refusal::not_found(format!("there is no {}", told(&change))));
                }
                (Before::Any | Before::None | Before::Some, _) => {}
            }
            if there.is_none() && change.removes() {
                continue;
            }
            let known = self.knows_qos(&change, there.as_ref());
            let checked = known.and_then(|()| book.check(&change).map_err(Refusal::invalid));
            let checked = checked.and_then(|()| self.is_charged_no_more(&change));
            // Of several it is said which.
            checked.map_err(|refusal| match given {
                1 => refusal,
                _ => Refusal::new(refusal.code, format!("{}: {}", told(&change), refusal.text)),
            })?;
            let follows = book.follow(&change);
            for change in [Some(change), follows].into_iter().flatten() {
                book.apply(&change);
                changes.push(change);
            }
        }
        Ok(changes)
    }

    /// Whether no job counts on what a change removes: it would go on without the limits under which it
    /// was taken.
    fn is_charged_no_more(&self, change: &Change) -> Result<(), Refusal> {
        let (given, account, user) = match change {
            Change::Account { name, value: None } => (format!("account: `{name}`"), name, None),
            Change::Member {
                account,
                user,
                value: None,
            } => (format!("user: {user}"), account, Some(user)),
            // Without limits of his own a user has those of his accounts.
            Change::User { .. } | Change::Account { .. } | Change::Member { .. } => return Ok(()),
        };
        let charged = self.charged.values();
        let charged =
            charged.filter(|(of, by)| of == account && user.is_none_or(|user| user == by));
        let jobs = match (charged.count(), user) {
            (0, _) => return Ok(()),
            (jobs, Some(_)) => format!("{jobs} jobs of that user"),
            (jobs, None) => format!("{jobs} jobs"),
        };
        let text = format!(
            "{given} given, {jobs} that are not over are charged to account `{account}`; they have to end or be \
             cancelled first"
        );
        Err(Refusal::new(Code::Conflict, text))
    }

    /// Whether there is every QoS that a change is the first to name. What stood there before may
    /// be configured no more; that is no reason to refuse a change of something else.
    fn knows_qos(&self, change: &Change, before: Option<&Value<'_>>) -> Result<(), Refusal> {
        if change.removes() {
            return Ok(());
        }
        let before: BTreeSet<&Name> = before
            .and_then(Value::qos)
            .into_iter()
            .flat_map(names)
            .map(|(_, name)| name)
            .collect();
        let after = Value::of(change).qos().into_iter().flat_map(names);
        for (field, name) in after.filter(|(_, name)| !before.contains(name)) {
            named(field, Some(name.as_str()), &self.named.qos, "QoS")?;
        }
        Ok(())
    }
}

/// Every QoS that is named, with the field.
fn names(rules: &QosRules) -> impl Iterator<Item = (&'static str, &Name)> {
    let allowed = rules.allowed.iter().flatten();
    let allowed = allowed.map(|name| ("qos.allowed", name));
    allowed.chain(rules.default.iter().map(|name| ("qos.default", name)))
}

/// What a key stands for, borrowed.
#[derive(PartialEq)]
enum Value<'v> {
    Account(&'v eddy_wire::account::Account),
    Member(&'v eddy_wire::account::Member),
    User(&'v eddy_wire::account::User),
}

impl<'v> Value<'v> {
    /// The value that a change sets.
    fn of(change: &'v Change) -> Value<'v> {
        let set = match change {
            Change::Account { value, .. } => value.as_ref().map(Value::Account),
            Change::Member { value, .. } => value.as_ref().map(Value::Member),
            Change::User { value, .. } => value.as_ref().map(Value::User),
        };
        set.expect("it sets something")
    }

    /// What is said there of QoS, if anything can be.
    fn qos(&self) -> Option<&'v QosRules> {
        match self {
            Value::Account(account) => Some(&account.qos),
            Value::Member(member) => Some(&member.qos),
            Value::User(_) => None,
        }
    }
}

/// What stands for the key of a change.
fn value<'b>(book: &'b Book, change: &Change) -> Option<Value<'b>> {
    match change {
        Change::Account { name, .. } => book.account(name).map(Value::Account),
        Change::Member { account, user, .. } => book.member(account, *user).map(Value::Member),
        Change::User { user, .. } => book.user(*user).map(Value::User),
    }
}

fn told(change: &Change) -> String {
    match change {
        Change::Account { name, .. } => format!("account `{name}`"),
        Change::Member { account, user, .. } => format!("user {user} in account `{account}`"),
        Change::User { user, .. } => format!("user {user} with a default or limits"),
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::account::{Account, Member, Name, Shares};
    use eddy_wire::event::Event;

    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    fn account(text: &str, shares: u32) -> Change {
        Change::Account {
            name: name(text),
            value: Some(Account {
                shares: Shares::Of(shares),
                ..Account::default()
            }),
        }
    }

    fn set(accounts: &Accounts, asked: &[(Change, Before)]) -> Result<Vec<Change>, String> {
        let asked = asked.iter().map(|(change, before)| Asked {
            change: change.clone(),
            before: *before,
        });
        let changes = accounts.changes(SetRequest {
            changes: asked.collect(),
            aim: Aim::Make,
            once: None,
        });
        changes.map_err(|refusal| refusal.text)
    }

    fn fold(accounts: &mut Accounts, changes: &[Change]) {
        for change in changes {
            let seq = Seq(accounts.latest.values().map(|seq| seq.0).max().unwrap_or(0) + 1);
            let changed = Box::new(Changed {
                userid: 0,
                change: change.clone(),
            });
            let (t, kind) = (Time(0), Kind::Account(changed));
            let event = Event { t, job: None, kind };
            accounts.apply(&Record { seq, event });
        }
    }

    #[test]
    fn a_request_that_is_repeated_changes_nothing_and_is_no_error() {
        let mut accounts = Accounts::default();
        let asked = [(account("a", 2), Before::None)];
        let changes = set(&accounts, &asked).expect("added");
        assert_eq!(changes.len(), 1);
        fold(&mut accounts, &changes);
        assert_eq!(set(&accounts, &asked), Ok(Vec::new()));
        let other = [(account("a", 3), Before::None)];
        assert_eq!(
            set(&accounts, &other),
            Err("account `a` is there already and is not as given; an edit changes it".to_owned())
        );
        let missing = [(account("b", 3), Before::Some)];
        assert_eq!(
            set(&accounts, &missing),
            Err("there is no account `b`".to_owned())
        );
        let name = name("b");
        let gone = [(Change::Account { name, value: None }, Before::Some)];
        assert_eq!(
            set(&accounts, &gone),
            Err("there is no account `b`".to_owned())
        );
    }

    #[test]
    fn a_request_is_taken_as_a_whole_and_in_order() {
        let accounts = Accounts::default();
        let member = Change::Member {
            account: name("a"),
            user: 7,
            value: Some(Member::default()),
        };
        let wrong = set(&accounts, &[(member.clone(), Before::Any)]);
        assert_eq!(
            wrong,
            Err("account: there is no account `a`; there are none".to_owned())
        );
        let both = [(account("a", 1), Before::Any), (member, Before::Any)];
        assert_eq!(set(&accounts, &both).map(|changes| changes.len()), Ok(2));
    }

    #[test]
    fn of_several_changes_the_one_that_cannot_be_is_named() {
        let accounts = Accounts::default();
        let asked = [
            (account("a", 1), Before::Any),
            (account("b", u32::MAX), Before::Any),
        ];
        let wrong = set(&accounts, &asked).expect_err("too many shares");
        assert!(
            wrong.starts_with("account `b`: shares: 4294967295"),
            "{wrong}"
        );
    }

    #[test]
    fn a_qos_that_is_not_there_is_refused_by_field_unless_it_stood_there_before() {
        let with = |allowed: &[&str], default: Option<&str>, shares| Change::Account {
            name: name("a"),
            value: Some(Account {
                shares: Shares::Of(shares),
                qos: QosRules {
                    allowed: Some(allowed.iter().map(|text| name(text)).collect()),
                    default: default.map(name),
                },
                ..Account::default()
            }),
        };
        let mut accounts = Accounts::default();
        let asked = |change| [(change, Before::Any)];
        assert_eq!(
            set(&accounts, &asked(with(&["gone"], None, 1))),
            Err("qos.allowed: `gone` given, this instance has no QoS".to_owned())
        );
        fold(&mut accounts, &[with(&["gone"], Some("gone"), 1)]);
        accounts.named.qos = BTreeSet::from(["fast".to_owned()]);
        let again = set(&accounts, &asked(with(&["fast", "gone"], Some("gone"), 2)));
        assert_eq!(again.map(|changes| changes.len()), Ok(1));
        assert_eq!(
            set(&accounts, &asked(with(&["gone"], Some("fats"), 1))),
            Err("qos.default: `fats` given, there are fast".to_owned())
        );
    }

    #[test]
    fn a_mark_keeps_one_record_for_each_that_stands() {
        let mut accounts = Accounts::default();
        let remove = Change::Account {
            name: name("b"),
            value: None,
        };
        fold(
            &mut accounts,
            &[account("a", 1), account("b", 1), account("a", 2), remove],
        );
        let mut seqs = Vec::new();
        accounts.live(&mut seqs);
        assert_eq!(seqs, [Seq(3)]);
    }
}
