//! Which jobs were replayed of whose jobspecs a text is lost, and what becomes of them.
//!
//! Folded by replay, told by a start that recovers. What they are owed the manager says.

use std::collections::BTreeMap;

use eddy_modules::settings::Damage;
use eddy_wire::event::{Event, Kind};
use eddy_wire::id::JobId;

/// So many jobs are named in each part of the line.
const SHOWN: usize = 8;

/// Such jobs.
#[derive(Debug, Default)]
pub struct Lost {
    jobs: BTreeMap<JobId, Stage>,
}

/// How far one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waits,
    Runs,
    Over,
}

impl Lost {
    /// Folds one more record.
    pub fn apply(&mut self, event: &Event) {
        let Some(job) = event.job else { return };
        if let Kind::Submit(submit) = &event.kind
            && submit.spec.is_lost()
        {
            self.jobs.insert(job, Stage::Waits);
        }
        let Some(stage) = self.jobs.get_mut(&job) else {
            return;
        };
        match &event.kind {
            Kind::Alloc(_) => *stage = Stage::Runs,
            Kind::Requeue(_) => *stage = Stage::Waits,
            // One that waits holds nothing, so that it is as good as over.
            Kind::Exception(exception) if exception.severity == 0 && *stage == Stage::Waits => {
                *stage = Stage::Over;
            }
            kind if matches!(kind, Kind::Clean) || kind.implied() == Some(Kind::Clean) => {
                *stage = Stage::Over;
            }
            _ => {}
        }
    }

    /// What whoever asked to recover is told of them: a line, if there are any. It is in the log, too.
    pub fn told(&self, damage: Damage) -> Vec<String> {
        let line = match damage {
            Damage::Cut => self.line(),
            Damage::Refuse => None,
        };
        line.iter().for_each(|line| tracing::warn!("{line}"));
        line.into_iter().collect()
    }

    fn line(&self) -> Option<String> {
        let all = match self.jobs.len() {
            0 => return None,
            1 => "the text of the jobspec of 1 job is damaged and lost".to_owned(),
            many => format!("the texts of the jobspecs of {many} jobs are damaged and lost"),
        };
        let parts = [
            (Stage::Over, "over and listed as they are recorded"),
            (Stage::Waits, "waiting, which are ended as `jobspec-lost`"),
            (
                Stage::Runs,
                "running, which go on and have no time limit but one that was changed",
            ),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter_map(|(stage, what)| self.part(stage, what))
            .collect();
        Some(format!("{all}: {}", parts.join("; ")))
    }

    fn part(&self, stage: Stage, what: &str) -> Option<String> {
        let jobs = self.jobs.iter().filter(|(_, of)| **of == stage);
        let jobs: Vec<String> = jobs.map(|(job, _)| job.f58_ascii()).collect();
        let shown = jobs.get(..SHOWN).unwrap_or(&jobs).join(", ");
        let more = match jobs.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!jobs.is_empty()).then(|| format!("{} {what} ({shown}{more})", jobs.len()))
    }
}
