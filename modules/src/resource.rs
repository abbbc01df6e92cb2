//! What the instance has and what of it is in service.
//!
//! Folds the inventory, drains and grants; hears from shells whether their
//! ranks can be asked, and tells the other modules. Gives nothing to anybody:
//! sched does.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_broker::{Endpoint, Input, Module, Notice, Outbox, Request};
use eddy_wire::error::Refusal;
use eddy_wire::event::{Basis, Kind, Record};
use eddy_wire::grant::Grant;
use eddy_wire::hostlist::Hostlist;
use eddy_wire::id::{Epoch, JobId, Rank, Seq};
use eddy_wire::idset::Idset;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::Service;
use eddy_wire::services::resource::{
    self, DrainRequest, DrainState, ListReply, RankState, RankStatus, Targets, UndrainRequest,
};
use eddy_wire::shell::FromShell;
use eddy_wire::time::Time;

use crate::settings::Settings;

/// Longest reason of a drain in bytes.
const REASON_BYTES_MAX: usize = 1024;

/// The inventory and its state.
pub struct Resource {
    /// What this leader was told it owns.
    told: Arc<ResourceSet>,
    inventory: Option<(Arc<ResourceSet>, Seq)>,
    drained: BTreeMap<Rank, (DrainState, Seq)>,
    grants: BTreeMap<JobId, Arc<Grant>>,
    shells: BTreeMap<Epoch, Idset>,
    /// Ranks whose shell is connected now.
    online: BTreeMap<Epoch, Idset>,
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
        ];
        ENDPOINTS
    }

    fn apply(&mut self, record: &Record) {
        match (&record.event.kind, record.event.job) {
            (Kind::ResourceDefine(set, _), _) => {
                self.inventory = Some((Arc::clone(set), record.seq));
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
            (Kind::Undrain(ranks), _) => {
                self.drained.retain(|rank, _| !ranks.contains(rank.0));
            }
            (Kind::ShellStart(ranks, epoch), _) => {
                self.shells.insert(*epoch, ranks.clone());
                if let Some(online) = self.online.get_mut(epoch) {
                    online.clone_from(ranks);
                }
            }
            (Kind::ShellLost(epoch), _) => {
                self.shells.remove(epoch);
                self.online.remove(epoch);
            }
            (Kind::Alloc(grant) | Kind::GrantChanged(grant), Some(job)) => {
                self.grants.insert(job, Arc::clone(grant));
            }
            (Kind::Free, Some(job)) => {
                self.grants.remove(&job);
            }
            _ => {}
        }
    }

    fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Outbox) {
        match input {
            Input::Request(request) => {
                if let Err(refusal) = self.request(now, request, out) {
                    out.refuse(request.caller, &refusal);
                }
            }
            Input::Shell(epoch, FromShell::Hello { .. }) => {
                if let Some(ranks) = self.shells.get(&epoch) {
                    self.online.insert(epoch, ranks.clone());
                    self.tell(out);
                }
            }
            Input::ShellAway(epoch) => {
                if self.online.remove(&epoch).is_some() {
                    self.tell(out);
                }
            }
            Input::Applied(record) => {
                if matches!(
                    record.event.kind,
                    Kind::ShellLost(_) | Kind::ResourceDefine(..)
                ) {
                    self.tell(out);
                }
            }
            Input::Resume => {
                if self
                    .inventory
                    .as_ref()
                    .is_none_or(|(set, _)| *set != self.told)
                {
                    out.append_own(
                        now,
                        Kind::ResourceDefine(Arc::clone(&self.told), Basis::default()),
                    );
                }
            }
            _ => {}
        }
    }

    fn live(&self, seqs: &mut Vec<Seq>) {
        seqs.extend(self.inventory.as_ref().map(|(_, seq)| *seq));
        // Each drain record is of one rank, so that none can bring back, after
        // a restart, a rank that was undrained since.
        seqs.extend(self.drained.values().map(|(_, seq)| *seq));
    }
}

impl Resource {
    /// An inventory not yet recorded.
    pub fn new(settings: &Settings) -> Resource {
        Resource {
            told: Arc::clone(&settings.inventory),
            inventory: None,
            drained: BTreeMap::new(),
            grants: BTreeMap::new(),
            shells: BTreeMap::new(),
            online: BTreeMap::new(),
        }
    }

    fn online(&self) -> Idset {
        self.online
            .values()
            .fold(Idset::new(), |all, ranks| all.union(ranks))
    }

    fn tell(&self, out: &mut Outbox) {
        out.notice(Notice::Online(self.online()));
    }

    fn all(&self) -> &ResourceSet {
        self.inventory.as_ref().map_or(&self.told, |(set, _)| set)
    }

    fn request(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        match request.topic.as_str() {
            resource::List::TOPIC => out.answer(request.caller, &self.list()),
            resource::Status::TOPIC => out.answer(request.caller, &self.status()),
            resource::Drain::TOPIC => self.drain(now, request, out)?,
            resource::Undrain::TOPIC => self.undrain(now, request, out)?,
            other => unreachable!("the router sent `{other}` to resource"),
        }
        Ok(())
    }

    fn list(&self) -> ListReply {
        let all = self.all();
        let mut allocated = ResourceSet::default();
        self.grants
            .values()
            .for_each(|grant| allocated.add(&grant.set));
        let unused = all.difference(&allocated);
        let online = self.online();
        let in_service = Idset::from_iter(
            online
                .iter()
                .filter(|rank| !self.drained.contains_key(&Rank(*rank))),
        );
        ListReply {
            free: unused.restrict(&in_service),
            down: unused.restrict(&all.ranks().difference(&in_service)),
            allocated,
            all: all.clone(),
        }
    }

    fn status(&self) -> Vec<RankStatus> {
        let online = self.online();
        let mut jobs: BTreeMap<Rank, u32> = BTreeMap::new();
        for grant in self.grants.values() {
            for rank in grant.set.nodes.keys() {
                *jobs.entry(*rank).or_default() += 1;
            }
        }
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
                jobs: jobs.get(rank).copied().unwrap_or(0),
            })
            .collect()
    }

    fn drain(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: DrainRequest = request.parse()?;
        if body.reason.len() > REASON_BYTES_MAX || body.reason.contains('\n') {
            let text = format!("reason: one line of at most {REASON_BYTES_MAX} bytes is allowed");
            return Err(Refusal::invalid(text));
        }
        let ranks = self.targets(&body.targets)?;
        let again = ranks
            .iter()
            .find(|rank| self.drained.contains_key(&Rank(*rank)));
        if let (Some(rank), false) = (again, body.force) {
            let text =
                format!("targets: rank {rank} is drained already; force replaces the reason");
            return Err(Refusal::invalid(text));
        }
        // One record for each rank: a mark keeps a record as long as any state
        // rests on it, and ranks are undrained one by one.
        for rank in ranks.iter() {
            let kind = Kind::Drain(Idset::one(rank), body.reason.clone(), request.uid);
            out.append_own(now, kind);
        }
        out.reply(request.caller, &());
        Ok(())
    }

    fn undrain(&mut self, now: Time, request: &Request, out: &mut Outbox) -> Result<(), Refusal> {
        let body: UndrainRequest = request.parse()?;
        let ranks = self.targets(&body.targets)?;
        if let Some(rank) = ranks
            .iter()
            .find(|rank| !self.drained.contains_key(&Rank(*rank)))
        {
            return Err(Refusal::invalid(format!(
                "targets: rank {rank} is not drained"
            )));
        }
        out.append_own(now, Kind::Undrain(ranks));
        out.reply(request.caller, &());
        Ok(())
    }

    /// The ranks that targets name; all of them must be in the inventory.
    fn targets(&self, targets: &Targets) -> Result<Idset, Refusal> {
        let all = self.all();
        let ranks = match targets {
            Targets::Ranks(ranks) => ranks.clone(),
            Targets::Hosts(text) => {
                let hosts: Hostlist = text
                    .parse()
                    .map_err(|e| Refusal::invalid(format!("targets: {e}")))?;
                let mut ranks = Idset::new();
                for host in hosts.hosts() {
                    let before = ranks.len();
                    let named = all.nodes.iter().filter(|(_, node)| *node.host == *host);
                    named.for_each(|(rank, _)| ranks.insert(rank.0));
                    if ranks.len() == before {
                        let text = format!("targets: host `{host}` is not in the inventory");
                        return Err(Refusal::not_found(text));
                    }
                }
                ranks
            }
        };
        let foreign = ranks.difference(&all.ranks());
        if !foreign.is_empty() {
            let text = format!(
                "targets: ranks {foreign} given, the inventory has {}",
                all.ranks()
            );
            return Err(Refusal::not_found(text));
        }
        if ranks.is_empty() {
            return Err(Refusal::invalid(
                "targets: none given, at least one rank is needed",
            ));
        }
        Ok(ranks)
    }
}
