//! What a user who is told of his own jobs alone hears of others in what he is told of his: that there was one, and
//! no number of it.
//!
//! Used by each answer of the list: rows, ends, event logs. What is recorded stays as it is, and whoever may know of
//! all jobs reads it so. It decides nothing about whose jobs somebody is shown ([`crate::sight`]).

use eddy_wire::id::JobId;
use eddy_wire::json::to_string as json;
use eddy_wire::services::job::{Ended, EventsLine, JobEnd, JobRow};
use serde_json::{Map, Value};

use super::View;

/// Before the number of the job that another was taken from for, in the note of that.
const FOR_JOB: &str = "preempted for job ";
/// The key of that number.
const BY: &str = "by";

/// Before whom what is kept back.
pub(super) struct Veil<'v> {
    view: &'v View,
    /// The user whose jobs alone are shown.
    only: Option<u32>,
}

impl<'v> Veil<'v> {
    /// For who is shown the jobs of this user alone, or all.
    pub(super) fn new(view: &'v View, only: Option<u32>) -> Veil<'v> {
        Veil { view, only }
    }

    /// Of one that is over and let go nobody knows here whose it was: that is none of his.
    fn hides(&self, job: JobId) -> bool {
        let user = || self.view.jobs.get(&job).map(|job| job.submit.user);
        self.only.is_some() && user() != self.only
    }

    pub(super) fn row(&self, row: JobRow) -> JobRow {
        if self.only.is_none() {
            return row;
        }
        let mut gives = row.gives;
        for one in &mut gives {
            one.by = one.by.filter(|by| !self.hides(*by));
        }
        let exception = row.exception.map(|ended| Ended {
            note: self.text(ended.note),
            ..ended
        });
        JobRow {
            exception,
            reason: self.text(row.reason),
            preempted: row.preempted.filter(|one| !self.hides(one.preemption.by)),
            gives,
            ..row
        }
    }

    pub(super) fn end(&self, end: JobEnd) -> JobEnd {
        JobEnd {
            exception: end.exception.map(|text| self.text(text)),
            ..end
        }
    }

    pub(super) fn lines(&self, lines: Vec<EventsLine>) -> Vec<EventsLine> {
        match self.only {
            None => lines,
            Some(_) => lines.into_iter().map(|line| self.line(line)).collect(),
        }
    }

    fn line(&self, line: EventsLine) -> EventsLine {
        if !matches!(line.name.as_str(), "preempted" | "shrink" | "exception") {
            return line;
        }
        let context = line.context.as_ref();
        let context = context.and_then(|raw| serde_json::from_str(raw.get()).ok());
        let Some(mut context): Option<Map<String, Value>> = context else {
            return line;
        };
        let by = context.get(BY).and_then(Value::as_u64).map(JobId);
        if by.is_some_and(|by| self.hides(by)) {
            context.remove(BY);
        }
        if let Some(Value::String(note)) = context.get_mut("note") {
            *note = self.text(std::mem::take(note));
        }
        EventsLine {
            context: EventsLine::raw(json(&context)),
            ..line
        }
    }

    fn text(&self, text: String) -> String {
        let named = || {
            let (before, rest) = text.split_once(FOR_JOB)?;
            let (job, why) = rest.split_once(':')?;
            self.hides(job.parse().ok()?).then_some((before, why))
        };
        match named() {
            Some((before, why)) => format!("{before}preempted for another user's job:{why}"),
            None => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use eddy_wire::event::{Entry, Event, Kind, Record, Requeue, Submit, Waitable};
    use eddy_wire::id::{Attempt, Seq};
    use eddy_wire::jobspec::Ask;
    use eddy_wire::preempt::{Cause, Mode, Preempted, Preemption};
    use eddy_wire::spec::Spec;
    use eddy_wire::time::Time;

    use super::*;

    const ANN: u32 = 7;

    /// Job 3 is Ann's, job 4 another's.
    fn view() -> View {
        let mut view = View::default();
        for (job, user) in [(3, ANN), (4, ANN + 1)] {
            let ask = Ask {
                command: vec!["true".to_owned()],
                ..Ask::default()
            };
            let spec = Spec::from_jobspec(ask.jobspec().expect("a jobspec")).expect("a spec");
            let submit = Submit {
                user,
                urgency: 16,
                waitable: Waitable::No,
                requeue: Requeue::No,
                key: uuid::Uuid::nil(),
                index: 0,
                count: 1,
                cc: None,
                asked_by: None,
                party: Default::default(),
                sent: None,
                filtered: None,
                spec: Arc::new(spec),
                pass: None,
                taken_in: None,
                entry: Entry::New,
            };
            view.fold(&Record {
                seq: Seq(job),
                event: Event {
                    t: Time(0),
                    job: Some(JobId(job)),
                    kind: Kind::Submit(Arc::new(submit)),
                },
            });
        }
        view
    }

    fn taken_for(by: u64) -> Preemption {
        Preemption {
            by: JobId(by),
            until: Time(9),
            cause: Cause::Urgency,
            mode: Mode::Cancel,
            grace: 5,
            why: "QoS high preempts QoS low".to_owned(),
        }
    }

    #[test]
    fn a_log_names_no_job_of_another_user_and_his_own() {
        let view = view();
        let raised = |by| format!("{{\"note\":\"{}\",\"severity\":0}}", taken_for(by).note());
        let line = |name: &str, context: String| EventsLine {
            seq: Seq(1),
            timestamp: Time(0),
            name: name.to_owned(),
            context: EventsLine::raw(context),
        };
        let log = |by| {
            let preempted = json(&taken_for(by));
            vec![line("preempted", preempted), line("exception", raised(by))]
        };
        let read = |only, by| {
            let lines = Veil::new(&view, only).lines(log(by));
            let text = lines.iter().filter_map(|line| line.context.as_ref());
            text.map(|raw| raw.get().to_owned()).collect::<String>()
        };
        for (only, by) in [(None, 4), (Some(ANN), 3)] {
            let text = read(only, by);
            assert!(text.contains(&format!("\"by\":{by}")), "{text}");
            assert!(text.contains(&format!("for job f{}:", by + 1)), "{text}");
        }
        // And none that is over, of which it is not known here whose it was.
        for by in [4, 5] {
            let text = read(Some(ANN), by);
            assert!(
                !text.contains("\"by\"") && !text.contains("for job"),
                "{text}"
            );
            let note = "preempted for another user's job: QoS high preempts QoS low";
            assert!(text.contains(note), "{text}");
        }
    }

    #[test]
    fn a_row_and_an_end_name_no_job_of_another_user() {
        let view = view();
        let of = |by| {
            let mut row = crate::row::row(&view.jobs[&JobId(3)], String::new());
            row.reason = format!("cancel: {}", taken_for(by).note());
            row.preempted = Some(Preempted {
                attempt: Attempt(1),
                t: Time(0),
                preemption: taken_for(by),
            });
            row
        };
        let veil = Veil::new(&view, Some(ANN));
        assert_eq!(veil.row(of(3)), of(3));
        let row = veil.row(of(4));
        assert_eq!(row.preempted, None);
        let reason = "cancel: preempted for another user's job: QoS high preempts QoS low";
        assert_eq!(row.reason, reason);
        let end = veil.end(crate::row::end_of_row(&of(4)));
        assert_eq!(end.exception.as_deref(), Some(reason));
    }
}
