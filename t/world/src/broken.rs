//! Rules broken on purpose, to see that the oracles notice.
//!
//! Each is a wrapper around what passes between the parts of a world: an effect let through too
//! early, a message changed, a record left out. The product knows nothing of it.

mod around;
mod careless;
mod deaf;
mod endless;
mod impatient;
mod loose;
mod unclaimed;
mod wordy;

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::shellbook::{ShellBook, ShellEffect, ShellInput};
use eddy_broker::{Input, Module, Outbox};
use eddy_modules::Settings;
use eddy_modules::manager::Manager;
use eddy_modules::sched::Sched;
use eddy_wire::event::{Kind, Record};
use eddy_wire::filter::Ruling;
use eddy_wire::grant::Grant;
use eddy_wire::id::{Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Need;
use eddy_wire::plan::{Delta, Outcome, Verdict};
use eddy_wire::services::Service;
use eddy_wire::services::child::{FromParent, PassState, ToldOf};
use eddy_wire::services::job::{Kill, Resume, Suspend};
use eddy_wire::services::resource::Drain;
use eddy_wire::shell::{FromShell, Start, ToShell};
use eddy_wire::time::{Span, Time};

use crate::leader::Leader;
use crate::nature::{InstanceId, Nature};
pub use around::Around;
use around::Twist;
pub use careless::Careless;
pub use deaf::{Deaf, Deafening};
pub use endless::Endless;
pub use impatient::Impatient;
pub use loose::Loose;
pub use unclaimed::Unclaimed;
pub use wordy::Wordy;

/// Cores of the largest node of a world.
const CORES_MAX: u32 = 4;

/// A rule that can be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Effects leave before what they tell of is durable.
    GateOpen,
    /// A shell's list is not looked at when it connects.
    NoExchangeOfLists,
    /// A shell starts again what it is told to start again.
    ShellForgetsStarts,
    /// A start for one life of a shell is taken by another.
    StartTakenByOtherLife,
    /// A shell whose connection ended is taken for dead.
    SilenceIsDeath,
    /// KILL does not arrive.
    KillLost,
    /// The journal does not know the keys of finished jobs.
    KeysForgotten,
    /// A mark leaves out a record that state rests on.
    MarkDropsRecord,
    /// A shell forgets an end before it is recorded.
    EndsForgotten,
    /// A verdict is recorded without a look at the present.
    VerdictUnchecked,
    /// Nobody is woken up.
    WakeLost,
    /// The row of a finished job is written before its last record.
    RowStale,
    /// An agent starts a child's shell on ground that was given up.
    GroundUnchecked,
    /// An agent hosts ranks of an instance on, whatever it is told.
    HostsForNobody,
    /// A leader does not wait for the agent of its own node.
    AttendantUnheard,
    /// A child is told that it has a node's cores more than it has.
    GrantInflated,
    /// A job comes to a queue instance in an attempt after the one that it is in.
    PassInflated,
    /// The end of a part leaves what is nested in it.
    SweepSpares,
    /// A link loses a letter and goes on.
    LetterLost,
    /// A child is not told to end.
    ChildDeaf,
    /// A rank whose link broke does not knock again.
    KnocksOnce,
    /// Jobs are let go before what they wait for is met.
    NeedsDropped,
    /// Everybody has the roles of the owner.
    AllOwners,
    /// Nobody is promised anything: those who fit pass whoever is first.
    HeadDelayed,
    /// Whoever fits starts where nobody may pass the first.
    OrderUnheard,
    /// What is promised for good is promised anew in each pass.
    PromisesAnew,
    /// Whoever is due most loses what he is promised when somebody comes.
    PromiseDropped,
    /// What was used under another policy weighs as it did then.
    PastUnheard,
    /// What an attempt is charged in the end nobody tells a planner.
    EndsUntold,
    /// A planner does not hear it.
    SettledUnheard,
    /// Nobody waits too long, however long he waits.
    OverdueUnheard,
    /// The home of an instance is lent for however long.
    LentForEver,
    /// An instance is not told that what it has is another than it was.
    GrantUnheard,
    /// Jobs of a stopped queue start.
    StopUnheard,
    /// A disabled queue takes jobs.
    DisableUnheard,
    /// Who takes jobs does not hear how many accounts may have.
    SubmittedUnheard,
    /// What was done is not known by its key.
    DoneUnheard,
    /// Nobody keeps nodes for a reservation.
    ReservationUnheard,
    /// Jobs are taken from however short they have run.
    ExemptForgotten,
    /// Who starts jobs believes that there is more of pools than there is.
    PoolsInflated,
    /// An instance gives nodes back on which its jobs run.
    GivenWhileUsed,
    /// What a filter refuses is accepted.
    FilterOverruled,
    /// Who starts jobs does not hear that the configuration is another.
    ConfigurationUnheard,
    /// One of a gang is left behind as the others start.
    GangScattered,
    /// Shells say that tasks are stopped, which run on.
    PauseUnheard,
    /// An instance hears of other cores than those on which a job that was passed to it goes on.
    ProceedElsewhere,
    /// Who starts jobs does not hear what they ask of nodes.
    ConstraintUnheard,
    /// Who starts jobs does not hear in which sockets their slots are to lie.
    SocketsUnheard,
    /// Who starts jobs does not hear what their queues require of nodes.
    RequiresUnheard,
    /// An instance in that of a queue gives nodes back, and the root hears nothing of it.
    ReturnUnheard,
    /// An instance says that a job is over as soon as it runs.
    EndsForetold,
    /// An instance does not say when a job was over.
    EndsUndated,
    /// An instance does not wait for its silent parent to come back.
    AloneAtOnce,
    /// The planner does not hear that instances can do without nodes.
    GiftsUnheard,
    /// Neither an instance nor who would clear its ground hears that nodes are to be given.
    GiftsKept,
    /// An instance hears nothing of until when it has nodes by which it has grown.
    GoingUnheard,
    /// A child takes jobspecs for environments, and these for those.
    PayloadMixed,
    /// What a shell started lives on that is said to be ended, since its node was declared dead.
    DeadSpared,
    /// Shells do not hear that a leader hangs.
    RestartUnheard,
    /// The ledger charges for what was held of a node that failed.
    FailureCharged,
    /// Who lets jobs through does not hear how many nodes, cores and GPUs may be had.
    CoresUnheard,
    /// Who lets jobs through takes every period for a day.
    PeriodUnheard,
    /// Everybody may have any job suspended, and go on.
    AllSuspend,
    /// Everybody may send signals to any job.
    AllKill,
    /// Everybody may take nodes out of service.
    AllDrain,
    /// A start does not count before the next pick of the pass.
    PassUnheard,
    /// Who has nothing that waits takes from those beside him.
    IdleHeard,
    /// What one record could say is several.
    AllSpelledOut,
    /// All that passed since its submission a job has waited for resources.
    HoldsCounted,
    /// Who starts jobs does not hear that the instance ends what runs.
    EndUnheard,
    /// The planner of a leader that comes after another believes that what runs has more time.
    LimitUnheard,
    /// Who lets jobs through limits knows of no order but that of urgency and submission.
    GradeUnheard,
    /// Who waits for an instance that is not reached has no turn.
    TurnsDropped,
}

/// Rules that are broken by asking as the owner, by what is asked for.
const OPEN: [(Rule, &[&str]); 3] = [
    (Rule::AllSuspend, &[Suspend::TOPIC, Resume::TOPIC]),
    (Rule::AllKill, &[Kill::TOPIC]),
    (Rule::AllDrain, &[Drain::TOPIC]),
];

/// Whether any client asks for this as the owner would.
pub fn is_open(broken: Option<Rule>, topic: &str) -> bool {
    let is_it = |(rule, topics): &(Rule, &[&str])| broken == Some(*rule) && topics.contains(&topic);
    broken == Some(Rule::AllOwners) || OPEN.iter().any(is_it)
}

/// A rule that is broken by settings that are others than they were.
pub type Misled = (Rule, fn(&mut Settings));

/// Those that the side of the planner is told.
pub const MISLED: [Misled; 4] = [
    (Rule::ExemptForgotten, |of| {
        of.qos.iter_mut().for_each(|qos| qos.exempt = Span::ZERO);
    }),
    (Rule::PoolsInflated, |of| {
        of.pools.iter_mut().for_each(|pool| pool.count += 1);
    }),
    (Rule::RequiresUnheard, |of| {
        let queues = of.queues.iter_mut();
        queues.for_each(|queue| queue.rules.requires.clear());
    }),
    (Rule::AloneAtOnce, |of| {
        of.autonomous_after = of.autonomous_after.map(|_| Span(1));
    }),
];

impl Rule {
    /// All of them, by name.
    pub const ALL: &'static [(&'static str, Rule)] = &[
        ("gate-open", Rule::GateOpen),
        ("no-exchange-of-lists", Rule::NoExchangeOfLists),
        ("shell-forgets-starts", Rule::ShellForgetsStarts),
        ("start-taken-by-other-life", Rule::StartTakenByOtherLife),
        ("silence-is-death", Rule::SilenceIsDeath),
        ("kill-lost", Rule::KillLost),
        ("keys-forgotten", Rule::KeysForgotten),
        ("mark-drops-record", Rule::MarkDropsRecord),
        ("ends-forgotten", Rule::EndsForgotten),
        ("verdict-unchecked", Rule::VerdictUnchecked),
        ("wake-lost", Rule::WakeLost),
        ("row-stale", Rule::RowStale),
        ("ground-unchecked", Rule::GroundUnchecked),
        ("hosts-for-nobody", Rule::HostsForNobody),
        ("attendant-unheard", Rule::AttendantUnheard),
        ("grant-inflated", Rule::GrantInflated),
        ("pass-inflated", Rule::PassInflated),
        ("sweep-spares", Rule::SweepSpares),
        ("letter-lost", Rule::LetterLost),
        ("child-deaf", Rule::ChildDeaf),
        ("knocks-once", Rule::KnocksOnce),
        ("needs-dropped", Rule::NeedsDropped),
        ("all-owners", Rule::AllOwners),
        ("head-delayed", Rule::HeadDelayed),
        ("order-unheard", Rule::OrderUnheard),
        ("promises-anew", Rule::PromisesAnew),
        ("promise-dropped", Rule::PromiseDropped),
        ("past-unheard", Rule::PastUnheard),
        ("ends-untold", Rule::EndsUntold),
        ("settled-unheard", Rule::SettledUnheard),
        ("overdue-unheard", Rule::OverdueUnheard),
        ("lent-for-ever", Rule::LentForEver),
        ("grant-unheard", Rule::GrantUnheard),
        ("stop-unheard", Rule::StopUnheard),
        ("disable-unheard", Rule::DisableUnheard),
        ("submitted-unheard", Rule::SubmittedUnheard),
        ("reservation-unheard", Rule::ReservationUnheard),
        ("done-unheard", Rule::DoneUnheard),
        ("exempt-forgotten", Rule::ExemptForgotten),
        ("pools-inflated", Rule::PoolsInflated),
        ("given-while-used", Rule::GivenWhileUsed),
        ("filter-overruled", Rule::FilterOverruled),
        ("configuration-unheard", Rule::ConfigurationUnheard),
        ("gang-scattered", Rule::GangScattered),
        ("pause-unheard", Rule::PauseUnheard),
        ("proceed-elsewhere", Rule::ProceedElsewhere),
        ("constraint-unheard", Rule::ConstraintUnheard),
        ("sockets-unheard", Rule::SocketsUnheard),
        ("requires-unheard", Rule::RequiresUnheard),
        ("return-unheard", Rule::ReturnUnheard),
        ("ends-foretold", Rule::EndsForetold),
        ("ends-undated", Rule::EndsUndated),
        ("alone-at-once", Rule::AloneAtOnce),
        ("gifts-unheard", Rule::GiftsUnheard),
        ("gifts-kept", Rule::GiftsKept),
        ("going-unheard", Rule::GoingUnheard),
        ("payload-mixed", Rule::PayloadMixed),
        ("dead-spared", Rule::DeadSpared),
        ("restart-unheard", Rule::RestartUnheard),
        ("failure-charged", Rule::FailureCharged),
        ("cores-unheard", Rule::CoresUnheard),
        ("period-unheard", Rule::PeriodUnheard),
        ("all-suspend", Rule::AllSuspend),
        ("all-kill", Rule::AllKill),
        ("all-drain", Rule::AllDrain),
        ("pass-unheard", Rule::PassUnheard),
        ("idle-heard", Rule::IdleHeard),
        ("all-spelled-out", Rule::AllSpelledOut),
        ("holds-counted", Rule::HoldsCounted),
        ("end-unheard", Rule::EndUnheard),
        ("limit-unheard", Rule::LimitUnheard),
        ("grade-unheard", Rule::GradeUnheard),
        ("turns-dropped", Rule::TurnsDropped),
    ];

    /// The rule of this name.
    pub fn named(name: &str) -> Option<Rule> {
        let found = Rule::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, rule)| *rule)
    }
}

/// A hello without its list.
pub fn without_list(message: FromShell) -> FromShell {
    match message {
        FromShell::Hello {
            instance,
            epoch,
            pid,
            version,
            ..
        } => FromShell::Hello {
            instance,
            epoch,
            pid,
            version,
            parts: Vec::new(),
        },
        other => other,
    }
}

/// What a shell without a memory does with a start: a new book takes it.
pub fn start_afresh(instance: InstanceId, epoch: Epoch, start: &Start) -> Vec<ShellEffect> {
    let mut book = ShellBook::new(instance.name(), epoch, 0);
    let mut effects = Vec::new();
    let mut tell = |message: ToShell| {
        effects.clear();
        book.handle(Time(0), ShellInput::Broker(message), &mut effects);
    };
    tell(ToShell::Welcome { leader: Epoch(0) });
    for hash in [start.jobspec, start.environment] {
        let text: Arc<str> = "{}".into();
        tell(ToShell::Payload { hash, text });
    }
    tell(ToShell::Start(Box::new(start.clone())));
    effects
}

/// Lets a shell forget each end as it is told.
pub fn forget_ends(book: &mut ShellBook, now: Time, effects: &mut Vec<ShellEffect>) {
    let ended: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            ShellEffect::Send(FromShell::Ended { part, .. }) => Some(*part),
            _ => None,
        })
        .collect();
    for part in ended {
        let forget = ToShell::Forget { part };
        book.handle(now, ShellInput::Broker(forget), effects);
    }
}

/// Whether it says that nodes were returned, and is not to be heard.
pub fn unreturned(nature: &Nature, told: &ToldOf) -> bool {
    nature.breaks(Rule::ReturnUnheard) && matches!(told.state, PassState::Returned { .. })
}

/// What an instance says of a job that was passed to it.
pub fn told(nature: &Nature, mut told: ToldOf) -> ToldOf {
    if nature.breaks(Rule::EndsUndated) {
        told.ended = None;
    }
    if nature.breaks(Rule::EndsForetold) && told.state == PassState::Running {
        told.state = PassState::Over {
            began: true,
            status: Some(0),
            exception: None,
        };
    }
    told
}

/// What a leader hears of what its parent says, by the rules that are broken.
pub fn heard(nature: &Nature, leader: Option<&Leader>, word: FromParent) -> Option<FromParent> {
    let mut word = Some(word).filter(|word| match word {
        FromParent::Granted(granted) => {
            let unheard = nature.breaks(Rule::GrantUnheard) && leader.is_some();
            !unheard || granted.grant.epoch == Epoch(1)
        }
        _ => true,
    })?;
    match &mut word {
        FromParent::Granted(granted) if nature.breaks(Rule::GrantInflated) => {
            let set = granted.room.as_mut().unwrap_or(&mut granted.grant.set);
            for node in Arc::make_mut(set).nodes.values_mut() {
                node.cores = Idset::first_ids(CORES_MAX);
            }
        }
        FromParent::Granted(granted) if nature.breaks(Rule::GoingUnheard) => {
            granted.closed.retain(|closed| closed.from.is_none());
        }
        FromParent::Granted(granted) if nature.breaks(Rule::GiftsKept) => {
            granted.leaving = Idset::new();
        }
        FromParent::Pass(passed) if nature.breaks(Rule::PassInflated) => {
            passed.pass.attempt.0 += 1;
        }
        FromParent::Pass(passed) if nature.breaks(Rule::PayloadMixed) => {
            std::mem::swap(&mut passed.jobspec, &mut passed.environment);
        }
        FromParent::Proceed { cores, .. } if nature.breaks(Rule::ProceedElsewhere) => {
            for node in Arc::make_mut(cores).nodes.values_mut() {
                let number = node.cores.len() as u32;
                let all = Idset::first_ids(CORES_MAX);
                let others = all
                    .difference(&node.cores)
                    .iter()
                    .take(number as usize)
                    .collect();
                node.cores = others;
            }
        }
        _ => {}
    }
    Some(word)
}

/// What a planner is told of those who wait, and of those who are over, by the rules that are broken.
pub fn planned(nature: &Nature, mut deltas: Vec<Delta>) -> Vec<Delta> {
    if nature.breaks(Rule::HoldsCounted) {
        for delta in &mut deltas {
            if let Delta::Want(_, want) = delta {
                want.eligible = want.submitted;
            }
        }
    }
    if nature.breaks(Rule::EndsUntold) {
        deltas.retain(|delta| !matches!(delta, Delta::Settled(..)));
    }
    deltas
}

/// What a filter said, where it can only accept.
pub fn never_refuse(ruling: Ruling) -> Ruling {
    match ruling {
        Ruling::Refuse(_) => Ruling::Accept,
        other => other,
    }
}

/// A mark's list without one record from its middle.
pub fn drop_one(mut live: Vec<Seq>) -> Vec<Seq> {
    if !live.is_empty() {
        live.remove(live.len() / 2);
    }
    live
}

/// The manager, but nobody waits for what he is said to wait for.
#[derive(Default)]
pub struct Hasty {
    needs: BTreeMap<JobId, Vec<Need>>,
}

impl Twist<Manager> for Hasty {
    const NAME: &'static str = "manager that lets everybody go";

    fn apply(&mut self, real: &mut Manager, record: &Record) {
        if let (Kind::Submit(submit), Some(job)) = (&record.event.kind, record.event.job) {
            self.needs.insert(job, submit.spec.needs.clone());
        }
        real.apply(record);
    }

    fn handle(&mut self, real: &mut Manager, (now, input): (Time, Input<'_>), out: &mut Outbox) {
        if let Input::Applied(record) = &input
            && let (Kind::Validate, Some(job)) = (&record.event.kind, record.event.job)
        {
            for need in self.needs.remove(&job).unwrap_or_default() {
                out.append(now, job, Kind::DependencyRemove(need.description()));
            }
        }
        real.handle(now, input, out);
    }
}

/// The sched module, but each verdict is recorded as it comes.
#[derive(Default)]
pub struct Credulous {
    shells: BTreeMap<Rank, Epoch>,
}

impl Twist<Sched> for Credulous {
    const NAME: &'static str = "sched that checks nothing";

    fn apply(&mut self, real: &mut Sched, record: &Record) {
        if let Kind::ShellStart(ranks, epoch) = &record.event.kind {
            let ranks = ranks.iter().map(|rank| (Rank(rank), *epoch));
            self.shells.extend(ranks);
        }
        real.apply(record);
    }

    fn handle(&mut self, real: &mut Sched, (now, input): (Time, Input<'_>), out: &mut Outbox) {
        let Input::Planned(outcome) = input else {
            return real.handle(now, input, out);
        };
        for (job, verdict) in &outcome.verdicts {
            let Verdict::Start(set) = verdict else {
                continue;
            };
            let shells = set.nodes.keys().map(|rank| (*rank, self.shells[rank]));
            let grant = Grant {
                epoch: Epoch(1),
                set: Arc::clone(set),
                shells: shells.collect(),
                beside: Default::default(),
                passed: None,
            };
            out.append(now, *job, Kind::Alloc(Arc::new(grant)));
        }
        let starts = |(_, verdict): &(JobId, Verdict)| matches!(verdict, Verdict::Start(_));
        let rest = Outcome {
            verdicts: outcome
                .verdicts
                .iter()
                .filter(|one| !starts(one))
                .cloned()
                .collect(),
            ..outcome.clone()
        };
        real.handle(now, Input::Planned(&rest), out);
    }
}
