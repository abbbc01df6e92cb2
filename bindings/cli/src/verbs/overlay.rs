//! `eddy overlay`: the tree of ranks of an instance.

use std::collections::BTreeMap;

use clap::Subcommand;
use eddy_wire::id::Rank;
use eddy_wire::idset::Idset;
use eddy_wire::message::Target;
use eddy_wire::services::overlay::{
    Add, AddRequest, LinkState, Links, RankLink, Reach, Remove, RemoveRequest, Status,
};
use serde_json::json;
use uuid::Uuid;

use crate::number::{ANY, number};
use crate::session::Global;
use crate::table::{Align, Table};
use crate::verbs::tree::draw::{Lines, Place, Style};
use crate::{output, when};

/// Show the tree of ranks, and add and remove ranks
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
    /// Show which ranks the leader reaches
    ///
    /// full: it is reached; lost: it was and is not any more; absent: this leader never reached
    /// it. Fields of --json, one array of objects: rank, host, parent (the rank above, or null),
    /// state, since (seconds since 1970, or null), why.
    Status {
        /// One array of objects
        #[arg(long)]
        json: bool,
        /// The tree, a line for each rank
        #[arg(short = 'v', long)]
        verbose: bool,
        /// Exit with 1 unless every rank is reached
        #[arg(short = 'q', long)]
        quiet: bool,
    },
    /// Show what one rank knows of its own links
    ///
    /// Fields of --json: peer, is_up (whether that is the rank above), state (open, broken,
    /// knocking, waiting), unacknowledged, sent, received (frames).
    Links {
        /// Which rank [default: the one that takes the request]
        #[arg(short = 'r', long, value_name = "RANK", value_parser = number(ANY))]
        rank: Option<u32>,
        /// One array of objects
        #[arg(long)]
        json: bool,
    },
    /// Add nodes, each with a new rank, as if each were a host; print the ranks
    Add {
        /// How many
        #[arg(value_name = "COUNT", value_parser = number(1..=65_535_u32))]
        count: u32,
    },
    /// Take ranks out for good: refused while jobs hold them; the numbers are never given again
    Remove {
        /// Ranks (2-3,7)
        #[arg(value_name = "RANKS")]
        ranks: Idset,
    },
}

pub fn run(global: &Global, args: Args) -> anyhow::Result<u8> {
    global.session(async |client| {
        match args.verb {
            Verb::Status {
                json,
                verbose,
                quiet,
            } => {
                let ranks = client.call::<Status>(&()).await?;
                match (quiet, json, verbose) {
                    (true, _, _) => {}
                    (_, true, _) => output::json(&ranks)?,
                    (_, _, true) => output::lines(tree(&ranks, Style::of_locale()))?,
                    (_, _, false) => output::lines(groups(&ranks))?,
                }
                let whole = ranks.iter().all(|rank| rank.state == Reach::Full);
                return Ok(if quiet && !whole { output::FAILED } else { 0 });
            }
            Verb::Links { rank, json } => {
                let target = rank.map_or(Target::Service, |rank| Target::Rank(Rank(rank)));
                let links = client.call_target::<Links>(&(), target).await?;
                match json {
                    true => output::json(&json!(links))?,
                    false => table(&links).write(&mut output::stdout())?,
                }
            }
            Verb::Add { count } => {
                let key = Uuid::now_v7();
                let ranks = client.call::<Add>(&AddRequest { count, key }).await?;
                output::lines([set(ranks.iter().map(|rank| rank.0)).to_string()])?;
            }
            Verb::Remove { ranks } => {
                client.call::<Remove>(&RemoveRequest { ranks }).await?;
            }
        }
        Ok(0)
    })
}

fn set(ranks: impl Iterator<Item = u32>) -> Idset {
    ranks.fold(Idset::new(), |mut set, rank| {
        set.insert(rank);
        set
    })
}

fn name(state: Reach) -> &'static str {
    match state {
        Reach::Full => "full",
        Reach::Lost => "lost",
        Reach::Absent => "absent",
    }
}

/// A line for each state, and one for each reason in it.
fn groups(ranks: &[RankLink]) -> Vec<String> {
    let mut groups: BTreeMap<(u8, &str), Vec<u32>> = BTreeMap::new();
    for rank in ranks {
        let order = match rank.state {
            Reach::Full => 0,
            Reach::Lost => 1,
            Reach::Absent => 2,
        };
        let why = if order == 0 { "" } else { rank.why.as_str() };
        groups.entry((order, why)).or_default().push(rank.rank.0);
    }
    let line = |((order, why), ranks): (&(u8, &str), &Vec<u32>)| {
        let state = name([Reach::Full, Reach::Lost, Reach::Absent][usize::from(*order)]);
        let ranks = set(ranks.iter().copied());
        match why.is_empty() {
            true => format!("{state:<6}  {:>5}  {ranks}", ranks.len()),
            false => format!("{state:<6}  {:>5}  {ranks}  {why}", ranks.len()),
        }
    };
    groups.iter().map(line).collect()
}

/// The tree by parent; ranks that are not reached stand beside the leader.
fn tree(ranks: &[RankLink], style: Style) -> Vec<String> {
    let mut below: BTreeMap<Option<Rank>, Vec<&RankLink>> = BTreeMap::new();
    for rank in ranks {
        below.entry(rank.parent).or_default().push(rank);
    }
    let mut lines = Lines::new(style);
    let mut left = ranks.len();
    branch(&below, None, &mut lines, &mut left);
    lines.done()
}

/// `left` bounds the depth: what is told may be no tree.
fn branch(
    below: &BTreeMap<Option<Rank>, Vec<&RankLink>>,
    at: Option<Rank>,
    lines: &mut Lines,
    left: &mut usize,
) {
    let ranks = below.get(&at).map(Vec::as_slice).unwrap_or_default();
    for (place, rank) in ranks.iter().enumerate() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let since = rank
            .since
            .map(|since| format!(" since {}", when::local(since)));
        let why = match rank.why.is_empty() {
            true => String::new(),
            false => format!(": {}", rank.why),
        };
        let state = name(rank.state);
        let since = since.unwrap_or_default();
        lines.enter(match at {
            None => Place::Top,
            Some(_) => Place::among(place, ranks.len()),
        });
        lines.push(format!("{} {} {state}{since}{why}", rank.rank, rank.host));
        branch(below, Some(rank.rank), lines, left);
        lines.leave();
    }
}

fn table(links: &[LinkState]) -> Table {
    let mut table = Table::new([
        ("PEER", Align::Right),
        ("SIDE", Align::Left),
        ("STATE", Align::Left),
        ("UNACKED", Align::Right),
        ("SENT", Align::Right),
        ("RECEIVED", Align::Right),
    ]);
    for link in links {
        let side = if link.is_up { "up" } else { "down" };
        table.push(vec![
            link.peer.to_string(),
            side.to_owned(),
            link.state.clone(),
            link.unacknowledged.to_string(),
            link.sent.to_string(),
            link.received.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(rank: u32, parent: Option<u32>, state: Reach, why: &str) -> RankLink {
        RankLink {
            rank: Rank(rank),
            host: format!("n{rank}"),
            parent: parent.map(Rank),
            state,
            since: None,
            why: why.to_owned(),
        }
    }

    #[test]
    fn ranks_are_grouped_by_state_and_reason() {
        let ranks = [
            rank(0, None, Reach::Full, ""),
            rank(1, Some(0), Reach::Full, ""),
            rank(2, None, Reach::Lost, "no answer"),
            rank(3, None, Reach::Absent, ""),
            rank(4, None, Reach::Lost, "no answer"),
        ];
        assert_eq!(
            groups(&ranks),
            [
                "full        2  0-1",
                "lost        2  2,4  no answer",
                "absent      1  3"
            ]
        );
    }

    #[test]
    fn the_tree_is_drawn_by_parent_and_ends_with_what_is_no_tree() {
        let ranks = [
            rank(0, None, Reach::Full, ""),
            rank(1, Some(0), Reach::Full, ""),
            rank(2, Some(1), Reach::Full, ""),
            rank(3, Some(0), Reach::Full, ""),
            rank(4, None, Reach::Lost, "gone"),
        ];
        assert_eq!(
            tree(&ranks, Style::Ascii),
            [
                "0 n0 full",
                "|-- 1 n1 full",
                "|   `-- 2 n2 full",
                "`-- 3 n3 full",
                "4 n4 lost: gone"
            ]
        );
        let circle = [
            rank(0, None, Reach::Full, ""),
            rank(1, Some(1), Reach::Full, ""),
        ];
        assert_eq!(tree(&circle, Style::Ascii).len(), 1);
    }
}
