//! `eddy shares`: what each account and user is due, and has used.

use std::io::Write;

use eddy_sched::policy::Policy;
use eddy_sched::policy::read::read;
use eddy_wire::plan::ShareRow;
use eddy_wire::services::account::List as Accounts;
use eddy_wire::services::sched::{Policy as Obeyed, Shares, SharesReply};
use serde_json::{Value, json};

use crate::names::Users;
use crate::output;
use crate::session::Global;
use crate::table::{Align, Table};

/// Show what each account and user is due, and has used
///
/// The numbers are those by which the policy orders jobs now. Usage is faded as the policy says;
/// PLANNED is what running jobs may still come to cost, where the policy counts that. A policy that
/// weighs nothing (as fcfs does) has no usage at all, which is said on standard error: eddy usage
/// shows what was used.
#[derive(clap::Args)]
#[command(after_long_help = FIELDS)]
pub struct Args {
    /// Indent by depth, accounts before what is under them
    #[arg(long)]
    tree: bool,
    /// Only this account and the users in it
    #[arg(short = 'A', long, value_name = "NAME")]
    account: Option<String>,
    /// Only this user, by name or number
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,
    /// No heading
    #[arg(short = 'n', long = "no-header")]
    no_header: bool,
    /// One object with all that is known
    #[arg(long)]
    json: bool,
}

const FIELDS: &str = "Fields of --json:
  policy       the preset that the policy starts from
  weights      what the policy weighs use by, each with its weight (usage.weights); where there is
               none all usage is 0
  shares       accounts before what is under them, the root first: account, user, uid, depth,
               shares (raw), normalized (its part of the whole by shares alone), usage (faded),
               planned, part (usage and planned over that of all), effective (the same with that of
               the accounts above blended in), factor (what the policy makes of it: fair_share)";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let users = Users::read();
    let user = args.user.as_ref().map(|user| users.number(user));
    let user = user.transpose()?;
    let (mut reply, policy) = global.session(async |client| {
        if let Some(account) = &args.account {
            let book = client.call::<Accounts>(&()).await?.book();
            book.named("--account", account)?;
        }
        let reply = client.call::<Shares>(&()).await?;
        let text = client.call::<Obeyed>(&()).await?.text;
        // One of another version may not be readable here; then nothing is said of it.
        Ok((reply, read(&text).ok()))
    })?;
    reply.rows.retain(|row| {
        let own = row.account.as_ref().map(|name| name.as_str());
        args.account
            .as_deref()
            .is_none_or(|account| own == Some(account))
            && user.is_none_or(|user| row.user == Some(user))
    });
    if args.json {
        output::json(&document(&reply, policy.as_ref(), &users))?;
        return Ok(0);
    }
    if let Some(line) = policy.as_ref().and_then(unmetered) {
        eprintln!("eddy shares: {line}");
    }
    let table = table(&reply.rows, &users, args.tree);
    let mut out = output::stdout();
    match args.no_header {
        true => table.write_rows(&mut out)?,
        false => table.write(&mut out)?,
    }
    out.flush()?;
    Ok(0)
}

/// Why all usage is 0, where the policy weighs nothing.
fn unmetered(policy: &Policy) -> Option<String> {
    let weighs = policy.usage.weights.values().any(|weight| *weight != 0.0);
    (!weighs).then(|| {
        format!(
            "policy `{}` weighs no use (usage.weights names nothing), so USAGE is 0 for all; `eddy usage` has what was used",
            policy.preset
        )
    })
}

fn document(reply: &SharesReply, policy: Option<&Policy>, users: &Users) -> Value {
    let row = |row: &ShareRow| {
        json!({
            "account": row.account,
            "user": row.user.map(|user| users.name(user)),
            "uid": row.user,
            "depth": row.depth,
            "shares": row.shares,
            "normalized": row.normalized,
            "usage": row.usage,
            "planned": row.planned,
            "part": row.part,
            "effective": row.effective,
            "factor": row.factor,
        })
    };
    let rows: Vec<Value> = reply.rows.iter().map(row).collect();
    let weights = policy.map(|policy| &policy.usage.weights);
    json!({ "policy": reply.preset, "weights": weights, "shares": rows })
}

fn table(rows: &[ShareRow], users: &Users, tree: bool) -> Table {
    let columns = [
        ("ACCOUNT", Align::Left),
        ("USER", Align::Left),
        ("SHARES", Align::Right),
        ("NORM", Align::Right),
        ("USAGE", Align::Right),
        ("PLANNED", Align::Right),
        ("PART", Align::Right),
        ("EFFECTIVE", Align::Right),
        ("FAIRSHARE", Align::Right),
    ];
    let mut table = Table::new(columns);
    for row in rows {
        let indent = match tree {
            true => "  ".repeat(row.depth as usize),
            false => String::new(),
        };
        let account = match (&row.account, row.depth) {
            (Some(name), _) => name.as_str(),
            (None, 0) => "root",
            (None, _) => "-",
        };
        let user = row.user.map(|user| users.name(user));
        table.push(vec![
            format!("{indent}{account}"),
            user.unwrap_or_else(|| "-".to_owned()),
            row.shares.to_string(),
            format!("{:.6}", row.normalized),
            format!("{:.0}", row.usage),
            format!("{:.0}", row.planned),
            format!("{:.6}", row.part),
            format!("{:.6}", row.effective),
            format!("{:.6}", row.factor),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_nobody_has_used_anything_is_said_of_a_policy_that_weighs_nothing() {
        let of = |text: &str| unmetered(&read(text).expect("a policy"));
        let told = of("preset = \"fcfs\"").unwrap_or_default();
        assert!(told.starts_with("policy `fcfs` weighs no use"), "{told}");
        assert_eq!(of("preset = \"flux\""), None);
        assert!(of("preset = \"flux\"\nusage.weights = { cores = 0 }").is_some());
    }
}
