//! `eddy tree`: the tree of instances.

pub mod draw;
pub mod gather;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use eddy_client::{Client, Options};
use eddy_wire::services::child::{Children, ChildrenRequest};
use eddy_wire::time::{Span, Time};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::number::{ANY, number};
use crate::session::Global;
use crate::table::{Align, Table};
use crate::{output, when};
use draw::{Lines, Place, Style};
use gather::{Branch, Gatherer, is_missing, title};

/// The least time between two drawings.
const DRAWN_AT_MOST: Duration = Duration::from_millis(200);
/// The most on a terminal, where time that is left runs on.
const DRAWN_AT_LEAST: Duration = Duration::from_secs(1);
/// The pause before an instance that is away is followed again.
const AGAIN: Duration = Duration::from_millis(300);

/// Show the instances inside an instance, as a tree
///
/// Each line is an instance: its job and name, state, nodes, cores in use and all, jobs that wait,
/// run and are over, time left. Of one that does not answer within a second it is said why, behind
/// what the instance around it knows, and the exit code is 1; its state is the one that eddy jobs shows.
/// What is in another user's instance is not shown, which is said there, too. With --watch the tree
/// is drawn again whenever it changes, until ctrl-C: in place on a terminal, as another block elsewhere.
///
/// Jobs that are over are counted from the beginning of each instance, also those that are forgotten since.
/// Where users are told of their own jobs alone (access.private) a user's figures of the first are of those.
///
/// Jobs that an instance left that is over and that have no end are in none of these figures; how many there
/// are is said behind them, as unended.
///
/// Fields of --json, with --watch one object for each change: path, job, name, state (for a job
/// waiting, starting, serving, away, ending; for the first its phase), reached, why, nodes, cores,
/// pending, running, completed, failed (jobs), cores_used, instances (in it, at any depth), unended, until
/// (seconds since 1970, or null), uri, children (the same again).
#[derive(clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Go on until ctrl-C
    #[arg(short = 'w', long)]
    watch: bool,
    /// One object
    #[arg(long)]
    json: bool,
    /// At most so many levels below the first
    #[arg(short = 'd', long, value_name = "N", value_parser = number(ANY))]
    depth: Option<u32>,
    /// Also where each takes clients
    #[arg(short = 'l', long)]
    long: bool,
    /// No heading
    #[arg(short = 'n', long = "no-header")]
    no_header: bool,
    /// From there, such as 905 or / for the root [default: the instance itself]
    #[arg(value_name = "PATH")]
    path: Option<String>,
}

const EXAMPLES: &str = "Examples:
  eddy tree
  eddy tree --watch /
  eddy tree -l -d1 905";

pub fn run(global: &Global, args: &Args) -> anyhow::Result<u8> {
    crate::session::block_on(async {
        let client = global.connect_to(args.path.as_deref()).await?;
        let gatherer = Gatherer::new(client, args.depth);
        if args.watch {
            return watch(&gatherer, args).await;
        }
        let tree = gatherer.look().await;
        match args.json {
            true => output::json(&tree)?,
            false => output::lines(lines(&tree, args, Style::of_locale(), when::now()))?,
        }
        Ok(match is_missing(&tree) {
            true => output::FAILED,
            false => 0,
        })
    })
}

/// The table of a tree.
fn lines(tree: &Branch, args: &Args, style: Style, now: Time) -> Vec<String> {
    let width = match args.long {
        true => Width::Long,
        false => Width::Short,
    };
    let table = table(tree, style, now, width);
    let mut text = Vec::new();
    let written = match args.no_header {
        true => table.write_rows(&mut text),
        false => table.write(&mut text),
    };
    written.expect("memory");
    let text = String::from_utf8_lossy(&text);
    text.lines().map(str::to_owned).collect()
}

/// How much of each instance is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Its figures.
    Short,
    /// Where it takes clients, too.
    Long,
}

/// The tree as a table, a row for each instance.
pub fn table(tree: &Branch, style: Style, now: Time, width: Width) -> Table {
    let mut columns = vec![
        ("INSTANCE", Align::Left),
        ("STATE", Align::Left),
        ("NODES", Align::Right),
        ("CORES", Align::Right),
        ("PENDING", Align::Right),
        ("RUNNING", Align::Right),
        ("DONE", Align::Right),
        ("LEFT", Align::Right),
    ];
    if width == Width::Long {
        columns.push(("URI", Align::Left));
    }
    columns.push(("", Align::Left));
    let mut table = Table::new(columns);
    let mut shape = Lines::new(style);
    shape.enter(Place::Top);
    rows(tree, now, width, &mut shape, &mut table);
    table
}

fn rows(branch: &Branch, now: Time, width: Width, shape: &mut Lines, table: &mut Table) {
    let summary = &branch.summary;
    let left = branch.until.map(|until| Span((until - now).0.max(0)));
    let mut row = vec![
        shape.branches() + &title(branch),
        branch.state.clone(),
        branch.nodes.to_string(),
        format!("{}/{}", summary.cores_used, branch.cores),
        summary.pending.to_string(),
        summary.running.to_string(),
        (summary.completed + summary.failed).to_string(),
        left.map_or_else(|| "-".to_owned(), when::short),
    ];
    if width == Width::Long {
        row.push(branch.uri.clone().unwrap_or_else(|| "-".to_owned()));
    }
    row.push(remark(branch));
    table.push(row);
    for (at, child) in branch.children.iter().enumerate() {
        shape.enter(Place::among(at, branch.children.len()));
        rows(child, now, width, shape, table);
        shape.leave();
    }
}

/// What is said behind the figures: why it did not answer, or how many jobs are in none of them.
fn remark(branch: &Branch) -> String {
    match (&branch.why, branch.unended) {
        (Some(why), _) => why.clone(),
        (None, 0) => String::new(),
        (None, unended) => format!("{unended} unended"),
    }
}

/// Draws again after each change, until an interrupt.
async fn watch(gatherer: &Arc<Gatherer>, args: &Args) -> anyhow::Result<u8> {
    let (changed, mut changes) = mpsc::channel(1);
    let mut followers = Followers {
        changed,
        by_uri: BTreeMap::new(),
    };
    let mut interrupts = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
    let mut board = Board {
        terminal: std::io::stdout().is_terminal(),
        drawn: 0,
        last: None,
    };
    loop {
        let tree = gatherer.look().await;
        followers.follow(&tree);
        board.draw(&tree, args)?;
        tokio::select! {
            _ = interrupts.recv() => return Ok(0),
            () = tokio::time::sleep(DRAWN_AT_MOST) => {}
        }
        // Where nothing changes nothing is written by which that would show.
        output::is_read()?;
        tokio::select! {
            _ = interrupts.recv() => return Ok(0),
            _ = changes.recv() => {}
            () = tokio::time::sleep(DRAWN_AT_LEAST) => {}
        }
    }
}

/// One task for each instance that is reached, which says when its children change.
struct Followers {
    changed: mpsc::Sender<()>,
    by_uri: BTreeMap<String, AbortHandle>,
}

impl Followers {
    fn follow(&mut self, tree: &Branch) {
        let mut reached = Vec::new();
        collect(tree, &mut reached);
        self.by_uri.retain(|uri, task| {
            let stays = reached.contains(uri);
            if !stays {
                task.abort();
            }
            stays
        });
        for uri in reached {
            if !self.by_uri.contains_key(&uri) {
                let task = tokio::spawn(follow(uri.clone(), self.changed.clone()));
                self.by_uri.insert(uri, task.abort_handle());
            }
        }
    }
}

fn collect(branch: &Branch, found: &mut Vec<String>) {
    found.extend(branch.uri.clone().filter(|_| branch.reached));
    branch
        .children
        .iter()
        .for_each(|child| collect(child, found));
}

/// Says each time that the instances in the one at `uri` change.
async fn follow(uri: String, changed: mpsc::Sender<()>) {
    let request = ChildrenRequest {
        job: None,
        follow: true,
        ..ChildrenRequest::default()
    };
    loop {
        let followed = async {
            let options = Options { wait: AGAIN };
            let client = Client::connect(&uri.parse()?, options).await?;
            let mut parts = client.feed::<Children>(&request)?;
            while let Some(part) = parts.next().await {
                part?;
                // A full queue says it already.
                let _ = changed.try_send(());
            }
            anyhow::Ok(())
        };
        let _ = followed.await;
        let _ = changed.try_send(());
        tokio::time::sleep(AGAIN).await;
    }
}

/// What was drawn, over which the next is drawn on a terminal.
struct Board {
    terminal: bool,
    drawn: usize,
    last: Option<Branch>,
}

impl Board {
    fn draw(&mut self, tree: &Branch, args: &Args) -> anyhow::Result<()> {
        if !self.terminal && self.last.as_ref() == Some(tree) {
            return Ok(());
        }
        self.last = Some(tree.clone());
        if args.json {
            return output::json(tree);
        }
        let mut out = output::stdout();
        let lines = lines(tree, args, Style::of_locale(), when::now());
        if self.terminal && self.drawn > 0 {
            write!(out, "\x1b[{}A\x1b[J", self.drawn)?;
        }
        for line in &lines {
            writeln!(out, "{line}")?;
        }
        if !self.terminal {
            writeln!(out)?;
        }
        self.drawn = lines.len();
        Ok(out.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use eddy_wire::services::child::Summary;

    fn branch(job: Option<u64>, children: Vec<Branch>) -> Branch {
        Branch {
            path: String::new(),
            place: String::new(),
            job,
            name: job.map(|_| "batch".to_owned()),
            state: "serving".to_owned(),
            reached: true,
            why: None,
            whose: gather::Whose::Open,
            nodes: 2,
            cores: 8,
            summary: Summary {
                cores_used: 3,
                pending: 1,
                completed: 4,
                failed: 1,
                ..Summary::default()
            },
            unended: 0,
            until: job.map(|_| Time(61_000_000)),
            uri: None,
            children,
        }
    }

    #[test]
    fn instances_are_drawn_as_a_tree_with_their_figures() {
        let mut away = branch(Some(2), Vec::new());
        away.why = Some("no answer within 1 s".to_owned());
        let inner = branch(Some(1), vec![branch(Some(3), Vec::new())]);
        let tree = branch(None, vec![inner, away]);
        let table = table(&tree, Style::Ascii, Time(1_000_000), Width::Short);
        let mut text = Vec::new();
        table.write_rows(&mut text).expect("memory");
        let text = String::from_utf8(text).expect("UTF-8");
        let lines: Vec<&str> = text.lines().collect();
        let words = |at: usize| lines[at].split_whitespace().collect::<Vec<_>>();
        assert_eq!(words(0)[..2], ["/", "serving"], "{text}");
        assert!(lines[1].starts_with("|-- ") && lines[2].starts_with("|   `-- "));
        assert_eq!(words(1)[3..], ["serving", "2", "3/8", "1", "0", "5", "1m"]);
        // In the word of `eddy jobs`, which asks only the instance around it.
        assert!(lines[3].starts_with("`-- ") && lines[3].contains(" serving "));
        assert!(lines[3].ends_with("no answer within 1 s"), "{text}");
    }

    #[test]
    fn what_an_instance_left_without_an_end_is_told_behind_its_figures() {
        let mut over = branch(None, Vec::new());
        assert_eq!(remark(&over), "");
        over.unended = 2;
        assert_eq!(remark(&over), "2 unended");
        assert_eq!(serde_json::to_value(&over).expect("JSON")["unended"], 2);
    }

    #[test]
    fn one_that_could_not_be_asked_is_missing_and_another_users_is_not() {
        let mut one = branch(Some(2), Vec::new());
        one.why = Some("no answer".to_owned());
        let tree = |one: &Branch| branch(None, vec![branch(Some(1), vec![one.clone()])]);
        assert!(is_missing(&tree(&one)));
        one.whose = gather::Whose::Anothers;
        assert!(!is_missing(&tree(&one)));
    }

    #[test]
    fn the_first_is_called_by_its_path_from_the_root() {
        let mut first = branch(None, Vec::new());
        assert_eq!(title(&first), "/");
        "905/3".clone_into(&mut first.place);
        assert_eq!(title(&first), "905/3");
    }

    #[test]
    fn a_tree_in_json_has_its_figures_beside_its_names() {
        let value = serde_json::to_value(branch(Some(1), Vec::new())).expect("JSON");
        assert_eq!(
            (&value["pending"], &value["cores_used"]),
            (&1.into(), &3.into())
        );
        assert!(value["children"].is_array());
    }
}
