//! What a queue asks of its jobs, and what it gives those that say nothing.
//!
//! Asked by ingest when a job is submitted, and by sched about one that would ask for something else. What
//! is wrong is told by field, with what was given and what is allowed. Counts nothing: that is `limits`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

use eddy_wire::account::{Book, Name, Party};
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::{Kind, Record};
use eddy_wire::fsd::seconds_of_micros;
use eddy_wire::jobspec::Count;
use eddy_wire::queue::{Gates, Rules, Shut, UNNAMED};
use eddy_wire::services::child::QueueAbove;
use eddy_wire::spec::Spec;
use eddy_wire::time::Span;

use super::{counted, served};
use crate::limits::is_nobodys;
use crate::live::Change;
use crate::settings::{Qos, Queue, Settings};

const QUEUE: &str = "attributes.system.queue";
const QOS: &str = "attributes.system.qos";
const DURATION: &str = "attributes.system.duration";
const RESOURCES: &str = "resources";
/// How many names are told of.
const NAMES_SHOWN: usize = 16;

/// The queues of an instance and whether they are open.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    queues: Vec<Queue>,
    gates: Gates,
    names: Names,
    default_time: Option<Span>,
    qos_times: BTreeMap<Name, Span>,
}

/// Which names of queues there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Names {
    /// Those of the configuration.
    #[default]
    Configured,
    /// Any: the parent of a declared instance knows which lead to it.
    Any,
}

/// The queue that a job is in, as records of queues name it; `None` for what is in no queue: what
/// takes nothing, and the instances that the configuration declares.
pub(crate) fn of(spec: &Spec) -> Option<&str> {
    let named = spec.jobspec.attributes.system.queue.as_deref();
    (!is_nobodys(spec)).then(|| named.unwrap_or(UNNAMED))
}

fn times(qos: &[Qos]) -> BTreeMap<Name, Span> {
    let time = |qos: &Qos| Some((qos.name.clone(), qos.default_time?));
    qos.iter().filter_map(time).collect()
}

impl Queues {
    /// Those of the configuration, all open.
    pub fn new(settings: &Settings) -> Queues {
        Queues {
            queues: settings.queues.clone(),
            gates: Gates::default(),
            names: match settings.place.name {
                Some(_) => Names::Any,
                None => Names::Configured,
            },
            default_time: settings.default_time,
            qos_times: times(&settings.qos),
        }
    }

    /// Folds a record.
    pub fn apply(&mut self, record: &Record) {
        match &record.event.kind {
            Kind::Queue(turned) => self.gates.apply(record.event.t, turned),
            Kind::Memo(memo) => {
                if let Some(Change { live, .. }) = Change::told(memo) {
                    self.qos_times = times(&live.qos);
                    (self.queues, self.default_time) = (live.queues, live.default_time);
                }
            }
            _ => {}
        }
    }

    /// The queue of a job that names none, where there is one for those.
    pub fn for_unnamed(&self, spec: &Spec) -> Option<&str> {
        let is_unnamed = spec.jobspec.attributes.system.queue.is_none() && !is_nobodys(spec);
        let default = self.queues.iter().find(|queue| queue.default);
        default
            .filter(|_| is_unnamed)
            .map(|queue| queue.name.as_str())
    }

    /// All that are configured.
    pub fn all(&self) -> &[Queue] {
        &self.queues
    }

    /// The names of all, in the order of the configuration.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.queues.iter().map(|queue| queue.name.as_str())
    }

    /// What holds for the jobs of a queue.
    pub fn rules(&self, spec: &Spec) -> Option<&Rules> {
        self.named(of(spec)?).map(|queue| &queue.rules)
    }

    fn named(&self, name: &str) -> Option<&Queue> {
        self.queues.iter().find(|queue| queue.name == name)
    }

    /// The declared instance that a queue leads to.
    pub fn leads_to(&self, queue: Option<&str>) -> Option<&str> {
        self.named(queue?)?.instance.as_deref()
    }

    /// Whether there is such a queue and it takes jobs.
    ///
    /// # Errors
    /// By the field.
    pub fn takes(&self, spec: &Spec) -> Result<(), Refusal> {
        let Some(name) = of(spec) else {
            return Ok(());
        };
        if name != UNNAMED && self.names == Names::Configured && self.named(name).is_none() {
            let known = names(self.queues.iter().map(|queue| &queue.name));
            let there = match self.queues.is_empty() {
                true => "this instance has no named queues".to_owned(),
                false => format!("there are {known}"),
            };
            return Err(invalid(QUEUE, &quoted(name), &there));
        }
        let Some(shut) = self.gates.disabled(name) else {
            return Ok(());
        };
        let given = match name {
            UNNAMED => "none".to_owned(),
            name => quoted(name),
        };
        Err(shut_to(&given, shut))
    }

    /// The time limit of a job that has none: its QoS's, its queue's, the instance's, no longer
    /// than its queue allows and than what is left of the instance. And that of one that takes what is left.
    /// Who asked for none is given none: it may be more than it is let have.
    pub fn time(&self, party: &Party, spec: &Spec, left: Option<Span>) -> Option<Span> {
        if spec.request.duration.is_some() || is_nobodys(spec) || served::is_unlimited(spec) {
            return served::cut(spec, left);
        }
        let qos = party.qos.as_ref().and_then(|qos| self.qos_times.get(qos));
        let rules = self.rules(spec);
        let most = rules.and_then(|rules| rules.max_time);
        let time = qos
            .copied()
            .or_else(|| rules.and_then(|rules| rules.default_time))
            .or(self.default_time)
            .or(most)?;
        let cut = time.min(most.unwrap_or(time));
        // With nothing left it is refused as any that is too long.
        let left = left.filter(|left| left.0 > 0);
        Some(cut.min(left.unwrap_or(cut)))
    }

    /// Whether a queue lets this job of this user and party in, which may be given so many cores.
    ///
    /// # Errors
    /// By the field.
    pub fn lets(
        &self,
        (user, party): (u32, &Party),
        book: &Book,
        spec: &Spec,
        cores: impl Fn() -> u64,
    ) -> Result<(), Refusal> {
        let (Some(name), Some(rules)) = (of(spec), self.rules(spec)) else {
            return Ok(());
        };
        open_to(name, rules, user, party, book)?;
        with_qos(name, rules, party)?;
        sized(name, rules, spec, cores)
    }
}

/// Whether a queue of the parent lets a job in, as far as this instance can know: whom a job is charged
/// to it does not.
///
/// # Errors
/// By the field.
pub(super) fn lets_above(
    queue: &QueueAbove,
    user: u32,
    spec: &Spec,
    cores: impl Fn() -> u64,
) -> Result<(), Refusal> {
    let (name, rules) = (queue.name.as_str(), &queue.rules);
    if let Some(shut) = &queue.gate.disabled {
        return Err(shut_to(&quoted(name), shut));
    }
    if rules.accounts.is_none() {
        open_to(name, rules, user, &Party::default(), &Book::default())?;
    }
    sized(name, rules, spec, cores)
}

/// The time limit of a job of such a queue that has none, or takes what is left.
pub(super) fn time_above(queue: &QueueAbove, spec: &Spec, left: Option<Span>) -> Option<Span> {
    if spec.request.duration.is_some() || served::is_unlimited(spec) {
        return served::cut(spec, left);
    }
    let (most, time) = (queue.rules.max_time, queue.rules.default_time);
    let time = time.or(queue.default_time).or(most)?;
    let cut = time.min(most.unwrap_or(time));
    Some(cut.min(left.filter(|left| left.0 > 0).unwrap_or(cut)))
}

fn shut_to(given: &str, shut: &Shut) -> Refusal {
    let why = match shut.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", shut.reason),
    };
    let text = format!("{QUEUE}: {given} given, it takes no submissions now{why}");
    Refusal::new(Code::Denied, text)
}

fn open_to(
    name: &str,
    rules: &Rules,
    user: u32,
    party: &Party,
    book: &Book,
) -> Result<(), Refusal> {
    let by_user = rules.users.as_ref().map(|users| users.contains(&user));
    let by_account = rules.accounts.as_ref().map(|accounts| {
        let account = party.account.as_ref();
        account.is_some_and(|own| {
            accounts.contains(own) || book.line(own).any(|(above, _)| accounts.contains(above))
        })
    });
    if by_user.or(by_account).is_none() || by_user == Some(true) || by_account == Some(true) {
        return Ok(());
    }
    let users = rules.users.iter().flatten();
    let accounts = rules.accounts.iter().flatten();
    let allowed = users.map(|user| format!("user {user}"));
    let allowed = allowed.chain(accounts.map(|account| format!("account {account}")));
    let who = match &party.account {
        Some(account) => format!("user {user} of account `{account}`"),
        None => format!("user {user}"),
    };
    let allowed = names(allowed);
    let text = format!(
        "{QUEUE}: {} given, it is not open to {who}; allowed are {allowed}",
        quoted(name)
    );
    Err(Refusal::new(Code::Denied, text))
}

fn with_qos(name: &str, rules: &Rules, party: &Party) -> Result<(), Refusal> {
    let Some(allowed) = &rules.qos else {
        return Ok(());
    };
    let given = match &party.qos {
        Some(qos) if allowed.contains(qos) => return Ok(()),
        Some(qos) => quoted(qos.as_str()),
        None => "none".to_owned(),
    };
    let there = format!("queue `{name}` allows {}", names(allowed));
    Err(invalid(QOS, &given, &there))
}

fn sized(name: &str, rules: &Rules, spec: &Spec, cores: impl Fn() -> u64) -> Result<(), Refusal> {
    let request = &spec.request;
    let wrong = |field, given: String, allowed: String| {
        Err(invalid(
            field,
            &given,
            &format!("queue `{name}` allows {allowed}"),
        ))
    };
    // Of a choice both ends count: it may be given any.
    let least = request.nodes.unwrap_or(1);
    let choice = request.choice.as_ref().map(|choice| &choice.nodes);
    // Slots that go anywhere may each be on another.
    let most = counted::anywhere(spec).unwrap_or(least);
    let most = choice.map_or(most, |nodes| nodes.most().unwrap_or(u32::MAX));
    let given = choice.map_or_else(|| most.to_string(), Count::to_string);
    let nodes = || match (choice, request.nodes) {
        (None, None) if most > 1 => format!("slots on up to {given} nodes"),
        _ if given == "1" => "1 node".to_owned(),
        _ => format!("{given} nodes"),
    };
    if let Some(allowed) = rules.max_nodes.filter(|allowed| most > *allowed) {
        return wrong(RESOURCES, nodes(), format!("at most {allowed}"));
    }
    if let Some(allowed) = rules.min_nodes.filter(|allowed| least < *allowed) {
        return wrong(RESOURCES, nodes(), format!("at least {allowed}"));
    }
    if let Some(most) = rules.max_cores.filter(|most| cores() > u64::from(*most)) {
        let asked = u64::from(request.slots) * u64::from(request.cores_per_slot);
        let each = u64::from(request.slots_per_node) * u64::from(request.cores_per_slot);
        let given = match (choice, cores()) {
            (Some(nodes), _) => format!("{nodes} nodes of {each} cores"),
            (None, cores) if cores > asked => format!("up to {cores} cores, of what is whole,"),
            (None, cores) => format!("{cores} cores"),
        };
        return wrong(RESOURCES, given, format!("at most {most} cores"));
    }
    let Some(most) = rules.max_time else {
        return Ok(());
    };
    match request.duration {
        Some(limit) if limit <= most.0 => Ok(()),
        Some(limit) => wrong(DURATION, seconds(limit), seconds(most.0)),
        None => wrong(DURATION, "none".to_owned(), seconds(most.0)),
    }
}

fn seconds(micros: i64) -> String {
    format!("{} s", seconds_of_micros(micros))
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.escape_debug())
}

fn names(all: impl IntoIterator<Item = impl Display>) -> String {
    let all: BTreeSet<String> = all.into_iter().map(|one| one.to_string()).collect();
    let more = all.len().saturating_sub(NAMES_SHOWN);
    let mut shown: Vec<String> = all.into_iter().take(NAMES_SHOWN).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    match shown.is_empty() {
        true => "nobody".to_owned(),
        false => shown.join(", "),
    }
}

fn invalid(field: &str, given: &str, there: &str) -> Refusal {
    Refusal::invalid(format!("{field}: {given} given, {there}"))
}

#[cfg(test)]
mod tests;
