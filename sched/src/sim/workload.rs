//! The jobs of a trace and the machine they ran on.
//!
//! Made by `swf`, `json` and `history`, replayed by `replay`, `rounds` and `planned`. Times are whole
//! microseconds from whatever instant the trace counts from.

use std::collections::BTreeMap;

use eddy_wire::jobspec::{JobspecError, Request};
use eddy_wire::time::{Span, Time};
use thiserror::Error;

/// What a trace says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Processors of the machine, where the trace says so.
    pub procs: Option<u64>,
    /// In the order of the file.
    pub jobs: Vec<SimJob>,
    /// Jobs that are left out because the trace does not say what they need or how long they ran.
    pub dropped: u64,
    /// Who jobs belong to, each once.
    pub owners: Vec<Owner>,
    /// What else jobs say of themselves, each once; empty where none says anything.
    pub terms: Vec<Terms>,
    /// What jobs ask of nodes beside their size, by place; empty where none asks anything.
    pub requests: Vec<Option<Request>>,
    /// Shares of accounts, by `GROUP`, `GROUP/USER`, or `USER` of one without a group; absent is 1.
    pub shares: Shares,
}

/// Shares by the name of the account.
pub type Shares = BTreeMap<String, u64>;

/// A user, in a group where the trace has groups; `unknown` where it does not say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The account that the user is of.
    pub group: String,
    /// The user.
    pub user: String,
}

impl Owner {
    /// The name by which shares are given: `GROUP/USER`, or `USER` where it has no group.
    pub fn name(&self) -> String {
        match self.group.as_str() {
            UNKNOWN => self.user.clone(),
            group => format!("{group}/{}", self.user),
        }
    }
}

/// What is written for an owner that the trace does not name.
pub(super) const UNKNOWN: &str = "unknown";

/// What a job says of itself beside its size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Terms {
    /// Its queue; empty is the only one.
    pub queue: String,
    /// Its QoS; `None` is the default of the policy.
    pub qos: Option<String>,
    /// Its class; `None`, and one that the policy does not have, is the default of the policy.
    pub class: Option<String>,
    /// 1 to 31; 16 is ordinary, 31 goes before all (RFC 14).
    pub urgency: u8,
}

/// Those of a job that says nothing.
impl Default for Terms {
    fn default() -> Terms {
        Terms {
            queue: String::new(),
            qos: None,
            class: None,
            urgency: 16,
        }
    }
}

/// One job of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimJob {
    /// Its number in the trace.
    pub id: u64,
    /// When it was submitted.
    pub submit: Time,
    /// Processors it needs, at least 1.
    pub procs: u64,
    /// Nodes that it is to be spread over, where it says so.
    pub nodes: Option<u64>,
    /// How long it would run.
    pub run: Span,
    /// How long it asked for; `None` if it did not say.
    pub limit: Option<Span>,
    /// Whose it is: a place in [`Workload::owners`].
    pub owner: u32,
    /// What else it says: a place in [`Workload::terms`].
    pub terms: u32,
}

impl SimJob {
    /// How long it runs: no longer than it asked for.
    pub fn runs(&self) -> Span {
        self.limit.map_or(self.run, |limit| self.run.min(limit))
    }
}

/// Gives values their places in the order in which they first come.
#[derive(Clone, Debug)]
pub struct Places<T>(BTreeMap<T, u32>);

impl<T> Default for Places<T> {
    fn default() -> Places<T> {
        Places(BTreeMap::new())
    }
}

impl<T: Ord> Places<T> {
    /// The place of a value.
    pub fn place(&mut self, value: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(value).or_insert(next)
    }

    /// All of them by place.
    pub fn list(self) -> Vec<T> {
        let mut list: Vec<(T, u32)> = self.0.into_iter().collect();
        list.sort_by_key(|(_, place)| *place);
        list.into_iter().map(|(value, _)| value).collect()
    }
}

impl Places<Owner> {
    /// The place of an owner, by the names that the trace gives.
    pub(super) fn owner(&mut self, group: &str, user: &str) -> u32 {
        let (group, user) = (group.to_owned(), user.to_owned());
        self.place(Owner { group, user })
    }
}

/// Why a text is no workload.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// Not JSON, or of another shape.
    #[error("workload: line {line}: {what}")]
    Shape {
        /// Line in the text, from 1.
        line: usize,
        /// What the reader says.
        what: String,
    },
    /// A number or a name that cannot be.
    #[error("workload: job {id}: {field}: {given}; allowed is {allowed}")]
    Number {
        /// Which job.
        id: u64,
        /// Which field.
        field: &'static str,
        /// What was given.
        given: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A jobspec that is none, or that an instance would refuse.
    #[error("workload: job {id}: jobspec")]
    Jobspec {
        /// Which job.
        id: u64,
        /// What of it is wrong.
        #[source]
        why: JobspecError,
    },
    /// A machine of nothing.
    #[error("workload: procs: 0; allowed is 1 or more")]
    Procs,
    /// The same id twice.
    #[error("workload: job {0} is given twice")]
    Twice(u64),
    /// Shares of nobody, or such as cannot be.
    #[error(transparent)]
    Shares(#[from] SharesError),
}

/// Why shares cannot be given.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SharesError {
    /// No job belongs to it.
    #[error(
        "shares: `{0}` is no account of the trace; allowed are GROUP, GROUP/USER, and USER of one without a group"
    )]
    Unknown(String),
    /// Too few or too many.
    #[error("shares: {account}: {given}; allowed is 1 to {SHARES_MAX}")]
    Number {
        /// Whose.
        account: String,
        /// What was given.
        given: u64,
    },
}

/// The most shares of an account.
pub const SHARES_MAX: u64 = 1_000_000_000;

impl Workload {
    /// Gives accounts shares, in place of those they had.
    ///
    /// # Errors
    /// [`SharesError`] names the account.
    pub fn share(&mut self, shares: Shares) -> Result<(), SharesError> {
        for (account, &given) in &shares {
            let is = |owner: &Owner| {
                owner.name() == *account || owner.group != UNKNOWN && owner.group == *account
            };
            if !self.owners.iter().any(is) {
                return Err(SharesError::Unknown(account.clone()));
            }
            if !(1..=SHARES_MAX).contains(&given) {
                let account = account.clone();
                return Err(SharesError::Number { account, given });
            }
        }
        self.shares = shares;
        Ok(())
    }

    /// Shares of a group or of an owner by its name.
    pub(super) fn shares_of(&self, name: &str) -> u64 {
        self.shares.get(name).copied().unwrap_or(1)
    }

    /// What a job says of itself.
    pub fn terms(&self, job: &SimJob) -> Terms {
        let terms = self.terms.get(job.terms as usize);
        terms.cloned().unwrap_or_default()
    }
}

/// The latest time and the longest span of a trace: sums of some of them can still be counted.
pub(super) const LONGEST: i64 = 1_000_000_000_000_000_000;

/// A time of a trace, from seconds.
pub(super) fn instant(seconds: f64) -> Option<Time> {
    Time::from_seconds(seconds).filter(|time| (0..=LONGEST).contains(&time.0))
}

/// An id that two jobs have.
pub(super) fn twice(jobs: &[SimJob]) -> Option<u64> {
    let mut ids: Vec<u64> = jobs.iter().map(|job| job.id).collect();
    ids.sort_unstable();
    let pair = ids.windows(2).find(|pair| pair[0] == pair[1])?;
    Some(pair[0])
}
