//! The two accounts: what each is due, what it used, and that all that was used is theirs.
//!
//! Called by `show`. It reads the ledger of the root, and counts nothing itself.

use anyhow::{Context, ensure};
use eddy_client::Client;
use eddy_wire::account::{Account, Change, Member, Name, Shares};
use eddy_wire::lifecycle::JobState;
use eddy_wire::plan::ShareRow;
use eddy_wire::services::account::{Aim, Asked, Before, Set, SetRequest};
use eddy_wire::services::sched;
use eddy_wire::services::usage::{Identity, Report, ReportRequest, UsageReport};
use uuid::Uuid;

use super::work::{GROUPS, Group};
use crate::listing::{Filter, Question};

/// Makes the accounts, with whoever runs the demo as a member of each.
///
/// # Errors
/// The root refuses.
pub async fn open(client: &Client) -> anyhow::Result<()> {
    let user = rustix::process::geteuid().as_raw();
    let mut changes = Vec::new();
    for group in GROUPS {
        let name: Name = group.account.parse()?;
        let account = Account {
            shares: Shares::Of(group.shares),
            ..Account::default()
        };
        let member = Change::Member {
            account: name.clone(),
            user,
            value: Some(Member::default()),
        };
        let value = Some(account);
        changes.extend([Change::Account { name, value }, member]);
    }
    let before = Before::None;
    let asked = |change| Asked { change, before };
    let changes = changes.into_iter().map(asked).collect();
    let aim = Aim::Make;
    let once = Some(Uuid::now_v7());
    let request = SetRequest { changes, aim, once };
    client.call::<Set>(&request).await?;
    Ok(())
}

/// Whether jobs of both accounts wait. Only then shares matter: who is alone has all cores that it
/// wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Race {
    /// Not yet.
    Ahead,
    /// They do.
    On,
    /// They did.
    Over,
}

impl Race {
    /// What each account had until the first of them had no job left that waits, once that is so.
    ///
    /// # Errors
    /// The root cannot be asked.
    pub async fn look(&mut self, client: &Client) -> anyhow::Result<Option<String>> {
        if *self == Race::Over {
            return Ok(None);
        }
        let mut without = None;
        for group in GROUPS {
            if !waits(client, group).await? {
                without = Some(group);
            }
        }
        match (*self, without) {
            (_, None) => *self = Race::On,
            (Race::On, Some(group)) => {
                *self = Race::Over;
                return Ok(Some(had(client, group).await?));
            }
            (Race::Ahead | Race::Over, Some(_)) => {}
        }
        Ok(None)
    }
}

/// What each had until now, when this one has no job left that waits.
async fn had(client: &Client, without: Group) -> anyhow::Result<String> {
    let report = client.call::<Report>(&ReportRequest::default()).await?;
    let all: u128 = GROUPS.map(|group| used(&report, group)).iter().sum();
    let had = GROUPS.map(|group| {
        let part = percent(used(&report, group), all);
        format!("{} {part:.1} % (due {:.1} %)", group.account, due(group))
    });
    Ok(format!(
        "no job of {} waits any more; of all that was used until now {}, {}",
        without.account, had[0], had[1]
    ))
}

/// Whether a job of the account waits.
async fn waits(client: &Client, group: Group) -> anyhow::Result<bool> {
    let question = Question {
        filter: Filter {
            states: vec![JobState::Depend, JobState::Priority, JobState::Sched],
            results: Vec::new(),
        },
        account: Some(group.account.to_owned()),
        limit: 1,
        ..Question::default()
    };
    Ok(!question.rows(client).await?.is_empty())
}

/// What each account was due and used, and what all cores were for, from the beginning to now.
///
/// # Errors
/// A second of a core is missing or there twice, or was charged to neither of them.
pub async fn settle(client: &Client) -> anyhow::Result<Vec<String>> {
    let rows = client.call::<sched::Shares>(&()).await?.rows;
    let report = client.call::<Report>(&ReportRequest::default()).await?;
    let shares = [share(&rows, GROUPS[0])?, share(&rows, GROUPS[1])?];
    // What is planned counts with the policy, too; here nothing runs any more.
    let all: f64 = shares.iter().map(|row| row.usage).sum();
    let told = GROUPS.iter().zip(shares).map(|(group, row)| {
        format!(
            "{}: shares {}, due {:.1} %, used {:.1} %: {:.1} core-seconds",
            group.account,
            row.shares,
            row.normalized * 100.0,
            row.usage / all * 100.0,
            seconds(used(&report, *group))
        )
    });
    let mut lines: Vec<String> = told.collect();
    lines.push(charged(&report)?);
    lines.push(accounted(&report.identity)?);
    Ok(lines)
}

/// What the policy knows of the account.
fn share(rows: &[ShareRow], group: Group) -> anyhow::Result<&ShareRow> {
    let its = |row: &&ShareRow| {
        let account = row.account.as_ref().map(Name::as_str);
        row.user.is_none() && account == Some(group.account)
    };
    let row = rows.iter().find(its);
    row.with_context(|| format!("account {} is not there", group.account))
}

/// That each second of a core that a job had is charged once, to one of the accounts.
fn charged(report: &UsageReport) -> anyhow::Result<String> {
    let Identity {
        spent,
        charged,
        uncharged,
        ..
    } = &report.identity;
    let theirs: u128 = GROUPS.map(|group| used(report, group)).iter().sum();
    let held = spent.jobs.cores + spent.instances.cores;
    let told = charged.cores + uncharged.cores;
    ensure!(
        theirs == held && told == held,
        "jobs held {held} core-microseconds, {told} were counted, and {theirs} charged to the accounts"
    );
    Ok(format!(
        "together {:.1} core-seconds, exactly what jobs and the workflow's instance had",
        seconds(theirs)
    ))
}

/// That each second of a core is in one place.
fn accounted(identity: &Identity) -> anyhow::Result<String> {
    let Identity {
        capacity, spent, ..
    } = identity;
    ensure!(
        spent.sum() == *capacity,
        "of {capacity:?} the parts are {spent:?}"
    );
    Ok(format!(
        "{:.1} core-seconds: {:.1} of jobs, {:.1} of the workflow's instance, {:.1} idle or down; \
         not one is missing or there twice",
        seconds(capacity.cores),
        seconds(spent.jobs.cores),
        seconds(spent.instances.cores),
        seconds(capacity.cores - spent.jobs.cores - spent.instances.cores)
    ))
}

/// The part that is due to it by shares, in percent.
fn due(group: Group) -> f64 {
    let all: u32 = GROUPS.map(|group| group.shares).iter().sum();
    percent(group.shares.into(), all.into())
}

/// What the account was charged for and holds, in core-microseconds.
fn used(report: &UsageReport, group: Group) -> u128 {
    let rows = report.rows.iter();
    let own = rows.filter(|row| {
        let account = row.payer.account.as_ref().map(Name::as_str);
        account == Some(group.account)
    });
    own.map(|row| row.charged.plus(row.running).cores).sum()
}

fn percent(part: u128, of: u128) -> f64 {
    part as f64 / of.max(1) as f64 * 100.0
}

fn seconds(amount: u128) -> f64 {
    amount as f64 / 1e6
}
