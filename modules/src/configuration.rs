//! The configuration in force: takes another from the driver, judges whether it can be obeyed by what
//! there is now, and proposes the record of it.
//!
//! That it is right in itself was checked by the driver. What is judged here is what only records tell:
//! jobs that are in a queue, or ask for a QoS, class or pool, which is to be no more. After a restart
//! with another file it proposes the record that says so.

mod unmet;

use std::collections::BTreeSet;

use eddy_broker::{Caller, Input, Module, Outbox, Reacts};
use eddy_sched::policy::print::overrides;
use eddy_sched::policy::read::read;
use eddy_wire::account::{Book, Name};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record, Submit};
use eddy_wire::hash::Hash;
use eddy_wire::id::{JobId, Seq};
use eddy_wire::pool;
use eddy_wire::services::instance::Reloaded;
use eddy_wire::time::Time;
use eddy_wire::update;
use serde_json::{Map, Value};

use crate::jobs::Jobs;
use crate::keys::Keys;
use crate::live::{By, Change, Live};
use crate::sched::policy_set;
use crate::settings::{Qos, Settings};
use unmet::Unmet;

/// How many jobs are named.
const NAMES_SHOWN: usize = 16;

/// The configuration, and what jobs rest on of it.
pub struct Configuration {
    /// What the start was told.
    told: Live,
    owner: u32,
    /// As it was written, and as the start before was told.
    keys: (Keys, Keys),
    /// What is in force.
    live: Live,
    recorded: Option<Recorded>,
    policy: Policy,
    jobs: Jobs<Rests>,
    unmet: Unmet,
    /// The accounts that there are: data of the instance, not of its configuration.
    book: Book,
}

/// The last record of a change.
struct Recorded {
    seq: Seq,
    over: Hash,
    keys: Keys,
}

/// Which policy is obeyed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Policy {
    Configured,
    /// One that was set while the instance ran, if that still stands.
    Set(String),
}

/// What a job that is not over names of the configuration.
#[derive(Default)]
struct Rests {
    queue: Option<String>,
    qos: Option<Name>,
    class: Option<Name>,
    pools: pool::Takes,
}

impl Rests {
    fn of(submit: &Submit) -> Rests {
        Rests {
            queue: submit.spec.jobspec.attributes.system.queue.clone(),
            qos: submit.party.qos.clone(),
            class: submit.party.class.clone(),
            pools: pool::of(&submit.spec).unwrap_or_default(),
        }
    }

    fn updated(&mut self, map: &Map<String, Value>) {
        let update::Change { queue, qos, .. } = update::Change::of(map);
        self.queue = queue.or_else(|| self.queue.take());
        self.qos = qos.or_else(|| self.qos.take());
    }
}

impl Module for Configuration {
    fn name(&self) -> &'static str {
        "configuration"
    }

    fn apply(&mut self, record: &Record) {
        self.unmet.apply(record);
        match (&record.event.kind, record.event.job) {
            (Kind::Memo(memo), None) => {
                if let Some(change) = Change::told(memo) {
                    if change.by == By::Reload {
                        self.policy = Policy::Configured;
                    }
                    self.recorded = Some(Recorded {
                        seq: record.seq,
                        over: change.over,
                        keys: change.keys,
                    });
                    self.live = change.live;
                } else if let Some(text) = policy_set(memo) {
                    self.policy = Policy::Set(text);
                }
            }
            (Kind::Account(changed), _) => self.book.apply(&changed.change),
            (Kind::Submit(submit), Some(id)) => {
                self.jobs.insert(id, Rests::of(submit));
            }
            (Kind::JobspecUpdate(map), Some(id)) => {
                if let Some(rests) = self.jobs.get_mut(&id) {
                    rests.updated(map);
                }
            }
            (Kind::Clean, Some(id)) => {
                self.jobs.remove(&id);
            }
            _ => {}
        }
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToNeither
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Configure(caller, change) => self.change(now, caller, change, out),
            // Whoever starts it with another file is obeyed.
            Input::Resume(memo) => {
                let memo = memo.cloned();
                if let Some(memo) = memo.or_else(|| Some(self.of_start()?.memo())) {
                    out.append_own(now, Kind::Memo(memo));
                }
            }
            _ => {}
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.recorded.iter().map(|recorded| recorded.seq));
    }
}

impl Configuration {
    /// In force is what the start is told.
    pub fn new(settings: &Settings) -> Configuration {
        let live = Live::of(settings);
        Configuration {
            told: live.clone(),
            keys: settings.keys.clone(),
            owner: settings.owner,
            live,
            recorded: None,
            policy: Policy::Configured,
            jobs: Jobs::default(),
            unmet: Unmet::new(settings),
            book: Book::default(),
        }
    }

    /// What this start has otherwise than it was, if it does.
    fn of_start(&self) -> Option<Change> {
        let over = self.told.hash();
        let (keys, before) = &self.keys;
        let before = match &self.recorded {
            Some(recorded) if recorded.over == over => return None,
            Some(recorded) if !recorded.keys.is_empty() => &recorded.keys,
            Some(_) | None => before,
        };
        // Of what an earlier version had nothing may be known.
        let changed = match before.is_empty() {
            true => Vec::new(),
            false => before.differences(keys),
        };
        let is_other = self.recorded.is_some() || !changed.is_empty();
        is_other.then(|| Change {
            over,
            userid: self.owner,
            by: By::Start,
            changed,
            restart: Vec::new(),
            warned: Vec::new(),
            live: self.told.clone(),
            keys: keys.clone(),
            given: Vec::new(),
        })
    }

    fn change(&mut self, now: Time, caller: Caller, memo: &Map<String, Value>, out: &mut Outbox) {
        let Some(mut change) = Change::told(memo) else {
            let text = "a configuration that cannot be read";
            return out.refuse(caller, &Refusal::new(Code::Invalid, text));
        };
        if let (Policy::Set(text), By::Reload) = (&self.policy, &change.by) {
            change.changed.retain(|line| !line.starts_with("policy."));
            change.changed.extend(undone(text, &change.live));
            let line = "policy: what was set by `eddy config set policy.KEY=VALUE` is undone";
            change.changed.push(line.to_owned());
        }
        change
            .warned
            .extend(self.unmet.of((&self.live, &change.live)));
        let mut errors = self.hindered(&change.live);
        errors.extend(self.beyond(&change));
        let unknown = self.unknown_accounts(&change.live);
        match &change.by {
            // What stood already is not what is set now.
            By::Set(_) => {
                let known = self.unknown_accounts(&self.live);
                errors.extend(unknown.into_iter().filter(|line| !known.contains(line)));
            }
            // The file may come before the accounts do.
            By::Reload | By::Start => change.warned.extend(unknown),
        }
        if !errors.is_empty() {
            let reloaded = Reloaded {
                errors,
                ..Reloaded::default()
            };
            return out.answer(caller, &reloaded);
        }
        let reloaded = Reloaded {
            errors,
            changed: change.changed.clone(),
            restart: change.restart.clone(),
            warned: change.warned.clone(),
        };
        // What counts from the next start on is kept for that, too.
        let is_nothing = reloaded.changed.is_empty() && reloaded.restart.is_empty();
        if is_nothing || Change::is_trial(memo) {
            return out.answer(caller, &reloaded);
        }
        out.append_own(now, Kind::Memo(change.memo()));
        out.reply(caller, &reloaded);
    }

    /// What whoever sets keys may not: filters are programs that run as the owner does, so that who set one would be
    /// the owner. What a file says whoever wrote it has said.
    fn beyond(&self, change: &Change) -> Option<String> {
        let is_owners = [self.owner, 0].contains(&change.userid);
        let is_set = matches!(change.by, By::Set(_));
        let is_same = change.live.filters == self.live.filters;
        if is_owners || !is_set || is_same {
            return None;
        }
        let (owner, user) = (self.owner, change.userid);
        Some(format!(
            "ingest.filter: set by user {user}, and its programs run as user {owner}: only user {owner} and root may"
        ))
    }

    /// The accounts that queues name and that there are not, a line for each key.
    fn unknown_accounts(&self, live: &Live) -> Vec<String> {
        let there: Vec<&str> = self
            .book
            .accounts()
            .map(|(name, _)| name.as_str())
            .collect();
        let there = match there.is_empty() {
            true => "there are no accounts".to_owned(),
            false => format!("there are {}", there.join(", ")),
        };
        let mut lines = Vec::new();
        for queue in &live.queues {
            let rules = &queue.rules;
            let named = rules.accounts.iter().flatten();
            let named = named.map(|name| ("accounts", name));
            let default = rules.default_account.iter();
            let named = named.chain(default.map(|name| ("default_account", name)));
            for (key, name) in named.filter(|(_, name)| self.book.account(name).is_none()) {
                let path = format!("queue.{}.{key}", queue.name);
                lines.push(format!("{path}: there is no account `{name}`; {there}"));
            }
        }
        lines
    }

    /// What is in the way of it, a line each.
    fn hindered(&self, live: &Live) -> Vec<String> {
        let mut lines = Vec::new();
        for queue in &self.live.queues {
            let next = live.queues.iter().find(|one| one.name == queue.name);
            let path = match next {
                None => format!("queue `{}`: is to be no more", queue.name),
                Some(next) if next.instance != queue.instance => {
                    format!("queue `{}`: is to lead elsewhere", queue.name)
                }
                Some(_) => continue,
            };
            let is_in = |rests: &Rests| rests.queue.as_ref() == Some(&queue.name);
            lines.extend(self.in_the_way(&path, is_in));
        }
        let names =
            |qos: &[Qos]| -> BTreeSet<Name> { qos.iter().map(|one| one.name.clone()).collect() };
        for name in names(&self.live.qos).difference(&names(&live.qos)) {
            let path = format!("QoS `{name}`: is to be no more");
            lines.extend(self.in_the_way(&path, |rests| rests.qos.as_ref() == Some(name)));
        }
        for class in &self.live.classes {
            if !live.classes.iter().any(|one| one.name == class.name) {
                let path = format!("class `{}`: is to be no more", class.name);
                let is_of = |rests: &Rests| rests.class.as_ref() == Some(&class.name);
                lines.extend(self.in_the_way(&path, is_of));
            }
        }
        for pool in &self.live.pools {
            let next = live.pools.iter().find(|one| one.name == pool.name);
            let count = next.map_or(0, |next| next.count);
            let path = format!("pool `{}`: is to have {count}", pool.name);
            let takes_more = |rests: &Rests| {
                let mut takes = rests.pools.iter();
                takes.any(|(name, asked)| *name == pool.name && *asked > count)
            };
            lines.extend(self.in_the_way(&path, takes_more));
        }
        lines
    }

    fn in_the_way(&self, path: &str, is_of: impl Fn(&Rests) -> bool) -> Option<String> {
        let found = self.jobs.iter().filter(|(_, rests)| is_of(rests));
        let found: Vec<JobId> = found.map(|(id, _)| *id).collect();
        let named = named(&found)?;
        Some(format!(
            "{path}, and jobs that are not over need it as it is: {named}"
        ))
    }
}

/// Some jobs by their numbers, if there are any.
fn named(jobs: &[JobId]) -> Option<String> {
    if jobs.is_empty() {
        return None;
    }
    let shown = jobs.iter().take(NAMES_SHOWN).map(|id| id.f58_ascii());
    let shown: Vec<String> = shown.collect();
    let more = match jobs.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("{}{more}", shown.join(", ")))
}

/// What of a policy that was set is otherwise in what is configured, a line each.
fn undone(set: &str, live: &Live) -> Vec<String> {
    let keys = |policy: &eddy_sched::policy::Policy| {
        let values = overrides(policy).into_iter();
        let values = values.map(|(key, value)| (format!("policy.{key}"), value));
        Keys {
            values: values.collect(),
            ..Keys::default()
        }
    };
    keys(&read(set).unwrap_or_default()).differences(&keys(&live.policy()))
}
