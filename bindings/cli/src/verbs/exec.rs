//! `eddy exec`: a command on ranks, beside what is granted there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use eddy_client::{Client, Uri};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Jobspec, Takes};
use eddy_wire::services::resource::{RankState, RankStatus, Status};

use super::submit::begin;
use crate::attach::{Forward, How, Interrupt, Label, Left, Shown, attach_on, exit_code, leave};
use crate::request::{Slots, Terms};
use crate::session::Global;

/// The exit code when a rank that was asked for is not there, as in Flux.
const NO_HOST: u8 = 68;

/// The pause between two looks at the ranks it runs on.
const LOOK: Duration = Duration::from_secs(1);
/// How long a rank is not reached until it is given up: longer than an agent or
/// a leader that was killed takes to come back.
const LOST_AFTER: Duration = Duration::from_secs(5);

/// Run a command once on each rank, beside what runs there
///
/// It takes no resources and waits for none. Standard input goes to all; the exit code is the
/// highest, 128 + signal for one that was killed, and 68 when a rank is not there, not reached or
/// lost, which cancels all of it. ctrl-C and TERM go to the tasks; TERM twice, or ctrl-C twice
/// within two seconds, cancels all of it and waits for nothing, and so do HUP and QUIT (unless they are
/// ignored) and a reader of the output that goes away.
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// On these ranks (0-3,7), or all
    #[arg(short = 'r', long, value_name = "RANKS", default_value = "all")]
    ranks: String,
    /// Not on these
    #[arg(short = 'x', long, value_name = "RANKS")]
    exclude: Option<Idset>,
    /// Put the rank before each line of output
    #[arg(short = 'l', long)]
    label_io: bool,
    /// Give the command an empty standard input
    #[arg(short = 'n', long)]
    noinput: bool,
    /// In this directory [default: this one]
    #[arg(short = 'd', long, value_name = "DIR")]
    dir: Option<String>,
    /// Program and its arguments; options end here
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  eddy exec -l uptime
  eddy exec -r 1-3 -x 2 rm -rf /tmp/scratch
  eddy --at 905 exec -r 0 cat /proc/meminfo";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    let wanted = match args.ranks.as_str() {
        "all" => None,
        text => Some(text.parse::<Idset>()?),
    };
    global.session(async |client| {
        let known = client.call::<Status>(&()).await?;
        let (ranks, missing) = choose(&known, wanted.as_ref(), args.exclude.as_ref())?;
        for text in &missing {
            eprintln!("eddy exec: {text}");
        }
        let least = if missing.is_empty() { 0 } else { NO_HOST };
        if ranks.is_empty() {
            return Ok(least);
        }
        let (terms, forward) = terms(args);
        let jobspec = jobspec(args, &terms, &ranks, forward)?;
        let request = terms.request(&jobspec, None)?;
        let how = |job| How {
            job,
            label: match args.label_io {
                true => Label::Rank(ranks.iter().collect()),
                false => Label::Plain,
            },
            forward,
            interrupt: Interrupt::Pass,
            verb: "exec",
        };
        let begun = begin(global, (&client, &request), (Interrupt::Pass, how));
        let (how, mut watches) = match begun.await? {
            Ok(begun) => begun,
            Err(code) => return Ok(code),
        };
        let mut seen = Shown::default();
        let of = (&mut seen, &mut watches);
        let code = tokio::select! {
            left = attach_on(&client, global.options(), how.clone(), of) => Ok(match left? {
                Left::Ended(end) => exit_code(&end).max(least),
                Left::Detached => 0,
                Left::GivenUp(code) => code,
            }),
            away = lost(global, client.uri(), &ranks) => {
                let text = away?;
                eprintln!("eddy exec: {text}");
                leave(client.uri(), global.options(), &how, &text).await;
                Ok(NO_HOST)
            }
        };
        seen.lines.end(&how.label)?;
        code
    })
}

/// Waits until one of these ranks is not reached for so long that nobody can say
/// when what runs there will have ended; what is to be said of it.
async fn lost(global: &Global, uri: &Uri, ranks: &Idset) -> anyhow::Result<String> {
    let client = Client::connect(uri, global.options()).await?;
    let mut away: BTreeMap<u32, Instant> = BTreeMap::new();
    loop {
        tokio::time::sleep(LOOK).await;
        // While there is no leader nothing is known of its ranks.
        let Ok(known) = client.call::<Status>(&()).await else {
            away.clear();
            continue;
        };
        let online = |rank: &u32| {
            let status = known.iter().find(|status| status.rank.0 == *rank);
            status.is_some_and(|status| status.state == RankState::Online)
        };
        away.retain(|rank, _| !online(rank));
        for rank in ranks.iter().filter(|rank| !online(rank)) {
            let since = *away.entry(rank).or_insert_with(Instant::now);
            if since.elapsed() >= LOST_AFTER {
                let host = known.iter().find(|status| status.rank.0 == rank);
                let host = host.map_or("taken out", |status| status.host.as_str());
                return Ok(format!("rank {rank} ({host}) is not reached any more"));
            }
        }
    }
}

/// The ranks to run on, and what is to be said of those that are left out.
fn choose(
    known: &[RankStatus],
    wanted: Option<&Idset>,
    excluded: Option<&Idset>,
) -> anyhow::Result<(Idset, Vec<String>)> {
    let by_rank: BTreeMap<u32, &RankStatus> =
        known.iter().map(|rank| (rank.rank.0, rank)).collect();
    let mut asked = match wanted {
        Some(ranks) => ranks.clone(),
        None => by_rank.keys().copied().fold(Idset::new(), |mut all, rank| {
            all.insert(rank);
            all
        }),
    };
    if let Some(excluded) = excluded {
        asked = asked.difference(excluded);
    }
    ensure!(!asked.is_empty(), "no rank is left to run on");
    let (mut ranks, mut missing) = (Idset::new(), Vec::new());
    for rank in asked.iter() {
        match by_rank.get(&rank) {
            Some(status) if status.state == RankState::Online => ranks.insert(rank),
            Some(status) => missing.push(format!("rank {rank} ({}) is not reached", status.host)),
            None => {
                let there: Idset = by_rank.keys().copied().fold(Idset::new(), |mut all, rank| {
                    all.insert(rank);
                    all
                });
                if missing.len() > known.len() {
                    bail!("ranks {asked} are asked for; there are {there}");
                }
                missing.push(format!("there is no rank {rank}; there are {there}"));
            }
        }
    }
    Ok((ranks, missing))
}

fn terms(args: &Args) -> (Terms, Forward) {
    let mut terms = Terms {
        cwd: args.dir.clone(),
        job_name: Some("exec".to_owned()),
        ..Terms::default()
    };
    let forward = match args.noinput {
        true => Forward::No,
        false => super::run::stdin(&terms).1,
    };
    terms.label_io = false;
    (terms, forward)
}

/// One task on each rank, which takes nothing.
fn jobspec(args: &Args, terms: &Terms, ranks: &Idset, forward: Forward) -> anyhow::Result<Jobspec> {
    let count = u32::try_from(ranks.len())?;
    let slots = Slots {
        count: Some(count),
        cores: None,
        gpus: None,
    };
    let stdin = match forward {
        Forward::Yes => crate::request::Stdin::Attached,
        Forward::No => crate::request::Stdin::Empty,
    };
    let mut ask = terms.ask(slots, &args.command, stdin)?;
    ask.nodes = Some(count.into());
    ask.takes = Takes::Nothing;
    ask.ranks = Some(ranks.clone());
    let jobspec = ask.jobspec()?;
    jobspec.request()?;
    Ok(jobspec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::id::Rank;

    fn known(states: &[RankState]) -> Vec<RankStatus> {
        let status = |(rank, state): (u32, &RankState)| RankStatus {
            rank: Rank(rank),
            host: format!("n{rank}"),
            state: *state,
            drain: None,
            closed: false,
            jobs: 0,
        };
        (0..).zip(states).map(status).collect()
    }

    fn set(text: &str) -> Idset {
        text.parse().expect("an idset")
    }

    #[test]
    fn ranks_that_are_not_there_are_named_and_the_others_run() {
        let known = known(&[RankState::Online, RankState::Offline, RankState::Online]);
        let (ranks, missing) = choose(&known, None, None).expect("ranks");
        assert_eq!(ranks, set("0,2"));
        assert_eq!(missing, ["rank 1 (n1) is not reached"]);
        let (ranks, missing) = choose(&known, Some(&set("0,7")), None).expect("ranks");
        assert_eq!((ranks, missing.len()), (set("0"), 1));
        assert_eq!(missing, ["there is no rank 7; there are 0-2"]);
        assert!(choose(&known, Some(&set("0")), Some(&set("0"))).is_err());
        assert!(choose(&known, Some(&set("0-60000")), None).is_err());
    }

    #[test]
    fn a_command_on_ranks_takes_nothing_and_names_them() {
        let args = Args {
            ranks: "all".to_owned(),
            exclude: None,
            label_io: false,
            noinput: true,
            dir: None,
            command: vec!["hostname".to_owned()],
        };
        let (terms, forward) = terms(&args);
        let jobspec = jobspec(&args, &terms, &set("1-3"), forward).expect("a jobspec");
        let request = jobspec.request().expect("a request");
        assert_eq!(
            (request.takes, request.ranks),
            (Takes::Nothing, Some(set("1-3")))
        );
        assert_eq!((request.ntasks, request.nodes), (3, Some(3)));
    }
}
