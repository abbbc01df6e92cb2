//! The requests that the leader's loop answers itself, since only it knows:
//! commits, the configuration in force, the tree.
//!
//! Called by the loop for each request. What may not be asked, or cannot be
//! read, is given to the broker, which refuses it as any other.

use std::collections::VecDeque;

use eddy_broker::{Caller, Reply};
use eddy_wire::id::Seq;
use eddy_wire::message::{Message, Type};
use eddy_wire::services::Service;
use eddy_wire::services::instance::{self, Commit, CommitsRequest};
use eddy_wire::services::overlay;
use eddy_wire::time::Time;

use super::tree::Tree;
use crate::config::Config;

/// The answer, if the request is one of these.
pub fn answer(
    message: &Message,
    to: Caller,
    commits: &Commits,
    config: &Config,
    tree: &Tree,
) -> Option<Reply> {
    let asks = |topic: &str, roles| message.topic == topic && message.roles.any_of(roles);
    if message.kind != Type::Request {
        None
    } else if asks(instance::Commits::TOPIC, instance::Commits::ROLES) {
        let request: CommitsRequest = message.parse().ok()?;
        Some(Reply::new(to, Type::Reply, &commits.of(request)))
    } else if asks(instance::Config::TOPIC, instance::Config::ROLES) {
        Some(Reply::new(to, Type::Reply, &config.to_json()))
    } else if asks(overlay::Status::TOPIC, overlay::Status::ROLES) {
        Some(Reply::new(to, Type::Reply, &tree.status()))
    } else if asks(overlay::Links::TOPIC, overlay::Links::ROLES) {
        Some(Reply::new(to, Type::Reply, &tree.links()))
    } else {
        None
    }
}

/// How many commits are kept.
const KEPT: usize = 10_000;

/// The last commits, in order.
#[derive(Debug, Default)]
pub struct Commits {
    kept: VecDeque<Commit>,
    /// The last record that is durable.
    last: Seq,
}

impl Commits {
    /// Records up to this one became durable under leaders before.
    pub fn behind(&mut self, last: Seq) {
        self.last = last;
    }

    /// Records up to `seq` became durable at `t`.
    pub fn add(&mut self, seq: Seq, t: Time) {
        if self.kept.len() >= KEPT {
            self.kept.pop_front();
        }
        let first = Seq(self.last.0 + 1);
        self.kept.push_back(Commit { first, seq, t });
        self.last = seq;
    }

    /// For each place the commit that made it durable, if still known.
    pub fn of(&self, request: CommitsRequest) -> Vec<Commit> {
        let mut found: Vec<Commit> = Vec::new();
        for seq in request.seqs {
            let at = self.kept.partition_point(|commit| commit.seq < seq);
            // Places before the first commit kept are forgotten, or another leader's.
            let commit = self.kept.get(at);
            found.extend(commit.filter(|commit| commit.first <= seq));
        }
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_leader_before_committed_is_in_none_of_this_ones_commits() {
        let mut commits = Commits::default();
        commits.behind(Seq(5));
        commits.add(Seq(7), Time(70));
        commits.add(Seq(9), Time(90));
        let of = |seqs: &[u64]| {
            let seqs = seqs.iter().copied().map(Seq).collect();
            let found = commits.of(CommitsRequest { seqs }).into_iter();
            found
                .map(|commit| (commit.first.0, commit.seq.0))
                .collect::<Vec<_>>()
        };
        assert!(of(&[1, 5]).is_empty());
        assert_eq!(of(&[5, 6, 7, 8, 10]), [(6, 7), (8, 9)]);
    }
}
