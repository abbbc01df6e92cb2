//! Why a job waits or will never start.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::bar::{alone, clock};
use super::words::{
    also, apart, are, counted, listed, next, not_up, of_pool, properties, said, times,
};
use super::{Bar, sight};
use crate::account::Name;
use crate::id::JobId;
use crate::idset::Idset;
use crate::time::{Span, Time};

/// Why a job does not start: data that prints as one readable line. Jobs are
/// spelled as in listings, in the spelling that every terminal shows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Error)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Reason {
    /// More of one resource on one node than any node has.
    #[error("asks for {} on one node; the largest has {most}", counted(*asked, what))]
    NeverOnOneNode {
        /// `cores`, `gpus` or `bytes of memory`.
        what: String,
        /// Asked for per node.
        asked: u64,
        /// The most any node of the instance has.
        most: u64,
    },
    /// More of one resource than the whole instance has.
    #[error("asks for {}; the instance has {most}", counted(*asked, what))]
    NeverInAll {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// In the instance.
        most: u64,
    },
    /// Only on ranks that are not all there.
    #[error("asks for ranks {ranks}, which the instance does not have")]
    NoSuchRanks {
        /// Those that are not there.
        ranks: Idset,
    },
    /// Not on what instances of a fixed size leave to others, and those have it as long as they are there.
    #[error(
        "asks for {}; there {} {most} beside those of instances of a fixed size (ranks {apart}), so that it never \
         starts as things are",
        counted(*asked, what),
        are(*most)
    )]
    NeverBeside {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// So many others have none of.
        most: u64,
        /// The ranks of those instances.
        apart: Idset,
    },
    /// More of a pool than there is in all, or of one that is not there any more.
    #[error("asks for {asked} of pool `{pool}`; {}, so that it never starts as things are", of_pool(*count))]
    NeverPool {
        /// The pool.
        pool: Name,
        /// Asked for.
        asked: u64,
        /// There are so many in all; nothing is no such pool.
        count: u64,
    },
    /// What an instance is to grow by, which is to lie where that has nothing yet.
    #[error("waits for nodes on which {} has nothing yet: {}", listed(&[*of], 0), apart(*left))]
    GrownThere {
        /// The instance.
        of: JobId,
        /// On so many it has nothing.
        left: u64,
    },
    /// Only on nodes that are like this, and none is.
    #[error("asks for nodes with {constraint}; no node is so{}", properties(known))]
    NoSuchNodes {
        /// What it asks of nodes, as a query.
        constraint: String,
        /// The properties that nodes have, where that is known.
        known: Option<Vec<String>>,
    },
    /// It would fit, but not where its queue lets it.
    #[error("does not fit queue `{queue}`, which requires {requires}: {why}")]
    NotInQueue {
        /// Its queue.
        queue: String,
        /// What that requires of nodes, as a query.
        requires: String,
        /// Why it does not fit there.
        why: String,
    },
    /// Not on what instances lend of their homes for as long as it may take.
    #[error(
        "does not fit beside the home of instance `{instance}` (ranks {ranks}), of which others have nothing for \
         longer than {} s: {why}",
        crate::fsd::seconds_of_micros(most.0)
    )]
    NotLent {
        /// The first of those instances.
        instance: String,
        /// The longest limit of others' jobs there (`lend_max`).
        most: Span,
        /// Where that is.
        ranks: Idset,
        /// Why it does not fit on the rest.
        why: String,
    },
    /// Its queue would not take it, as it is supposed.
    #[error("would be refused by queue `{queue}`: {why}")]
    Refused {
        /// Its queue.
        queue: String,
        /// By which field, with what is allowed.
        why: String,
    },
    /// The instance would not take it, as it is supposed.
    #[error("would be refused: {why}")]
    RefusedHere {
        /// By which field, with what is allowed.
        why: String,
    },
    /// It takes nothing, and its ranks are not all to be asked.
    #[error("waits for ranks {ranks}, which are down")]
    RanksDown {
        /// Those whose shells are not connected.
        ranks: Idset,
    },
    /// It fits the instance, but not what is free now.
    #[error("waits for {}; {free} {} free now", counted(*asked, what), are(*free))]
    NoRoom {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// Free and usable now.
        free: u64,
    },
    /// It would fit if nodes that are out of service came back.
    #[error(
        "waits for {}; only {up} {} in service{}",
        counted(*asked, what),
        are(*up),
        not_up(away, apart)
    )]
    NotInService {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// In service, free or not.
        up: u64,
        /// The ranks out of service.
        away: Idset,
        /// Of the others those that instances of a fixed size hold for their own jobs.
        #[serde(default)]
        apart: Idset,
    },
    /// First come, first served: an earlier job is first.
    #[error("waits behind job {}, which {why}", head.f58_ascii())]
    Behind {
        /// The first job of the queue.
        head: JobId,
        /// Why that one waits.
        why: String,
    },
    /// The same where that is not told: the first is a job that its user may not know of.
    #[error("waits behind a job that is before it")]
    BehindAnother,
    /// It was given back by the queue instance that it was passed to, and is left alone for a while.
    #[error(
        "came back from queue instance {instance} {} and rests before it is passed there again",
        times(*recalls)
    )]
    CameBack {
        /// The queue instance.
        instance: String,
        /// How often it came back.
        recalls: u32,
    },
    /// Others may pass who is first: what it waits for only the planner knows.
    #[error("waits for its turn or for room (`eddy why {}` tells)", job.f58_ascii())]
    Turn {
        /// The job.
        job: JobId,
    },
    /// It would fit now, and end too late for a job that has been promised what it needs.
    #[error("would delay job {}, which starts by {} s from now at the latest", job.f58_ascii(), within.0 / crate::time::MICROS)]
    WouldDelay {
        /// The job that was promised.
        job: JobId,
        /// How long until that is to start.
        within: Span,
    },
    /// The same where that is not told: it is a job that its user may not know of.
    #[error("would delay a job that is before it, which starts by {} s from now at the latest", within.0 / crate::time::MICROS)]
    WouldDelayAnother {
        /// How long until that is to start.
        within: Span,
    },
    /// There are nodes for it, but less of a pool than it takes.
    #[error("waits for {asked} of pool `{pool}`; {free} of {count} are free now")]
    Pool {
        /// The pool.
        pool: Name,
        /// Asked for.
        asked: u64,
        /// Free now.
        free: u64,
        /// There are so many in all.
        count: u64,
    },
    /// Not all of its gang are there, or not all of them are eligible.
    #[error("waits for its gang `{gang}`: {ready} of its {size} members are ready to start")]
    GangIncomplete {
        /// The gang.
        gang: Name,
        /// So many members wait for resources.
        ready: u32,
        /// So many are to.
        size: u32,
    },
    /// Its gang began with fewer than all, and it was not among them.
    #[error("was left out when its gang `{gang}` began with {began} of {size} members")]
    LeftOut {
        /// The gang.
        gang: Name,
        /// With so many it began.
        began: u32,
        /// It has so many.
        size: u32,
    },
    /// A reservation is in its way, or is what it waits for.
    #[error("{}", bar.words(name, within.0 / crate::time::MICROS))]
    Reservation {
        /// Its name.
        name: Name,
        /// How.
        bar: Bar,
        /// How long until that changes.
        within: Span,
    },
    /// Where it would be are nodes that its instance has not for so long.
    #[error("would not have ended when ranks {ranks} go, at {}", clock(*at))]
    Goes {
        /// Which, as the instance counts them.
        ranks: Idset,
        /// When the first of them is to be left.
        at: Time,
    },
    /// The instance itself ends before it would.
    #[error("would not have ended when the instance ends its last jobs, at {}", clock(*at))]
    Outlasts {
        /// When that is.
        at: Time,
    },
    /// The reservation it was to run in is over, or was never there.
    #[error("waits for reservation `{name}`, which is no more")]
    NoReservation {
        /// Its name.
        name: Name,
    },
    /// It cannot run in the reservation that it names.
    #[error("does not fit reservation `{name}`: {why}")]
    NotInReservation {
        /// Its name.
        name: Name,
        /// Why not.
        why: String,
    },
    /// Its value is too low to be run at all.
    #[error("has the value {value}; jobs at or below {threshold} are not run")]
    BelowThreshold {
        /// By the first formula of the policy, as it is shown.
        value: String,
        /// The policy's, likewise.
        threshold: String,
    },
    /// There is room, but no more may be started, or not of its account.
    #[error("waits for {limit}: {why}{}", next(*within))]
    Limit {
        /// The key of the policy.
        limit: String,
        /// What of it is used up.
        why: String,
        /// How long until another may, where time alone tells.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        within: Option<Span>,
    },
    /// What it needs is kept for it from a time on.
    #[error(
        "waits for {}; it has them reserved in {} s at the latest",
        counted(*asked, what),
        within.0 / crate::time::MICROS
    )]
    Reserved {
        /// `nodes`, `slots`, `cores`…
        what: String,
        /// Asked for.
        asked: u64,
        /// How long until it starts.
        within: Span,
    },
    /// Others are making room for it.
    #[error("waits for {}, making room for it within {} s", listed(jobs, *others), within.0 / crate::time::MICROS)]
    Preempting {
        /// Those that are still to end.
        jobs: Vec<JobId>,
        /// So many more whose numbers are not told.
        #[serde(default, skip_serializing_if = "sight::is_none")]
        others: u64,
        /// Until the last of their tasks is killed.
        within: Span,
    },
    /// Those whom it may take from are not to be taken from yet.
    #[error("waits until {} may be taken from, in {} s", listed(jobs, *others), within.0 / crate::time::MICROS)]
    Exempt {
        /// Those who are exempt yet, of those who would give way to it.
        jobs: Vec<JobId>,
        /// So many more whose numbers are not told.
        #[serde(default, skip_serializing_if = "sight::is_none")]
        others: u64,
        /// Until the last of them is exempt no more.
        within: Span,
    },
    /// Its urgency is 0.
    #[error("is held: its urgency is 0 (`eddy release {}` lets it go){}", job.f58_ascii(), also(besides))]
    Held {
        /// The job.
        job: JobId,
        /// What it waits for besides, in words; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        besides: String,
    },
    /// Nothing of its queue starts.
    #[error("waits for queue `{queue}`, which is stopped{}", said(why))]
    QueueStopped {
        /// The queue.
        queue: String,
        /// What the administrator said; may be empty.
        why: String,
    },
    /// The parent was not heard for so long that nothing begins any more.
    #[error("waits for the parent instance, which has been silent for more than {} s", crate::fsd::seconds_of_micros(lease.0))]
    ParentSilent {
        /// How long work began all the same.
        lease: Span,
    },
    /// The jobs of the instance are ended by its time limit; what began now would be ended at once.
    #[error(
        "waits in an instance that is about to reach its time limit, in which nothing begins any more"
    )]
    InstanceEnds,
    /// The parent is not heard: it has not ordered this job, which begins without it after a time.
    #[error("waits for the parent instance, not heard since {}{}", clock(*since), alone(*until))]
    ParentAway {
        /// Since when.
        since: Time,
        /// When it begins without it at the earliest; `None` is never.
        until: Option<Time>,
    },
    /// The parent orders it.
    #[error("waits for its turn in the parent instance")]
    ParentOrders,
    /// It waits for something else to happen first.
    #[error("waits for {what}")]
    Dependency {
        /// What, in words.
        what: String,
    },
    /// The scheduler has not looked at it yet.
    #[error("is about to be considered")]
    New,
}
