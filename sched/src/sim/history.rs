//! What an instance has recorded, as a workload and as a schedule of its own.
//!
//! The command line reads the records (or the rows that `eddy jobs` printed) and
//! makes a [`PastRun`] of each job that ran; this makes of them what replays and
//! measures take. It reads no journal.

use eddy_wire::jobspec::Request;
use eddy_wire::time::{Span, Time};
use serde::Deserialize;

use super::json::shape_error;
use super::machine::Machine;
use super::replay::Course;
use super::workload::{
    Owner, Places, SimJob, Terms, UNKNOWN, Workload, WorkloadError, instant, twice,
};

/// A job that was started, as it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRun {
    /// Its number.
    pub id: u64,
    /// From when on it could have started: submitted, not held, nothing to wait for.
    pub since: Time,
    /// When it got its cores.
    pub start: Time,
    /// When they were free again; `None` if it has them still.
    pub end: Option<Time>,
    /// How long it asked for.
    pub limit: Option<Span>,
    /// Its cores.
    pub procs: u64,
    /// Over how many nodes it was to be spread, where it asked for that.
    pub nodes: Option<u64>,
    /// The nodes that it had, and its cores on each.
    pub ranks: Vec<(u32, u64)>,
    /// What it asked of nodes, where that is recorded.
    pub request: Option<Request>,
    /// Whose it was.
    pub owner: Owner,
    /// What else it said.
    pub terms: Terms,
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// Jobs that were started and had cores.
    pub runs: Vec<PastRun>,
    /// Jobs that were not, or had none.
    pub left_out: u64,
    /// The last time that anything is known of.
    pub last: Time,
}

impl Owner {
    /// A user of a group, or of none.
    pub fn new(group: Option<&str>, user: &str) -> Owner {
        // It parts groups from users where shares are given.
        let clean = |name: &str| name.replace('/', ":");
        Owner {
            group: clean(group.unwrap_or(UNKNOWN)),
            user: clean(user),
        }
    }
}

impl Past {
    /// The jobs as a workload. What runs still has run until the last time that is known, and a job
    /// that had its cores longer than it asked for (its start and its end take time) is planned
    /// with what it had.
    ///
    /// # Errors
    /// [`WorkloadError::Twice`] for a job that is there twice.
    pub fn workload(&self) -> Result<Workload, WorkloadError> {
        let (mut owners, mut terms) = (Places::default(), Places::default());
        let jobs = self.runs.iter().map(|run| {
            let span = Span((run.end.unwrap_or(self.last) - run.start).0.max(0));
            SimJob {
                id: run.id,
                submit: run.since.min(run.start),
                procs: run.procs.max(1),
                nodes: run.nodes,
                run: span,
                limit: run.limit.map(|limit| limit.max(span)),
                owner: owners.place(run.owner.clone()),
                terms: terms.place(run.terms.clone()),
            }
        });
        let jobs: Vec<SimJob> = jobs.collect();
        match twice(&jobs) {
            Some(id) => Err(WorkloadError::Twice(id)),
            None => Ok(Workload {
                jobs,
                requests: match self.runs.iter().any(|run| run.request.is_some()) {
                    true => self.runs.iter().map(|run| run.request.clone()).collect(),
                    false => Vec::new(),
                },
                dropped: self.left_out,
                owners: owners.list(),
                terms: terms.list(),
                ..Workload::default()
            }),
        }
    }

    /// What happened, in the order of the workload's jobs. Who passed whom and how often was planned
    /// is not recorded: both are 0.
    pub fn course(&self, machine: &Machine) -> Course {
        let part = |(rank, cores): &(u32, u64)| Some((machine.seat(*rank)?, *cores));
        let nodes = |run: &PastRun| run.ranks.iter().filter_map(part).collect();
        Course {
            starts: self.runs.iter().map(|run| Some(run.start)).collect(),
            max_queue: self.longest_queue(),
            nodes: match machine.nodes().is_empty() {
                true => Vec::new(),
                false => self.runs.iter().map(nodes).collect(),
            },
            ..Course::default()
        }
    }

    /// The most that waited at once; one that starts at an instant waits no longer.
    fn longest_queue(&self) -> u64 {
        let steps = self.runs.iter().filter(|run| run.since < run.start);
        let steps = steps.flat_map(|run| [(run.since, 1), (run.start, -1)]);
        let mut steps: Vec<(Time, i64)> = steps.collect();
        steps.sort_unstable();
        let (mut waiting, mut most) = (0, 0);
        for (_, step) in steps {
            waiting += step;
            most = most.max(waiting);
        }
        u64::try_from(most).unwrap_or(0)
    }
}

/// What is read of a row of `eddy jobs --json`; its other fields do not matter here.
#[derive(Deserialize)]
struct Row {
    id: u64,
    user: Option<String>,
    userid: u32,
    #[serde(default)]
    account: String,
    #[serde(default)]
    qos: String,
    #[serde(default)]
    class: String,
    #[serde(default)]
    queue: String,
    urgency: u8,
    ncores: u64,
    duration: Option<f64>,
    t_submit: f64,
    t_alloc: Option<f64>,
    t_finish: Option<f64>,
    t_inactive: Option<f64>,
}

/// Reads the array that `eddy jobs -a --json` prints. A row does not know since when its job could
/// have started: its wait counts from its submission.
///
/// # Errors
/// [`WorkloadError`] names the line, or the job and the field.
pub fn read_rows(text: &[u8]) -> Result<Past, WorkloadError> {
    let rows = serde_json::from_slice(text);
    let rows: Vec<Row> = rows.map_err(|error| shape_error(text, &error))?;
    let mut past = Past::default();
    for row in &rows {
        match run(row, &mut past.last)? {
            Some(run) => past.runs.push(run),
            None => past.left_out += 1,
        }
    }
    Ok(past)
}

fn run(row: &Row, last: &mut Time) -> Result<Option<PastRun>, WorkloadError> {
    let seconds = |field, given: Option<f64>| match given {
        None => Ok(None),
        Some(given) => match instant(given) {
            Some(time) => Ok(Some(time)),
            None => Err(WorkloadError::Number {
                id: row.id,
                field,
                given: given.to_string(),
                allowed: "0 to 1e12 s",
            }),
        },
    };
    let since = seconds("t_submit", Some(row.t_submit))?;
    let start = seconds("t_alloc", row.t_alloc)?;
    let finish = seconds("t_finish", row.t_finish)?;
    let end = seconds("t_inactive", row.t_inactive)?.or(finish);
    let limit = seconds("duration", row.duration)?;
    let known = [since, start, end].into_iter().flatten();
    *last = known.fold(*last, Time::max);
    let (Some(since), Some(start), 1..) = (since, start, row.ncores) else {
        return Ok(None);
    };
    let user = row.user.clone().unwrap_or_else(|| row.userid.to_string());
    let given = |name: &String| (!name.is_empty()).then(|| name.clone());
    Ok(Some(PastRun {
        id: row.id,
        since,
        start,
        end,
        limit: limit.map(|limit| limit - Time(0)),
        procs: row.ncores,
        nodes: None,
        ranks: Vec::new(),
        request: None,
        owner: Owner::new(given(&row.account).as_deref(), &user),
        terms: Terms {
            queue: row.queue.clone(),
            qos: given(&row.qos),
            class: given(&row.class),
            urgency: row.urgency,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = r#"[
        {"id": 3, "userid": 1000, "user": "ann", "account": "lab", "urgency": 16, "ncores": 2, "duration": 60.0, "queue": "",
         "t_submit": 10.0, "t_alloc": 12.5, "t_finish": 20.0, "t_inactive": 20.5, "name": "more"},
        {"id": 2, "userid": 7, "urgency": 16, "ncores": 1, "t_submit": 11.0, "t_alloc": 12.0},
        {"id": 4, "userid": 7, "urgency": 0, "ncores": 1, "t_submit": 30.0, "t_alloc": null}]"#;

    #[test]
    fn rows_are_runs_with_what_they_held_and_for_how_long() {
        let past = read_rows(ROWS.as_bytes()).expect("rows");
        let workload = past.workload().expect("a workload");
        let spans: Vec<(i64, i64, Option<i64>)> = workload
            .jobs
            .iter()
            .map(|job| (job.submit.0, job.run.0, job.limit.map(|limit| limit.0)))
            .collect();
        // The second runs still: until the last that is known, which is the third's submission.
        assert_eq!(
            spans,
            [
                (10_000_000, 8_000_000, Some(60_000_000)),
                (11_000_000, 18_000_000, None)
            ]
        );
        assert_eq!(workload.dropped, 1);
        let names: Vec<String> = workload.owners.iter().map(Owner::name).collect();
        assert_eq!(names, ["lab/ann", "7"]);
        let course = past.course(&Machine::count(4));
        assert_eq!(course.starts[0], Some(Time(12_500_000)));
        assert_eq!(course.max_queue, 2);
    }

    #[test]
    fn a_job_that_overran_its_limit_is_planned_with_what_it_had() {
        let text = ROWS.replace("60.0", "5.0");
        let past = read_rows(text.as_bytes()).expect("rows");
        let workload = past.workload().expect("a workload");
        assert_eq!(workload.jobs[0].limit, Some(Span::seconds(8)));
        assert_eq!(workload.jobs[0].runs(), Span::seconds(8));
    }

    #[test]
    fn what_are_no_rows_is_refused_by_line_or_by_field() {
        let said = |text: &str| {
            let past = read_rows(text.as_bytes());
            let workload = past.and_then(|past| past.workload());
            workload.expect_err("no rows").to_string()
        };
        assert!(said("[\n{\"id\": 1}]").starts_with("workload: line 2: missing field"));
        assert!(
            said(&ROWS.replace("12.5", "\"soon\""))
                .starts_with("workload: line 3: t_alloc: invalid type: string \"soon\"")
        );
        assert_eq!(
            said(&ROWS.replace("12.5", "-3")),
            "workload: job 3: t_alloc: -3; allowed is 0 to 1e12 s"
        );
        assert_eq!(
            said(&ROWS.replace("\"id\": 2", "\"id\": 3")),
            "workload: job 3 is given twice"
        );
    }
}
