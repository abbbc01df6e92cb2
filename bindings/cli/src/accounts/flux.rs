//! What flux-accounting exports: tables of `export-db` (`bank_table.csv`,
//! `association_table.csv`), or the document of `export-json`, which has neither parents nor
//! shares of banks.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
use eddy_wire::account::{Account, Book, Change, Limits, Member, Name, Shares, User};
use serde_json::Value;

use super::{Found, csv, nothing_in, plain};
use crate::names::Users;

/// What is written for no limit.
const NO_LIMIT: u64 = i32::MAX as u64;

/// What a document has of accounts.
const KEYS: [&str; 2] = ["banks", "associations"];
/// How many keys an error tells.
const KEYS_TOLD: usize = 8;

/// A row by the names of its columns.
type Row = BTreeMap<String, String>;

/// What the texts have, in any order.
///
/// # Errors
/// The first text that is none of these, or what is wrong in it.
pub fn read(texts: &[(String, String)], users: &Users) -> anyhow::Result<Found> {
    let (mut banks, mut associations) = (Vec::new(), Vec::new());
    for (name, text) in texts {
        let before = banks.len() + associations.len();
        match text.trim_start().starts_with('{') {
            true => {
                let value: Value = serde_json::from_str(text).with_context(|| name.clone())?;
                if KEYS.iter().all(|key| value.get(key).is_none()) {
                    let there = value.as_object().into_iter().flatten();
                    let there: Vec<&str> = there.take(KEYS_TOLD).map(|(key, _)| &**key).collect();
                    bail!(
                        "{name}: has {}; allowed are banks and associations, as flux account export-json writes \
                         them",
                        match there.is_empty() {
                            true => "nothing".to_owned(),
                            false => there.join(", "),
                        }
                    );
                }
                banks.extend(objects(&value["banks"]));
                associations.extend(objects(&value["associations"]));
            }
            false => {
                let mut rows = csv::rows(text).into_iter();
                let heading = rows.next().unwrap_or_default();
                let has = |column: &str| heading.iter().any(|own| own == column);
                let row = |row: Vec<String>| heading.iter().cloned().zip(row).collect::<Row>();
                match (has("parent_bank"), has("userid") || has("username")) {
                    _ if heading.is_empty() => return Err(nothing_in(name)),
                    (true, _) => banks.extend(rows.map(row)),
                    (false, true) => associations.extend(rows.map(row)),
                    (false, false) => {
                        bail!("{name}: is neither a table of banks nor of associations")
                    }
                }
            }
        }
        if banks.len() + associations.len() == before {
            return Err(nothing_in(name));
        }
    }
    let mut found = Found::default();
    of_banks(&banks, &mut found);
    of_associations(&associations, users, &mut found);
    match texts.last() {
        Some((name, _)) if found.is_empty() => Err(nothing_in(name)),
        _ => Ok(found),
    }
}

fn objects(value: &Value) -> Vec<Row> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    let row = |value: &Value| {
        let pairs = value.as_object().into_iter().flatten();
        pairs
            .map(|(key, value)| (key.clone(), text(value)))
            .collect()
    };
    value.as_array().into_iter().flatten().map(row).collect()
}

fn get<'r>(row: &'r Row, key: &str) -> Option<&'r str> {
    row.get(key)
        .map(String::as_str)
        .filter(|text| !text.is_empty())
}

fn is_active(row: &Row) -> bool {
    get(row, "active").is_none_or(|active| active != "0")
}

fn of_banks(banks: &[Row], found: &mut Found) {
    // The one without a parent is what all is under here, whatever it is called.
    let top = banks
        .iter()
        .find(|row| row.contains_key("parent_bank") && get(row, "parent_bank").is_none());
    let top = top.and_then(|row| get(row, "bank")).unwrap_or("root");
    let mut book = Book::default();
    for row in banks.iter().filter(|row| get(row, "bank") != Some(top)) {
        match bank(row, top, found) {
            Ok(Some(change)) => book.apply(&change),
            Ok(None) => {}
            Err(error) => found.errors.push(format!("{error:#}")),
        }
    }
    found.changes = book.to_changes();
}

fn bank(row: &Row, top: &str, found: &mut Found) -> anyhow::Result<Option<Change>> {
    let bank = get(row, "bank").context("bank: a row has none")?;
    let notes = &mut found.notes;
    if !is_active(row) {
        notes.push(format!("bank {bank} is not active and left out"));
        return Ok(None);
    }
    if get(row, "priority").is_some_and(|text| text.parse() != Ok(0.0)) {
        notes.push(format!("of bank {bank} is left out: priority"));
    }
    let place = || format!("bank {bank}");
    let parent = get(row, "parent_bank").filter(|parent| *parent != top);
    let account = Account {
        parent: parent.map(str::parse).transpose().with_context(place)?,
        shares: shares(row).with_context(place)?,
        ..Account::default()
    };
    Ok(Some(plain(bank.parse().with_context(place)?, account)))
}

fn shares(row: &Row) -> anyhow::Result<Shares> {
    match get(row, "shares") {
        None => Ok(Shares::Of(1)),
        Some(text) => {
            let count = text.parse().ok();
            let count = count.with_context(|| format!("shares: `{text}` is not a number"))?;
            Ok(Shares::Of(count))
        }
    }
}

fn of_associations(rows: &[Row], users: &Users, found: &mut Found) {
    let mut defaults = BTreeMap::new();
    for row in rows {
        if let Err(error) = association(row, users, &mut defaults, found) {
            let of = |key| get(row, key).map(|text| format!("{key} {text}: "));
            let user = of("userid").or_else(|| of("username")).unwrap_or_default();
            let bank = of("bank").unwrap_or_default();
            found.errors.push(format!("{user}{bank}{error:#}"));
        }
    }
    let of = |(user, account): (u32, Name)| Change::User {
        user,
        value: Some(User {
            account: Some(account),
            ..User::default()
        }),
    };
    found.changes.extend(defaults.into_iter().map(of));
}

fn association(
    row: &Row,
    users: &Users,
    defaults: &mut BTreeMap<u32, Name>,
    found: &mut Found,
) -> anyhow::Result<()> {
    let bank: Name = get(row, "bank").context("bank: a row has none")?.parse()?;
    let given = get(row, "userid").or_else(|| get(row, "username"));
    let given = given.context("userid: a row has none")?;
    if !is_active(row) {
        let note = format!("user {given} of bank {bank} is not active and left out");
        found.notes.push(note);
        return Ok(());
    }
    let Some(user) = found.user(users, given) else {
        return Ok(());
    };
    for key in ["queues", "projects"] {
        // `*` is what it has who has none of his own.
        if let Some(list) = get(row, key).filter(|list| !matches!(*list, "*" | "[]")) {
            let note = format!("of user {given} of bank {bank} is left out: {key}={list}");
            found.notes.push(note);
        }
    }
    let limit = |key: &str| -> anyhow::Result<Option<u32>> {
        let Some(text) = get(row, key) else {
            return Ok(None);
        };
        let number: Option<u64> = text.parse().ok();
        let number = number.with_context(|| format!("{key}: `{text}` is not a number"))?;
        Ok(u32::try_from(number).ok().filter(|_| number < NO_LIMIT))
    };
    let member = Member {
        shares: shares(row)?,
        limits: Limits {
            running_jobs: limit("max_running_jobs")?,
            submitted_jobs: limit("max_active_jobs")?,
            nodes: limit("max_nodes")?,
            cores: limit("max_cores")?,
            ..Limits::default()
        },
        ..Member::default()
    };
    if let Some(default) = get(row, "default_bank").or_else(|| get(row, "def_bank")) {
        defaults.insert(user, default.parse()?);
    }
    found.changes.push(Change::Member {
        account: bank,
        user,
        value: Some(member),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(texts: &[&str]) -> Vec<String> {
        let texts: Vec<(String, String)> = texts
            .iter()
            .map(|text| ("x".to_owned(), (*text).to_owned()))
            .collect();
        let found = read(&texts, &Users::read()).expect("tables");
        let line = |change| serde_json::to_string(change).expect("JSON");
        found.changes.iter().map(line).collect()
    }

    #[test]
    fn a_document_of_neither_banks_nor_associations_is_refused_with_what_it_has() {
        let text = r#"{"bank_table": [{"bank": "a"}], "association_table": []}"#;
        let texts = [("x.json".to_owned(), text.to_owned())];
        let refused = read(&texts, &Users::read()).expect_err("it is refused");
        assert_eq!(
            refused.to_string(),
            "x.json: has bank_table, association_table; allowed are banks and associations, as flux account \
             export-json writes them"
        );
    }

    #[test]
    fn tables_of_banks_and_associations_in_any_order() {
        let banks = "bank_id,bank,active,parent_bank,shares,job_usage,priority\n1,root,1,,1,0.0,0.0\n3,sub,1,a,5,0.0,0.0\n2,a,1,root,3,0.0,0.0\n4,old,0,root,1,0,0\n";
        let users = "active,username,userid,bank,default_bank,shares,fairshare,max_running_jobs,max_active_jobs,max_nodes,max_cores\n1,u1,5001,sub,sub,2,0.5,5,7,2147483647,2147483647\n";
        let expected = [
            r#"{"account":{"name":"a","value":{"shares":3}}}"#,
            r#"{"account":{"name":"sub","value":{"parent":"a","shares":5}}}"#,
            r#"{"member":{"account":"sub","user":5001,"value":{"shares":2,"limits":{"running_jobs":5,"submitted_jobs":7}}}}"#,
            r#"{"user":{"user":5001,"value":{"account":"sub"}}}"#,
        ];
        assert_eq!(lines(&[users, banks]), expected);
    }

    #[test]
    fn queues_and_projects_of_users_are_named_as_left_out() {
        let users = "username,userid,bank,default_bank,shares,queues,projects\nu1,5001,a,a,1,\"batch,debug\",\"*,p1\"\nu2,5002,a,a,1,,*\n";
        let texts = [("x".to_owned(), users.to_owned())];
        let found = read(&texts, &Users::read()).expect("a table");
        assert_eq!(
            found.notes,
            [
                "of user 5001 of bank a is left out: queues=batch,debug",
                "of user 5001 of bank a is left out: projects=*,p1",
            ]
        );
    }

    #[test]
    fn the_document_for_the_plugin_has_no_parents_and_no_shares() {
        let text = r#"{"associations":[{"userid":5001,"bank":"a","def_bank":"a","max_running_jobs":5,"max_active_jobs":7,"active":1}],"banks":[{"bank":"root","priority":0.0},{"bank":"a","priority":0.0}]}"#;
        assert_eq!(
            lines(&[text])[0],
            r#"{"account":{"name":"a","value":{"shares":1}}}"#
        );
        assert_eq!(lines(&[text]).len(), 3);
    }
}
