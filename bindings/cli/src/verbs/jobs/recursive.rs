//! `eddy jobs --recursive`: one table over the instance and all that are in it.
//!
//! Every instance is asked by itself, many at a time; what cannot be asked is named. Rows are told
//! level by level in the order of the tree, each with the path of its instance.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::bail;
use eddy_client::{Client, Options, Uri};
use eddy_wire::id::JobId;
use eddy_wire::services::child::ChildRow;
use eddy_wire::services::job::JobRow;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{
    Args, OVER_MAX, SHOWN, children, instance, is_to_come, over, question, stats, tell_stats,
};
use crate::array::Array;
use crate::field::{Format, Scene};
use crate::hints::with_path;
use crate::ids::Spelling;
use crate::listing::{Question, to_json};
use crate::names::Users;
use crate::session::Global;
use crate::table::{Table, escaped};
use crate::verbs::tree::gather::{Branch, Gatherer, Whose, title};
use crate::{output, when};

/// How long one instance may take to give its rows.
const ANSWER: Duration = Duration::from_secs(10);
/// Instances whose rows are on their way at the same time.
const ASKED_MAX: usize = 16;
/// So many instances of other users are named; it is told how many more there are.
const OTHERS_NAMED: usize = 8;
/// The columns where no others are asked for.
const FORMAT: &str = "{id:>12} {user:<8} {account:<8} {qos:<7} {class:<7} {queue:<8} {name:<12.32} \
                      {status_abbrev:>2} {ntasks:>6} {nnodes:>6} {contextual_time!F:>8} {contextual_info}";

/// One instance and its rows.
struct Part {
    path: String,
    /// How it is called elsewhere: its job's id and name.
    title: String,
    rows: Vec<JobRow>,
    children: BTreeMap<JobId, ChildRow>,
    /// Why it has none.
    why: Option<String>,
    /// Whether its rows are not here since those of others before it are as many as are shown.
    skipped: bool,
    /// Whether it may be asked.
    whose: Whose,
    /// What was named that nothing in it has.
    unknown: Option<String>,
}

impl Part {
    /// The paths of the declared instances in it, to which jobs were passed.
    fn queues(&self) -> impl Iterator<Item = String> {
        let declared = self.children.values().filter(|row| row.declared);
        declared.map(|row| match self.path.as_str() {
            "" => row.job.to_string(),
            path => format!("{path}/{}", row.job),
        })
    }
}

/// Lists them.
pub async fn run(global: &Global, client: Client, args: &Args, users: Users) -> anyhow::Result<u8> {
    let mut question = question(args, &[], &users)?;
    // What waits for a queue instance its parent tells.
    question.here = true;
    // One more than is shown, so that it is known whether there are more.
    question.limit = match (args.count, question.limit) {
        (Some(1..), limit) => limit.saturating_add(1),
        (_, limit) => limit,
    };
    let limit = match args.count {
        Some(0) => usize::MAX,
        Some(count) => count as usize,
        None => SHOWN as usize,
    };
    let gatherer = Gatherer::new(client, None);
    let tree = gatherer.look().await;
    let root = tree.place.clone();
    let mut asked = Vec::new();
    flatten(&tree, &root, &mut asked);
    let enough = match args.stats {
        true => usize::MAX,
        false => limit,
    };
    let mut parts = gathered(asked, question, enough).await;
    if let Some(unknown) = unknown_to_all(&parts) {
        bail!(unknown);
    }
    tell_once(&mut parts);
    parts
        .iter()
        .filter_map(not_shown)
        .for_each(|line| eprintln!("{line}"));
    if let Some(line) = of_others(&parts) {
        eprintln!("{line}");
    }
    let all: usize = parts.iter().map(|part| part.rows.len()).sum();
    let failed = parts.iter().any(|part| not_shown(part).is_some());
    if args.stats {
        let rows: Vec<JobRow> = parts.into_iter().flat_map(|part| part.rows).collect();
        tell_stats(args, stats(&rows))?;
        let active = rows.iter().any(is_to_come);
        return Ok(if active && !failed { 0 } else { output::FAILED });
    }
    let mut left = limit;
    for part in &mut parts {
        part.rows.truncate(left);
        left -= part.rows.len();
    }
    if all > limit {
        let more = all - limit;
        let beside = match parts.iter().filter(|part| part.skipped).count() {
            0 => String::new(),
            1 => " (one instance was not asked)".to_owned(),
            count => format!(" ({count} instances were not asked)"),
        };
        eprintln!(
            "eddy jobs: {limit} jobs are shown and at least {more} more are not{beside}: -c 0 shows all"
        );
    }
    let code = if failed { output::FAILED } else { 0 };
    match args.json {
        true => as_json(&parts, &users)?,
        false => {
            hint(global, &mut parts);
            as_table(parts, args, users)?;
        }
    }
    Ok(code)
}

/// What is said of one that could not be asked.
fn not_shown(part: &Part) -> Option<String> {
    let why = part.why.as_ref().filter(|_| part.whose == Whose::Open)?;
    let (name, why) = (name(part), escaped(why));
    Some(format!(
        "eddy jobs: the jobs of {name} are not shown: {why}"
    ))
}

/// What is said of those that nobody but their users may ask, in one line: there may be many, and nothing is wrong.
fn of_others(parts: &[Part]) -> Option<String> {
    let others = parts.iter().filter(|part| part.whose == Whose::Anothers);
    let names: Vec<String> = others.map(name).collect();
    if names.is_empty() {
        return None;
    }
    let (shown, more) = names.split_at(names.len().min(OTHERS_NAMED));
    let more = match more.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = shown.join(", ");
    Some(format!(
        "eddy jobs: what is in the instances of other users is not shown: {shown}{more}"
    ))
}

/// By its path, as ids stand in the table, and by its name: as other commands call it.
fn name(part: &Part) -> String {
    let spelling = Spelling::of_locale();
    let own = part.title.split_once(' ').map(|(_, name)| name);
    let text = match (part.path.as_str(), own) {
        ("", _) => part.title.clone(),
        (path, None) => spelling.path(path),
        (path, Some(name)) => format!("{} {name}", spelling.path(path)),
    };
    escaped(&text).into_owned()
}

/// The instances of a tree, those above before those inside.
fn flatten(branch: &Branch, root: &str, all: &mut Vec<(String, Branch)>) {
    let path = match (root, branch.path.as_str()) {
        ("", path) => path.to_owned(),
        (root, "") => root.to_owned(),
        (root, path) => format!("{root}/{path}"),
    };
    let mut own = branch.clone();
    own.children = Vec::new();
    all.push((path, own));
    for child in &branch.children {
        flatten(child, root, all);
    }
}

/// A job that was passed to a queue instance is its parent's, and told of there; also what it is as an instance.
fn tell_once(parts: &mut [Part]) {
    let mut theirs: Vec<(String, usize)> = Vec::new();
    for (parent, part) in parts.iter().enumerate() {
        theirs.extend(part.queues().map(|path| (path, parent)));
    }
    for (path, parent) in theirs {
        let ids: BTreeSet<JobId> = parts[parent].rows.iter().map(|row| row.id).collect();
        let Some(queue) = parts.iter_mut().find(|part| part.path == path) else {
            continue;
        };
        queue.rows.retain(|row| !ids.contains(&row.id));
        let (passed, own) = std::mem::take(&mut queue.children)
            .into_iter()
            .partition(|(job, _)| ids.contains(job));
        queue.children = own;
        parts[parent].children.extend::<BTreeMap<_, _>>(passed);
    }
}

/// What was named that no instance has that could be asked, by the first of them.
fn unknown_to_all(parts: &[Part]) -> Option<String> {
    let is_known = |part: &Part| part.why.is_some() || part.unknown.is_none();
    let first = parts.first().and_then(|part| part.unknown.clone());
    first.filter(|_| !parts.iter().any(is_known))
}

/// The rows of these. Once those of the first of them are more than `enough`, the others are not asked any more: what
/// nobody is shown is most of what there is.
async fn gathered(asked: Vec<(String, Branch)>, question: Question, enough: usize) -> Vec<Part> {
    let question = Arc::new(question);
    let permits = Arc::new(Semaphore::new(ASKED_MAX));
    let mut work = JoinSet::new();
    let mut parts: Vec<Part> = asked
        .iter()
        .map(|(path, branch)| skipped(path, branch))
        .collect();
    for (at, (path, branch)) in asked.into_iter().enumerate() {
        let (question, permits) = (Arc::clone(&question), Arc::clone(&permits));
        work.spawn(async move {
            let _permit = permits.acquire().await.expect("never closed");
            (at, part(path, &branch, &question).await)
        });
    }
    let mut first = First::default();
    while let Some(done) = work.join_next().await {
        let (at, part) = done.expect("no question panics");
        parts[at] = part;
        first.advance(&parts);
        if first.rows > enough {
            break;
        }
    }
    parts
}

/// How far the first instances have all answered.
#[derive(Default)]
struct First {
    /// So many have.
    parts: usize,
    /// Their rows, without those of queue instances, which their parents may tell, too.
    rows: usize,
    /// The paths of queue instances in them.
    queues: BTreeSet<String>,
}

impl First {
    fn advance(&mut self, parts: &[Part]) {
        let more = parts.iter().skip(self.parts);
        for part in more.take_while(|part| !part.skipped) {
            self.parts += 1;
            self.queues.extend(part.queues());
            if !self.queues.contains(&part.path) {
                self.rows += part.rows.len();
            }
        }
    }
}

/// One that was not asked yet.
fn skipped(path: &str, branch: &Branch) -> Part {
    Part {
        path: path.to_owned(),
        title: title(branch),
        rows: Vec::new(),
        children: BTreeMap::new(),
        why: branch.why.clone(),
        skipped: place(branch).is_some(),
        whose: branch.whose,
        unknown: None,
    }
}

/// Where it is asked; one that waits or begins has no jobs yet.
fn place(branch: &Branch) -> Option<&String> {
    branch.uri.as_ref().filter(|_| branch.reached)
}

async fn part(path: String, branch: &Branch, question: &Question) -> Part {
    let mut part = skipped(&path, branch);
    part.skipped = false;
    let Some(uri) = place(branch) else {
        return part;
    };
    let asked = tokio::time::timeout(ANSWER, async {
        let place: Uri = uri.parse()?;
        let client = Client::connect(&place, Options { wait: ANSWER }).await?;
        let rows = question.rows(&client).await?;
        let unknown = match rows.is_empty() {
            true => question.unknown(&client).await?,
            false => None,
        };
        let mut all = children(&client).await?;
        over(&client, &rows, (&mut all, OVER_MAX)).await?;
        anyhow::Ok((rows, all, unknown))
    });
    match asked.await {
        Ok(Ok(found)) => (part.rows, part.children, part.unknown) = found,
        Ok(Err(error)) => part.why = Some(output::one_line(&format!("{error:#}"))),
        Err(_) => part.why = Some(format!("no answer within {} s", ANSWER.as_secs())),
    }
    part
}

/// Commands that reasons name lead to the instance that says so, by its path from the root, and jobs are named as the
/// rows are.
fn hint(global: &Global, parts: &mut [Part]) {
    let spelling = Spelling::of_locale();
    for part in parts.iter_mut() {
        let path = (!part.path.is_empty()).then(|| format!("/{}", spelling.path(&part.path)));
        for row in &mut part.rows {
            row.reason = global.hinted_in(&row.reason, path.as_deref());
            if !part.path.is_empty() {
                row.reason = with_path(&row.reason, &spelling.path(&part.path));
            }
        }
    }
}

fn as_json(parts: &[Part], users: &Users) -> anyhow::Result<()> {
    let mut array = Array::to(output::stdout());
    for part in parts {
        for row in &part.rows {
            let mut object = to_json(row, users);
            object["path"] = json!(part.path);
            object["instance"] = part.children.get(&row.id).map_or(Value::Null, instance);
            array.put(&object)?;
        }
    }
    Ok(array.end()?)
}

fn as_table(parts: Vec<Part>, args: &Args, users: Users) -> anyhow::Result<()> {
    let format = match args.format.as_str() {
        "default" => FORMAT,
        given => given,
    };
    let format = Format::parse(format)?;
    let mut scene = Scene {
        users,
        now: when::now(),
        spelling: Spelling::of_locale(),
        children: BTreeMap::new(),
        path: None,
    };
    let mut lines: Vec<String> = Vec::new();
    let mut table = match &format {
        Format::Columns(columns) => Some(Table::new(
            columns.iter().map(|(title, align, _)| (*title, *align)),
        )),
        Format::Template(template) => {
            lines.extend((!args.no_header).then(|| template.heading()));
            None
        }
    };
    for part in parts {
        (scene.children, scene.path) = (part.children, Some(part.path));
        for row in &part.rows {
            match (&format, &mut table) {
                (Format::Columns(columns), Some(table)) => {
                    let cells = columns.iter().map(|(_, _, shown)| shown.cell(row, &scene));
                    table.push(cells.collect());
                }
                (Format::Template(template), _) => lines.push(template.row(row, &scene)),
                (Format::Columns(_), None) => {}
            }
        }
    }
    match table {
        None => output::lines(lines)?,
        Some(table) if args.no_header => table.write_rows(&mut output::stdout())?,
        Some(table) => table.write(&mut output::stdout())?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use eddy_wire::services::child::{Stage, Summary};

    use super::*;
    use crate::field::tests::row;

    fn part(path: &str, rows: usize) -> Part {
        Part {
            path: path.to_owned(),
            title: path.to_owned(),
            rows: vec![row(); rows],
            children: BTreeMap::new(),
            why: None,
            skipped: false,
            whose: Whose::Open,
            unknown: None,
        }
    }

    fn not_asked(path: &str) -> Part {
        Part {
            skipped: true,
            ..part(path, 0)
        }
    }

    fn queue_instance(job: u64) -> (JobId, ChildRow) {
        let row = ChildRow {
            job: JobId(job),
            name: "batch".to_owned(),
            instance: None,
            uri: None,
            statedir: None,
            stage: Stage::Serving,
            nnodes: 1,
            ncores: 1,
            queues: vec!["batch".to_owned()],
            declared: true,
            until: None,
            summary: Summary::default(),
        };
        (JobId(job), row)
    }

    #[test]
    fn only_those_before_one_that_did_not_answer_yet_count() {
        let mut parts = vec![not_asked(""), part("1", 5), not_asked("2"), part("3", 2)];
        let mut first = First::default();
        first.advance(&parts);
        assert_eq!((first.parts, first.rows), (0, 0));
        parts[0] = part("", 2);
        first.advance(&parts);
        assert_eq!((first.parts, first.rows), (2, 7));
        parts[2] = part("2", 1);
        first.advance(&parts);
        assert_eq!((first.parts, first.rows), (4, 10));
    }

    /// Its parent has told of some of them.
    #[test]
    fn rows_of_a_queue_instance_are_not_counted() {
        let mut root = part("", 2);
        root.children = [queue_instance(1)].into();
        let mut first = First::default();
        first.advance(&[root, part("1", 5), part("1/4", 3), part("2", 1)]);
        assert_eq!((first.parts, first.rows), (4, 6));
    }
}
