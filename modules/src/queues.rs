//! Queues: which there are, and whether each takes submissions and starts jobs.
//!
//! Takes an administrator's word and proposes one record for each queue that it changes. Ingest
//! (what is taken), sched (what starts) and the listings fold the same records. Holds nobody back
//! itself, and starts nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use eddy_broker::{Endpoint, Input, Module, Notice, Outbox, Reacts, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::id::{JobId, Seq};
use eddy_wire::lifecycle::JobState;
use eddy_wire::queue::{Gate, Gates, REASON_BYTES_MAX, Rules, Turn, Turned, UNNAMED};
use eddy_wire::services::Service;
use eddy_wire::services::queue::{self, QueueRow, TurnReply, TurnRequest, Unheard};
use eddy_wire::time::Time;
use eddy_wire::update;

use crate::ingest::fleet::Fleet;
use crate::ingest::queues::of;
use crate::jobs::Jobs;
use crate::live::Change;
use crate::settings::{Queue, Settings};

/// Stops and starts that a mark keeps of a queue: older ones count no more for how long jobs have
/// waited that were there then.
const STOPS_KEPT: usize = 64;
/// Longest name that is taken where any name is.
const NAME_BYTES_MAX: usize = 64;

/// The queues.
#[derive(Default)]
pub struct Queues {
    configured: Vec<Queue>,
    /// The instance itself is declared: its parent knows which queues lead to it.
    any: bool,
    gates: Gates,
    /// The declared instances, of which one may be down.
    fleet: Fleet,
    /// Those of them that are reached.
    serving: BTreeSet<String>,
    seqs: BTreeMap<String, Seqs>,
    jobs: Jobs<Member>,
    counts: BTreeMap<String, Count>,
}

/// A job of a queue.
struct Member {
    queue: String,
    state: JobState,
    /// Since when it holds something without its tasks having started.
    given: Option<Time>,
}

/// The records that the gate of a queue rests on.
#[derive(Default)]
struct Seqs {
    submissions: Option<Seq>,
    starts: VecDeque<Seq>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    pending: u64,
    running: u64,
}

impl Module for Queues {
    fn name(&self) -> &'static str {
        "queues"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[
            Endpoint::of::<queue::TurnQueue>(),
            Endpoint::of::<queue::List>(),
        ];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        self.fleet.apply(record);
        match (&record.event.kind, record.event.job) {
            (Kind::Queue(turned), _) => {
                // The start of one that was open is of its instance, and of this leader's life.
                if self.changes(turned) {
                    let seqs = self.seqs.entry(turned.queue.clone()).or_default();
                    seqs.note(turned.turn, record.seq);
                }
                self.gates.apply(record.event.t, turned);
            }
            (Kind::Memo(memo), _) => {
                if let Some(change) = Change::told(memo) {
                    self.configured = change.live.queues;
                }
            }
            (Kind::Submit(submit), Some(id)) => {
                if let Some(name) = of(&submit.spec) {
                    self.counts.entry(name.to_owned()).or_default().pending += 1;
                    let member = Member {
                        queue: name.to_owned(),
                        state: submit.entry.state(),
                        given: None,
                    };
                    self.jobs.insert(id, member);
                }
            }
            (kind, Some(id)) => self.moved(record.event.t, id, kind),
            _ => {}
        }
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToNeither
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.request(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Notice(Notice::Serving(serving)) => self.serving.clone_from(serving),
            _ => {}
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        for of in self.seqs.values() {
            seqs.extend(of.submissions);
            seqs.extend(of.starts.iter().copied());
        }
    }
}

impl Seqs {
    fn note(&mut self, turn: Turn, seq: Seq) {
        match turn {
            Turn::Enable => self.submissions = None,
            Turn::Disable => self.submissions = Some(seq),
            Turn::Start | Turn::Stop => {
                self.starts.push_back(seq);
                // A stop goes with its start.
                while self.starts.len() > STOPS_KEPT * 2 {
                    self.starts.drain(..2);
                }
            }
        }
    }
}

impl Queues {
    /// Those of the configuration, all open.
    pub fn new(settings: &Settings) -> Queues {
        Queues {
            configured: settings.queues.clone(),
            any: settings.place.name.is_some(),
            fleet: Fleet::new(settings),
            ..Queues::default()
        }
    }

    fn moved(&mut self, t: Time, id: JobId, kind: &Kind) {
        let Some(member) = self.jobs.get_mut(&id) else {
            return;
        };
        match kind {
            Kind::Alloc(_) => member.given = Some(t),
            Kind::Start => member.given = None,
            _ => {}
        }
        let Ok(after) = member.state.next(kind) else {
            return;
        };
        if let Kind::JobspecUpdate(map) = kind
            && let Some(queue) = update::queue(map)
        {
            let before = std::mem::replace(&mut member.queue, queue.to_owned());
            let state = member.state;
            *self.counts.entry(before).or_default().of(state) -= 1;
            *self.counts.entry(queue.to_owned()).or_default().of(state) += 1;
        }
        if after == member.state {
            return;
        }
        let before = std::mem::replace(&mut member.state, after);
        let count = match self.counts.get_mut(&member.queue) {
            Some(count) => count,
            None => self.counts.entry(member.queue.clone()).or_default(),
        };
        *count.of(before) -= 1;
        match after {
            JobState::Inactive => drop(self.jobs.remove(&id)),
            _ => *count.of(after) += 1,
        }
    }

    fn request(&self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        if request.topic == queue::List::TOPIC {
            out.answer(request.caller, &self.rows());
            return Ok(());
        }
        let turned = self.turned(request.uid, request.parse()?)?;
        let changed = turned.len() as u64;
        for turned in turned {
            out.append_own(now, Kind::Queue(Box::new(turned)));
        }
        out.reply(request.caller, &TurnReply { changed });
        Ok(())
    }

    /// What is to be recorded: what changes something.
    fn turned(&self, userid: u32, request: TurnRequest) -> Result<Vec<Turned>, Refusal> {
        let TurnRequest { turn, reason, .. } = request;
        if reason.len() > REASON_BYTES_MAX || reason.contains('\n') {
            let text = format!("reason: one line of at most {REASON_BYTES_MAX} bytes is allowed");
            return Err(Refusal::new(Code::TooLarge, text));
        }
        let names = self.names();
        let unknown = request.queues.iter().find(|name| !names.contains(*name));
        if let Some(name) = unknown
            && (!self.any || name.is_empty() || name.len() > NAME_BYTES_MAX)
        {
            let there: Vec<&str> = names.iter().map(String::as_str).collect();
            let (name, there) = (name.escape_debug(), there.join(", "));
            let text = format!("queues: `{name}` given, there are {there}");
            return Err(Refusal::not_found(text));
        }
        let asked = match request.queues.is_empty() {
            true => names,
            false => request.queues.into_iter().collect(),
        };
        let turned = asked.into_iter().map(|queue| Turned {
            queue,
            turn,
            reason: reason.clone(),
            userid,
        });
        let is_due = |turned: &Turned| {
            self.changes(turned) || turned.turn == Turn::Start && self.down(&turned.queue).is_some()
        };
        Ok(turned.filter(is_due).collect())
    }

    /// Whether that makes another of the gate of its queue.
    fn changes(&self, turned: &Turned) -> bool {
        let untouched = Gate::default();
        let gate = self.gates.gate(&turned.queue).unwrap_or(&untouched);
        !gate.is_so(turned)
    }

    /// Why the instance that serves a queue is not there.
    fn down(&self, queue: &str) -> Option<String> {
        let configured = self.configured.iter().find(|one| one.name == queue)?;
        self.fleet.down(configured.instance.as_deref()?)
    }

    /// All queues there are, by name.
    fn names(&self) -> BTreeSet<String> {
        let mut names: BTreeSet<String> = self
            .configured
            .iter()
            .map(|queue| queue.name.clone())
            .collect();
        // Who names none is in the default one, where there is one.
        if !self.configured.iter().any(|queue| queue.default) {
            names.insert(UNNAMED.to_owned());
        }
        // One whose jobs are there yet is no less to be opened, though a start left it out.
        let filled = self.counts.iter();
        let filled = filled.filter(|(_, count)| count.pending + count.running > 0);
        names.extend(filled.map(|(name, _)| name.clone()));
        if self.any {
            names.extend(self.gates.names().map(str::to_owned));
            let used = self.jobs.values().map(|member| member.queue.clone());
            names.extend(used);
        }
        names
    }

    fn rows(&self) -> Vec<QueueRow> {
        let row = |name: String| {
            let configured = self.configured.iter().find(|queue| queue.name == name);
            let count = self.counts.get(&name).copied().unwrap_or_default();
            let rules = configured.map(|queue| queue.rules.clone());
            let instance = configured.and_then(|queue| queue.instance.clone());
            let down = self.down(&name);
            let is_away = |name: &String| !self.serving.contains(name);
            QueueRow {
                unreached: down.is_none() && instance.as_ref().is_some_and(is_away),
                down,
                instance,
                default: configured.map_or(name == UNNAMED, |queue| queue.default) && !self.any,
                gone: configured.is_none() && name != UNNAMED && !self.any,
                gate: self.gates.gate(&name).cloned().unwrap_or_default(),
                pending: count.pending,
                running: count.running,
                unheard: self.unheard(&name),
                rules: rules.unwrap_or_else(Rules::default),
                name,
            }
        };
        self.names().into_iter().map(row).collect()
    }
}

impl Queues {
    /// The jobs of a queue that hold something without its being known that their tasks run.
    fn unheard(&self, name: &str) -> Option<Unheard> {
        let is_its = |member: &&Member| member.queue == name && member.state == JobState::Run;
        let given = self
            .jobs
            .values()
            .filter(is_its)
            .filter_map(|member| member.given);
        given.fold(None, |sum: Option<Unheard>, t| {
            let (jobs, since) = sum.map_or((0, t), |sum| (sum.jobs, sum.since.min(t)));
            Some(Unheard {
                jobs: jobs + 1,
                since,
            })
        })
    }
}

impl Count {
    fn of(&mut self, state: JobState) -> &mut u64 {
        match state {
            JobState::Run | JobState::Cleanup => &mut self.running,
            JobState::New
            | JobState::Depend
            | JobState::Priority
            | JobState::Sched
            | JobState::Inactive => &mut self.pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use eddy_wire::event::Event;

    use super::*;

    fn queues() -> Queues {
        let mut settings = Settings::for_inventory(Default::default());
        settings.queues = vec![Queue {
            name: "debug".to_owned(),
            ..Queue::default()
        }];
        Queues::new(&settings)
    }

    fn asked(queues: &[&str], turn: Turn, reason: &str) -> TurnRequest {
        TurnRequest {
            queues: queues.iter().map(|name| (*name).to_owned()).collect(),
            turn,
            reason: reason.to_owned(),
        }
    }

    fn fold(queues: &mut Queues, seq: u64, turned: Vec<Turned>) {
        for turned in turned {
            let event = Event {
                t: Time(seq as i64),
                job: None,
                kind: Kind::Queue(Box::new(turned)),
            };
            queues.apply(&Record {
                seq: Seq(seq),
                event,
            });
        }
    }

    #[test]
    fn what_is_so_already_is_no_record_and_what_is_not_there_is_refused_by_name() {
        let mut queues = queues();
        let all = queues
            .turned(7, asked(&[], Turn::Stop, "fan"))
            .expect("all");
        let names: Vec<&str> = all.iter().map(|turned| turned.queue.as_str()).collect();
        assert_eq!(names, ["debug", "root"]);
        fold(&mut queues, 1, all);
        let again = queues.turned(7, asked(&["debug"], Turn::Stop, "fan"));
        assert_eq!(again, Ok(Vec::new()));
        let other = queues.turned(7, asked(&["debug"], Turn::Stop, "pump"));
        assert_eq!(other.map(|turned| turned.len()), Ok(1));
        let unknown = queues.turned(7, asked(&["fast"], Turn::Stop, ""));
        assert_eq!(
            unknown.map_err(|refusal| refusal.text),
            Err("queues: `fast` given, there are debug, root".to_owned())
        );
    }

    #[test]
    fn jobs_are_unheard_from_their_grant_to_their_start() {
        let mut queues = queues();
        assert_eq!(queues.unheard("debug"), None);
        for (id, given) in [(1, Some(Time(7))), (2, Some(Time(5))), (3, None)] {
            let member = Member {
                queue: "debug".to_owned(),
                state: JobState::Run,
                given,
            };
            queues.jobs.insert(JobId(id), member);
            queues.counts.entry("debug".to_owned()).or_default().running += 1;
        }
        let unheard = |jobs, t| {
            let since = Time(t);
            Some(Unheard { jobs, since })
        };
        assert_eq!(queues.unheard("debug"), unheard(2, 5));
        assert_eq!(queues.unheard("other"), None);
        queues.moved(Time(9), JobId(2), &Kind::Start);
        assert_eq!(queues.unheard("debug"), unheard(1, 7));
        queues.moved(Time(9), JobId(1), &Kind::Finish(0));
        assert_eq!(queues.unheard("debug"), None);
    }

    #[test]
    fn a_mark_keeps_what_a_gate_rests_on() {
        let mut queues = queues();
        for (seq, turn) in [Turn::Disable, Turn::Stop, Turn::Start, Turn::Enable]
            .into_iter()
            .enumerate()
        {
            let turned = queues.turned(7, asked(&["debug"], turn, "")).expect("one");
            fold(&mut queues, seq as u64 + 1, turned);
        }
        let mut seqs = Vec::new();
        queues.live(&mut seqs);
        assert_eq!(seqs, [Seq(2), Seq(3)]);
    }
}
