//! `eddy account list`, `show` and `tree`.

use std::collections::BTreeSet;

use eddy_wire::account::{Book, Limits, Name, QosRules};
use eddy_wire::jobspec::format_bytes;
use serde_json::{Value, json};

use crate::names::Users;
use crate::output;
use crate::table::{Align, Table, escaped};
use crate::when;

#[derive(clap::Args)]
pub struct ListArgs {
    /// One array of objects: name, parent, shares, description, users (how many), qos, limits; with --users user,
    /// uid, default, accounts, limits
    #[arg(long)]
    json: bool,
    /// The users instead: what is charged by default, the accounts each is in, and limits over all of these
    #[arg(long)]
    users: bool,
    /// No heading
    #[arg(short = 'n', long = "no-header")]
    no_header: bool,
}

#[derive(clap::Args)]
pub struct ShowArgs {
    /// The account
    name: Name,
    /// One object: as in `list --json`, users with user, uid, shares, default, qos, limits, over_all (limits over all
    /// accounts)
    #[arg(long)]
    json: bool,
}

pub fn list(book: &Book, args: &ListArgs) -> anyhow::Result<u8> {
    if args.users {
        return list_users(book, args);
    }
    if args.json {
        let all: Vec<Value> = book
            .accounts()
            .map(|(name, _)| object(book, name))
            .collect();
        output::json(&all)?;
        return Ok(0);
    }
    let columns = [
        ("ACCOUNT", Align::Left),
        ("PARENT", Align::Left),
        ("SHARES", Align::Right),
        ("USERS", Align::Right),
        ("QOS", Align::Left),
        ("LIMITS", Align::Left),
        ("DESCRIPTION", Align::Left),
    ];
    let mut table = Table::new(columns);
    for (name, account) in book.accounts() {
        table.push(vec![
            name.to_string(),
            parent(account.parent.as_ref()).to_owned(),
            account.shares.to_string(),
            book.members_of(name).count().to_string(),
            or_dash(&qos(&account.qos)),
            or_dash(&limits(&account.limits)),
            account.description.clone(),
        ]);
    }
    print(&table, args)
}

fn print(table: &Table, args: &ListArgs) -> anyhow::Result<u8> {
    let mut out = output::stdout();
    match args.no_header {
        true => table.write_rows(&mut out)?,
        false => table.write(&mut out)?,
    }
    Ok(0)
}

/// Those who are in an account, and those who are in none and have limits.
fn list_users(book: &Book, args: &ListArgs) -> anyhow::Result<u8> {
    let names = Users::read();
    let members = book.members().map(|(_, user, _)| user);
    let all: BTreeSet<u32> = members.chain(book.users().map(|(user, _)| user)).collect();
    let of = |user: u32| book.user(user).cloned().unwrap_or_default();
    if args.json {
        let object = |user: &u32| {
            json!({
                "user": names.name(*user),
                "uid": user,
                "default": of(*user).account,
                "accounts": book.accounts_of(*user).collect::<Vec<&Name>>(),
                "limits": of(*user).limits,
            })
        };
        output::json(&all.iter().map(object).collect::<Vec<Value>>())?;
        return Ok(0);
    }
    let columns = [
        ("USER", Align::Left),
        ("DEFAULT", Align::Left),
        ("ACCOUNTS", Align::Left),
        ("LIMITS", Align::Left),
    ];
    let mut table = Table::new(columns);
    for user in all {
        let accounts: Vec<&str> = book.accounts_of(user).map(Name::as_str).collect();
        let default = of(user).account;
        table.push(vec![
            names.name(user),
            or_dash(default.as_ref().map_or("", Name::as_str)),
            or_dash(&accounts.join(",")),
            or_dash(&limits(&of(user).limits)),
        ]);
    }
    print(&table, args)
}

pub fn show(book: &Book, args: &ShowArgs) -> anyhow::Result<u8> {
    let (_, account) = book.named("account", args.name.as_str())?;
    let users = Users::read();
    if args.json {
        output::json(&with_users(book, &args.name, &users))?;
        return Ok(0);
    }
    let mut lines = vec![
        format!("account {}", args.name),
        format!("  parent: {}", parent(account.parent.as_ref())),
        format!("  shares: {}", account.shares),
    ];
    let said = [
        ("description", escaped(&account.description).into_owned()),
        ("qos", qos(&account.qos)),
        ("limits", limits(&account.limits)),
    ];
    let said = said.into_iter().filter(|(_, text)| !text.is_empty());
    lines.extend(said.map(|(key, text)| format!("  {key}: {text}")));
    let under: Vec<&str> = book.under(Some(&args.name)).map(Name::as_str).collect();
    if !under.is_empty() {
        lines.push(format!("  accounts: {}", under.join(", ")));
    }
    for (user, member) in book.members_of(&args.name) {
        let mut line = format!("  user {}: shares {}", users.name(user), member.shares);
        if is_default(book, &args.name, user) {
            line += ", default";
        }
        for text in [qos(&member.qos), limits(&member.limits)] {
            if !text.is_empty() {
                line += &format!(", {text}");
            }
        }
        let over_all = book.user(user).map(|user| limits(&user.limits));
        if let Some(over_all) = over_all.filter(|text| !text.is_empty()) {
            line += &format!("; over all accounts {over_all}");
        }
        lines.push(line);
    }
    output::lines(lines)?;
    Ok(0)
}

pub fn tree(book: &Book) -> anyhow::Result<u8> {
    let users = Users::read();
    let mut lines = vec!["root".to_owned()];
    // A stack, so that the depth of the tree is not that of this program.
    let mut left: Vec<(usize, &Name)> = Vec::new();
    let push = |left: &mut Vec<(usize, _)>, depth, parent: Option<&_>| {
        let mut under: Vec<_> = book.under(parent).map(|name| (depth, name)).collect();
        under.reverse();
        left.extend(under);
    };
    push(&mut left, 1, None);
    while let Some((depth, name)) = left.pop() {
        let Some(account) = book.account(name) else {
            continue;
        };
        let indent = "  ".repeat(depth);
        lines.push(format!("{indent}{name}  {}", account.shares));
        for (user, member) in book.members_of(name) {
            let mark = match is_default(book, name, user) {
                true => "  default",
                false => "",
            };
            let user = users.name(user);
            lines.push(format!("{indent}  @{user}  {}{mark}", member.shares));
        }
        push(&mut left, depth + 1, Some(name));
    }
    output::lines(lines)?;
    Ok(0)
}

fn is_default(book: &Book, account: &Name, user: u32) -> bool {
    let user = book.user(user);
    user.is_some_and(|user| user.account.as_ref() == Some(account))
}

fn parent(name: Option<&Name>) -> &str {
    name.map_or("root", Name::as_str)
}

fn or_dash(text: &str) -> String {
    match text.is_empty() {
        true => "-".to_owned(),
        false => text.to_owned(),
    }
}

fn qos(rules: &QosRules) -> String {
    let allowed = rules.allowed.iter().flatten();
    let allowed: Vec<&str> = allowed.map(Name::as_str).collect();
    match (&rules.allowed, &rules.default) {
        (None, None) => String::new(),
        (Some(_), None) => allowed.join(","),
        (None, Some(default)) => format!("default {default}"),
        (Some(_), Some(default)) => format!("{} default {default}", allowed.join(",")),
    }
}

/// As `running_jobs=3 cores=64`.
fn limits(limits: &Limits) -> String {
    let Ok(Value::Object(fields)) = serde_json::to_value(limits) else {
        return String::new();
    };
    let pair = |(key, value): (&String, &Value)| match (key.as_str(), value, limits.job_time) {
        ("job_time", _, Some(time)) => format!("{key}={}", when::clock(time)),
        ("memory" | "job_memory", value, _) => {
            let bytes = value.as_u64().map(format_bytes);
            format!("{key}={}", bytes.unwrap_or_default())
        }
        (key, Value::String(text), _) => format!("{key}={text}"),
        (key, other, _) => format!("{key}={other}"),
    };
    fields.iter().map(pair).collect::<Vec<_>>().join(" ")
}

fn object(book: &Book, name: &Name) -> Value {
    let account = book.account(name).cloned().unwrap_or_default();
    json!({
        "name": name,
        "parent": account.parent,
        "shares": account.shares,
        "description": account.description,
        "users": book.members_of(name).count(),
        "qos": account.qos,
        "limits": account.limits,
    })
}

fn with_users(book: &Book, name: &Name, users: &Users) -> Value {
    let members = book.members_of(name).map(|(user, member)| {
        json!({
            "user": users.name(user),
            "uid": user,
            "shares": member.shares,
            "default": is_default(book, name, user),
            "qos": member.qos,
            "limits": member.limits,
            "over_all": book.user(user).map(|user| &user.limits),
        })
    });
    let mut object = object(book, name);
    object["users"] = members.collect();
    object
}
