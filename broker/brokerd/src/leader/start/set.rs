//! What `eddy config set` put in force before this start, and what of it stands.
//!
//! Called once, while a leader begins, when the journal is folded. It stands over the file that it was set over; a
//! key that the start is given (`-S`) stands over what was set for that key, and over nothing else. It reads no
//! file and records nothing: the memo that it makes is the broker's to record.

use eddy_modules::live::{By, Change};
use eddy_wire::access::Access;
use serde_json::{Map, Value};

use crate::config::{self, Config, ConfigError, tables};
use crate::leader::access;
use crate::leader::reload::{Basis, live};

/// Who gave a start its `-S`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    /// Somebody who starts it now, and means what he says.
    Now,
    /// What began it the time before: only what is otherwise than then is news.
    Again,
}

/// What a start goes on with.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// What is in force, and who may connect by it; none where the file alone is obeyed.
    pub(super) config: Option<(Config, Option<Access>)>,
    /// What modules are to record of it, where it is otherwise than recorded.
    pub(super) memo: Option<Map<String, Value>>,
    /// What whoever starts it is to know.
    pub(super) notes: Vec<String>,
}

/// What stands of a recorded change; puts that over the file in `basis`.
pub(super) fn standing(basis: &mut Basis, text: &str, change: &Change, given: Given) -> Standing {
    let By::Set(set) = &change.by else {
        return Standing::default();
    };
    let Some(before) = given_before(basis, text, change) else {
        return undone(set, "another configuration is given");
    };
    let news: Vec<String> = match given {
        Given::Now => basis.given.clone(),
        Given::Again => {
            let all = basis.given.iter();
            all.filter(|one| !before.contains(one)).cloned().collect()
        }
    };
    let (hidden, others): (Vec<String>, Vec<String>) =
        set.iter().cloned().partition(|one| is_said(&news, one));
    let all = [&basis.given[..], &others, &news].concat();
    let (mut config, errors) = config::read(text, &all);
    // It was taken while all whom it names were there, and with the bounds of then.
    let was_taken = |error: &ConfigError| {
        error.is_of_a_later_bound() || matches!(error, ConfigError::User { .. })
    };
    if let Some(error) = errors.iter().find(|error| !was_taken(error)) {
        return dropped(basis, change, set, &error.to_string());
    }
    access::leave_out(&mut config.instance.access);
    config.instance.resolve(&basis.inventory);
    let (Ok(table), Ok(live)) = (tables::over(text, &all), live(&config, &basis.admits)) else {
        return dropped(basis, change, set, "it cannot be read any more");
    };
    let is_recorded = *before == basis.given && (news.is_empty() || live == change.live);
    basis.table = table;
    basis.set = match given {
        // It is in force again with the next start that does not say it.
        Given::Now => set.clone(),
        Given::Again => others,
    };
    let keys = tables::keys(&basis.table);
    let changed = match change.keys.is_empty() {
        // Of what an earlier version set nothing may be known.
        true => Vec::new(),
        false => change.keys.differences(&keys),
    };
    let access = live.access.clone();
    let memo = Change {
        over: basis.over.hash(),
        userid: rustix::process::geteuid().as_raw(),
        by: By::Set(basis.set.clone()),
        changed,
        restart: Vec::new(),
        warned: Vec::new(),
        live,
        keys,
        given: basis.given.clone(),
    };
    Standing {
        config: Some((config, access)),
        memo: (!is_recorded).then(|| memo.memo()),
        notes: match hidden[..] {
            [] => Vec::new(),
            _ => vec![format!(
                "-S stands over what `eddy config set` put in force, as long as it is given: {}",
                hidden.join(", ")
            )],
        },
    }
}

/// What the start was given that a change was made over, where its file was this one.
fn given_before<'a>(basis: &'a Basis, text: &str, change: &'a Change) -> Option<&'a Vec<String>> {
    if change.over == basis.over.hash() {
        return Some(&basis.given);
    }
    let (mut config, _) = config::read(text, &change.given);
    config.instance.resolve(&basis.inventory);
    let then = live(&config, &basis.admits).ok()?;
    (change.over == then.hash()).then_some(&change.given)
}

/// Whether a key is one of these, or within one.
fn is_said(news: &[String], set: &str) -> bool {
    let key = |given: &str| {
        given
            .split('=')
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    let set = key(set);
    news.iter().any(|one| {
        let rest = set.strip_prefix(&key(one));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Nothing of it stands, although the file is the same: which modules do not find by themselves.
fn dropped(basis: &Basis, change: &Change, set: &[String], why: &str) -> Standing {
    let keys = tables::keys(&basis.table);
    let memo = Change {
        over: basis.over.hash(),
        userid: rustix::process::geteuid().as_raw(),
        by: By::Start,
        changed: change.keys.differences(&keys),
        restart: Vec::new(),
        warned: Vec::new(),
        live: basis.over.clone(),
        keys,
        given: basis.given.clone(),
    };
    Standing {
        memo: Some(memo.memo()),
        ..undone(set, why)
    }
}

/// Nothing of it stands.
fn undone(set: &[String], why: &str) -> Standing {
    let keys = set.join(", ");
    Standing {
        notes: match set {
            [] => Vec::new(),
            _ => vec![format!(
                "what `eddy config set` had put in force is undone: {keys} ({why})"
            )],
        },
        ..Standing::default()
    }
}
