//! The order of a job's events as RFC 21 has it, told independently of the product's own table.

use std::sync::Arc;

use eddy_wire::event::{Entry, Final, Kind, Pass, Submit};
use eddy_wire::id::Attempt;

/// What has been seen of one job, so far as order goes.
#[derive(Clone, Debug, Default)]
pub struct Order {
    life: Life,
    attempt: u32,
    queued: Seen,
    alloc: Seen,
    start: Seen,
    finish: Seen,
    fatal: Seen,
    cancel: Seen,
    release: Seen,
    free: Seen,
    waited: Seen,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    No,
    Yes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Life {
    #[default]
    Unborn,
    Submitted,
    Validated,
    Depended,
    Over,
}

impl Order {
    /// Takes the next event; the sentence of the rule it breaks, if it does.
    pub fn take(&mut self, kind: &Kind) -> Result<(), &'static str> {
        match (self.life, kind) {
            (Life::Unborn, Kind::Submit(submit)) => self.begin(submit),
            // Its parent passes it down once more, in another attempt, and knows how this one ended.
            (Life::Over, Kind::Submit(submit)) if submit.pass.is_some() => {
                need(self.waited, "`submit` before the parent knew of the end")?;
                let before = self.attempt;
                *self = Order::default();
                self.begin(submit);
                if self.attempt <= before {
                    return Err("passed down twice in one attempt");
                }
            }
            (Life::Unborn, _) => return Err("the first event is not `submit`"),
            (_, Kind::Submit(_)) => return Err("`submit` a second time"),
            (Life::Submitted, Kind::Validate) => self.life = Life::Validated,
            (_, Kind::Validate) => return Err("`validate` not right after `submit`"),
            (Life::Validated, Kind::Depend) => self.life = Life::Depended,
            (_, Kind::Depend) => return Err("`depend` out of place"),
            (Life::Over, Kind::Waited) => once(&mut self.waited, "`waited` a second time")?,
            (Life::Over, Kind::Memo(_)) => {}
            (Life::Over, _) => return Err("an event after `clean`"),
            (_, kind) => self.take_run(kind)?,
        }
        Ok(())
    }

    /// Whether nothing of it is recorded any more: of what was passed down, once the parent knows of the end.
    pub fn is_closed(&self, pass: Option<&Arc<Pass>>) -> bool {
        self.life == Life::Over && (pass.is_none() || self.waited == Seen::Yes)
    }

    fn begin(&mut self, submit: &Submit) {
        self.life = match submit.entry {
            Entry::New => Life::Submitted,
            Entry::Priority | Entry::Queued(_) => Life::Depended,
        };
        self.attempt = submit.pass.as_ref().map_or(0, |pass| pass.attempt.0);
    }

    fn take_run(&mut self, kind: &Kind) -> Result<(), &'static str> {
        match kind {
            Kind::Priority(_) => self.queued = Seen::Yes,
            Kind::Alloc(_) => {
                need(self.queued, "`alloc` before `priority`")?;
                refuse(self.fatal, "`alloc` after a fatal exception")?;
                once(&mut self.alloc, "`alloc` twice in one attempt")?;
            }
            Kind::Start => {
                need(self.alloc, "`start` before `alloc`")?;
                refuse(self.finish, "`start` after `finish`")?;
                once(&mut self.start, "`start` twice in one attempt")?;
            }
            Kind::Finish(_) => {
                need(self.alloc, "`finish` before `alloc`")?;
                once(&mut self.finish, "`finish` twice in one attempt")?;
            }
            Kind::Release(_, last) => {
                if let Final::Free(Some(_)) | Final::Over(Some(_)) = last {
                    need(self.alloc, "`finish` before `alloc`")?;
                    once(&mut self.finish, "`finish` twice in one attempt")?;
                }
                need(self.finish, "`release` before `finish`")?;
                refuse(self.release, "`release` after the final one")?;
                if *last != Final::No {
                    self.release = Seen::Yes;
                }
                if let Final::Free(_) | Final::Over(_) = last {
                    self.free = Seen::Yes;
                }
            }
            Kind::Free => {
                need(self.release, "`free` before the final `release`")?;
                once(&mut self.free, "`free` twice in one attempt")?;
            }
            Kind::Exception(exception) if exception.severity == 0 => {
                self.fatal = Seen::Yes;
                if exception.note.ends_with("is not known here") {
                    return Err("passed down without what it asks for");
                }
                if exception.kind == "cancel" {
                    self.cancel = Seen::Yes;
                }
            }
            Kind::Requeue(attempt) => self.requeue(*attempt)?,
            Kind::Clean => {
                self.is_given_back()?;
                self.life = Life::Over;
            }
            Kind::Waited => return Err("`waited` before `clean`"),
            _ => {}
        }
        Ok(())
    }

    /// An attempt may end only when nothing is held any more and there was a reason to end.
    fn is_given_back(&self) -> Result<(), &'static str> {
        if self.alloc == Seen::Yes {
            return need(self.free, "the attempt ends before `free`");
        }
        need(
            self.fatal,
            "the attempt ends without run and without exception",
        )
    }

    fn requeue(&mut self, attempt: Attempt) -> Result<(), &'static str> {
        self.is_given_back()?;
        refuse(self.cancel, "`requeue` of what was cancelled")?;
        let before = self.attempt.max(1);
        if attempt.0 != before + 1 {
            return Err("`requeue` skips an attempt");
        }
        *self = Order {
            life: self.life,
            attempt: attempt.0,
            ..Order::default()
        };
        Ok(())
    }
}

fn need(seen: Seen, rule: &'static str) -> Result<(), &'static str> {
    match seen {
        Seen::Yes => Ok(()),
        Seen::No => Err(rule),
    }
}

fn refuse(seen: Seen, rule: &'static str) -> Result<(), &'static str> {
    match seen {
        Seen::Yes => Err(rule),
        Seen::No => Ok(()),
    }
}

fn once(seen: &mut Seen, rule: &'static str) -> Result<(), &'static str> {
    refuse(*seen, rule)?;
    *seen = Seen::Yes;
    Ok(())
}
