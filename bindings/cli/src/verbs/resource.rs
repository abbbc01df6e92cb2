//! `eddy resource`: what there is, what of it is free or in service.

mod like;
mod nodes;

use std::collections::BTreeMap;

use anyhow::bail;
use clap::Subcommand;
use eddy_client::{Client, ClientError};
use eddy_wire::constraint::Constraint;
use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::Rank;
use eddy_wire::resource_set::{NodeSet, ResourceSet};
use eddy_wire::services::overlay::{RankLink, Reach, Status as Links};
use eddy_wire::services::pool::{self, PoolRow};
use eddy_wire::services::resource::{
    Drain, DrainRequest, List, ListReply, RankState, RankStatus, Status, Targets, Undrain,
    UndrainRequest,
};
use serde_json::{Value, json};
use uuid::Uuid;

use nodes::Jobs;

use crate::names::Users;
use crate::number::number;
use crate::request::constraint;
use crate::session::Global;
use crate::table::{Align, Table, escaped};
use crate::{output, when};

/// Show resources, add and remove them, take them in and out of service
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
    /// Show what is free, allocated and down
    ///
    /// Fields of --json: for each of all, allocated, down, free: nnodes, ncores, ngpus,
    /// memory (bytes), nodelist (RFC 29), ranks (RFC 22) and R (RFC 20), which has properties and sockets.
    /// NSOCKETS are those of which there is any core, where they are known.
    List {
        /// Only nodes that are like this, as for eddy submit --requires
        #[arg(long, value_name = "QUERY", value_parser = constraint, allow_hyphen_values = true)]
        requires: Option<Constraint>,
        /// One object
        #[arg(long)]
        json: bool,
        /// No heading
        #[arg(short = 'n', long = "no-header")]
        no_header: bool,
    },
    /// Show which ranks are in service, and why others are not
    ///
    /// Fields of --json: rank, host, state (online, offline), drain (null, or t, reason, userid),
    /// closed (the parent instance has it drained; absent is not),
    /// jobs (how many hold something there), why (why it is offline, or null), properties.
    Status {
        /// Only nodes that are like this, as for eddy submit --requires
        #[arg(long, value_name = "QUERY", value_parser = constraint, allow_hyphen_values = true)]
        requires: Option<Constraint>,
        /// One array of objects
        #[arg(long)]
        json: bool,
        /// No heading
        #[arg(short = 'n', long = "no-header")]
        no_header: bool,
    },
    /// Take ranks out of service: what runs goes on, nothing new starts
    ///
    /// A user's instance that holds one starts nothing more there, either: there it is closed (eddy resource status).
    /// It has it until it ends or gives it back (eddy grant release).
    Drain {
        /// Replace the reason of ranks that are drained already
        #[arg(short = 'f', long)]
        force: bool,
        /// Ranks (0-3,7) or hosts (n[1-4]); without: show what is drained
        #[arg(value_name = "TARGETS")]
        targets: Option<String>,
        /// Why
        #[arg(value_name = "REASON", trailing_var_arg = true)]
        reason: Vec<String>,
    },
    /// Declare nodes dead that are offline and do not come back: what held something there has lost it
    ///
    /// A node that is not heard of keeps its jobs, which may run there: only somebody who knows that they
    /// do not can say so. They end with node-failure, or wait again where they were submitted with
    /// --requeue; an instance goes on without the node unless its leader was there. The nodes are drained
    /// with that reason until eddy resource undrain. Should one come back, what still runs there is killed.
    ///
    /// With --force also of nodes that are in service but do nothing: their shells hang. Each is killed there with
    /// all that it started, and a new one begins.
    Dead {
        /// Nodes in service, too: kill their shells and all that these started
        #[arg(short = 'f', long)]
        force: bool,
        /// Ranks (2-3,7) or hosts (n[1-4])
        #[arg(value_name = "TARGETS")]
        targets: String,
        /// Why they stay drained [default: declared dead]
        #[arg(value_name = "REASON", trailing_var_arg = true)]
        reason: Vec<String>,
    },
    /// Add nodes, each with a new rank; print the ranks and hosts
    ///
    /// They are as the last node that there is, and are hosted by this machine. A number is never
    /// given twice. Jobs start there as soon as they are in service (eddy resource status).
    Add {
        /// How many
        #[arg(value_name = "COUNT", value_parser = number(1..=65_535_u32))]
        count: u32,
    },
    /// Take nodes out for good
    ///
    /// Refused while jobs hold something there. With --drain nothing more starts there, and it comes
    /// back when the last job has ended and the nodes are gone; interrupted, they stay drained (eddy
    /// resource undrain puts them back). A user's instance that holds one starts nothing more there, and has it until
    /// it ends or gives it back (eddy grant release). With --force the jobs are cancelled first; a user's instance
    /// that has other nodes, too, gives this one and goes on, as if it had failed: what ran there ends. The nodes of
    /// the leader itself stay, and so do those that a declared instance has of its own.
    Remove {
        /// Let nothing more start there and wait for the jobs to end
        #[arg(long)]
        drain: bool,
        /// Cancel the jobs there and wait for their end; instances with other nodes go on without
        #[arg(short = 'f', long, conflicts_with = "drain")]
        force: bool,
        /// Ranks (2-3,7) or hosts (n[1-4])
        #[arg(value_name = "TARGETS")]
        targets: String,
        /// Why they are drained [default: to be removed]
        #[arg(value_name = "REASON", trailing_var_arg = true)]
        reason: Vec<String>,
    },
    /// Show pools, such as licences: how many there are and how many jobs have
    ///
    /// Fields of --json: name, count, used, running (jobs that have some).
    Pools {
        /// One array of objects
        #[arg(long)]
        json: bool,
        /// No heading
        #[arg(short = 'n', long = "no-header")]
        no_header: bool,
    },
    /// Put ranks back into service
    ///
    /// Of several those that are drained are put back, and which were not is said; where none is, that is an error.
    Undrain {
        /// Ranks (0-3,7) or hosts (n[1-4])
        #[arg(value_name = "TARGETS")]
        targets: String,
    },
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        match args.verb {
            Verb::List {
                requires,
                json,
                no_header,
            } => {
                let reply = like::only(client.call::<List>(&()).await?, requires.as_ref());
                match json {
                    true => output::json(&list_json(&reply))?,
                    false => print(&list_table(&reply), no_header)?,
                }
            }
            Verb::Status {
                requires,
                json,
                no_header,
            } => {
                let (ranks, away, all) = ranks_like(&client, requires.as_ref()).await?;
                match json {
                    true => output::json(&status_json(&ranks, &away, &all)?)?,
                    false => print(&status_table(&ranks, &away, &all), no_header)?,
                }
            }
            Verb::Drain {
                force,
                targets: text,
                reason,
            } => drain(&client, text, &reason, force).await?,
            Verb::Undrain { targets: text } => {
                let done = client.call::<Undrain>(&undrained(&text)).await?;
                if !done.others.is_empty() {
                    eprintln!(
                        "eddy resource undrain: {}: not drained before; the others are back in service",
                        escaped(&done.others)
                    );
                }
            }
            Verb::Dead {
                force,
                targets: text,
                reason,
            } => dead(&client, (&text, &reason), force).await?,
            Verb::Add { count } => nodes::add(&client, count).await?,
            Verb::Remove {
                drain,
                force,
                targets: text,
                reason,
            } => {
                let jobs = match (drain, force) {
                    (_, true) => Jobs::Cancelled,
                    (true, false) => Jobs::End,
                    (false, false) => Jobs::Stay,
                };
                remove(&client, (&text, &reason), jobs).await?;
            }
            Verb::Pools { json, no_header } => {
                let pools = client.call::<pool::List>(&()).await?;
                match json {
                    true => output::json(&pools)?,
                    false => print(&pools_table(&pools), no_header)?,
                }
            }
        }
        Ok(0)
    })
}

async fn dead(
    client: &Client,
    (text, reason): (&str, &[String]),
    force: bool,
) -> anyhow::Result<()> {
    is_no_target(client, text, reason).await?;
    nodes::dead(client, targets(text), reason.join(" "), force).await
}

async fn remove(
    client: &Client,
    (text, reason): (&str, &[String]),
    jobs: Jobs,
) -> anyhow::Result<()> {
    is_no_target(client, text, reason).await?;
    nodes::remove(client, targets(text), &reason.join(" "), jobs).await
}

/// These are to be back in service.
fn undrained(text: &str) -> UndrainRequest {
    UndrainRequest {
        targets: targets(text),
        once: Some(Uuid::now_v7()),
    }
}

/// Drains these, or shows what is drained where none are named.
async fn drain(
    client: &Client,
    text: Option<String>,
    reason: &[String],
    force: bool,
) -> anyhow::Result<()> {
    let Some(text) = text else {
        let rows = client.call::<Status>(&()).await?;
        return Ok(print(&drained_table(&rows), false)?);
    };
    is_no_target(client, &text, reason).await?;
    let request = DrainRequest {
        targets: targets(&text),
        reason: reason.join(" "),
        force,
        once: Some(Uuid::now_v7()),
    };
    Ok(client.call::<Drain>(&request).await?)
}

/// Refuses a reason whose first word names nodes: whoever says `1 2` means both.
async fn is_no_target(client: &Client, text: &str, reason: &[String]) -> anyhow::Result<()> {
    let Some(word) = reason.first() else {
        return Ok(());
    };
    let ranks = client.call::<Status>(&()).await?;
    if names_nodes(word, &ranks) {
        let (text, word) = (escaped(text), escaped(word));
        bail!(
            "`{word}` after `{text}` names nodes; targets are one word (`{text},{word}`), and a reason that begins so \
             is one, too (`\"{word} ...\"`)"
        );
    }
    Ok(())
}

/// Whether all that a word names are nodes that there are.
fn names_nodes(word: &str, all: &[RankStatus]) -> bool {
    let is_rank = |rank: u32| all.iter().any(|one| one.rank.0 == rank);
    let is_host = |host: &str| all.iter().any(|one| one.host == host);
    match targets(word) {
        Targets::Ranks(ranks) => !ranks.is_empty() && ranks.iter().all(is_rank),
        Targets::Hosts(text) => text.parse::<Hostlist>().is_ok_and(|hosts| {
            let mut hosts = hosts.hosts().peekable();
            hosts.peek().is_some() && hosts.all(|host| is_host(&host))
        }),
    }
}

/// The ranks that are like this, why they are offline, and all nodes.
async fn ranks_like(
    client: &Client,
    constraint: Option<&Constraint>,
) -> anyhow::Result<(Vec<RankStatus>, BTreeMap<Rank, String>, ResourceSet)> {
    let ranks = client.call::<Status>(&()).await?;
    let all = client.call::<List>(&()).await?.all;
    let ranks = like::only_ranks(ranks, &all, constraint);
    let away = away(client, &ranks).await?;
    Ok((ranks, away, all))
}

fn pools_table(pools: &[PoolRow]) -> Table {
    let columns = ["POOL", "COUNT", "USED", "FREE", "JOBS"];
    let mut table = Table::new(columns.map(|name| match name {
        "POOL" => (name, Align::Left),
        _ => (name, Align::Right),
    }));
    for pool in pools {
        let free = pool.count.saturating_sub(pool.used);
        let counts = [pool.count, pool.used, free, pool.running];
        let mut row = vec![pool.name.to_string()];
        row.extend(counts.map(|count| count.to_string()));
        table.push(row);
    }
    table
}

/// Numbers are ranks, all else is hosts.
pub(crate) fn targets(text: &str) -> Targets {
    match text.parse() {
        Ok(ranks) => Targets::Ranks(ranks),
        Err(_) => Targets::Hosts(text.to_owned()),
    }
}

fn print(table: &Table, no_header: bool) -> std::io::Result<()> {
    let mut out = output::stdout();
    match no_header {
        true => table.write_rows(&mut out),
        false => table.write(&mut out),
    }
}

fn list_json(reply: &ListReply) -> Value {
    let one = |set: &ResourceSet| {
        json!({
            "nnodes": set.nnodes(),
            "ncores": set.ncores(),
            "ngpus": set.ngpus(),
            "memory": set.memory(),
            "nodelist": set.nodelist(),
            "ranks": set.ranks(),
            "R": set,
        })
    };
    json!({
        "all": one(&reply.all),
        "allocated": one(&reply.allocated),
        "down": one(&reply.down),
        "free": one(&reply.free),
    })
}

fn list_table(reply: &ListReply) -> Table {
    let has_properties = !reply.all.properties.is_empty();
    let mut nodes = reply.all.nodes.values();
    let has_sockets = nodes.any(|node| node.sockets.known().is_some());
    let mut columns = vec![("STATE", Align::Left), ("NNODES", Align::Right)];
    if has_sockets {
        columns.push(("NSOCKETS", Align::Right));
    }
    columns.extend([("NCORES", Align::Right), ("NGPUS", Align::Right)]);
    if has_properties {
        columns.push(("PROPERTIES", Align::Left));
    }
    columns.push(("NODELIST", Align::Left));
    let mut table = Table::new(columns);
    let sets = [
        ("free", &reply.free),
        ("allocated", &reply.allocated),
        ("down", &reply.down),
    ];
    for (state, set) in sets {
        for (properties, set) in like::parts(set, &reply.all) {
            let mut row = vec![state.to_owned(), set.nnodes().to_string()];
            row.extend(has_sockets.then(|| nsockets(&set).to_string()));
            row.extend([set.ncores(), set.ngpus()].map(|count| count.to_string()));
            row.extend(has_properties.then_some(properties));
            row.push(set.nodelist());
            table.push(row);
        }
    }
    table
}

/// How many sockets it has any core of.
fn nsockets(set: &ResourceSet) -> usize {
    let on = |node: &NodeSet| {
        let sockets = node.sockets();
        let has = sockets
            .iter()
            .filter(|socket| !socket.cores.is_disjoint(&node.cores));
        has.count()
    };
    set.nodes.values().map(on).sum()
}

fn state(rank: &RankStatus) -> String {
    let drained = match (&rank.drain, rank.closed, rank.jobs) {
        (None, false, _) => "avail",
        (None, true, _) => "closed",
        (Some(_), _, 0) => "drained",
        (Some(_), _, _) => "draining",
    };
    match rank.state {
        RankState::Online => drained.to_owned(),
        RankState::Offline if drained == "avail" => "offline".to_owned(),
        RankState::Offline => format!("{drained}*"),
    }
}

/// Why ranks are offline, as the tree of ranks knows it.
async fn away(client: &Client, ranks: &[RankStatus]) -> anyhow::Result<BTreeMap<Rank, String>> {
    if ranks.iter().all(|rank| rank.state == RankState::Online) {
        return Ok(BTreeMap::new());
    }
    let links = match client.call::<Links>(&()).await {
        Ok(links) => links,
        // A history has no ranks to reach.
        Err(ClientError::Refused(_)) => return Ok(BTreeMap::new()),
        Err(error) => return Err(error.into()),
    };
    let offline = |link: &RankLink| {
        let mut ranks = ranks.iter();
        ranks.any(|rank| rank.rank == link.rank && rank.state == RankState::Offline)
    };
    let links = links.into_iter().filter(offline);
    Ok(links.map(|link| (link.rank, why(&link))).collect())
}

fn why(link: &RankLink) -> String {
    match link.state {
        Reach::Full => "its shell is not there".to_owned(),
        Reach::Lost => format!("it was lost: {}", link.why),
        Reach::Absent => "it was never reached by this leader".to_owned(),
    }
}

fn status_json(
    ranks: &[RankStatus],
    away: &BTreeMap<Rank, String>,
    all: &ResourceSet,
) -> anyhow::Result<Value> {
    let row = |rank: &RankStatus| {
        let mut row = serde_json::to_value(rank)?;
        row["why"] = json!(away.get(&rank.rank));
        row["properties"] = json!(like::of_rank(all, rank.rank));
        Ok(row)
    };
    ranks.iter().map(row).collect()
}

/// The reason of the administrator, that of the parent, and that of the rank.
fn reason(rank: &RankStatus, away: &BTreeMap<Rank, String>) -> String {
    let drain = rank.drain.as_ref().map(|drain| drain.reason.as_str());
    let closed = rank.closed.then_some("drained in the parent instance");
    let why = away.get(&rank.rank).map(String::as_str);
    let parts = drain.into_iter().chain(closed).chain(why);
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

fn status_table(ranks: &[RankStatus], away: &BTreeMap<Rank, String>, all: &ResourceSet) -> Table {
    let mut columns = vec![
        ("RANK", Align::Right),
        ("HOST", Align::Left),
        ("STATE", Align::Left),
        ("JOBS", Align::Right),
    ];
    let has_properties = !all.properties.is_empty();
    if has_properties {
        columns.push(("PROPERTIES", Align::Left));
    }
    columns.push(("REASON", Align::Left));
    let mut table = Table::new(columns);
    for rank in ranks {
        let mut row = vec![
            rank.rank.to_string(),
            rank.host.clone(),
            state(rank),
            rank.jobs.to_string(),
        ];
        if has_properties {
            row.push(like::shown(&like::of_rank(all, rank.rank)));
        }
        row.push(reason(rank, away));
        table.push(row);
    }
    table
}

fn drained_table(ranks: &[RankStatus]) -> Table {
    let mut table = Table::new([
        ("TIMESTAMP", Align::Left),
        ("STATE", Align::Left),
        ("RANK", Align::Right),
        ("USER", Align::Left),
        ("REASON", Align::Left),
        ("HOST", Align::Left),
    ]);
    let users = Users::read();
    for rank in ranks {
        if let Some(drain) = &rank.drain {
            table.push(vec![
                when::local(drain.t),
                state(rank),
                rank.rank.to_string(),
                users.name(drain.userid),
                drain.reason.clone(),
                rank.host.clone(),
            ]);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use eddy_wire::services::resource::DrainState;
    use eddy_wire::time::Time;

    use super::*;

    #[test]
    fn a_rank_that_is_offline_says_why_beside_why_it_is_drained() {
        let mut rank = RankStatus {
            rank: Rank(1),
            host: "n1".to_owned(),
            state: RankState::Offline,
            drain: None,
            closed: false,
            jobs: 0,
        };
        let link = RankLink {
            rank: Rank(1),
            host: "n1".to_owned(),
            parent: None,
            state: Reach::Lost,
            since: None,
            why: "no answer".to_owned(),
        };
        let away = BTreeMap::from([(Rank(1), why(&link))]);
        assert_eq!(reason(&rank, &away), "it was lost: no answer");
        rank.drain = Some(DrainState {
            t: Time(0),
            reason: "fan".to_owned(),
            userid: 0,
        });
        assert_eq!(reason(&rank, &away), "fan; it was lost: no answer");
        assert_eq!(reason(&rank, &BTreeMap::new()), "fan");
        let json = status_json(&[rank], &away, &ResourceSet::new()).expect("JSON");
        assert_eq!(json[0]["why"], "it was lost: no answer");
    }
}
