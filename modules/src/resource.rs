//! What the instance has and what of it is in service.
//!
//! Folds the inventory, drains and grants; hears from shells whether their
//! ranks can be asked, and tells the other modules. Gives nothing to anybody:
//! sched does.

mod arriving;
mod giving;
mod handing;
mod idling;
mod nodes;
mod staying;
pub(crate) mod targets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use eddy_broker::{Endpoint, Input, Module, Notice, Outbox, ParentWord, Reacts, Request};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{DeclaredDead, Final, Kind, Record};
use eddy_wire::grant::Grant;
use eddy_wire::hash::Hash;
use eddy_wire::id::{Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::Work;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::Service;
use eddy_wire::services::child::ChildOf;
use eddy_wire::services::grant;
use eddy_wire::services::overlay;
use eddy_wire::services::resource::{
    self, DeadRequest, DrainRequest, DrainState, ListReply, RankState, RankStatus, UndrainRequest,
    Undrained,
};
use eddy_wire::shell::FromShell;
use eddy_wire::time::{MICROS, Span, Time};

use crate::jobs::Jobs;
use crate::once;
use crate::queues_above::QueuesAbove;
use crate::settings::Settings;
use arriving::Arriving;
use giving::Giving;
use handing::Handing;
use idling::Idling;
use nodes::Nodes;
use staying::Staying;

/// Longest reason of a drain in bytes.
const REASON_BYTES_MAX: usize = 1024;
/// Why ranks are drained that were declared dead, where nothing is said.
const DEAD: &str = "declared dead";
/// By when a new leader has heard of whoever is there: agents try again each second at the latest.
const HEARD_IN: Span = Span::seconds(10);

/// The inventory and its state.
pub struct Resource {
    nodes: Nodes,
    /// Which job of its parent the instance is.
    child: Option<ChildOf>,
    drained: BTreeMap<Rank, (DrainState, Seq)>,
    /// What the parent has drained.
    above: QueuesAbove,
    grants: Jobs<Arc<Grant>>,
    /// The jobs that are declared instances, and on which node each began: its leader is there.
    declared: BTreeMap<JobId, Option<Rank>>,
    giving: Giving,
    handing: Handing,
    arriving: Arriving,
    idling: Idling,
    staying: Staying,
    /// The ranks on the leader's own node.
    local: Idset,
    seats: Seats,
    /// Which of its ranks the other modules know to be online.
    told: Idset,
}

/// Which ranks can be asked: those whose shell is connected. Kept as they
/// change, since a thousand shells come one by one.
#[derive(Default)]
struct Seats {
    /// The ranks each life of a shell was started for.
    shells: BTreeMap<Epoch, Idset>,
    /// The latest life of each rank's shell.
    latest: BTreeMap<Rank, Epoch>,
    connected: BTreeSet<Epoch>,
    online: Idset,
    /// Which were connected at some time in the life of this leader, and when that began.
    heard: Idset,
    began: Time,
}

impl Seats {
    /// A shell began to serve these ranks.
    fn started(&mut self, ranks: &Idset, epoch: Epoch) {
        self.shells.insert(epoch, ranks.clone());
        self.latest
            .extend(ranks.iter().map(|rank| (Rank(rank), epoch)));
        match self.connected.contains(&epoch) {
            true => self.online = self.online.union(ranks),
            false => self.online = self.online.difference(ranks),
        }
    }

    fn lost(&mut self, epoch: Epoch) {
        self.away(epoch);
        if let Some(ranks) = self.shells.remove(&epoch) {
            for rank in ranks.iter().map(Rank) {
                if self.latest.get(&rank) == Some(&epoch) {
                    self.latest.remove(&rank);
                }
            }
        }
    }

    /// The ranks that this life of a shell serves and no later one does.
    fn served(&self, epoch: Epoch) -> Idset {
        let ranks = self.shells.get(&epoch).into_iter().flat_map(Idset::iter);
        ranks
            .filter(|rank| self.latest.get(&Rank(*rank)) == Some(&epoch))
            .collect()
    }

    fn connected(&mut self, epoch: Epoch) {
        self.connected.insert(epoch);
        let served = self.served(epoch);
        self.online = self.online.union(&served);
        self.heard = self.heard.union(&served);
    }

    /// A leader began, which has heard of nobody.
    fn begins(&mut self, now: Time) {
        (self.heard, self.began) = (Idset::new(), now);
    }

    fn away(&mut self, epoch: Epoch) {
        if self.connected.remove(&epoch) {
            self.online = self.online.difference(&self.served(epoch));
        }
    }
}

impl Module for Resource {
    fn name(&self) -> &'static str {
        "resource"
    }

    fn endpoints(&self) -> &'static [Endpoint] {
        const ENDPOINTS: &[Endpoint] = &[
            Endpoint::of::<resource::List>(),
            Endpoint::of::<resource::Status>(),
            Endpoint::of::<resource::Drain>(),
            Endpoint::of::<resource::Undrain>(),
            Endpoint::of::<resource::Dead>(),
            Endpoint::of::<overlay::Add>(),
            Endpoint::of::<overlay::Remove>(),
            Endpoint::of::<grant::Release>(),
            Endpoint::of::<grant::List>(),
            Endpoint::of::<grant::Arrive>(),
        ];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        self.giving.apply(record);
        self.above.apply(record);
        if let Some(job) = record.event.job {
            self.idling.apply(job, &record.event.kind);
        }
        match (&record.event.kind, record.event.job) {
            (Kind::ResourceDefine(set, basis), _) => {
                self.nodes.defined(set, basis, record.seq);
                self.idling.defined(record.event.t, self.nodes.all());
                let gone = &basis.removed;
                self.drained.retain(|rank, _| !gone.contains(rank.0));
            }
            (Kind::Drain(ranks, reason, userid), _) => {
                for rank in ranks.iter() {
                    let state = DrainState {
                        t: record.event.t,
                        reason: reason.clone(),
                        userid: *userid,
                    };
                    self.drained.insert(Rank(rank), (state, record.seq));
                }
            }
            (Kind::Undrain(ranks, _), _) => {
                self.drained.retain(|rank, _| !ranks.contains(rank.0));
            }
            (Kind::ShellStart(ranks, epoch), _) => self.seats.started(ranks, *epoch),
            (Kind::ShellLost(epoch, _), _) => self.seats.lost(*epoch),
            (Kind::LeaderStart(_), _) => self.seats.begins(record.event.t),
            (Kind::Submit(submit), Some(job)) => {
                if let Work::Instance { name: Some(_) } = submit.spec.request.work {
                    self.declared.insert(job, None);
                }
            }
            (Kind::Clean, Some(job)) => drop(self.declared.remove(&job)),
            (Kind::Alloc(grant) | Kind::GrantChanged(grant), Some(job)) => {
                if let (Some(home), Kind::Alloc(_)) =
                    (self.declared.get_mut(&job), &record.event.kind)
                {
                    *home = grant.set.nodes.keys().next().copied();
                }
                self.grants.insert(job, Arc::clone(grant));
                let (before, now) = self.staying.granted(job, grant);
                self.idling.held(record.event.t, &before, &now);
            }
            (Kind::Free | Kind::Release(_, Final::Free(_) | Final::Over(_)), Some(job)) => {
                self.grants.remove(&job);
                let before = self.staying.free(job);
                self.idling.held(record.event.t, &before, &Idset::new());
            }
            _ => {}
        }
    }

    fn reacts(&self) -> Reacts {
        Reacts::ToApplied
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.request(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Shell(epoch, FromShell::Hello { .. }) => {
                self.seats.connected(epoch);
                self.tell(out);
            }
            Input::ShellAway(epoch) => {
                self.seats.away(epoch);
                self.tell(out);
            }
            Input::Applied(record) => self.applied(now, &record.event.kind, out),
            Input::Notice(Notice::Drained) => self.hand_up_drains(now, out),
            Input::Tick => self.give_idle(now, out),
            Input::Parent(ParentWord::Granted(granted)) => {
                if let Some(kind) = self.nodes.granted(granted.inventory()) {
                    out.append_own(now, kind);
                }
                self.giving.told_anew();
                self.handing.told_anew();
                self.hand_up_drains(now, out);
                self.arriving.told(&granted.beside);
                self.arrived(out);
                self.take_back(now, &granted.leaving, out);
                self.giving.give(&self.staying, out);
            }
            Input::Cancel(caller) => self.arriving.drop_where(|of| of == caller),
            Input::Gone(client) => self.arriving.drop_where(|of| of.client == client),
            Input::Resume(_) => {
                self.idling.begin(now);
                if let Some(kind) = self.nodes.owed() {
                    out.append_own(now, kind);
                }
            }
            _ => {}
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.nodes.seq());
        // Each drain record is of one rank, so that none can bring back, after
        // a restart, a rank that was undrained since.
        seqs.extend(self.drained.values().map(|(_, seq)| *seq));
        self.giving.live(seqs);
        self.above.live(seqs);
    }
}

/// The digest of an inventory that a leader is told of, as a recorded one keeps it (`Basis::told`).
pub fn digest_of_told(told: &ResourceSet) -> Hash {
    nodes::hash(told)
}

impl Resource {
    /// An inventory not yet recorded.
    pub fn new(settings: &Settings) -> Resource {
        Resource {
            nodes: Nodes::new(settings),
            child: settings.place.child,
            drained: BTreeMap::new(),
            above: QueuesAbove::default(),
            grants: Jobs::default(),
            declared: BTreeMap::new(),
            giving: Giving::new(&settings.place, &settings.local),
            handing: Handing::new(&settings.place),
            arriving: Arriving::default(),
            idling: Idling::new(settings.release_idle),
            staying: Staying::default(),
            local: settings.local.clone(),
            seats: Seats::default(),
            told: Idset::new(),
        }
    }

    fn online(&self) -> Idset {
        self.seats.online.intersect(&self.nodes.ranks())
    }

    fn drained(&self) -> Idset {
        self.drained.keys().map(|rank| rank.0).collect()
    }

    /// Tells the other modules, if it is news.
    fn tell(&mut self, out: &mut Outbox) {
        let online = self.online();
        if self.told != online {
            self.told.clone_from(&online);
            out.notice(Notice::Online(online));
        }
        self.arrived(out);
    }

    /// Tells those who wait for nodes that have come.
    fn arrived(&mut self, out: &mut Outbox) {
        let drained = self.drained();
        self.arriving.tell(&self.online().difference(&drained), out);
    }

    fn all(&self) -> &ResourceSet {
        self.nodes.all()
    }

    fn applied(&mut self, now: Time, kind: &Kind, out: &mut Outbox) {
        if matches!(
            kind,
            Kind::ShellStart(..)
                | Kind::ShellLost(..)
                | Kind::ResourceDefine(..)
                | Kind::Undrain(..)
        ) {
            self.tell(out);
        }
        if let Kind::Drain(..) | Kind::Memo(_) = kind
            && self.handing.is_owed(&self.drained)
        {
            out.notice(Notice::Drained);
        }
        if matches!(
            kind,
            Kind::GiveBack(_)
                | Kind::Free
                | Kind::Release(_, Final::Free(_) | Final::Over(_))
                | Kind::GrantChanged(_)
        ) {
            self.giving.give(&self.staying, out);
        }
        if let Kind::Free
        | Kind::Clean
        | Kind::Release(_, Final::Free(_) | Final::Over(_))
        | Kind::ResourceDefine(..)
        | Kind::Undrain(..) = kind
        {
            self.give_idle(now, out);
        }
    }

    fn request(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        match request.topic.as_str() {
            resource::List::TOPIC => out.answer(request.caller, &self.list()),
            resource::Status::TOPIC => out.answer(request.caller, &self.status()),
            resource::Drain::TOPIC => self.drain(now, request, out)?,
            resource::Undrain::TOPIC => self.undrain(now, request, out)?,
            resource::Dead::TOPIC => self.dead(now, request, out)?,
            grant::List::TOPIC => out.answer(request.caller, &self.granted_rows()?),
            grant::Arrive::TOPIC => {
                self.giving.may()?;
                self.arriving.ask(request)?;
                self.arrived(out);
            }
            grant::Release::TOPIC => self.release(now, request, out)?,
            overlay::Add::TOPIC => {
                self.own_ranks()?;
                self.nodes.add(now, request, out)?;
            }
            overlay::Remove::TOPIC => {
                self.own_ranks()?;
                self.nodes.remove(now, request, &self.staying, out)?;
            }
            other => unreachable!("the router sent `{other}` to resource"),
        }
        Ok(())
    }

    /// Refuses for an instance in an instance, whose ranks are its grant.
    fn own_ranks(&self) -> Result<(), Refusal> {
        let Some(ChildOf { job, .. }) = self.child else {
            return Ok(());
        };
        let text = format!(
            "this instance is job {} of another, whose grant are its ranks: `eddy grant ask` and \
             `eddy grant release` change that",
            job.f58_ascii()
        );
        Err(Refusal::new(Code::Denied, text))
    }

    fn list(&self) -> ListReply {
        let all = self.all();
        let mut allocated = ResourceSet::default();
        self.grants
            .values()
            .for_each(|grant| allocated.add(&grant.set));
        // What runs beside others holds nothing of its nodes.
        allocated.nodes.retain(|_, node| !node.is_empty());
        allocated.trim_properties();
        let unused = all.difference(&allocated);
        let drained = self.drained();
        let in_service = self.online().difference(&drained);
        let in_service = in_service.difference(&self.above.drained());
        ListReply {
            free: unused.restrict(&in_service),
            down: unused.restrict(&self.nodes.ranks().difference(&in_service)),
            allocated,
            all: all.clone(),
        }
    }

    /// How many jobs are to end on each rank before it is nobody's. A declared instance that holds
    /// nothing there, and has not its leader there, lets go of it when it is taken out.
    fn jobs_left(&self) -> BTreeMap<Rank, u32> {
        let mut jobs = self.jobs_on();
        for (job, home) in &self.declared {
            let nodes = self.grants.get(job).map(|grant| &grant.set.nodes);
            let places = nodes.into_iter().flatten();
            let idle = places.filter(|(rank, node)| node.is_empty() && Some(**rank) != *home);
            for (rank, _) in idle {
                jobs.entry(*rank).and_modify(|jobs| *jobs -= 1);
            }
        }
        jobs
    }

    /// How many jobs run on each rank, where any does.
    fn jobs_on(&self) -> BTreeMap<Rank, u32> {
        let mut jobs = BTreeMap::new();
        for grant in self.grants.values() {
            for rank in grant.set.nodes.keys() {
                *jobs.entry(*rank).or_default() += 1;
            }
        }
        jobs
    }

    fn status(&self) -> Vec<RankStatus> {
        let online = self.online();
        let jobs = self.jobs_left();
        let closed = self.above.drained();
        let state = |rank: Rank| match online.contains(rank.0) {
            true => RankState::Online,
            false => RankState::Offline,
        };
        self.all()
            .nodes
            .iter()
            .map(|(rank, node)| RankStatus {
                rank: *rank,
                host: node.host.to_string(),
                state: state(*rank),
                drain: self.drained.get(rank).map(|(drain, _)| drain.clone()),
                closed: closed.contains(rank.0),
                jobs: jobs.get(rank).copied().unwrap_or(0),
            })
            .collect()
    }

    fn drain(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: DrainRequest = request.parse()?;
        is_a_line(&body.reason)?;
        let ranks = targets::ranks("targets", &body.targets, self.all())?;
        self.is_drained_above(&ranks)?;
        let again = ranks
            .iter()
            .find(|rank| self.drained.contains_key(&Rank(*rank)));
        if let (Some(rank), false) = (again, body.force) {
            let text =
                format!("targets: rank {rank} is drained already; force replaces the reason");
            return Err(Refusal::invalid(text));
        }
        drained(now, &ranks, (&body.reason, request.uid), out);
        once::reply(now, request, body.once, &(), out);
        Ok(())
    }

    /// Declares ranks dead that are not heard of: what was there is lost, and they stay out of service.
    fn dead(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: DeadRequest = request.parse()?;
        is_a_line(&body.reason)?;
        self.own_ranks()?;
        let ranks = targets::ranks("targets", &body.targets, self.all())?;
        self.may_be_dead(now, &ranks, &body)?;
        // Who says no more than that again leaves why they are drained as it was said.
        let (reason, new) = match body.reason.as_str() {
            "" => (DEAD, ranks.difference(&self.drained())),
            said => (said, ranks.clone()),
        };
        drained(now, &new, (reason, request.uid), out);
        let by = DeclaredDead {
            userid: request.uid,
            reason: body.reason,
        };
        out.notice(Notice::Dead(request.caller, ranks, by));
        Ok(())
    }

    /// Refuses for ranks that seem to live, unless somebody knows better: then their shells are ended.
    /// Nobody can know it of those that a new leader has not heard of yet.
    fn may_be_dead(&self, now: Time, ranks: &Idset, asked: &DeadRequest) -> Result<(), Refusal> {
        let there = ranks.intersect(&self.seats.online);
        let own = there.intersect(&self.local);
        if asked.force && !own.is_empty() {
            let text = format!(
                "targets: ranks {own} are on the leader's own node, whose shell no agent ends: `kill -9` it there"
            );
            return Err(Refusal::new(Code::Conflict, text));
        }
        if !asked.force && !there.is_empty() {
            let text = format!(
                "targets: ranks {there} are in service; allowed are those that are offline (on others \
                 `resource drain` lets nothing start, `resource remove --force` ends what runs, and \
                 `resource dead --force` ends a shell that hangs, with all that it started)"
            );
            return Err(Refusal::new(Code::Conflict, text));
        }
        let unheard = ranks.difference(&self.seats.heard);
        let until = self.seats.began.after(HEARD_IN);
        if now < until && !unheard.is_empty() {
            let text = format!(
                "targets: ranks {unheard} may come yet: the leader began a moment ago and has not heard of them; \
                 say it again in {} s",
                (until - now).0.div_euclid(MICROS) + 1
            );
            return Err(Refusal::new(Code::Conflict, text));
        }
        Ok(())
    }

    fn undrain(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: UndrainRequest = request.parse()?;
        let ranks = targets::ranks("targets", &body.targets, self.all())?;
        let is_drained = |rank: &u32| self.drained.contains_key(&Rank(*rank));
        let drained: Idset = ranks.iter().filter(is_drained).collect();
        let others = ranks.difference(&drained);
        if !others.is_empty() {
            self.is_drained_above(&others)?;
        }
        if drained.is_empty() {
            let text = format!("targets: ranks {others} are not drained");
            return Err(Refusal::invalid(text));
        }
        self.giving.may_stay(&drained)?;
        out.append_own(now, Kind::Undrain(drained, Some(request.uid)));
        let others = self.all().restrict(&others).nodelist();
        once::reply(now, request, body.once, &Undrained { others }, out);
        Ok(())
    }
}

/// Whether a reason is one line, and not too long.
pub(crate) fn is_a_line(reason: &str) -> Result<(), Refusal> {
    if reason.len() > REASON_BYTES_MAX || reason.contains('\n') {
        let text = format!("reason: one line of at most {REASON_BYTES_MAX} bytes is allowed");
        return Err(Refusal::invalid(text));
    }
    Ok(())
}

/// One record for each rank: a mark keeps a record as long as any state rests on it, and ranks are
/// undrained one by one.
fn drained(now: Time, ranks: &Idset, (reason, by): (&str, u32), out: &mut Outbox) {
    for rank in ranks.iter() {
        let kind = Kind::Drain(Idset::one(rank), reason.to_owned(), by);
        out.append_own(now, kind);
    }
}

#[cfg(test)]
mod tests;
