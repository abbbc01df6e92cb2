//! What a jobspec may ask for here and by whom: what is not served is refused
//! by name, never left out in silence.

use std::collections::BTreeMap;
use std::sync::Arc;

use eddy_sched::Capacity;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::gang::Gang;
use eddy_wire::grace;
use eddy_wire::id::JobId;
use eddy_wire::idset::Idset;
use eddy_wire::jobspec::{Need, Request, Takes, Work};
use eddy_wire::message::Roles;
use eddy_wire::plan::Reason;
use eddy_wire::resource_set::ResourceSet;
use eddy_wire::services::child::{Granted, NESTING_MAX};
use eddy_wire::spec::Spec;
use eddy_wire::time::{Span, Time};
use eddy_wire::update::Limit;
use eddy_wire::warning;

use crate::lending::Lending;
use crate::live::Change;
use crate::requires::Requires;
use crate::settings::{Place, Settings};

const PATH: &str = "attributes.system";

/// What this instance serves.
#[derive(Debug)]
pub struct Served {
    place: Place,
    /// Jobs that are declared instances, by what they hold.
    grounds: BTreeMap<JobId, (String, Option<Capacity>)>,
    lending: Lending,
    requires: Requires,
    /// All nodes.
    inventory: Arc<ResourceSet>,
    /// What is left of them for jobs that no instance of a fixed size takes, where there are such.
    left: Option<Capacity>,
    /// From TERM to KILL.
    kill_grace: Span,
}

impl Served {
    /// As the settings say.
    pub fn new(settings: &Settings) -> Served {
        Served {
            place: settings.place.clone(),
            grounds: BTreeMap::new(),
            lending: Lending::new(settings),
            requires: Requires::new(&settings.queues, &ResourceSet::new()),
            inventory: Arc::default(),
            left: None,
            kill_grace: settings.kill_grace,
        }
    }

    /// Folds what the declared instances hold.
    pub fn apply(&mut self, record: &Record) {
        self.place.recorded(&record.event.kind);
        match &record.event.kind {
            Kind::ResourceDefine(set, _) => {
                self.inventory = Arc::clone(set);
                self.requires.on(set);
                self.reckon();
            }
            Kind::Memo(memo) => {
                if let Some(change) = Change::told(memo) {
                    self.lending = Lending::of(&change.live);
                    self.requires = Requires::new(&change.live.queues, &self.inventory);
                    self.reckon();
                }
            }
            _ => {}
        }
        let Some(job) = record.event.job else { return };
        match &record.event.kind {
            Kind::Submit(submit) => {
                if let Work::Instance { name: Some(name) } = &submit.spec.request.work {
                    self.grounds.insert(job, (name.clone(), None));
                }
            }
            Kind::Alloc(grant) | Kind::GrantChanged(grant) => {
                if let Some((_, capacity)) = self.grounds.get_mut(&job) {
                    *capacity = Some(Capacity::of(&grant.set.of_something()));
                    self.reckon();
                }
            }
            Kind::Clean if self.grounds.remove(&job).is_some() => self.reckon(),
            _ => {}
        }
    }

    /// What instances of a fixed size hold is theirs for as long as they are there: who asked for it besides would
    /// wait for ever, and keep others from starting.
    fn reckon(&mut self) {
        let fixed = self.grounds.values();
        let fixed = fixed.filter(|(name, _)| self.lending.elastic(name).is_none());
        let held = fixed.filter_map(|(_, capacity)| capacity.as_ref());
        let held = held.fold(Idset::new(), |all, one| all.union(one.ranks()));
        self.left = (!held.is_empty()).then(|| {
            let left = self.inventory.ranks().difference(&held);
            Capacity::of(&self.inventory.restrict(&left))
        });
    }

    /// What that declared instance holds for its jobs alone, if it does.
    pub fn ground(&self, instance: &str) -> Option<&Capacity> {
        if self.lending.elastic(instance).is_some() {
            return None;
        }
        let mut grounds = self.grounds.values();
        grounds.find(|(name, _)| name == instance)?.1.as_ref()
    }

    /// What is said beside of what is not to be had there: that others have it.
    pub fn others(&self, to: Option<&str>) -> &'static str {
        let shares = to.is_none_or(|name| self.ground(name).is_none());
        match shares && self.left.is_some() {
            true => " beside those of instances of a fixed size",
            false => "",
        }
    }

    /// The nodes that a job of a queue may have: of those of the declared instance that it leads to, or of what
    /// those of a fixed size leave; all when `None`.
    pub fn ranks(
        &self,
        (queue, to): (Option<&str>, Option<&str>),
        request: &Request,
    ) -> Option<Idset> {
        let ground = to.and_then(|name| self.ground(name)).or(self.left.as_ref());
        let ground = ground.map(|ground| ground.ranks().clone());
        let lent = self.lending.ranks(to, request, &self.inventory);
        let required = self.requires.ranks(queue).cloned();
        let all = ground.into_iter().chain(lent).chain(required);
        all.reduce(|some, others| some.intersect(&others))
    }

    /// Whether what is asked for could be had if all were free, by a job of that queue: of this
    /// instance, which has that, or of the declared one that it is for.
    pub fn has(
        &self,
        capacity: Option<&Capacity>,
        (queue, to): (Option<&str>, Option<&str>),
        request: &Request,
    ) -> Result<(), Reason> {
        let ground = to.and_then(|name| self.ground(name));
        let Some(capacity) = ground.or(self.left.as_ref()).or(capacity) else {
            return Ok(());
        };
        let known = || self.inventory.properties.keys().cloned().collect();
        let feasible = |request: &Request| {
            capacity.feasible(request).map_err(|reason| match reason {
                Reason::NoSuchNodes { constraint, .. } => Reason::NoSuchNodes {
                    constraint,
                    known: Some(known()),
                },
                other => other,
            })
        };
        // Of many nodes that would do, those that are not to be had do no harm.
        let ranks = self.lending.ranks(to, request, &self.inventory);
        let ranks = match ground {
            Some(_) => ranks,
            None => ranks.map(|ranks| self.beside_fixed(ranks)),
        };
        feasible(&Request {
            ranks: ranks.clone(),
            ..request.clone()
        })?;
        // What would fit elsewhere is told that it is its queue.
        if self.requires.ranks(queue).is_none() {
            return Ok(());
        }
        let within = self.requires.within(queue, request.clone(), ranks);
        let explain = |why: Reason| self.requires.explain(queue, &why).unwrap_or(why);
        feasible(&within).map_err(explain)
    }

    /// Whether members of a gang that are jobs of that queue could have what they ask for at once, if all were free.
    pub fn has_together(
        &self,
        (queue, to): (Option<&str>, Option<&str>),
        gang: Gang,
        mut requests: Vec<Request>,
    ) -> Result<(), Reason> {
        if self.inventory.nodes.is_empty() {
            return Ok(());
        }
        for request in &mut requests {
            if let Some(ranks) = self.ranks((queue, to), request) {
                request.ranks = Some(ranks);
            }
        }
        let ground = to.and_then(|name| self.ground(name)).or(self.left.as_ref());
        let nodes = match ground {
            Some(ground) => Arc::new(self.inventory.restrict(ground.ranks())),
            None => Arc::clone(&self.inventory),
        };
        eddy_sched::together(&nodes, gang, requests)
    }

    /// These without the ranks of instances of a fixed size, unless there are no others.
    fn beside_fixed(&self, ranks: Idset) -> Idset {
        let Some(left) = &self.left else {
            return ranks;
        };
        let fixed = self.inventory.ranks().difference(left.ranks());
        let others = ranks.difference(&fixed);
        match others.is_empty() {
            true => ranks,
            false => others,
        }
    }

    /// Of whose home a job of that instance, which is on these ranks, would have some for longer than they are
    /// lent; for how long they are; and which those are.
    pub fn borrowed(
        &self,
        on: (Option<&str>, &Idset),
        limit: Option<Span>,
    ) -> Option<(&str, Span, Idset)> {
        self.lending.borrowed(on, limit)
    }

    /// Whether this instance's jobs are its parent's.
    pub fn is_queue_instance(&self) -> bool {
        self.place.name.is_some()
    }

    /// The parent said anew where this instance is and how long.
    pub fn told(&mut self, now: Time, granted: &Granted) {
        self.place.told(now, granted);
    }

    /// Whether a sender of these roles may ask for this at any time.
    pub fn permits(&self, roles: Roles, spec: &Spec) -> Result<(), Refusal> {
        grace::of(spec).map_err(Refusal::invalid)?;
        warned_in_time(spec)?;
        let request = &spec.request;
        if request.takes == Takes::Nothing && !roles.any_of(Roles::OWNER) {
            let text = format!("{PATH}.beside: true given, only the instance's owner may");
            return Err(Refusal::new(Code::Denied, text));
        }
        match &request.work {
            Work::Tasks | Work::Ground { .. } | Work::Instance { name: None } => Ok(()),
            Work::Instance { name: Some(name) } => Err(Refusal::invalid(format!(
                "{PATH}.instance.name: `{name}` given, only the configuration names instances"
            ))),
        }
    }

    /// A job is given less time to end than others, if it says so, and never more: plans count on that.
    fn grace(&self, spec: &Spec) -> Result<(), Refusal> {
        let own = grace::of(spec).map_err(Refusal::invalid)?;
        match own.filter(|own| *own > self.kill_grace) {
            None => Ok(()),
            Some(own) => Err(Refusal::invalid(format!(
                "{PATH}.{}: {} s given, allowed are at most {} s (`exec.kill_grace`)",
                grace::ATTRIBUTE,
                seconds_of_micros(own.0),
                seconds_of_micros(self.kill_grace.0)
            ))),
        }
    }

    /// Whether it can be had here now.
    pub fn admits(&self, now: Time, spec: &Spec) -> Result<(), Refusal> {
        self.depth(&spec.request.work)?;
        self.grace(spec)?;
        in_time(&self.place, now, spec)
    }

    fn depth(&self, work: &Work) -> Result<(), Refusal> {
        let depth = self.place.depth + 1;
        if !matches!(work, Work::Instance { .. }) || depth <= NESTING_MAX {
            return Ok(());
        }
        let text = format!(
            "{PATH}.instance: it would be at depth {depth}; the limit `nesting` is {NESTING_MAX}"
        );
        Err(Refusal::new(Code::TooLarge, text))
    }

    /// Whether what runs may do so until then.
    pub fn lasts(&self, now: Time, spec: &Spec, until: Time) -> Result<(), Refusal> {
        match self.place.end() {
            Some(end) if until > end && !fits(spec) => {
                let text = format!(
                    "{PATH}.duration: it would run for another {} s, this instance has {} s left for jobs",
                    until - now,
                    Span((end - now).0.max(0))
                );
                Err(Refusal::invalid(text))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// How long jobs may still run here; `None` is for ever.
    pub fn left(&self, now: Time) -> Option<Span> {
        self.place.end().map(|end| end - now)
    }
}

/// Whether one of that limit may run here at all, and longer than it is to be warned before it ends.
///
/// # Errors
/// By the field.
pub(crate) fn lasts_in(place: &Place, now: Time, spec: &Spec) -> Result<(), Refusal> {
    in_time(place, now, spec)?;
    warned_in_time(spec)
}

fn in_time(place: &Place, now: Time, spec: &Spec) -> Result<(), Refusal> {
    let Some(end) = place.end() else {
        return Ok(());
    };
    let begins = begins(spec).filter(|begins| *begins > now);
    if let Some(begins) = begins.filter(|begins| *begins >= end) {
        return Err(Refusal::invalid(format!(
            "{PATH}.dependencies: begin-time in {} s given, this instance has {} s left for jobs",
            begins - now,
            Span((end - now).0.max(0))
        )));
    }
    let Some(duration) = spec.request.duration else {
        return Ok(());
    };
    let left = end - begins.unwrap_or(now);
    if duration <= left.0 || fits(spec) && left.0 > 0 {
        return Ok(());
    }
    let left = Span(left.0.max(0));
    let (from, then) = match begins {
        Some(_) => (" from its begin-time on", " then"),
        None => ("", ""),
    };
    let text = format!(
        "{PATH}.duration: {} s given{from}, this instance has {left} s left for jobs{then}",
        Span(duration)
    );
    Err(Refusal::invalid(text))
}

/// Before when a job does not begin, where it says so.
fn begins(spec: &Spec) -> Option<Time> {
    let begin = |need: &Need| match need {
        Need::Begin(time) => Some(*time),
        Need::After(..) | Need::Within(..) | Need::Singleton | Need::Throttle(_) => None,
    };
    spec.needs.iter().filter_map(begin).max()
}

/// Whoever is to be warned has a longer limit than that: else he would be as he begins, before he can hear it.
fn warned_in_time(spec: &Spec) -> Result<(), Refusal> {
    let warning = warning::of(&spec.jobspec).map_err(Refusal::invalid)?;
    match (warning, spec.request.duration.map(Span)) {
        (Some(warning), Some(limit)) if warning.left >= limit => Err(Refusal::invalid(format!(
            "attributes.system.shell.options.{}.timeleft: {} s given, allowed is less than the time limit of {} s",
            warning::OPTION,
            seconds_of_micros(warning.left.0),
            seconds_of_micros(limit.0)
        ))),
        _ => Ok(()),
    }
}

/// The time that is left for a job that asks for more and takes what there is: plans count on it.
pub(crate) fn cut(spec: &Spec, left: Option<Span>) -> Option<Span> {
    let asked = spec.request.duration?;
    left.filter(|left| fits(spec) && left.0 > 0 && left.0 < asked)
}

/// Whether it takes what time is left (`attributes.system.fit_remaining`): it ends with the instance.
pub(crate) fn fits(spec: &Spec) -> bool {
    says(spec, "fit_remaining")
}

/// Whether it asked for no time limit (`attributes.system.unlimited`), where others that have none said nothing of it.
pub(crate) fn is_unlimited(spec: &Spec) -> bool {
    Limit::of_spec(spec) == Limit::Unlimited
}

fn says(spec: &Spec, key: &str) -> bool {
    let other = &spec.jobspec.attributes.system.other;
    other.get(key).and_then(serde_json::Value::as_bool) == Some(true)
}
