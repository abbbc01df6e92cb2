//! Requests that were taken before there was a leader, in order and bounded.
//!
//! Kept by the follower until its first tenure. It answers nothing.

use std::collections::VecDeque;

use eddy_wire::error::{Code, Refusal};
use eddy_wire::id::Rank;
use eddy_wire::message::{Message, Target};
use eddy_wire::tree::Call;

use crate::effect::ClientId;

/// Requests that wait for a leader at most.
pub(super) const HELD_MAX: usize = 1024;
/// And bytes of them.
const HELD_BYTES_MAX: usize = 64 << 20;

/// What waits for a leader.
#[derive(Debug, Default)]
pub(super) struct Held {
    requests: VecDeque<(ClientId, Message)>,
    bytes: usize,
}

impl Held {
    /// Keeps a request that came to this rank.
    pub fn hold(&mut self, rank: Rank, client: ClientId, message: Message) -> Result<(), Refusal> {
        let bytes = self.bytes + message.wire_len();
        if self.requests.len() >= HELD_MAX || bytes > HELD_BYTES_MAX {
            let text = format!(
                "rank {rank} has no leader and the limit of {HELD_MAX} requests or \
                 {HELD_BYTES_MAX} bytes that wait for one is reached"
            );
            return Err(Refusal::new(Code::Busy, text));
        }
        self.bytes = bytes;
        self.requests.push_back((client, message));
        Ok(())
    }

    /// Nobody waits for these any more.
    pub fn drop_where(&mut self, is_it: impl Fn(ClientId, u64) -> bool) {
        self.requests
            .retain(|(client, message)| !is_it(*client, message.matchtag));
        self.count();
    }

    /// Takes out those that are for the rank above.
    pub fn take_upward(&mut self) -> Vec<Call> {
        let is_upward = |(_, held): &(ClientId, Message)| held.target == Target::Upstream;
        let upward = self.requests.iter().filter(|held| is_upward(held));
        let upward = upward.map(|(client, held)| Call {
            client: client.0,
            matchtag: held.matchtag,
        });
        let upward = upward.collect();
        self.requests.retain(|held| !is_upward(held));
        self.count();
        upward
    }

    /// Takes all.
    pub fn take(&mut self) -> VecDeque<(ClientId, Message)> {
        std::mem::take(self).requests
    }

    fn count(&mut self) {
        self.bytes = self.requests.iter().map(|(_, held)| held.wire_len()).sum();
    }
}
