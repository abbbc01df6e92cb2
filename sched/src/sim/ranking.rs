//! Whose turn is first: the formulas of a policy over the jobs of a trace.
//!
//! Values that no time and no usage moves are made once; others when they are
//! asked for anew. What a trace does not say is what a job has that asks for
//! nothing: the default QoS and class, urgency 16, no queue.

use eddy_wire::time::{MICROS, Span, Time};

use super::books::{Books, Charged};
use super::machine::Machine;
use super::replay::Turn;
use super::rules::NotSimulated;
use super::workload::{SimJob, Terms, Workload};
use crate::policy::{FACTORS, Policy, Source};
use crate::priority::{Formula, descending, factors, held_back};

/// Formulas that a turn has room for.
pub(super) const ORDER_MAX: usize = 4;

/// The urgency that goes before all values (RFC 14).
const EXPEDITE: u8 = 31;

/// What moves while a job waits.
const MOVING: &[&str] = &["wait", "fair_share", "eligible"];

/// How the jobs of a workload are ordered.
pub(super) struct Ranking {
    policy: Policy,
    formulas: Vec<Formula>,
    /// The factors that they name.
    uses: Vec<usize>,
    moves: Moves,
    machine: Machine,
    /// Of each place of terms.
    terms: Vec<Terms>,
    /// Where something asks for usage.
    books: Option<Books>,
    /// The factor of fair share of each owner, as of the last time.
    shares: Vec<f64>,
}

/// Whether values move while a job waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moves {
    Never,
    /// They are made anew from this time on.
    From(Time),
}

/// Whether a job may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ranked {
    /// At this turn.
    Turn(Turn),
    /// Its value is at or below the threshold.
    Held,
}

impl Ranking {
    pub(super) fn new(
        policy: &Policy,
        workload: &Workload,
        machine: &Machine,
    ) -> Result<Ranking, NotSimulated> {
        let order = &policy.priority.order;
        let allowed = ORDER_MAX - leading(policy);
        if order.len() > allowed {
            let given = order.len();
            return Err(NotSimulated::Formulas { given, allowed });
        }
        let names = policy.priority.names();
        let formulas = order.iter().map(|text| Formula::parse(text, &names));
        let formulas: Vec<Formula> = formulas.collect::<Result<_, _>>()?;
        let mut uses: Vec<usize> = formulas.iter().flat_map(Formula::uses).collect();
        uses.sort_unstable();
        uses.dedup();
        let named = |name: &&str| uses.iter().any(|&at| FACTORS[at] == *name);
        let moves = match MOVING.iter().any(named) {
            true => Moves::From(Time(i64::MIN)),
            false => Moves::Never,
        };
        let books = match named(&"fair_share") {
            true => Some(Books::new(policy, workload, machine)?),
            false => None,
        };
        let shares = match &books {
            Some(books) => books.factors(Time(0))?,
            None => Vec::new(),
        };
        Ok(Ranking {
            policy: policy.clone(),
            formulas,
            uses,
            moves,
            machine: machine.clone(),
            terms: workload.terms.clone(),
            books,
            shares,
        })
    }

    /// The turn of a job that waits; `place` is its place in the workload, `span` for how long it
    /// is planned.
    pub(super) fn rank(&self, job: &SimJob, span: Span, place: usize, now: Time) -> Ranked {
        let mut values = [0.0; FACTORS.len()];
        for &at in &self.uses {
            values[at] = self.factor(FACTORS[at], job, span, now);
        }
        let mut first = [0; ORDER_MAX];
        let leads = leading(&self.policy);
        if leads > 0 {
            first[0] = descending(self.queue(job));
        }
        for (at, formula) in self.formulas.iter().enumerate() {
            let value = formula.value(&values).unwrap_or(0.0);
            if at == 0 && held_back(value, self.policy.priority.threshold) {
                return Ranked::Held;
            }
            first[leads + at] = descending(value);
        }
        if self.said(job).is_some_and(|said| said.urgency == EXPEDITE) {
            first = [descending(f64::INFINITY); ORDER_MAX];
        }
        Ranked::Turn(Turn {
            first,
            submit: job.submit,
            id: job.id,
            place,
        })
    }

    fn factor(&self, name: &str, job: &SimJob, span: Span, now: Time) -> f64 {
        let rules = &self.policy.priority.factors;
        let nodes = || self.nodes(job) as f64;
        let said = self.said(job);
        match name {
            "wait" => factors::wait(now - job.submit, rules.max_wait),
            "fair_share" => self.shares.get(job.owner as usize).copied().unwrap_or(0.0),
            "qos" => factors::qos(rules, said.and_then(|said| said.qos.as_deref())),
            "queue" => self.queue(job),
            "size" => {
                let cores = (job.procs as f64, self.machine.procs() as f64);
                factors::size(&[(nodes(), self.all_nodes()), cores], rules.size)
            }
            "user" => factors::user(None),
            "urgency" => f64::from(said.map_or(Terms::default().urgency, |said| said.urgency)),
            "class" => {
                let placement = &self.policy.placement;
                let class = said.and_then(|said| said.class.as_ref());
                let class = class.and_then(|class| placement.classes.get(class));
                let class = class.or_else(|| placement.classes.get(&placement.default_class));
                class.map_or(0.0, |class| class.priority as f64)
            }
            "nodes" => nodes(),
            "cores" => job.procs as f64,
            "walltime" => seconds(span),
            "eligible" => seconds(now - job.submit).max(0.0),
            "submit" => seconds(job.submit - Time(0)),
            // association, site, tres, bank, nice, gpus, memory: a trace has none of them.
            _ => 0.0,
        }
    }

    fn said(&self, job: &SimJob) -> Option<&Terms> {
        self.terms.get(job.terms as usize)
    }

    /// The priority of its queue.
    fn queue(&self, job: &SimJob) -> f64 {
        let queues = &self.policy.priority.factors.queues;
        let queue = self.said(job).and_then(|said| queues.get(&said.queue));
        queue.copied().unwrap_or(0.0)
    }

    /// Where in a turn the value of the first formula is.
    pub(super) fn leading(&self) -> usize {
        leading(&self.policy)
    }

    fn nodes(&self, job: &SimJob) -> u64 {
        self.machine.shape(job).map_or(0, |shape| shape.nodes)
    }

    fn all_nodes(&self) -> f64 {
        match self.machine.nodes().len() {
            0 => self.machine.procs() as f64,
            nodes => nodes as f64,
        }
    }

    /// Whether the values of those who wait are to be made anew, and if so, of what was used until
    /// now. They are at the first event after each `priority.refresh`.
    pub(super) fn refresh(&mut self, now: Time) -> bool {
        match self.moves {
            Moves::Never => false,
            Moves::From(at) if now < at => false,
            Moves::From(_) => {
                if let Some(books) = &self.books {
                    let shares = books.factors(now);
                    self.shares = shares.expect("the same rules made a book before");
                }
                self.moves = Moves::From(now.after(self.policy.priority.refresh));
                true
            }
        }
    }

    pub(super) fn came(&mut self, job: &SimJob) {
        if let Some(books) = &mut self.books {
            books.came(job.owner);
        }
    }

    pub(super) fn started(&mut self, job: &SimJob, now: Time) {
        if self.books.is_none() {
            return;
        }
        let charged = self.charged(job);
        if let Some(books) = &mut self.books {
            books.started(charged, now);
        }
    }

    pub(super) fn ended(&mut self, job: &SimJob, now: Time) {
        if self.books.is_none() {
            return;
        }
        let charged = self.charged(job);
        if let Some(books) = &mut self.books {
            books.ended(charged, now, job.runs());
        }
    }

    fn charged(&self, job: &SimJob) -> Charged {
        Charged {
            owner: job.owner,
            procs: job.procs,
            nodes: self.nodes(job),
            limit: job.limit,
            terms: job.terms,
        }
    }
}

/// What of a turn comes before the formulas: the queue's priority, where queues take turns.
fn leading(policy: &Policy) -> usize {
    match policy.queue.source {
        Source::ByQueue => 1,
        Source::Global | Source::PerAccountCost | Source::PerAccountSlices { .. } => 0,
    }
}

fn seconds(span: Span) -> f64 {
    span.0 as f64 / MICROS as f64
}
