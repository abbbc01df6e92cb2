//! What `sacctmgr dump` writes: a line for each thing, `Kind - 'name':Key='value':...`, accounts
//! and users under the `Parent` line before them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, bail};
use eddy_wire::account::{Account, Change, Limits, Member, Name, QosRules, Shares, User};
use eddy_wire::fsd::Fsd;
use eddy_wire::jobspec::parse_bytes;
use eddy_wire::time::Span;

use super::{Found, plain};
use crate::names::Users;
use crate::when;

/// What Slurm writes for "those of the parent".
const PARENT: u64 = i32::MAX as u64;

/// One line.
struct Line<'l> {
    kind: &'l str,
    name: String,
    keys: Vec<(String, String)>,
}

/// Adds what a text has, and what is wrong with its lines.
pub fn read(text: &str, users: &Users, found: &mut Found) {
    let mut reading = Reading::default();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let read = match Line::parse(line) {
            Ok(line) => {
                let of = format!("{} {}", line.kind.to_lowercase(), line.name);
                reading
                    .line(number, &line, users, found)
                    .with_context(|| of)
            }
            Err(error) => Err(error),
        };
        if let Err(error) = read {
            found.errors.push(format!("line {number}: {error:#}"));
        }
    }
    let defaults = reading.defaults.into_iter();
    for (user, (line, account)) in defaults {
        let change = Change::User {
            user,
            value: Some(User {
                account: Some(account),
                ..User::default()
            }),
        };
        found.push(line, change);
    }
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    /// What accounts and users are under now.
    parent: Option<Name>,
    /// What those under an account have where they say nothing of it; none is the root.
    below: BTreeMap<Option<Name>, Inherited>,
    /// Of each user, with the line.
    defaults: BTreeMap<u32, (u32, Name)>,
}

/// What Slurm hands down, and eddy has at each place: how many jobs each user under an account may have, and a list of
/// QoS to which lists below add, or take from.
#[derive(Clone, Default)]
struct Inherited {
    running_jobs: Option<u32>,
    submitted_jobs: Option<u32>,
    qos: Option<BTreeSet<Name>>,
}

impl Inherited {
    /// With what a line says of its own; -1 takes what is inherited away.
    fn with(&self, line: &Line<'_>) -> anyhow::Result<Inherited> {
        let own = |keys: &[&str], inherited: Option<u32>| {
            let said = keys.iter().find(|key| line.get(key).is_some());
            said.map_or(Ok(inherited), |key| line.number(key))
        };
        Ok(Inherited {
            running_jobs: own(&["MaxJobs"], self.running_jobs)?,
            submitted_jobs: own(&["MaxSubmitJobs", "MaxSubmit"], self.submitted_jobs)?,
            qos: line.qos_within(self.qos.as_ref())?.or(self.qos.clone()),
        })
    }
}

impl Reading {
    /// What the place has that lines are under now.
    fn inherited(&self) -> Inherited {
        self.below.get(&self.parent).cloned().unwrap_or_default()
    }

    fn line(
        &mut self,
        number: u32,
        line: &Line<'_>,
        users: &Users,
        found: &mut Found,
    ) -> anyhow::Result<()> {
        match line.kind {
            "Cluster" => {
                self.below.insert(None, Inherited::default().with(line)?);
                line.note_rest(number, CLUSTER, found);
            }
            "Parent" => self.parent = named(&line.name)?,
            "Account" => {
                let Some(name) = named(&line.name)? else {
                    return Ok(());
                };
                let inherited = self.inherited();
                line.note_qos(number, inherited.qos.as_ref(), found);
                let account = line.account(number, self.parent.clone(), &inherited, found)?;
                self.below.insert(Some(name.clone()), inherited.with(line)?);
                found.push(number, plain(name, account));
            }
            "User" => {
                let Some(account) = self.parent.clone() else {
                    // Slurm has its administrators directly under the root.
                    found.notes.push(format!(
                        "line {number}: user {} directly under the root is left out",
                        line.name
                    ));
                    return Ok(());
                };
                let Some(user) = found.user(users, &line.name) else {
                    return Ok(());
                };
                let inherited = self.inherited();
                line.note_qos(number, inherited.qos.as_ref(), found);
                let member = line.member(number, &inherited, found)?;
                let default = line.get("DefaultAccount");
                if let Some(default) = default.and_then(|name| name.parse().ok()) {
                    self.defaults.insert(user, (number, default));
                }
                let change = Change::Member {
                    account,
                    user,
                    value: Some(member),
                };
                found.push(number, change);
            }
            other => bail!("`{other}` is none of Cluster, Parent, Account, User"),
        }
        Ok(())
    }
}

/// A name; none is the root.
fn named(text: &str) -> anyhow::Result<Option<Name>> {
    match text {
        "root" => Ok(None),
        text => Ok(Some(text.parse()?)),
    }
}

/// What is taken of the line of the cluster, which is the root; its list of QoS only where others change it.
const CLUSTER: &[&str] = &[
    "Fairshare",
    "Classification",
    "MaxJobs",
    "MaxSubmitJobs",
    "MaxSubmit",
];
/// The keys of the longest a job may be, and of what it may have.
const OF_EACH_TIME: [&str; 2] = ["MaxWallDurationPerJob", "MaxWall"];
const OF_EACH_TRES: [&str; 2] = ["MaxTRESPerJob", "MaxTRES"];

impl Line<'_> {
    fn parse(text: &str) -> anyhow::Result<Line<'_>> {
        let (kind, rest) = text
            .split_once(" - ")
            .context("has no ` - `; a line is such as Account - 'a':Fairshare=1")?;
        let mut pieces = pieces(rest)?.into_iter();
        let name = pieces.next().context("has no name")?.0;
        let keys = pieces.map(|(key, value)| (key, value.unwrap_or_default()));
        Ok(Line {
            kind: kind.trim(),
            name,
            keys: keys.collect(),
        })
    }

    fn get(&self, key: &str) -> Option<&str> {
        let found = self
            .keys
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(key));
        found.map(|(_, value)| value.as_str())
    }

    fn number<N: std::str::FromStr>(&self, key: &str) -> anyhow::Result<Option<N>> {
        // -1 takes a limit away.
        let text = self.get(key).filter(|text| *text != "-1");
        text.map(|text| {
            let number = text.parse().ok();
            number.with_context(|| format!("{key}: `{text}` is not a number"))
        })
        .transpose()
    }

    fn shares(&self) -> anyhow::Result<Shares> {
        match self.get("Fairshare").or_else(|| self.get("Share")) {
            Some("parent") => Ok(Shares::Parent),
            Some(text) => match text.parse::<u64>() {
                Ok(PARENT) => Ok(Shares::Parent),
                Ok(count) => Ok(Shares::Of(u32::try_from(count)?)),
                Err(_) => bail!("Fairshare: `{text}` is not a number of shares"),
            },
            None => Ok(Shares::Of(1)),
        }
    }

    /// The list of QoS: its own, or what it makes of the list above; none if it names none, or if that is not known.
    fn qos_within(&self, above: Option<&BTreeSet<Name>>) -> anyhow::Result<Option<BTreeSet<Name>>> {
        let Some(list) = self.get("QOS").filter(|text| !text.is_empty()) else {
            return Ok(None);
        };
        if !is_change(list) {
            let names = list.trim_start_matches('=').split(',');
            return Ok(Some(names.map(str::parse).collect::<Result<_, _>>()?));
        }
        let Some(above) = above else {
            return Ok(None);
        };
        let mut names = above.clone();
        for change in list.split(',').map(str::trim) {
            match change.split_at_checked(1) {
                Some(("+", name)) => names.insert(name.parse()?),
                Some(("-", name)) => names.remove(&name.parse::<Name>()?),
                _ => bail!("QOS: `{list}` has names with and without + or -"),
            };
        }
        Ok(Some(names))
    }

    /// Says that a list is not taken which changes that of the parent where that is not known.
    fn note_qos(&self, number: u32, above: Option<&BTreeSet<Name>>, found: &mut Found) {
        let list = self.get("QOS").filter(|list| is_change(list));
        if let (Some(list), None) = (list, above) {
            let (kind, name) = (self.kind.to_lowercase(), &self.name);
            found.notes.push(format!(
                "line {number}: of {kind} {name} is left out: QOS={list}, which changes the list of its parent"
            ));
        }
    }

    fn qos(&self, above: Option<&BTreeSet<Name>>) -> anyhow::Result<QosRules> {
        let default = self.get("DefaultQOS").filter(|text| !text.is_empty());
        Ok(QosRules {
            allowed: self.qos_within(above)?,
            default: default.map(str::parse).transpose()?,
        })
    }

    /// Limits of all jobs together, and of each.
    fn limits(&self) -> anyhow::Result<Limits> {
        const TRES: [&str; 1] = ["GrpTRES"];
        Ok(Limits {
            running_jobs: self.number("GrpJobs")?,
            submitted_jobs: match self.number("GrpSubmitJobs")? {
                None => self.number("GrpSubmit")?,
                some => some,
            },
            nodes: self.amount(&TRES, "node=")?,
            cores: self.amount(&TRES, "cpu=")?,
            gpus: self.amount(&TRES, "gres/gpu=")?,
            memory: self.memory(&TRES)?,
            ..self.of_each_job()?
        })
    }

    /// Limits of one job, which accounts and users have by the same keys.
    fn of_each_job(&self) -> anyhow::Result<Limits> {
        let wall = OF_EACH_TIME
            .iter()
            .find_map(|key| Some((key, self.get(key)?)));
        let wall =
            wall.filter(|(_, text)| *text != "-1" && !text.eq_ignore_ascii_case("unlimited"));
        let wall = wall.map(|(key, text)| match when::limit(text) {
            Some(Fsd::Finite(micros)) => Ok(Span(micros)),
            _ => bail!(
                "{key}: `{text}` is not a time; allowed are {}",
                when::LIMITS
            ),
        });
        Ok(Limits {
            job_nodes: self.amount(&OF_EACH_TRES, "node=")?,
            job_cores: self.amount(&OF_EACH_TRES, "cpu=")?,
            job_gpus: self.amount(&OF_EACH_TRES, "gres/gpu=")?,
            job_memory: self.memory(&OF_EACH_TRES)?,
            job_time: wall.transpose()?,
            ..Limits::default()
        })
    }

    /// Of lists such as `cpu=8,node=2`, by the first key that is there, what is said of one resource, with the key.
    fn resource<'k>(&self, keys: &[&'k str], what: &str) -> Option<(&'k str, &str)> {
        let (key, list) = keys.iter().find_map(|key| Some((*key, self.get(key)?)))?;
        let found = list.split(',').find_map(|pair| pair.strip_prefix(what));
        found.filter(|text| *text != "-1").map(|text| (key, text))
    }

    fn amount(&self, keys: &[&str], what: &str) -> anyhow::Result<Option<u32>> {
        let number = |(key, text): (&str, &str)| {
            let number: u64 = text
                .parse()
                .ok()
                .with_context(|| format!("{key}: `{text}` is not a number"))?;
            Ok(u32::try_from(number).unwrap_or(u32::MAX))
        };
        self.resource(keys, what).map(number).transpose()
    }

    /// Memory, of which a number without a unit counts MiB.
    fn memory(&self, keys: &[&str]) -> anyhow::Result<Option<u64>> {
        let bytes = |(key, text): (&str, &str)| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            let unit = if is_number { "M" } else { "" };
            let bytes = parse_bytes(&format!("{text}{unit}"));
            bytes.with_context(|| format!("{key}: `{text}` is not an amount of memory"))
        };
        self.resource(keys, "mem=").map(bytes).transpose()
    }

    fn account(
        &self,
        number: u32,
        parent: Option<Name>,
        above: &Inherited,
        found: &mut Found,
    ) -> anyhow::Result<Account> {
        const KNOWN: &[&str] = &[
            "Description",
            "Organization",
            "Fairshare",
            "Share",
            "QOS",
            "DefaultQOS",
            "GrpJobs",
            "GrpSubmitJobs",
            "GrpSubmit",
            "GrpTRES",
            "MaxJobs",
            "MaxSubmitJobs",
            "MaxSubmit",
        ];
        self.note_rest(number, KNOWN, found);
        Ok(Account {
            parent,
            shares: self.shares()?,
            description: self.get("Description").unwrap_or_default().to_owned(),
            qos: self.qos(above.qos.as_ref())?,
            limits: self.limits()?,
        })
    }

    fn member(&self, number: u32, above: &Inherited, found: &mut Found) -> anyhow::Result<Member> {
        const KNOWN: &[&str] = &[
            "DefaultAccount",
            "DefaultWckey",
            "AdminLevel",
            "Fairshare",
            "Share",
            "QOS",
            "DefaultQOS",
            "MaxJobs",
            "MaxSubmitJobs",
            "MaxSubmit",
            "GrpTRES",
            "GrpJobs",
            "GrpSubmitJobs",
            "GrpSubmit",
        ];
        self.note_rest(number, KNOWN, found);
        // MaxTRES is of one job: what GrpTRES says is of all together.
        let (all, most) = (self.limits()?, above.with(self)?);
        Ok(Member {
            shares: self.shares()?,
            qos: self.qos(above.qos.as_ref())?,
            limits: Limits {
                running_jobs: most.running_jobs.or(all.running_jobs),
                submitted_jobs: most.submitted_jobs.or(all.submitted_jobs),
                ..all
            },
        })
    }

    /// Says which keys are not taken, and what of lists of resources.
    fn note_rest(&self, number: u32, known: &[&str], found: &mut Found) {
        let is_known = |key: &str| known.iter().any(|one| one.eq_ignore_ascii_case(key));
        let of_each = OF_EACH_TIME.iter().chain(&OF_EACH_TRES);
        let is_known =
            |key: &str| is_known(key) || of_each.clone().any(|one| one.eq_ignore_ascii_case(key));
        let lists: Vec<&str> = OF_EACH_TRES.into_iter().chain(["GrpTRES"]).collect();
        let left = self.keys.iter().flat_map(|(key, value)| {
            match (
                is_known(key),
                lists.iter().any(|list| key.eq_ignore_ascii_case(list)),
            ) {
                (false, _) => vec![key.clone()],
                (true, false) => Vec::new(),
                (true, true) => {
                    let others = value
                        .split(',')
                        .filter(|pair| !pair.is_empty() && !is_taken(pair));
                    others.map(|pair| format!("{key}={pair}")).collect()
                }
            }
        });
        let left: Vec<String> = left.collect();
        if !left.is_empty() {
            let (kind, name) = (self.kind.to_lowercase(), &self.name);
            let left = left.join(", ");
            let note = format!("line {number}: of {kind} {name} is left out: {left}");
            found.notes.push(note);
        }
    }
}

/// Whether a list of QoS changes another: `+low`, `-low`, `+a,-b`.
fn is_change(list: &str) -> bool {
    list.split(',')
        .any(|name| name.trim_start().starts_with(['+', '-']))
}

/// Whether a limit of a resource has a counterpart, or is none.
fn is_taken(pair: &str) -> bool {
    let (what, amount) = pair.split_once('=').unwrap_or((pair, ""));
    matches!(what, "node" | "cpu" | "gres/gpu" | "mem") || amount == "-1"
}

/// `'a b':Key='x:y':Other=1` as its parts; colons in quotes part nothing, nor do those of a time (`1-00:00:00`). A
/// value is in quotes where it begins with one, which ends only where the value does: `'Bob's lab'` has one inside.
///
/// # Errors
/// A quote that does not end.
fn pieces(text: &str) -> anyhow::Result<Vec<(String, Option<String>)>> {
    let mut parts = vec![String::new()];
    let mut quoted: Option<char> = None;
    let mut letters = text.trim().chars().peekable();
    while let Some(letter) = letters.next() {
        let part = parts.last_mut().expect("there is one");
        match (quoted, letter) {
            (Some(quote), letter)
                if letter == quote && matches!(letters.peek(), None | Some(':')) =>
            {
                quoted = None;
            }
            (None, '\'' | '"') if part.is_empty() || part.ends_with('=') => quoted = Some(letter),
            (None, ':') => parts.push(String::new()),
            (_, letter) => part.push(letter),
        }
    }
    if let Some(quote) = quoted {
        bail!("a {quote} is not followed by another before a colon or the end of the line");
    }
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut whole: Vec<String> = Vec::with_capacity(parts.len());
    for part in parts {
        match whole.last_mut() {
            Some(before) if is_number(&part) && before.contains('=') => {
                before.push(':');
                before.push_str(&part);
            }
            _ => whole.push(part),
        }
    }
    let piece = |part: String| match part.split_once('=') {
        Some((key, value)) => (key.trim().to_owned(), Some(value.trim().to_owned())),
        None => (part.trim().to_owned(), None),
    };
    Ok(whole.into_iter().map(piece).collect())
}

#[cfg(test)]
mod tests;
