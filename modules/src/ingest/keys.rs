//! Which submissions are known by their senders' keys.
//!
//! The journal knows every key as long as the job's row is kept; asking it for
//! each submission would cost a look-up for nothing, since nearly all keys are
//! new. A key is a UUIDv7 and so tells when it was made: a key made after
//! everything this window ever let go of is new if the window does not hold
//! it. For any other the journal is asked.

use std::collections::{BTreeMap, VecDeque};

use eddy_broker::effect::KeyFound;
use eddy_wire::error::{Code, Refusal};
use eddy_wire::event::Submit;
use eddy_wire::hash::Hash;
use eddy_wire::id::{Epoch, JobId};
use eddy_wire::time::{Span, Time};
use uuid::Uuid;

/// How many keys the window holds.
const WINDOW_KEYS_MAX: usize = 65_536;

/// A submission as its key finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Its first job.
    pub first: JobId,
    /// How many.
    pub count: u32,
    /// Hash of its jobspec.
    pub jobspec: Hash,
    /// Hash of its environment.
    pub environment: Hash,
}

impl From<&KeyFound> for Known {
    fn from(found: &KeyFound) -> Known {
        Known {
            first: found.first,
            count: found.count,
            jobspec: found.jobspec,
            environment: found.environment,
        }
    }
}

/// What is known of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is new.
    Never,
    /// It is this submission's.
    As(Known),
    /// Only the journal can tell.
    AskJournal,
}

/// The window of recent keys.
#[derive(Debug)]
pub struct Keys {
    recent: BTreeMap<(u32, Uuid), Known>,
    order: VecDeque<(u32, Uuid)>,
    /// No key made later than this was ever let go of.
    horizon: Time,
    skew: Span,
    age_max: Span,
}

impl Keys {
    /// An empty window. Keys may be at most `skew` ahead of broker time and at
    /// most `age_max` behind it.
    pub fn new(skew: Span, age_max: Span) -> Keys {
        Keys {
            recent: BTreeMap::new(),
            order: VecDeque::new(),
            horizon: Time(i64::MIN),
            skew,
            age_max,
        }
    }

    /// A leader began at `t`. Keys of finished jobs are not replayed, so all
    /// that an earlier leader may have seen, clocks ahead included, is beyond
    /// this window.
    pub fn leader(&mut self, epoch: Epoch, t: Time) {
        if epoch > Epoch(1) {
            self.horizon = self.horizon.max(t.after(self.skew));
        }
    }

    /// Adds a submission.
    pub fn insert(&mut self, submit: &Submit, first: JobId) {
        let known = Known {
            first,
            count: submit.count,
            jobspec: submit.spec.hash,
            environment: submit.spec.environment_hash,
        };
        self.recent.insert((submit.user, submit.key), known);
        self.order.push_back((submit.user, submit.key));
        if self.order.len() > WINDOW_KEYS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.recent.remove(&oldest);
            self.horizon = self.horizon.max(made(&oldest.1).unwrap_or(self.horizon));
        }
    }

    /// The submission of this key, if the window holds it.
    pub fn recent(&self, user: u32, key: &Uuid) -> Option<Known> {
        self.recent.get(&(user, *key)).copied()
    }

    /// What is known of this key; refused when it is too old to be known, or
    /// from a clock too far ahead to be trusted.
    pub fn seen(&self, now: Time, user: u32, key: &Uuid) -> Result<Seen, Refusal> {
        if let Some(known) = self.recent(user, key) {
            return Ok(Seen::As(known));
        }
        let Some(t) = made(key) else {
            let text = format!("key: {key} given, a UUID of version 7 is needed");
            return Err(Refusal::new(Code::Invalid, text));
        };
        if t > now.after(self.skew) {
            let text = format!("key: {key} is more than {} s in the future", self.skew);
            return Err(Refusal::new(Code::Invalid, text));
        }
        if t.after(self.age_max) < now {
            let text = format!(
                "key: {key} is older than {} s: too old to be known",
                self.age_max
            );
            return Err(Refusal::new(Code::Invalid, text));
        }
        Ok(if t > self.horizon {
            Seen::Never
        } else {
            Seen::AskJournal
        })
    }
}

/// When a UUIDv7 was made; `None` for other versions (RFC 9562).
fn made(key: &Uuid) -> Option<Time> {
    let (seconds, nanos) = key
        .get_timestamp()
        .filter(|_| key.get_version_num() == 7)?
        .to_unix();
    let micros = i64::try_from(seconds).ok()?.checked_mul(1_000_000)?;
    Some(Time(micros.checked_add(i64::from(nanos / 1000))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Timestamp;

    const NOW: Time = Time(1_800_000_000_000_000);

    fn key(seconds_from_now: i64) -> Uuid {
        let seconds = NOW.0 / 1_000_000 + seconds_from_now;
        let context = uuid::NoContext;
        Uuid::new_v7(Timestamp::from_unix(context, seconds as u64, 0))
    }

    fn keys() -> Keys {
        Keys::new(Span::seconds(600), Span::seconds(86_400))
    }

    #[test]
    fn a_fresh_key_of_a_first_leader_is_new_without_a_look_up() {
        assert_eq!(keys().seen(NOW, 0, &key(-1)), Ok(Seen::Never));
    }

    #[test]
    fn after_a_restart_the_journal_is_asked_even_for_keys_a_little_ahead() {
        let mut keys = keys();
        keys.leader(Epoch(2), NOW);
        assert_eq!(keys.seen(NOW, 0, &key(-1)), Ok(Seen::AskJournal));
        assert_eq!(
            keys.seen(NOW.after(Span::seconds(60)), 0, &key(30)),
            Ok(Seen::AskJournal)
        );
        let later = NOW.after(Span::seconds(700));
        assert_eq!(keys.seen(later, 0, &key(601)), Ok(Seen::Never));
    }

    #[test]
    fn keys_from_far_ahead_far_behind_or_without_time_are_refused() {
        let keys = keys();
        assert!(keys.seen(NOW, 0, &key(601)).is_err());
        assert!(keys.seen(NOW, 0, &key(-86_402)).is_err());
        assert!(keys.seen(NOW, 0, &Uuid::nil()).is_err());
    }
}
