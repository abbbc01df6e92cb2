//! Jobs that run in instances of this one: their shells are those instances'.
//!
//! What becomes of them says `nest`; here is what a person may do to their tasks, and what a change of
//! their grant must follow.

use eddy_broker::{Notice, Outbox, Request};
use eddy_wire::event::Kind;
use eddy_wire::grant::Grant;
use eddy_wire::id::JobId;
use eddy_wire::jobspec::Work;
use eddy_wire::services::job::Changed;
use eddy_wire::suspension::{Standing, Suspension};
use eddy_wire::time::Time;

use super::Exec;
use super::kill::{OTHERS, SIGCONT, SUSPENDED, note, refuse, unheard};

/// One of them.
pub(super) struct Away {
    /// The instance that it was passed to.
    to: String,
    work: Work,
    suspension: Suspension,
    life: Life,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Goes,
    Ends,
}

impl Away {
    pub(super) fn new(to: String, work: Work) -> Away {
        Away {
            to,
            work,
            suspension: Suspension::default(),
            life: Life::Goes,
        }
    }

    pub(super) fn apply(&mut self, t: Time, kind: &Kind) {
        self.suspension.apply(t, kind);
        match kind {
            Kind::Exception(exception) if exception.severity == 0 => self.life = Life::Ends,
            kind if kind.finish().is_some() => self.life = Life::Ends,
            _ => {}
        }
    }

    /// Whether a change of its grant still means what it did when it was proposed: tasks stop or go on, an
    /// instance returns nodes.
    pub(super) fn is_followed_by(&self, grant: &Grant) -> bool {
        let follows = match self.work {
            Work::Tasks => self.suspension.is_followed_by(grant),
            Work::Instance { .. } | Work::Ground { .. } => {
                let held = self.suspension.grant();
                held.is_some_and(|held| grant.epoch == held.epoch.next())
            }
        };
        self.life == Life::Goes && follows
    }
}

impl Exec {
    /// Signals to jobs that run in instances of this one: those tell them to their tasks.
    pub(super) fn kill_away(
        &self,
        (first, last): (JobId, JobId),
        (now, request, signal): (Time, &Request, i32),
        changed: &mut Changed,
        out: &mut Outbox,
    ) {
        let away = self.away.range(first..=last);
        for (id, away) in away.filter(|(id, _)| self.is_seen(**id, request.sender())) {
            let submit = self.submit_of(*id);
            let user = submit.map(|submit| submit.user);
            let is_suspended = away.suspension.standing() != Standing::Runs;
            if user.is_none_or(|user| !request.sender().may_act_for(user)) {
                refuse(changed, *id, OTHERS);
            } else if signal == SIGCONT && is_suspended && away.life == Life::Goes {
                refuse(changed, *id, SUSPENDED);
            } else if let Some(why) = submit.and_then(unheard) {
                refuse(changed, *id, why);
            } else if !self.serving.contains(&away.to) {
                let why = format!("queue instance {} is not reached", away.to);
                refuse(changed, *id, &why);
            } else {
                if let Some(user) = user {
                    note(now, (*id, user), (request, signal), out);
                }
                out.notice(Notice::Signal(*id, signal));
                changed.count += 1;
            }
        }
    }
}
