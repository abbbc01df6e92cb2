//! `eddy account`: who is charged for what, with how many shares and under which limits.

mod show;
mod transfer;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::{Context, bail, ensure};
use clap::{Args as Arguments, Subcommand};
use eddy_client::{Client, ClientError};
use eddy_wire::account::{
    Account, Book, Change, Excess, Limits, Member, Name, Period, QosRules, SHARES_MAX, Shares, User,
};
use eddy_wire::fsd::Fsd;
use eddy_wire::jobspec::parse_bytes;
use eddy_wire::services::account::{Aim, Asked, Before, List, Set, SetRequest};
use eddy_wire::time::Span;
use uuid::Uuid;

use crate::names::Users;
use crate::number::number;
use crate::session::Global;
use crate::when;

/// Accounts: add, change, list, import and export them
///
/// An account has shares among those beside it and is under another account or under the root.
/// Users are in accounts, with shares among the users of it; jobs are charged to a user in an
/// account. As soon as there is an account, only users who are in one can submit.
///
/// Changes count at once, also for jobs that wait. Only the owner and administrators can make them.
#[derive(clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = false,
    disable_help_subcommand = true
)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Add an account
    Add {
        /// Up to 64 of A-Z, a-z, 0-9, `-`, `_` and `.`
        name: Name,
        #[command(flatten)]
        values: AccountValues,
    },
    /// Add a user to an account, or change what the user has there
    AddUser {
        /// By name or number
        user: String,
        #[command(flatten)]
        values: MemberValues,
    },
    /// Change an account; what is not given stays
    Edit {
        /// The account
        name: Name,
        #[command(flatten)]
        values: AccountValues,
    },
    /// Change a user in an account, or without --account over all of them; what is not given stays
    EditUser {
        /// By name or number
        user: String,
        #[command(flatten)]
        values: MemberValues,
    },
    /// Remove an account, which must have nobody under it and no jobs charged to it
    Del {
        /// The account
        name: Name,
        /// With the accounts and users under it
        #[arg(long)]
        recursive: bool,
    },
    /// Take a user out of an account
    DelUser {
        /// By name or number
        user: String,
        /// The account
        #[arg(short = 'A', long, value_name = "NAME")]
        account: Name,
    },
    /// List all accounts
    List(show::ListArgs),
    /// Show one account and who is in it
    Show(show::ShowArgs),
    /// Show all accounts and users as a tree
    Tree,
    /// Take accounts from files: eddy's own, Slurm's or flux-accounting's
    Import(transfer::ImportArgs),
    /// Print all accounts, as TOML that `import` takes
    Export(transfer::ExportArgs),
}

/// What can be set of accounts and users alike.
const OF_BOTH: &str = "--qos, --default-qos, and limits: --max-..., --period, --carry, --excess";

#[derive(Arguments, Default, PartialEq)]
struct AccountValues {
    /// Shares among those beside it, or `parent`: its members compete one level up; a new one has 1
    #[arg(long, value_name = "N", value_parser = shares)]
    shares: Option<Shares>,
    /// The account it is under, also spelled --parent; root is the top, where a new one is
    #[arg(long, value_name = "NAME")]
    under: Option<String>,
    /// One line for people
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    #[command(flatten)]
    qos: QosValues,
    #[command(flatten)]
    limits: LimitValues,
}

#[derive(Arguments, Default, PartialEq)]
struct MemberValues {
    /// The account; add-user needs it
    #[arg(short = 'A', long, value_name = "NAME")]
    account: Option<Name>,
    /// Shares among the users of the account, or `parent`; a new one has 1
    #[arg(long, value_name = "N", value_parser = shares)]
    shares: Option<Shares>,
    /// What is charged where a job of the user names no account
    #[arg(long)]
    default: bool,
    #[command(flatten)]
    qos: QosValues,
    #[command(flatten)]
    limits: LimitValues,
}

#[derive(Arguments, Default, PartialEq)]
struct QosValues {
    /// QoS that may be asked for, inherited downwards; none takes the list away
    #[arg(long, value_name = "NAME,...")]
    qos: Option<String>,
    /// QoS of jobs that name none, inherited downwards; none takes it away
    #[arg(long, value_name = "NAME")]
    default_qos: Option<String>,
}

#[derive(Arguments, Default, PartialEq)]
#[command(next_help_heading = "Limits (none takes a maximum away)")]
struct LimitValues {
    /// Jobs that hold resources or are let through to wait for them
    #[arg(long, value_name = "N", value_parser = most(0..=u32::MAX))]
    max_running_jobs: Option<Most<u32>>,
    /// Jobs that are not over
    #[arg(long, value_name = "N", value_parser = most(0..=u32::MAX))]
    max_submitted_jobs: Option<Most<u32>>,
    /// Nodes of jobs that run or are let through
    #[arg(long, value_name = "N", value_parser = most(0..=u32::MAX))]
    max_nodes: Option<Most<u32>>,
    /// Cores of jobs that run or are let through
    #[arg(long, value_name = "N", value_parser = most(0..=u32::MAX))]
    max_cores: Option<Most<u32>>,
    /// GPUs of jobs that run or are let through
    #[arg(long, value_name = "N", value_parser = most(0..=u32::MAX))]
    max_gpus: Option<Most<u32>>,
    /// Memory of jobs that run or are let through, as 64G: what is asked for, and all of nodes that are a job's own
    #[arg(long, value_name = "SIZE", value_parser = amount)]
    max_memory: Option<Most<u64>>,
    /// Nodes of each job
    #[arg(long, value_name = "N", value_parser = most(0..=u32::MAX))]
    max_job_nodes: Option<Most<u32>>,
    /// Cores of each job
    #[arg(long, value_name = "N", value_parser = most(0..=u32::MAX))]
    max_job_cores: Option<Most<u32>>,
    /// GPUs of each job
    #[arg(long, value_name = "N", value_parser = most(0..=u32::MAX))]
    max_job_gpus: Option<Most<u32>>,
    /// Memory of each job
    #[arg(long, value_name = "SIZE", value_parser = amount)]
    max_job_memory: Option<Most<u64>>,
    /// Time limit of each job, and of one that names none: as 24h, 1-00:00:00 or 90 (minutes)
    #[arg(long, value_name = "TIME", value_parser = longest)]
    max_job_time: Option<Most<Span>>,
    /// Core-minutes in each period
    #[arg(long, value_name = "N", value_parser = most(0..=u64::MAX))]
    max_core_minutes: Option<Most<u64>>,
    /// The period of --max-core-minutes: day, week, month, quarter, year; month as long as none is set, and with none
    #[arg(long, value_name = "PERIOD", value_parser = period)]
    period: Option<Period>,
    /// Of what was left of them in the period before, up to so many percent of them may be used, too: 0 to 100, or none
    #[arg(long, value_name = "PERCENT", value_parser = carry)]
    carry: Option<u32>,
    /// What becomes of a job over a limit: hold, refuse where that is known at once, or standby: over its
    /// core-minutes it goes on as QoS `standby`, held over others; hold as long as none is set
    #[arg(long, value_name = "WHAT", value_parser = excess)]
    excess: Option<Excess>,
}

/// A limit as an option sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Most<N> {
    Of(N),
    Unlimited,
}

impl<N> Most<N> {
    fn limit(self) -> Option<N> {
        match self {
            Most::Of(most) => Some(most),
            Most::Unlimited => None,
        }
    }
}

/// A number in that range, or `none`.
fn most<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<Most<N>, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    let of = number(range);
    move |text| match text {
        "none" => Ok(Most::Unlimited),
        text => of(text)
            .map(Most::Of)
            .map_err(|allowed| format!("{allowed}, and none")),
    }
}

/// An amount of memory, or `none`.
fn amount(text: &str) -> Result<Most<u64>, String> {
    match text {
        "none" => Ok(Most::Unlimited),
        text => {
            let bytes = parse_bytes(text).map_err(|error| format!("{error}, and none"));
            bytes.map(Most::Of)
        }
    }
}

/// A time limit, or `none`.
fn longest(text: &str) -> Result<Most<Span>, String> {
    match (text, when::limit(text)) {
        ("none", _) | (_, Some(Fsd::Infinite)) => Ok(Most::Unlimited),
        (_, Some(Fsd::Finite(micros))) if micros > 0 => Ok(Most::Of(Span(micros))),
        _ => Err(format!("allowed are {} over 0, and none", when::LIMITS)),
    }
}

fn shares(text: &str) -> Result<Shares, String> {
    match text {
        "parent" => Ok(Shares::Parent),
        text => match text.parse() {
            Ok(count) if count <= SHARES_MAX => Ok(Shares::Of(count)),
            _ => Err(format!("allowed are 0 to {SHARES_MAX} and `parent`")),
        },
    }
}

/// A period, or `none`: the one of who has set none.
fn period(text: &str) -> Result<Period, String> {
    let value = serde_json::Value::from(text);
    let allowed = "allowed are day, week, month, quarter, year, and none";
    match text {
        "none" => Ok(Period::default()),
        _ => serde_json::from_value(value).map_err(|_| allowed.to_owned()),
    }
}

/// Percents that are carried, or `none`.
fn carry(text: &str) -> Result<u32, String> {
    Ok(most(0..=100_u32)(text)?.limit().unwrap_or(0))
}

fn excess(text: &str) -> Result<Excess, String> {
    let value = serde_json::Value::from(text);
    serde_json::from_value(value).map_err(|_| "allowed are hold, refuse, standby".to_owned())
}

impl QosValues {
    fn over(&self, before: QosRules) -> anyhow::Result<QosRules> {
        let allowed = match self.qos.as_deref() {
            None => before.allowed,
            Some("none") => None,
            Some(list) => {
                let names = list.split(',').map(|name| name.trim().parse());
                let names: Result<BTreeSet<Name>, _> = names.collect();
                Some(names.context("--qos")?)
            }
        };
        let default = match self.default_qos.as_deref() {
            None => before.default,
            Some("none") => None,
            Some(name) => Some(name.parse().context("--default-qos")?),
        };
        Ok(QosRules { allowed, default })
    }
}

impl LimitValues {
    fn over(&self, before: Limits) -> Limits {
        fn over<N: Copy>(given: Option<Most<N>>, before: Option<N>) -> Option<N> {
            given.map_or(before, Most::limit)
        }
        Limits {
            running_jobs: over(self.max_running_jobs, before.running_jobs),
            submitted_jobs: over(self.max_submitted_jobs, before.submitted_jobs),
            nodes: over(self.max_nodes, before.nodes),
            cores: over(self.max_cores, before.cores),
            gpus: over(self.max_gpus, before.gpus),
            memory: over(self.max_memory, before.memory),
            job_nodes: over(self.max_job_nodes, before.job_nodes),
            job_cores: over(self.max_job_cores, before.job_cores),
            job_gpus: over(self.max_job_gpus, before.job_gpus),
            job_memory: over(self.max_job_memory, before.job_memory),
            job_time: over(self.max_job_time, before.job_time),
            core_minutes: over(self.max_core_minutes, before.core_minutes),
            period: self.period.unwrap_or(before.period),
            carry: match self.max_core_minutes {
                // Without them there is nothing to carry.
                Some(Most::Unlimited) => self.carry.unwrap_or(0),
                _ => self.carry.unwrap_or(before.carry),
            },
            excess: self.excess.unwrap_or(before.excess),
        }
    }
}

impl AccountValues {
    fn change_something(&self) -> anyhow::Result<()> {
        ensure!(
            *self != AccountValues::default(),
            "nothing is given that is to change; allowed are --shares, --under, --description, {OF_BOTH}"
        );
        Ok(())
    }

    fn over(&self, before: Account) -> anyhow::Result<Account> {
        Ok(Account {
            parent: match self.under.as_deref() {
                None => before.parent,
                Some("root") => None,
                Some(name) => Some(name.parse().context("--under")?),
            },
            shares: self.shares.unwrap_or(before.shares),
            description: self.description.clone().unwrap_or(before.description),
            qos: self.qos.over(before.qos)?,
            limits: self.limits.over(before.limits),
        })
    }
}

impl MemberValues {
    fn change_something(&self) -> anyhow::Result<()> {
        let only_names = MemberValues {
            account: self.account.clone(),
            ..MemberValues::default()
        };
        ensure!(
            *self != only_names,
            "nothing is given that is to change; allowed are --shares, --default, {OF_BOTH}"
        );
        Ok(())
    }

    fn over(&self, before: Member) -> anyhow::Result<Member> {
        Ok(Member {
            shares: self.shares.unwrap_or(before.shares),
            qos: self.qos.over(before.qos)?,
            limits: self.limits.over(before.limits),
        })
    }
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    global.session(async |client| match args.verb {
        Verb::Add { name, values } => {
            let value = Some(values.over(Account::default())?);
            set(
                &client,
                vec![(Change::Account { name, value }, Before::None)],
            )
            .await
        }
        Verb::Edit { name, values } => {
            values.change_something()?;
            let book = book(&client).await?;
            let (_, before) = book.named("account", name.as_str())?;
            let value = Some(values.over(before.clone())?);
            set(
                &client,
                vec![(Change::Account { name, value }, Before::Some)],
            )
            .await
        }
        Verb::AddUser { user, values } => {
            let user = Users::read().number(&user)?;
            let Some(account) = values.account.clone() else {
                bail!("--account: is not given; a user is added to an account");
            };
            let book = book(&client).await?;
            set(&client, member(&book, user, account, &values)?).await
        }
        Verb::EditUser { user, values } => {
            values.change_something()?;
            let user = Users::read().number(&user)?;
            let book = book(&client).await?;
            let changes = match values.account.clone() {
                Some(account) => {
                    book.is_member("--account", &account, user)?;
                    member(&book, user, account, &values)?
                }
                None => over_all(&book, user, &values)?,
            };
            set(&client, changes).await
        }
        Verb::Del { name, recursive } => {
            let changes = match recursive {
                true => removal(&book(&client).await?, &name),
                false => vec![(Change::Account { name, value: None }, Before::Some)],
            };
            set(&client, changes).await
        }
        Verb::DelUser { user, account } => {
            let user = Users::read().number(&user)?;
            let change = Change::Member {
                account,
                user,
                value: None,
            };
            set(&client, vec![(change, Before::Some)]).await
        }
        Verb::List(args) => show::list(&book(&client).await?, &args),
        Verb::Show(args) => show::show(&book(&client).await?, &args),
        Verb::Tree => show::tree(&book(&client).await?),
        Verb::Import(args) => transfer::import(&client, &args).await,
        Verb::Export(args) => transfer::export(&book(&client).await?, &args),
    })
}

/// All accounts as they stand.
async fn book(client: &Client) -> anyhow::Result<Book> {
    Ok(client.call::<List>(&()).await?.book())
}

async fn set(client: &Client, changes: Vec<(Change, Before)>) -> anyhow::Result<u8> {
    let asked = changes.into_iter();
    let changes = asked.map(|(change, before)| Asked { change, before });
    let request = SetRequest {
        changes: changes.collect(),
        aim: Aim::Make,
        once: Some(Uuid::now_v7()),
    };
    client.call::<Set>(&request).await.map_err(by_option)?;
    Ok(0)
}

/// What fields of an account are set by, where an option is called otherwise.
const OPTIONS: [(&str, &str); 3] = [
    ("qos.allowed: ", "--qos: "),
    ("qos.default: ", "--default-qos: "),
    ("parent: ", "--under: "),
];

/// A refusal that names the option instead of the field.
fn by_option(error: ClientError) -> ClientError {
    let ClientError::Refused(mut refusal) = error else {
        return error;
    };
    for (field, option) in OPTIONS {
        if let Some(rest) = refusal.text.strip_prefix(field) {
            refusal.text = format!("{option}{rest}");
            break;
        }
    }
    ClientError::Refused(refusal)
}

/// A user put into an account, or changed there.
fn member(
    book: &Book,
    user: u32,
    account: Name,
    values: &MemberValues,
) -> anyhow::Result<Vec<(Change, Before)>> {
    let before = book.member(&account, user).cloned().unwrap_or_default();
    let value = Some(values.over(before)?);
    let mut changes = vec![(
        Change::Member {
            account: account.clone(),
            user,
            value,
        },
        Before::Any,
    )];
    if values.default {
        let value = Some(User {
            account: Some(account),
            ..book.user(user).cloned().unwrap_or_default()
        });
        changes.push((Change::User { user, value }, Before::Any));
    }
    Ok(changes)
}

/// What a user may have over all accounts.
fn over_all(
    book: &Book,
    user: u32,
    values: &MemberValues,
) -> anyhow::Result<Vec<(Change, Before)>> {
    let of_account = values.shares.is_some()
        || values.default
        || values.qos.qos.is_some()
        || values.qos.default_qos.is_some();
    if of_account {
        bail!("--account: is not given; without it only limits can be set");
    }
    let before = book.user(user).cloned().unwrap_or_default();
    let value = User {
        limits: values.limits.over(before.limits),
        ..before
    };
    let value = (value != User::default()).then_some(value);
    Ok(vec![(Change::User { user, value }, Before::Any)])
}

/// All that is under an account and then itself, the lowest first.
fn removal(book: &Book, name: &Name) -> Vec<(Change, Before)> {
    let mut names = vec![name];
    let mut at = 0;
    while let Some(name) = names.get(at).copied() {
        names.extend(book.under(Some(name)));
        at += 1;
    }
    let mut changes = Vec::new();
    for name in names.into_iter().rev() {
        changes.extend(book.members_of(name).map(|(user, _)| {
            let account = name.clone();
            let value = None;
            let change = Change::Member {
                account,
                user,
                value,
            };
            (change, Before::Some)
        }));
        let (name, value) = (name.clone(), None);
        changes.push((Change::Account { name, value }, Before::Some));
    }
    changes
}

#[cfg(test)]
mod tests {
    use eddy_wire::error::{Code, Refusal};

    use super::*;

    #[test]
    fn a_limit_is_a_number_that_an_account_can_have_or_none() {
        let read = most(0..=u32::MAX);
        assert_eq!(read("0"), Ok(Most::Of(0)));
        assert_eq!(read("none"), Ok(Most::Unlimited));
        for wrong in ["18446744073709551615", "4294967296", "-1", "x", ""] {
            let allowed = "allowed are 0 to 4294967295, and none".to_owned();
            assert_eq!(read(wrong), Err(allowed), "{wrong}");
        }
    }

    #[test]
    fn what_is_carried_and_its_period_can_be_taken_away() {
        assert_eq!((carry("none"), carry("100")), (Ok(0), Ok(100)));
        let allowed = "allowed are 0 to 100, and none".to_owned();
        assert_eq!(carry("101"), Err(allowed));
        assert_eq!(period("none"), Ok(Period::Month));
        assert_eq!(period("week"), Ok(Period::Week));
        assert!(period("hour").is_err_and(|allowed| allowed.ends_with("year, and none")));
    }

    #[test]
    fn a_refusal_names_the_option_that_was_given() {
        let named = |text: &str| {
            let refusal = Refusal::new(Code::Invalid, text);
            by_option(ClientError::Refused(refusal)).to_string()
        };
        for (field, option) in [
            ("qos.default: `a` given", "--default-qos: `a` given"),
            ("qos.allowed: `a` given", "--qos: `a` given"),
            ("parent: `a` given", "--under: `a` given"),
            ("the limit `members` is 5", "the limit `members` is 5"),
        ] {
            assert!(named(field).ends_with(option), "{}", named(field));
        }
    }
}
