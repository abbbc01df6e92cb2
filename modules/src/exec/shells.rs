//! The shells of the instance: which life of each serves which ranks, and what
//! each has been sent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use eddy_broker::shellbook::PAYLOADS_MAX;
use eddy_broker::{Effect, Outbox, Volatile};
use eddy_wire::event::{Kind, Record};
use eddy_wire::hash::Hash;
use eddy_wire::id::{Epoch, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::shell::{Start, ToShell};
use eddy_wire::spec::Spec;
use eddy_wire::time::{Span, Time};

/// How many shells may be started in a row without a pause.
const LAUNCHES_MAX: usize = 3;
/// Within how long.
const LAUNCH_WINDOW: Span = Span::seconds(60);

/// The shells, by epoch.
#[derive(Debug, Default)]
pub(super) struct Shells {
    leader: Epoch,
    inventory: Idset,
    /// Epochs in service, the ranks each serves, and the record that says so.
    current: BTreeMap<Epoch, (Idset, Seq)>,
    /// The highest epoch ever given, and its record.
    last: (Epoch, Seq),
    /// The record of its loss, once it is lost: without it a restart from a
    /// mark would find it in service.
    last_lost: Option<Seq>,
    /// The record of the present leader.
    leader_seq: Seq,
    /// What each connected shell keeps of the payloads it was sent.
    connected: BTreeMap<Epoch, Payloads>,
    /// When shells were last launched.
    launches: VecDeque<Time>,
    course: Course,
    launch: Launch,
}

/// Whether the shell that was recorded last is still to be started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Launch {
    /// It was, and serves more ranks now.
    #[default]
    IsThere,
    Owed,
}

/// Whether shells are still wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Course {
    #[default]
    Serving,
    /// What runs is being ended.
    Stopping,
    /// Nothing runs: a shell that comes now may go.
    Dismissed,
}

/// The payloads a shell keeps: the same first-in, first-out as its own.
#[derive(Debug, Default)]
struct Payloads {
    held: BTreeSet<Hash>,
    order: VecDeque<Hash>,
}

impl Payloads {
    /// Whether `hash` must be sent; afterwards it is held.
    fn add(&mut self, hash: Hash) -> bool {
        if !self.held.insert(hash) {
            return false;
        }
        self.order.push_back(hash);
        if self.order.len() > PAYLOADS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.held.remove(&oldest);
        }
        true
    }
}

impl Shells {
    /// Folds a record.
    pub(super) fn apply(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::LeaderStart(epoch) => (self.leader, self.leader_seq) = (*epoch, record.seq),
            Kind::ResourceDefine(set, _) => self.inventory = set.ranks(),
            Kind::ShellStart(ranks, epoch) => {
                self.launch = match self.current.contains_key(epoch) {
                    true => Launch::IsThere,
                    false => Launch::Owed,
                };
                self.current.insert(*epoch, (ranks.clone(), record.seq));
                if *epoch > self.last.0 {
                    (self.last, self.last_lost) = ((*epoch, record.seq), None);
                }
            }
            Kind::ShellLost(epoch) => {
                self.current.remove(epoch);
                self.connected.remove(epoch);
                if *epoch == self.last.0 {
                    self.last_lost = Some(record.seq);
                }
            }
            _ => {}
        }
    }

    /// The records this rests on: shells in service, the last epoch given, the leader.
    pub(super) fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.current.values().map(|(_, seq)| *seq));
        seqs.extend(self.last_lost);
        seqs.extend(
            [self.last.1, self.leader_seq]
                .into_iter()
                .filter(|seq| seq.0 > 0),
        );
    }

    /// Whether that life of a shell is in service.
    pub(super) fn is_current(&self, epoch: Epoch) -> bool {
        self.current.contains_key(&epoch)
    }

    /// All lives in service.
    pub(super) fn current(&self) -> Vec<Epoch> {
        self.current.keys().copied().collect()
    }

    /// The ranks that life of a shell serves.
    pub(super) fn ranks(&self, epoch: Epoch) -> Idset {
        let served = self.current.get(&epoch);
        served.map(|(ranks, _)| ranks.clone()).unwrap_or_default()
    }

    /// No more shells are to be started.
    pub(super) fn stop(&mut self) {
        self.course = Course::Stopping;
    }

    /// A shell's connection ended.
    pub(super) fn away(&mut self, epoch: Epoch) {
        self.connected.remove(&epoch);
    }

    /// Answers a hello: who leads.
    pub(super) fn welcome(&mut self, epoch: Epoch, out: &mut Outbox) {
        self.connected.insert(epoch, Payloads::default());
        out.effect(Effect::Shell(
            epoch,
            ToShell::Welcome {
                leader: self.leader,
            },
        ));
        if self.course == Course::Dismissed {
            out.effect(Effect::Shell(epoch, ToShell::Exit));
        }
    }

    /// Sends a start and what it needs that the shell does not hold. A shell
    /// that is away is told after its next hello.
    pub(super) fn send_start(&mut self, epoch: Epoch, start: Start, spec: &Spec, out: &mut Outbox) {
        let Some(payloads) = self.connected.get_mut(&epoch) else {
            return;
        };
        let jobspec = (spec.hash, &spec.text);
        let environment = (spec.environment_hash, &spec.environment_text);
        // Twice, since sending the one may have pushed out the other.
        for (hash, text) in [jobspec, environment, jobspec, environment] {
            if payloads.add(hash) {
                let text: Arc<str> = String::from_utf8_lossy(text).into();
                out.effect(Effect::Shell(epoch, ToShell::Payload { hash, text }));
            }
        }
        out.effect(Effect::Shell(epoch, ToShell::Start(Box::new(start))));
    }

    /// Has ranks served that no shell serves: by the shell that is there, since
    /// a node has one (and an inventory that grew is of the same node), else by
    /// a new one, a little later if shells keep dying.
    pub(super) fn cover(&mut self, now: Time, out: &mut Outbox) {
        let covered = self.current.values();
        let covered = covered.fold(Idset::new(), |all, (ranks, _)| all.union(ranks));
        let bare = self.inventory.difference(&covered);
        if bare.is_empty() || self.course != Course::Serving {
            return;
        }
        if let Some((epoch, (ranks, _))) = self.current.last_key_value() {
            return out.append_own(now, Kind::ShellStart(ranks.union(&bare), *epoch));
        }
        while self
            .launches
            .front()
            .is_some_and(|t| t.after(LAUNCH_WINDOW) <= now)
        {
            self.launches.pop_front();
        }
        if self.launches.len() >= LAUNCHES_MAX
            && let Some(oldest) = self.launches.front()
        {
            return out.volatile(Volatile::Wake(oldest.after(LAUNCH_WINDOW)));
        }
        self.launches.push_back(now);
        out.append_own(now, Kind::ShellStart(bare, self.last.0.next()));
    }

    /// The start of a shell is recorded: starts it, unless it is there.
    pub(super) fn recorded(&self, ranks: &Idset, epoch: Epoch, out: &mut Outbox) {
        if self.launch == Launch::Owed {
            out.effect(Effect::LaunchShell(ranks.clone(), epoch));
        }
    }

    /// The instance has recorded its end: the shells may go.
    pub(super) fn dismiss(&mut self, out: &mut Outbox) {
        self.course = Course::Dismissed;
        for epoch in self.current.keys() {
            out.effect(Effect::Shell(*epoch, ToShell::Exit));
        }
    }
}
