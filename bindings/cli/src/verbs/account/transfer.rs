//! `eddy account import` and `export`.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use eddy_client::Client;
use eddy_sched::policy::read::read;
use eddy_wire::account::{Book, Change, Key};
use eddy_wire::services::account::{Aim, Asked, Before, Set, SetRequest};
use eddy_wire::services::instance::Config;
use eddy_wire::services::sched::Policy as Obeyed;
use serde_json::Value;
use uuid::Uuid;

use super::book;
use crate::accounts::{Document, Format, Found};
use crate::names::Users;
use crate::{output, text};

/// The longest file that is read, in bytes: a request has no room for more.
const TEXT_MAX: usize = 16 << 20;

/// Take accounts from files, all of it or nothing
///
/// Each account and user in the files is added, or made as it is there; others stay. What is in a
/// file and has no counterpart here is said on standard error and left out. A file in which there is
/// neither an account nor a user is refused.
///
/// Slurm: the text of `sacctmgr dump CLUSTER`. flux-accounting: the tables bank_table.csv and
/// association_table.csv of `flux account export-db`, both at once, or the document of
/// `flux account export-json`, which has neither parents nor shares.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct ImportArgs {
    /// What the files are [default: what they look like]
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Remove accounts and users that the files do not have
    #[arg(long)]
    replace: bool,
    /// Leave users out that this host does not know
    #[arg(long)]
    skip_unknown: bool,
    /// Print what would be changed, a line of JSON each, and change nothing; refused as the import would be
    #[arg(long)]
    dry_run: bool,
    /// The files; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<String>,
}

#[derive(clap::Args)]
pub struct ExportArgs {
    /// JSON instead of TOML
    #[arg(long)]
    json: bool,
}

pub async fn import(client: &Client, args: &ImportArgs) -> anyhow::Result<u8> {
    let texts: Vec<(String, String)> = args
        .files
        .iter()
        .map(|file| Ok((file.clone(), text::read(file, TEXT_MAX)?)))
        .collect::<anyhow::Result<_>>()?;
    let format = args.format.unwrap_or_else(|| Format::of(&texts[0].1));
    let found = format.read(&texts, &Users::read())?;
    told(&found, args.skip_unknown)?;
    if !found.errors.is_empty() {
        return Ok(refused(&found.errors));
    }
    if found.changes.is_empty() {
        bail!("without the users that this host does not know there is nothing in the files");
    }
    let before = book(client).await?;
    let wrong = found.wrong(&before, qos(client).await.as_ref());
    if !wrong.is_empty() {
        return Ok(refused(&wrong));
    }
    let mut changes = match args.replace {
        true => left_out(&before, &found.changes),
        false => Vec::new(),
    };
    // What is to go may be under what is to be moved, so it goes last.
    let mut all = found.changes;
    all.append(&mut changes);
    let changes = all.into_iter().map(|change| Asked {
        change,
        before: Before::Any,
    });
    let request = SetRequest {
        changes: changes.collect(),
        // Tried by the instance itself: what is refused then is what would be.
        aim: match args.dry_run {
            true => Aim::Try,
            false => Aim::Make,
        },
        once: Some(Uuid::now_v7()),
    };
    let reply = client.call::<Set>(&request).await;
    let reply = reply.with_context(|| args.files.join(", "))?;
    match args.dry_run {
        true => {
            let line = |change| Ok(serde_json::to_string(change)?);
            let lines = reply.changes.iter().map(line);
            output::lines(lines.collect::<anyhow::Result<Vec<String>>>()?)?;
        }
        false => output::lines([format!("{} changes", reply.changed)])?,
    }
    Ok(0)
}

/// How many errors are told.
const ERRORS_TOLD: usize = 64;

/// Says what is wrong, a line each.
fn refused(errors: &[String]) -> u8 {
    for error in errors.iter().take(ERRORS_TOLD) {
        eprintln!("eddy account import: {}", output::one_line(error));
    }
    if let more @ 1.. = errors.len().saturating_sub(ERRORS_TOLD) {
        eprintln!("eddy account import: {more} errors more");
    }
    output::FAILED
}

/// The QoS there are; none where that is not to be known.
async fn qos(client: &Client) -> Option<BTreeSet<String>> {
    let config = client.call::<Config>(&()).await.ok()?;
    let named = |one: &Value| Some(one.get("name")?.as_str()?.to_owned());
    let configured = config["qos"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(named);
    let obeyed = client.call::<Obeyed>(&()).await.ok()?;
    let policy = read(&obeyed.text).ok()?;
    Some(
        configured
            .chain(policy.priority.factors.qos.into_keys())
            .collect(),
    )
}

/// Says what is not taken.
fn told(found: &Found, skip_unknown: bool) -> anyhow::Result<()> {
    for note in &found.notes {
        eprintln!("eddy account import: {}", output::one_line(note));
    }
    if found.unknown.is_empty() {
        return Ok(());
    }
    let unknown = found.unknown.join(", ");
    if !skip_unknown {
        bail!("users that this host does not know: {unknown}; --skip-unknown leaves them out");
    }
    let line = output::one_line(&format!("left out, not known here: {unknown}"));
    eprintln!("eddy account import: {line}");
    Ok(())
}

/// Removals of all that stands and is not among these: users, then accounts, the lowest first.
fn left_out(before: &Book, changes: &[Change]) -> Vec<Change> {
    let kept: BTreeSet<Key> = changes.iter().map(Change::key).collect();
    let gone = before.to_changes().into_iter().rev();
    let gone = gone.filter(|change| !kept.contains(&change.key()));
    gone.map(|change| match change {
        Change::Account { name, .. } => Change::Account { name, value: None },
        Change::Member { account, user, .. } => Change::Member {
            account,
            user,
            value: None,
        },
        Change::User { user, .. } => Change::User { user, value: None },
    })
    .collect()
}

pub fn export(book: &Book, args: &ExportArgs) -> anyhow::Result<u8> {
    let document = Document::of(book, &Users::read());
    match args.json {
        true => output::json(&document)?,
        false => output::lines(toml::to_string(&document)?.lines())?,
    }
    Ok(0)
}
