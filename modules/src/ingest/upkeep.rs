//! What ingest does without being asked: the jobs of declared instances, and
//! job numbers from the parent.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{Outbox, ParentWord, ToParent, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Entry, Kind, Record, Submit};
use eddy_wire::idset::Idset;
use eddy_wire::services::child::ID_BLOCK;
use eddy_wire::time::Time;
use uuid::Uuid;

use super::fleet::{self, FLEET_URGENCY};
use super::keys::Known;
use super::numbers::Taken;
use super::proposal::too_many;
use super::{HELD_BYTES, HELD_MAX, Ingest, Intake, Submission};
use crate::settings::{Damage, Declared};

impl Ingest {
    pub(super) fn applied(&mut self, now: Time, record: &Record, out: &mut Outbox) {
        match (&record.event.kind, record.event.job) {
            (Kind::Adopt(_), Some(_)) => self.note_homes(now, out),
            (Kind::Clean, Some(_)) | (Kind::ResourceDefine(..) | Kind::Queue(_), None) => {
                self.bring_up(now, out);
            }
            (Kind::IdBlock(_), None) => {
                if let Some(note) = self.numbers.first_note() {
                    out.append_own(now, note);
                }
                self.admit_held(now, out);
                self.bring_up(now, out);
                self.ask_numbers(out);
            }
            _ => {}
        }
    }

    /// Notes where declared instances are at home.
    pub(super) fn note_homes(&mut self, now: Time, out: &mut Outbox) {
        for note in self.fleet.notes() {
            out.append_own(now, note);
        }
    }

    /// Submits a job for each declared instance that has none. Not before
    /// there is an inventory, which says whether it fits.
    pub(super) fn bring_up(&mut self, now: Time, out: &mut Outbox) {
        if self.capacity.is_none() || !matches!(self.intake, Intake::Open) {
            return;
        }
        for declared in self.fleet.missing() {
            self.submit_declared(now, &declared, out);
        }
    }

    fn submit_declared(&mut self, now: Time, wanted: &(Declared, Idset), out: &mut Outbox) {
        let (declared, _) = wanted;
        if self.proposed.contains(&declared.name) {
            return;
        }
        // An instance that draws its numbers brings its own up when it has some.
        let Taken::First(job) = self.numbers.take(1) else {
            return;
        };
        self.proposed.insert(declared.name.clone());
        let cuts = match self.fleet.damage(&declared.name) {
            Damage::Refuse => None,
            Damage::Cut => Some("--recover".to_owned()),
        };
        let command: Vec<String> = self.instance_command.iter().cloned().chain(cuts).collect();
        let jobspec = fleet::jobspec(wanted, &self.local, &command);
        let spec = self.specs.intern(jobspec);
        let spec = spec.expect("the configuration was checked");
        let submit = Submit {
            urgency: FLEET_URGENCY,
            key: fleet::key(&declared.name, job),
            entry: Entry::of(&spec, None),
            ..Submit::plain(self.owner, spec)
        };
        out.append(now, job, Kind::Submit(Arc::new(submit)));
    }

    /// Asks the parent for job numbers if they run out.
    pub(super) fn ask_numbers(&mut self, out: &mut Outbox) {
        let waiting = self.held.front().map(Submission::count);
        let waiting = waiting.or_else(|| (!self.fleet.missing().is_empty()).then_some(1));
        if let Some(number) = self.numbers.wanted(waiting) {
            out.volatile(Volatile::Parent(ToParent::Ids(number)));
        }
    }

    pub(super) fn parent(&mut self, now: Time, word: &ParentWord, out: &mut Outbox) {
        match word {
            ParentWord::Granted(granted) => {
                self.served.told(now, granted);
                self.above.heard(now, granted, out);
                self.hand_up_again(out);
                self.numbers.ask_again();
                self.ask_numbers(out);
            }
            ParentWord::Ids(block) if self.numbers.expects(block) => {
                out.append_own(now, Kind::IdBlock(*block));
            }
            ParentWord::NoIds(refusal) => self.refuse_held(refusal, out),
            ParentWord::Submitted(tag, outcome) => self.taken_above(*tag, outcome, out),
            ParentWord::Away => self.above.away(),
            ParentWord::Ids(_)
            | ParentWord::TakenUp(..)
            | ParentWord::Pass(..)
            | ParentWord::Preempted(..)
            | ParentWord::Shrink(..)
            | ParentWord::End(..)
            | ParentWord::Signal(..)
            | ParentWord::Program(_)
            | ParentWord::Pause(..)
            | ParentWord::Proceed(..)
            | ParentWord::Limit(..)
            | ParentWord::Forget(..)
            | ParentWord::Answered(_) => {}
        }
    }

    /// The parent gives no numbers: who waits for some is told why. The next
    /// submission asks for them anew.
    fn refuse_held(&mut self, refusal: &Refusal, out: &mut Outbox) {
        self.numbers.ask_again();
        let text = format!("no job numbers from the parent: {}", refusal.text);
        let refusal = Refusal::new(refusal.code, text);
        for submission in std::mem::take(&mut self.held) {
            out.refuse(submission.caller, &refusal);
        }
    }

    /// Keeps a submission until numbers come.
    pub(super) fn hold(&mut self, submission: Submission, out: &mut Outbox) -> Result<(), Refusal> {
        if u64::from(submission.count()) > ID_BLOCK {
            return Err(too_many(submission.count()));
        }
        let held = self.held.iter().map(|held| (held.user, held.bytes()));
        let (user, bytes) = (submission.user, submission.bytes());
        has_room("job numbers from the parent", held, (user, bytes))?;
        self.held.push_back(submission);
        self.ask_numbers(out);
        Ok(())
    }

    /// Numbers came: who waited for them is served in order.
    fn admit_held(&mut self, now: Time, out: &mut Outbox) {
        // What is proposed here is folded later, and a key may be there twice.
        let mut proposed: BTreeMap<(u32, Uuid), Known> = BTreeMap::new();
        while let Some(mut submission) = self.held.pop_front() {
            let (caller, name) = (submission.caller, submission.name());
            let known = self.keys.recent(name.0, &name.1);
            let outcome = match known.or_else(|| proposed.get(&name).cloned()) {
                Some(known) => self.repeated(&submission, known, out),
                None => match self.admissible(now, &mut submission) {
                    Err(refusal) => Err(refusal),
                    Ok(()) => {
                        let Taken::First(first) = self.numbers.take(submission.count()) else {
                            self.held.push_front(submission);
                            return;
                        };
                        proposed.insert(name, submission.known_as(first));
                        self.propose(now, submission, first, out);
                        Ok(())
                    }
                },
            };
            if let Err(refusal) = outcome {
                out.refuse(caller, &refusal);
            }
        }
    }

    pub(super) fn stop(&mut self, out: &mut Outbox) {
        self.intake = Intake::Stopping;
        let refusal = Refusal::new(Code::NotReady, "the instance is shutting down");
        let held = std::mem::take(&mut self.held).into_iter();
        let held = held.map(|submission| submission.caller);
        for caller in held.chain(self.above.take()) {
            out.refuse(caller, &refusal);
        }
        for submission in self.filters.take() {
            let (user, key) = submission.name();
            // The same key may have come twice, and once be taken.
            let outcome = match self.keys.recent(user, &key) {
                Some(known) => self.repeated(&submission, known, out),
                None => Err(refusal.clone()),
            };
            if let Err(refusal) = outcome {
                out.refuse(submission.caller, &refusal);
            }
        }
        // Whoever took them hands them up again.
        self.taken.clear();
    }
}

/// What all may have of held submissions is so many times what one user may.
const SHARES: usize = 2;

/// Whether one more submission of a user may wait for this; the others are of these users and have jobspecs of
/// these sizes. Nobody has more than half of the room, so that there is some for others.
pub(super) fn has_room(
    what: &str,
    others: impl Iterator<Item = (u32, usize)>,
    (user, bytes): (u32, usize),
) -> Result<(), Refusal> {
    let (mut all, mut own) = ((0, bytes), (0, bytes));
    for (of, bytes) in others {
        let add = |to: &mut (usize, usize)| *to = (to.0 + 1, to.1.saturating_add(bytes));
        add(&mut all);
        if of == user {
            add(&mut own);
        }
    }
    let full = |(number, sum): (usize, usize), part: usize| match () {
        () if number >= HELD_MAX / part => Some((HELD_MAX / part).to_string()),
        () if sum > HELD_BYTES / part => Some(format!("{} MiB", (HELD_BYTES / part) >> 20)),
        () => None,
    };
    let text = match (full(all, 1), full(own, SHARES)) {
        (Some(full), _) => format!(
            "{} submissions wait for {what}; the limit `held submissions` is {full}",
            all.0
        ),
        (None, Some(full)) => format!(
            "{} submissions of user {user} wait for {what}; the limit `held submissions` is {full} for one user",
            own.0
        ),
        (None, None) => return Ok(()),
    };
    Err(Refusal::new(Code::Busy, text))
}
