//! The end of jobs that cannot begin any more, since a text of their jobspec is lost: the journal was damaged, and
//! its recovery found no other copy (`eddy_wire::spec::Texts`).

use eddy_wire::event::{Exception, Kind, Submit};
use eddy_wire::spec::LOST;

use crate::sched::BOUNCE;

/// The type of the exception.
const JOBSPEC_LOST: &str = "jobspec-lost";

/// Ends one. What the parent passed goes back to it: the parent has its text, and passes it again.
pub(super) fn given_up(submit: &Submit) -> Kind {
    let is_known_above = submit.pass.is_some() && !submit.is_taken_here();
    let kind = match is_known_above {
        true => BOUNCE,
        false => JOBSPEC_LOST,
    };
    Kind::Exception(Box::new(Exception {
        kind: kind.to_owned(),
        severity: 0,
        note: LOST.to_owned(),
        userid: None,
        until: None,
    }))
}
