//! What the wide job is promised, and whether that is kept.
//!
//! Called by `show` at each of its looks until the job has begun. It is the first in turn, so it
//! has a reservation, which is only ever moved earlier: the scheduler keeps cores free for it
//! although others wait that would fit.

use anyhow::{Context, ensure};
use eddy_client::Client;
use eddy_wire::id::JobId;
use eddy_wire::services::job::{JobRow, JobSet};
use eddy_wire::time::{Span, Time};

use super::work::WIDTH;
use crate::explained::explained;
use crate::listing::{Filter, Question};

/// The wide job's claim.
pub struct Claim {
    job: JobId,
    stage: Stage,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing was promised yet.
    Unheard,
    /// It begins then at the latest.
    Promised(Time),
    /// It has begun.
    Begun,
}

impl Claim {
    /// Of this job, of which nothing is known yet.
    pub fn of(job: JobId) -> Claim {
        Claim {
            job,
            stage: Stage::Unheard,
        }
    }

    /// What is new.
    ///
    /// # Errors
    /// It began later than it was promised.
    pub async fn look(&mut self, client: &Client) -> anyhow::Result<Option<String>> {
        match self.stage {
            Stage::Begun => Ok(None),
            Stage::Promised(latest) => self.begun(client, Some(latest)).await,
            Stage::Unheard => match self.promised(client).await? {
                None => self.begun(client, None).await,
                told => Ok(told),
            },
        }
    }

    /// Whether the job has begun.
    pub fn is_settled(&self) -> bool {
        self.stage == Stage::Begun
    }

    async fn promised(&mut self, client: &Client) -> anyhow::Result<Option<String>> {
        let reply = explained(client, Some(JobSet::one(self.job))).await?;
        // Whoever is not the first is told what is likely, which promises nothing.
        let first = reply.jobs.into_iter().find(|one| one.ahead == 0);
        let Some((latest, reason)) = first.and_then(|one| Some((one.start?.latest?, one.reason)))
        else {
            return Ok(None);
        };
        self.stage = Stage::Promised(latest);
        let row = self.row(client).await?;
        Ok(Some(format!(
            "the wide job {reason}; it is promised to begin {:.1} s after it came, at the latest",
            seconds(latest - row.t_submit)
        )))
    }

    async fn begun(
        &mut self,
        client: &Client,
        promised: Option<Time>,
    ) -> anyhow::Result<Option<String>> {
        let row = self.row(client).await?;
        let Some(began) = row.t_alloc else {
            return Ok(None);
        };
        self.stage = Stage::Begun;
        let waited = seconds(began - row.t_submit);
        let Some(latest) = promised else {
            return Ok(Some(format!(
                "the wide job found {WIDTH} cores free and began after {waited:.2} s, before anything was promised"
            )));
        };
        let early = seconds(latest - began);
        ensure!(
            early >= 0.0,
            "a promise is broken: the wide job began {:.2} s later than it was promised",
            -early
        );
        Ok(Some(format!(
            "the wide job has begun {waited:.2} s after it came, {early:.2} s before the time that was promised: \
             its claim was kept"
        )))
    }

    async fn row(&self, client: &Client) -> anyhow::Result<JobRow> {
        let question = Question {
            filter: Filter::all(),
            jobs: JobSet::one(self.job),
            ..Question::default()
        };
        let rows = question.rows(client).await?;
        let row = rows.into_iter().next();
        row.with_context(|| format!("a promise is broken: job {} is lost", self.job))
    }
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / 1e6
}
