//! Whether the end of a job meets what another waits for.

use eddy_broker::EndedBy;
use eddy_wire::job::Job;
use eddy_wire::jobspec::After;
use eddy_wire::lifecycle::JobResult;
use eddy_wire::services::job::JobRow;

/// Whether something is met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Met {
    /// It is.
    Yes,
    /// Not yet.
    Open,
    /// It never can be: this is why, in words that go on from what was waited for.
    Never(String),
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It had resources: its result, whether its tasks started, whether an exception ended it.
    Ran(JobResult, Began, Ended),
    /// It never had resources.
    NeverRan,
    /// It is over for so long that nobody knows.
    Forgotten,
}

/// Whether its tasks started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Began {
    /// They did.
    Yes,
    /// They did not.
    No,
}

/// What ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Its tasks.
    ByItself,
    /// An exception.
    ByException,
}

impl End {
    /// Of a job that is over.
    pub fn of_job(job: &Job) -> End {
        let parts = (job.t_alloc.is_some(), job.started.is_some());
        End::of(parts, job.result(), job.end.is_some())
    }

    /// Of its row.
    pub fn of_row(row: &JobRow) -> End {
        let parts = (row.t_alloc.is_some(), row.t_run.is_some());
        // The reason of a job that is over is the exception that ended it.
        End::of(parts, row.result, !row.reason.is_empty())
    }

    /// Of a job in an instance, which tells no more of it.
    pub fn heard(result: JobResult, by: EndedBy) -> End {
        let ended = match by {
            EndedBy::Itself => Ended::ByItself,
            EndedBy::Exception => Ended::ByException,
        };
        End::Ran(result, Began::Yes, ended)
    }

    fn of((ran, started): (bool, bool), result: Option<JobResult>, excepted: bool) -> End {
        let began = match started {
            true => Began::Yes,
            false => Began::No,
        };
        let ended = match excepted {
            true => Ended::ByException,
            false => Ended::ByItself,
        };
        match ran {
            true => End::Ran(result.unwrap_or(JobResult::Failed), began, ended),
            false => End::NeverRan,
        }
    }
}

/// Whether that end meets what is waited for: as in Flux only `after any` takes a job that never ran.
pub fn judged(after: After, end: End) -> Met {
    let (result, began, ended) = match (after, end) {
        (After::Any, _) => return Met::Yes,
        (_, End::NeverRan) => return Met::Never("which ended and never ran".to_owned()),
        (_, End::Forgotten) => {
            return Met::Never("which is over for so long that its end is not known".to_owned());
        }
        (_, End::Ran(result, began, ended)) => (result, began, ended),
    };
    let is_met = match after {
        After::Any => true,
        After::Start => began == Began::Yes,
        After::Ok => result == JobResult::Completed,
        After::NotOk => result != JobResult::Completed,
        After::Except => ended == Ended::ByException,
    };
    match is_met {
        true => Met::Yes,
        false => Met::Never(format!("which {}", words(result))),
    }
}

fn words(result: JobResult) -> &'static str {
    match result {
        JobResult::Completed => "ended well",
        JobResult::Failed => "failed",
        JobResult::Canceled => "was cancelled",
        JobResult::Timeout => "reached its time limit",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_meets_what_its_word_says() {
        use JobResult::{Canceled, Completed, Failed, Timeout};
        let well = End::Ran(Completed, Began::Yes, Ended::ByItself);
        let failed = End::Ran(Failed, Began::Yes, Ended::ByItself);
        let late = End::Ran(Timeout, Began::Yes, Ended::ByException);
        let unborn = End::Ran(Canceled, Began::No, Ended::ByException);
        let ends = [well, failed, late, unborn, End::NeverRan, End::Forgotten];
        let meets = |after| {
            let met = ends.map(|end| judged(after, end) == Met::Yes);
            met.map(|met| if met { 'y' } else { '-' })
                .iter()
                .collect::<String>()
        };
        assert_eq!(meets(After::Start), "yyy---");
        assert_eq!(meets(After::Any), "yyyyyy");
        assert_eq!(meets(After::Ok), "y-----");
        assert_eq!(meets(After::NotOk), "-yyy--");
        assert_eq!(meets(After::Except), "--yy--");
    }
}
