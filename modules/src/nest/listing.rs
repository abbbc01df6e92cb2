//! `child.list`: rows of the instances in this one, once or as they change.
//!
//! Rows tell of what may not be durable yet, so all of them pass the gate. The
//! history of a child that is over is found by its records in the journal.

use std::collections::BTreeMap;

use eddy_broker::{Answer, Caller, Effect, Outbox, Query, Reply, Request, Sender, Volatile};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Adoption, Kind};
use eddy_wire::id::JobId;
use eddy_wire::message::Type;
use eddy_wire::services::child::{ChildRow, ChildrenRequest, Stage, Summary};
use eddy_wire::services::job::{EventsLine, JobRow};
use eddy_wire::time::{Span, Time};
use serde_json::Value;

use crate::sight::Sight;

use super::Nest;

/// Who follows all is told of changes at most once in this time.
const PAUSE: Span = Span::millis(100);

/// How many follow all instances for one user: each change is made out for them.
const FOLLOWERS_MAX: usize = 64;

/// In the memo of a job that was an instance: what it came to.
const SUMMARY: &str = "summary";

/// Who asked for rows.
#[derive(Debug, Default)]
pub(super) struct Listing {
    followers: Vec<Follower>,
    asked: BTreeMap<u64, Asked>,
    /// Those whose end the journal does not have yet, and who asked for one of them meanwhile: until
    /// then it answers that there is no such child.
    ending: BTreeMap<JobId, Vec<Request>>,
    last_tag: u64,
}

#[derive(Debug)]
struct Follower {
    caller: Caller,
    sender: Sender,
    job: Option<JobId>,
    /// What it was told last.
    told: Vec<ChildRow>,
    telling: Telling,
}

impl Follower {
    /// How often it is told at most. Who follows one waits for it to serve.
    fn pause(&self) -> Span {
        match self.job {
            Some(_) => Span::ZERO,
            None => PAUSE,
        }
    }
}

/// When a follower is told.
#[derive(Clone, Copy, Debug, Default)]
enum Telling {
    /// Nothing has changed, and nothing was told for long.
    #[default]
    Idle,
    /// It was told then.
    Told(Time),
    /// It is to be told then.
    Due(Time),
}

/// A row of a child that is over, being looked up.
#[derive(Debug)]
struct Asked {
    request: Request,
    job: JobId,
    row: Option<JobRow>,
}

impl Nest {
    pub(super) fn list(&mut self, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: ChildrenRequest = request.parse()?;
        let sender = request.sender();
        if let Some(job) = body.job {
            let Some(child) = self.children.get(&job) else {
                self.listing.look_up(request, job, out);
                return Ok(());
            };
            let user = child.job.submit.user;
            if child.declared.is_none() && !sender.may_act_for(user) {
                return Err(no_entry(&self.sight, sender, (job, user)));
            }
        }
        if let Some(name) = &body.name {
            if let Some(why) = self.fleet.down(name) {
                return Err(Refusal::new(Code::NotReady, why));
            }
            let mut rows = self.rows(body.job, sender);
            rows.retain(|row| row.name == *name);
            out.reply(request.caller, &rows);
            return Ok(());
        }
        let rows = self.rows(body.job, sender);
        if !body.follow {
            out.reply(request.caller, &rows);
            return Ok(());
        }
        if body.job.is_none() {
            self.listing.has_room(sender)?;
        }
        part(request.caller, &rows, out);
        self.listing.followers.push(Follower {
            caller: request.caller,
            sender,
            job: body.job,
            told: rows,
            telling: Telling::Idle,
        });
        Ok(())
    }

    /// What a sender is shown: of an instance of another user that it is there and how large, not
    /// where it is reached; nothing where listings are private.
    fn rows(&self, only: Option<JobId>, sender: Sender) -> Vec<ChildRow> {
        let children = self.children.values();
        let user = self.sight.only(sender);
        let wanted = children.filter(|child| only.is_none_or(|job| job == child.id()));
        let seen = wanted.filter(|child| {
            child.declared.is_some() || user.is_none_or(|user| user == child.job.submit.user)
        });
        let shown = seen.map(|child| {
            let room = self.room(child);
            let row = child.row(&self.queues, room.as_deref(), self.place.end());
            let own = child.declared.is_some() || sender.may_act_for(child.job.submit.user);
            match own {
                true => row,
                false => ChildRow {
                    uri: None,
                    statedir: None,
                    ..row
                },
            }
        });
        shown.collect()
    }

    /// A user's instance is over: what it said last of itself stays known.
    pub(super) fn note_summary(&self, now: Time, job: JobId, out: &mut Outbox) {
        let child = self.children.get(&job);
        let summary = child.filter(|child| child.declared.is_none());
        let summary = summary.map(|child| child.told.summary);
        if let Some(summary) = summary.filter(|summary| *summary != Summary::default()) {
            let value = serde_json::to_value(summary).expect("figures are JSON");
            let memo = [(SUMMARY.to_owned(), value)];
            out.append(now, job, Kind::Memo(memo.into_iter().collect()));
        }
    }

    /// Something that the row of a child shows has changed.
    pub(super) fn changed(&mut self, now: Time, job: JobId, out: &mut Outbox) {
        let followers = self.listing.followers.iter_mut();
        for follower in followers.filter(|follower| follower.job.is_none_or(|of| of == job)) {
            let due = match follower.telling {
                Telling::Due(_) => continue,
                Telling::Told(then) => now.max(then + follower.pause()),
                // Not at once: what is proposed beside this is folded first.
                Telling::Idle => now,
            };
            follower.telling = Telling::Due(due);
            out.volatile(Volatile::Wake(due));
        }
    }

    /// Tells followers what has changed, if it is time.
    pub(super) fn tell_rows(&mut self, now: Time, out: &mut Outbox) {
        let mut followers = std::mem::take(&mut self.listing.followers);
        let mut made = Vec::new();
        followers.retain_mut(|follower| match follower.telling {
            Telling::Due(due) if due <= now => {
                follower.telling = Telling::Told(now);
                self.tell(follower, &mut made, out)
            }
            Telling::Idle | Telling::Told(_) | Telling::Due(_) => true,
        });
        self.listing.followers = followers;
    }

    /// Tells one follower; whether it goes on. `made` is what others like it are told now.
    fn tell(&self, follower: &mut Follower, made: &mut Vec<Made>, out: &mut Outbox) -> bool {
        let of = (follower.job, follower.sender);
        let at = made.iter().position(|one| one.of == of);
        let at = at.unwrap_or_else(|| {
            let rows = self.rows(follower.job, follower.sender);
            made.push(Made { of, rows });
            made.len() - 1
        });
        let rows = &made[at].rows;
        if follower.job.is_some() && rows.is_empty() {
            for row in &mut follower.told {
                row.stage = Stage::Over;
            }
            part(follower.caller, &follower.told, out);
            out.reply(follower.caller, &Vec::<ChildRow>::new());
            return false;
        }
        if *rows != follower.told {
            part(follower.caller, rows, out);
            follower.told.clone_from(rows);
        }
        true
    }
}

/// What those are told now who ask for the same as the same.
struct Made {
    of: (Option<JobId>, Sender),
    rows: Vec<ChildRow>,
}

impl Listing {
    /// Whether one more may follow all instances for that user.
    fn has_room(&self, sender: Sender) -> Result<(), Refusal> {
        let all = self.followers.iter().filter(|one| one.job.is_none());
        match all.filter(|one| one.sender.uid == sender.uid).count() {
            FOLLOWERS_MAX.. => {
                let text = format!(
                    "limit `followers` of {FOLLOWERS_MAX} streams of all instances for user {} is reached",
                    sender.uid
                );
                Err(Refusal::new(Code::Busy, text))
            }
            _ => Ok(()),
        }
    }

    /// A job was passed on: who follows it asks again, and is told by its instance.
    pub(super) fn passed(&mut self, job: JobId, out: &mut Outbox) {
        let is_its = |follower: &mut Follower| follower.job == Some(job);
        for follower in self.followers.extract_if(.., is_its) {
            out.reply(follower.caller, &Vec::<ChildRow>::new());
        }
    }

    /// A child has given all back: in a moment it is none of those that are there.
    pub(super) fn ends(&mut self, job: JobId) {
        self.ending.entry(job).or_default();
    }

    /// The journal has the end of a job.
    pub(super) fn ended(&mut self, job: JobId, out: &mut Outbox) {
        for request in self.ending.remove(&job).unwrap_or_default() {
            self.look_up(&request, job, out);
        }
    }

    fn look_up(&mut self, request: &Request, job: JobId, out: &mut Outbox) {
        if let Some(waiting) = self.ending.get_mut(&job) {
            return waiting.push(request.clone());
        }
        self.last_tag += 1;
        let asked = Asked {
            request: request.clone(),
            job,
            row: None,
        };
        self.asked.insert(self.last_tag, asked);
        let query = Query::Finished(job);
        out.volatile(Volatile::Query(self.last_tag, query));
    }

    /// The journal answers. A question about a job that was passed on is for its instance, which is
    /// named then.
    pub(super) fn answered(
        &mut self,
        tag: u64,
        answer: &Answer,
        sight: &Sight,
        out: &mut Outbox,
    ) -> Option<(Request, String)> {
        let mut asked = self.asked.remove(&tag)?;
        match (answer, asked.row.take()) {
            (Answer::Finished(Some(found)), None)
                if !asked.request.sender().may_act_for(found.0.userid) =>
            {
                let of = (asked.job, found.0.userid);
                let refusal = no_entry(sight, asked.request.sender(), of);
                out.refuse(asked.request.caller, &refusal);
            }
            (Answer::Finished(Some(found)), None) => {
                asked.row = Some(found.0.clone());
                let query = Query::Records(found.1.clone());
                self.asked.insert(tag, asked);
                out.volatile(Volatile::Query(tag, query));
            }
            (Answer::Records(lines), Some(row)) => {
                let lines = || lines.iter().map(|(_, line)| line);
                match (passed_to(lines()), adopted(lines())) {
                    (Some(name), _) => return Some((asked.request, name)),
                    (None, Some(adoption)) => {
                        let row = over(row, adoption, summarised(lines()));
                        out.answer(asked.request.caller, &vec![row]);
                    }
                    (None, None) => out.refuse(asked.request.caller, &no_child(asked.job)),
                }
            }
            (Answer::Failed(why), _) => {
                out.refuse(asked.request.caller, &Refusal::new(Code::Busy, why.clone()));
            }
            (Answer::Finished(None), None) => {
                out.refuse(asked.request.caller, &no_child(asked.job));
            }
            (other, row) => panic!("a child was asked for ({row:?}), the answer is {other:?}"),
        }
        None
    }

    pub(super) fn drop_where(&mut self, gone: impl Fn(Caller) -> bool) {
        self.followers.retain(|follower| !gone(follower.caller));
        self.asked.retain(|_, asked| !gone(asked.request.caller));
        for waiting in self.ending.values_mut() {
            waiting.retain(|request| !gone(request.caller));
        }
    }
}

fn part(to: Caller, rows: &[ChildRow], out: &mut Outbox) {
    out.effect(Effect::Reply(Reply::new(to, Type::Part, &rows)));
}

/// An instance takes its own user's clients only.
fn no_entry(sight: &Sight, sender: Sender, (job, user): (JobId, u32)) -> Refusal {
    if sight.hides(sender, user) {
        return no_child(job);
    }
    let text = format!(
        "job: {job} given, an instance of user {user}; user {} may not use it",
        sender.uid
    );
    Refusal::new(Code::Denied, text)
}

fn no_child(job: JobId) -> Refusal {
    let text = format!("job: {job} given, no instance that has said hello is or was that job");
    Refusal::not_found(text)
}

/// The instance that a job was passed to last.
pub(super) fn passed_to<'a>(
    lines: impl DoubleEndedIterator<Item = &'a EventsLine>,
) -> Option<String> {
    let line = lines.rev().find(|line| line.name == "passed")?;
    let passed: Value = serde_json::from_str(line.context.as_ref()?.get()).ok()?;
    Some(passed.get("instance")?.as_str()?.to_owned())
}

/// Who an instance said it was last.
pub(super) fn adopted<'a>(
    lines: impl DoubleEndedIterator<Item = &'a EventsLine>,
) -> Option<Adoption> {
    let line = lines.rev().find(|line| line.name == "adopt")?;
    serde_json::from_str(line.context.as_ref()?.get()).ok()
}

/// What an instance said last of itself.
fn summarised<'a>(lines: impl DoubleEndedIterator<Item = &'a EventsLine>) -> Summary {
    let mut memos = lines.rev().filter(|line| line.name == "memo");
    let summary = memos.find_map(|line| {
        let memo: Value = serde_json::from_str(line.context.as_ref()?.get()).ok()?;
        serde_json::from_value(memo.get(SUMMARY)?.clone()).ok()
    });
    summary.unwrap_or_default()
}

fn over(row: JobRow, adoption: Adoption, summary: Summary) -> ChildRow {
    ChildRow {
        job: row.id,
        name: row.name,
        instance: Some(adoption.instance),
        uri: Some(adoption.uri),
        statedir: Some(adoption.statedir),
        stage: Stage::Over,
        nnodes: row.nnodes,
        ncores: row.ncores,
        queues: Vec::new(),
        declared: false,
        until: None,
        summary,
    }
}
