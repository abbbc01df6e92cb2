//! Standard input on its way from clients to shells.
//!
//! A portion is told to the shells of the ranks that have its tasks, and its sender is answered once all of them have
//! said what became of it: the slowest sets the pace. No byte is kept here. Where a shell cannot say, since it or the
//! way to it was lost meanwhile, the sender is told to send the same again, which writes nothing twice.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use eddy_broker::{Caller, Effect, Outbox, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{Epoch, JobId, Rank};
use eddy_wire::idset::Idset;
use eddy_wire::input::{PORTION_BYTES_MAX, Portion, Position, SENDERS_MAX, Taken};
use eddy_wire::services::job::{InputReply, InputRequest};
use eddy_wire::shell::{Part, ToShell};

use super::{Known, Stdio, not_running};
use crate::callers::Callers;
use crate::exec::Place;

/// Portions under way at most.
const PORTIONS_MAX: usize = 65_536;

/// What shells were told and have not answered.
#[derive(Default)]
pub(super) struct Portions {
    told: BTreeMap<u64, Told>,
    callers: Callers,
    of_jobs: BTreeSet<(JobId, u64)>,
    /// Shells of an older program, which do not say what became of input.
    silent: BTreeSet<Epoch>,
}

/// A portion under way.
struct Told {
    caller: Caller,
    job: JobId,
    at: Option<Position>,
    /// Where all of it was taken.
    next: u64,
    /// The shells that have not answered.
    left: BTreeMap<Rank, Epoch>,
    taken: Taken,
}

impl Told {
    fn hear(&mut self, next: u64, taken: Taken) {
        self.taken = self.taken.max(taken);
        // Of those who take no more nobody waits for another to go on.
        if matches!(taken, Taken::Kept | Taken::Over) {
            self.next = self.next.min(next);
        }
    }
}

impl Portions {
    fn remove(&mut self, tag: u64) -> Option<Told> {
        let told = self.told.remove(&tag)?;
        self.callers.remove(told.caller, tag);
        self.of_jobs.remove(&(told.job, tag));
        Some(told)
    }

    /// Who sent it waits no more.
    pub fn drop_of(&mut self, gone: &RangeInclusive<Caller>) {
        for tag in self.callers.of(gone) {
            self.remove(tag);
        }
    }

    /// A shell says what became of a portion.
    pub fn took(
        &mut self,
        epoch: Epoch,
        (part, tag): (Part, u64),
        said: InputReply,
        out: &mut Outbox,
    ) {
        let told = self.told.get_mut(&tag).filter(|told| told.job == part.job);
        let Some(told) = told else { return };
        if told.left.get(&part.rank) != Some(&epoch) {
            return;
        }
        told.left.remove(&part.rank);
        told.hear(said.next, said.taken);
        self.answer_if_known(tag, out);
    }

    fn answer_if_known(&mut self, tag: u64, out: &mut Outbox) {
        if self.told.get(&tag).is_none_or(|told| !told.left.is_empty()) {
            return;
        }
        let Some(told) = self.remove(tag) else { return };
        match (told.taken, told.at) {
            (Taken::Crowded, _) => out.refuse(told.caller, &crowded(told.job)),
            (Taken::Later, _) => out.refuse(told.caller, &later(told.job)),
            (_, None) => out.reply(told.caller, &None::<InputReply>),
            (taken, Some(_)) => {
                let next = told.next;
                out.reply(told.caller, &Some(InputReply { next, taken }));
            }
        }
    }

    /// What was told to this shell may have been lost on the way, or its answer.
    pub fn unsaid(&mut self, epoch: Epoch, out: &mut Outbox) {
        let of_it = |told: &Told| told.left.values().any(|of| *of == epoch);
        let lost = self.told.iter().filter(|(_, told)| of_it(told));
        let lost: Vec<u64> = lost.map(|(tag, _)| *tag).collect();
        for tag in lost {
            if let Some(told) = self.remove(tag) {
                out.refuse(told.caller, &again(told.job));
            }
        }
    }

    /// A shell came (back) that knows these words.
    pub fn came(&mut self, epoch: Epoch, version: u32, out: &mut Outbox) {
        self.unsaid(epoch, out);
        match version {
            0 => self.silent.insert(epoch),
            _ => self.silent.remove(&epoch),
        };
    }

    /// A shell is over, and its tasks with it.
    pub fn over(&mut self, epoch: Epoch, out: &mut Outbox) {
        self.unsaid(epoch, out);
        self.silent.remove(&epoch);
    }

    /// Nobody is left who could answer for an attempt that is over.
    pub fn applied(&mut self, record: &Record, out: &mut Outbox) {
        let Some(job) = record.event.job else { return };
        let refusal = match record.event.kind {
            Kind::Clean => not_running(job),
            Kind::Requeue(_) => again(job),
            _ => return,
        };
        let of_it = self.of_jobs.range((job, 0)..=(job, u64::MAX));
        let of_it: Vec<u64> = of_it.map(|(_, tag)| *tag).collect();
        for told in of_it.into_iter().filter_map(|tag| self.remove(tag)) {
            out.refuse(told.caller, &refusal);
        }
    }
}

impl Stdio {
    /// Standard input for a job that holds resources: to the ranks that have the
    /// tasks named, or to all.
    pub(super) fn input(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: InputRequest = request.parse()?;
        self.check_sender(request, body.id, not_running)?;
        self.check_room(request.tail.len())?;
        let known = self.jobs.get(&body.id);
        let placed = known.filter(|known| !known.places.is_empty());
        let latest = placed.and_then(|known| Some((known, known.attempts.last()?.attempt)));
        let (known, attempt) = latest.ok_or_else(|| not_running(body.id))?;
        let shells = self.shells_of(&body, known)?;
        let number = self.take_tag();
        let (offset, bytes) = (body.at.map_or(0, |at| at.offset), request.tail.len() as u64);
        let mut told = Told {
            caller: request.caller,
            job: body.id,
            at: body.at,
            next: offset.saturating_add(bytes),
            left: BTreeMap::new(),
            taken: Taken::Elsewhere,
        };
        for (rank, epoch) in shells {
            let part = Part {
                job: body.id,
                attempt,
                rank,
            };
            let portion = Portion {
                number,
                tasks: body.tasks.clone(),
                at: body.at,
                eof: body.eof,
                data: request.tail.to_vec(),
            };
            // Behind the start of the same part, which waits for the disk.
            out.effect(Effect::Shell(epoch, ToShell::Input { part, portion }));
            if self.portions.silent.contains(&epoch) {
                told.hear(told.next, Taken::Kept);
            } else {
                told.left.insert(rank, epoch);
            }
        }
        self.portions.callers.insert(told.caller, number);
        self.portions.of_jobs.insert((told.job, number));
        self.portions.told.insert(number, told);
        self.portions.answer_if_known(number, out);
        Ok(())
    }

    fn check_room(&self, bytes: usize) -> Result<(), Refusal> {
        if bytes > PORTION_BYTES_MAX {
            let text =
                format!("tail: {bytes} bytes; the limit `input portion` is {PORTION_BYTES_MAX}");
            return Err(Refusal::new(Code::TooLarge, text));
        }
        if self.portions.told.len() >= PORTIONS_MAX {
            let text = format!("the limit `input portions` of {PORTIONS_MAX} is reached");
            return Err(Refusal::new(Code::Busy, text));
        }
        Ok(())
    }

    /// The shells that have tasks of those named.
    fn shells_of(&self, body: &InputRequest, known: &Known) -> Result<Vec<(Rank, Epoch)>, Refusal> {
        let mut shells = Vec::new();
        for Place {
            rank,
            first_task,
            ntasks,
        } in &known.places
        {
            let its_tasks = match ntasks {
                0 => Idset::new(),
                _ => Idset::range(*first_task, first_task + ntasks - 1),
            };
            if !body.tasks.is_empty() && body.tasks.is_disjoint(&its_tasks) {
                continue;
            }
            let epoch = self.shells.get(rank).ok_or_else(|| later(body.id))?;
            shells.push((*rank, *epoch));
        }
        Ok(shells)
    }
}

fn later(job: JobId) -> Refusal {
    let text = format!("job {} takes no input now; later it may", job.f58_ascii());
    Refusal::new(Code::Busy, text)
}

fn again(job: JobId) -> Refusal {
    let text = format!(
        "it is not known what became of input for job {}: the way to its tasks was lost; send it again",
        job.f58_ascii()
    );
    Refusal::new(Code::Busy, text)
}

fn crowded(job: JobId) -> Refusal {
    let text = format!(
        "the limit `input senders` is {SENDERS_MAX}, as many have sent input to job {}",
        job.f58_ascii()
    );
    Refusal::new(Code::TooLarge, text)
}
